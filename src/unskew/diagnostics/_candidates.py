"""Which columns look like traces of the collection: effects on the others, or a selection.

For a candidate column s and the other columns x, three mixtures of `SelectionMixture` are compared:

    M0   x | k ~ f(C_k)           P(k | s) = pi_k      s is independent of x
    M1   x | k ~ f(C_k)           P(k | s) = pi_ks     selection: the shares of the groups differ
    M2   x | k ~ f(C_k + B_s)     P(k | s) = pi_ks     effect: s shifts the columns of all groups

Both tests are permutations, which need no distribution of a likelihood ratio: the scales of the
effects are on their bound under M1, so that chi-squared would be wrong. Independence: s is permuted
over all rows, which is exact. Selection alone: each row gets a group, drawn from its probabilities
in M2, and s is permuted within groups. With the true parameters of M1 these would be exact too,
because s and x are independent given the group; estimated ones make it approximate. A parametric
bootstrap (`SelectionMixture.test_effects`) costs two fits for each draw.

A group for each value of s in each group would explain any effect, so that BIC decides between the
best M1 and the best M2, each with its own number of groups: an effect needs both a lower BIC and a
small p-value. p-values are adjusted for the number of candidates by Holm's method.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from .._data.columns import as_frame, column_names
from .._mixture.em import Choice, Fit, Mixture, bic, log_joint, run_em
from .._mixture.gaussian import GaussianBlock
from .._mixture.rows import Columns, Rows, Stats
from .._progress import emit
from ..metrics import kish_size
from ..mixture._columns import (
    Sample,
    apply_columns,
    facts_of,
    learn_columns,
    read_sources,
    sample_rows,
)
from ..mixture._suspects import codes_of, read_suspects
from ._overlap import overlap_of
from ._results import Candidate, Overlap

# Rows (half of them in wide tables), candidates, values of a candidate (the rarest others are one),
# groups, permutations.
MAX_ROWS, MAX_CANDIDATES, MAX_VALUES, MAX_GROUPS = 2000, 20, 20, 6
N_PERMUTATIONS = 499
MIN_ROWS = 40
# More numbers than this are replaced by half as many principal components. Of more than twice as
# many flags, and of more categories than MAX_CATEGORIES, those that vary most are used.
MAX_COLUMNS, MAX_CATEGORIES = 30, 10
SCREEN_ITER, MAX_ITER, TOL = 6, 40, 1e-5
# Level of the tests, after Holm's correction for the number of candidates.
ALPHA = 0.05
# A column counts as shifted where the standard deviation of the effects is at least this share of
# the standard deviation within groups (on the logit scale: this value).
SHIFTED = 0.1


class Values(NamedTuple):
    """A column, or several indicators of one: its name, its source columns, codes 0..L-1 and the
    names of the values."""

    name: str
    sources: tuple[int, ...]
    codes: np.ndarray
    levels: tuple[str, ...]


class Data(NamedTuple):
    """Rows of the test: numbers, flags and categories, the source of each, and weights."""

    columns: Columns
    number_of: np.ndarray
    flag_of: np.ndarray
    category_of: np.ndarray
    a: np.ndarray

    def without(self, sources: tuple[int, ...]) -> Columns:
        numbers, flags = ~np.isin(self.number_of, sources), ~np.isin(self.flag_of, sources)
        c = self.columns
        kept = [one for one, s in zip(c.categories, self.category_of) if s not in sources]
        return Columns(c.numbers[:, numbers], c.floor[numbers], c.flags[:, flags], kept)


def find_candidates(
    X: Any, a: np.ndarray, names: Any, encoder: Any, named: np.ndarray, priority: Any, seed: int
) -> tuple[tuple[Candidate, ...], str]:
    """Candidates, best first, and a note on what was left out.

    names : of the columns of X
    named : source columns that the user suspects; empty: all columns of few values, and dates
    priority : of each source column, by which at most MAX_CANDIDATES are selected
    """
    with threadpool_limits(1):  # thousands of small products, which threads only delay
        return _find(X, a, list(names), encoder, named, priority, seed)


def _find(
    X: Any, a: np.ndarray, names: list, encoder: Any, named: np.ndarray, priority: Any, seed: int
) -> tuple[tuple[Candidate, ...], str]:
    rng = np.random.default_rng(seed)
    X, a = _some_rows(X, a, rng)
    if len(a) < MIN_ROWS:
        return (), f"Effects and selection are tested in tables of at least {MIN_ROWS} rows."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the encoder; the audit has notices of its own
        read = _read(X, a, names, encoder)
        if read is None:
            return (), ""
        data, values, kinds = read
        found = _candidates(values, names, data, kinds, named)
        data = _narrowed(data)
    note = ""
    if not named.size and len(found) > MAX_CANDIDATES:
        note = (
            f"Of {len(found)} columns of few values, the {MAX_CANDIDATES} that predict most "
            "others, or whose names suggest the collection, were tested for effects and selection."
        )
        found = sorted(found, key=lambda one: -priority[list(one.sources)].max())[:MAX_CANDIDATES]
    if not found:
        return (), note
    choice, K = _choose_model(data, rng)
    tested: list[Tested] = []
    emit("column", 0, len(found))
    for one in found:
        tested.append(_test(data, one, choice, K, rng))
        emit("column", len(tested), len(found), status=one.name)
    return _judged(tested), note


def _some_rows(X: Any, a: np.ndarray, rng: Any) -> tuple[Any, np.ndarray]:
    rows = np.flatnonzero(a > 0)
    frame = as_frame(X)
    wide = (X.shape[1] if frame is None else len(frame.columns)) > MAX_COLUMNS
    most = MAX_ROWS // 2 if wide else MAX_ROWS
    if rows.size > most:
        rows = np.sort(rng.permutation(rows)[:most])
    a = a[rows]
    # Tests count rows: unequal weights have the precision of fewer.
    a = a * (kish_size(a) / a.sum()) if a.size else a
    return (X[rows] if frame is None else frame[rows].to_native()), a


# ------------------------------------------------------------------------------------- reading
def _read(X: Any, a: np.ndarray, names: list, encoder: Any) -> tuple[Data, list, dict] | None:
    frame = as_frame(X)
    kinds: dict[int, str] = {}
    recipes = None
    if frame is None:
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        values = read_sources(X, kinds)
    else:
        fitted = clone(encoder)
        values, names = fitted._learn(frame, a), column_names(frame)
        recipes = fitted.recipes_
        kinds = {names.index(name): kind for name, kind in (fitted.kinds or {}).items()}
    nothing = np.zeros(0, dtype=np.intp)
    try:
        which = sample_rows(a)
        facts = [facts_of(column, a, which) for column in values]
        sample = Sample(which, a[which], np.zeros(which.size, dtype=np.intp))
        models = learn_columns(facts, names, nothing, sample, kinds, recipes)
    except ValueError:  # no column varies
        return None
    columns = apply_columns(models, values, a.size)
    of = {
        kind: np.array([m.source for m in models if m.kind == kind], dtype=np.intp)
        for kind in ("number", "flag", "category")
    }
    data = Data(columns, of["number"], of["flag"], of["category"], a)
    return data, values, kinds


def _narrowed(data: Data) -> Data:
    """Bounded numbers of columns: principal components of the numbers of many values, and the flags
    and categories that vary most."""
    c, number_of, flag_of = data.columns, data.number_of, data.flag_of
    numbers, floor, flags = c.numbers, c.floor, c.flags
    if numbers.shape[1] > MAX_COLUMNS:
        many = np.array([_n_values(column) > MAX_VALUES for column in numbers.T])
        complete = np.where(np.isnan(numbers), 0.0, numbers)[:, many]
        d = min(MAX_COLUMNS // 2, *complete.shape)
        if d:
            scores = PCA(d, svd_solver="randomized", random_state=0).fit_transform(complete)
            sd = np.maximum(scores.std(0), 1e-300)
            numbers = np.column_stack([numbers[:, ~many][:, :MAX_COLUMNS], scores / sd])
            few = number_of[~many][:MAX_COLUMNS]
            floor = np.concatenate([floor[~many][:MAX_COLUMNS], np.full(d, c.floor.min())])
            number_of = np.concatenate([few, np.full(d, -1)])
    if flags.shape[1] > 2 * MAX_COLUMNS:
        kept = np.sort(np.argsort(-np.nanvar(flags, axis=0), kind="stable")[: 2 * MAX_COLUMNS])
        flags, flag_of = flags[:, kept], flag_of[kept]
    # 1 - sum of squared shares: the chance that two rows differ.
    varies = [
        1 - ((np.bincount(codes[codes >= 0]) / codes.size) ** 2).sum() for codes, _ in c.categories
    ]
    kept = np.sort(np.argsort(-np.array(varies), kind="stable")[:MAX_CATEGORIES])
    columns = Columns(numbers, floor, flags, [c.categories[i] for i in kept])
    return Data(columns, number_of, flag_of, data.category_of[kept], data.a)


def _n_values(column: np.ndarray) -> int:
    return np.unique(column[~np.isnan(column)]).size


def _candidates(values: list, names: list, data: Data, kinds: dict, named: Any) -> list[Values]:
    """Columns of few values and dates in bins; of named columns also numbers, in bins."""
    known = np.concatenate([data.number_of, data.flag_of, data.category_of])
    groups = [named] if named.size else [np.array([s]) for s in np.unique(known)]
    if not named.size:  # numbers whose principal components are used
        groups += [
            np.array([s]) for s, v in enumerate(values) if v.kind == "date" and s not in known
        ]
    found = []
    for sources in groups:
        try:
            suspects = read_suspects(values, names, sources, data.a, kinds)
        except ValueError:  # constant
            continue
        for one in suspects:
            if one.is_number and not named.size and values[one.sources[0]].kind != "date":
                continue
            codes = one.shown_of(codes_of([one], values, names, data.a.size)[:, 0])
            label = one.name if len(one.sources) == 1 else f"{names[one.sources[0]]} ..."
            if np.unique(codes).size > 1:
                pooled, levels = _pooled(codes, one.levels)
                found.append(Values(label, tuple(one.sources), pooled, levels))
    return found


def _pooled(codes: np.ndarray, levels: tuple) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes 0..L-1, the most frequent first, and their names; the rarest are one value."""
    values, codes, count = np.unique(codes, return_inverse=True, return_counts=True)
    order = np.argsort(-count, kind="stable")
    place = np.empty(count.size, dtype=np.intp)
    place[order] = np.arange(count.size)
    names = [str(levels[value]) for value in values[order]]
    if len(names) > MAX_VALUES:
        names[MAX_VALUES - 1 :] = [f"{len(names) - MAX_VALUES + 1} other values"]
    return np.minimum(place[codes], MAX_VALUES - 1), tuple(names)


# ------------------------------------------------------------------------------------- models
def _features(columns: Columns) -> np.ndarray:
    """Columns as k-means reads them."""
    one_hot = [codes[:, None] == np.arange(M) for codes, M in columns.categories]
    parts = [columns.numbers, columns.flags, *one_hot]
    X = np.concatenate([np.asarray(p, dtype=np.float64) for p in parts], axis=1)
    return np.where(np.isnan(X), 0.0, X)


def _kmeans(X: np.ndarray, K: int, a: np.ndarray, rng: Any) -> np.ndarray:
    """Responsibilities of k-means."""
    if K == 1:
        return np.ones((len(X), 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than groups
        kmeans = KMeans(K, n_init=2, max_iter=30, random_state=int(rng.integers(2**31)))
        return np.eye(K)[kmeans.fit(X, sample_weight=a).labels_]


def _rows(columns: Columns, codes: np.ndarray, L: int, a: np.ndarray) -> Rows:
    return Rows(columns, codes, L, a, 0)


def _fit(rows: Rows, R: np.ndarray, choice: Choice, max_iter: int = MAX_ITER) -> Fit:
    stats = Stats.of_responsibilities(rows, R[rows.order])
    return run_em(rows, Mixture(rows, R.shape[1], choice), stats, max_iter=max_iter, tol=TOL)


def _score(fit: Fit, rows: Rows) -> float:
    return bic(fit.marginal, fit.model, float(rows.a.sum()))


def _responsibilities(rows: Rows, model: Mixture) -> np.ndarray:
    """In the order of the data."""
    joint = log_joint(rows, model)
    R = np.exp(joint - joint.max(1, keepdims=True))
    out = np.empty_like(R)
    out[rows.order] = R / R.sum(1, keepdims=True)
    return out


def _choose_model(data: Data, rng: Any) -> tuple[str, int]:
    """Covariance and number of groups with the lowest BIC, of all columns without a suspect."""
    columns = data.columns
    rows = _rows(columns, np.zeros(data.a.size, dtype=np.intp), 1, data.a)
    X = _features(columns)
    complete = not np.isnan(columns.numbers).any()
    full = complete and 1 < columns.numbers.shape[1] <= MAX_COLUMNS
    best = (np.inf, "diag", 1)
    for K in range(1, MAX_GROUPS + 1):
        R = _kmeans(X, K, data.a, rng)
        for covariance in ("diag", "full") if full else ("diag",):
            score = _score(_fit(rows, R, Choice(covariance, "none", "common")), rows)
            best = min(best, (score, covariance, K))
    return best[1], best[2]


class Tested(NamedTuple):
    """A candidate before the correction for several tests."""

    name: str
    p_dependence: float
    p_effect: float
    effect_gain: float
    selection_gain: float
    shift: float
    shifted: float
    n_groups: int
    overlap: Overlap | None = None


def _test(data: Data, one: Values, covariance: str, K: int, rng: Any) -> Tested:
    """Whether a candidate depends on the other columns and, if it does, how."""
    columns = data.without(one.sources)
    L, a, X = int(one.codes.max()) + 1, data.a, _features(columns)
    nothing = Tested(one.name, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, K)
    if X.shape[1] == 0:
        return nothing
    if columns.numbers.shape[1] < 2:
        covariance = "diag"
    common, free, shift = (
        Choice(covariance, *form)
        for form in (("none", "common"), ("none", "free"), ("shift", "free"))
    )
    start = _kmeans(X, K, a, rng)
    alone = _rows(columns, np.zeros_like(one.codes), 1, a)
    base = _fit(alone, start, common)
    R = _responsibilities(alone, base.model)
    p_dependence = _permutation_test(X, R, one.codes, a, rng)
    if p_dependence > ALPHA:  # an effect or a selection would be a dependence
        return nothing._replace(p_dependence=p_dependence)

    rows = _rows(columns, one.codes, L, a)
    means = _level_means(X, one.codes, a, L)
    tried = [_fit(rows, r, shift, SCREEN_ITER) for r in (start, R)]
    for k in range(1, K + 1):
        tried.append(_fit(rows, _kmeans(X - means[one.codes], k, a, rng), shift, SCREEN_ITER))
    screened = min(tried, key=lambda fit: _score(fit, rows)).model
    with_effect = _fit(rows, _responsibilities(rows, screened), shift)
    R2 = _responsibilities(rows, with_effect.model)
    starts = [R, R2] if K == 1 else [R, R2, _kmeans(X, K - 1, a, rng)]
    without = min((_fit(rows, r, free) for r in starts), key=lambda fit: _score(fit, rows))
    R1 = _responsibilities(rows, without.model)
    independent = min(_score(fit, alone) for fit in (base, _fit(alone, R1, common)))
    n, best = float(a.sum()), _score(without, rows)
    effect_gain = (best - _score(with_effect, rows)) / (2 * n)
    p_effect = _effect_test(X, R2, one.codes, a, rng)
    sizes = _size_of_effects(with_effect.model, rows.level_weight)
    return Tested(
        one.name,
        p_dependence,
        p_effect,
        effect_gain,
        (independent - best) / (2 * n),
        *sizes,
        with_effect.model.K,
        _overlap(one, R2),
    )


def _overlap(one: Values, R: np.ndarray) -> Overlap:
    """Groups of the model with an effect by the values of the candidate."""
    rows = np.zeros((len(one.levels), R.shape[1]))
    np.add.at(rows, (one.codes, R.argmax(1)), 1.0)
    return overlap_of(one.name, one.levels, rows, rows, "group")


def _level_means(X: np.ndarray, codes: np.ndarray, a: np.ndarray, L: int) -> np.ndarray:
    sums, total = np.zeros((L, X.shape[1])), np.bincount(codes, a, minlength=L)
    np.add.at(sums, codes, X * a[:, None])
    return sums / np.maximum(total, 1e-300)[:, None]


def _permutation_test(
    X: np.ndarray, R: np.ndarray, codes: np.ndarray, a: np.ndarray, rng: Any
) -> float:
    """p-value of the independence of s and the other columns.

    The statistic is Pearson's chi-squared of the shares of the groups by value of s plus the sum of
    squares between the values of s of all columns. ``R`` are responsibilities of a mixture that has
    not seen s, so that all permutations of s are equally likely under independence.
    """
    shares = np.maximum(a @ R / a.sum(), 1e-12)
    Z = [(R - shares) / np.sqrt(shares)] if R.shape[1] > 1 else []
    mean = a @ X / a.sum()
    sd = np.sqrt(a @ (X - mean) ** 2 / a.sum())
    Z.append((X - mean)[:, sd > 0] / sd[sd > 0] / np.sqrt(max(X.shape[1], 1)))
    stacked = np.hstack([*Z, np.ones((a.size, 1))]) * a[:, None]
    order = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.diff(codes[order], prepend=-1))

    def statistic(rows: np.ndarray) -> float:
        sums = np.add.reduceat(stacked[rows], first, axis=0)
        return float(((sums[:, :-1] ** 2).sum(1) / sums[:, -1]).sum())

    observed = statistic(order)
    above = sum(statistic(rng.permutation(a.size)) >= observed for _ in range(N_PERMUTATIONS))
    return (1 + above) / (1 + N_PERMUTATIONS)


def _effect_test(X: np.ndarray, R: np.ndarray, codes: np.ndarray, a: np.ndarray, rng: Any) -> float:
    """p-value of selection alone against an effect: s is permuted within groups drawn from ``R``.

    The statistic is the sum of squares between the values of s of the columns without the means of
    their groups.
    """
    z = (R.cumsum(1) < rng.random(len(R))[:, None]).sum(1).clip(max=R.shape[1] - 1)
    E = X - _level_means(X, z, a, R.shape[1])[z]
    sd = np.sqrt(a @ E**2 / a.sum())
    E = E[:, sd > 0] / sd[sd > 0]
    stacked = np.column_stack([E, np.ones(a.size)]) * a[:, None]
    strata = [np.flatnonzero(z == k) for k in range(R.shape[1])]
    order = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.diff(codes[order], prepend=-1))
    shuffled = np.arange(a.size)

    def statistic() -> float:
        sums = np.add.reduceat(stacked[shuffled[order]], first, axis=0)
        return float(((sums[:, :-1] ** 2).sum(1) / sums[:, -1]).sum())

    observed, above = statistic(), 0
    for _ in range(N_PERMUTATIONS):
        for rows in strata:
            shuffled[rows] = rng.permutation(rows)
        above += statistic() >= observed * (1 - 1e-12)
    return (1 + above) / (1 + N_PERMUTATIONS)


def _size_of_effects(model: Mixture, weight: np.ndarray) -> tuple[float, float]:
    """Standard deviation of the effects on a column in units of that within groups, mean of the
    columns that are shifted, and their share of all."""
    sizes: list[float] = []
    share = weight / weight.sum()
    for block in model.blocks:
        if isinstance(block, GaussianBlock):
            sizes += (np.sqrt(share @ block.B**2) / np.sqrt(block.variance)).tolist()
        elif block.tau2.shape[1] == block.n_columns:
            sizes += np.sqrt(share @ block.B**2).tolist()
        else:  # categories, with one tau each
            sizes += np.sqrt(block.tau2[0]).tolist()
    large = [size for size in sizes if size >= SHIFTED]
    return (float(np.mean(large)) if large else 0.0), len(large) / max(len(sizes), 1)


# ------------------------------------------------------------------------------------- decision
def holm(p: list[float]) -> list[float]:
    """p-values adjusted by Holm's method: the chance of one false rejection is at most alpha."""
    order = np.argsort(p, kind="stable")
    factors = len(p) - np.arange(len(p))
    adjusted = np.maximum.accumulate(np.minimum(np.asarray(p)[order] * factors, 1.0))
    out = np.empty(len(p))
    out[order] = adjusted
    return out.tolist()


def _judged(tested: list[Tested]) -> tuple[Candidate, ...]:
    """Candidates with adjusted p-values: effects first, then selection, each by its gain."""
    effects = holm([one.p_effect for one in tested])
    dependences = holm([one.p_dependence for one in tested])
    found = []
    for one, p_effect, p_dependence in zip(tested, effects, dependences):
        role = "neither"
        if p_effect < ALPHA and one.effect_gain > 0 and one.shifted > 0:
            role = "effect"
        elif p_dependence < ALPHA:
            role = "selection"
        found.append(
            Candidate(
                column=one.name,
                role=role,
                explained=one.effect_gain + one.selection_gain,
                effect_gain=one.effect_gain,
                selection_gain=one.selection_gain,
                shift=one.shift,
                shifted=one.shifted,
                p_effect=p_effect,
                p_dependence=p_dependence,
                n_groups=one.n_groups,
                overlap=one.overlap if role != "neither" else None,
            )
        )
    order = {"effect": 0, "selection": 1, "neither": 2}
    gain = {"effect": "effect_gain", "selection": "selection_gain", "neither": "explained"}
    return tuple(sorted(found, key=lambda one: (order[one.role], -getattr(one, gain[one.role]))))
