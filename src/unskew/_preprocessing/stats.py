"""Sources of the columns of a matrix, and weighted statistics of each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._arrays import weighted_sum
from .._buffers import buffer
from .._data.tiled import TiledMatrix

# Columns whose mean is more than this many standard deviations from 0 are shifted by it.
FAR_FROM_ZERO = 8.0
# Exponents of two that float64 keeps free for products of squares and sums of weights.
FREE_EXPONENTS = 60


def allowed_scales(dtype: np.dtype, d: int) -> tuple[float, float]:
    """(smallest standard deviation, largest value) for which sums of d squares neither underflow
    nor overflow. Sums over rows are in float64, whatever the dtype."""
    limits = np.finfo(dtype)
    smallest = np.sqrt(float(limits.tiny) / float(limits.eps))
    largest = np.sqrt(float(limits.max) / d) / 4
    if dtype == np.float64:
        smallest, largest = smallest * 2.0**FREE_EXPONENTS, largest / 2.0**FREE_EXPONENTS
    return float(smallest), float(largest)


def check_sizes(matrix: Any) -> None:
    """Raise for new rows whose squared distances overflow, as `column_stats` for those of a fit."""
    values = matrix.data if sp.issparse(matrix) else matrix
    if values.dtype.kind != "f" or not values.size:
        return
    size, (_, largest) = (
        max(-values.min(), values.max()),
        allowed_scales(matrix.dtype, matrix.shape[1]),
    )
    if not size <= largest:
        raise ValueError(
            f"X has a value of size {size:.3g}; values of new rows should be <= {largest:.3g} so "
            f"that squared distances do not overflow in {matrix.dtype}"
        )


@dataclass(frozen=True)
class ColumnMap:
    """Map from the columns of a matrix to the source columns they were encoded from.

    names     names of the columns; None: "column 3"
    source    position of the source of each column; pairs within one source are excluded
    missing_indicator  for each column the 0/1 column that is 1 where its value is missing (and
              stored as 0), or -1
    is_indicator  True for those 0/1 columns: they are treatments, but not features and not part of
              the distance
    levels    for each column its ordered values where each is a treatment (ordered categories),
              else None: two values give one treatment, more give quantile bins
    sources   names of the source columns; None where the columns are the sources
    """

    names: tuple[str, ...] | None
    source: np.ndarray
    missing_indicator: np.ndarray
    is_indicator: np.ndarray
    levels: tuple
    sources: tuple[str, ...] | None = None

    @classmethod
    def identity(cls, d: int, names: Any = None) -> ColumnMap:
        """Each column is its own source, without missing values."""
        return cls(
            None if names is None else tuple(map(str, names)),
            np.arange(d),
            np.full(d, -1),
            np.zeros(d, dtype=bool),
            (None,) * d,
        )

    def describe(self, k: int) -> str:
        return f"column {k} of X" if self.names is None else f"column {self.names[k]!r} of X"


class ColumnStats(NamedTuple):
    """Weighted statistics of each column; rows of weight 0 are ignored."""

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    two_valued: np.ndarray


def column_stats(
    rows: TiledMatrix, a: np.ndarray, column_map: ColumnMap | None = None
) -> ColumnStats:
    """Two passes: range and mean, then the variance and whether a third value occurs.

    Raises for columns with values that are not finite or whose squares overflow.
    """
    N = float(a.sum())
    smallest, largest = allowed_scales(rows.dtype, rows.d)
    rows = rows.tall() if rows.sparse else rows

    describe = (column_map or ColumnMap.identity(rows.d)).describe

    def ends(tile: Any) -> tuple:
        low, high = tile.min(axis=0), tile.max(axis=0)
        return (low.toarray().ravel(), high.toarray().ravel()) if sp.issparse(tile) else (low, high)

    def first(tile: Any, a_: np.ndarray) -> tuple:
        low, high = ends(tile)
        size = np.maximum(np.abs(low), np.abs(high))
        present = a_ > 0
        if not present.all():
            tile, a_ = tile[present], a_[present]
            if tile.shape[0] == 0:
                return np.full(rows.d, np.inf), np.full(rows.d, -np.inf), np.zeros(rows.d), size
            low, high = ends(tile)
        with np.errstate(over="ignore", invalid="ignore"):  # inf and NaN are refused below
            return low, high, a_ @ tile if sp.issparse(tile) else weighted_sum(a_, tile), size

    low, high = np.full(rows.d, np.inf), np.full(rows.d, -np.inf)
    total, size = np.zeros(rows.d), np.zeros(rows.d)
    for part_low, part_high, part, part_size in rows.map(first, a, dense=False):
        low, high, total = np.minimum(low, part_low), np.maximum(high, part_high), total + part
        size = np.maximum(size, part_size)
    for k in np.flatnonzero(~(size <= largest))[:1]:
        if not np.isfinite(size[k]):
            what = "NaN" if np.isnan(size[k]) else "inf"
            raise ValueError(
                f"{describe(k)} contains {what}; all values of an array should be finite. Impute "
                "them, or pass a table (pandas, polars), in which missing values are supported"
            )
        raise ValueError(
            f"{describe(k)} has values of size {size[k]:.3g}; they should be <= {largest:.3g} so "
            f"that squared distances do not overflow in {rows.dtype}. Rescale it"
        )
    mean = total / N

    def second(tile: Any, a_: np.ndarray) -> tuple:
        if sp.issparse(tile):
            # Rows without a stored entry are 0: their part of the variance is added below.
            entries = tile.tocoo()
            data, weight = entries.data.astype(np.float64), a_[entries.row]
            about = (data - mean[entries.col]) ** 2
            third = (data != low[entries.col]) & (data != high[entries.col]) & (weight > 0)
            d = rows.d
            stored = np.bincount(entries.col[weight > 0], minlength=d)
            return (
                np.bincount(entries.col, weights=weight * about, minlength=d),
                np.bincount(entries.col, weights=third, minlength=d),
                stored,
                np.bincount(entries.col, weights=weight, minlength=d),
            )
        third = np.not_equal(tile, low, out=buffer("third", tile.shape, bool))
        third &= np.not_equal(tile, high, out=buffer("not high", tile.shape, bool))
        third &= (a_ > 0)[:, None]
        away = np.subtract(tile, mean, out=buffer("wide", tile.shape, np.float64))
        np.multiply(away, away, out=away)
        count = np.count_nonzero(third, axis=0)
        present = np.full(rows.d, (a_ > 0).sum())
        return a_ @ away, count, present, np.full(rows.d, a_.sum())

    spread, third, stored, weight = (np.zeros(rows.d) for _ in range(4))
    for parts in rows.map(second, a, dense=False):
        spread, third, stored, weight = (
            old + new for old, new in zip((spread, third, stored, weight), parts)
        )
    zeros = stored < (a > 0).sum()
    # N - weight is not exactly 0 where all values are stored.
    variance = (spread + np.where(zeros, np.maximum(N - weight, 0.0) * mean**2, 0.0)) / N
    # An implicit zero can be the third value.
    third = third + (zeros & (low != 0) & (high != 0))
    sd = np.where(high > low, np.sqrt(variance), 0.0)
    for k in np.flatnonzero((high > low) & (sd < smallest))[:1]:
        raise ValueError(
            f"{describe(k)} varies by {high[k] - low[k]:.3g}; its standard deviation should be >= "
            f"{smallest:.3g} so that squared distances do not underflow in {rows.dtype}. Rescale it"
        )
    return ColumnStats(low, high, mean, sd, (third == 0) & (high > low))


def shift_for(columns: ColumnStats, column_map: ColumnMap, sparse: bool) -> np.ndarray | None:
    """Column means to subtract where columns are far from 0. Sparse data are not shifted, nor are
    columns with missing values, which must be stored as 0."""
    far = np.abs(columns.mean) > FAR_FROM_ZERO * columns.sd
    fixed = column_map.is_indicator | (column_map.missing_indicator >= 0)
    if sparse or not (far & ~fixed & (columns.high > columns.low)).any():
        return None
    return np.where(fixed, 0.0, columns.mean)
