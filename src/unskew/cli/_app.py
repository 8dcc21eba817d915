"""The application, and what becomes of errors: one line and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable

import rich_click as click

from .. import __version__
from .._io import why
from .._records import visible
from . import STOPPED
from ._console import in_flags
from ._session import Session

# Panels of the help, in this order.
PANELS = ("Arguments", "Options", "Columns", "Method", "Reading", "Outputs", "Checks", "Run")
SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}
Work = Callable[[Session], int | None]


@click.group(
    epilog="Reads csv, tsv, jsonl (also .gz), parquet, feather, npy, npz, mat, svmlight, Stata, "
    "SPSS, SAS, Excel, and zip of one table; - is standard input. Exit codes: 0 success, 1 a check "
    "failed, 2 bad usage or input.",
    context_settings=SETTINGS,
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def app() -> None:
    """Clustering under selection bias.

    Learns a weight for each row under which the columns predict each other less, together with
    k-means. Start with `unskew demo`, then `unskew audit DATA`.
    """


class _Command(click.RichCommand):
    """A command whose function finds the values of its options in the session."""

    def invoke(self, context: click.Context) -> int:
        assert self.callback is not None
        return _execute(Session(context), self.callback)


def command(*examples: str) -> Callable[[Work], click.Command]:
    """Make a command of a function, with examples below its help."""
    panels = [click.RichOptionPanel(name) for name in PANELS]
    return app.command(cls=_Command, panels=panels, epilog="\n\n".join(["Examples:", *examples]))


def _execute(session: Session, work: Work) -> int:
    """Exit code of a command. An error becomes one line; --debug adds the traceback."""
    try:
        with session.warnings_as_lines():
            return work(session) or 0
    except BrokenPipeError:
        _discard_output()  # the reader of the output was closed (| head)
        return 141
    except KeyboardInterrupt:
        session.error("stopped by Ctrl-C")
        return 130
    except SystemExit as error:
        session.error("terminated by SIGTERM")
        return int(error.code or 0)
    except Exception as error:
        if session.options["debug"]:
            traceback.print_exc()
        session.error(_in_words(error))
        if isinstance(error, OSError):
            _discard_output()
        return 2


def _in_words(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{error.name} is not installed; pip install 'unskew[cli]'"
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, (ValueError, TypeError)):  # FileError is a ValueError
        return in_flags(str(error))
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {why(error)}"
    if isinstance(error, (OSError, ImportError)):
        return str(error)
    return f"internal error: {type(error).__name__}: {error}; --debug shows the traceback"


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; an error of usage is one line."""
    try:
        return app(arguments or ["--help"], prog_name="unskew", standalone_mode=False) or 0
    except click.UsageError as error:
        if "--debug" in arguments:
            traceback.print_exc()
        path = error.ctx.command_path if error.ctx else "unskew"
        sys.stderr.write(f"{path}: {_usage_message(error)} (see {path} --help)\n")
        return 2
    except OSError as error:  # of --help and --version; commands report their own
        _discard_output()
        sys.stderr.write(f"unskew: standard output: {why(error)}\n")
        return 2
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write(STOPPED)
        return 130


def _usage_message(error: click.UsageError) -> str:
    """The message in one line, after the name of the config file if the value comes from it."""
    words, context = visible(" ".join(error.format_message().split())), error.ctx
    parameter = getattr(error, "param", None)
    source = context.get_parameter_source(parameter.name) if context and parameter else None
    from_file = source is not None and source.name == "DEFAULT_MAP"
    return f"{context.params.get('config')}: {words}" if context and from_file else words


def _discard_output() -> None:
    """Discard the rest of standard output, which cannot be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
