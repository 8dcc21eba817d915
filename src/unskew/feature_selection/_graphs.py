"""Nearest neighbours of rows, graphs of them, and the l2,1 regression step."""

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from sklearn.utils import gen_batches


def row_norms(A):
    """Euclidean norm of each row of A."""
    return np.sqrt(np.einsum("ij,ij->i", A, A))


def nearest(X, k):
    """The k nearest other rows of each row of X, and the mean distance.

    Returns indices (n, k), squared distances (n, k) in ascending order, and the mean of all n^2
    distances, including the n zeros from a row to itself. Ties are broken by the lower index. A row
    is never its own neighbour, even if it has exact copies.
    """
    n = len(X)
    index, square, total = np.empty((n, k), dtype=int), np.empty((n, k)), 0.0
    for rows in gen_batches(n, max(1, 2**22 // n)):
        # cdist is exact on integers, where ||a||^2 + ||b||^2 - 2ab breaks ties by rounding.
        D = cdist(X[rows], X, "sqeuclidean")
        total += np.sqrt(D).sum()
        D[np.arange(len(D)), np.arange(rows.start, rows.stop)] = np.inf
        index[rows] = np.argsort(D, axis=1, kind="stable")[:, :k]
        square[rows] = np.take_along_axis(D, index[rows], axis=1)
    return index, square, total / n**2


def heat_rate(mean_distance):
    """1 / (2 t^2) for the mean distance t; 0 if all rows are equal, so that every weight is 1."""
    return 1 / (2 * mean_distance**2) if mean_distance > 0 else 0.0


def rows_to_graph(index, values):
    """The sparse (n, n) matrix with `values[i, a]` at (i, index[i, a])."""
    n, k = index.shape
    return sp.csr_array((values.ravel(), index.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))


def heat_graph(index, square, mean_distance):
    """exp(-||x_i - x_j||^2 / (2 t^2)) if i is a neighbour of j or j one of i, else 0."""
    A = rows_to_graph(index, np.exp(-square * heat_rate(mean_distance)))
    return A.maximum(A.T).tocsr()


def ridge(X, Y, row_weight, scale, gram=None):
    """argmin_W sum_i row_weight_i ||x_i W - y_i||^2 + sum_j ||w_j||^2 / scale_j.

    Solves one system of size min(n, d), scaled on both sides so that its smallest eigenvalue is 1
    for any scale. `gram` is X' diag(row_weight) X if already computed; used if d <= n.
    """
    n, d = X.shape
    column, row = np.sqrt(scale), np.sqrt(row_weight)[:, None]
    if d <= n:
        if gram is None:
            A = row * X
            gram = A.T @ A
        right = column[:, None] * (X.T @ (row**2 * Y))
        return column[:, None] * _solve_plus_identity(column[:, None] * gram * column, right)
    A = row * X * column
    return column[:, None] * (A.T @ _solve_plus_identity(A @ A.T, row * Y))


def _solve_plus_identity(M, B):
    """(I + M)^{-1} B for symmetric M >= 0. Overwrites M."""
    diagonal = np.einsum("ii->i", M)
    # The last term bounds the rounding error of M; without it the factorisation can fail for
    # large M.
    diagonal += 1 + len(M) * np.finfo(float).eps * diagonal.max()
    return cho_solve(cho_factor(M, lower=True, overwrite_a=True), B)
