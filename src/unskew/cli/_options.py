"""Options of the commands, as annotations of their parameters."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from ._config import use_config


def number_or_auto(value: Any) -> Any:
    if value == "auto":
        return value
    try:
        return int(str(value))
    except ValueError:
        raise BadParameter(f"{value!r} should be an integer or auto.") from None


Text = str | None
Names = list[str] | None  # may be given several times
Integer = int | None
Number = float | None
argument = partial(Argument, show_default=False)
column = partial(Option, rich_help_panel="Columns", metavar="COLUMN")
method = partial(Option, rich_help_panel="Method")
word = partial(method, metavar="WORD")
count = partial(method, metavar="NUMBER")
reading = partial(Option, rich_help_panel="Reading")
output = partial(Option, rich_help_panel="Outputs", metavar="FILE")
check = partial(Option, rich_help_panel="Checks")
running = partial(Option, rich_help_panel="Run")

# fmt: off
Data = Annotated[str, argument(metavar="DATA", help="A table; - is standard input.")]
ModelFile = Annotated[str, argument(
    metavar="MODEL", help="File of fit --model or weigh --model.")]

Clusters = Annotated[str, Option(
    "--clusters", "-k", metavar="NUMBER", parser=number_or_auto,
    help="Number of clusters; auto: selected from 2 to 12.")]
Method = Annotated[Literal["auto", "mixture", "dckm"], word(
    help="mixture: SelectionMixture, groups whose shares differ between the values of the "
    "suspects, and effects of the suspects; dckm: k-means with decorrelation weights. auto: "
    "mixture with --suspect, unless an option of dckm is given or the data are sparse.")]
Runs = Annotated[int, count(min=0,
    help="Number of runs of a consensus (20 is a good value), which gives more stable clusters "
    "and a confidence for each row. 0: one fit with --n-init initializations.")]
Quick = Annotated[bool, Option("--quick",
    help="Analyse a random subsample of 2,000 rows (by --seed) for a first look; the output says "
    "so. With --model, unskew predict has the clusters of all rows.")]

# Columns
Suspect = Annotated[Names, column("--suspect", "-s",
    help="Nuisance (batch) column through which the bias came in: site, scanner, channel. "
    "Repeatable; * as in --drop. Without suspects all pairs of columns are decorrelated.")]
WeightColumn = Annotated[Text, column("--weight-column", "-w",
    help="Design weights: weight 2 equals the row twice, weight 0 an absent row.")]
Drop = Annotated[Names, column(
    help="Exclude this column. Repeatable; * matches any characters: --drop 'id*'.")]
Keep = Annotated[Names, column("--keep", "--columns",
    help="Use these columns (and the suspects) only. Repeatable; * as in --drop.")]
Id = Annotated[Text, column(
    help="Row identifier in the outputs; not analysed. Default: row number from 1.")]

# Method: weights
BalanceStrength = Annotated[Number, method(
    help="Strength of the balance term. Default: 1 with suspects, else 0.2 (weigh: 1).")]
SpreadStrength = Annotated[Number, method(
    help="Penalty on unequal weights. Default: 0.1 with suspects, else 0.3 (weigh: 0.1).")]
MinEffectiveSampleSize = Annotated[Number, method(metavar="SHARE",
    help="Lower bound on the effective sample size, as a share of the rows; a constraint of the "
    "fit.")]
Margin = Annotated[Names, method(metavar="C:VALUE=SHARE",
    help="Known population share of a value of column C: race:White=0.64. Repeatable.")]
Bins = Annotated[int, method(help="Number of quantile bins of a numeric column.")]
Tol = Annotated[Number, method(
    help="Tolerance: stop when an iteration improves the objective by less than this. Default: "
    "1e-4, with --runs 1e-3; of a mixture 1e-6 per row.")]
Threads = Annotated[Integer, method(
    help="Number of threads. Default: one per core. The result does not depend on it.")]

# Method: clusters
ClusterOn = Annotated[Literal["non_suspects", "all"], word(
    help="Columns of the distance: non_suspects, or all (suspects included).")]
Adjust = Annotated[Literal["auto", "weights", "effects", "both"], word(
    help="How dckm corrects the bias: weights; effects (of the suspects on other columns are "
    "removed); both; auto (both with --suspect, weights where the data are sparse).")]
Init = Annotated[Literal["partition", "random", "k-means++", "principal"], word(
    help="Initialization: partition, random, k-means++ or principal.")]
NInit = Annotated[Integer, method(
    help="Number of random initializations. Default: 10, with --runs 1 per run; of a mixture 1.")]
MaxIter = Annotated[Integer, method(
    help="Maximum number of iterations. Default: 100, of a mixture 300.")]
Iterations = Annotated[int, method(help="Maximum number of iterations.")]  # of weigh
OtherLabels = Annotated[Names, method("--labels", metavar="FILE:COLUMN",
    help="Clusters that another tool found: a column of a table with the rows of DATA in the same "
    "order. Repeatable.")]
Also = Annotated[Literal["combat"] | None, word(
    help="Method of another package, if it is installed: combat (combatlearn), with the suspects "
    "as batches.")]

# Method: correction
Groups = Annotated[str, count("--groups", "-k", parser=number_or_auto,
    help="Number of groups of the mixture that estimates the effects; auto: selected by BIC.")]
Protect = Annotated[Names, method(metavar="COLUMN",
    help="Keep the association of this column with the others, although it is associated with "
    "the suspects: diagnosis, age. Repeatable; * as in --drop.")]
Reference = Annotated[Names, method(metavar="COLUMN=VALUE",
    help="Learn the effects from these rows only (controls), and remove them from all rows. "
    "Repeatable: rows that match one value of each column.")]
Effects = Annotated[Literal["shift", "shift-scale", "per-group"], word(
    help="Effects of the suspects: shift (of the means), shift-scale (and spread), per-group.")]
DropSuspects = Annotated[bool, method(
    "--drop-suspects", help="Leave the suspects out of the output.")]
Apply = Annotated[Text, method(metavar="FILE",
    help="Apply a model of correct --model to DATA; nothing is fitted. Values of a suspect that "
    "the model does not know get the average effect.")]

# Method: encoding
MaxCategories = Annotated[Integer, method(
    help="Keep at most this many values of a category and pool the others (default: 50).")]
Strict = Annotated[bool, method(
    "--strict", help="Stop at columns that would be pooled or left out as identifiers.")]
Category = Annotated[Names, method(metavar="COLUMN",
    help="Treat this numeric column as categorical. Repeatable; * as in --drop.")]
AsNumber = Annotated[Names, method(metavar="COLUMN",
    help="Treat this column as a number, also if it looks like an identifier. Repeatable; * as in "
    "--drop.")]
NumberScale = Annotated[Literal["robust", "sd", "none"], word(
    help="Scaling of numeric columns: robust (by quartiles), sd, none.")]
Seed = Annotated[int, method(help="Seed of the random number generator.")]

# Reading
Format = Annotated[Text, reading(
    help="csv, tsv, jsonl, parquet, feather, npy, npz, mat, svmlight, dta, sav, sas7bdat, xpt, "
    "xlsx or zip (of one table). Default: by the suffix; csv for standard input.")]
NoHeader = Annotated[bool, reading(
    "--no-header", help="The first line is data; columns are named c0, c1, ...")]
Separator = Annotated[Text, reading(
    help="Separator of csv. Default: the most frequent of , ; and tab in the first line, else | "
    "or blank.")]
Encoding = Annotated[str, reading(help="Encoding of text files, for example latin-1.")]
Missing = Annotated[Names, reading(metavar="WORD",
    help="Additional marker of missing values, besides empty, NA, N/A, NaN, null and the like, "
    "and ? . - None where all other values are numbers or dates. Repeatable.")]
Variable = Annotated[Text, reading(
    help="Name of the matrix in a mat or npz file, the sheet of xlsx, the file in a zip.")]
MaxBytes = Annotated[Integer, reading(min=1,
    help="Maximum decompressed size of a gz, npz, mat, xlsx or zip file. Default: 64 MiB, or 100 "
    "times its size.")]
Blocks = Annotated[bool, reading("--blocks",
    help="For data larger than memory: read parquet or npy block by block in each pass. Always "
    "used for a folder of parquet files.")]
Cache = Annotated[Text, reading(metavar="FOLDER",
    help="Folder that caches encoded blocks of parquet between passes, which is many times faster "
    "than decoding them again. Emptied at the end.")]

# Outputs
Report = Annotated[Text, output(help="Report: .html, .md or .json.")]
Labels = Annotated[Text, output(
    help="Cluster of each row: .csv, .tsv, .jsonl, .parquet, .feather; - is standard output.")]
Weights = Annotated[Text, output(help="Weight of each row; as --labels.")]
Model = Annotated[Text, output(help="Fitted model, for predict: .skops.")]
Out = Annotated[Text, output(
    help="The table without the effects of the suspects: all its columns, numbers corrected in "
    "their units. Formats as --labels of fit; - is standard output.")]

FailBelow = Annotated[Number, check(
    metavar="SHARE", help="Exit code 1 if the effective sample size is below this share.")]
FailOn = Annotated[Literal["harmed", "no-effect"] | None, check(
    metavar="WORD", help="Exit code 1 if the verdict is this or worse: harmed or no-effect.")]

Checkpoint = Annotated[Text, running(metavar="FILE",
    help="Save the state of the fit once a minute; after an interruption the same command resumes "
    "there, with the same result. The file is removed at the end.")]
Config = Annotated[Text, running(metavar="FILE", is_eager=True, callback=use_config,
    help="Options from a TOML file (clusters = 5 for -k 5); the command line takes precedence. "
    "Paths are relative to its folder.")]
Json = Annotated[bool, running("--json", help="One JSON document on standard output.")]
Quiet = Annotated[bool, running("--quiet", "-q", help="Print errors only.")]
Debug = Annotated[bool, running("--debug", help="Show the traceback of an error.")]

# Of demo
DemoReport = Annotated[str, Option(
    metavar="FILE", help="Report of the last fit: .html, .md or .json.")]
Rate = Annotated[float, Option(help="Association of site and kind in the sample, below 1.")]
Rows = Annotated[int, Option(help="Number of patients in a sample.")]
Samples = Annotated[int, Option(
    min=1, metavar="NUMBER", help="Number of simulated samples to average over.")]
FirstSeed = Annotated[int, Option(help="Seed of the first sample.")]
# fmt: on
