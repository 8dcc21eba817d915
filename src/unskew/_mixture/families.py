"""Families of columns: Gaussian (shared diagonal or full covariance), Bernoulli, categorical.

A block holds the parameters of its columns, and works on sums over rows only:

    natural()      theta (P, L, q, K) and kappa (P, L, K): log f(x | k, l) = x theta + kappa + a
                   term of the row alone, for each pattern of missing values and each level
    m_step(stats)  parameters that do not lower the bound, from the sums of the cells
    penalty(stats) log p(B) and the logarithm of the volume of B's posterior (Laplace), and the log
                   prior of a full covariance

K groups, L levels, P patterns, q columns of the block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import cholesky, eigh, inv
from scipy.special import gammaln

from .cells import common_scale, log_evidence, scales_to_try, solve_cells

LOG_2PI = float(np.log(2 * np.pi))
# Smallest variance within a group, of a standardised column.
MIN_VARIANCE = 1e-6
# Rows of the weak prior that keeps estimated probabilities from 0 and 1.
PSEUDO_ROWS = 1e-3
INNER_STEPS = 3
# Rows of the prior of a full covariance, in units of d + 1.
PRIOR_ROWS = 1.0


class GaussianBlock:
    """Numeric columns, standardised: x ~ N(C_k + B_l, Sigma), B_lj ~ N(0, tau_j^2).

    Given the responsibilities the posterior of B_l is Gaussian with covariance
    V_l = (n_l Sigma^-1 + T^-1)^-1, whatever the responsibilities are, so that the bound

        sum_i log sum_k pi_kl N(x_i; C_k + B_l, Sigma)
            - 1/2 sum_l [B_l' T^-1 B_l + log det(I + n_l T Sigma^-1)]

    is at once the evidence lower bound of q(z) q(B) and the Laplace approximation with the
    complete-data information. In the basis in which Sigma = I and T is diagonal all columns are
    independent, so that the full covariance needs no other solver than the diagonal one.
    """

    def __init__(self, rows: Any, K: int, full: bool, shift: bool):
        self.n_columns = g = rows.n_gauss
        self.full, self.shift = full, shift
        L = rows.n_levels
        self.C, self.B = np.zeros((K, g)), np.zeros((L, g))
        self.variance = np.ones(g)
        self.Sigma = np.eye(g)
        self.tau2 = np.full(g, 1.0 if shift else 0.0)
        self.floor = rows.floor
        self.nu = PRIOR_ROWS * (g + 1) if full else 0.0

    @property
    def n_parameters(self) -> int:
        K, g = self.C.shape
        spread = g * (g + 1) // 2 if self.full else g
        return K * g + spread + (1 if self.shift else 0)

    # ------------------------------------------------------------------------------- diagonal
    def _counts(self, stats: Any) -> np.ndarray:
        """Weight of the known values per cell and column, (K, L, g)."""
        n = stats.N.sum(0).T[:, :, None]
        if stats.rows.mask_of.size == 0:
            return np.broadcast_to(n, (*n.shape[:2], self.n_columns))
        counts = np.repeat(n, self.n_columns, axis=2)
        counts[:, :, stats.rows.mask_of] = stats.masks.sum(0).transpose(1, 0, 2)
        return counts

    def _spread_of_posterior(self, level_counts: np.ndarray) -> np.ndarray:
        """V_lj (L, g)."""
        with np.errstate(divide="ignore"):
            return 1.0 / (level_counts / self.variance + 1.0 / self.tau2)

    def _m_step_diagonal(self, stats: Any, learn_tau: bool) -> None:
        n = self._counts(stats)
        S = stats.gauss.sum(0).transpose(1, 0, 2)
        with np.errstate(divide="ignore"):
            ridge = self.variance / self.tau2
        self.C, self.B = solve_cells(n, S, ridge)
        V = self._spread_of_posterior(n.sum(0))
        mu = self.C[:, None] + self.B[None]
        total = n.sum((0, 1))
        squares = stats.rows.squares - 2 * (S * mu).sum((0, 1)) + (n * mu**2).sum((0, 1))
        squares += (n.sum(0) * V).sum(0)
        self.variance = np.maximum(squares / np.maximum(total, 1e-300), self.floor)
        if learn_tau:
            level = n.sum(0)
            y = (S.sum(0) - np.einsum("klj,kj->lj", n, self.C)) / np.maximum(level, 1e-300)
            old = float((self.tau2 / self.variance).max())
            t2, used = common_scale(y**2 / self.variance, level, old)
            self.tau2 = np.where(used, t2 * self.variance, 0.0)
            known = level * np.where(used, t2, 0.0)
            self.B = y * known / (1.0 + known)

    # ----------------------------------------------------------------------------------- full
    def _basis(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W with W' Sigma W = I and W' T W = diag(ratio), its inverse, and ratio."""
        lower = cholesky(self.Sigma)
        half = inv(lower)
        root = half * np.sqrt(self.tau2)
        ratio, U = eigh(root @ root.T)
        return half.T @ U, U.T @ lower.T, np.where(ratio > 1e-12, ratio, 0.0)

    def _m_step_full(self, stats: Any, learn_tau: bool) -> None:
        S, Q = self._completed(stats)
        n = stats.N.sum(0).T  # (K, L)
        W, inverse, ratio = self._basis()
        with np.errstate(divide="ignore"):
            ridge = 1.0 / ratio
        counts = np.broadcast_to(n[:, :, None], (*n.shape, self.n_columns))
        C, B = solve_cells(counts, S.transpose(1, 0, 2) @ W, ridge)
        self.C, self.B = C @ inverse, B @ inverse
        level = n.sum(0)
        V = 1.0 / (level[:, None] + ridge)  # (L, g), in the basis
        mu = self.C[:, None] + self.B[None]
        cross = np.einsum("lki,klj->ij", S, mu)
        scatter = Q - cross - cross.T + np.einsum("kli,klj->ij", n[:, :, None] * mu, mu)
        scatter += inverse.T @ ((level @ V)[:, None] * inverse)
        conditional = 1.0 / np.diag(self._inverse(self.Sigma))
        total = float(level.sum())
        Sigma = (scatter + self.nu * np.diag(conditional)) / (total + self.nu)
        self.Sigma = self._positive(0.5 * (Sigma + Sigma.T))
        self.variance = np.diag(self.Sigma).copy()
        if learn_tau:
            y = (S.sum(1) - n.T @ self.C) / np.maximum(level, 1e-300)[:, None]
            self._learn_tau_full(y, level[:, None])

    def _learn_tau_full(self, y: np.ndarray, level: np.ndarray) -> None:
        """t and the columns with effects: those of the diagonal rule, unless the marginal
        likelihood is higher with the columns as they were."""
        old = float((self.tau2 / self.variance).max())
        t2, used = common_scale(y**2 / self.variance, level, old)
        candidates = [used] if old <= 0 else [used, self.tau2 > 0]
        best = (0.0, 0.0, np.zeros(self.n_columns, bool))
        for which in candidates:
            self.tau2 = np.where(which, self.variance, 0.0)
            W, _, ratio = self._basis()
            y2 = (y @ W) ** 2
            scales = np.append(scales_to_try(old), t2)
            values = log_evidence(y2, level, scales[:, None, None] * ratio).sum((1, 2))
            at = int(values.argmax())
            if values[at] > best[0]:
                best = (float(values[at]), float(scales[at]), which)
        self.tau2 = np.where(best[2], best[1] * self.variance, 0.0)
        W, inverse, ratio = self._basis()
        known = level * ratio
        self.B = ((y @ W) * known / (1.0 + known)) @ inverse

    def _positive(self, Sigma: np.ndarray) -> np.ndarray:
        """Sigma with variances and eigenvalues (of the correlations) bounded below: never
        singular."""
        short = np.maximum(self.floor - np.diag(Sigma), 0.0)
        Sigma = Sigma + np.diag(short)
        sd = np.sqrt(np.diag(Sigma))
        R = Sigma / np.outer(sd, sd)
        try:
            cholesky(R - MIN_VARIANCE * np.eye(len(R)))
            return Sigma
        except np.linalg.LinAlgError:
            values, vectors = eigh(R)
        fixed = (vectors * np.maximum(values, MIN_VARIANCE)) @ vectors.T
        return 0.5 * (fixed + fixed.T) * np.outer(sd, sd)

    @staticmethod
    def _inverse(Sigma: np.ndarray) -> np.ndarray:
        half = inv(cholesky(Sigma))
        return half.T @ half

    def _completed(self, stats: Any) -> tuple[np.ndarray, np.ndarray]:
        """Expected sums (L, K, g) and second moments (g, g) of the complete rows: missing values
        are replaced by their conditional moments given the known ones, pattern by pattern."""
        rows, g = stats.rows, self.n_columns
        if len(rows.patterns) == 1:
            return stats.gauss[0], rows.moments[0]
        known = np.array(rows.patterns)  # (P, g)
        mu = self.C[None] + self.B[:, None]  # (L, K, g)
        N = stats.N[..., None]
        inverses, _ = self.precisions(rows)
        # J: conditional mean of a row's residuals given its known ones.
        J = np.where(known[:, :, None], 0.0, self.Sigma @ inverses) + known[:, :, None] * np.eye(g)
        s = stats.gauss
        residual = J[:, None] @ np.where(known[:, None, None], s - N * mu, 0.0).transpose(
            0, 1, 3, 2
        )
        residual = residual.transpose(0, 1, 3, 2)  # (P, L, K, g)
        S = (N * mu + residual).sum(0)
        flat, P = mu.reshape(-1, g), len(known)
        cross = s.reshape(P, -1, g).transpose(0, 2, 1) @ flat
        squares = (N * mu).reshape(P, -1, g).transpose(0, 2, 1) @ flat
        around = np.array(rows.moments) - cross - cross.transpose(0, 2, 1) + squares
        around = np.where(known[:, :, None] & known[:, None], around, 0.0)
        moved = residual.sum(0).reshape(-1, g).T @ flat
        Q = squares.sum(0) + moved + moved.T + (J @ around @ J.transpose(0, 2, 1)).sum(0)
        rest = self.Sigma - J @ np.where(known[:, :, None], self.Sigma, 0.0)
        missing = ~known[:, :, None] & ~known[:, None]
        Q += (rows.pattern_weight[:, None, None] * np.where(missing, rest, 0.0)).sum(0)
        return S, Q

    # --------------------------------------------------------------------------------- shared
    def m_step(self, stats: Any, learn_tau: bool = True) -> None:
        if self.full:
            self._m_step_full(stats, learn_tau and self.shift)
        else:
            self._m_step_diagonal(stats, learn_tau and self.shift)

    def precisions(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """For each pattern the inverse covariance of the known columns, 0 elsewhere, (P, g, g), and
        its log determinant."""
        known = np.array(rows.patterns).reshape(-1, self.n_columns)
        both = known[:, :, None] & known[:, None]
        # Missing columns: a block of the identity, which changes neither inverse nor determinant.
        padded = np.where(both, self.Sigma, np.eye(self.n_columns))
        return np.where(both, np.linalg.inv(padded), 0.0), -np.linalg.slogdet(padded)[1]

    def natural(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        mu = self.C[None] + self.B[:, None]  # (L, K, g)
        P, (L, K, g) = len(rows.patterns), mu.shape
        theta = np.zeros((P, L, g + rows.mask_of.size, K))
        kappa = np.zeros((P, L, K))
        if self.full:
            inverses, _ = self.precisions(rows)
            for p, inverse in enumerate(inverses):
                half = mu @ inverse
                theta[p, :, :g] = half.transpose(0, 2, 1)
                kappa[p] = -0.5 * (half * mu).sum(2)
            return theta, kappa
        half = mu / self.variance
        theta[:, :, :g] = half.transpose(0, 2, 1)
        own = -0.5 * half * mu
        theta[:, :, g:] = own[:, :, rows.mask_of].transpose(0, 2, 1)
        own[:, :, rows.mask_of] = 0.0
        kappa[:] = own.sum(2)
        return theta, kappa

    def row_constant(self, rows: Any) -> float:
        """Sum over rows of the part of log f that no group changes."""
        if self.full:
            inverses, dets = self.precisions(rows)
            value = 0.0
            for p, known in enumerate(rows.patterns):
                n = rows.pattern_weight[p]
                value += 0.5 * n * (dets[p] - known.sum() * LOG_2PI)
                value -= 0.5 * float((inverses[p] * rows.moments[p]).sum())
            return value
        return -0.5 * float(
            (rows.squares / self.variance).sum()
            + (rows.known_weight * (LOG_2PI + np.log(self.variance))).sum()
        )

    def row_constants(self, rows: Any) -> np.ndarray:
        """The same for each row."""
        X = rows.X[:, : self.n_columns]
        if self.full:
            inverses, dets = self.precisions(rows)
            out = np.empty(len(X))
            for first, last, _, p in rows.groups:
                part = X[first:last]
                out[first:last] = 0.5 * (dets[p] - rows.patterns[p].sum() * LOG_2PI)
                out[first:last] -= 0.5 * ((part @ inverses[p]) * part).sum(1)
            return out
        logs = LOG_2PI + np.log(self.variance)
        free = np.ones(self.n_columns, bool)
        free[rows.mask_of] = False
        constant = logs[free].sum() + rows.masks @ logs[rows.mask_of]
        return -0.5 * ((X**2 / self.variance).sum(1) + constant)

    def penalty(self, stats: Any) -> tuple[float, float]:
        """(log prior and volume of B; log prior of Sigma)."""
        prior = 0.0
        if self.full:
            inverse = self._inverse(self.Sigma)
            det = np.linalg.slogdet(self.Sigma)[1]
            prior = -0.5 * self.nu * float(det + np.log(np.diag(inverse)).sum())
        used = self.tau2 > 0
        if not self.shift or not used.any():
            return 0.0, prior
        squares = float((self.B[:, used] ** 2 / self.tau2[used]).sum())
        if self.full and len(stats.rows.patterns) > 1:
            root = np.sqrt(self.tau2[used])
            scaled = self._information(stats)[:, used][:, :, used] * np.outer(root, root)
            volume = np.linalg.slogdet(np.eye(root.size) + scaled)[1].sum()
        elif self.full:
            _, _, ratio = self._basis()
            volume = np.log1p(stats.N.sum((0, 2))[:, None] * ratio).sum()
        else:
            n = self._counts(stats).sum(0)
            volume = np.log1p(n * self.tau2 / self.variance).sum()
        return -0.5 * (squares + float(volume)), prior

    def _information(self, stats: Any) -> np.ndarray:
        """Information of the known values about the effects of each level, (L, g, g)."""
        return np.einsum("pl,pij->lij", stats.N.sum(2), self.precisions(stats.rows)[0])

    def posterior_variance(self, stats: Any) -> np.ndarray:
        """Posterior variances of the effects, (L, g)."""
        if not self.full:
            return self._spread_of_posterior(self._counts(stats).sum(0))
        if len(stats.rows.patterns) > 1:
            used = np.flatnonzero(self.tau2 > 0)
            precision = self._information(stats)[:, used][:, :, used] + np.diag(1 / self.tau2[used])
            out = np.zeros((len(precision), self.n_columns))
            out[:, used] = np.einsum("lii->li", np.linalg.inv(precision))
            return out
        _, inverse, ratio = self._basis()
        with np.errstate(divide="ignore"):
            V = 1.0 / (stats.N.sum((0, 2))[:, None] + 1.0 / ratio)
        return V @ inverse**2


class DiscreteBlock:
    """What the discrete families share."""

    dropped: np.ndarray
    locked: np.ndarray

    def _settle(self, used: np.ndarray) -> np.ndarray:
        """Which columns have effects. A column that was dropped and taken up again stays: where
        both are equally likely the approximation would alternate between them for ever."""
        self.locked = self.locked | (used & self.dropped)
        self.dropped = self.dropped | ~used
        return used | self.locked

    def row_constant(self, rows: Any) -> float:
        return 0.0

    def row_constants(self, rows: Any) -> float:
        return 0.0


class BernoulliBlock(DiscreteBlock):
    """Two-valued columns: logit P(x_j = 1 | k, l) = C_kj + B_lj, B_lj ~ N(0, tau_j^2)."""

    def __init__(self, rows: Any, K: int, shift: bool):
        self.n_columns = b = rows.n_bern
        self.shift = shift
        self.C, self.B = np.zeros((K, b)), np.zeros((rows.n_levels, b))
        self.tau2 = np.full(b, 1.0 if shift else 0.0)
        self.dropped = self.locked = np.zeros(b, bool)
        self.share = rows.bern_share
        self.C += np.log(self.share / (1 - self.share))

    @property
    def n_parameters(self) -> int:
        return self.C.size + (1 if self.shift else 0)

    def _value(self, n, s, C, B) -> np.ndarray:
        """Complete-data log-likelihood, log prior included, of each column."""
        eta = C[:, None] + B[None]
        value = (s * eta - n[:, :, None] * np.logaddexp(0, eta)).sum((0, 1))
        value += PSEUDO_ROWS * (self.share * C - np.logaddexp(0, C)).sum(0)
        used = self.tau2 > 0
        value[used] -= 0.5 * (B[:, used] ** 2 / self.tau2[used]).sum(0)
        return value

    def m_step(self, stats: Any, learn_tau: bool = True) -> None:
        n, s = stats.N.sum(0).T, stats.bern.sum(0).transpose(1, 0, 2)
        if not (self.tau2 > 0).any():
            p = (s.sum(1) + PSEUDO_ROWS * self.share) / (n.sum(1)[:, None] + PSEUDO_ROWS)
            self.C, self.B = np.log(p / (1 - p)), np.zeros_like(self.B)
        else:
            self._newton(n, s)
        if learn_tau and self.shift:
            p = expit(self.C[:, None] + self.B[None])
            H = np.maximum(self._information(n), 1e-12)
            y = self.B + (s - n[:, :, None] * p).sum(0) / H
            t2, used = common_scale(y**2, H, float(self.tau2.max()))
            self.tau2 = np.where(self._settle(used), t2, 0.0)

    def _newton(self, n: np.ndarray, s: np.ndarray) -> None:
        with np.errstate(divide="ignore"):
            ridge = 1.0 / self.tau2
        self.B = np.where(self.tau2 > 0, self.B, 0.0)
        value = self._value(n, s, self.C, self.B)
        for _ in range(INNER_STEPS):
            eta = self.C[:, None] + self.B[None]
            p, p0 = expit(eta), expit(self.C)
            # A lower bound on the curvature: full Newton steps overshoot where p is near 0 or 1.
            w = n[:, :, None] * np.maximum(p * (1 - p), 1e-6)
            w0 = PSEUDO_ROWS * np.maximum(p0 * (1 - p0), 1e-6)
            wz = w * eta + s - n[:, :, None] * p
            C, B = solve_cells(w, wz, ridge, w0, w0 * self.C + PSEUDO_ROWS * (self.share - p0))
            before = value
            value = self._take_step(n, s, C, B, value)
            if np.abs(value - before).sum() <= 1e-9 * np.abs(value).sum():
                break

    def _take_step(self, n, s, C, B, value) -> np.ndarray:
        """Move to (C, B) in each column, halfway where the value would fall."""
        rate = np.ones(self.n_columns)
        for _ in range(8):
            new_C, new_B = self.C + rate * (C - self.C), self.B + rate * (B - self.B)
            found = self._value(n, s, new_C, new_B)
            worse = found < value - 1e-12 * np.abs(value)
            if not worse.any():
                break
            rate[worse] *= 0.5
        else:
            new_C, new_B = np.where(worse, self.C, new_C), np.where(worse, self.B, new_B)
            found = np.where(worse, value, found)
        self.C, self.B = new_C, new_B
        return found

    def _information(self, n: np.ndarray) -> np.ndarray:
        p = expit(self.C[:, None] + self.B[None])
        return (n[:, :, None] * p * (1 - p)).sum(0)

    def posterior_variance(self, stats: Any) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return 1.0 / (self._information(stats.N.sum(0).T) + 1.0 / self.tau2)

    def natural(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        eta = self.C[None] + self.B[:, None]
        own = -np.logaddexp(0, eta)
        theta = np.concatenate([eta, own[:, :, rows.flag_mask_of]], axis=2).transpose(0, 2, 1)
        own[:, :, rows.flag_mask_of] = 0.0
        P, kappa = len(rows.patterns), own.sum(2)
        return np.broadcast_to(theta, (P, *theta.shape)), np.broadcast_to(kappa, (P, *kappa.shape))

    def penalty(self, stats: Any) -> tuple[float, float]:
        prior = PSEUDO_ROWS * float((self.share * self.C - np.logaddexp(0, self.C)).sum())
        used = self.tau2 > 0
        if not self.shift or not used.any():
            return 0.0, prior
        information = self._information(stats.N.sum(0).T)[:, used]
        tau2 = self.tau2[used]
        squares = (self.B[:, used] ** 2 / tau2).sum()
        return -0.5 * float(squares + np.log1p(information * tau2).sum()), prior


class CategoricalBlock(DiscreteBlock):
    """A column of M categories: P(x = m | k, l) proportional to exp(C_km + B_lm), with
    B_lm ~ N(0, tau^2); one tau for the column."""

    def __init__(self, rows: Any, K: int, shift: bool, number: int):
        first, last = rows.categories[number]
        self.number, self.n_columns, self.shift = number, last - first, shift
        self.share = rows.category_share[number]
        self.C = np.tile(np.log(self.share), (K, 1))
        self.B = np.zeros((rows.n_levels, self.n_columns))
        self.tau2 = np.array([1.0 if shift else 0.0])
        self.dropped = self.locked = np.zeros(1, bool)

    @property
    def n_parameters(self) -> int:
        K, M = self.C.shape
        return K * (M - 1) + (1 if self.shift else 0)

    def _log_p(self, C: np.ndarray, B: np.ndarray) -> np.ndarray:
        eta = C[:, None] + B[None]
        return eta - np.logaddexp.reduce(eta, axis=2)[:, :, None]

    def _value(self, s: np.ndarray, C: np.ndarray, B: np.ndarray) -> float:
        base = C - np.logaddexp.reduce(C, axis=1)[:, None]
        value = float((s * self._log_p(C, B)).sum() + PSEUDO_ROWS * (self.share * base).sum())
        return value - (0.5 * float((B**2).sum()) / self.tau2[0] if self.tau2[0] > 0 else 0.0)

    def m_step(self, stats: Any, learn_tau: bool = True) -> None:
        s = stats.category(self.number).sum(0).transpose(1, 0, 2)  # (K, L, M)
        n = s.sum(2)[:, :, None]
        if self.tau2[0] == 0:
            p = s.sum(1) + PSEUDO_ROWS * self.share
            self.C, self.B = np.log(p / p.sum(1)[:, None]), np.zeros_like(self.B)
        else:
            self._ascend(n, s)
        if learn_tau and self.shift:
            p = np.exp(self._log_p(self.C, self.B))
            H = np.maximum((n * p * (1 - p)).sum(0), 1e-12)
            y = self.B + (s - n * p).sum(0) / H
            t2, used = common_scale(y.reshape(-1, 1) ** 2, H.reshape(-1, 1), float(self.tau2[0]))
            self.tau2 = np.where(self._settle(used), t2, 0.0)

    def _ascend(self, n: np.ndarray, s: np.ndarray) -> None:
        value = self._value(s, self.C, self.B)
        ridge = np.full(self.n_columns, 1.0 / self.tau2[0])
        for _ in range(INNER_STEPS):
            p = np.exp(self._log_p(self.C, self.B))
            p0 = np.exp(self.C - np.logaddexp.reduce(self.C, axis=1)[:, None])
            # diag(p) is an upper bound on the information diag(p) - p p'.
            w, w0 = n * np.maximum(p, 1e-6), PSEUDO_ROWS * np.maximum(p0, 1e-6)
            wz = w * (self.C[:, None] + self.B[None]) + s - n * p
            wz0 = w0 * self.C + PSEUDO_ROWS * (self.share - p0)
            C, B = solve_cells(w, wz, ridge, w0, wz0)
            rate, found = 1.0, -np.inf
            for _ in range(8):
                new_C, new_B = self.C + rate * (C - self.C), self.B + rate * (B - self.B)
                found = self._value(s, new_C, new_B)
                if found >= value:
                    break
                rate *= 0.5
            if found < value:
                break
            self.C, self.B = new_C - new_C.mean(1)[:, None], new_B
            gain, value = found - value, found
            if gain <= 1e-9 * abs(value):
                break

    def _information(self, stats: Any) -> np.ndarray:
        s = stats.category(self.number).sum(0).transpose(1, 0, 2)
        p = np.exp(self._log_p(self.C, self.B))
        np_ = s.sum(2)[:, :, None] * p
        H = -np.einsum("kli,klj->lij", np_, p)
        at = np.arange(self.n_columns)
        H[:, at, at] += np_.sum(0)
        return H

    def posterior_variance(self, stats: Any) -> np.ndarray:
        if self.tau2[0] == 0:
            return np.zeros_like(self.B)
        H = self._information(stats) + np.eye(self.n_columns) / self.tau2[0]
        return np.diagonal(np.linalg.inv(H), axis1=1, axis2=2)

    def natural(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        theta = self._log_p(self.C, self.B).transpose(1, 2, 0)  # (L, M, K)
        P = len(rows.patterns)
        kappa = np.zeros((P, theta.shape[0], theta.shape[2]))
        return np.broadcast_to(theta, (P, *theta.shape)), kappa

    def penalty(self, stats: Any) -> tuple[float, float]:
        base = self.C - np.logaddexp.reduce(self.C, axis=1)[:, None]
        prior = PSEUDO_ROWS * float((self.share * base).sum())
        tau2 = self.tau2[0]
        if not self.shift or tau2 == 0:
            return 0.0, prior
        H = np.eye(self.n_columns) + tau2 * self._information(stats)
        volume = np.linalg.slogdet(H)[1].sum()
        return -0.5 * (float((self.B**2).sum()) / tau2 + float(volume)), prior


def log_subset_prior(used: np.ndarray) -> float:
    """Log prior of which columns have effects: every number of columns is equally likely, and every
    subset of that size (as in the extended BIC)."""
    d, m = used.size, int(used.sum())
    return float(-np.log(d + 1) - gammaln(d + 1) + gammaln(m + 1) + gammaln(d - m + 1))


def expit(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))
