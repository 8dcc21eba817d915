"""Baselines on other feature spaces: all or selected columns, or principal components."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    clone,
)
from sklearn.decomposition import PCA
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from .._arrays import add_up
from .._data.tiled import as_tiled
from .._preprocessing import column_stats
from .._validation import check_number
from ._base import BaselineKMeans


class PlainKMeans(BaselineKMeans):
    """k-means on all columns, or without the suspects.

    scikit-learn's KMeans with the initializations of DCKM. If all biased columns are known,
    dropping them is sufficient; if the suspects also affect other columns, it is not.

    Parameters
    ----------
    n_clusters : int, default=8
    suspects : str, int, list of names or indices, boolean mask, or None
        Nuisance (batch) columns through which the bias came in: site, scanner, channel. They are
        excluded from the distance.
    init : {"partition", "random", "k-means++", "principal"} or array
        As in DCKM, including labels (n,) and centres (n_clusters, n_features). If a method uses
        another feature space, partitions of the rows are kept, centres are transformed, and only
        "k-means++" uses the distances of the new space.
    n_init, max_iter, tol, random_state
        Number of initializations (the solution of lowest inertia is kept; one if the initialization
        is deterministic), and the parameters of scikit-learn's KMeans.

    Attributes
    ----------
    labels_ : ndarray (n,)
    cluster_centers_ : ndarray (n_clusters, n_features)
        In the columns of X; columns that are not part of the distance have their weighted mean, for
        interpretation.
    inertia_, n_iter_ : float, int
        sum_i w_i ||x_i - C[label_i]||^2 in the distance; iterations of the best restart.

    Examples
    --------
    >>> from sklearn.metrics import adjusted_rand_score
    >>> from unskew.baselines import PlainKMeans
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(1000, rate=0.8, random_state=0)
    >>> model = PlainKMeans(4, suspects=data.suspects, n_init=3, random_state=0).fit(data.X)
    >>> round(adjusted_rand_score(data.y_population, model.predict(data.X_population)), 1)
    0.4
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        suspects=None,
        init="partition",
        n_init=10,
        max_iter=300,
        tol=1e-4,
        random_state=None,
    ):
        super().__init__(n_clusters, init, n_init, max_iter, tol, random_state)
        self.suspects = suspects

    def _learn(self, X: Any, a: np.ndarray, seed: int) -> np.ndarray:
        self._columns = np.arange(X.shape[1])
        if self.suspects is not None:
            self._columns = np.delete(self._columns, self._find_suspects(X.shape[1]))
        return a


class PCAKMeans(BaselineKMeans):
    """k-means on the first principal components (PCA+KM of the paper).

    scikit-learn's PCA, then k-means on z = components (x - mean), each divided by its standard
    deviation if ``whiten``. PCA does not support weights, so ``sample_weight`` is refused.

    Parameters
    ----------
    n_clusters : int, default=8
    n_components : int or None
        None: n_clusters - 1, at least 1 and at most min(n, d). Components without variance (up to
        rounding) are dropped, because whitening would scale them to noise of variance 1.
    whiten : bool, default=False
    init, n_init, max_iter, tol, random_state
        See PlainKMeans.

    Attributes
    ----------
    pca_ : the fitted PCA
    n_components_ : int
    labels_, cluster_centers_, inertia_, n_iter_
        See PlainKMeans; centres are projected back into the columns of X, inertia is of z.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from unskew.baselines import PCAKMeans
    >>> model = PCAKMeans(3, random_state=0).fit(load_iris().data)
    >>> model.n_components_, model.cluster_centers_.shape
    (2, (3, 4))
    """

    _min_rows = 2
    _init_on_all = True

    def __init__(
        self,
        n_clusters=8,
        *,
        n_components=None,
        whiten=False,
        init="partition",
        n_init=10,
        max_iter=300,
        tol=1e-4,
        random_state=None,
    ):
        super().__init__(n_clusters, init, n_init, max_iter, tol, random_state)
        self.n_components = n_components
        self.whiten = whiten

    # Not a named parameter: scikit-learn inspects the signature for support of weights.
    def fit(self, X, y=None, **refused):  # type: ignore[override]
        """Learn components, then clusters. X : array or CSR matrix, or a table; y : ignored."""
        if refused.pop("sample_weight", None) is not None:
            raise ValueError(
                "sample_weight should be None for PCAKMeans: scikit-learn's PCA has no weights"
            )
        if refused:
            raise TypeError(f"PCAKMeans.fit got an unexpected argument {next(iter(refused))!r}")
        return super().fit(X)

    def _learn(self, X: Any, a: np.ndarray, seed: int) -> np.ndarray:
        most = min(X.shape)
        if self.n_components is None:
            count = min(max(self.n_clusters - 1, 1), most)
        else:
            check_number("n_components", self.n_components, numbers.Integral, low=1, high=most)
            count = int(self.n_components)
        # "auto" means ARPACK for sparse data, which cannot compute all components.
        solver = "covariance_eigh" if sp.issparse(X) and count == most else "auto"
        pca = PCA(count, whiten=bool(self.whiten), svd_solver=solver, random_state=seed)
        with np.errstate(invalid="ignore"):  # variance ratios of constant data are 0 / 0
            variance = pca.fit(X).explained_variance_
            rank = int((variance > variance[0] * np.finfo(X.dtype).eps * max(X.shape)).sum())
            if rank < count:
                pca = clone(pca).set_params(n_components=max(rank, 1)).fit(X)
        self.pca_, self.n_components_ = pca, pca.n_components_
        return a

    def _to_space(self, X: Any) -> Any:
        return np.ascontiguousarray(self.pca_.transform(X))

    def _centres_of(self, C: np.ndarray, means: np.ndarray) -> np.ndarray:
        return self.pca_.inverse_transform(C)


class DropKMeans(BaselineKMeans):
    """k-means without columns that are correlated with others (Drop+KM of the paper).

    From left to right, a column is kept unless |r| with a column already kept exceeds
    ``threshold``; r is the (weighted) correlation. Constant columns, which have none, are kept.

    Parameters
    ----------
    n_clusters : int, default=8
    threshold : float in [0, 1], default=0.7
    init, n_init, max_iter, tol, random_state
        See PlainKMeans.

    Attributes
    ----------
    kept_ : ndarray of int
        Indices of the columns used by k-means.
    n_dropped_ : int
    labels_, cluster_centers_, inertia_, n_iter_
        See PlainKMeans.

    Examples
    --------
    >>> import numpy as np
    >>> from unskew.baselines import DropKMeans
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = DropKMeans(2, random_state=0).fit(np.c_[X, -X[:, 0], np.ones(50)])
    >>> model.kept_, model.n_dropped_
    (array([0, 1, 3]), 1)
    """

    _init_on_all = True

    def __init__(
        self,
        n_clusters=8,
        *,
        threshold=0.7,
        init="partition",
        n_init=10,
        max_iter=300,
        tol=1e-4,
        random_state=None,
    ):
        super().__init__(n_clusters, init, n_init, max_iter, tol, random_state)
        self.threshold = threshold

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("threshold", self.threshold, low=0, high=1)

    def _learn(self, X: Any, a: np.ndarray, seed: int) -> np.ndarray:
        rows = as_tiled(X, 1)
        about = column_stats(rows, a)
        per_sd = np.divide(1.0, about.sd, out=np.zeros(rows.d), where=about.sd > 0)

        def products(tile: np.ndarray, a_: np.ndarray) -> tuple:
            Z = (tile - about.mean) * per_sd
            return (Z.T @ (a_[:, None] * Z),)

        r = np.abs(add_up(rows.map(products, a))[0]) / a.sum()
        keep = np.ones(rows.d, dtype=bool)
        for j in range(rows.d):
            if keep[j]:
                keep[j + 1 :] &= r[j, j + 1 :] <= self.threshold
        self.kept_ = self._columns = np.flatnonzero(keep)
        self.n_dropped_ = int(rows.d - self.kept_.size)
        return a


class SelectKMeans(BaselineKMeans):
    """k-means on columns selected by an unsupervised feature selector.

    Parameters
    ----------
    selector : a scikit-learn selector
        Cloned and fitted to X alone; ``get_support()`` gives the selected columns. For example
        those of ``unskew.feature_selection``, or VarianceThreshold.
    n_clusters : int, default=8
    init, n_init, max_iter, tol, random_state
        See PlainKMeans. The selector has its own random state.

    Attributes
    ----------
    selector_ : the fitted selector
    kept_ : ndarray of int
        Indices of the selected columns.
    labels_, cluster_centers_, inertia_, n_iter_
        See PlainKMeans.

    Notes
    -----
    ``sample_weight`` is passed to k-means, and to the selector if its ``fit`` accepts it. Other
    selectors treat all rows of positive weight equally: with them, weight 2 is equivalent to the
    row twice for k-means only.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.feature_selection import VarianceThreshold
    >>> from unskew.baselines import SelectKMeans
    >>> SelectKMeans(VarianceThreshold(0.6), 3, random_state=0).fit(load_iris().data).kept_
    array([0, 2])
    """

    _init_on_all = True

    def __init__(
        self,
        selector,
        n_clusters=8,
        *,
        init="partition",
        n_init=10,
        max_iter=300,
        tol=1e-4,
        random_state=None,
    ):
        super().__init__(n_clusters, init, n_init, max_iter, tol, random_state)
        self.selector = selector

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if isinstance(self.selector, BaseEstimator):
            tags.input_tags.sparse = get_tags(self.selector).input_tags.sparse
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        missing = [name for name in ("fit", "get_support") if not hasattr(self.selector, name)]
        if missing or isinstance(self.selector, type):
            raise TypeError(
                f"selector={self.selector!r} should be a scikit-learn selector, an object with fit "
                "and get_support"
            )

    def _learn(self, X: Any, a: np.ndarray, seed: int) -> np.ndarray:
        present = a > 0
        seen, weight = (X, a) if present.all() else (X[present], a[present])
        takes_weight = has_fit_parameter(self.selector, "sample_weight")
        selector = clone(self.selector)
        self.selector_ = selector.fit(seen, **({"sample_weight": weight} if takes_weight else {}))
        self.kept_ = self._columns = np.flatnonzero(self.selector_.get_support())
        if self.kept_.size == 0:
            raise ValueError(f"selector={self.selector!r} selects none of {X.shape[1]} columns")
        return a
