"""The typer application: commands, and errors of usage."""

from __future__ import annotations

import contextlib
import inspect
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from .. import __version__
from .._io import why
from .._records import visible
from . import _commands
from . import _options as opt
from ._session import Session, discard_output, session

# Base class of all errors of usage. typer does not export it, and some versions vendor click.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="unskew",
    help="Clustering under selection bias.\n\n"
    "Learns a weight for each row under which the columns predict each other less, together with "
    "k-means. Start with [bold]unskew demo[/bold], then [bold]unskew audit DATA[/bold].",
    epilog="Reads csv, tsv, jsonl (also .gz), parquet, feather, npy, npz, mat, svmlight, Stata, "
    "SPSS, SAS, Excel, and zip of one table; - is standard input. Exit codes: 0 success, 1 a check "
    "failed, 2 bad usage or input.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


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


def add(body: Callable[[Session], int], parameters: opt.Parameters, *examples: str) -> None:
    """Register `body(run)`, which finds the values of its parameters in `run.options`."""

    def command(context: typer.Context, **_: Any) -> int:
        with session(context) as run:
            return body(run)

    context = opt.parameter("context", typer.Context)
    signature = inspect.Signature([context, *parameters, *opt.RUN])
    command.__signature__ = signature  # type: ignore[attr-defined]
    paragraphs = (inspect.getdoc(body) or "").split("\n\n")
    app.command(
        body.__name__,
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
        epilog="\n\n".join(["Examples:", *examples]),
    )(command)


add(_commands.demo, opt.DEMO, "unskew demo")
add(
    _commands.columns,
    [opt.DATA, *opt.COLUMNS, *opt.ENCODING, *opt.READING],
    "unskew columns data.csv",
)
add(
    _commands.audit,
    [opt.DATA, *opt.SUSPECTS, *opt.COLUMNS, *opt.REPORT] + [*opt.ENCODING, *opt.SEED, *opt.READING],
    "unskew audit data.csv",
    "unskew audit data.parquet --suspect site --report audit.html",
)
add(
    _commands.fit,
    [opt.DATA, *opt.CLUSTERS, *opt.METHOD, *opt.RUNS, *opt.SUSPECTS, *opt.COLUMNS, *opt.IDS]
    + [*opt.REPORT, *opt.LABELS, *opt.WEIGHTS, *opt.MODEL, *opt.CHECKS]
    + [*opt.WEIGHTING, *opt.CLUSTERING, *opt.ENCODING, *opt.SEED, *opt.READING, *opt.CHECKPOINT],
    "unskew fit data.csv -k 5 --suspect site --report out.html",
    "unskew fit data.parquet -k 5 -s site -w weight --id patient --labels labels.csv "
    "--model m.skops",
    "zcat data.csv.gz | unskew fit - -k 3 --labels - --quiet > labels.csv",
    "unskew fit --config out.run.toml",
)
add(
    _commands.predict,
    [opt.MODEL_FILE, opt.DATA, *opt.IDS, *opt.COLUMNS, *opt.LABELS, *opt.WEIGHTS, *opt.READING],
    "unskew predict m.skops new.csv > labels.csv",
    "unskew predict m.skops new.parquet --labels labels.parquet --weights weights.parquet",
)
add(
    _commands.weigh,
    [opt.DATA, *opt.SUSPECTS, *opt.COLUMNS, *opt.IDS]
    + [*opt.WEIGHTS, *opt.REPORT, *opt.MODEL, *opt.CHECKS]
    + [*opt.WEIGHTING, *opt.ENCODING, *opt.ITERATIONS, *opt.READING, *opt.CHECKPOINT],
    "unskew weigh data.csv --suspect site > weights.csv",
    "unskew weigh data.csv --weights weights.parquet --report weights.html",
)
add(
    _commands.correct,
    [opt.DATA, *opt.SUSPECTS, *opt.COLUMNS, *opt.CORRECTED, *opt.MODEL, *opt.WEIGHTS, *opt.REPORT]
    + [*opt.CORRECTION, *opt.ENCODING, *opt.SEED, *opt.READING],
    "unskew correct data.csv --suspect site --out corrected.parquet --model m.skops",
    "unskew correct new.csv --apply m.skops --out corrected-new.parquet",
    "unskew correct data.csv -s site --protect diagnosis --reference diagnosis=control "
    "--out corrected.csv",
)
add(
    _commands.compare,
    [opt.DATA, *opt.CLUSTERS, *opt.METHOD, *opt.SUSPECTS, *opt.COLUMNS, *opt.REPORT]
    + [*opt.OTHER_TOOLS]
    + [*opt.WEIGHTING, *opt.CLUSTERING, *opt.ENCODING, *opt.SEED, *opt.READING],
    "unskew compare data.csv -k 5 --suspect site --report compare.html",
    "unskew compare data.csv -k 5 -s site --labels harmony.csv:cluster --also combat",
)


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
