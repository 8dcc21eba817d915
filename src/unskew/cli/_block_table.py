"""Input data read block by block in each pass; the counterpart of `_io.InputTable` in memory."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._data import sources
from .._data.sources import NpyFile, ParquetReader, check_cache
from .._data.tiled import split_range
from .._io import READS, FileError, check_options, index_columns, need
from ._options import ReadOptions

# Block size in bytes for reading a subset of the columns of a matrix.
BLOCK = 2**26


@dataclass(frozen=True)
class BlockTable:
    """A Parquet file, a folder of Parquet files, or a .npy file, opened but not read.

    source : ParquetReader or NpyFile
    cache : folder for encoded blocks, or None
    Other fields and methods are those of `_io.InputTable`.
    """

    source: Any
    names: tuple[str, ...]
    name: str
    format: str
    size: int
    sha256: str
    notes: tuple[str, ...] = ()
    cache: str | None = None

    def __len__(self) -> int:
        return int(self.source.shape[0])

    @property
    def is_frame(self) -> bool:
        return self.format == "parquet"

    def is_decoded_often(self, n_columns: int) -> bool:
        """Whether encoded blocks can be cached neither in memory nor on disk."""
        return (
            self.is_frame
            and self.cache is None
            and 4 * len(self) * n_columns > sources.CACHED_BYTES
        )

    def place(self, row: int) -> str:
        return f"row {row + 1}"

    def column(self, name: str) -> Any:
        """One column in memory: a polars series, or an array."""
        if not self.is_frame:
            reader = ColumnSubset(self.source, [self.names.index(name)])
            return np.concatenate([reader.read(i)[:, 0] for i in range(reader.n_blocks)])
        polars, reader = need("polars", "io", "reading parquet"), self.source
        parts = [reader.read(i, columns=[name]) for i in range(reader.n_blocks)]
        return polars.concat([polars.from_arrow(part) for part in parts])[name]

    def select(self, names: list[str]) -> Any:
        """Input for an estimator: a reader of these columns, in this order."""
        if self.is_frame:
            return ParquetReader(self.source.path, columns=list(names), cache=self.cache)
        if list(names) == list(self.names) and self.name.endswith(".npy"):
            return self.name
        return ColumnSubset(self.source, [self.names.index(name) for name in names])


class ColumnSubset:
    """Columns of a matrix in a file, as a reader of blocks."""

    def __init__(self, matrix: NpyFile, which: list[int]):
        self.matrix, self.which, self.name = matrix, which, matrix.name
        n, d = matrix.shape
        self.bounds = split_range(0, n, max(1, BLOCK // max(1, d * matrix.dtype.itemsize)))
        self.n_blocks = len(self.bounds)
        self.sizes = [stop - start for start, stop in self.bounds]

    def read(self, number: int) -> np.ndarray:
        return np.ascontiguousarray(self.matrix.read(*self.bounds[number])[:, self.which])


def open_blocks(source: str, reading: ReadOptions) -> BlockTable:
    """Open a file or folder that can be read block by block; raise an error for other formats."""
    path = Path(source)
    if source == "-":
        raise FileError("standard input: --blocks reads DATA several times; it should be a file")
    folder = path.is_dir()
    form = reading.format or ("parquet" if folder else READS.get(path.suffix.lower()[1:], ""))
    if form not in (("parquet",) if folder else ("parquet", "npy")):
        what = f"a folder as {form}" if folder else form or "a file without a known suffix"
        raise FileError(
            f"{source}: --blocks reads parquet (a file or a folder of files) or npy, not {what}"
        )
    check_options(
        form,
        source,
        header=not reading.no_header,
        separator=reading.separator,
        variable=reading.variable,
        missing=reading.missing,
        encoding=reading.encoding,
        max_bytes=reading.max_bytes,
    )
    if reading.cache is not None and form == "npy":
        raise FileError(f"{source}: --cache does not apply to npy")
    check_cache(reading.cache)
    notes: tuple[str, ...] = ()
    if form == "npy":
        opened: Any = NpyFile.open(path)
        names = [f"c{j}" for j in range(opened.shape[1])]
    else:
        opened = ParquetReader(path)
        index = index_columns(opened.columns)
        names = [c for c in opened.columns if c not in index]
        notes = (f"{source}: the stored pandas index was ignored",) if index else ()
    if 0 in (opened.shape[0], len(names)):
        raise FileError(f"{source}: has {opened.shape[0]} rows and {len(names)} columns")
    files = sorted(path.rglob("*.parquet")) if folder else [path]
    size, digest = _digest(files, path)
    return BlockTable(opened, tuple(names), source, form, size, digest, notes, reading.cache)


def _digest(files: list[Path], base: Path) -> tuple[int, str]:
    """Total size of the files, and the SHA-256 of a single file or of all names and digests."""
    digests, size = [], 0
    for file in files:
        with open(file, "rb") as opened:
            digests.append(hashlib.file_digest(opened, "sha256").hexdigest())
            size += opened.tell()
    if files == [base]:
        return size, digests[0]
    listing = "".join(f"{os.path.relpath(f, base)} {d}\n" for f, d in zip(files, digests))
    return size, hashlib.sha256(listing.encode()).hexdigest()
