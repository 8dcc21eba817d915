"""Design of the effects: which combination of suspects has which effect.

A level l of the model is a combination of values of the suspects that occurs in the rows. Effects
are additive over suspects,

    B_l = sum_s Z_ls beta_s,      beta_s ~ N(0, tau_s^2)

where Z_ls has the indicators of the levels of a categorical suspect, and the basis of a numeric
one (`mixture/_suspects.py`). With one categorical suspect Z = I and beta = B.

The shares P(k | l) are free for each combination, or those of a multinomial logit,

    log P(k | l) = alpha_k + Z_l gamma_k + constant,      gamma ~ N(0, LOGIT_SD^2)

where there are many combinations or a suspect is numeric.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LOGIT_SD = 3.0
NEWTON_STEPS = 2


class Design(NamedTuple):
    """Basis of the effects of L levels.

    Z        (L, p), or None for the identity
    suspect  (p,): suspect of each column of Z
    codes    (L, S): level of each suspect in each combination; for a numeric one its interval
    logit    number of free coefficients per group of the logit, or 0: shares free by level
    """

    Z: np.ndarray | None
    suspect: np.ndarray
    codes: np.ndarray
    logit: int = 0

    @classmethod
    def of_levels(cls, n_levels: int) -> Design:
        """Levels of one categorical suspect."""
        return cls(None, np.zeros(n_levels, np.intp), np.arange(n_levels)[:, None])

    @property
    def n_suspects(self) -> int:
        return self.codes.shape[1]

    def directions(self, s: int, W: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Independent estimates y ~ N(beta, 1 / n) of the effects of suspect s: (y, n), (p_s, J).

        W (L, J): weights; rest (L, J): weighted residuals of all but suspect s. The information
        Z_s' W Z_s is diagonal for a categorical suspect and is diagonalised for a numeric one.
        """
        if self.Z is None:
            return rest / np.maximum(W, 1e-300), W
        own = self.Z[:, self.suspect == s]
        score = own.T @ rest
        if np.isin(own, (0.0, 1.0)).all() and (own.sum(1) <= 1).all():
            n = own.T @ W
            return score / np.maximum(n, 1e-300), n
        values, vectors = np.linalg.eigh(np.matmul(own.T * W.T[:, None], own))  # (J, p_s, p_s)
        n = np.maximum(values, 0.0).T
        turned = np.einsum("jpq,pj->qj", vectors, score)
        return turned / np.maximum(n, 1e-300), n

    def effect_of(self, s: int, beta: np.ndarray) -> np.ndarray:
        """Effects of suspect s at each level, (L, J)."""
        if self.Z is None:
            return beta
        own = self.suspect == s
        return self.Z[:, own] @ beta[own]


def fit_logit(N: np.ndarray, design: Design, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares (L, K) of a multinomial logit for weights N (L, K), by Newton steps from gamma
    (1 + p, K): maximises sum N log P - sum gamma^2 / (2 LOGIT_SD^2), intercepts without prior."""
    Z = design.Z if design.Z is not None else np.eye(len(N))
    X = np.column_stack([np.ones(len(N)), Z])
    m, K = gamma.shape
    ridge = np.full(m, LOGIT_SD**-2.0)
    ridge[0] = 1e-8
    n = N.sum(1)

    def value(gamma: np.ndarray) -> tuple[float, np.ndarray]:
        eta = X @ gamma
        eta -= np.logaddexp.reduce(eta, axis=1)[:, None]
        return float((N * eta).sum() - 0.5 * (ridge[:, None] * gamma**2).sum()), np.exp(eta)

    best, P = value(gamma)
    for _ in range(NEWTON_STEPS):
        gradient = X.T @ (N - n[:, None] * P) - ridge[:, None] * gamma
        H = np.zeros((K, m, K, m))
        for k in range(K):
            for h in range(k + 1):
                w = n * P[:, k] * ((k == h) - P[:, h])
                H[k, :, h] = H[h, :, k] = (X.T * w) @ X
            H[k, :, k] += np.diag(ridge)
        step = np.linalg.solve(H.reshape(K * m, K * m), gradient.T.ravel()).reshape(K, m).T
        rate = 1.0
        for _ in range(12):
            found, new = value(gamma + rate * step)
            if found >= best:
                gamma, P, gain, best = gamma + rate * step, new, found - best, found
                break
            rate *= 0.5
        else:
            break
        if gain <= 1e-10 * abs(best):
            break
    return P, gamma
