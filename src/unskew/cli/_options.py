"""Options in groups: what several verbs have in common is written once."""

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
            help="csv, tsv, jsonl, parquet, feather, npy, npz, mat or svmlight, where the suffix "
            "does not say it. Standard input is csv.",
            rich_help_panel="ReadOptions",
        ),
    ] = None
    no_header: Annotated[
        bool,
        Option(
            "--no-header",
            help="The first line is a row; columns are c0, c1, ...",
            rich_help_panel="ReadOptions",
        ),
    ] = False
    separator: Annotated[
        str | None,
        Option(
            help="Of csv. Without it: the most frequent of , ; and tab in the first line.",
            rich_help_panel="ReadOptions",
        ),
    ] = None
    encoding: Annotated[
        str, Option(help="Of text, for example latin-1.", rich_help_panel="ReadOptions")
    ] = "utf-8"
    missing: Annotated[
        Names,
        Option(
            metavar="WORD",
            help="Also means a gap, beside empty, NA, N/A, NaN and null. Repeatable.",
            rich_help_panel="ReadOptions",
        ),
    ] = None
    variable: Annotated[
        str | None, Option(help="Which matrix of a mat or npz file.", rich_help_panel="ReadOptions")
    ] = None
    max_bytes: Annotated[
        int | None,
        Option(
            min=1,
            help="What a gz, npz or mat file may unpack to. Without it: 64 MiB, or 100 times its "
            "size.",
            rich_help_panel="Reading",
        ),
    ] = None
    blocks: Annotated[
        bool,
        Option(
            "--blocks",
            help="Larger than memory: read parquet or npy block by block in each pass. A folder of "
            "parquet files is always read so.",
            rich_help_panel="ReadOptions",
        ),
    ] = False
    cache: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            help="Of parquet in blocks: where encoded blocks wait for the next pass, many times "
            "faster than to decode them anew. Emptied at the end.",
            rich_help_panel="ReadOptions",
        ),
    ] = None


@dataclass(frozen=True)
class IdOptions:
    """How rows are called."""

    id: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Names the rows in the outputs and is not analysed. Without it: row, from 1.",
            rich_help_panel="Columns",
        ),
    ] = None


@dataclass(frozen=True)
class ColumnOptions:
    """Which columns are analysed."""

    drop: Annotated[
        Names,
        Option(
            metavar="COLUMN",
            help="Leave out. Repeatable; * stands for any letters: --drop 'id*'.",
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
    """What is known about the bias."""

    suspect: Annotated[
        Names,
        Option(
            "--suspect",
            "-s",
            metavar="COLUMN",
            help="Through which the bias came in: site, scanner, channel. Repeatable; * as in "
            "--drop. Without it every pair of columns is decorrelated.",
            rich_help_panel="Columns",
        ),
    ] = None
    weight_column: Annotated[
        str | None,
        Option(
            "--weight-column",
            "-w",
            metavar="COLUMN",
            help="Design weights: 2 counts as the row twice, 0 as absent.",
            rich_help_panel="Columns",
        ),
    ] = None


@dataclass(frozen=True)
class StrengthOptions:
    """How the weights are learned."""

    balance_strength: Annotated[
        float | None,
        Option(
            help="How much decorrelation. Default: 1 with suspects, else 0.2 (weigh: 1).",
            rich_help_panel="Method",
        ),
    ] = None
    spread_strength: Annotated[
        float | None,
        Option(
            help="What unequal weights cost. Default: 0.1 with suspects, else 0.3 (weigh: 0.1).",
            rich_help_panel="Method",
        ),
    ] = None
    effective_size_bound: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Hold the effective size at or above this share, inside the fit.",
            rich_help_panel="Method",
        ),
    ] = None
    margin: Annotated[
        Names,
        Option(
            metavar="C:VALUE=SHARE",
            help="A known share of the population, of a value of column C: race:White=0.64. "
            "Repeatable.",
            rich_help_panel="Method",
        ),
    ] = None
    bins: Annotated[
        int, Option(help="Quantile bins of a number column.", rich_help_panel="Method")
    ] = 5
    tol: Annotated[
        float | None,
        Option(
            help="Done when a round brings less than this. Default: 1e-4, with --runs 1e-3.",
            rich_help_panel="Method",
        ),
    ] = None
    threads: Annotated[
        int | None,
        Option(
            help="Default: one per core. The result does not depend on it.",
            rich_help_panel="Method",
        ),
    ] = None


@dataclass(frozen=True)
class EncodingOptions:
    """How a table becomes numbers."""

    max_categories: Annotated[
        int | None,
        Option(help="Values of a category beyond so many are joined.", rich_help_panel="Method"),
    ] = None
    category: Annotated[
        Names,
        Option(
            metavar="COLUMN",
            help="Its numbers are codes, not amounts. Repeatable; * as in --drop.",
            rich_help_panel="Method",
        ),
    ] = None
    number_scale: Annotated[
        NumberScale,
        Option(
            metavar="WORD",
            help="How numbers are made comparable: robust = quartiles, sd, none.",
            rich_help_panel="Method",
        ),
    ] = NumberScale.robust


@dataclass(frozen=True)
class SeedOptions:
    seed: Annotated[
        int, Option(help="Of the random number generator.", rich_help_panel="Method")
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
        raise typer.BadParameter(f"{value!r} is not a whole number, nor auto.") from None


@dataclass(frozen=True)
class RunOptions:
    """One fit, or many put together."""

    clusters: Annotated[
        str,
        Option(
            "--clusters",
            "-k",
            metavar="NUMBER",
            parser=number_or_auto,
            help="Number of clusters; auto: chosen by the data, of 2 to 12 (with --runs).",
        ),
    ] = 8  # type: ignore[assignment]
    runs: Annotated[
        int,
        Option(
            help="Put so many runs together (20 serve well): steadier groups, and a confidence "
            "for each row. 0: one fit from --n-init starts.",
            rich_help_panel="Method",
        ),
    ] = 0


@dataclass(frozen=True)
class InitOptions:
    """How the clusters are found."""

    cluster_on: Annotated[
        ClusterOn,
        Option(
            metavar="WORD",
            help="Whether suspects count in the distance: non_suspects = no, all = yes.",
            rich_help_panel="Method",
        ),
    ] = ClusterOn.non_suspects
    adjust: Annotated[
        Adjust,
        Option(
            metavar="WORD",
            help="How suspects are neutralised: weights; effects = what they add to other columns "
            "is taken out; both; auto = weights, with --runs both.",
            rich_help_panel="Method",
        ),
    ] = Adjust.auto
    init: Annotated[
        Init,
        Option(
            metavar="WORD",
            help="How a start is drawn: partition, random, k-means++ or principal.",
            rich_help_panel="Method",
        ),
    ] = Init.partition
    n_init: Annotated[
        int | None,
        Option(
            help="Random starts. Default: 10, with --runs 1 for each run.",
            rich_help_panel="Method",
        ),
    ] = None
    max_iter: Annotated[int, Option(help="Rounds at most.", rich_help_panel="Method")] = 100


@dataclass(frozen=True)
class IterOptions:
    """How long weights alone are learned."""

    max_iter: Annotated[int, Option(help="Steps at most.", rich_help_panel="Method")] = 200


@dataclass(frozen=True)
class CheckpointOptions:
    """How a long fit survives a kill."""

    checkpoint: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Note once a minute where the fit stands; after a kill the same command goes on "
            "from there and ends the same. The file is removed at the end.",
            rich_help_panel="Session",
        ),
    ] = None


@dataclass(frozen=True)
class CheckOptions:
    """When a run that went through is a failure."""

    min_effective_sample_size: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Exit code 1 if the effective size is below.",
            rich_help_panel="CheckOptions",
        ),
    ] = None
    fail_on: Annotated[
        FailOn | None,
        Option(
            metavar="WORD",
            help="Exit code 1 if the verdict is this or worse: harmed or no-effect.",
            rich_help_panel="CheckOptions",
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
        Option(
            metavar="FILE", help="Weight of each row, like --labels.", rich_help_panel="Outputs"
        ),
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
    """How the run speaks, and where its options come from."""

    config: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Options from a TOML file (k = 5 is written clusters = 5); the command line "
            "wins. Paths in it are seen from its folder.",
            rich_help_panel="Session",
            is_eager=True,
            callback=on_config,
        ),
    ] = None
    json: Annotated[
        bool,
        Option("--json", help="One json document on standard output.", rich_help_panel="Session"),
    ] = False
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Say nothing but errors.", rich_help_panel="Session")
    ] = False
    debug: Annotated[
        bool, Option("--debug", help="Show the traceback of an error.", rich_help_panel="Session")
    ] = False


def flattened(body: Callable[..., int], call: Callable[..., int]) -> Callable[..., int]:
    """Let a function `body(run, ...)` whose parameters are groups be read by typer.

    A parameter annotated with one of the dataclasses above stands for all its fields; the context
    and the options of Talk are added. `call(context, talk, given)` gets the groups put together
    again, as keyword arguments for body.
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
