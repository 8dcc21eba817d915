"""A matrix becomes columns of the distance, treatments, and the pairs to balance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._blocks import Rows
from .._kmeans import Distance, Form, weighted_cuts
from .._terms import Pairs, Treatments, add_up, scratch, weighted_sum

# Columns whose mean is more than this many standard deviations from 0 are shifted by it.
FAR_FROM_ZERO = 8.0
# Bytes of whole columns of rows outside memory that are held at a time, and one at least.
COLUMNS_AT_A_TIME = 2**27


@dataclass(frozen=True)
class Layout:
    """Where the columns of a matrix come from.

    names     of the columns, readable; None for "column 3"
    source    position of the source column that each was made of; pairs of one source never count
    absent    for each column the 0/1 column that notes its missing values (which hold 0), or -1
    notes     True for those 0/1 columns: treatments, but neither features nor in the distance
    levels    for each column its values in order where every one is a treatment (ordered
              categories), else None: two values make one treatment, more make quantile bins
    sources   names of the source columns; None where they are the columns
    """

    names: tuple[str, ...] | None
    source: np.ndarray
    absent: np.ndarray
    notes: np.ndarray
    levels: tuple
    sources: tuple[str, ...] | None = None

    @classmethod
    def plain(cls, d: int, names: Any = None) -> Layout:
        """Each column its own source, nothing missing."""
        return cls(
            None if names is None else tuple(map(str, names)),
            np.arange(d),
            np.full(d, -1),
            np.zeros(d, dtype=bool),
            (None,) * d,
        )

    def called(self, k: int) -> str:
        return f"column {k} of X" if self.names is None else f"column {self.names[k]!r} of X"


class Columns(NamedTuple):
    """Weighted facts about each column; rows of weight 0 do not count."""

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    two_valued: np.ndarray


def describe_columns(rows: Rows, a: np.ndarray, layout: Layout | None = None) -> Columns:
    """Two passes: range and mean, then the spread about it and whether a third value occurs.

    Refuses, by name, columns with values that are not finite or whose squares are not.
    """
    N = float(a.sum())
    largest = np.sqrt(np.finfo(rows.dtype).max / rows.d) / 4
    rows = rows.tall() if rows.sparse else rows

    called = (layout or Layout.plain(rows.d)).called

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
                f"{called(k)} contains {what}; all values of an array should be finite. Fill them "
                "in, or give a table (pandas, polars), whose missing values are understood"
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
        third = np.not_equal(tile, low, out=scratch("third", tile.shape, bool))
        third &= np.not_equal(tile, high, out=scratch("not high", tile.shape, bool))
        third &= (a_ > 0)[:, None]
        away = np.subtract(tile, mean, out=scratch("wide", tile.shape, np.float64))
        np.multiply(away, away, out=away)
        count = np.count_nonzero(third, axis=0)
        return a_ @ away, count, np.full(rows.d, (a_ > 0).sum())

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


def shift_for(columns: Columns, layout: Layout, sparse: bool) -> np.ndarray | None:
    """Column means to subtract where columns lie far from 0; sparse data stay as they are, and so
    do columns with gaps, whose missing values must hold 0."""
    far = np.abs(columns.mean) > FAR_FROM_ZERO * columns.sd
    fixed = layout.notes | (layout.absent >= 0)
    if sparse or not (far & ~fixed & (columns.high > columns.low)).any():
        return None
    return np.where(fixed, 0.0, columns.mean)


def make_treatments(
    rows: Rows, a: np.ndarray, columns: Columns, layout: Layout, n_bins: int
) -> Treatments:
    """One indicator for a two-valued column (the larger value is treated), one per level of an
    ordered one, one per weighted quantile bin for any other, none for a constant one. Missing
    values are in none of them. In the (shifted) values of ``rows``."""
    shift = np.zeros(rows.d) if rows.shift is None else rows.shift.astype(np.float64)
    column, above, upto = [], [], []
    varies = columns.high > columns.low
    plain = columns.two_valued & (layout.absent < 0)
    binned = [k for k in np.flatnonzero(varies & ~plain) if layout.levels[k] is None]
    whole = whole_columns(rows, a, np.array(binned, dtype=np.intp), layout)
    halfway = columns.low + (columns.high - columns.low) / 2 - shift
    simple = plain & np.array([levels is None for levels in layout.levels], dtype=bool)
    for k in np.flatnonzero(varies & ~simple):
        levels, two_values = layout.levels[k], False
        if levels is not None:
            levels = np.asarray(levels, dtype=np.float64) - shift[k]
            cuts = (levels[:-1] + levels[1:]) / 2
            two_values = levels.size == 2
        else:
            values, weight = next(whole)
            if not weight.any():
                continue
            cuts = weighted_cuts(values, weight, n_bins)
            if layout.absent[k] >= 0:
                known = values[weight > 0]
                third = (known != known.min()) & (known != known.max())
                two_values = cuts.size == 1 and not third.any()
        above_k, upto_k = [-np.inf, *cuts], [*cuts, np.inf]
        if two_values:
            above_k, upto_k = above_k[1:], upto_k[1:]
        column.extend([k] * len(above_k))
        above.extend(above_k)
        upto.extend(upto_k)
    alone = np.flatnonzero(varies & simple)
    used = np.concatenate([alone, np.array(column, dtype=np.intp)])
    lower = np.concatenate([halfway[alone], above])
    upper = np.concatenate([np.full(alone.size, np.inf), upto])
    order = np.argsort(used, kind="stable")
    used = used[order]
    zero_one = columns.two_valued & (columns.low == 0) & (columns.high == 1)
    as_is = rows.shift is None and bool(zero_one[used].all())
    absent = layout.absent[used]
    return Treatments(
        used,
        lower[order].astype(float),
        upper[order].astype(float),
        as_is,
        absent if (absent >= 0).any() else None,
    )


def whole_columns(rows: Rows, a: np.ndarray, which: np.ndarray, layout: Layout) -> Iterator[tuple]:
    """Values of each column and the weights that count for its quantiles (0 where missing).

    Rows outside memory are read as rarely as the room for columns allows; columns of small integers
    in one pass, as the weight of each of their values.
    """
    if not rows.resident and rows.X.dtype.itemsize == 1:
        yield from small_integers(rows, a, which)
        return
    at_a_time = 1 if rows.resident else max(1, COLUMNS_AT_A_TIME // (rows.n * rows.dtype.itemsize))
    for first in range(0, which.size, at_a_time):
        some = which[first : first + at_a_time]
        absent = np.unique(layout.absent[some][layout.absent[some] >= 0])
        found = rows.columns(np.concatenate([some, absent]) if not rows.resident else some)
        for place, k in enumerate(some):
            weight, noted = a, layout.absent[k]
            if noted >= 0:
                if rows.resident:
                    missing = rows.columns(np.array([noted]))[:, 0]
                else:
                    missing = found[:, some.size + np.searchsorted(absent, noted)]
                weight = a * (missing == 0)
            yield found[:, place], weight


def small_integers(rows: Rows, a: np.ndarray, which: np.ndarray) -> Iterator[tuple]:
    """The values that one byte can hold, shifted as the rows are, and their weights."""
    shift = np.zeros(rows.d, rows.dtype) if rows.shift is None else rows.shift
    low = -128 if rows.X.dtype == np.int8 else 0
    cells = 256 * np.arange(which.size)
    own = shift[which]

    def weigh(tile: np.ndarray, a_: np.ndarray) -> tuple:
        values = np.rint(tile[:, which] + own).astype(np.int64) - low + cells
        weights = np.repeat(a_, which.size)
        return (np.bincount(values.ravel(), weights=weights, minlength=256 * which.size),)

    if which.size:
        total = add_up(rows.map(weigh, a))[0].reshape(which.size, 256)
        for k, weight in zip(which, total):
            yield np.arange(low, low + 256).astype(rows.dtype) - shift[k], weight


def make_pairs(
    columns: Columns,
    treatments: Treatments,
    layout: Layout,
    suspects: np.ndarray | None,
    scale: np.ndarray,
    shift: np.ndarray | None,
) -> list[Pairs]:
    """The rectangles of D: all pairs of different sources, or those with exactly one suspect."""
    gap = np.where(columns.two_valued, columns.high - columns.low, np.nan)
    centre = columns.mean if shift is None else columns.mean - shift
    if suspects is None:
        k = np.flatnonzero(~layout.notes)
        masked = same_source(layout.source[k], layout.source[treatments.column])
        symmetric = bool(columns.two_valued.all()) and np.array_equal(k, treatments.column)
        return [Pairs(k, treatments, masked, scale[k], centre[k], gap[k], symmetric)]
    is_suspect = np.zeros(columns.low.size, dtype=bool)
    is_suspect[suspects] = True
    nothing = (np.zeros(0, np.intp), np.zeros(0, np.intp))
    rectangles = []
    for features in (~is_suspect, is_suspect):
        # Features of one side against treatments of the other.
        of_others = np.flatnonzero(~features[treatments.column])
        k = np.flatnonzero(features & ~layout.notes)
        if k.size and of_others.size:
            others = treatments.take(of_others)
            rectangles.append(Pairs(k, others, nothing, scale[k], centre[k], gap[k]))
    return rectangles


def same_source(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All (k, j) with left[k] == right[j]; no left x right matrix is made."""
    order = np.argsort(left, kind="stable")
    first = np.searchsorted(left[order], right)
    count = np.searchsorted(left[order], right, side="right") - first
    j = np.repeat(np.arange(right.size), count)
    within = np.arange(j.size) - np.repeat(np.cumsum(count) - count, count)
    return order[np.repeat(first, count) + within], j


def indicators(rows: Rows, treatments: Treatments) -> Any:
    """Indicators of some treatments for all rows, n x q in CSR."""

    def of_tile(tile: Any) -> Any:
        T = treatments.of_sparse(tile).dense() if sp.issparse(tile) else treatments.of(tile)
        return sp.csr_array(T.astype(np.float64))

    return sp.vstack(list(rows.map(of_tile, dense=False)), format="csr")


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
                    f"{some(list(names))}"
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


def some(names: Any, most: int = 8, quoted: bool = True) -> str:
    """The first few of a list, in words."""
    shown = ", ".join(map(repr if quoted else str, list(names)[:most]))
    return shown + (f", ... ({len(names)} in all)" if len(names) > most else "")


class Encoded(NamedTuple):
    """A matrix made ready for the solver."""

    rows: Rows
    a: np.ndarray
    columns: Columns
    layout: Layout
    suspects: np.ndarray | None
    distance: Distance
    treatments: Treatments
    rectangles: list[Pairs]
    scale: np.ndarray

    @property
    def names(self) -> list[str]:
        """Of the encoded columns."""
        given = self.layout.names
        return [f"column {k}" for k in range(self.rows.d)] if given is None else list(given)

    @property
    def sources(self) -> np.ndarray:
        return self.layout.source

    @property
    def source_names(self) -> list[str]:
        return self.names if self.layout.sources is None else list(self.layout.sources)


def encode(
    rows: Rows,
    a: np.ndarray,
    *,
    suspects: np.ndarray | None,
    cluster_on: str,
    n_bins: int,
    standardise: bool,
    layout: Layout | None = None,
    column_scale: str | None = None,
    row_scale: str | None = None,
    shift: Any = "measured",
) -> Encoded:
    """``shift``: what is subtracted from the columns (an array or None), or "measured": their
    means where that is needed."""
    layout = layout or Layout.plain(rows.d)
    columns = describe_columns(rows, a, layout)
    if isinstance(shift, str):
        shift = shift_for(columns, layout, rows.sparse)
    rows = rows.with_shift(shift)
    treatments = make_treatments(rows, a, columns, layout, n_bins)
    if standardise:
        scale = np.divide(1.0, columns.sd, out=np.zeros(rows.d), where=columns.sd > 0)
    else:
        scale = np.ones(rows.d)
    in_distance = ~layout.notes
    if suspects is not None and cluster_on == "rest":
        in_distance[suspects] = False
    which = np.flatnonzero(in_distance)
    if row_scale == "auto":
        row_scale = "unit" if notes_presence(rows, columns, layout, which) else None
    distance = scaled_distance(rows, a, columns, layout, which, column_scale, row_scale == "unit")
    return Encoded(
        rows,
        a,
        columns,
        layout,
        suspects,
        distance,
        treatments,
        make_pairs(columns, treatments, layout, suspects, scale, rows.shift),
        scale,
    )


def scaled_distance(
    rows: Rows,
    a: np.ndarray,
    columns: Columns,
    layout: Layout,
    which: np.ndarray,
    column_scale: str | None,
    unit: bool,
) -> Distance:
    """The distance over some columns, their scales and the rows' lengths as asked for."""
    distance = make_distance(columns, layout, which)
    if column_scale is None and not unit:
        return distance
    N, shift = float(a.sum()), 0.0 if rows.shift is None else rows.shift[which]
    form = make_form(columns, layout, which, N, column_scale, unit)
    distance = replace(distance, form=replace(form, offset=form.offset + shift))
    if distance.variances is None:
        return distance
    return replace(distance, variances=distance.variances * form.scale**2)


def make_distance(columns: Columns, layout: Layout, which: np.ndarray) -> Distance:
    """The distance over some columns; their variances, of observed values, set its factors."""
    absent = layout.absent[which]
    at = np.flatnonzero(absent >= 0)
    if at.size == 0:
        return Distance(which)
    variances = columns.sd[which] ** 2
    # A missing value holds the mean and adds nothing to the sum of squares.
    variances[at] /= np.maximum(1.0 - columns.mean[absent[at]], 1e-12)
    return Distance(which, at, absent[at], variances)


def notes_presence(rows: Rows, columns: Columns, layout: Layout, which: np.ndarray) -> bool:
    """Whether rows are like documents: an array (no table) whose columns say absent or present, or
    sparse counts. Only then is the length of a row a matter of how much was noted, not of what."""
    if layout.sources is not None:
        return False
    if rows.sparse:
        return bool((columns.low[which] >= 0).all())
    varies = columns.high[which] > columns.low[which]
    return bool(columns.two_valued[which][varies].all())


def make_form(
    columns: Columns, layout: Layout, which: np.ndarray, N: float, scale: str | None, unit: bool
) -> Form:
    """Scales of the columns of a distance, for rows that are not shifted.

    "sd": one over the starting standard deviation. "idf": two-valued columns, absent 0 and present
    1, times log((1 + N) / (1 + N p)) + 1 with p the share of rows where it is present, as
    scikit-learn's TfidfTransformer. Two-valued columns are 0 and a number also where rows are
    brought to length 1, which depends on where 0 is.
    """
    two = columns.two_valued[which] & (layout.absent[which] < 0)
    gap = columns.high[which] - columns.low[which]
    if scale == "idf":
        for k in which[~two & (gap > 0)][:1]:
            raise ValueError(
                f"column_scale='idf' is defined for two-valued columns (absent, present), and "
                f"{layout.called(k)} has more values; use 'sd' or None"
            )
        present = (columns.mean[which] - columns.low[which]) / np.where(gap > 0, gap, 1.0)
        factor = (np.log((1.0 + N) / (1.0 + N * present)) + 1.0) / np.where(gap > 0, gap, 1.0)
    elif scale == "sd":
        sd = columns.sd[which]
        factor = np.divide(1.0, sd, out=np.zeros(sd.size), where=sd > 0)
    else:
        factor = np.ones(which.size)
    offset = np.where(two & ((scale == "idf") | unit), -columns.low[which], 0.0)
    return Form(offset, factor, unit)
