"""The balance loss where the features are the treatments: every column is two-valued."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ._blas import times_upper
from ._pairs import Pairs, add_up, weighted_indicators
from ._primal import PrimalBalance, times_weight
from ._scratch import scratch

# Entries of the pieces of a triangle that a thread works on.
PIECE = 2**15
# Entries of the sums of all tiles that are held together rather than added as they come.
FEW_SUMS = 2**23


def _sums(T: np.ndarray, w: np.ndarray) -> tuple:
    wT = times_weight(T, np.sqrt(w)[:, None].astype(T.dtype))
    return wT.T @ wT, weighted_indicators(w, T)


def _gradient(T: np.ndarray, message: tuple) -> np.ndarray:
    upper, v, _, const = message
    G = scratch("times", T.shape, T.dtype)
    np.copyto(G, T)
    times_upper(G, upper)
    return np.einsum("ij,ij->i", G, T) + T @ v + const


def _tile_sums(pairs: Pairs, tile: np.ndarray, w: np.ndarray) -> tuple:
    return _sums(pairs.treatments.of(tile), w)


def _tile_gradient(pairs: Pairs, tile: np.ndarray, message: tuple) -> np.ndarray:
    return _gradient(pairs.treatments.of(tile), message)


class SymmetricPrimalBalance(PrimalBalance):
    """PrimalBalance of two-valued columns given each other.

    With x_k = low_k + gap_k T_k, D is gap_k times D of the indicators, so T alone is read, S is
    symmetric (half the operations: a rank-k update of sqrt(w) T) and s is its diagonal. The
    gradient's T_i Q T_i' sees only Q + Q', of which one triangle is enough (half again).

    D comes from one triangle of S: S_kj with k < j gives D_kj and, as E_kj, D_jk,
        D_kj = scale_k (S_kj (1/s_j + 1/c_j) - s_k / c_j)
        E_kj = scale_j (S_kj (1/s_k + 1/c_k) - s_j / c_k)
    and all sums over rows and columns of D are sums over columns of the one and rows of the other.
    """

    def __init__(self, rows: Any, pairs: Pairs) -> None:
        super().__init__(rows, replace(pairs, scale=pairs.scale * pairs.gap))
        d = pairs.features.size
        # Pieces of about one area: rows further down are shorter.
        count = max(1, d * d // 2 // PIECE)
        count += count % 2 if count > 1 else 0
        ends = d - d * np.sqrt(1 - np.arange(count + 1) / count)
        ends = np.unique(np.rint(ends).astype(int))
        self._triangle = list(zip(ends[:-1].tolist(), ends[1:].tolist()))
        tallest = int(np.diff(ends).max(initial=0))
        self._above = np.triu(np.ones((tallest, tallest), dtype=rows.dtype), 1)
        k, j = self._masked
        self._masked_above = k[k < j], j[k < j]

    def _parts(self, w: np.ndarray) -> Iterator[tuple]:
        if not self._keep:
            return self.rows.map(partial(_tile_sums, self.pairs), w, adds=True)
        T = self._sides()[1]
        bounds = self.rows.bounds
        return self.rows.run(lambda b: _sums(T[slice(*b)], w[slice(*b)]), bounds)

    def row_gradient(self, message: tuple) -> np.ndarray:
        if not self._keep:
            return self.rows.gather(partial(_tile_gradient, self.pairs), message=message)
        T, out, bounds = self._sides()[1], np.empty(self.rows.n), self.rows.bounds
        run = self.rows.run(lambda b: _gradient(T[slice(*b)], message), bounds)
        for (start, stop), part in zip(bounds, run):
            out[start:stop] = part
        return out

    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The indicators; features are not read here."""
        if self._kept is None:
            T = np.empty((self.rows.n, len(self.pairs.treatments)), dtype=self.rows.dtype)
            parts = self.rows.map(self.pairs.treatments.of)
            for (start, stop), part in zip(self.rows.bounds, parts):
                T[start:stop] = part
            self._kept = T, T
        return self._kept

    def _total(self, w: np.ndarray) -> list[Any]:
        S, s = super()._total(w)
        return [S, s, s]

    def _summands(self, w: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Matrices that add up to S, in this order, and s."""
        parts, count = self._parts(w), len(self.rows.bounds)
        # One group: in order, as ``total`` adds it. Held together if the matrices are small.
        held = min(FEW_SUMS // max(1, self.pairs.features.size**2), count)
        if count > 1 and self.rows.groups == [held]:
            few = list(parts)
            return [S for S, _ in few], add_up((s,) for _, s in few)[0]
        S, s = self.rows.total(parts) if count > 1 else next(iter(parts))
        return [S], s.astype(np.float64)

    def _corner(self, summands: list, s: np.ndarray, rates: tuple, k: int, stop: int) -> tuple:
        """S, D and E of rows k..stop and columns k.., the last two without their scale and 0
        where k >= j or masked; in memory that the next piece uses again."""
        dtype, shape = self.rows.dtype, (stop - k, s.size - k)
        parts = [M[k:stop, k:] for M in summands]
        if len(parts) == 1:
            S = parts[0].astype(dtype, copy=False)
        elif len(parts) == 2:  # rounded once in any case
            S = np.add(parts[0], parts[1], out=scratch("corner", shape, dtype))
        else:
            total = scratch("wide corner", shape, np.float64)
            np.copyto(total, parts[0])
            for other in parts[1:]:
                total += other
            S = scratch("corner", shape, dtype)
            np.copyto(S, total, casting="same_kind")
        both, inverse_c, _ = rates
        s_, shift = s.astype(dtype), scratch("shift", shape, dtype)
        D = np.multiply(S, both[k:], out=scratch("D", shape, dtype))
        D -= np.multiply(s_[k:stop, None], inverse_c[k:], out=shift)
        E = np.multiply(S, both[k:stop, None], out=scratch("E", shape, dtype))
        E -= np.multiply(inverse_c[k:stop, None], s_[k:], out=shift)
        rows, columns = self._masked_above
        inside = slice(*np.searchsorted(rows, [k, stop]))
        for M in (D, E):
            M[:, : stop - k] *= self._above[: stop - k, : stop - k]
            M[rows[inside] - k, columns[inside] - k] = 0.0
        return S, D, E

    def value(self, w: np.ndarray) -> float:
        summands, s = self._summands(w)
        rates = self._rates(float(w.sum()), s)[2]
        square = self.pairs.scale**2

        def piece(k: int, stop: int) -> float:
            _, D, E = self._corner(summands, s, rates, k, stop)
            return _squares(D, E, square, k, stop)

        return float(sum(self._on_threads(piece)))

    def value_and_message(self, w: np.ndarray) -> tuple[float, tuple]:
        summands, s = self._summands(w)
        inverse_s, inverse_c, rates = self._rates(float(w.sum()), s)
        both, inverse_c_, _ = rates
        square = self.pairs.scale**2
        twice, s_ = (2 * square).astype(both.dtype), s.astype(both.dtype)
        upper = np.zeros((s.size, s.size), dtype=both.dtype)

        def piece(k: int, stop: int) -> tuple:
            S, D, E = self._corner(summands, s, rates, k, stop)
            value = _squares(D, E, square, k, stop)
            D *= twice[k:stop, None]
            E *= twice[k:]
            # Sums over the features (columns of D, rows of E) and over the treatments.
            QS = np.einsum("kj,kj->j", D, S), np.einsum("kj,kj->k", E, S)
            xQ = s_[k:stop] @ D, E @ s_[k:]
            h = inverse_c_[k:stop] @ E, D @ inverse_c_[k:]
            D *= both[k:]
            E *= both[k:stop, None]
            np.add(D, E, out=upper[k:stop, k:])
            return value, QS, xQ, h

        value, sums = 0.0, np.zeros((3, s.size))
        for (k, stop), (part, *pairs) in zip(self._triangle, self._on_threads(piece)):
            value += part
            for total, (over_columns, over_rows) in zip(sums, pairs):
                total[k:] += over_columns
                total[k:stop] += over_rows
        QS, xQ, h = sums
        p = QS * inverse_s
        q = (xQ - QS) * inverse_c
        v = -(p * inverse_s + q * inverse_c)
        return value, self._message(upper, v - h, h, float(q @ inverse_c))

    def _on_threads(self, function: Any) -> Iterable[Any]:
        """function of the pieces of the triangle, in order, several to a task: waking a thread
        costs as much as a piece."""
        run, size = getattr(self.rows, "run", map), min(-(-len(self._triangle) // 4), 8)
        tasks = [self._triangle[i : i + size] for i in range(0, len(self._triangle), size)]
        return chain.from_iterable(run(lambda task: [function(*piece) for piece in task], tasks))


def _squares(D: np.ndarray, E: np.ndarray, square: np.ndarray, k: int, stop: int) -> float:
    """||D||^2 + ||E||^2 with their scales: sums in the dtype of D, then in float64."""
    return float(
        np.einsum("kj,kj->k", D, D) @ square[k:stop] + np.einsum("kj,kj->j", E, E) @ square[k:]
    )
