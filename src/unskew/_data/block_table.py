"""Input data read block by block in each pass; the counterpart of `_io.InputTable` in memory."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._io import (
    SUFFIXES,
    FileError,
    Table,
    check_options,
    index_columns,
    need,
    read_table,
    size_and_digest,
)
from . import sources
from .sources import NpyFile, ParquetReader, check_cache
from .tiled import split_range

# Block size in bytes for reading a subset of the columns of a matrix.
BLOCK = 2**26


@dataclass(frozen=True)
class BlockTable(Table):
    """A Parquet file, a folder of Parquet files, or a .npy file, opened but not read.

    source : ParquetReader or NpyFile
    cache : folder for encoded blocks, or None
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

    def column(self, name: str) -> Any:
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

    def _converted(self, X: Any, names: list[str]) -> Any:
        is_, was = ("table", "matrix without") if self.is_frame else ("matrix", "table with")
        raise FileError(
            f"{self.name}: is a {is_}, but the model was fitted to a {was} names; read it without "
            "--blocks"
        )


class ColumnSubset:
    """Columns of a matrix in a file, as a reader of blocks."""

    def __init__(self, matrix: NpyFile, which: list[int]):
        self.matrix, self.which, self.name = matrix, which, matrix.name
        n, d = matrix.shape
        self.shape = (n, len(which))
        self.bounds = split_range(0, n, max(1, BLOCK // max(1, d * matrix.dtype.itemsize)))
        self.n_blocks = len(self.bounds)
        self.sizes = [stop - start for start, stop in self.bounds]

    def read(self, number: int) -> np.ndarray:
        return np.ascontiguousarray(self.matrix.read(*self.bounds[number])[:, self.which])


def open_table(source: str, *, blocks: bool, cache: str | None, **reading: Any) -> Table:
    """Open a file or a folder in blocks, or read a file into memory; see `_io.read_table`."""
    if blocks or os.path.isdir(source):
        return open_blocks(source, cache, **reading)
    if cache is not None:
        raise FileError(f"{source}: --cache is for parquet that is read in blocks; add --blocks")
    return read_table(source, **reading)


def open_blocks(
    source: str, cache: str | None, *, format: str | None, **reading: Any
) -> BlockTable:
    """Open a file or folder that can be read block by block; raise an error for other formats."""
    path = Path(source)
    if source == "-":
        raise FileError("standard input: --blocks reads DATA several times; it should be a file")
    folder = path.is_dir()
    form = format or ("parquet" if folder else SUFFIXES.get(path.suffix.lower()[1:], ""))
    if form not in (("parquet",) if folder else ("parquet", "npy")):
        what = f"a folder as {form}" if folder else form or "a file without a known suffix"
        raise FileError(
            f"{source}: --blocks reads parquet (a file or a folder of files) or npy, not {what}"
        )
    check_options(form, source, **reading)
    if cache is not None and form == "npy":
        raise FileError(f"{source}: --cache does not apply to npy")
    check_cache(cache)
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
    return BlockTable(opened, tuple(names), source, form, size, digest, notes, cache)


def _digest(files: list[Path], base: Path) -> tuple[int, str]:
    """Total size of the files, and the SHA-256 of a single file or of all names and digests."""
    found = [(file, *size_and_digest(file, str(file))) for file in files]
    total = sum(size for _, size, _ in found)
    if files == [base]:
        return total, found[0][2]
    listing = "".join(f"{os.path.relpath(file, base)} {digest}\n" for file, _, digest in found)
    return total, hashlib.sha256(listing.encode()).hexdigest()
