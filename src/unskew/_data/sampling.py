"""Subsampling of rows for diagnostics: all rows, or a random subsample of many.

Diagnostics pass over the rows many times (k-means from ten initializations, pairs of columns,
plots), and most results are the same for 20,000 rows as for a hundred million. Rows of a file or
reader are read once, block by block, and only the subsample is kept.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from .._validation import check_weights
from .columns import as_frame
from .sources import allow_nan
from .tables import TableBlocks, open_source
from .tiled import bounds_from_sizes

# Maximum number of rows and, for wide dense data, of entries (64 MB in float32) of the subsample;
# but at least MIN_ROWS rows.
MAX_ROWS, MAX_ENTRIES, MIN_ROWS = 20_000, 2**24, 5_000
# Fitted attributes with one value per row.
ROW_ATTRIBUTES = ("labels_", "weights_", "combined_weights_", "confidence_")


def draw_rows(a: np.ndarray, size: int, seed: Any) -> np.ndarray:
    """Positions of ``size`` rows of positive weight (all where there are fewer), increasing."""
    if a.strides == (0,):  # equal weights of many rows
        return np.sort(np.random.default_rng(seed).choice(a.size, size, replace=False))
    present = np.flatnonzero(a > 0)
    if present.size <= size:
        return present
    return present[np.sort(np.random.default_rng(seed).choice(present.size, size, replace=False))]


class RowSample(NamedTuple):
    """Rows in memory, their design weights, and their positions among ``n`` rows (None: all)."""

    X: Any
    a: np.ndarray
    chosen: np.ndarray | None
    n: int

    @property
    def note(self) -> str:
        return f"Computed on a random subsample of {len(self.a):,} of {self.n:,} rows."


def sample_rows(X: Any, sample_weight: Any, seed: Any, most: int = MAX_ROWS) -> RowSample:
    """All rows of a table, matrix, file or reader, or a random subsample of ``most`` rows (fewer
    of wide data, see ``max_rows``) of positive weight."""
    source = allow_nan(open_source(X))  # what uses the rows decides about missing values
    n, limit = (count(X if source is None else source) for count in (count_rows, max_rows))
    most = min(most, limit)
    a = check_weights(sample_weight, n)
    chosen = None
    if n > most:
        chosen = draw_rows(a, most, seed)
        a = np.ascontiguousarray(a[chosen])
    if source is not None:
        X = _read_rows(source, chosen)
    elif chosen is not None:
        X = take_rows(X, chosen)
    return RowSample(X, a, chosen, n)


def count_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def max_rows(X: Any) -> int:
    """Maximum number of rows of the subsample of X."""
    if sp.issparse(X) or not hasattr(X, "shape"):
        return MAX_ROWS
    return min(MAX_ROWS, max(MIN_ROWS, MAX_ENTRIES // max(1, int(X.shape[1]))))


def take_rows(X: Any, which: np.ndarray) -> Any:
    if sp.issparse(X):
        return sp.csr_array(X)[which]
    frame = as_frame(X)
    if frame is None:
        return np.asarray(X[which] if hasattr(X, "shape") else np.asarray(X)[which])
    return frame[which.tolist()].to_native()


def _read_rows(source: Any, chosen: np.ndarray | None) -> Any:
    """The chosen rows of a file or of blocks, which are read sequentially."""
    tables = isinstance(source, TableBlocks)
    parts = []
    for number, (start, stop) in enumerate(
        bounds_from_sizes(source.sizes) if tables else source.bounds()
    ):
        own = None
        if chosen is not None:
            first, last = np.searchsorted(chosen, (start, stop))
            own = chosen[first:last] - start
        if stop == start or (own is not None and own.size == 0):
            continue
        if tables:
            part = source.frame(number).select(source.columns)
            parts.append(part if own is None else part[own.tolist()])
        else:
            part = source.read(start, stop)
            parts.append(part if own is None else part[own])
    return nw.concat(parts).to_native() if tables else np.concatenate(parts)


def read_whole(source: Any) -> Any:
    """All rows of a file or of blocks, in memory."""
    return _read_rows(source, None)


class FitVectors(NamedTuple):
    """Vectors of all rows of a fit, including those outside the subsample.

    a design weights, w = a m with m the learned weights of mean 1, labels or None, names of the
    rows (index) or None, positions of the subsample (chosen) or None
    """

    a: np.ndarray
    m: np.ndarray
    w: np.ndarray
    labels: np.ndarray | None
    index: Any
    chosen: np.ndarray | None

    @classmethod
    def of(
        cls, model: Any, a: np.ndarray, index: Any, chosen: np.ndarray | None = None
    ) -> FitVectors:
        w = np.asarray(model.combined_weights_, dtype=np.float64)
        m = np.divide(w, a, out=np.zeros_like(w), where=a > 0)
        m /= max(float(np.average(m, weights=a)), np.finfo(float).tiny)
        labels = getattr(model, "labels_", None)
        return cls(a, m, w, None if labels is None else np.asarray(labels), index, chosen)


def subset_model(model: Any, chosen: np.ndarray | None) -> Any:
    """The model as if it had been fitted to the chosen rows."""
    if chosen is None:
        return model
    few = copy(model)
    for name in ROW_ATTRIBUTES:
        if hasattr(model, name):
            setattr(few, name, getattr(model, name)[chosen])
    return few
