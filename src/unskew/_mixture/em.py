"""Expectation-maximisation at fixed choices of covariance, effects and selection."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from .design import LOGIT_SD, fit_logit
from .discrete import BernoulliBlock, CategoricalBlock
from .gaussian import GaussianBlock
from .rows import OneGroup, Rows, RowSums, Stats

MIN_SHARE = 1e-12
# Iterations without a higher bound after which EM has converged.
STALLED = 10
# Relative change of the bound that is rounding.
ROUNDING = 1e-10

# The forms in words.
COVARIANCES = {
    "diag": "columns uncorrelated within clusters",
    "full": "columns correlated within clusters",
}
EFFECTS = {
    "none": "no effects",
    "shift": "shifts by suspects",
    "shift-scale": "shifts and changes of scale by suspects",
    "per-group": "shifts by suspects in each cluster",
}
SHARES = {"free": "cluster shares by suspects", "common": "common cluster shares"}


class Choice(NamedTuple):
    """One form of the model."""

    covariance: str
    effects: str
    selection: str

    @property
    def in_words(self) -> str:
        return f"{COVARIANCES[self.covariance]}, {EFFECTS[self.effects]}, {SHARES[self.selection]}"


class Mixture:
    """Parameters of a mixture, and its EM steps on the sums of the cells."""

    def __init__(self, rows: RowSums, K: int, choice: Choice):
        self.K, self.choice = K, choice
        self.blocks: list[Any] = []
        if rows.n_gauss:
            self.blocks.append(GaussianBlock(rows, K, choice.covariance == "full", choice.effects))
        if rows.n_bern:
            self.blocks.append(BernoulliBlock(rows, K, choice.effects))
        if rows.categories:
            self.blocks.append(CategoricalBlock(rows, K, choice.effects))
        self.shares = np.full((rows.n_levels, K), 1.0 / K)
        # Coefficients of the logit of the shares, intercept first.
        self.gamma = np.zeros((1 + rows.design.suspect.size, K))
        self.logit = rows.design.logit
        self.min_share = MIN_SHARE

    def copy(self) -> Mixture:
        new = copy.copy(self)
        new.blocks = [block.copy() for block in self.blocks]
        return new

    def reorder(self, order: np.ndarray) -> None:
        """Renumber the groups."""
        self.shares, self.gamma = self.shares[:, order], self.gamma[:, order]
        for block in self.blocks:
            block.reorder(order)

    def at_levels(
        self, shares: np.ndarray, Z: np.ndarray, same: np.ndarray, level_weight: np.ndarray
    ) -> Mixture:
        """A copy for other levels: their design Z, their shares, and the level of the fit that is
        the same (-1: none; effects per group and on the spread are then the average ones)."""
        new = copy.copy(self)
        new.shares, new.blocks, new.min_share = shares, [], 0.0  # a share of 0 is meant
        average = level_weight / level_weight.sum()
        for block in self.blocks:
            own = copy.copy(block)
            block.at_levels(own, Z, same, average)
            new.blocks.append(own)
        return new

    @property
    def n_parameters(self) -> int:
        """Means, covariance, shares, and the scales of the effects (of numbers, of flags, of each
        category); the effects are integrated out."""
        L, K = self.shares.shape
        free = (K - 1) * ((self.logit or L) if self.choice.selection == "free" else 1)
        return free + sum(block.n_parameters for block in self.blocks)

    @property
    def log_prior_of_effects(self) -> float:
        """Log prior of which columns have effects; a categorical column has a tau of its own."""
        return sum(block.log_prior_of_columns for block in self.blocks)

    def coherence(self, shown: np.ndarray) -> float:
        """Smallest ratio (C_k - C_h)' (mu_kl - mu_hl) / |C_k - C_h|^2 of two groups that a level
        shows, with mu_kl = C_k + D_kl: how much of the difference of two groups every level has. 1
        without effects per group; near 0 or negative where the groups of a level have nothing to
        do with those of the other levels."""
        if self.choice.effects != "per-group":
            return 1.0
        parts = [block.differences_along() for block in self.blocks]
        at_levels, average = sum(p[0] for p in parts), sum(p[1] for p in parts)
        both = shown[:, :, None] & shown[:, None] & ~np.eye(self.K, dtype=bool)
        ratio = at_levels / np.maximum(average, 1e-300)
        return float(ratio[both].min()) if both.any() else 1.0

    @property
    def is_full(self) -> bool:
        return self.choice.covariance == "full"

    def natural(self, rows: RowSums) -> tuple[np.ndarray, np.ndarray]:
        """theta (P, L, q, K) and kappa (P, L, K) of the whole row, shares included."""
        P, (L, K) = len(rows.patterns), self.shares.shape
        theta = np.zeros((P, L, rows.n_columns, K))
        with np.errstate(divide="ignore"):
            log_shares = np.log(np.maximum(self.shares, self.min_share))
        kappa = np.broadcast_to(log_shares, (P, L, K)).copy()
        at = 0
        for block in self.blocks:
            own, constant = block.natural(rows)
            width = block.n_columns
            theta[:, :, at : at + width] = own[:, :, :width]
            if isinstance(block, GaussianBlock):
                theta[:, :, rows.first_mask : rows.first_flag_mask] = own[:, :, width:]
            elif isinstance(block, BernoulliBlock):
                theta[:, :, rows.first_flag_mask :] = own[:, :, width:]
            kappa += constant
            at += width
        return theta, kappa

    def m_step(self, stats: Stats, learn_tau: bool = True) -> None:
        for block in self.blocks:
            block.m_step(stats, learn_tau)
        n = stats.N.sum(0)
        if self.choice.selection == "common":
            n = np.broadcast_to(n.sum(0), n.shape)
        elif self.logit:
            self.shares, self.gamma = fit_logit(n, stats.rows.design, self.gamma)
            return
        self.shares = n / np.maximum(n.sum(1, keepdims=True), 1e-300)
        empty = n.sum(1) <= 0
        self.shares[empty] = stats.N.sum((0, 1)) / max(stats.N.sum(), 1e-300)

    def complete_value(self, stats: Stats) -> float:
        """Expected complete-data log-likelihood for fixed responsibilities, with the effects
        integrated out: the marginal log-likelihood without the entropy of the labels."""
        theta, kappa = self.natural(stats.rows)
        value = float((stats.S * theta.transpose(0, 1, 3, 2)).sum() + (stats.N * kappa).sum())
        value += sum(block.row_constant(stats.rows) for block in self.blocks)
        return value + sum(block.penalty(stats)[0] for block in self.blocks)

    def value(self, rows: RowSums, log_sum: float, stats: Stats) -> tuple[float, float]:
        """(marginal log-likelihood, bound): ``log_sum`` is that of the E step. The bound adds the
        log priors that regularise the estimates."""
        likelihood = log_sum + sum(block.row_constant(rows) for block in self.blocks)
        parts = [block.penalty(stats) for block in self.blocks]
        marginal = likelihood + sum(part[0] for part in parts)
        prior = -0.5 * float((self.gamma[1:] ** 2).sum()) / LOGIT_SD**2
        return marginal, marginal + sum(part[1] for part in parts) + prior


def e_step(rows: RowSums, model: Mixture) -> tuple[float, Stats]:
    """Sum of log sum_k exp(x theta_k + kappa_k), and the sums of the cells."""
    theta, kappa = model.natural(rows)
    if isinstance(rows, OneGroup):
        value = (rows.S * theta.transpose(0, 1, 3, 2)).sum() + (rows.N * kappa).sum()
        return float(value), Stats(rows, rows.N, rows.S)
    total, N, S = rows.total(expected_sums, theta, kappa, model.is_full)
    return float(total), Stats(rows, N, S)


def expected_sums(rows: Rows, theta: np.ndarray, kappa: np.ndarray, full: bool) -> tuple:
    """The sums of the E step: log-likelihood, N and S of `Stats`."""
    P, L, K = kappa.shape
    total, N, S = 0.0, np.zeros((P, L, K)), np.zeros((P, L, K, rows.n_columns))
    for batch in rows.batches(full):
        a, X = rows.a[batch.rows], rows.X[batch.rows]
        r = np.empty((K, a.size))  # NumPy reduces a short last axis slowly: twice the time
        for first, last, level, p in batch.groups:
            np.matmul(theta[p, level].T, X[first:last].T, out=r[:, first:last])
        r += np.repeat(kappa[batch.patterns, batch.levels].T, batch.sizes, axis=1)
        top = r.max(0)
        r -= top
        np.exp(r, out=r)
        mass = r.sum(0)
        total += float(a @ (top + np.log(mass)))
        r *= a / mass
        np.add.at(N, (batch.patterns, batch.levels), np.add.reduceat(r, batch.firsts, axis=1).T)
        for first, last, level, p in batch.groups:
            S[p, level] += r[:, first:last] @ X[first:last]
    return np.float64(total), N, S


def log_joint(rows: Rows, model: Mixture) -> np.ndarray:
    """log(pi_kl f(x_i | k, l)) up to the row's own term, (n, K), in the order of ``rows``."""
    theta, kappa = model.natural(rows)
    out = np.empty((len(rows.X), model.K))
    for first, last, level, p in rows.groups if model.is_full else rows.level_groups:
        np.matmul(rows.X[first:last], theta[p, level], out=out[first:last])
        out[first:last] += kappa[p, level]
    return out


class Fit(NamedTuple):
    """Result of EM: the marginal log-likelihood, the bound after each step."""

    model: Mixture
    marginal: float
    history: list
    n_iter: int
    converged: bool


def run_em(
    rows: RowSums,
    model: Mixture,
    stats: Stats | None,
    *,
    max_iter: int,
    tol: float,
    learn_tau: bool = True,
    watch: Any = None,
    history: list | None = None,
    save: Any = None,
    begun: int = 0,
) -> Fit:
    """EM from sums of the cells (or from the parameters of ``model`` where ``stats`` is None).

    ``history`` is that of an earlier run on the same rows which this one continues. Converged when
    an iteration changes the bound by less than ``tol`` per row, or when none of STALLED iterations
    raised it by as much. At fixed tau the bound never falls; an update of tau maximises the
    marginal likelihood given the effects, and columns that enter and leave can make it alternate.

    The model with the highest bound is returned, with the history up to it: variances of levels are
    estimated with the precision that heavy tails leave, which the likelihood does not have, so that
    the bound can fall for good.

    ``save(model, history, iteration)`` is called where the bound is the highest so far; with what
    it got as model, history and ``begun`` a run goes on as if it had not been interrupted.
    """
    for block in model.blocks if not begun else ():
        block.unlock()
    if stats is not None:
        for _ in range(3):
            model.m_step(stats, learn_tau)
    if not begun:
        history = [] if history is None else history[:-1]
    history = list(history or ())
    scale = max(rows.weight, 1e-300)
    best, highest, kept, converged = Fit(model, -np.inf, history, 0, False), -np.inf, 0, False
    for iteration in range(begun + 1, max_iter + 1):
        log_sum, stats = e_step(rows, model)
        marginal, bound = model.value(rows, log_sum, stats)
        if watch is not None:
            watch(iteration, bound)
        if not bound < highest - ROUNDING * abs(highest):
            if save is not None and iteration > 1:
                save(model, history, iteration - 1)
            highest, kept = max(highest, bound), len(history) + 1
            best = best._replace(model=model.copy(), marginal=marginal)
        history.append(bound)
        still = len(history) > 1 and abs(bound - history[-2]) < tol * scale
        stalled = (
            tol > 0
            and len(history) > STALLED
            and (max(history[-STALLED:]) < max(history[:-STALLED]) + tol * scale)
        )
        if still or stalled:
            converged = True
            break
        if iteration < max_iter:
            model.m_step(stats, learn_tau)
    return best._replace(history=history[:kept], n_iter=kept, converged=converged)


def bic(marginal: float, model: Mixture, n: float) -> float:
    """-2 log p(x, which columns have effects) + p ln n."""
    return -2.0 * (marginal + model.log_prior_of_effects) + model.n_parameters * float(
        np.log(max(n, 1.0))
    )
