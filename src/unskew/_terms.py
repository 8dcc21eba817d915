"""Terms of the objective other than the balance: functions of w and of squared distances e."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


def inertia(w: np.ndarray, e: np.ndarray) -> float:
    """sum_i w_i ||x_i - C[labels_i]||^2; its derivative in w_i is e_i.

    Only e enters, so effects of the suspects change how e is computed but not this term.
    """
    return float(w @ e)


def spread(w: np.ndarray, inverse_a: np.ndarray) -> float:
    """sum_i a_i m_i^2 = sum_i w_i^2 / a_i: ||w||^2 where a = 1. Derivative 2 w_i / a_i.

    With the division by a, a row of weight 2 is equivalent to the row twice.
    """
    if inverse_a.strides == (0,):  # of many rows: without a vector of squares
        return float(w @ w) * float(inverse_a[0])
    return float((w * w) @ inverse_a)


def mass(w: np.ndarray) -> float:
    """(sum(w) - 1)^2, the paper's term against vanishing weights; derivative 2 (sum(w) - 1)."""
    excess = float(w.sum() - 1.0)
    return excess * excess  # ** raises where * overflows to inf


def effective_share(w: np.ndarray, inverse_a: np.ndarray, N: float) -> float:
    """sum(a m)^2 / (N sum(a m^2)): 1 for uniform weights, 1/n if one row has all the weight."""
    squares = spread(w, inverse_a)
    return float(w.sum()) ** 2 / (N * squares) if squares > 0 else 0.0


class Margins(NamedTuple):
    """Squared distance of weighted shares from known ones: sum_j (p_j - wanted_j)^2.

    p_j = (T'w)_j / (O'w)_v for the v-th variable, to which j belongs. Derivative in w_i:
    sum_j 2 (p_j - wanted_j) (T_ij - p_j O_iv) / (O'w)_v

    T        n x q indicators (CSR) of the categories whose shares are known
    O        n x v indicators (CSR) of the rows whose value of that variable is known
    variable for each of the q categories, its variable
    """

    T: Any
    O: Any  # noqa: E741
    variable: np.ndarray
    wanted: np.ndarray

    def shares(self, w: np.ndarray) -> np.ndarray:
        known = self.O.T @ w
        return (self.T.T @ w) / np.where(known > 0, known, 1.0)[self.variable]

    def value(self, w: np.ndarray) -> float:
        off = self.shares(w) - self.wanted
        return float(off @ off)

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        shares = self.shares(w)
        off = shares - self.wanted
        known = self.O.T @ w
        pull = 2.0 * off / np.where(known > 0, known, 1.0)[self.variable]
        back = np.bincount(self.variable, weights=pull * shares, minlength=known.size)
        return float(off @ off), self.T @ pull - self.O @ back
