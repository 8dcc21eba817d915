"""Options of the commands, in groups that several commands share.

A group is a list of parameters of a function, as typer reads them from a signature.
"""

from __future__ import annotations

from functools import partial
from inspect import Parameter
from typing import Annotated, Any, Literal

import typer

from ._config import use_config

Parameters = list[Parameter]


def parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def argument(name: str, about: str) -> Parameter:
    made = typer.Argument(metavar=name.upper(), help=about, show_default=False)
    return parameter(name, Annotated[str, made])


def option(kind: Any, default: Any, about: str, *flags: str, **settings: Any) -> tuple:
    """An option of a group: a short flag is used besides its name, long flags instead of it."""
    return kind, default, flags, {"help": about, **settings}


flag = partial(option, bool, False)
text = partial(option, str | None, None)
number = partial(option, float | None, None)
integer = partial(option, int | None, None)
names = partial(option, list[str] | None, None)  # may be given several times
column = partial(text, metavar="COLUMN")
columns = partial(names, metavar="COLUMN")
path = partial(text, metavar="FILE")
word = partial(option, metavar="WORD")


def group(panel: str | None, **options: tuple) -> Parameters:
    """Options by name, in a panel of the help page."""
    found = []
    for name, (kind, default, flags, settings) in options.items():
        if not any(each.startswith("--") for each in flags):
            flags = (f"--{name.replace('_', '-')}", *flags)
        made = typer.Option(*flags, rich_help_panel=panel, **settings)
        found.append(parameter(name, Annotated[kind, made], default))
    return found


def number_or_auto(value: Any) -> Any:
    if value == "auto":
        return value
    try:
        return int(str(value))
    except ValueError:
        raise typer.BadParameter(f"{value!r} should be an integer or auto.") from None


DATA = argument("data", "A table; - is standard input.")
MODEL_FILE = argument("model", "File of fit --model or weigh --model.")

CLUSTERS = group(
    None,
    clusters=option(
        str,
        "8",
        "Number of clusters; auto: selected from 2 to 12.",
        "-k",
        metavar="NUMBER",
        parser=number_or_auto,
    ),
)
METHOD = group(
    "Method",
    method=word(
        Literal["auto", "mixture", "dckm"],
        "auto",
        "mixture: SelectionMixture, groups whose shares differ between the values of the suspects, "
        "and effects of the suspects; dckm: k-means with decorrelation weights. auto: mixture with "
        "--suspect, unless an option of dckm is given or the data are sparse or read in blocks.",
    ),
)
RUNS = group(
    "Method",
    runs=option(
        int,
        0,
        "Number of runs of a consensus (20 is a good value), which gives more stable clusters and "
        "a confidence for each row. 0: one fit with --n-init initializations.",
        min=0,
        metavar="NUMBER",
    ),
)
SUSPECTS = group(
    "Columns",
    suspect=columns(
        "Nuisance (batch) column through which the bias came in: site, scanner, channel. "
        "Repeatable; * as in --drop. Without suspects all pairs of columns are decorrelated.",
        "-s",
    ),
    weight_column=column(
        "Design weights: weight 2 equals the row twice, weight 0 an absent row.", "-w"
    ),
)
COLUMNS = group(
    "Columns",
    drop=columns("Exclude this column. Repeatable; * matches any characters: --drop 'id*'."),
    keep=columns(
        "Use these columns (and the suspects) only. Repeatable; * as in --drop.",
        *("--keep", "--columns"),
    ),
)
IDS = group(
    "Columns",
    id=column("Row identifier in the outputs; not analysed. Default: row number from 1."),
)
WEIGHTING = group(
    "Method",
    balance_strength=number(
        "Strength of the balance term. Default: 1 with suspects, else 0.2 (weigh: 1)."
    ),
    spread_strength=number(
        "Penalty on unequal weights. Default: 0.1 with suspects, else 0.3 (weigh: 0.1)."
    ),
    min_effective_sample_size=number(
        "Lower bound on the effective sample size, as a share of the rows; a constraint of the "
        "fit.",
        metavar="SHARE",
    ),
    margin=names(
        "Known population share of a value of column C: race:White=0.64. Repeatable.",
        metavar="C:VALUE=SHARE",
    ),
    bins=option(int, 5, "Number of quantile bins of a numeric column."),
    tol=number(
        "Tolerance: stop when an iteration improves the objective by less than this. Default: "
        "1e-4, with --runs 1e-3; of a mixture 1e-6 per row."
    ),
    threads=integer("Number of threads. Default: one per core. The result does not depend on it."),
)
CLUSTERING = group(
    "Method",
    cluster_on=word(
        Literal["non_suspects", "all"],
        "non_suspects",
        "Columns of the distance: non_suspects, or all (suspects included).",
    ),
    adjust=word(
        Literal["auto", "weights", "effects", "both"],
        "auto",
        "How dckm corrects the bias: weights; effects (of the suspects on other columns are "
        "removed); both; auto (both with --suspect, weights where the data are sparse).",
    ),
    init=word(
        Literal["partition", "random", "k-means++", "principal"],
        "partition",
        "Initialization: partition, random, k-means++ or principal.",
    ),
    n_init=integer(
        "Number of random initializations. Default: 10, with --runs 1 per run; of a mixture 1."
    ),
    max_iter=integer("Maximum number of iterations. Default: 100, of a mixture 300."),
)
ITERATIONS = group("Method", max_iter=option(int, 200, "Maximum number of iterations."))
ENCODING = group(
    "Method",
    max_categories=integer(
        "Keep at most this many values of a category and pool the others (default: 50)."
    ),
    strict=flag("Stop at columns that would be pooled or left out as identifiers."),
    category=columns("Treat this numeric column as categorical. Repeatable; * as in --drop."),
    number=columns(
        "Treat this column as a number, also if it looks like an identifier. Repeatable; * as in "
        "--drop."
    ),
    number_scale=word(
        Literal["robust", "sd", "none"],
        "robust",
        "Scaling of numeric columns: robust (by quartiles), sd, none.",
    ),
)
SEED = group("Method", seed=option(int, 0, "Seed of the random number generator."))
READING = group(
    "Reading",
    format=text(
        "csv, tsv, jsonl, parquet, feather, npy, npz, mat, svmlight, dta, sav, sas7bdat, xpt, xlsx "
        "or zip (of one table). Default: by the suffix; csv for standard input."
    ),
    no_header=flag("The first line is data; columns are named c0, c1, ..."),
    separator=text(
        "Separator of csv. Default: the most frequent of , ; and tab in the first line, else | or "
        "blank."
    ),
    encoding=option(str, "utf-8", "Encoding of text files, for example latin-1."),
    missing=names(
        "Additional marker of missing values, besides empty, NA, N/A, NaN, null and the like, and "
        "? . - None where all other values are numbers or dates. Repeatable.",
        metavar="WORD",
    ),
    variable=text("Name of the matrix in a mat or npz file, the sheet of xlsx, the file in a zip."),
    max_bytes=integer(
        "Maximum decompressed size of a gz, npz, mat, xlsx or zip file. Default: 64 MiB, or 100 "
        "times its size.",
        min=1,
    ),
    blocks=flag(
        "For data larger than memory: read parquet or npy block by block in each pass. Always used "
        "for a folder of parquet files.",
    ),
    cache=text(
        "Folder that caches encoded blocks of parquet between passes, which is many times faster "
        "than decoding them again. Emptied at the end.",
        metavar="FOLDER",
    ),
)
REPORT = group("Outputs", report=path("Report: .html, .md or .json."))
LABELS = group(
    "Outputs",
    labels=path(
        "Cluster of each row: .csv, .tsv, .jsonl, .parquet, .feather; - is standard output."
    ),
)
WEIGHTS = group("Outputs", weights=path("Weight of each row; as --labels."))
MODEL = group("Outputs", model=path("Fitted model, for predict: .skops."))
CORRECTION = group(
    "Method",
    groups=option(
        str,
        "auto",
        "Number of groups of the mixture that estimates the effects; auto: selected by BIC.",
        "-k",
        metavar="NUMBER",
        parser=number_or_auto,
    ),
    protect=columns(
        "Keep the association of this column with the others, although it is associated with the "
        "suspects: diagnosis, age. Repeatable; * as in --drop."
    ),
    reference=names(
        "Learn the effects from these rows only (controls), and remove them from all rows. "
        "Repeatable: rows that match one value of each column.",
        metavar="COLUMN=VALUE",
    ),
    effects=word(
        Literal["shift", "shift-scale", "per-group"],
        "shift",
        "Effects of the suspects: shift (of the means), shift-scale (and spread), per-group.",
    ),
    drop_suspects=flag("Leave the suspects out of the output."),
    apply=path(
        "Apply a model of correct --model to DATA; nothing is fitted. Values of a suspect that the "
        "model does not know get the average effect."
    ),
)
CORRECTED = group(
    "Outputs",
    out=path(
        "The table without the effects of the suspects: all its columns, numbers corrected in "
        "their units. Formats as --labels of fit; - is standard output."
    ),
)
CHECKS = group(
    "Checks",
    fail_below=number(
        "Exit code 1 if the effective sample size is below this share.", metavar="SHARE"
    ),
    fail_on=word(
        Literal["harmed", "no-effect"] | None,
        None,
        "Exit code 1 if the verdict is this or worse: harmed or no-effect.",
    ),
)
OTHER_TOOLS = group(
    "Method",
    other_labels=names(
        "Clusters that another tool found: a column of a table with the rows of DATA in the same "
        "order. Repeatable.",
        "--labels",
        metavar="FILE:COLUMN",
    ),
    also=word(
        Literal["combat"] | None,
        None,
        "Method of another package, if it is installed: combat (combatlearn), with the suspects "
        "as batches.",
    ),
)
CHECKPOINT = group(
    "Run",
    checkpoint=path(
        "Save the state of the fit once a minute; after an interruption the same command resumes "
        "there, with the same result. The file is removed at the end."
    ),
)
RUN = group(
    "Run",
    config=path(
        "Options from a TOML file (clusters = 5 for -k 5); the command line takes precedence. "
        "Paths are relative to its folder.",
        is_eager=True,
        callback=use_config,
    ),
    json=flag("One JSON document on standard output."),
    quiet=flag("Print errors only.", "-q"),
    debug=flag("Show the traceback of an error."),
)
DEMO = group(
    None,
    report=option(
        str, "unskew-demo.html", "Report of the last fit: .html, .md or .json.", metavar="FILE"
    ),
    rate=option(float, 0.8, "Association of site and kind in the sample, below 1."),
    rows=option(int, 2000, "Number of patients in a sample."),
    samples=option(int, 3, "Number of simulated samples to average over.", min=1, metavar="NUMBER"),
    seed=option(int, 0, "Seed of the first sample."),
)
