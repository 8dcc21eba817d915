"""Standard errors of effects and shares by the empirical information of the observed rows.

The score of a row is u_i = sum_k r_ik d log(pi_k f(x_i | k)) / d(parameters): means C, effects
beta, variances and shares together, so that the uncertainty of the groups of the rows is part of
the errors. A = sum_i a_i u_i u_i' + prior, and the covariance is A^-1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .em import Mixture, log_joint
from .gaussian import GaussianBlock
from .rows import Rows

# Rows for each parameter of A: with fewer its inverse is too large.
ROWS_PER_PARAMETER = 10
# Smaller shares are taken as known.
SMALL_SHARE = 1e-4


class Errors(NamedTuple):
    """Variances of combinations of the effects, (R, q) for each block, and of averages of the
    shares, (R, K); None where rows are too few for all parameters."""

    effects: list[np.ndarray | None]
    shares: np.ndarray | None


def observed_errors(
    rows: Rows, model: Mixture, factor: float, T: np.ndarray, average: np.ndarray
) -> Errors:
    """Variances of T beta, T (R, p), of each column, and of average @ shares, average (R, L).

    ``rows`` are all rows or a subsample of them, for which ``factor`` is n divided by its size.
    All parameters together; with too few rows for that each column by itself with the shares, and
    None with too few rows for that, or with effects per group.
    """
    nothing = Errors([None] * len(model.blocks), None)
    if model.choice.effects == "per-group":
        return nothing
    joint = log_joint(rows, model)
    r = np.exp(joint - joint.max(1, keepdims=True))
    r /= r.sum(1, keepdims=True)
    shares, places = _share_scores(r, rows, model)
    columns = [one for at in range(len(model.blocks)) for one in _column_scores(at, r, rows, model)]
    limit = np.count_nonzero(rows.a) / ROWS_PER_PARAMETER - len(places)
    together = sum(one.u.shape[1] for one in columns) <= limit
    if not together and max(one.u.shape[1] for one in columns) > limit:
        return nothing
    effects = [np.zeros((len(T), block.n_columns)) for block in model.blocks]
    for group in [columns] if together else [[one] for one in columns]:
        F = np.hstack([shares, *(one.u for one in group)])
        A = factor * ((F * rows.a[:, None]).T @ F)
        A[np.diag_indices(len(A))] += np.concatenate([np.zeros(len(places)), *(c.p for c in group)])
        V, at = np.linalg.pinv(A, hermitian=True), len(places)
        for one in group:
            own = T[:, one.used]
            beta = slice(at + model.K, at + model.K + own.shape[1])
            effects[one.block][:, one.j] = ((own @ V[beta, beta]) * own).sum(1)
            at += one.u.shape[1]
    if not together:
        return Errors([*effects], None)
    return Errors([*effects], _of_shares(V[: len(places), : len(places)], places, average, model))


class Scores(NamedTuple):
    """Scores u (n, m) of the parameters of a column, C first, and their prior precision p (m,)."""

    block: int
    j: int
    u: np.ndarray
    p: np.ndarray
    used: np.ndarray  # coefficients of the design that the column has


def _column_scores(at: int, r: np.ndarray, rows: Rows, model: Mixture) -> list[Scores]:
    block, design = model.blocks[at], rows.design
    Z = np.eye(rows.n_levels) if design.Z is None else design.Z
    scores = r[:, :, None] * block.scores(rows)  # (n, K, q)
    tau2 = block.per_category(block.tau2)[design.suspect]  # (p, q)
    found = []
    for j in range(block.n_columns):
        used = tau2[:, j] > 0
        u = [scores[:, :, j], scores[:, :, j].sum(1)[:, None] * Z[rows.level][:, used]]
        p = [np.zeros(model.K), 1.0 / tau2[used, j]]
        if isinstance(block, GaussianBlock) and not block.full:
            u.append(block.variance_scores(rows, r, j)[:, None])
            p.append(np.zeros(1))
        found.append(Scores(at, j, np.hstack(u), np.concatenate(p), used))
    return found


def _share_scores(r: np.ndarray, rows: Rows, model: Mixture) -> tuple[np.ndarray, list]:
    """Scores of the free shares, (n, m), and (level, group, group of reference) of each. Common
    shares have level -1; a logit has none here."""
    if model.logit and model.choice.selection == "free":
        return np.zeros((len(r), 0)), []
    common = model.choice.selection == "common"
    scores, places = [], []
    for level in [-1] if common else range(rows.n_levels):
        pi = model.shares[max(level, 0)]
        reference, here = int(pi.argmax()), common | (rows.level == level)
        for k in np.flatnonzero(pi > SMALL_SHARE):
            if k != reference:
                scores.append(here * (r[:, k] / pi[k] - r[:, reference] / pi[reference]))
                places.append((level, int(k), reference))
    return (np.column_stack(scores) if scores else np.zeros((len(r), 0))), places


def _of_shares(
    V: np.ndarray, places: list, average: np.ndarray, model: Mixture
) -> np.ndarray | None:
    if not places:
        return None
    out = np.zeros((len(average), model.K))
    for k in range(model.K):
        G = np.zeros((len(average), len(places)))
        for at, (level, one, reference) in enumerate(places):
            weight = average[:, level] if level >= 0 else 1.0
            G[:, at] = weight * ((one == k) * 1.0 - (reference == k))
        out[:, k] = ((G @ V) * G).sum(1)
    return out
