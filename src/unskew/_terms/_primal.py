"""The balance loss from its d x t sums: the form for most data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs

from ._pairs import Pairs, add_up, group_rates, sum_of_squares, take_columns


class PrimalBalance:
    """balance(w) = sum of D**2 from the d x t sums S = X' diag(w) T.

    D[k, j]  = scale_k (S_kj (1/s_j + 1/c_j) - x_k / c_j), 0 where masked
    gradient = per row i  sum_j T_ij ((X Q)_ij (1/s_j + 1/c_j) + v_j) - X_i . h + const
               Q = 2 D scale,  p_j = sum_k Q_kj S_kj / s_j,  q_j = sum_k Q_kj (x_k - S_kj) / c_j
               v_j = -(p_j / s_j + q_j / c_j),  h = Q (1/c),  const = sum_j q_j / c_j
    Cost: one product of 2 n d t operations for the value, one more for the gradient. Sums over
    tiles are in float64; the d x t matrices made of them are in the dtype of the data.
    """

    form = "primal"

    def __init__(self, rows: Any, pairs: Pairs) -> None:
        self.rows, self.pairs = rows, pairs

    def _sums(self, tile: np.ndarray, w: np.ndarray) -> tuple:
        F = self.pairs.features_of(tile)
        T = self.pairs.treatments.of(tile)
        return F.T @ (T * w[:, None].astype(T.dtype)), w @ T, w @ F

    def _gradient(self, tile: np.ndarray, message: tuple) -> np.ndarray:
        Q, v, h, const = message
        F = self.pairs.features_of(tile)
        T = self.pairs.treatments.of(tile)
        G = F @ Q
        G += v
        return np.einsum("ij,ij->i", G, T) - F @ h + const

    def _total(self, w: np.ndarray) -> list[Any]:
        """S (in the dtype of the data), s and x of all rows."""
        parts = self.rows.map(self._sums, w)
        S, *vectors = add_up(parts) if len(self.rows.bounds) > 1 else next(iter(parts))
        return [S.astype(self.rows.dtype, copy=False), *(v.astype(np.float64) for v in vectors)]

    def contrast(self, w: np.ndarray) -> tuple:
        """D first, then what it was made of."""
        S, s, x = self._total(w)
        inverse_s, inverse_c = group_rates(s, float(w.sum()))
        dtype = self.rows.dtype
        D = S * (inverse_s + inverse_c).astype(dtype)
        D -= np.multiply.outer(x.astype(dtype), inverse_c.astype(dtype))
        D *= self.pairs.scale.astype(dtype)[:, None]
        D[self.pairs.masked] = 0.0
        return D, S, x, inverse_s, inverse_c

    def value(self, w: np.ndarray) -> float:
        return sum_of_squares(self.contrast(w)[0])

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, message = self.value_and_message(w)
        return value, self.row_gradient(message)

    def value_and_message(self, w: np.ndarray) -> tuple[float, tuple]:
        """The value, and all that the derivative in a row's weight needs besides the row."""
        D, S, x, inverse_s, inverse_c = self.contrast(w)
        value = sum_of_squares(D)
        dtype = self.rows.dtype
        Q = D
        Q *= (2.0 * self.pairs.scale).astype(dtype)[:, None]
        QS = np.einsum("kj,kj->j", Q, S).astype(np.float64)
        p = QS * inverse_s
        q = (x @ Q - QS) * inverse_c
        h = Q @ inverse_c
        Q *= (inverse_s + inverse_c).astype(dtype)
        v = -(p * inverse_s + q * inverse_c)
        return value, self._message(Q, v, h, float(q @ inverse_c))

    def row_gradient(self, message: tuple) -> np.ndarray:
        return self.rows.gather(self._gradient, message=message)

    def _message(self, Q: np.ndarray, v: np.ndarray, h: np.ndarray, const: float) -> tuple:
        dtype = self.rows.dtype
        return Q, v.astype(dtype), h.astype(dtype), const


class SymmetricPrimalBalance(PrimalBalance):
    """PrimalBalance where the features are the treatments: every column is two-valued.

    With x_k = low_k + gap_k T_k, D is gap_k times D of the indicators, so T alone is read, S is
    symmetric (half the operations: a rank-k update of sqrt(w) T) and s is its diagonal. The
    gradient's T_i Q T_i' sees only Q + Q', of which one triangle is enough (half again).
    """

    def __init__(self, rows: Any, pairs: Pairs) -> None:
        super().__init__(rows, replace(pairs, scale=pairs.scale * pairs.gap))
        self.triangle_times = get_blas_funcs("trmm", dtype=rows.dtype)

    def _sums(self, tile: np.ndarray, w: np.ndarray) -> tuple:
        T = self.pairs.treatments.of(tile)
        wT = T * np.sqrt(w)[:, None].astype(T.dtype)
        return (wT.T @ wT, w @ T)

    def _gradient(self, tile: np.ndarray, message: tuple) -> np.ndarray:
        lower, v, _, const = message
        T = self.pairs.treatments.of(tile)
        # BLAS reads a C-ordered matrix as its transpose; it multiplies a copy of T in place.
        G = self.triangle_times(1.0, lower.T, T.T, lower=1).T
        G += v
        return np.einsum("ij,ij->i", G, T) + const

    def _message(self, Q: np.ndarray, v: np.ndarray, h: np.ndarray, const: float) -> tuple:
        # The diagonal of Q is masked, so one strict triangle of Q + Q' has all of it.
        return super()._message(Q + Q.T, v - h, h, const)

    def _total(self, w: np.ndarray) -> list[Any]:
        S, s = super()._total(w)
        return [S, s, s]


class SparsePrimalBalance(PrimalBalance):
    """PrimalBalance on CSR rows where one side is narrow, as with a few suspects: only that side
    is made dense, so a tile costs its stored entries."""

    def _read(self, tile: sp.csr_array) -> tuple:
        return take_columns(tile, self.pairs.features), self.pairs.treatments.of_sparse(tile)

    @property
    def _few_features(self) -> bool:
        return self.pairs.features.size <= len(self.pairs.treatments)

    def _total(self, w: np.ndarray) -> list[Any]:
        S, s, x = add_up(self.rows.map(self._sums, w, dense=False))
        return [S.astype(self.rows.dtype, copy=False), s, x]

    def _sums(self, tile: Any, w: np.ndarray) -> tuple:
        F, T = self._read(tile)
        s, x = T.transposed_times(w[:, None])[:, 0], F.T @ w
        if self._few_features:
            return T.transposed_times(w[:, None] * F.toarray()).T, s, x
        return F.T @ (w[:, None] * T.dense()), s, x

    def _gradient(self, tile: Any, message: tuple) -> np.ndarray:
        Q, v, h, const = message
        F, T = self._read(tile)
        if self._few_features:
            dense = F.toarray()
            g = np.einsum("ik,ik->i", T.times(Q.T), dense) + T.times(v[:, None])[:, 0]
        else:
            g = np.einsum("ij,ij->i", F @ Q + v, T.dense())
        return g - F @ h + const

    def row_gradient(self, message: tuple) -> np.ndarray:
        return self.rows.gather(self._gradient, message=message, dense=False)
