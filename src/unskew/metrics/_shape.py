"""Shape of clusters and of the columns: silhouette and amount of correlation."""

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances_chunked
from sklearn.utils import check_random_state

from ._validation import (
    check_kind,
    check_rows,
    check_weights,
    encode_labels,
    times_two_to,
    unit_of,
    vector,
)

TILE_BYTES = 2**26
# Largest value whose covariances have a finite sum of squares.
LARGEST = 1e70


def silhouette_score(
    X,
    labels,
    *,
    sample_weight=None,
    weight_kind="frequency",
    metric="euclidean",
    sample_size=None,
    random_state=None,
):
    """Mean silhouette coefficient: distance to the own cluster compared with the nearest other.

        s_i = (b_i - a_i) / max(a_i, b_i), averaged with weights w_i
        a_i = sum of w_j d_ij over the own cluster / (M - 1)     "frequency"
        a_i = sum of w_j d_ij over the own cluster / (M - w_i)   "importance"
        b_i = minimum of  sum of w_j d_ij over another cluster / M of that cluster

    M is the weight of a cluster. The only row of a cluster has s_i = 0. With "frequency" a row
    of weight 2 has one copy at distance 0, as if it were repeated. All pairs of rows are computed
    exactly, in tiles, so that memory is linear in n and time is n^2 d.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The data.
    labels : array of shape (n,)
        Clusters, labels of any type; at least two, and fewer than there are rows.
    sample_weight : array of shape (n,), default=None
        Weights >= 0; None means 1 each.
    weight_kind : {"frequency", "importance"}, default="frequency"
        Interpretation of the weights; see the module docstring.
    metric : str or callable, default="euclidean"
        As in `sklearn.metrics.pairwise_distances`, except "precomputed".
    sample_size : int, default=None
        Size of a random subsample, drawn as in scikit-learn; None means all rows.
    random_state : int, RandomState or None
        Seed of the subsample if `sample_size` is given.

    Returns
    -------
    float in [-1, 1]

    Examples
    --------
    >>> from unskew.metrics import silhouette_score
    >>> round(silhouette_score([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1]), 3)
    0.9
    """
    check_kind(weight_kind)
    if metric == "precomputed":
        raise ValueError(
            "metric='precomputed' is not supported; it should be a metric of rows of X"
        )
    X = check_rows(X)
    labels = vector(labels, "labels")
    if len(labels) != X.shape[0]:
        raise ValueError(f"labels has {len(labels)} entries but X has {X.shape[0]} rows")
    w = check_weights(sample_weight, len(labels), "labels")
    unit = unit_of(sample_weight)
    X = rescale(X, metric)
    rows = np.flatnonzero(w > 0)
    if sample_size is not None:
        if not 2 <= sample_size <= len(rows):
            raise ValueError(
                f"sample_size={sample_size} should be 2 to {len(rows)} (rows of positive weight)"
            )
        rows = check_random_state(random_state).permutation(rows)[:sample_size]
    if len(rows) < len(w) or sample_size is not None:
        X, labels, w = X[rows], labels[rows], w[rows]
    codes = encode_labels(labels)
    n, k = len(codes), codes.max(initial=-1) + 1
    copies = weight_kind == "frequency" and w.max() * unit > 1
    if k < 2 or (k == n and not copies):
        raise ValueError(f"labels has {k} distinct values but should have 2 to {n - 1} (rows - 1)")

    mass = np.bincount(codes, w)
    if weight_kind == "frequency":
        others = mass[codes] - 1 / max(unit, 2.0**-900)
        alone = others <= 0
    else:
        others = mass[codes] - w
        alone = np.bincount(codes)[codes] == 1
    others[alone] = 1
    return float(np.average(silhouette_coefficients(X, codes, w, others, alone, metric), weights=w))


def rescale(X, metric):
    """X times a power of two where its values are very large or small; scores have no unit."""
    size = float(abs(X).max())
    if isinstance(metric, str) and not 2.0**-30 <= size <= 2.0**30 and size > 0:
        return times_two_to(X, 1 - np.frexp(size)[1])
    return X


def silhouette_coefficients(X, codes, w, others, alone, metric):
    """s_i of each row; ``others`` is the divisor of a_i, ``alone`` marks rows with s_i = 0."""
    n, k = len(codes), codes.max() + 1
    mass = np.bincount(codes, w)
    belongs = sparse.csr_array((w, (np.arange(n), codes)), shape=(n, k))

    def score(distances, start):
        tile = slice(start, start + len(distances))
        # The transposed product keeps the indicator sparse: n additions per row instead of n k.
        sums = (belongs.T @ distances.T).T.astype(np.float64)
        own = np.arange(len(sums)), codes[tile]
        within = sums[own] / others[tile]
        sums /= mass
        sums[own] = np.inf
        between = sums.min(axis=1)
        larger = np.maximum(within, between)
        value = np.divide(between - within, larger, out=np.zeros(len(sums)), where=larger > 0)
        value[alone[tile]] = 0
        return value

    tiles = pairwise_distances_chunked(
        X, metric=metric, reduce_func=score, working_memory=TILE_BYTES / 2**20
    )
    return np.concatenate(list(tiles))


def amount_of_correlation(X, sample_weight=None, *, diagonal=False):
    """Frobenius norm of the weighted covariance matrix of the columns: 0 if all are uncorrelated.

        C = sum_i w_i (x_i - mean) (x_i - mean)' / sum(w)          norm = sqrt( sum_jk C_jk^2 )

    The divisor is the sum of the weights (no n - 1), so that scaling them changes nothing.
    Computed in row tiles: memory is d x d and one tile, never a centred copy of X.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The data.
    sample_weight : array of shape (n,), default=None
        Weights >= 0 at any scale; None means 1 each.
    diagonal : bool, default=False
        Whether to include the variances; by default only covariances of different columns.

    Returns
    -------
    float

    Examples
    --------
    >>> from unskew.metrics import amount_of_correlation
    >>> round(amount_of_correlation([[0, 0], [0, 0], [1, 1], [1, 1]]), 3)
    0.354
    >>> amount_of_correlation([[0, 0], [0, 1], [1, 0], [1, 1]])
    0.0
    """
    X = check_rows(X)
    n, d = X.shape
    size = float(abs(X).max())
    if size > LARGEST:
        raise ValueError(
            f"X has values of size {size:.3g}; they should be <= {LARGEST:.0e}, because their "
            "products overflow. Rescale X"
        )
    w = check_weights(sample_weight, n, "X")
    w = w / w.sum()
    mean = np.asarray(X.T @ w, dtype=np.float64)
    if sparse.issparse(X):
        # Centring would make the matrix dense; the product of sparse columns is cheap.
        weighted = sparse.diags_array(w) @ X
        covariance = (X.T @ weighted).toarray().astype(np.float64) - np.outer(mean, mean)
    else:
        covariance = np.zeros((d, d))
        rows = max(1, TILE_BYTES // (16 * d))
        for start in range(0, n, rows):
            tile = X[start : start + rows] - mean
            covariance += tile.T @ (w[start : start + rows, None] * tile)
    if not diagonal:
        np.fill_diagonal(covariance, 0)
    return float(np.linalg.norm(covariance))
