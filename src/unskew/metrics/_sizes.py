"""Effective size of weights."""

import numpy as np

from .._terms import effective_share
from ._validation import check_weights


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
    m = check_weights(weights, None, "", "weights")
    a = check_weights(base, len(m), "weights", "base")
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
    w = check_weights(weights, None, "", "weights")
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
    w = check_weights(weights, None, "", "weights")
    return float((w > 0).sum() / kish_size(w))
