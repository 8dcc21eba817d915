"""Effects of suspects: centres and what the suspects add, by one weighted least-squares problem.

    inertia(w) = sum_i w_i ||x_i - C[labels_i] - B'z_i||^2        z: suspects, encoded and centred

C and B together are linear in K + Q unknowns per column; their normal equations are sums over rows
that add. Labels are nearest centres of y = x - B'z, the balance is measured between suspects and
y, so that weights have to undo the selection only.
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
from ._preprocessing import Encoded
from ._solver import (
    WEIGHT_STEPS,
    History,
    Keeper,
    Problem,
    Progress,
    Solution,
    Watcher,
    best_start,
    note_best,
    note_solution,
    noted_solution,
    step_weights,
    watch_nothing,
    within,
)
from ._solver import (
    descend as solve_weights,
)

# Rounds without a lower objective after which the best one is kept.
PATIENCE = 5


# Steps on the weights at most when the rest has ended.
LAST_STEPS = 100


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
    keep: Keeper | None = None,
    resume: Progress | None = None,
) -> tuple[Solution, Fit, Problem]:
    """Clusters with effects at fixed weights until they settle, then the weights (if ``weigh``) at
    fixed clusters; in turn.

    (C, B, labels) minimise the inertia, w the other terms. That w leaves the inertia alone is
    deliberate: where it does not, weights also go down for rows far from their centre, which costs
    half of the effective size where there is nothing to balance, and on the tinted digits 0.02 to
    0.07 ARI. Each half lowers what it minimises; their sum J may rise for a while, and the round
    with the lowest is kept. "converged": a round changes J by no more than tol of itself, or no
    round in PATIENCE has lowered it. ``resume`` takes the place of clusters, B and w of the start.
    """
    rows, history, before = problem.rows, History(), np.inf
    status, first, best, worse = "max_iter", 1, (np.inf, fit, w), 0
    if resume is not None:
        facts, plain = resume.facts, fit.distance
        history.rows, before, first = list(facts["history"]), facts["before"], facts["round"]
        (fit, w), worse = noted_fit(resume, "now", plain), facts["worse"]
        best = (facts["lowest"], *noted_fit(resume, "lowest", plain))

    def stand() -> Progress:
        arrays = {**note_fit("now", fit, w), **note_fit("lowest", *best[1:])}
        facts = {"history": history.rows, "before": before, "round": round_ + 1, "worse": worse}
        return Progress(arrays, {**facts, "lowest": best[0]})

    round_ = first - 1
    for round_ in range(first, max_iter + 1):
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
        if keep is not None and round_ < max_iter:
            keep(stand)
    if weigh and status != "non-finite":
        # To the end at last, with B as it stands: w is then the minimum that ``weights_for`` takes
        # it for, and labels, centres and weights are consistent.
        _, fit, w = best
        fit = lloyd(rows, fit, w, ridge)
        problem = with_effects(problem, fit.distance)
        alone = problem._replace(inertia_rate=0.0)
        w = step_weights(alone, w, fit.clusters.e, n_steps=LAST_STEPS, tol=0.1 * tol).w
        fit = fit._replace(clusters=_kmeans.lloyd(rows, fit.distance, w, fit.clusters)[0])
        history.add(problem.terms(w, fit.clusters.e))
    arrays = history.arrays()
    objective = float(arrays["objective"][-1])
    return Solution(w, fit.clusters, objective, arrays, round_, status), fit, problem


def note_fit(name: str, fit: Fit, w: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays for a checkpoint from which ``noted_fit`` makes the fit and w again."""
    assert fit.distance.effects is not None
    named = {**fit.clusters._asdict(), "B": fit.distance.effects.B, "w": w}
    return {f"{name} {field}": values for field, values in named.items()}


def noted_fit(progress: Progress, name: str, plain: Distance) -> tuple[Fit, np.ndarray]:
    assert plain.effects is not None
    clusters = Clusters(*(progress.arrays[f"{name} {field}"] for field in Clusters._fields))
    effects = replace(plain.effects, B=progress.arrays[f"{name} B"])
    return Fit(clusters, replace(plain, effects=effects)), progress.arrays[f"{name} w"]


def with_effects(problem: Problem, distance: Distance) -> Problem:
    """The problem whose balance looks at corrected features."""
    balance = problem.balance
    if balance is not None:
        rectangles = [replace(p, effects=distance.effects) for p in balance.rectangles]
        balance = _balance.Balance(problem.rows, rectangles, form="primal", seed=balance.seed)
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


# Kinds of starts, in the order they are told. The last is an end without a model of effects.
ALONE = "weights only"


STARTS = ("raw", "regressed", "weights", ALONE)


class Candidate(NamedTuple):
    """One end, where it started, and what the choice looks at.

    explained   share of the variance of y between clusters, at the design weights
    tie         sqrt of the share of a suspect's variance between clusters, under the weights, of
                the suspect where it is largest: 1 when the clusters are the suspect itself
    share       effective size
    judged      see ``judge``; None where there is no yardstick
    """

    start: str
    solution: Solution
    fit: Fit
    problem: Problem
    explained: float
    tie: float
    share: float
    judged: float | None = None

    def told(self, chosen: bool) -> dict:
        return {
            "start": self.start,
            "objective": self.solution.objective,
            "inertia": float(self.solution.w @ self.fit.clusters.e),
            "explained": self.explained,
            "tie": self.tie,
            "effective_size": self.share,
            "judged": self.judged,
            "chosen": chosen,
        }


# Clusters tied to a suspect more than this, under the weights, are the suspect by another name.
SAME_THING = 0.8


# Ends that are judged this close to the best are as good; the largest effective size decides.
AS_GOOD = 0.001


def judge(candidates: list[Candidate], source: np.ndarray, ridge: float) -> list[Candidate]:
    """Each partition judged in one and the same population:

        judged = min over C, B of sum_i r_i ||x_i - C[label_i] - B'z_i||^2

        r = (1 - s) a / sum(a) + s v / sum(v)     v: the weights of the end without effects
        s = t^2 / (t^2 + (1 - t)^2)               t: its clusters' tie to the suspects under a

    At its own weights every end looks good: one that leaves the classes to B finds nothing left to
    balance, keeps its weights even and splits what varies within the classes, at a lower inertia
    than the classes have. Under v the rows that were seldom sampled (a class at another's site)
    count, and they do not fit such a B. Without a tie there is nothing to undo: r = a (v also goes
    down with the distance from its own centres, so that it favours its own clusters). Where v has
    not untied anything (the clusters are a suspect by another name), it is no yardstick: None.
    """
    alone = next(c for c in candidates if c.start == ALONE)
    if alone.tie > SAME_THING:
        return candidates
    rows, a, v = alone.problem.rows, alone.problem.a, alone.solution.w
    labels, K = alone.fit.clusters.labels, alone.fit.clusters.C.shape[0]
    t = min(1.0, tie_of(rows, alone.fit.distance, a, labels, K, source))
    s = t**2 / (t**2 + (1 - t) ** 2)
    r = (1 - s) / float(a.sum()) * a + s / float(v.sum()) * v
    out = []
    for c in candidates:
        labels, C, distance = c.fit.clusters.labels, c.fit.clusters.C, c.fit.distance
        for _ in range(1 if distance.at is None else 5):
            C, effects, _ = solve_jointly(rows, distance, r, labels, C, ridge)
            distance = replace(distance, effects=effects)
        out.append(c._replace(judged=_inertia_of(rows, distance, r, labels, C, update=False)))
    return out


def choose(candidates: list[Candidate], weigh: bool) -> Candidate:
    """The end to keep, without labels.

    Without weights: the lowest inertia. With weights: of the ends whose clusters are not a suspect
    by another name, the one that is judged best; where others are as good, the one with the largest
    effective size. Where there is no yardstick, the largest explained * (1 - tie^4). The objective
    would choose wrongly, see ``judge``. (docs/results/README.md has what else was tried.)
    """
    if not weigh:
        return min(candidates, key=lambda c: float(c.solution.w @ c.fit.clusters.e))
    free = [c for c in candidates if c.tie <= SAME_THING]
    if not free:
        return min(candidates, key=lambda c: c.tie)
    judged = [np.inf if c.judged is None else c.judged for c in free]
    if not np.isfinite(min(judged)):
        return max(free, key=lambda c: c.explained * (1 - c.tie**4))
    near = [c for c, value in zip(free, judged) if value <= min(judged) * (1 + AS_GOOD)]
    return max(near, key=lambda c: c.share)


def assess(start: str, solution: Solution, fit: Fit, problem: Problem, source: Any) -> Candidate:
    rows, w, distance = problem.rows, solution.w, fit.distance
    K = fit.clusters.C.shape[0]
    explained = explained_share(rows, distance, problem.a, fit.clusters.labels, K)
    tie = tie_of(rows, distance, w, fit.clusters.labels, K, source)
    share = _terms.effective_share(w, problem.inverse_a, problem.N)
    return Candidate(start, solution, fit, problem, explained, tie, share)


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
    keep: Keeper | None = None,
    resume: Progress | None = None,
) -> tuple[Candidate, list[dict]]:
    """Three kinds of starts, each continued to its end, and the choice.

    "raw": k-means of x. "regressed": k-means after the suspects were regressed out. "weights": the
    joint weights and clusters without effects (only with ``weigh``). ``start_on(distance, seed)``
    gives clusters; of each kind the best over the seeds (but the last, which is not a start's) goes
    on.
    """
    rows, a = problem.rows, problem.a
    source = sources_of(effects, encoded.layout)
    plain = replace(encoded.distance, effects=effects)
    even = a * (problem.total / problem.N)
    alone = _weights_only(problem, encoded) if weigh else None
    how: Any = {"weigh": weigh, "ridge": ridge, "max_iter": max_iter, "tol": tol, "watch": watch}
    kinds = STARTS[: 3 if weigh else 2]
    ends, first = ([], 0) if resume is None else noted_ends(resume, problem, alone, plain)

    def by_kmeans(distance: Distance, seed: int, keep: Keeper | None, resume: Any) -> Solution:
        found, _ = _kmeans.lloyd(rows, distance, a, start_on(distance, seed))
        return Solution(even, found, float(a @ found.e), {}, 0, "")

    def by_weights(distance: Distance, seed: int, keep: Keeper | None, resume: Any) -> Solution:
        start = start_on(encoded.distance, seed) if resume is None else None
        assert alone is not None
        return solve_weights(alone, start, max_iter=max_iter, tol=tol, keep=keep, resume=resume)

    for kind in range(first, len(kinds)):
        name, distance, inside, resume = kinds[kind], plain, resume, None
        if inside is None or inside.facts["phase"] == "starts":
            if name == "regressed":
                distance = regress_out(rows, plain, a, ridge)
            best = best_start(
                partial(by_weights if name == "weights" else by_kmeans, distance),
                seeds,
                keep=within(keep, partial(note_ends, ends, kind, "starts")),
                resume=inside,
            )
            inside, fit, w = None, Fit(best.clusters, distance), best.w
            if name == "weights":
                ends.append(assess(ALONE, best, fit, alone, source))
        else:
            fit, w = noted_fit(inside, "now", plain)
        keeper = within(keep, partial(note_ends, ends, kind, "descent", seeds))
        solution, fit, ended = descend(problem, fit, w, **how, keep=keeper, resume=inside)
        ends.append(assess(name, solution, fit, ended, source))
        if keep is not None and kind + 1 < len(kinds):
            after = partial(note_best, None, seeds, 0, False)
            within(keep, partial(note_ends, ends, kind + 1, "starts"))(after)
    ends.sort(key=lambda end: STARTS.index(end.start))
    ends = judge(ends, source, ridge) if weigh else ends
    chosen = choose(ends, weigh)
    return chosen, [c.told(c is chosen) for c in ends]


def note_ends(ends: list[Candidate], kind: int, phase: str, seeds: Any = None) -> Progress:
    """The ends so far, and which kind of start is under way."""
    arrays: dict[str, Any] = {}
    facts: dict[str, Any] = {"kind": kind, "phase": phase, "ends": []}
    if seeds is not None:
        facts["seeds"] = seeds.tolist()
    for number, end in enumerate(ends):
        noted = note_solution(f"end {number}", end.solution)
        arrays |= {**noted.arrays, f"end {number} B": end.fit.distance.effects.B}
        facts |= noted.facts
        told = ("start", "explained", "tie", "share")
        facts["ends"].append({field: getattr(end, field) for field in told})
    return Progress(arrays, facts)


def noted_ends(
    progress: Progress, problem: Problem, alone: Problem | None, plain: Distance
) -> tuple[list[Candidate], int]:
    ends = []
    for number, told in enumerate(progress.facts["ends"]):
        solution = Solution(**noted_solution(progress, f"end {number}"))
        fit, _ = noted_fit(progress, f"end {number}", plain)
        own = alone if told["start"] == ALONE else with_effects(problem, fit.distance)
        ends.append(Candidate(**told, solution=solution, fit=fit, problem=own))
    return ends, progress.facts["kind"]


def _weights_only(problem: Problem, encoded: Encoded) -> Problem:
    """The problem without effects: both directions of the balance, features as they are."""
    balance = _balance.Balance(problem.rows, encoded.rectangles, seed=0)
    B0, before = balance.value(problem.a), problem.balance
    rate = 0.0
    if before is not None and problem.balance_rate and B0 > 0:
        rate = problem.balance_rate * before.value(problem.a) / B0
    return problem._replace(balance=balance, balance_rate=rate, distance=encoded.distance)
