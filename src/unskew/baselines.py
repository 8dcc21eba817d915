"""What one would do instead of DCKM: k-means after dropping, projecting, regressing or weighting.

Each class moves the rows into a space (some columns, principal components, residuals), perhaps with
weights, and runs scikit-learn's k-means there. All draw their starts as DCKM does: the same
``init`` and ``random_state`` give the same partition to every method, so that a difference between
two methods is not one between two starts.
"""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    clone,
)
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from . import _kmeans
from ._encode import describe_columns, find_columns
from ._kmeans import Distance
from ._terms import add_up
from .dckm import check_start, start_clusters
from .weights import (
    DecorrelationWeights,
    as_rows,
    check_number,
    check_weights,
    check_word,
    whole_or_not_at_all,
)

__all__ = [
    "DecorrelatedKMeans",
    "DropKMeans",
    "PCAKMeans",
    "PlainKMeans",
    "RegressOutKMeans",
    "SelectKMeans",
]


class _KMeansFromStart(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """scikit-learn's k-means from the starts of this package, in a space that a subclass learns.

    A subclass says ``_learn(X, a, seed)``, which returns the weights w of k-means, and, where the
    space is more than the columns ``_columns``, ``_to_space``, ``_new_to_space``, ``_centres_of``.
    """

    _least_rows = 1
    _start_on_all = False  # or on the columns of the distance

    def __init__(self, n_clusters, init, n_init, max_iter, tol, random_state):
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        for name in ("n_clusters", "n_init", "max_iter"):
            check_number(name, getattr(self, name), numbers.Integral, low=1)
        check_number("tol", self.tol, low=0)

    def _find_suspects(self, d: int) -> np.ndarray:
        names = getattr(self, "feature_names_in_", None)
        suspects = find_columns(self.suspects, names, d, "suspects")
        if suspects.size in (0, d):
            which = "no column" if suspects.size == 0 else f"every column (n_features={d})"
            raise ValueError(
                f"suspects={self.suspects!r} names {which}; it should name some columns and leave "
                "some to cluster on"
            )
        return suspects

    def _learn(self, X: Any, a: np.ndarray, seed: int) -> np.ndarray:
        self._columns = np.arange(X.shape[1])
        return a

    def _to_space(self, X: Any) -> Any:
        """Rows, or centres, given in the columns of X, as k-means saw the rows it learned from."""
        return X if self._columns.size == X.shape[1] else X[:, self._columns]

    def _new_to_space(self, X: Any) -> Any:
        return self._to_space(X)

    def _centres_of(self, C: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Centres C of the space in the columns of X; elsewhere the weighted means of the rows."""
        means[:, self._columns] = C
        return means

    def fit(self, X, y=None, sample_weight=None):
        """Learn the space, then the clusters.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or a table of numeric columns
        y : ignored
        sample_weight : array (n,) or None
            Weight 2 = the row twice, 0 = the row absent, though labelled.

        Returns
        -------
        self
        """
        with whole_or_not_at_all(self):
            return self._fit(X, sample_weight)

    def _fit(self, X: Any, sample_weight: Any):
        self._check_parameters()
        X = validate_data(
            self,
            X,
            accept_sparse="csr" if get_tags(self).input_tags.sparse else False,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_min_samples=self._least_rows,
        )
        n, d = X.shape
        a, K = check_weights(sample_weight, n), self.n_clusters
        present = int((a > 0).sum())
        if present < K:
            of_weight = " of positive weight" if present < n else ""
            raise ValueError(f"n_clusters={K} should be <= n_samples={present}{of_weight}")
        init = check_start(self.init, n, K, d)
        # As DCKM draws: one seed for each start, the last one for everything else.
        n_init = self.n_init if isinstance(init, str) and init != "principal" else 1
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=n_init + 1)
        everything = as_rows(_with_short_indices(X), 1)
        w = self._learn(everything.X, a, int(seeds[-1]))
        if isinstance(init, str) and init == "principal":
            # Before the space is changed: one partition for all methods. (And whitened data have
            # no first component.)
            columns = np.arange(d) if self._start_on_all else self._columns
            init = _kmeans.start_principal(everything, Distance(columns), a, K)
        elif not isinstance(init, str) and init.ndim == 2:
            init = self._to_space(init.astype(X.dtype)).astype(np.float64)
        rows = as_rows(self._to_space(everything.X), 1)
        distance = Distance(np.arange(rows.d))
        C, self.n_iter_ = self._best_of_starts(rows, distance, a, w, init, seeds[:-1])
        self._centres = C
        self.labels_, e, _ = _kmeans.label(rows, distance, C)
        self.inertia_ = float(w @ e)
        means = _kmeans.start_from_labels(everything, Distance(np.arange(d)), w, self.labels_, K)
        self.cluster_centers_ = self._centres_of(C, means).astype(X.dtype)
        found = np.unique(self.labels_[w > 0]).size
        if found < K:
            warnings.warn(
                f"Number of distinct clusters ({found}) found smaller than n_clusters ({K}). "
                "Possibly due to duplicate points in X.",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif self.n_iter_ == self.max_iter:
            warnings.warn(
                f"{type(self).__name__} used all of max_iter={self.max_iter} iterations of k-means "
                "and may not have settled; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _best_of_starts(self, rows, distance, a, w, init, seeds) -> tuple[np.ndarray, int]:
        """Centres and iterations of the start that ends with the lowest inertia.

        A start is drawn with the design weights a, by all methods alike; the means of its
        partition are weighted by w, as all later ones. Rows without weight are left out: they
        would count in scikit-learn's tolerance and could be chosen to refill an empty cluster.
        """
        K, counted = self.n_clusters, w > 0
        if counted.sum() < K:
            raise ValueError(
                f"n_clusters={K} should be <= the {counted.sum()} rows to which the learned "
                "weights leave any weight"
            )
        used, weight, tol = rows.X, w, self.tol
        if not counted.all():
            used, weight = rows.X[counted], w[counted]
        if np.ptp(weight) > 0:
            # scikit-learn's tol is a share of the unweighted variance.
            part = as_rows(used, 1)
            plain = (describe_columns(part, np.ones(part.n)).sd ** 2).sum()
            weighted = (describe_columns(part, weight).sd ** 2).sum()
            tol = tol * weighted / plain if plain > 0 else tol
        is_partition = init == "partition" if isinstance(init, str) else init.ndim == 1
        best = None
        for seed in seeds:
            start = start_clusters(rows, distance, a, K, init, np.random.RandomState(seed))
            C = start.C
            if is_partition and w is not a:
                C = _kmeans.start_from_labels(rows, distance, w, start.labels, K)
            model = KMeans(
                K, init=C.astype(rows.dtype), n_init=1, max_iter=int(self.max_iter), tol=float(tol)
            )
            with warnings.catch_warnings():  # said once, of the start that is kept
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(used, sample_weight=weight)
            if best is None or model.inertia_ < best.inertia_:
                best = model
        return best.cluster_centers_, best.n_iter_

    def _new_rows(self, X: Any):
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )
        rows = as_rows(self._new_to_space(as_rows(X, 1).X), 1)
        return rows, Distance(np.arange(rows.d))

    def predict(self, X):
        """Nearest centre of each row in the learned space. Returns labels (n,)."""
        return _kmeans.label(*self._new_rows(X), self._centres).labels

    def transform(self, X):
        """Distance of each row to each centre in the learned space. Returns (n, n_clusters)."""
        rows, _ = self._new_rows(X)
        parts = rows.map(lambda tile: _kmeans.distances(tile, self._centres), dense=False)
        return np.concatenate(list(parts))

    def score(self, X, y=None, sample_weight=None):
        """Minus the mean squared distance to the nearest centre; larger is better, but the
        spaces of two methods differ, and so do their scores."""
        rows, distance = self._new_rows(X)
        a = check_weights(sample_weight, rows.n)
        return -float(a @ _kmeans.label(rows, distance, self._centres).e) / float(a.sum())

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters


def _with_short_indices(X: Any) -> Any:
    """CSR with 32-bit indices where they suffice: scikit-learn's k-means takes no others."""
    if not sp.issparse(X) or X.nnz > np.iinfo(np.int32).max:
        return X
    short = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sp.csr_array((X.data, *short), shape=X.shape)


def _dense(X: Any) -> np.ndarray:
    return (X.toarray() if sp.issparse(X) else X).astype(np.float64)


class PlainKMeans(_KMeansFromStart):
    """k-means on all columns, or without the suspects: the baseline of baselines.

    scikit-learn's KMeans from the starts of DCKM. When every biased column is known, leaving them
    out is as good as anything; when they left a footprint in other columns, it is not.

    Parameters
    ----------
    n_clusters : int, default=8
    suspects : str, int, list of names or indices, boolean mask, or None
        Columns that are left out of the distance.
    init : {"partition", "random", "k-means++", "principal"} or array
        As in DCKM, labels (n,) and centres (n_clusters, n_features) too. Where a method changes the
        space, partitions are those of the same rows, centres are moved along, and only "k-means++"
        draws by the distances of the new space.
    n_init, max_iter, tol, random_state
        Starts (the lowest inertia is kept; one if nothing is random), and scikit-learn's words.

    Attributes
    ----------
    labels_ : ndarray (n,)
    cluster_centers_ : ndarray (n_clusters, n_features)
        In the columns of X; columns outside the distance have their weighted mean, for reading.
    inertia_, n_iter_ : float, int
        sum_i w_i ||x_i - C[label_i]||^2 in the distance; iterations of the start that was kept.

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


class PCAKMeans(_KMeansFromStart):
    """k-means on the first principal components (PCA+KM of the paper).

    scikit-learn's PCA, then k-means on z = components (x - mean), each divided by its standard
    deviation if ``whiten``. It cannot weigh rows, so ``sample_weight`` is refused.

    Parameters
    ----------
    n_clusters : int, default=8
    n_components : int or None
        None: n_clusters - 1, at least 1 and at most min(n, d). Components without variance (to
        rounding) are left out: whitening would blow them up to noise of variance 1.
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

    _least_rows = 2
    _start_on_all = True

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

    # Not a parameter by name: scikit-learn reads the signature to know who takes weights.
    def fit(self, X, y=None, **refused):
        """Learn components, then clusters. X : array or CSR matrix, or a table; y : ignored."""
        if refused.pop("sample_weight", None) is not None:
            raise ValueError(
                "sample_weight should be None for PCAKMeans: scikit-learn's PCA cannot weigh rows"
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
        # "auto" is ARPACK for sparse data, which cannot give all components.
        solver = "covariance_eigh" if sp.issparse(X) and count == most else "auto"
        pca = PCA(count, whiten=bool(self.whiten), svd_solver=solver, random_state=seed)
        with np.errstate(invalid="ignore"):  # constant data have no shares of variance
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


class DropKMeans(_KMeansFromStart):
    """k-means without the columns that repeat another one (Drop+KM of the paper).

    From left to right, a column is kept unless |r| with a column kept before exceeds
    ``threshold``; r is the (weighted) correlation. A constant column has none and is kept.

    Parameters
    ----------
    n_clusters : int, default=8
    threshold : float in [0, 1], default=0.7
    init, n_init, max_iter, tol, random_state
        See PlainKMeans.

    Attributes
    ----------
    kept_ : ndarray of int
        Indices of the columns k-means saw.
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

    _start_on_all = True

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
        rows = as_rows(X, 1)
        about = describe_columns(rows, a)
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


class DecorrelatedKMeans(_KMeansFromStart):
    """Weights that decorrelate the columns first, weighted k-means after (Dec+KM of the paper).

    The two-step rival of DCKM: DecorrelationWeights, which know nothing of clusters, then

        argmin over C, labels of sum_i w_i ||x_i - C[label_i]||^2

    Parameters
    ----------
    n_clusters : int, default=8
    weights : {"paper", "converged"}
        "paper": 20 of the authors' steps on the balance loss alone, no spread and no mass term.
        "converged": the relative scale, run to its end, with ``spread_strength``.
    spread_strength : float or None
        For "converged" only: None means 0.1, as in DCKM; 0 is the balance loss alone, whose minimum
        is of little use: emptying all sites but one balances the sites (measured on
        make_site_footprint with its suspects: 99 % of the weight on one of four sites, effective
        size 1 %). The steps of "paper" end long before; a small spread_strength may not.
    suspects : str, int, list of names or indices, boolean mask, or None
        Only pairs of a suspect and another column are balanced. None: all pairs.
    cluster_on : {"rest", "all"}
        "rest": suspects are not part of the distance; "all": they are.
    n_bins : int, default=5
        Quantile bins, as treatments, of a column with more than two values.
    init, n_init, max_iter, tol, random_state
        See PlainKMeans; they are those of k-means.

    Attributes
    ----------
    weights_, effective_sample_size_, imbalance_, imbalance_start_
        See DecorrelationWeights, whose fitted object is ``decorrelation_``.
    labels_, cluster_centers_, inertia_, n_iter_
        See PlainKMeans; w is sample_weight times ``weights_``.

    Examples
    --------
    >>> from unskew.baselines import DecorrelatedKMeans
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(500, random_state=0)
    >>> model = DecorrelatedKMeans(4, suspects=data.suspects, n_init=1, random_state=0).fit(data.X)
    >>> model.imbalance_ < model.imbalance_start_ / 2, model.effective_sample_size_ < 0.5
    (True, True)
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        weights="paper",
        spread_strength=None,
        suspects=None,
        cluster_on="rest",
        n_bins=5,
        init="partition",
        n_init=10,
        max_iter=300,
        tol=1e-4,
        random_state=None,
    ):
        super().__init__(n_clusters, init, n_init, max_iter, tol, random_state)
        self.weights = weights
        self.spread_strength = spread_strength
        self.suspects = suspects
        self.cluster_on = cluster_on
        self.n_bins = n_bins

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_word("weights", self.weights, ("paper", "converged"))
        check_word("cluster_on", self.cluster_on, ("rest", "all"))
        if self.weights == "paper" and self.spread_strength is not None:
            raise ValueError(
                f"spread_strength={self.spread_strength!r} has no meaning with weights='paper', "
                "which has no spread term; leave it None or use weights='converged'"
            )

    def _learn(self, X: Any, a: np.ndarray, seed: int) -> np.ndarray:
        suspects = None if self.suspects is None else self._find_suspects(X.shape[1])
        how = {"suspects": suspects, "n_bins": self.n_bins, "random_state": seed}
        if self.weights == "paper":
            if not np.isin(a, (0.0, 1.0)).all():
                raise ValueError(
                    f"sample_weight has {a[(a != 0) & (a != 1)][0]:g}, but weights='paper' is "
                    "defined for weights 0 and 1 only; use weights='converged'"
                )
            how |= {"scale": "paper", "solver": "paper", "max_iter": 20, "tol": 0.0}
            how |= {"spread_strength": 0.0, "mass_strength": 0.0}
        else:
            spread = 0.1 if self.spread_strength is None else self.spread_strength
            how |= {"spread_strength": spread, "max_iter": 1000}
        model = DecorrelationWeights(**how).fit(X, sample_weight=a)
        self.decorrelation_, self.weights_ = model, model.weights_
        self.imbalance_, self.imbalance_start_ = model.imbalance_, model.imbalance_start_
        self.effective_sample_size_ = model.effective_sample_size_
        self._columns = np.arange(X.shape[1])
        if suspects is not None and self.cluster_on == "rest":
            self._columns = np.delete(self._columns, suspects)
        return a * model.weights_  # under "paper" a is 0 or 1, and weights_ 0 with it


class RegressOutKMeans(_KMeansFromStart):
    """k-means after regressing the suspects out of every other column.

    With z the suspects and x the other columns of a row, the (weighted) least-squares fit of x on z
    with an intercept is taken out, and k-means runs on

        y = x - B'(z - mean of z)

    Columns of y have no correlation with any suspect. Where the classes are tied to the suspects
    in the sample, that takes the classes along, in two places: in the clusters, and once more in
    ``predict``, where B moves new rows by an effect that is partly the classes' own. On rows of a
    population without the tie, ``predict_on="raw"`` spares the second (make_site_footprint(2000,
    rate=0.8): population ARI 0.9 against 0.6 to 0.7).

    Parameters
    ----------
    n_clusters : int, default=8
    suspects : str, int, list of names or indices, or boolean mask
        Columns to regress out (a category as one-hot columns); they leave the distance.
    predict_on : {"corrected", "raw"}
        What ``predict``, ``transform`` and ``score`` compare with the centres: y, as in the fit and
        as most do, or x as it is. ``labels_`` are always those of y.
    init, n_init, max_iter, tol, random_state
        See PlainKMeans.

    Attributes
    ----------
    coef_ : ndarray (n_suspects, n_features)
        B; of least norm where suspects are collinear; 0 in the columns of the suspects.
    labels_, cluster_centers_, inertia_, n_iter_
        See PlainKMeans; of y. Sparse data become dense, since y is.

    Examples
    --------
    >>> from sklearn.metrics import adjusted_rand_score
    >>> from unskew.baselines import RegressOutKMeans
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(2000, rate=0.8, random_state=0)
    >>> for on in ("corrected", "raw"):
    ...     model = RegressOutKMeans(4, suspects=data.suspects, predict_on=on, random_state=0)
    ...     labels = model.fit(data.X).predict(data.X_population)
    ...     print(f"{on} {adjusted_rand_score(data.y_population, labels):.1f}")
    corrected 0.7
    raw 0.9
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        suspects,
        predict_on="corrected",
        init="partition",
        n_init=10,
        max_iter=300,
        tol=1e-4,
        random_state=None,
    ):
        super().__init__(n_clusters, init, n_init, max_iter, tol, random_state)
        self.suspects = suspects
        self.predict_on = predict_on

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_word("predict_on", self.predict_on, ("corrected", "raw"))
        if self.suspects is None:
            raise ValueError("suspects=None should name the columns to regress out")

    def _learn(self, X: Any, a: np.ndarray, seed: int) -> np.ndarray:
        self._suspects = self._find_suspects(X.shape[1])
        self._columns = np.delete(np.arange(X.shape[1]), self._suspects)
        z, x = _dense(X[:, self._suspects]), _dense(X[:, self._columns])
        share = a / a.sum()
        self._z_mean = share @ z
        z, x = z - self._z_mean, x - share @ x
        sd = np.sqrt(share @ z**2)
        # Each suspect at its own scale, so that a small one is not taken for a collinear one.
        per_sd = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 1e-12 * np.abs(self._z_mean))
        root = np.sqrt(share)[:, None]
        slopes = np.linalg.lstsq(root * (z * per_sd), root * x, rcond=1e-10)[0]
        self.coef_ = np.zeros((z.shape[1], X.shape[1]))
        self.coef_[:, self._columns] = per_sd[:, None] * slopes
        return a

    def _to_space(self, X: Any) -> np.ndarray:
        effect = (_dense(X[:, self._suspects]) - self._z_mean) @ self.coef_[:, self._columns]
        return (_dense(X[:, self._columns]) - effect).astype(X.dtype, copy=False)

    def _new_to_space(self, X: Any) -> Any:
        return self._to_space(X) if self.predict_on == "corrected" else X[:, self._columns]


class SelectKMeans(_KMeansFromStart):
    """k-means on the columns that a selector chooses without labels.

    Parameters
    ----------
    selector : a scikit-learn selector
        Cloned and fitted to X alone; ``get_support()`` says which columns it keeps. Those of
        ``unskew.feature_selection``, VarianceThreshold, or your own.
    n_clusters : int, default=8
    init, n_init, max_iter, tol, random_state
        See PlainKMeans. The random state of the selector is its own.

    Attributes
    ----------
    selector_ : the fitted selector
    kept_ : ndarray of int
        Indices of the columns it keeps.
    labels_, cluster_centers_, inertia_, n_iter_
        See PlainKMeans.

    Notes
    -----
    k-means always takes ``sample_weight``, the selector if its ``fit`` has it. The others see all
    rows of positive weight as equal: there, weight 2 is the row twice for k-means only.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.feature_selection import VarianceThreshold
    >>> from unskew.baselines import SelectKMeans
    >>> SelectKMeans(VarianceThreshold(0.6), 3, random_state=0).fit(load_iris().data).kept_
    array([0, 2])
    """

    _start_on_all = True

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
            raise ValueError(f"selector={self.selector!r} keeps none of {X.shape[1]} columns")
        return a
