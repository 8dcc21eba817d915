"""Options from a TOML file, and records of runs, which can be passed as such files."""

from __future__ import annotations

import difflib
import json
import os
import platform
import tomllib
from datetime import UTC, datetime
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from .._io import FileError, stem_of

# Options whose paths are relative to the folder of the file.
PATHS = ("data", "report", "labels", "weights", "model", "checkpoint", "cache")
MAX_BYTES = 2**20
RECORD = "record"  # the table of a run file that describes the run; not an option
# Options that do not affect the result.
NOT_RECORDED = ("config", "json", "quiet", "debug")


def key_of(parameter: Any) -> str:
    """Key of an option in a file: its long flag without dashes; the name of an argument."""
    flags = [flag for flag in parameter.opts if flag.startswith("--")]
    return flags[0].removeprefix("--") if flags else parameter.name.replace("_", "-")


def nearest(word: str, words: list[str]) -> str:
    """'; nearest: ...' for a message, or an empty string."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"; nearest: {close[0]!r}" if close else ""


def load_config(path: str, command: Any, verb: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(values by parameter name, record) of a TOML file. Unknown keys raise an error."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise FileError(f"{path}: has more than {MAX_BYTES:,} bytes, too many for a config")
        given = tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise FileError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: is not TOML: {error}") from error
    except RecursionError:
        raise FileError(f"{path}: is not a config: its values are nested too deeply") from None
    record = given.pop(RECORD, {})
    if not isinstance(record, dict):
        raise FileError(f"{path}: {RECORD!r} = {record!r} should be a table")
    made_for = record.get("verb", verb)
    if made_for != verb:
        raise FileError(f"{path}: records a run of {made_for!r}, not of {verb!r}")
    known = {key_of(p): p for p in command.params if p.name not in ("config", "help")}
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
        values[parameter.name] = _checked(parameter, key, value, path)
    folder = os.path.dirname(path)
    for name in PATHS:
        if isinstance(values.get(name), str) and values[name] != "-":
            values[name] = os.path.join(folder, values[name])
    return values, record


def _checked(parameter: Any, key: str, value: Any, path: str) -> Any:
    flag = getattr(parameter, "is_flag", False)
    if flag and not isinstance(value, bool):
        raise FileError(f"{path}: {key!r} = {value!r} should be true or false")
    if parameter.multiple if hasattr(parameter, "multiple") else False:
        values = value if isinstance(value, list) else [value]
        return [_plain(key, v, path) for v in values]
    return value if flag else _plain(key, value, path)


def _plain(key: str, value: Any, path: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise FileError(f"{path}: {key!r} = {value!r} should be a string or a number")
    # Parsed like on the command line, so that 2.5 for an integer is an error and not 2.
    return str(value) if isinstance(value, float) else value


def on_config(context: typer.Context, value: str | None) -> str | None:
    """Read the file before all other options and use its values as their defaults."""
    if value is not None and not context.resilient_parsing:
        verb = context.command.name or ""
        values, record = load_config(value, context.command, verb)
        context.default_map = {**(context.default_map or {}), **values}
        context.meta["unskew.record"] = record
    return value


# ---------------------------------------------------------------------------- the record of a run


def configuration(context: typer.Context) -> dict[str, Any]:
    """Every option of this run by its key; None if it is not set."""
    found = {}
    for parameter in context.command.params:
        if parameter.name in NOT_RECORDED or parameter.name not in context.params:
            continue
        value = context.params[parameter.name]
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, (list, tuple)):
            value = list(value) or None
        found[key_of(parameter)] = value
    return found


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


def run_file(outputs: list[str | None]) -> Path | None:
    """Path of the record of a run: in the folder of its first output file, None without one."""
    for output in outputs:
        if output is not None and output != "-" and not _is_device(output):
            return Path(output).parent / f"{stem_of(output)}.run.toml"
    return None


def _is_device(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def run_text(verb: str, values: dict[str, Any], tables: list[Any], folder: Path) -> str:
    """The run as TOML: each option, and inputs and versions in [record]."""
    lines = [f"# A run of unskew; to repeat it: unskew {verb} --config THIS_FILE"]
    for key, value in values.items():
        if value is None or value is False:
            lines.append(f"# {key} is not set")
            continue
        if key in PATHS and value != "-":
            value = Path(os.path.relpath(value, folder)).as_posix()
        lines.append(f"{key} = {_toml(value)}")
    lines += ["", f"[{RECORD}]", f"verb = {_toml(verb)}"]
    lines.append(f"time = {_toml(datetime.now(UTC).isoformat(timespec='seconds'))}")
    lines += ["", f"[{RECORD}.versions]"]
    lines += [f"{package} = {_toml(version)}" for package, version in versions().items()]
    for entry in inputs_record(tables):
        lines += ["", f"[[{RECORD}.inputs]]"]
        lines += [f"{key} = {_toml(value)}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def changed_inputs(record: dict[str, Any], tables: list[Any]) -> list[str]:
    """Warnings about inputs that differ from those of the recorded run."""
    before = {os.path.basename(e["file"]): e["sha256"] for e in record.get("inputs", [])}
    return [
        f"{table.name}: is not the file of the recorded run (SHA-256 {table.sha256[:12]}... "
        f"instead of {before[os.path.basename(table.name)][:12]}...)"
        for table in tables
        if before.get(os.path.basename(table.name), table.sha256) != table.sha256
    ]
