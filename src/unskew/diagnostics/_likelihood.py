"""Comparison of clusterings by the likelihood of rows given cluster and suspects.

The clusters of a model, those of k-means without the suspects and the groups of a SelectionMixture
are partitions of the same rows, and one criterion compares them: the BIC of a mixture in which
clusters have means, combinations of the suspects' values have effects that are shrunk towards 0,
and the shares of the clusters differ between these combinations (`_mixture.partition`). Inertia
could not compare them, because it depends on the effects that a model removes.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from .._data.sampling import draw_rows
from .._mixture.partition import PartitionCriterion
from ..metrics import adjusted_rand_score
from ..mixture import SelectionMixture
from ..mixture._identify import identify
from ._view import MAX_CODES, View

# Rows that are compared, and columns beyond which they are not, because they are made dense.
MAX_COMPARED, MAX_COLUMNS = 3000, 5000
# Suspects with more combinations of values than this are not modelled by a SelectionMixture.
MAX_LEVELS = 50
# Number of quantile bins of a numeric suspect.
N_BINS = 5


class LikelihoodCheck(NamedTuple):
    """Clusters of a model compared with those of k-means without the suspects.

    bic, kmeans_bic, mixture_bic
        BIC of the model's clusters, of those of k-means, and of the groups of a SelectionMixture
        with the same number of groups (None for more than 50 combinations of the suspects' values).
    same_as_dropped
        Agreement (adjusted Rand index) of the model's clusters with those of k-means.
    kmeans_repeated
        Agreement of two runs of k-means with different random numbers.
    mixture_same, mixture_same_as_dropped
        Agreement of the groups of the mixture with the model's clusters, and with those of k-means,
        in the population that it estimates: under its inverse-selection weights, and with groups
        that are assigned without the shares by suspect.
    identified, not_identified
        Whether the clusters join the values of the suspects, as in SelectionMixture: "yes", "under
        small effects" or "no", and the reason.
    """

    bic: float
    kmeans_bic: float
    same_as_dropped: float
    kmeans_repeated: float
    identified: str
    not_identified: str
    mixture_bic: float | None = None
    mixture_same: float | None = None
    mixture_same_as_dropped: float | None = None


def compare_likelihoods(
    model: Any, view: View, dropped: np.ndarray, repeated: np.ndarray, seed: int
) -> LikelihoodCheck | None:
    """A LikelihoodCheck on at most 3,000 rows; None without suspects and for very wide data.

    ``dropped`` and ``repeated`` are the labels of two runs of k-means without the suspects.
    """
    if view.suspects is None or view.rest.size == 0 or view.rows.d > MAX_COLUMNS:
        return None
    which = draw_rows(view.a, MAX_COMPARED, seed)
    tile = np.asarray(view.rows.take(which), dtype=np.float64)
    X, a = values_of(view, tile), view.a[which] / view.a[which].mean()
    level = levels_of(tile[:, view.suspects])
    own, dropped, repeated = (
        np.unique(np.asarray(labels)[which], return_inverse=True)[1]
        for labels in (model.labels_, dropped, repeated)
    )
    K = int(model._K)
    criterion = PartitionCriterion(X, level, a)
    N = np.zeros((level.max() + 1, K))
    np.add.at(N, (level, own), a)
    named = " and ".join(view.suspect_names)
    # Levels are combinations of encoded values, so that the reason names none of them.
    identified, reason = identify(N, ["some values"] * len(N), named)
    found = LikelihoodCheck(
        criterion.bic(own, K),
        criterion.bic(dropped, K),
        adjusted_rand_score(own, dropped, sample_weight=a),
        adjusted_rand_score(dropped, repeated, sample_weight=a),
        identified,
        reason,
    )
    if len(N) > MAX_LEVELS:
        return found
    mixture, rows = fit_mixture(X, level, a, K, seed)
    # Agreement as in the population, where the suspects tell nothing about the groups.
    groups, w = mixture.predict(rows, shares="population"), mixture.combined_weights_
    return found._replace(
        mixture_bic=criterion.bic(mixture.labels_, K),
        mixture_same=adjusted_rand_score(groups, own, sample_weight=w),
        mixture_same_as_dropped=adjusted_rand_score(groups, dropped, sample_weight=w),
    )


def values_of(view: View, tile: np.ndarray) -> np.ndarray:
    """The columns of the distance that are not suspects, nan where a value is missing."""
    columns = view.rest
    X = tile[:, columns].copy()
    indicator = view.design.column_map.missing_indicator[columns]
    for k in np.flatnonzero(indicator >= 0):
        X[tile[:, indicator[k]] > 0.5, k] = np.nan
    return X


def levels_of(Z: np.ndarray) -> np.ndarray:
    """Combination of the suspects' values in each row; numbers are cut at their quantiles."""
    codes = []
    for z in Z.T:
        values, code = np.unique(z, return_inverse=True)
        if values.size > MAX_CODES:
            code = np.searchsorted(np.quantile(z, np.arange(1, N_BINS) / N_BINS), z)
        codes.append(code)
    return np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel()


def fit_mixture(X: np.ndarray, level: np.ndarray, a: np.ndarray, K: int, seed: int) -> tuple:
    """A SelectionMixture with its defaults, and the rows that it was fitted to."""
    d = X.shape[1]
    rows = np.column_stack([X, level])
    mixture = SelectionMixture(K, suspects=[d], kinds={d: "category"}, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about overlap and convergence of a model of comparison
        return mixture.fit(rows, sample_weight=a), rows
