"""Atomic writing: temporary file in the same folder, fsync, rename.

An exception, Ctrl-C or a full disk leaves the old file intact and no temporary file. kill -9 or a
power failure can leave a hidden `.NAME.*.part` file; the old file is intact then, too, and the next
output with the name removes it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import platform
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._errors import FileError, need, why
from ._formats import STANDARD, SUFFIXES, TABLES, TEXT, split_name, stem_of

# What a file should hold: bytes, text in UTF-8, or a function that writes to a given path.
Content = bytes | str | Callable[[Path], Any]


def same_file(one: str | os.PathLike, other: str | os.PathLike) -> bool:
    """Whether two paths are the same file, possibly by a symbolic or hard link."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def is_special(path: Path) -> bool:
    """Whether the path is a device or a pipe, which is written directly instead of replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def check_output(path: str | os.PathLike) -> None:
    """Raise FileError unless a file can be written at `path`. No file is left."""
    given, path = path, Path(os.path.realpath(path))
    if path.is_dir():
        raise FileError(f"{given}: is a folder; the output should be a file")
    if is_special(path):
        return
    if not path.parent.exists():
        raise FileError(f"{given}: the folder {path.parent} does not exist")
    if path.exists() and not path.stat().st_mode & 0o222:
        raise FileError(f"{given}: the file is read-only and would be replaced")
    try:
        _make_temporary(path).unlink()
    except OSError as error:
        raise FileError(f"{given}: cannot be written: {why(error)}") from error
    _remove_abandoned(path)


def _make_temporary(target: Path) -> Path:
    """A new file in the folder of `target`: .STEM.HOST-PID.RANDOM.part.SUFFIX. It keeps the suffix,
    for writers that depend on it."""
    own = f"{_host()}-{os.getpid()}"
    stem = stem_of(target)[:100]  # names have at most 255 bytes
    handle, name = tempfile.mkstemp(
        prefix=f".{stem}.{own}.", suffix=f".part{target.suffix}", dir=target.parent
    )
    os.close(handle)
    return Path(name)


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9]", "", platform.node())[:32] or "host"


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of `target` whose process on this machine was killed."""
    if os.name != "posix":  # os.kill(pid, 0) does not end the process there only
        return
    stem, suffix = re.escape(stem_of(target)[:100]), re.escape(target.suffix)
    pattern = re.compile(rf"\.{stem}\.{_host()}-(\d+)\.[^.]+\.part{suffix}")
    with contextlib.suppress(OSError):
        for name in os.listdir(target.parent):
            found = pattern.fullmatch(name)
            if found and not _is_running(int(found[1])):
                os.unlink(target.parent / name)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # a process of another user
        return True
    return True


class Outputs:
    """A set of output files: all are written to temporary files first and renamed at the end.

    Parameters
    ----------
    inputs : paths that should not be overwritten

    Use as a context manager: `claim` all paths before the computation (each is checked, none is
    changed), `write` them, and `commit`. Leaving without `commit` discards everything.
    """

    def __init__(self, inputs: tuple[str | os.PathLike, ...] = ()):
        self._inputs = [path for path in inputs if str(path) != STANDARD]
        self._claimed: dict[str, str] = {}
        self._staged: list[tuple[Path, Path]] = []
        self._for_standard: list[bytes] = []

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, *exception: Any) -> None:
        for temporary, _ in self._staged:
            with contextlib.suppress(OSError):
                temporary.unlink()
        self._staged.clear()

    def claim(self, path: str | os.PathLike, what: str) -> None:
        """Check that `path` can be written; `what` is the name of the output in messages."""
        name = str(path)
        if name == STANDARD and sys.stdout is None:
            raise FileError(f"standard output: is closed; {what} cannot be written there")
        for other, before in self._claimed.items():
            both_standard = name == other == STANDARD
            if both_standard or (STANDARD not in (name, other) and same_file(name, other)):
                where = "standard output" if both_standard else name
                raise FileError(f"{where}: {before} and {what} cannot both be written there")
        if name != STANDARD:
            for source in self._inputs:
                if same_file(name, source):
                    raise FileError(
                        f"{name}: {what} would overwrite the input {source}; choose another name"
                    )
                if os.path.isdir(source) and Path(os.path.realpath(name)).is_relative_to(
                    os.path.realpath(source)
                ):
                    raise FileError(
                        f"{name}: {what} would be written into the input, the folder {source}; "
                        "choose another folder"
                    )
            check_output(name)
        self._claimed[name] = what

    def write(self, path: str | os.PathLike, content: Content) -> None:
        """Write to a temporary file; for standard output, keep the content until `commit`."""
        if str(path) == STANDARD:
            if callable(content):
                raise FileError("standard output: this output should be a file")
            self._for_standard.append(_as_bytes(content))
            return
        target = Path(os.path.realpath(path))
        try:
            if is_special(target):  # not replaced: /dev/null should stay a device
                with tempfile.TemporaryDirectory() as folder:
                    made = Path(folder) / "made"
                    _put(made, content)
                    target.write_bytes(made.read_bytes())
            else:
                self._stage(target, content)
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {why(error)}") from error

    def _stage(self, target: Path, content: Content) -> None:
        temporary = _make_temporary(target)
        self._staged.append((temporary, target))
        _put(temporary, content)
        _sync(temporary)
        os.chmod(temporary, _mode_for(target))

    def commit(self) -> None:
        """Rename all temporary files to their targets; write the output for standard output."""
        try:
            while self._staged:
                temporary, target = self._staged[0]
                os.replace(temporary, target)
                self._staged.pop(0)
                with contextlib.suppress(OSError):  # not every system supports it for folders
                    _sync(target.parent)
        except OSError as error:
            raise FileError(f"{target}: cannot be written: {why(error)}") from error
        for content in self._for_standard:
            stream = getattr(sys.stdout, "buffer", None)
            if stream is None:
                sys.stdout.write(content.decode("utf-8"))
            else:
                sys.stdout.flush()
                stream.write(content)
            sys.stdout.flush()
        self._for_standard.clear()


def _as_bytes(content: bytes | str) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else bytes(content)


def _put(path: Path, content: Content) -> None:
    if callable(content):
        content(path)
    else:
        path.write_bytes(_as_bytes(content))


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mode_for(target: Path) -> int:
    """Permissions of the replaced file, or the default of a new file."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def write_atomic(path: str | os.PathLike, content: Content) -> None:
    """Write one file atomically.

    Parameters
    ----------
    path : target; of a symbolic link, the file it points to is replaced
    content : bytes, str (UTF-8), or a function that writes to a given path

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from unskew._io import write_atomic
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomic(pathlib.Path(folder) / "a.txt", "whole")
    ...     [file.name for file in pathlib.Path(folder).iterdir()]
    ['a.txt']
    """
    with Outputs() as outputs:
        outputs.claim(path, "the file")
        outputs.write(path, content)
        outputs.commit()


def table_format(path: str | os.PathLike) -> tuple[str, bool]:
    """(format, gzipped) of a table to be written at `path`."""
    _, suffix, gzipped = split_name(path)
    if str(path) == STANDARD or (not suffix and is_special(Path(path))):
        return "csv", False
    form = SUFFIXES.get(suffix)
    if form not in TABLES or (gzipped and form not in TEXT):
        known = ", ".join(f".{s}" for s, written in SUFFIXES.items() if written in TABLES)
        raise FileError(
            f"{path}: a table is written as {known} (text formats also .gz), not "
            f"{'.' + suffix if suffix else 'without a suffix'}"
        )
    return form, gzipped


def table_bytes(path: str | os.PathLike, columns: Mapping[str, Any]) -> bytes:
    """A table as the bytes of a file in the format of the suffix of `path`: .csv, .tsv, .jsonl
    (each also .gz), .parquet, .feather, .arrow."""
    form, gzipped = table_format(path)
    polars = need("polars", "io", "writing tables")
    frame = polars.DataFrame(
        {
            name: polars.Series(name, np.ascontiguousarray(values))
            if isinstance(values, np.ndarray) and values.dtype != object
            else polars.Series(name, values)
            for name, values in columns.items()
        }
    )
    buffer = io.BytesIO()
    if form in ("csv", "tsv"):
        frame.write_csv(buffer, separator="\t" if form == "tsv" else ",")
    elif form == "jsonl":
        frame.write_ndjson(buffer)
    elif form == "parquet":
        frame.write_parquet(buffer)
    else:
        frame.write_ipc(buffer, compression="lz4")
    # mtime=0 makes the file reproducible.
    return gzip.compress(buffer.getvalue(), mtime=0) if gzipped else buffer.getvalue()
