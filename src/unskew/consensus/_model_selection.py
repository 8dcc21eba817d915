"""Unsupervised selection of the number of clusters and of the strength of the balance."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .._data.sampling import sample_rows
from .._data.tables import open_source
from .._progress import emit, nested_progress
from .._validation import check_number, check_option, check_weights
from ..metrics import silhouette_score

# Default candidates.
CLUSTERS = tuple(range(2, 13))
STRENGTHS = {"suspects": (0.0, 0.1, 0.3, 1.0, 3.0, 10.0), "all pairs": (0.0, 0.05, 0.1, 0.2, 0.5)}
# Candidates are compared on a random subsample of at most this many rows.
MAX_SELECTION_ROWS = 10_000
# Maximum number of rows on which the silhouette is computed.
MAX_SILHOUETTE_ROWS = 2000
CRITERIA = ("silhouette", "stability", "tradeoff")
# Scores within this share of the best are treated as ties, and the smallest value is selected: for
# strengths, the one with the largest effective sample size.
SILHOUETTE_TOLERANCE = {("balance_strength", "silhouette"): 0.05}


@dataclass(frozen=True)
class SelectionCandidate:
    """One setting and its unsupervised scores.

    silhouette       in the model's feature space (effects removed, scaled), rows weighted by the
                     learned weights: -1 to 1
    stability        mean adjusted Rand index of two runs
    effective_size   effective sample size as a share of the rows
    imbalance_left   remaining share of the initial imbalance
    explained        share of the variance in the model's feature space that is between clusters
    """

    value: float
    silhouette: float
    stability: float
    effective_size: float
    imbalance_left: float
    explained: float

    @property
    def tradeoff(self) -> float:
        """Share of the imbalance that was removed, times the effective sample size."""
        return (1.0 - self.imbalance_left) * self.effective_size


@dataclass(frozen=True)
class Choice:
    """The selected value of ``parameter``, the criterion, and all candidates."""

    parameter: str
    chosen: Any
    criterion: str
    candidates: tuple[Any, ...]

    def best_by(self, criterion: str) -> Any:
        """The value that another criterion selects; the smallest of ties.

        Strengths whose silhouettes differ by less than 5 % are ties.
        """
        check_option("criterion", criterion, CRITERIA)
        scores = np.array([getattr(each, criterion) for each in self.candidates])
        slack = max(
            1e-12, SILHOUETTE_TOLERANCE.get((self.parameter, criterion), 0.0) * scores.max()
        )
        equals = np.flatnonzero(scores >= scores.max() - slack)
        best = min(equals, key=lambda i: self.candidates[i].value)
        value = self.candidates[best].value
        return int(value) if self.parameter == "n_clusters" else value


@dataclass(frozen=True)
class BICCandidate:
    value: int
    bic: float


def choice_of(model: Any) -> Choice | None:
    """The number of clusters that a fitted model has selected; None if it was given."""
    if getattr(model, "n_components", None) != "auto":
        return model.choice_ if hasattr(model, "n_runs") else None
    best: dict[int, float] = {}  # BIC by the number of groups of a SelectionMixture
    for each in model.candidates_:
        K = each["n_components"]
        best[K] = min(best.get(K, np.inf), float(each["bic"]))
    tried = tuple(BICCandidate(K, best[K]) for K in sorted(best))
    return Choice("n_components", model.n_components_, "bic", tried)


def choose_k(
    X,
    candidates=None,
    *,
    suspects=None,
    sample_weight=None,
    model=None,
    criterion="silhouette",
    n_runs=5,
    random_state=None,
):
    """Select the number of clusters without labels.

    A ConsensusDCKM of few runs is fitted for each candidate. The number with the largest silhouette
    is selected, computed in the model's feature space with the learned weights, so that it reflects
    the clusters of the population and not the sites. Of more than 10,000 rows a random subsample is
    used. (docs/results/defaults.md compares it with
    other criteria. A silhouette requires two clusters: 1 is never selected.)

    Parameters
    ----------
    X, sample_weight : as in ConsensusDCKM
    suspects : as in ConsensusDCKM
        Nuisance (batch) columns through which the bias came in: site, scanner, channel.
    candidates : iterable of int, default=None
        None: 2 to 12.
    model : ConsensusDCKM or None
        Settings of the fits; None: the default ones, with ``suspects``.
    criterion : {"silhouette", "stability"}
    n_runs : int, default=5
        Runs of each fit.
    random_state : int, RandomState or None
        None takes the model's.

    Returns
    -------
    Choice
        ``chosen``, and the scores of each candidate.

    Examples
    --------
    >>> from unskew import choose_k
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(500, n_clusters=3, rate=0.6, random_state=0)
    >>> choose_k(data.X, range(2, 6), suspects=data.suspects, random_state=0).chosen
    3
    """
    check_option("criterion", criterion, ("silhouette", "stability"))
    given = CLUSTERS if candidates is None else _as_candidates("candidates", candidates)
    for k in given:
        check_number("candidates", k, numbers.Integral, low=2)
    n = _count_rows(X)
    if sample_weight is not None:
        n = int((check_weights(sample_weight, n) > 0).sum())
    fitting = [int(k) for k in given if k < n]
    if not fitting:
        raise ValueError(f"candidates={list(given)!r} should be < n_samples={n}")
    if candidates is not None and len(fitting) < len(given):
        warnings.warn(
            f"candidates={[k for k in given if k >= n]!r} are ignored: they should be < "
            f"n_samples={n}",
            UserWarning,
            stacklevel=2,
        )
    return _choose(
        "n_clusters", fitting, X, sample_weight, model, suspects, criterion, n_runs, random_state
    )


def choose_strengths(
    X,
    n_clusters=None,
    candidates=None,
    *,
    suspects=None,
    sample_weight=None,
    model=None,
    criterion="silhouette",
    n_runs=5,
    random_state=None,
):
    """Select the strength of the balance (``balance_strength``) without labels.

    A ConsensusDCKM of few runs is fitted for each candidate. Among the strengths whose silhouette,
    computed in the model's feature space with the learned weights, is within 5 % of the largest,
    the weakest is selected, because its effective sample size is larger. Of more than 10,000 rows a
    random subsample is used. `unskew.plots.choice`
    plots the silhouette together with the effective sample size and the remaining imbalance.
    docs/results/defaults.md compares this and other criteria with a fixed strength.

    Parameters
    ----------
    X, sample_weight : as in ConsensusDCKM
    suspects : as in ConsensusDCKM
        Nuisance (batch) columns through which the bias came in: site, scanner, channel.
    n_clusters : int or None
        None: that of the model (8 without a model).
    candidates : iterable of float, default=None
        None: 0, 0.1, 0.3, 1, 3, 10 with suspects, 0, 0.05, 0.1, 0.2, 0.5 without.
    model : ConsensusDCKM or None
        Settings of the fits; None: the default ones, with ``suspects``.
    criterion : {"silhouette", "stability", "tradeoff"}
        "tradeoff": share of the imbalance that was removed times effective sample size.
    n_runs : int, default=5
        Runs of each fit.
    random_state : int, RandomState or None
        None takes the model's.

    Returns
    -------
    Choice

    Examples
    --------
    >>> from unskew import choose_strengths
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(1000, rate=0.9, random_state=0)
    >>> found = choose_strengths(data.X, 4, (0.0, 0.3), suspects=data.suspects, random_state=0)
    >>> found.chosen, round(found.candidates[1].effective_size, 1)
    (0.0, 0.7)
    """
    check_option("criterion", criterion, CRITERIA)
    named = suspects is not None or (model is not None and model.suspects is not None)
    usual = STRENGTHS["suspects" if named else "all pairs"]
    given = usual if candidates is None else _as_candidates("candidates", candidates)
    for strength in given:
        check_number("candidates", strength, low=0)
    strengths = [float(s) for s in given]
    return _choose(
        "balance_strength", strengths, X, sample_weight, model, suspects, criterion, n_runs,
        random_state, n_clusters=n_clusters,
    )  # fmt: skip


def _choose(
    parameter, values, X, sample_weight, model, suspects, criterion, n_runs, random_state, **given
) -> Choice:
    from ._estimator import ConsensusDCKM

    check_number("n_runs", n_runs, numbers.Integral, low=2 if criterion == "stability" else 1)
    if model is None:
        model = ConsensusDCKM(suspects=suspects)
    elif suspects is not None:
        raise ValueError("suspects should be None where a model is passed; set them in the model")
    model = clone(model).set_params(n_runs=n_runs, verbose=0)
    if random_state is not None:
        model.set_params(random_state=random_state)
    for name, value in given.items():
        if value is not None:
            model.set_params(**{name: value})
    other = {"n_clusters": "balance_strength", "balance_strength": "n_clusters"}[parameter]
    if isinstance(getattr(model, other), str):
        if other == "n_clusters":
            raise ValueError("n_clusters='auto' should be a number here; select it with choose_k")
        model.set_params(balance_strength=None)
    seed = model.random_state if isinstance(model.random_state, numbers.Integral) else 0
    sample = sample_rows(X, sample_weight, seed, MAX_SELECTION_ROWS)
    X, sample_weight = sample.X, None if sample_weight is None else sample.a
    if sample.chosen is not None and np.ndim(model.init) == 1:
        model.set_params(init=np.asarray(model.init)[sample.chosen])
    found = []
    emit("candidate", 0, len(values))
    for value in values:
        each = clone(model).set_params(**{parameter: value})
        with warnings.catch_warnings(), nested_progress():
            warnings.simplefilter("ignore")  # most candidates are not selected
            each.fit(X, sample_weight=sample_weight)
        found.append(describe(each, X, value))
        emit(
            "candidate",
            len(found),
            len(values),
            status=f"{parameter}={value:g}",
            silhouette=found[-1].silhouette,
            stability=found[-1].stability,
        )
    choice = Choice(parameter, None, criterion, tuple(found))
    return Choice(parameter, choice.best_by(criterion), criterion, tuple(found))


def describe(model: Any, X: Any, value: float) -> SelectionCandidate:
    """Unsupervised scores of a fitted ConsensusDCKM."""
    w, labels = model.combined_weights_, model.labels_
    subset = np.flatnonzero(w > 0)
    subset = subset[
        np.linspace(0, subset.size - 1, min(MAX_SILHOUETTE_ROWS, subset.size)).astype(np.intp)
    ]
    rows, distance, _ = model._new_rows(X, [])
    F = distance.features(rows.take(subset))
    F = np.asarray(F.toarray() if hasattr(F, "toarray") else F)
    own, weight = labels[subset], w[subset]
    separate = -1.0
    if 1 < np.unique(own).size < subset.size:
        separate = silhouette_score(F, own, sample_weight=weight, weight_kind="importance")
    F = F.astype(np.float64)
    mean = np.average(F, axis=0, weights=weight)
    total = float(weight @ ((F - mean) ** 2).sum(1))
    between = 0.0
    for k in np.unique(own):
        inside = own == k
        middle = np.average(F[inside], axis=0, weights=weight[inside])
        between += float(weight[inside].sum() * ((middle - mean) ** 2).sum())
    start = model.initial_imbalance_
    return SelectionCandidate(
        value=value,
        silhouette=float(separate),
        stability=model.stability_,
        effective_size=float(model.effective_sample_size_),
        imbalance_left=float(model.imbalance_ / start) if start > 0 else 1.0,
        explained=between / total if total > 0 else 0.0,
    )


def _as_candidates(name: str, values: Any) -> list:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name}={values!r} should be a list of numbers")
    values = list(values)
    if not values:
        raise ValueError(f"{name}=[] should have at least one value")
    return values


def _count_rows(X: Any) -> int:
    outside = open_source(X)
    shape = getattr(X if outside is None else outside, "shape", None)
    return len(X) if shape is None else int(shape[0])
