"""Input validation of the metrics."""

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from .._validation import check_negligible, power_of_two

WEIGHT_KINDS = ("frequency", "importance")


def contingency(first, second, sample_weight, names=("labels_true", "labels_pred"), power=1):
    """Sum of w^power for each pair of labels that occurs, as COO, without rows of weight 0."""
    first, second = vector(first, names[0]), vector(second, names[1])
    check_lengths(second, names[1], first, names[0])
    w = check_weights(sample_weight, len(first), names[0])
    if not w.all():
        first, second, w = first[w > 0], second[w > 0], w[w > 0]
    first, second = encode_labels(first), encode_labels(second)
    # Sorted by (first, second), so that tables of different powers have the same order of cells.
    cell, position = np.unique(first * (second.max() + 1) + second, return_inverse=True)
    row, col = np.divmod(cell, second.max() + 1)
    sums = np.bincount(position, w**power)
    return sparse.coo_array((sums, (row, col)), shape=(first.max() + 1, second.max() + 1))


def encode_labels(values):
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


def vector(values, name):
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"{name} has {values.ndim} dimensions but should have 1")
    if len(values) == 0:
        raise ValueError(f"{name} has 0 entries but should have at least 1")
    return values


def check_rows(X):
    with np.errstate(invalid="ignore"):  # of a sum with inf, which is refused
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])


def times_two_to(X, exponent):
    if not sparse.issparse(X):
        return np.ldexp(X, exponent)
    return sparse.csr_array((np.ldexp(X.data, exponent), X.indices, X.indptr), shape=X.shape)


def check_lengths(values, name, others, other_name):
    if len(values) != len(others):
        raise ValueError(f"{name} has {len(values)} entries but {other_name} has {len(others)}")


def unit_of(weights):
    """Power of two by which `check_weights` divides."""
    return 1.0 if weights is None else power_of_two(float(np.max(weights)))


def check_weights(weights, n, against, name="sample_weight"):
    """Weights as float64, >= 0, finite, not all 0; with `n` None any length is valid.

    Weights of an extreme scale are divided by a power of two, which is exact."""
    if weights is None and n is not None:
        return np.ones(n)
    given = vector(weights, name)
    if given.dtype.kind not in "buif":
        raise TypeError(f"{name} has dtype {given.dtype}; it should be numeric")
    weights = given.astype(np.float64)
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
    weights = weights / power_of_two(float(weights.max()))
    if name != "weights":  # design weights, which have reciprocals
        check_negligible(name, weights, given)
    return weights


def check_kind(weight_kind):
    if weight_kind not in WEIGHT_KINDS:
        raise ValueError(f"weight_kind={weight_kind!r} should be one of {list(WEIGHT_KINDS)}")
