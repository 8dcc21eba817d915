"""How well separated clusters are, and whether the data show clusters at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .._data.sampling import draw_rows
from ..metrics import silhouette_score
from ..mixture import SelectionMixture
from ._likelihood import draw
from ._results import Separation
from ._view import View

# Rows of the silhouette, which compares all pairs of them.
MAX_ROWS = 1000


def measure_separation(model: Any, view: View, labels: np.ndarray, seed: int) -> Separation:
    """Separation of the clusters, in columns without the effects that the model removes."""
    which = draw_rows(view.a, MAX_ROWS, seed)
    own, silhouette = labels[which], None
    if 2 <= np.unique(own).size < which.size:
        X: Any = view.features(which)
        X = (X.toarray() if sp.issparse(X) else X)[:, np.isin(view.in_distance, view.rest)]
        how: dict[str, Any] = {"weight_kind": "importance"}
        silhouette = float(silhouette_score(X, own, sample_weight=view.a[which], **how))
    return Separation(silhouette, _gain(model, view, labels, seed))


def _gain(model: Any, view: View, labels: np.ndarray, seed: int) -> float | None:
    if isinstance(model, SelectionMixture):
        return float(model.one_group_bic_ - model.bic_)
    rows = draw(view, seed)
    if rows is None:
        return None
    own, criterion = rows.codes(labels), rows.criterion()
    return criterion.bic(np.zeros_like(own), 1) - criterion.bic(own, int(own.max()) + 1)
