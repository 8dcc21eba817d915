"""State of one command: terminal, inputs, outputs, record of the run."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from .._io import FileError, InputTable, Outputs, need, same_file, table_format
from . import _config
from ._block_table import BlockTable
from ._console import Terminal, in_flags
from ._inputs import read
from ._options import OutputOptions, ReadOptions

REPORTS = (".html", ".htm", ".md", ".json")


class Session:
    """Passed to each command together with its own options."""

    def __init__(self, context: typer.Context, talk: OutputOptions):
        self.verb = context.command.name or ""
        self.talk = talk
        self.terminal = Terminal(self.verb, quiet=talk.quiet, as_json=talk.json)
        self.configuration = _config.configuration(context)
        self.tables: list[InputTable | BlockTable] = []
        self._record = context.meta.get("unskew.record", {})
        self._outputs: Outputs | None = None
        self._run_file: Path | None = None
        self.written: dict[str, str] = {}

    # --------------------------------------------------------------------------------- inputs
    def read(self, source: str, reading: ReadOptions) -> InputTable | BlockTable:
        with self.terminal.working(f"reading {'standard input' if source == '-' else source}"):
            table = read(source, reading)
        self.tables.append(table)
        for note in (*table.notes, *_config.changed_inputs(self._record, [table])):
            self.terminal.warn(note)
        return table

    @contextlib.contextmanager
    def about(self, name: str) -> Iterator[None]:
        """Re-raise library errors about data or options with the name of the file."""
        try:
            yield
        except FileError:
            raise
        except (ValueError, TypeError) as error:
            raise FileError(f"{name}: {in_flags(str(error))}") from error

    # -------------------------------------------------------------------------------- outputs
    @contextlib.contextmanager
    def outputs(
        self,
        inputs: list[str],
        *,
        tables: dict[str, str | None] | None = None,
        report: str | None = None,
        model: str | None = None,
        checkpoint: str | None = None,
        record: bool = True,
    ) -> Iterator[None]:
        """Check every output before the computation; all files are moved into place at the end."""
        tables = tables or {}
        config = self.talk.config
        with Outputs((*inputs, *([config] if config else []))) as outputs:
            self._outputs = outputs
            if self.talk.json:
                outputs.claim("-", "--json")
            if model is not None:
                if model == "-":
                    raise FileError("--model - : a model is written to a file only")
                outputs.claim(model, "--model")
                need("skops", "io", "storing a model")
            if checkpoint is not None:
                if checkpoint == "-":
                    raise FileError("--checkpoint - : a checkpoint is written to a file only")
                outputs.claim(checkpoint, "--checkpoint")
            if report is not None:
                if Path(report).suffix.lower() not in REPORTS:
                    raise FileError(
                        f"{report}: --report should end in {', '.join(REPORTS[:-1])} or .json"
                    )
                outputs.claim(report, "--report")
                for package in ("jinja2", "matplotlib"):
                    need(package, "report", "a report")
            for flag, path in tables.items():
                if path is not None:
                    table_format(path)
                    outputs.claim(path, flag)
                    self.terminal.output_is_taken |= path == "-"
            if record:
                self._claim_record([model, report, *tables.values()], outputs)
            yield
            self._write_record(outputs)
            outputs.commit()

    def write(self, flag: str, path: str, content: Any) -> None:
        if self._outputs is None:
            raise RuntimeError(f"{flag}: outputs should be written inside Session.outputs")
        self._outputs.write(path, content)
        if path != "-":
            self.written[flag.removeprefix("--")] = path

    def _claim_record(self, paths: list[str | None], outputs: Outputs) -> None:
        place = _config.run_file(paths)
        config = self.talk.config
        if place is None:
            return
        if config is not None and same_file(place, config):
            # A recorded run is repeated: its record is kept, and should match this run.
            with open(config, "rb") as file:
                before = tomllib.load(file)
            text = _config.run_text(self.verb, self.configuration, [], place.parent)
            now = tomllib.loads(text)
            before.pop(_config.RECORD, None)
            now.pop(_config.RECORD, None)
            if before != now:
                raise FileError(
                    f"{place}: the record of this run would overwrite its --config, which has "
                    "other options; rename the output or the --config file"
                )
            return
        outputs.claim(place, "the record of the run")
        self._run_file = place

    def _write_record(self, outputs: Outputs) -> None:
        if self._run_file is not None:
            folder = self._run_file.parent
            text = _config.run_text(self.verb, self.configuration, self.tables, folder)
            outputs.write(self._run_file, text)
            self.written["run"] = str(self._run_file)

    # ------------------------------------------------------------------------------- document
    def document(self, **content: Any) -> None:
        self.terminal.document(
            {
                "verb": self.verb,
                "versions": _config.versions(),
                "inputs": _config.inputs_record(self.tables),
                "configuration": self.configuration,
                **content,
                "outputs": {flag: os.fspath(path) for flag, path in self.written.items()},
                "warnings": self.terminal.warnings,
            }
        )
