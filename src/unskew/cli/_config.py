"""Options from a TOML file, and records of runs, which can be passed as such files."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from .._compat import installed_versions
from .._io import FileError, Table, nearest, read_toml, toml_line

# Options whose paths are relative to the folder of the file.
PATHS = ("data", "report", "labels", "other_labels", "weights", "model", "checkpoint", "cache")
RECORD = "record"  # the table of a run file that describes the run; not an option
# Options that do not affect the result.
NOT_RECORDED = ("config", "json", "quiet", "debug")


def by_key(context: typer.Context) -> dict[str, Any]:
    """The parameters of a command by their keys in a file: long flags, without dashes."""
    found = {}
    for parameter in context.command.params:
        flag = next((f[2:] for f in parameter.opts if f.startswith("--")), parameter.name)
        found[str(flag).replace("_", "-")] = parameter
    return found


def use_config(context: typer.Context, path: str | None) -> str | None:
    """Callback of --config, which is read before all other options: its values are defaults."""
    if path is not None and not context.resilient_parsing:
        try:
            _set_defaults(context, path)
        except FileError as error:
            raise typer.BadParameter(str(error)) from error
    return path


def _set_defaults(context: typer.Context, path: str) -> None:
    verb, given = context.command.name, read_toml(path)
    record = given.pop(RECORD, {})
    if not isinstance(record, dict):
        raise FileError(f"{path}: {RECORD!r} = {record!r} should be a table")
    inputs = record.get("inputs", [])
    if not isinstance(inputs, list) or not all(
        isinstance(each, dict) and isinstance(each.get("file"), str) and "sha256" in each
        for each in inputs
    ):
        raise FileError(f"{path}: {RECORD}.inputs should be tables with file and sha256")
    if record.get("verb", verb) != verb:
        raise FileError(f"{path}: records a run of {record['verb']!r}, not of {verb!r}")
    known = {key: p for key, p in by_key(context).items() if key not in ("config", "help")}
    values: dict[str, Any] = {}
    for key, value in given.items():
        name, where = key.replace("_", "-"), f"{path}: {key!r}"
        if name not in known:
            raise FileError(f"{where} is not an option of {verb}{nearest(name, list(known))}")
        parameter = known[name]
        if parameter.name in values:
            raise FileError(f"{path}: {name!r} is given twice")
        if getattr(parameter, "is_flag", False):
            if not isinstance(value, bool):
                raise FileError(f"{where} = {value!r} should be true or false")
        elif getattr(parameter, "multiple", False):
            value = [_plain(v, where) for v in (value if isinstance(value, list) else [value])]
        else:
            value = _plain(value, where)
        if parameter.name in PATHS:
            value = _each_path(value, lambda p: os.path.join(os.path.dirname(path), str(p)))
        values[parameter.name] = value
    context.default_map = {**(context.default_map or {}), **values}
    context.meta["unskew.record"] = record


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise FileError(f"{where} = {value!r} should be a string or a number")
    # Parsed like on the command line, so that 2.5 for an integer is an error and not 2.
    return str(value) if isinstance(value, float) else value


def _each_path(value: Any, change: Callable[[Any], str]) -> Any:
    if isinstance(value, list):
        return [change(one) for one in value]
    return value if value == "-" else change(value)


# ---------------------------------------------------------------------------- the record of a run


def versions() -> dict[str, str]:
    packages = ("unskew", "numpy", "scipy", "scikit-learn", "narwhals", "polars", "skops")
    return {"python": platform.python_version(), **installed_versions(*packages)}


def inputs_record(tables: list[Table]) -> list[dict[str, Any]]:
    return [{"file": t.name, "size": t.size, "sha256": t.sha256} for t in tables]


def options_as_toml(values: dict[str, Any], folder: Path) -> str:
    """Each option of a run as a line of TOML; paths are relative to the folder of the file."""
    lines = []
    for key, value in values.items():
        if value is None or value is False:
            lines.append(f"# {key} is not set")
            continue
        if key in PATHS:
            value = _each_path(value, lambda p: Path(os.path.relpath(p, folder)).as_posix())
        lines.append(toml_line(key, value))
    return "\n".join(lines)


def run_text(verb: str, values: dict[str, Any], tables: list[Table], folder: Path) -> str:
    """The run as TOML: each option, and inputs and versions in [record]."""
    lines = [
        f"# A run of unskew; to repeat it: unskew {verb} --config THIS_FILE",
        options_as_toml(values, folder),
        *("", f"[{RECORD}]", toml_line("verb", verb)),
        toml_line("time", datetime.now(UTC).isoformat(timespec="seconds")),
        *("", f"[{RECORD}.versions]"),
        *(toml_line(package, version) for package, version in versions().items()),
    ]
    for entry in inputs_record(tables):
        lines += ["", f"[[{RECORD}.inputs]]", *(toml_line(k, v) for k, v in entry.items())]
    return "\n".join(lines) + "\n"
