"""Design of a matrix: columns of the distance, treatments, and pairs of columns to balance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._arrays import add_up
from .._balance import Pairs, Treatments
from .._data.columns import as_frame
from .._data.tiled import TiledMatrix
from .._kmeans import Distance, RowScaling, weighted_cuts
from .._parallel import Executor
from .._rows import Rows
from .._validation import check_weights
from .stats import ColumnMap, ColumnStats, column_stats, shift_for

# Maximum bytes of whole columns of out-of-core data in memory at a time (at least one column).
QUANTILE_BATCH_BYTES = 2**27


def make_treatments(
    rows: TiledMatrix,
    a: np.ndarray,
    columns: ColumnStats,
    column_map: ColumnMap,
    n_bins: int,
    which: np.ndarray | None = None,
) -> Treatments:
    """Treatments of the columns ``which`` (None: of all).

    One indicator for a two-valued column (the larger value is treated), one per level of an ordered
    one, one per weighted quantile bin for any other, none for a constant one. Missing values have
    no treatment. Bounds are in the (shifted) values of ``rows``.
    """
    shift = np.zeros(rows.d) if rows.shift is None else rows.shift.astype(np.float64)
    column, above, upto = [], [], []
    varies = columns.high > columns.low
    if which is not None:
        varies &= np.isin(np.arange(rows.d), which)
    plain = columns.two_valued & (column_map.missing_indicator < 0)
    binned = [k for k in np.flatnonzero(varies & ~plain) if column_map.levels[k] is None]
    whole = whole_columns(rows, a, np.array(binned, dtype=np.intp), column_map)
    halfway = columns.low + (columns.high - columns.low) / 2 - shift
    simple = plain & np.array([levels is None for levels in column_map.levels], dtype=bool)
    for k in np.flatnonzero(varies & ~simple):
        levels, two_values = column_map.levels[k], False
        if levels is not None:
            levels = np.asarray(levels, dtype=np.float64) - shift[k]
            cuts = (levels[:-1] + levels[1:]) / 2
            two_values = levels.size == 2
        else:
            values, weight = next(whole)
            if not weight.any():
                continue
            cuts = weighted_cuts(values, weight, n_bins)
            if column_map.missing_indicator[k] >= 0:
                known = values[weight > 0]
                third = (known != known.min()) & (known != known.max())
                two_values = cuts.size == 1 and not third.any()
        above_k, upto_k = [-np.inf, *cuts], [*cuts, np.inf]
        if two_values:
            above_k, upto_k = above_k[1:], upto_k[1:]
        column.extend([k] * len(above_k))
        above.extend(above_k)
        upto.extend(upto_k)
    one_treatment = np.flatnonzero(varies & simple)
    used = np.concatenate([one_treatment, np.array(column, dtype=np.intp)])
    lower = np.concatenate([halfway[one_treatment], above])
    upper = np.concatenate([np.full(one_treatment.size, np.inf), upto])
    order = np.argsort(used, kind="stable")
    used = used[order]
    zero_one = columns.two_valued & (columns.low == 0) & (columns.high == 1)
    as_is = rows.shift is None and bool(zero_one[used].all())
    missing_indicator = column_map.missing_indicator[used]
    return Treatments(
        used,
        lower[order].astype(float),
        upper[order].astype(float),
        as_is,
        missing_indicator if (missing_indicator >= 0).any() else None,
    )


def whole_columns(
    rows: TiledMatrix, a: np.ndarray, which: np.ndarray, column_map: ColumnMap
) -> Iterator[tuple]:
    """Values of each column and their weights for its quantiles (0 where missing).

    Out-of-core data are read in as few passes as QUANTILE_BATCH_BYTES allows; columns of small
    integers in one pass, as the weight of each of their values.
    """
    if not rows.in_memory and rows.X.dtype.itemsize == 1:
        yield from byte_values(rows, a, which)
        return
    batch = 1 if rows.in_memory else max(1, QUANTILE_BATCH_BYTES // (rows.n * rows.dtype.itemsize))
    for first in range(0, which.size, batch):
        batch_columns = which[first : first + batch]
        missing_indicator = np.unique(
            column_map.missing_indicator[batch_columns][
                column_map.missing_indicator[batch_columns] >= 0
            ]
        )
        found = rows.columns(
            np.concatenate([batch_columns, missing_indicator])
            if not rows.in_memory
            else batch_columns
        )
        for place, k in enumerate(batch_columns):
            weight, indicator = a, column_map.missing_indicator[k]
            if indicator >= 0:
                if rows.in_memory:
                    missing = rows.columns(np.array([indicator]))[:, 0]
                else:
                    missing = found[
                        :, batch_columns.size + np.searchsorted(missing_indicator, indicator)
                    ]
                weight = a * (missing == 0)
            yield found[:, place], weight


def byte_values(rows: TiledMatrix, a: np.ndarray, which: np.ndarray) -> Iterator[tuple]:
    """All values of a one-byte type, shifted as the rows are, and their weights."""
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
    columns: ColumnStats,
    treatments: Treatments,
    column_map: ColumnMap,
    suspects: np.ndarray | None,
    scale: np.ndarray,
    shift: np.ndarray | None,
) -> list[Pairs]:
    """The blocks of D: all pairs of different sources, or the other columns given the suspects.

    The opposite direction (suspects given the other columns) has denominators that depend on the
    weights, so the problem would not be convex; it was worth less than 0.01 population ARI on
    average (docs/results/README.md)."""
    range_ = np.where(columns.two_valued, columns.high - columns.low, np.nan)
    centre = columns.mean if shift is None else columns.mean - shift
    if suspects is None:
        k = np.flatnonzero(~column_map.is_indicator)
        excluded = same_source(column_map.source[k], column_map.source[treatments.column])
        symmetric = bool(columns.two_valued.all()) and np.array_equal(k, treatments.column)
        return [Pairs(k, treatments, excluded, scale[k], centre[k], range_[k], symmetric)]
    is_suspect = np.zeros(columns.low.size, dtype=bool)
    is_suspect[suspects] = True
    nothing = (np.zeros(0, np.intp), np.zeros(0, np.intp))
    own = treatments.take(np.flatnonzero(is_suspect[treatments.column]))
    k = np.flatnonzero(~is_suspect & ~column_map.is_indicator)
    if k.size == 0 or len(own) == 0:
        return []
    return [Pairs(k, own, nothing, scale[k], centre[k], range_[k])]


def same_source(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All (k, j) with left[k] == right[j], without a left x right matrix."""
    order = np.argsort(left, kind="stable")
    first = np.searchsorted(left[order], right)
    count = np.searchsorted(left[order], right, side="right") - first
    j = np.repeat(np.arange(right.size), count)
    within = np.arange(j.size) - np.repeat(np.cumsum(count) - count, count)
    return order[np.repeat(first, count) + within], j


def indicators(rows: Rows, treatments: Treatments) -> Any:
    """Indicators of the given treatments for all rows, n x q in CSR."""

    def of_tile(tile: Any) -> Any:
        T = (
            treatments.sparse_indicators(tile).dense()
            if sp.issparse(tile)
            else treatments.indicators(tile)
        )
        return sp.csr_array(T.astype(np.float64))

    return sp.vstack(list(rows.map(of_tile, dense=False)), format="csr")


class Design(NamedTuple):
    """Input of the solver."""

    rows: TiledMatrix
    a: np.ndarray
    stats: ColumnStats
    column_map: ColumnMap
    suspects: np.ndarray | None
    distance: Distance
    treatments: Treatments
    pair_blocks: list[Pairs]
    scale: np.ndarray

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        given = self.column_map.names
        return [f"column {k}" for k in range(self.rows.d)] if given is None else list(given)

    @property
    def sources(self) -> np.ndarray:
        return self.column_map.source

    @property
    def source_names(self) -> list[str]:
        return self.names if self.column_map.sources is None else list(self.column_map.sources)


def make_design(
    rows: TiledMatrix,
    a: np.ndarray,
    *,
    suspects: np.ndarray | None,
    cluster_on: str,
    n_bins: int,
    standardise: bool,
    column_map: ColumnMap | None = None,
    column_scale: str | None = None,
    row_scale: str | None = None,
    shift: Any = "measured",
) -> Design:
    """Design of ``rows``. ``shift``: subtracted from the columns (an array or None); "measured":
    their means where a column is far from 0."""
    column_map = column_map or ColumnMap.identity(rows.d)
    columns = column_stats(rows, a, column_map)
    if isinstance(shift, str):
        shift = shift_for(columns, column_map, rows.sparse)
    rows = rows.with_shift(shift)
    treatments = make_treatments(rows, a, columns, column_map, n_bins, suspects)
    if standardise:
        scale = np.divide(1.0, columns.sd, out=np.zeros(rows.d), where=columns.sd > 0)
    else:
        scale = np.ones(rows.d)
    in_distance = ~column_map.is_indicator
    if suspects is not None and cluster_on == "non_suspects":
        in_distance[suspects] = False
    which = np.flatnonzero(in_distance)
    if row_scale == "auto":
        row_scale = "unit" if is_presence_data(rows, columns, column_map, which) else None
    distance = scaled_distance(
        rows, a, columns, column_map, which, column_scale, row_scale == "unit"
    )
    return Design(
        rows,
        a,
        columns,
        column_map,
        suspects,
        distance,
        treatments,
        make_pairs(columns, treatments, column_map, suspects, scale, rows.shift),
        scale,
    )


def scaled_distance(
    rows: TiledMatrix,
    a: np.ndarray,
    columns: ColumnStats,
    column_map: ColumnMap,
    which: np.ndarray,
    column_scale: str | None,
    unit: bool,
) -> Distance:
    """Distance over the columns ``which``, with scaled columns and unit rows where requested."""
    distance = make_distance(columns, column_map, which)
    if column_scale is None and not unit:
        return distance
    N, shift = float(a.sum()), 0.0 if rows.shift is None else rows.shift[which]
    scaling = make_row_scaling(columns, column_map, which, N, column_scale, unit)
    distance = replace(distance, scaling=replace(scaling, offset=scaling.offset + shift))
    if distance.variances is None:
        return distance
    return replace(distance, variances=distance.variances * scaling.scale**2)


def make_distance(columns: ColumnStats, column_map: ColumnMap, which: np.ndarray) -> Distance:
    """Distance over the columns ``which``; variances of observed values define its factors."""
    missing_indicator = column_map.missing_indicator[which]
    at = np.flatnonzero(missing_indicator >= 0)
    if at.size == 0:
        return Distance(which)
    variances = columns.sd[which] ** 2
    # A missing value is stored as the mean and adds nothing to the sum of squares.
    variances[at] /= np.maximum(1.0 - columns.mean[missing_indicator[at]], 1e-12)
    return Distance(which, at, missing_indicator[at], variances)


def is_presence_data(
    rows: TiledMatrix, columns: ColumnStats, column_map: ColumnMap, which: np.ndarray
) -> bool:
    """Whether rows are like documents: an array (no table) of absent / present columns, or sparse
    counts. Only then does the length of a row reflect how much was recorded, not what."""
    if column_map.sources is not None:
        return False
    if rows.sparse:
        return bool((columns.low[which] >= 0).all())
    varies = columns.high[which] > columns.low[which]
    return bool(columns.two_valued[which][varies].all())


def make_row_scaling(
    columns: ColumnStats,
    column_map: ColumnMap,
    which: np.ndarray,
    N: float,
    scale: str | None,
    unit: bool,
) -> RowScaling:
    """Scales of the columns of a distance, for rows that are not shifted.

    "sd": one over the standard deviation at uniform weights. "idf": two-valued columns, absent 0
    and present 1, times log((1 + N) / (1 + N p)) + 1 with p the share of rows where present, as in
    scikit-learn's TfidfTransformer. Two-valued columns are also shifted so that absent is 0 where
    rows are normalised to length 1, because the length depends on the origin.
    """
    two = columns.two_valued[which] & (column_map.missing_indicator[which] < 0)
    range_ = columns.high[which] - columns.low[which]
    if scale == "idf":
        for k in which[~two & (range_ > 0)][:1]:
            raise ValueError(
                f"column_scale='idf' is defined for two-valued columns (absent, present), and "
                f"{column_map.describe(k)} has more values; use 'sd' or None"
            )
        present = (columns.mean[which] - columns.low[which]) / np.where(range_ > 0, range_, 1.0)
        factor = (np.log((1.0 + N) / (1.0 + N * present)) + 1.0) / np.where(range_ > 0, range_, 1.0)
    elif scale == "sd":
        sd = columns.sd[which]
        factor = np.divide(1.0, sd, out=np.zeros(sd.size), where=sd > 0)
    else:
        factor = np.ones(which.size)
    offset = np.where(two & ((scale == "idf") | unit), -columns.low[which], 0.0)
    return RowScaling(offset, factor, unit)


def design_for(model: Any, X: Any, sample_weight: Any = None) -> Design:
    """Design of the rows of a fit, or of a subsample, with the distance, treatments and pairs of
    ``model``. For a subsample, standard deviations and quantile bins are computed from it."""
    encoder = model.encoder_
    if encoder is not None:
        matrix, column_map = encoder._encode(X).matrix, encoder._column_map()
    else:
        frame = as_frame(X)
        X = X if frame is None else frame.to_numpy()
        matrix = sp.csr_array(X) if sp.issparse(X) else np.ascontiguousarray(X)
        if matrix.dtype not in (np.float32, np.float64, np.uint8, np.int8, np.bool_):
            matrix = matrix.astype(np.float64)
        column_map = ColumnMap.identity(matrix.shape[1], getattr(model, "feature_names_in_", None))
    n = matrix.shape[0]
    suspects = None
    if model.suspects_ is not None:
        suspects = np.flatnonzero(np.isin(column_map.source, model.suspects_))
    design = make_design(
        TiledMatrix(matrix, executor=Executor(model.n_threads)),
        check_weights(sample_weight, n),
        suspects=suspects,
        cluster_on=getattr(model, "cluster_on", "all"),
        n_bins=model.n_bins,
        standardise=model.objective == "normalized",
        column_map=column_map,
        shift=model._shift,
    )
    distance = getattr(model, "_distance", None)
    if distance is None:
        return design
    if distance.effects is None:
        return design._replace(distance=replace(design.distance, scaling=distance.scaling))
    return design._replace(
        distance=distance,
        pair_blocks=[replace(p, effects=distance.effects) for p in design.pair_blocks],
    )
