"""The balance loss of a table of few rows and many two-valued columns, in strips of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._arrays import add_up, even_ranges, row_products
from .._buffers import buffer
from .binary import Rates, squares
from .blas import times_upper
from .treatments import Pairs, group_rates, weighted_indicators

# Columns of a strip, about, and the fewest columns that are cut into strips.
STRIP = 200
FEWEST_COLUMNS = 3 * STRIP
# Entries of the indicators, at most: each strip reads all rows of the columns to its left.
MAX_ENTRIES = 2**21
# Columns that fewer rows than this share have are multiplied by their entries. A product with
# sparse rows runs at about a fifth of the rate of BLAS.
RARE = 0.18


class BinaryStripBalance:
    """SymmetricPrimalBalance where the indicators fit in the cache: threads share pairs, not rows.

    With s and r known, C, H and what they add to the gradient need nothing from other pairs:
        C_a = T_left' diag(p) T_a - s_left s_a'        gradient_i += 2 (T_left H_a)_i . T_a,i
    for the strip of columns a given those to its left and each other. So a task makes all of it; in
    tiles of rows the sums of all tiles must be there before the first H.

    The rarer value of each column is its 1, and columns stand in the order of how rare it is (D
    turns its sign with the first and is the same numbers in the second): the columns to the left
    are the rare ones, whose products cost their entries.
    """

    form = "primal"

    def __init__(self, rows: Any, pairs: Pairs) -> None:
        self.rows, self.pairs = rows, pairs
        treated = pairs.treatments.indicators_by_column(rows)
        often = np.count_nonzero(treated, axis=0)
        few = np.minimum(often, rows.n - often)
        order = np.argsort(few, kind="stable")
        d = order.size
        treated = np.take(treated, order, axis=1)
        treated ^= 2 * often[order] > rows.n
        self.T = treated.astype(rows.dtype)
        self.scale = (pairs.scale * pairs.range)[order]
        at = np.argsort(order)
        k, j = at[pairs.excluded[0]], at[pairs.excluded[1]]
        self.excluded = k[k < j], j[k < j]
        self.rare = int((few <= RARE * rows.n).sum())
        by_row = sp.csr_array(treated[:, : self.rare]).astype(rows.dtype)
        by_column = sp.csr_array(by_row.T)
        count = max(4, 2 * round(d / (2 * STRIP)))
        self.strips = [
            _Strip(self, by_row, by_column, *ends) for ends in even_ranges(d, -(-d // count))
        ]
        self._tasks = _of_one_size(
            [strip.cost for strip in self.strips], (len(self.strips) + 1) // 2
        )

    @staticmethod
    def suits(rows: Any, pairs: Pairs) -> bool:
        """Whether the pairs are of this kind, the rows an array, and the shape the right one."""
        d, dense = pairs.features.size, type(getattr(rows, "X", None)) is np.ndarray
        shaped = d >= FEWEST_COLUMNS and rows.n * d <= MAX_ENTRIES
        return pairs.symmetric and dense and shaped

    def _on_threads(self, function: Callable) -> list[Any]:
        """function of the strips, in order."""
        run = self.rows.run(lambda task: [function(self.strips[a]) for a in task], self._tasks)
        done = {a: each for task, some in zip(self._tasks, run) for a, each in zip(task, some)}
        return [done[a] for a in range(len(self.strips))]

    def _over_strips(self, parts: Any) -> np.ndarray:
        """Sums over all pairs, from (of columns, of rows) of each strip."""
        total = np.zeros(self.T.shape[1])
        for strip, (of_columns, indicators_by_column) in zip(self.strips, parts):
            total[strip.k : strip.stop] += of_columns
            total[: strip.stop] += indicators_by_column
        return total

    def value(self, w: np.ndarray) -> float:
        W = float(w.sum())
        if not W > 0:
            return 0.0
        p = w / W
        share = weighted_indicators(p, self.T)
        scale2 = (self.scale**2).astype(self.T.dtype)

        def piece(strip: _Strip) -> tuple:
            C = strip.covariance(p, share)
            return squares(C, scale2[: strip.stop], scale2[strip.k : strip.stop])

        u = self._over_strips(self._on_threads(piece))
        return float(u @ sum(group_rates(share, 1.0)) ** 2)

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        W = float(w.sum())
        if not W > 0:
            return 0.0, np.zeros(w.size)
        p = w / W
        share = weighted_indicators(p, self.T)
        rates = Rates.at(share, self.scale, self.T.dtype)
        scale2 = np.ascontiguousarray(rates.ours[:, 0])

        def piece(strip: _Strip) -> tuple:
            left, own = slice(0, strip.stop), slice(strip.k, strip.stop)
            C = strip.covariance(p, share)
            added = squares(C, scale2[left], scale2[own])
            H, sums = rates.times(C, left, own)
            return added, sums, strip.row_products(H)

        self.rows.begin_later()
        added, sums, products = zip(*self._on_threads(piece))
        value, v, const = rates.together(self._over_strips(added), self._over_strips(sums))
        gradient = add_up((each,) for each in products)[0]
        gradient *= 2.0
        gradient += self.T @ v.astype(self.T.dtype)
        gradient += const
        gradient /= W
        return value, gradient


class _Strip:
    """Columns k..stop of the triangle, rows 0..stop: its products, by entries and by BLAS."""

    def __init__(self, balance: BinaryStripBalance, by_row: Any, by_column: Any, k, stop):
        T = balance.T
        self.k, self.stop = k, stop
        self.own = np.ascontiguousarray(T[:, k:stop])
        # Of the columns up to stop, those before ``rare`` are sparse; a strip is all or nothing.
        self.rare = rare = stop if stop <= balance.rare else min(k, balance.rare)
        self.columns, self.sparse = by_column[:rare], by_row[:, :rare]
        self.dense = T[:, rare:k]
        self.above = np.triu(np.ones((stop - k, stop - k), dtype=T.dtype), 1)
        rows, columns = balance.excluded
        inside = (columns >= k) & (columns < stop)
        self.excluded = rows[inside], columns[inside] - k
        self.cost = (stop - k) * (self.sparse.nnz + RARE * T.shape[0] * (stop - rare))

    def covariance(self, p: np.ndarray, share: np.ndarray) -> np.ndarray:
        """C, 0 where k >= j or masked."""
        own, k, rare, dtype = self.own, self.k, self.rare, self.own.dtype
        share_ = share.astype(dtype)[: self.stop]
        p_ = p.astype(dtype)[:, None]
        C = buffer("C", (self.stop, own.shape[1]), dtype)
        wT = np.multiply(own, p_, out=buffer("times", own.shape, dtype))
        if rare:
            C[:rare] = self.columns @ wT
        if rare < k:
            np.matmul(self.dense.T, wT, out=C[rare:k])
        if rare <= k:
            wT = np.multiply(own, np.sqrt(p_), out=wT)
            np.matmul(wT.T, wT, out=C[k:])  # symmetric: half the operations
        shift = buffer("shift", C.shape, dtype)
        C -= np.multiply(share_[:, None], share_[k:], out=shift)
        C[k:] *= self.above
        C[self.excluded] = 0.0
        return C

    def row_products(self, H: np.ndarray) -> np.ndarray:
        """What the pairs of the strip add to T_i H T_i', of all rows."""
        own, k, rare = self.own, self.k, self.rare
        products = np.zeros(own.shape[0], dtype=own.dtype)
        if rare:
            products += row_products(self.sparse @ H[:rare], own)
        G = buffer("times", own.shape, own.dtype)
        if rare < k:
            products += row_products(np.matmul(self.dense, H[rare:k], out=G), own)
        if rare <= k:
            np.copyto(G, own)
            times_upper(G, H[k:])
            products += row_products(G, own)
        return products


def _of_one_size(costs: list[float], count: int) -> list[list[int]]:
    """Numbers of the costs in ``count`` groups of about one sum, the largest first."""
    groups: list[list[int]] = [[] for _ in range(count)]
    sums = np.zeros(count)
    for a in np.argsort(costs)[::-1].tolist():
        least = int(sums.argmin())
        groups[least].append(a)
        sums[least] += costs[a]
    return [groups[g] for g in np.argsort(sums)[::-1]]
