"""Options from a TOML file, and records of runs, which can be passed as such files."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import rich_click as click

from .._compat import installed_versions
from .._io import FileError, Table, nearest, read_toml, toml_text

# Options whose paths are relative to the folder of the file.
PATHS = ("data", "report", "labels", "weights", "model", "out", "apply", "checkpoint", "cache")
RECORD = "record"  # the table of a run file that describes the run; not an option


def use_config(context: click.Context, _: click.Parameter, path: str | None) -> str | None:
    """Callback of --config, which is read before all other options: its values are defaults."""
    if path is not None and not context.resilient_parsing:
        try:
            given = read_toml(path)
            record, verb = given.pop(RECORD, {}), context.command.name
            context.meta[RECORD] = _recorded_digests(record, path, verb)
            context.default_map = _defaults(given, path, context)
        except FileError as error:
            raise click.BadParameter(str(error)) from error
    return path


def _recorded_digests(record: Any, path: str, verb: str | None) -> dict[str, str]:
    """Name of each input of the recorded run -> its SHA-256."""
    try:
        if record.get("verb", verb) != verb:
            raise FileError(f"{path}: records a run of {record['verb']!r}, not of {verb!r}")
        return {os.path.basename(e["file"]): str(e["sha256"]) for e in record.get("inputs", [])}
    except (AttributeError, TypeError, KeyError):
        what = f"{RECORD!r} = {record!r:.60}"
        raise FileError(f"{path}: {what} should be a table with inputs: file and sha256") from None


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


def record_of(verb: str, tables: list[Table]) -> dict[str, Any]:
    """The command, versions and inputs of a run."""
    packages = ("unskew", "numpy", "scipy", "scikit-learn", "narwhals", "polars", "skops")
    return {
        "verb": verb,
        "versions": {"python": platform.python_version(), **installed_versions(*packages)},
        "inputs": [{"file": t.name, "size": t.size, "sha256": t.sha256} for t in tables],
    }


def options_as_toml(values: dict[str, Any], folder: Path) -> str:
    """Each option of a run as a line of TOML; paths are relative to the folder of the file."""

    def relative(path: str) -> str:
        return path if path == "-" else Path(os.path.relpath(path, folder)).as_posix()

    given = {key: values[key] for key in PATHS if values.get(key) is not None}
    paths = {
        k: [*map(relative, v)] if isinstance(v, list) else relative(v) for k, v in given.items()
    }
    return toml_text(values | paths)


def run_text(verb: str, values: dict[str, Any], tables: list[Table], folder: Path) -> str:
    """The run as TOML: each option, and inputs and versions in [record]."""
    time = datetime.now(UTC).isoformat(timespec="seconds")
    record = toml_text({RECORD: {**record_of(verb, tables), "time": time}})
    head = f"# A run of unskew; to repeat it: unskew {verb} --config THIS_FILE\n"
    return head + options_as_toml(values, folder) + record
