"""Readers of blocks of tables, and where their encoded blocks may wait for the next pass."""

from __future__ import annotations

import numbers
import os
import shutil
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ._blocks import cut
from ._files import FileError, need, write_whole


class ParquetReader:
    """A Parquet file, or a folder of them, as blocks of a table: rows that need not fit in memory.

    Parameters
    ----------
    path : str or Path
        A file, or a folder whose ``.parquet`` files (also in folders below it, in the order of
        their names) are one table.
    columns : list of names or None
        Columns to read; None: all.
    block_rows : int or None
        Rows of a block; None: one block per row group of the files. A block that cuts through row
        groups reads them whole, so choose a multiple of what the files have.
    cache : folder or None
        Where encoded blocks wait for the next pass of a fit: decoded and encoded once, then read
        as they are, many times faster. Takes 4 bytes (8 where the encoder makes float64) per row
        and encoded column of disk, in a folder of its own that is removed after the fit. None:
        decoded and encoded anew in each pass, which takes no disk. On a cluster (DaskDCKM) the
        workers hold the encoded blocks instead.

    Attributes
    ----------
    n_blocks, shape, columns, sizes
        Blocks, (rows, columns), names, and rows of each block; from the files' own notes, nothing
        is read for them.

    Give it to ``DCKM.fit``, ``predict`` and the others in the place of a table: the encoder is
    learned column by column, the rows are read block by block in each pass.

    Examples
    --------
    >>> import tempfile, pathlib, polars as pl
    >>> from unskew import ParquetReader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "a.parquet"
    ...     pl.DataFrame({"age": [20, 40, 60], "site": ["A", "B", "A"]}).write_parquet(path)
    ...     reader = ParquetReader(path, block_rows=2)
    ...     reader.n_blocks, reader.shape, reader.read(1).to_pydict()
    (2, (3, 2), {'age': [60], 'site': ['A']})
    """

    thread_safe = True  # each read opens its file anew

    def __init__(
        self, path: Any, columns: Any = None, *, block_rows: int | None = None, cache: Any = None
    ):
        parquet = need("pyarrow.parquet", "io", "reading Parquet")
        self.path, self.name, self.block_rows, self.cache = path, str(path), block_rows, cache
        check_cache(cache)
        if block_rows is not None:
            whole = isinstance(block_rows, numbers.Integral) and not isinstance(block_rows, bool)
            if not whole or block_rows < 1:
                raise ValueError(f"block_rows={block_rows!r} should be an integer >= 1")
        if isinstance(columns, str):
            raise TypeError(f"columns={columns!r} should be a list of names: [{columns!r}]")
        folder = Path(path)
        files = sorted(folder.rglob("*.parquet")) if folder.is_dir() else [folder]
        if not files:
            raise FileError(f"{path}: the folder has no .parquet file")
        self._files, self._groups, self._rows = [str(file) for file in files], [], []
        names = None
        for number, file in enumerate(files):
            try:
                with parquet.ParquetFile(file) as opened:
                    notes, found = opened.metadata, list(opened.schema_arrow.names)
            except (OSError, ValueError) as error:
                raise FileError(f"{file}: cannot be read as Parquet: {error}") from error
            if names is not None and found != names:
                raise FileError(
                    f"{file}: has the columns {found} but {files[0]} has {names}; all files of a "
                    "folder should have the same"
                )
            names = found
            for group in range(notes.num_row_groups):
                self._groups.append((number, group))
                self._rows.append(notes.row_group(group).num_rows)
        self.columns = list(names or [] if columns is None else columns)
        lacking = [c for c in self.columns if c not in (names or [])]
        if lacking:
            raise ValueError(f"{path}: has no column {lacking[0]!r}; columns: {names}")
        starts = np.concatenate([[0], np.cumsum(self._rows, dtype=np.int64)])
        self._starts = starts.tolist()
        if block_rows is None:
            self._bounds = list(pairwise(self._starts))
        else:
            self._bounds = cut(0, self._starts[-1], int(block_rows))
        self.sizes = [stop - start for start, stop in self._bounds]
        self.n_blocks, self.shape = len(self._bounds), (self._starts[-1], len(self.columns))
        if 0 in self.shape:
            raise FileError(
                f"{path}: has {self.shape[0]} rows and {self.shape[1]} columns; both should be >= 1"
            )

    def read(self, number: int, columns: Any = None) -> Any:
        """One block as a pyarrow table; ``columns``: only those."""
        arrow = need("pyarrow", "io", "reading Parquet")
        parquet = need("pyarrow.parquet", "io", "reading Parquet")
        start, stop = self._bounds[number]
        wanted, parts = self.columns if columns is None else list(columns), []
        at = bisect_right(self._starts, start) - 1
        while at < len(self._groups) and self._starts[at] < stop:
            file, group = self._groups[at]
            try:
                with parquet.ParquetFile(self._files[file]) as opened:
                    table = opened.read_row_group(group, columns=wanted, use_threads=False)
            except (OSError, ValueError) as error:
                raise FileError(
                    f"{self._files[file]}, row group {group}: cannot be read: {error}"
                ) from error
            first = self._starts[at]
            if table.num_rows != self._rows[at]:
                raise FileError(
                    f"{self._files[file]}, row group {group}: has {table.num_rows} rows instead of "
                    f"{self._rows[at]}; the file was changed since it was opened"
                )
            low, high = max(start - first, 0), min(stop, self._starts[at + 1]) - first
            parts.append(table.select(wanted).slice(low, high - low))
            at += 1
        if len(parts) == 1:
            return parts[0]
        try:  # one file may have whole numbers, or only gaps, where another has fractions
            return arrow.concat_tables(parts, promote_options="permissive")
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
            raise FileError(
                f"{self.name}, block {number}: its files hold different kinds of values: {error}"
            ) from error


def check_cache(folder: Any) -> None:
    """A folder that can be written to, or the name of one that can be made."""
    if folder is None:
        return
    place = Path(folder)
    here = place if place.exists() else place.absolute().parent
    if not (here.is_dir() and os.access(here, os.W_OK)):
        raise FileError(f"cache={str(folder)!r} should be a folder that can be written to")


class KeptBlocks:
    """Blocks that are made once and then read from files of a folder of their own.

    made     makes block i, an array
    folder   in which that folder is; it is removed together with this object, or when the process
             ends
    """

    def __init__(self, made: Callable[[int], np.ndarray], folder: Any):
        check_cache(folder)
        self.made = made
        os.makedirs(folder, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="unskew-", dir=folder))
        self._kept: set[int] = set()
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def __call__(self, number: int) -> np.ndarray:
        file = self.folder / f"{number}.npy"
        if number in self._kept:
            try:
                return np.load(file, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise FileError(f"{file}: a kept block is gone or damaged: {error}") from error
        block = self.made(number)
        write_whole(file, lambda path: np.save(path, block, allow_pickle=False))
        self._kept.add(number)
        return block
