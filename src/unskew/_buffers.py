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
MAX_BUFFER_BYTES = 2**28


MAX_IDLE_BYTES = 2**26


_local = threading.local()


def buffer(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array with anything in it, valid until this thread asks for the same name again.

    Never part of a result.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size > MAX_BUFFER_BYTES:
        return np.empty(shape, dtype)
    buffers = getattr(_local, "buffers", None)
    if buffers is None:
        buffers = _local.buffers = {}
    memory = buffers.get(name)
    if memory is None or memory.size < size:
        memory = buffers[name] = np.empty(size, np.uint8)
    return memory[:size].view(dtype).reshape(shape)


def free_buffers() -> None:
    """Give back this thread's large arrays: a fit is over."""
    buffers = getattr(_local, "buffers", {})
    for name in [name for name, memory in buffers.items() if memory.size > MAX_IDLE_BYTES]:
        del buffers[name]


def copy_if_shared(result: Any, memory: np.ndarray) -> Any:
    """A kernel's result with copies of what lies in ``memory``, which is about to be used again."""
    if isinstance(result, np.ndarray):
        return result.copy() if np.may_share_memory(result, memory) else result
    if type(result) in (tuple, list):
        return type(result)(copy_if_shared(part, memory) for part in result)
    return result


# From so many rows on, vectors of n numbers are what a fit costs in memory: fewer pairs, in
# float32 (they only shape the direction; the search decides on J in float64 as ever).
LARGE_N = 2**22
