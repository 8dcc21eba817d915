"""Quantities of a View under weights: differences, profiles, variance, correlation, projection."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import randomized_svd

from .. import _arrays
from .._data.sampling import FitVectors
from .._kmeans import cluster_sums
from .._records import CODES
from .._summaries import describe_clusters
from ..metrics import (
    adjusted_rand_score,
    amount_of_correlation,
    association,
    design_effect,
    effective_sample_size,
    kish_size,
)
from ._overlap import SuspectValues, suspect_values
from ._results import (
    Association,
    ClusterProfile,
    Correlation,
    FeatureBalance,
    FeatureProfile,
    Flow,
    PairBalance,
    Projection,
    Row,
    Weights,
)
from ._view import View, treatment_name, values_of_source

MAX_PAIRS = 200
MAX_IN_MAPS = 60
MAX_IN_PROFILE = 15
MAX_IN_PROJECTION = 2000
MAX_CORRELATION_ROWS = 10
# A column nearly separates clusters if it has this share of its variance between two sets of them,
# and at most this share of it within one; it is observed in this share of the rows.
SEPARATING, CONSTANT, SEPARATING_KNOWN, MAX_SEPARATING = 0.8, 0.02, 0.2, 3
# Limits on rows and columns of the subsample for stability on halves.
MAX_IN_HALVES = 2000
MAX_COLUMNS_IN_HALVES = 5000
# Smallest change of a column's between-cluster share of the variance that is reported.
INFLUENCE = 0.02
# The correlation matrix of all columns is not computed for more columns than this, and columns that
# separate clusters are not searched.
MAX_COLUMNS = 4096
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


# ------------------------------------------------------------------------------------- weights
def describe_weights(fit_vectors: FitVectors) -> Weights:
    """Statistics of the weights of all rows of a fit with positive design weight."""
    m, w, labels, index = fit_vectors.m, fit_vectors.w, fit_vectors.labels, fit_vectors.index
    present = fit_vectors.a > 0
    own = m[present]
    top = max(2.0, float(np.quantile(own, 0.995)) * 1.1)
    edges = np.linspace(0.0, min(top, max(float(own.max()), 1e-12)), 41)
    counts = np.histogram(np.minimum(own, edges[-1]), edges)[0]
    # Stable sort: equal weights are ordered by position, so that the result is reproducible.
    order = np.flatnonzero(present)[np.argsort(-own, kind="stable")]
    heavy = np.sort(w)[::-1][: max(1, int(np.ceil(0.01 * present.sum())))]

    def rows(which: np.ndarray) -> tuple[Row, ...]:
        return tuple(
            Row(
                int(i),
                None if index is None else str(index[i]),
                float(m[i]),
                None if labels is None else int(labels[i]),
            )
            for i in which
        )

    return Weights(
        n_rows=int(present.sum()),
        minimum=float(own.min()),
        maximum=float(own.max()),
        quantiles=tuple((q, float(np.quantile(own, q))) for q in QUANTILES),
        effective_size=effective_sample_size(m, fit_vectors.a),
        kish_size=kish_size(w),
        design_size=kish_size(fit_vectors.a),
        design_effect=design_effect(w),
        unused=int((own < 0.01 * own.mean()).sum()),
        top_share=float(heavy.sum() / w.sum()),
        edges=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        heaviest=rows(order[:MAX_CORRELATION_ROWS]),
        lightest=rows(order[::-1][:MAX_CORRELATION_ROWS]),
    )


# ----------------------------------------------------------------------------------- imbalance
class Imbalance(NamedTuple):
    """The balance table, by source column and by pair of source columns.

    typical = mean of |D| over all pairs. The root mean square would be dominated by a few
    associations that no weights can remove, such as a question that one site never asked.
    by_chance is its expectation for independent columns, where D is approximately normal with
    variance 1 / (n p (1 - p)) for a group of share p and n = Kish size. balance = sum of D**2.
    """

    features: tuple[FeatureBalance, ...]
    pairs: tuple[PairBalance, ...]
    n_pairs: int
    typical_before: float
    typical_after: float
    by_chance: float
    balance_before: float
    balance_after: float
    largest_before: np.ndarray  # of each encoded column


def group_shares(view: View, treatments: Any, w: np.ndarray) -> np.ndarray:
    """Share of the weight in each treated group."""

    def sums(tile: np.ndarray, w_: np.ndarray) -> tuple:
        return (w_ @ treatments.indicators(tile),)

    return _arrays.add_up(view.rows.map(sums, w))[0] / w.sum()


def chance_variance(view: View, pairs: Any) -> np.ndarray:
    """Variance of D in each column of the block if features and treatments were independent."""
    p = group_shares(view, pairs.treatments, view.a)
    spread = p * (1 - p)
    return np.divide(1.0, kish_size(view.a) * spread, out=np.zeros_like(p), where=spread > 1e-12)


def size_by_chance(variance: np.ndarray) -> np.ndarray:
    """Mean of |D| for a normal D of this variance."""
    return np.sqrt(2 / np.pi * variance)


def measure_imbalance(view: View, w: np.ndarray, *, as_they_are: bool = False) -> Imbalance:
    """``as_they_are``: effects are not removed from the columns after weighting either."""
    before = view.differences(view.a, as_they_are=True)
    after = view.differences(w, as_they_are=as_they_are)
    squares, sizes, chance, count = np.zeros(2), np.zeros(2), 0.0, 0
    largest = np.zeros(view.rows.d)
    features, long = [], []
    for (pairs, D0), (_, D1) in zip(before, after):
        D0, D1 = np.abs(D0.astype(np.float64)), np.abs(D1.astype(np.float64))
        counts = np.full(D0.shape[0], D0.shape[1])
        np.subtract.at(counts, pairs.excluded[0], 1)
        unmasked = np.full(D0.shape[1], D0.shape[0])
        np.subtract.at(unmasked, pairs.excluded[1], 1)
        squares += (D0**2).sum(), (D1**2).sum()
        sizes += D0.sum(), D1.sum()
        chance += float(size_by_chance(chance_variance(view, pairs)) @ unmasked)
        count += int(counts.sum())
        np.maximum.at(largest, pairs.features, D0.max(axis=1, initial=0.0))
        features += _feature_rows(view, pairs, D0, D1, counts)
        long.append(_source_pairs(view, pairs, D0, D1))
    features.sort(key=lambda row: (-row.before, row.feature))
    found = _strongest_pairs(view, long)
    per = max(count, 1)
    typical = sizes / per
    return Imbalance(
        tuple(features),
        found[0],
        found[1],
        float(typical[0]),
        float(typical[1]),
        chance / per,
        float(squares[0]),
        float(squares[1]),
        largest,
    )


def _feature_rows(view: View, pairs: Any, D0: Any, D1: Any, counts: np.ndarray) -> list:
    own = view.sources[pairs.features]
    worst = D0.argmax(axis=1)
    rows = []
    for source in np.unique(own):
        k = np.flatnonzero(own == source)
        at = k[D0[k, worst[k]].argmax()]
        n_pairs = int(counts[k].sum())
        per = max(n_pairs, 1)
        rows.append(
            FeatureBalance(
                feature=view.source_names[source],
                before=float(D0[k].max()),
                after=float(D1[k].max()),
                typical_before=float(D0[k].sum() / per),
                typical_after=float(D1[k].sum() / per),
                against=treatment_name(view, pairs.treatments, int(worst[at])),
                n_pairs=n_pairs,
            )
        )
    return rows


def largest_by_source(view: View, pairs: Any, D: np.ndarray) -> tuple:
    """(sources of the features, sources of the treatments, largest entry of each block of D)."""
    of_k, of_j = view.sources[pairs.features], view.sources[pairs.treatments.column]
    order_k, order_j = np.argsort(of_k, kind="stable"), np.argsort(of_j, kind="stable")
    fs, start_k = np.unique(of_k[order_k], return_index=True)
    ts, start_j = np.unique(of_j[order_j], return_index=True)
    blocks = np.maximum.reduceat(D[np.ix_(order_k, order_j)], start_k, axis=0)
    return fs, ts, np.maximum.reduceat(blocks, start_j, axis=1)


def _source_pairs(view: View, pairs: Any, D0: np.ndarray, D1: np.ndarray) -> tuple:
    fs, ts, before = largest_by_source(view, pairs, D0)
    _, _, after = largest_by_source(view, pairs, D1)
    i, j = np.repeat(fs, ts.size), np.tile(ts, fs.size)
    keep = i != j
    lines = np.minimum(i, j), np.maximum(i, j), before.ravel(), after.ravel()
    return tuple(line[keep] for line in lines)


def _strongest_pairs(view: View, long: list) -> tuple[tuple[PairBalance, ...], int]:
    if not long:
        return (), 0
    i, j, before, after = (np.concatenate(lines) for lines in zip(*long))
    key, position = np.unique(i * len(view.source_names) + j, return_inverse=True)
    best = np.zeros((2, key.size))
    np.maximum.at(best[0], position, before)
    np.maximum.at(best[1], position, after)
    order = np.argsort(-best[0], kind="stable")[:MAX_PAIRS]
    named = []
    for at in order:
        first, second = divmod(int(key[at]), len(view.source_names))
        if second in view.suspect_sources:  # name the suspect first
            first, second = second, first
        names = view.source_names[first], view.source_names[second]
        named.append(PairBalance(*names, float(best[0, at]), float(best[1, at])))
    return tuple(named), int(key.size)


# ------------------------------------------------------------------------------------ clusters
def explained_variance(view: View, labels: np.ndarray) -> float:
    """Between-cluster share of the design-weighted variance of the columns of the distance that
    are not suspects, with missing values imputed by the mean."""
    K, rest = int(labels.max()) + 1, view.rest

    def sums(tile: Any, a_: np.ndarray, labels_: np.ndarray) -> tuple:
        return cluster_sums(_arrays.take_columns(tile, rest), a_, labels_, K)

    S, mass = _arrays.add_up(view.rows.map(sums, view.a, labels, dense=False))
    used, N = mass > 0, mass.sum()
    away = S[used] / mass[used, None] - S.sum(axis=0) / N
    total = float((view.sd[rest] ** 2).sum()) * N
    return float(min(1.0, mass[used] @ (away**2).sum(axis=1) / total)) if total > 0 else 0.0


def shares_between(view: View, labels: np.ndarray) -> np.ndarray:
    """For each encoded column the between-cluster share of its design-weighted variance."""
    K = int(labels.max()) + 1
    S, mass = _arrays.add_up(
        view.rows.map(
            lambda tile, a_, own: cluster_sums(tile, a_, own, K), view.a, labels, dense=False
        )
    )
    used, N = mass > 0, mass.sum()
    away = S[used] / mass[used, None] - S.sum(axis=0) / N
    total = view.sd**2 * N
    between = mass[used] @ away**2
    return np.clip(np.divide(between, total, out=np.zeros_like(between), where=total > 0), 0, 1)


def influence(view: View, old: np.ndarray, new: np.ndarray, most: int = 3) -> tuple:
    """(gained, lost): names of the source columns whose between-cluster share of the variance
    changed most."""
    change = shares_between(view, new) - shares_between(view, old)
    change[view.design.column_map.is_indicator] = 0.0
    by_source: dict[str, float] = {}
    for k, value in enumerate(change):
        name = view.source_names[view.sources[k]]
        if abs(value) > abs(by_source.get(name, 0.0)):
            by_source[name] = float(value)
    order = sorted(by_source.items(), key=lambda one: -abs(one[1]))
    gained = tuple(one for one in order if one[1] > INFLUENCE)[:most]
    return gained, tuple(one for one in order if one[1] < -INFLUENCE)[:most]


def half_agreement(F: np.ndarray, w: np.ndarray, K: int, seed: int, pairs: int = 3) -> float:
    """Agreement, under w, of k-means fitted to random halves of the rows."""
    rng = np.random.RandomState(seed)
    found = []
    for _ in range(pairs):
        labels = []
        for _ in range(2):
            half = np.flatnonzero((rng.random_sample(w.size) < 0.5) & (w > 0))
            if half.size < K:
                return 0.0
            fit = KMeans(K, n_init=2, random_state=rng.randint(2**31 - 1))
            labels.append(fit.fit(F[half], sample_weight=w[half]).predict(F))
        found.append(adjusted_rand_score(*labels, sample_weight=w, weight_kind="importance"))
    return float(np.mean(found))


def draw_rows(view: View, rng: Any) -> np.ndarray:
    """A random subsample of at most MAX_IN_HALVES rows with positive design weight."""
    return np.sort(rng.permutation(np.flatnonzero(view.a > 0))[:MAX_IN_HALVES])


def stabilities(view: View, w: np.ndarray, K: int, seed: int) -> tuple:
    """Stability with the model's distance and weights, and of k-means on all columns, on a
    subsample. (None, None) for very wide data, which would have to be converted to dense rows."""
    if view.rows.d > MAX_COLUMNS_IN_HALVES:
        return None, None
    rows = draw_rows(view, np.random.RandomState(seed))
    tile = view.rows.take(rows)
    own = np.ascontiguousarray(view.features(rows))
    plain = np.ascontiguousarray(tile[:, ~view.design.column_map.is_indicator], dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return (
            half_agreement(own, w[rows], K, seed),
            half_agreement(plain, view.a[rows], K, seed),
        )


def profile_clusters(
    view: View, labels: np.ndarray, w: np.ndarray, K: int, fit_vectors: FitVectors
) -> tuple:
    """(profiles, K x d differences under w). Sizes and shares are those of all rows."""
    weighted = describe_clusters(view.design, w, labels, K)
    plain = describe_clusters(view.design, view.a, labels, K)
    every: Any = fit_vectors.labels
    size = np.bincount(every[fit_vectors.a > 0], minlength=K)
    share, weighted_share = (
        np.bincount(every, weights=v, minlength=K) / v.sum() for v in (fit_vectors.a, fit_vectors.w)
    )

    def numbers(profile: dict, k: int, j: int) -> tuple:
        means = (view.readable(j, profile[part][k, j]) for part in ("inside", "rest"))
        return (float(profile["difference"][k, j]), *means)

    profiles, shown = [], np.arange(view.rows.d)
    if view.suspects is not None:
        shown = np.setdiff1d(shown, view.suspects)
    for k in range(K):
        largest = np.argsort(-np.abs(weighted["difference"][k, shown]), kind="stable")
        order = shown[largest[:MAX_IN_PROFILE]]
        features = tuple(
            FeatureProfile(view.names[j], *numbers(weighted, k, j), *numbers(plain, k, j))
            for j in order
        )
        profiles.append(
            ClusterProfile(k, int(size[k]), float(share[k]), float(weighted_share[k]), features)
        )
    return tuple(profiles), weighted["difference"]


def separating_columns(view: View, labels: np.ndarray) -> tuple[str, ...]:
    """Columns that alone nearly separate some clusters, in which they are nearly constant, from the
    others; over observed values, in sentences."""
    K = int(labels.max()) + 1
    if view.rows.d > MAX_COLUMNS:
        return ()

    def sums(tile: np.ndarray, a_: np.ndarray, own: np.ndarray) -> tuple:
        return (*cluster_sums(tile, a_, own, K), cluster_sums(tile**2, a_, own, K)[0])

    S, mass, squares = _arrays.add_up(view.rows.map(sums, view.a, labels))
    missing, found = view.design.column_map.missing_indicator, []
    for j in view.rest[~view.design.column_map.is_indicator[view.rest]]:
        known = mass - S[:, missing[j]] if missing[j] >= 0 else mass
        used = np.flatnonzero(known > 0)
        if used.size < 2 or known.sum() < SEPARATING_KNOWN * mass.sum():
            continue
        order = used[np.argsort(S[used, j] / known[used])]
        cut = int(np.diff(S[order, j] / known[order]).argmax()) + 1
        parts = order[:cut], order[cut:]
        n, total = known.sum(), S[:, j].sum()
        variance = squares[:, j].sum() / n - (total / n) ** 2
        within = [
            squares[part, j].sum() / known[part].sum() - (S[part, j].sum() / known[part].sum()) ** 2
            for part in parts
        ]
        rest = sum(known[part].sum() * v for part, v in zip(parts, within)) / n
        constant = int(np.argmin(within))
        if variance > 1e-12 and min(within) <= CONSTANT * variance:
            share = 1 - rest / variance
            if share >= SEPARATING:
                observed = n / mass.sum()
                found.append((share, int(j), parts[1 - constant], parts[constant], observed))
    codes = {f.column for f in view.encoder.findings_ if f.topic == CODES} if view.encoder else ()
    sentences: dict[str, str] = {}
    for _, j, others, own, observed in sorted(found, key=lambda one: -one[0]):
        source = view.source_names[view.sources[j]]
        name = f"“{view.names[j]}”"
        alone = f"{name} alone"
        if observed < 1:
            alone = f"Where {name} is observed ({observed:.0%} of the rows), it alone"
        text = (
            f"{alone} nearly decides between {_clusters_in_words(others)} and "
            f"{_clusters_in_words(own)}, and hardly varies within the latter."
        )
        if source in codes:
            text += (
                f" If its numbers are codes, fit again with “{source}” as a category; the clusters "
                "may be others."
            )
        sentences.setdefault(source, text)
    return tuple(sentences.values())[:MAX_SEPARATING]


def _clusters_in_words(clusters: np.ndarray) -> str:
    names = [str(k) for k in sorted(clusters)]
    if len(names) == 1:
        return f"cluster {names[0]}"
    return f"clusters {', '.join(names[:-1])} and {names[-1]}"


def associations(view: View, labels: np.ndarray, w: Any = None) -> tuple[Association, ...]:
    """Association of the clustering with each suspect, under the design weights by default.

    The learned weights decouple the suspects as an unbiased sample would, but they favour the
    model that learned them.
    """
    found = []
    weights = view.a if w is None else w
    for source in view.suspect_sources:
        values, kind, known = values_of_source(view, int(source))
        a = np.where(known, weights, 0.0)
        value = association(labels, values, sample_weight=a, kind=kind) if a.any() else 0.0
        found.append(Association(view.source_names[source], kind, value))
    return tuple(found)


def flow_between(view: View, name: str, old: np.ndarray, new: np.ndarray, K: int) -> Flow:
    """Contingency table of old and new clusters; old clusters are matched to new ones such that
    the number of shared rows is maximal."""
    present = view.a > 0
    K = max(K, int(old.max()) + 1, int(new.max()) + 1)
    counts = np.zeros((K, K), dtype=np.int64)
    np.add.at(counts, (old[present], new[present]), 1)
    line, column = linear_sum_assignment(counts, maximize=True)
    order = line[np.argsort(column)]
    counts = counts[order]
    return Flow(
        baseline=name,
        clusters=tuple(range(K)),
        baseline_clusters=tuple(order.tolist()),
        counts=tuple(tuple(row) for row in counts.tolist()),
        moved=float(1 - np.trace(counts) / counts.sum()),
        agreement=agreement(view, old, new),
    )


def agreement(view: View, first: np.ndarray, second: np.ndarray, w: Any = None) -> float:
    """Adjusted Rand index under w (default: design weights), which are importance weights because
    their scale is arbitrary."""
    weights = view.a if w is None else w
    return adjusted_rand_score(first, second, sample_weight=weights, weight_kind="importance")


# --------------------------------------------------------------------- correlation, projection
def measure_correlation(view: View, w: np.ndarray, largest: np.ndarray, marks: Any) -> Correlation:
    """Correlation matrices of the columns with the largest differences, ordered by the cluster in
    which each differs most; after: without the effects that the model removes."""
    d = view.rows.d
    amounts: list[float | None] = [None, None]
    if d <= MAX_COLUMNS and not view.corrected:
        amounts = [amount_of_correlation(view.rows.X, weight) for weight in (view.a, w)]
    score = np.where(view.sd > 0, largest, -1.0)
    chosen = np.argsort(-score, kind="stable")[: min(MAX_IN_MAPS, int((view.sd > 0).sum()))]
    is_suspect = np.zeros(d, dtype=bool)
    if view.suspects is not None:
        is_suspect[view.suspects] = True
    if marks is None:
        group, strength = np.zeros(d, dtype=int), largest
    else:
        group, strength = marks.argmax(axis=0), marks.max(axis=0)
    order = np.lexsort((-strength[chosen], group[chosen], is_suspect[chosen]))
    chosen = chosen[order]
    values = view.rows.columns(chosen).astype(np.float64)
    corrected = values.copy()
    if view.corrected:
        place = {int(k): j for j, k in enumerate(view.design.distance.columns)}
        features = view.features(np.arange(view.rows.n))
        for j, k in enumerate(chosen):
            if int(k) in place:
                corrected[:, j] = features[:, place[int(k)]]
    no_group = marks is None
    return Correlation(
        *amounts,  # type: ignore[misc, arg-type]
        n_columns=d,
        names=tuple(view.names[k] for k in chosen),
        groups=tuple(None if is_suspect[k] or no_group else int(group[k]) for k in chosen),
        before=_correlation(values, view.a),
        after=_correlation(corrected, w),
    )


def _correlation(values: np.ndarray, w: np.ndarray) -> tuple[tuple[float, ...], ...]:
    share = w / w.sum()
    centred = values - share @ values
    covariance = centred.T @ (share[:, None] * centred)
    sd = np.sqrt(np.diag(covariance))
    scale = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 1e-12)
    r = np.clip(covariance * np.multiply.outer(scale, scale), -1.0, 1.0)
    return tuple(tuple(round(value, 4) for value in row) for row in r.tolist())


def correlation_between(first: np.ndarray, second: np.ndarray, w: np.ndarray) -> float:
    """|r| of two columns under weights."""
    return abs(_correlation(np.c_[first, second], w)[0][1])


def project(
    view: View,
    labels: np.ndarray,
    w: np.ndarray,
    seed: int,
    fit_vectors: FitVectors,
    baseline: np.ndarray | None = None,
) -> Projection:
    """Projection of at most 2000 rows of positive design weight, stratified by cluster with at
    least one row each, on the principal components of the columns of the distance under w.
    ``baseline``: matched clusters of k-means."""
    rng = np.random.default_rng(seed)
    present = np.flatnonzero(view.a > 0)
    rate = min(1.0, MAX_IN_PROJECTION / present.size)
    chosen = []
    for k in np.unique(labels[present]):
        own = present[labels[present] == k]
        chosen.append(rng.choice(own, max(1, int(own.size * rate)), replace=False))
    rows = np.sort(np.concatenate(chosen))
    values = view.features(rows)
    weight = w[rows] if w[rows].any() else np.ones(rows.size)
    share = weight / weight.sum()
    centred = (values - share @ values) * np.sqrt(share)[:, None]
    total = float((centred**2).sum())
    components = np.zeros((2, values.shape[1]))
    found = min(2, *centred.shape)
    variance = [0.0, 0.0]
    if total > 0:
        _, size, directions = randomized_svd(centred, found, random_state=seed)
        components[:found] = _arrays.oriented(directions)
        variance[:found] = (size**2 / total).tolist()
    centre = share @ values
    xy, before = (values - centre) @ components.T, np.zeros((0, 2))
    if view.corrected:
        raw = view.features(rows, as_they_are=True)
        if not np.array_equal(raw, values):  # effects of a mixture can be on categories only
            before = (raw - centre) @ components.T
    suspects = suspect_values(view)
    first = suspects[0] if suspects else SuspectValues("", (), np.zeros(view.rows.n, np.intp))
    places = rows if fit_vectors.chosen is None else fit_vectors.chosen[rows]
    return Projection(
        n_rows=int((fit_vectors.a > 0).sum()),
        variance=(variance[0], variance[1]),
        positions=tuple(places.tolist()),
        x=tuple(np.round(xy[:, 0], 4).tolist()),
        y=tuple(np.round(xy[:, 1], 4).tolist()),
        weight=tuple(np.round(fit_vectors.m[places], 4).tolist()),
        cluster=tuple(labels[rows].tolist()),
        before_x=tuple(np.round(before[:, 0], 4).tolist()),
        before_y=tuple(np.round(before[:, 1], 4).tolist()),
        suspect=first.name,
        values=first.values,
        value=tuple(first.codes[rows].tolist()) if suspects else (),
        baseline_cluster=() if baseline is None else tuple(baseline[rows].tolist()),
    )
