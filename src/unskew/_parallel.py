"""Threads over parts of a computation, with BLAS limited to one thread each.

Results are returned in the order of the parts, and the split into parts does not depend on the
number of threads, so results are bit-identical for any number.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import joblib
from threadpoolctl import ThreadpoolController

from ._buffers import free_buffers
from ._compat import set_num_threads


class Executor:
    """A pool of ``n_threads`` threads with BLAS limited to one thread; the calling thread is one of
    them. None = one thread per core.

    The pool exists inside ``with executor:``; nested contexts share it. Data containers refer to
    an executor, and every container made from another (shifted, subsampled) uses the same one.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = joblib.cpu_count() if n_threads is None else n_threads
        self._pool: ThreadPoolExecutor | None = None
        self._contexts: list[ExitStack] = []

    def __getstate__(self) -> dict[str, Any]:
        """Only the number of threads: a copy in another process has a pool of its own."""
        return {"n_threads": self.n_threads, "_pool": None, "_contexts": []}

    def __enter__(self) -> Executor:
        context = ExitStack()
        context.enter_context(one_blas_thread())
        if not self._contexts:
            context.callback(free_buffers)
            if self.n_threads > 1:
                self._pool = ThreadPoolExecutor(self.n_threads - 1, thread_name_prefix="unskew")
                context.callback(self._close)
        self._contexts.append(context)
        return self

    def __exit__(self, *_: Any) -> None:
        self._contexts.pop().close()

    def _close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    @property
    def submit(self) -> Callable[..., Future] | None:
        """Submit function of the pool, for prefetching; None where there is one thread."""
        return None if self._pool is None else self._pool.submit

    def run(self, function: Callable, items: Iterable) -> Iterator[Any]:
        """function(item) for each item, in order; a bounded number of results is stored.

        The calling thread takes part: instead of waiting for a result it processes the next item
        that has not been started. Waking a thread costs as much as a small task.
        """
        items = list(items)
        if self._pool is None or len(items) < 2:
            yield from map(function, items)
            return
        begun: deque[tuple[Future, Any]] = deque()
        own: dict[Future, Any] = {}
        for item in items:
            begun.append((self._pool.submit(function, item), item))
            if len(begun) > self.n_threads:
                yield self._first_of(begun, own, function)
        while begun:
            yield self._first_of(begun, own, function)

    @staticmethod
    def _first_of(begun: deque, own: dict, function: Callable) -> Any:
        """The result of the first item; processes later items while it is computed."""
        first = begun[0][0]
        while first not in own and not first.done():
            for future, item in begun:
                if future not in own and future.cancel():
                    own[future] = function(item)
                    break
            else:
                break
        begun.popleft()
        return own.pop(first) if first in own else first.result()


_blas_lock = threading.Lock()
_blas_users = 0
_blas_before: list[tuple[Any, int]] = []


@cache
def _blas() -> list[Any]:
    """The BLAS libraries of NumPy and SciPy, cached: the search takes longer than a small task."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


# Fits to at most this many rows use one thread: more gain little, and delay each other where other
# processes use the cores.
ONE_THREAD_ROWS = 20_000


@cache
def _openmp() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="openmp")


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Limit OpenMP (scikit-learn's k-means) to one thread, in the calling thread of the process."""
    with _openmp().limit(limits=1):
        yield


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any thread of the process is in this context.

    The limit is per process, not per thread, so users are counted: it is set by the first fit that
    enters and removed by the last that exits; results of fits in parallel threads do not change.
    """
    global _blas_users, _blas_before
    with _blas_lock:
        if _blas_users == 0:
            _blas_before = [(library, library.get_num_threads()) for library in _blas()]
            for library, _ in _blas_before:
                set_num_threads(library, 1)
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                for library, n in _blas_before:
                    set_num_threads(library, n)
                _blas_before = []
