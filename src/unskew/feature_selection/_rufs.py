"""RUFS: robust unsupervised feature selection."""

import warnings

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from ._graphs import heat_rate, nearest, ridge, row_norms, rows_to_graph
from ._selector import RankingSelector

_LOCAL_RIDGE = 0.1  # lambda of the local kernel ridge regressions
_CENTER_STRENGTH = 1e-4  # weight of the column norms of F
_INDICATOR_STRENGTH = 0.1  # weight of sum(G)
_ORTHOGONALITY = 1e7  # zeta, penalty that replaces the constraint G'G = I
_SMOOTH = 1e-12  # norms are sqrt(||.||^2 + _SMOOTH) in the steps; the reported terms are exact


class RUFS(RankingSelector):
    """Selects the columns that predict jointly learned robust clusters (Qian & Zhai, IJCAI 2013).

    Minimises over W (d x c), G (n x c) >= 0 and F (c x d) >= 0 the sum of seven terms

        ||X - GF||_21 + nu tr(G'LG) + alpha ||XW - G||_21 + beta ||W||_21
        + 1e-4 sum of the column norms of F + 0.1 sum(G) + 1e7/4 ||G'G - I||_F^2

    G is a relaxed cluster indicator, F its centres, and the term with L penalises rows of G that
    are not predictable from neighbouring rows. The first four terms are the paper's; the last one
    replaces its constraint G'G = I, and the last three are in the authors' code. The score of a
    column is the squared norm of its row of W.

    The initialization is by k-means: G one-hot with columns of norm 1, F the corresponding centres
    plus 0.2 of their mean, W the ridge regression of G on X. Each sweep then minimises over W
    (reweighted least squares), G and F (L-BFGS-B) in turn; a step that does not decrease the sum is
    rejected. The weight 1e7 keeps G close to its initialization, so that RUFS is in practice a
    robust sparse regression on k-means labels.

    Differences from the authors' code: G is initialized with unit columns, as its constraint
    requires (the authors' G is initialized with the cluster sizes, and the objective mostly
    measures the decay of that); steps are solved to convergence; L is computed from the full heat
    kernel instead of a sparsified, indefinite one.

    Parameters
    ----------
    n_features_to_select : int or None
        Columns to keep, 1..n_features. None keeps half, at least one.
    n_clusters : int
        c, at most the number of distinct rows.
    alpha, beta : float
        > 0, weights of the regression and of its sparsity.
    nu : float
        >= 0, weight of the local-learning term.
    laplacian : array or sparse matrix (n_samples, n_samples), or None
        L. None means (I - A)'(I - A), row i of A the kernel ridge regression of row i on its k
        nearest rows: K[i,N] (K[N,N] + 0.1 I)^{-1}, K = exp(-||x_i - x_j||^2 / (2 t^2)), t the mean
        distance. Only its symmetric part is used.
    init : array (n_samples,) or None
        Initial cluster labels, n_clusters distinct ones. None means those of KMeans.
    n_neighbors : int
        k. With k >= n_samples - 1 all other rows are neighbours, and row i of I - A is that of
        I - K (K + 0.1 I)^{-1} divided by its diagonal entry.
    max_iter : int
        Maximum number of sweeps.
    tol : float
        Stop when the relative decrease of the sum in a sweep is at most this.
    random_state : int, RandomState or None
        Random state of KMeans; unused if `init` is given.

    Attributes
    ----------
    scores_ : ndarray (n_features,)
        Squared row norms of W.
    order_, ranking_ : ndarray (n_features,)
        Columns from best to worst; rank of each column, 1 = best.
    n_features_ : int
        Number of columns kept.
    coef_ : ndarray (n_features, n_clusters)
        W.
    indicator_ : ndarray (n_samples, n_clusters)
        G.
    centers_ : ndarray (n_clusters, n_features)
        F.
    objective_terms_ : ndarray (n_iter_ + 1, 7)
        The seven terms in the order above, at initialization and after each sweep.
    objective_history_ : ndarray (n_iter_ + 1,)
        Their sums; never increases.
    n_iter_ : int
        Number of sweeps.

    Warns
    -----
    ConvergenceWarning
        If the fit did not converge in max_iter sweeps.

    Notes
    -----
    X should be non-negative, because it is approximated by GF >= 0; 0/1 data are valid. Constant
    and duplicate columns need no special treatment.

    Examples
    --------
    >>> import numpy as np
    >>> from unskew.feature_selection import RUFS
    >>> X = np.random.default_rng(0).uniform(size=(40, 8))
    >>> X[:20, :2] += 1  # columns 0 and 1 mark one cluster, 2 and 3 the other
    >>> X[20:, 2:4] += 1
    >>> RUFS(4, n_clusters=2, random_state=0).fit(X).get_support(indices=True).tolist()
    [0, 1, 2, 3]
    """

    _rules = {  # noqa: RUF012
        "n_clusters": "an integer >= 1",
        "alpha": "a finite number > 0",
        "beta": "a finite number > 0",
        "nu": "a finite number >= 0",
        "n_neighbors": "an integer >= 1",
        "max_iter": "an integer >= 1",
        "tol": "a finite number >= 0",
    }

    def __init__(
        self,
        n_features_to_select=None,
        *,
        n_clusters=8,
        alpha=1.0,
        beta=1.0,
        nu=1.0,
        laplacian=None,
        init=None,
        n_neighbors=5,
        max_iter=30,
        tol=1e-5,
        random_state=None,
    ):
        self.n_features_to_select = n_features_to_select
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.beta = beta
        self.nu = nu
        self.laplacian = laplacian
        self.init = init
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _score(self, X):
        if X.min() < 0:
            raise ValueError(
                f"Negative values in data passed to RUFS: min(X)={X.min():g} should be >= 0"
            )
        self._check_at_most("n_clusters", len(X), "n_samples")
        L = self._local_matrix(X)
        problem = _RUFSProblem(X, L, self.alpha, self.beta, self.nu)
        state = problem.start(self._labels(X), self.n_clusters)
        terms = [problem.terms(*state)]
        converged = False
        while not converged and len(terms) <= self.max_iter:
            state = problem.sweep(*state)
            terms.append(problem.terms(*state))
            before, after = terms[-2].sum(), terms[-1].sum()
            converged = before - after <= self.tol * abs(before)
        if not converged:
            warnings.warn(
                f"RUFS did not converge in max_iter={self.max_iter} sweeps: the relative decrease "
                f"of the objective was {(before - after) / before:.1e}, tol={self.tol:g}",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.coef_, self.indicator_, self.centers_ = state
        self.objective_terms_ = np.array(terms)
        self.objective_history_ = self.objective_terms_.sum(axis=1)
        self.n_iter_ = len(terms) - 1
        return np.einsum("ij,ij->i", self.coef_, self.coef_)

    def _local_matrix(self, X):
        n = len(X)
        if self.laplacian is None:
            return local_learning_matrix(X, self.n_neighbors)
        L = check_array(
            self.laplacian, accept_sparse="csr", dtype=np.float64, input_name="laplacian"
        )
        if L.shape != (n, n):
            raise ValueError(f"laplacian.shape={L.shape} should be (n_samples, n_samples)={(n, n)}")
        L = sp.csr_array(L)
        return ((L + L.T) / 2).tocsr()

    def _labels(self, X):
        c = self.n_clusters
        if self.init is None:
            distinct = len(np.unique(X, axis=0))
            if c > distinct:
                raise ValueError(f"n_clusters={c} should be <= number of distinct rows={distinct}")
            return KMeans(c, n_init=10, random_state=self.random_state).fit(X).labels_
        init = np.asarray(self.init)
        if init.shape != (len(X),):
            raise ValueError(f"init.shape={init.shape} should be (n_samples,)={(len(X),)}")
        names, labels = np.unique(init, return_inverse=True)
        if len(names) != c:
            raise ValueError(f"init has {len(names)} distinct labels, should be n_clusters={c}")
        return labels


def local_learning_matrix(X, k):
    """L of RUFS, sparse (n, n): tr(G'LG) = sum_i ||g_i - its prediction from neighbours||^2."""
    n = len(X)
    if k >= n - 1:
        D = cdist(X, X, "sqeuclidean")
        K = np.exp(-D * heat_rate(np.sqrt(D).mean()))
        B = np.eye(n) - np.linalg.solve(K + _LOCAL_RIDGE * np.eye(n), K).T
        B /= np.diag(B)[:, None]
        return sp.csr_array(B.T @ B)
    index, square, mean_distance = nearest(X, k)
    rate = heat_rate(mean_distance)
    within = np.stack([cdist(X[i], X[i], "sqeuclidean") for i in index])
    K = np.exp(-rate * within) + _LOCAL_RIDGE * np.eye(k)
    weights = np.linalg.solve(K, np.exp(-rate * square)[:, :, None])[:, :, 0]
    B = sp.eye_array(n, format="csr") - rows_to_graph(index, weights)
    return (B.T @ B).tocsr()


class _RUFSProblem:
    """The objective of RUFS for given data, and the steps that minimise it."""

    def __init__(self, X, L, alpha, beta, nu):
        self.X, self.L, self.alpha, self.beta, self.nu = X, L, alpha, beta, nu
        self.squares = np.einsum("ij,ij->i", X, X)

    def start(self, labels, c):
        """Initial W, G, F from cluster labels 0..c-1 without empty clusters."""
        X, G = self.X, np.zeros((len(self.X), c))
        G[np.arange(len(X)), labels] = 1 / np.sqrt(np.bincount(labels, minlength=c))[labels]
        F = np.maximum(G.T @ X, 0)  # (G'G)^{-1} = I
        if F.any():
            F += 0.2 * F[F > 0].mean()
        scale = np.full(X.shape[1], self.alpha / self.beta)
        return ridge(X, G, np.ones(len(X)), scale), G, F

    def terms(self, W, G, F):
        """The seven terms, in the order of the docstring of RUFS."""
        excess = G.T @ G - np.eye(G.shape[1])
        return np.array(
            [
                row_norms(self.X - G @ F).sum(),
                self.nu * np.sum(G * (self.L @ G)),
                self.alpha * row_norms(self.X @ W - G).sum(),
                self.beta * row_norms(W).sum(),
                _CENTER_STRENGTH * row_norms(F.T).sum(),
                _INDICATOR_STRENGTH * G.sum(),
                _ORTHOGONALITY / 4 * np.sum(excess**2),
            ]
        )

    def sweep(self, W, G, F):
        """One pass over W, G, F. A step that does not decrease the exact sum is rejected."""
        best = self.terms(W, G, F).sum()
        for step in (self._with_new_W, self._with_new_G, self._with_new_F):
            candidate = step(W, G, F)
            value = self.terms(*candidate).sum()
            if value < best:
                best, (W, G, F) = value, candidate
        return W, G, F

    def _with_new_W(self, W, G, F, steps=30, tol=1e-7):
        """argmin_W alpha ||XW - G||_21 + beta ||W||_21 by reweighted least squares from W."""
        before = np.inf
        for _ in range(steps):
            rows = np.sqrt(row_norms(self.X @ W - G) ** 2 + _SMOOTH)
            columns = np.sqrt(row_norms(W) ** 2 + _SMOOTH)
            value = self.alpha * rows.sum() + self.beta * columns.sum()
            if before - value <= tol * value:
                break
            before = value
            W = ridge(self.X, G, 1 / rows, self.alpha / self.beta * columns)
        return W, G, F

    def _with_new_G(self, W, G, F):
        """argmin_{G >= 0} of the terms that depend on G."""
        # ||x_i - g_i F||^2 from products of size c, without a pass over X in the iterations.
        XF, FF, XW, eye = self.X @ F.T, F @ F.T, self.X @ W, np.eye(G.shape[1])

        def value_and_gradient(g):
            G_ = g.reshape(G.shape)
            GF, LG, gap, excess = G_ @ FF, self.L @ G_, G_ - XW, G_.T @ G_ - eye
            square = self.squares + np.einsum("ij,ij->i", G_, GF - 2 * XF)
            r = np.sqrt(np.maximum(square, 0) + _SMOOTH)
            q = np.sqrt(np.einsum("ij,ij->i", gap, gap) + _SMOOTH)
            value = r.sum() + self.nu * np.sum(G_ * LG) + self.alpha * q.sum()
            value += _INDICATOR_STRENGTH * g.sum() + _ORTHOGONALITY / 4 * np.sum(excess**2)
            gradient = (GF - XF) / r[:, None] + 2 * self.nu * LG + self.alpha * gap / q[:, None]
            gradient += _INDICATOR_STRENGTH + _ORTHOGONALITY * (G_ @ excess)
            return value, gradient.ravel()

        # The weight 1e7 makes the objective ill-conditioned: with the looser tolerances used for F,
        # the second digit of the scores would depend on rounding and thus on the order of the rows.
        options = {"maxiter": 500, "ftol": 1e-12, "maxcor": 30}
        return W, _minimize_nonnegative(value_and_gradient, G, **options), F

    def _with_new_F(self, W, G, F):
        """argmin_{F >= 0} ||X - GF||_21 + 1e-4 sum of the column norms of F."""

        def value_and_gradient(f):
            F_ = f.reshape(F.shape)
            residual = G @ F_ - self.X
            r = np.sqrt(np.einsum("ij,ij->i", residual, residual) + _SMOOTH)
            norms = np.sqrt(np.einsum("ij,ij->j", F_, F_) + _SMOOTH)
            gradient = (G / r[:, None]).T @ residual + _CENTER_STRENGTH * F_ / norms
            return r.sum() + _CENTER_STRENGTH * norms.sum(), gradient.ravel()

        return W, G, _minimize_nonnegative(value_and_gradient, F)


def _minimize_nonnegative(value_and_gradient, start, **options):
    bounds = [(0, None)] * start.size
    found = minimize(
        value_and_gradient,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 200, "ftol": 1e-10, "gtol": 1e-8, **options},
    )
    return found.x.reshape(start.shape)
