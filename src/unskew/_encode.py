"""The door: a matrix becomes columns of the distance, treatments, and the pairs to balance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ._blocks import Rows
from ._kmeans import Distance, weighted_cuts
from ._terms import Pairs, Treatments

# Columns whose mean is more than this many standard deviations from 0 are shifted by it.
FAR_FROM_ZERO = 8.0


class Columns(NamedTuple):
    """Weighted facts about each column; rows of weight 0 do not count."""

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    two_valued: np.ndarray


def describe_columns(rows: Rows, a: np.ndarray, names: np.ndarray | None = None) -> Columns:
    """Two passes: range and mean, then the spread about it and whether a third value occurs.

    Refuses, by name, columns with values that are not finite or whose squares are not.
    """
    N = float(a.sum())
    largest = np.sqrt(np.finfo(rows.dtype).max / rows.d) / 4

    def called(k: int) -> str:
        return f"column {k} of X" if names is None else f"column {names[k]!r} of X"

    def first(tile: Any, a_: np.ndarray) -> tuple:
        size = abs(tile).max(axis=0)
        size = size.toarray().ravel() if sp.issparse(tile) else size
        present = a_ > 0
        if not present.all():
            tile, a_ = tile[present], a_[present]
        if tile.shape[0] == 0:
            return np.full(rows.d, np.inf), np.full(rows.d, -np.inf), np.zeros(rows.d), size
        low, high = tile.min(axis=0), tile.max(axis=0)
        if sp.issparse(tile):
            low, high = low.toarray().ravel(), high.toarray().ravel()
        return low, high, a_ @ tile, size

    low, high = np.full(rows.d, np.inf), np.full(rows.d, -np.inf)
    total, size = np.zeros(rows.d), np.zeros(rows.d)
    for part_low, part_high, part, part_size in rows.map(first, a, dense=False):
        low, high, total = np.minimum(low, part_low), np.maximum(high, part_high), total + part
        size = np.maximum(size, part_size)
    for k in np.flatnonzero(~(size <= largest))[:1]:
        if not np.isfinite(size[k]):
            what = "NaN" if np.isnan(size[k]) else "inf"
            raise ValueError(
                f"{called(k)} contains {what}; all values should be finite. Fill in or leave out "
                "the rows concerned"
            )
        raise ValueError(
            f"{called(k)} has values of size {size[k]:.3g}; they should be <= {largest:.3g} so "
            f"that squared distances do not overflow in {rows.dtype}. Rescale it"
        )
    mean = total / N

    def second(tile: Any, a_: np.ndarray) -> tuple:
        if sp.issparse(tile):
            # Rows without the entry are at 0: their part of the spread is closed form below.
            entries = tile.tocoo()
            data, weight = entries.data.astype(np.float64), a_[entries.row]
            about = (data - mean[entries.col]) ** 2 - mean[entries.col] ** 2
            third = (data != low[entries.col]) & (data != high[entries.col]) & (weight > 0)
            d = rows.d
            stored = np.bincount(entries.col[weight > 0], minlength=d)
            return (
                np.bincount(entries.col, weights=weight * about, minlength=d),
                np.bincount(entries.col, weights=third, minlength=d),
                stored,
            )
        third = (tile != low) & (tile != high) & (a_ > 0)[:, None]
        return a_ @ (tile - mean) ** 2, third.sum(0), np.full(rows.d, (a_ > 0).sum())

    spread, third, stored = (np.zeros(rows.d) for _ in range(3))
    for part, part_third, part_stored in rows.map(second, a, dense=False):
        spread, third, stored = spread + part, third + part_third, stored + part_stored
    variance = np.maximum(spread / N + (mean**2 if rows.sparse else 0.0), 0.0)
    # An implicit zero can itself be the third value.
    zeros = stored < (a > 0).sum()
    third = third + (zeros & (low != 0) & (high != 0))
    sd = np.where(high > low, np.sqrt(variance), 0.0)
    for k in np.flatnonzero((high > low) & (sd == 0))[:1]:
        raise ValueError(
            f"{called(k)} varies by {high[k] - low[k]:.3g}, whose square is 0 in floating point. "
            "Rescale it"
        )
    return Columns(low, high, mean, sd, (third == 0) & (high > low))


def shift_for(columns: Columns, sparse: bool) -> np.ndarray | None:
    """Column means to subtract where columns lie far from 0; sparse data stay as they are."""
    far = np.abs(columns.mean) > FAR_FROM_ZERO * columns.sd
    if sparse or not (far & (columns.high > columns.low)).any():
        return None
    return columns.mean


def make_treatments(rows: Rows, a: np.ndarray, columns: Columns, n_bins: int) -> Treatments:
    """One indicator for a two-valued column (the larger value is treated), one per weighted
    quantile bin for any other, none for a constant one. In the (shifted) values of ``rows``."""
    shift = np.zeros(rows.d) if rows.shift is None else rows.shift.astype(np.float64)
    column, above, upto = [], [], []
    for k in range(rows.d):
        if columns.two_valued[k]:
            column.append(k)
            above.append(columns.low[k] + (columns.high[k] - columns.low[k]) / 2 - shift[k])
            upto.append(np.inf)
        elif columns.high[k] > columns.low[k]:
            cuts = weighted_cuts(rows.columns(np.array([k]))[:, 0], a, n_bins)
            column.extend([k] * (cuts.size + 1))
            above.extend([-np.inf, *cuts])
            upto.extend([*cuts, np.inf])
    used = np.array(column, dtype=np.intp)
    zero_one = columns.two_valued & (columns.low == 0) & (columns.high == 1)
    as_is = rows.shift is None and bool(zero_one[used].all())
    return Treatments(used, np.array(above, float), np.array(upto, float), as_is)


def make_pairs(
    columns: Columns,
    treatments: Treatments,
    suspects: np.ndarray | None,
    scale: np.ndarray,
    shift: np.ndarray | None,
) -> list[Pairs]:
    """The rectangles of D: all pairs of different columns, or those with exactly one suspect."""
    everything = np.arange(columns.low.size)
    gap = np.where(columns.two_valued, columns.high - columns.low, np.nan)
    centre = columns.mean if shift is None else columns.mean - shift
    if suspects is None:
        own = treatments.column
        symmetric = bool(columns.two_valued.all())
        masked = (own, np.arange(own.size))
        return [Pairs(everything, treatments, masked, scale, centre, gap, symmetric)]
    is_suspect = np.zeros(everything.size, dtype=bool)
    is_suspect[suspects] = True
    nothing = (np.zeros(0, np.intp), np.zeros(0, np.intp))
    rectangles = []
    for features in (~is_suspect, is_suspect):
        # Features of one side against treatments of the other.
        of_others = np.flatnonzero(~features[treatments.column])
        k = np.flatnonzero(features)
        if k.size and of_others.size:
            others = treatments.take(of_others)
            rectangles.append(Pairs(k, others, nothing, scale[k], centre[k], gap[k]))
    return rectangles


def hold_suspects(rows: Rows, treatments: Treatments, suspects: np.ndarray) -> Any:
    """Indicators of the suspects' treatments, n x q in CSR; None if all of them are constant."""
    own = treatments.take(np.flatnonzero(np.isin(treatments.column, suspects)))
    if len(own) == 0:
        return None

    def indicators(tile: Any) -> Any:
        values = tile[:, own.column]
        values = values.toarray() if sp.issparse(values) else values
        return sp.csr_array(own.of_column_values(values).astype(np.float64))

    return sp.vstack(list(rows.map(indicators, dense=False)), format="csr")


def find_text_column(X: Any) -> Any:
    """The first column of a table that is neither numbers nor truth values, or None."""
    for name in getattr(X, "columns", ()):
        if np.asarray(X[name]).dtype.kind not in "buif":
            return name
    return None


def find_columns(named: Any, names: np.ndarray | None, d: int, parameter: str) -> np.ndarray:
    """Positions of columns given by name, index or boolean mask."""
    if isinstance(named, (str, int, np.integer)) and not isinstance(named, bool):
        named = [named]
    given = np.asarray(named, dtype=object if _has_text(named) else None)
    if given.ndim != 1:
        raise ValueError(
            f"{parameter}={named!r} should be a list of column names or indices, or a boolean mask"
        )
    if given.dtype == bool:
        if given.size != d:
            raise ValueError(
                f"{parameter} is a boolean mask of {given.size} entries but X has {d} columns"
            )
        return np.flatnonzero(given)
    found = []
    for one in given.tolist():
        if isinstance(one, str):
            if names is None:
                raise ValueError(
                    f"{parameter} names {one!r} but X has no column names; give indices or a table"
                )
            where = np.flatnonzero(names == one)
            if where.size == 0:
                raise ValueError(
                    f"{parameter} names {one!r}, which is not a column of X; columns: "
                    f"{_some(list(names))}"
                )
            found.append(int(where[0]))
        elif isinstance(one, int) and not isinstance(one, bool):
            if not -d <= one < d:
                raise ValueError(f"{parameter} has index {one} but X has {d} columns")
            found.append(one % d)
        else:
            raise TypeError(
                f"{parameter} has {one!r} ({type(one).__name__}); "
                "columns are given by name, index or boolean mask"
            )
    return np.unique(np.array(found, dtype=np.intp))


def _has_text(named: Any) -> bool:
    try:
        return any(isinstance(one, str) for one in named)
    except TypeError:
        return False


def _some(names: list, most: int = 8) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown + (f", ... ({len(names)} in all)" if len(names) > most else "")


class Encoded(NamedTuple):
    """A matrix made ready for the solver."""

    rows: Rows
    a: np.ndarray
    columns: Columns
    suspects: np.ndarray | None
    distance: Distance
    rectangles: list[Pairs]
    held: Any


def encode(
    rows: Rows,
    a: np.ndarray,
    *,
    suspects: np.ndarray | None,
    cluster_on: str,
    n_bins: int,
    standardise: bool,
    names: np.ndarray | None = None,
) -> Encoded:
    columns = describe_columns(rows, a, names)
    rows = rows.with_shift(shift_for(columns, rows.sparse))
    treatments = make_treatments(rows, a, columns, n_bins)
    if standardise:
        scale = np.divide(1.0, columns.sd, out=np.zeros(rows.d), where=columns.sd > 0)
    else:
        scale = np.ones(rows.d)
    in_distance = np.ones(rows.d, dtype=bool)
    if suspects is not None and cluster_on == "rest":
        in_distance[suspects] = False
    return Encoded(
        rows,
        a,
        columns,
        suspects,
        Distance(np.flatnonzero(in_distance)),
        make_pairs(columns, treatments, suspects, scale, rows.shift),
        None if suspects is None else hold_suspects(rows, treatments, suspects),
    )
