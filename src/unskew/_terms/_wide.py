"""The balance loss for more columns than rows, and for more than fit: no d x t matrix."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._pairs import (
    Pairs,
    add_up,
    evenly,
    group_rates,
    row_products,
    sum_of_squares,
    weighted_indicators,
)
from ._scratch import scratch
from ._sketch import (
    Sketch,
    back_projection,
    gradient_of_rows,
    group_sums,
    on_tile,
    projection,
    rest_of_gradient,
)

# A d x t matrix beyond this many entries is not formed (2**24 float64 = 128 MB each).
LARGEST_MATRIX = 2**24
# Entries of the rows x treatments matrices that a thread works on: a few of them fit its cache.
# But not fewer columns than this: narrow products are slow.
CHUNK, NARROWEST = 2**16, 256
# Operations (multiply and add) of a product that is worth having another thread begin something.
LONG = 2**23
# Relative standard error that the number of random probes is chosen for.
PROBE_ERROR = 0.1
# Sparse rows that the probe form reads together, and the most that it keeps of them.
JOINED_ROWS = 2**15
KEPT_BYTES = 2**28
# Entries of the sums of all tiles that are held together rather than added as they come; so many
# features of them are then added at a time: these stay in a core's cache.
FEW_SUMS = 2**25
FEW_FEATURES = 256


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
        step = max(NARROWEST, CHUNK // max(rows.n, 1))
        starts = range(0, len(pairs.treatments), step)
        self.chunks = [np.arange(i, min(i + step, len(pairs.treatments))) for i in starts]
        M = np.zeros((rows.n, rows.n), dtype=rows.dtype)
        for i in range(0, pairs.features.size, step):
            F = self._features(np.arange(i, min(i + step, pairs.features.size)))
            M += F @ F.T
        self.M = M
        self.kept = self._keep()
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

    def _keep(self) -> list[np.ndarray] | None:
        """The indicators where they are no larger than the other matrices allowed here."""
        if self.rows.n * len(self.pairs.treatments) > LARGEST_MATRIX:
            return None
        return [self._indicators(number) for number in range(len(self.chunks))]

    def _indicators(self, number: int) -> np.ndarray:
        return self._treated(number).astype(self.rows.dtype)

    def _treated(self, number: int) -> np.ndarray:
        return self.pairs.treatments.take(self.chunks[number]).of_rows(self.rows)

    def _features(self, k: np.ndarray) -> np.ndarray:
        """Scaled feature columns, centred: D does not see the shift, rounding does."""
        F, dtype = self.rows.columns(self.pairs.features[k]), self.rows.dtype
        F -= self.pairs.centre[k].astype(dtype)
        F *= self.pairs.scale[k].astype(dtype)
        return F

    def _chunk(self, number: int, w: np.ndarray, gradient: bool) -> tuple:
        T = self.kept[number] if self.kept is not None else self._indicators(number)
        w_ = w.astype(T.dtype, copy=False)[:, None]
        inverse_s, inverse_c = group_rates(weighted_indicators(w, T), float(w.sum()))
        shape, dtype = T.shape, T.dtype
        A = np.multiply(T, (inverse_s + inverse_c).astype(dtype), out=scratch("A", shape, dtype))
        A -= inverse_c.astype(dtype)
        wA = np.multiply(w_, A, out=scratch("wA", shape, dtype))
        self._busy(T.shape[1])
        P = np.matmul(self.M, wA, out=scratch("P", shape, dtype))
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
            g -= 2.0 * ((A[:, j] * F) @ masked)
            np.add.at(alpha, j, 2.0 * masked * treated * inverse_s[j] ** 2)
            np.add.at(beta, j, -2.0 * masked * control * inverse_c[j] ** 2)
        return value, g + T @ (alpha - beta).astype(T.dtype) + beta.sum()

    def _busy(self, width: int) -> None:
        """A product of so many columns is next; where it is long, others may work meanwhile."""
        if self.rows.n**2 * width >= LONG:
            self.rows.begin_later()

    def value(self, w: np.ndarray) -> float:
        run = self.rows.run(lambda i: self._chunk(i, w, False), range(len(self.chunks)))
        return max(0.0, float(add_up(run)[0]))

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        run = self.rows.run(lambda i: self._chunk(i, w, True), range(len(self.chunks)))
        value, gradient = add_up(run)
        return max(0.0, float(value)), gradient


class ProbeBalance:
    """An unbiased estimate of balance(w) for very wide data, in O(n d m): no d x t matrix.

    Of each m treatments in a row one is dealt at random to each of m groups, and all get random
    signs z, once per object; with Z (t x m) the matrix that adds up each group,
        R = D Z = X' diag(w) (A Z) less the masked entries times Z,   estimate = ||R||^2
    E ||D Z||^2 = ||D||^2 over the signs; two treatments share a group with a chance of at most
    1/m, so that the variance is at most (2/m) ||D'D||_F^2 <= (2/m) ||D||^4: as of m dense random
    probes, but A Z costs n t operations instead of n t m. The relative standard error is at most
    sqrt(2 / m): m = 2 / PROBE_ERROR^2 = 200 for 0.1. It is reached when D has rank one and is far
    smaller for the many-directional D of wide data; with t <= m the value is exact. Masking R
    itself, not the square, keeps the estimate non-negative and takes the noise of the masked
    entries out.
    """

    form = "probes"

    def __init__(self, rows: Any, pairs: Pairs, seed: int, n_probes: int | None = None) -> None:
        self.rows, self.pairs = rows, pairs
        t = len(pairs.treatments)
        self.n_probes = min(n_probes or probe_count(PROBE_ERROR), max(t, 1))
        rng = np.random.default_rng(seed)
        # All that is per treatment is in the order of the deal: the i-th is in group i % m. Not
        # a permutation of all: neighbours are read together, for which they should be neighbours.
        deal = [
            start + rng.permutation(min(self.n_probes, t - start))
            for start in range(0, t, self.n_probes)
        ]
        self.sketch = Sketch(pairs, np.concatenate(deal), self.n_probes)
        self.sign = 2.0 * rng.integers(0, 2, size=t) - 1.0
        self.group = np.arange(t) % self.n_probes
        k = self.sketch.masked[0]
        order = np.argsort(k, kind="stable")
        self._masked_by_feature = k[order], order
        self._kept: dict[int, Any] = {}
        self._groups, self._keep = self._cut()

    def afresh(self, seed: int) -> ProbeBalance:
        """The same with other probes."""
        other = ProbeBalance(self.rows, self.pairs, seed, self.n_probes)
        other._kept = {n: other.sketch.read_again(each) for n, each in self._kept.items()}
        return other

    def _cut(self) -> tuple[list[range], bool]:
        """Tiles that are read together, and whether what is read of them is kept.

        Each call of a kernel costs d x m additions, so that low tiles of sparse rows are joined.
        """
        bounds = self.rows.bounds
        if not self.rows.sparse:
            return [], False
        height = max(1, bounds[0][1] - bounds[0][0])
        groups = [range(*ends) for ends in evenly(len(bounds), max(1, JOINED_ROWS // height))]
        # Bytes of an entry: of F and its blocks of both kinds; of T, its groups, masked products.
        item = self.rows.dtype.itemsize
        treatments = len(self.pairs.treatments) / max(self.pairs.features.size, 1)
        per_entry = 3 * (item + 5) + (2 * item + 12) * treatments
        return groups, self.rows.X.nnz * per_entry <= KEPT_BYTES

    def _map(self, kernel: Any, *vectors: np.ndarray, message: Any = None) -> Iterator[tuple]:
        """(first row, last row, kernel(reading, rows of each vector, message)), in order."""
        bounds, sketch = self.rows.bounds, self.sketch
        extra = () if message is None else (message,)
        if not self.rows.sparse:
            parts = self.rows.map(partial(on_tile, sketch, kernel), *vectors, message=message)
            for (start, stop), part in zip(bounds, parts):
                yield start, stop, part
            return

        def call(number: int) -> tuple:
            group = self._groups[number]
            start, stop = bounds[group[0]][0], bounds[group[-1]][1]
            reading = self._kept.get(number)
            if reading is None:
                tiles = [self.rows.tile(i, dense=False) for i in group]
                joined = tiles[0] if len(tiles) == 1 else sp.vstack(tiles, format="csr")
                reading = sketch.read(joined, self._keep)
                if self._keep:
                    self._kept[number] = reading
            return start, stop, kernel(reading, *(v[start:stop] for v in vectors), *extra)

        yield from self.rows.run(call, range(len(self._groups)))

    def _sums(self, kernel: Any, *vectors: np.ndarray, message: Any = None) -> list[Any]:
        return add_up(part for _, _, part in self._map(kernel, *vectors, message=message))

    def _estimate(self, w: np.ndarray, keep: bool) -> tuple:
        """The value and what it was made of; G = 2 scale R, if it is to be kept."""
        dtype = self.rows.dtype
        s, x, together = self._sums(group_sums, w)
        inverse_s, inverse_c = group_rates(s, float(w.sum()))
        u = ((inverse_s + inverse_c) * self.sign).astype(dtype)
        offset = self._grouped(inverse_c * self.sign).astype(dtype)
        mapped = self._map(projection, w.astype(dtype, copy=False), message=(u, offset))
        parts = (part for _, _, part in mapped)
        size = self.pairs.features.size * self.n_probes
        few = len(self._groups or self.rows.bounds) * size <= FEW_SUMS
        sums = [each for (each,) in parts] if few else add_up(parts)
        k, j = self.sketch.masked
        treated = together * inverse_s[j]
        control = (x[k] - together) * inverse_c[j]
        taken = (treated - control) * self.pairs.scale[k] * self.sign[j]
        value, G = self._finish(sums, taken, keep)
        return value, G, inverse_s, inverse_c, u, offset, treated, control

    def _finish(self, sums: list, taken: np.ndarray, keep: bool) -> tuple[float, np.ndarray | None]:
        """||R||^2 and G from the sums of the tiles, a few features at a time."""
        dtype, (k_of, order) = self.rows.dtype, self._masked_by_feature
        scale, taken = self.pairs.scale.astype(dtype), taken[order].astype(dtype)
        group = self.group[self.sketch.masked[1]][order]
        G = np.empty(sums[0].shape, dtype=dtype) if keep else None

        def piece(a: int, b: int) -> float:
            R = scratch("R", (b - a, self.n_probes), dtype)
            np.copyto(R, sums[0][a:b], casting="same_kind")
            for other in sums[1:]:
                R += other[a:b]
            R *= scale[a:b, None]
            some = slice(*np.searchsorted(k_of, [a, b]))
            np.subtract.at(R, (k_of[some] - a, group[some]), taken[some])
            if G is not None:
                np.multiply(R, 2.0 * scale[a:b, None], out=G[a:b])
            return sum_of_squares(R)

        pieces = evenly(self.pairs.features.size, FEW_FEATURES)
        several = [pieces[slice(*ends)] for ends in evenly(len(pieces), 8)]
        run = getattr(self.rows, "run", map)
        found = run(lambda some: [piece(*ends) for ends in some], several)
        return float(sum(chain.from_iterable(found))), G

    def _grouped(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.group, weights=values, minlength=self.n_probes)

    def value(self, w: np.ndarray) -> float:
        return self._estimate(w, False)[0]

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, message, gradient = self._back(w)
        for start, stop, part in self._map(rest_of_gradient, message=message):
            gradient[start:stop] += part
        return value, gradient

    def value_and_message(self, w: np.ndarray) -> tuple[float, tuple]:
        """The value, and all that the derivative in a row's weight needs besides the row."""
        return self._back(w)[:2]

    def row_gradient(self, message: tuple) -> np.ndarray:
        """The derivative in the weight of each row, which need not be those of the message."""
        if isinstance(message[3], tuple):  # model files of format 2 have G in panels
            message = (*message[:3], np.hstack(message[3]), *message[4:])
        other = copy(self)
        other.sketch = Sketch(self.pairs, message[0], message[2].size)
        other._kept, other._keep = {}, False
        out = np.empty(self.rows.n)
        for start, stop, part in other._map(gradient_of_rows, message=message):
            out[start:stop] = part
        return out

    def _back(self, w: np.ndarray) -> tuple[float, tuple, np.ndarray]:
        """Value, message, and the part of the gradient that does not go through s and c."""
        value, G, inverse_s, inverse_c, u, offset, treated, control = self._estimate(w, True)
        dtype = self.rows.dtype
        k, j = self.sketch.masked
        # The derivative of the masked entries that were taken out of R.
        pull = -G[k, self.group[j]] * self.sign[j]
        totals: list[Any] = []
        gradient = np.empty(self.rows.n)
        parts = self._map(back_projection, w.astype(dtype, copy=False), message=(u, offset, G))
        for start, stop, (direct, *sums) in parts:
            gradient[start:stop] = direct
            totals = add_up([totals, sums] if totals else [sums])
        by_treatment, all_rows = totals
        through_s = self.sign * by_treatment
        through_c = self.sign * all_rows[self.group] - through_s
        alpha = -through_s * inverse_s**2
        beta = through_c * inverse_c**2
        np.add.at(alpha, j, -pull * treated * inverse_s[j])
        np.add.at(beta, j, pull * control * inverse_c[j])
        by_feature = np.zeros(self.pairs.features.size)
        np.add.at(by_feature, k, -pull * inverse_c[j])
        by_product = pull * (inverse_s[j] + inverse_c[j])
        rest = [a.astype(dtype) for a in (alpha - beta, by_product, by_feature)]
        return value, (self.sketch.order, u, offset, G, *rest, float(beta.sum())), gradient


def probe_count(relative_error: float) -> int:
    """Probes for which sqrt(2 / m), the bound on the relative standard error, is reached."""
    return int(np.ceil(2.0 / relative_error**2))
