"""What the families of columns share: group means C, effects of suspects, and their priors.

A block holds the parameters of its columns, and works on sums over rows only:

    natural()      theta (P, L, q, K) and kappa (P, L, K): log f(x | k, l) = x theta + kappa + a
                   term of the row alone, for each pattern of missing values and each level
    m_step(stats)  parameters that do not lower the bound, from the sums of the cells
    penalty(stats) log p(B) and the logarithm of the volume of B's posterior (Laplace), and the log
                   priors that regularise the other parameters

K groups, L levels, P patterns, q columns of the block, S suspects, p columns of the design.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy.special import gammaln

from .cells import Prior, Solution, common_scale, log_profile, normal_matrix, reduced, reduced_sums

# Forms of the effects, in the order of their number of parameters.
EFFECTS = ("none", "shift", "shift-scale", "per-group")
# Rows of the weak prior that keeps estimated probabilities from 0 and 1.
PSEUDO_ROWS = 1e-3


class Block:
    """Means C_k + B_l + D_kl of q columns: B = Z beta, beta ~ N(0, tau2), D ~ N(0, delta2).

    tau2 (S, q) and delta2 (q,) are 0 where there is no effect; B is 0 with effects="none", and D
    unless effects="per-group".
    """

    C: np.ndarray

    def _weights(self, stats: Any) -> np.ndarray:
        """Information of the cells, (K, L, q)."""
        raise NotImplementedError

    def _init_effects(self, rows: Any, K: int, effects: str, n_columns: int, n_tau: int) -> None:
        design = rows.design
        self.n_columns, self.effects = n_columns, effects
        self.shift = effects != "none"
        self.per_group = effects == "per-group"
        L = rows.n_levels
        self.beta = np.zeros((design.suspect.size, n_columns))
        self.B = np.zeros((L, n_columns))
        self.D: np.ndarray | None = np.zeros((K, L, n_columns)) if self.per_group else None
        self.tau2 = np.full((design.n_suspects, n_tau), 1.0 if self.shift else 0.0)
        self.delta2 = np.full(n_tau, 0.1 if self.per_group else 0.0)

    @property
    def n_scales(self) -> int:
        """Scales of effects: one for each suspect, and one of those per group."""
        return (len(self.tau2) if self.shift else 0) + self.per_group

    def _masks(self) -> list[np.ndarray]:
        """Which columns have effects, of each kind."""
        masks = [tau2 > 0 for tau2 in self.tau2] if self.shift else []
        return masks + ([self.delta2 > 0] if self.per_group else [])

    @property
    def log_prior_of_columns(self) -> float:
        """Log prior of which columns have effects."""
        return sum(log_subset_prior(used) for used in self._masks())

    @property
    def mu(self) -> np.ndarray:
        """C + B + D of each cell, (K, L, q)."""
        mu = self.C[:, None] + self.B[None]
        return mu if self.D is None else mu + self.D

    def per_category(self, scales: np.ndarray) -> np.ndarray:
        """Scales of the source columns for each column of the block: categories share one."""
        return scales

    def _prior(self, design: Any, unit: np.ndarray | float = 1.0) -> Prior:
        """Prior variances relative to ``unit``, for all columns of the block."""
        group = self.per_category(self.delta2) / unit if self.per_group else None
        return Prior((self.per_category(self.tau2) / unit)[design.suspect], group)

    def _take(self, found: Solution) -> None:
        self.C, self.beta, self.B, self.D = found

    def _log_prior(self, design: Any) -> float:
        """Sum of -beta^2 / (2 tau2) and -D^2 / (2 delta2)."""
        value = squares_over(self.beta, self._prior(design).beta)
        if self.D is not None:
            value += squares_over(self.D, self.per_category(self.delta2))
        return -0.5 * value

    def _learn_scales(
        self, W: np.ndarray, WY: np.ndarray, design: Any, unit: np.ndarray | float = 1.0
    ) -> None:
        """tau2 and delta2 by empirical Bayes, suspect by suspect given the other effects.

        W (K, L, q): weights of the cells, in units of 1 / ``unit``; WY: weighted responses.
        """
        prior = self._prior(design, unit)
        own, cells = reduced(W, prior), reduced_sums(W, WY, prior)
        level = own.sum(0)
        rest = cells.sum(0) - np.einsum("klj,kj->lj", own, self.C) - level * self.B
        for s in range(len(self.tau2)):
            effect = design.effect_of(s, self.beta)
            y, n = design.directions(s, level, rest + level * effect)
            self.tau2[s] = self._scale(s, y**2 / unit, n, self.tau2[s] / unit) * unit
        if self.per_group:
            y = WY / np.maximum(W, 1e-300) - self.C[:, None] - self.B[None]
            y2, n = (x.reshape(-1, x.shape[2]) for x in (y**2 / unit, np.array(W)))
            self.delta2 = self._scale(-1, y2, n, self.delta2 / unit) * unit

    def _scale(self, s: int, y2: np.ndarray, n: np.ndarray, old: np.ndarray) -> np.ndarray:
        """Squared scales of the effects of suspect s (-1: of those per group) in each column."""
        t2, used = common_scale(y2, n, float(old.max()))
        return np.where(used, t2, 0.0)

    def _variance_in(
        self, W: np.ndarray, prior: Prior, Z: np.ndarray | None, T: np.ndarray
    ) -> np.ndarray:
        """Posterior variances of the combinations T (R, p) of beta, (R, J), with C estimated."""
        A = normal_matrix(reduced(W, prior), np.eye(len(prior.beta)) if Z is None else Z, prior)
        K = W.shape[0]
        inverse = np.linalg.inv(A)[:, K:, K:]
        scaled = T[None] * np.sqrt(prior.beta).T[:, None]  # (J, R, p)
        return (np.matmul(scaled, inverse) * scaled).sum(2).T

    def effect_variance(self, stats: Any, T: np.ndarray) -> np.ndarray:
        """Posterior variances of the combinations T (R, p) of beta, (R, q)."""
        design = stats.rows.design
        return self._variance_in(self._weights(stats), self._prior(design), design.Z, T)

    def reconsider_columns(self, stats: Any) -> bool:
        """Choose the columns with effects by evidence at the best C, and return whether any
        changed.

        Scales are learned for given C. Where groups and levels are associated, C adapts to an
        effect that is not there, and the effect to this C: both choices confirm themselves.
        """
        return False

    def _choose_columns(
        self, W: np.ndarray, WY: np.ndarray, design: Any, unit: np.ndarray | float = 1.0
    ) -> bool:
        before = [x > 0 for x in (self.tau2, self.delta2)]
        rows = [*self.tau2, self.delta2] if self.per_group else list(self.tau2)
        for row in rows:
            t2, values = float((row / unit).max()), []
            for scale in (0.0, t2):
                row[:] = scale * unit
                values.append(log_profile(W, WY, self._prior(design, unit), design.Z, unit))
            row[:] = np.where(values[1] > values[0], t2 * unit, 0.0)
        return any((x > 0).tolist() != y.tolist() for x, y in zip((self.tau2, self.delta2), before))

    def _whiten(self, x: np.ndarray) -> np.ndarray:
        """Differences of means in units of the spread within groups."""
        return x

    def differences_along(self) -> tuple[np.ndarray, np.ndarray]:
        """(C_k - C_h)' (mu_kl - mu_hl) at each level, (L, K, K), and |C_k - C_h|^2, (K, K), in
        units of the spread within groups."""
        C, mu = self._whiten(self.C), self._whiten(self.mu - self.B[None])
        return _contrast(np.einsum("aj,blj->lab", C, mu)), _contrast(C @ C.T)

    def unlock(self) -> None:
        """Forget what an earlier run of EM has fixed."""

    def copy(self) -> Any:
        """A copy whose arrays can be changed in place."""
        new = copy(self)
        new.__dict__ |= {k: v.copy() for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        return new

    def reorder(self, order: np.ndarray) -> None:
        """Renumber the groups."""
        self.C = self.C[order]
        self.D = None if self.D is None else self.D[order]

    def at_levels(self, own: Any, Z: np.ndarray, D_of: np.ndarray, average: np.ndarray) -> None:
        """Set the effects of ``own``, a copy of the block, to those at other levels: B = Z beta, D
        that of level ``D_of`` (-1: the average over ``average``)."""
        own.B = Z @ self.beta
        if self.D is not None:
            mean = np.einsum("klj,l->kj", self.D, average)
            own.D = np.concatenate([self.D, mean[:, None]], axis=1)[:, D_of]

    def row_constant(self, rows: Any) -> float:
        return 0.0

    def row_constants(self, rows: Any) -> Any:
        return 0.0


def _contrast(G: np.ndarray) -> np.ndarray:
    """G_kk - G_kh - G_hk + G_hh."""
    own = np.diagonal(G, axis1=-2, axis2=-1)
    return own[..., :, None] + own[..., None, :] - G - np.swapaxes(G, -1, -2)


def ratio_of(x: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """x / variance, 0 where the variance is 0."""
    variance = np.broadcast_to(variance, x.shape)
    return np.divide(x, variance, out=np.zeros_like(x), where=variance > 0)


def squares_over(x: np.ndarray, variance: np.ndarray) -> float:
    """Sum of x^2 / variance where the variance is positive (x is 0 elsewhere)."""
    return float(ratio_of(x**2, variance).sum())


def log_subset_prior(used: np.ndarray) -> float:
    """Log prior of which columns have effects: every number of columns is equally likely, and every
    subset of that size (as in the extended BIC)."""
    d, m = used.size, int(used.sum())
    return float(-np.log(d + 1) - gammaln(d + 1) + gammaln(m + 1) + gammaln(d - m + 1))
