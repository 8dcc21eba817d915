"""Groups of options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Annotated, Any, get_type_hints

import typer

from ._config import on_config

Option = typer.Option
Names = list[str] | None  # an option that may be given several times


class Init(StrEnum):
    partition = "partition"
    random = "random"
    plusplus = "k-means++"
    principal = "principal"


class ClusterOn(StrEnum):
    non_suspects = "non_suspects"
    all = "all"


class Adjust(StrEnum):
    auto = "auto"
    weights = "weights"
    effects = "effects"
    both = "both"


class NumberScale(StrEnum):
    robust = "robust"
    sd = "sd"
    none = "none"


class FailOn(StrEnum):
    harmed = "harmed"
    no_effect = "no-effect"


DATA = Annotated[
    str, typer.Argument(metavar="DATA", help="A table; - is standard input.", show_default=False)
]


@dataclass(frozen=True)
class ReadOptions:
    """How the file is read."""

    format: Annotated[
        str | None,
        Option(
            help="csv, tsv, jsonl, parquet, feather, npy, npz, mat or svmlight. Default: by the "
            "suffix; csv for standard input.",
            rich_help_panel="Reading",
        ),
    ] = None
    no_header: Annotated[
        bool,
        Option(
            "--no-header",
            help="The first line is data; columns are named c0, c1, ...",
            rich_help_panel="Reading",
        ),
    ] = False
    separator: Annotated[
        str | None,
        Option(
            help="Separator of csv. Default: the most frequent of , ; and tab in the first line.",
            rich_help_panel="Reading",
        ),
    ] = None
    encoding: Annotated[
        str, Option(help="Encoding of text files, for example latin-1.", rich_help_panel="Reading")
    ] = "utf-8"
    missing: Annotated[
        Names,
        Option(
            metavar="WORD",
            help="Additional marker of missing values, besides empty, NA, N/A, NaN and null. "
            "Repeatable.",
            rich_help_panel="Reading",
        ),
    ] = None
    variable: Annotated[
        str | None,
        Option(help="Name of the matrix in a mat or npz file.", rich_help_panel="Reading"),
    ] = None
    max_bytes: Annotated[
        int | None,
        Option(
            min=1,
            help="Maximum decompressed size of a gz, npz or mat file. Default: 64 MiB, or 100 "
            "times its size.",
            rich_help_panel="Reading",
        ),
    ] = None
    blocks: Annotated[
        bool,
        Option(
            "--blocks",
            help="For data larger than memory: read parquet or npy block by block in each pass. "
            "Always used for a folder of parquet files.",
            rich_help_panel="Reading",
        ),
    ] = False
    cache: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            help="Folder that caches encoded blocks of parquet between passes, which is many "
            "times faster than decoding them again. Emptied at the end.",
            rich_help_panel="Reading",
        ),
    ] = None


@dataclass(frozen=True)
class IdOptions:
    """Row identifiers."""

    id: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Row identifier in the outputs; not analysed. Default: row number from 1.",
            rich_help_panel="Columns",
        ),
    ] = None


@dataclass(frozen=True)
class ColumnOptions:
    """Selection of the columns that are analysed."""

    drop: Annotated[
        Names,
        Option(
            metavar="COLUMN",
            help="Exclude this column. Repeatable; * matches any characters: --drop 'id*'.",
            rich_help_panel="Columns",
        ),
    ] = None
    keep: Annotated[
        Names,
        Option(
            "--keep",
            "--columns",
            metavar="COLUMN",
            help="Use these columns (and the suspects) only. Repeatable; * as in --drop.",
            rich_help_panel="Columns",
        ),
    ] = None


@dataclass(frozen=True)
class SuspectOptions:
    """Suspects and design weights."""

    suspect: Annotated[
        Names,
        Option(
            "--suspect",
            "-s",
            metavar="COLUMN",
            help="Nuisance (batch) column through which the bias came in: site, scanner, channel. "
            "Repeatable; * as in --drop. Without suspects all pairs of columns are decorrelated.",
            rich_help_panel="Columns",
        ),
    ] = None
    weight_column: Annotated[
        str | None,
        Option(
            "--weight-column",
            "-w",
            metavar="COLUMN",
            help="Design weights: weight 2 equals the row twice, weight 0 an absent row.",
            rich_help_panel="Columns",
        ),
    ] = None


@dataclass(frozen=True)
class StrengthOptions:
    """Parameters of the weights."""

    balance_strength: Annotated[
        float | None,
        Option(
            help="Strength of the balance term. Default: 1 with suspects, else 0.2 (weigh: 1).",
            rich_help_panel="Method",
        ),
    ] = None
    spread_strength: Annotated[
        float | None,
        Option(
            help="Penalty on unequal weights. Default: 0.1 with suspects, else 0.3 (weigh: 0.1).",
            rich_help_panel="Method",
        ),
    ] = None
    min_effective_sample_size: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Lower bound on the effective sample size, as a share of the rows; a constraint "
            "of the fit.",
            rich_help_panel="Method",
        ),
    ] = None
    margin: Annotated[
        Names,
        Option(
            metavar="C:VALUE=SHARE",
            help="Known population share of a value of column C: race:White=0.64. Repeatable.",
            rich_help_panel="Method",
        ),
    ] = None
    bins: Annotated[
        int, Option(help="Number of quantile bins of a numeric column.", rich_help_panel="Method")
    ] = 5
    tol: Annotated[
        float | None,
        Option(
            help="Tolerance: stop when an iteration improves the objective by less than this. "
            "Default: 1e-4, with --runs 1e-3.",
            rich_help_panel="Method",
        ),
    ] = None
    threads: Annotated[
        int | None,
        Option(
            help="Number of threads. Default: one per core. The result does not depend on it.",
            rich_help_panel="Method",
        ),
    ] = None


@dataclass(frozen=True)
class EncodingOptions:
    """Encoding of tables."""

    max_categories: Annotated[
        int | None,
        Option(
            help="Keep at most this many values of a category and pool the others.",
            rich_help_panel="Method",
        ),
    ] = None
    category: Annotated[
        Names,
        Option(
            metavar="COLUMN",
            help="Treat this numeric column as categorical. Repeatable; * as in --drop.",
            rich_help_panel="Method",
        ),
    ] = None
    number_scale: Annotated[
        NumberScale,
        Option(
            metavar="WORD",
            help="Scaling of numeric columns: robust (by quartiles), sd, none.",
            rich_help_panel="Method",
        ),
    ] = NumberScale.robust


@dataclass(frozen=True)
class SeedOptions:
    seed: Annotated[
        int, Option(help="Seed of the random number generator.", rich_help_panel="Method")
    ] = 0


@dataclass(frozen=True)
class ClusterOptions:
    clusters: Annotated[int, Option("--clusters", "-k", help="Number of clusters.")] = 8


def number_or_auto(value: Any) -> Any:
    if value == "auto":
        return value
    try:
        return int(str(value))
    except ValueError:
        raise typer.BadParameter(f"{value!r} should be an integer or auto.") from None


@dataclass(frozen=True)
class RunOptions:
    """One fit, or a consensus of several runs."""

    clusters: Annotated[
        str,
        Option(
            "--clusters",
            "-k",
            metavar="NUMBER",
            parser=number_or_auto,
            help="Number of clusters; auto: selected from 2 to 12 (with --runs).",
        ),
    ] = 8  # type: ignore[assignment]
    runs: Annotated[
        int,
        Option(
            help="Number of runs of a consensus (20 is a good value), which gives more stable "
            "clusters and a confidence for each row. 0: one fit with --n-init initializations.",
            rich_help_panel="Method",
        ),
    ] = 0


@dataclass(frozen=True)
class InitOptions:
    """Parameters of the clustering."""

    cluster_on: Annotated[
        ClusterOn,
        Option(
            metavar="WORD",
            help="Columns of the distance: non_suspects, or all (suspects included).",
            rich_help_panel="Method",
        ),
    ] = ClusterOn.non_suspects
    adjust: Annotated[
        Adjust,
        Option(
            metavar="WORD",
            help="How bias is corrected: weights; effects (of the suspects on other columns are "
            "removed); both; auto (weights, with --runs both).",
            rich_help_panel="Method",
        ),
    ] = Adjust.auto
    init: Annotated[
        Init,
        Option(
            metavar="WORD",
            help="Initialization: partition, random, k-means++ or principal.",
            rich_help_panel="Method",
        ),
    ] = Init.partition
    n_init: Annotated[
        int | None,
        Option(
            help="Number of random initializations. Default: 10, with --runs 1 per run.",
            rich_help_panel="Method",
        ),
    ] = None
    max_iter: Annotated[
        int, Option(help="Maximum number of iterations.", rich_help_panel="Method")
    ] = 100


@dataclass(frozen=True)
class IterOptions:
    """Iterations of weights without clusters."""

    max_iter: Annotated[
        int, Option(help="Maximum number of iterations.", rich_help_panel="Method")
    ] = 200


@dataclass(frozen=True)
class CheckpointOptions:
    """Checkpoints of a long fit."""

    checkpoint: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Save the state of the fit once a minute; after an interruption the same command "
            "resumes there, with the same result. The file is removed at the end.",
            rich_help_panel="Run",
        ),
    ] = None


@dataclass(frozen=True)
class CheckOptions:
    """Checks of a completed run."""

    fail_below: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Exit code 1 if the effective sample size is below this share.",
            rich_help_panel="Checks",
        ),
    ] = None
    fail_on: Annotated[
        FailOn | None,
        Option(
            metavar="WORD",
            help="Exit code 1 if the verdict is this or worse: harmed or no-effect.",
            rich_help_panel="Checks",
        ),
    ] = None


@dataclass(frozen=True)
class ReportOptions:
    report: Annotated[
        str | None,
        Option(metavar="FILE", help="Report: .html, .md or .json.", rich_help_panel="Outputs"),
    ] = None


@dataclass(frozen=True)
class LabelOptions:
    labels: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Cluster of each row: .csv, .tsv, .jsonl, .parquet, .feather; - is standard "
            "output.",
            rich_help_panel="Outputs",
        ),
    ] = None


@dataclass(frozen=True)
class WeightOptions:
    weights: Annotated[
        str | None,
        Option(metavar="FILE", help="Weight of each row; as --labels.", rich_help_panel="Outputs"),
    ] = None


@dataclass(frozen=True)
class ModelOptions:
    model: Annotated[
        str | None,
        Option(
            metavar="FILE", help="Fitted model, for predict: .skops.", rich_help_panel="Outputs"
        ),
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """Terminal output, and the file with options."""

    config: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Options from a TOML file (clusters = 5 for -k 5); the command line takes "
            "precedence. Paths are relative to its folder.",
            rich_help_panel="Run",
            is_eager=True,
            callback=on_config,
        ),
    ] = None
    json: Annotated[
        bool,
        Option("--json", help="One JSON document on standard output.", rich_help_panel="Run"),
    ] = False
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Print errors only.", rich_help_panel="Run")
    ] = False
    debug: Annotated[
        bool, Option("--debug", help="Show the traceback of an error.", rich_help_panel="Run")
    ] = False


def flattened(body: Callable[..., int], call: Callable[..., int]) -> Callable[..., int]:
    """Convert `body(run, ...)`, whose parameters are option groups, to a function for typer.

    A parameter annotated with one of the dataclasses above is replaced by all its fields; the
    context and the OutputOptions are added. `call(context, talk, given)` receives the reassembled
    groups as keyword arguments for body.
    """
    hints = get_type_hints(body, include_extras=True)
    own = {n: p for n, p in inspect.signature(body).parameters.items() if n != "run"}
    groups: dict[str, Any] = {n: hints[n] for n in own if is_dataclass(hints[n])}
    found: dict[str, tuple[Any, Any]] = {"context": (typer.Context, inspect.Parameter.empty)}
    for name, parameter in own.items():
        if name in groups:
            found.update(_options_of(groups[name]))
        else:
            found[name] = (hints[name], parameter.default)
    found.update(_options_of(OutputOptions))

    @functools.wraps(body)
    def flat(**values: Any) -> int:
        def gather(group: Any) -> Any:
            return group(**{field.name: values[field.name] for field in fields(group)})

        given = {n: gather(groups[n]) if n in groups else values[n] for n in own}
        return call(values["context"], gather(OutputOptions), given)

    flat.__annotations__ = {name: kind for name, (kind, _) in found.items()}
    flat.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for n, (kind, default) in found.items()
        ]
    )
    return flat


def _options_of(group: Any) -> dict[str, tuple[Any, Any]]:
    kinds = get_type_hints(group, include_extras=True)
    return {field.name: (kinds[field.name], field.default) for field in fields(group)}
