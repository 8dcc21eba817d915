"""The authors' procedure."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _kmeans, _terms
from .._kmeans import Clusters, Distance
from .._rows import Rows
from .problem import History, Problem, Solution, watch_nothing
from .snapshot import Snapshot


def solve_paper(
    problem: Problem, start: Any, *, max_iter, tol, watch=watch_nothing, save=None, resume=None
) -> Solution:
    """The authors' published steps, also where they differ from the text of the paper.

    w = v^2, v is initially 1 (0 for a row of weight 0). Each iteration: centres, then labels, once;
    extrapolate v by t/(t+3); one gradient step whose size is halved until a quadratic bound holds
    and never increased again. The inertia part of the gradient is half of its derivative, as in the
    authors' code. Stops when J changes by less than tol, in absolute terms.
    """
    rows, distance = problem.rows, problem.distance
    v = np.sqrt(problem.a)
    v_before, step = v.copy(), 1.0
    clusters, history = start, History()
    e = np.zeros(rows.n)
    status, first = "max_iter", 1
    if resume is not None:
        arrays, facts = resume
        v, v_before, step = arrays["v"], arrays["v_before"], facts["step"]
        history.rows, first = list(facts["history"]), facts["iteration"] + 1
        if "labels" in arrays:
            clusters = Clusters(arrays["labels"], arrays["e"], arrays["C"])

    def snapshot() -> Snapshot:
        arrays = {"v": v, "v_before": v_before}
        if clusters is not None:
            arrays |= {"labels": clusters.labels, "e": clusters.e, "C": clusters.C}
        facts = {"step": step, "iteration": iteration, "history": history.rows}
        return Snapshot(arrays, facts)

    iteration = first - 1
    for iteration in range(first, max_iter + 1):
        if clusters is not None and distance is not None:
            clusters = _paper_sweep(rows, distance, v * v, clusters)
            e = clusters.e
        v_last = v
        v = v + iteration / (iteration + 3) * (v - v_before)
        w = v * v
        J, gradient = problem.value_and_gradient(w, e)
        # dJ/dv = 2 v dJ/dw, except that the authors' inertia part has a factor 1 instead of 2.
        g = 2.0 * v * gradient - problem.inertia_rate * e * v
        with np.errstate(over="ignore", invalid="ignore"):  # steps that are too long are halved
            step, z, terms = _paper_step(problem, v, g, e, J, step)
        v_before, v = v_last, z
        objective = history.add(terms)
        if not np.isfinite(objective):
            status = "non-finite"
            break
        if watch(iteration, terms):
            status = "stopped"
            break
        if iteration > 1 and abs(objective - history.rows[-2]["objective"]) < tol:
            status = "converged"
            break
        if save is not None and iteration < max_iter:
            save(snapshot)
    arrays = history.arrays()
    return Solution(v * v, clusters, float(arrays["objective"][-1]), arrays, iteration, status)


def _paper_step(problem: Problem, v, g, e, J: float, step: float) -> tuple:
    """Halve the step until J(z^2) <= J + g.(z - v) + ||z - v||^2 / (2 step), z = v - step g.

    The first iteration halves about twenty times. The balance is never negative, so a step at which
    the other terms alone exceed the bound is rejected without a pass over the rows.
    """
    while True:
        z = v - step * g
        w, move = z * z, z - v
        bound = J + float(g @ move) + float(move @ move) / (2.0 * step)
        end = step < 1e-300 or not np.isfinite(J)
        terms = problem.terms(w, _terms.inertia(w, e), 0.0)
        if end or not sum(terms.values()) > bound:
            if problem.balance_rate:
                terms["balance"] = problem.balance_rate * problem.balance.value(w)
            if end or sum(terms.values()) <= bound:
                return step, z, terms
        step /= 2.0


def _paper_sweep(rows: Rows, distance: Distance, w: np.ndarray, clusters: Clusters) -> Clusters:
    """Centres at w, then the nearest centres; empty clusters have no centre."""
    C, empty = _kmeans.update(rows, distance, w, clusters.labels, clusters.C)
    if not empty.any():
        return _kmeans.label(rows, distance, C)
    present = np.flatnonzero(~empty)
    found = _kmeans.label(rows, distance, C[present])
    return Clusters(present[found.labels].astype(_kmeans.label_type(len(C))), found.e, C)
