"""Weights of named suspects, by Newton's method on the dual problem. Letters as in ``_balance``.

At fixed shares of the suspects' values the contrast of features and suspects is linear in w, so the
weights are the solution of a convex quadratic problem:

    minimise   rho sum_i w_i e_i + beta ||D||^2 + sigma sum_i w_i^2 / a_i
    subject to w >= 0, sum_i w_i A_c(i) = t,        D = sum_i w_i G_c(i) phi_i'

c(i) is the cell of row i: the combination of values of the suspects. G_c (p numbers) is the
contrast row of a cell, A_c (r numbers) its row of constraints (total weight, shares of the values,
known margins). Its dual is concave in Z (p x d) and mu (r):

    max  -||Z||^2 / (4 beta) - mu.t - sum_i a_i max(0, -q_i)^2 / (4 sigma)
    q_i = rho e_i + phi_i.(Z'G_c(i)) + A_c(i).mu,      w_i = a_i max(0, -q_i) / (2 sigma)

A pass over the rows returns sums for each cell; the Hessian consists of sum a phi phi' over the
active rows of each cell, estimated from some of them where there are many. The number of unknowns
does not depend on the number of rows, and the weight of a row is a function of the row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._balance import LARGEST_MATRIX, Pairs, concat_treatments
from .._data.tiled import split_range
from .._kmeans import cluster_sums
from .._rows import Rows
from .cells import CellCoding, KnownMargin, cell_totals, cells_of, make_coding, rake

# Newton steps of one solve, halvings of a step, iterations of conjugate gradients.
MAX_NEWTON, MAX_HALVINGS, MAX_CG = 50, 30, 1000
# The relative tolerance of conjugate gradients.
CG_TOLERANCE = 1e-8
# Up to this number of cells, scores of all cells are computed by one product.
FEW_CELLS = 8
# Rows of a cell, per feature and at least, from which its curvature is estimated: its relative
# error is then about 1 / 7, and each Newton step leaves about that share of the error.
CURVATURE_ROWS, MIN_CURVATURE_ROWS = 50, 4096
# Rows whose weights are rescaled at once.
CHUNK = 2**16


@dataclass(frozen=True)
class DualState:
    """Z (p x d, for standardised features), mu (r) and sigma: all that the weights depend on
    besides the clusters. ``factor`` (one per cell) rescales them to the exact totals."""

    Z: np.ndarray
    mu: np.ndarray
    sigma: float
    factor: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        return {"Z": self.Z, "mu": self.mu, "sigma": np.array(self.sigma), "factor": self.factor}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> DualState:
        sigma = float(arrays["sigma"])
        return cls(arrays["Z"], arrays["mu"], sigma, arrays["factor"])


class DualStep(NamedTuple):
    """Result of a solve: the state, the terms of the objective at its weights, the duality gap, the
    effective share, the terms and the dual value before each Newton step and at the end, and
    whether the gap (without the price of the bound) reached the tolerance."""

    state: DualState
    inertia: float
    balance: float
    spread: float
    gap: float
    share: float
    terms: list[tuple]
    values: list[float]
    converged: bool


class WeightSums(NamedTuple):
    """Sums of one pass, for each of C cells: of w_i [x_i, 1] (C x (d + 1)), of w_i e_i, of
    w_i^2 / a_i, and of a_i [x_i, 1] [x_i, 1]' over the active rows (C x (d + 1) x (d + 1),
    estimated) or None."""

    moments: np.ndarray
    inertia: np.ndarray
    squares: np.ndarray
    curvature: np.ndarray | None


class WeightPass(NamedTuple):
    """Coefficients of a pass: linear score of each cell (C x (d + 1)), rho, sigma, and of how many
    active rows of each cell one is used for the curvature (None: no curvature)."""

    theta: np.ndarray
    rho: float
    sigma: float
    strides: np.ndarray | None = None


def row_weights(F: Any, e: np.ndarray, cell: np.ndarray, how: WeightPass) -> np.ndarray:
    """w_i / a_i of the rows of a tile, from their features."""
    slopes = how.theta[:, :-1].astype(F.dtype)
    if sp.issparse(F) or len(slopes) <= FEW_CELLS:
        scores = (F @ np.ascontiguousarray(slopes.T))[np.arange(cell.size), cell]
    else:
        scores = np.einsum("ij,ij->i", F, slopes[cell])
    q = how.rho * e
    q += how.theta[cell, -1]
    q += scores
    return np.maximum(-q, 0.0, out=q) / (2.0 * how.sigma)


def tile_weights(pairs: Pairs, tile: Any, a, e, cell, how: WeightPass) -> np.ndarray:
    return a * row_weights(pairs.features_of(tile), e, cell, how)


def tile_sums(pairs: Pairs, C: int, tile: Any, a, e, cell, how: WeightPass) -> tuple:
    F = pairs.features_of(tile)
    u = row_weights(F, e, cell, how)
    w = a * u
    sums, weight = cluster_sums(F, w, cell, C)
    inertia = np.bincount(cell, weights=w * e, minlength=C)
    squares = np.bincount(cell, weights=w * u, minlength=C)
    found = np.column_stack([sums, weight]), inertia, squares
    if how.strides is None:
        return found
    d = F.shape[1]
    curvature = np.zeros((C, d + 1, d + 1))
    active = np.flatnonzero(u > 0)
    order = active[np.argsort(cell[active], kind="stable")]
    ends = np.searchsorted(cell[order], np.arange(C + 1))
    for c in np.flatnonzero(np.diff(ends)):
        own = order[ends[c] : ends[c + 1] : how.strides[c]]
        part, a_ = F[own], how.strides[c] * a[own]
        if sp.issparse(part):
            weighted = part.multiply(a_[:, None].astype(part.dtype)).tocsr()
            curvature[c, :d, :d] = (part.T @ weighted).toarray()
            linear = np.asarray(weighted.sum(axis=0)).ravel()
        else:
            weighted = part * a_[:, None].astype(part.dtype)
            curvature[c, :d, :d] = part.T @ weighted
            linear = weighted.sum(axis=0, dtype=np.float64)
        curvature[c, :d, d] = curvature[c, d, :d] = linear
        curvature[c, d, d] = a_.sum()
    return *found, curvature


@dataclass
class DualWeights:
    """The weight problem of named suspects at given squared distances e (None: rho is 0).

    pairs      features of the balance
    cell       cell of each row; T: indicators of each cell (C x q)
    beta       rate of the balance; rho: of the inertia; sigma: of the spread
    """

    rows: Rows
    pairs: Pairs
    a: np.ndarray
    cell: np.ndarray
    T: np.ndarray
    coding: CellCoding
    target: np.ndarray
    beta: float
    rho: float
    sigma: float
    weight_sum: float
    design_sum: float
    min_ess: float | None = None

    def __post_init__(self) -> None:
        self.G, self.A = self.coding.G(self.T), self.coding.A(self.T)
        if not self.beta:
            self.G = self.G[:, :0]
        self.scale = np.append(self.pairs.scale, 1.0)
        d = self.pairs.features.size
        self._strides: np.ndarray | None = None
        if len(self.T) * (d + 1) ** 2 <= LARGEST_MATRIX:
            n = cell_totals(self.cell, self.a, len(self.T), power=0).astype(np.intp)
            self._strides = np.maximum(1, n // max(CURVATURE_ROWS * (d + 1), MIN_CURVATURE_ROWS))
        self._totals = cell_totals(self.cell, self.a, len(self.T))
        # mu of constant scores: A mu = 1.
        self._constant = np.linalg.lstsq(self.A, np.ones(len(self.T)), rcond=None)[0]

    # ----------------------------------------------------------------------------------------
    # Functions of the rows

    def start(self) -> DualState:
        """The state of uniform weights at e = 0."""
        p, d = self.G.shape[1], self.pairs.features.size
        mu = (-2.0 * self.sigma * self.weight_sum / self.design_sum) * self._constant
        return DualState(np.zeros((p, d)), mu, self.sigma, np.ones(len(self.T)))

    def transferred(self, few: DualWeights, state: DualState) -> DualState:
        """The state with the scores that ``state`` has in the problem ``few`` of a subsample; the
        start where that has other cells or features. Scores are inversely proportional to n."""
        if not (
            np.array_equal(self.T, few.T)
            and np.array_equal(self.pairs.features, few.pairs.features)
        ):
            return self.start()
        rate = few.design_sum / self.design_sum
        Z = np.linalg.lstsq(self.G, rate * (few.G @ state.Z), rcond=1e-10)[0]
        mu = np.linalg.lstsq(self.A, rate * (few.A @ state.mu), rcond=1e-10)[0]
        sigma = self.sigma * state.sigma / few.sigma
        return DualState(Z, mu, sigma, np.ones(len(self.T)))

    def theta(self, Z: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Linear scores of the cells, for features as they are."""
        return np.column_stack([self.G @ Z, self.A @ mu]) * self.scale

    def weights(self, state: DualState, e: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The weights of all rows; written to ``out`` if it is given."""
        how = WeightPass(self.theta(state.Z, state.mu), self.rho, state.sigma)
        vectors, kernel = self._vectors(e), partial(tile_weights, self.pairs)
        dense = not self._as_csr
        w = self.rows.gather(kernel, *vectors, coefs=how, dense=dense, out=out)
        for start, stop in split_range(0, w.size, CHUNK):
            w[start:stop] *= state.factor[self.cell[start:stop]]
        return w

    def sums(self, e: np.ndarray, Z: np.ndarray, mu: np.ndarray, sigma: float) -> WeightSums:
        how = WeightPass(self.theta(Z, mu), self.rho, sigma, self._strides)
        kernel = partial(tile_sums, self.pairs, len(self.T))
        vectors = self._vectors(e)
        parts = self.rows.map(kernel, *vectors, coefs=how, dense=not self._as_csr, additive=True)
        moments, inertia, squares, *curvature = self.rows.total(parts)
        scaled = curvature[0] * np.outer(self.scale, self.scale) if curvature else None
        return WeightSums(moments * self.scale, inertia, squares, scaled)

    def _vectors(self, e: Any) -> tuple:
        """Vectors of the passes; e may be None where rho is 0."""
        return self.a, np.broadcast_to(0.0, self.a.shape) if e is None else e, self.cell

    @property
    def _as_csr(self) -> bool:
        return self.rows.sparse and self.pairs.effects is None

    # ----------------------------------------------------------------------------------------
    # Newton's method

    def solve(
        self, state: DualState, e: np.ndarray, tol: float, max_steps: int = MAX_NEWTON
    ) -> DualStep:
        """Solve until the duality gap is at most tol times the objective.

        With a lower bound on the effective sample size, which increases with sigma, sigma is raised
        to the price at which the bound holds.
        """
        found = self._newton(state, e, tol, max_steps)
        if self.min_ess is None or (
            found.share >= self.min_ess and found.state.sigma <= self.sigma
        ):
            return found
        low, high = self.sigma, found.state.sigma
        while found.share < self.min_ess:
            low, high = high, 4.0 * high
            if high > 1e12 * self.sigma:
                raise ValueError(
                    f"min_effective_sample_size={self.min_ess:g} cannot be reached: the margins "
                    f"leave at most {found.share:.3g}"
                )
            found = self._newton(self._with_sigma(found.state, high), e, tol, max_steps)
        # The larger sigma is feasible; the bound is met from above, to a thousandth.
        while found.share > self.min_ess * (1 + 1e-3) and high > low * (1 + 1e-6):
            middle = float(np.sqrt(low * high))
            trial = self._newton(self._with_sigma(found.state, middle), e, tol, max_steps)
            if trial.share >= self.min_ess:
                high, found = middle, trial
            else:
                low = middle
        return found

    def _with_sigma(self, state: DualState, sigma: float) -> DualState:
        """Start for another sigma: mu is shifted so that rows at e = 0 keep their weight."""
        shift = 2.0 * (sigma - state.sigma) * self.weight_sum / self.design_sum
        return replace(state, mu=state.mu - shift * self._constant, sigma=sigma)

    def _newton(self, state: DualState, e: np.ndarray, tol: float, max_steps: int) -> DualStep:
        Z, mu, sigma = state.Z, state.mu, state.sigma
        if not Z.any() and self.rho:  # the start: rows of average e have uniform weight
            mu = mu - self.rho * float(self.a @ e) / self.design_sum * self._constant
        sums = self.sums(e, Z, mu, sigma)
        value = self._dual_value(Z, mu, sigma, sums)
        values, trace = [value], []
        for _ in range(max_steps):
            factor, terms, feasible = self._primal_terms(sums, sigma)
            trace.append(terms)
            if feasible and sum(terms) - value <= tol * abs(sum(terms)):
                break
            dZ, dmu = self._direction(Z, mu, sigma, sums, e)
            step = 1.0
            for _ in range(MAX_HALVINGS):
                trial = Z + step * dZ, mu + step * dmu
                new = self.sums(e, *trial, sigma)
                new_value = self._dual_value(*trial, sigma, new)
                if new_value > value:
                    break
                step *= 0.5
            else:  # no step raises the dual value beyond rounding
                break
            (Z, mu), sums, value = trial, new, new_value
            values.append(value)
        factor, terms, feasible = self._primal_terms(sums, sigma)
        if len(trace) < len(values):
            trace.append(terms)
        inertia, balance, spread = terms
        total = float(factor @ sums.moments[:, -1])
        squares = spread / sigma
        share = total**2 / (self.design_sum * squares) if squares > 0 else 0.0
        gap = max(0.0, sum(terms) - value)
        converged = feasible and gap <= tol * abs(sum(terms))
        if self.min_ess is not None:  # the price of the part of the bound that is not used
            gap += (sigma - self.sigma) * max(
                0.0, total**2 / (self.design_sum * self.min_ess) - squares
            )
        state = DualState(Z, mu, sigma, factor)
        return DualStep(
            state, inertia, balance, self.sigma * squares, gap, share, trace, values, converged
        )

    def _dual_value(self, Z, mu, sigma: float, sums: WeightSums) -> float:
        quadratic = float((Z * Z).sum()) / (4.0 * self.beta) if self.beta else 0.0
        return -quadratic - float(mu @ self.target) - sigma * float(sums.squares.sum())

    def _primal_terms(self, sums: WeightSums, sigma: float) -> tuple[np.ndarray, tuple, bool]:
        """Factors of the cells that give the exact totals, the terms of the objective (inertia,
        balance, spread) at these weights, and whether there are such factors (not where a cell has
        no active row yet: factors are then 1)."""
        factor = rake(sums.moments[:, -1], self.A, self.target)
        feasible = factor is not None
        if factor is None:
            factor = np.ones(len(self.T))
        D = self.G.T @ (factor[:, None] * sums.moments[:, :-1])
        inertia, squares = float(factor @ sums.inertia), float(factor**2 @ sums.squares)
        terms = self.rho * inertia, self.beta * float((D * D).sum()), sigma * squares
        return factor, terms, feasible

    def _direction(self, Z, mu, sigma: float, sums: WeightSums, e: np.ndarray) -> tuple:
        """Solution of the Newton system by conjugate gradients."""
        p, d = Z.shape
        G, A, rate = self.G, self.A, 0.5 / sigma
        upper = G.T @ sums.moments[:, :-1]
        if self.beta:
            upper -= Z / (2.0 * self.beta)
        right = np.append(upper, A.T @ sums.moments[:, -1] - self.target)
        curvature = sums.curvature
        # A cell without active rows has no curvature: its total is raised as if a few were active.
        lowest = 1e-3 * self._totals
        if curvature is None:
            product, diagonal = self._product_by_pass(Z, mu, sigma, e)
        else:
            curvature[:, d, d] = np.maximum(curvature[:, d, d], lowest)
            diagonal = np.einsum("cii->ci", curvature)

            def product(y: np.ndarray) -> np.ndarray:
                return np.matmul(curvature, y[:, :, None])[:, :, 0]

        def times(x: np.ndarray) -> np.ndarray:
            V, nu = x[: p * d].reshape(p, d), x[p * d :]
            Y = rate * product(np.column_stack([G @ V, A @ nu]))
            out = G.T @ Y[:, :-1]
            if self.beta:
                out += V / (2.0 * self.beta)
            return np.append(out, A.T @ Y[:, -1])

        main = rate * np.append((G**2).T @ diagonal[:, :-1], (A**2).T @ diagonal[:, -1])
        if self.beta:
            main[: p * d] += 0.5 / self.beta
        x = conjugate_gradients(times, right, main, self._cg_limits)
        return x[: p * d].reshape(p, d), x[p * d :]

    @property
    def _cg_limits(self) -> tuple[int, float]:
        """Iterations and tolerance; each iteration is a pass where no curvature is stored."""
        return (20, 0.05) if self._strides is None else (MAX_CG, CG_TOLERANCE)

    def _product_by_pass(self, Z, mu, sigma: float, e: np.ndarray) -> tuple:
        how = WeightPass(self.theta(Z, mu), self.rho, sigma)
        C, vectors = len(self.T), self._vectors(e)
        call: Any = {"dense": not self._as_csr, "additive": True}

        def product(y: np.ndarray) -> np.ndarray:
            kernel = partial(tile_products, self.pairs, C)
            parts = self.rows.map(kernel, *vectors, coefs=(how, y * self.scale), **call)
            return self.rows.total(parts)[0] * self.scale

        kernel = partial(tile_diagonal, self.pairs, C)
        parts = self.rows.map(kernel, *vectors, coefs=how, **call)
        diagonal = self.rows.total(parts)[0] * self.scale**2
        diagonal[:, -1] = np.maximum(diagonal[:, -1], 1e-3 * self._totals)
        return product, diagonal


def tile_products(pairs: Pairs, C: int, tile: Any, a, e, cell, coefs: tuple) -> tuple:
    """Sum over the active rows of each cell of a [x, 1] ([x, 1] . y_c)."""
    how, y = coefs
    F = pairs.features_of(tile)
    active = row_weights(F, e, cell, how) > 0
    if sp.issparse(F):
        scores = (F @ np.ascontiguousarray(y[:, :-1].T))[np.arange(cell.size), cell]
    else:
        scores = np.einsum("ij,ij->i", F, y[:, :-1].astype(F.dtype)[cell])
    sums, weight = cluster_sums(F, a * active * (scores + y[cell, -1]), cell, C)
    return (np.column_stack([sums, weight]),)


def tile_diagonal(pairs: Pairs, C: int, tile: Any, a, e, cell, how: WeightPass) -> tuple:
    """Sum over the active rows of each cell of a [x^2, 1]."""
    F = pairs.features_of(tile)
    active = row_weights(F, e, cell, how) > 0
    sums, weight = cluster_sums(F * F if not sp.issparse(F) else F.power(2), a * active, cell, C)
    return (np.column_stack([sums, weight]),)


def conjugate_gradients(
    times: Callable, right: np.ndarray, diagonal: np.ndarray, limits: tuple[int, float]
) -> np.ndarray:
    """Conjugate gradients with a diagonal preconditioner; scipy's ``cg`` in a third of its time,
    which at these sizes is the cost of the calls around the product."""
    most, tolerance = limits
    inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    x, r = np.zeros_like(right), right.copy()
    z = inverse * r
    p, rz = z.copy(), float(r @ z)
    goal = tolerance**2 * rz
    for _ in range(min(most, 2 * right.size + 10)):
        if not rz > goal:
            break
        Hp = times(p)
        curved = float(p @ Hp)
        if not curved > 0:
            break
        step = rz / curved
        x += step * p
        r -= step * Hp
        z = inverse * r
        rz, before = float(r @ z), rz
        p = z + (rz / before) * p
    return x


def make_dual(
    rows: Rows,
    pairs: Pairs,
    a: np.ndarray,
    source: np.ndarray,
    margins: list[Any],
    rates: dict[str, Any],
) -> DualWeights:
    """The weight problem of ``pairs`` (features x treatments of the suspects).

    ``source``: source column of each column of X. ``margins``: KnownShares, fixed exactly.
    """
    known = [t for each in margins for t in (each.treatments, each.unknown) if t is not None]
    treatments = concat_treatments([pairs.treatments, *known])
    assert treatments is not None
    cell, T = cells_of(rows, treatments)
    totals = cell_totals(cell, a, len(T))
    constraints, at = [], len(pairs.treatments)
    for each in margins:
        own = np.arange(at, at + len(each.treatments))
        at += own.size
        coefficients = np.zeros((1 + T.shape[1], own.size))
        coefficients[1 + own, np.arange(own.size)] = 1.0
        coefficients[0] -= each.wanted
        if each.unknown is not None:  # shares of the rows whose value is known
            missing = 1 + at
            at += 1
            coefficients[missing] += each.wanted
            keep = np.zeros((1 + T.shape[1], 1))
            keep[missing] = 1.0
            keep[0] = -float(totals @ T[:, missing - 1]) / float(totals.sum())
            coefficients = np.hstack([coefficients, keep])
        empty = (T[:, own] @ (each.wanted == 0)) > 0
        constraints.append(KnownMargin(str(each.name), coefficients, empty))
    coding, target = make_coding(
        treatments, T, totals, source[treatments.column], len(pairs.treatments),
        rates["weight_sum"], constraints,
    )  # fmt: skip
    return DualWeights(rows, pairs, a, cell, T, coding, target, **rates)
