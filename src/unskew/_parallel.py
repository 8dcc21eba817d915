"""Threads over parts of a computation, with BLAS limited to one thread each.

Results are returned in the order of the parts, and the split into parts does not depend on the
number of threads, so results are bit-identical for any number.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from ._compat import set_num_threads


class Threads:
    """Context manager for n threads; the calling thread is one of them."""

    def __init__(self, n: int = 1) -> None:
        self.n = n
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Threads:
        if self.n > 1:
            self._pool = ThreadPoolExecutor(self.n - 1, thread_name_prefix="unskew")
        return self

    def __exit__(self, *_: Any) -> None:
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
            if len(begun) > self.n:
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
