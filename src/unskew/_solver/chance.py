"""Whether suspects are associated with the features beyond chance."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import chi2

from .._balance import Pairs
from .._data.sampling import draw_rows
from .._kmeans import cluster_sums
from .cells import cell_totals
from .dual import DualWeights

# Level of the test, and rows from which the correlations of the features are estimated.
LEVEL, CORRELATION_ROWS = 0.01, 1000


def is_beyond_chance(dual: DualWeights) -> bool:
    """Test of ||D||^2 at uniform weights against its distribution under permutation of the rows.

    If the rows were permuted against the cells, D = sum_i a_i G_c(i) phi_i' would have the
    covariance M x R (M = sum_i a_i^2 G_c G_c', R that of phi), and ||D||^2 the mean tr(M) tr(R) and
    about the variance 2 tr(M^2) tr(R^2); it is compared with the multiple of a chi-squared variable
    with these two moments (Satterthwaite). Weights are design weights: their scale does not matter,
    and more weight is not more rows.
    """
    G = dual.coding.G(dual.T)
    kernel = partial(_moments, dual.pairs, len(dual.T))
    parts = dual.rows.map(kernel, dual.a, dual.cell, dense=not dual._as_csr, additive=True)
    D = G.T @ (dual.rows.total(parts)[0] * dual.pairs.scale)
    squares = cell_totals(dual.cell, dual.a, len(dual.T), power=2)
    M = (G.T * squares) @ G
    first, second = _traces(dual)
    mean, variance = float(np.trace(M)) * first, 2.0 * float((M * M).sum()) * second
    if not (mean > 0 and variance > 0):
        return True
    scale = variance / (2.0 * mean)
    return bool((D * D).sum() > scale * chi2.isf(LEVEL, mean / scale))


def _moments(pairs: Pairs, C: int, tile: Any, a: np.ndarray, cell: np.ndarray) -> tuple:
    return (cluster_sums(pairs.features_of(tile), a, cell, C)[0],)


def _traces(dual: DualWeights) -> tuple[float, float]:
    """tr(R) and tr(R^2), from inner products of the rows of a subsample."""
    which = draw_rows(dual.a, CORRELATION_ROWS, 0)
    part = dual.rows.select(which)
    tiles: list[Any] = list(part.map(dual.pairs.features_of, dense=not dual._as_csr))
    F: Any = sp.vstack(tiles, format="csr") if sp.issparse(tiles[0]) else np.concatenate(tiles)
    scale = dual.pairs.scale.astype(F.dtype)
    F = F.multiply(scale).tocsr() if sp.issparse(F) else F * scale
    inner = F @ F.T
    inner = (inner.toarray() if sp.issparse(inner) else inner).astype(np.float64)
    a = dual.a[which] / dual.a[which].sum()
    inner -= a @ inner
    inner -= (inner @ a)[:, None]
    inner *= np.sqrt(a)  # before squares: of rows of small weight they could overflow
    inner *= np.sqrt(a)[:, None]
    first = float(np.trace(inner))
    # tr(R^2) of the covariance of m rows is larger than that of R by about tr(R)^2 / m.
    second = float((inner**2).sum()) - first**2 * float(a @ a)
    return first, max(second, first**2 / F.shape[1])
