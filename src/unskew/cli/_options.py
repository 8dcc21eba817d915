"""Options that several commands share, as annotations of their parameters."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import typer

from ._config import use_config


def _option(panel: str | None, text: str, *flags: str, **settings: Any) -> Any:
    """An option in a panel of the help page; without flags, the flag is the parameter's name."""
    return typer.Option(*flags, help=text, rich_help_panel=panel, **settings)


_general = partial(_option, None)
_columns = partial(_option, "Columns", metavar="COLUMN")
_method = partial(_option, "Method")
_reading = partial(_option, "Reading")
_output = partial(_option, "Outputs", metavar="FILE")
_check = partial(_option, "Checks")
_run = partial(_option, "Run")

Names = list[str] | None  # an option that may be given several times

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A table; - is standard input.", show_default=False)
]
StoredModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="File of fit --model or weigh --model.", show_default=False
    ),
]

# ---------------------------------------------------------------------------------------- columns
Suspect = Annotated[
    Names,
    _columns(
        "Nuisance (batch) column through which the bias came in: site, scanner, channel. "
        "Repeatable; * as in --drop. Without suspects all pairs of columns are decorrelated.",
        *("--suspect", "-s"),
    ),
]
WeightColumn = Annotated[
    str | None,
    _columns(
        "Design weights: weight 2 equals the row twice, weight 0 an absent row.",
        *("--weight-column", "-w"),
    ),
]
Drop = Annotated[
    Names,
    _columns("Exclude this column. Repeatable; * matches any characters: --drop 'id*'."),
]
Keep = Annotated[
    Names,
    _columns(
        "Use these columns (and the suspects) only. Repeatable; * as in --drop.",
        *("--keep", "--columns"),
    ),
]
Id = Annotated[
    str | None,
    _columns("Row identifier in the outputs; not analysed. Default: row number from 1."),
]

# ----------------------------------------------------------------------------------------- method
Clusters = Annotated[int, _general("Number of clusters.", "--clusters", "-k")]


def number_or_auto(value: Any) -> Any:
    if value == "auto":
        return value
    try:
        return int(str(value))
    except ValueError:
        raise typer.BadParameter(f"{value!r} should be an integer or auto.") from None


ClustersOrAuto = Annotated[
    str,
    _general(
        "Number of clusters; auto: selected from 2 to 12 (with --runs).",
        *("--clusters", "-k"),
        metavar="NUMBER",
        parser=number_or_auto,
    ),
]
Runs = Annotated[
    int,
    _method(
        "Number of runs of a consensus (20 is a good value), which gives more stable "
        "clusters and a confidence for each row. 0: one fit with --n-init initializations."
    ),
]
BalanceStrength = Annotated[
    float | None,
    _method("Strength of the balance term. Default: 1 with suspects, else 0.2 (weigh: 1)."),
]
SpreadStrength = Annotated[
    float | None,
    _method("Penalty on unequal weights. Default: 0.1 with suspects, else 0.3 (weigh: 0.1)."),
]
MinEffectiveSampleSize = Annotated[
    float | None,
    _method(
        "Lower bound on the effective sample size, as a share of the rows; a constraint of the "
        "fit.",
        metavar="SHARE",
    ),
]
Margin = Annotated[
    Names,
    _method(
        "Known population share of a value of column C: race:White=0.64. Repeatable.",
        metavar="C:VALUE=SHARE",
    ),
]
Bins = Annotated[int, _method("Number of quantile bins of a numeric column.")]
Tol = Annotated[
    float | None,
    _method(
        "Tolerance: stop when an iteration improves the objective by less than this. "
        "Default: 1e-4, with --runs 1e-3."
    ),
]
Threads = Annotated[
    int | None,
    _method("Number of threads. Default: one per core. The result does not depend on it."),
]
ClusterOn = Annotated[
    Literal["non_suspects", "all"],
    _method("Columns of the distance: non_suspects, or all (suspects included).", metavar="WORD"),
]
Adjust = Annotated[
    Literal["auto", "weights", "effects", "both"],
    _method(
        "How bias is corrected: weights; effects (of the suspects on other columns are "
        "removed); both; auto (weights, with --runs both).",
        metavar="WORD",
    ),
]
Init = Annotated[
    Literal["partition", "random", "k-means++", "principal"],
    _method("Initialization: partition, random, k-means++ or principal.", metavar="WORD"),
]
NInit = Annotated[
    int | None,
    _method("Number of random initializations. Default: 10, with --runs 1 per run."),
]
MaxIter = Annotated[int, _method("Maximum number of iterations.")]
MaxCategories = Annotated[
    int | None, _method("Keep at most this many values of a category and pool the others.")
]
Category = Annotated[
    Names,
    _method(
        "Treat this numeric column as categorical. Repeatable; * as in --drop.", metavar="COLUMN"
    ),
]
NumberScale = Annotated[
    Literal["robust", "sd", "none"],
    _method("Scaling of numeric columns: robust (by quartiles), sd, none.", metavar="WORD"),
]
Seed = Annotated[int, _method("Seed of the random number generator.")]

# ---------------------------------------------------------------------------------------- reading
Format = Annotated[
    str | None,
    _reading(
        "csv, tsv, jsonl, parquet, feather, npy, npz, mat or svmlight. Default: by the "
        "suffix; csv for standard input."
    ),
]
NoHeader = Annotated[
    bool, _reading("The first line is data; columns are named c0, c1, ...", "--no-header")
]
Separator = Annotated[
    str | None,
    _reading("Separator of csv. Default: the most frequent of , ; and tab in the first line."),
]
Encoding = Annotated[str, _reading("Encoding of text files, for example latin-1.")]
Missing = Annotated[
    Names,
    _reading(
        "Additional marker of missing values, besides empty, NA, N/A, NaN and null. Repeatable.",
        metavar="WORD",
    ),
]
Variable = Annotated[str | None, _reading("Name of the matrix in a mat or npz file.")]
MaxBytes = Annotated[
    int | None,
    _reading(
        "Maximum decompressed size of a gz, npz or mat file. Default: 64 MiB, or 100 times its "
        "size.",
        min=1,
    ),
]
Blocks = Annotated[
    bool,
    _reading(
        "For data larger than memory: read parquet or npy block by block in each pass. "
        "Always used for a folder of parquet files.",
        "--blocks",
    ),
]
Cache = Annotated[
    str | None,
    _reading(
        "Folder that caches encoded blocks of parquet between passes, which is many times faster "
        "than decoding them again. Emptied at the end.",
        metavar="FOLDER",
    ),
]

# ---------------------------------------------------------------------------- outputs, checks, run
Report = Annotated[str | None, _output("Report: .html, .md or .json.")]
Labels = Annotated[
    str | None,
    _output("Cluster of each row: .csv, .tsv, .jsonl, .parquet, .feather; - is standard output."),
]
Weights = Annotated[str | None, _output("Weight of each row; as --labels.")]
Model = Annotated[str | None, _output("Fitted model, for predict: .skops.")]
FailBelow = Annotated[
    float | None,
    _check("Exit code 1 if the effective sample size is below this share.", metavar="SHARE"),
]
FailOn = Annotated[
    Literal["harmed", "no-effect"] | None,
    _check("Exit code 1 if the verdict is this or worse: harmed or no-effect.", metavar="WORD"),
]
Checkpoint = Annotated[
    str | None,
    _run(
        "Save the state of the fit once a minute; after an interruption the same command "
        "resumes there, with the same result. The file is removed at the end.",
        metavar="FILE",
    ),
]
Config = Annotated[
    str | None,
    _run(
        "Options from a TOML file (clusters = 5 for -k 5); the command line takes precedence. "
        "Paths are relative to its folder.",
        metavar="FILE",
        is_eager=True,
        callback=use_config,
    ),
]
Json = Annotated[bool, _run("One JSON document on standard output.", "--json")]
Quiet = Annotated[bool, _run("Print errors only.", "--quiet", "-q")]
Debug = Annotated[bool, _run("Show the traceback of an error.", "--debug")]
