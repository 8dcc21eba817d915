"""State of one command: options, terminal, inputs, outputs, record of the run."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import rich_click as click
from rich.padding import Padding
from sklearn.base import clone

from .. import save
from .._data.block_table import open_table
from .._io import (
    Content,
    FileError,
    InputTable,
    Outputs,
    Table,
    path_of_run,
    read_labels,
    read_run,
    record_of,
    run_text,
    same_file,
    table_bytes,
    table_format,
)
from .._records import ColumnWarning, Finding, by_topic
from ..report import WRITERS, plain
from ..report._terminal import console_for, count_kinds, facts, print_lines, several
from ._config import DIGESTS, options_as_toml
from ._console import Terminal, in_flags
from ._inputs import Study

# Options that name output files.
OUTPUTS = ("model", "checkpoint", "report", "labels", "weights", "out")
# Options that do not affect the result.
NOT_RECORDED = ("config", "json", "quiet", "debug")


class Session(Terminal):
    """Passed to the steps of a command.

    options : value of each option by the name of its parameter; None if it is not given
    changed : options whose value differs from the default
    configuration : options that affect the result, by their long flags
    """

    def __init__(self, context: click.Context):
        given, verb = context.params, context.command.name or ""
        super().__init__(verb, quiet=given["quiet"], as_json=given["json"])
        declared = click.Context(context.command)  # without the values of --config
        defaults = {p.name or "": p.get_default(declared) for p in context.command.params}
        self.options: dict[str, Any] = {
            name: (list(given[name]) or None) if isinstance(given[name], tuple) else given[name]
            for name in defaults
        }
        self.changed = {n for n, v in self.options.items() if v not in (None, defaults[n])}
        self.configuration = {
            n.replace("_", "-"): v for n, v in self.options.items() if n not in NOT_RECORDED
        }
        self.tables: list[Table] = []
        self.findings: list[Finding] = []
        self.written: dict[str, str] = {}
        self.subsample = ""  # which rows are analysed, if not all
        self._recorded: dict[str, str] = context.meta.get(DIGESTS, {})
        self._outputs = Outputs()

    # --------------------------------------------------------------------------------- inputs
    def read_data(self) -> Table:
        given, source = self.options, self.options["data"]
        reading = ("format", "separator", "encoding", "missing", "variable", "max_bytes")
        same = {name: given[name] for name in (*reading, "blocks", "cache")}
        with self.progress(f"reading {'standard input' if source == '-' else source}"):
            table = open_table(source, header=not given["no_header"], **same)
        return self._note_input(table)

    def _note_input(self, table: Table) -> Table:
        """Add the table to the inputs of the run; warn if it is not that of the recorded run."""
        self.tables.append(table)
        for note in table.notes:
            self.warn(note)
        before = self._recorded.get(os.path.basename(table.name), table.sha256)
        if before != table.sha256:
            digests = f"SHA-256 {table.sha256[:12]}... instead of {before[:12]}..."
            self.warn(f"{table.name}: is not the file of the recorded run ({digests})")
        return table

    def read_labels(self, n: int) -> dict[str, list]:
        """FILE:COLUMN -> labels of the n rows of the data, for each --labels of compare."""
        given, missing = self.options["labels"] or (), self.options["missing"]
        tables, labels = read_labels(given, n, "--labels", missing)
        for table in tables:
            self._note_input(table)
        return labels

    @contextlib.contextmanager
    def step(self, words: str) -> Iterator[None]:
        """A step that the terminal shows; its errors name the data."""
        with self._named_errors(), self.progress(words):
            yield

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Raise errors of the library about data or options again with the name of the file."""
        try:
            yield
        except FileError:
            raise
        except (ValueError, TypeError) as error:
            name = self.tables[0].name if self.tables else self.verb
            raise FileError(f"{name}: {in_flags(str(error))}") from error

    def inspect_columns(self, study: Study) -> Any:
        """Fit the encoder to a table in memory, for the findings of all columns at once.

        Returns the encoder; None for a matrix, and for blocks, where it would cost a pass.
        """
        if study.encoder is None or not isinstance(study.table, InputTable):
            return None
        with self._named_errors():
            encoder = clone(study.encoder).fit(study.X)
        found = (*study.table.findings, *encoder.findings_)
        self.findings = [finding for finding in found if finding.column in encoder.kinds_]
        warnings.simplefilter("ignore", ColumnWarning)  # the block has what it says
        return encoder

    def show_findings(self, study: Study) -> None:
        """Show what was made of the columns, in one block on standard error."""
        if self.quiet and not self.as_json:
            return
        encoder = self.inspect_columns(study)
        if encoder is not None and not self.quiet:
            self.note(f"columns of {study.table.name}: {count_kinds(encoder.kinds_)}")
            block = facts(*by_topic(self.findings, flags=True).items())
            print_lines(self.errors, Padding(block, (0, 0, 0, 2)))

    def with_subsample(self, found: Any) -> Any:
        """Diagnostics, with a note if they are those of a subsample."""
        notes = (self.subsample, *found.notes) if self.subsample else found.notes
        return dataclasses.replace(found, notes=notes)

    # -------------------------------------------------------------------------------- outputs
    @contextlib.contextmanager
    def outputs(self, names: tuple[str, ...] = OUTPUTS, *, record: bool = True) -> Iterator[None]:
        """Check every output before the computation; all files are moved into place at the end."""
        values = {n: path for n, path in self.options.items() if path is not None}
        given = {name: values[name] for name in names if name in values}
        inputs = [values[n] for n in ("data", "model", "config") if n in values and n not in given]
        with Outputs(tuple(inputs)) as self._outputs:
            if self.as_json:
                self._outputs.claim("-", "--json")
            for name, path in given.items():
                self._claim(name, path)
            place = self._record_path(given) if record else None
            if place is not None:
                self._outputs.claim(place, "the record of the run")
            yield
            if place is not None:
                options = options_as_toml(self.configuration, place.parent)
                self._outputs.write(place, run_text(self.verb, options, self.tables))
                self.written["run"] = str(place)
            self._outputs.commit()

    def _claim(self, name: str, path: str) -> None:
        if name in ("model", "checkpoint") and path == "-":
            raise FileError(f"--{name} - : a {name} is written to a file only")
        if name in ("labels", "weights", "out"):
            table_format(path)
            self.output_is_taken |= path == "-"
        if name == "report" and Path(path).suffix.lower() not in WRITERS:
            raise FileError(f"{path}: --report should end in .html, .htm, .md or .json")
        self._outputs.claim(path, f"--{name}")

    def _record_path(self, outputs: dict[str, str]) -> Path | None:
        """Path of the record of the run; None without one, or if the run repeats a recorded one."""
        place = path_of_run(path for name, path in outputs.items() if name != "checkpoint")
        config = self.options["config"]
        if place is None or config is None or not same_file(place, config):
            return place
        before, _ = read_run(config, self.verb)
        if before != tomllib.loads(options_as_toml(self.configuration, place.parent)):
            reason = "the record of this run would overwrite its --config, which has other options"
            raise FileError(f"{place}: {reason}; rename the output or the --config file")
        return None

    def write(self, name: str, make: Callable[[str], Content]) -> None:
        """Write what `make(path)` returns to the output of the option `name`, if it is given."""
        path = self.options[name]
        if path is not None:
            self._outputs.write(path, make(path))
            if path != "-":
                self.written[name] = path

    def write_table(self, name: str, columns: dict[str, Any]) -> None:
        self.write(name, lambda path: table_bytes(path, columns))

    def write_model(self, estimator: Any) -> None:
        self.write("model", lambda _: functools.partial(save, estimator))

    def write_report(self, found: Any) -> None:
        if self.options["report"] is not None:
            with self.progress("writing the report"):
                self.write("report", lambda path: WRITERS[Path(path).suffix.lower()](found))

    def show_result(self, *shown: Any, **content: Any) -> None:
        """Print the summary and the names of the outputs; with --json a document of the content."""
        self.note_times()
        written = several(self.written.values(), 9)
        if not self.quiet:
            console = self.errors if self.output_is_taken else console_for(sys.stdout)
            print_lines(console, *shown, facts(("rows", self.subsample), ("written", written)))
        if self.as_json:
            document = {
                **record_of(self.verb, self.tables),
                "configuration": self.configuration,
                "findings": [finding._asdict() for finding in self.findings],
                **content,
                "outputs": self.written,
                "warnings": self.warnings,
            }
            sys.stdout.write(json.dumps(plain(document), indent=2, default=str) + "\n")
            sys.stdout.flush()
