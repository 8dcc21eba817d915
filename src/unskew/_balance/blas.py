"""A product that NumPy lacks, without the interpreter's lock.

SciPy's wrappers of BLAS hold the lock while they compute, so threads over tiles wait for each
other. ``scipy.linalg.cython_blas`` publishes the routines as pointers; ctypes lets the lock go.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas

_ROUTINES = {np.dtype(np.float32): "strmm", np.dtype(np.float64): "dtrmm"}
_NUMBERS: dict[np.dtype, Any] = {
    np.dtype(np.float32): ctypes.c_float,
    np.dtype(np.float64): ctypes.c_double,
}


@cache
def _trmm(dtype: np.dtype) -> Any:
    """trmm(side, uplo, trans, diag, m, n, alpha, A, lda, B, ldb), all by reference."""
    capsule = cython_blas.__pyx_capi__[_ROUTINES[dtype]]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = (
        ctypes.c_void_p,
        [ctypes.py_object, ctypes.c_char_p],
    )
    integer, number = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(_NUMBERS[dtype])
    signature = ctypes.CFUNCTYPE(
        None,
        *[ctypes.c_char_p] * 4,
        integer,
        integer,
        number,
        ctypes.c_void_p,
        integer,
        ctypes.c_void_p,
        integer,
    )
    return signature(pointer_of(capsule, name_of(capsule)))


def times_upper(G: np.ndarray, upper: np.ndarray) -> None:
    """G <- G @ triu(upper), in place; both C-contiguous and of one dtype, float32 or float64.

    What stands below the diagonal of ``upper`` is not read.
    """
    _multiply(G, upper, G.shape[1], b"L")


def upper_times(upper: np.ndarray, G: np.ndarray) -> None:
    """G <- triu(upper) @ G, in place; as above."""
    _multiply(G, upper, G.shape[0], b"R")


def _multiply(G: np.ndarray, upper: np.ndarray, size: int, side: bytes) -> None:
    n, d = G.shape
    wanted = upper.shape == (size, size) and upper.dtype == G.dtype
    if not (wanted and G.flags.c_contiguous and upper.flags.c_contiguous and G.flags.writeable):
        raise ValueError(
            f"a triangular product got {G.shape} {G.dtype} and {upper.shape} {upper.dtype}; it "
            f"needs an n x d and a {size} x {size} array, contiguous, of one dtype"
        )
    if n == 0 or d == 0:
        return
    # BLAS reads rows as columns: G' <- upper' G' (or G' upper'), with upper' lower triangular.
    width, height, own = ctypes.c_int(d), ctypes.c_int(n), ctypes.c_int(size)
    one = _NUMBERS[G.dtype](1.0)
    _trmm(G.dtype)(
        side, b"L", b"N", b"N", ctypes.byref(width), ctypes.byref(height), ctypes.byref(one),
        upper.ctypes.data, ctypes.byref(own), G.ctypes.data, ctypes.byref(width),
    )  # fmt: skip
