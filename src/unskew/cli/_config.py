"""Options from a TOML file, and the record of a run that can be given as one."""

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

# Seen from the file's folder.
PATHS = ("data", "report", "labels", "weights", "model", "checkpoint", "cache")
MAX_BYTES = 2**20
RECORD = "record"  # the table of a run file that says what was run; not an option
# Where a run is written does not say what it is, how it speaks neither.
NOT_RECORDED = ("config", "json", "quiet", "debug")


def key_of(parameter: Any) -> str:
    """How an option is called in a file: its long flag without dashes; an argument by its name."""
    flags = [flag for flag in parameter.opts if flag.startswith("--")]
    return flags[0].removeprefix("--") if flags else parameter.name.replace("_", "-")


def nearest(word: str, words: list[str]) -> str:
    """'; nearest: ...' for a message, or nothing."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"; nearest: {close[0]!r}" if close else ""


def load_config(path: str, command: Any, verb: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(values by parameter name, record) of a TOML file. Unknown keys are errors that name them."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise FileError(f"{path}: has more than {MAX_BYTES:,} bytes; a config is a short text")
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
        raise FileError(f"{path}: {key!r} = {value!r} should be a text or a number")
    # As the command line would have it: 2.5 for a whole number is then an error, not 2.
    return str(value) if isinstance(value, float) else value


def on_config(context: typer.Context, value: str | None) -> str | None:
    """Read before all other options: what the file says is their default."""
    if value is not None and not context.resilient_parsing:
        verb = context.command.name or ""
        values, record = load_config(value, context.command, verb)
        context.default_map = {**(context.default_map or {}), **values}
        context.meta["unskew.record"] = record
    return value


# ---------------------------------------------------------------------------- the record of a run


def configuration(context: typer.Context) -> dict[str, Any]:
    """Every option of this run by its key, None where it is not set."""
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
    """Where the record of a run goes: beside its first output, None without one on disk."""
    for output in outputs:
        if output is not None and output != "-" and not _is_device(output):
            return Path(output).parent / f"{stem_of(output)}.run.toml"
    return None


def _is_device(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def run_text(verb: str, values: dict[str, Any], tables: list[Any], folder: Path) -> str:
    """The run as TOML: each option, and in [record] what it ran on and with."""
    lines = [f"# A run of unskew; again: unskew {verb} --config THIS_FILE"]
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
    """Sentences about inputs that are not those of the recorded run."""
    before = {os.path.basename(e["file"]): e["sha256"] for e in record.get("inputs", [])}
    return [
        f"{table.name}: is not the file of the recorded run (SHA-256 {table.sha256[:12]}... "
        f"instead of {before[os.path.basename(table.name)][:12]}...)"
        for table in tables
        if before.get(os.path.basename(table.name), table.sha256) != table.sha256
    ]
