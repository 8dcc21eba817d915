"""Numeric columns: Gaussian, with a diagonal or full covariance that all groups share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import cholesky, eigh, inv

from .blocks import Block, squares_over
from .cells import (
    Prior,
    Solution,
    common_scale,
    effects_of,
    expected_squares,
    log_evidence,
    log_volume,
    reduced,
    reduced_sums,
    scales_to_try,
    solve_cells,
    total_expected_squares,
)

LOG_2PI = float(np.log(2 * np.pi))
# Smallest variance within a group, of a standardised column.
MIN_VARIANCE = 1e-6
# Rows of the prior of a full covariance, in units of d + 1.
PRIOR_ROWS = 1.0


class GaussianBlock(Block):
    """Numeric columns, standardised: x ~ N(C_k + B_l + D_kl, Sigma), B_lj ~ N(0, tau_j^2).

    Given the responsibilities the posterior of B_l is Gaussian with covariance
    V_l = (n_l Sigma^-1 + T^-1)^-1, whatever the responsibilities are, so that the bound

        sum_i log sum_k pi_kl N(x_i; C_k + B_l, Sigma)
            - 1/2 sum_l [B_l' T^-1 B_l + log det(I + n_l T Sigma^-1)]

    is at once the evidence lower bound of q(z) q(B) and the Laplace approximation with the
    complete-data information. In the basis in which Sigma = I and T is diagonal all columns are
    independent, so that the full covariance needs no other solver than the diagonal one. Several
    suspects, and effects per group, need one basis for all: with a full covariance their T are
    multiples of each other.

    With effects="shift-scale" (diagonal only) the variance of column j at level l is
    e_lj s_j^2, log e_lj ~ N(0, omega_j^2), integrated out by Laplace's approximation.
    """

    def __init__(self, rows: Any, K: int, full: bool, effects: str):
        g = rows.n_gauss
        self._init_effects(rows, K, effects, g, g)
        self.full, self.scale = full, effects == "shift-scale"
        self.C = np.zeros((K, g))
        self.variance = np.ones(g)
        self.Sigma = np.eye(g)
        self.floor = rows.floor
        self.nu = PRIOR_ROWS * (g + 1) if full else 0.0
        self.log_e = np.zeros((rows.n_levels, g))
        self.omega2 = np.zeros(g)

    @property
    def n_parameters(self) -> int:
        K, g = self.C.shape
        spread = g * (g + 1) // 2 if self.full else g
        return K * g + spread + self.n_scales + self.scale

    def _masks(self) -> list[np.ndarray]:
        if self.full:  # one set of columns for all effects
            return [self._largest() > 0] if self.shift else []
        return super()._masks() + ([self.omega2 > 0] if self.scale else [])

    # ------------------------------------------------------------------------------- diagonal
    def _counts(self, stats: Any) -> np.ndarray:
        """Weight of the known values per cell and column, (K, L, g)."""
        n = stats.N.sum(0).T[:, :, None]
        if stats.rows.mask_of.size == 0:
            return np.broadcast_to(n, (*n.shape[:2], self.n_columns))
        counts = np.repeat(n, self.n_columns, axis=2)
        counts[:, :, stats.rows.mask_of] = stats.masks.sum(0).transpose(1, 0, 2)
        return counts

    def _m_step_diagonal(self, stats: Any, learn_tau: bool) -> None:
        design = stats.rows.design
        n = self._counts(stats)
        S = stats.gauss.sum(0).transpose(1, 0, 2)
        e = np.exp(self.log_e)
        W, WY = (n / e, S / e) if self.scale else (n, S)
        prior = self._prior(design, self.variance)
        self._take(solve_cells(W, WY, prior, design.Z))
        mu, level = self.mu, n.sum(0)
        squares = stats.rows.level_squares - 2 * (S * mu).sum(0) + (n * mu**2).sum(0)
        total = np.maximum(level.sum(0), 1e-300)
        if not self.scale:
            more = self.variance * total_expected_squares(W, prior, design.Z)
            self.variance = np.maximum((squares.sum(0) + more) / total, self.floor)
        else:
            squares += e * self.variance * expected_squares(W, prior, design.Z)
            self.variance = np.maximum((squares / e).sum(0) / total, self.floor)
            self._m_step_scale(squares, level, stats.rows.kurtosis, learn_tau)
        if learn_tau:
            self._learn_scales(W, WY, design, self.variance)
            self._take(effects_of(self.C, W, WY, self._prior(design, self.variance), design.Z))

    def _m_step_scale(
        self, squares: np.ndarray, level: np.ndarray, kurtosis: np.ndarray, learn: bool
    ) -> None:
        """log e_lj: Newton steps for -m (log e + raw / e) - (log e)^2 / (2 omega^2).

        m = n / (kurtosis - 1) is n / 2 for Gaussian columns. Heavy tails make variances of levels
        differ by chance, and m is the precision of log raw with such tails.
        """
        raw = np.maximum(squares / np.maximum(level, 1e-300), self.floor) / self.variance
        raw = np.where(level > 0, raw, 1.0)
        if learn:
            y2, old = np.log(raw) ** 2, float(self.omega2.max())
            t2, used = common_scale(y2, level / (kurtosis - 1.0), old)
            self.omega2 = np.where(used, t2, 0.0)
        used = self.omega2 > 0
        self.log_e = np.zeros_like(level)
        if not used.any():
            return
        n, raw, omega2 = (level / (kurtosis - 1.0))[:, used], raw[:, used], self.omega2[used]
        log_e = np.log(raw) * n * omega2 / (1.0 + n * omega2)
        for _ in range(3):
            ratio = n * raw * np.exp(-log_e)
            log_e = log_e + (ratio - n - log_e / omega2) / (ratio + 1.0 / omega2)
        self.log_e[:, used] = log_e

    def reconsider_columns(self, stats: Any) -> bool:
        if self.full:
            return False
        S = stats.gauss.sum(0).transpose(1, 0, 2)
        WY = S / np.exp(self.log_e) if self.scale else S
        return self._choose_columns(self._weights(stats), WY, stats.rows.design, self.variance)

    # ----------------------------------------------------------------------------------- full
    def _basis(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W with W' Sigma W = I and W' T W = diag(ratio), its inverse, and ratio; T is the largest
        of the priors, of which the others are multiples."""
        lower = cholesky(self.Sigma)
        half = inv(lower)
        root = half * np.sqrt(self._largest())
        ratio, U = eigh(root @ root.T)
        return half.T @ U, U.T @ lower.T, np.where(ratio > 1e-12, ratio, 0.0)

    def _largest(self) -> np.ndarray:
        return np.maximum(self.tau2.max(0), self.delta2)

    def _prior_in_basis(self, design: Any, ratio: np.ndarray) -> Prior:
        top = max(float(self._largest().max()), 1e-300)
        tau2 = self.tau2.max(1) / top
        group = self.delta2.max() / top * ratio if self.per_group else None
        return Prior((tau2[:, None] * ratio)[design.suspect], group)

    def _m_step_full(self, stats: Any, learn_tau: bool) -> None:
        design = stats.rows.design
        S, Q = self._completed(stats)
        n = stats.N.sum(0).T  # (K, L)
        W, inverse, ratio = self._basis()
        prior = self._prior_in_basis(design, ratio)
        counts = np.broadcast_to(n[:, :, None], (*n.shape, self.n_columns))
        found = solve_cells(counts, S.transpose(1, 0, 2) @ W, prior, design.Z)
        self._take(_turned(found, inverse))
        level = n.sum(0)
        mu = self.mu
        flat = mu.reshape(-1, self.n_columns)
        cross = S.transpose(1, 0, 2).reshape(flat.shape).T @ flat
        scatter = Q - cross - cross.T + (flat.T * n.ravel()) @ flat
        spread = total_expected_squares(counts, prior, design.Z)
        scatter += inverse.T @ (spread[:, None] * inverse)
        conditional = 1.0 / np.diag(self._inverse(self.Sigma))
        total = float(level.sum())
        Sigma = (scatter + self.nu * np.diag(conditional)) / (total + self.nu)
        self.Sigma = self._positive(0.5 * (Sigma + Sigma.T))
        self.variance = np.diag(self.Sigma).copy()
        if learn_tau:
            self._learn_scales_full(counts, S.transpose(1, 0, 2), design)

    def _learn_scales_full(self, counts: np.ndarray, S: np.ndarray, design: Any) -> None:
        """Scales and the columns with effects: those of the diagonal rule for any effect, unless
        the marginal likelihood is higher with the columns as they were."""
        old_tau2, old_delta2 = self.tau2.copy(), self.delta2.copy()
        self._learn_scales(counts, S, design, self.variance)
        old = np.append((old_tau2 / self.variance).max(1), (old_delta2 / self.variance).max())
        candidates = [self._largest() > 0]
        before = np.maximum(old_tau2.max(0), old_delta2) > 0
        if before.any() and (before != candidates[0]).any():
            candidates.append(before)
        found = (0.0, np.zeros(old.size), np.zeros(self.n_columns, bool))
        diagonal = np.append(
            (self.tau2 / self.variance).max(1), (self.delta2 / self.variance).max()
        )
        for used in candidates:
            values = self._scales_in_basis(counts, S, design, used, old, diagonal)
            if values[0] > found[0]:
                found = (*values, used)
        _, t2, used = found
        self.tau2 = np.where(used, t2[:-1, None] * self.variance, 0.0)
        self.delta2 = np.where(used, t2[-1] * self.variance, 0.0)
        W, inverse, ratio = self._basis()
        prior = self._prior_in_basis(design, ratio)
        effects = effects_of(self.C @ W, counts, S @ W, prior, design.Z)
        self._take(_turned(effects, inverse)._replace(C=self.C))

    def _scales_in_basis(
        self, counts: np.ndarray, S: np.ndarray, design: Any, used: np.ndarray, old: np.ndarray,
        diagonal: np.ndarray,
    ) -> tuple[float, np.ndarray]:  # fmt: skip
        """Log evidence and squared scales of all suspects, and of the effects per group (last), for
        given columns, in the basis of these columns."""
        self.tau2 = np.where(used, np.ones((len(self.tau2), 1)) * self.variance, 0.0)
        self.delta2 = np.zeros(self.n_columns)
        W, _, ratio = self._basis()
        C, B, beta, Y = self.C @ W, self.B @ W, self.beta @ W, S @ W
        prior = Prior(beta, old[-1] * ratio if self.per_group else None)
        own, cells = reduced(counts, prior), reduced_sums(counts, Y, prior)
        level = own.sum(0)
        rest = cells.sum(0) - np.einsum("klj,kj->lj", own, C) - level * B
        total, t2 = 0.0, np.zeros(old.size)
        for s in range(len(self.tau2)):
            y, n = design.directions(s, level, rest + level * design.effect_of(s, beta))
            value, t2[s] = _best_scale(y**2, n, ratio, old[s], diagonal[s])
            total += value
        if self.per_group:
            y = Y / np.maximum(counts, 1e-300) - C[:, None] - B[None]
            value, t2[-1] = _best_scale(y**2, counts, ratio, old[-1], diagonal[-1])
            total += value
        return total, t2

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
        mu = self.mu.transpose(1, 0, 2)  # (L, K, g)
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
    def _whiten(self, x: np.ndarray) -> np.ndarray:
        return x @ inv(cholesky(self.Sigma)).T if self.full else x / np.sqrt(self.variance)

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
        mu = self.mu.transpose(1, 0, 2)  # (L, K, g)
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
        half = mu / self._level_variance()[:, None]
        theta[:, :, :g] = half.transpose(0, 2, 1)
        own = -0.5 * half * mu
        theta[:, :, g:] = own[:, :, rows.mask_of].transpose(0, 2, 1)
        own[:, :, rows.mask_of] = 0.0
        kappa[:] = own.sum(2)
        return theta, kappa

    def _level_variance(self) -> np.ndarray:
        """Variance of each column at each level, (L, g); one row where levels do not differ."""
        return np.exp(self.log_e) * self.variance if self.scale else self.variance[None]

    def at_levels(self, own: Any, Z: np.ndarray, D_of: np.ndarray, average: np.ndarray) -> None:
        super().at_levels(own, Z, D_of, average)
        own.log_e = np.vstack([self.log_e, average @ self.log_e])[D_of]

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
        variance = self._level_variance()
        logs = LOG_2PI + np.log(variance)
        return -0.5 * float((rows.level_squares / variance + rows.level_known * logs).sum())

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
        variance = self._level_variance()
        variance = variance[rows.level] if self.scale else variance
        logs = np.broadcast_to(LOG_2PI + np.log(variance), X.shape)
        free = np.ones(self.n_columns, bool)
        free[rows.mask_of] = False
        constant = logs[:, free].sum(1) + (rows.masks * logs[:, rows.mask_of]).sum(1)
        return -0.5 * ((X**2 / variance).sum(1) + constant)

    def scores(self, rows: Any) -> np.ndarray:
        """d log f(x_i | k) / d mu of each row and group, (n, K, g)."""
        rest = rows.X[:, None, : self.n_columns] - self.mu[:, rows.level].transpose(1, 0, 2)
        rest[:, :, rows.mask_of] *= rows.masks[:, None]
        if not self.full:
            variance = self._level_variance()
            return rest / (variance[rows.level][:, None] if self.scale else variance)
        inverses, _ = self.precisions(rows)
        for first, last, _, p in rows.groups:
            rest[first:last] = rest[first:last] @ inverses[p]
        return rest

    def variance_scores(self, rows: Any, r: np.ndarray, j: int) -> np.ndarray:
        """sum_k r_ik d log f(x_ij | k) / d variance_j of a diagonal covariance, (n,)."""
        mu = self.mu[:, rows.level, j].T
        variance = np.broadcast_to(self._level_variance(), (rows.n_levels, self.n_columns))
        ratio = (rows.X[:, j, None] - mu) ** 2 / variance[rows.level, j][:, None]
        score = 0.5 * (r * (ratio - 1.0)).sum(1) / self.variance[j]
        where = np.flatnonzero(rows.mask_of == j)
        return score * rows.masks[:, where[0]] if where.size else score

    def penalty(self, stats: Any) -> tuple[float, float]:
        """(log prior and volume of the effects; log prior of Sigma)."""
        prior = 0.0
        if self.full:
            inverse = self._inverse(self.Sigma)
            det = np.linalg.slogdet(self.Sigma)[1]
            prior = -0.5 * self.nu * float(det + np.log(np.diag(inverse)).sum())
        design, value = stats.rows.design, 0.0
        if self.scale and self.omega2.any():
            n = self._counts(stats).sum(0) / (stats.rows.kurtosis - 1.0)
            value -= 0.5 * (
                squares_over(self.log_e, self.omega2) + float(np.log1p(n * self.omega2).sum())
            )
        if not self.shift or not self._largest().any():
            return value, prior
        value += self._log_prior(design)
        used = self._largest() > 0
        if self.full and len(stats.rows.patterns) > 1 and design.Z is None and self.D is None:
            root = np.sqrt(self.tau2[0, used])
            scaled = self._information(stats)[:, used][:, :, used] * np.outer(root, root)
            volume = float(np.linalg.slogdet(np.eye(root.size) + scaled)[1].sum())
        elif self.full:
            _, _, ratio = self._basis()
            prior_B = self._prior_in_basis(design, ratio)
            volume = float(log_volume(self._weights(stats), prior_B, design.Z).sum())
        else:
            prior_B = self._prior(design, self.variance)
            volume = float(log_volume(self._weights(stats), prior_B, design.Z).sum())
        return value - 0.5 * volume, prior

    def _weights(self, stats: Any) -> np.ndarray:
        """Weights of the cells relative to the variance, (K, L, g); with a full covariance those of
        the basis, in which all columns have the average share of known values."""
        if not self.full:
            n = self._counts(stats)
            return n / np.exp(self.log_e) if self.scale else n
        n = stats.N.sum(0).T[:, :, None]
        n = n * (stats.rows.known_weight.mean() / max(float(n.sum()), 1e-300))
        return np.broadcast_to(n, (*n.shape[:2], self.n_columns))

    def effect_variance(self, stats: Any, T: np.ndarray) -> np.ndarray:
        design, W = stats.rows.design, self._weights(stats)
        if not self.full:
            prior = self._prior(design, self.variance)
            return self._variance_in(W, prior, design.Z, T) * self.variance
        _, inverse, ratio = self._basis()
        prior = self._prior_in_basis(design, ratio)
        return self._variance_in(W, prior, design.Z, T) @ inverse**2

    def _information(self, stats: Any) -> np.ndarray:
        """Information of the known values about the effects of each level, (L, g, g)."""
        return np.einsum("pl,pij->lij", stats.N.sum(2), self.precisions(stats.rows)[0])


def _turned(found: Solution, inverse: np.ndarray) -> Solution:
    """The solution in the columns, from that in a basis."""
    D = None if found.D is None else found.D @ inverse
    return Solution(found.C @ inverse, found.beta @ inverse, found.B @ inverse, D)


def _best_scale(
    y2: np.ndarray, n: np.ndarray, ratio: np.ndarray, old: float, further: float
) -> tuple[float, float]:
    """Highest log evidence, and its squared scale (0 where no scale raises it)."""
    scales = np.append(scales_to_try(old), further)
    axes = tuple(range(1, y2.ndim + 1))
    shape = (-1, *(1 for _ in axes))
    values = log_evidence(y2, n, scales.reshape(shape) * ratio).sum(axes)
    at = int(values.argmax())
    return (float(values[at]), float(scales[at])) if values[at] > 0 else (0.0, 0.0)
