"""Mixing of batches (sites, scanners, channels) in rows that were corrected or integrated."""

import numbers

import numpy as np
from scipy import sparse
from scipy.special import chdtrc
from sklearn.neighbors import NearestNeighbors

from .._validation import check_number, check_option
from ._shape import rescale, silhouette_coefficients
from ._validation import check_rows, check_weights, encode_labels, vector

# Search for the width of the kernel of LISI, as its authors define it.
ENTROPY_TOL, ENTROPY_TRIES = 1e-5, 50
# A float covariate with more distinct values than this is numeric, not categorical.
MAX_CATEGORIES = 20


def lisi_samples(X, batch, *, sample_weight=None, perplexity=30):
    """Local inverse Simpson's index of each row: the effective number of batches around it.

        LISI_i = 1 / sum_b s_ib^2
        s_ib   = sum of w_j p_ij over the neighbours j of batch b / sum over all neighbours
        p_ij   = exp(-beta_i d_ij), with beta_i such that p_i has entropy log(perplexity)

    d_ij is the Euclidean distance to the 3 * perplexity nearest other rows. 1: all neighbours are
    of one batch; the number of batches: all have the same share. Weights change the shares, not the
    neighbourhoods. Unit weights give the values of ``compute_lisi`` of harmonypy 2.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The data, without the batch.
    batch : array of shape (n,)
        Batches, labels of any type.
    sample_weight : array of shape (n,), default=None
        Importance weights >= 0 at any scale, as the inverse-selection weights
        ``SelectionMixture.weights_``; None means 1 each. A row of weight 0 is absent.
    perplexity : int, default=30
        Effective number of neighbours.

    Returns
    -------
    ndarray of shape (n,), nan for rows of weight 0

    Examples
    --------
    >>> from unskew.metrics import lisi_samples
    >>> lisi_samples([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1], perplexity=1).round(2)
    array([1., 1., 1., 1.])
    """
    X, codes, w, used = _check(X, batch, sample_weight)
    check_number("perplexity", perplexity, numbers.Integral, low=1)
    k = 3 * perplexity
    if k >= len(w):
        raise ValueError(
            f"perplexity={perplexity} needs {k + 1} rows of positive weight; there are {len(w)}"
        )
    X = rescale(X, "euclidean")
    distances, neighbours = NearestNeighbors(n_neighbors=k).fit(X).kneighbors()
    shares = _shares(codes, neighbours, _kernel(distances, perplexity) * w[neighbours])
    found = np.full(len(used), np.nan)
    found[used] = 1.0 / (shares**2).sum(1)
    return found


def lisi_score(X, batch, *, sample_weight=None, perplexity=30, scale=True):
    """Median of the local inverse Simpson's index: 0 separate batches, 1 completely mixed.

        (median of LISI - 1) / (number of batches - 1)

    The median is weighted. The score is that of scib-metrics' ``ilisi_knn`` at unit weights. It is
    1 only where all batches have the same share. To judge mixing where groups have different shares
    by batch, use inverse-selection weights: under them each batch has the same share in all groups.

    Parameters
    ----------
    X, batch, sample_weight, perplexity
        As in `lisi_samples`.
    scale : bool, default=True
        False: the median itself, between 1 and the number of batches.

    Returns
    -------
    float

    Examples
    --------
    >>> from unskew.metrics import lisi_score
    >>> round(lisi_score([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1], perplexity=1), 3)
    0.0
    """
    values = lisi_samples(X, batch, sample_weight=sample_weight, perplexity=perplexity)
    w = check_weights(sample_weight, len(values), "batch")
    used = w > 0
    median = _weighted_median(values[used], w[used])
    n_batches = encode_labels(vector(batch, "batch")[used]).max() + 1
    return float((median - 1) / (n_batches - 1)) if scale else median


def kbet_score(X, batch, *, sample_weight=None, n_neighbors=50, alpha=0.05):
    """kBET acceptance rate: share of the rows around which the batches have their overall shares.

        chi2_i = m_i sum_b (s_ib - f_b)^2 / f_b,    accepted where P(chi2_{B-1} >= chi2_i) >= alpha
        s_ib   share of the weight of the neighbours of row i that batch b has
        f_b    share of the total weight that batch b has
        m_i    effective number of neighbours, sum(w)^2 / sum(w^2)

    Higher is better. The row itself is one of its neighbours, as in scib-metrics' ``kbet``, to
    which the score is equal at unit weights. Under inverse-selection weights a neighbourhood is
    compared with the shares that batches would have without the selection.

    Parameters
    ----------
    X, batch, sample_weight
        As in `lisi_samples`.
    n_neighbors : int, default=50
        Size of a neighbourhood, the row included.
    alpha : float, default=0.05
        Level of the test.

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> from unskew.metrics import kbet_score
    >>> X = [[float(i)] for i in range(20)]
    >>> kbet_score(X, [0, 1] * 10, n_neighbors=6), kbet_score(X, [0] * 10 + [1] * 10, n_neighbors=6)
    (1.0, 0.25)
    """
    X, codes, w, _ = _check(X, batch, sample_weight)
    check_number("n_neighbors", n_neighbors, numbers.Integral, low=2)
    check_number("alpha", alpha, low=0, high=1)
    if n_neighbors > len(w):
        raise ValueError(
            f"n_neighbors={n_neighbors} should be <= {len(w)} (rows of positive weight)"
        )
    X = rescale(X, "euclidean")
    others = NearestNeighbors(n_neighbors=n_neighbors - 1).fit(X).kneighbors(return_distance=False)
    neighbours = np.column_stack([np.arange(len(w)), others])
    local = w[neighbours]
    size = local.sum(1) ** 2 / (local**2).sum(1)
    expected = np.bincount(codes, w) / w.sum()
    shares = _shares(codes, neighbours, local)
    statistic = size * ((shares - expected) ** 2 / expected).sum(1)
    accepted = chdtrc(len(expected) - 1, statistic) >= alpha
    return float(w @ accepted / w.sum())


def batch_silhouette_score(X, batch, labels=None, *, sample_weight=None, metric="euclidean"):
    """Mean of 1 - |silhouette of the batches| within groups: 1 if the batches overlap completely.

        score = mean over groups of the mean over their rows of 1 - |s_i|

    s_i compares the distances to the rows of the own batch with those to the nearest other batch,
    both within the group; distances and the mean over rows are weighted as in `silhouette_score`
    with ``weight_kind="importance"``. Groups with one batch, or as many batches as rows, are left
    out. At unit weights the score is that of scib-metrics' ``silhouette_batch``.

    Parameters
    ----------
    X, batch, sample_weight
        As in `lisi_samples`.
    labels : array of shape (n,), default=None
        Groups (cell types, clusters), labels of any type; None: all rows are one group.
    metric : str or callable, default="euclidean"
        As in `silhouette_score`.

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> from unskew.metrics import batch_silhouette_score
    >>> X = [[0.0], [1.0], [0.0], [1.0], [9.0], [9.5]]
    >>> round(batch_silhouette_score(X, [0, 0, 1, 1, 0, 1], [0, 0, 0, 0, 1, 1]), 2)
    0.5
    """
    X, codes, w, used = _check(X, batch, sample_weight)
    group = np.zeros(len(w), dtype=np.intp)
    if labels is not None:
        labels = vector(labels, "labels")
        if len(labels) != len(used):
            raise ValueError(f"labels has {len(labels)} entries but batch has {len(used)}")
        group = encode_labels(labels[used])
    X = rescale(X, metric)
    scores = []
    for g in range(group.max() + 1):
        rows = np.flatnonzero(group == g)
        own = encode_labels(codes[rows])
        if not 1 < own.max() + 1 < len(rows):
            continue
        alone = np.bincount(own)[own] == 1
        others = np.where(alone, 1.0, np.bincount(own, w[rows])[own] - w[rows])
        found = silhouette_coefficients(X[rows], own, w[rows], others, alone, metric)
        scores.append(np.average(1 - np.abs(found), weights=w[rows]))
    if not scores:
        raise ValueError(
            "no group of labels has two batches or more, and more rows than batches; one should"
        )
    return float(np.mean(scores))


def principal_component_regression_score(
    X, batch, *, sample_weight=None, n_components=None, kind="auto"
):
    """Share of the variance of the principal components that the batch explains: 0 is best.

        score = sum_c v_c R2_c / sum_c v_c

    v_c is the variance of component c, R2_c the share of it that a regression on the batch
    explains, all under the weights. With all components it is the share of the variance of the
    columns. At unit weights the score is that of scib-metrics' ``principal_component_regression``.
    Without weights a batch also explains what its groups explain; under inverse-selection weights
    it explains its effects only.

    Parameters
    ----------
    X, batch, sample_weight
        As in `lisi_samples`. With ``n_components`` a sparse X is made dense.
    n_components : int, default=None
        Number of components; None means all.
    kind : {"auto", "category", "number"}, default="auto"
        Whether the batch is categorical. "auto": floats with more than 20 distinct values are
        numbers.

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> from unskew.metrics import principal_component_regression_score
    >>> X = [[0.0, 0.0], [0.0, 2.0], [1.0, 0.0], [1.0, 2.0]]
    >>> round(principal_component_regression_score(X, [0, 0, 1, 1]), 3)
    0.2
    """
    check_option("kind", kind, ("auto", "category", "number"))
    batch = vector(batch, "batch")
    if kind == "auto":
        many = batch.dtype.kind == "f" and len(np.unique(batch)) > MAX_CATEGORIES
        kind = "number" if many else "category"
    X, codes, w, used = _check(X, batch, sample_weight)
    X, w = rescale(X, "euclidean"), w / w.sum()
    if kind == "category":
        # Orthonormal columns: the indicators of the batches, in rows multiplied by sqrt(w).
        size = np.bincount(codes, w)
        Q = sparse.csr_array((np.sqrt(w / size[codes]), (np.arange(len(w)), codes)))
    else:
        z = batch[used].astype(np.float64)
        if not np.isfinite(z).all():
            bad = int((~np.isfinite(z)).sum())
            raise ValueError(f"batch has {bad} missing or infinite values but should be numbers")
        z = np.sqrt(w) * (z - w @ z)
        Q = (z / np.linalg.norm(z))[:, None]
    if n_components is not None:
        check_number("n_components", n_components, numbers.Integral, low=1, high=min(X.shape))
        X = X.toarray() if sparse.issparse(X) else X
    root, mean = np.sqrt(w), np.asarray(X.T @ w)
    if sparse.issparse(X):
        between = Q.T @ (sparse.diags_array(root) @ X) - np.outer(Q.T @ root, mean)
        total = float((X.multiply(X).T @ w).sum() - mean @ mean)
    else:
        A = root[:, None] * (X - mean)
        if n_components is not None:
            A = A @ np.linalg.svd(A, full_matrices=False)[2][:n_components].T
        between, total = Q.T @ A, float((A * A).sum())
    return float(min(1.0, (np.asarray(between) ** 2).sum() / total)) if total > 0 else 0.0


def _check(X, batch, sample_weight):
    """Rows of positive weight, codes of their batches, their weights, and the mask of them."""
    X, batch = check_rows(X), vector(batch, "batch")
    if len(batch) != X.shape[0]:
        raise ValueError(f"batch has {len(batch)} entries but X has {X.shape[0]} rows")
    w = check_weights(sample_weight, len(batch), "X")
    used = w > 0
    if not used.all():
        X, batch, w = X[used], batch[used], w[used]
    codes = encode_labels(batch)
    if codes.max() == 0:
        raise ValueError(
            "batch has 1 distinct value (in rows of positive weight); it should have >= 2"
        )
    return X, codes, w, used


def _shares(codes, neighbours, mass):
    """Share (n, B) of each batch in the mass (n, k) of the neighbours."""
    n, B = len(neighbours), codes.max() + 1
    cell = np.arange(n)[:, None] * B + codes[neighbours]
    sums = np.bincount(cell.ravel(), mass.ravel(), minlength=n * B).reshape(n, B)
    return sums / mass.sum(1, keepdims=True)


def _kernel(distances, perplexity):
    """p (n, k) proportional to exp(-beta_i d_ij) with entropy log(perplexity), by bisection from
    beta = 1. The tolerance is part of the definition: a more exact beta changes the fifth digit."""
    d = distances - distances[:, :1]  # the nearest has p = 1, so that no sum underflows
    beta = np.ones(len(d))
    low, high = np.full(len(d), -np.inf), np.full(len(d), np.inf)
    p = np.empty_like(d)
    todo = np.arange(len(d))
    for _ in range(ENTROPY_TRIES + 1):
        part = d[todo]
        p[todo] = np.exp(-beta[todo, None] * part)
        total = p[todo].sum(1)
        excess = np.log(total) + beta[todo] * (part * p[todo]).sum(1) / total - np.log(perplexity)
        left = np.abs(excess) > ENTROPY_TOL
        todo, wide = todo[left], excess[left] > 0
        if not todo.size:
            break
        low[todo] = np.where(wide, beta[todo], low[todo])
        high[todo] = np.where(wide, high[todo], beta[todo])
        between = (np.maximum(low[todo], 0.0) + np.minimum(high[todo], 1e300)) / 2
        unbounded = np.where(wide, beta[todo] * 2, beta[todo] / 2)
        bounded = np.where(wide, np.isfinite(high[todo]), np.isfinite(low[todo]))
        beta[todo] = np.where(bounded, between, unbounded)
    return p


def _weighted_median(values, w):
    """Median under weights; the mean of the two middle values where exactly half is below."""
    order = np.argsort(values, kind="stable")
    values, below = values[order], np.cumsum(w[order])
    half = below[-1] / 2
    last = len(values) - 1
    ends = [min(int(np.searchsorted(below, half, side=s)), last) for s in ("left", "right")]
    return float(values[ends].mean())
