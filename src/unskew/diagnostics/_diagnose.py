"""diagnose: the effect of a model's weights on balance and clusters, with a verdict."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._data.sampling import (
    MAX_ENTRIES,
    MAX_ROWS,
    MIN_ROWS,
    FitVectors,
    sample_rows,
    subset_model,
)
from .._mixture.em import Choice
from .._progress import emit, nested_progress
from .._validation import check_weights
from ..baselines import PlainKMeans, RegressOutKMeans
from ..corrector import SuspectCorrector
from ..dckm import DCKM
from ..metrics import effective_sample_size, kish_size
from ..mixture import SelectionMixture
from . import _measure
from ._likelihood import check_mixture, compare_likelihoods
from ._mixing import measure_mixing
from ._overlap import measure_overlap
from ._results import Baseline, Convergence, Diagnostics, KnownShare, SuspectEffect
from ._separation import measure_separation
from ._verdict import Evidence, Verdict, decide
from ._view import View, call_of, check_names, row_index, settings_of, view_of_fit

ALL, DROPPED, REGRESSED = (
    "k-means, all columns",
    "k-means without the suspects",
    "k-means, suspects regressed out",
)
# Ratio of standard deviations beyond which k-means follows the columns of large units.
UNEQUAL_SCALES = 10.0
# Maximum number of effects of suspects that are listed.
MAX_EFFECTS = 200


def diagnose(
    model: Any,
    X: Any,
    sample_weight: Any = None,
    *,
    against: bool = True,
    feature_names: Any = None,
):
    """Diagnose a fit: weights, imbalance before and after, clusters, baselines, verdict.

    Parameters
    ----------
    model : fitted SelectionMixture, SuspectCorrector, DCKM, ConsensusDCKM or DecorrelationWeights
    X, sample_weight
        The data and design weights of the fit. Data (in memory, a file or a reader) with more
        than 20,000 rows, or more than 2**24 entries if dense, are subsampled to that size at
        random; ``notes`` reports it. Statistics of the weights and sizes of the clusters use all
        rows.
    against : bool, default=True
        Also fit the baselines: k-means on all columns and, if the model has suspects (nuisance
        (batch) columns through which the bias came in: site, scanner, channel), k-means without
        them and after regressing them out. The baselines use the model's initializations, at
        least ten for k-means, and the model's clusters as one more. If False, there is no flow,
        and the verdict uses the weights alone.
    feature_names : list or None
        Names for the columns of an array; None: column 0, column 1, ...

    Returns
    -------
    Diagnostics

    Examples
    --------
    >>> from unskew import DCKM
    >>> from unskew.diagnostics import diagnose
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(1000, rate=0.8, random_state=0)
    >>> model = DCKM(4, suspects=data.suspects, n_init=3, random_state=0).fit(data.X)
    >>> found = diagnose(model, data.X)
    >>> found.verdict.word
    'helped'
    >>> found.evidence.typical_after < found.evidence.typical_before
    True
    """
    inspection = inspect_fit(model, X, sample_weight, feature_names)
    return describe_fit(inspection, inspection.baselines() if against else {})


def verdict(model: Any, X: Any, sample_weight: Any = None) -> Verdict:
    """Assess without true labels whether the correction helped: a word, a sentence and reasons.

    The verdict of `diagnose`, without its tables.

    Parameters
    ----------
    model : fitted SelectionMixture, SuspectCorrector, DCKM, ConsensusDCKM or DecorrelationWeights
    X, sample_weight
        The data and design weights of the fit, as in `diagnose`.

    Returns
    -------
    Verdict
        ``word`` is "helped", "no effect", "harmed" (do not use the result) or "cannot be told",
        compared with k-means without the suspects (nuisance (batch) columns through which the bias
        came in: site, scanner, channel), or with k-means on all columns if there are none;
        ``sentence``; ``reasons``; ``dropping_would_do`` is True if k-means without the suspects
        finds the same clusters.

    Examples
    --------
    >>> from unskew import ConsensusDCKM
    >>> from unskew.diagnostics import verdict
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(1000, rate=0.8, random_state=0)
    >>> model = ConsensusDCKM(4, suspects=data.suspects, random_state=0).fit(data.X)
    >>> verdict(model, data.X).word
    'helped'
    """
    inspection = inspect_fit(model, X, sample_weight)
    labels, baselines = inspection.labels, inspection.baselines()
    own: Any = ()
    variance = None
    if labels is not None:
        own = _measure.associations(inspection.view, labels)
        variance = _measure.explained_variance(inspection.view, labels)
    imbalance = _measure.measure_imbalance(inspection.view, inspection.w)
    described = _describe_baselines(inspection.view, baselines, labels)
    return decide(_evidence(inspection, imbalance, own, variance, described, baselines))


class Inspection(NamedTuple):
    """A fit and the subsample of its rows that is inspected: ``model`` has the labels and weights
    of the subsample, ``fit_vectors`` those of all rows."""

    model: Any
    X: Any
    sample_weight: Any
    view: View
    fit_vectors: FitVectors
    notes: tuple[str, ...] = ()

    @property
    def w(self) -> np.ndarray:
        return np.asarray(self.model.combined_weights_, dtype=np.float64)

    @property
    def labels(self) -> np.ndarray | None:
        labels = getattr(self.model, "labels_", None)
        return None if labels is None else np.asarray(labels)

    def baselines(self) -> dict[str, np.ndarray]:
        if self.labels is None:
            return {}
        return fit_baselines(self.model, self.view, self.X, self.sample_weight)

    def repeated_kmeans(self) -> np.ndarray:
        """Labels of k-means without the suspects, with other random numbers."""
        how: dict[str, Any] = {"drop": True, "random_state": _seed(self.model) + 1}
        with _quiet(), nested_progress():
            return _plain_kmeans(self.model, self.view, self.X, self.sample_weight, **how)


def mean_difference(model: Any, X: Any, sample_weight: Any = None) -> tuple[float, float]:
    """Mean of |standardised difference| before and after the correction by a fitted model."""
    inspection = inspect_fit(model, X, sample_weight)
    found = _measure.measure_imbalance(inspection.view, inspection.w)
    return found.typical_before, found.typical_after


def inspect_fit(model: Any, X: Any, sample_weight: Any, feature_names: Any = None) -> Inspection:
    if isinstance(model, SuspectCorrector):  # described by the mixture that estimated its effects
        check_is_fitted(model, "mixture_")
        sample_weight, model = model._fit_weights(X, sample_weight), model.mixture_
    check_is_fitted(model, "weights_")
    dense = isinstance(model, SelectionMixture) and sp.issparse(X)
    most = max(MIN_ROWS, min(MAX_ROWS, MAX_ENTRIES // X.shape[1])) if dense else MAX_ROWS
    sample = sample_rows(X, sample_weight, _seed(model), most)
    if dense:  # as the mixture itself does
        sample = sample._replace(X=sample.X.toarray())
    if sample.n != model.weights_.size:
        raise ValueError(
            f"X has {sample.n} rows but the model was fitted to {model.weights_.size}; X should "
            "be the data of the fit"
        )
    names = check_names(feature_names, sample.X)
    if names is not None:
        model = copy(model)
        model.feature_names_in_ = names
    few = subset_model(model, sample.chosen)
    weights = None if sample_weight is None else sample.a
    view = view_of_fit(few, sample.X, weights)
    fit_vectors = FitVectors.of(
        model, check_weights(sample_weight, sample.n), row_index(X), sample.chosen
    )
    return Inspection(
        few, sample.X, weights, view, fit_vectors, () if sample.chosen is None else (sample.note,)
    )


def _describe_baselines(view: View, baselines: dict, labels: Any) -> tuple[Baseline, ...]:
    return tuple(
        Baseline(
            name,
            _measure.explained_variance(view, found),
            _measure.agreement(view, found, labels),
            _measure.associations(view, found),
        )
        for name, found in baselines.items()
    )


def describe_fit(inspection: Inspection, baselines: dict[str, np.ndarray]) -> Diagnostics:
    """Diagnostics of a fit, given the labels of its baselines ({} if there are none)."""
    model, view, w, labels = inspection.model, inspection.view, inspection.w, inspection.labels
    imbalance = _measure.measure_imbalance(view, w)
    clusters: Any = ()
    own: Any = ()
    marks = projection = flow = variance = matched = None
    if labels is not None:
        K = int(model._K)
        clusters, marks = _measure.profile_clusters(view, labels, w, K, inspection.fit_vectors)
        own, variance = (
            _measure.associations(view, labels),
            _measure.explained_variance(view, labels),
        )
        baseline = _same_distance(view)
        if baseline in baselines:
            flow = _measure.flow_between(view, baseline, baselines[baseline], labels, K)
            matched = np.argsort(flow.baseline_clusters)[baselines[baseline]]
        projection = _measure.project(
            view, labels, w, _seed(model), inspection.fit_vectors, matched
        )
    described = _describe_baselines(view, baselines, labels)
    evidence = _evidence(inspection, imbalance, own, variance, described, baselines)
    correlation = _measure.measure_correlation(view, w, imbalance.largest_before, marks)
    return Diagnostics(
        verdict=decide(evidence),
        evidence=evidence,
        weights=_measure.describe_weights(inspection.fit_vectors),
        imbalance_before=float(getattr(model, "initial_imbalance_", imbalance.balance_before)),
        imbalance_after=float(getattr(model, "imbalance_", imbalance.balance_after)),
        features=imbalance.features,
        pairs=imbalance.pairs,
        n_pairs=imbalance.n_pairs,
        correlation=correlation,
        convergence=_convergence(model),
        clusters=clusters,
        explained_variance=variance,
        separation=None
        if labels is None
        else measure_separation(model, view, labels, _seed(model)),
        associations=own,
        baselines=described,
        flow=flow,
        projection=projection,
        effects=_effects(model),
        overlap=()
        if labels is None
        else measure_overlap(view, labels, w, int(model._K), _has_effects(model)),
        mixing=() if labels is None else measure_mixing(view, labels, w, _seed(model)),
        margins=tuple(
            KnownShare(str(column), str(value), share["wanted"], share["start"], share["reached"])
            for column, shares in (getattr(model, "margins_", None) or {}).items()
            for value, share in shares.items()
        ),
        notes=(
            *inspection.notes,
            *_notes(view, correlation, imbalance),
            *_note_of_scales(model, view),
        ),
        settings=settings_of(
            view,
            inspection.X,
            inspection.sample_weight,
            model=type(model).__name__,
            call=call_of(model, inspection.sample_weight is not None),
            parameters=model.get_params(deep=False),
            n_rows=inspection.fit_vectors.w.size,
            n_zero=int((inspection.fit_vectors.a == 0).sum()),
        ),
        form=_form(model),
        separating=() if labels is None else _measure.separating_columns(view, labels),
    )


# Minimum number of initializations of the k-means baseline, and maximum where missing values
# require the slower DCKM solver; the model's clusters are used as one more initialization.
MIN_INIT, SLOW_INIT = 10, 3


@contextmanager
def _quiet():
    """The model's own fit has issued these warnings; a baseline with fewer clusters is valid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def fit_baselines(model: Any, view: View, X: Any, sample_weight: Any) -> dict[str, np.ndarray]:
    """name -> labels of baseline clusterings of the same rows, with the model's initializations.

    Without suspects the only baseline is k-means on all columns.
    """
    fits: dict[str, Any] = {ALL: partial(_plain_kmeans, model, view, X, sample_weight, drop=False)}
    if view.suspects is not None:
        fits[DROPPED] = partial(_plain_kmeans, model, view, X, sample_weight, drop=True)
        fits[REGRESSED] = lambda: fit_regressed(model, view).labels_
    found: dict[str, np.ndarray] = {}
    emit("baseline", 0, len(fits))
    for name, fit in fits.items():
        with _quiet(), nested_progress():
            found[name] = fit()
        emit("baseline", len(found), len(fits), status=name)
    return found


def _plain_kmeans(
    model: Any, view: View, X: Any, sample_weight: Any, *, drop: bool, random_state: Any = None
) -> np.ndarray:
    """Labels of k-means, the solution of lower inertia out of two: with the model's
    initializations, and with the model's clusters as initialization. A baseline that stopped at a
    poor local minimum would make the model look better than it is. With a ``random_state``: with
    these random numbers only."""
    own = random_state is None
    K, labels = model._K, model.labels_
    model = kmeans_settings(model)
    random_state = model.random_state if own else random_state
    form = view.design.distance.scaling
    if (view.design.column_map.missing_indicator < 0).all() and form is None:
        starts = max(model.n_init, MIN_INIT)
        how = {"n_init": starts, "random_state": random_state, "init": model.init}
        plain = PlainKMeans(K, suspects=view.suspects if drop else None, **how)
        X, sample_weight = encoded_matrix(view), view.a
    else:
        # Missing values and scaled rows or columns need the distance of DCKM. Without balance,
        # and with a spread strength that keeps the weights at 1, it is k-means in that distance,
        # so that the verdict assesses the correction and not the distance.
        plain = DCKM(
            K,
            adjust="weights",
            balance_strength=0.0,
            spread_strength=1e6,
            suspects=view.suspect_sources.tolist() if drop else None,
            column_scale=model.column_scale,
            row_scale="unit" if form is not None and form.unit else None,
            init=model.init,
            n_init=min(model.n_init, SLOW_INIT),
            max_iter=max(100, model.max_iter),
            encoder=model.encoder,
            n_bins=model.n_bins,
            n_threads=model.n_threads,
            random_state=random_state,
        )
    fits = [plain]
    if own:
        fits.append(clone(plain).set_params(init=np.asarray(labels)))
    return min((one.fit(X, sample_weight=sample_weight) for one in fits), key=_inertia).labels_


def kmeans_settings(model: Any) -> Any:
    """The model, or a DCKM with its random numbers and kinds of columns: parameters of k-means."""
    if not isinstance(model, SelectionMixture):
        return model
    encoder = None if model.encoder_ is None else clone(model.encoder_)
    return DCKM(random_state=model.random_state, encoder=encoder)


def _inertia(fitted: Any) -> float:
    return fitted.inertia_


def encoded_matrix(view: View) -> Any:
    """The encoded columns as one float matrix, for methods that do not accept tables."""
    X = view.rows.X
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)


def fit_regressed(model: Any, view: View) -> RegressOutKMeans:
    """k-means after regressing the suspects out; missing values are imputed by the mean, because
    least squares needs complete rows."""
    kmeans = kmeans_settings(model)
    how = {"init": kmeans.init, "n_init": kmeans.n_init, "random_state": kmeans.random_state}
    method = RegressOutKMeans(model._K, suspects=view.suspects, **how)
    return method.fit(encoded_matrix(view), sample_weight=view.a)


def _same_distance(view: View) -> str:
    """The baseline that clusters on the columns of the model's distance."""
    if view.suspects is None or np.isin(view.suspects, view.in_distance).any():
        return ALL
    return DROPPED


def _seed(model: Any) -> int:
    """Seed of the subsamples: the model's random_state if it is an integer, else 0."""
    state = getattr(model, "random_state", None)  # DecorrelationWeights has none
    return int(state) if isinstance(state, (int, np.integer)) else 0


def _convergence(model: Any) -> Convergence:
    history = tuple(
        (name, tuple(float(v) for v in np.asarray(values).tolist()))
        for name, values in model.history_.items()
    )
    status = str(model.status_)
    # The paper's procedure runs for a fixed number of iterations, so reaching it counts as
    # convergence.
    regular = getattr(model, "solver", None) == "paper" and status.startswith("max_iter")
    return Convergence(
        status=status,
        converged=status.startswith("converged") or regular,
        iterations=int(model.n_iter_),
        objective=float(model.bic_ if isinstance(model, SelectionMixture) else model.objective_),
        history=history,
    )


def _evidence(inspection: Inspection, imbalance, own, variance, described, baselines) -> Evidence:
    model, view, w, fit_vectors = (
        inspection.model,
        inspection.view,
        inspection.w,
        inspection.fit_vectors,
    )
    by_name = {each.name: each for each in described}
    baseline, dropped = by_name.get(_same_distance(view)), by_name.get(DROPPED)

    def strongest(found: Any) -> float | None:
        return max((one.value for one in found), default=None)

    kept = same = None
    if baseline is not None:
        same = baseline.agreement
        # The variance of corrected rows differs, so that the ratio to k-means has no meaning.
        if baseline.explained_variance > 0 and not view.corrected:
            kept = variance / baseline.explained_variance
    weighted: dict[str, Any] = {}
    if ALL in baselines:
        labels = np.asarray(model.labels_)
        weighted["weighted_same"] = _measure.agreement(view, labels, baselines[ALL], w)
        if DROPPED in baselines:
            repeated, seed = inspection.repeated_kmeans(), _seed(model)
            if isinstance(model, SelectionMixture):
                weighted["naming_gain"] = _naming_gain(model)
                checked = check_mixture(
                    model,
                    inspection.X,
                    inspection.sample_weight,
                    view,
                    baselines[DROPPED],
                    repeated,
                    seed,
                )
            else:
                checked = compare_likelihoods(model, view, baselines[DROPPED], repeated, seed)
            if checked is not None:
                weighted |= checked._asdict()
        if not isinstance(model, SelectionMixture):
            halves = _measure.stabilities(view, w, int(model._K), _seed(model))
            weighted["stability"], weighted["kmeans_stability"] = halves
        changes = _measure.influence(view, baselines[ALL], labels)
        weighted["gained"], weighted["lost"] = changes
    return Evidence(
        **weighted,
        suspects=view.suspect_names,
        constant_suspects=view.constant_suspects,
        votes=_votes_of(model),
        n_clusters=len(np.unique(model.labels_)) if hasattr(model, "labels_") else None,
        n_rows=int((fit_vectors.a > 0).sum()),
        converged=_convergence(model).converged,
        corrected=view.corrected,
        effective_size=effective_sample_size(fit_vectors.m, fit_vectors.a),
        kish_size=kish_size(fit_vectors.w),
        design_size=kish_size(fit_vectors.a),
        typical_before=imbalance.typical_before,
        typical_after=imbalance.typical_after,
        by_chance=imbalance.by_chance,
        kept_variance=kept,
        same_as_kmeans=same,
        same_as_regressed=by_name[REGRESSED].agreement if REGRESSED in by_name else None,
        follows=strongest(own),
        kmeans_follows=strongest(by_name[ALL].associations) if ALL in by_name else None,
        dropped_follows=None if dropped is None else strongest(dropped.associations),
    )


def _votes_of(model: Any) -> tuple[int, int, float] | None:
    """Of a consensus: number of runs, number that vote, agreement of two runs; None for one run."""
    if not hasattr(model, "runs_") or len(model.runs_) < 2:
        return None
    return len(model.runs_), sum(run["votes"] for run in model.runs_), float(model.stability_)


def _form(model: Any) -> str:
    """Covariance, effects and shares of a mixture, and from how many forms they were selected."""
    if not isinstance(model, SelectionMixture):
        return ""
    tried = len(_tried(model))
    selected = f" (lowest BIC of {tried} forms)" if tried > 1 else ""
    return f"{Choice(**model.choice_).in_words}{selected}"


def _has_effects(model: Any) -> bool:
    """False of a mixture without effects of the suspects."""
    return not isinstance(model, SelectionMixture) or model.choice_["effects"] != "none"


def _tried(model: SelectionMixture) -> list[dict[str, Any]]:
    """The forms that were compared, of the selected number of clusters."""
    return [c for c in model.candidates_ if c["n_components"] == model.n_components_]


def _naming_gain(model: SelectionMixture) -> float | None:
    """How much lower BIC is in the best form with the suspects than in the best without them."""
    bics: dict[bool, list[float]] = {True: [], False: []}
    for one in _tried(model):
        bics[one["effects"] == "none" and one["selection"] == "common"].append(one["bic"])
    return float(min(bics[True]) - min(bics[False])) if bics[True] and bics[False] else None


def _effects(model: Any) -> tuple[SuspectEffect, ...]:
    """The largest effects of suspects that the model removes; empty for weights alone. Of two
    values of a suspect, with opposite effects, the last."""
    reasons = getattr(model, "suspect_effects_", None) or ()
    mixture = isinstance(model, SelectionMixture)  # its effects are in units of the columns
    sd = {c.name: c.sd for c in model._numbers()} if mixture else {}
    if mixture:
        last = {one["suspect"]: one["level"] for one in reasons}
        sizes = Counter(one["suspect"] for one in reasons)
        reasons = [
            one
            for one in reasons
            if sizes[one["suspect"]] != 2 or one["level"] == last[one["suspect"]]
        ]
    every = [
        SuspectEffect(
            f"{one['suspect']}={one['level']}" if mixture else str(one["suspect"]),
            str(column),
            float(effect) / sd.get(column, 1.0),
            "log-odds" if mixture and column not in sd else "sd",
        )
        for one in reasons
        for column, effect in zip(one["columns"], one["effects"])
        if effect != 0
    ]
    return tuple(sorted(every, key=lambda one: -abs(one.effect))[:MAX_EFFECTS])


def _note_of_scales(model: Any, view: View) -> tuple[str, ...]:
    """A mixture does not depend on the units of the columns, the k-means of its verdict does. Those
    of a table are standardised by the encoder, those of an array are used as they are."""
    sd = view.sd[view.rest]
    sd = sd[sd > 0]
    if view.encoder is not None or not isinstance(model, SelectionMixture) or not sd.size:
        return ()
    ratio = float(sd.max() / sd.min())
    if ratio < UNEQUAL_SCALES:
        return ()
    return (
        "The k-means of the comparison uses the columns in their own units, and their standard "
        f"deviations differ by a factor of {ratio:,.0f}; standardise the columns for a fair one.",
    )


def _notes(view: View, correlation: Any, imbalance: Any) -> tuple[str, ...]:
    notes = []
    if len(correlation.names) < correlation.n_columns:
        notes.append(
            f"The correlation maps show the {len(correlation.names)} of {correlation.n_columns} "
            "encoded columns with the largest differences."
        )
    if imbalance.n_pairs > len(imbalance.pairs):
        notes.append(
            f"Of {imbalance.n_pairs:,} pairs of columns, the {len(imbalance.pairs)} with the "
            "largest differences are listed."
        )
    seen = sum(pairs.n_pairs for pairs in view.pair_blocks)
    if view.cut:
        notes.append(
            f"Because of the number of columns, differences were measured on {seen:,} pairs of "
            "column and group only, those of the columns of largest variance."
        )
    return tuple(notes)
