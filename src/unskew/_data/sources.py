"""Out-of-core data: ``.npy`` files, blocks of a reader, Parquet files, and a cache."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import threading
import weakref
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._io import FileError, check_npy, need, write_atomic
from .._validation import is_integer
from .tiled import as_aligned, split_range, tile_rows, tile_rows_of_blocks

# Blocks of a reader are cached up to this number of bytes, and at least three of them.
CACHED_BLOCKS, CACHED_BYTES = 3, 2**28


# Dtypes that are kept in storage and converted tile by tile; others are converted to float64.
SUPPORTED_DTYPES = [np.float64, np.float32, np.uint8, np.int8, np.bool_]


def storage_dtype(dtype: Any, what: str) -> np.dtype:
    """The dtype in which values are read; raises for non-numeric ones."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "buif":
        raise ValueError(f"{what} holds {dtype}; it should hold numbers")
    native = dtype.newbyteorder("=")
    return native if native in SUPPORTED_DTYPES else np.dtype(np.float64)


def check_finite(part: np.ndarray, where: str, first: int, nan: bool = False) -> None:
    """Raise for inf, and for NaN unless ``nan``, naming file, row and column."""
    if part.dtype.kind != "f":
        return
    bad = np.isinf(part) if nan else ~np.isfinite(part)
    if not bad.any():
        return
    i, k = np.argwhere(bad)[0]
    what = "NaN" if np.isnan(part[i, k]) else "inf"
    raise ValueError(
        f"{where}: index {first + i}, column {k} is {what}; all values of an array should be "
        "finite. Impute them, or pass a table (unskew.ParquetReader), in which missing values are "
        "supported"
    )


class NpyFile:
    """An array stored in a file row by row: a ``.npy``, or the file of a memmap.

    It is read with plain reads, not through a memory map: mapped pages count as memory of the
    process until the system reclaims them. Tiles are those of the array in memory.
    """

    allow_nan = False

    def __init__(self, path: str, shape: tuple[int, int], stored: np.dtype, offset: int):
        self.name, self.shape, self.offset = path, shape, offset
        self._stored = stored
        self.dtype = storage_dtype(stored, path)
        self._row = shape[1] * stored.itemsize
        self._checked: set[tuple[int, int]] = set()
        self._size = self._size_now()
        size, wanted = self._size, offset + shape[0] * self._row
        if size < wanted:
            raise FileError(
                f"{path}: the file has {size} bytes but an array of {shape[0]} x {shape[1]} "
                f"{stored} needs {wanted}; it is truncated"
            )

    @classmethod
    def open(cls, path: str | os.PathLike) -> NpyFile:
        """Read the header of a ``.npy``; errors name the file and the rule."""
        name = str(path)
        try:
            with open(path, "rb") as file:
                version = np.lib.format.read_magic(file)
                read = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, by_column, dtype = read(file)
                offset = file.tell()
        except OSError as error:
            raise FileError(f"{name}: cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise FileError(f"{name}: is not a .npy file: {error}") from error
        if len(shape) != 2:
            raise FileError(f"{name}: the array has shape {shape}; it should have rows and columns")
        if by_column and 1 not in shape:
            raise FileError(
                f"{name}: the array is stored column by column (Fortran order); rows should be "
                "stored one after another: np.save(path, np.ascontiguousarray(X))"
            )
        return cls(name, shape, dtype, offset)

    @classmethod
    def of_memmap(cls, X: np.memmap) -> NpyFile | None:
        """The file of a memmap, or None where only the mapping has the values."""
        mapped = getattr(X, "_mmap", None)
        if X.filename is None or mapped is None or X.mode == "c" or not X.flags.c_contiguous:
            return None
        if not os.path.exists(X.filename):  # removed since, but still mapped
            return None
        first = np.frombuffer(mapped, dtype=np.uint8).ctypes.data
        begin = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
        return cls(str(X.filename), X.shape, X.dtype, begin + X.ctypes.data - first)

    def _size_now(self) -> int:
        try:
            return os.stat(self.name).st_size
        except OSError as error:
            raise FileError(f"{self.name}: cannot be read: {error.strerror or error}") from error

    def bounds(self) -> list[tuple[int, int]]:
        return split_range(0, self.shape[0], tile_rows(self.shape, sparse=False))

    def read(self, start: int, stop: int, prefetch: Callable | None = None) -> np.ndarray:
        out = np.empty((stop - start, self.shape[1]), dtype=self._stored)
        # Opened for each tile, so that the object can be sent to other threads and machines.
        with open(self.name, "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            if found.st_size != self._size:
                raise FileError(
                    f"{self.name}: the file had {self._size} bytes and now has {found.st_size}; "
                    "it should not change while it is read"
                )
            file.seek(self.offset + start * self._row)
            view, done = out.view(np.uint8).reshape(-1).data, 0
            while done < len(view):
                count = file.readinto(view[done:])
                if not count:
                    raise FileError(f"{self.name}: the file ends in row {start}")
                done += count
        part = out.astype(self.dtype, copy=False)
        if (start, stop) not in self._checked:
            check_finite(part, self.name, start, self.allow_nan)
            self._checked.add((start, stop))
        return part


class Blocks:
    """Vertically stacked matrices returned by ``load(i)``, read again when they are needed.

    A tile is within one block. Recently used blocks are cached (all of them where they are small),
    and the next block is prefetched on the threads.

    name, sizes, d, dtype   of all blocks together
    exclusive               ``load`` is never called by two threads at once, and its results are
                            copied
    """

    allow_nan = False

    def __init__(
        self,
        load: Callable[[int], np.ndarray],
        sizes: Sequence[int],
        d: int,
        dtype: Any,
        name: str,
        exclusive: bool = True,
    ):
        self.load, self.name = load, name
        self._turn = threading.Lock() if exclusive else nullcontext()
        self._copies = exclusive
        self.dtype = storage_dtype(dtype, name)
        self.starts = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
        self.shape = (self.starts[-1], d)
        self._checked: set[int] = set()
        self._lock = threading.Lock()
        self._found: OrderedDict[int, np.ndarray] = OrderedDict()
        self._loading = [threading.Lock() for _ in range(len(self.starts) - 1)]
        self._prefetched = 0

    def bounds(self) -> list[tuple[int, int]]:
        step = tile_rows_of_blocks(self.shape[1])
        return [b for pair in pairwise(self.starts) for b in split_range(*pair, step)]

    def read(self, start: int, stop: int, prefetch: Callable | None = None) -> np.ndarray:
        number = bisect_right(self.starts, start) - 1
        first = self.starts[number]
        block = self.block(number)
        if prefetch is not None and number + 1 < len(self._loading):
            with self._lock:
                ask = self._prefetched != number + 1 and number + 1 not in self._found
                self._prefetched = number + 1
            if ask:
                prefetch(self.block, number + 1)
        return block[start - first : stop - first]

    def block(self, number: int) -> np.ndarray:
        """Read a block or take it from the cache; other threads that need it wait."""
        with self._loading[number]:
            with self._lock:
                if number in self._found:
                    self._found.move_to_end(number)
                    return self._found[number]
            block = self._read_whole(number)
            with self._lock:
                self._found[number] = block
                bytes_held = sum(each.nbytes for each in self._found.values())
                while len(self._found) > CACHED_BLOCKS and bytes_held > CACHED_BYTES:
                    bytes_held -= self._found.popitem(last=False)[1].nbytes
        return block

    def _read_whole(self, number: int) -> np.ndarray:
        with self._turn:
            given = check_block(self.load(number), self.name, number)
            # A reader may reuse its memory, except one that threads may call at the same time.
            block = given.copy() if self._copies else given
        wanted = (self.starts[number + 1] - self.starts[number], self.shape[1])
        if block.shape != wanted:
            raise ValueError(
                f"{self.name}, block {number}: has shape {block.shape}; it should be {wanted}, as "
                "before"
            )
        block = cast_block(block, self.dtype, self.name, number)
        if number not in self._checked:
            check_finite(block, f"{self.name}, block {number}", 0, self.allow_nan)
            self._checked.add(number)
        return block


def allow_nan(source: Any) -> Any:
    """The source, which may have missing values (NaN) from now on."""
    if isinstance(source, (NpyFile, Blocks)):
        source.allow_nan = True
    return source


def cast_block(block: np.ndarray, dtype: np.dtype, name: str, number: int) -> np.ndarray:
    """A block in the common dtype; raises if the cast is not safe."""
    if not np.can_cast(block.dtype, dtype, "safe"):
        raise ValueError(
            f"{name}, block {number}: holds {block.dtype}, which cannot be cast safely to {dtype}, "
            "the type of the first block or the declared one; all blocks should have the same type"
        )
    return as_aligned(block, dtype)


def check_block(block: Any, name: str, number: int) -> np.ndarray:
    """Validate a block and return it as a 2-D array of numbers."""
    if sp.issparse(block):
        raise TypeError(
            f"{name}, block {number}: is sparse; read(i) should return a dense array or a table"
        )
    array = np.asarray(block)
    if array.ndim != 2:
        raise ValueError(
            f"{name}, block {number}: has shape {array.shape}; a block should have rows and columns"
        )
    storage_dtype(array.dtype, f"{name}, block {number}")
    return array


def is_reader(X: Any) -> bool:
    """Whether X is a reader of blocks: has ``n_blocks`` and ``read(i)``."""
    return hasattr(X, "n_blocks") and callable(getattr(X, "read", None))


def source_name(reader: Any) -> str:
    given = getattr(reader, "name", None)
    return given if isinstance(given, str) else type(reader).__name__


class ParquetReader:
    """Read a Parquet file, or a folder of them, block by block, for data larger than memory.

    Parameters
    ----------
    path : str or Path
        A file, or a folder whose ``.parquet`` files (also in folders below it, in the order of
        their names) are one table.
    columns : list of names or None
        Columns to read; None: all.
    block_rows : int or None
        Rows of a block; None: one block per row group of the files. Row groups are always read
        whole, so choose a multiple of the row group size.
    cache : folder or None
        Folder for encoded blocks: they are decoded and encoded once, then read from there in later
        passes of a fit, many times faster. Takes 4 bytes (8 where the encoder uses float64) of disk
        per row and encoded column, in a temporary subfolder that is removed after the fit. None:
        blocks are decoded and encoded again in each pass, without disk space. On a cluster
        (DaskDCKM) the workers keep the encoded blocks in memory instead.

    Attributes
    ----------
    n_blocks, shape, columns, sizes
        Number of blocks, (rows, columns), names, and rows of each block; from the metadata of the
        files, without reading data.

    Pass it to ``DCKM.fit``, ``predict`` and other methods in place of a table: the encoder is
    fitted column by column, and the rows are read block by block in each pass.

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

    thread_safe = True  # each read opens its own file handle

    def __init__(
        self, path: Any, columns: Any = None, *, block_rows: int | None = None, cache: Any = None
    ):
        parquet = need("pyarrow.parquet", "io", "reading Parquet")
        self.path, self.name, self.block_rows, self.cache = path, str(path), block_rows, cache
        check_cache(cache)
        if block_rows is not None and (not is_integer(block_rows) or block_rows < 1):
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
        if len(set(names or [])) < len(names or []):
            twice = next(c for i, c in enumerate(names or []) if c in (names or [])[:i])
            raise FileError(f"{path}: has two columns named {twice!r}; names should differ")
        lacking = [c for c in self.columns if c not in (names or [])]
        if lacking:
            raise ValueError(f"{path}: has no column {lacking[0]!r}; columns: {names}")
        starts = np.concatenate([[0], np.cumsum(self._rows, dtype=np.int64)])
        self._starts = starts.tolist()
        if block_rows is None:
            self._bounds = list(pairwise(self._starts))
        else:
            self._bounds = split_range(0, self._starts[-1], int(block_rows))
        self.sizes = [stop - start for start, stop in self._bounds]
        self.n_blocks, self.shape = len(self._bounds), (self._starts[-1], len(self.columns))
        if 0 in self.shape:
            raise FileError(
                f"{path}: has {self.shape[0]} rows and {self.shape[1]} columns; both should be >= 1"
            )

    def read(self, number: int, columns: Any = None) -> Any:
        """One block as a pyarrow table, optionally only some ``columns``."""
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
        try:  # a column may be integer, or entirely missing, in one file and float in another
            return arrow.concat_tables(parts, promote_options="permissive")
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
            raise FileError(
                f"{self.name}, block {number}: its files have different types of values: {error}"
            ) from error


def check_cache(folder: Any) -> None:
    """Check that the cache is a writable folder, or can be created as one."""
    if folder is None:
        return
    place = Path(folder)
    here = place if place.exists() else place.absolute().parent
    if not (here.is_dir() and os.access(here, os.W_OK)):
        raise FileError(f"cache={str(folder)!r} should be a folder that can be written to")


class CachedBlocks:
    """Blocks that are computed once and then read from files in a temporary folder.

    made     function that computes block i, an array
    folder   parent of the temporary folder, which is removed together with this object, or when the
             process ends
    """

    def __init__(self, made: Callable[[int], np.ndarray], folder: Any):
        check_cache(folder)
        self.made = made
        os.makedirs(folder, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="unskew-", dir=folder))
        self._kept: dict[int, tuple] = {}  # shape and dtype of what was written
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def __call__(self, number: int) -> np.ndarray:
        file = self.folder / f"{number}.npy"
        if number in self._kept:
            try:
                with open(file, "rb") as opened:
                    found = check_npy(opened, os.fstat(opened.fileno()).st_size)
                    if found != self._kept[number]:
                        raise ValueError(f"it holds {found} instead of {self._kept[number]}")
                    opened.seek(0)
                    return np.load(opened, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise FileError(f"{file}: a cached block is missing or damaged: {error}") from error
        block = self.made(number)
        write_atomic(file, lambda path: np.save(path, block, allow_pickle=False))
        self._kept[number] = (block.shape, block.dtype)
        return block
