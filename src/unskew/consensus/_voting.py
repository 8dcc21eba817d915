"""Consensus of several partitions of the same rows.

With h_i the stacked indicators of the clusters of row i in each run, h_i . h_j / R is the
co-association of rows i and j: the share of runs that assign both to the same cluster. The
consensus maximises the co-association within clusters, by k-means on h. No n x n matrix is formed:
the mean co-association of a row with a cluster is h_i times the cluster's mean, so the cost is
linear in n. For few rows average linkage on the matrix gives one more initialization.

If runs converged to different optima, their consensus can be a mixture that is no optimum itself,
and worse than the best run; then the better half of the runs votes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, is_valid_linkage, linkage
from scipy.spatial.distance import squareform

from ..metrics import adjusted_rand_score

# At most this many rows: the co-association matrix is formed, to initialize by average linkage.
SMALL_N = 2048
# Maximum number of rows on which the initialization is selected.
MAX_LINKAGE_ROWS = 20_000
PIECE = 2**16


class Votes(NamedTuple):
    """shares (K, R, L): share of the weight of each cluster that is in cluster l of run r."""

    shares: np.ndarray

    def of(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest cluster of each row, and the row's mean co-association with its members.

        labels (R, n): the row's cluster in each run.
        """
        own = np.empty(labels.shape[1], dtype=np.int32)
        confidence = np.empty(labels.shape[1])
        length = (self.shares**2).sum(axis=(1, 2))
        for first in range(0, own.size, PIECE):
            piece = slice(first, first + PIECE)
            score = self.together(labels[:, piece])
            # Shares are added in a fixed order, so that exact ties stay ties up to rounding.
            own[piece] = np.argmax(np.round(2.0 * score - length, 9), axis=1)
            confidence[piece] = score[np.arange(score.shape[0]), own[piece]] / len(labels)
        return own, np.clip(confidence, 0.0, 1.0)

    def together(self, labels: np.ndarray) -> np.ndarray:
        """h_i times the mean of each cluster, (n, K)."""
        score = np.zeros((labels.shape[1], self.shares.shape[0]))
        for r, labels_r in enumerate(labels):
            score += self.shares[:, r, :].T[labels_r]
        return score


def count(labels: np.ndarray, own: np.ndarray, a: np.ndarray, K: int) -> Votes:
    """The shares of a partition; those of a cluster without weight are 0."""
    L = int(labels.max()) + 1
    tables = [
        np.bincount(own.astype(np.int64) * L + labels_r, weights=a, minlength=K * L).reshape(K, L)
        for labels_r in labels
    ]
    total = np.bincount(own, weights=a, minlength=K)
    inverse = np.divide(1.0, total, out=np.zeros(K), where=total > 0)
    return Votes(np.stack(tables, axis=1) * inverse[:, None, None])


def settle(labels: np.ndarray, own: np.ndarray, a: np.ndarray, K: int, sweeps: int = 100) -> tuple:
    """k-means on h, initialized by a partition: (votes, labels, within). ``within`` is maximised:
    the weighted sum over rows of the mean co-association with their cluster."""
    votes = count(labels, own, a, K)
    for _ in range(sweeps):
        empty = np.flatnonzero(~votes.shares.any(axis=(1, 2)))
        before, (own, confidence) = own, votes.of(labels)
        for k in empty[: own.size]:
            farthest = int(np.argmin(np.where(a > 0, confidence, np.inf)))
            own[farthest], confidence[farthest] = k, np.inf
        votes = count(labels, own, a, K)
        if np.array_equal(own, before):
            break
    own, confidence = votes.of(labels)
    return votes, own, float(a @ confidence)


def agree(labels: np.ndarray, K: int, a: np.ndarray) -> tuple[Votes, np.ndarray, np.ndarray]:
    """The consensus partition of the runs: votes, labels, confidence.

    The initializations are the runs themselves, so the result is deterministic; the best solution
    is kept.
    """
    n, a = labels.shape[1], _of_mean_one(a)
    subset = linkage_rows(n)
    few, weight = labels[:, subset], a[subset]
    if not weight.any():
        few, weight = labels, a
    starts = [np.minimum(labels_r, K - 1) for labels_r in few]
    if few.shape[1] <= SMALL_N:
        starts += by_linkage(few, K)
    solutions = [settle(few, start, weight, K) for start in starts]
    votes, own, _ = max(solutions, key=lambda solution: round(solution[2], 6))
    if few is not labels:
        votes, own, _ = settle(labels, votes.of(labels)[0], a, K)
    own, confidence = votes.of(labels)
    return votes, own, confidence


def elect(
    labels: np.ndarray, K: int, a: np.ndarray, score: Callable[[np.ndarray], float], share: float
) -> tuple[np.ndarray, Votes, np.ndarray, np.ndarray]:
    """The voting runs, and their votes, labels and confidence.

    ``score`` of a partition: larger is better, one cluster has 0. All runs vote, unless the score
    of their consensus is below ``share`` times that of the best run: then the better half of them
    votes, and so on, to the best run alone. If no run has a positive score, all vote.
    """
    single = np.array([score(labels_r) for labels_r in labels])
    order, count = np.argsort(-single, kind="stable"), len(labels)
    while True:
        voters = np.sort(order[:count])
        votes, own, confidence = agree(labels[voters], K, a)
        if count == 1 or single.max() < 1e-9 or score(own) >= share * single.max():
            return voters, votes, own, confidence
        count = (count + 1) // 2


def co_association(labels: np.ndarray) -> np.ndarray:
    """(n, n): the share of runs that assign two rows to the same cluster."""
    together = np.zeros((labels.shape[1], labels.shape[1]))
    for labels_r in labels:
        together += labels_r[:, None] == labels_r
    return together / len(labels)


def by_linkage(labels: np.ndarray, K: int) -> list[np.ndarray]:
    """The partition of average linkage; empty where SciPy's tree is not valid, because rounding of
    tied distances can make its chain of nearest neighbours count rows twice."""
    apart = 1.0 - co_association(labels)
    if labels.shape[1] <= K:
        return [np.arange(labels.shape[1], dtype=np.int32)]
    tree = linkage(squareform(apart, checks=False), "average")
    if not is_valid_linkage(tree):
        return []
    return [(fcluster(tree, K, "maxclust") - 1).astype(np.int32)]


def stability(labels: np.ndarray, a: np.ndarray) -> float:
    """Mean adjusted Rand index of all pairs of runs, weighted by a; nan for a single run."""
    subset = linkage_rows(labels.shape[1])
    few, weight = labels[:, subset], _of_mean_one(a)[subset]
    found = [
        adjusted_rand_score(few[r], few[s], sample_weight=weight)
        for r in range(len(few))
        for s in range(r)
    ]
    return float(np.mean(found)) if found else np.nan


def _of_mean_one(a: np.ndarray) -> np.ndarray:
    """a with mean 1 over rows of positive weight, so that its scale does not matter."""
    return a / a[a > 0].mean()


def linkage_rows(n: int) -> np.ndarray:
    if n <= MAX_LINKAGE_ROWS:
        return np.arange(n)
    return np.linspace(0, n - 1, MAX_LINKAGE_ROWS).astype(np.intp)
