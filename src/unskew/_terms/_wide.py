"""The balance loss for more columns than rows, and for more than fit: no d x t matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ._pairs import DenseIndicators, Pairs, add_up, group_rates, take_columns

# A d x t matrix beyond this many entries is not formed (2**24 float64 = 128 MB each).
LARGEST_MATRIX = 2**24
# Relative standard error that the number of random probes is chosen for.
PROBE_ERROR = 0.1


class DualBalance:
    """The same numbers for n < d: n**2 t operations instead of n d t.

    With A = T/s - (1-T)/c (n x t) and M = X X' of the scaled features, D = X' diag(w) A and
    ||D||^2 = sum_ij w_i A_ij P_ij,  P = M diag(w) A,  less the masked entries, computed exactly: a
    two-valued column given itself differs by its gap whatever the weights, others are evaluated.
    Treatments are taken a column chunk at a time.
    """

    form = "dual"

    def __init__(self, rows: Any, pairs: Pairs) -> None:
        self.rows, self.pairs = rows, pairs
        step = max(1, 2**18 // max(rows.n, 1))
        starts = range(0, len(pairs.treatments), step)
        self.chunks = [np.arange(i, min(i + step, len(pairs.treatments))) for i in starts]
        M = np.zeros((rows.n, rows.n), dtype=rows.dtype)
        for i in range(0, pairs.features.size, step):
            F = self._features(np.arange(i, min(i + step, pairs.features.size)))
            M += F @ F.T
        self.M = M
        # The indicators are kept where they are no larger than the other matrices allowed here.
        self.kept = None
        if rows.n * len(pairs.treatments) <= LARGEST_MATRIX:
            self.kept = [self._indicators(number) for number in range(len(self.chunks))]
        k, j = pairs.masked
        own_gap = np.where(pairs.treatments.column[j] == pairs.features[k], pairs.gap[k], np.nan)
        fixed = np.isfinite(own_gap)
        # What masked two-valued columns add to ||D||^2, per treatment; zero where it is one-sided.
        self.fixed = np.zeros(len(pairs.treatments))
        np.add.at(self.fixed, j[fixed], (own_gap * pairs.scale[k])[fixed] ** 2)
        self.masked = [
            (k[inside], j[inside] - chunk[0])
            for chunk in self.chunks
            for inside in [~fixed & (j >= chunk[0]) & (j <= chunk[-1])]
        ]

    def _indicators(self, number: int) -> np.ndarray:
        treatments = self.pairs.treatments.take(self.chunks[number])
        return treatments.of_rows(self.rows)

    def _features(self, k: np.ndarray) -> np.ndarray:
        """Scaled feature columns, centred: D does not see the shift, rounding does."""
        F = self.rows.columns(self.pairs.features[k])
        F = (F - self.pairs.centre[k]) * self.pairs.scale[k]
        return F.astype(self.rows.dtype, copy=False)

    def _chunk(self, number: int, w: np.ndarray, gradient: bool) -> tuple:
        T = self.kept[number] if self.kept is not None else self._indicators(number)
        w_ = w.astype(T.dtype, copy=False)[:, None]
        inverse_s, inverse_c = group_rates(w @ T, float(w.sum()))
        A = T * (inverse_s + inverse_c).astype(T.dtype)
        A -= inverse_c.astype(T.dtype)
        wA = w_ * A
        P = self.M @ wA
        value = float(np.vdot(wA, P))
        value -= float(self.fixed[self.chunks[number]] @ (inverse_s > 0))
        k, j = self.masked[number]
        masked = np.zeros(0)
        if k.size:
            F = self._features(k)
            masked = np.einsum("ip,ip->p", wA[:, j], F, dtype=np.float64)
            value -= float(masked @ masked)
        if not gradient:
            return (value,)
        g = 2.0 * np.einsum("ij,ij->i", A, P).astype(np.float64)
        # Through s and c: dA_ij/ds_j = -T_ij / s_j^2, dA_ij/dc_j = (1 - T_ij) / c_j^2.
        treated = np.einsum("ij,ij->j", T, w_ * P).astype(np.float64)
        control = (w_[:, 0] @ P) - treated
        alpha = -2.0 * treated * inverse_s**2
        beta = 2.0 * control * inverse_c**2
        if k.size:
            wF = w_ * F
            treated = np.einsum("ip,ip->p", T[:, j], wF, dtype=np.float64)
            control = wF.sum(0, dtype=np.float64) - treated
            g -= 2.0 * ((A[:, j] * F) @ masked)
            np.add.at(alpha, j, 2.0 * masked * treated * inverse_s[j] ** 2)
            np.add.at(beta, j, -2.0 * masked * control * inverse_c[j] ** 2)
        return value, g + T @ (alpha - beta).astype(T.dtype) + beta.sum()

    def value(self, w: np.ndarray) -> float:
        run = self.rows.run(lambda i: self._chunk(i, w, False), range(len(self.chunks)))
        return max(0.0, float(add_up(run)[0]))

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        run = self.rows.run(lambda i: self._chunk(i, w, True), range(len(self.chunks)))
        value, gradient = add_up(run)
        return max(0.0, float(value)), gradient


class ProbeBalance:
    """An unbiased estimate of balance(w) for very wide data, in O(n d m): no d x t matrix.

    For random signs z, E ||D z||^2 = ||D||^2. With m columns Z (t x m) drawn once per object
        R = D Z = X' diag(w) (A Z) less the masked entries times Z,   estimate = ||R||^2 / m
    Masking R itself, not the square, keeps the estimate non-negative and takes the noise of the
    masked entries out. The variance of one probe is at most 2 ||D'D||_F^2 <= 2 ||D||^4, so the
    relative standard error is at most sqrt(2 / m): m = 2 / PROBE_ERROR^2 = 200 for 0.1. It is
    reached when D has rank one and is far smaller for the many-directional D of wide data.
    """

    form = "probes"

    def __init__(self, rows: Any, pairs: Pairs, seed: int, n_probes: int | None = None) -> None:
        self.rows, self.pairs = rows, pairs
        self.n_probes = n_probes or probe_count(PROBE_ERROR)
        draw = np.random.default_rng(seed).integers(
            0, 2, size=(len(pairs.treatments), self.n_probes), dtype=np.int8
        )
        self.Z = (2 * draw - 1).astype(rows.dtype)

    def _read(self, tile: Any) -> tuple:
        F = take_columns(tile, self.pairs.features)
        if sp.issparse(tile):
            return F, self.pairs.treatments.of_sparse(tile)
        return F, DenseIndicators(self.pairs.treatments.of(tile))

    def _group_sums(self, tile: Any, w: np.ndarray) -> tuple:
        F, T = self._read(tile)
        together = T.products(F, *self.pairs.masked).T @ w
        return T.transposed_times(w[:, None])[:, 0], F.T @ w, together

    def _projection(self, tile: Any, w: np.ndarray, message: tuple) -> tuple:
        """X' diag(w) A Z, with A Z = T (u Z) - offset."""
        F, T = self._read(tile)
        uZ, offset = message
        return (F.T @ (w[:, None] * (T.times(uZ) - offset)),)

    def _back_projection(self, tile: Any, w: np.ndarray, R: np.ndarray) -> tuple:
        """sum_p Z_jp (T' diag(w) X R)_jp and the plain column sums of diag(w) X R."""
        F, T = self._read(tile)
        wXR = w[:, None] * (F @ R)
        return np.einsum("jp,jp->j", T.transposed_times(wXR), self.Z), wXR.sum(0)

    def _gradient(self, tile: Any, message: tuple) -> np.ndarray:
        uZ, offset, R, by_treatment, const, by_product, by_feature = message
        F, T = self._read(tile)
        g = np.einsum("ip,ip->i", F @ R, T.times(uZ) - offset)
        g = g + T.times(by_treatment[:, None])[:, 0] + const
        return g + T.products(F, *self.pairs.masked) @ by_product + F @ by_feature

    def _estimate(self, w: np.ndarray) -> tuple:
        dtype = self.rows.dtype
        w_ = w.astype(dtype, copy=False)
        s, x, together = add_up(self.rows.map(self._group_sums, w, dense=False))
        inverse_s, inverse_c = group_rates(s, float(w.sum()))
        uZ = ((inverse_s + inverse_c)[:, None] * self.Z).astype(dtype)
        offset = (inverse_c @ self.Z).astype(dtype)
        parts = self.rows.map(self._projection, w_, message=(uZ, offset), dense=False)
        R = add_up(parts)[0] * self.pairs.scale[:, None]
        k, j = self.pairs.masked
        treated = together * inverse_s[j]
        control = (x[k] - together) * inverse_c[j]
        np.add.at(R, k, -((treated - control) * self.pairs.scale[k])[:, None] * self.Z[j])
        value = float(np.vdot(R, R)) / self.n_probes
        return value, R, inverse_s, inverse_c, uZ, offset, treated, control

    def value(self, w: np.ndarray) -> float:
        return self._estimate(w)[0]

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, message = self.value_and_message(w)
        return value, self.row_gradient(message)

    def row_gradient(self, message: tuple) -> np.ndarray:
        return self.rows.gather(self._gradient, message=message, dense=False)

    def value_and_message(self, w: np.ndarray) -> tuple[float, tuple]:
        """The value, and all that the derivative in a row's weight needs besides the row."""
        value, R, inverse_s, inverse_c, uZ, offset, treated, control = self._estimate(w)
        dtype = self.rows.dtype
        G = (2.0 / self.n_probes) * R * self.pairs.scale[:, None]
        k, j = self.pairs.masked
        # The derivative of the masked entries that were taken out of R.
        pull = -np.einsum("pm,pm->p", G[k], self.Z[j])
        G_ = G.astype(dtype)
        parts = self.rows.map(
            self._back_projection, w.astype(dtype, copy=False), message=G_, dense=False
        )
        through_s, all_rows = add_up(parts)
        through_c = self.Z @ all_rows - through_s
        alpha = -through_s * inverse_s**2
        beta = through_c * inverse_c**2
        inverse = inverse_s[j] + inverse_c[j]
        np.add.at(alpha, j, -pull * treated * inverse_s[j])
        np.add.at(beta, j, pull * control * inverse_c[j])
        by_feature = np.zeros(self.pairs.features.size)
        np.add.at(by_feature, k, -pull * inverse_c[j])
        message = (
            uZ,
            offset,
            G_,
            (alpha - beta).astype(dtype),
            float(beta.sum()),
            (pull * inverse).astype(dtype),
            by_feature.astype(dtype),
        )
        return value, message


def probe_count(relative_error: float) -> int:
    """Probes for which sqrt(2 / m), the bound on the relative standard error, is reached."""
    return int(np.ceil(2.0 / relative_error**2))
