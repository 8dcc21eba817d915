"""Memory that a thread uses again for each tile.

A fresh array of a tile's size is new pages from the system, each of which costs a fault; on a tile
that fits the cache these cost more than the arithmetic, and how much depends on the allocator's
settings. So what a kernel needs for a moment has a name and stays with the thread.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

# Larger arrays are not kept; and beyond the end of a fit only those that are smaller than this.
LARGEST_KEPT = 2**28


LARGEST_KEPT_FOR_THE_NEXT = 2**26


_own = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array with anything in it, valid until this thread asks for the same name again.

    Never part of a result.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size > LARGEST_KEPT:
        return np.empty(shape, dtype)
    held = getattr(_own, "held", None)
    if held is None:
        held = _own.held = {}
    memory = held.get(name)
    if memory is None or memory.size < size:
        memory = held[name] = np.empty(size, np.uint8)
    return memory[:size].view(dtype).reshape(shape)


def release() -> None:
    """Give back this thread's large arrays: a fit is over."""
    held = getattr(_own, "held", {})
    for name in [name for name, memory in held.items() if memory.size > LARGEST_KEPT_FOR_THE_NEXT]:
        del held[name]


def detached(result: Any, memory: np.ndarray) -> Any:
    """A kernel's result with copies of what lies in ``memory``, which is about to be used again."""
    if isinstance(result, np.ndarray):
        return result.copy() if np.may_share_memory(result, memory) else result
    if type(result) in (tuple, list):
        return type(result)(detached(part, memory) for part in result)
    return result


# From so many rows on, vectors of n numbers are what a fit costs in memory: fewer pairs, in
# float32 (they only shape the direction; the search decides on J in float64 as ever).
LARGE = 2**22
