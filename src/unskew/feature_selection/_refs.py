"""REFS: reconstruction-based feature selection over a graph of columns."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.csgraph import laplacian
from scipy.spatial.distance import cdist

from ._selector import RankingSelector


class REFS(RankingSelector):
    """Selects the columns that best reconstruct all columns (Li, Tang, Liu, IJCAI 2017).

    L is the Laplacian of a graph of columns and S the set of selected columns. X is approximated by
    argmin_B sum_j a_j ||b_j - x_j||^2 + beta tr(B L B'), with a_j = 1 in S and alpha outside, with
    the error

        v(S) = ||beta X L Q^{-1}||_F^2,    Q = diag(a) + beta L.

    Columns are added one by one, each time the one with the smallest v; errors that agree to 12
    digits are ties, broken by the lower index. The order of selection is the ranking: it does not
    depend on `n_features_to_select` and is deterministic. Two columns are connected if the distance
    is at most that of the k-th nearest column of either, so that equal distances can give more than
    k neighbours. Constant and duplicate columns need no special treatment.

    REFS favours columns that represent others, or that no others can represent; it does not use
    clusters, and pure noise often ranks first if beta is small.

    The errors of all candidates are computed from H = P (beta L) X'X (beta L) P, P = Q^{-1}, both
    maintained by rank-one updates: O(n d^2 + d^3) time and O(d^2) memory for the whole ranking,
    compared with O(n d^4) for the algorithm as published.

    Parameters
    ----------
    n_features_to_select : int or None
        Columns to keep, 1..n_features. None keeps half, at least one.
    alpha : float
        0 < alpha < 1, weight of columns that are not selected. Near 1 the selection has little
        effect.
    beta : float
        > 0, smoothness over the graph.
    n_neighbors : int
        k. With k >= n_features all columns are connected; see `n_neighbors_`.

    Attributes
    ----------
    scores_ : ndarray (n_features,)
        n_features for the column selected first, down to 1 for the last.
    order_, ranking_ : ndarray (n_features,)
        Columns in order of selection; rank of each column, 1 = selected first.
    n_features_ : int
        Number of columns kept.
    objective_history_ : ndarray (n_features,)
        The smallest v at each step.
    errors_ : ndarray (n_features, n_features)
        Row s: v of each candidate at step s, inf for columns already selected.
    n_neighbors_ : int
        min(n_neighbors, n_features - 1), the k used.

    Examples
    --------
    >>> import numpy as np
    >>> from unskew.feature_selection import REFS
    >>> X = np.random.default_rng(0).normal(size=(30, 6))
    >>> selector = REFS(2, n_neighbors=2).fit(X)
    >>> selector.transform(X).shape
    (30, 2)
    >>> bool(selector.ranking_[selector.order_[0]] == 1)
    True
    """

    _rules = {  # noqa: RUF012
        "alpha": "a number > 0 and < 1",
        "beta": "a finite number > 0",
        "n_neighbors": "an integer >= 1",
    }

    def __init__(self, n_features_to_select=None, *, alpha=0.1, beta=1.0, n_neighbors=5):
        self.n_features_to_select = n_features_to_select
        self.alpha = alpha
        self.beta = beta
        self.n_neighbors = n_neighbors

    def _score(self, X):
        d = X.shape[1]
        self.n_neighbors_ = min(self.n_neighbors, d - 1)
        L = laplacian(column_graph(X, self.n_neighbors_))
        order, self.errors_ = reconstruction_path(X, L, self.alpha, self.beta)
        self.objective_history_ = self.errors_.min(axis=1)
        scores = np.empty(d)
        scores[order] = np.arange(d, 0, -1)
        return scores


def column_graph(X, k):
    """0/1 matrix (d, d): columns within the k-th neighbour distance of one of the two."""
    d = X.shape[1]
    if k == 0:
        return np.zeros((d, d))
    D = cdist(X.T, X.T, "sqeuclidean")
    np.fill_diagonal(D, np.inf)
    near = np.partition(D, k - 1, axis=1)[:, k - 1 : k] >= D
    return (near | near.T).astype(float)


def reconstruction_path(X, L, alpha, beta, refresh=100):
    """Order of selection (d,) and errors (d, d) of REFS for the column Laplacian L.

    P and H are recomputed every `refresh` steps, because rounding errors of rank-one updates
    accumulate.
    """
    d = len(L)
    XL = beta * (X @ L)
    M = XL.T @ XL
    chosen = np.zeros(d, dtype=bool)
    order, errors = np.empty(d, dtype=int), np.empty((d, d))
    for step in range(d):
        if step % refresh == 0:
            Q = beta * L
            Q[np.diag_indices(d)] += np.where(chosen, 1.0, alpha)
            P = cho_solve(cho_factor(Q), np.eye(d))
            P = (P + P.T) / 2
            H = P @ M @ P
            H = (H + H.T) / 2
        gain = (1 - alpha) / (1 + (1 - alpha) * np.diag(P))
        trace = np.trace(H)
        v = trace - 2 * gain * np.einsum("ij,ij->i", H, P)
        v += gain**2 * np.diag(H) * np.einsum("ij,ij->i", P, P)
        v[chosen] = np.inf
        j = int(np.argmax(v <= v.min() + 1e-12 * trace))
        order[step], errors[step], chosen[j] = j, v, True
        p, c = P[:, j].copy(), gain[j]
        # H - c (h p' + p h') + c^2 H_jj p p' = H - (u p' + p u')
        u = c * (H[:, j] - (c / 2) * H[j, j] * p)
        change = np.outer(u, p)
        H -= change
        H -= change.T
        P -= np.outer(c * p, p)
    return order, errors
