"""compare: SelectionMixture, DCKM, baselines such as k-means without the suspects, and the labels
of other tools, on the same table."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._data.sampling import sample_rows
from .._progress import emit, nested_progress
from .._validation import check_option
from ..baselines import DecorrelatedKMeans, DropKMeans, PCAKMeans, PlainKMeans
from ..consensus._model_selection import choice_of
from ..dckm import DCKM
from ..metrics import kish_size, silhouette_score
from ..mixture import SelectionMixture
from . import _measure
from ._diagnose import (
    ALL,
    DROPPED,
    REGRESSED,
    describe_fit,
    encoded_matrix,
    inspect_fit,
    kmeans_settings,
    mean_difference,
)
from ._results import Comparison, MethodRow
from ._view import View, call_of, check_names, settings_of, values_of_source

# The silhouette is computed on a subsample of at most this many rows.
MAX_IN_SILHOUETTE = 2000

# method -> title in tables, in the order of the rows.
METHODS = {
    "kmeans": ALL,
    "dropped": DROPPED,
    "regressed": REGRESSED,
    "two-step": "decorrelation weights, then k-means",
    "pca": "principal components, then k-means",
    "uncorrelated": "correlated columns dropped, then k-means",
    "weights": "unskew (DCKM), weights only",
    "dckm": "unskew (DCKM)",
    "mixture": "unskew (SelectionMixture)",
}
# Methods of other packages: name -> (title, package). Fitted only if they are asked for.
OTHER_METHODS = {"combat": ("ComBat (combatlearn), then k-means", "combatlearn")}
# Baselines that the verdict uses.
BASELINES = ("kmeans", "dropped", "regressed")
TITLES = METHODS | {name: title for name, (title, _) in OTHER_METHODS.items()}


def compare(
    X: Any,
    n_clusters: int,
    *,
    suspects: Any = None,
    sample_weight: Any = None,
    encoder: Any = None,
    random_state: Any = None,
    methods: Any = None,
    also: Any = (),
    labels: Any = None,
    feature_names: Any = None,
    method: str = "auto",
    **parameters: Any,
) -> Comparison:
    """Compare several clustering methods on one table by the same metrics.

    Explained variance is that of the columns that are not suspects; association is Cramer's V
    (or eta) with each suspect. Both use the design weights only, not the weights that a method
    learned.

    Parameters
    ----------
    X : pandas, polars or pyarrow table, array, CSR matrix, or a file or reader as in DCKM.fit
        Data with more than 20,000 rows, or more than 2**24 entries if dense, are subsampled to
        that size at random; ``notes`` reports it.
    n_clusters : int
    suspects, sample_weight, encoder, random_state
        As in DCKM. Suspects are nuisance (batch) columns through which the bias came in: site,
        scanner, channel. Without suspects nothing can be dropped or regressed out.
    methods : list of names or None
        Keys of METHODS; None means all that apply. ``method`` is always included.
    also : list of names
        Methods of other packages, which have to be installed: "combat", ComBat of combatlearn with
        the suspects as batches (combinations of their values), followed by k-means.
    labels : dict or None
        Title -> labels (n,), of any type, of each row of X: clusters that another tool found. They
        are described like those of the methods, without weights.
    feature_names : list or None
        Names for the columns of an array; None: column 0, column 1, ...
    method : {"auto", "mixture", "dckm"}, default="auto"
        The method that the verdict is about. "auto": SelectionMixture if suspects are named and X
        is dense, else DCKM.
    **parameters
        Further parameters of that method; ``init`` and ``n_init`` of DCKM apply to k-means too.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from unskew.diagnostics import compare
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(500, rate=0.5, random_state=0)
    >>> found = compare(data.X, 4, suspects=data.suspects, random_state=0,
    ...                 methods=["dropped", "dckm"])
    >>> [row.method for row in found.rows]
    ['dropped', 'dckm', 'mixture']
    >>> found = compare(data.X, 4, suspects=data.suspects, random_state=0,
    ...                 methods=["kmeans"], labels={"the truth": data.y})
    >>> [row.title for row in found.rows][-1], found.rows[-1].sizes
    ('the truth', (147, 123, 110, 120))
    """
    wanted = list(METHODS) if methods is None else list(methods)
    unknown = [name for name in wanted if name not in METHODS]
    if unknown:
        raise ValueError(f"methods has {unknown[0]!r}, which should be one of {list(METHODS)}")
    others = _check_also(also)
    seed = random_state if isinstance(random_state, (int, np.integer)) else 0
    sample = sample_rows(X, sample_weight, seed)
    given = {title: _check_labels(title, own, sample) for title, own in (labels or {}).items()}
    X, sample_weight = sample.X, None if sample_weight is None else sample.a
    check_names(feature_names, X)  # before the fit
    check_option("method", method, ("auto", "mixture", "dckm"))
    if method == "auto":
        method = "dckm" if suspects is None or sp.issparse(X) else "mixture"
    parameters |= {"suspects": suspects, "random_state": random_state}
    model: Any
    if method == "mixture":
        model = SelectionMixture(n_clusters, encoder=encoder, **parameters)
    else:
        model = DCKM(n_clusters, encoder=encoder, **parameters)
    if method not in wanted:
        wanted.append(method)
    n_methods = len(wanted) + len(others)
    emit("method", 0, n_methods)
    with nested_progress():
        model.fit(X, sample_weight=sample_weight)
    emit("method", 1, n_methods, status=METHODS[method])
    inspection = inspect_fit(model, X, sample_weight, feature_names)
    view = inspection.view
    baselines = inspection.baselines()
    fitted, skipped = _fit_all(model, method, view, X, sample_weight, wanted + others, baselines)
    reference = fitted["kmeans"][0] if "kmeans" in fitted else None
    rows = tuple(
        _describe(view, method, TITLES[method], reference, *fitted[method])
        for method in TITLES
        if method in fitted
    )
    rows += tuple(
        _describe(view, "labels", title, reference, own, None) for title, own in given.items()
    )
    with nested_progress():
        verdict = describe_fit(inspection, baselines).verdict
    seen = min(MAX_IN_SILHOUETTE, int((view.a > 0).sum()))
    return Comparison(
        method=method,
        summary=verdict,
        rows=rows,
        skipped=skipped,
        n_rows=sample.n,
        n_columns=len(view.source_names),
        n_encoded=view.rows.d,
        suspects=view.suspect_names,
        notes=(
            *([] if sample.chosen is None else [sample.note]),
            f"Silhouettes are computed on {seen:,} rows and the columns that are not suspects.",
        ),
        settings=settings_of(
            view,
            X,
            sample_weight,
            model="compare",
            call=call_of(model, sample_weight is not None),
            parameters=model.get_params(deep=False),
            n_rows=sample.n,
        ),
        n_clusters=model._K,
        choice=choice_of(model),
    )


def _fit_all(
    model: Any,
    own: str,
    view: View,
    X: Any,
    sample_weight: Any,
    wanted: list,
    baselines: dict,
) -> tuple:
    """Fit all methods but the baselines of the verdict, whose labels are given.

    Returns method -> (labels, learned weights or None[, mean difference of the method's own rows]),
    and (title, reason) of each skipped method.
    """
    fitted: dict[str, tuple] = {}

    def add(name: str, *result: Any) -> None:
        fitted[name] = result
        emit("method", len(fitted) + 1, len(wanted), status=TITLES[name])  # the model is the first

    for name in wanted:
        if METHODS.get(name) in baselines:
            add(name, baselines[METHODS[name]], None)
    skipped = []
    if view.suspects is None:
        reason = "no suspects are given"
        need = ("dropped", "regressed", "weights", "mixture")
        skipped = [(METHODS[name], reason) for name in need if name in wanted and name != own]
    kmeans = kmeans_settings(model)
    how = {"init": kmeans.init, "n_init": kmeans.n_init, "random_state": kmeans.random_state}
    K, matrix = model._K, encoded_matrix(view)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # low effective size: shown in the table
        warnings.simplefilter("ignore", ConvergenceWarning)
        if "two-step" in wanted:
            method = DecorrelatedKMeans(
                K, weights="converged", suspects=view.suspects, cluster_on=kmeans.cluster_on, **how
            )
            with nested_progress():
                method.fit(matrix, sample_weight=view.a)
            add("two-step", method.labels_, method.weights_)
        if "pca" in wanted and sample_weight is not None:
            skipped.append((METHODS["pca"], "it does not support the given design weights"))
        elif "pca" in wanted:
            add("pca", PCAKMeans(K, **how).fit(matrix).labels_, None)
        if "uncorrelated" in wanted:
            method = DropKMeans(K, **how).fit(matrix, sample_weight=view.a)
            add("uncorrelated", method.labels_, None)
        if "combat" in wanted:
            why = _why_no_batches(view, sample_weight)
            if why is None:
                corrected = _combat(view)
                add("combat", PlainKMeans(K, **how).fit(corrected).labels_, None)
            else:
                skipped.append((TITLES["combat"], why))
        dckm = kmeans.set_params(n_clusters=K, suspects=model.suspects) if own != "dckm" else model
        for name in ("weights", "dckm"):
            if name not in wanted or name == own or (name == "weights" and view.suspects is None):
                continue
            if name == "weights" and dckm._adjust_for(view.rows.sparse) == "weights":
                continue  # the same fit
            other = clone(dckm)
            if name == "weights":
                other.set_params(adjust="weights")
            with nested_progress():
                other.fit(X, sample_weight=sample_weight)
            add(name, other.labels_, other.weights_, mean_difference(other, X, sample_weight)[1])
        if "mixture" in wanted and own != "mixture" and view.suspects is not None:
            if view.rows.sparse:
                skipped.append((METHODS["mixture"], "it makes sparse rows dense"))
            else:
                mixture = SelectionMixture(
                    K,
                    suspects=model.suspects,
                    encoder=model.encoder,
                    random_state=model.random_state,
                )
                with nested_progress():
                    mixture.fit(X, sample_weight=sample_weight)
                difference = mean_difference(mixture, X, sample_weight)[1]
                add("mixture", mixture.labels_, mixture.weights_, difference)
    found = _measure.measure_imbalance(view, view.a * model.weights_)
    fitted[own] = (model.labels_, model.weights_, found.typical_after)
    return fitted, tuple(skipped)


def _check_also(also: Any) -> list[str]:
    """Names of OTHER_METHODS whose packages are installed."""
    names = [also] if isinstance(also, str) else list(also)
    for name in names:
        if name not in OTHER_METHODS:
            raise ValueError(f"also has {name!r}, which should be one of {list(OTHER_METHODS)}")
        package = OTHER_METHODS[name][1]
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                f"{name!r} needs {package}, which is not installed; pip install {package}"
            )
    return list(dict.fromkeys(names))


def _check_labels(title: str, labels: Any, sample: Any) -> np.ndarray:
    """Labels of any type as codes 0, 1, ... of the rows of the subsample."""
    values = np.asarray(labels, dtype=object)
    if values.shape != (sample.n,):
        raise ValueError(
            f"labels {title!r} have shape {values.shape}, and X has {sample.n} rows; there should "
            "be one label for each"
        )
    missing = np.array([_is_missing(value) for value in values], dtype=bool)
    if missing.any():
        raise ValueError(
            f"labels {title!r} are missing in {int(missing.sum())} rows, first in row "
            f"{int(missing.argmax()) + 1}; each row should have one"
        )
    codes = np.unique([str(value) for value in values], return_inverse=True)[1]
    return codes if sample.chosen is None else codes[sample.chosen]


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA has no truth value
        return True


def _why_no_batches(view: View, sample_weight: Any) -> str | None:
    """Why ComBat does not apply, or None."""
    if view.suspects is None:
        return "no suspects are given"
    if view.rows.sparse:
        return "it makes sparse rows dense"
    if sample_weight is not None:
        return "it does not support the given design weights"
    for source in view.suspect_sources:
        if values_of_source(view, int(source)).kind == "eta":
            return f"it takes categories, and suspect {view.source_names[source]!r} is numeric"
    counts = np.bincount(_batches(view))
    if counts.size < 2:
        return "the suspects have one combination of values"
    if counts.min() < 2:
        return "a combination of values of the suspects has one row; it needs two in each"
    return None


def _batches(view: View) -> np.ndarray:
    """Codes of the combinations of values of the suspects."""
    codes = [values_of_source(view, int(source)).values for source in view.suspect_sources]
    return np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel()


def _combat(view: View) -> np.ndarray:
    """The columns of the distance that are not suspects, corrected by ComBat."""
    import pandas as pd
    from combatlearn import ComBat

    values = np.asarray(view.rows.columns(view.rest), dtype=np.float64)
    values = values[:, values.std(axis=0) > 0]
    batch = pd.Series(_batches(view).astype(str))
    return np.asarray(ComBat(batch=batch).fit_transform(pd.DataFrame(values)))


# Baselines that change the rows, so that the differences of the given rows are not theirs.
OWN_ROWS = ("regressed", "combat")


def _describe(
    view: View,
    method: str,
    title: str,
    reference: Any,
    labels: np.ndarray,
    m: Any,
    difference: float | None = None,
) -> MethodRow:
    labels = np.asarray(labels)
    w = view.a if m is None else view.a * np.asarray(m)
    if difference is None and method not in OWN_ROWS:
        difference = _measure.measure_imbalance(view, w, as_they_are=True).typical_after
    return MethodRow(
        method=method,
        title=title,
        explained_variance=_measure.explained_variance(view, labels),
        associations=_measure.associations(view, labels),
        effective_size=kish_size(w) / np.count_nonzero(view.a),
        mean_difference=difference,
        silhouette=_silhouette(view, labels),
        agreement=None if reference is None else _measure.agreement(view, reference, labels),
        sizes=tuple(np.bincount(labels[view.a > 0]).tolist()),
    )


def _silhouette(view: View, labels: np.ndarray) -> float | None:
    """Silhouette of a subsample drawn with seed 0, with design weights; None if undefined."""
    present = np.flatnonzero(view.a > 0)
    rows = np.random.default_rng(0).permutation(present)[:MAX_IN_SILHOUETTE]
    count = np.unique(labels[rows]).size
    if not 2 <= count < rows.size:
        return None
    values = view.rows.take(np.sort(rows))[:, view.rest]
    return silhouette_score(
        values, labels[np.sort(rows)], sample_weight=view.a[np.sort(rows)], weight_kind="importance"
    )
