"""Agreement of two labelings, and association of a labeling with an attribute."""

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ._validation import (
    check_kind,
    check_lengths,
    check_weights,
    contingency,
    encode_labels,
    unit_of,
    vector,
)

# A float attribute with more distinct values than this is numeric, not categorical.
MAX_CATEGORIES = 20


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
    table = contingency(labels_true, labels_pred, sample_weight)
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
    float, at most 1 (with weight_kind="frequency" for weights of at least 1; smaller ones are no
    numbers of rows, and the value can exceed 1)

    Examples
    --------
    >>> from unskew.metrics import adjusted_rand_score
    >>> round(adjusted_rand_score([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.571
    >>> twice = adjusted_rand_score([0, 0, 1, 1, 1], [0, 0, 1, 2, 2])
    >>> twice == adjusted_rand_score([0, 0, 1, 1], [0, 0, 1, 2], sample_weight=[1, 1, 1, 2])
    True
    """
    check_kind(weight_kind)
    table = contingency(labels_true, labels_pred, sample_weight)
    n, total = table.data, table.data.sum()
    row, col = np.bincount(table.row, n)[table.row], np.bincount(table.col, n)[table.col]
    # Differences before products: exactly 0 for identical labelings, no cancellation of squares.
    fn = float(n @ (row - n))
    fp = float(n @ (col - n))
    tn = float(n @ ((total - row) - (col - n)))
    if weight_kind == "frequency":
        # In units of the weights; below 2**-900 of a row the limit is reached.
        tp = float(n @ (n - 1 / max(unit_of(sample_weight), 2.0**-900)))
    else:
        squares = contingency(labels_true, labels_pred, sample_weight, power=2).data
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
    table = contingency(labels_true, labels_pred, sample_weight)
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
    table = contingency(labels_true, labels_pred, sample_weight).toarray()
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
    attribute = vector(attribute, "attribute")
    if kind == "auto":
        many = attribute.dtype.kind == "f" and len(np.unique(attribute)) > MAX_CATEGORIES
        kind = "eta" if many else "cramers_v"
    if kind == "eta":
        return _correlation_ratio(labels, attribute, sample_weight)
    p = contingency(labels, attribute, sample_weight, ("labels", "attribute")).toarray()
    if min(p.shape) == 1:
        return 0.0
    p /= p.sum()
    rows, columns = p.sum(axis=1, keepdims=True), p.sum(axis=0)
    excess = p - rows * columns
    phi2 = ((excess / rows) * (excess / columns)).sum()  # the product of the shares may underflow
    return float(min(1.0, np.sqrt(phi2 / (min(p.shape) - 1))))


def _correlation_ratio(labels, values, sample_weight):
    labels = vector(labels, "labels")
    check_lengths(values, "attribute", labels, "labels")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise ValueError(f"attribute has {bad} missing or infinite values but eta needs numbers")
    w = check_weights(sample_weight, len(labels), "labels")
    codes = encode_labels(labels)
    w = w / w.sum()
    size = float(np.abs(values).max())
    values = np.ldexp(values, -np.frexp(size)[1])  # the ratio has no unit
    values = values - w @ values
    mass, sums = np.bincount(codes, w), np.bincount(codes, w * values)
    total = w @ values**2
    between = (sums[mass > 0] ** 2 / mass[mass > 0]).sum()
    return float(min(1.0, np.sqrt(between / total))) if total > 0 else 0.0
