"""Options of the commands, as decorators; options that several commands share are groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import rich_click as click

from ._config import use_config

Decorator = Callable[[Any], Any]


def group(*decorators: Decorator) -> Decorator:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def number_or_auto(value: str | int) -> int | str:
    try:
        return value if value == "auto" else int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} should be an integer or auto.") from None


option = click.option
column = partial(option, panel="Columns", metavar="COLUMN")
method = partial(option, panel="Method")
reading = partial(option, panel="Reading")
output = partial(option, panel="Outputs", metavar="FILE")
check = partial(option, panel="Checks")
running = partial(option, panel="Run")


def word(name: str, *words: str, **attributes: Any) -> Decorator:
    """An option of the method with one of these words; the first is the default."""
    return method(name, type=click.Choice(words), metavar="WORD", default=words[0], **attributes)


model_file = click.argument("model", help="File of fit --model or weigh --model.")

# fmt: off
# Columns
suspects = group(
    column("--suspect", "-s", multiple=True,
        help="Nuisance (batch) column through which the bias came in: site, scanner, channel. "
        "Repeatable; * as in --drop. Without suspects all pairs of columns are decorrelated."),
    column("--weight-column", "-w",
        help="Design weights, scaled to Kish's effective number of rows, because BIC counts rows; "
        "weight 0 is an absent row."),
)
row_id = column("--id", help="Row identifier in the outputs; not analysed. Default: row number "
    "from 1.")

# Method
weighting = group(
    method("--balance-strength", type=float,
        help="Strength of the balance term. Default: 1 with suspects, else 0.2 (weigh: 1)."),
    method("--spread-strength", type=float,
        help="Penalty on unequal weights. Default: 0.1 with suspects, else 0.3 (weigh: 0.1)."),
    method("--min-effective-sample-size", type=float, metavar="SHARE",
        help="Lower bound on the effective sample size, as a share of the rows; a constraint of "
        "the fit."),
    method("--margin", multiple=True, metavar="C:VALUE=SHARE",
        help="Known population share of a value of column C: race:White=0.64. Repeatable."),
    method("--bins", type=int, default=5, help="Number of quantile bins of a numeric column."),
    method("--tol", type=float,
        help="Tolerance: stop when an iteration improves the objective by less than this. "
        "Default: 1e-4, with --runs 1e-3; of a mixture 1e-6 per row."),
    method("--threads", type=int,
        help="Number of threads. Default: one per core. The result does not depend on it."),
)
seed = method("--seed", type=int, default=0, help="Seed of the random number generator.")
quick = option("--quick", is_flag=True,
    help="Analyse a random subsample of 2,000 rows (by --seed) for a first look; the output says "
    "so. With --model, unskew predict has the clusters of all rows.")
clustering = group(
    option("--clusters", "-k", metavar="NUMBER", type=number_or_auto, default="8",
        help="Number of clusters; auto: selected from 2 to 12."),
    quick,
    word("--method", "auto", "mixture", "dckm",
        help="mixture: SelectionMixture, groups whose shares differ between the values of the "
        "suspects, and effects of the suspects; dckm: k-means with decorrelation weights. auto: "
        "mixture with --suspect, unless an option of dckm is given or the data are sparse."),
    word("--cluster-on", "non_suspects", "all",
        help="Columns of the distance: non_suspects, or all (suspects included)."),
    word("--adjust", "auto", "weights", "effects", "both",
        help="How dckm corrects the bias: weights; effects (of the suspects on other columns are "
        "removed); both; auto (both with --suspect, weights where the data are sparse)."),
    word("--init", "partition", "random", "k-means++", "principal",
        help="Initialization: partition, random, k-means++ or principal."),
    method("--n-init", type=int,
        help="Number of random initializations. Default: 10, with --runs 1 per run; of a mixture "
        "1."),
    method("--max-iter", type=int,
        help="Maximum number of iterations. Default: 100, of a mixture 300."),
    seed,
)
runs = method("--runs", metavar="NUMBER", type=click.IntRange(min=0), default=0,
    help="Number of runs of a consensus (20 is a good value), which gives more stable clusters "
    "and a confidence for each row. 0: one fit with --n-init initializations.")

common = group(
    running("--config", metavar="FILE", is_eager=True, callback=use_config,
        help="Options from a TOML file (clusters = 5 for -k 5); the command line takes "
        "precedence. Paths are relative to its folder."),
    running("--json", is_flag=True, help="One JSON document on standard output."),
    running("--quiet", "-q", is_flag=True, help="Print errors only."),
    running("--debug", is_flag=True, help="Show the traceback of an error."),
)
reading_options = group(
    click.argument("data", help="A table; - is standard input."),
    column("--drop", multiple=True,
        help="Exclude this column. Repeatable; * matches any characters: --drop 'id*'."),
    column("--keep", "--columns", multiple=True,
        help="Use these columns (and the suspects) only. Repeatable; * as in --drop."),
    reading("--format",
        help="csv, tsv, jsonl, parquet, feather, npy, npz, mat, svmlight, dta, sav, sas7bdat, "
        "xpt, xlsx or zip (of one table). Default: by the suffix; csv for standard input."),
    reading("--no-header", is_flag=True,
        help="The first line is data; columns are named c0, c1, ..."),
    reading("--separator",
        help="Separator of csv. Default: the most frequent of , ; and tab in the first line, else "
        "| or blank."),
    reading("--encoding", default="utf-8", help="Encoding of text files, for example latin-1."),
    reading("--missing", multiple=True, metavar="WORD",
        help="Additional marker of missing values, besides empty, NA, N/A, NaN, null and the "
        "like, and ? . - None where all other values are numbers or dates. Repeatable."),
    reading("--variable",
        help="Name of the matrix in a mat or npz file, the sheet of xlsx, the file in a zip."),
    reading("--max-bytes", type=click.IntRange(min=1),
        help="Maximum decompressed size of a gz, npz, mat, xlsx or zip file. Default: 64 MiB, or "
        "100 times its size."),
    reading("--blocks", is_flag=True,
        help="For data larger than memory: read parquet or npy block by block in each pass. "
        "Always used for a folder of parquet files."),
    reading("--cache", metavar="FOLDER",
        help="Folder that caches encoded blocks of parquet between passes, which is many times "
        "faster than decoding them again. Emptied at the end."),
    common,
)
table = group(  # with the encoding of its columns
    method("--max-categories", type=int,
        help="Keep at most this many values of a category and pool the others (default: 50)."),
    method("--strict", is_flag=True,
        help="Stop at columns that would be pooled or left out as identifiers."),
    method("--category", multiple=True, metavar="COLUMN",
        help="Treat this numeric column as categorical. Repeatable; * as in --drop."),
    method("--number", multiple=True, metavar="COLUMN",
        help="Treat this column as a number, also if it looks like an identifier. Repeatable; * "
        "as in --drop."),
    word("--number-scale", "robust", "sd", "none",
        help="Scaling of numeric columns: robust (by quartiles), sd, none."),
    reading_options,
)

# Outputs
report = output("--report", help="Report: .html, .md or .json.")
labels = output("--labels",
    help="Cluster of each row: .csv, .tsv, .jsonl, .parquet, .feather; - is standard output.")
weights = output("--weights", help="Weight of each row; as --labels.")
model = output("--model", help="Fitted model, for predict: .skops.")

outputs = group(  # of a fit
    report,
    weights,
    model,
    check("--fail-below", type=float, metavar="SHARE",
        help="Exit code 1 if the effective sample size is below this share."),
    check("--fail-on", type=click.Choice(["harmed", "no-effect"]), metavar="WORD",
        help="Exit code 1 if the verdict is this or worse: harmed or no-effect."),
    running("--checkpoint", metavar="FILE",
        help="Save the state of the fit once a minute; after an interruption the same command "
        "resumes there, with the same result. The file is removed at the end."),
)

# Of single commands
simulation = group(
    output("--report", default="unskew-demo.html",
        help="Report of the last fit: .html, .md or .json."),
    option("--rate", default=0.8, help="Association of site and kind in the sample, below 1."),
    option("--rows", default=2000, help="Number of patients in a sample."),
    option("--samples", type=click.IntRange(min=1), metavar="NUMBER", default=3,
        help="Number of simulated samples to average over."),
    option("--seed", default=0, help="Seed of the first sample."),
    common,
)
correction = group(
    method("--groups", "-k", metavar="NUMBER", type=number_or_auto, default="auto",
        help="Number of groups of the mixture that estimates the effects; auto: selected by BIC."),
    method("--protect", multiple=True, metavar="COLUMN",
        help="Keep the association of this column with the others, although it is associated with "
        "the suspects: diagnosis, age. Repeatable; * as in --drop."),
    method("--reference", multiple=True, metavar="COLUMN=VALUE",
        help="Learn the effects from these rows only (controls), and remove them from all rows. "
        "Repeatable: rows that match one value of each column."),
    word("--effects", "auto", "none", "shift", "shift-scale", "per-group",
        help="Effects of the suspects: shift (of the means), shift-scale (and spread), per-group, "
        "none; auto: selected by BIC."),
    method("--drop-suspects", is_flag=True, help="Leave the suspects out of the output."),
    method("--apply", metavar="FILE",
        help="Apply a model of correct --model to DATA; nothing is fitted. Values of a suspect "
        "that the model does not know get the average effect."),
    seed,
    output("--out",
        help="The table without the effects of the suspects: all its columns, numbers corrected "
        "in their units. Formats as --labels of fit; - is standard output."),
    model,
    weights,
    report,
)
others = group(
    method("--labels", multiple=True, metavar="FILE:COLUMN",
        help="Clusters that another tool found: a column of a table with the rows of DATA in the "
        "same order. Repeatable."),
    method("--also", type=click.Choice(["combat"]), metavar="WORD",
        help="Method of another package, if it is installed: combat (combatlearn), with the "
        "suspects as batches."),
)
# fmt: on
