"""Checks of zip archives and .npy arrays before anything is decompressed or allocated."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np

# Compressed data may expand to MAX_EXPANSION times the size of its file, or to SMALL bytes if that
# is more.
MAX_EXPANSION = 100
SMALL = 2**26
MAX_MEMBERS = 10_000
# A central directory entry has 46 bytes, its name, and 28 bytes if sizes exceed 4 GiB.
ENTRY_BYTES = 128


class ArchiveError(ValueError):
    """An archive or array is invalid; callers add the name of the file."""


class _Bounded:
    """A binary file for `zipfile` that refuses to read more than `limit` bytes at once.

    The central directory is read in one call, with a size that the file itself declares.
    """

    def __init__(self, file: BinaryIO, limit: int):
        self._file, self._limit = file, limit
        self.size = file.seek(0, os.SEEK_END)

    def read(self, n: int = -1) -> bytes:
        if n is None or n < 0:
            n = max(self.size - self._file.tell(), 0)
        if n > self._limit:
            raise ArchiveError(
                f"its list of members has {n:,} bytes; at most {self._limit:,} are read"
            )
        return self._file.read(n)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


def expansion_limit(size: int) -> int:
    """Default limit on the decompressed size of a file of `size` bytes."""
    return max(SMALL, MAX_EXPANSION * size)


def check_archive(
    file: BinaryIO,
    *,
    max_bytes: int | None = None,
    max_members: int = MAX_MEMBERS,
    stored: bool = False,
    folders: bool = False,
) -> list[zipfile.ZipInfo]:
    """Members of a zip archive, after validating its central directory.

    Nothing is decompressed. `zipfile` never returns more bytes of a member than its entry declares,
    so that the declared sizes bound the memory of later reads.

    Parameters
    ----------
    file : seekable binary file
    max_bytes : maximum total decompressed size; None: `expansion_limit` of the file's size
    max_members : maximum number of members
    stored : whether compressed members are refused
    folders : whether entries of folders are left out; else they are refused

    Raises
    ------
    ArchiveError, zipfile.BadZipFile
    """
    bounded = _Bounded(file, max(ENTRY_BYTES * max_members, 2**17))
    try:
        with zipfile.ZipFile(bounded) as archive:
            members = archive.infolist()
            if folders:
                members = [member for member in members if not member.is_dir()]
    except zipfile.BadZipFile:
        raise
    except (NotImplementedError, ValueError, OverflowError, OSError) as error:
        if isinstance(error, ArchiveError):
            raise
        raise zipfile.BadZipFile(str(error)) from error
    if len(members) > max_members:
        raise ArchiveError(f"it has {len(members):,} members; at most {max_members:,} are read")
    seen: set[str] = set()
    for member in members:
        _check_member(member, stored)
        if member.filename in seen:
            raise ArchiveError(f"it has two members named {member.filename!r}")
        seen.add(member.filename)
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end or member.compress_size < 0:
            raise ArchiveError(f"its member {member.filename!r} overlaps another one")
        end = member.header_offset + 30 + len(member.orig_filename) + member.compress_size
    if end > bounded.size:
        raise ArchiveError("its members are longer than the file")
    limit = expansion_limit(bounded.size) if max_bytes is None else max_bytes
    total = sum(member.file_size for member in members)
    if total > limit:
        raise ArchiveError(
            f"it has {bounded.size:,} bytes, and its decompressed size of {total:,} exceeds the "
            f"limit of {limit:,}; increase max_bytes to read it"
        )
    file.seek(0)
    return members


def _check_member(member: zipfile.ZipInfo, stored: bool) -> None:
    name = member.filename
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or not name.strip():
        raise ArchiveError(f"its member {name!r} is not a relative path inside the archive")
    if "\0" in member.orig_filename:
        raise ArchiveError(f"its member {name!r} has a NUL character in its name")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if member.is_dir() or kind not in (0, stat.S_IFREG):
        raise ArchiveError(f"its member {name!r} is not a regular file")
    if member.flag_bits & 0x1:
        raise ArchiveError(f"its member {name!r} is encrypted")
    if stored and (
        member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size
    ):
        raise ArchiveError(f"its member {name!r} is compressed; members should be stored")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ArchiveError(f"its member {name!r} is compressed by an unknown method")


def check_npy(
    file: BinaryIO | _Counted, size: int, *, kinds: str = "biufcUSMm", structured: bool = True
) -> tuple[tuple, np.dtype]:
    """Shape and dtype of a .npy array of `size` bytes, after checking that the size matches.

    Only the header is read: an array that declares more entries than the file has is refused before
    memory is allocated for it. `kinds` are the allowed ``dtype.kind``, for records those of the
    fields; `structured` is whether records are allowed.
    """
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    except (ValueError, TypeError, SyntaxError, EOFError, RecursionError, MemoryError) as error:
        raise ArchiveError(f"it is not a .npy array: {error}") from error
    if dtype.hasobject:
        raise ArchiveError("it contains Python objects, which are not read")
    fields = [dtype[name] for name in dtype.names or ()] if structured else []
    fields = fields or [dtype]
    if any(field.kind not in kinds or field.itemsize == 0 for field in fields):
        raise ArchiveError(f"it has dtype {dtype}, which is not read")
    declared = dtype.itemsize
    for length in shape:
        if length < 0:
            raise ArchiveError(f"it declares the invalid shape {shape}")
        declared *= int(length)
    there = size - file.tell()
    if declared != there:
        raise ArchiveError(
            f"it declares {declared:,} bytes (shape {shape}, {dtype}) but has {there:,}"
        )
    return shape, dtype


def check_text(array: np.ndarray) -> None:
    """Raise for an array of text that has code points which are no characters: NumPy makes invalid
    strings of them, which libraries read beyond their end."""
    code = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("=")).ravel().view(np.uint32)
    if (code > 0x10FFFF).any() or ((code >= 0xD800) & (code <= 0xDFFF)).any():
        raise ArchiveError("it has text with code points that are no characters")


def check_npz(file: BinaryIO, **limits: Any) -> list[str]:
    """Names of the arrays in a .npz, after `check_archive` and `check_npy` of each."""
    members = check_archive(file, **limits)
    names = []
    with zipfile.ZipFile(file) as archive:
        for member in members:
            if not member.filename.endswith(".npy"):
                raise ArchiveError(f"its member {member.filename!r} is not an array")
            names.append(member.filename.removesuffix(".npy"))
            with archive.open(member) as array:
                try:
                    check_npy(_Counted(array), member.file_size)
                except ArchiveError as error:
                    raise ArchiveError(f"its array {names[-1]!r}: {error}") from error
    file.seek(0)
    return names


class _Counted(io.RawIOBase):
    """A member of an archive with `tell`, without decompressing it twice."""

    def __init__(self, file: Any):
        self._file, self._read = file, 0

    def read(self, n: int = -1) -> bytes:
        out = self._file.read(n)
        self._read += len(out)
        return out

    def tell(self) -> int:
        return self._read


# Types of data elements in a MATLAB 5 file: numbers and text, a matrix, compressed data.
MAT_DATA, MAT_MATRIX, MAT_COMPRESSED = (1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18), 14, 15


def check_mat(content: bytes, limit: int) -> None:
    """Check the tags of a MATLAB 5 file: SciPy crashes where one has an undefined type.

    Files of version 4, which have no such tags, are not checked.
    """
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        return
    at = 128
    while at + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        body = content[at + 8 : at + 8 + size]
        at += 8 + size
        if kind == MAT_COMPRESSED:
            try:
                inner = zlib.decompressobj().decompress(body, limit + 8)
            except zlib.error as error:
                raise ArchiveError(f"its compressed data are damaged: {error}") from error
            if len(inner) < 8:
                raise ArchiveError("its compressed data are incomplete")
            kind, size = struct.unpack_from(f"{order}II", inner)
            if size > limit:
                raise ArchiveError(
                    f"its decompressed size of {size:,} bytes exceeds the limit of {limit:,}; "
                    "increase max_bytes to read it"
                )
            body = inner[8 : 8 + size]
        if kind != MAT_MATRIX or len(body) != size:
            raise ArchiveError("it has a variable that is not a whole MATLAB matrix")
        _check_mat_elements(body, order)


def _check_mat_elements(body: bytes, order: str) -> None:
    at = 0
    while at < len(body):
        if at + 8 > len(body):
            raise ArchiveError("it ends inside of a data element")
        kind, size = struct.unpack_from(f"{order}II", body, at)
        step = 8 + size + -size % 8
        if kind >> 16:  # up to four bytes in the tag itself
            kind, size, step = kind & 0xFFFF, kind >> 16, 8
            small = size > 4
        else:
            small = at + 8 + size > len(body)
        if small or kind not in (*MAT_DATA, MAT_MATRIX):
            raise ArchiveError(f"it has a data element of the undefined type {kind} or size {size}")
        at += step
