"""``TiledMatrix`` passes tiles of a matrix to kernels, in a fixed order.

The matrix is an array in memory, a ``.npy`` file, or the blocks of a reader; files and readers are
read again in each pass, a few tiles or blocks at a time. Tile boundaries depend on shape and
storage only, results are returned in tile order, and BLAS is limited to one thread. So results are
bit-identical for any number of threads, and for a file as for the array in it (except small arrays
of many columns, for which another form of the balance is used: docs/scale.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import groupby, islice, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._arrays import add_up, csr_rows, take_columns
from .._buffers import buffer, copy_if_shared
from .._parallel import Executor

# Elements of a tile: about the size of a core's own cache. A CSR tile costs its stored entries
# unless a kernel needs it dense, so it can be larger.
DENSE_TILE = 2**18


SPARSE_TILE = 2**22


# Rows of a CSR tile that no kernel needs dense.
TALL_TILE = 2**13


# Elements of the largest tile of a block: 64 MB in float32.
LARGEST_TILE = 2**24


# Number of tiles of a block whose sums are added first: on a cluster they are sent as one result.
TILES_PER_GROUP = 16


def tile_rows(shape: tuple[int, int], sparse: bool) -> int:
    """Rows of a tile; a function of the shape and the kind of storage alone."""
    if sparse:
        return int(np.clip(SPARSE_TILE // max(shape[1], 1), 1024, 8192))
    # At least 512 rows: each tile costs d x t additions independently of its height.
    most = int(np.clip(DENSE_TILE // max(shape[1], 1), 512, 8192))
    count = -(-shape[0] // most)
    # Up to 4 tiles get equal heights: the thread with a short last tile would be idle.
    return -(-shape[0] // count) if 1 < count <= 4 else most


def tile_rows_of_blocks(d: int) -> int:
    """Rows of a tile of a block: as in memory up to 128 columns, then 16 d.

    A tile's d x d sums may be sent over a network: they should be small compared with the tile.
    """
    usual = tile_rows((0, d), sparse=False)
    return max(usual, min(16 * d, LARGEST_TILE // max(d, 1)))


class TiledMatrix:
    """A matrix as tiles of C-contiguous rows.

    X           ndarray (float32, float64, or small integers and bool, expanded tile by tile), CSR,
                NpyFile or Blocks
    dtype       of the arithmetic: float32 for float32 and small-integer storage, else float64
    shift       subtracted from each dense tile: columns far from 0 lose digits in every product
    executor    threads over tiles; None: the calling thread alone
    in_memory   whether X is in memory
    groups      numbers of tiles whose sums are added first, see ``total``
    """

    def __init__(
        self, X: Any, *, shift: np.ndarray | None = None, executor: Executor | None = None
    ):
        self.X, self.sparse = X, sp.issparse(X)
        self.in_memory = self.sparse or isinstance(X, np.ndarray)
        self.n, self.d = X.shape
        self.dtype: Any = np.dtype(np.float64 if X.dtype == np.float64 else np.float32)
        self.shift = None if shift is None else shift.astype(self.dtype)
        if self.in_memory:
            self.bounds = split_range(0, self.n, tile_rows(X.shape, self.sparse))
        else:
            self.bounds = X.bounds()
        self.source_bounds = self.bounds
        self.groups = group_sizes(self.bounds, getattr(X, "starts", None))
        self.executor = Executor(1) if executor is None else executor
        self._by_column: Any = None

    def with_shift(self, shift: np.ndarray | None) -> TiledMatrix:
        return TiledMatrix(self.X, shift=shift, executor=self.executor)

    def tall(self) -> TiledMatrix:
        """CSR rows in taller tiles, for kernels that keep them CSR: short calls from many threads
        block each other."""
        if self.source_bounds is not self.bounds:
            return self
        tall = copy(self)
        tall.bounds = tall.source_bounds = split_range(0, self.n, TALL_TILE)
        tall.groups = group_sizes(tall.bounds)
        return tall

    def subsample(self, most: int) -> TiledMatrix:
        """Every n-th tile, about ``most`` rows in all; ``source_bounds``: their bounds here."""
        step = -(-self.n // most)
        few = copy(self)
        few.source_bounds = self.source_bounds[::step]
        few.bounds = bounds_from_sizes([stop - start for start, stop in few.source_bounds])
        few.n, few.groups = few.bounds[-1][1], group_sizes(few.bounds)
        return few

    def select(self, which: np.ndarray) -> TiledMatrix:
        """The rows ``which`` (increasing) in memory; rows of a file are read in one pass."""
        if self.in_memory:
            return TiledMatrix(self.X[which], shift=self.shift, executor=self.executor)
        out, at = np.empty((which.size, self.d), dtype=self.dtype), 0
        ends = np.searchsorted(which, [start for start, _ in self.bounds] + [self.n])
        own = [which[i:j] - start for (start, _), i, j in zip(self.bounds, ends, ends[1:])]
        needed = [number for number, rows in enumerate(own) if rows.size]
        for number, tile in zip(needed, self.run(lambda i: self.tile(i)[own[i]], needed)):
            out[at : at + own[number].size] = tile
            at += own[number].size
        return TiledMatrix(out, executor=self.executor)  # tiles are shifted already

    def tile(self, number: int, dense: bool = True, out: Callable = np.empty) -> Any:
        """Rows of one tile in the dtype of the arithmetic; CSR stays CSR unless ``dense``.

        ``out(shape, dtype)`` allocates a dense tile that is not a view of X.
        """
        start, stop = self.source_bounds[number]
        if self.sparse:
            part = csr_rows(self.X, start, stop)
            if part.dtype != self.dtype:
                part = part.astype(self.dtype)
            return part.toarray() if dense else part
        if self.in_memory:
            part = self.X[start:stop]
        else:
            part = self.X.read(start, stop, self.executor.submit)
        return convert_tile(part, self.dtype, self.shift, out)

    def columns(self, which: np.ndarray) -> np.ndarray:
        """Whole columns, as a dense copy: for quantiles and for GramBalance."""
        if not self.in_memory:
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
        if self.in_memory:
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
        coefs: Any = None,
        dense: bool = True,
        additive: bool = False,
    ) -> Iterator[Any]:
        """kernel(tile, rows of each vector ..., coefs) for each tile, results in tile order.

        ``additive``: the results will be passed to ``total``, so distributed rows may add up
        groups on the workers.
        """

        def call(number: int) -> Any:
            start, stop = self.bounds[number]
            # Uniform weights may be one number broadcast to all rows; BLAS needs them contiguous.
            parts: list[Any] = [np.ascontiguousarray(v[start:stop]) for v in vectors]
            if coefs is not None:
                parts.append(coefs)
            tile = self.tile(number, dense, tile_buffer)
            return copy_if_tile(kernel(tile, *parts), tile)

        return self.run(call, range(len(self.bounds)))

    def gather(
        self, kernel: Callable, *vectors: np.ndarray, out: np.ndarray | None = None, **how: Any
    ) -> np.ndarray:
        """Like map, for a kernel that returns one number per row: the whole vector in float64,
        written to ``out`` if it is given."""
        out = np.empty(self.n) if out is None else out
        for (start, stop), part in zip(self.bounds, self.map(kernel, *vectors, **how)):
            out[start:stop] = part
        return out

    def total(self, parts: Iterable[tuple]) -> list[Any]:
        """Sums of tuples of arrays, one per tile: within groups, then over groups, in float64."""
        parts = iter(parts)
        return add_up(add_up(islice(parts, count)) for count in self.groups)

    def run(self, function: Callable, items: Iterable) -> Iterator[Any]:
        """function(item) for each item, in order, on the threads."""
        return self.executor.run(function, items)


def convert_tile(
    part: np.ndarray, dtype: Any, shift: np.ndarray | None, out: Callable
) -> np.ndarray:
    """Stored rows in the dtype of the arithmetic, minus the shift; not copied if unchanged."""
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


def tile_buffer(shape: tuple, dtype: Any) -> np.ndarray:
    return buffer("tile", shape, dtype)


def copy_if_tile(result: Any, tile: Any) -> Any:
    """A kernel's result, copied where it shares memory with the tile, which is reused."""
    return copy_if_shared(result, tile) if isinstance(tile, np.ndarray) else result


def bounds_from_sizes(sizes: Iterable[int]) -> list[tuple[int, int]]:
    """Bounds of consecutive parts of the given sizes."""
    ends = [0, *np.cumsum(list(sizes), dtype=np.int64).tolist()]
    return list(pairwise(ends))


def group_sizes(bounds: list[tuple[int, int]], starts: Sequence[int] | None = None) -> list[int]:
    """Number of tiles in each group; a group has tiles of one block only (they begin at
    ``starts``)."""
    blocks = [0] * len(bounds) if starts is None else [bisect_right(starts, b) for b, _ in bounds]
    sizes = [len(list(tiles)) for _, tiles in groupby(blocks)]
    return [stop - start for size in sizes for start, stop in split_range(0, size, TILES_PER_GROUP)]


def split_range(start: int, stop: int, step: int) -> list[tuple[int, int]]:
    return [(i, min(i + step, stop)) for i in range(start, stop, step)]


def as_aligned(block: np.ndarray, dtype: Any = None) -> np.ndarray:
    """A contiguous, aligned array. Data received over a network may be unaligned; NumPy then does
    not use BLAS, which changes the last digits of sums."""
    return np.require(block, dtype=dtype, requirements=["C", "A"])


def as_tiled(X: Any, n_threads: int | None) -> TiledMatrix:
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if isinstance(X, np.ndarray) and not X.flags.aligned:
        X = as_aligned(X)
    return TiledMatrix(sp.csr_array(X) if sp.issparse(X) else X, executor=Executor(n_threads))
