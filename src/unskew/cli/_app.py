"""The typer application: the commands with their options, and errors of usage."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer import Context

from .. import __version__
from .._io import why
from .._records import visible
from . import _commands
from . import _options as opt
from ._session import discard_output, execute

# Base class of all errors of usage. typer does not export it, and some versions vendor click.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="unskew",
    help="Clustering under selection bias.\n\n"
    "Learns a weight for each row under which the columns predict each other less, together with "
    "k-means. Start with **unskew demo**, then **unskew audit DATA**.",
    epilog="Reads csv, tsv, jsonl (also .gz), parquet, feather, npy, npz, mat, svmlight, Stata, "
    "SPSS, SAS, Excel, and zip of one table; - is standard input. Exit codes: 0 success, 1 a check "
    "failed, 2 bad usage or input.",
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *lines])


def _version(value: bool) -> None:
    if value:
        print(f"unskew {__version__}", flush=True)
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    pass


# The work is done by functions of `_commands.py`, which find the values in `Session.options`.
# fmt: off
@app.command(epilog=examples("unskew demo"))
def demo(
    context: Context, report: opt.DemoReport = "unskew-demo.html", rate: opt.Rate = 0.8,
    rows: opt.Rows = 2000, samples: opt.Samples = 3, seed: opt.FirstSeed = 0,
    config: opt.Config = None, json: opt.Json = False, quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Compare eight methods on simulated data with one biased column.

    Patients of four kinds at four sites. Site and kind are associated in the sample and
    independent in the population; 40 columns depend on the kind, 36 on the site. Only the site is
    named as a suspect.
    """
    return execute(context, _commands.demo)


@app.command(epilog=examples("unskew columns data.csv"))
def columns(
    context: Context, data: opt.Data,
    drop: opt.Drop = None, keep: opt.Keep = None,
    max_categories: opt.MaxCategories = None, strict: opt.Strict = False,
    category: opt.Category = None, number: opt.AsNumber = None,
    number_scale: opt.NumberScale = "robust",
    format: opt.Format = None, no_header: opt.NoHeader = False, separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8", missing: opt.Missing = None, variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None, blocks: opt.Blocks = False, cache: opt.Cache = None,
    config: opt.Config = None, json: opt.Json = False, quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Show what is made of each column of a table, and how to change it.

    Columns that are left out, pooled, read as numbers or categories; missing values; integers that
    may be codes; columns that repeat others; survey weights.
    """
    return execute(context, _commands.columns)


@app.command(epilog=examples(
    "unskew audit data.csv",
    "unskew audit data.parquet --suspect site --report audit.html",
))
def audit(
    context: Context, data: opt.Data,
    suspect: opt.Suspect = None, weight_column: opt.WeightColumn = None,
    drop: opt.Drop = None, keep: opt.Keep = None, report: opt.Report = None,
    max_categories: opt.MaxCategories = None, strict: opt.Strict = False,
    category: opt.Category = None, number: opt.AsNumber = None,
    number_scale: opt.NumberScale = "robust", seed: opt.Seed = 0, quick: opt.Quick = False,
    format: opt.Format = None, no_header: opt.NoHeader = False, separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8", missing: opt.Missing = None, variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None, blocks: opt.Blocks = False, cache: opt.Cache = None,
    config: opt.Config = None, json: opt.Json = False, quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Audit a table before clustering: which columns predict each other, and whether
    decorrelation is worthwhile.

    Lists columns that may reflect how the data were collected.
    """
    return execute(context, _commands.audit)


@app.command(epilog=examples(
    "unskew fit data.csv -k 5 --suspect site --report out.html",
    "unskew fit data.parquet -k 5 -s site -w weight --id patient --labels labels.csv "
    "--model m.skops",
    "zcat data.csv.gz | unskew fit - -k 3 --labels - --quiet > labels.csv",
    "unskew fit --config out.run.toml",
))
def fit(
    context: Context, data: opt.Data,
    clusters: opt.Clusters = "8", method: opt.Method = "auto", runs: opt.Runs = 0,
    suspect: opt.Suspect = None, weight_column: opt.WeightColumn = None,
    drop: opt.Drop = None, keep: opt.Keep = None, id: opt.Id = None,
    report: opt.Report = None, labels: opt.Labels = None, weights: opt.Weights = None,
    model: opt.Model = None, fail_below: opt.FailBelow = None, fail_on: opt.FailOn = None,
    balance_strength: opt.BalanceStrength = None, spread_strength: opt.SpreadStrength = None,
    min_effective_sample_size: opt.MinEffectiveSampleSize = None, margin: opt.Margin = None,
    bins: opt.Bins = 5, tol: opt.Tol = None, threads: opt.Threads = None,
    cluster_on: opt.ClusterOn = "non_suspects", adjust: opt.Adjust = "auto",
    init: opt.Init = "partition", n_init: opt.NInit = None, max_iter: opt.MaxIter = None,
    max_categories: opt.MaxCategories = None, strict: opt.Strict = False,
    category: opt.Category = None, number: opt.AsNumber = None,
    number_scale: opt.NumberScale = "robust", seed: opt.Seed = 0, quick: opt.Quick = False,
    format: opt.Format = None, no_header: opt.NoHeader = False, separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8", missing: opt.Missing = None, variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None, blocks: opt.Blocks = False, cache: opt.Cache = None,
    checkpoint: opt.Checkpoint = None, config: opt.Config = None, json: opt.Json = False,
    quiet: opt.Quiet = False, debug: opt.Debug = False,
) -> int:
    """Cluster a table such that the clusters do not follow the suspects.

    Prints a summary and a verdict. The options of the run are saved next to the outputs as
    NAME.run.toml, which can be passed to --config.
    """
    return execute(context, _commands.fit)


@app.command(epilog=examples(
    "unskew predict m.skops new.csv > labels.csv",
    "unskew predict m.skops new.parquet --labels labels.parquet --weights weights.parquet",
))
def predict(
    context: Context, model: opt.ModelFile, data: opt.Data,
    id: opt.Id = None, drop: opt.Drop = None, keep: opt.Keep = None,
    labels: opt.Labels = None, weights: opt.Weights = None,
    format: opt.Format = None, no_header: opt.NoHeader = False, separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8", missing: opt.Missing = None, variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None, blocks: opt.Blocks = False, cache: opt.Cache = None,
    config: opt.Config = None, json: opt.Json = False, quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Predict the clusters of new rows with a stored model.

    They are written to --labels or to standard output. Columns unknown to the model are ignored;
    --drop and --keep are for matrices, whose columns have no names.
    """
    return execute(context, _commands.predict)


@app.command(epilog=examples(
    "unskew weigh data.csv --suspect site > weights.csv",
    "unskew weigh data.csv --weights weights.parquet --report weights.html",
))
def weigh(
    context: Context, data: opt.Data,
    suspect: opt.Suspect = None, weight_column: opt.WeightColumn = None,
    drop: opt.Drop = None, keep: opt.Keep = None, id: opt.Id = None,
    weights: opt.Weights = None, report: opt.Report = None, model: opt.Model = None,
    fail_below: opt.FailBelow = None, fail_on: opt.FailOn = None,
    balance_strength: opt.BalanceStrength = None, spread_strength: opt.SpreadStrength = None,
    min_effective_sample_size: opt.MinEffectiveSampleSize = None, margin: opt.Margin = None,
    bins: opt.Bins = 5, tol: opt.Tol = None, threads: opt.Threads = None,
    max_categories: opt.MaxCategories = None, strict: opt.Strict = False,
    category: opt.Category = None, number: opt.AsNumber = None,
    number_scale: opt.NumberScale = "robust", max_iter: opt.Iterations = 200,
    format: opt.Format = None, no_header: opt.NoHeader = False, separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8", missing: opt.Missing = None, variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None, blocks: opt.Blocks = False, cache: opt.Cache = None,
    checkpoint: opt.Checkpoint = None, config: opt.Config = None, json: opt.Json = False,
    quiet: opt.Quiet = False, debug: opt.Debug = False,
) -> int:
    """Learn weights without clusters: one per row, under which columns are decorrelated.

    They are written to --weights or to standard output.
    """
    return execute(context, _commands.weigh)


@app.command(epilog=examples(
    "unskew correct data.csv --suspect site --out corrected.parquet --model m.skops",
    "unskew correct new.csv --apply m.skops --out corrected-new.parquet",
    "unskew correct data.csv -s site --protect diagnosis --reference diagnosis=control "
    "--out corrected.csv",
))
def correct(
    context: Context, data: opt.Data,
    suspect: opt.Suspect = None, weight_column: opt.WeightColumn = None,
    drop: opt.Drop = None, keep: opt.Keep = None, out: opt.Out = None, model: opt.Model = None,
    weights: opt.Weights = None, report: opt.Report = None, groups: opt.Groups = "auto",
    protect: opt.Protect = None, reference: opt.Reference = None, effects: opt.Effects = "shift",
    drop_suspects: opt.DropSuspects = False, apply: opt.Apply = None,
    max_categories: opt.MaxCategories = None, strict: opt.Strict = False,
    category: opt.Category = None, number: opt.AsNumber = None,
    number_scale: opt.NumberScale = "robust", seed: opt.Seed = 0,
    format: opt.Format = None, no_header: opt.NoHeader = False, separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8", missing: opt.Missing = None, variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None, blocks: opt.Blocks = False, cache: opt.Cache = None,
    config: opt.Config = None, json: opt.Json = False, quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Remove the effects of the suspects from the numbers of a table.

    Writes all columns of the table, for any method that follows. The effects are estimated by a
    mixture of groups whose shares differ between the values of the suspects, so that differences
    of the groups are kept.
    """
    return execute(context, _commands.correct)


@app.command(epilog=examples(
    "unskew compare data.csv -k 5 --suspect site --report compare.html",
    "unskew compare data.csv -k 5 -s site --labels harmony.csv:cluster --also combat",
))
def compare(
    context: Context, data: opt.Data, clusters: opt.Clusters = "8", method: opt.Method = "auto",
    suspect: opt.Suspect = None, weight_column: opt.WeightColumn = None,
    drop: opt.Drop = None, keep: opt.Keep = None, report: opt.Report = None,
    other_labels: opt.OtherLabels = None, also: opt.Also = None,
    balance_strength: opt.BalanceStrength = None, spread_strength: opt.SpreadStrength = None,
    min_effective_sample_size: opt.MinEffectiveSampleSize = None, margin: opt.Margin = None,
    bins: opt.Bins = 5, tol: opt.Tol = None, threads: opt.Threads = None,
    cluster_on: opt.ClusterOn = "non_suspects", adjust: opt.Adjust = "auto",
    init: opt.Init = "partition", n_init: opt.NInit = None, max_iter: opt.MaxIter = None,
    max_categories: opt.MaxCategories = None, strict: opt.Strict = False,
    category: opt.Category = None, number: opt.AsNumber = None,
    number_scale: opt.NumberScale = "robust", seed: opt.Seed = 0, quick: opt.Quick = False,
    format: opt.Format = None, no_header: opt.NoHeader = False, separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8", missing: opt.Missing = None, variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None, blocks: opt.Blocks = False, cache: opt.Cache = None,
    config: opt.Config = None, json: opt.Json = False, quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Compare the clusters of fit with baselines on the same table.

    Baselines: k-means, k-means with suspects dropped or regressed out, two-step methods, and
    clusters of any other tool (--labels). The verdict is that of fit with the same options.
    """
    return execute(context, _commands.compare)
# fmt: on


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; an error of usage is one line."""
    try:
        with exit_on_sigterm():
            code = app(arguments or ["--help"], prog_name="unskew", standalone_mode=False)
            return code if isinstance(code, int) else 0
    except UsageError as error:
        if "--debug" in arguments:
            traceback.print_exc()
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "unskew"
        sys.stderr.write(f"{path}: {_usage_message(error, context)} (see {path} --help)\n")
        return 2
    except OSError as error:  # of --help and --version; commands report their own
        discard_output()
        sys.stderr.write(f"unskew: standard output: {why(error)}\n")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("unskew: stopped by Ctrl-C\n")
        return 130


def _usage_message(error: Any, context: Any) -> str:
    """The message in one line, after the name of the config file if the value comes from it."""
    words = visible(" ".join(error.format_message().split()))
    parameter = getattr(error, "param", None)
    source = context and parameter and context.get_parameter_source(parameter.name)
    from_file = source and source.name == "DEFAULT_MAP"
    return f"{context.params.get('config')}: {words}" if from_file else words


@contextlib.contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Raise SystemExit on SIGTERM, so that outputs are handled as with Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
