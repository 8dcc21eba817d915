"""Array helpers shared by kernels and data: sums over tiles, CSR rows, columns of tiles."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._buffers import buffer
from ._compat import vecdot

# Minimum length of two vectors for which BLAS is faster than einsum for their inner product.
BLAS_MIN_LENGTH = 64


def csr_of(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, width: int) -> Any:
    """A CSR matrix of these arrays, which are not checked or copied (SciPy copies a view of a much
    larger array); indices in a row need not be sorted."""
    out = sp.csr_array((indptr.size - 1, width), dtype=data.dtype)
    out.data, out.indptr = data, indptr
    out.indices = indices.astype(indptr.dtype, copy=False)
    return out


def csr_rows(X: Any, start: int, stop: int) -> Any:
    """Rows of a CSR matrix as a read-only view."""
    entries = slice(int(X.indptr[start]), int(X.indptr[stop]))
    data, indices = X.data[entries], X.indices[entries]
    data.flags.writeable = indices.flags.writeable = False
    return csr_of(data, indices, X.indptr[start : stop + 1] - X.indptr[start], X.shape[1])


def take_columns(tile: Any, columns: np.ndarray) -> Any:
    """Columns of a tile; a view where they are consecutive."""
    if columns.size and (np.diff(columns) == 1).all():
        if columns.size == tile.shape[1]:
            return tile
        return tile[:, columns[0] : columns[-1] + 1]
    return np.take(tile, columns, axis=1) if isinstance(tile, np.ndarray) else tile[:, columns]


def weighted_sum(w: np.ndarray, M: np.ndarray) -> np.ndarray:
    """w' M in float64."""
    if M.dtype == np.float64:
        return w @ M
    wide = buffer("wide", M.shape, np.float64)
    np.copyto(wide, M)
    return w @ wide


def row_products(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A_i . B_i for each row: by BLAS where NumPy supports it (>= 2.0) and rows are long enough."""
    if A.shape[1] >= BLAS_MIN_LENGTH and vecdot is not None:
        return vecdot(A, B)
    return np.einsum("ij,ij->i", A, B)


def sum_of_squares(D: np.ndarray) -> float:
    """||D||^2: rows are summed in the dtype of D, then their sums in float64."""
    return float(row_products(D, D).sum(dtype=np.float64))


def even_ranges(n: int, step: int) -> list[tuple[int, int]]:
    """Split 0..n into parts of about equal size, at most ``step``."""
    ends = np.linspace(0, n, max(1, -(-n // step)) + 1).astype(int).tolist()
    return list(pairwise(ends))


def add_up(parts: Any) -> list[Any]:
    """Sum tuples of arrays in the given order, in float64."""
    total: list[Any] = []
    for part in parts:
        if not total:
            total = [np.array(p, dtype=np.float64) for p in part]
        else:
            for t, p in zip(total, part):
                t += p
    return total


def oriented(directions: np.ndarray) -> np.ndarray:
    """Principal components, whose signs are arbitrary, with a positive largest loading each."""
    largest = np.take_along_axis(directions, np.abs(directions).argmax(1)[:, None], axis=1)
    return directions * np.where(largest < 0, -1.0, 1.0)
