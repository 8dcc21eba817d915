"""Where rows live. ``Rows`` hands out tiles of a matrix to kernels, in a fixed order.

The matrix is an array in memory, a ``.npy`` file, or blocks that a reader gives; files and readers
are read again in each pass, a few tiles or blocks at a time. Tile boundaries depend on shape and
storage only, results come back in tile order whatever thread made them, and BLAS is held to one
thread: the same bits for any number of threads, and for a file as for the array in it (but for
small arrays of many columns, which have forms of the balance of their own: docs/scale.md).
"""

from __future__ import annotations

import mmap
import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from copy import copy
from itertools import groupby, islice, pairwise
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp

from ._files import FileError
from ._terms import add_up, csr_rows, detached, release, scratch, take_columns
from ._threads import Later, Threads, one_blas_thread

# Elements of a tile: about what a core's own cache holds. A CSR tile costs its stored entries
# until a kernel asks for it dense, so it may be larger.
DENSE_TILE = 2**18
SPARSE_TILE = 2**22
# Rows of a CSR tile that no kernel asks for dense.
TALL_TILE = 2**13
# Elements of the largest tile of a block: 64 MB in float32.
LARGEST_TILE = 2**24
# Tiles of a block whose sums are added before they are added to the others: on a cluster they
# travel as one.
GROUP = 16
# Entries of a matrix that one thread passes through in the time that it takes to share them.
ONE_JOB = 2**21
# Blocks of a reader are held as long as they take no more bytes together, and three in any case.
HELD_BLOCKS, HELD_BYTES = 3, 2**28
# Storage that is read as it is, tile by tile; anything else becomes float64.
STORED_AS_GIVEN = [np.float64, np.float32, np.uint8, np.int8, np.bool_]


def tile_rows(shape: tuple[int, int], sparse: bool) -> int:
    """Rows of a tile; a function of the shape and the kind of storage alone."""
    if sparse:
        return int(np.clip(SPARSE_TILE // max(shape[1], 1), 1024, 8192))
    # Not fewer than 512 rows: each tile costs d x t additions whatever its height.
    most = int(np.clip(DENSE_TILE // max(shape[1], 1), 512, 8192))
    count = -(-shape[0] // most)
    # A few tiles are of one height: a thread with the short one would wait for the others.
    return -(-shape[0] // count) if 1 < count <= 4 else most


def tile_rows_of_blocks(d: int) -> int:
    """Rows of a tile that is cut from a block: as in memory up to 128 columns, then 16 d.

    A tile's d x d sums may have to travel: they should be small beside the tile.
    """
    usual = tile_rows((0, d), sparse=False)
    return max(usual, min(16 * d, LARGEST_TILE // max(d, 1)))


class Rows:
    """A matrix as tiles of C-contiguous rows.

    X           ndarray (float32, float64, or small integers and bool, expanded tile by tile), CSR,
                NpyFile or Blocks
    dtype       of the arithmetic: float32 for float32 and small-integer storage, else float64
    shift       subtracted from each dense tile: columns far from 0 lose digits in every product
    n_threads   threads over tiles; None = one per core
    resident    whether X is in memory
    groups      numbers of tiles whose sums are added first, see ``total``
    """

    def __init__(self, X: Any, *, shift: np.ndarray | None = None, n_threads: int | None = None):
        self.X, self.sparse = X, sp.issparse(X)
        self.resident = self.sparse or isinstance(X, np.ndarray)
        self.n, self.d = X.shape
        self.dtype = np.dtype(np.float64 if X.dtype == np.float64 else np.float32)
        self.shift = None if shift is None else shift.astype(self.dtype)
        self.bounds = cut(0, self.n, tile_rows(X.shape, self.sparse)) if self.resident else (
            X.bounds()
        )  # fmt: skip
        self.places = self.bounds
        self.groups = in_groups(self.bounds, getattr(X, "starts", None))
        self.n_threads = joblib.cpu_count() if n_threads is None else n_threads
        self._by_column: Any = None
        self._threads = Threads()

    def with_shift(self, shift: np.ndarray | None) -> Rows:
        return Rows(self.X, shift=shift, n_threads=self.n_threads)

    def tall(self) -> Rows:
        """CSR rows in taller tiles, for kernels that leave them CSR: short calls of many threads
        wait for each other."""
        if self.places is not self.bounds:
            return self
        tall = copy(self)
        tall.bounds = tall.places = cut(0, self.n, TALL_TILE)
        tall.groups = in_groups(tall.bounds)
        return tall

    def some(self, most: int) -> Rows:
        """Every so many-th tile, about ``most`` rows in all; ``places`` are their bounds here."""
        step = -(-self.n // most)
        few = copy(self)
        few.places = self.places[::step]
        few.bounds = stacked([stop - start for start, stop in few.places])
        few.n, few.groups = few.bounds[-1][1], in_groups(few.bounds)
        return few

    def tile(self, number: int, dense: bool = True, out: Callable = np.empty) -> Any:
        """Rows of one tile in the arithmetic's dtype; CSR stays CSR unless ``dense``.

        ``out(shape, dtype)`` gives the memory for a dense tile that is not X itself.
        """
        start, stop = self.places[number]
        if self.sparse:
            part = csr_rows(self.X, start, stop)
            if part.dtype != self.dtype:
                part = part.astype(self.dtype)
            return part.toarray() if dense else part
        if self.resident:
            part = self.X[start:stop]
        else:
            part = self.X.read(start, stop, self._threads.submit)
        return expanded(part, self.dtype, self.shift, out)

    def columns(self, which: np.ndarray) -> np.ndarray:
        """Whole columns, dense and copied: for quantiles and for the form with n < d."""
        if not self.resident:
            out = np.empty((self.n, len(which)), dtype=self.dtype)
            for (start, stop), part in zip(self.bounds, self.map(lambda tile: tile[:, which])):
                out[start:stop] = part
            return out
        if self.sparse:
            if self._by_column is None:
                self._by_column = self.X.tocsc()
            return self._by_column[:, which].toarray().astype(self.dtype, copy=False)
        out = take_columns(self.X, which)
        out = out.astype(self.dtype, copy=np.may_share_memory(out, self.X))
        return out if self.shift is None else out - self.shift[which]

    def take(self, which: np.ndarray) -> np.ndarray:
        """A few rows, dense."""
        if self.resident:
            part = self.X[which]
            part = (part.toarray() if self.sparse else part).astype(self.dtype)
        else:
            part = np.empty((len(which), self.d), dtype=self.dtype)
            for place in np.argsort(which, kind="stable"):
                part[place] = self.X.read(int(which[place]), int(which[place]) + 1)[0]
        return part if self.shift is None else part - self.shift

    def map(
        self,
        kernel: Callable,
        *vectors: np.ndarray,
        message: Any = None,
        dense: bool = True,
        adds: bool = False,
    ) -> Iterator[Any]:
        """kernel(tile, rows of each vector ..., message) for each tile, results in tile order.

        ``adds`` says that the results are for ``total``: rows that are elsewhere add up groups
        where they are.
        """

        def call(number: int) -> Any:
            start, stop = self.bounds[number]
            # Equal weights may be one number for all rows; BLAS wants them side by side.
            parts: list[Any] = [np.ascontiguousarray(v[start:stop]) for v in vectors]
            if message is not None:
                parts.append(message)
            tile = self.tile(number, dense, for_a_tile)
            return without_the_tile(kernel(tile, *parts), tile)

        return self.run(call, range(len(self.bounds)))

    def gather(self, kernel: Callable, *vectors: np.ndarray, **how: Any) -> np.ndarray:
        """Like map for a kernel that returns one number per row: the whole vector, float64."""
        out = np.empty(self.n)
        for (start, stop), part in zip(self.bounds, self.map(kernel, *vectors, **how)):
            out[start:stop] = part
        return out

    def total(self, parts: Iterable[tuple]) -> list[Any]:
        """Sums of tuples of arrays, one for each tile: over groups, then over these, in float64."""
        parts = iter(parts)
        return add_up(add_up(islice(parts, count)) for count in self.groups)

    def run(self, function: Callable, items: Iterable) -> Iterator[Any]:
        """function(item) for each item, in order, on the threads."""
        return self._threads.run(function, items)

    def later(self, function: Callable[[], Any]) -> Later:
        """A call over the rows, put off until a kernel says that it is busy (``begin_later``) or
        until its result is asked for. Of many rows at once: it keeps all threads busy itself."""
        if len(self.bounds) > 1 and self.n * self.d > ONE_JOB:
            result = function()
            return self._threads.later(lambda: result)
        return self._threads.later(function)

    def begin_later(self) -> None:
        self._threads.begin_later()

    @contextmanager
    def threads(self) -> Iterator[Rows]:
        """Threads for the time of a fit, BLAS held to one thread each."""
        before = self._threads
        with one_blas_thread(), ExitStack() as after:
            after.callback(release)
            self._threads = after.enter_context(Threads(self.n_threads))
            after.callback(setattr, self, "_threads", before)
            yield self


def expanded(part: np.ndarray, dtype: Any, shift: np.ndarray | None, out: Callable) -> np.ndarray:
    """Stored rows in the dtype of the arithmetic, less the shift; as they are where that is so."""
    if shift is None and part.dtype == dtype:
        return part
    tile = out(part.shape, dtype)
    if shift is None:
        np.copyto(tile, part)
    elif part.dtype == dtype:
        np.subtract(part, shift, out=tile)
    else:
        np.copyto(tile, part)
        tile -= shift
    return tile


def for_a_tile(shape: tuple, dtype: Any) -> np.ndarray:
    return scratch("tile", shape, dtype)


def without_the_tile(result: Any, tile: Any) -> Any:
    """A kernel's result; copied where it is part of the tile, whose memory is used again."""
    return detached(result, tile) if isinstance(tile, np.ndarray) else result


def stacked(sizes: Iterable[int]) -> list[tuple[int, int]]:
    """Bounds of pieces that stand one under the other."""
    ends = [0, *np.cumsum(list(sizes), dtype=np.int64).tolist()]
    return list(pairwise(ends))


def in_groups(bounds: list[tuple[int, int]], starts: Sequence[int] | None = None) -> list[int]:
    """Numbers of tiles of groups; none holds tiles of two blocks, which begin at ``starts``."""
    blocks = [0] * len(bounds) if starts is None else [bisect_right(starts, b) for b, _ in bounds]
    sizes = [len(list(tiles)) for _, tiles in groupby(blocks)]
    return [stop - start for size in sizes for start, stop in cut(0, size, GROUP)]


def cut(start: int, stop: int, step: int) -> list[tuple[int, int]]:
    return [(i, min(i + step, stop)) for i in range(start, stop, step)]


# --------------------------------------------------------------------------------------------
# Sources


def storage_of(dtype: Any, what: str) -> np.dtype:
    """The dtype that values are read in; refuses what is not a number."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "buif":
        raise ValueError(f"{what} holds {dtype}; it should hold numbers")
    native = dtype.newbyteorder("=")
    return native if native in STORED_AS_GIVEN else np.dtype(np.float64)


def refuse_non_finite(part: np.ndarray, where: str, first: int) -> None:
    """Raise for NaN and inf, naming file, row and column."""
    if part.dtype.kind != "f" or np.isfinite(part).all():
        return
    i, k = np.argwhere(~np.isfinite(part))[0]
    what = "NaN" if np.isnan(part[i, k]) else "inf"
    raise ValueError(
        f"{where}: row {first + i}, column {k} is {what}; all values of an array should be finite. "
        "Fill them in, or give a table (unskew.ParquetReader), whose missing values are understood"
    )


class NpyFile:
    """An array in a file, row after row: a ``.npy``, or what a memmap looks at.

    Read with plain reads, not through a mapping: mapped pages count as memory of the process until
    the system takes them back. Tiles are those of the array in memory.
    """

    def __init__(self, path: str, shape: tuple[int, int], stored: np.dtype, offset: int):
        self.name, self.shape, self.offset = path, shape, offset
        self._stored = stored
        self.dtype = storage_of(stored, path)
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
        """The file behind a memmap, or None where only the mapping has the values."""
        mapped = getattr(X, "_mmap", None)
        if X.filename is None or mapped is None or X.mode == "c" or not X.flags.c_contiguous:
            return None
        if not os.path.exists(X.filename):  # removed since: the mapping still has it
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
        return cut(0, self.shape[0], tile_rows(self.shape, sparse=False))

    def read(self, start: int, stop: int, ahead: Callable | None = None) -> np.ndarray:
        out = np.empty((stop - start, self.shape[1]), dtype=self._stored)
        # Opened for each tile: a source goes to other threads and machines as it is.
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
            refuse_non_finite(part, self.name, start)
            self._checked.add((start, stop))
        return part


class Blocks:
    """Matrices that ``load(i)`` gives, one under the other, read again when they are needed.

    A tile does not cross blocks. Some blocks are held, all of them where they are small, and while
    one is worked on the threads read the next.

    name, sizes, d, dtype   of all blocks together
    one_at_a_time           ``load`` is never called by two threads at once, and what it gives is
                            copied
    """

    def __init__(
        self,
        load: Callable[[int], np.ndarray],
        sizes: Sequence[int],
        d: int,
        dtype: Any,
        name: str,
        one_at_a_time: bool = True,
    ):
        self.load, self.name = load, name
        self._turn = threading.Lock() if one_at_a_time else nullcontext()
        self._copies = one_at_a_time
        self.dtype = storage_of(dtype, name)
        self.starts = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
        self.shape = (self.starts[-1], d)
        self._checked: set[int] = set()
        self._lock = threading.Lock()
        self._found: OrderedDict[int, np.ndarray] = OrderedDict()
        self._loading = [threading.Lock() for _ in range(len(self.starts) - 1)]
        self._ahead = 0

    def bounds(self) -> list[tuple[int, int]]:
        step = tile_rows_of_blocks(self.shape[1])
        return [b for pair in pairwise(self.starts) for b in cut(*pair, step)]

    def read(self, start: int, stop: int, ahead: Callable | None = None) -> np.ndarray:
        number = bisect_right(self.starts, start) - 1
        first = self.starts[number]
        block = self.block(number)
        if ahead is not None and number + 1 < len(self._loading):
            with self._lock:
                ask = self._ahead != number + 1 and number + 1 not in self._found
                self._ahead = number + 1
            if ask:
                ahead(self.block, number + 1)
        return block[start - first : stop - first]

    def block(self, number: int) -> np.ndarray:
        """Whoever needs a block first reads it; others who need it wait."""
        with self._loading[number]:
            with self._lock:
                if number in self._found:
                    self._found.move_to_end(number)
                    return self._found[number]
            block = self._read_whole(number)
            with self._lock:
                self._found[number] = block
                bytes_held = sum(each.nbytes for each in self._found.values())
                while len(self._found) > HELD_BLOCKS and bytes_held > HELD_BYTES:
                    bytes_held -= self._found.popitem(last=False)[1].nbytes
        return block

    def _read_whole(self, number: int) -> np.ndarray:
        with self._turn:
            given = check_block(self.load(number), self.name, number)
            # A reader may use its memory again; one that threads call at the same time does not.
            block = given.copy() if self._copies else given
        wanted = (self.starts[number + 1] - self.starts[number], self.shape[1])
        if block.shape != wanted:
            raise ValueError(
                f"{self.name}, block {number}: has shape {block.shape}; it should be {wanted}, as "
                "before"
            )
        block = as_stored(block, self.dtype, self.name, number)
        if number not in self._checked:
            refuse_non_finite(block, f"{self.name}, block {number}", 0)
            self._checked.add(number)
        return block


def as_stored(block: np.ndarray, dtype: np.dtype, name: str, number: int) -> np.ndarray:
    """A block in the dtype of all, which must be able to hold what it holds."""
    if not np.can_cast(block.dtype, dtype, "safe"):
        raise ValueError(
            f"{name}, block {number}: holds {block.dtype}, which does not fit into {dtype}, the "
            "type of its first block or the one it announces; all blocks should hold the same"
        )
    return aligned(block, dtype)


def aligned(block: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Rows next to each other, at an address that suits their type: what came over a wire may lie
    anywhere, and then NumPy does not add with BLAS, which ends in other last digits."""
    return np.require(block, dtype=dtype, requirements=["C", "A"])


def check_block(block: Any, name: str, number: int) -> np.ndarray:
    """A block as a 2-D array of numbers, or an error that names it."""
    if sp.issparse(block):
        raise TypeError(
            f"{name}, block {number}: is sparse; read(i) should give a dense array or a table"
        )
    array = np.asarray(block)
    if array.ndim != 2:
        raise ValueError(
            f"{name}, block {number}: has shape {array.shape}; a block should have rows and columns"
        )
    storage_of(array.dtype, f"{name}, block {number}")
    return array


def is_reader(X: Any) -> bool:
    """Whether X is a reader of blocks: has ``n_blocks`` and ``read(i)``."""
    return hasattr(X, "n_blocks") and callable(getattr(X, "read", None))


def name_of(reader: Any) -> str:
    given = getattr(reader, "name", None)
    return given if isinstance(given, str) else type(reader).__name__
