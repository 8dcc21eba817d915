"""Metrics of clusterings and of weights, all with sample weights.

Every function satisfies these rules: weight 2 is equivalent to the row twice, weight 0 to an absent
row, and unit weights give scikit-learn's value. Multiplying all weights by a constant changes
nothing, with one unavoidable exception: the adjusted Rand index and the silhouette exclude the pair
of a row with itself. Repeating each row adds pairs of copies, which scaling should not add, so that
scikit-learn's value at unit weights can be extended by either rule but not by both; `weight_kind`
selects one.

    "frequency"    weights count rows. Weight 2 = the row twice; the scale has a small effect.
    "importance"   weights are shares. Scaling changes nothing; a pair of distinct rows (i, j)
                   counts w_i w_j and a row has no copies. For learned weights.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import pairwise_distances_chunked
from sklearn.utils import check_array, check_random_state

from ._terms import effective_share
from ._validation import power_of_two

__all__ = [
    "adjusted_rand_score",
    "amount_of_correlation",
    "association",
    "design_effect",
    "effective_sample_size",
    "kish_size",
    "matching_accuracy",
    "normalized_mutual_info_score",
    "purity",
    "silhouette_score",
]

WEIGHT_KINDS = ("frequency", "importance")
# A float attribute with more distinct values than this is numeric, not categorical.
MAX_CATEGORIES = 20
TILE_BYTES = 2**26
# Largest value whose covariances have a finite sum of squares.
LARGEST = 1e70


# ------------------------------------------------------------------ agreement of two labelings
def normalized_mutual_info_score(
    labels_true, labels_pred, *, sample_weight=None, average_method="arithmetic"
):
    """Normalised mutual information of two labelings: 1 if they agree, 0 if independent.

        NMI = I(true, pred) / average(H(true), H(pred))
        I   = sum_ij p_ij log(p_ij / (p_i p_j)),  H = - sum_i p_i log(p_i)

    p_ij is the share of the total weight with true label i and predicted label j. Two labelings
    with one label each agree: 1.

    Parameters
    ----------
    labels_true, labels_pred : array of shape (n,)
        Labels of any type.
    sample_weight : array of shape (n,), default=None
        Weights >= 0 at any scale; None means 1 each.
    average_method : {"arithmetic", "geometric", "min", "max"}, default="arithmetic"
        The average of the two entropies. The paper's tables use "geometric".

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> from unskew.metrics import normalized_mutual_info_score
    >>> normalized_mutual_info_score([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> normalized_mutual_info_score([0, 0, 1, 1], [0, 0, 1, 0], sample_weight=[1, 1, 1, 0])
    1.0
    """
    averages = {
        "arithmetic": lambda a, b: (a + b) / 2,
        "geometric": lambda a, b: np.sqrt(a * b),
        "min": min,
        "max": max,
    }
    if average_method not in averages:
        raise ValueError(f"average_method={average_method!r} should be one of {list(averages)}")
    table = _contingency(labels_true, labels_pred, sample_weight)
    if table.shape == (1, 1):
        return 1.0
    p = table.data / table.data.sum()
    p_true = np.bincount(table.row, p)
    p_pred = np.bincount(table.col, p)
    expected = np.log(p_true)[table.row] + np.log(p_pred)[table.col]
    information = float(p @ (np.log(p) - expected))
    # As in scikit-learn: no shared information gives 0, also when an entropy is 0.
    if information <= np.finfo(float).eps:
        return 0.0
    entropies = [float(-(q @ np.log(q))) for q in (p_true, p_pred)]
    average: Any = averages[average_method]
    return float(min(1.0, information / average(*entropies)))


def adjusted_rand_score(labels_true, labels_pred, *, sample_weight=None, weight_kind="frequency"):
    """Adjusted Rand index: agreement on pairs of rows, 1 if perfect, 0 on average by chance.

        ARI = 2 (tp tn - fn fp) / ((tp + fn) (fn + tn) + (tp + fp) (fp + tn))

    tp, fn, fp, tn count the pairs that are together in both labelings, in the true one only, in
    the predicted one only, in neither. Identical labelings give 1, trivial ones included.

    With weights, pairs of rows in different cells count w_i w_j; within a cell of total weight
    n_ij and sum of squared weights q_ij, twice the number of pairs is

        "frequency"    n_ij (n_ij - 1)     equals scikit-learn on repeated rows for integer weights;
                                           weights should count rows (mean about 1), not be shares
        "importance"   n_ij^2 - q_ij       invariant to scaling; copies of a row are not a pair

    The two agree at unit weights and differ by about (weight of a row) / (total weight) otherwise.

    Parameters
    ----------
    labels_true, labels_pred : array of shape (n,)
        Labels of any type.
    sample_weight : array of shape (n,), default=None
        Weights >= 0; None means 1 each.
    weight_kind : {"frequency", "importance"}, default="frequency"
        Interpretation of the weights; see the module docstring.

    Returns
    -------
    float, at most 1

    Examples
    --------
    >>> from unskew.metrics import adjusted_rand_score
    >>> round(adjusted_rand_score([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.571
    >>> twice = adjusted_rand_score([0, 0, 1, 1, 1], [0, 0, 1, 2, 2])
    >>> twice == adjusted_rand_score([0, 0, 1, 1], [0, 0, 1, 2], sample_weight=[1, 1, 1, 2])
    True
    """
    _check_kind(weight_kind)
    table = _contingency(labels_true, labels_pred, sample_weight)
    n, total = table.data, table.data.sum()
    row, col = np.bincount(table.row, n)[table.row], np.bincount(table.col, n)[table.col]
    # Differences before products: exactly 0 for identical labelings, no cancellation of squares.
    fn = float(n @ (row - n))
    fp = float(n @ (col - n))
    tn = float(n @ ((total - row) - (col - n)))
    if weight_kind == "frequency":
        # In units of the weights; below 2**-900 of a row the limit is reached.
        tp = float(n @ (n - 1 / max(_unit_of(sample_weight), 2.0**-900)))
    else:
        squares = _contingency(labels_true, labels_pred, sample_weight, power=2).data
        tp = float((n * n - squares).sum())
    if fn == 0 and fp == 0:
        return 1.0
    return 2 * (tp * tn - fn * fp) / ((tp + fn) * (fn + tn) + (tp + fp) * (fp + tn))


def purity(labels_true, labels_pred, *, sample_weight=None):
    """Share of the weight in the majority class of its cluster.

        purity = sum_j max_i n_ij / W

    It increases with the number of clusters and is 1 if each row is a cluster: compare it only for
    equal numbers of clusters.

    Parameters
    ----------
    labels_true, labels_pred : array of shape (n,)
        Classes and clusters, labels of any type.
    sample_weight : array of shape (n,), default=None
        Weights >= 0 at any scale; None means 1 each.

    Returns
    -------
    float in (0, 1]

    Examples
    --------
    >>> from unskew.metrics import purity
    >>> purity([0, 0, 1, 1], [0, 0, 0, 1])
    0.75
    """
    table = _contingency(labels_true, labels_pred, sample_weight)
    majority = np.zeros(table.shape[1])
    np.maximum.at(majority, table.col, table.data)
    return float(majority.sum() / table.data.sum())


def matching_accuracy(labels_true, labels_pred, *, sample_weight=None):
    """Accuracy under the best one-to-one matching of clusters and classes.

        accuracy = max over one-to-one matchings of  sum_(i, j matched) n_ij / W

    The matching is optimal (Hungarian algorithm). Surplus clusters or classes stay unmatched and
    count as errors.

    Parameters
    ----------
    labels_true, labels_pred : array of shape (n,)
        Classes and clusters, labels of any type.
    sample_weight : array of shape (n,), default=None
        Weights >= 0 at any scale; None means 1 each.

    Returns
    -------
    float in (0, 1]

    Examples
    --------
    >>> from unskew.metrics import matching_accuracy
    >>> matching_accuracy([0, 0, 1, 1], [1, 1, 0, 2])
    0.75
    """
    table = _contingency(labels_true, labels_pred, sample_weight).toarray()
    matched = table[linear_sum_assignment(table, maximize=True)]
    return float(matched.sum() / table.sum())


def association(labels, attribute, *, sample_weight=None, kind="auto"):
    """Association of a clustering with an attribute (site, channel, ...): 0 none, 1 complete.

        Cramer's V, categories     sqrt( phi2 / min(r - 1, c - 1) ),
                                   phi2 = sum_ij (p_ij - p_i p_j)^2 / (p_i p_j)
        eta, numbers               sqrt( variance between clusters / total variance )

    There is no correction for small samples: independent variables give V of about 1 / sqrt(n).
    The value is 0 if the labels or the attribute are constant. Use the design weights (or none),
    not learned weights, which were optimised to reduce the association.

    Parameters
    ----------
    labels : array of shape (n,)
        Clusters, labels of any type.
    attribute : array of shape (n,)
        Categories of any type, with missing values as a separate category, or finite numbers.
    sample_weight : array of shape (n,), default=None
        Design weights >= 0 at any scale; None means 1 each.
    kind : {"auto", "cramers_v", "eta"}, default="auto"
        "auto" uses eta for a float attribute with more than 20 distinct values, else Cramer's V.
        Integers are treated as codes: use kind="eta" for ages.

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> from unskew.metrics import association
    >>> association([0, 0, 1, 1], ["north", "north", "south", "south"])
    1.0
    >>> association([0, 1, 0, 1], ["north", "north", "south", "south"])
    0.0
    >>> round(association([0, 0, 1, 1], [1.0, 2.0, 3.0, 4.0], kind="eta"), 3)
    0.894
    """
    if kind not in ("auto", "cramers_v", "eta"):
        raise ValueError(f"kind={kind!r} should be one of ['auto', 'cramers_v', 'eta']")
    attribute = _vector(attribute, "attribute")
    if kind == "auto":
        many = attribute.dtype.kind == "f" and len(np.unique(attribute)) > MAX_CATEGORIES
        kind = "eta" if many else "cramers_v"
    if kind == "eta":
        return _correlation_ratio(labels, attribute, sample_weight)
    p = _contingency(labels, attribute, sample_weight, ("labels", "attribute")).toarray()
    if min(p.shape) == 1:
        return 0.0
    p /= p.sum()
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    phi2 = ((p - expected) ** 2 / expected).sum()
    return float(min(1.0, np.sqrt(phi2 / (min(p.shape) - 1))))


def _correlation_ratio(labels, values, sample_weight):
    labels = _vector(labels, "labels")
    _check_lengths(values, "attribute", labels, "labels")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise ValueError(f"attribute has {bad} missing or infinite values but eta needs numbers")
    w = _check_weights(sample_weight, len(labels), "labels")
    codes = _codes(labels)
    w = w / w.sum()
    size = float(np.abs(values).max())
    values = np.ldexp(values, -np.frexp(size)[1])  # the ratio has no unit
    values = values - w @ values
    mass, sums = np.bincount(codes, w), np.bincount(codes, w * values)
    total = w @ values**2
    between = (sums[mass > 0] ** 2 / mass[mass > 0]).sum()
    return float(min(1.0, np.sqrt(between / total))) if total > 0 else 0.0


# ------------------------------------------------------------------------- shape of the clusters
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
    _check_kind(weight_kind)
    if metric == "precomputed":
        raise ValueError(
            "metric='precomputed' is not supported; it should be a metric of rows of X"
        )
    X = _check_rows(X)
    labels = _vector(labels, "labels")
    if len(labels) != X.shape[0]:
        raise ValueError(f"labels has {len(labels)} entries but X has {X.shape[0]} rows")
    w = _check_weights(sample_weight, len(labels), "labels")
    unit = _unit_of(sample_weight)
    size = float(abs(X).max())
    if isinstance(metric, str) and not 2.0**-30 <= size <= 2.0**30 and size > 0:
        X = _times_two_to(X, 1 - np.frexp(size)[1])  # the coefficient has no unit
    rows = np.flatnonzero(w > 0)
    if sample_size is not None:
        if not 2 <= sample_size <= len(rows):
            raise ValueError(
                f"sample_size={sample_size} should be 2 to {len(rows)} (rows of positive weight)"
            )
        rows = check_random_state(random_state).permutation(rows)[:sample_size]
    if len(rows) < len(w) or sample_size is not None:
        X, labels, w = X[rows], labels[rows], w[rows]
    codes = _codes(labels)
    n, k = len(codes), codes.max(initial=-1) + 1
    copies = weight_kind == "frequency" and w.max() * unit > 1
    if k < 2 or (k == n and not copies):
        raise ValueError(f"labels has {k} distinct values but should have 2 to {n - 1} (rows - 1)")

    mass, count = np.bincount(codes, w), np.bincount(codes)
    belongs = sparse.csr_array((w, (np.arange(n), codes)), shape=(n, k))
    if weight_kind == "frequency":
        others = mass[codes] - 1 / max(unit, 2.0**-900)
        singleton = others <= 0
    else:
        others = mass[codes] - w
        singleton = count[codes] == 1
    others[singleton] = 1

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
        value[singleton[tile]] = 0
        return value

    tiles = pairwise_distances_chunked(
        X, metric=metric, reduce_func=score, working_memory=TILE_BYTES / 2**20
    )
    return float(np.average(np.concatenate(list(tiles)), weights=w))


# -------------------------------------------------------------------- effective size of weights
def effective_sample_size(weights, base=None):
    """Effective sample size of multipliers as a share of the sample: 1 if they are constant.

        share = sum(a m)^2 / (N sum(a m^2)),  N = sum(a)

    m are the multipliers (`weights`), a the design weights that they multiply (`base`). The share
    does not include the variation of the design weights; see `kish_size` for both.

    Parameters
    ----------
    weights : array of shape (n,)
        Multipliers m >= 0 at any scale.
    base : array of shape (n,), default=None
        Design weights a >= 0 at any scale; None means 1 each.

    Returns
    -------
    float in (0, 1]

    Examples
    --------
    >>> from unskew.metrics import effective_sample_size
    >>> effective_sample_size([1, 1, 0, 0])
    0.5
    """
    m = _check_weights(weights, None, "", "weights")
    a = _check_weights(base, len(m), "weights", "base")
    # Scale first, so that squares of very large or small weights do not over- or underflow.
    a, m = a / a.max(), m / m.max()
    if not (a @ m) > 0:
        raise ValueError("weights * base has sum 0 but should have a positive entry")
    inverse_a = np.divide(1.0, a, out=np.zeros_like(a), where=a > 0)
    return effective_share(a * m, inverse_a, float(a.sum()))


def kish_size(weights):
    """Kish's effective sample size: sum(w)^2 / sum(w^2).

    Parameters
    ----------
    weights : array of shape (n,)
        Weights >= 0 at any scale, for instance design weights times multipliers.

    Returns
    -------
    float in [1, n]

    Examples
    --------
    >>> from unskew.metrics import kish_size
    >>> kish_size([1, 1, 1, 1]), kish_size([1, 1, 0, 0])
    (4.0, 2.0)
    """
    w = _check_weights(weights, None, "", "weights")
    w = w / w.max()
    return float(w.sum() ** 2 / (w @ w))


def design_effect(weights):
    """Factor by which unequal weights increase the variance of a mean: n sum(w^2) / sum(w)^2.

    n is the number of rows with positive weight, because a row of weight 0 is absent.

    Parameters
    ----------
    weights : array of shape (n,)
        Weights >= 0 at any scale.

    Returns
    -------
    float, at least 1

    Examples
    --------
    >>> from unskew.metrics import design_effect
    >>> design_effect([3, 1]), design_effect([3, 1, 0])
    (1.25, 1.25)
    """
    w = _check_weights(weights, None, "", "weights")
    return float((w > 0).sum() / kish_size(w))


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
    X = _check_rows(X)
    n, d = X.shape
    size = float(abs(X).max())
    if size > LARGEST:
        raise ValueError(
            f"X has values of size {size:.3g}; they should be <= {LARGEST:.0e}, because their "
            "products overflow. Rescale X"
        )
    w = _check_weights(sample_weight, n, "X")
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


# ----------------------------------------------------------------------------- input validation
def _contingency(first, second, sample_weight, names=("labels_true", "labels_pred"), power=1):
    """Sum of w^power for each pair of labels that occurs, as COO, without rows of weight 0."""
    first, second = _vector(first, names[0]), _vector(second, names[1])
    _check_lengths(second, names[1], first, names[0])
    w = _check_weights(sample_weight, len(first), names[0])
    if not w.all():
        first, second, w = first[w > 0], second[w > 0], w[w > 0]
    first, second = _codes(first), _codes(second)
    # Sorted by (first, second), so that tables of different powers have the same order of cells.
    cell, position = np.unique(first * (second.max() + 1) + second, return_inverse=True)
    row, col = np.divmod(cell, second.max() + 1)
    sums = np.bincount(position, w**power)
    return sparse.coo_array((sums, (row, col)), shape=(first.max() + 1, second.max() + 1))


def _codes(values):
    """Labels of any type as 0, 1, 2, ...; all missing values are one label."""
    if values.dtype.kind != "O":
        return np.unique(values, return_inverse=True)[1]
    seen: dict = {}
    return np.array([seen.setdefault(_present(v), len(seen)) for v in values], dtype=np.intp)


def _present(value):
    try:
        return value if value == value else None
    except TypeError:  # pandas.NA has no truth value
        return None


def _vector(values, name):
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"{name} has {values.ndim} dimensions but should have 1")
    if len(values) == 0:
        raise ValueError(f"{name} has 0 entries but should have at least 1")
    return values


def _check_rows(X):
    with np.errstate(invalid="ignore"):  # of a sum with inf, which is refused
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])


def _times_two_to(X, exponent):
    if not sparse.issparse(X):
        return np.ldexp(X, exponent)
    return sparse.csr_array((np.ldexp(X.data, exponent), X.indices, X.indptr), shape=X.shape)


def _check_lengths(values, name, others, other_name):
    if len(values) != len(others):
        raise ValueError(f"{name} has {len(values)} entries but {other_name} has {len(others)}")


def _unit_of(weights):
    """Power of two by which `_check_weights` divides."""
    return 1.0 if weights is None else power_of_two(float(np.max(weights)))


def _check_weights(weights, n, against, name="sample_weight"):
    """Weights as float64, >= 0, finite, not all 0; with `n` None any length is valid.

    Weights of an extreme scale are divided by a power of two, which is exact."""
    if weights is None and n is not None:
        return np.ones(n)
    weights = _vector(weights, name).astype(np.float64)
    if n is not None and len(weights) != n:
        unit = " rows" if against == "X" else ""
        raise ValueError(f"{name} has {len(weights)} entries but {against} has {n}{unit}")
    if not np.isfinite(weights).all():
        at = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise ValueError(f"{name}[{at}]={weights[at]} should be finite")
    if weights.min() < 0:
        at = int(weights.argmin())
        raise ValueError(f"{name}[{at}]={weights[at]} should be >= 0")
    if weights.max() == 0:
        raise ValueError(f"{name} has sum 0 but should have a positive entry")
    return weights / power_of_two(float(weights.max()))


def _check_kind(weight_kind):
    if weight_kind not in WEIGHT_KINDS:
        raise ValueError(f"weight_kind={weight_kind!r} should be one of {list(WEIGHT_KINDS)}")
