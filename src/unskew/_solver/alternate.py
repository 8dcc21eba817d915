"""Alternating minimisation over clusters and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .. import _kmeans
from .._kmeans import Clusters
from .checkpoint import SaveHook, nested
from .dual import DualState
from .problem import History, Problem, Solution, Watcher, watch_nothing
from .snapshot import CheckpointError, Snapshot, check_shape
from .weights import WEIGHT_STEPS, minimize_weights, uniform_weights


@dataclass(frozen=True)
class State:
    """State of the alternation: clusters, weights and, with named suspects, the dual variables.

    With dual variables the weights are a function of the rows, of ``dual`` and of ``weight_C``, the
    centres at which they were computed, so a checkpoint has no vector of length n.
    """

    clusters: Clusters
    w: np.ndarray
    dual: DualState | None = None
    weight_C: np.ndarray | None = None

    def pack(self) -> dict[str, np.ndarray]:
        if self.dual is None or self.weight_C is None:
            return {**pack_clusters(self.clusters), "w": self.w}
        return {"C": self.clusters.C, "weight_C": self.weight_C, **self.dual.arrays()}


def pack_clusters(clusters: Clusters) -> dict[str, np.ndarray]:
    """The arrays of clusters, by name."""
    return {name: array for name, array in clusters._asdict().items() if array is not None}


def unpack_clusters(arrays: dict[str, np.ndarray], distances: bool) -> Clusters:
    if distances and "e" not in arrays:
        raise CheckpointError("the checkpoint is damaged (no distances); remove it")
    return Clusters(arrays["labels"], arrays["e"] if distances else None, arrays["C"])


def restore(problem: Problem, arrays: dict[str, np.ndarray]) -> State:
    """The state whose arrays ``State.pack`` returned, to the bit."""
    if "w" in arrays:
        return State(unpack_clusters(arrays, problem.keeps_distances), arrays["w"])
    if problem.dual is None:
        raise CheckpointError("the checkpoint is damaged (no weights); remove it")
    for name, like in problem.dual.start().arrays().items():
        check_shape(arrays, name, like)
    rows, distance, dual = problem.rows, problem.distance, DualState.from_arrays(arrays)
    out = _kmeans.empty_clusters(rows.n, arrays["weight_C"], problem.keeps_distances)
    clusters = _kmeans.label(rows, distance, arrays["weight_C"], out)
    w = problem.dual.weights(dual, clusters.e)
    if not np.array_equal(arrays["C"], arrays["weight_C"]):
        clusters = _kmeans.label(rows, distance, arrays["C"], clusters)
    return State(clusters._replace(C=arrays["C"]), w, dual, arrays["weight_C"])


def initial_state(problem: Problem, clusters: Clusters) -> State:
    """Uniform weights."""
    dual = None if problem.dual is None else problem.dual.start()
    if not problem.keeps_distances:
        clusters = clusters._replace(e=None)
    return State(clusters, uniform_weights(problem), dual)


def state_of_centres(problem: Problem, C: np.ndarray) -> State:
    """Uniform weights, and the nearest of the given centres."""
    assert problem.distance is not None
    out = _kmeans.empty_clusters(problem.rows.n, C, problem.keeps_distances)
    return initial_state(problem, _kmeans.label(problem.rows, problem.distance, C, out))


def continued_state(problem: Problem, few: Problem, found: Solution, tol: float) -> State:
    """Start from a solution on a subsample: its centres and, with named suspects, the optimal
    weights there. (k-means at uniform weights would first leave the solution.)"""
    state = state_of_centres(problem, found.clusters.C)
    if problem.dual is None or few.dual is None or found.dual is None:
        return state
    e = state.clusters.e
    step = problem.dual.solve(problem.dual.transferred(few.dual, found.dual), e, tol)
    w = problem.dual.weights(step.state, e)
    return State(state.clusters, w, step.state, state.clusters.C)


# The half step on the clusters at fixed weights: the problem (whose distance may change) and the
# clusters, whose arrays may be those of the state if the last argument is true.
ClusterStep = Callable[[Problem, State, bool], tuple[Problem, Clusters]]


def kmeans_step(problem: Problem, state: State, overwrite: bool) -> tuple[Problem, Clusters]:
    rows, distance, clusters = problem.rows, problem.distance, state.clusters
    return problem, _kmeans.lloyd(rows, distance, state.w, clusters, overwrite=overwrite)[0]


def alternate(
    problem: Problem,
    state: State | None,
    *,
    max_iter: int,
    tol: float,
    cluster_step: ClusterStep | None = None,
    weigh: bool = True,
    owned: bool = False,
    watch: Watcher = watch_nothing,
    save: SaveHook | None = None,
    resume: Snapshot | None = None,
) -> Solution:
    """Alternate clusters to convergence at fixed weights with weights at fixed clusters.

    J does not increase by more than the reported duality gap: a round that raises it (possible with
    ``cluster_step`` that changes the columns to balance) is undone and ends the alternation. The
    status is "converged" when a round lowers J by no more than tol |J|. ``resume`` replaces
    ``state``. ``owned``: the vectors of ``state`` may be overwritten.
    """
    cluster_step = cluster_step or kmeans_step
    history, before, status, first, inside = History(), np.inf, "max_iter", 1, None
    if resume is not None:
        facts = resume.facts
        history.rows, before, first = list(facts["history"]), facts["before"], facts["round"]
        inside = resume if facts["inside"] else None
        if "B" in resume.arrays:
            problem = problem.with_effects_of(resume.arrays["B"])
        if inside is not None:
            state = State(unpack_clusters(resume.arrays, True), resume.arrays["y"])
        else:
            state = restore(problem, resume.arrays)
    assert state is not None

    def snapshot(inside: bool = True) -> Snapshot:
        assert state is not None
        facts = {"history": history.rows, "before": before, "inside": inside}
        arrays = pack_clusters(state.clusters) if inside else state.pack()
        return Snapshot(
            {**arrays, **problem.effects_arrays()}, {**facts, "round": round_ + (not inside)}
        )

    kept: tuple[Problem, Any] = problem, None if resume is None else _kept(state)
    round_ = first - 1
    for round_ in range(first, max_iter + 1):
        # With dual variables a state is kept without its vectors, which the next round overwrites.
        own = state.dual is not None and (owned or round_ > first)
        if inside is None:
            problem, clusters = cluster_step(problem, state, own)
            state = replace(state, clusters=clusters)
        e, extra = state.clusters.e, {}
        if not weigh:
            terms = problem.terms(state.w, _inertia(problem, state))
        elif problem.dual is not None and state.dual is not None:
            step = problem.dual.solve(state.dual, e, 0.1 * tol)
            w = problem.dual.weights(step.state, e, state.w if own and state.w.strides[0] else None)
            state = State(state.clusters, w, step.state, state.clusters.C)
            balance = step.balance / (problem.balance_rate or 1.0)
            terms = problem.terms(w, _inertia(problem, state), balance)
            extra = {"gap": step.gap, "dual": step.values[-1]}
        else:
            found = minimize_weights(
                problem, state.w, e, WEIGHT_STEPS, tol=0.1 * tol,
                save=nested(save, snapshot), resume=inside,
            )  # fmt: skip
            state = replace(state, w=found.w)
            terms = problem.split(found.w, e, found.objective)
        inside = resume = None
        J = sum(terms.values())
        if J > before and np.isfinite(before):
            problem, before_it = kept
            if isinstance(before_it, dict):
                # Without the vectors of this round while those before it are computed.
                del state, clusters, e, w
                before_it = restore(problem, before_it)
            state, status = before_it, "converged"
            break
        history.add(terms, extra)
        if not np.isfinite(J):
            status = "non-finite"
            break
        if watch(round_, terms):
            status = "stopped"
            break
        if not weigh or before - J <= tol * abs(J):
            status = "converged"
            break
        before, kept = J, (problem, _kept(state))
        if save is not None and round_ < max_iter:
            save(partial(snapshot, inside=False))
    # k-means once more at the last weights, so that centres are the weighted means.
    if weigh:
        problem, clusters = kmeans_step(problem, state, state.dual is not None)
        state = replace(state, clusters=clusters)
        if status != "non-finite":
            # This last k-means step is counted as part of the last iteration.
            last = history.rows.pop()
            balance = last["balance"] / (problem.balance_rate or 1.0)
            extra = {name: last[name] for name in ("gap", "dual") if name in last}
            history.add(problem.terms(state.w, _inertia(problem, state), balance), extra)
    arrays = history.arrays()
    return Solution(
        state.w, state.clusters, float(arrays["objective"][-1]), arrays, round_, status,
        state.dual, state.weight_C, problem.distance,
    )  # fmt: skip


def _inertia(problem: Problem, state: State) -> float:
    assert problem.distance is not None
    return _kmeans.inertia(problem.rows, problem.distance, state.w, state.clusters)


def _kept(state: State) -> Any:
    """What is kept of a state to return to it: with dual variables, no vector of length n."""
    return state if state.dual is None or state.weight_C is None else state.pack()


def solution_state(solution: Solution) -> State:
    assert solution.clusters is not None
    return State(solution.clusters, solution.w, solution.dual, solution.weight_C)


def pack_solution(name: str, solution: Solution) -> Snapshot:
    """Pack a solution under a name; ``unpack_solution`` restores it."""
    effects: Any = None if solution.distance is None else solution.distance.effects
    arrays = solution_state(solution).pack() | ({} if effects is None else {"B": effects.B})
    arrays |= {f"history {k}": v for k, v in solution.history.items()}
    facts = {field: getattr(solution, field) for field in ("objective", "n_iter", "status")}
    return Snapshot({f"{name} {k}": v for k, v in arrays.items()}, {name: facts})


def unpack_solution(snapshot: Snapshot, name: str, problem: Problem) -> Solution:
    before = f"{name} "
    arrays = {k.removeprefix(before): v for k, v in snapshot.arrays.items() if k.startswith(before)}
    history = {k.removeprefix("history "): v for k, v in arrays.items() if k.startswith("history ")}
    if "B" in arrays:
        problem = problem.with_effects_of(arrays["B"])
    state, facts = restore(problem, arrays), snapshot.facts[name]
    return Solution(
        state.w, state.clusters, facts["objective"], history, facts["n_iter"], facts["status"],
        state.dual, state.weight_C, problem.distance,
    )  # fmt: skip
