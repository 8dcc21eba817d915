"""What the probe form reads of a tile, and its kernels: see ``SketchedBalance``."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._arrays import (
    add_up,
    csr_of,
    csr_rows,
    even_ranges,
    row_products,
    sum_of_squares,
    take_columns,
    weighted_sum,
)
from .._buffers import buffer
from .treatments import Pairs, SparseIndicators, Treatments, group_rates

# Relative standard error that the number of random probes is chosen for.
PROBE_ERROR = 0.1


# Sparse rows that the probe form reads together, and the most that it keeps of them.
JOINED_ROWS = 2**15


KEPT_BYTES = 2**28


# Entries of the sums of all tiles that are held together rather than added as they come; so many
# features of them are then added at a time: these stay in a core's cache.
FEW_SUMS = 2**25


FEW_FEATURES = 256


class SketchedBalance:
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

    form = "sketch"

    def __init__(self, rows: Any, pairs: Pairs, seed: int, n_probes: int | None = None) -> None:
        self.rows, self.pairs = rows, pairs
        t = len(pairs.treatments)
        self.n_probes = min(n_probes or probe_count(PROBE_ERROR), max(t, 1))
        rng = np.random.default_rng(seed)
        # All that is per treatment is in the order of the deal: the i-th is in group i % m. Not
        # a permutation of all: neighbours are read together, for which they should be neighbours.
        permutation = [
            start + rng.permutation(min(self.n_probes, t - start))
            for start in range(0, t, self.n_probes)
        ]
        self.sketch = Sketch(pairs, np.concatenate(permutation), self.n_probes)
        self.sign = 2.0 * rng.integers(0, 2, size=t) - 1.0
        self.group = np.arange(t) % self.n_probes
        k = self.sketch.excluded[0]
        order = np.argsort(k, kind="stable")
        self._excluded_by_feature = k[order], order
        self._kept: dict[int, Any] = {}
        self._groups, self._keep = self._cut()

    def afresh(self, seed: int) -> SketchedBalance:
        """The same with other probes."""
        other = SketchedBalance(self.rows, self.pairs, seed, self.n_probes)
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
        groups = [range(*ends) for ends in even_ranges(len(bounds), max(1, JOINED_ROWS // height))]
        # Bytes of an entry: of F and its blocks of both kinds; of T, its groups, masked products.
        item = self.rows.dtype.itemsize
        treatments = len(self.pairs.treatments) / max(self.pairs.features.size, 1)
        per_entry = 3 * (item + 5) + (2 * item + 12) * treatments
        return groups, self.rows.X.nnz * per_entry <= KEPT_BYTES

    def _map(self, kernel: Any, *vectors: np.ndarray, coefs: Any = None) -> Iterator[tuple]:
        """(first row, last row, kernel(reading, rows of each vector, message)), in order."""
        bounds, sketch = self.rows.bounds, self.sketch
        extra = () if coefs is None else (coefs,)
        if not self.rows.sparse:
            parts = self.rows.map(partial(on_tile, sketch, kernel), *vectors, coefs=coefs)
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

    def _sums(self, kernel: Any, *vectors: np.ndarray, coefs: Any = None) -> list[Any]:
        return add_up(part for _, _, part in self._map(kernel, *vectors, coefs=coefs))

    def _estimate(self, w: np.ndarray, keep: bool) -> tuple:
        """The value and what it was made of; G = 2 scale R, if it is to be kept."""
        dtype = self.rows.dtype
        s, x, together = self._sums(group_sums, w)
        inverse_s, inverse_c = group_rates(s, float(w.sum()))
        u = ((inverse_s + inverse_c) * self.sign).astype(dtype)
        offset = self._grouped(inverse_c * self.sign).astype(dtype)
        mapped = self._map(projection, w.astype(dtype, copy=False), coefs=(u, offset))
        parts = (part for _, _, part in mapped)
        size = self.pairs.features.size * self.n_probes
        few = len(self._groups or self.rows.bounds) * size <= FEW_SUMS
        sums = [each for (each,) in parts] if few else add_up(parts)
        k, j = self.sketch.excluded
        treated = together * inverse_s[j]
        control = (x[k] - together) * inverse_c[j]
        taken = (treated - control) * self.pairs.scale[k] * self.sign[j]
        value, G = self._finish(sums, taken, keep)
        return value, G, inverse_s, inverse_c, u, offset, treated, control

    def _finish(self, sums: list, taken: np.ndarray, keep: bool) -> tuple[float, np.ndarray | None]:
        """||R||^2 and G from the sums of the tiles, a few features at a time."""
        dtype, (k_of, order) = self.rows.dtype, self._excluded_by_feature
        scale, taken = self.pairs.scale.astype(dtype), taken[order].astype(dtype)
        group = self.group[self.sketch.excluded[1]][order]
        G = np.empty(sums[0].shape, dtype=dtype) if keep else None

        def piece(a: int, b: int) -> float:
            R = buffer("R", (b - a, self.n_probes), dtype)
            np.copyto(R, sums[0][a:b], casting="same_kind")
            for other in sums[1:]:
                R += other[a:b]
            R *= scale[a:b, None]
            some = slice(*np.searchsorted(k_of, [a, b]))
            np.subtract.at(R, (k_of[some] - a, group[some]), taken[some])
            if G is not None:
                np.multiply(R, 2.0 * scale[a:b, None], out=G[a:b])
            return sum_of_squares(R)

        pieces = even_ranges(self.pairs.features.size, FEW_FEATURES)
        several = [pieces[slice(*ends)] for ends in even_ranges(len(pieces), 8)]
        run = getattr(self.rows, "run", map)
        found = run(lambda some: [piece(*ends) for ends in some], several)
        return float(sum(chain.from_iterable(found))), G

    def _grouped(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.group, weights=values, minlength=self.n_probes)

    def value(self, w: np.ndarray) -> float:
        return self._estimate(w, False)[0]

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, coefs, gradient = self._back(w)
        for start, stop, part in self._map(rest_of_gradient, coefs=coefs):
            gradient[start:stop] += part
        return value, gradient

    def value_and_coefs(self, w: np.ndarray) -> tuple[float, tuple]:
        """The value, and all that the derivative in a row's weight needs besides the row."""
        return self._back(w)[:2]

    def gradient_from(self, coefs: tuple) -> np.ndarray:
        """The derivative in the weight of each row, which need not be those of the message."""
        if isinstance(coefs[3], tuple):  # model files of format 2 have G in panels
            coefs = (*coefs[:3], np.hstack(coefs[3]), *coefs[4:])
        other = copy(self)
        other.sketch = Sketch(self.pairs, coefs[0], coefs[2].size)
        other._kept, other._keep = {}, False
        out = np.empty(self.rows.n)
        for start, stop, part in other._map(gradient_of_rows, coefs=coefs):
            out[start:stop] = part
        return out

    def _back(self, w: np.ndarray) -> tuple[float, tuple, np.ndarray]:
        """Value, message, and the part of the gradient that does not go through s and c."""
        value, G, inverse_s, inverse_c, u, offset, treated, control = self._estimate(w, True)
        dtype = self.rows.dtype
        k, j = self.sketch.excluded
        # The derivative of the masked entries that were taken out of R.
        pull = -G[k, self.group[j]] * self.sign[j]
        totals: list[Any] = []
        gradient = np.empty(self.rows.n)
        parts = self._map(back_projection, w.astype(dtype, copy=False), coefs=(u, offset, G))
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


# Rows of sparse data whose n x m matrices are made at a time: they fit a core's cache.
FEW_ROWS = 1024


# Columns of a dense tile of which a copy in float64 does.
FEW_COLUMNS = 512


# The products of sparse rows add rows of one dense matrix to rows of another, all over the place.
# The other is cut, so that what is added to stays in the cache, and the one is read in order.
# Of F' V these are columns of F, as CSR; of F G rows of F, as CSC. Measured 1.8 and 1.4 times
# faster than whole.
COLUMNS_OF_A_BLOCK = 2500


ROWS_OF_A_BLOCK = 2048


class Sketch:
    """The treatments of some pairs in a random order; the i-th is in group i % m.

    order    of the treatments
    masked   (k, i): i is a place in that order
    own      each feature has one treatment, is masked given that, and nothing else is
    chunks   of m treatments, one of each group: treatments, masked k, i in the chunk, which pairs
    """

    def __init__(self, pairs: Pairs, order: np.ndarray, m: int) -> None:
        self.pairs, self.order, self.m = pairs, order, m
        place = np.empty(order.size, dtype=np.intp)
        place[order] = np.arange(order.size)
        k, j = pairs.excluded
        by_place = np.argsort(place[j], kind="stable")
        # Sorted by place, so that each chunk's pairs are next to each other.
        self.excluded = k, i = k[by_place], place[j][by_place]
        self._place, self._pair = place, np.argsort(by_place)
        self.treatments = pairs.treatments.take(order)
        one_each = k.size == pairs.features.size == order.size == np.unique(k).size
        self.own = one_each and np.array_equal(self.treatments.column[i], pairs.features[k])
        self.chunks = []
        for start in range(0, order.size, m):
            stop = min(start + m, order.size)
            which = slice(*np.searchsorted(self.excluded[1], [start, stop]))
            chunk = self.treatments.take(np.arange(start, stop))
            inside = self.excluded[0][which], self.excluded[1][which] - start
            self.chunks.append(Chunk(slice(start, stop), chunk, *inside, which))

    def read(self, tile: Any, again: bool = False) -> Reading:
        """``again``: it will be used many times, and may take its time now."""
        F = take_columns(tile, self.pairs.features)
        if not sp.issparse(tile):
            return DenseReading(self, F, tile)
        T = self.treatments.sparse_indicators(tile)
        return SparseReading(self, F, T, self._products(F, T), again)

    def read_again(self, reading: SparseReading) -> SparseReading:
        """What ``read`` would give for the rows of a reading that another deal has made."""
        other, base = reading.sketch, np.empty_like(reading.T.base)
        place = self._place[other.order]
        base[place] = reading.T.base
        T = SparseIndicators(base, _renumbered(reading.T.correction, place))
        products = _renumbered(reading.products, self._pair[np.argsort(other._pair)])
        again = SparseReading(self, reading.F, T, products, False)
        again._columns, again._rows = reading._columns, reading._rows
        return again

    def _products(self, F: Any, T: SparseIndicators) -> Any:
        """Rows x masked pairs matrix F[:, k] * T[:, i]."""
        k, i = self.excluded
        if not self.own:
            return T.products(F, k, i)
        # Each feature given itself, and nothing else: the entries of F, renumbered.
        pair = np.empty(k.size, dtype=np.intp)
        pair[k] = np.arange(k.size)
        place = pair[F.indices]
        data = np.where(self.treatments.within(F.data, i[place]), F.data, 0)
        return csr_of(data, place, F.indptr, k.size)


def _renumbered(rows: Any, column: np.ndarray) -> Any:
    """CSR rows whose column j becomes column[j]."""
    return csr_of(rows.data, column.astype(np.int32)[rows.indices], rows.indptr, rows.shape[1])


class Chunk(NamedTuple):
    places: slice
    treatments: Treatments
    k: np.ndarray
    i: np.ndarray
    which: slice


class SomeRows(NamedTuple):
    """Some rows of a reading; of CSR rows also their entries of T, and where rows begin there."""

    rows: slice
    entries: slice = slice(0)
    indptr: np.ndarray = np.zeros(1, dtype=np.int32)


class DenseReading:
    """F and T of a dense tile, all rows at once; T a chunk of m columns at a time."""

    def __init__(self, sketch: Sketch, F: np.ndarray, tile: np.ndarray) -> None:
        self.sketch, self.F, self.tile = sketch, F, tile
        self.pieces = [SomeRows(slice(0, len(tile)))]

    def transposed_times(self, V: np.ndarray) -> np.ndarray:
        """F' V."""
        return self.F.T @ V

    def times(self, G: np.ndarray) -> np.ndarray:
        """F G."""
        return self.F @ G

    def grouped(self, u: np.ndarray, piece: SomeRows) -> np.ndarray:
        """T diag(u), columns of each group added up: n x m."""
        out = buffer("grouped", (len(self.tile), self.sketch.m), self.tile.dtype)
        out[:] = 0.0
        part = buffer("chunk", out.shape, out.dtype)
        for chunk in self.sketch.chunks:
            T = chunk.treatments.indicators(self.tile)
            out[:, : T.shape[1]] += np.multiply(T, u[chunk.places], out=part[:, : T.shape[1]])
        return out

    def sums(self, V: np.ndarray, piece: SomeRows) -> np.ndarray:
        """sum_i T_ij V_ig of each treatment j and its group g."""
        parts = [
            np.einsum("ij,ij->j", T, V[:, : T.shape[1]])
            for T in (chunk.treatments.indicators(self.tile) for chunk in self.sketch.chunks)
        ]
        return np.concatenate(parts)

    def group_sums(self, w: np.ndarray) -> tuple:
        """T'w, F'w and, for the masked pairs, sum_i w_i F_ik T_ij."""
        s, together = [], np.zeros(self.sketch.excluded[0].size)
        for chunk in self.sketch.chunks:
            T = chunk.treatments.indicators(self.tile)
            s.append(w @ T)
            if chunk.k.size:
                together[chunk.which] = w @ (self.F[:, chunk.k] * T[:, chunk.i])
        # A few columns at a time: in float64 the whole tile would be new memory.
        x = [weighted_sum(w, self.F[:, a:b]) for a, b in even_ranges(self.F.shape[1], FEW_COLUMNS)]
        return np.concatenate(s), np.concatenate(x), together

    def times_vectors(self, by_treatment: np.ndarray, by_product: np.ndarray) -> np.ndarray:
        out = np.zeros(len(self.tile), dtype=self.tile.dtype)
        for chunk in self.sketch.chunks:
            T = chunk.treatments.indicators(self.tile)
            out += T @ by_treatment[chunk.places]
            if chunk.k.size:
                out += (self.F[:, chunk.k] * T[:, chunk.i]) @ by_product[chunk.which]
        return out


class SparseReading:
    """F, T and the products of the masked pairs, of CSR rows.

    Dense n x m matrices are made for a few rows at a time, which stay in a core's cache.
    """

    def __init__(
        self, sketch: Sketch, F: Any, T: SparseIndicators, products: Any, again: bool
    ) -> None:
        self.sketch, self.F, self.T, self.products = sketch, F, T, products
        _, entries = T
        self.group = entries.indices % sketch.m
        self.pieces = [
            SomeRows(
                slice(a, b),
                slice(int(entries.indptr[a]), int(entries.indptr[b])),
                entries.indptr[a : b + 1] - entries.indptr[a],
            )
            for a, b in even_ranges(F.shape[0], FEW_ROWS)
        ]
        # Worth it where most blocks have entries of most rows, or of most columns.
        n, d = F.shape
        columns, rows = even_ranges(d, COLUMNS_OF_A_BLOCK), even_ranges(n, ROWS_OF_A_BLOCK)
        self._columns, self._rows = [(0, d, F)], [(0, n, F)]
        if again and F.nnz >= 2 * n * len(columns) > 2 * n:
            self._columns = [(a, b, sp.csr_array(F[:, a:b])) for a, b in columns]
        if again and F.nnz >= 2 * d * len(rows) > 2 * d:
            self._rows = [(a, b, csr_rows(F, a, b).tocsc()) for a, b in rows]
        self._memory: np.ndarray | None = None
        # Columns of 0 and 1 that are their own treatments: three sums are one.
        ones = all((part.data == 1).all() for part in (F, entries, products))
        self._one_sum = sketch.own and ones and not T.base.any()

    def grouped(self, u: np.ndarray, piece: SomeRows) -> np.ndarray:
        """T diag(u), columns of each group added up, of some rows; for a moment."""
        base, entries = self.T
        m, own = self.sketch.m, piece.entries
        # Entries of one group stand beside each other and are added when they are made dense.
        data = np.take(u, entries.indices[own])
        data *= entries.data[own]
        shape = (piece.indptr.size - 1, m)
        out = buffer("grouped", shape, data.dtype)
        csr_of(data, self.group[own], piece.indptr, m).toarray(out=out)
        if base.any():
            out += np.bincount(np.arange(u.size) % m, weights=base * u, minlength=m)
        return out

    def sums(self, V: np.ndarray, piece: SomeRows) -> np.ndarray:
        """sum_i T_ij V_ig of each treatment j and its group g, over some rows."""
        base, entries = self.T
        m, own = self.sketch.m, piece.entries
        row = np.repeat(np.arange(0, V.size, m), np.diff(piece.indptr))
        picked = entries.data[own] * np.take(V.reshape(-1), row + self.group[own])
        out = np.bincount(entries.indices[own], weights=picked, minlength=base.size)
        return out + base * V.sum(0)[np.arange(base.size) % m] if base.any() else out

    def transposed_times(self, V: np.ndarray) -> np.ndarray:
        """F' V; until it is asked for again."""
        if len(self._columns) == 1:
            return self.F.T @ V
        if self._memory is None:
            self._memory = np.empty((self.F.shape[1], V.shape[1]), dtype=V.dtype)
        for a, b, block in self._columns:
            self._memory[a:b] = block.T @ V
        return self._memory

    def times(self, G: np.ndarray) -> np.ndarray:
        """F G, for a moment."""
        if len(self._rows) == 1:
            return self.F @ G
        out = buffer("F G", (self.F.shape[0], G.shape[1]), G.dtype)
        for a, b, block in self._rows:
            out[a:b] = block @ G
        return out

    def group_sums(self, w: np.ndarray) -> tuple:
        x = self.F.T @ w
        if self._one_sum:
            k, i = self.sketch.excluded
            s = np.empty_like(x)
            s[i] = x[k]
            return s, x, x[k]
        s = self.T.transposed_times(w[:, None])[:, 0]
        return s, x, self.products.T @ w

    def times_vectors(self, by_treatment: np.ndarray, by_product: np.ndarray) -> np.ndarray:
        if self._one_sum:
            k, i = self.sketch.excluded
            by_feature = np.empty_like(by_product)
            by_feature[k] = by_product + by_treatment[i]
            return self.F @ by_feature
        return self.T.times(by_treatment[:, None])[:, 0] + self.products @ by_product


Reading = DenseReading | SparseReading


def on_tile(sketch: Sketch, kernel: Any, tile: Any, *given: Any) -> Any:
    return kernel(sketch.read(tile), *given)


def group_sums(reading: Reading, w: np.ndarray) -> tuple:
    return reading.group_sums(w)


def projection(reading: Reading, w: np.ndarray, coefs: tuple) -> tuple:
    """X' diag(w) A Z, with A Z = T diag(u) added up by groups - offset."""
    u, offset = coefs
    wAZ = buffer("w A Z", (w.size, offset.size), offset.dtype)
    for piece in reading.pieces:
        AZ = reading.grouped(u, piece)
        AZ -= offset
        np.multiply(AZ, w[piece.rows, None], out=wAZ[piece.rows])
    return (reading.transposed_times(wAZ),)


def back_projection(reading: Reading, w: np.ndarray, coefs: tuple) -> tuple:
    """Row by row X G . A Z; then, of diag(w) X G, the sums per treatment and over all rows."""
    u, offset, G = coefs
    direct, all_XG = np.empty(w.size, dtype=offset.dtype), reading.times(G)
    by_treatment, all_rows = np.zeros(u.size), np.zeros(offset.size)
    for piece in reading.pieces:
        XG, AZ = all_XG[piece.rows], reading.grouped(u, piece)
        AZ -= offset
        direct[piece.rows] = row_products(XG, AZ)
        XG *= w[piece.rows, None]
        by_treatment += reading.sums(XG, piece)
        all_rows += XG.sum(0)
    return direct, by_treatment, all_rows


def rest_of_gradient(reading: Reading, coefs: tuple) -> np.ndarray:
    """The derivative through s and c, and of the masked entries."""
    *_, by_treatment, by_product, by_feature, const = coefs
    return reading.times_vectors(by_treatment, by_product) + reading.F @ by_feature + const


def gradient_of_rows(reading: Reading, coefs: tuple) -> np.ndarray:
    _, u, offset, G, *_ = coefs
    out, XG = rest_of_gradient(reading, coefs), reading.times(G)
    for piece in reading.pieces:
        AZ = reading.grouped(u, piece)
        AZ -= offset
        out[piece.rows] += row_products(XG[piece.rows], AZ)
    return out
