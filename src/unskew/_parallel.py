"""Who computes: threads over the pieces of a task, BLAS held to one thread each.

Results come back in the order of the pieces whatever thread made them, and no sum is cut by how
many threads there are: the same bits for any number.
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
    """n threads for the time of a ``with``; the thread that calls is one of them."""

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
        """To have something done ahead of time; None where there is one thread."""
        return None if self._pool is None else self._pool.submit

    def run(self, function: Callable, items: Iterable) -> Iterator[Any]:
        """function(item) for each item, in order; at most a few results wait.

        The calling thread takes part: where it would wait for a result it does the next item that
        no other has begun. Waking a thread costs as much as a small task.
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
        """The result of the first item, helping with later ones while others work on it."""
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
    """The BLAS libraries of NumPy and SciPy; looking for them takes longer than a small task."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread while anyone is inside, in whatever thread.

    The limit belongs to the process, not to a thread, so it is counted: it is set by the first fit
    that enters and lifted by the last that leaves; fits in parallel threads keep their bits.
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
