"""The interface of a matrix of rows, wherever they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from ._parallel import Executor


class Rows(Protocol):
    """What kernels and solvers use of a matrix; ``_data.tiled.TiledMatrix`` has it.

    n, d, dtype    shape, and dtype of the arithmetic
    X              the storage: an array, CSR, a file, or blocks of a reader or cluster
    shift          subtracted from each dense tile, or None
    bounds         first and last row (exclusive) of each tile
    groups         numbers of tiles whose sums are added first
    source_bounds  the same in the matrix of which this is a subsample
    """

    n: int
    d: int
    dtype: Any
    X: Any
    sparse: bool
    in_memory: bool
    shift: np.ndarray | None
    bounds: list[tuple[int, int]]
    source_bounds: list[tuple[int, int]]
    groups: list[int]
    executor: Executor

    def with_shift(self, shift: np.ndarray | None) -> Any: ...

    def tall(self) -> Any: ...

    def subsample(self, most: int) -> Any: ...

    def select(self, which: np.ndarray) -> Any: ...

    def tile(self, number: int, dense: bool = ..., out: Callable = ...) -> Any: ...

    def columns(self, which: np.ndarray) -> np.ndarray: ...

    def take(self, which: np.ndarray) -> np.ndarray: ...

    def map(
        self,
        kernel: Callable,
        *vectors: np.ndarray,
        coefs: Any = ...,
        dense: bool = ...,
        additive: bool = ...,
    ) -> Iterator[Any]: ...

    def gather(
        self, kernel: Callable, *vectors: np.ndarray, out: np.ndarray | None = None, **how: Any
    ) -> np.ndarray: ...

    def total(self, parts: Iterable[tuple]) -> list[Any]: ...

    def run(self, function: Callable, items: Iterable) -> Iterator[Any]: ...
