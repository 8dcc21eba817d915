"""Overlap of clusters and suspects: which values of a suspect have rows of which clusters.

Effects of a suspect and differences between clusters can be told apart only through clusters that
several of its values share.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .._mixture.identify import identify, shown_groups
from ._results import Overlap
from ._view import View, values_of_source

# Most values of a suspect that are reported: the most frequent ones; the others are one value.
MAX_VALUES = 30
# Number of quantile bins of a numeric suspect.
N_BINS = 5


class SuspectValues(NamedTuple):
    """Name of a suspect, its values, and the position of the value of each row."""

    name: str
    values: tuple[str, ...]
    codes: np.ndarray


def measure_overlap(
    view: View, labels: np.ndarray, w: np.ndarray, K: int, effects: bool
) -> tuple[Overlap, ...]:
    """Rows and weights of each cluster by the values of each suspect, without rows of weight 0;
    ``effects``: whether the model has effects of the suspects."""
    present = view.a > 0
    found = []
    for suspect in suspect_values(view):
        L = len(suspect.values)
        at = (suspect.codes[present], labels[present])
        rows, weight = np.zeros((L, K)), np.zeros((L, K))
        np.add.at(rows, at, 1.0)
        np.add.at(weight, at, w[present])
        found.append(overlap_of(suspect.name, suspect.values, rows, weight, effects=effects))
    return tuple(found)


def overlap_of(
    name: str,
    values: tuple[str, ...],
    rows: np.ndarray,
    weight: np.ndarray,
    group: str = "cluster",
    *,
    effects: bool = True,
) -> Overlap:
    """The overlap from the numbers of rows and the weights, both (values, clusters)."""
    total = weight.sum(1, keepdims=True)
    share = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    identified, sentence = identify(rows, list(values), name, group, effects=effects)
    return Overlap(
        suspect=name,
        values=values,
        rows=tuple(tuple(int(n) for n in row) for row in rows),
        shares=tuple(tuple(float(v) for v in row) for row in share),
        one_cluster=tuple(
            value for value, own in zip(values, shown_groups(rows)) if own.sum() == 1
        ),
        identified=identified,
        sentence=sentence,
    )


def suspect_values(view: View) -> list[SuspectValues]:
    """The values of each suspect; 0/1 columns of which exactly one is 1 are one suspect."""
    if view.suspects is None:
        return []
    joint = _indicators(view)
    found = [joint] if joint else [_of_source(view, int(s)) for s in view.suspect_sources]
    return [_pool(each) for each in found]


def _indicators(view: View) -> SuspectValues | None:
    """Indicator columns of an array as one suspect."""
    if view.encoder is not None or view.suspects is None or len(view.suspects) < 2:
        return None
    Z = view.rows.columns(view.suspects)
    Z = Z if view.rows.shift is None else Z + view.rows.shift[view.suspects]
    if not (np.isin(Z, (0.0, 1.0)).all() and (Z.sum(axis=1) == 1).all()):
        return None
    names = [view.names[k] for k in view.suspects]
    return SuspectValues(f"{names[0]} ... {names[-1]}", tuple(names), Z.argmax(axis=1))


def _of_source(view: View, source: int) -> SuspectValues:
    name = view.source_names[source]
    values, kind, known = values_of_source(view, source)
    columns = np.flatnonzero(view.sources == source)
    if kind == "eta":
        edges = np.unique(np.quantile(values[known], np.arange(1, N_BINS) / N_BINS))
        codes = np.where(known, np.searchsorted(edges, values), edges.size + 1)
        shift = 0.0 if view.rows.shift is None else float(view.rows.shift[columns[0]])
        limits = [f"{view.readable(int(columns[0]), float(e) + shift):.4g}" for e in edges]
        names = [f"up to {limits[0]}"] if limits else ["all"]
        names += [f"{low} to {high}" for low, high in pairwise(limits)]
        names += [f"above {limits[-1]}"] if limits else []
        return SuspectValues(name, (*names, "missing"), codes)
    recipe = None if view.encoder is None else view.encoder.recipes_[source]
    codes = values.astype(np.intp)
    first = np.unique(codes, return_index=True)[1]
    rows = view.rows.take(first)[:, columns] if columns.size else np.zeros((len(first), 0))
    if view.rows.shift is not None:
        rows = rows + view.rows.shift[columns]
    if recipe is not None and recipe.kind == "category":
        two = len(recipe.states) == 2
        state = (rows[:, 0] > recipe.step / 2).astype(np.intp) if two else rows.argmax(axis=1)
        return SuspectValues(name, tuple(map(str, recipe.states)), state[codes])
    names = [
        ", ".join(f"{view.readable(int(k), float(v)):.4g}" for k, v in zip(columns, row))
        for row in rows
    ]
    return SuspectValues(name, tuple(names), codes)


def _pool(suspect: SuspectValues) -> SuspectValues:
    """Only values that occur, the rare ones of many as one."""
    count = np.bincount(suspect.codes, minlength=len(suspect.values))
    kept = np.flatnonzero(count)
    if kept.size > MAX_VALUES:
        kept = np.sort(np.argsort(-count, kind="stable")[: MAX_VALUES - 1])
    place = np.full(count.size, kept.size)
    place[kept] = np.arange(kept.size)
    names = [suspect.values[at] for at in kept]
    if kept.size < np.count_nonzero(count):
        names.append(f"{np.count_nonzero(count) - kept.size} other values")
    return SuspectValues(suspect.name, tuple(names), place[suspect.codes])
