"""Where rows live. ``Rows`` hands out tiles of a matrix in memory to kernels, in a fixed order.

Tile boundaries depend on shape and dtype only, results come back in tile order whatever thread
made them, and BLAS is held to one thread: the same bits for any number of threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

# Elements of a tile: about what a core's own cache holds. A CSR tile costs its stored entries
# until a kernel asks for it dense, so it may be larger.
DENSE_TILE = 2**18
SPARSE_TILE = 2**22


def tile_rows(shape: tuple[int, int], sparse: bool) -> int:
    """Rows of a tile; a function of the shape and the kind of storage alone."""
    if sparse:
        return int(np.clip(SPARSE_TILE // max(shape[1], 1), 1024, 8192))
    # Not fewer than 512 rows: each tile costs d x t additions whatever its height.
    return int(np.clip(DENSE_TILE // max(shape[1], 1), 512, 8192))


class Rows:
    """A matrix in memory as tiles of C-contiguous rows.

    X           ndarray (float32, float64, or small integers and bool, expanded tile by tile) or CSR
    dtype       of the arithmetic: float32 for float32 and small-integer storage, else float64
    shift       subtracted from each dense tile: columns far from 0 lose digits in every product
    n_threads   threads over tiles; None = one per core
    """

    def __init__(self, X: Any, *, shift: np.ndarray | None = None, n_threads: int | None = None):
        self.X, self.sparse = X, sp.issparse(X)
        self.n, self.d = X.shape
        self.dtype = np.dtype(np.float64 if X.dtype == np.float64 else np.float32)
        self.shift = None if shift is None else shift.astype(self.dtype)
        step = tile_rows(X.shape, self.sparse)
        self.bounds = [(i, min(i + step, self.n)) for i in range(0, self.n, step)]
        self.n_threads = joblib.cpu_count() if n_threads is None else n_threads
        self._by_column: Any = None
        self._pool: ThreadPoolExecutor | None = None

    def with_shift(self, shift: np.ndarray | None) -> Rows:
        return Rows(self.X, shift=shift, n_threads=self.n_threads)

    def tile(self, number: int, dense: bool = True) -> Any:
        """Rows of one tile in the arithmetic's dtype; CSR stays CSR unless ``dense``."""
        start, stop = self.bounds[number]
        part = self.X[start:stop]
        if self.sparse:
            if part.dtype != self.dtype:
                part = part.astype(self.dtype)
            return part.toarray() if dense else part
        if self.shift is not None:
            return part.astype(self.dtype, copy=False) - self.shift
        return part.astype(self.dtype, copy=False)

    def columns(self, which: np.ndarray) -> np.ndarray:
        """Whole columns, dense: for quantiles and for the form with n < d."""
        if self.sparse:
            if self._by_column is None:
                self._by_column = self.X.tocsc()
            return self._by_column[:, which].toarray().astype(self.dtype, copy=False)
        out = self.X[:, which].astype(self.dtype, copy=False)
        return out if self.shift is None else out - self.shift[which]

    def take(self, which: np.ndarray) -> np.ndarray:
        """A few rows, dense."""
        part = self.X[which]
        part = (part.toarray() if self.sparse else part).astype(self.dtype)
        return part if self.shift is None else part - self.shift

    def map(
        self, kernel: Callable, *vectors: np.ndarray, message: Any = None, dense: bool = True
    ) -> Iterator[Any]:
        """kernel(tile, rows of each vector ..., message) for each tile, results in tile order."""

        def call(number: int) -> Any:
            start, stop = self.bounds[number]
            parts = [v[start:stop] for v in vectors]
            if message is not None:
                parts.append(message)
            return kernel(self.tile(number, dense), *parts)

        return self.run(call, range(len(self.bounds)))

    def gather(self, kernel: Callable, *vectors: np.ndarray, **how: Any) -> np.ndarray:
        """Like map for a kernel that returns one number per row: the whole vector, float64."""
        out = np.empty(self.n)
        for (start, stop), part in zip(self.bounds, self.map(kernel, *vectors, **how)):
            out[start:stop] = part
        return out

    def run(self, function: Callable, items: Iterable) -> Iterator[Any]:
        """function(item) for each item, in order, on the threads; at most a few results wait."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            yield from map(function, items)
            return
        waiting: deque[Future] = deque()
        for item in items:
            waiting.append(self._pool.submit(function, item))
            if len(waiting) > self.n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    @contextmanager
    def threads(self) -> Iterator[Rows]:
        """Threads for the time of a fit, BLAS held to one thread each."""
        with one_blas_thread():
            if self.n_threads == 1:
                yield self
                return
            with ThreadPoolExecutor(self.n_threads, thread_name_prefix="unskew") as pool:
                self._pool = pool
                try:
                    yield self
                finally:
                    self._pool = None


_blas_lock = threading.Lock()
_blas_users = 0
_blas_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread while anyone is inside.

    The limit belongs to the process, not to a thread, so it is counted: it is set by the first fit
    that enters and lifted by the last that leaves; fits in parallel threads keep their bits.
    """
    global _blas_users, _blas_limit
    with _blas_lock:
        if _blas_users == 0:
            _blas_limit = threadpool_limits(1, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limit.restore_original_limits()
                _blas_limit = None
