"""Effects of suspects: centres and effects from one weighted least-squares problem.

    inertia(w) = sum_i w_i ||x_i - C[labels_i] - B'z_i||^2        z: suspects, encoded and centred

C and B jointly are a linear problem in K + Q unknowns per column; their normal equations are sums
over rows. Labels are the nearest centres of y = x - B'z; the balance is measured between suspects
and y, so that the weights correct for the selection only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from . import _kmeans, _terms
from ._arrays import add_up
from ._balance import Effects
from ._data.sampling import draw_rows
from ._kmeans import Clusters, Distance, cluster_sums
from ._mixture.identify import identify_suspects
from ._mixture.partition import PartitionCriterion
from ._preprocessing import Design
from ._progress import emit, nested_progress
from ._rows import Rows
from ._solver import (
    Problem,
    SaveHook,
    Snapshot,
    Solution,
    State,
    Watcher,
    alternate,
    best_of_restarts,
    count_cells,
    initial_state,
    nested,
    pack_solution,
    state_of_centres,
    uniform_weights,
    unpack_solution,
    watch_nothing,
)


def make_effects(design: Design, degree: Any) -> Effects:
    """z of the suspects: 0/1 columns unchanged; numbers as powers 1..degree of their standard
    score, or, with degree "bins", as indicators of their quantile bins. B = 0."""
    columns, column_map, suspects = design.stats, design.column_map, design.suspects
    assert suspects is not None
    shift = np.zeros(design.rows.d) if design.rows.shift is None else design.rows.shift
    column, power, centre, scale, binned = [], [], [], [], []
    for k in suspects:
        if not columns.high[k] > columns.low[k]:
            continue
        number = not columns.two_valued[k] and column_map.levels[k] is None
        if number and degree == "bins":
            binned.append(k)
            continue
        for p in range(1, (degree if number and degree != "bins" else 1) + 1):
            column.append(k)
            power.append(p)
            is_indicator = bool(column_map.is_indicator[k])
            centre.append(0.0 if is_indicator else columns.mean[k] - shift[k])
            scale.append(1.0 if columns.two_valued[k] else columns.sd[k])
    bins = None
    if binned:
        chosen = np.flatnonzero(np.isin(design.treatments.column, binned))
        bins = design.treatments.take(chosen)
    Q = len(column) + (0 if bins is None else len(bins))
    blank = Effects(
        np.array(column, dtype=np.intp),
        np.array(power, dtype=np.float64),
        np.array(centre, dtype=np.float64),
        np.array(scale, dtype=np.float64),
        bins,
        np.zeros(Q),
        np.zeros((Q, design.rows.d)),
        column_map.missing_indicator,
    )
    a = design.a
    mean = add_up(design.rows.map(lambda tile, a_: (blank.z(tile).T @ a_,), a))[0] / a.sum()
    return replace(blank, mean=mean)


def solve_jointly(
    rows: Rows, distance: Distance, w: np.ndarray, labels: np.ndarray, C: np.ndarray, ridge: float
) -> tuple[np.ndarray, Effects, np.ndarray]:
    """argmin over C, B of sum_i w_i ||x_i - C[labels_i] - B'z_i||^2 + ridge * tr(Z'WZ)/Q ||B||^2.

    Solved as a correction of the current C and B from the residuals; the normal equations have
    blocks for clusters and suspects. A missing value has residual 0, which makes it an
    expectation-maximisation step: the inertia does not increase. Rows with missing values have
    weight w here, without their factor, as in the balance: where the two differ for a rare
    category, weights and B oscillate (seen on NHANES).
    """
    effects = distance.effects
    assert effects is not None
    K, columns = C.shape[0], distance.columns

    def sums(tile: np.ndarray, w_: np.ndarray, own: np.ndarray) -> tuple:
        mask = distance.missing_mask(tile)
        R = _kmeans.differences(
            distance.features(tile), C[own].astype(tile.dtype), mask, slice(None)
        )
        Z = effects.z(tile)
        UR, U = cluster_sums(R, w_, own, K)
        UZ, _ = cluster_sums(Z, w_, own, K)
        wZ = (w_[:, None] * Z).astype(Z.dtype)
        return UR, U, UZ, wZ.T @ R, wZ.T @ Z

    UR, U, UZ, ZR, ZZ = add_up(rows.map(sums, w, labels))
    empty = U <= np.finfo(np.float64).tiny * max(rows.n, 1)
    penalty = ridge_penalty(ZZ, ridge)
    # Eliminate the centres, whose block is diagonal.
    inverse = np.divide(1.0, U, out=np.zeros_like(U), where=~empty)
    left = ZZ - UZ.T @ (inverse[:, None] * UZ) + penalty * np.eye(ZZ.shape[0])
    right = ZR - UZ.T @ (inverse[:, None] * UR) - penalty * effects.B[:, columns]
    step = np.linalg.lstsq(left, right, rcond=1e-12)[0]
    B = effects.B.copy()
    B[:, columns] += step
    C = C + inverse[:, None] * (UR - UZ @ step)
    return C, replace(effects, B=B), empty


def ridge_penalty(ZZ: np.ndarray, ridge: float) -> float:
    return ridge * float(np.trace(ZZ)) / max(ZZ.shape[0], 1)


def lloyd_with_effects(
    problem: Problem, state: State, overwrite: bool, ridge: float, max_sweeps: int = 100
) -> tuple[Problem, Clusters]:
    """Alternate (C, B) and labels at fixed w until no label changes and the inertia converges.
    With ``overwrite``, the arrays of the state's clusters are used for the result."""
    rows, distance, clusters, w = problem.rows, problem.distance, state.clusters, state.w
    assert distance is not None
    before, own = np.inf, clusters
    if not overwrite:
        own = _kmeans.empty_clusters(rows.n, clusters.C, clusters.e is not None)
    for _ in range(max_sweeps):
        C, effects, empty = solve_jointly(rows, distance, w, clusters.labels, clusters.C, ridge)
        distance = replace(distance, effects=effects)
        if empty.any():
            C = _kmeans.reseed_empty(rows, distance, w, clusters._replace(C=C), empty)
        clusters, value, settled, _ = _kmeans.sweep(
            rows, distance, w, C, clusters.labels, own, with_sums=False
        )
        still = abs(value - before) <= 1e-6 * abs(value)
        before = value
        if still and settled:
            break
    return problem.with_effects(distance), clusters


def regress_out(rows: Rows, distance: Distance, a: np.ndarray, ridge: float) -> Distance:
    """Distance with effects from a regression on the suspects alone (one cluster)."""
    labels = np.zeros(rows.n, dtype=np.int32)
    C = np.zeros((1, distance.columns.size))
    for _ in range(1 if distance.missing_at is None else 5):
        C, effects, _ = solve_jointly(rows, distance, a, labels, C, ridge)
        distance = replace(distance, effects=effects)
    return distance


def identify_effects(
    design: Design, labels: np.ndarray, K: int, sources: list[str]
) -> tuple[str, str]:
    """Whether the clusters join the values of the suspects, as in SelectionMixture: "yes", "under
    small effects" or "no", and why. Numeric suspects, whose effects are smooth, need no values in
    common. ``sources``: names of the columns of X."""
    assert design.suspects is not None
    pairs = [p for p in design.pair_blocks if p.n_pairs > 0]
    treatments = pairs[0].treatments if pairs else design.treatments
    discrete = design.stats.two_valued | np.array([v is not None for v in design.column_map.levels])
    suspects = np.intersect1d(design.suspects, np.flatnonzero(discrete))
    treatments = treatments.take(np.flatnonzero(np.isin(treatments.column, suspects)))
    if not len(treatments):
        return "yes", ""
    T, cells = count_cells(design.rows, treatments, design.a, labels, K)
    used = cells.any(axis=1)
    T, cells = T[used], cells[used]
    source = design.column_map.source[treatments.column]
    if design.column_map.sources is None and (T.sum(axis=1) == 1).all():
        source = np.zeros_like(source)  # indicators of one suspect
    names = [
        sources[k] if design.column_map.names is None else design.column_map.names[k]
        for k in treatments.column
    ]
    N: list[np.ndarray] = []
    which: list[int] = []
    levels: list[str] = []
    named: list[str] = []
    for number, one in enumerate(np.unique(source)):
        own = np.flatnonzero(source == one)
        values, level = np.unique(T[:, own], axis=0, return_inverse=True)
        N.append(np.zeros((len(values), K)))
        np.add.at(N[-1], level.ravel(), cells)
        which += [number] * len(values)
        for row in values > 0.5:
            shown = [names[j] for j in own[row]]
            levels.append(", ".join(shown) or f"not {', '.join(names[j] for j in own)}")
        named.append(sources[design.column_map.source[treatments.column[own[0]]]])
    return identify_suspects(np.concatenate(N), np.array(which), levels, named)


# --------------------------------------------------------------------------------------------
# Initializations and unsupervised selection among their solutions


# Kinds of initializations, in the order they are reported. The last two are solutions without
# effects: of the weights that depend on the inertia too, and where there is nothing to adjust for.
WEIGHTS_ONLY, NO_EFFECTS = "weights only", "no effects"


INIT_KINDS = ("raw", "regressed", "weights", WEIGHTS_ONLY, NO_EFFECTS)


class EffectsCandidate(NamedTuple):
    """A solution (with its distance and effects), its initialization, and its BIC."""

    init: str
    solution: Solution
    problem: Problem
    bic: float = np.nan

    @property
    def has_effects(self) -> bool:
        return self.init not in (WEIGHTS_ONLY, NO_EFFECTS)

    def as_dict(self, chosen: bool) -> dict:
        problem, solution = self.problem, self.solution
        ess = _terms.effective_share(solution.w, problem.inverse_a, problem.design_sum)
        return {
            "restart": self.init,
            "objective": solution.objective,
            "inertia": _kmeans.inertia(
                problem.rows, problem.distance, solution.w, solution.clusters
            ),
            "effective_size": ess,
            "bic": self.bic,
            "chosen": chosen,
        }


# Rows on which candidates are compared.
MAX_COMPARED = 3000
# The solution without effects is selected only where its BIC is lower by this ("very strong
# evidence", Kass and Raftery): its weights also decrease with the distance from the centres.
WITHOUT_EFFECTS = 10.0


def partition_bic(problem: Problem, source: np.ndarray) -> Callable[..., float]:
    """Function (labels, K, effects=True) -> BIC of the partition (`_mixture.partition`), on at most
    3,000 rows. ``source``: source of each column of X, whose indicators are one category."""
    rows, distance = problem.rows, problem.distance
    assert distance is not None
    which = draw_rows(problem.a, MAX_COMPARED, 0)
    tile = rows.select(which).take(np.arange(which.size))
    X = np.asarray(tile[:, distance.columns], dtype=np.float64)
    if distance.missing_at is not None:
        X[:, distance.missing_at] = np.where(
            tile[:, distance.indicator] > 0.5, np.nan, X[:, distance.missing_at]
        )
    level = np.zeros(which.size, int) if problem.dual is None else problem.dual.cell[which]
    criterion = PartitionCriterion.of_matrix(X, level, problem.a[which], source[distance.columns])
    return lambda labels, K, effects=True: criterion.bic(labels[which], K, effects)


def select(candidates: list[EffectsCandidate], source: np.ndarray) -> list[EffectsCandidate]:
    """The candidates with their BIC, the selected one first, then by BIC.

    The partitions are compared by one likelihood, in which clusters have means, the cells of the
    suspects have effects that are shrunk towards 0, and the shares of the clusters are free in each
    cell (`_mixture.partition`), on at most 3,000 rows. Objectives and inertias are not comparable:
    effects that absorb the groups leave nothing to balance and a lower inertia than the groups.
    ``source``: source of each column of X, whose indicators are one category.
    """
    bic_of = partition_bic(candidates[0].problem, source)
    found = []
    for each in candidates:
        clusters = each.solution.clusters
        assert clusters is not None
        value = bic_of(clusters.labels, clusters.C.shape[0], each.has_effects)
        found.append(each._replace(bic=value))

    def rank(candidate: EffectsCandidate) -> float:
        return candidate.bic + (WITHOUT_EFFECTS if candidate.init == WEIGHTS_ONLY else 0.0)

    return sorted(found, key=rank)


def fit_candidates(
    problem: Problem,
    small: Problem | None,
    init_on: Any,
    seeds: np.ndarray,
    *,
    source: np.ndarray,
    any_effect: bool,
    weigh: bool,
    ridge: float,
    max_iter: int,
    tol: float,
    watch: Watcher = watch_nothing,
    save: SaveHook | None = None,
    resume: Snapshot | None = None,
) -> tuple[EffectsCandidate, list[dict]]:
    """Solve from three kinds of initializations and select a solution.

    Without ``any_effect`` (the suspects are not associated with the columns beyond chance) there is
    one solution, without effects.

    "raw": k-means of x. "regressed": k-means after the suspects were regressed out. "weights": the
    joint weights and clusters without effects (only with ``weigh``). ``init_on(problem, distance,
    seed)`` returns initial clusters; of each kind the best over the seeds is continued. With
    ``small``, the same problem on a subsample of the rows, all of this is done there, and the
    selected solution is continued on all rows.
    """
    how: Any = {"any_effect": any_effect, "weigh": weigh, "ridge": ridge, "max_iter": max_iter}
    how["tol"] = tol
    if small is None:
        how |= {"watch": watch, "save": save, "resume": resume}
        every = select(_solve_kinds(problem, init_on, seeds, **how), source)
        return every[0], [c.as_dict(c is every[0]) for c in every]
    with nested_progress():
        every = select(_solve_kinds(small, init_on, seeds, **how), source)
    first = every[0]
    assert first.solution.clusters is not None
    assert first.solution.distance is not None
    assert first.solution.distance.effects is not None
    step = None
    if not first.has_effects:
        start = without_effects(problem, inertia=first.init == WEIGHTS_ONLY)
    else:
        start = problem.with_effects_of(first.solution.distance.effects.B)
        step = partial(lloyd_with_effects, ridge=ridge)
    C = first.solution.clusters.C
    solution = alternate(
        start, None if resume is not None else state_of_centres(start, C), owned=True,
        cluster_step=step, weigh=weigh, max_iter=max_iter, tol=tol, watch=watch, save=save,
        resume=resume,
    )  # fmt: skip
    chosen = _finished(first.init, solution, problem)._replace(bic=first.bic)
    return chosen, [c.as_dict(c is first) for c in every]


def without_effects(problem: Problem, inertia: bool = True) -> Problem:
    """The problem without effects, with or without the ``inertia`` in the weight step."""
    assert problem.distance is not None
    dual = problem.dual
    if dual is not None and not inertia:
        dual = replace(dual, rho=0.0)
    return problem._replace(distance=replace(problem.distance, effects=None), dual=dual)


def _finished(name: str, solution: Solution, problem: Problem) -> EffectsCandidate:
    """The candidate of a solution; one without effects has B = 0."""
    if name in (WEIGHTS_ONLY, NO_EFFECTS):
        return EffectsCandidate(name, solution._replace(distance=problem.distance), problem)
    return EffectsCandidate(name, solution, problem.with_effects(solution.distance))


def _solve_kinds(
    problem: Problem, init_on: Any, seeds: np.ndarray, *, any_effect: bool, weigh: bool,
    ridge: float, max_iter: int, tol: float, watch: Watcher = watch_nothing,
    save: SaveHook | None = None, resume: Snapshot | None = None,
) -> list[EffectsCandidate]:  # fmt: skip
    """A solution from each kind of initialization, or the one without effects."""
    rows, a, plain = problem.rows, problem.a, problem.distance
    assert plain is not None
    weights_only = without_effects(problem)
    kinds = INIT_KINDS[: 3 if weigh else 2]
    candidates, first = ([], 0) if resume is None else unpack_candidates(resume, problem)
    uniform = uniform_weights(problem)

    def by_kmeans(seed: int, save: Any, resume: Any, distance: Distance) -> Solution:
        found, _ = _kmeans.lloyd(rows, distance, a, init_on(problem, distance, seed))
        return Solution(uniform, found, float(a @ found.e), {}, 0, "")

    def by_weights(seed: int, save: Any, resume: Any, distance: Distance) -> Solution:
        state = None
        if resume is None:
            state = initial_state(weights_only, init_on(problem, weights_only.distance, seed))
        how: Any = {"weigh": weigh, "max_iter": max_iter, "tol": tol}
        return alternate(weights_only, state, **how, save=save, resume=resume)

    if not any_effect:
        weights_only = without_effects(problem, inertia=False)
        first_of = partial(by_weights, distance=plain)
        best = best_of_restarts(first_of, weights_only, list(seeds), save, resume)
        return [_finished(NO_EFFECTS, best, problem)]
    emit("initialization", first, len(kinds))
    for kind in range(first, len(kinds)):
        name, distance, inside, resume = kinds[kind], plain, resume, None
        state, start = None, problem
        if inside is None or inside.facts["phase"] == "starts":
            if name == "regressed":
                distance = regress_out(rows, plain, a, ridge)
            with nested_progress():
                best = best_of_restarts(
                    partial(by_weights if name == "weights" else by_kmeans, distance=distance),
                    weights_only,
                    list(seeds),
                    save=nested(save, partial(pack_candidates, candidates, kind, "starts")),
                    resume=inside,
                )
            assert best.clusters is not None
            inside, start = None, problem.with_effects(distance)
            state = replace(initial_state(start, best.clusters), w=best.w)
            if name == "weights":
                candidates.append(_finished(WEIGHTS_ONLY, best, problem))
                if state.dual is not None and best.dual is not None:
                    state = replace(state, dual=best.dual)
        hook = nested(save, partial(pack_candidates, candidates, kind, "descent"))
        with nested_progress():
            solution = alternate(
                start, state, cluster_step=partial(lloyd_with_effects, ridge=ridge), weigh=weigh,
                max_iter=max_iter, tol=tol, watch=watch, save=hook, resume=inside,
            )  # fmt: skip
        status = f"from {name}, {solution.status}"
        emit("initialization", kind + 1, len(kinds), status=status, objective=solution.objective)
        candidates.append(_finished(name, solution, problem))
    return sorted(candidates, key=lambda candidate: INIT_KINDS.index(candidate.init))


def pack_candidates(candidates: list[EffectsCandidate], kind: int, phase: str) -> Snapshot:
    """Pack the solutions so far and the current kind of initialization."""
    arrays: dict[str, Any] = {}
    names = [candidate.init for candidate in candidates]
    facts: dict[str, Any] = {"kind": kind, "phase": phase, "candidates": names}
    for number, candidate in enumerate(candidates):
        solution = candidate.solution
        if candidate.init == WEIGHTS_ONLY:
            solution = solution._replace(distance=None)  # it has no effects
        packed = pack_solution(f"candidate {number}", solution)
        arrays, facts = arrays | packed.arrays, facts | packed.facts
    return Snapshot(arrays, facts)


def unpack_candidates(snapshot: Snapshot, problem: Problem) -> tuple[list[EffectsCandidate], int]:
    candidates = []
    for number, name in enumerate(snapshot.facts["candidates"]):
        own = without_effects(problem) if name == WEIGHTS_ONLY else problem
        solution = unpack_solution(snapshot, f"candidate {number}", own)
        candidates.append(_finished(name, solution, problem))
    return candidates, snapshot.facts["kind"]
