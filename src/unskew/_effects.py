"""Effects of suspects: centres and effects from one weighted least-squares problem.

    inertia(w) = sum_i w_i ||x_i - C[labels_i] - B'z_i||^2        z: suspects, encoded and centred

C and B jointly are a linear problem in K + Q unknowns per column; their normal equations are sums
over rows. Labels are the nearest centres of y = x - B'z; the balance is measured between suspects
and y, so that the weights correct for the selection only.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from . import _balance, _kmeans, _terms
from ._arrays import add_up
from ._balance import Effects
from ._kmeans import Clusters, Distance, cluster_sums
from ._preprocessing import Design
from ._progress import emit, nested_progress
from ._solver import (
    WEIGHT_STEPS,
    History,
    Problem,
    SaveHook,
    Snapshot,
    Solution,
    Watcher,
    alternate,
    best_of_restarts,
    minimize_weights,
    nested,
    pack_best,
    pack_solution,
    unpack_solution,
    watch_nothing,
)

# Number of rounds without a lower objective after which the best round is kept.
MAX_WORSE_ROUNDS = 5


# Maximum number of steps on the weights after the last round.
LAST_STEPS = 100


# A cluster and a category overlap if at least this number of rows, and this share of the category,
# are in both.
MEET_ROWS, MEET_SHARE = 3, 0.002


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


class EffectsFit(NamedTuple):
    """Clusters and their distance (with its effects)."""

    clusters: Clusters
    distance: Distance


def solve_jointly(
    rows: Any, distance: Distance, w: np.ndarray, labels: np.ndarray, C: np.ndarray, ridge: float
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
    rows: Any, fit: EffectsFit, w: np.ndarray, ridge: float, max_sweeps: int = 100
) -> EffectsFit:
    """Alternate (C, B) and labels at fixed w until no label changes and the inertia converges."""
    clusters, distance = fit
    before = np.inf
    for _ in range(max_sweeps):
        C, effects, empty = solve_jointly(rows, distance, w, clusters.labels, clusters.C, ridge)
        distance = replace(distance, effects=effects)
        if empty.any():
            C = _kmeans.reseed_empty(rows, distance, w, clusters._replace(C=C), empty)
        new = _kmeans.label(rows, distance, C)
        value = float(w @ new.e)
        still = abs(value - before) <= 1e-6 * abs(value)
        settled = still and np.array_equal(new.labels, clusters.labels)
        clusters, before = new, value
        if settled:
            break
    return EffectsFit(clusters, distance)


def regress_out(rows: Any, distance: Distance, a: np.ndarray, ridge: float) -> Distance:
    """Distance with effects from a regression on the suspects alone (one cluster)."""
    labels = np.zeros(rows.n, dtype=np.int32)
    C = np.zeros((1, distance.columns.size))
    for _ in range(1 if distance.missing_at is None else 5):
        C, effects, _ = solve_jointly(rows, distance, a, labels, C, ridge)
        distance = replace(distance, effects=effects)
    return distance


def alternate_with_effects(
    problem: Problem,
    fit: EffectsFit,
    w: np.ndarray,
    *,
    weigh: bool,
    ridge: float,
    max_iter: int,
    tol: float,
    watch: Watcher = watch_nothing,
    save: SaveHook | None = None,
    resume: Snapshot | None = None,
) -> tuple[Solution, EffectsFit, Problem]:
    """Alternate clusters with effects to convergence at fixed weights with the weights (if
    ``weigh``) at fixed clusters.

    (C, B, labels) minimise the inertia, w the other terms. The inertia is deliberately not part of
    the weight step: with it, rows far from their centre are down-weighted, which halves the
    effective sample size of balanced data and costs 0.02 to 0.07 ARI on the tinted digits. Each
    half step lowers its own terms; their sum J may increase temporarily, and the round with the
    lowest J is kept. "converged": a round changes J by no more than tol of itself, or no round in
    MAX_WORSE_ROUNDS has lowered it. ``resume`` replaces the initial clusters, B and w.
    """
    rows, history, before = problem.rows, History(), np.inf
    status, first, best, worse = "max_iter", 1, (np.inf, fit, w), 0
    if resume is not None:
        facts, plain = resume.facts, fit.distance
        history.rows, before, first = list(facts["history"]), facts["before"], facts["round"]
        (fit, w), worse = unpack_fit(resume, "now", plain), facts["worse"]
        best = (facts["lowest"], *unpack_fit(resume, "lowest", plain))

    def snapshot() -> Snapshot:
        arrays = {**pack_fit("now", fit, w), **pack_fit("lowest", *best[1:])}
        facts = {"history": history.rows, "before": before, "round": round_ + 1, "worse": worse}
        return Snapshot(arrays, {**facts, "lowest": best[0]})

    round_ = first - 1
    for round_ in range(first, max_iter + 1):
        fit = lloyd_with_effects(rows, fit, w, ridge)
        problem = with_effects(problem, fit.distance)
        if weigh:
            weights_only = problem._replace(inertia_rate=0.0)
            w = minimize_weights(
                weights_only, w, fit.clusters.e, n_steps=WEIGHT_STEPS, tol=0.1 * tol
            ).w
        terms = problem.terms(w, fit.clusters.e)
        J = history.add(terms)
        if not np.isfinite(J):
            status = "non-finite"
            break
        if watch(round_, terms):
            status = "stopped"
            break
        worse = worse + 1 if best[0] <= J else 0
        best = (J, fit, w) if best[0] > J else best
        if not weigh or abs(before - J) <= tol * abs(J) or worse == MAX_WORSE_ROUNDS:
            status = "converged"
            break
        before = J
        if save is not None and round_ < max_iter:
            save(snapshot)
    if weigh and status != "non-finite":
        # Last weight step to convergence at fixed B: w is then the minimum that ``predict_weights``
        # assumes, and labels, centres and weights are consistent.
        _, fit, w = best
        fit = lloyd_with_effects(rows, fit, w, ridge)
        problem = with_effects(problem, fit.distance)
        weights_only = problem._replace(inertia_rate=0.0)
        w = minimize_weights(weights_only, w, fit.clusters.e, n_steps=LAST_STEPS, tol=0.1 * tol).w
        fit = fit._replace(clusters=_kmeans.lloyd(rows, fit.distance, w, fit.clusters)[0])
        history.add(problem.terms(w, fit.clusters.e))
    arrays = history.arrays()
    objective = float(arrays["objective"][-1])
    return Solution(w, fit.clusters, objective, arrays, round_, status), fit, problem


def pack_fit(name: str, fit: EffectsFit, w: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays for a checkpoint from which ``unpack_fit`` restores the fit and w."""
    assert fit.distance.effects is not None
    named = {**fit.clusters._asdict(), "B": fit.distance.effects.B, "w": w}
    return {f"{name} {field}": values for field, values in named.items()}


def unpack_fit(snapshot: Snapshot, name: str, plain: Distance) -> tuple[EffectsFit, np.ndarray]:
    assert plain.effects is not None
    clusters = Clusters(*(snapshot.arrays[f"{name} {field}"] for field in Clusters._fields))
    effects = replace(plain.effects, B=snapshot.arrays[f"{name} B"])
    return EffectsFit(clusters, replace(plain, effects=effects)), snapshot.arrays[f"{name} w"]


def with_effects(problem: Problem, distance: Distance) -> Problem:
    """The problem whose balance uses adjusted features."""
    balance = problem.balance
    if balance is not None:
        pair_blocks = [replace(p, effects=distance.effects) for p in balance.pair_blocks]
        balance = _balance.Balance(problem.rows, pair_blocks, form="primal")
    return problem._replace(balance=balance, distance=distance)


def confounded_sources(design: Design, labels: np.ndarray, suspects: np.ndarray) -> list[int]:
    """Suspects that are confounded with the clusters.

    Clusters and values that overlap are connected; if the graph has more than one component, the
    effects of values in different components are not identifiable, since no cluster contains both.
    """
    rows, columns, present = design.rows, design.stats, design.a > 0
    K, out = int(labels.max()) + 1, []
    for source in suspects:
        own = np.flatnonzero((design.column_map.source == source) & columns.two_valued)
        if own.size == 0:
            continue
        shift = np.zeros(rows.d) if rows.shift is None else rows.shift
        value = np.zeros(rows.n, dtype=np.intp)
        for number, k in enumerate(own, start=1):
            value[rows.columns(np.array([k]))[:, 0] > columns.mean[k] - shift[k]] = number
        cells = np.zeros((K, own.size + 1))
        np.add.at(cells, (labels[present], value[present]), 1.0)
        cells = cells[:, cells.any(axis=0)]
        meet = cells >= np.maximum(MEET_ROWS, MEET_SHARE * cells.sum(0))
        k, s = np.nonzero(meet)
        size = K + cells.shape[1]
        graph = coo_array((np.ones(k.size), (k, K + s)), shape=(size, size))
        groups = connected_components(graph, directed=False)[1]
        if np.unique(groups[K:]).size > 1:
            out.append(int(source))
    return out


# --------------------------------------------------------------------------------------------
# Initializations and unsupervised selection among their solutions


# Kinds of initializations, in the order they are reported. The last is a solution without effects.
WEIGHTS_ONLY = "weights only"


INIT_KINDS = ("raw", "regressed", "weights", WEIGHTS_ONLY)


class EffectsCandidate(NamedTuple):
    """One solution, its initialization, and the selection criteria.

    explained   share of the variance of y between clusters, at the design weights
    association  square root of the weighted share of a suspect's variance between clusters, largest
                over the suspects: 1 when the clusters are the suspect itself
    ess         effective sample size
    score       see ``score``; None where there is no reference population
    """

    init: str
    solution: Solution
    fit: EffectsFit
    problem: Problem
    explained: float
    association: float
    ess: float
    score: float | None = None

    def as_dict(self, chosen: bool) -> dict:
        return {
            "restart": self.init,
            "objective": self.solution.objective,
            "inertia": float(self.solution.w @ self.fit.clusters.e),
            "explained": self.explained,
            "association": self.association,
            "effective_size": self.ess,
            "score": self.score,
            "chosen": chosen,
        }


# Clusters with a larger weighted association with a suspect than this are confounded with it.
CONFOUNDED = 0.8


# Solutions with scores this close to the best are ties; the largest effective sample size decides.
SCORE_TOLERANCE = 0.001


def score(
    candidates: list[EffectsCandidate], source: np.ndarray, ridge: float
) -> list[EffectsCandidate]:
    """Score all partitions in one reference population, with row weights r:

        score = min over C, B of sum_i r_i ||x_i - C[label_i] - B'z_i||^2

        r = (1 - s) a / sum(a) + s v / sum(v)     v: the weights of the solution without effects
        s = t^2 / (t^2 + (1 - t)^2)               t: association of its clusters with the suspects
                                                  under a

    Solutions cannot be compared at their own weights: one whose B absorbs the classes has nothing
    left to balance, has uniform weights and splits the variation within the classes, at a lower
    inertia than the classes have. Under v the rarely sampled rows (a class at another's site)
    count, and they do not fit such a B. Without association no correction is needed: r = a (v also
    decreases with the distance from its own centres, so it favours its own clusters). Where v has
    not decoupled anything (the clusters are confounded with a suspect), there is no reference
    population: None.
    """
    weights_only = next(c for c in candidates if c.init == WEIGHTS_ONLY)
    if weights_only.association > CONFOUNDED:
        return candidates
    rows, a, v = weights_only.problem.rows, weights_only.problem.a, weights_only.solution.w
    labels, K = weights_only.fit.clusters.labels, weights_only.fit.clusters.C.shape[0]
    t = min(1.0, suspect_association(rows, weights_only.fit.distance, a, labels, K, source))
    s = t**2 / (t**2 + (1 - t) ** 2)
    r = (1 - s) / float(a.sum()) * a + s / float(v.sum()) * v
    out = []
    for c in candidates:
        labels, C, distance = c.fit.clusters.labels, c.fit.clusters.C, c.fit.distance
        for _ in range(1 if distance.missing_at is None else 5):
            C, effects, _ = solve_jointly(rows, distance, r, labels, C, ridge)
            distance = replace(distance, effects=effects)
        out.append(c._replace(score=_inertia_of(rows, distance, r, labels, C, update=False)))
    return out


def select(candidates: list[EffectsCandidate], weigh: bool) -> EffectsCandidate:
    """Select a solution without labels.

    Without weights: the lowest inertia. With weights: among the solutions whose clusters are not
    confounded with a suspect, the best score; among ties, the largest effective sample size. If
    there are no scores, the largest explained * (1 - association^4). The objective is not a valid
    criterion, see ``score``. (docs/results/README.md lists the alternatives that were tried.)
    """
    if not weigh:
        return min(candidates, key=lambda c: float(c.solution.w @ c.fit.clusters.e))
    free = [c for c in candidates if c.association <= CONFOUNDED]
    if not free:
        return min(candidates, key=lambda c: c.association)
    scores = [np.inf if c.score is None else c.score for c in free]
    if not np.isfinite(min(scores)):
        return max(free, key=lambda c: c.explained * (1 - c.association**4))
    near = [c for c, value in zip(free, scores) if value <= min(scores) * (1 + SCORE_TOLERANCE)]
    return max(near, key=lambda c: c.ess)


def assess(
    init: str, solution: Solution, fit: EffectsFit, problem: Problem, source: Any
) -> EffectsCandidate:
    rows, w, distance = problem.rows, solution.w, fit.distance
    K = fit.clusters.C.shape[0]
    explained = explained_share(rows, distance, problem.a, fit.clusters.labels, K)
    association = suspect_association(rows, distance, w, fit.clusters.labels, K, source)
    ess = _terms.effective_share(w, problem.inverse_a, problem.design_sum)
    return EffectsCandidate(init, solution, fit, problem, explained, association, ess)


def suspect_association(
    rows: Any, distance: Distance, w: np.ndarray, labels: np.ndarray, K: int, source: np.ndarray
) -> float:
    """Square root of the share of a suspect's variance between clusters, largest over suspects."""
    effects = distance.effects
    assert effects is not None

    def sums(tile: np.ndarray, w_: np.ndarray, own: np.ndarray) -> tuple:
        Z = effects.z(tile)
        inside, weight = cluster_sums(Z, w_, own, K)
        return inside, weight, w_ @ Z**2

    inside, weight, squares = add_up(rows.map(sums, w, labels))
    mean = inside.sum(0) / weight.sum()
    inverse = np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0)
    between = (inverse[:, None] * inside**2).sum(0) - weight.sum() * mean**2
    whole = squares - weight.sum() * mean**2
    association = 0.0
    for s in np.unique(source):
        own = source == s
        if whole[own].sum() > 0:
            association = max(
                association, float(np.sqrt(max(0.0, between[own].sum() / whole[own].sum())))
            )
    return association


def explained_share(
    rows: Any, distance: Distance, w: np.ndarray, labels: np.ndarray, K: int
) -> float:
    """Share of the variance of y between clusters, under w."""
    blank = np.zeros((K, distance.columns.size))
    total = _inertia_of(rows, distance, w, np.zeros_like(labels), blank)
    within = _inertia_of(rows, distance, w, labels, blank)
    return 1.0 - within / total if total > 0 else 0.0


def _inertia_of(rows, distance, w, labels, C, update: bool = True) -> float:
    """sum_i w_i e_i about the means of a partition, or about given centres."""
    if update:
        C = _kmeans.update(rows, distance, w, labels, C)[0]

    def own(tile: np.ndarray, own_: np.ndarray) -> np.ndarray:
        mask = distance.missing_mask(tile)
        R = _kmeans.differences(
            distance.features(tile), C[own_].astype(tile.dtype), mask, slice(None)
        )
        e = np.einsum("ij,ij->i", R, R)
        return e if mask is None else e * mask.factor

    return float(w @ rows.gather(own, labels))


def effect_sources(effects: Effects, column_map: Any) -> np.ndarray:
    """Source column of each entry of z."""
    column = effects.column
    if effects.bins is not None:
        column = np.concatenate([column, effects.bins.column])
    return column_map.source[column]


def fit_candidates(
    problem: Problem,
    design: Design,
    effects: Effects,
    init_on: Any,
    seeds: np.ndarray,
    *,
    weigh: bool,
    ridge: float,
    max_iter: int,
    tol: float,
    watch: Watcher = watch_nothing,
    save: SaveHook | None = None,
    resume: Snapshot | None = None,
) -> tuple[EffectsCandidate, list[dict]]:
    """Solve from three kinds of initializations and select a solution.

    "raw": k-means of x. "regressed": k-means after the suspects were regressed out. "weights": the
    joint weights and clusters without effects (only with ``weigh``). ``init_on(distance, seed)``
    returns initial clusters; of each kind the best over the seeds (all but the last, which is not
    used here) is continued.
    """
    rows, a = problem.rows, problem.a
    source = effect_sources(effects, design.column_map)
    plain = replace(design.distance, effects=effects)
    uniform = a * (problem.weight_sum / problem.design_sum)
    weights_only = _weights_only(problem, design) if weigh else None
    how: Any = {"weigh": weigh, "ridge": ridge, "max_iter": max_iter, "tol": tol, "watch": watch}
    kinds = INIT_KINDS[: 3 if weigh else 2]
    candidates, first = (
        ([], 0) if resume is None else unpack_candidates(resume, problem, weights_only, plain)
    )

    def by_kmeans(distance: Distance, seed: int, save: SaveHook | None, resume: Any) -> Solution:
        found, _ = _kmeans.lloyd(rows, distance, a, init_on(distance, seed))
        return Solution(uniform, found, float(a @ found.e), {}, 0, "")

    def by_weights(distance: Distance, seed: int, save: SaveHook | None, resume: Any) -> Solution:
        start = init_on(design.distance, seed) if resume is None else None
        assert weights_only is not None
        return alternate(weights_only, start, max_iter=max_iter, tol=tol, save=save, resume=resume)

    emit("initialization", first, len(kinds))
    for kind in range(first, len(kinds)):
        name, distance, inside, resume = kinds[kind], plain, resume, None
        if inside is None or inside.facts["phase"] == "starts":
            if name == "regressed":
                distance = regress_out(rows, plain, a, ridge)
            with nested_progress():
                best = best_of_restarts(
                    partial(by_weights if name == "weights" else by_kmeans, distance),
                    seeds,
                    save=nested(save, partial(pack_candidates, candidates, kind, "starts")),
                    resume=inside,
                )
            inside, fit, w = None, EffectsFit(best.clusters, distance), best.w
            if name == "weights":
                candidates.append(assess(WEIGHTS_ONLY, best, fit, weights_only, source))
        else:
            fit, w = unpack_fit(inside, "now", plain)
        hook = nested(save, partial(pack_candidates, candidates, kind, "descent", seeds))
        with nested_progress():
            solution, fit, ended = alternate_with_effects(
                problem, fit, w, **how, save=hook, resume=inside
            )
        status = f"from {name}, {solution.status}"
        emit("initialization", kind + 1, len(kinds), status=status, objective=solution.objective)
        candidates.append(assess(name, solution, fit, ended, source))
        if save is not None and kind + 1 < len(kinds):
            after = partial(pack_best, None, seeds, 0, False)
            nested(save, partial(pack_candidates, candidates, kind + 1, "starts"))(after)
    candidates.sort(key=lambda candidate: INIT_KINDS.index(candidate.init))
    candidates = score(candidates, source, ridge) if weigh else candidates
    chosen = select(candidates, weigh)
    return chosen, [c.as_dict(c is chosen) for c in candidates]


def pack_candidates(
    candidates: list[EffectsCandidate], kind: int, phase: str, seeds: Any = None
) -> Snapshot:
    """Pack the solutions so far and the current kind of initialization."""
    arrays: dict[str, Any] = {}
    facts: dict[str, Any] = {"kind": kind, "phase": phase, "candidates": []}
    if seeds is not None:
        facts["seeds"] = seeds.tolist()
    for number, candidate in enumerate(candidates):
        packed = pack_solution(f"candidate {number}", candidate.solution)
        arrays |= {**packed.arrays, f"candidate {number} B": candidate.fit.distance.effects.B}
        facts |= packed.facts
        fields = ("init", "explained", "association", "ess")
        facts["candidates"].append({field: getattr(candidate, field) for field in fields})
    return Snapshot(arrays, facts)


def unpack_candidates(
    snapshot: Snapshot, problem: Problem, weights_only: Problem | None, plain: Distance
) -> tuple[list[EffectsCandidate], int]:
    candidates = []
    for number, fields in enumerate(snapshot.facts["candidates"]):
        solution = Solution(**unpack_solution(snapshot, f"candidate {number}"))
        fit, _ = unpack_fit(snapshot, f"candidate {number}", plain)
        own = (
            weights_only if fields["init"] == WEIGHTS_ONLY else with_effects(problem, fit.distance)
        )
        candidates.append(EffectsCandidate(**fields, solution=solution, fit=fit, problem=own))
    return candidates, snapshot.facts["kind"]


def _weights_only(problem: Problem, design: Design) -> Problem:
    """The problem without effects: both directions of the balance, unadjusted features."""
    balance = _balance.Balance(problem.rows, design.pair_blocks)
    B0, before = balance.value(problem.a), problem.balance
    rate = 0.0
    if before is not None and problem.balance_rate and B0 > 0:
        rate = problem.balance_rate * before.value(problem.a) / B0
    return problem._replace(balance=balance, balance_rate=rate, distance=design.distance)
