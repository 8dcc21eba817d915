"""Mixing of the values of each suspect, before and after the correction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..metrics import (
    batch_silhouette_score,
    kbet_score,
    lisi_score,
    principal_component_regression_score,
)
from ._overlap import suspect_values
from ._results import Mixing
from ._view import View

# Most rows and suspects: the neighbours of all rows are searched.
MAX_ROWS, MAX_SUSPECTS = 1000, 5
MIN_ROWS = 40


def measure_mixing(view: View, labels: np.ndarray, w: np.ndarray, seed: int) -> tuple[Mixing, ...]:
    """Rows as they are under the design weights, and corrected rows under the combined weights.

    The columns of the distance without the suspects, divided by their standard deviations.
    """
    rows = np.flatnonzero((view.a > 0) & (w > 0))
    if rows.size > MAX_ROWS:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:MAX_ROWS])
    varies = view.rest[view.sd[view.rest] > 0]
    if rows.size < MIN_ROWS or not varies.size:
        return ()
    kept = np.isin(view.in_distance, varies)
    raw: Any = replace(view.design.distance, effects=None).features(view.rows.take(rows))
    scale = view.sd[view.in_distance[kept]]
    before, after = (_dense(X)[:, kept] / scale for X in (raw, view.features(rows)))
    found = []
    for suspect in suspect_values(view)[:MAX_SUSPECTS]:
        batch = suspect.codes[rows]
        if np.unique(batch).size < 2:
            continue
        first = _scores(before, batch, labels[rows], view.a[rows])
        second = _scores(after, batch, labels[rows], w[rows])
        both = (value for pair in zip(first, second) for value in pair)
        found.append(Mixing(suspect.name, *both))
    return tuple(found)


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else X


def _scores(X: np.ndarray, batch: np.ndarray, labels: np.ndarray, w: np.ndarray) -> tuple:
    n = len(X)
    try:
        silhouette = batch_silhouette_score(X, batch, labels, sample_weight=w)
    except ValueError:  # each cluster has one value of the suspect
        silhouette = None
    return (
        lisi_score(X, batch, sample_weight=w, perplexity=min(30, n // 4)),
        kbet_score(X, batch, sample_weight=w, n_neighbors=min(50, n // 4)),
        silhouette,
        principal_component_regression_score(X, batch, sample_weight=w),
    )
