"""What sets each cluster apart: weighted means inside and outside, in readable names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._encode import Encoded
from ._kmeans import cluster_sums
from ._terms import add_up

# Columns named for each cluster.
SHOWN = 10


def describe_clusters(
    encoded: Encoded, w: np.ndarray, labels: np.ndarray, K: int
) -> dict[str, np.ndarray]:
    """Means of each column inside and outside each cluster (K x d), over observed values, and
    their difference in starting standard deviations; sizes and weights of the clusters."""
    rows, absent = encoded.rows, encoded.layout.absent
    sums, totals = add_up(
        rows.map(lambda tile, w_, own: cluster_sums(tile, w_, own, K), w, labels, dense=False)
    )
    gappy = np.flatnonzero(absent >= 0)
    known = np.repeat(totals[:, None], rows.d, axis=1)
    known[:, gappy] -= sums[:, absent[gappy]]
    inside = _divide(sums, known)
    rest = _divide(sums.sum(0) - sums, known.sum(0) - known)
    sd = encoded.columns.sd.copy()
    sd[gappy] /= np.sqrt(np.maximum(1.0 - encoded.columns.mean[absent[gappy]], 1e-12))
    difference = _divide(inside - rest, np.broadcast_to(sd, inside.shape))
    difference[np.isnan(inside) | np.isnan(rest)] = 0.0
    shift = 0.0 if rows.shift is None else rows.shift
    return {
        "size": np.bincount(labels, minlength=K),
        "weight": totals,
        "inside": inside + shift,
        "rest": rest + shift,
        "difference": np.nan_to_num(difference),
    }


def _divide(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)


def summarise_clusters(model: Any) -> list[dict]:
    """The list behind ``DCKM.cluster_summary_``."""
    profile, encoder = model._profile, model.encoder_
    if encoder is not None:
        names = list(encoder.get_feature_names_out())
        notes = encoder.layout().notes
        recipes = [encoder.recipes_[s] for s in encoder.sources_]
    else:
        d = profile["inside"].shape[1]
        names = list(getattr(model, "feature_names_in_", [f"column {k}" for k in range(d)]))
        notes, recipes = np.zeros(d, dtype=bool), None
    size, weight = profile["size"], profile["weight"]

    def readable(k: int, value: float) -> float | None:
        if np.isnan(value):
            return None
        return float(value if recipes is None or notes[k] else recipes[k].readable(value))

    out = []
    for cluster, difference in enumerate(profile["difference"]):
        largest = np.argsort(-np.abs(difference), kind="stable")[:SHOWN]
        out.append(
            {
                "cluster": cluster,
                "size": int(size[cluster]),
                "share": float(size[cluster] / size.sum()),
                "weighted_share": float(weight[cluster] / weight.sum()),
                "features": [
                    {
                        "feature": names[k],
                        "difference": float(difference[k]),
                        "inside": readable(k, profile["inside"][cluster, k]),
                        "rest": readable(k, profile["rest"][cluster, k]),
                    }
                    for k in largest
                    if difference[k] != 0
                ],
            }
        )
    return out
