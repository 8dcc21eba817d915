"""Base class of the baselines: scikit-learn's k-means with the initializations of DCKM."""

from __future__ import annotations

import numbers
import warnings
from contextlib import nullcontext
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import _kmeans
from .._base import rollback_on_error
from .._data.columns import as_frame, frame_columns
from .._data.tiled import as_tiled
from .._kmeans import Distance, check_init, init_clusters
from .._parallel import ONE_THREAD_ROWS, one_openmp_thread
from .._preprocessing import check_sizes, column_stats
from .._validation import check_number, check_weights, find_columns


class BaselineKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """scikit-learn's k-means with DCKM's initializations in a feature space learned by a subclass.

    A subclass implements ``_learn(X, a, seed)``, which returns the weights w of k-means, and, if
    the space is not a selection of columns (``_columns``), ``_to_space``, ``_new_to_space`` and
    ``_centres_of``.
    """

    _min_rows = 1
    _init_on_all = False  # False: init="principal" uses the columns of the distance only

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
                f"suspects={self.suspects!r} names {which}; it should name at least one column, "
                "but not all"
            )
        return suspects

    def _learn(self, X: Any, a: np.ndarray, seed: int) -> np.ndarray:
        self._columns = np.arange(X.shape[1])
        return a

    def _to_space(self, X: Any) -> Any:
        """Transform rows or centres from the columns of X to the feature space of the fit."""
        return X if self._columns.size == X.shape[1] else X[:, self._columns]

    def _new_to_space(self, X: Any) -> Any:
        return self._to_space(X)

    def _centres_of(self, C: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Centres C in the columns of X; columns not in the space have the weighted means."""
        means[:, self._columns] = C
        return means

    def fit(self, X, y=None, sample_weight=None):
        """Learn the space, then the clusters.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or a table of numeric columns
        y : ignored
        sample_weight : array (n,) or None
            Weight 2 = the row twice, 0 = the row absent, but still assigned a label.

        Returns
        -------
        self
        """
        with rollback_on_error(self):
            return self._fit(X, sample_weight)

    def _fit(self, X: Any, sample_weight: Any):
        self._check_parameters()
        refuse_text(X)
        X = validate_data(
            self,
            X,
            accept_sparse="csr" if get_tags(self).input_tags.sparse else False,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_min_samples=self._min_rows,
        )
        n, d = X.shape
        a, K = check_weights(sample_weight, n), self.n_clusters
        present = int((a > 0).sum())
        if present < K:
            of_weight = " of positive weight" if present < n else ""
            raise ValueError(f"n_clusters={K} should be <= n_samples={present}{of_weight}")
        init = check_init(self.init, n, K, d)
        # As in DCKM: one seed per initialization, the last one for everything else.
        n_init = self.n_init if isinstance(init, str) and init != "principal" else 1
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=n_init + 1)
        everything = as_tiled(_with_short_indices(X), 1)
        column_stats(everything, a)  # refuses values whose squares overflow or underflow
        w = self._learn(everything.X, a, int(seeds[-1]))
        if isinstance(init, str) and init == "principal":
            # Computed in the original columns, so that all methods get the same partition. (Also,
            # whitened data have no unique first component.)
            columns = np.arange(d) if self._init_on_all else self._columns
            init = _kmeans.init_principal(everything, Distance(columns), a, K)
        elif not isinstance(init, str) and init.ndim == 2:
            init = self._to_space(init.astype(X.dtype)).astype(np.float64)
        rows = as_tiled(self._to_space(everything.X), 1)
        distance = Distance(np.arange(rows.d))
        C, self.n_iter_ = self._best_of_restarts(rows, distance, a, w, init, seeds[:-1])
        self._centres = C
        clusters = _kmeans.label(rows, distance, C)
        self.labels_ = clusters.labels.astype(np.int32)
        self.inertia_ = float(w @ clusters.e)
        means = _kmeans.init_from_labels(everything, Distance(np.arange(d)), w, self.labels_, K)
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
                f"{type(self).__name__} reached max_iter={self.max_iter} iterations of k-means "
                "without convergence; increase max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _best_of_restarts(self, rows, distance, a, w, init, seeds) -> tuple[np.ndarray, int]:
        """Centres and number of iterations of the restart with the lowest inertia.

        Initializations are drawn with the design weights a in all methods; the means of the initial
        partition are weighted by w, as in all iterations. Rows of weight 0 are excluded: they would
        contribute to scikit-learn's tolerance and could be selected to refill an empty cluster.
        """
        K, counted = self.n_clusters, w > 0
        if counted.sum() < K:
            raise ValueError(
                f"n_clusters={K} should be <= {counted.sum()}, the number of rows with a positive "
                "learned weight"
            )
        used, weight, tol = rows.X, w, self.tol
        if not counted.all():
            used, weight = rows.X[counted], w[counted]
        if np.ptp(weight) > 0:
            # scikit-learn's tol is a share of the unweighted variance.
            part = as_tiled(used, 1)
            plain = (column_stats(part, np.ones(part.n)).sd ** 2).sum()
            weighted = (column_stats(part, weight).sd ** 2).sum()
            tol = tol * weighted / plain if plain > 0 else tol
        is_partition = init == "partition" if isinstance(init, str) else init.ndim == 1
        best: Any = None
        for seed in seeds:
            start = init_clusters(rows, distance, a, K, init, np.random.RandomState(seed))
            C = start.C
            if is_partition and w is not a:
                C = _kmeans.init_from_labels(rows, distance, w, start.labels, K)
            model = KMeans(
                K, init=C.astype(rows.dtype), n_init=1, max_iter=int(self.max_iter), tol=float(tol)
            )
            few = one_openmp_thread() if used.shape[0] <= ONE_THREAD_ROWS else nullcontext()
            with few, warnings.catch_warnings():  # issued once, for the best restart
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
        check_sizes(X)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            own = self._new_to_space(as_tiled(X, 1).X)
        check_sizes(own)
        rows = as_tiled(own, 1)
        return rows, Distance(np.arange(rows.d))

    def predict(self, X):
        """Nearest centre of each row in the learned space. Returns labels (n,)."""
        rows, distance = self._new_rows(X)
        return _kmeans.label(rows, distance, self._centres).labels.astype(np.int32)

    def transform(self, X):
        """Distance of each row to each centre in the learned space. Returns (n, n_clusters)."""
        rows, _ = self._new_rows(X)
        parts = rows.map(lambda tile: _kmeans.distances(tile, self._centres), dense=False)
        return np.concatenate(list(parts))

    def score(self, X, y=None, sample_weight=None):
        """Negative mean squared distance to the nearest centre (larger is better); scores of
        methods with different feature spaces are not comparable."""
        rows, distance = self._new_rows(X)
        a = check_weights(sample_weight, rows.n)
        return -float(a @ _kmeans.label(rows, distance, self._centres).e) / float(a.sum())

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters


def refuse_text(X: Any) -> None:
    """Refuse non-numeric columns by name; scikit-learn's message would only show a value."""
    frame = as_frame(X)
    if frame is None:
        return
    for name, column in frame_columns(frame).items():
        kind = column.dtype
        if not (kind.is_numeric() or kind in (nw.Boolean, nw.Object, nw.Unknown)):
            raise ValueError(
                f"column {name!r} of X has dtype {kind} but should be numeric. "
                "unskew.diagnostics.compare runs this method on tables, or encode them first: "
                "TableEncoder().fit_transform(X)"
            )


def _with_short_indices(X: Any) -> Any:
    """CSR with 32-bit indices if they suffice, which scikit-learn's k-means requires."""
    if not sp.issparse(X) or X.nnz > np.iinfo(np.int32).max:
        return X
    short = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sp.csr_array((X.data, *short), shape=X.shape)


def _dense(X: Any) -> np.ndarray:
    return (X.toarray() if sp.issparse(X) else X).astype(np.float64)
