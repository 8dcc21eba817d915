"""Summaries of clusters and suspect effects, in the units and names of the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import add_up
from ._kmeans import cluster_sums
from ._preprocessing import Design
from ._records import Records

# Maximum number of columns reported for each cluster.
SHOWN = 10


COUNTED_ROWS = 2**20


def describe_clusters(
    design: Design, w: np.ndarray, labels: np.ndarray, K: int
) -> dict[str, np.ndarray]:
    """Means of each column inside and outside each cluster (K x d), over observed values, and
    their difference in standard deviations at uniform weights; sizes and weights of the
    clusters."""
    rows, missing_indicator = design.rows, design.column_map.missing_indicator
    sums, totals = add_up(
        rows.map(lambda tile, w_, own: cluster_sums(tile, w_, own, K), w, labels, dense=False)
    )
    with_missing = np.flatnonzero(missing_indicator >= 0)
    known = np.repeat(totals[:, None], rows.d, axis=1)
    known[:, with_missing] -= sums[:, missing_indicator[with_missing]]
    inside = _divide(sums, known)
    rest = _divide(sums.sum(0) - sums, known.sum(0) - known)
    sd = design.stats.sd.copy()
    sd[with_missing] /= np.sqrt(
        np.maximum(1.0 - design.stats.mean[missing_indicator[with_missing]], 1e-12)
    )
    difference = _divide(inside - rest, np.broadcast_to(sd, inside.shape))
    difference[np.isnan(inside) | np.isnan(rest)] = 0.0
    shift = 0.0 if rows.shift is None else rows.shift
    return {
        "size": count_labels(labels, K),
        "weight": totals,
        "inside": inside + shift,
        "rest": rest + shift,
        "difference": np.nan_to_num(difference),
    }


def count_labels(labels: np.ndarray, K: int, a: np.ndarray | None = None) -> np.ndarray:
    """Rows of each cluster, of those with a > 0 if a is given; in pieces, because ``bincount``
    copies what it counts."""
    counts = np.zeros(K, dtype=np.intp)
    for start in range(0, labels.size, COUNTED_ROWS):
        part = labels[start : start + COUNTED_ROWS]
        if a is not None:
            part = part[a[start : start + COUNTED_ROWS] > 0]
        counts += np.bincount(part, minlength=K)
    return counts


def _divide(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)


def summarise_clusters(model: Any) -> Records:
    """Value of ``DCKM.cluster_summary_``."""
    profile, encoder = model._profile, model.encoder_
    if encoder is not None:
        names = list(encoder.get_feature_names_out())
        is_indicator = encoder._column_map().is_indicator
        recipes = [encoder.recipes_[s] for s in encoder.sources_]
    else:
        d = profile["inside"].shape[1]
        names = list(getattr(model, "feature_names_in_", [f"column {k}" for k in range(d)]))
        is_indicator, recipes = np.zeros(d, dtype=bool), None
    size, weight = profile["size"], profile["weight"]

    def readable(k: int, value: float) -> float | None:
        if np.isnan(value):
            return None
        return float(value if recipes is None or is_indicator[k] else recipes[k].readable(value))

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
    return Records(out, getattr(encoder, "library_", None))


def describe_effects(model: Any) -> Records | None:
    """Value of ``DCKM.suspect_effects_``."""
    effects = model._distance.effects
    if effects is None:
        return None
    encoder, d = model.encoder_, effects.B.shape[1]
    if encoder is not None:
        names, source = list(encoder.get_feature_names_out()), encoder.sources_
        sources = list(encoder.feature_names_in_)
    else:
        names = list(getattr(model, "feature_names_in_", [f"column {k}" for k in range(d)]))
        source, sources = np.arange(d), names
    column, sd = effects.column, model._sd
    columns = model._distance.columns
    scaled = effects.B[:, columns] / np.where(sd[columns] > 0, sd[columns], 1.0)
    shown = [names[k] for k in columns]
    out = []

    def add(name: str, of: int, z: np.ndarray, own: np.ndarray) -> None:
        change = (z - effects.mean[own]) @ scaled[own]
        out.append({"suspect": name, "source": sources[of], "columns": shown, "effects": change})

    binned = 0 if effects.bins is None else len(effects.bins)
    for k in np.unique(column):
        own = np.flatnonzero(column == k)
        of = int(source[k])
        if own.size == 1 and effects.scale[own[0]] == 1.0 and effects.power[own[0]] == 1.0:
            # A 0/1 column: the columns of its source have these values where it is 1.
            own = np.flatnonzero(source[column] == of)
            high = model._high[column[own]]
            z = np.where(column[own] == k, high, model._low[column[own]])
            add(names[k], of, z - effects.centre[own] - model._shift_of(column[own]), own)
        else:
            add(f"{names[k]}, one sd above its mean", of, np.ones(own.size), own)
    for b in range(binned):
        k = int(effects.bins.column[b])
        own = column.size + np.flatnonzero(effects.bins.column == k)
        z = (own == column.size + b).astype(float)
        low, high = effects.bins.above[b], effects.bins.upto[b]
        shift = float(model._shift_of(np.array([k]))[0])
        add(f"{names[k]} in ({low + shift:.3g}, {high + shift:.3g}]", int(source[k]), z, own)
    return Records(out, getattr(encoder, "library_", None))
