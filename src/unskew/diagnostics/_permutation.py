"""Permutation check: recovery of clusters on rows whose suspects were permuted.

If a clustering is the true one and the sample was biased, the suspects are independent of the
clusters in the population. Such a population is simulated from the sample: each row gets the
suspects of another row, drawn at random, together with their effects on the other columns, as
estimated within the clusters. A clustering that found its clusters through the suspects does not
recover them on these rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kmeans import Distance, assign, cluster_sums, means
from .._preprocessing import scaled_distance
from ..metrics import adjusted_rand_score
from ._measure import MAX_COLUMNS_IN_HALVES, draw_rows
from ._view import View

# Number of simulated populations; the adjusted Rand indices are averaged over them.
N_PERMUTATIONS = 3
# Probabilities of the upper value of a two-valued column are clipped to this distance from 0, 1.
MIN_ROWS_PER_GROUP = 0.01


class PermutationCheck(NamedTuple):
    """Recovery of clusters by a model and by k-means when the suspects are independent of them.

    own_found, own_found_by_kmeans
        Adjusted Rand index with the model's clusters: of the model, of k-means.
    baseline_found, baseline_found_by_kmeans
        Adjusted Rand index with the clusters of k-means: of the model, of k-means.
    beyond, kmeans_beyond
        Share of the variance left unexplained by the suspects that the clusters explain: those
        of the model, those of k-means.
    """

    own_found: float
    own_found_by_kmeans: float
    baseline_found: float
    baseline_found_by_kmeans: float
    beyond: float
    kmeans_beyond: float


def check_permutation(model: Any, view: View, w: np.ndarray, baseline: np.ndarray, seed: int):
    """A PermutationCheck, or None without suspects and for very wide data, which would have to be
    converted to dense rows.

    w are the model's weights, baseline the labels of k-means on all columns.
    """
    if view.suspects is None or view.rows.d > MAX_COLUMNS_IN_HALVES:
        return None
    rng = np.random.RandomState(seed)
    chosen = draw_rows(view, rng)
    tile = view.rows.take(chosen)
    a, own, other = view.a[chosen], np.asarray(model.labels_)[chosen], baseline[chosen]
    by_model = NearestMean(view.design.distance, tile, w[chosen], own)
    by_kmeans = NearestMean(distance_of_kmeans(model, view), tile, a, other)
    found = np.zeros((2, 2))
    for _ in range(N_PERMUTATIONS):
        for total, groups in zip(found, (own, other)):
            donors, rows = permute_suspects(view, tile, a, groups, rng)
            total += [
                adjusted_rand_score(groups[donors], nearest.labels(rows)) / N_PERMUTATIONS
                for nearest in (by_model, by_kmeans)
            ]
    explained = [beyond_suspects(view, tile, a, groups) for groups in (own, other)]
    return PermutationCheck(*found.ravel().tolist(), *explained)


def distance_of_kmeans(model: Any, view: View) -> Distance:
    """Distance of k-means on all columns, scaled as in the model."""
    design, form = view.design, view.design.distance.scaling
    every = np.flatnonzero(~design.column_map.is_indicator)
    return scaled_distance(
        design.rows,
        design.a,
        design.stats,
        design.column_map,
        every,
        None if form is None else model.column_scale,
        form is not None and form.unit,
    )


class NearestMean:
    """Assigns rows to the cluster with the nearest weighted mean."""

    def __init__(self, distance: Distance, tile: np.ndarray, w: np.ndarray, groups: np.ndarray):
        self.distance, K = distance, int(groups.max()) + 1
        F = np.ascontiguousarray(distance.features(tile), dtype=np.float64)
        sums = [
            np.asarray(part) for part in cluster_sums(F, w, groups, K, distance.missing_mask(tile))
        ]
        C, empty = means(sums, distance, np.zeros((K, F.shape[1])), len(F))
        self.kept = np.flatnonzero(~empty)
        self.C = C[self.kept]

    def labels(self, tile: np.ndarray) -> np.ndarray:
        F = np.ascontiguousarray(self.distance.features(tile), dtype=np.float64)
        return self.kept[assign(F, self.C, self.distance.missing_mask(tile))[0]]


def permute_suspects(
    view: View, tile: np.ndarray, a: np.ndarray, groups: np.ndarray, rng: Any
) -> tuple:
    """(indices of the resampled rows of the tile, those rows with the suspects of other rows).

    The effects of the suspects are linear and the same in all clusters. Two-valued columns stay
    two-valued; the fewest possible rows change their value. Missing values stay missing.
    """
    n, suspects = len(tile), view.suspects
    share = a / a.sum()
    donors, givers = rng.choice(n, n, p=share), rng.choice(n, n, p=share)
    rest = np.setdiff1d(np.arange(tile.shape[1]), suspects)
    X, Z = tile[:, rest].astype(np.float64), tile[:, suspects].astype(np.float64)
    inside, B = _estimate_effects(X, Z, a, groups)
    rows = tile[donors].copy()
    rows[:, suspects] = tile[givers][:, suspects]
    moved = X[donors] + (Z[givers] - Z[donors]) @ B
    low, high = X.min(axis=0), X.max(axis=0)
    two = ((low == X) | (high == X)).all(axis=0) & (high > low)
    if two.any():
        range_ = (high - low)[two]
        chance = np.clip(
            (inside[donors][:, two] - low[two]) / range_, MIN_ROWS_PER_GROUP, 1 - MIN_ROWS_PER_GROUP
        )
        wanted = np.clip(
            chance + ((Z[givers] - Z[donors]) @ B[:, two]) / range_,
            MIN_ROWS_PER_GROUP,
            1 - MIN_ROWS_PER_GROUP,
        )
        draw = rng.random_sample(chance.shape)
        is_high = X[donors][:, two] == high[two]
        now = np.where(is_high, draw * chance < wanted, draw * (1 - chance) < wanted - chance)
        moved[:, two] = low[two] + range_ * now
    missing_indicator = view.design.column_map.missing_indicator[rest]
    for k in np.flatnonzero(missing_indicator >= 0):
        lost = tile[donors][:, missing_indicator[k]] != 0
        moved[lost, k] = X[donors][lost, k]
    notes = view.design.column_map.is_indicator[rest]
    moved[:, notes] = X[donors][:, notes]
    rows[:, rest] = moved
    return donors, rows


def _estimate_effects(X: np.ndarray, Z: np.ndarray, a: np.ndarray, groups: np.ndarray) -> tuple:
    """(fitted X, B): regression of X on clusters and Z, where B are the coefficients of Z; a small
    ridge penalty handles suspects that are collinear with each other or with the clusters."""
    means_of_X, means_of_Z = (_group_means(M, a, groups) for M in (X, Z))
    Zc, Xc = Z - means_of_Z[groups], X - means_of_X[groups]
    gram = Zc.T @ (a[:, None] * Zc)
    gram[np.diag_indices_from(gram)] += 1e-3 * max(float(np.trace(gram)) / len(gram), 1e-12)
    B = np.linalg.solve(gram, Zc.T @ (a[:, None] * Xc))
    return means_of_X[groups] + Zc @ B, B


def _group_means(M: np.ndarray, a: np.ndarray, groups: np.ndarray) -> np.ndarray:
    sums, weight = cluster_sums(M, a, groups, int(groups.max()) + 1)
    return sums / np.where(weight > 0, weight, 1.0)[:, None]


def beyond_suspects(view: View, tile: np.ndarray, a: np.ndarray, groups: np.ndarray) -> float:
    """Share of the variance of the other columns, each scaled to unit variance, that the clusters
    explain out of what a linear function of the suspects leaves unexplained."""
    suspects, notes = view.suspects, view.design.column_map.is_indicator
    rest = np.setdiff1d(np.flatnonzero(~notes), suspects)
    share = a / a.sum()
    X = tile[:, rest].astype(np.float64)
    X -= share @ X
    sd = np.sqrt(share @ X**2)
    X = X[:, sd > 0] / sd[sd > 0]
    Z = np.column_stack([np.ones(len(tile)), tile[:, suspects].astype(np.float64)])
    members = np.eye(int(groups.max()) + 1)[groups]

    def left(columns: np.ndarray) -> float:
        root = np.sqrt(share)[:, None]
        fit = np.linalg.lstsq(root * columns, root * X, rcond=None)[0]
        return float((share[:, None] * (X - columns @ fit) ** 2).sum())

    without = left(Z)
    return 1.0 - left(np.column_stack([Z, members])) / without if without > 1e-12 else 0.0
