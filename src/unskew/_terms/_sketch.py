"""What the probe form reads of a tile, and its kernels: see ``ProbeBalance``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ._pairs import Pairs, SparseIndicators, Treatments, take_columns
from ._scratch import scratch


class Sketch:
    """The treatments of some pairs in a random order; the i-th is in group i % m.

    order    of the treatments
    masked   (k, i): i is a place in that order
    chunks   of m treatments, one of each group: treatments, masked k, i in the chunk, which pairs
    """

    def __init__(self, pairs: Pairs, order: np.ndarray, m: int) -> None:
        self.pairs, self.order, self.m = pairs, order, m
        place = np.empty(order.size, dtype=np.intp)
        place[order] = np.arange(order.size)
        k, j = pairs.masked
        by_place = np.argsort(place[j], kind="stable")
        # Sorted by place, so that each chunk's pairs are next to each other.
        self.masked = k[by_place], place[j][by_place]
        self.treatments = pairs.treatments.take(order)
        self.chunks = []
        for start in range(0, order.size, m):
            stop = min(start + m, order.size)
            which = slice(*np.searchsorted(self.masked[1], [start, stop]))
            chunk = self.treatments.take(np.arange(start, stop))
            inside = self.masked[0][which], self.masked[1][which] - start
            self.chunks.append(Chunk(slice(start, stop), chunk, *inside, which))

    def read(self, tile: Any) -> Reading:
        F = take_columns(tile, self.pairs.features)
        if not sp.issparse(tile):
            return DenseReading(self, F, tile)
        T = self.treatments.of_sparse(tile)
        return SparseReading(self, F, T, T.products(F, *self.masked))


class Chunk(NamedTuple):
    places: slice
    treatments: Treatments
    k: np.ndarray
    i: np.ndarray
    which: slice


class DenseReading(NamedTuple):
    """F and T of a dense tile; T a chunk of m columns at a time."""

    sketch: Sketch
    F: np.ndarray
    tile: np.ndarray

    def grouped(self, u: np.ndarray) -> np.ndarray:
        """T diag(u), columns of each group added up: n x m."""
        out = scratch("grouped", (len(self.tile), self.sketch.m), self.tile.dtype)
        out[:] = 0.0
        part = scratch("chunk", out.shape, out.dtype)
        for chunk in self.sketch.chunks:
            T = chunk.treatments.of(self.tile)
            out[:, : T.shape[1]] += np.multiply(T, u[chunk.places], out=part[:, : T.shape[1]])
        return out

    def sums(self, V: np.ndarray) -> np.ndarray:
        """sum_i T_ij V_ig of each treatment j and its group g."""
        parts = [
            np.einsum("ij,ij->j", T, V[:, : T.shape[1]])
            for T in (chunk.treatments.of(self.tile) for chunk in self.sketch.chunks)
        ]
        return np.concatenate(parts)

    def group_sums(self, w: np.ndarray) -> tuple:
        """T'w, F'w and, for the masked pairs, sum_i w_i F_ik T_ij."""
        s, together = [], np.zeros(self.sketch.masked[0].size)
        for chunk in self.sketch.chunks:
            T = chunk.treatments.of(self.tile)
            s.append(w @ T)
            if chunk.k.size:
                together[chunk.which] = w @ (self.F[:, chunk.k] * T[:, chunk.i])
        return np.concatenate(s), self.F.T @ w, together

    def times(self, by_treatment: np.ndarray, by_product: np.ndarray) -> np.ndarray:
        out = np.zeros(len(self.tile), dtype=self.tile.dtype)
        for chunk in self.sketch.chunks:
            T = chunk.treatments.of(self.tile)
            out += T @ by_treatment[chunk.places]
            if chunk.k.size:
                out += (self.F[:, chunk.k] * T[:, chunk.i]) @ by_product[chunk.which]
        return out


class SparseReading(NamedTuple):
    """F, T and the products of the masked pairs, of CSR rows."""

    sketch: Sketch
    F: Any
    T: SparseIndicators
    products: Any

    def grouped(self, u: np.ndarray) -> np.ndarray:
        base, entries = self.T
        m, n = self.sketch.m, entries.shape[0]
        # Entries of one group stand beside each other and are added when they are made dense.
        data, at = entries.data * u[entries.indices], entries.indices % m
        out = sp.csr_array((data, at, entries.indptr), shape=(n, m)).toarray()
        if base.any():
            out += np.bincount(np.arange(u.size) % m, weights=base * u, minlength=m)
        return out

    def sums(self, V: np.ndarray) -> np.ndarray:
        base, entries = self.T
        m = self.sketch.m
        row = np.repeat(np.arange(entries.shape[0]), np.diff(entries.indptr))
        picked = entries.data * V[row, entries.indices % m]
        out = np.bincount(entries.indices, weights=picked, minlength=base.size)
        return out + base * V.sum(0)[np.arange(base.size) % m] if base.any() else out

    def group_sums(self, w: np.ndarray) -> tuple:
        s = self.T.transposed_times(w[:, None])[:, 0]
        return s, self.F.T @ w, self.products.T @ w

    def times(self, by_treatment: np.ndarray, by_product: np.ndarray) -> np.ndarray:
        return self.T.times(by_treatment[:, None])[:, 0] + self.products @ by_product


# Columns of the d x m matrices that sparse rows are multiplied with at once: each stored entry
# reads one row of them, and of 100 columns more rows stay in the cache (measured 1.3 to 2 times
# faster than 200; 50 and fewer were no better).
PANEL = 100


def panels_of(m: int) -> list[slice]:
    return [slice(p, min(p + PANEL, m)) for p in range(0, m, PANEL)]


def in_panels(G: np.ndarray, sparse: bool) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(G[:, p]) for p in panels_of(G.shape[1])) if sparse else (G,)


def through(F: Any, G: tuple[np.ndarray, ...]) -> np.ndarray:
    """F times G, which is in panels."""
    if len(G) == 1:
        return F @ G[0]
    out = np.empty((F.shape[0], sum(panel.shape[1] for panel in G)), dtype=G[0].dtype)
    at = 0
    for panel in G:
        out[:, at : at + panel.shape[1]] = F @ panel
        at += panel.shape[1]
    return out


Reading = DenseReading | SparseReading


def on_tile(sketch: Sketch, kernel: Any, tile: Any, *given: Any) -> Any:
    return kernel(sketch.read(tile), *given)


def group_sums(reading: Reading, w: np.ndarray) -> tuple:
    return reading.group_sums(w)


def projection(reading: Reading, w: np.ndarray, message: tuple) -> tuple:
    """X' diag(w) A Z, with A Z = T diag(u) added up by groups - offset."""
    u, offset = message
    AZ = reading.grouped(u)
    AZ -= offset
    AZ *= w[:, None]
    if not sp.issparse(reading.F):
        return (reading.F.T @ AZ,)
    return tuple(reading.F.T @ np.ascontiguousarray(AZ[:, p]) for p in panels_of(AZ.shape[1]))


def back_projection(reading: Reading, w: np.ndarray, message: tuple) -> tuple:
    """Row by row X G . A Z; then, of diag(w) X G, the sums per treatment and over all rows."""
    u, offset, G = message
    XG = through(reading.F, G)
    AZ = reading.grouped(u)
    AZ -= offset
    direct = np.einsum("ip,ip->i", XG, AZ)
    XG *= w[:, None]
    return direct, reading.sums(XG), XG.sum(0)


def rest_of_gradient(reading: Reading, message: tuple) -> np.ndarray:
    """The derivative through s and c, and of the masked entries."""
    *_, by_treatment, by_product, by_feature, const = message
    return reading.times(by_treatment, by_product) + reading.F @ by_feature + const


def gradient_of_rows(reading: Reading, message: tuple) -> np.ndarray:
    _, u, offset, G, *_ = message
    AZ = reading.grouped(u)
    AZ -= offset
    return np.einsum("ip,ip->i", through(reading.F, G), AZ) + rest_of_gradient(reading, message)
