"""State of one command: options, terminal, inputs, outputs, record of the run."""

from __future__ import annotations

import contextlib
import os
import sys
import tomllib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from .._io import (
    Content,
    FileError,
    Outputs,
    is_special,
    need,
    read_table,
    same_file,
    stem_of,
    table_bytes,
    table_format,
)
from . import _config
from ._block_table import Table
from ._console import Terminal, in_flags
from ._inputs import one, read

# Options that name output files.
OUTPUTS = ("model", "checkpoint", "report", "labels", "weights")


@contextlib.contextmanager
def session(context: typer.Context) -> Iterator[Session]:
    """Run a command: an error becomes one line and an exit code; --debug adds the traceback."""
    run = Session(context)
    try:
        with run.terminal.warnings_as_lines():
            yield run
    except BrokenPipeError:
        # The reader of the output was closed (| head). The rest of the buffer is discarded.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    except KeyboardInterrupt:
        run.terminal.error("stopped by Ctrl-C")
        raise typer.Exit(130) from None
    except SystemExit as error:  # see _app.exit_on_sigterm
        run.terminal.error("terminated by SIGTERM")
        raise typer.Exit(int(error.code or 0)) from None
    except Exception as error:
        if run.options["debug"]:
            traceback.print_exc()
        run.terminal.error(_in_words(error, run.options["debug"]))
        raise typer.Exit(2) from None


def _in_words(error: Exception, debug: bool) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{error.name} is not installed; pip install 'unskew[cli]'"
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, (ValueError, TypeError)):  # FileError is a ValueError
        return in_flags(str(error))
    if isinstance(error, (OSError, ImportError)):
        return str(error)
    hint = "" if debug else "; --debug shows the traceback"
    return f"internal error: {type(error).__name__}: {error}{hint}"


class Session:
    """Passed to the steps of a command.

    options : dict
        Value of each option by the name of its parameter; None if it is not given.
    configuration : dict
        Options that affect the result, by their keys in a file.
    """

    def __init__(self, context: typer.Context):
        self.verb = context.command.name or ""
        self.options: dict[str, Any] = {
            name: (list(value) or None) if isinstance(value, (list, tuple)) else value
            for name, value in context.params.items()
        }
        self.configuration = {
            key: self.options[parameter.name]
            for key, parameter in _config.by_key(context).items()
            if parameter.name in self.options and parameter.name not in _config.NOT_RECORDED
        }
        self.terminal = Terminal(
            self.verb, quiet=self.options["quiet"], as_json=self.options["json"]
        )
        self.tables: list[Table] = []
        self.written: dict[str, str] = {}
        self._record = context.meta.get("unskew.record", {})
        self._outputs = Outputs()

    # --------------------------------------------------------------------------------- inputs
    def read_data(self) -> Table:
        source = self.options["data"]
        with self.terminal.working(f"reading {'standard input' if source == '-' else source}"):
            table = read(source, self.options)
        self.tables.append(table)
        for note in (*table.notes, *_config.changed_inputs(self._record, table)):
            self.terminal.warn(note)
        return table

    def read_labels(self, n: int) -> dict[str, Any]:
        """FILE:COLUMN -> labels of the n rows of the data, for each --labels of compare."""
        found: dict[str, Any] = {}
        for text in self.options["other_labels"] or ():
            path, column = _file_and_column(text)
            table = read_table(path, missing=tuple(self.options["missing"] or ()))
            self.tables.append(table)
            for note in (*table.notes, *_config.changed_inputs(self._record, table)):
                self.terminal.warn(note)
            one(table, column, "--labels")
            if len(table) != n:
                raise FileError(
                    f"{table.name}: has {len(table):,} rows but should have {n:,}, those of the "
                    "data in the same order (--labels)"
                )
            values = table.column(column)
            values = values.to_list() if table.is_frame else values.tolist()
            gap = next((i for i, v in enumerate(values) if v is None or v != v), None)
            if gap is not None:
                raise FileError(
                    f"{table.name}: column {column!r} (--labels), {table.place(gap)}: is missing; "
                    "each row should have a label"
                )
            title = f"{os.path.basename(path)}:{column}"
            if title in found:
                raise FileError(f"--labels {title} is given twice")
            found[title] = values
        return found

    @contextlib.contextmanager
    def step(self, name: str, words: str, *, progress: bool = False) -> Iterator[None]:
        """A step that the terminal shows, with bars if it reports its progress. Errors of the
        library about data or options are raised again with the name of the file."""
        shown = self.terminal.progress if progress else self.terminal.working
        try:
            with shown(words):
                yield
        except FileError:
            raise
        except (ValueError, TypeError) as error:
            raise FileError(f"{name}: {in_flags(str(error))}") from error

    # -------------------------------------------------------------------------------- outputs
    @contextlib.contextmanager
    def outputs(self, names: tuple[str, ...] = OUTPUTS, *, record: bool = True) -> Iterator[None]:
        """Check every output before the computation; all files are moved into place at the end."""
        values = {n: path for n, path in self.options.items() if path is not None}
        given = {name: values[name] for name in names if name in values}
        inputs = [values[n] for n in ("data", "model", "config") if n in values and n not in given]
        config = self.options["config"]
        with Outputs(tuple(inputs)) as self._outputs:
            if self.options["json"]:
                self._outputs.claim("-", "--json")
            for name, path in given.items():
                self._claim(name, path)
            place = _run_file(given) if record else None
            if place is not None and config is not None and same_file(place, config):
                self._check_same_options(place)
                place = None  # a recorded run is repeated: its record is kept
            if place is not None:
                self._outputs.claim(place, "the record of the run")
            yield
            if place is not None:
                text = _config.run_text(self.verb, self.configuration, self.tables, place.parent)
                self._outputs.write(place, text)
                self.written["run"] = str(place)
            self._outputs.commit()

    def _claim(self, name: str, path: str) -> None:
        if name in ("model", "checkpoint") and path == "-":
            raise FileError(f"--{name} - : a {name} is written to a file only")
        if name in ("labels", "weights"):
            table_format(path)
            self.terminal.output_is_taken |= path == "-"
        if name == "report":
            from ..report import WRITERS

            if Path(path).suffix.lower() not in WRITERS:
                raise FileError(f"{path}: --report should end in .html, .htm, .md or .json")
        self._outputs.claim(path, f"--{name}")
        if name == "model":
            need("skops", "io", "storing a model")
        if name == "report":
            need("jinja2", "report", "a report")
            need("matplotlib", "report", "a report")

    def _check_same_options(self, record: Path) -> None:
        now = tomllib.loads(_config.options_as_toml(self.configuration, record.parent))
        before = _config.read_toml(str(record))
        before.pop(_config.RECORD, None)
        if before != now:
            raise FileError(
                f"{record}: the record of this run would overwrite its --config, which has "
                "other options; rename the output or the --config file"
            )

    def write(self, name: str, content: Content) -> None:
        """Write the output of the option `name`."""
        path = self.options[name]
        self._outputs.write(path, content)
        if path != "-":
            self.written[name] = path

    def write_table(self, name: str, ids: tuple[str, Any], **columns: Any) -> None:
        """Write columns next to the row identifiers, if the option `name` is given."""
        path = self.options[name]
        if path is not None:
            self.write(name, table_bytes(path, {ids[0]: ids[1], **columns}))

    def write_report(self, found: Any) -> None:
        path = self.options["report"]
        if path is not None:
            from ..report import WRITERS

            with self.terminal.working("writing the report"):
                content = WRITERS[Path(path).suffix.lower()](found)
            self.write("report", content)

    # ------------------------------------------------------------------------------- document
    def document(self, **content: Any) -> None:
        self.terminal.document(
            {
                "verb": self.verb,
                "versions": _config.versions(),
                "inputs": _config.inputs_record(self.tables),
                "configuration": self.configuration,
                **content,
                "outputs": self.written,
                "warnings": self.terminal.warnings,
            }
        )


def _file_and_column(text: str) -> tuple[str, str]:
    """FILE:COLUMN at the last colon that follows the name of a file; both may contain colons."""
    parts = text.split(":")
    splits = [(":".join(parts[:i]), ":".join(parts[i:])) for i in range(len(parts) - 1, 0, -1)]
    whole = [(path, column) for path, column in splits if path and column]
    if not whole:
        raise FileError(f"--labels {text!r} should be FILE:COLUMN, for example other.csv:cluster")
    return next((split for split in whole if os.path.exists(split[0])), whole[0])


def _run_file(outputs: dict[str, str]) -> Path | None:
    """Path of the record of a run: in the folder of its first output file, None without one."""
    for name, path in outputs.items():
        if name != "checkpoint" and path != "-" and not is_special(Path(path)):
            return Path(path).parent / f"{stem_of(path)}.run.toml"
    return None
