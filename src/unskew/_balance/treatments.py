"""Treatments, effects, and pairs of columns to balance. Letters: see the glossary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._arrays import csr_of, take_columns
from .._rows import Rows


@dataclass(frozen=True)
class Treatments:
    """Treatment j is ``above[j] < X[:, column[j]] <= upto[j]``; a two-valued column needs one.

    ``as_is``: the columns are 0/1, so T need not be computed. ``missing_indicator`` (dense data
    only): for each j the 0/1 column that is 1 where the value is missing, -1 for none; a missing
    value is in no interval, whatever number is stored for it.
    """

    column: np.ndarray
    above: np.ndarray
    upto: np.ndarray
    as_is: bool = False
    missing_indicator: np.ndarray | None = None

    def __len__(self) -> int:
        return self.column.size

    def take(self, which: np.ndarray) -> Treatments:
        missing_indicator = (
            None if self.missing_indicator is None else self.missing_indicator[which]
        )
        return Treatments(
            self.column[which], self.above[which], self.upto[which], self.as_is, missing_indicator
        )

    def indicators(self, tile: np.ndarray) -> np.ndarray:
        """Indicators of a dense tile, in the dtype of the tile."""
        columns = take_columns(tile, self.column)
        if self.as_is:
            return columns
        treated = self.within(columns)
        for j in self._with_missing:
            treated[:, j] &= tile[:, self.missing_indicator[j]] == 0  # type: ignore[index]
        return treated.astype(tile.dtype)

    @property
    def _with_missing(self) -> np.ndarray:
        return (
            np.zeros(0, np.intp)
            if self.missing_indicator is None
            else np.flatnonzero(self.missing_indicator >= 0)
        )

    def indicators_by_column(self, rows: Rows) -> np.ndarray:
        """Indicators of all rows, n x t, computed from whole columns: for GramBalance."""
        treated = self.within(rows.columns(self.column))
        j = self._with_missing
        if j.size:
            treated[:, j] &= rows.columns(self.missing_indicator[j]) == 0  # type: ignore[index]
        return treated

    def within(self, values: np.ndarray, j: Any = slice(None)) -> np.ndarray:
        """Whether each value is in the interval of treatment j."""
        above, upto = self.above[j], self.upto[j]
        inside = values > above
        if np.isfinite(upto).any():
            inside &= values <= upto
        return inside

    def sparse_indicators(self, tile: sp.csr_array) -> SparseIndicators:
        """Indicators of a CSR tile as (value where X is 0) + (correction at stored entries)."""
        base = ((self.above < 0) & (self.upto >= 0)).astype(tile.dtype)
        # Treatments are sorted by column; the b-th of a column is at first + b.
        order = np.argsort(self.column, kind="stable")
        count = np.bincount(self.column, minlength=tile.shape[1])
        if count.min(initial=1) == 1 == count.max(initial=1):  # one each: entries stay in place
            j = order[tile.indices]
            change = self.within(tile.data, j).astype(tile.dtype) - base[j]
            if change.all():
                return SparseIndicators(base, csr_of(change, j, tile.indptr, len(self)))
        entries = tile.tocoo()
        first = np.concatenate([[0], np.cumsum(count)[:-1]])
        rows, cols, data = [], [], []
        for b in range(int(count.max(initial=0))):
            has = count[entries.col] > b
            j = order[first[entries.col[has]] + b]
            v = entries.data[has]
            change = self.within(v, j).astype(tile.dtype) - base[j]
            keep = change != 0
            rows.append(entries.row[has][keep])
            cols.append(j[keep])
            data.append(change[keep])
        shape = (tile.shape[0], len(self))
        if not rows:
            return SparseIndicators(base, sp.csr_array(shape, dtype=tile.dtype))
        triplets = (np.concatenate(data), (np.concatenate(rows), np.concatenate(cols)))
        return SparseIndicators(base, sp.csr_array(triplets, shape=shape))


def concat_treatments(parts: list[Treatments | None]) -> Treatments | None:
    """Concatenate lists of treatments."""
    given = [part for part in parts if part is not None and len(part)]
    if not given:
        return None
    missing_indicator = [
        np.full(len(p), -1) if p.missing_indicator is None else p.missing_indicator for p in given
    ]
    return Treatments(
        np.concatenate([p.column for p in given]),
        np.concatenate([p.above for p in given]),
        np.concatenate([p.upto for p in given]),
        False,
        np.concatenate(missing_indicator)
        if any(p.missing_indicator is not None for p in given)
        else None,
    )


class SparseIndicators(NamedTuple):
    """T = 1 base' + correction, for CSR tiles: its products with dense matrices."""

    base: np.ndarray
    correction: sp.csr_array

    def dense(self) -> np.ndarray:
        return self.correction.toarray() + self.base

    def times(self, Z: np.ndarray) -> np.ndarray:
        return self.correction @ Z + self.base @ Z

    def transposed_times(self, V: np.ndarray) -> np.ndarray:
        return self.correction.T @ V + np.multiply.outer(self.base, V.sum(0))


@dataclass(frozen=True)
class Effects:
    """Additive effects of the suspects on the other columns: B'(z - mean), linear in z.

    z has Q entries: ((X[:, column] - centre) / scale)^power, then the indicators ``bins``.

    mean     of z at uniform weights (Q)
    B        Q x d, over all columns of X; 0 for the suspects themselves
    missing_indicator  for each column of X the 0/1 indicator column of its missing values, -1 for
             none: a missing value stays 0, the mean
    """

    column: np.ndarray
    power: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    bins: Treatments | None
    mean: np.ndarray
    B: np.ndarray
    missing_indicator: np.ndarray

    def z(self, tile: np.ndarray) -> np.ndarray:
        """Centred z of the rows of a tile, n x Q."""
        parts = take_columns(tile, self.column)
        offset = np.zeros(self.mean.size)
        if (self.power == 1).all():  # indicators, mostly: one subtraction
            parts = parts / self.scale.astype(tile.dtype)
            offset[: self.column.size] = self.centre / self.scale
        else:
            parts = (((parts - self.centre) / self.scale) ** self.power).astype(tile.dtype)
        if self.bins is not None:
            parts = np.hstack([parts, self.bins.indicators(tile)])
        parts -= (self.mean + offset).astype(tile.dtype)
        return parts

    def residuals(self, tile: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Columns of a tile minus the effects of the suspects."""
        B = self.B[:, columns].astype(tile.dtype, copy=False)
        if not B.any():
            return take_columns(tile, columns)  # missing values are stored as 0, the mean
        out = self.z(tile) @ B
        np.subtract(take_columns(tile, columns), out, out=out)
        indicator = self.missing_indicator[columns]
        with_missing = np.flatnonzero(indicator >= 0)
        if with_missing.size:
            out[:, with_missing] *= 1 - tile[:, indicator[with_missing]]
        return out


@dataclass(frozen=True)
class Pairs:
    """A block of D: features x treatments, without the excluded pairs.

    features    columns of X that are the k of D[k, j]
    treatments  the j of D[k, j]
    excluded    (k, j) positions in the block whose feature and treatment have the same source
    scale       row k of D is multiplied by it (1 / standard deviation at uniform weights, or 1)
    centre      a value near the mean of each feature, for GramBalance
    range       per feature: larger minus smaller value where it is two-valued, nan otherwise
    symmetric   all features are two-valued and are the treatments themselves, in order
    effects     removed from the features first (primal form of dense data only), or None
    """

    features: np.ndarray
    treatments: Treatments
    excluded: tuple[np.ndarray, np.ndarray]
    scale: np.ndarray
    centre: np.ndarray
    range: np.ndarray
    symmetric: bool = False
    effects: Effects | None = None

    def features_of(self, tile: Any) -> Any:
        """Feature columns of a tile, minus the suspects' effects."""
        if self.effects is None:
            return take_columns(tile, self.features)
        return self.effects.residuals(tile, self.features)

    @property
    def n_pairs(self) -> int:
        return self.features.size * len(self.treatments) - self.excluded[0].size


def group_rates(s: np.ndarray, W: float) -> tuple[np.ndarray, np.ndarray]:
    """1/s and 1/(W - s); both 0 for a one-sided treatment, which then contributes nothing.

    One-sided is defined up to rounding. s is summed in float64 also for float32 data: W - s must be
    accurate for a treatment that all but a few rows have.
    """
    c = W - s
    nothing = 64 * np.finfo(np.float64).eps * W
    two_sided = (s > nothing) & (c > nothing)
    if two_sided.all():
        return 1.0 / s, 1.0 / c
    inverse_s = np.divide(1.0, s, out=np.zeros_like(s), where=two_sided)
    inverse_c = np.divide(1.0, c, out=np.zeros_like(c), where=two_sided)
    return inverse_s, inverse_c


# Maximum number of entries of a d x t matrix (2**24 float64 = 128 MB each).
LARGEST_MATRIX = 2**24
