"""Least squares of group means and level effects from the sums of the cells (group x level)."""

from __future__ import annotations

import numpy as np


def solve_cells(
    W: np.ndarray,
    WZ: np.ndarray,
    ridge: np.ndarray,
    w0: np.ndarray | float = 0.0,
    wz0: np.ndarray | float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise, for each column j, over C (K, J) and B (L, J)

        sum_kl W_klj (Z_klj - C_kj - B_lj)^2 + sum_k w0_kj (z0_kj - C_kj)^2 + ridge_j sum_l B_lj^2

    jointly. W and WZ = W * Z have shape (K, L, J). B is eliminated, which leaves one K x K system
    per column; ridge = inf gives B = 0. Solving for C and B in turn would converge slowly where
    groups and levels are associated, which is the case of interest.
    """
    K, L, J = W.shape
    finite = np.isfinite(ridge)
    shrink = np.zeros((L, J))
    D = W.sum(0)[:, finite] + ridge[finite]
    shrink[:, finite] = np.divide(1.0, D, out=np.zeros_like(D), where=D > 0)
    A = -np.matmul((W * shrink).transpose(2, 0, 1), W.transpose(2, 1, 0))
    total = W.sum(1) + w0
    at = np.arange(K)
    A[:, at, at] += total.T
    level_sums = WZ.sum(0)
    rhs = WZ.sum(1) + wz0 - np.einsum("klj,lj->kj", W, shrink * level_sums)
    # Groups without rows keep C = 0; the relative 1e-12 bounds the condition number where the
    # ridge is tiny, in the direction (C + c, B - c) that the rows do not determine.
    A[:, at, at] += 1e-12 * total.max() + 1e-300
    C = np.linalg.solve(A, rhs.T[:, :, None])[:, :, 0].T
    B = shrink * (level_sums - np.einsum("klj,kj->lj", W, C))
    return C, B


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


def scales_to_try(old: float) -> np.ndarray:
    """A coarse grid at first, then factors of the last value, near 1 and far from it."""
    return SCALES if old <= 0 else old * FACTORS
