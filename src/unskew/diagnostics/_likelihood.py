"""Comparison of clusterings by the likelihood of rows given cluster and suspects.

The clusters of a model, those of k-means without the suspects and the groups of a SelectionMixture
are partitions of the same rows, and one criterion compares them: the BIC of a mixture in which
clusters have means, combinations of the suspects' values have effects that are shrunk towards 0,
and the shares of the clusters differ between these combinations (`_mixture.partition`). Inertia
could not compare them, because it depends on the effects that a model removes.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._data.sampling import draw_rows, take_rows
from .._mixture.identify import identify
from .._mixture.partition import PartitionCriterion
from .._progress import emit, nested_progress
from ..metrics import adjusted_rand_score
from ..mixture import SelectionMixture
from ._verdict import has_other_matching, is_heavy_tailed, is_same, shows_no_groups
from ._view import MAX_CODES, View

# Rows that are compared, and columns beyond which they are not, because they are made dense.
MAX_COMPARED, MAX_COLUMNS = 3000, 5000
# Most combinations of the suspects' values, and fewest rows of one; the others are one combination.
MAX_LEVELS, MIN_LEVEL_ROWS = 50, 5
# Number of quantile bins of a numeric suspect.
N_BINS = 5
# Kurtosis within clusters above which a column has heavy tails. A normal distribution has 3, an
# exponential 9, Student's t with 5 degrees of freedom 9; a constant with one exception in 60, 57.
HEAVY_TAILS = 50.0


class LikelihoodCheck(NamedTuple):
    """Clusters of a model compared with those of k-means without the suspects.

    bic, kmeans_bic, mixture_bic
        BIC of the model's clusters, of those of k-means, and of the groups of a SelectionMixture
        with the same number of groups.
    same_as_dropped
        Agreement (adjusted Rand index) of the model's clusters with those of k-means; of a
        SelectionMixture the smaller of that in the sample and that in the population that it
        estimates.
    same_in_sample, same_in_population, n_compared
        Both numbers of a SelectionMixture, and the number of rows that are compared.
    kmeans_repeated
        Agreement of two runs of k-means with different random numbers.
    mixture_same, mixture_same_as_dropped
        Agreement of the groups of the mixture with the model's clusters, and with those of k-means,
        in the population that it estimates: under its inverse-selection weights, and with groups
        that are assigned without the shares by suspect.
    halves, mixture_halves
        Of a SelectionMixture, and of the mixture that DCKM is compared with: the stability of its
        least stable group, see ``stability_on_halves``.
    stabilities
        Group and stability, of all groups of this mixture.
    suspects_matter
        Of a SelectionMixture: whether the selected model has effects of the suspects, or shares
        that differ between their values. Of DCKM: whether they are associated with the other
        columns beyond chance; there is no mixture to compare with otherwise.
    identified, not_identified
        Whether the clusters join the values of the suspects, as in SelectionMixture: "yes", "under
        small effects" or "no", and the reason.
    of_mixture
        Whether the model is a SelectionMixture.
    group_gain
        BIC of one group minus that of the groups of the SelectionMixture, the model itself or the
        one with which DCKM is compared: negative where the data do not show groups.
    heavy_share, heavy_columns
        Share and names of the numeric columns with heavy tails, whose likelihood says little.
    matching_gap
        Of the SelectionMixture where only small effects are identified: how much BIC increases if
        two groups are exchanged at one value of a suspect, see `SelectionMixture._matching_gap`.

    Numbers that cannot change the verdict are None, because they need further fits.
    """

    bic: float
    kmeans_bic: float
    same_as_dropped: float
    kmeans_repeated: float
    identified: str
    not_identified: str
    halves: float | None = None
    stabilities: tuple[tuple[int, float], ...] = ()
    same_in_sample: float | None = None
    same_in_population: float | None = None
    n_compared: int | None = None
    suspects_matter: bool = True
    mixture_bic: float | None = None
    mixture_same: float | None = None
    mixture_same_as_dropped: float | None = None
    mixture_halves: float | None = None
    of_mixture: bool = False
    group_gain: float | None = None
    heavy_share: float = 0.0
    heavy_columns: tuple[str, ...] = ()
    matching_gap: float | None = None


class Drawn(NamedTuple):
    """At most 3,000 rows: positions, values, source of each column, level of the suspects, design
    weights."""

    which: np.ndarray
    X: np.ndarray
    source: np.ndarray
    level: np.ndarray
    a: np.ndarray

    def criterion(self) -> PartitionCriterion:
        return PartitionCriterion.of_matrix(self.X, self.level, self.a, self.source)

    def codes(self, labels: Any) -> np.ndarray:
        """Labels of these rows as 0, 1, ..."""
        return np.unique(np.asarray(labels)[self.which], return_inverse=True)[1]


class Compared(NamedTuple):
    """Drawn rows, and labels of the model, of k-means without the suspects and of another run."""

    rows: Drawn
    own: np.ndarray
    dropped: np.ndarray
    repeated: np.ndarray


def draw(view: View, seed: int) -> Drawn | None:
    """None for very wide data."""
    if view.rest.size == 0 or view.rows.d > MAX_COLUMNS:
        return None
    which = draw_rows(view.a, MAX_COMPARED, seed)
    tile = np.asarray(view.rows.take(which), dtype=np.float64)
    level = np.zeros(which.size, dtype=np.intp)
    if view.suspects is not None:
        level = levels_of(tile[:, view.suspects])
    a = view.a[which] / view.a[which].mean()
    return Drawn(which, values_of(view, tile), view.sources[view.rest], level, a)


def draw_compared(
    model: Any, view: View, dropped: np.ndarray, repeated: np.ndarray, seed: int
) -> Compared | None:
    """None without suspects and for very wide data."""
    rows = None if view.suspects is None else draw(view, seed)
    if rows is None:
        return None
    return Compared(rows, *(rows.codes(each) for each in (model.labels_, dropped, repeated)))


def compare_likelihoods(
    model: Any, view: View, dropped: np.ndarray, repeated: np.ndarray, seed: int
) -> LikelihoodCheck | None:
    """A LikelihoodCheck of k-means with weights and effects.

    ``dropped`` and ``repeated`` are the labels of two runs of k-means without the suspects.
    """
    compared, K = draw_compared(model, view, dropped, repeated, seed), int(model._K)
    if compared is None:
        return None
    rows, own, dropped, repeated = compared
    criterion = rows.criterion()
    N = np.zeros((rows.level.max() + 1, K))
    np.add.at(N, (rows.level, own), rows.a)
    # Levels are combinations of encoded values, so that the reason names none of them.
    identified, reason = identify(N, None, " and ".join(view.suspect_names))
    found = LikelihoodCheck(
        criterion.bic(own, K),
        criterion.bic(dropped, K),
        adjusted_rand_score(own, dropped, sample_weight=rows.a),
        adjusted_rand_score(dropped, repeated, sample_weight=rows.a),
        identified,
        reason,
        n_compared=own.size,
        suspects_matter=model.spread_strength is not None or model._associated,
    )
    if not found.suspects_matter or is_same(found):
        return found
    found = found._replace(**heavy_tails(view, rows, own))
    if is_heavy_tailed(found):
        return found
    mixture, X = fit_mixture(rows, K, seed)
    # Agreement as in the population, where the suspects tell nothing about the groups.
    groups, w = mixture.predict(X, shares="population"), mixture.combined_weights_
    found = found._replace(
        mixture_bic=criterion.bic(mixture.labels_, K),
        mixture_same=adjusted_rand_score(groups, own, sample_weight=w),
        mixture_same_as_dropped=adjusted_rand_score(groups, dropped, sample_weight=w),
        group_gain=float(mixture.one_group_bic_ - mixture.bic_),
    )
    if shows_no_groups(found):
        return found
    if mixture.identified_ == "under small effects":
        found = found._replace(matching_gap=matching_gap(mixture, X, rows.a, mixture.labels_))
        if has_other_matching(found):
            return found
    found_again = stability_on_halves(mixture, X, rows.a, rows.a, mixture.labels_, groups, seed)
    return found._replace(
        mixture_halves=min(found_again.values()), stabilities=tuple(found_again.items())
    )


def check_mixture(
    model: SelectionMixture,
    X: Any,
    sample_weight: Any,
    view: View,
    dropped: np.ndarray,
    repeated: np.ndarray,
    seed: int,
) -> LikelihoodCheck | None:
    """A LikelihoodCheck of a SelectionMixture, whose likelihood alone would agree with its own
    mistakes: mixtures of random halves of the rows have to find the same groups."""
    compared, K = draw_compared(model, view, dropped, repeated, seed), model.n_components_
    if compared is None:
        return None
    rows, own, dropped, repeated = compared
    X = take_rows(X, rows.which)
    criterion = model._partition_criterion(X, rows.a)
    w = np.asarray(model.combined_weights_)[rows.which]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about overlap and unknown values
        groups = model.predict(X, shares="population")
    choice = model.choice_
    in_sample = adjusted_rand_score(own, dropped, sample_weight=rows.a)
    in_population = adjusted_rand_score(groups, dropped, sample_weight=w)
    found = LikelihoodCheck(
        criterion.bic(own, K),
        criterion.bic(dropped, K),
        min(in_sample, in_population),
        adjusted_rand_score(dropped, repeated, sample_weight=rows.a),
        model.identified_,
        "",
        same_in_sample=in_sample,
        same_in_population=in_population,
        n_compared=own.size,
        suspects_matter=choice["effects"] != "none" or choice["selection"] != "common",
        of_mixture=True,
        group_gain=float(model.one_group_bic_ - model.bic_),
    )
    if not found.suspects_matter or is_same(found):
        return found
    found = found._replace(**heavy_tails(view, rows, own))
    if is_heavy_tailed(found) or shows_no_groups(found) or found.identified == "no":
        return found
    given = None if sample_weight is None else rows.a
    if found.identified == "under small effects":
        found = found._replace(matching_gap=matching_gap(model, X, given, own))
        if has_other_matching(found):
            return found
    stable = stability_on_halves(model, X, rows.a, given, own, groups, seed)
    return found._replace(halves=min(stable.values()), stabilities=tuple(stable.items()))


def heavy_tails(view: View, rows: Drawn, labels: np.ndarray) -> dict[str, Any]:
    """heavy_share and heavy_columns: numeric columns whose kurtosis within clusters is above
    HEAVY_TAILS, and their share among all columns."""
    low, high = np.fmin.reduce(rows.X), np.fmax.reduce(rows.X)  # nan where all values are missing
    numeric = np.flatnonzero(((low < rows.X) & (rows.X < high)).any(axis=0))
    X, a = rows.X[:, numeric], rows.a[:, None] * ~np.isnan(rows.X[:, numeric])
    X = np.nan_to_num(X / np.fmax(high - low, 1e-300)[numeric])
    one_hot = np.eye(labels.max() + 1)[labels]
    means = one_hot.T @ (a * X) / np.maximum(one_hot.T @ a, 1e-300)
    squares = (X - means[labels]) ** 2
    total = np.maximum(a.sum(0), 1e-300)
    variance = (a * squares).sum(0) / total
    kurtosis = (a * squares**2).sum(0) / total / np.maximum(variance, 1e-150) ** 2
    heavy = numeric[np.argsort(-kurtosis, kind="stable")][: int((kurtosis > HEAVY_TAILS).sum())]
    names = tuple(view.source_names[at] for at in rows.source[heavy])
    return {"heavy_share": len(names) / np.unique(rows.source).size, "heavy_columns": names}


def matching_gap(model: SelectionMixture, X: Any, given: Any, labels: np.ndarray) -> float | None:
    """`SelectionMixture._matching_gap` of the selected form for these rows, None where no exchange
    leads to another solution; ``given`` is their sample_weight."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about overlap and unknown values
        gap = selected_form(model).set_params(init=labels)._matching_gap(X, given)
    return gap if np.isfinite(gap) else None


def selected_form(model: SelectionMixture) -> Any:
    """The model, not fitted, with the number of groups and the form that were selected."""
    return clone(model).set_params(
        n_components=model.n_components_,
        checkpoint=None,
        output_dir=None,
        verbose=0,
        **model.choice_,
    )


def stability_on_halves(
    model: SelectionMixture,
    X: Any,
    a: np.ndarray,
    given: Any,
    labels: np.ndarray,
    groups: np.ndarray,
    seed: int,
) -> dict[int, float]:
    """Group -> stability: the lower of its similarities in the two halves.

    Mixtures of the selected form are fitted to two random halves of the rows, and each of
    ``groups`` is compared with the most similar group of each half, by the Jaccard similarity
    (Hennig 2007, Cluster-wise assessment of cluster stability, where 0.85 is highly stable).
    ``given`` is the sample_weight of the mixtures.

    Each half is fitted twice, from the model's ``labels`` and from initializations of its own. The
    latter count if their BIC is lower by more than 10, so that neither a poor local optimum nor a
    solution that explains the half equally well is taken for a contradiction.
    """
    order, form = np.random.default_rng(seed).permutation(a.size), selected_form(model)
    lowest: dict[int, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about overlap, convergence and unknown values
        emit("half", 0, 2)
        for done, half in enumerate(np.array_split(order, 2), 1):
            which = np.sort(half)
            part, own_weight = take_rows(X, which), None if given is None else given[which]
            try:
                other = clone(form).set_params(init=labels[which])._fit_part(part, own_weight)
            except ValueError:  # too few rows, or one value of a suspect only
                return dict.fromkeys(np.unique(groups).tolist(), 0.0)
            found = similarities(groups, other.predict(X, shares="population"), a)
            lowest = {k: min(found[k], lowest.get(k, 1.0)) for k in found}
            worst = min(found.values())
            emit("half", done, 2, status=f"lowest Jaccard similarity of a cluster {worst:.2f}")
    return lowest


def similarities(groups: np.ndarray, others: np.ndarray, a: np.ndarray) -> dict[int, float]:
    """Group -> Jaccard similarity with the most similar of the others."""
    names, groups = np.unique(groups, return_inverse=True)
    others = np.unique(others, return_inverse=True)[1]
    both = np.zeros((groups.max() + 1, others.max() + 1))
    np.add.at(both, (groups, others), a)
    either = both.sum(1, keepdims=True) + both.sum(0) - both
    similarity = (both / np.maximum(either, np.finfo(float).tiny)).max(axis=1)
    return dict(zip(names.tolist(), similarity.tolist()))


def values_of(view: View, tile: np.ndarray) -> np.ndarray:
    """The columns of the distance that are not suspects, nan where a value is missing."""
    columns = view.rest
    X = tile[:, columns].copy()
    indicator = view.design.column_map.missing_indicator[columns]
    for k in np.flatnonzero(indicator >= 0):
        X[tile[:, indicator[k]] > 0.5, k] = np.nan
    return X


def levels_of(Z: np.ndarray) -> np.ndarray:
    """Combination of the suspects' values in each row; numbers are cut at their quantiles, and
    rare combinations are one."""
    codes = []
    for z in Z.T:
        values, code = np.unique(z, return_inverse=True)
        if values.size > MAX_CODES:
            code = np.searchsorted(np.quantile(z, np.arange(1, N_BINS) / N_BINS), z)
        codes.append(code)
    level = np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel()
    rows = np.bincount(level)
    kept = np.argsort(-rows, kind="stable")[:MAX_LEVELS]
    kept = kept[rows[kept] >= MIN_LEVEL_ROWS]
    place = np.full(rows.size, kept.size)
    place[kept] = np.arange(kept.size)
    return np.unique(place[level], return_inverse=True)[1]


def fit_mixture(rows: Drawn, K: int, seed: int) -> tuple[SelectionMixture, np.ndarray]:
    """A SelectionMixture with its defaults, and the rows that it was fitted to."""
    sources, first, size = np.unique(rows.source, return_index=True, return_counts=True)
    columns: list[np.ndarray] = []
    kinds: dict[int, str] = {}
    for one, at, count in zip(sources, first, size):
        if count > 1:  # indicators of a category
            kinds[len(columns)] = "category"
            own = rows.X[:, rows.source == one]
            columns.append(np.unique(own, axis=0, return_inverse=True)[1].ravel())
        else:
            columns.append(rows.X[:, at])
    d = len(columns)
    X = np.column_stack([*columns, rows.level])
    suspects = None if rows.level.max() == 0 else [d]
    mixture = SelectionMixture(
        K, suspects=suspects, kinds={**kinds, d: "category"}, random_state=seed
    )
    with warnings.catch_warnings(), nested_progress():
        warnings.simplefilter("ignore")  # about overlap and convergence of a model of comparison
        return mixture.fit(X, sample_weight=rows.a), X
