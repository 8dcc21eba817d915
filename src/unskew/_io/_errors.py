"""The error class of this subpackage, and helpers for error messages."""

from __future__ import annotations

import difflib
import errno
import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any


class FileError(ValueError):
    """A file cannot be read or written; the message names file, position and rule."""


def why(error: OSError) -> str:
    """Reason of an OSError as a short phrase."""
    words = {
        errno.ENOENT: "no such file",
        errno.EACCES: "permission denied",
        errno.EPERM: "permission denied",
        errno.EISDIR: "is a folder, not a file",
        errno.ENOTDIR: "a part of the path is a file, not a folder",
        errno.ENOSPC: "no space left on the disk",
        errno.EDQUOT: "disk quota exceeded",
        errno.EROFS: "the file system is read-only",
        errno.ENAMETOOLONG: "the name is too long",
    }
    return words.get(error.errno or 0) or (error.strerror or str(error)).lower()


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional package; if it is missing, raise an error with the extra to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise FileError(
            f"{purpose} needs {error.name}, which is not installed; pip install 'unskew[{extra}]'"
        ) from error


def nearest(word: str, words: Sequence[str]) -> str:
    """; nearest: ... for a message about an unknown name, or an empty string."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"; nearest: {close[0]!r}" if close else ""


def one_line(error: Any) -> str:
    """The first line of another library's message, for use inside a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
