"""Reading of small TOML files, and lines of TOML."""

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


def toml_line(key: str, value: Any) -> str:
    """`key = value` for a string, a number, true, or a list of these."""
    # Strings, lists and true of JSON are those of TOML, but for the character DEL and inf.
    text = repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    return f"{key} = {text}".replace("\x7f", "\\u007f")
