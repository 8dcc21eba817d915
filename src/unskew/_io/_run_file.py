"""Files of runs: options as TOML, and in the table [record] the command, versions and inputs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .._compat import installed_versions
from ._errors import FileError
from ._formats import STANDARD, stem_of
from ._table import Table
from ._toml import read_toml, toml_text
from ._write import is_special

RECORD = "record"


def read_run(path: str | Path, verb: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The options in a file, and name of each input of the recorded run -> its SHA-256.

    A file without a record is one of options only. The record of another command is an error.
    """
    options = read_toml(path)
    record = options.pop(RECORD, {})
    try:
        if record.get("verb", verb) != verb:
            raise FileError(f"{path}: records a run of {record['verb']!r}, not of {verb!r}")
        inputs = record.get("inputs", [])
        return options, {os.path.basename(e["file"]): str(e["sha256"]) for e in inputs}
    except (AttributeError, TypeError, KeyError):
        what = f"{RECORD!r} = {record!r:.60}"
        raise FileError(f"{path}: {what} should be a table with inputs: file and sha256") from None


def path_of_run(outputs: Iterable[str]) -> Path | None:
    """NAME.run.toml next to NAME, the first output that is a file; None without one."""
    files = (path for path in outputs if path != STANDARD and not is_special(Path(path)))
    first = next(files, None)
    return None if first is None else Path(first).parent / f"{stem_of(first)}.run.toml"


def record_of(verb: str, tables: list[Table]) -> dict[str, Any]:
    """The command, versions and inputs of a run."""
    packages = ("unskew", "numpy", "scipy", "scikit-learn", "narwhals", "polars", "skops")
    return {
        "verb": verb,
        "versions": {"python": platform.python_version(), **installed_versions(*packages)},
        "inputs": [{"file": t.name, "size": t.size, "sha256": t.sha256} for t in tables],
    }


def run_text(verb: str, options: str, tables: list[Table]) -> str:
    """The file of a run whose options are given as TOML."""
    time = datetime.now(UTC).isoformat(timespec="seconds")
    head = f"# A run of unskew; to repeat it: unskew {verb} --config THIS_FILE\n"
    return head + options + toml_text({RECORD: {**record_of(verb, tables), "time": time}})
