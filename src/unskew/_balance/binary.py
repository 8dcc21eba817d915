"""The balance loss where the features are the treatments: every column is two-valued."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._arrays import add_up, even_ranges, row_products, weighted_sum
from .._buffers import buffer
from .._rows import Rows
from .primal import GradientCoefs, PrimalBalance, _product, times_weight
from .treatments import Pairs, group_rates

# Entries of the parts of a triangle that a thread processes: not smaller, because threads that make
# many short calls block each other.
PIECE = 2**17
# Columns of the blocks in which the triangle is multiplied with rows.
BLOCK = 200
# Maximum entries of the sums of all tiles that are kept together rather than added one by one.
FEW_SUMS = 2**23


def _sums(T: np.ndarray, w: np.ndarray, W: float) -> tuple:
    """S and s of a tile, divided by W."""
    w = w / W
    wT = times_weight(T, np.sqrt(w)[:, None].astype(T.dtype))
    return wT.T @ wT, weighted_sum(w, T)


def _gradient(T: np.ndarray, coefs: GradientCoefs) -> np.ndarray:
    upper, v, _, const = coefs
    out = T @ v + const
    # T_i upper T_i' by blocks of columns of the triangle, skipping most of its zeros.
    for k, stop in even_ranges(T.shape[1], BLOCK):
        out += row_products(_product(T[:, :stop], upper[:stop, k:stop]), T[:, k:stop])
    return out


def _tile_sums(pairs: Pairs, W: float, tile: np.ndarray, w: np.ndarray) -> tuple:
    return _sums(pairs.treatments.indicators(tile), w, W)


def _tile_gradient(pairs: Pairs, tile: np.ndarray, coefs: GradientCoefs) -> np.ndarray:
    return _gradient(pairs.treatments.indicators(tile), coefs)


class Rates(NamedTuple):
    """Factors that map C to H, and sums over pairs to value and gradient."""

    share: np.ndarray
    inverse_s: np.ndarray
    inverse_c: np.ndarray
    share_: np.ndarray
    ours: np.ndarray
    theirs: np.ndarray

    @classmethod
    def at(cls, share: np.ndarray, scale: np.ndarray, dtype: np.dtype) -> Rates:
        inverse_s, inverse_c = group_rates(share, 1.0)
        ours = np.column_stack([scale**2, (inverse_s + inverse_c) ** 2]).astype(dtype)
        theirs = np.ascontiguousarray(ours[:, ::-1].T)
        return cls(share, inverse_s, inverse_c, share.astype(dtype), ours, theirs)

    def times(self, C: np.ndarray, rows: slice, columns: slice) -> tuple[np.ndarray, tuple]:
        """H of these rows and columns, in a buffer that the next part overwrites, and its
        contributions to H s: for its columns, and for its rows."""
        out = buffer("shift", C.shape, C.dtype)
        H = np.matmul(self.ours[rows], self.theirs[:, columns], out=out)
        H *= C
        return H, (self.share_[rows] @ H, H @ self.share_[columns])

    def together(self, u: np.ndarray, Hs: np.ndarray) -> tuple[float, np.ndarray, float]:
        """balance, b - 2 H s, const."""
        r = self.inverse_s + self.inverse_c
        value = float(u @ r**2)
        b = 2.0 * r * u * (self.inverse_c**2 - self.inverse_s**2)
        const = float(self.share @ Hs) - 2.0 * value - float(b @ self.share)
        return value, b - 2.0 * Hs, const


def squares(C: np.ndarray, indicators_by_column: np.ndarray, of_columns: np.ndarray) -> tuple:
    """Contributions of C to u, given scale^2 of its rows and columns: for its columns, and for its
    rows."""
    C2 = np.multiply(C, C, out=buffer("C2", C.shape, C.dtype))
    return indicators_by_column @ C2, C2 @ of_columns


class BinaryPrimalBalance(PrimalBalance):
    """PrimalBalance where all features are two-valued and are the treatments.

    With x_k = low_k + range_k T_k, D is range_k times D of the indicators, so only T is read, S is
    symmetric (half the operations: a rank-k update of sqrt(w) T) and s is its diagonal. With S and
    s divided by W,
        C = S - s s', 0 where excluded       r_j = 1/s_j + 1/(1 - s_j)       D_kj = scale_k r_j C_kj
        balance  = sum_j r_j^2 u_j,          u_j = sum_k scale_k^2 C_kj^2
        gradient = (T_i H T_i' + T_i (b - 2 H s) + const) / W
                   H_kj = C_kj (scale_k^2 r_j^2 + r_k^2 scale_j^2)
                   b_j = 2 r_j u_j (1/(1 - s_j)^2 - 1/s_j^2),  const = s'H s - 2 balance - b.s
    C and H are symmetric: one triangle of each is computed, and T_i H T_i' is twice that of the
    triangle (half the operations again).
    """

    def __init__(self, rows: Rows, pairs: Pairs) -> None:
        super().__init__(rows, replace(pairs, scale=pairs.scale * pairs.range))
        d = pairs.features.size
        # Parts of about equal area: rows further down are shorter.
        count = max(1, d * d // 2 // PIECE)
        count += count % 2 if count > 1 else 0
        ends = d - d * np.sqrt(1 - np.arange(count + 1) / count)
        ends = np.unique(np.rint(ends).astype(int))
        self._triangle = list(zip(ends[:-1].tolist(), ends[1:].tolist()))
        tallest = int(np.diff(ends).max(initial=0))
        self._above = np.triu(np.ones((tallest, tallest), dtype=rows.dtype), 1)
        k, j = self._excluded
        self._excluded_above = k[k < j], j[k < j]

    def _parts(self, w: np.ndarray, W: float = 1.0) -> Iterator[tuple]:
        if not self._keep:
            return self.rows.map(partial(_tile_sums, self.pairs, W), w, additive=True)
        T = self._sides()[1]
        bounds = self.rows.bounds
        return self.rows.run(lambda b: _sums(T[slice(*b)], w[slice(*b)], W), bounds)

    def gradient_from(self, coefs: GradientCoefs) -> np.ndarray:
        if not self._keep:
            return self.rows.gather(partial(_tile_gradient, self.pairs), coefs=coefs)
        T, out, bounds = self._sides()[1], np.empty(self.rows.n), self.rows.bounds
        run = self.rows.run(lambda b: _gradient(T[slice(*b)], coefs), bounds)
        for (start, stop), part in zip(bounds, run):
            out[start:stop] = part
        return out

    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The indicators, in place of the features too."""
        if self._kept is None:
            T = np.empty((self.rows.n, len(self.pairs.treatments)), dtype=self.rows.dtype)
            parts = self.rows.map(self.pairs.treatments.indicators)
            for (start, stop), part in zip(self.rows.bounds, parts):
                T[start:stop] = part
            self._kept = T, T
        return self._kept

    def _total(self, w: np.ndarray) -> list[Any]:
        S, s = super()._total(w)
        return [S, s, s]

    def _summands(self, w: np.ndarray, W: float) -> tuple[list[np.ndarray], np.ndarray]:
        """Matrices whose sum, in this order, is S / W, and s / W."""
        parts, count = self._parts(w, W), len(self.rows.bounds)
        # A single group is added in order, as in ``total``, so small matrices may be kept apart.
        most = min(FEW_SUMS // max(1, self.pairs.features.size**2), count)
        if count > 1 and self.rows.groups == [most]:
            few = list(parts)
            return [S for S, _ in few], add_up((s,) for _, s in few)[0]
        S, s = self.rows.total(parts) if count > 1 else next(iter(parts))
        return [S], s.astype(np.float64)

    def _covariance(self, summands: list, share: np.ndarray, k: int, stop: int) -> np.ndarray:
        """C of rows k..stop and columns k.., 0 where k >= j or excluded; in a buffer that the next
        part overwrites. S is rounded to the dtype of the data once, after all additions."""
        dtype, shape = self.rows.dtype, (stop - k, share.size - k)
        parts = [M[k:stop, k:] for M in summands]
        C = buffer("C", shape, dtype)
        if len(parts) == 1:
            S = parts[0].astype(dtype, copy=False)
        elif len(parts) == 2:
            S = np.add(parts[0], parts[1], out=C)
        else:
            total = buffer("wide", shape, np.float64)
            np.copyto(total, parts[0])
            for other in parts[1:]:
                total += other
            S = C
            np.copyto(S, total, casting="same_kind")
        share_, shift = share.astype(dtype), buffer("shift", shape, dtype)
        np.subtract(S, np.multiply(share_[k:stop, None], share_[k:], out=shift), out=C)
        C[:, : stop - k] *= self._above[: stop - k, : stop - k]
        rows, columns = self._excluded_above
        inside = slice(*np.searchsorted(rows, [k, stop]))
        if inside.start < inside.stop:
            C[rows[inside] - k, columns[inside] - k] = 0.0
        return C

    def _over_triangle(self, parts: Iterable[tuple]) -> np.ndarray:
        """Sums over all pairs, from (of columns, of rows) of each part of the triangle."""
        total = np.zeros(self.pairs.features.size)
        for (k, stop), (of_columns, indicators_by_column) in zip(self._triangle, parts):
            total[k:] += of_columns
            total[k:stop] += indicators_by_column
        return total

    def value(self, w: np.ndarray) -> float:
        W = float(w.sum())
        if not W > 0:
            return 0.0
        summands, share = self._summands(w, W)
        scale2 = (self.pairs.scale**2).astype(self.rows.dtype)

        def piece(k: int, stop: int) -> tuple:
            return squares(self._covariance(summands, share, k, stop), scale2[k:stop], scale2[k:])

        u = self._over_triangle(self._on_threads(piece))
        return float(u @ sum(group_rates(share, 1.0)) ** 2)

    def value_and_coefs(self, w: np.ndarray) -> tuple[float, GradientCoefs]:
        W, dtype, d = float(w.sum()), self.rows.dtype, self.pairs.features.size
        if not W > 0:
            return 0.0, self._coefs(np.zeros((d, d), dtype), np.zeros(d), np.zeros(0), 0.0)
        summands, share = self._summands(w, W)
        rates = Rates.at(share, self.pairs.scale, dtype)
        upper, scale2 = np.zeros((d, d), dtype=dtype), rates.ours[:, 0]

        def piece(k: int, stop: int) -> tuple:
            C = self._covariance(summands, share, k, stop)
            added = squares(C, scale2[k:stop], scale2[k:])
            H, sums = rates.times(C, slice(k, stop), slice(k, None))
            np.multiply(H, 2.0 / W, out=upper[k:stop, k:])
            return added, sums

        value, v, const = rates.together(*map(self._over_triangle, zip(*self._on_threads(piece))))
        return value, self._coefs(upper, v / W, np.zeros(0), const / W)

    def _on_threads(self, function: Any) -> Iterable[Any]:
        """function of the parts of the triangle, in order, several per task: waking a thread costs
        as much as one part."""
        run, size = getattr(self.rows, "run", map), min(-(-len(self._triangle) // 4), 8)
        tasks = [self._triangle[i : i + size] for i in range(0, len(self._triangle), size)]
        return chain.from_iterable(run(lambda task: [function(*piece) for piece in task], tasks))
