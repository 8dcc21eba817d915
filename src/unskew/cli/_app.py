"""The typer application: commands and error handling."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from .. import __version__
from .._io import FileError
from . import _commands, _demo
from ._console import Terminal, in_flags
from ._options import OutputOptions, flattened
from ._session import Session

UsageError = typer.BadParameter.__mro__[1]  # from click, which some versions of typer vendor


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, so that outputs are handled as with Ctrl-C."""


app = typer.Typer(
    name="unskew",
    help="Clustering under selection bias.\n\n"
    "Learns a weight for each row under which the columns predict each other less, together with "
    "k-means. Start with [bold]unskew demo[/bold], then [bold]unskew audit DATA[/bold].",
    epilog="Reads csv, tsv, jsonl (also .gz), parquet, feather, npy, npz, mat, svmlight; "
    "- is standard input. Exit codes: 0 success, 1 a check failed, 2 bad usage or input.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"unskew {__version__}\n")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    pass


def add(body: Callable[..., int], examples: str) -> None:
    """Register a function `body(run, ...)` that returns an exit code as a command."""

    def call(context: typer.Context, talk: OutputOptions, given: dict[str, Any]) -> int:
        with guard(body.__name__, talk.debug):
            run = Session(context, talk)
            with run.terminal.warnings_as_lines():
                return body(run, **given)
        return 2

    paragraphs = (inspect.getdoc(body) or "").split("\n\n")
    app.command(
        body.__name__,
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
        epilog="\n\n".join(["Examples:", *(line.strip() for line in examples.splitlines())]),
    )(flattened(body, call))


class Quit(Exception):
    """Carries an exit code out of typer after the error was printed."""

    def __init__(self, code: int):
        super().__init__(code)
        self.code = code


@contextlib.contextmanager
def guard(verb: str, debug: bool) -> Iterator[None]:
    """Convert errors to one line and an exit code; --debug prints the traceback first."""
    terminal = Terminal(verb)
    try:
        yield
    except BrokenPipeError:
        # The reader of the output was closed (| head). The rest of the buffer is discarded.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Quit(141) from None
    except KeyboardInterrupt as error:
        ended = isinstance(error, Terminated)
        terminal.error("terminated by SIGTERM" if ended else "stopped by Ctrl-C")
        raise Quit(143 if ended else 130) from None
    except (typer.Exit, typer.Abort, UsageError):
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        expected = isinstance(error, (FileError, ValueError, TypeError, OSError, ImportError))
        words = in_flags(str(error)) if isinstance(error, (ValueError, TypeError)) else str(error)
        if isinstance(error, ModuleNotFoundError) and error.name:
            words = f"{error.name} is not installed; pip install 'unskew[cli]'"
        if isinstance(error, MemoryError):
            words = "out of memory"
        elif not expected:
            words = f"internal error: {type(error).__name__}: {words}"
            words += "" if debug else "; --debug shows the traceback"
        terminal.error(words)
        raise Quit(2) from None


@contextlib.contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, in the main thread only."""

    def terminate(*_: Any) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, terminate)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run(arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        with termination_as_interrupt():
            code = command.main(arguments or ["--help"], prog_name="unskew", standalone_mode=False)
            return code if isinstance(code, int) else 0
    except Quit as quit_:
        return quit_.code
    except UsageError as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "unskew"
        words = " ".join(error.format_message().split())
        sys.stderr.write(f"{path}: {_with_source(error, words)} (see {path} --help)\n")
        return 2
    except FileError as error:  # from --config, read while options are parsed
        if "--debug" in arguments:
            traceback.print_exc()
        sys.stderr.write(f"unskew: {error}\n")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("unskew: stopped by Ctrl-C\n")
        return 130


def _with_source(error: Any, words: str) -> str:
    """Prefix the message with the config file if the bad value comes from it."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None or parameter is None:
        return words
    source = context.get_parameter_source(parameter.name)
    from_file = source is not None and source.name == "DEFAULT_MAP"
    return f"{context.params.get('config')}: {words}" if from_file else words


add(
    _demo.demo,
    "unskew demo",
)
add(
    _commands.audit,
    """unskew audit data.csv
    unskew audit data.parquet --suspect site --report audit.html""",
)
add(
    _commands.fit,
    """unskew fit data.csv -k 5 --suspect site --report out.html
    unskew fit data.parquet -k 5 -s site -w weight --id patient --labels labels.csv --model m.skops
    zcat data.csv.gz | unskew fit - -k 3 --labels - --quiet > labels.csv
    unskew fit --config out.run.toml""",
)
add(
    _commands.predict,
    """unskew predict m.skops new.csv > labels.csv
    unskew predict m.skops new.parquet --labels labels.parquet --weights weights.parquet""",
)
add(
    _commands.weigh,
    """unskew weigh data.csv --suspect site > weights.csv
    unskew weigh data.csv --weights weights.parquet --report weights.html""",
)
add(
    _commands.compare,
    "unskew compare data.csv -k 5 --suspect site --report compare.html",
)
