"""Reading of small TOML files, and text of TOML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from ._errors import FileError, why

MAX_BYTES = 2**20


def read_toml(path: str | Path) -> dict[str, Any]:
    """Content of a TOML file; errors name the file."""
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


def toml_text(values: dict[str, Any], table: str = "") -> str:
    """Values as lines of TOML: strings, numbers, true, and lists of these. None and False are
    comments, a dict is a table and a list of dicts an array of tables."""
    lines, tables = [], []
    for key, value in values.items():
        name = f"{table}.{key}" if table else key
        if isinstance(value, dict):
            tables.append(f"\n[{name}]\n{toml_text(value, name)}")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            tables += [f"\n[[{name}]]\n{toml_text(each, name)}" for each in value]
        elif value is None or value is False:
            lines.append(f"# {key} is not set\n")
        else:
            lines.append(f"{key} = {_toml_value(value)}\n")
    return "".join(lines + tables)


def _toml_value(value: Any) -> str:
    # Strings, lists and true of JSON are those of TOML, but for the character DEL and inf.
    text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")
