"""Cells: combinations of values of the suspects and of columns with known margins, and what the
weight problem needs of them. Letters as in ``dual``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from .._balance import Treatments
from .._rows import Rows

# Values with a smaller share of the design weight are pooled with the other rare values of their
# column. A share, not a number of rows: weight 2 is equivalent to the row twice, and the scale of
# the weights does not matter.
RARE_SHARE = 0.002
# Rows that are summed at once.
CHUNK = 2**18


class InfeasibleMargins(ValueError):
    """No weights have the requested margins."""


@dataclass(frozen=True)
class CellCoding:
    """Contrast and constraints of a cell as linear functions of its indicators.

    treatments  of the suspects, then of the columns with margins
    contrast    q x p and its offset: G_c = T_c contrast - offset
    constraint  (1 + q) x r: A_c = [1, T_c] constraint
    """

    treatments: Treatments
    contrast: np.ndarray
    offset: np.ndarray
    constraint: np.ndarray

    def G(self, T: np.ndarray) -> np.ndarray:
        return T @ self.contrast - self.offset

    def A(self, T: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(T)), T]) @ self.constraint


def cells_of(rows: Rows, treatments: Treatments) -> tuple[np.ndarray, np.ndarray]:
    """Cell of each row (the smallest type of integers that fits) and the indicators of each cell
    (C x q), in lexicographic order."""
    q = len(treatments)
    cell, patterns = np.empty(rows.n, dtype=np.int32), []
    for (start, stop), (own, inverse) in zip(
        rows.bounds, rows.map(partial(tile_cells, treatments), dense=False)
    ):
        cell[start:stop] = inverse
        patterns.append(own)
    everything, inverse = np.unique(np.concatenate(patterns), axis=0, return_inverse=True)
    at = 0
    for (start, stop), own in zip(rows.bounds, patterns):
        cell[start:stop] = inverse.ravel()[at : at + len(own)][cell[start:stop]]
        at += len(own)
    cell = cell.astype(np.min_scalar_type(max(len(everything) - 1, 0)), copy=False)
    return cell, np.unpackbits(everything, axis=1, count=q).astype(np.float64)


def tile_cells(treatments: Treatments, tile: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distinct packed indicators of a tile, and for each row which it has."""
    if sp.issparse(tile):
        T = treatments.sparse_indicators(tile).dense()
    else:
        T = treatments.indicators(tile)
    bits = np.ascontiguousarray(np.packbits(T > 0.5, axis=1))
    if bits.shape[1] == 0:
        return np.zeros((1, 0), np.uint8), np.zeros(len(bits), np.int64)
    keys = bits.view([("", np.uint8)] * bits.shape[1]).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return bits[first], inverse


def count_cells(
    rows: Rows, treatments: Treatments, a: np.ndarray, labels: np.ndarray, K: int
) -> tuple[np.ndarray, np.ndarray]:
    """Indicators of each cell (C x q), and its number of rows of positive weight with each label
    (C x K), without a vector of the cells of all rows."""

    def kernel(tile: Any, a_: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        patterns, cell = tile_cells(treatments, tile)
        at = (cell.ravel() * K + own)[a_ > 0]
        return patterns, np.bincount(at, minlength=len(patterns) * K).reshape(-1, K)

    patterns, counts = zip(*rows.map(kernel, a, labels, dense=False))
    everything, inverse = np.unique(np.concatenate(patterns), axis=0, return_inverse=True)
    found = np.zeros((len(everything), K))
    np.add.at(found, inverse.ravel(), np.concatenate(counts))
    return np.unpackbits(everything, axis=1, count=len(treatments)).astype(np.float64), found


def cell_totals(cell: np.ndarray, a: np.ndarray, C: int, power: int = 1) -> np.ndarray:
    """Sum of a^power in each of C cells, in chunks: np.bincount copies its arguments as eight bytes
    per row."""
    totals = np.zeros(C)
    for start in range(0, cell.size, CHUNK):
        part = slice(start, start + CHUNK)
        totals += np.bincount(cell[part], weights=a[part] ** power, minlength=C)
    return totals


def pooling(T: np.ndarray, totals: np.ndarray, source: np.ndarray) -> np.ndarray:
    """q x q' matrix that pools rare values: T @ pooling are the indicators that are balanced."""
    columns: list[np.ndarray] = []
    unit = np.eye(T.shape[1])
    rare = totals @ T < RARE_SHARE * totals.sum()
    columns.extend(unit[j] for j in np.flatnonzero(~rare))
    columns.extend(unit[rare & (source == s)].sum(axis=0) for s in np.unique(source[rare]))
    return np.column_stack(columns) if columns else np.zeros((T.shape[1], 0))


class KnownMargin(NamedTuple):
    """Known shares of one column: its name, the coefficients (1 + q) x m of the constraints
    sum_i w_i [1, T_i] coefficients = 0, and which cells must have no weight."""

    name: str
    coefficients: np.ndarray
    empty: np.ndarray


def make_coding(
    treatments: Treatments,
    T: np.ndarray,
    totals: np.ndarray,
    source: np.ndarray,
    n_suspects: int,
    weight_sum: float,
    margins: list[KnownMargin],
) -> tuple[CellCoding, np.ndarray]:
    """Coding of the cells and the target of the constraints.

    The shares of the suspects are fixed at those of the design weights, raked to the margins.
    ``totals``: design weight of each cell; the first ``n_suspects`` treatments are those of
    suspects.
    """
    whole = np.column_stack([np.ones(len(T)), T])
    totals = totals * (weight_sum / totals.sum())
    if margins:
        totals = raked_totals(whole, totals, margins)
    pooled = np.zeros((T.shape[1], 0))
    if n_suspects:
        own = pooling(T[:, :n_suspects], totals, source[:n_suspects])
        pooled = np.vstack([own, np.zeros((T.shape[1] - n_suspects, own.shape[1]))])
    s = totals @ (T @ pooled)
    two_sided = (s > 1e-12 * weight_sum) & (weight_sum - s > 1e-12 * weight_sum)
    pooled, s = pooled[:, two_sided], s[two_sided]
    # D is invariant to a rotation of its columns: redundant ones are removed.
    rate = weight_sum / (s * (weight_sum - s))
    contrast = (T @ pooled - s / weight_sum) * rate
    rotation, _ = independent(contrast)
    # Constraints: total weight, shares of the suspects, margins; without redundant ones.
    first = np.zeros((1 + T.shape[1], 1))
    first[0] = 1.0
    fixed = np.hstack([first, np.vstack([np.zeros((1, pooled.shape[1])), pooled])])
    constraint = np.hstack([fixed, *(m.coefficients for m in margins)])
    target = np.concatenate(
        [[weight_sum], s, np.zeros(sum(m.coefficients.shape[1] for m in margins))]
    )
    basis, sizes = independent(whole @ constraint)
    basis = basis / sizes
    coding = CellCoding(
        treatments, (pooled * rate) @ rotation, (s / weight_sum * rate) @ rotation,
        constraint @ basis,
    )  # fmt: skip
    return coding, target @ basis


def independent(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V and s for which the columns of M V are orthogonal, of norm s > 0, and span those of M."""
    if M.shape[1] == 0:
        return np.zeros((0, 0)), np.zeros(0)
    _, s, Vt = np.linalg.svd(M, full_matrices=False)
    kept = s > 1e-10 * max(float(s[0]), np.finfo(float).tiny)
    return Vt[kept].T, s[kept]


def raked_totals(whole: np.ndarray, totals: np.ndarray, margins: list[KnownMargin]) -> np.ndarray:
    """Design weights of the cells, raked to the margins; raises where no weights have them."""

    def feasible(which: list[KnownMargin]) -> bool:
        there = totals > 0
        for each in which:
            there = there & ~each.empty
        A = np.hstack([np.ones((len(whole), 1)), *(whole @ m.coefficients for m in which)])[there]
        b = np.append(1.0, np.zeros(A.shape[1] - 1))
        if not len(A):
            return False
        return linprog(np.zeros(len(A)), A_eq=A.T, b_eq=b, method="highs").status == 0

    if not feasible(margins):
        alone = [m.name for m in margins if not feasible([m])]
        named = ", ".join(repr(name) for name in alone or [m.name for m in margins])
        together = "" if alone or len(margins) == 1 else "together "
        raise InfeasibleMargins(
            f"margins of {named} cannot be reached {together}by weights of the rows: no weights "
            ">= 0 have these shares"
        )
    for each in margins:
        totals = np.where(each.empty, 0.0, totals)
    A = np.hstack([np.ones((len(whole), 1)), *(whole @ m.coefficients for m in margins)])
    basis, sizes = independent(A)
    target = np.append(totals.sum(), np.zeros(A.shape[1] - 1)) @ (basis / sizes)
    factor = rake(totals, A @ (basis / sizes), target)
    return totals if factor is None else totals * factor


def rake(totals: np.ndarray, A: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Factors exp(A lambda) of the cells for which A' (factor * totals) = target: Newton's method
    on the convex dual. None where there are none."""
    factor = np.ones(len(totals))
    size = np.abs(target).max()
    for _ in range(50):
        now = factor * totals
        error = A.T @ now - target
        if np.abs(error).max() <= 1e-13 * size:
            return factor
        move = A @ np.linalg.lstsq((A.T * now) @ A, error, rcond=1e-12)[0]
        factor = factor * np.exp(-np.clip(move, -2.0, 2.0))
    return factor if np.abs(A.T @ (factor * totals) - target).max() <= 1e-9 * size else None
