"""Effects of suspects: centres and what the suspects add, by one weighted least-squares problem.

    inertia(w) = sum_i w_i ||x_i - C[labels_i] - B'z_i||^2        z: suspects, encoded and centred

C and B together are linear in K + Q unknowns per column; their normal equations are sums over rows
that add. Labels are nearest centres of y = x - B'z, the balance is measured between suspects and
y, so that weights have to undo the selection only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from . import _kmeans, _terms
from ._encode import Encoded
from ._kmeans import Clusters, Distance, cluster_sums
from ._solver import (
    WEIGHT_STEPS,
    History,
    Problem,
    Solution,
    Watcher,
    step_weights,
    watch_nothing,
)
from ._solver import descend as solve_weights
from ._terms import Effects, add_up

# Rounds without a lower objective after which the best one is kept.
PATIENCE = 5
# A cluster and a category meet when so many rows, and such a share of the category, are in both.
MEET_ROWS, MEET_SHARE = 3, 0.002


def make_effects(encoded: Encoded, degree: Any) -> Effects:
    """z for the suspects: 0/1 columns as they are; numbers as powers 1..degree of their standard
    score, or, with degree "bins", as the indicators of their quantile bins. B = 0."""
    columns, layout, suspects = encoded.columns, encoded.layout, encoded.suspects
    assert suspects is not None
    shift = np.zeros(encoded.rows.d) if encoded.rows.shift is None else encoded.rows.shift
    column, power, centre, scale, binned = [], [], [], [], []
    for k in suspects:
        if not columns.high[k] > columns.low[k]:
            continue
        number = not columns.two_valued[k] and layout.levels[k] is None
        if number and degree == "bins":
            binned.append(k)
            continue
        for p in range(1, (degree if number and degree != "bins" else 1) + 1):
            column.append(k)
            power.append(p)
            is_note = bool(layout.notes[k])
            centre.append(0.0 if is_note else columns.mean[k] - shift[k])
            scale.append(1.0 if columns.two_valued[k] else columns.sd[k])
    bins = None
    if binned:
        chosen = np.flatnonzero(np.isin(encoded.treatments.column, binned))
        bins = encoded.treatments.take(chosen)
    Q = len(column) + (0 if bins is None else len(bins))
    blank = Effects(
        np.array(column, dtype=np.intp),
        np.array(power, dtype=np.float64),
        np.array(centre, dtype=np.float64),
        np.array(scale, dtype=np.float64),
        bins,
        np.zeros(Q),
        np.zeros((Q, encoded.rows.d)),
        layout.absent,
    )
    a = encoded.a
    mean = add_up(encoded.rows.map(lambda tile, a_: (blank.z(tile).T @ a_,), a))[0] / a.sum()
    return replace(blank, mean=mean)


class Fit(NamedTuple):
    """Clusters and the distance (with its effects) they were found in."""

    clusters: Clusters
    distance: Distance


def solve_jointly(
    rows: Any, distance: Distance, w: np.ndarray, labels: np.ndarray, C: np.ndarray, ridge: float
) -> tuple[np.ndarray, Effects, np.ndarray]:
    """argmin over C, B of sum_i w_i ||x_i - C[labels_i] - B'z_i||^2 + ridge * tr(Z'WZ)/Q ||B||^2.

    As a correction of the present C and B by the residuals, whose normal equations have the
    unknowns of the clusters and of the suspects in blocks. A missing value has residual 0, which
    makes it an expectation-maximisation step: the inertia does not rise. Rows with gaps count w
    here, without their factor: the balance weighs them so, and where the two disagree about a rare
    category, weights and B chase each other (seen on NHANES).
    """
    effects = distance.effects
    assert effects is not None
    K, columns = C.shape[0], distance.columns

    def sums(tile: np.ndarray, w_: np.ndarray, own: np.ndarray) -> tuple:
        gaps = distance.gaps(tile)
        R = _kmeans.differences(distance.of(tile), C[own].astype(tile.dtype), gaps, slice(None))
        Z = effects.z(tile)
        UR, U = cluster_sums(R, w_, own, K)
        UZ, _ = cluster_sums(Z, w_, own, K)
        wZ = (w_[:, None] * Z).astype(Z.dtype)
        return UR, U, UZ, wZ.T @ R, wZ.T @ Z

    UR, U, UZ, ZR, ZZ = add_up(rows.map(sums, w, labels))
    empty = U <= np.finfo(np.float64).tiny * max(rows.n, 1)
    penalty = penalty_of(ZZ, ridge)
    # Centres follow from B: eliminate them (their block is diagonal).
    inverse = np.divide(1.0, U, out=np.zeros_like(U), where=~empty)
    left = ZZ - UZ.T @ (inverse[:, None] * UZ) + penalty * np.eye(ZZ.shape[0])
    right = ZR - UZ.T @ (inverse[:, None] * UR) - penalty * effects.B[:, columns]
    step = np.linalg.lstsq(left, right, rcond=1e-12)[0]
    B = effects.B.copy()
    B[:, columns] += step
    C = C + inverse[:, None] * (UR - UZ @ step)
    return C, replace(effects, B=B), empty


def penalty_of(ZZ: np.ndarray, ridge: float) -> float:
    return ridge * float(np.trace(ZZ)) / max(ZZ.shape[0], 1)


def lloyd(rows: Any, fit: Fit, w: np.ndarray, ridge: float, max_sweeps: int = 100) -> Fit:
    """(C, B) and labels in turn at fixed w until no label changes and B stands still."""
    clusters, distance = fit
    before = np.inf
    for _ in range(max_sweeps):
        C, effects, empty = solve_jointly(rows, distance, w, clusters.labels, clusters.C, ridge)
        distance = replace(distance, effects=effects)
        if empty.any():
            C = _kmeans.refill(rows, distance, w, clusters._replace(C=C), empty)
        new = _kmeans.label(rows, distance, C)
        value = float(w @ new.e)
        still = abs(value - before) <= 1e-6 * abs(value)
        settled = still and np.array_equal(new.labels, clusters.labels)
        clusters, before = new, value
        if settled:
            break
    return Fit(clusters, distance)


def regress_out(rows: Any, distance: Distance, a: np.ndarray, ridge: float) -> Distance:
    """The distance with the effects of a regression on the suspects alone (one cluster)."""
    labels = np.zeros(rows.n, dtype=np.int32)
    C = np.zeros((1, distance.columns.size))
    for _ in range(1 if distance.at is None else 5):
        C, effects, _ = solve_jointly(rows, distance, a, labels, C, ridge)
        distance = replace(distance, effects=effects)
    return distance


def descend(
    problem: Problem,
    fit: Fit,
    w: np.ndarray,
    *,
    weigh: bool,
    ridge: float,
    max_iter: int,
    tol: float,
    watch: Watcher = watch_nothing,
) -> tuple[Solution, Fit, Problem]:
    """Clusters with effects at fixed weights until they settle, then the weights (if ``weigh``) at
    fixed clusters; in turn.

    (C, B, labels) minimise the inertia, w the other terms. That w leaves the inertia alone is
    deliberate: where it does not, weights also go down for rows far from their centre, which costs
    half of the effective size where there is nothing to balance, and on the tinted digits 0.02 to
    0.07 ARI. Each half lowers what it minimises; their sum J may rise for a while, and the round
    with the lowest is kept. "converged": a round changes J by no more than tol of itself, or no
    round in PATIENCE has lowered it.
    """
    rows, history, before = problem.rows, History(), np.inf
    status, round_, best, worse = "max_iter", 0, (np.inf, fit, w), 0
    for round_ in range(1, max_iter + 1):
        fit = lloyd(rows, fit, w, ridge)
        problem = with_effects(problem, fit.distance)
        if weigh:
            alone = problem._replace(inertia_rate=0.0)
            w = step_weights(alone, w, fit.clusters.e, n_steps=WEIGHT_STEPS, tol=0.1 * tol).w
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
        if not weigh or abs(before - J) <= tol * abs(J) or worse == PATIENCE:
            status = "converged"
            break
        before = J
    if weigh and status != "non-finite":
        # The last weights moved the centres once more; labels, centres and weights end consistent.
        _, fit, w = best
        fit = lloyd(rows, fit, w, ridge)
        problem = with_effects(problem, fit.distance)
        history.add(problem.terms(w, fit.clusters.e))
    arrays = history.arrays()
    objective = float(arrays["objective"][-1])
    return Solution(w, fit.clusters, objective, arrays, round_, status), fit, problem


def with_effects(problem: Problem, distance: Distance) -> Problem:
    """The problem whose balance looks at corrected features."""
    balance = problem.balance
    if balance is not None:
        rectangles = [replace(p, effects=distance.effects) for p in balance.rectangles]
        balance = _terms.Balance(problem.rows, rectangles, form="primal", seed=balance.seed)
    return problem._replace(balance=balance, distance=distance)


def tied_sources(encoded: Encoded, labels: np.ndarray, suspects: np.ndarray) -> list[int]:
    """Suspects some of whose values share no cluster with the others.

    Clusters and values that meet in rows are joined; where that leaves more than one group, effects
    of values in different groups cannot be compared, since no cluster is seen with both.
    """
    rows, columns, present = encoded.rows, encoded.columns, encoded.a > 0
    K, out = int(labels.max()) + 1, []
    for source in suspects:
        own = np.flatnonzero((encoded.layout.source == source) & columns.two_valued)
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
# Starts and the choice among their ends, without labels


class Candidate(NamedTuple):
    """One end, where it started, and what the choice looks at.

    explained   share of the variance of y between clusters, at the design weights
    tie         sqrt of the share of a suspect's variance between clusters, under the weights, of
                the suspect where it is largest: 1 when the clusters are the suspect itself
    tie_before  the same at the design weights
    share       effective size
    footprint   of the weights-only end: how much z explains beyond the clusters, over what the
                clusters explain, under the weights; None for the others
    """

    start: str
    solution: Solution
    fit: Fit
    problem: Problem
    explained: float
    tie: float
    tie_before: float
    share: float
    footprint: float | None = None

    def told(self, chosen: bool) -> dict:
        return {
            "start": self.start,
            "objective": self.solution.objective,
            "inertia": float(self.solution.w @ self.fit.clusters.e),
            "explained": self.explained,
            "tie": self.tie,
            "tie_before": self.tie_before,
            "effective_size": self.share,
            "footprint": self.footprint,
            "chosen": chosen,
        }


# Clusters tied to a suspect more than this, under the weights, are the suspect by another name.
SAME_THING = 0.8
# Weights alone are kept where clusters were tied to a suspect at least this much before weighting,
# less than that after it, and the footprint (see Candidate) is smaller than the third.
TIED, LOOSENED, FAINT = 0.6, 0.75, 0.15


def choose(candidates: list[Candidate], weigh: bool) -> Candidate:
    """The end to keep, without labels.

    Without weights: the lowest inertia. With weights: the weights-only end where its clusters were
    tied to a suspect by the sampling, the weights undid it, and the suspects' footprint is faint
    beside the clusters: a model of it would rather take the clusters for it. Else, of the ends
    whose clusters are not a suspect by another name, the one with the largest
    explained * (1 - tie^4). The objective would choose wrongly: it is lower for clusters that
    leave the classes to B and pick up what varies within them. (docs/results/effects.md)
    """
    if not weigh:
        return min(candidates, key=lambda c: float(c.solution.w @ c.fit.clusters.e))
    for c in candidates:
        if (
            c.footprint is not None
            and c.footprint <= FAINT
            and c.tie <= LOOSENED
            and c.tie_before >= TIED
        ):
            return c
    modelled = [c for c in candidates if c.footprint is None]
    free = [c for c in modelled if c.tie <= SAME_THING]
    if not free:
        return min(modelled, key=lambda c: c.tie)
    return max(free, key=lambda c: c.explained * (1 - c.tie**4))


def assess(start: str, solution: Solution, fit: Fit, problem: Problem, source: Any) -> Candidate:
    rows, w, distance = problem.rows, solution.w, fit.distance
    K = fit.clusters.C.shape[0]
    explained = explained_share(rows, distance, problem.a, fit.clusters.labels, K)
    tie, tie_before = (
        tie_of(rows, distance, v, fit.clusters.labels, K, source) for v in (w, problem.a)
    )
    share = _terms.effective_share(w, problem.inverse_a, problem.N)
    return Candidate(start, solution, fit, problem, explained, tie, tie_before, share)


def tie_of(
    rows: Any, distance: Distance, w: np.ndarray, labels: np.ndarray, K: int, source: np.ndarray
) -> float:
    """sqrt of the share of a suspect's variance between clusters, largest over the suspects."""
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
    tie = 0.0
    for s in np.unique(source):
        own = source == s
        if whole[own].sum() > 0:
            tie = max(tie, float(np.sqrt(max(0.0, between[own].sum() / whole[own].sum()))))
    return tie


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
        gaps = distance.gaps(tile)
        R = _kmeans.differences(distance.of(tile), C[own_].astype(tile.dtype), gaps, slice(None))
        e = np.einsum("ij,ij->i", R, R)
        return e if gaps is None else e * gaps.factor

    return float(w @ rows.gather(own, labels))


def footprint_of(rows: Any, distance: Distance, w: np.ndarray, labels: np.ndarray, K: int):
    """What z explains of x beyond the clusters, over what the clusters explain, under w."""
    blank = np.zeros((K, distance.columns.size))
    total = _inertia_of(rows, distance, w, np.zeros_like(labels), blank)
    C = _kmeans.update(rows, distance, w, labels, blank)[0]
    within = _inertia_of(rows, distance, w, labels, C, update=False)
    C, effects, _ = solve_jointly(rows, distance, w, labels, C, 0.0)
    corrected = replace(distance, effects=effects)
    left = _inertia_of(rows, corrected, w, labels, C, update=False)
    return (within - left) / (total - within) if total > within else np.inf


def sources_of(effects: Effects, layout: Any) -> np.ndarray:
    """For each entry of z the source column it was made of."""
    column = effects.column
    if effects.bins is not None:
        column = np.concatenate([column, effects.bins.column])
    return layout.source[column]


def fit_from_all_sides(
    problem: Problem,
    encoded: Encoded,
    effects: Effects,
    start_on: Any,
    seeds: np.ndarray,
    *,
    weigh: bool,
    ridge: float,
    max_iter: int,
    tol: float,
    watch: Watcher = watch_nothing,
) -> tuple[Candidate, list[dict]]:
    """Three kinds of starts, each continued to its end, and the choice.

    "raw": k-means of x. "regressed": k-means after the suspects were regressed out. "weights": the
    joint weights and clusters without effects (only with ``weigh``). ``start_on(distance, seed)``
    gives clusters; of each kind the best of its share of the seeds goes on.
    """
    rows, a = problem.rows, problem.a
    source = sources_of(effects, encoded.layout)
    plain = replace(encoded.distance, effects=effects)
    sides = [("raw", plain), ("regressed", regress_out(rows, plain, a, ridge))]
    even = a * (problem.total / problem.N)
    how = {"weigh": weigh, "ridge": ridge, "max_iter": max_iter, "tol": tol, "watch": watch}
    share = np.array_split(seeds, 3 if weigh else 2)
    candidates = []
    for (name, distance), own in zip(sides, share):
        best = None
        for seed in own if own.size else seeds[:1]:
            found, _ = _kmeans.lloyd(rows, distance, a, start_on(distance, seed))
            if best is None or a @ found.e < a @ best.e:
                best = found
        solution, fit, ended = descend(problem, Fit(best, distance), even, **how)
        candidates.append(assess(name, solution, fit, ended, source))
    if weigh:
        best, weights_only = None, _weights_only(problem, encoded)
        for seed in share[2] if share[2].size else seeds[:1]:
            start = start_on(encoded.distance, seed)
            found = solve_weights(weights_only, start, max_iter=max_iter, tol=tol)
            if best is None or found.objective < best.objective:
                best = found
        solution, fit, ended = descend(problem, Fit(best.clusters, plain), best.w, **how)
        candidates.append(assess("weights", solution, fit, ended, source))
        alone = assess("weights only", best, Fit(best.clusters, plain), weights_only, source)
        K = best.clusters.C.shape[0]
        faint = footprint_of(rows, plain, best.w, best.clusters.labels, K)
        candidates.append(alone._replace(footprint=float(faint)))
    chosen = choose(candidates, weigh)
    return chosen, [c.told(c is chosen) for c in candidates]


def _weights_only(problem: Problem, encoded: Encoded) -> Problem:
    """The problem without effects: both directions of the balance, features as they are."""
    balance = _terms.Balance(problem.rows, encoded.rectangles, seed=0)
    B0, before = balance.value(problem.a), problem.balance
    rate = 0.0
    if before is not None and problem.balance_rate and B0 > 0:
        rate = problem.balance_rate * before.value(problem.a) / B0
    return problem._replace(balance=balance, balance_rate=rate, distance=encoded.distance)
