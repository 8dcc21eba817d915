"""The balance loss from its d x t sums: the default form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._arrays import row_products, sum_of_squares, take_columns, weighted_sum
from .._buffers import buffer
from .._rows import Rows
from .treatments import Pairs, group_rates

# Features and indicators that would be copied or computed again in each pass are kept in memory, up
# to this number of bytes.
KEPT_BYTES = 2**27
# Entries of the parts in which d x t matrices are processed, so that they fit a core's cache.
PIECE = 2**16


def sums_of(F: np.ndarray, T: np.ndarray, w: np.ndarray) -> tuple:
    """S, s and x of a tile; w is multiplied into the narrower of F and T."""
    w_ = w[:, None].astype(T.dtype)
    if F.shape[1] >= T.shape[1]:
        return F.T @ times_weight(T, w_), weighted_sum(w, T), weighted_sum(w, F)
    return times_weight(F, w_).T @ T, weighted_sum(w, T), weighted_sum(w, F)


def times_weight(M: np.ndarray, w_: np.ndarray) -> np.ndarray:
    """diag(w) M, in a buffer."""
    return np.multiply(M, w_, out=buffer("times", M.shape, M.dtype))


def gradient_of(F: np.ndarray, T: np.ndarray, coefs: GradientCoefs) -> np.ndarray:
    """Gradient of a tile. The wider of F and T is read once: v (or h) is one more column of the
    product."""
    Q, v, h, const = coefs
    if F.shape[1] < T.shape[1]:
        G = _product(T, np.vstack([Q, v]).T)
        return row_products(G[:, :-1], F) + G[:, -1] - F @ h + const
    G = _product(F, np.column_stack([Q, h]))
    return row_products(G[:, :-1], T) - G[:, -1] + T @ v + const


def _product(M: np.ndarray, Q: np.ndarray) -> np.ndarray:
    return np.matmul(M, Q, out=buffer("product", (M.shape[0], Q.shape[1]), M.dtype))


# Kernels of a task take the pairs and a tile, so that no rows are pickled with them.
def _tile_sums(pairs: Pairs, tile: np.ndarray, w: np.ndarray) -> tuple:
    return sums_of(*_both_sides(pairs, tile), w)


def _tile_gradient(pairs: Pairs, tile: np.ndarray, coefs: GradientCoefs) -> np.ndarray:
    return gradient_of(*_both_sides(pairs, tile), coefs)


def _both_sides(pairs: Pairs, tile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features and indicators as contiguous arrays, like those kept in memory: BLAS sums a strided
    view in another order, and results for a file and for its array would differ in the last
    digits."""
    sides = pairs.features_of(tile), pairs.treatments.indicators(tile)
    return tuple(  # type: ignore[return-value]
        side if side.flags.c_contiguous else _packed(side, name)
        for name, side in zip(("features", "treatments"), sides)
    )


def _packed(side: np.ndarray, name: str) -> np.ndarray:
    out = buffer(name, side.shape, side.dtype)
    np.copyto(out, side)
    return out


class GradientCoefs(NamedTuple):
    """Coefficients of the gradient as a function of a row; letters as in PrimalBalance."""

    Q: np.ndarray
    v: np.ndarray
    h: np.ndarray
    const: float


class PrimalBalance:
    """balance(w) = sum of D**2 from the d x t sums S = X' diag(w) T.

    D[k, j]  = scale_k (S_kj (1/s_j + 1/c_j) - x_k / c_j), 0 where excluded
    gradient = per row i  sum_j T_ij ((X Q)_ij (1/s_j + 1/c_j) + v_j) - X_i . h + const
               Q = 2 D scale,  p_j = sum_k Q_kj S_kj / s_j,  q_j = sum_k Q_kj (x_k - S_kj) / c_j
               v_j = -(p_j / s_j + q_j / c_j),  h = Q (1/c),  const = sum_j q_j / c_j
    Cost: one product of 2 n d t operations for the value, one more for the gradient. Sums over
    tiles are in float64; the d x t matrices computed from them are in the dtype of the data.
    """

    form = "primal"

    def __init__(self, rows: Rows, pairs: Pairs) -> None:
        self.rows, self.pairs = rows, pairs
        self._kept: tuple[np.ndarray, np.ndarray] | None = None
        self._keep = False  # from the first gradient on, because many follow it
        self._suits = self._worth_keeping()
        d, t = pairs.features.size, max(len(pairs.treatments), 1)
        step = max(1, PIECE // t)
        self._pieces = [(k, min(k + step, d)) for k in range(0, d, step)]
        k, j = pairs.excluded
        order = np.argsort(k, kind="stable")
        self._excluded = k[order], j[order]

    def _worth_keeping(self) -> bool:
        """Whether F and T are copies or computed, and small enough to keep."""
        rows, pairs = self.rows, self.pairs
        if type(getattr(rows, "X", None)) is not np.ndarray:
            return False
        features = pairs.features
        run = features.size < 2 or bool((np.diff(features) == 1).all())
        as_they_are = pairs.treatments.as_is and run and rows.shift is None and not pairs.effects
        size = rows.n * (features.size + len(pairs.treatments)) * rows.dtype.itemsize
        return not as_they_are and size <= KEPT_BYTES

    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        if self._kept is None:
            shape = self.pairs.features.size, len(self.pairs.treatments)
            F, T = (np.empty((self.rows.n, width), dtype=self.rows.dtype) for width in shape)

            def fill(tile: np.ndarray, number: int) -> None:
                start, stop = self.rows.bounds[number]
                F[start:stop] = self.pairs.features_of(tile)
                T[start:stop] = self.pairs.treatments.indicators(tile)

            run = self.rows.run(lambda i: fill(self.rows.tile(i), i), range(len(self.rows.bounds)))
            for _ in run:
                pass
            self._kept = F, T
        return self._kept

    def _parts(self, w: np.ndarray) -> Iterator[tuple]:
        """Sums of the tiles, in order."""
        if not self._keep:
            return self.rows.map(partial(_tile_sums, self.pairs), w, additive=True)
        F, T = self._sides()
        bounds = self.rows.bounds
        return self.rows.run(lambda b: sums_of(F[slice(*b)], T[slice(*b)], w[slice(*b)]), bounds)

    def gradient_from(self, coefs: GradientCoefs) -> np.ndarray:
        """The derivative in the weight of each row."""
        if not self._keep:
            return self.rows.gather(partial(_tile_gradient, self.pairs), coefs=coefs)
        F, T = self._sides()
        out, bounds = np.empty(self.rows.n), self.rows.bounds
        run = self.rows.run(lambda b: gradient_of(F[slice(*b)], T[slice(*b)], coefs), bounds)
        for (start, stop), part in zip(bounds, run):
            out[start:stop] = part
        return out

    def _total(self, w: np.ndarray) -> list[Any]:
        """S (in the dtype of the data), s and x of all rows."""
        parts = self._parts(w)
        S, *vectors = self.rows.total(parts) if len(self.rows.bounds) > 1 else next(iter(parts))
        return [S.astype(self.rows.dtype, copy=False), *(v.astype(np.float64) for v in vectors)]

    def _in_pieces(self, function: Any) -> Iterable[Any]:
        """function(first row, last row) for parts of d x t matrices, in order, on the threads."""
        run = getattr(self.rows, "run", map)
        return run(lambda piece: function(*piece), self._pieces)

    def _piece_of_D(self, S: np.ndarray, x: np.ndarray, rates: tuple, k: int, stop: int):
        """Rows k..stop of D, in a buffer that the next part overwrites."""
        both, inverse_c, scale = rates
        D = np.multiply(S[k:stop], both, out=buffer("D", S[k:stop].shape, S.dtype))
        shift = buffer("shift of D", D.shape, D.dtype)
        D -= np.multiply(x[k:stop, None], inverse_c, out=shift)
        D *= scale[k:stop, None]
        rows, columns = self._excluded
        inside = slice(*np.searchsorted(rows, [k, stop]))
        D[rows[inside] - k, columns[inside]] = 0.0
        return D

    def _rates(self, W: float, s: np.ndarray) -> tuple:
        inverse_s, inverse_c = group_rates(s, W)
        dtype = self.rows.dtype
        both = (inverse_s + inverse_c).astype(dtype)
        return inverse_s, inverse_c, (
            both, inverse_c.astype(dtype), self.pairs.scale.astype(dtype)
        )  # fmt: skip

    def contrast(self, w: np.ndarray) -> np.ndarray:
        """The matrix D."""
        S, s, x = self._total(w)
        _, _, rates = self._rates(float(w.sum()), s)
        return self._piece_of_D(S, x.astype(self.rows.dtype), rates, 0, S.shape[0]).copy()

    def value(self, w: np.ndarray) -> float:
        S, s, x = self._total(w)
        return self._value_of(S, x, self._rates(float(w.sum()), s)[2])

    def _value_of(self, S: np.ndarray, x: np.ndarray, rates: tuple) -> float:
        x_ = x.astype(self.rows.dtype)
        return float(
            sum(
                self._in_pieces(
                    lambda k, stop: sum_of_squares(self._piece_of_D(S, x_, rates, k, stop))
                )
            )
        )

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        self._keep = self._suits
        value, coefs = self.value_and_coefs(w)
        return value, self.gradient_from(coefs)

    def value_and_coefs(self, w: np.ndarray) -> tuple[float, GradientCoefs]:
        """The value, and the coefficients of the gradient as a function of a row."""
        S, s, x = self._total(w)
        inverse_s, inverse_c, rates = self._rates(float(w.sum()), s)
        both, _, scale = rates
        x_, twice, Q = x.astype(self.rows.dtype), 2.0 * scale, np.empty_like(S)

        def piece(k: int, stop: int) -> tuple:
            D = self._piece_of_D(S, x_, rates, k, stop)
            value = sum_of_squares(D)
            D *= twice[k:stop, None]
            QS = np.einsum("kj,kj->j", D, S[k:stop])
            xQ, h = x[k:stop] @ D, D @ inverse_c
            np.multiply(D, both, out=Q[k:stop])
            return value, QS, xQ, h

        value, QS, xQ, h = 0.0, np.zeros(s.size), np.zeros(s.size), []
        for part_value, part_QS, part_xQ, part_h in self._in_pieces(piece):
            value, QS, xQ = value + part_value, QS + part_QS, xQ + part_xQ
            h.append(part_h)
        p = QS * inverse_s
        q = (xQ - QS) * inverse_c
        v = -(p * inverse_s + q * inverse_c)
        return value, self._coefs(Q, v, np.concatenate(h), float(q @ inverse_c))

    def _coefs(self, Q: np.ndarray, v: np.ndarray, h: np.ndarray, const: float) -> GradientCoefs:
        dtype = self.rows.dtype
        return GradientCoefs(Q, v.astype(dtype), h.astype(dtype), const)


class SparsePrimalBalance(PrimalBalance):
    """PrimalBalance on CSR rows where F or T is narrow, as with a few suspects: only the narrow one
    is made dense, so the cost of a tile is proportional to its stored entries."""

    def _parts(self, w: np.ndarray) -> Iterator[tuple]:
        return self.rows.map(partial(_sparse_sums, self.pairs), w, dense=False, additive=True)

    def gradient_from(self, coefs: GradientCoefs) -> np.ndarray:
        return self.rows.gather(partial(_sparse_gradient, self.pairs), coefs=coefs, dense=False)


def _sparse_sides(pairs: Pairs, tile: sp.csr_array) -> tuple:
    few = pairs.features.size <= len(pairs.treatments)
    return take_columns(tile, pairs.features), pairs.treatments.sparse_indicators(tile), few


def _sparse_sums(pairs: Pairs, tile: Any, w: np.ndarray) -> tuple:
    F, T, few_features = _sparse_sides(pairs, tile)
    s, x = T.transposed_times(w[:, None])[:, 0], F.T @ w
    if few_features:
        return T.transposed_times(w[:, None] * F.toarray()).T, s, x
    return F.T @ (w[:, None] * T.dense()), s, x


def _sparse_gradient(pairs: Pairs, tile: Any, coefs: GradientCoefs) -> np.ndarray:
    Q, v, h, const = coefs
    F, T, few_features = _sparse_sides(pairs, tile)
    if few_features:
        dense = F.toarray()
        g = row_products(T.times(Q.T), dense) + T.times(v[:, None])[:, 0]
    else:
        g = row_products(F @ Q + v, T.dense())
    return g - F @ h + const
