"""Weighted k-means kernels: initialize, assign, update. Letters as in ``_balance``.

Every function takes the columns of the distance, so that suspects can be balanced without being
part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from . import _terms
from ._arrays import add_up, csr_of, row_products, take_columns
from ._balance import Effects
from ._buffers import buffer
from ._rows import Rows
from ._validation import check_option

# Maximum number of entries of a CSR row whose product is accurate enough in float32; and the ratio
# of a squared distance to the squares it is the difference of, below which it lost too many digits.
SHORT_ROW, CANCELLATION = 128, 0.1


class MissingMask(NamedTuple):
    """Missing values of a dense tile, where the tile is 0.

    missing (n x u) is 1 where the column ``at`` (u, positions in the distance) is missing; factor
    (n) = sum of all columns' scales / sum over the observed ones, 0 for a row without any value.
    """

    missing: np.ndarray
    at: np.ndarray
    factor: np.ndarray


@dataclass(frozen=True)
class RowScaling:
    """Scaling of rows: (x + offset) * scale, then, if ``unit``, normalised to length 1.

    offset maps the smaller value of two-valued columns (absent, present) to 0; it is 0 for all
    other columns. Rows of length 0 are not normalised.
    """

    offset: np.ndarray
    scale: np.ndarray
    unit: bool

    def apply(self, F: Any) -> Any:
        if sp.issparse(F) and not self.offset.any():
            F = F.multiply(self.scale.astype(F.dtype)).tocsr()
            if not self.unit:
                return F
            length = np.sqrt(np.asarray(F.multiply(F).sum(axis=1), dtype=np.float64).ravel())
            inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
            return F.multiply(inverse.astype(F.dtype)[:, None]).tocsr()
        F = F.toarray() if sp.issparse(F) else F
        F = (F + self.offset.astype(F.dtype)) * self.scale.astype(F.dtype)
        if self.unit:
            length = np.sqrt(row_products(F, F))
            F /= np.where(length > 0, length, 1.0)[:, None]
        return F


@dataclass(frozen=True)
class Distance:
    """Columns of the distance, and the indicator columns of their missing values.

    With o_ij = 1 where the value is observed, 0 where it is missing, and v_j the variances of the
    columns at uniform weights,

        e_ik = f_i sum_j o_ij (x_ij - c_kj)^2,   f_i = sum_j v_j / sum_j o_ij v_j

    so that a row with missing values is not closer to all centres.

    columns     of the tile
    missing_at  positions in ``columns`` that have missing values
    indicator   the 0/1 columns of the tile that are 1 where those are missing
    variances   v, for the factor
    effects     effects of the suspects, removed before distances are computed; or None
    scaling     scales of columns and rows; None: unscaled. Not together with effects
    """

    columns: np.ndarray
    missing_at: np.ndarray | None = None
    indicator: np.ndarray | None = None
    variances: np.ndarray | None = None
    effects: Effects | None = None
    scaling: RowScaling | None = None

    def features(self, tile: Any) -> Any:
        if self.effects is None:
            F = take_columns(tile, self.columns)
            return F if self.scaling is None else self.scaling.apply(F)
        F = self.effects.residuals(tile, self.columns)
        if self.missing_at is not None:  # indicators may be specific to these (new) rows
            F[:, self.missing_at] *= 1 - tile[:, self.indicator]
        return F

    def missing_mask(self, tile: Any) -> MissingMask | None:
        if self.missing_at is None or self.indicator is None or self.variances is None:
            return None
        missing = tile[:, self.indicator]
        total = float(self.variances.sum())
        observed = total - missing.astype(np.float64) @ self.variances[self.missing_at]
        known = observed > 1e-9 * total
        factor = np.divide(total, observed, out=np.zeros_like(observed), where=known)
        return MissingMask(missing, self.missing_at, factor.astype(missing.dtype))


class Clusters(NamedTuple):
    """labels (n), squared distances e (n) to the assigned centres, C (K x d).

    e is None where only its weighted sum is used, see ``inertia``; labels have the smallest type of
    integers that fits. Both save memory of many rows.
    """

    labels: np.ndarray
    e: Any
    C: np.ndarray


def squared_distances(
    F: Any, C: np.ndarray, mask: MissingMask | None = None, dtype: Any = np.float64
) -> tuple[np.ndarray, np.ndarray]:
    """||x||^2 - 2 x.c + ||c||^2 for each row and centre, and the scale of its rounding error.

    CSR rows, which cannot be shifted towards 0, are multiplied in ``dtype``. With missing values
    (which are 0 in F) the corresponding squares of c are subtracted by a second product, and the
    result is multiplied by the row's factor.
    """
    if sp.issparse(F):
        data = buffer("entries", F.data.shape, np.float64)
        np.copyto(data, F.data)
        squared = np.multiply(data, data, out=buffer("squares", data.shape, np.float64))
        x2 = csr_of(squared, F.indices, F.indptr, F.shape[1]) @ np.ones(F.shape[1])
        F = csr_of(F.data if F.dtype == dtype else data, F.indices, F.indptr, F.shape[1])
        C = C.astype(dtype, copy=False)
    else:
        x2 = row_products(F, F)
    c2 = np.einsum("kj,kj->k", C, C)
    squares = F @ C.T
    squares *= -2.0
    squares += x2[:, None]
    squares += c2
    if mask is None:
        return squares, x2 + c2.max()
    squares -= mask.missing @ (C[:, mask.at] ** 2).T.astype(F.dtype)
    return squares * mask.factor[:, None], (x2 + c2.max()) * mask.factor


def differences(x: np.ndarray, c: np.ndarray, mask: MissingMask | None, which: Any) -> np.ndarray:
    """x - c, 0 where x is missing; rows ``which`` of the tile."""
    return zero_missing(x - c, mask, which)


def zero_missing(difference: np.ndarray, mask: MissingMask | None, which: Any) -> np.ndarray:
    if mask is not None:
        difference[:, mask.at] *= 1 - mask.missing[which]
    return difference


def assign(F: Any, C: np.ndarray, mask: MissingMask | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Nearest centre of each row and the squared distance to it; ties go to the lowest index.

    The product form above is used for all rows but near-ties, which are resolved from differences
    in float64. So the result does not depend on how rows are split into tiles.
    """
    if sp.issparse(F):
        return _assign_entries(F, C)
    C = C.astype(F.dtype, copy=False)
    distances, size = squared_distances(F, C, mask)
    close = _closest(distances, size)
    labels = close.argmax(0).astype(np.int32)  # the first of them
    if np.count_nonzero(close) > labels.size:
        _decide(labels, np.flatnonzero(np.count_nonzero(close, axis=0) > 1), F, C, mask)
    return labels, own_distances(F, C, labels, mask)


def own_distances(
    F: np.ndarray, C: np.ndarray, labels: np.ndarray, mask: MissingMask | None
) -> np.ndarray:
    """Squared distance of each dense row to the centre of its label, from differences."""
    own = np.take(C, labels, axis=0, out=buffer("own", F.shape, F.dtype), mode="clip")
    difference = zero_missing(np.subtract(F, own, out=own), mask, slice(None))
    e = row_products(difference, difference)
    return e if mask is None else e * mask.factor


def _closest(distances: np.ndarray, size: np.ndarray, roundings: int = 32) -> np.ndarray:
    """K x n: which centres are the nearest, up to ``roundings`` rounding errors of ``size``."""
    # Centre by centre, because a row of K numbers is too short for vectorised operations.
    across = np.ascontiguousarray(distances.T)
    return across <= across.min(0) + roundings * np.finfo(distances.dtype).eps * size


def _assign_entries(F: Any, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``assign`` for CSR rows. Short rows of float32 are multiplied in float32; near-ties, and rows
    whose distances lose too many digits, are recomputed in float64."""

    def nearest(F: Any, dtype: Any, roundings: int) -> tuple:
        distances, size = squared_distances(F, C, dtype=dtype)
        close = _closest(distances, size, roundings)
        labels = close.argmax(0).astype(np.int32)
        e = distances[np.arange(labels.size), labels].astype(np.float64)
        return labels, np.maximum(e, 0.0), close, size

    longest = int(np.diff(F.indptr).max(initial=0))
    if F.dtype != np.float32 or longest > SHORT_ROW:
        return nearest(F, np.float64, 32)[:2]
    labels, e, close, size = nearest(F, np.float32, max(32, longest))
    unsure = np.flatnonzero((np.count_nonzero(close, axis=0) > 1) | (e < CANCELLATION * size))
    if unsure.size:
        labels[unsure], e[unsure] = nearest(F[unsure], np.float64, 32)[:2]
    return labels, e


def _decide(
    labels: np.ndarray, tied: np.ndarray, F: np.ndarray, C: np.ndarray, mask: MissingMask | None
):
    """Labels of the rows ``tied``, from differences in float64."""
    for part in np.array_split(tied, max(1, tied.size // 256)):
        exact = np.stack(
            [(differences(F[part], c, mask, part).astype(np.float64) ** 2).sum(1) for c in C],
            axis=1,
        )
        # Ties in exact arithmetic may differ in the last digits.
        labels[part] = (exact <= exact.min(1, keepdims=True) * (1 + 1e-12)).argmax(1)


def distances(F: Any, C: np.ndarray, mask: MissingMask | None = None) -> np.ndarray:
    """Euclidean distance of each row to each centre.

    Where the product form loses its digits (a row close to a centre) differences are used.
    """
    C = C.astype(np.float64 if sp.issparse(F) else F.dtype, copy=False)
    squares, size = squared_distances(F, C, mask)
    rows, centres = np.nonzero(squares < 1e-4 * size[:, None])
    for part in np.array_split(np.arange(rows.size), max(1, rows.size // 256)):
        x = F[rows[part]].toarray() if sp.issparse(F) else F[rows[part]]
        exact = (differences(x, C[centres[part]], mask, rows[part]) ** 2).sum(1)
        factor = 1.0 if mask is None else mask.factor[rows[part]]
        squares[rows[part], centres[part]] = exact * factor
    return np.sqrt(squares)


def cluster_sums(
    F: Any, w: np.ndarray, labels: np.ndarray, K: int, mask: MissingMask | None = None
) -> tuple:
    """Additive sums: sum of w x per cluster (K x d) and sum of w per cluster.

    With missing values, w stands for w times the row's factor, and the third sum (K x u) is the
    weight of the missing values per cluster and column.
    """
    if mask is not None:
        w = w * mask.factor
    weights = w.astype(F.dtype, copy=False)
    totals = np.bincount(labels, weights=w, minlength=K)
    if sp.issparse(F):
        return _sums_of_entries(F, weights, labels, K), totals
    # CSC with one entry per column: no sorting is needed.
    members = sp.csc_array((weights, labels, np.arange(labels.size + 1)), (K, labels.size))
    if mask is None:
        return members @ F, totals
    return members @ F, totals, members @ mask.missing


def _sums_of_entries(F: Any, weights: np.ndarray, labels: np.ndarray, K: int) -> np.ndarray:
    """Sum of w x per cluster of CSR rows: all entries as one CSR row of length K d, densified."""
    d, count = F.shape[1], np.diff(F.indptr)
    integer: Any = np.int32 if K * d < 2**31 else np.int64
    places = np.repeat(labels.astype(integer) * integer(d), count)
    places += F.indices
    data = np.repeat(weights, count)
    data *= F.data
    ends = np.array([0, places.size], dtype=integer)
    return csr_of(data, places, ends, K * d).toarray().reshape(K, d)


def update(rows: Rows, distance: Distance, w: np.ndarray, labels: np.ndarray, C: np.ndarray):
    """argmin_C sum_i w_i e_i: weighted means of observed values.

    Centres of clusters without weight are unchanged. A centre is 0, the mean at uniform weights, in
    a column in which all its rows have missing values.
    """
    K, rows = C.shape[0], _tall(rows, distance)
    parts = rows.map(
        lambda tile, w_, labels_: cluster_sums(
            distance.features(tile), w_, labels_, K, distance.missing_mask(tile)
        ),
        w,
        labels,
        dense=False,
    )
    return means(add_up(parts), distance, C, rows.n)


def means(totals: list, distance: Distance, C: np.ndarray, n: int) -> tuple:
    """Centres from the sums of ``cluster_sums``, and which clusters have no weight."""
    sums, weight, *lacking = totals
    moved = weight > np.finfo(np.float64).tiny * max(n, 1)
    C = C.copy()
    if not lacking:
        C[moved] = sums[moved] / weight[moved, None]
        return C, ~moved
    known = np.repeat(weight[:, None], C.shape[1], axis=1)
    known[:, distance.missing_at] -= lacking[0]
    observed = known > 1e-9 * weight[:, None]
    C[moved] = np.divide(sums, known, out=np.zeros_like(sums), where=observed)[moved]
    return C, ~moved


class Sweep(NamedTuple):
    """Result of a pass that labels the rows: the clusters, their inertia, whether all labels are
    those before, and the sums from which ``means`` computes the next centres, if asked for."""

    clusters: Clusters
    inertia: float
    settled: bool
    totals: list


def sweep(
    rows: Rows, distance: Distance, w: np.ndarray, C: np.ndarray, before: np.ndarray,
    out: Clusters, with_sums: bool = True,
) -> Sweep:  # fmt: skip
    """Label the rows in one pass. Labels, and distances unless they are None, are written to the
    arrays of ``out``; ``before`` may be its labels."""
    K, rows, keep = C.shape[0], _tall(rows, distance), out.e is not None
    C_ = by_column(C, rows)

    def kernel(tile: Any, w_: np.ndarray) -> tuple:
        F, mask = distance.features(tile), distance.missing_mask(tile)
        labels, e = assign(F, C_, mask)
        sums = cluster_sums(F, w_, labels, K, mask) if with_sums else ()
        return labels, e if keep else None, float(w_ @ e), sums

    totals: list[Any] = []
    settled, value = True, 0.0
    for (start, stop), part in zip(rows.bounds, rows.map(kernel, w, dense=False)):
        labels, e, inertia_, sums = part
        settled = settled and np.array_equal(before[start:stop], labels)
        out.labels[start:stop] = labels
        if keep:
            out.e[start:stop] = e
        value += inertia_
        totals = add_up([totals, sums] if totals else [sums])
    return Sweep(out._replace(C=C), value, settled, totals)


def inertia(rows: Rows, distance: Distance, w: np.ndarray, clusters: Clusters) -> float:
    """sum_i w_i e_i: by a pass over the rows where e is not kept."""
    if clusters.e is not None:
        return _terms.inertia(w, clusters.e)

    def kernel(tile: Any, w_: np.ndarray, labels: np.ndarray) -> float:
        F, mask = distance.features(tile), distance.missing_mask(tile)
        C = clusters.C.astype(F.dtype, copy=False)
        return float(w_ @ own_distances(F, C, labels, mask))

    return float(sum(rows.map(kernel, w, clusters.labels)))


def _tall(rows: Rows, distance: Distance) -> Any:
    """Taller tiles of CSR rows, unless the distance makes them dense."""
    dense = distance.scaling is not None and distance.scaling.offset.any()
    return rows.tall() if rows.sparse and not dense else rows


def by_column(C: np.ndarray, rows: Rows) -> np.ndarray:
    """Centres in Fortran order for products with CSR rows: otherwise each tile converts them."""
    return np.asfortranarray(C, dtype=np.float64) if rows.sparse else C


def label_type(K: int) -> np.dtype:
    """Type of the labels of K clusters during a fit: the smallest, because there may be many."""
    return np.min_scalar_type(max(K - 1, 0))


def empty_clusters(n: int, C: np.ndarray, distances: bool = True) -> Clusters:
    """Arrays for the result of a pass; without ``distances`` e is None."""
    labels = np.empty(n, dtype=label_type(len(C)))
    return Clusters(labels, np.empty(n) if distances else None, C)


def label(rows: Rows, distance: Distance, C: np.ndarray, out: Clusters | None = None) -> Clusters:
    """argmin_labels of the same sum: nearest centres. Weights do not enter. ``out``: clusters whose
    arrays are overwritten."""
    out = empty_clusters(rows.n, C) if out is None else out
    rows, keep = _tall(rows, distance), out.e is not None
    C_ = by_column(C, rows)

    def kernel(tile: Any) -> tuple:
        labels, e = assign(distance.features(tile), C_, distance.missing_mask(tile))
        return labels, e if keep else None

    for (start, stop), (labels, e) in zip(rows.bounds, rows.map(kernel, dense=False)):
        out.labels[start:stop] = labels
        if keep:
            out.e[start:stop] = e
    return out._replace(C=C)


def reseed_empty(
    rows: Rows, distance: Distance, w: np.ndarray, clusters: Clusters, empty: np.ndarray
) -> np.ndarray:
    """Centres with each empty cluster moved to the row that is farthest from all centres.

    One at a time, so that copies of a row are not chosen twice; only rows of positive weight; a
    centre is unchanged when every row coincides with a centre.
    """
    e = label(rows, distance, clusters.C).e if clusters.e is None else clusters.e
    C, e = clusters.C.copy(), np.where(w > 0, e, 0.0)
    for k in np.flatnonzero(empty):
        farthest = int(e.argmax())
        if e[farthest] <= 0:
            break
        C[k] = distance.features(rows.take(np.array([farthest])))[0]
        e = np.minimum(e, label(rows, distance, C[k : k + 1]).e)
    return C


def lloyd(
    rows: Rows, distance: Distance, w: np.ndarray, clusters: Clusters, max_sweeps: int = 300,
    overwrite: bool = False,
) -> tuple[Clusters, bool]:  # fmt: skip
    """Lloyd's algorithm at fixed w until no label changes. The inertia never increases.

    The returned labels are those of the nearest returned centres, as in ``predict``. With
    ``overwrite``, the arrays of ``clusters`` are used for the result.
    """
    best, own = np.inf, clusters
    if not overwrite:
        own = empty_clusters(rows.n, clusters.C, clusters.e is not None)
    C, empty = update(rows, distance, w, clusters.labels, clusters.C)
    for _ in range(max_sweeps):
        if empty.any():
            C = reseed_empty(rows, distance, w, clusters._replace(C=C), empty)
        new, value, settled, totals = sweep(rows, distance, w, C, clusters.labels, own)
        if value > best:  # by rounding only: the last sweep did not lower the inertia
            # Labels of an initial partition need not be the nearest (rows of weight 0).
            return label(rows, distance, clusters.C, own), True
        clusters, best = new, value
        if settled:
            return clusters, True
        C, empty = means(totals, distance, C, rows.n)
    return clusters, False


# --------------------------------------------------------------------------------------------
# Initializations


def init_from_labels(
    rows: Rows, distance: Distance, w: np.ndarray, labels: np.ndarray, K: int
) -> np.ndarray:
    """Weighted means of a partition; the overall mean for a cluster without weight."""
    everyone = np.broadcast_to(np.int32(0), (rows.n,))
    mean, _ = update(rows, distance, w, everyone, np.zeros((1, distance.columns.size)))
    return update(rows, distance, w, labels, np.repeat(mean, K, axis=0))[0]


def init_random(rows: Rows, distance: Distance, a: np.ndarray, K: int, rng: Any) -> np.ndarray:
    """K different rows, drawn with probability proportional to their weight."""
    chosen = rng.choice(rows.n, size=K, replace=False, p=a / a.sum())
    return distance.features(rows.take(chosen)).astype(np.float64)


def init_plusplus(rows: Rows, distance: Distance, a: np.ndarray, K: int, rng: Any) -> np.ndarray:
    """k-means++ with a few trials per centre, as in scikit-learn, but tile by tile.

    Each next centre is drawn with probability proportional to a_i times the squared distance to
    the centres so far; of 2 + log(K) draws the one with the lowest inertia is kept.
    """
    trials = 2 + int(np.log(K))
    C = np.empty((K, distance.columns.size))
    chosen = rng.choice(rows.n, p=a / a.sum())
    C[0] = distance.features(rows.take(np.array([chosen])))[0]
    e = label(rows, distance, C[:1]).e
    for k in range(1, K):
        chances = a * e
        if chances.sum() <= 0:  # fewer distinct rows than clusters
            chances = a
        candidates = rng.choice(rows.n, size=trials, p=chances / chances.sum())
        points = distance.features(rows.take(candidates)).astype(np.float64)
        options = [np.minimum(e, label(rows, distance, point[None]).e) for point in points]
        best = int(np.argmin([a @ option for option in options]))
        C[k], e = points[best], options[best]
    return C


def init_principal(rows: Rows, distance: Distance, a: np.ndarray, K: int) -> np.ndarray:
    """Labels: the weighted first principal component, sign fixed, cut at weighted quantiles.

    Deterministic, invariant to the order of rows, and the same for a repeated row as for weight 2.
    """
    d, N = distance.columns.size, float(a.sum())

    def moments(tile: Any, a_: np.ndarray) -> tuple:
        F = distance.features(tile)
        return (F.T @ a_,)

    mean = add_up(rows.map(moments, a, dense=False))[0] / N

    def times(v: np.ndarray) -> np.ndarray:
        def product(tile: Any, a_: np.ndarray) -> tuple:
            F = distance.features(tile)
            return (F.T @ (a_ * (F @ v - mean @ v)),)

        out = add_up(rows.map(product, a, dense=False))[0]
        return out - mean * (a @ project(v))

    def project(v: np.ndarray) -> np.ndarray:
        return rows.gather(lambda tile: distance.features(tile) @ v - mean @ v, dense=False)

    def second_moments(tile: np.ndarray, a_: np.ndarray) -> tuple:
        F = distance.features(tile) - mean
        return (F.T @ (a_[:, None] * F),)

    if d <= 2048:
        covariance = add_up(rows.map(second_moments, a))[0]
        direction = scipy.linalg.eigh(covariance, subset_by_index=[d - 1, d - 1])[1][:, 0]
    else:
        operator = LinearOperator((d, d), matvec=lambda v: times(np.ravel(v)), dtype=np.float64)
        try:
            direction = eigsh(operator, k=1, v0=np.ones(d))[1][:, 0]
        except ArpackError:  # without variance there is no principal direction: use any
            direction = np.full(d, d**-0.5)
    # The sign must not depend on rounding: the first of the (nearly) largest entries is positive.
    size = np.abs(direction)
    direction = direction * np.sign(direction[np.flatnonzero(size >= size.max() * (1 - 1e-6))[0]])
    scores = project(direction)
    cuts = weighted_cuts(scores, a, K)
    return np.searchsorted(cuts, scores).astype(np.int32)


def weighted_cuts(values: np.ndarray, a: np.ndarray, parts: int) -> np.ndarray:
    """Cut points between ``parts`` groups of about equal weight; fewer where values repeat.

    The q-quantile is the smallest value with at least a share q of the weight at or below it; the
    cut is halfway to the next larger value, so that rounding of a value does not change its group.
    """
    has_weight = a > 0
    order = np.argsort(values[has_weight], kind="stable")
    v, weight = values[has_weight][order], a[has_weight][order]
    # Values that agree up to rounding are one value.
    rounding = 1e-12 * max(abs(float(v[0])), abs(float(v[-1]))) if v.dtype == np.float64 else 0.0
    last = np.flatnonzero(np.append(np.diff(v) > rounding, True))
    below = np.cumsum(weight)[last]
    shares = np.arange(1, parts) / parts * below[-1]
    at = np.searchsorted(below, shares * (1 - 1e-12))
    at = np.unique(at[at < last.size - 1])
    lower, upper = v[last[at]].astype(np.float64), v[last[at] + 1].astype(np.float64)
    return lower + (upper - lower) / 2


INIT_METHODS = ("partition", "random", "k-means++", "principal")


def check_init(init: Any, n: int, K: int, d: int) -> Any:
    """Validate init: a method name, labels (n,) as int32, or centres (K, d) as float64."""
    if isinstance(init, str):
        check_option("init", init, INIT_METHODS)
        return init
    given = np.asarray(init)
    if given.dtype.kind not in "iuf":
        raise TypeError(
            f"init should be one of {', '.join(map(repr, INIT_METHODS))}, an integer array of "
            f"labels or a float array of centres, not {type(init).__name__} of dtype {given.dtype}"
        )
    if given.ndim == 1:
        if given.shape != (n,):
            raise ValueError(f"init has {given.size} labels but X has {n} rows")
        if given.dtype.kind == "f" and not (given == np.floor(given)).all():
            bad = given[~(given == np.floor(given))][0]
            raise ValueError(f"init has label {bad}; labels should be integers in 0..{K - 1}")
        if given.min() < 0 or given.max() >= K:
            bad = given[(given < 0) | (given >= K)][0]
            raise ValueError(f"init has label {bad}; labels should be in 0..{K - 1}")
        return given.astype(np.int32)
    if given.shape != (K, d):
        raise ValueError(
            f"init has shape {given.shape}; centres should be (n_clusters, n_features) = ({K}, {d})"
        )
    if not np.isfinite(given).all():
        k, j = np.argwhere(~np.isfinite(given))[0]
        raise ValueError(f"init[{k}, {j}]={given[k, j]} should be finite")
    return given.astype(np.float64)


def init_clusters(
    rows: Rows, distance: Distance, a: np.ndarray, K: int, init: Any, rng: Any
) -> Clusters:
    """Initial centres and labels, for all methods of this package.

    For a partition ("partition", "principal", labels) the labels are the partition itself and the
    centres its weighted means; otherwise rows are assigned to their nearest centre.
    """
    if isinstance(init, str) and init in ("random", "k-means++"):
        draw = init_random if init == "random" else init_plusplus
        return label(rows, distance, draw(rows, distance, a, K, rng))
    if not isinstance(init, str) and init.ndim == 2:
        shift = 0.0 if rows.shift is None else rows.shift[distance.columns]
        C = init[:, distance.columns] - shift
        return label(rows, distance, C if distance.scaling is None else distance.scaling.apply(C))
    if isinstance(init, str) and init == "partition":
        labels = rng.randint(K, size=rows.n)
    elif isinstance(init, str):
        labels = init_principal(rows, distance, a, K)
    else:
        labels = init
    labels = labels.astype(label_type(K))  # a copy: a solver may overwrite them
    C = init_from_labels(rows, distance, a, labels, K)

    def own_distance(tile: Any, own: np.ndarray) -> np.ndarray:
        F = distance.features(tile)
        C_ = C if sp.issparse(F) else C.astype(F.dtype)
        squares, _ = squared_distances(F, C_, distance.missing_mask(tile))
        return np.maximum(squares[np.arange(own.size), own], 0.0)

    e = rows.gather(own_distance, labels, dense=False)
    return Clusters(labels, e, C)
