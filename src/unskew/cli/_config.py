"""Options from a TOML file, and records of runs, which can be passed as such files."""

from __future__ import annotations

import difflib
import json
import os
import platform
import tomllib
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from .._io import FileError, why

# Options whose paths are relative to the folder of the file.
PATHS = ("data", "report", "labels", "other_labels", "weights", "model", "checkpoint", "cache")
MAX_BYTES = 2**20
RECORD = "record"  # the table of a run file that describes the run; not an option
# Options that do not affect the result.
NOT_RECORDED = ("config", "json", "quiet", "debug")


def nearest(word: str, words: list[str]) -> str:
    """'; nearest: ...' for a message, or an empty string."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"; nearest: {close[0]!r}" if close else ""


def by_key(context: typer.Context) -> dict[str, Any]:
    """The parameters of a command by their keys in a file: long flags, without dashes."""
    found = {}
    for parameter in context.command.params:
        flag = next((f[2:] for f in parameter.opts if f.startswith("--")), parameter.name)
        found[str(flag).replace("_", "-")] = parameter
    return found


def use_config(context: typer.Context, path: str | None) -> str | None:
    """Read --config, before all other options, and use its values as their defaults."""
    if path is None or context.resilient_parsing:
        return path
    verb, given = context.command.name, read_toml(path)
    record = given.pop(RECORD, {})
    if not isinstance(record, dict):
        raise FileError(f"{path}: {RECORD!r} = {record!r} should be a table")
    if record.get("verb", verb) != verb:
        raise FileError(f"{path}: records a run of {record['verb']!r}, not of {verb!r}")
    known = {key: p for key, p in by_key(context).items() if key not in ("config", "help")}
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace("_", "-")
        if name not in known:
            raise FileError(
                f"{path}: {key!r} is not an option of {verb}{nearest(name, list(known))}"
            )
        parameter = known[name]
        if parameter.name in values:
            raise FileError(f"{path}: {name!r} is given twice")
        where = f"{path}: {key!r}"
        if getattr(parameter, "is_flag", False):
            if not isinstance(value, bool):
                raise FileError(f"{where} = {value!r} should be true or false")
        elif getattr(parameter, "multiple", False):
            value = [_plain(v, where) for v in (value if isinstance(value, list) else [value])]
        else:
            value = _plain(value, where)
        if parameter.name in PATHS and value != "-":
            folder = os.path.dirname(path)
            if isinstance(value, list):
                value = [os.path.join(folder, str(one)) for one in value]
            else:
                value = os.path.join(folder, str(value))
        values[parameter.name] = value
    context.default_map = {**(context.default_map or {}), **values}
    context.meta["unskew.record"] = record
    return path


def read_toml(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise FileError(f"{path}: has more than {MAX_BYTES:,} bytes, too many for a config")
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise FileError(f"{path}: {why(error)}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: is not TOML: {error}") from error
    except RecursionError:
        raise FileError(f"{path}: is not a config: its values are nested too deeply") from None


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise FileError(f"{where} = {value!r} should be a string or a number")
    # Parsed like on the command line, so that 2.5 for an integer is an error and not 2.
    return str(value) if isinstance(value, float) else value


# ---------------------------------------------------------------------------- the record of a run


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("unskew", "numpy", "scipy", "scikit-learn", "narwhals", "polars", "skops"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def inputs_record(tables: list[Any]) -> list[dict[str, Any]]:
    return [{"file": t.name, "size": t.size, "sha256": t.sha256} for t in tables]


def options_as_toml(values: dict[str, Any], folder: Path) -> str:
    """Each option of a run as a line of TOML; paths are relative to the folder of the file."""
    lines = []
    for key, value in values.items():
        if value is None or value is False:
            lines.append(f"# {key} is not set")
            continue
        if key in PATHS and isinstance(value, list):
            value = [Path(os.path.relpath(one, folder)).as_posix() for one in value]
        elif key in PATHS and value != "-":
            value = Path(os.path.relpath(value, folder)).as_posix()
        lines.append(_line(key, value))
    return "\n".join(lines)


def run_text(verb: str, values: dict[str, Any], tables: list[Any], folder: Path) -> str:
    """The run as TOML: each option, and inputs and versions in [record]."""
    lines = [
        f"# A run of unskew; to repeat it: unskew {verb} --config THIS_FILE",
        options_as_toml(values, folder),
        *("", f"[{RECORD}]", _line("verb", verb)),
        _line("time", datetime.now(UTC).isoformat(timespec="seconds")),
        *("", f"[{RECORD}.versions]"),
        *(_line(package, version) for package, version in versions().items()),
    ]
    for entry in inputs_record(tables):
        lines += ["", f"[[{RECORD}.inputs]]", *(_line(k, v) for k, v in entry.items())]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any) -> str:
    # Strings, lists and true of JSON are those of TOML, but for the character DEL and inf.
    text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    return f"{key} = {text}".replace("\x7f", "\\u007f")


def changed_inputs(record: dict[str, Any], table: Any) -> list[str]:
    """A warning if the input differs from that of the recorded run."""
    before = {os.path.basename(e["file"]): e["sha256"] for e in record.get("inputs", [])}
    digest = before.get(os.path.basename(table.name), table.sha256)
    if digest == table.sha256:
        return []
    return [
        f"{table.name}: is not the file of the recorded run (SHA-256 {table.sha256[:12]}... "
        f"instead of {digest[:12]}...)"
    ]
