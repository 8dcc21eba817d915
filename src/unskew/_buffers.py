"""Thread-local buffers that kernels reuse for each tile.

A newly allocated array of a tile's size causes page faults; for a tile that fits the cache these
cost more than the arithmetic, and how much depends on the allocator's settings. So temporary arrays
of kernels are named buffers that are kept per thread.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

# Larger arrays are not kept as buffers; after a fit only those up to MAX_IDLE_BYTES are kept.
MAX_BUFFER_BYTES = 2**28


MAX_IDLE_BYTES = 2**26


_local = threading.local()


def buffer(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialized array, valid until this thread requests the same name again.

    It should not be part of a result.
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
    """Free this thread's large buffers at the end of a fit."""
    buffers = getattr(_local, "buffers", {})
    for name in [name for name, memory in buffers.items() if memory.size > MAX_IDLE_BYTES]:
        del buffers[name]


def copy_if_shared(result: Any, memory: np.ndarray) -> Any:
    """A kernel's result, with arrays copied that share ``memory``, which will be overwritten."""
    if isinstance(result, np.ndarray):
        return result.copy() if np.may_share_memory(result, memory) else result
    if type(result) in (tuple, list):
        return type(result)(copy_if_shared(part, memory) for part in result)
    return result


# From this number of rows on, vectors of length n dominate the memory of a fit: L-BFGS then stores
# fewer pairs, in float32 (they only affect the direction; the line search evaluates J in float64).
LARGE_N = 2**22
