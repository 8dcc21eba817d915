"""Alternating minimisation over clusters and weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import _kmeans
from .._kmeans import Clusters
from .checkpoint import Snapshot, nested
from .problem import History, Problem, Solution, watch_nothing
from .weights import WEIGHT_STEPS, _uniform, minimize_weights


def alternate(
    problem: Problem, start: Any, *, max_iter, tol, watch=watch_nothing, save=None, resume=None
) -> Solution:
    """Alternate k-means to convergence at fixed weights with weight steps at fixed clusters.

    J never increases: a half step that does not lower it is rejected. The status is "converged"
    when a whole round lowers J by no more than tol |J|. ``resume`` replaces ``start``.
    """
    assert problem.distance is not None
    rows, distance = problem.rows, problem.distance
    history, before, status, first, inside = History(), np.inf, "max_iter", 1, None
    if resume is not None:
        arrays, facts = resume
        history.rows, before, first = list(facts["history"]), facts["before"], facts["round"]
        clusters = Clusters(arrays["labels"], arrays["e"], arrays["C"])
        inside = resume if facts["inside"] else None
        w = arrays["y"] if inside else arrays["w"]
    else:
        assert start is not None
        w, clusters, start = _uniform(problem), start, None

    def snapshot(inside: bool = True, **more: Any) -> Snapshot:
        arrays = {"labels": clusters.labels, "e": clusters.e, "C": clusters.C}
        facts = {"history": history.rows, "before": before, "inside": inside}
        return Snapshot({**arrays, **more}, {**facts, "round": round_ + (not inside)})

    round_ = first - 1
    for round_ in range(first, max_iter + 1):
        if inside is None:
            clusters, _ = _kmeans.lloyd(rows, distance, w, clusters)
        # The old weights are passed without keeping a reference, so that they can be freed.
        old, hook, small = [w], nested(save, snapshot), 0.1 * tol
        del w
        step = minimize_weights(
            problem, old.pop(), clusters.e, WEIGHT_STEPS, tol=small, save=hook, resume=inside
        )
        w, J, inside, resume = step.w, step.objective, None, None
        del step
        terms = problem.split(w, clusters.e, J)
        J = history.add(terms)
        if not np.isfinite(J):
            status = "non-finite"
            break
        if watch(round_, terms):
            status = "stopped"
            break
        if before - J <= tol * abs(J):
            status = "converged"
            break
        before = J
        if save is not None and round_ < max_iter:
            save(partial(snapshot, inside=False, w=w))
    # k-means once more at the last weights, so that labels, centres and weights are consistent.
    clusters, _ = _kmeans.lloyd(rows, distance, w, clusters)
    if status != "non-finite":
        # This last k-means step is counted as part of the last iteration.
        last = history.rows.pop()
        history.add(problem.terms(w, clusters.e, last["balance"] / (problem.balance_rate or 1.0)))
    arrays = history.arrays()
    return Solution(w, clusters, float(arrays["objective"][-1]), arrays, round_, status)
