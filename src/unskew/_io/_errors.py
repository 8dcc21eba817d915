"""The one error of this room, and the sentences that several of its files need."""

from __future__ import annotations

import errno
import importlib
from types import ModuleType
from typing import Any


class FileError(ValueError):
    """A file that cannot be read or written; the message names file, place and rule."""


def why(error: OSError) -> str:
    """What the system said, in words that name the rule."""
    words = {
        errno.ENOENT: "no such file",
        errno.EACCES: "permission denied",
        errno.EPERM: "permission denied",
        errno.EISDIR: "is a folder, not a file",
        errno.ENOTDIR: "a part of the path is a file, not a folder",
        errno.ENOSPC: "no space left on the disk",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the file system is read-only",
        errno.ENAMETOOLONG: "the name is too long",
    }
    return words.get(error.errno or 0) or (error.strerror or str(error)).lower()


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """Import late; a missing package is an error that says what to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise FileError(
            f"{purpose} needs {error.name}, which is not installed; pip install 'unskew[{extra}]'"
        ) from error


def one_line(error: Any) -> str:
    """The first line of another library's message, for use inside a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
