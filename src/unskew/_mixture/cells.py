"""Least squares of group means and effects from the sums of the cells (group x level).

A level is a combination of values of the suspects. Its effect is B_l = Z_l beta, where Z is the
design (`design.py`); Z is None where the levels are those of one categorical suspect (Z = I). With
effects per group a cell has a deviation D_kl of its own. All is done for J columns at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Prior(NamedTuple):
    """Variances of beta (p, J), and of D (J,) or None, in units of 1 / W."""

    beta: np.ndarray
    group: np.ndarray | None = None


class Solution(NamedTuple):
    """C (K, J), beta (p, J), B = Z beta (L, J) and D (K, L, J) or None."""

    C: np.ndarray
    beta: np.ndarray
    B: np.ndarray
    D: np.ndarray | None


def solve_cells(
    W: np.ndarray,
    WY: np.ndarray,
    prior: Prior,
    Z: np.ndarray | None = None,
    w0: np.ndarray | float = 0.0,
    wz0: np.ndarray | float = 0.0,
) -> Solution:
    """Minimise, for each column j, over C, beta and D

        sum_kl W_klj (Y_klj - C_kj - (Z beta)_lj - D_klj)^2 + sum_k w0_kj (z0_kj - C_kj)^2
            + sum_p beta_pj^2 / prior.beta_pj + sum_kl D_klj^2 / prior.group_j

    jointly. W and WY = W * Y have shape (K, L, J). D is eliminated, which leaves a problem without
    D and with weights W / (1 + W prior.group); then beta is eliminated where Z is None, which
    leaves one K x K system per column. A variance of 0 gives an effect of 0. Solving for C and
    beta in turn would converge slowly where groups and levels are associated, which is the case of
    interest.
    """
    own, cells = reduced(W, prior), reduced_sums(W, WY, prior)
    if Z is None:
        C, beta = _solve_levels(own, cells, prior.beta, w0, wz0)
    else:
        C, beta = _solve_design(own, cells, prior.beta, Z, w0, wz0)
    return _solution(C, beta, own, cells, prior, Z)


def effects_of(
    C: np.ndarray, W: np.ndarray, WY: np.ndarray, prior: Prior, Z: np.ndarray | None
) -> Solution:
    """The minimum of `solve_cells` over beta and D for given C: posterior means."""
    own, cells = reduced(W, prior), reduced_sums(W, WY, prior)
    rest = cells.sum(0) - np.einsum("klj,kj->lj", own, C)
    if Z is None:
        beta = rest * prior.beta / (1.0 + own.sum(0) * prior.beta)
    else:
        root = np.sqrt(prior.beta)
        score = (root * (Z.T @ rest)).T[:, :, None]
        beta = root * np.linalg.solve(information(own, Z, prior.beta), score)[:, :, 0].T
    return _solution(C, beta, own, cells, prior, Z)


def _solution(C, beta, own, cells, prior, Z) -> Solution:
    B = beta if Z is None else Z @ beta
    if prior.group is None:
        return Solution(C, beta, B, None)
    return Solution(C, beta, B, prior.group * (cells - own * (C[:, None] + B[None])))


def reduced(W: np.ndarray, prior: Prior) -> np.ndarray:
    """Weights of the cells once D is integrated out, 1 / (1 / W + prior.group)."""
    return reduced_sums(W, W, prior)


def reduced_sums(W: np.ndarray, WY: np.ndarray, prior: Prior) -> np.ndarray:
    """Weighted responses of the cells, with the weights of `reduced`."""
    return WY if prior.group is None else WY / (1.0 + W * prior.group)


def _solve_levels(W, WY, v, w0, wz0) -> tuple[np.ndarray, np.ndarray]:
    shrink = v / (1.0 + v * W.sum(0))
    A = -np.matmul((W * shrink).transpose(2, 0, 1), W.transpose(2, 1, 0))
    total = W.sum(1) + w0
    at = np.arange(W.shape[0])
    A[:, at, at] += total.T
    level_sums = WY.sum(0)
    rhs = WY.sum(1) + wz0 - np.einsum("klj,lj->kj", W, shrink * level_sums)
    # Groups without rows keep C = 0; the relative 1e-12 bounds the condition number where the
    # prior is wide, in the direction (C + c, B - c) that the rows do not determine.
    A[:, at, at] += 1e-12 * total.max() + 1e-300
    C = np.linalg.solve(A, rhs.T[:, :, None])[:, :, 0].T
    return C, shrink * (level_sums - np.einsum("klj,kj->lj", W, C))


def _solve_design(W, WY, v, Z, w0, wz0) -> tuple[np.ndarray, np.ndarray]:
    K, root = W.shape[0], np.sqrt(v)
    A = normal_matrix(W, Z, Prior(v), w0)
    rhs = np.concatenate([WY.sum(1) + wz0, root * (Z.T @ WY.sum(0))])
    found = np.linalg.solve(A, rhs.T[:, :, None])[:, :, 0].T
    return found[:K], root * found[K:]


def normal_matrix(
    W: np.ndarray, Z: np.ndarray, prior: Prior, w0: np.ndarray | float = 0.0
) -> np.ndarray:
    """Matrix of the normal equations of C and beta / (prior.beta)^1/2, (J, K + p, K + p), for
    weights from which D is eliminated."""
    K, J, p = W.shape[0], W.shape[2], Z.shape[1]
    A = np.zeros((J, K + p, K + p))
    total = W.sum(1) + w0
    at = np.arange(K)
    A[:, at, at] = total.T + (1e-12 * total.max() + 1e-300)
    own = W[:, :, :1] if same_for_columns(W) else W
    A[:, :K, K:] = np.matmul(own.transpose(2, 0, 1), Z) * np.sqrt(prior.beta).T[:, None]
    A[:, K:, :K] = A[:, :K, K:].transpose(0, 2, 1)
    A[:, K:, K:] = information(W, Z, prior.beta)
    return A


def same_for_columns(W: np.ndarray) -> bool:
    """Whether W was broadcast along its last axis."""
    return W.strides[-1] == 0


def information(W: np.ndarray, Z: np.ndarray, v: np.ndarray) -> np.ndarray:
    """I + V^1/2 Z' diag(sum_k W) Z V^1/2 of each column, (J, p, p); W is (K, L, J)."""
    level = W.sum(0)[:, :1] if same_for_columns(W) else W.sum(0)
    root = np.sqrt(v).T
    G = np.matmul(Z.T * level.T[:, None], Z)
    out = G * root[:, :, None] * root[:, None]
    at = np.arange(Z.shape[1])
    out[:, at, at] += 1.0
    return out


def log_volume(W: np.ndarray, prior: Prior, Z: np.ndarray | None) -> np.ndarray:
    """log det(I + prior x information) of beta and D of each column, (J,)."""
    own = reduced(W, prior)
    value = np.zeros(W.shape[2])
    if prior.group is not None:
        value += np.log1p(W * prior.group).sum((0, 1))
    if Z is None:
        return value + np.log1p(own.sum(0) * prior.beta).sum(0)
    some = prior.beta.any(0)  # other columns have no effects
    if some.any():
        value[some] += np.linalg.slogdet(information(own[:, :, some], Z, prior.beta[:, some]))[1]
    return value


def log_profile(
    W: np.ndarray, WY: np.ndarray, prior: Prior, Z: np.ndarray | None, unit: np.ndarray | float
) -> np.ndarray:
    """Log evidence of each column at its best C, up to a constant that no prior changes, (J,); W
    is in units of 1 / ``unit``."""
    C, _, B, D = solve_cells(W, WY, prior, Z)
    mu = C[:, None] + B[None] if D is None else C[:, None] + B[None] + D
    # At the minimum the penalised sum of squares is sum WY Y - sum WY mu.
    return 0.5 * ((WY * mu).sum((0, 1)) / unit - log_volume(W, prior, Z))


def expected_squares(W: np.ndarray, prior: Prior, Z: np.ndarray | None) -> np.ndarray:
    """sum_k W_klj Var(B_lj + D_klj) under the posterior given C, (L, J)."""
    own = reduced(W, prior)
    if Z is None:
        VB = prior.beta / (1.0 + prior.beta * own.sum(0))
    else:
        root = np.sqrt(prior.beta).T
        inverse = np.linalg.inv(information(own, Z, prior.beta))
        scaled = Z[None] * root[:, None]  # (J, L, p)
        VB = (np.matmul(scaled, inverse) * scaled).sum(2).T
    if prior.group is None:
        return W.sum(0) * VB
    kept = 1.0 / (1.0 + W * prior.group)
    return (W * kept * prior.group).sum(0) + (W * kept**2).sum(0) * VB


def total_expected_squares(W: np.ndarray, prior: Prior, Z: np.ndarray | None) -> np.ndarray:
    """`expected_squares` summed over the levels, (J,). With the information I + G of beta / v^1/2
    the sum is tr((I + G)^-1 G) = p - tr((I + G)^-1), without a matrix for each level."""
    if Z is None or prior.group is not None:
        return expected_squares(W, prior, Z).sum(0)
    inverse = np.linalg.inv(information(W, Z, prior.beta))
    return Z.shape[1] - np.trace(inverse, axis1=1, axis2=2)


# Squared scales of effects that are tried, relative to the variance within a group.
SCALES = np.exp(np.linspace(np.log(1e-4), np.log(1e3), 33))
FACTORS = np.array([0.2, 0.5, 0.8, 0.93, 0.98, 1.0, 1.02, 1.07, 1.25, 2.0, 5.0])


def log_evidence(y2: np.ndarray, n: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """Log marginal likelihood of level means y ~ N(0, ratio + 1 / n), relative to ratio = 0;
    y2 = y^2, in units of the variance within a group."""
    known = n * ratio
    return 0.5 * (n * y2 * known / (1.0 + known) - np.log1p(known))


def common_scale(y2: np.ndarray, n: np.ndarray, old: float) -> tuple[float, np.ndarray]:
    """Squared scale t^2 of the effects and which columns have effects, by empirical Bayes.

    y2, n : (L, J). B_lj ~ N(0, t^2 s_j^2) in the columns for which that raises the marginal
    likelihood, B = 0 in the others. One t for all columns, in units of the standard deviation
    within groups, is what makes small effects more likely than large ones where the rows allow
    both: with a free scale for each column, one column with an effect as large as the difference
    of two groups costs next to nothing.
    """
    y2, n = np.broadcast_arrays(y2, n)
    scales = scales_to_try(old)
    gains = log_evidence(y2, n, scales[:, None, None]).sum(1)
    values = np.maximum(gains, 0.0).sum(1)
    best = int(values.argmax())
    return float(scales[best]), gains[best] > 0


def scales_of_columns(old: np.ndarray) -> np.ndarray:
    """`scales_to_try` for several columns, (33, J)."""
    factors = np.resize(FACTORS, SCALES.size)[:, None]
    return np.where(old > 0, old * factors, SCALES[:, None])


def scales_to_try(old: float) -> np.ndarray:
    """A coarse grid at first, then factors of the last value, near 1 and far from it."""
    return SCALES if old <= 0 else old * FACTORS
