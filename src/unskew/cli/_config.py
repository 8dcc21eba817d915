"""Options from a TOML file, which may be that of an earlier run, and options as such a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import rich_click as click

from .._io import FileError, nearest, read_run, toml_text

# Options whose paths are relative to the folder of the file.
PATHS = ("data", "report", "labels", "weights", "model", "out", "apply", "checkpoint", "cache")
DIGESTS = "unskew.digests"  # in the context: SHA-256 of the inputs of the recorded run


def use_config(context: click.Context, _: click.Parameter, path: str | None) -> str | None:
    """Callback of --config, which is read before all other options: its values are defaults."""
    if path is not None and not context.resilient_parsing:
        try:
            given, context.meta[DIGESTS] = read_run(path, context.command.name or "")
            context.default_map = _defaults(given, path, context)
        except FileError as error:
            raise click.BadParameter(str(error)) from error
    return path


def _defaults(given: dict[str, Any], path: str, context: click.Context) -> dict[str, Any]:
    """Values of a file by the names of the parameters; keys are the long flags."""
    known: dict[str, Any] = {p.name: p for p in context.command.params if p.name != "config"}
    values: dict[str, Any] = {}
    for key, value in given.items():
        name, flag, where = key.replace("-", "_"), key.replace("_", "-"), f"{path}: {key!r}"
        if name not in known:
            hint = nearest(flag, [other.replace("_", "-") for other in known])
            raise FileError(f"{where} is not an option of {context.command.name}{hint}")
        if name in values:
            raise FileError(f"{path}: {flag!r} is given twice")
        several, boolean = (getattr(known[name], a, False) for a in ("multiple", "is_flag"))
        parts = value if several and isinstance(value, list) else [value]
        for part in parts:
            if isinstance(part, bool) != boolean or not isinstance(part, (str, int, float)):
                due = "true or false" if boolean else "a string or a number"
                raise FileError(f"{where} = {part!r} should be {due}")
        # As typed, so that 2.5 for an integer is an error and not 2.
        parts = [str(part) for part in parts]
        if name in PATHS:
            folder = os.path.dirname(path)
            parts = [part if part == "-" else os.path.join(folder, part) for part in parts]
        values[name] = parts if several else parts[0]
    return values


def options_as_toml(values: dict[str, Any], folder: Path) -> str:
    """Each option of a run as a line of TOML; paths are relative to the folder of the file."""

    def relative(path: str) -> str:
        return path if path == "-" else Path(os.path.relpath(path, folder)).as_posix()

    given = {key: values[key] for key in PATHS if values.get(key) is not None}
    return toml_text(
        values
        | {k: [*map(relative, v)] if isinstance(v, list) else relative(v) for k, v in given.items()}
    )
