"""Weights of new rows: of fits with suspects by the formula of the fit (``DualWeightModel``), of
others from the optimality condition (``WeightModel``).

At the minimum, the derivative of the objective in the weight of a row i of positive weight is the
same for all rows, up to the multipliers of margins. With u_i = w_i / a_i

    inertia_rate e_i + balance_rate g_i + 2 spread_rate u_i = nu + T_i . mu

so u_i is the positive part of a linear function of e_i (squared distance to the nearest centre),
g_i (derivative of the balance, a function of the row and of sums over the fit) and the indicators
T_i of margins. nu, mu and the slope are estimated by least squares on the rows of
the fit, since a fit stops near the minimum, not at it, and a lower bound on the effective sample
size changes the slope; r2 is the R2 of this regression.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import _balance
from ._buffers import LARGE_N
from ._preprocessing import indicators
from ._rows import Rows
from ._solver import DualState, DualWeights, Problem
from ._solver.cells import CellCoding, cells_of
from ._solver.dual import WeightPass, row_weights

# Rows with less than this share of the mean weight are at the zero bound, where the condition is
# one-sided.
AT_THE_BOUND = 0.01
# Maximum number of rows of the regression where there are LARGE_N or more.
SUBSAMPLE = 2**20


@dataclass(frozen=True)
class BlockGradient:
    """One block of the balance: its pairs, and coefficients from sums over the rows of the fit."""

    pairs: _balance.Pairs
    coefs: tuple


@dataclass(frozen=True)
class WeightModel:
    pieces: tuple[BlockGradient, ...]
    inertia_rate: float
    balance_rate: float
    own: _balance.Treatments | None
    coefficients: np.ndarray
    r2: float

    def predict(self, rows: Rows, e: np.ndarray) -> np.ndarray:
        """u for each row, with e the squared distances to the nearest centre."""
        return np.maximum(self._linear(rows, e), 0.0)

    def _linear(self, rows: Rows, e: np.ndarray) -> np.ndarray:
        return _design(rows, self.own, self._reduced_gradient(rows, e)) @ self.coefficients

    def _reduced_gradient(self, rows: Rows, e: np.ndarray) -> np.ndarray:
        reduced_gradient = self.inertia_rate * e
        for piece in self.pieces:
            term: Any = _balance.make_balance(rows, piece.pairs, "primal")
            reduced_gradient = reduced_gradient + self.balance_rate * term.gradient_from(
                piece.coefs
            )
        return reduced_gradient


@dataclass(frozen=True)
class DualWeightModel:
    """Weights of named suspects: the solution of the dual problem as a function of the row.

    coding   contrast and constraints of a cell
    centres  at which e is computed
    T, factor   indicators of the cells of the fit, and what rescales their weights to exact totals
    """

    pairs: _balance.Pairs
    coding: CellCoding
    Z: np.ndarray
    mu: np.ndarray
    sigma: float
    rho: float
    centres: np.ndarray | None
    T: np.ndarray
    factor: np.ndarray

    r2 = 1.0  # it is the function that the fit computed

    @classmethod
    def of(cls, dual: DualWeights, state: DualState, C: np.ndarray | None) -> DualWeightModel:
        own = (dual.pairs, dual.coding, state.Z, state.mu, state.sigma, dual.rho, C)
        return cls(*own, dual.T, state.factor)

    def predict(self, rows: Rows, e: np.ndarray) -> np.ndarray:
        """u for each row; a combination of values that the fit did not have has factor 1."""
        cell, T = cells_of(rows, self.coding.treatments)
        seen = {row.tobytes(): factor for row, factor in zip(self.T > 0.5, self.factor)}
        factor = np.array([seen.get(row.tobytes(), 1.0) for row in T > 0.5])
        G = self.coding.G(T)[:, : self.Z.shape[0]]
        theta = np.column_stack([G @ self.Z, self.coding.A(T) @ self.mu])
        theta *= np.append(self.pairs.scale, 1.0)
        how = WeightPass(theta, self.rho, self.sigma)

        def of_tile(tile: Any, e_: np.ndarray, cell_: np.ndarray, how: WeightPass) -> np.ndarray:
            return row_weights(self.pairs.features_of(tile), e_, cell_, how)

        dense = not rows.sparse or self.pairs.effects is not None
        return factor[cell] * rows.gather(of_tile, e, cell, coefs=how, dense=dense)


def _design(rows: Rows, own: _balance.Treatments | None, reduced_gradient: np.ndarray) -> Any:
    parts = [sp.csr_array(np.column_stack([np.ones(rows.n), reduced_gradient]))]
    if own is not None and len(own):
        parts.append(indicators(rows, own))
    return sp.hstack(parts, format="csr")


def fit_weight_model(
    problem: Problem, w: np.ndarray, e: np.ndarray, own: _balance.Treatments | None
) -> WeightModel | None:
    """Fit the model of the weights. None where weights are no function of the row: without a spread
    term, or where the d x t matrix of the balance is too large (GramBalance only)."""
    if not problem.spread_rate > 0:
        return None
    blocks = []
    if problem.balance is not None and problem.balance_rate > 0:
        for pairs in problem.balance.pair_blocks:
            if pairs.features.size * len(pairs.treatments) > _balance.LARGEST_MATRIX:
                return None
            term: Any = _balance.make_balance(problem.rows, pairs, "primal")
            blocks.append(BlockGradient(pairs, term.value_and_coefs(w)[1]))
    rows, a, inverse_a = problem.rows, problem.a, problem.inverse_a
    if rows.n >= LARGE_N:  # only the regression uses a subsample; gradient coefficients do not
        rows = rows.subsample(SUBSAMPLE)
        w, e, a, inverse_a = (
            np.concatenate([v[start:stop] for start, stop in rows.source_bounds])
            for v in (w, e, a, inverse_a)
        )
    blank = WeightModel(
        tuple(blocks), problem.inertia_rate, problem.balance_rate, own, np.zeros(0), 0.0
    )
    # Rows of weight 0 are not part of the fit, and can be so far away that their terms overflow.
    present = a > 0
    a, u = a[present], (w * inverse_a)[present]
    A = _design(rows, own, blank._reduced_gradient(rows, e))[present]
    free = u > AT_THE_BOUND * problem.weight_sum / problem.design_sum
    weight = np.where(free, a, 0.0)
    # Columns are scaled to equal size, so that lstsq does not treat the gradient as collinear.
    size = np.sqrt(np.asarray((A.multiply(A)).T @ weight).ravel() / weight.sum())
    size = np.where(size > 0, size, 1.0)
    scaled = A @ sp.diags_array(1.0 / size)
    gram = (scaled.T @ (sp.diags_array(weight) @ scaled)).toarray()
    coefficients = np.linalg.lstsq(gram, scaled.T @ (weight * u), rcond=1e-13)[0] / size
    found = np.maximum(A @ coefficients, 0.0)
    mean = float(a @ u) / float(a.sum())
    total = float(a @ (u - mean) ** 2)
    constant = total <= 1e-20 * float(a.sum()) * mean**2
    r2 = 1.0 if constant else 1.0 - float(a @ (u - found) ** 2) / total
    return replace(blank, coefficients=coefficients, r2=float(r2))
