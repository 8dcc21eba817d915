"""Base class of the selectors, and two simple baseline selectors."""

import numpy as np
from scipy.sparse.csgraph import laplacian
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._base import rollback_on_error
from .._data.tiled import as_tiled
from .._parallel import one_blas_thread
from .._preprocessing import column_stats
from .._validation import is_integer, is_real
from ._graphs import heat_graph, nearest


def _is_finite(value):
    return is_real(value) and np.isfinite(value)


_RULES = {
    "an integer >= 1": lambda v: is_integer(v) and v >= 1,
    "a finite number > 0": lambda v: _is_finite(v) and v > 0,
    "a finite number >= 0": lambda v: _is_finite(v) and v >= 0,
    "a number > 0 and < 1": lambda v: _is_finite(v) and 0 < v < 1,
    "'converged' or 'author'": lambda v: isinstance(v, str) and v in ("converged", "author"),
}


class RankingSelector(SelectorMixin, BaseEstimator):
    """Base class that selects the best columns of a ranking by scores.

    A subclass lists the constraints of its parameters in `_rules` and returns one score per column
    from `_score(X)`. The best column has the largest score, or the smallest if `_best_is_small`.
    """

    _rules: dict = {}  # noqa: RUF012  (never changed)
    _best_is_small = False

    def fit(self, X, y=None):
        """Rank the columns of X (n_samples, n_features); `y` is ignored. Returns self."""
        with rollback_on_error(self):
            return self._fit(X)

    def _fit(self, X):
        with np.errstate(invalid="ignore"):  # of a sum with inf, which is refused
            X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        self._check_parameters()
        # Refuses values whose squares overflow or underflow.
        column_stats(as_tiled(X, 1), np.ones(len(X)))
        d, m = X.shape[1], self.n_features_to_select
        if m is None:
            m = max(1, d // 2)
        elif not (is_integer(m) and 1 <= m <= d):
            raise ValueError(f"n_features_to_select={m!r} should be between 1 and n_features={d}")
        # Most matrix products here are small. With n = 1123, d = 800 on two cores RUFS takes 25 s
        # with one BLAS thread and, if the machine is shared, 190 s with two. One thread also makes
        # the result independent of the number of cores.
        try:
            with one_blas_thread(), np.errstate(over="raise", invalid="raise", divide="raise"):
                self.scores_ = self._score(X)
        except FloatingPointError as error:
            raise ValueError(
                f"X has values of size up to {np.abs(X).max():.3g}; products of them should "
                f"neither overflow nor underflow in {type(self).__name__}. Rescale its columns"
            ) from error
        badness = self.scores_ if self._best_is_small else -self.scores_
        self.order_ = np.argsort(badness, kind="stable")
        self.ranking_ = np.empty(d, dtype=int)
        self.ranking_[self.order_] = np.arange(1, d + 1)
        self.n_features_ = int(m)
        return self

    def _check_parameters(self):
        for name, rule in self._rules.items():
            value = getattr(self, name)
            if not _RULES[rule](value):
                raise ValueError(f"{name}={value!r} should be {rule}")

    def _get_support_mask(self):
        check_is_fitted(self)
        return self.ranking_ <= self.n_features_

    def _check_at_most(self, name, bound, bound_name):
        value = getattr(self, name)
        if value > bound:
            raise ValueError(f"{name}={value} should be <= {bound_name}={bound}")


class VarianceSelector(RankingSelector):
    """Selects the columns of largest variance (p(1 - p) for a 0/1 column of mean p).

    Parameters
    ----------
    n_features_to_select : int or None
        Columns to keep, 1..n_features. None keeps half, at least one.

    Attributes
    ----------
    scores_ : ndarray (n_features,)
        The variances.
    order_, ranking_ : ndarray (n_features,)
        Columns from best to worst; rank of each column, 1 = best.
    n_features_ : int
        Number of columns kept.

    Examples
    --------
    >>> from unskew.feature_selection import VarianceSelector
    >>> selector = VarianceSelector(1).fit([[0, 5, 1], [0, 9, 1], [1, 1, 1]])
    >>> selector.order_.tolist(), selector.ranking_.tolist()
    ([1, 0, 2], [2, 1, 3])
    """

    def __init__(self, n_features_to_select=None):
        self.n_features_to_select = n_features_to_select

    def _score(self, X):
        # The computed variance of a constant column can be 1e-33 due to rounding; it should be 0.
        return np.where(np.ptp(X, axis=0) == 0, 0.0, np.var(X, axis=0))


class LaplacianScore(RankingSelector):
    """Selects the columns that vary least between neighbouring rows, relative to their variance.

    score(f) = f'Lf / f'Df on the graph of the k nearest rows with weights
    exp(-||x_i - x_j||^2 / (2 t^2)), t the mean distance between rows; D its degrees, L = D - A,
    f a column minus its D-weighted mean. Smaller is better. A constant column has the score inf.

    Parameters
    ----------
    n_features_to_select : int or None
        Columns to keep, 1..n_features. None keeps half, at least one.
    n_neighbors : int
        k, at most n_samples - 1.

    Attributes
    ----------
    scores_ : ndarray (n_features,)
        The scores, SMALLER is better.
    order_, ranking_ : ndarray (n_features,)
        Columns from best to worst; rank of each column, 1 = best.
    n_features_ : int
        Number of columns kept.

    Examples
    --------
    >>> from unskew.feature_selection import LaplacianScore
    >>> X = [[0, 0.3], [0.1, 0.0], [0.2, 0.4], [5, 0.1], [5.1, 0.4], [5.2, 0.0]]
    >>> LaplacianScore(1, n_neighbors=2).fit(X).order_.tolist()
    [0, 1]
    """

    _rules = {"n_neighbors": "an integer >= 1"}  # noqa: RUF012
    _best_is_small = True

    def __init__(self, n_features_to_select=None, *, n_neighbors=5):
        self.n_features_to_select = n_features_to_select
        self.n_neighbors = n_neighbors

    def _score(self, X):
        self._check_at_most("n_neighbors", len(X) - 1, "n_samples - 1")
        L, degree = laplacian(heat_graph(*nearest(X, self.n_neighbors)), return_diag=True)
        F = X - (degree @ X) / degree.sum()
        constant = np.ptp(X, axis=0) == 0
        rough = np.einsum("ij,ij->j", F, L @ F)
        spread = np.where(constant, 1, degree @ F**2)
        return np.where(constant, np.inf, rough / spread)
