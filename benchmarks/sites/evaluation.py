"""evaluate: any data set with sites and known groups through all methods."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from unskew.metrics import adjusted_rand_score, association, normalized_mutual_info_score

from .methods import METHODS, NotApplicable, Rows, installed_methods

MAX_COLUMNS = 50  # matrices with more columns are reduced
N_COMPONENTS = 20


def evaluate(
    X: Any,
    site: Any,
    truth: Any,
    K: int,
    *,
    fit_on: Any = None,
    judge_on: Any = None,
    standardize: bool = True,
    methods: Iterable[str] | None = None,
    seed: int = 0,
) -> list[dict]:
    """Fit methods to a part of the rows and judge their labels of another by the true groups.

    Columns are standardised by the fitted rows; a matrix with more than 50 columns is reduced to
    the 20 first principal components of the fitted rows instead, which are not standardised but
    divided by one number, so that their mean variance is 1. Of a table, methods that take tables
    get it as it is; the others get numbers standardised with the mean for missing values, and
    indicators of categories (two different categories have distance 1).

    Parameters
    ----------
    X : array (n, d) or pandas table
        Columns without the suspects; a table may have categories and missing values.
    site : array (n,) or (n, q), or pandas table
        Suspects: nuisance (batch) variables through which the bias came in. Float columns are
        numeric suspects, all others are categories.
    truth : array (n,)
        The true groups.
    K : int
        Number of clusters.
    fit_on, judge_on : array of indices or None
        Rows that methods are fitted to, for example a selection, and rows on which their labels are
        compared with the truth, for example all rows. None: all rows.
    standardize : bool
        False: a matrix of at most 50 columns is only divided by one number, because its columns
        are principal components or have a common unit.
    methods : list of names or None
        Keys of METHODS; None: all whose package is installed.
    seed : int
        random_state of the methods.

    Returns
    -------
    list of dicts, one per method
        method; status: "ok", "not applicable" or "failed", with its reason; ari and nmi of the
        judged rows (None if there is one true group only); association: of the labels with the
        suspects (Cramer's V, or eta; the largest one) in the judged rows; true_association: the
        same of the true groups; n_found: number of clusters; seconds: of fit and prediction.

    Examples
    --------
    >>> from unskew.simulate import make_sites
    >>> from benchmarks.sites import evaluate
    >>> data = make_sites(200, rate=0.5, random_state=0)
    >>> found = evaluate(data.X[:, data.core], data.site, data.y, 4, methods=["suspects dropped"])
    >>> found[0]["method"], found[0]["status"]
    ('suspects dropped', 'ok')
    """
    chosen = installed_methods() if methods is None else list(methods)
    unknown = [name for name in chosen if name not in METHODS]
    if unknown:
        raise ValueError(f"methods has {unknown[0]!r}, which should be one of {list(METHODS)}")
    truth = np.asarray(truth)
    n = len(truth)
    everything = np.arange(n)
    fit = everything if fit_on is None else np.asarray(fit_on)
    judge = everything if judge_on is None else np.asarray(judge_on)
    suspects = as_suspects(site)
    if len(suspects) != n or len(X) != n:
        raise ValueError(f"X has {len(X)} rows, site {len(suspects)} and truth {n}; equal expected")
    matrix, table = prepare(X, fit, standardize)
    rows = Rows(matrix, table, suspects, fit, judge)
    true_association = strongest_association(truth[judge], suspects.iloc[judge])
    results = []
    for name in chosen:
        row: dict[str, Any] = {"method": name, "true_association": true_association}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load_package(METHODS[name].package)
                begin = time.perf_counter()  # without the time of the import
                labels = METHODS[name].function(rows, K, seed)
        except NotApplicable as error:
            row |= {"status": "not applicable", "reason": str(error)}
        except Exception as error:
            row |= {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
        else:
            row["seconds"] = time.perf_counter() - begin
            row |= {"status": "ok", "reason": "", **score(truth[judge], labels)}
            row["association"] = strongest_association(labels, suspects.iloc[judge])
        results.append(row)
    return results


def load_package(name: str | None) -> None:
    """Import the package of a method, so that its import is not timed."""
    if name is None:
        return
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise NotApplicable(f"{error.name} is not installed") from error


def score(truth: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """ARI and NMI, which are not defined for a single true group, and the number of clusters."""
    n_found = int(np.unique(labels).size)
    if np.unique(truth).size < 2:
        return {"ari": None, "nmi": None, "n_found": n_found}
    return {
        "ari": adjusted_rand_score(truth, labels),
        "nmi": normalized_mutual_info_score(truth, labels),
        "n_found": n_found,
    }


def as_suspects(site: Any) -> pd.DataFrame:
    """One column per suspect: floats are numbers, all others categories, as text."""
    if isinstance(site, pd.DataFrame):
        frame = site.reset_index(drop=True)
    else:
        values = np.asarray(site)
        values = values[:, None] if values.ndim == 1 else values
        q = values.shape[1]
        names = ["suspect"] if q == 1 else [f"suspect{j}" for j in range(q)]
        frame = pd.DataFrame(values, columns=names)
    for name in frame:
        if frame[name].dtype.kind == "f":
            continue
        text = np.array([f"level {value}" for value in frame[name]], dtype=object)
        frame = frame.assign(**{str(name): text})
    return frame


def strongest_association(labels: np.ndarray, suspects: pd.DataFrame) -> float:
    values = [
        association(
            labels,
            suspects[name].to_numpy(),
            kind="eta" if suspects[name].dtype.kind == "f" else "cramers_v",
        )
        for name in suspects
    ]
    return float(max(values))


def prepare(X: Any, fit: np.ndarray, standardize: bool) -> tuple[np.ndarray, pd.DataFrame | None]:
    """Matrix for methods that take numbers, and the table for those that take tables."""
    if not isinstance(X, pd.DataFrame):
        X = np.asarray(X, dtype=np.float64)
        if X.shape[1] > MAX_COLUMNS:
            components = PCA(N_COMPONENTS, random_state=0).fit(X[fit])
            return rescaled(components.transform(X), fit), None
        return (standardized(X, fit) if standardize else rescaled(X, fit)), None
    if not standardize:
        raise ValueError("standardize=False is for matrices, and X is a table")
    table = X.reset_index(drop=True)
    parts = []
    for name in table:
        column = table[name]
        if pd.api.types.is_numeric_dtype(column):
            parts.append(standardized(column.to_numpy(np.float64)[:, None], fit))
        else:
            dummies = pd.get_dummies(column, dtype=float).to_numpy()
            parts.append(dummies / np.sqrt(2))
    return np.hstack(parts), table


def rescaled(X: np.ndarray, fit: np.ndarray) -> np.ndarray:
    """Divided by one number: mean variance 1 in the fitted rows."""
    return X / np.sqrt(X[fit].var(0).mean())


def standardized(X: np.ndarray, fit: np.ndarray) -> np.ndarray:
    """Mean 0 and variance 1 in the fitted rows; 0 for missing values and constant columns."""
    mean, sd = np.nanmean(X[fit], 0), np.nanstd(X[fit], 0)
    Z = (X - mean) / np.where(sd > 0, sd, 1.0)
    return np.where(np.isnan(Z), 0.0, Z)
