"""Methods that are compared on sites: each returns the labels of the rows that are judged.

A method sees the rows that it is fitted to and, for the rows that are judged, the columns and the
suspects, but no labels. A method without a rule for new rows gets the most generous one: see
``label_new_rows``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from unskew import DCKM, ConsensusDCKM, SelectionMixture
from unskew.baselines import RegressOutKMeans


class NotApplicable(Exception):
    """The method is not defined for this kind of data; the message is the reason."""


@dataclass(frozen=True)
class Rows:
    """Rows as the methods get them.

    X         float array of standardised columns or principal components; of a table, numbers
              standardised with the mean for missing values, and indicators of categories
    table     the table as it is (numbers, categories, missing values), or None
    suspects  one column per suspect: categories as text, or numbers
    fit       indices of the rows that methods are fitted to
    judge     indices of the rows that are labelled
    """

    X: np.ndarray
    table: pd.DataFrame | None
    suspects: pd.DataFrame
    fit: np.ndarray
    judge: np.ndarray

    @property
    def numeric_suspects(self) -> list[str]:
        return [str(c) for c in self.suspects if self.suspects[c].dtype.kind == "f"]

    @property
    def suspect_columns(self) -> np.ndarray:
        """Numbers as they are and indicators of categories that occur in the fit."""
        parts = []
        for name in self.suspects:
            values = self.suspects[name].to_numpy()
            if values.dtype.kind == "f":
                parts.append(values[:, None])
            else:
                parts.append(values[:, None] == np.unique(values[self.fit]))
        return np.hstack(parts).astype(np.float64)

    def with_suspects(self) -> tuple[Any, Any]:
        """Input of the estimators of unskew, and its suspects: the table with columns of suspects,
        or the matrix with ``suspect_columns``."""
        if self.table is not None:
            return self.table.join(self.suspects), list(self.suspects)
        columns = self.suspect_columns
        d = self.X.shape[1]
        return np.hstack([self.X, columns]), np.arange(d, d + columns.shape[1])


def take(X: Any, indices: np.ndarray) -> Any:
    return X.iloc[indices] if isinstance(X, pd.DataFrame) else X[indices]


def categorical_site(rows: Rows, name: str) -> np.ndarray:
    """The only suspect, as text."""
    if rows.numeric_suspects:
        raise NotApplicable(f"{name} takes categories, and {rows.numeric_suspects[0]} is numeric")
    if rows.suspects.shape[1] > 1:
        raise NotApplicable(f"{name} takes one suspect, and there are {rows.suspects.shape[1]}")
    return rows.suspects.iloc[:, 0].to_numpy(dtype=str)


def label_new_rows(rows: Rows, labels: np.ndarray) -> np.ndarray:
    """Labels of the judged rows from those of the fitted rows, for methods without a rule.

    A fitted row keeps its label. A new row gets the cluster with the nearest mean among the means
    of the original columns over the fitted rows of that cluster and of the new row's combination
    of suspects (all fitted rows where it has none): the mapping that suits these methods best.
    """
    known = np.full(len(rows.X), -1)
    known[rows.fit] = labels
    batch = np.array(["\t".join(row) for row in rows.suspects.to_numpy(dtype=str)])
    for one in np.unique(batch[rows.judge]):
        new = rows.judge[(batch[rows.judge] == one) & (known[rows.judge] < 0)]
        if not new.size:
            continue
        own = rows.fit[batch[rows.fit] == one]
        own = own if own.size else rows.fit
        clusters = np.unique(known[own])
        means = np.array([rows.X[own[known[own] == k]].mean(0) for k in clusters])
        distance = ((rows.X[new][:, None] - means) ** 2).sum(2)
        known[new] = clusters[distance.argmin(1)]
    return known[rows.judge]


def kmeans_of(X: np.ndarray, rows: Rows, K: int, seed: int) -> np.ndarray:
    model = KMeans(K, n_init=10, random_state=seed).fit(X[rows.fit])
    return model.predict(X[rows.judge])


# ---------------------------------------------------------------------------- methods of the field
def kmeans(rows: Rows, K: int, seed: int) -> np.ndarray:
    """KMeans(n_init=10) on all columns, the suspects included."""
    return kmeans_of(np.hstack([rows.X, rows.suspect_columns]), rows, K, seed)


def dropped(rows: Rows, K: int, seed: int) -> np.ndarray:
    """KMeans(n_init=10) without the suspects."""
    return kmeans_of(rows.X, rows, K, seed)


def regressed_out(rows: Rows, K: int, seed: int) -> np.ndarray:
    """KMeans on the residuals of least squares on the suspects."""
    columns = rows.suspect_columns
    X = np.hstack([rows.X, columns])
    suspects = np.arange(rows.X.shape[1], X.shape[1])
    how = {"init": "k-means++", "n_init": 10, "random_state": seed}
    return RegressOutKMeans(K, suspects=suspects, **how).fit(X[rows.fit]).predict(X[rows.judge])


def harmony(rows: Rows, K: int, seed: int) -> np.ndarray:
    """harmonypy.run_harmony with its defaults, then KMeans; new rows by ``label_new_rows``."""
    import harmonypy

    if rows.numeric_suspects:
        raise NotApplicable(f"Harmony takes categories, and {rows.numeric_suspects[0]} is numeric")
    found = harmonypy.run_harmony(
        rows.X[rows.fit],
        rows.suspects.iloc[rows.fit].reset_index(drop=True),
        list(rows.suspects),
        verbose=False,
        random_state=seed,
        ncores=1,
    )
    corrected = np.asarray(found.Z_corr)
    if corrected.shape[0] != rows.fit.size:
        corrected = corrected.T
    labels = KMeans(K, n_init=10, random_state=seed).fit_predict(corrected)
    return label_new_rows(rows, labels)


def combat(rows: Rows, K: int, seed: int) -> np.ndarray:
    """combatlearn.ComBat (Johnson), for several suspects NestedComBat (Fortin), then KMeans."""
    return _combat(rows, K, seed, "johnson", "fortin")


def covbat(rows: Rows, K: int, seed: int) -> np.ndarray:
    """combatlearn.ComBat(method="chen"): CovBat, then KMeans."""
    return _combat(rows, K, seed, "chen", "chen")


def _combat(rows: Rows, K: int, seed: int, method: str, nested: str) -> np.ndarray:
    from combatlearn import ComBat, NestedComBat

    if rows.numeric_suspects:
        raise NotApplicable(f"ComBat takes categories, and {rows.numeric_suspects[0]} is numeric")
    # New rows are corrected with the parameters of the fit. A column that is constant in the fit
    # has no variance to correct.
    varies = rows.X[rows.fit].std(0) > 1e-12
    X = pd.DataFrame(rows.X[:, varies])
    if rows.suspects.shape[1] > 1:
        model = NestedComBat(batch=rows.suspects, method=nested)
    else:
        model = ComBat(batch=rows.suspects.iloc[:, 0], method=method)
    model.fit(X.iloc[rows.fit])
    estimate = KMeans(K, n_init=10, random_state=seed)
    estimate.fit(np.asarray(model.transform(X.iloc[rows.fit])))
    return estimate.predict(np.asarray(model.transform(X.iloc[rows.judge])))


def scanpy_combat(rows: Rows, K: int, seed: int) -> np.ndarray:
    """scanpy.pp.combat, then KMeans; new rows by ``label_new_rows``."""
    import anndata
    import scanpy

    site = categorical_site(rows, "scanpy.pp.combat")
    obs = pd.DataFrame({"site": pd.Categorical(site[rows.fit])})
    obs.index = obs.index.astype(str)
    varies = rows.X[rows.fit].std(0) > 1e-12
    cells = anndata.AnnData(rows.X[rows.fit][:, varies], obs=obs)
    corrected = np.asarray(scanpy.pp.combat(cells, key="site", inplace=False))
    labels = KMeans(K, n_init=10, random_state=seed).fit_predict(corrected)
    return label_new_rows(rows, labels)


def gaussian_mixture(rows: Rows, K: int, seed: int) -> np.ndarray:
    """GaussianMixture(n_init=3) without the suspects, covariance type of lowest BIC."""
    X = rows.X[rows.fit]
    found = [
        GaussianMixture(K, covariance_type=kind, n_init=3, random_state=seed).fit(X)
        for kind in ("full", "tied", "diag", "spherical")
    ]
    return min(found, key=lambda model: model.bic(X)).predict(rows.X[rows.judge])


def stepmix(rows: Rows, K: int, seed: int) -> np.ndarray:
    """StepMix(n_steps=1, n_init=5), the suspects as covariates of the class shares.

    Diagonal Gaussians; of a table also categories, with missing values and n_init=2, because an
    initialization takes ten seconds. New rows are labelled with the shares of the whole sample,
    fitted rows with those of their site.
    """
    from stepmix import StepMix

    first = np.cumsum([0] + [_width(rows, name) for name in rows.suspects])[:-1]
    keep = np.setdiff1d(  # one level of each category is the reference
        np.arange(rows.suspect_columns.shape[1]),
        [f for f, name in zip(first, rows.suspects) if name not in rows.numeric_suspects],
    )
    Y = rows.suspect_columns[:, keep]
    X, measurement = rows.X, "continuous"
    how: dict[str, Any] = {"init_params": "kmeans", "n_init": 5}
    if rows.table is not None:
        X, measurement = _stepmix_table(rows)
        how = {"init_params": "random", "n_init": 2}  # its k-means does not take missing values
    model = StepMix(
        K,
        n_steps=1,
        measurement=measurement,
        structural="covariate",
        random_state=seed,
        verbose=0,
        progress_bar=0,
        **how,
    )
    model.fit(X[rows.fit], Y[rows.fit])
    labels = model.predict(X[rows.judge])
    fitted = np.isin(rows.judge, rows.fit)
    if fitted.any():
        own = rows.judge[fitted]
        labels[fitted] = model.predict(X[own], Y[own])
    return labels


def _width(rows: Rows, name: str) -> int:
    if name in rows.numeric_suspects:
        return 1
    return np.unique(rows.suspects[name].to_numpy()[rows.fit]).size


def _stepmix_table(rows: Rows) -> tuple[np.ndarray, dict]:
    """Numbers, then codes of categories, and the measurement model that describes them."""
    assert rows.table is not None
    is_number = {c: pd.api.types.is_numeric_dtype(rows.table[c]) for c in rows.table}
    numbers = [c for c in rows.table if is_number[c]]
    categories = [c for c in rows.table if not is_number[c]]
    values = rows.table[numbers].to_numpy(np.float64)
    fitted = values[rows.fit]
    values = (values - np.nanmean(fitted, 0)) / np.nanstd(fitted, 0)
    codes = [pd.Categorical(rows.table[c]).codes.astype(float) for c in categories]
    coded = np.array(codes).T
    model: dict[str, Any] = {"numbers": {"model": "continuous_nan", "n_columns": len(numbers)}}
    if categories:
        model["categories"] = {"model": "categorical_nan", "n_columns": len(categories)}
        values = np.hstack([values, np.where(coded < 0, np.nan, coded)])
    return values, model


# --------------------------------------------------------------------------- estimators of unskew
def _dckm(mode: str) -> Callable[[Rows, int, int], np.ndarray]:
    def fit(rows: Rows, K: int, seed: int) -> np.ndarray:
        X, suspects = rows.with_suspects()
        model = DCKM(K, suspects=suspects, adjust=mode, n_threads=1, random_state=seed)
        return model.fit(take(X, rows.fit)).predict(take(X, rows.judge))

    fit.__doc__ = f'DCKM(K, suspects=..., adjust="{mode}") with its defaults.'
    return fit


def consensus(rows: Rows, K: int, seed: int) -> np.ndarray:
    """ConsensusDCKM(K, suspects=...) with its defaults."""
    X, suspects = rows.with_suspects()
    model = ConsensusDCKM(K, suspects=suspects, n_threads=1, random_state=seed)
    return model.fit(take(X, rows.fit)).predict(take(X, rows.judge))


def mixture(rows: Rows, K: int, seed: int) -> np.ndarray:
    """SelectionMixture(K, suspects=...) with its defaults; new rows with shares="population"."""
    table = rows.table
    if table is None:
        table = pd.DataFrame(rows.X, columns=[f"x{i}" for i in range(rows.X.shape[1])])
    table = table.join(rows.suspects)
    model = SelectionMixture(K, suspects=list(rows.suspects), random_state=seed)
    model.fit(table.iloc[rows.fit])
    labels = model.predict(table.iloc[rows.judge], shares="population")
    known = np.full(len(table), -1)
    known[rows.fit] = model.labels_
    return np.where(known[rows.judge] >= 0, known[rows.judge], labels)


class Method(NamedTuple):
    """function(rows, K, seed) -> labels of the judged rows; package that it needs, or None; whether
    it is an estimator of unskew."""

    function: Callable[[Rows, int, int], np.ndarray]
    package: str | None = None
    own: bool = False


METHODS = {
    "k-means": Method(kmeans),
    "suspects dropped": Method(dropped),
    "regressed out": Method(regressed_out),
    "Harmony": Method(harmony, "harmonypy"),
    "ComBat": Method(combat, "combatlearn"),
    "CovBat": Method(covbat, "combatlearn"),
    "ComBat (scanpy)": Method(scanpy_combat, "scanpy"),
    "GaussianMixture": Method(gaussian_mixture),
    "StepMix": Method(stepmix, "stepmix"),
    "DCKM weights": Method(_dckm("weights"), own=True),
    "DCKM effects": Method(_dckm("effects"), own=True),
    "DCKM both": Method(_dckm("both"), own=True),
    "ConsensusDCKM": Method(consensus, own=True),
    "SelectionMixture": Method(mixture, own=True),
}


def installed_methods() -> list[str]:
    """Methods whose package is installed."""
    return [
        name
        for name, method in METHODS.items()
        if method.package is None or importlib.util.find_spec(method.package) is not None
    ]
