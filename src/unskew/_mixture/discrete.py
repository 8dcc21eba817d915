"""Two-valued columns (Bernoulli) and categories (multinomial), with effects on the logit scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import blocks
from .blocks import Block, ratio_of
from .cells import common_scale, log_evidence, log_volume, scales_of_columns, solve_cells

INNER_STEPS = 2


class DiscreteBlock(Block):
    """What the discrete families share."""

    dropped: np.ndarray
    locked: np.ndarray

    def unlock(self) -> None:
        """Let columns enter and leave again: locks of an earlier run may be those of other
        groups."""
        self.dropped = np.zeros((len(self.tau2) + 1, self.tau2.shape[1]), bool)
        self.locked = self.dropped.copy()

    def _scale(self, s: int, y2: np.ndarray, n: np.ndarray, old: np.ndarray) -> np.ndarray:
        t2, used = self._common_scale(y2, n, old)
        return np.where(self._settle(s, used), t2, 0.0)

    def _common_scale(self, y2, n, old) -> tuple[Any, np.ndarray]:
        return common_scale(y2, n, float(old.max()))

    def _settle(self, s: int, used: np.ndarray) -> np.ndarray:
        """Which columns have effects. A column that was dropped and taken up again stays: where
        both are equally likely the approximation would alternate between them for ever."""
        self.locked[s] |= used & self.dropped[s]
        self.dropped[s] |= ~used
        return used | self.locked[s]

    def _drop_effects(self, design: Any) -> None:
        """Effects of 0 where their prior variance is 0."""
        prior = self._prior(design)
        self.beta = np.where(prior.beta > 0, self.beta, 0.0)
        self.B = self.beta if design.Z is None else design.Z @ self.beta
        if self.D is not None:
            self.D = np.where(self.per_category(self.delta2) > 0, self.D, 0.0)

    def _moved(self, design: Any, found: Any, rate: Any) -> tuple:
        """(C, beta, B, D) on the way to ``found``."""
        C = self.C + rate * (found.C - self.C)
        beta = self.beta + rate * (found.beta - self.beta)
        B = beta if design.Z is None else design.Z @ beta
        D = None if self.D is None else self.D + rate * (found.D - self.D)
        return C, beta, B, D


class BernoulliBlock(DiscreteBlock):
    """Two-valued columns: logit P(x_j = 1 | k, l) = C_kj + B_lj + D_klj."""

    def __init__(self, rows: Any, K: int, effects: str):
        b = rows.n_bern
        self._init_effects(rows, K, effects, b, b)
        self.unlock()
        self.share = rows.bern_share
        self.C = np.zeros((K, b)) + np.log(self.share / (1 - self.share))

    @property
    def n_parameters(self) -> int:
        return self.C.size + self.n_scales

    def _value(self, n, s, prior, C, beta, B, D) -> np.ndarray:
        """Complete-data log-likelihood, log prior included, of each column."""
        eta = C[:, None] + B[None] if D is None else C[:, None] + B[None] + D
        value = (s * eta - n[:, :, None] * np.logaddexp(0, eta)).sum((0, 1))
        value += blocks.PSEUDO_ROWS * (self.share * C - np.logaddexp(0, C)).sum(0)
        value -= 0.5 * ratio_of(beta**2, prior.beta).sum(0)
        if D is not None:
            value -= 0.5 * ratio_of(D**2, prior.group).sum((0, 1))
        return value

    def m_step(self, stats: Any, learn_tau: bool = True) -> None:
        design = stats.rows.design
        n, s = stats.N.sum(0).T, stats.bern.sum(0).transpose(1, 0, 2)
        if self.tau2.any() or self.delta2.any():
            self._newton(n, s, design)
        else:
            weak = blocks.PSEUDO_ROWS
            p = (s.sum(1) + weak * self.share) / (n.sum(1)[:, None] + weak)
            self.C = np.log(p / (1 - p))
            self._drop_effects(design)
        if learn_tau and self.shift:
            self._learn_scales(*self._working(n, s), design)
            self._drop_effects(design)

    def _working(self, n: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights and weighted responses of the quadratic approximation."""
        eta = self.mu
        p = expit(eta)
        W = n[:, :, None] * np.maximum(p * (1 - p), 1e-12)
        return W, W * eta + s - n[:, :, None] * p

    def reconsider_columns(self, stats: Any) -> bool:
        n, s = stats.N.sum(0).T, stats.bern.sum(0).transpose(1, 0, 2)
        return self._choose_columns(*self._working(n, s), stats.rows.design)

    def _newton(self, n: np.ndarray, s: np.ndarray, design: Any) -> None:
        self._drop_effects(design)
        prior = self._prior(design)
        value = self._value(n, s, prior, self.C, self.beta, self.B, self.D)
        for _ in range(INNER_STEPS):
            eta = self.mu
            p, p0 = expit(eta), expit(self.C)
            # A lower bound on the curvature: full Newton steps overshoot where p is near 0 or 1.
            w = n[:, :, None] * np.maximum(p * (1 - p), 1e-6)
            w0 = blocks.PSEUDO_ROWS * np.maximum(p0 * (1 - p0), 1e-6)
            wz = w * eta + s - n[:, :, None] * p
            wz0 = w0 * self.C + blocks.PSEUDO_ROWS * (self.share - p0)
            found = solve_cells(w, wz, prior, design.Z, w0, wz0)
            before = value
            value = self._take_step(n, s, design, prior, found, value)
            if np.abs(value - before).sum() <= 1e-9 * np.abs(value).sum():
                break

    def _take_step(self, n, s, design, prior, found, value) -> np.ndarray:
        """Move to the solution in each column, halfway where the value would fall."""
        rate = np.ones(self.n_columns)
        for _ in range(8):
            new = self._moved(design, found, rate)
            reached = self._value(n, s, prior, *new)
            worse = reached < value - 1e-12 * np.abs(value)
            if not worse.any():
                break
            rate[worse] *= 0.5
        else:
            new = self._moved(design, found, np.where(worse, 0.0, rate))
            reached = np.where(worse, value, reached)
        self.C, self.beta, self.B, self.D = new
        return reached

    def scores(self, rows: Any) -> np.ndarray:
        """d log f(x_i | k) / d eta of each row and group, (n, K, b)."""
        p = expit(self.mu)[:, rows.level].transpose(1, 0, 2)
        rest = rows.X[:, None, rows.n_gauss : rows.n_gauss + self.n_columns] - p
        rest[:, :, rows.flag_mask_of] *= rows.X[:, None, rows.first_flag_mask :]
        return rest

    def _weights(self, stats: Any) -> np.ndarray:
        p = expit(self.mu)
        return stats.N.sum(0).T[:, :, None] * p * (1 - p)

    def natural(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        eta = self.mu.transpose(1, 0, 2)
        own = -np.logaddexp(0, eta)
        theta = np.concatenate([eta, own[:, :, rows.flag_mask_of]], axis=2).transpose(0, 2, 1)
        own[:, :, rows.flag_mask_of] = 0.0
        P, kappa = len(rows.patterns), own.sum(2)
        return np.broadcast_to(theta, (P, *theta.shape)), np.broadcast_to(kappa, (P, *kappa.shape))

    def penalty(self, stats: Any) -> tuple[float, float]:
        prior = blocks.PSEUDO_ROWS * float((self.share * self.C - np.logaddexp(0, self.C)).sum())
        if not self.shift or not (self.tau2.any() or self.delta2.any()):
            return 0.0, prior
        design = stats.rows.design
        volume = log_volume(self._weights(stats), self._prior(design), design.Z)
        return self._log_prior(design) - 0.5 * float(volume.sum()), prior


class CategoricalBlock(DiscreteBlock):
    """Columns of categories: P(x = m | k, l) proportional to exp(C_km + B_lm + D_klm) within each
    column, with B_lm ~ N(0, tau^2) and D_klm ~ N(0, delta^2); each column has a tau of its own.

    All columns are one block, their categories side by side: an operation on 40 columns costs
    little more than on one. ``firsts`` (c,): first category of each column; ``owner`` (q,): column
    of each category.
    """

    def __init__(self, rows: Any, K: int, effects: str):
        widths = [last - first for first, last in rows.categories]
        self._init_effects(rows, K, effects, sum(widths), len(widths))
        self.unlock()
        self.firsts = np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.intp)
        self.owner = np.repeat(np.arange(len(widths)), widths)
        self.share = np.concatenate(rows.category_share)
        self.C = np.tile(np.log(self.share), (K, 1))

    @property
    def n_parameters(self) -> int:
        return self.C.size - len(self.C) * self.firsts.size + self.n_scales * self.firsts.size

    @property
    def log_prior_of_columns(self) -> float:
        return 0.0  # each column has a scale of its own

    def per_category(self, scales: np.ndarray) -> np.ndarray:
        return scales[..., self.owner]

    def _sums(self, x: np.ndarray) -> np.ndarray:
        """Sums over the categories of each column, along the last axis."""
        return np.add.reduceat(x, self.firsts, axis=-1)

    def _common_scale(self, y2, n, old) -> tuple[np.ndarray, np.ndarray]:
        """A scale for each column, by the evidence of all its categories."""
        scales = scales_of_columns(old)
        gains = self._sums(log_evidence(y2, n, scales[:, None, self.owner]).sum(1))
        best = gains.argmax(0)
        at = np.arange(best.size)
        return scales[best, at], gains[best, at] > 0

    def log_probability(self, eta: np.ndarray) -> np.ndarray:
        top = np.maximum.reduceat(eta, self.firsts, axis=-1)
        eta = eta - top[..., self.owner]
        return eta - np.log(self._sums(np.exp(eta)))[..., self.owner]

    def _value(self, s: np.ndarray, prior: Any, C, beta, B, D) -> tuple:
        """Complete-data log-likelihood, log prior included, of each column, and the logarithms of
        the probabilities of the cells and of C alone."""
        eta = C[:, None] + B[None] if D is None else C[:, None] + B[None] + D
        log_p, log_p0 = self.log_probability(eta), self.log_probability(C)
        value = (s * log_p).sum((0, 1)) + blocks.PSEUDO_ROWS * (self.share * log_p0).sum(0)
        value -= 0.5 * ratio_of(beta**2, prior.beta).sum(0)
        if D is not None:
            value -= 0.5 * ratio_of(D**2, prior.group).sum((0, 1))
        return self._sums(value), log_p, log_p0

    def m_step(self, stats: Any, learn_tau: bool = True) -> None:
        design = stats.rows.design
        s = stats.categories.sum(0).transpose(1, 0, 2)  # (K, L, q)
        n = self.per_category(self._sums(s))
        if self.tau2.any() or self.delta2.any():
            self._ascend(n, s, design)
        else:
            p = s.sum(1) + blocks.PSEUDO_ROWS * self.share
            self.C = np.log(p / self.per_category(self._sums(p)))
            self._drop_effects(design)
        if learn_tau and self.shift:
            eta = self.mu
            p = np.exp(self.log_probability(eta))
            W = n * np.maximum(p * (1 - p), 1e-12)
            self._learn_scales(W, W * eta + s - n * p, design)
            self._drop_effects(design)

    def _ascend(self, n: np.ndarray, s: np.ndarray, design: Any) -> None:
        self._drop_effects(design)
        prior = self._prior(design)
        value, *logs = self._value(s, prior, self.C, self.beta, self.B, self.D)
        weak = blocks.PSEUDO_ROWS
        for _ in range(INNER_STEPS):
            p, p0 = map(np.exp, logs)
            # diag(p) is an upper bound on the information diag(p) - p p'.
            w, w0 = n * np.maximum(p, 1e-6), weak * np.maximum(p0, 1e-6)
            wz0 = w0 * self.C + weak * (self.share - p0)
            goal = solve_cells(w, w * self.mu + s - n * p, prior, design.Z, w0, wz0)
            rate = np.ones(self.firsts.size)
            for _ in range(8):
                new = self._moved(design, goal, self.per_category(rate))
                found, *logs = self._value(s, prior, *new)
                worse = found < value
                if not worse.any():
                    break
                rate[worse] *= 0.5
            else:
                new = self._moved(design, goal, self.per_category(np.where(worse, 0.0, rate)))
                found, *logs = self._value(s, prior, *new)
            C, self.beta, self.B, self.D = new
            self.C = C - self.per_category(self._sums(C) / self._sums(np.ones(C.shape[1])))
            gain, value = found - value, found
            if gain.sum() <= 1e-9 * np.abs(value).sum():
                break

    def scores(self, rows: Any) -> np.ndarray:
        """d log f(x_i | k) / d eta of each row and group, (n, K, q)."""
        p = np.exp(self.log_probability(self.mu))[:, rows.level].transpose(1, 0, 2)
        X = rows.X[:, rows.categories[0][0] : rows.categories[-1][1]]
        return X[:, None] - p * self.per_category(self._sums(X))[:, None]

    def _weights(self, stats: Any) -> np.ndarray:
        s = stats.categories.sum(0).transpose(1, 0, 2)
        p = np.exp(self.log_probability(self.mu))
        return self.per_category(self._sums(s)) * p * (1 - p)

    def natural(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        theta = self.log_probability(self.mu).transpose(1, 2, 0)  # (L, q, K)
        P = len(rows.patterns)
        kappa = np.zeros((P, theta.shape[0], theta.shape[2]))
        return np.broadcast_to(theta, (P, *theta.shape)), kappa

    def penalty(self, stats: Any) -> tuple[float, float]:
        """The exact information of one categorical suspect, diag(p) - p p' summed over the groups;
        its diagonal with several suspects or effects per group."""
        prior = blocks.PSEUDO_ROWS * float((self.share * self.log_probability(self.C)).sum())
        if not self.shift or not (self.tau2.any() or self.delta2.any()):
            return 0.0, prior
        design = stats.rows.design
        if design.Z is None and self.D is None:
            volume = self._exact_volume(stats)
        else:
            volume = float(log_volume(self._weights(stats), self._prior(design), design.Z).sum())
        return self._log_prior(design) - 0.5 * volume, prior

    def _exact_volume(self, stats: Any) -> float:
        s = stats.categories.sum(0).transpose(1, 0, 2)
        p = np.exp(self.log_probability(self.mu))
        n, volume = self.per_category(self._sums(s)) * p, 0.0
        widths = np.bincount(self.owner)
        for width in np.unique(widths[self.tau2[0] > 0]):
            which = np.flatnonzero((widths == width) & (self.tau2[0] > 0))
            own = self.firsts[which, None] + np.arange(width)  # (columns, categories)
            H = -np.einsum("klci,klcj->lcij", n[:, :, own], p[:, :, own])
            at = np.arange(width)
            H[:, :, at, at] += n[:, :, own].sum(0)
            scaled = self.tau2[0, which, None, None] * H
            volume += float(np.linalg.slogdet(np.eye(width) + scaled)[1].sum())
        return volume


def expit(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))
