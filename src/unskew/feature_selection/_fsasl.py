"""FSASL: feature selection with adaptive structure learning."""

import warnings

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components, laplacian

from ._graphs import heat_graph, nearest, ridge, row_norms, rows_to_graph
from ._lasso import author_lasso, converged_lasso
from ._selector import RankingSelector


class FSASL(RankingSelector):
    """Selects the columns that best fit a learned structure of the rows (Du & Shen, KDD 2015).

    Repeats `max_iter` times, with Z = X at first and Z = XW later:

      S  regression of each row of Z on all others: column i is
         argmin_s 1/2 ||z_i - sum_{j != i} s_j z_j||^2 + lasso_ratio max_{j != i} |z_j'z_i| ||s||_1
      P  the k nearest rows in Z, weighted by the p on the simplex that minimises
         sum_j ||z_i - z_j||^2 p_j + mu p_j^2, then symmetrised; the first P is the heat-kernel
         graph of the rows of X
      Y  the c eigenvectors of smallest eigenvalue of
         L = global_strength (I - S)(I - S)' + local_strength L_P, L_P the Laplacian of P
      W  ten reweighted least-squares steps towards
         argmin_W ||XW - Y||_F^2 + sparsity_strength ||W||_21

    The score of a column is the squared norm of its row of W. In the paper's notation lambda1, 2, 3
    are the global, local and sparsity strength. mu is half the mean over rows of
    k d_{k+1} - (d_1 + ... + d_k), d the sorted squared distances to other rows of X.

    There is no test of convergence, and thus no warning: the method is defined by its number of
    iterations, and its objective may increase. As in the authors' code the first iteration omits S
    if max_iter >= 5. Constant and duplicate columns need no special treatment.

    Parameters
    ----------
    n_features_to_select : int or None
        Columns to keep, 1..n_features. None keeps half, at least one.
    n_clusters : int
        c, the dimension of the embedding, at most n_samples.
    global_strength, local_strength, sparsity_strength : float
        lambda1 >= 0, lambda2 > 0, lambda3 > 0.
    lasso_ratio : float
        0 < lasso_ratio < 1, the penalty relative to the smallest one that gives s = 0.
    n_neighbors : int
        k, at most n_samples - 2 (mu needs the k + 1 nearest).
    max_iter : int
        Number of iterations. With fewer than 5 the first lasso is on X itself, which is slow if X
        has many columns.
    lasso : {"converged", "author"}
        "converged" solves each lasso to a duality gap of 1e-9 ||z_i||^2; copies of a row share
        their weight equally. "author" stops like the published code, at an absolute change of
        1e-3, which leaves S almost dense and can give a different ranking; use it for comparison
        with published numbers.

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
    objective_history_ : ndarray (max_iter,)
        tr(Z'LZ) + lambda1 lasso_ratio sum|S| + lambda2 mu sum P^2 + lambda3 ||W||_21, Z the new XW.
    mu_ : float
        mu.
    n_iter_ : int
        max_iter.

    Warns
    -----
    UserWarning
        If Y is determined by a graph with more than n_clusters connected components alone (in the
        first iteration, or if global_strength = 0): its eigenvectors are then not unique.

    Examples
    --------
    >>> import numpy as np
    >>> from unskew.feature_selection import FSASL
    >>> X = np.random.default_rng(0).uniform(size=(40, 8))
    >>> X[:20, :2] += 1  # columns 0 and 1 mark one cluster, 2 and 3 the other
    >>> X[20:, 2:4] += 1
    >>> FSASL(4, n_clusters=2).fit(X).get_support(indices=True).tolist()
    [0, 1, 2, 3]
    """

    _rules = {  # noqa: RUF012
        "n_clusters": "an integer >= 1",
        "global_strength": "a finite number >= 0",
        "local_strength": "a finite number > 0",
        "sparsity_strength": "a finite number > 0",
        "lasso_ratio": "a number > 0 and < 1",
        "n_neighbors": "an integer >= 1",
        "max_iter": "an integer >= 1",
        "lasso": "'converged' or 'author'",
    }

    def __init__(
        self,
        n_features_to_select=None,
        *,
        n_clusters=8,
        global_strength=1.0,
        local_strength=1.0,
        sparsity_strength=1.0,
        lasso_ratio=0.01,
        n_neighbors=5,
        max_iter=20,
        lasso="converged",
    ):
        self.n_features_to_select = n_features_to_select
        self.n_clusters = n_clusters
        self.global_strength = global_strength
        self.local_strength = local_strength
        self.sparsity_strength = sparsity_strength
        self.lasso_ratio = lasso_ratio
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.lasso = lasso

    def _score(self, X):
        (n, d), k = X.shape, self.n_neighbors
        self._check_at_most("n_clusters", n, "n_samples")
        self._check_at_most("n_neighbors", n - 2, "n_samples - 2")
        _, first, copy = np.unique(X, axis=0, return_index=True, return_inverse=True)
        copy = copy.reshape(-1)
        index, square, mean_distance = nearest(X, k + 1)
        # mu has the scale of X, but the distances it is compared with have that of XW, so that P is
        # close to 1/k everywhere. Kept, because the authors' code does so.
        self.mu_ = float(np.mean(k * square[:, k] - square[:, :k].sum(axis=1)) / 2)
        P = heat_graph(index[:, :k], square[:, :k], mean_distance)
        gram = X.T @ X if d <= n else None
        history, warned, Z = [], False, X
        for iteration in range(self.max_iter):
            if iteration > 0:
                P = adaptive_graph(Z, k, self.mu_)
            L = self.local_strength * laplacian(P).toarray()
            S = sp.csc_array((n, n))
            if self.global_strength > 0 and (iteration > 0 or self.max_iter < 5):
                if self.lasso == "author":
                    S = author_lasso(Z, self.lasso_ratio)
                else:
                    S = converged_lasso(Z, self.lasso_ratio, copy)
                E = sp.eye_array(n, format="csc") - S
                L += self.global_strength * (E @ E.T).toarray()
            elif not warned:
                warned = self._warn_of_components(P)
            Y = eigh((L + L.T) / 2, subset_by_index=[0, self.n_clusters - 1])[1]
            W = l21_regression(X, Y, self.sparsity_strength, gram)
            # Copies of a row stay exact copies, so that ties between them are preserved.
            Z = (X[first] @ W)[copy]
            history.append(
                np.sum(Z * (L @ Z))
                + self.global_strength * self.lasso_ratio * np.abs(S.data).sum()
                + self.local_strength * self.mu_ * (P.data @ P.data)
                + self.sparsity_strength * row_norms(W).sum()
            )
        self.coef_, self.objective_history_ = W, np.array(history)
        self.n_iter_ = self.max_iter
        return np.einsum("ij,ij->i", W, W)

    def _warn_of_components(self, P):
        parts = connected_components(P, directed=False)[0]
        if parts > self.n_clusters:
            warnings.warn(
                f"n_clusters={self.n_clusters} is less than the {parts} connected components of "
                f"the graph of n_neighbors={self.n_neighbors}: its eigenvectors, and thus the "
                "scores, are not unique. Increase n_neighbors or n_clusters.",
                UserWarning,
                stacklevel=4,
            )
        return parts > self.n_clusters


def adaptive_graph(Z, k, mu):
    """P of FSASL in the embedding Z: the simplex weights of each row's neighbours, symmetrised."""
    index, square, _ = nearest(Z, k)
    # A constant per row does not change the weights and avoids the division of square by 0.
    square = square - square[:, :1]
    P = rows_to_graph(index, project_on_simplex(-square / max(2 * mu, 1e-100)))
    return ((P + P.T) / 2).tocsr()


def project_on_simplex(V):
    """argmin_p ||p - v||^2 subject to p >= 0, sum(p) = 1, for each row v of V."""
    ordered = -np.sort(-V, axis=1)
    surplus = np.cumsum(ordered, axis=1) - 1
    kept = np.count_nonzero(ordered * np.arange(1, V.shape[1] + 1) > surplus, axis=1)
    threshold = surplus[np.arange(len(V)), kept - 1] / kept
    return np.maximum(V - threshold[:, None], 0)


def l21_regression(X, Y, strength, gram=None, steps=10):
    """`steps` reweighted steps from W = 0 towards argmin_W ||XW - Y||_F^2 + strength ||W||_21."""
    ones, scale = np.ones(len(X)), np.full(X.shape[1], 1 / strength)
    for _ in range(steps):
        W = ridge(X, Y, ones, scale, gram)
        scale = 2 * np.sqrt(row_norms(W) ** 2 + np.finfo(float).eps) / strength
    return W
