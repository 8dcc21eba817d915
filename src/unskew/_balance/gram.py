"""The balance loss for more columns than rows, without a d x t matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import add_up, row_products, weighted_sum
from .._buffers import buffer
from .._rows import Rows
from .treatments import LARGEST_MATRIX, Pairs, group_rates

# Entries of the rows x treatments matrices that a thread processes: a few of them fit its cache.
# But at least NARROWEST columns, because narrow products are slow.
CHUNK, NARROWEST = 2**16, 256


class GramBalance:
    """The balance loss for n < d: n**2 t operations instead of n d t.

    With A = T/s - (1-T)/c (n x t) and M = X X' of the scaled features, D = X' diag(w) A and
    ||D||^2 = sum_ij w_i A_ij P_ij,  P = M diag(w) A,  minus the excluded entries, computed exactly:
    for a two-valued column and its own treatment D is its range for all weights; other excluded
    entries are evaluated. Treatments are processed in chunks of columns.
    """

    form = "gram"

    def __init__(self, rows: Rows, pairs: Pairs) -> None:
        self.rows, self.pairs = rows, pairs
        step = max(NARROWEST, CHUNK // max(rows.n, 1))
        starts = range(0, len(pairs.treatments), step)
        self.chunks = [np.arange(i, min(i + step, len(pairs.treatments))) for i in starts]
        M = np.zeros((rows.n, rows.n), dtype=rows.dtype)
        for i in range(0, pairs.features.size, step):
            F = self._features(np.arange(i, min(i + step, pairs.features.size)))
            M += F @ F.T
        self.M = M
        self.kept = self._keep()
        k, j = pairs.excluded
        own_range = np.where(
            pairs.treatments.column[j] == pairs.features[k], pairs.range[k], np.nan
        )
        fixed = np.isfinite(own_range)
        # Contribution of excluded two-valued columns to ||D||^2, per treatment; it is 0 where the
        # treatment is one-sided.
        self.fixed = np.zeros(len(pairs.treatments))
        np.add.at(self.fixed, j[fixed], (own_range * pairs.scale[k])[fixed] ** 2)
        self.excluded = [
            (k[inside], j[inside] - chunk[0])
            for chunk in self.chunks
            for inside in [~fixed & (j >= chunk[0]) & (j <= chunk[-1])]
        ]

    def _keep(self) -> list[np.ndarray] | None:
        """The indicators of all chunks, where they have at most LARGEST_MATRIX entries."""
        if self.rows.n * len(self.pairs.treatments) > LARGEST_MATRIX:
            return None
        return [self._indicators(number) for number in range(len(self.chunks))]

    def _indicators(self, number: int) -> np.ndarray:
        treatments = self.pairs.treatments.take(self.chunks[number])
        return treatments.indicators_by_column(self.rows).astype(self.rows.dtype)

    def _features(self, k: np.ndarray) -> np.ndarray:
        """Scaled and centred feature columns: D is invariant to the shift, its rounding is not."""
        F, dtype = self.rows.columns(self.pairs.features[k]), self.rows.dtype
        F -= self.pairs.centre[k].astype(dtype)
        F *= self.pairs.scale[k].astype(dtype)
        return F

    def _chunk(self, number: int, w: np.ndarray, gradient: bool) -> tuple:
        T = self.kept[number] if self.kept is not None else self._indicators(number)
        w_ = w.astype(T.dtype, copy=False)[:, None]
        inverse_s, inverse_c = group_rates(weighted_sum(w, T), float(w.sum()))
        shape, dtype = T.shape, T.dtype
        A = np.multiply(T, (inverse_s + inverse_c).astype(dtype), out=buffer("A", shape, dtype))
        A -= inverse_c.astype(dtype)
        wA = np.multiply(w_, A, out=buffer("wA", shape, dtype))
        P = np.matmul(self.M, wA, out=buffer("P", shape, dtype))
        value = float(np.vdot(wA, P))
        value -= float(self.fixed[self.chunks[number]] @ (inverse_s > 0))
        k, j = self.excluded[number]
        excluded = np.zeros(0)
        if k.size:
            F = self._features(k)
            excluded = np.einsum("ip,ip->p", wA[:, j], F, dtype=np.float64)
            value -= float(excluded @ excluded)
        if not gradient:
            return (value,)
        g = 2.0 * row_products(A, P).astype(np.float64)
        # Through s and c: dA_ij/ds_j = -T_ij / s_j^2, dA_ij/dc_j = (1 - T_ij) / c_j^2.
        wP = np.multiply(w_, P, out=wA)
        treated = np.einsum("ij,ij->j", T, wP).astype(np.float64)
        control = (w_[:, 0] @ P) - treated
        alpha = -2.0 * treated * inverse_s**2
        beta = 2.0 * control * inverse_c**2
        if k.size:
            wF = w_ * F
            treated = np.einsum("ip,ip->p", T[:, j], wF, dtype=np.float64)
            control = wF.sum(0, dtype=np.float64) - treated
            g -= 2.0 * ((A[:, j] * F) @ excluded)
            np.add.at(alpha, j, 2.0 * excluded * treated * inverse_s[j] ** 2)
            np.add.at(beta, j, -2.0 * excluded * control * inverse_c[j] ** 2)
        return value, g + T @ (alpha - beta).astype(T.dtype) + beta.sum()

    def value(self, w: np.ndarray) -> float:
        run = self.rows.run(lambda i: self._chunk(i, w, False), range(len(self.chunks)))
        return max(0.0, float(add_up(run)[0]))

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        run = self.rows.run(lambda i: self._chunk(i, w, True), range(len(self.chunks)))
        value, gradient = add_up(run)
        return max(0.0, float(value)), gradient


class BinaryGramBalance(GramBalance):
    """GramBalance of two-valued columns given each other.

    With p = w / W and the features centred at p, the treated and the control rows of a treatment
    have opposite sums of features, so one contrast is enough (s and c = 1 - s are shares here):
        M_p = M - 1 m' - m 1' + p'm,  m = M p,  Y = M_p diag(p) T,  r = 1/s + 1/c
        balance  = sum_j r_j^2 q_j,  q_j = sum_i p_i T_ij Y_ij
        gradient = 2 / W (sum_j r_j^2 T_ij Y_ij - Y_i (r/c) - T_i b - sum_j r_j q_j / c_j^2)
                   b_j = r_j q_j (1/s_j^2 - 1/c_j^2)
    less what a column given itself adds, which is fixed. One product of n x n and n x t without the
    n x t work around it: on the paper's dslr (157 x 800) twice as fast as GramBalance.
    """

    def __init__(self, rows: Rows, pairs: Pairs) -> None:
        super().__init__(rows, pairs)
        assert self.kept is not None
        for T in self.kept:
            # The rarer of the two values: sums over almost all rows would lose their digits. This
            # changes the sign of D_j only.
            often = 2 * np.count_nonzero(T, axis=0) > rows.n
            T[:, often] = 1 - T[:, often]

    @staticmethod
    def suits(rows: Rows, pairs: Pairs) -> bool:
        k, j = pairs.excluded
        fits = rows.n * len(pairs.treatments) <= LARGEST_MATRIX
        return pairs.symmetric and fits and np.array_equal(k, j)

    def value(self, w: np.ndarray) -> float:
        return self._evaluate(w, False)[0]

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        return self._evaluate(w, True)

    def _evaluate(self, w: np.ndarray, gradient: bool) -> tuple[float, Any]:
        W = float(w.sum())
        if not W > 0:
            return 0.0, np.zeros(w.size)
        p = w / W
        p_ = p.astype(self.M.dtype)
        m = self.M @ p_
        Mp = self.M - m
        Mp -= (m - p_ @ m)[:, None]
        Mp *= p_

        def of_chunk(number: int) -> tuple:
            assert self.kept is not None
            T = self.kept[number]
            inverse_s, inverse_c = group_rates(weighted_sum(p, T), 1.0)
            r = inverse_s + inverse_c
            TY = np.matmul(Mp, T, out=buffer("Y", T.shape, T.dtype))
            TY *= T
            q = (p_ @ TY).astype(np.float64)
            value = float(r**2 @ q) - float(self.fixed[self.chunks[number]] @ (inverse_s > 0))
            if not gradient:
                return (value,)
            b = r * q * (inverse_s**2 - inverse_c**2)
            g = TY @ (r**2).astype(T.dtype) - T @ b.astype(T.dtype)
            return value, g - float(r * q @ inverse_c**2), T @ (r * inverse_c).astype(T.dtype)

        value, *parts = add_up(self.rows.run(of_chunk, range(len(self.chunks))))
        if not gradient:
            return max(0.0, float(value)), None
        g, control = parts
        return max(0.0, float(value)), (2.0 / W) * (g - Mp @ control.astype(Mp.dtype))
