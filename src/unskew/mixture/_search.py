"""Initializations, and the choice of covariance, effects, selection and number of groups."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from .._data.sampling import draw_rows
from .._mixture.em import Choice, Fit, Mixture, bic, e_step, log_joint, run_em
from .._mixture.identify import identify, is_joined, shown_groups
from .._mixture.rows import OneGroup, Rows, RowSums, Stats, TiledRows, cell_sums
from .._progress import emit, nested_progress
from ..dckm import DCKM
from ..metrics import adjusted_rand_score
from ._checkpoint import Polishing
from ._reading import Reading, dense_rows, find_layout

# Rows on which initializations are screened.
SCREEN_ROWS = 3000
SCREEN_ITER, SCREEN_TOL = 10, 1e-5
# Solutions of a screening that are run to convergence, and forms polished on all rows.
KEPT, POLISHED = 3, 2
REMOVED = (0.0, 0.5, 0.75, 1.0)
SPLIT_MERGE_ROUNDS = 3
# Iterations with one group: there are no responsibilities, only effects and their scales.
ONE_GROUP_ITER = 20
# Rounds, and exchanges of two groups at one level that are tried in each.
MATCH_ROUNDS, MATCH_MOVES = 4, 60
# Exchanges of which the BIC is compared with that of the selected solution, and agreement below
# which two solutions match the groups differently.
MATCHINGS, SAME_MATCHING = 10, 0.95
# Share of the difference of two groups that every level should have; see `Mixture.coherence`.
COHERENT = 0.5
# Difference of BIC that counts as decisive (Kass and Raftery, 1995).
DECISIVE = 10.0
# Forms that are screened from the initializations; the others start from their solutions.
BASE = ("none", "shift")


class Settings(NamedTuple):
    """Forms of the model to compare, and the limits of EM."""

    covariances: tuple[str, ...]
    effects: tuple[str, ...]
    selections: tuple[str, ...]
    n_init: int
    max_iter: int
    tol: float

    @property
    def forms(self) -> list[tuple[str, str]]:
        """Pairs of covariance and effects; a spread of its own needs a diagonal covariance."""
        return [
            (c, e)
            for c in self.covariances
            for e in self.effects
            if not (c == "full" and e == "shift-scale")
        ]


class Screened(NamedTuple):
    """A solution; ``score`` is its BIC, extrapolated from the subsample to all rows.

    Solutions whose groups are not the same at all levels come last (``coherent``), and one whose
    groups do not join the levels counts only where its BIC is lower by DECISIVE: any difference
    between its levels could be an effect.
    """

    score: float
    fit: Fit
    coherent: bool = True
    joined: bool = True

    @property
    def rank(self) -> tuple[bool, float]:
        return not self.coherent, self.score + (0.0 if self.joined else DECISIVE)

    @property
    def choice(self) -> Choice:
        return self.fit.model.choice


class Problem:
    """All rows, the subsample, and the arrays that initializations cluster.

    matrix   rows in tiles; reading: what they mean; a: design weights
    max_patterns  of missing values that a full covariance distinguishes
    """

    def __init__(
        self, matrix: Any, a: np.ndarray, reading: Reading, max_patterns: int,
        rng: np.random.RandomState,
    ):  # fmt: skip
        self.matrix, self.a, self.reading, self.rng = matrix, a, reading, rng
        design = reading.combinations.design()
        n_levels = len(design.codes)
        self.n_used = a.size if a.strides == (0,) else int(np.count_nonzero(a))
        used = draw_rows(a, SCREEN_ROWS, rng.randint(2**31 - 1))
        part, codes = reading(dense_rows(matrix, used))
        level, own = reading.combinations.level_of(codes), np.ascontiguousarray(a[used])
        self.sub = Rows(part, level, n_levels, own, max_patterns, design)
        self.whole = used.size == self.n_used
        self.rows: RowSums = self.sub
        if not self.whole:
            layout = find_layout(matrix, a, reading, part, max_patterns)
            self.rows = TiledRows(matrix, a, reading, layout)
        self.n = self.rows.weight
        self.factor = self.n / max(self.sub.weight, 1e-300)
        g = part.numbers.shape[1]
        scale = np.array([c.sd for c in reading.columns if c.kind == "number"])
        # From BIC of standardised columns to BIC in the units of the columns.
        self.units = 2.0 * float(self.rows.known_weight @ np.log(scale)) if g else 0.0
        X = self.sub.X[:, : self.sub.first_mask]
        self.views = [X]
        if g and scale.size and scale.max() > 1.5 * scale.min():
            # Principal components: the units tell which columns matter.
            unit = np.concatenate([scale / scale.max(), np.ones(X.shape[1] - g)])
            self.views.append(X * unit)
        if 1 < g < X.shape[1]:
            # A two-valued column has the largest gap of all, and k-means would split along it.
            self.views.append(X[:, :g])

    def stats_of(self, R: np.ndarray) -> Stats:
        """Sums of the cells for responsibilities (n, K) of all rows."""
        work = (self.reading, self.rows.layout)
        parts = self.matrix.map(sums_of_tile, self.a, R, coefs=work, additive=True)
        return Stats(self.rows, *self.matrix.total(parts))

    def screened(self, fit: Fit) -> Screened:
        """A fit to the subsample, with its BIC extrapolated to all rows."""
        return judged(bic(self.factor * fit.marginal, fit.model, self.n), fit, self.sub)

    def fitted(self, fit: Fit) -> Screened:
        """A fit to all rows."""
        return judged(bic(fit.marginal, fit.model, self.n), fit, self.rows)


def sums_of_tile(tile: np.ndarray, a: np.ndarray, R: np.ndarray, work: tuple) -> tuple:
    """`cell_sums` of a tile for given responsibilities."""
    reading, layout = work
    rows = reading.rows(tile, a, layout)
    return cell_sums(rows, R[a > 0][rows.order])


def judged(score: float, fit: Fit, rows: RowSums) -> Screened:
    """Effects per group can be so large that each level has groups of its own, which share a number
    only: a homogeneous level is then split in two. Such a solution is not coherent, nor is one
    where a level shares fewer than two groups with the others: its effects can be any."""
    N = fit.model.shares * rows.level_weight[:, None]
    coherent = fit.model.coherence(shown_groups(N)) >= COHERENT
    if fit.model.choice.effects == "per-group" and fit.model.K > 1:
        coherent = coherent and all(
            identify(np.array([N[code == at].sum(0) for at in np.unique(code)]), None, "")[0]
            == "yes"
            for code in rows.design.codes.T
        )
    return Screened(score, fit, coherent, is_joined(N))


def initial_labels(
    problem: Problem, K: int, n_init: int, *, adjustments: tuple[str, ...] = ("weights", "effects")
) -> list[np.ndarray]:
    """Labels of the subsample: k-means with 0 to 100 % of the levels' means removed, DCKM with
    weights and with effects, and random partitions."""
    rows, rng = problem.sub, problem.rng
    n, found = len(rows.X), []
    K = min(K, n)
    weights = np.bincount(rows.level, weights=rows.a, minlength=rows.n_levels)
    for _ in range(n_init):
        for X in problem.views:
            sums = np.zeros((rows.n_levels, X.shape[1]))
            np.add.at(sums, rows.level, X * rows.a[:, None])
            means = _level_means(sums, weights, rows.design.Z)
            for share in REMOVED if rows.n_levels > 1 else (0.0, 0.0):
                seed = rng.randint(2**31 - 1)
                removed = X - share * means[rows.level]
                found.append(_kmeans_labels(removed, K, rows.a, seed))
            if K > 1 and np.unique(rows.level).size > 1:
                for adjust in adjustments:
                    seed = rng.randint(2**31 - 1)
                    found.append(_dckm_labels(X, rows, K, adjust, seed))
        for _ in range(2):
            found.append(rng.randint(K, size=n))
    return found


def _level_means(sums: np.ndarray, weights: np.ndarray, Z: np.ndarray | None) -> np.ndarray:
    """Means of the levels, of several suspects those of an additive model."""
    if Z is None:
        return sums / np.maximum(weights, 1e-300)[:, None]
    X = np.column_stack([np.ones(len(Z)), Z])
    G = (X.T * weights) @ X
    ridge = 1e-6 * weights.sum() * np.eye(len(G))  # indicators of all levels add up to 1
    return X @ np.linalg.solve(G + ridge, X.T @ sums)


def _kmeans_labels(
    X: np.ndarray, K: int, a: Any, seed: int, init: Any = "k-means++", max_iter: int = 50
) -> np.ndarray:
    kmeans = KMeans(K, init=init, n_init=1, max_iter=max_iter, random_state=seed)
    with warnings.catch_warnings():
        # Fewer distinct rows than groups: reported once, at the end of the fit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kmeans.fit(X, sample_weight=a).labels_


def _dckm_labels(X: np.ndarray, rows: Rows, K: int, adjust: str, seed: int) -> np.ndarray:
    if rows.design.Z is None:
        sites = rows.level[:, None] == np.unique(rows.level)
    else:
        sites = rows.design.Z[rows.level]
    both = np.column_stack([X, sites])
    model = DCKM(
        K, suspects=np.arange(X.shape[1], both.shape[1]), adjust=adjust, n_init=1, tol=1e-2,
        n_threads=1, random_state=seed,
    )  # fmt: skip
    with warnings.catch_warnings(), nested_progress():
        warnings.simplefilter("ignore")  # of a start: constant columns, confounded suspects
        return model.fit(both, sample_weight=rows.a).labels_


def from_labels(rows: Rows, labels: np.ndarray, K: int) -> Stats:
    R = np.zeros((labels.size, K))
    R[np.arange(labels.size), labels] = 1.0
    return Stats.of_responsibilities(rows, R)


def screen(problem: Problem, K: int, settings: Settings) -> list[Screened]:
    """Best solution of each form of the model on the subsample, best first."""
    rows = problem.sub
    starts = [
        from_labels(rows, labels, K) for labels in initial_labels(problem, K, settings.n_init)
    ]
    selection = settings.selections[0]
    forms = [Choice(c, e, selection) for c, e in settings.forms]
    forms.sort(key=lambda form: form.effects not in BASE)
    best: dict[Choice, Screened] = {}
    kept: list[Screened] = []
    base = set(BASE) & set(settings.effects) or set(settings.effects)
    emit("candidate", 0, len(forms))
    for form in forms:
        if form.effects in base:
            tried = [_short(problem, form, K, stats) for stats in starts]
            others = list(best.values())
        else:
            own = [one for one in kept if one.choice.covariance == form.covariance]
            tried, others = [], _distinct(own)
        tried += [_short(problem, form, K, _stats_of(rows, one.fit.model)) for one in others]
        tried.sort(key=lambda one: one.rank)
        found = [_converge(problem, one.fit, settings) for one in _distinct(tried)[:KEPT]]
        best[form] = min(found, key=lambda one: one.rank)
        if form.effects in base:
            best[form] = rematch(problem, best[form], settings)
            kept += [best[form], *found]
        score = best[form].score + problem.units
        emit("candidate", len(best), len(forms), status=form.in_words, bic=score)
    for form in forms:  # solutions of one form can be better initializations of another
        others = [other for other in best.values() if other.choice != form]
        for other in sorted(others, key=lambda one: one.rank)[:1]:
            new = _short(problem, form, K, _stats_of(rows, other.fit.model))
            if _is_better(new, best[form]):
                best[form] = _converge(problem, new.fit, settings)
    found = sorted(best.values(), key=lambda one: one.rank)
    found[0] = split_and_merge(problem, found[0], settings)
    for name in settings.selections[1:]:
        # Common shares have fewer parameters and no higher likelihood: what they can gain is known.
        gain = (K - 1) * ((rows.design.logit or rows.n_levels) - 1) * np.log(max(problem.n, 1.0))
        near = [one for one in found if one.score <= found[0].score + gain]
        phase = f"candidate with {name} shares"
        emit(phase, 0, len(near))
        for done, one in enumerate(near, 1):
            found.append(_with_selection(problem, one, name, settings))
            score = found[-1].score + problem.units
            choice = found[-1].choice
            without = "; without the suspects" if choice.effects == "none" else ""
            emit(phase, done, len(near), status=choice.in_words + without, bic=score)
    return sorted(found, key=lambda one: one.rank)


def search_once(problem: Problem, K: int, settings: Settings) -> Screened:
    """Best solution of the first form from partitions of k-means and random ones, without the
    moves that `screen` tries: for comparisons, which have another solution already."""
    form = Choice(*settings.forms[0], settings.selections[0])
    starts = initial_labels(problem, K, 1, adjustments=())
    tried = [_short(problem, form, K, from_labels(problem.sub, one, K)) for one in starts]
    tried.sort(key=lambda one: one.rank)
    found = [_converge(problem, one.fit, settings) for one in _distinct(tried)[:KEPT]]
    return min(found, key=lambda one: one.rank)


def _short(problem: Problem, form: Choice, K: int, stats: Stats) -> Screened:
    model = Mixture(problem.sub, K, form)
    fit = run_em(problem.sub, model, stats, max_iter=SCREEN_ITER, tol=SCREEN_TOL)
    return problem.screened(fit)


def _converge(problem: Problem, before: Fit, settings: Settings) -> Screened:
    fit = run_em(
        problem.sub, before.model, None, max_iter=settings.max_iter, tol=max(settings.tol, 1e-6),
        history=before.history,
    )  # fmt: skip
    return problem.screened(
        reconsidered(problem.sub, fit, settings.max_iter, max(settings.tol, 1e-6))
    )


def reconsidered(rows: RowSums, fit: Fit, max_iter: int, tol: float) -> Fit:
    """The fit, or a better one that EM reaches with other columns that have effects."""
    model, stats = fit.model.copy(), _stats_of(rows, fit.model)
    if not any([block.reconsider_columns(stats) for block in model.blocks]):
        return fit
    other = run_em(rows, model, None, max_iter=max_iter, tol=tol)
    n = rows.weight
    return min(fit, other, key=lambda one: bic(one.marginal, one.model, n))


def _stats_of(rows: RowSums, model: Mixture) -> Stats:
    return e_step(rows, model)[1]


def _is_better(new: Screened, old: Screened) -> bool:
    if new.coherent != old.coherent:
        return new.coherent
    return new.rank[1] < old.rank[1] - 1e-6 * abs(old.score)


def _distinct(found: list[Screened]) -> list[Screened]:
    """Without solutions whose scores agree: they are the same optimum."""
    kept: list[Screened] = []
    for one in found:
        if all(abs(one.score - other.score) > 1e-7 * abs(one.score) for other in kept):
            kept.append(one)
    return kept


def _with_selection(
    problem: Problem, one: Screened, selection: str, settings: Settings
) -> Screened:
    model = one.fit.model.copy()
    model.choice = model.choice._replace(selection=selection)
    model.m_step(_stats_of(problem.sub, model))
    return _converge(problem, Fit(model, 0.0, [], 0, False), settings)


def rematch(problem: Problem, best: Screened, settings: Settings) -> Screened:
    """Match the groups of the levels anew: exchange two groups at one level of a suspect.

    Where levels share few groups, the matchings of their groups are local optima of nearly the
    same likelihood, and the prior of the effects decides between them.
    """
    if best.choice.effects == "none":
        return best
    for _ in range(MATCH_ROUNDS):
        found = exchanged(problem, best)
        if not found:
            return best
        new_best = _converge(problem, min(found, key=lambda one: one.rank).fit, settings)
        if not _is_better(new_best, best):
            return best
        best = new_best
    return best


def exchanged(problem: Problem, best: Screened, most: int = KEPT) -> list[Screened]:
    """The most likely solutions after an exchange of two groups at one level of a suspect. All are
    first judged from the sums of the cells, without a pass over the rows."""
    rows, K, codes = problem.sub, best.fit.model.K, problem.sub.design.codes
    if K < 2 or len(codes) < 2:
        return []
    some = [codes[:, s] == at for s in range(codes.shape[1]) for at in range(codes[:, s].max() + 1)]
    stats, tried = _stats_of(rows, best.fit.model), []
    shown = [shown_groups(stats.N.sum(0))[levels].any(0) for levels in some]
    moves = [
        (levels, i, j)
        for levels, own in zip(some, shown)
        for i in range(K)
        for j in range(i)
        if own[i] or own[j]
    ]
    for pick in problem.rng.permutation(len(moves))[:MATCH_MOVES]:
        new, model = stats.swapped(*moves[pick]), best.fit.model.copy()
        for _ in range(3):
            model.m_step(new)
        tried.append((model.complete_value(new), pick, new))
    tried.sort(key=lambda one: one[:2], reverse=True)
    return [_short(problem, best.choice, K, new) for _, _, new in tried[:most]]


def matching_gap(problem: Problem, best: Screened, settings: Settings) -> float:
    """BIC of the best solution after an exchange of two groups at one level, minus that of
    ``best``, whose rows it assigns to other groups (adjusted Rand index below SAME_MATCHING);
    infinite where no exchange leads to another solution."""
    labels = log_joint(problem.sub, best.fit.model).argmax(1)
    gap = np.inf
    for one in _distinct(exchanged(problem, best, MATCHINGS)):
        new = _converge(problem, one.fit, settings)
        others = log_joint(problem.sub, new.fit.model).argmax(1)
        if adjusted_rand_score(labels, others, sample_weight=problem.sub.a) < SAME_MATCHING:
            gap = min(gap, new.score - best.score)
    return float(gap)


def split_and_merge(problem: Problem, best: Screened, settings: Settings) -> Screened:
    """Leave local optima: merge the two groups that overlap most and split another in two."""
    rows, K = problem.sub, best.fit.model.K
    if K < 3:
        return best
    for _ in range(SPLIT_MERGE_ROUNDS):
        labels = log_joint(rows, best.fit.model).argmax(1)
        candidates = _moves(problem, best.fit.model, labels)
        tried = [
            _short(problem, best.choice, K, from_labels(rows, moved, K)) for moved in candidates
        ]
        tried = [one for one in tried if np.isfinite(one.score)]
        if not tried:
            return best
        new = min(tried, key=lambda one: one.rank)
        new = _converge(problem, new.fit, settings)
        if not _is_better(new, best):
            return best
        best = new
    return best


def _moves(problem: Problem, model: Mixture, labels: np.ndarray) -> list[np.ndarray]:
    """Up to six partitions: two merges of the groups with the nearest means, three splits each."""
    rows, K = problem.sub, model.K
    corrected = rows.X[:, : rows.first_mask].copy()
    at = 0
    for block in model.blocks[:1]:
        if rows.n_gauss:
            corrected[:, : block.n_columns] -= block.B[rows.level]
            corrected[:, : block.n_columns] /= np.sqrt(block.variance)
        at += block.n_columns
    counts = np.bincount(labels, minlength=K)
    means = np.array(
        [corrected[labels == k].mean(0) if counts[k] else corrected[0] for k in range(K)]
    )
    distance = ((means[:, None] - means[None]) ** 2).sum(2)
    weighted = distance * np.minimum(counts[:, None], counts[None])
    pairs = sorted((weighted[i, j], i, j) for i in range(K) for j in range(i))[:2]
    spread = np.array([((corrected[labels == k] - means[k]) ** 2).sum() for k in range(K)])
    out = []
    for _, i, j in pairs:
        for k in [k for k in np.argsort(-spread) if k not in (i, j) and counts[k] >= 4][:3]:
            seed = problem.rng.randint(2**31 - 1)
            own = corrected[labels == k]
            halves = _kmeans_labels(own, 2, None, seed)
            moved = np.where(labels == j, i, labels)
            moved[np.flatnonzero(labels == k)[halves == 1]] = j
            out.append(moved)
    return out


def polish(problem: Problem, work: Polishing, settings: Settings, watch: Any, save: Any) -> Fit:
    """The best of the best forms on all rows. ``save`` gets a function that returns the state."""

    def keep(model: Mixture, history: list, iteration: int) -> None:
        save(lambda: work.snapshot(model, history, iteration))

    while len(work.done) < len(work.starts):
        one, begun = work.starts[len(work.done)], work.begun
        fit = run_em(
            problem.rows, one.model if begun else _grown(problem, one.model), None,
            max_iter=settings.max_iter, tol=settings.tol, watch=watch, begun=begun,
            history=one.history if begun or problem.whole else None,
            save=None if save is None else keep,
        )  # fmt: skip
        work.done.append(fit)
        work.begun = 0
    return min(map(problem.fitted, work.done), key=lambda one: one.rank).fit


def one_group(problem: Problem, settings: Settings) -> float:
    """Lowest BIC of the models with one group, on all rows."""
    found, rows = [], OneGroup(problem.rows)
    # "per-group" is "shift" where there is one group.
    forms = ((one, "shift" if other == "per-group" else other) for one, other in settings.forms)
    for covariance, effects in dict.fromkeys(forms):
        model = Mixture(rows, 1, Choice(covariance, effects, "common"))
        stats = _stats_of(rows, model)
        fit = run_em(rows, model, stats, max_iter=ONE_GROUP_ITER, tol=settings.tol)
        found.append(bic(fit.marginal, fit.model, problem.n))
    return min(found)


def _grown(problem: Problem, model: Mixture) -> Mixture:
    """The model, with the constants of all rows."""
    model = model.copy()
    if not problem.whole:
        fresh = Mixture(problem.rows, model.K, model.choice)
        for block, own in zip(model.blocks, fresh.blocks):
            if hasattr(own, "share"):
                block.share = own.share
    return model


def _may_improve(path: list[float], lowest: float, left: int) -> bool:
    """Whether a path of BIC over 1, 2, ... groups, of which ``left`` are not yet tried, can fall
    below ``lowest`` at its latest rate."""
    if len(path) < 3:
        return True
    before = min(path[:-2])
    return min(path) < before and min(path) - lowest <= left * (before - min(path)) / 2


def screen_all(problem: Problem, settings: Settings, largest: int) -> list[Screened]:
    """Solutions for 1, 2, ... groups, best first.

    Stops where no form of effects can become the best: two more groups did not lower its BIC, or
    would have to lower it more than the last did. Per form, because sites with groups of their own
    are many groups without effects, or fewer with effects per group, and BIC does not fall from one
    to the other.
    """
    found: list[Screened] = []
    paths: dict[str, list[float]] = {}
    for K in range(1, largest + 1):
        solved = screen(problem, K, settings)
        found += solved
        for form in {one.choice.effects for one in solved}:
            score = min(one.score for one in solved if one.choice.effects == form)
            paths.setdefault(form, []).append(score)
        lowest = min(map(min, paths.values()))
        if not any(_may_improve(path, lowest, largest - K) for path in paths.values()):
            break
    return sorted(found, key=lambda one: one.rank)
