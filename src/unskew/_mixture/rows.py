"""Rows as the expectation step reads them: sorted by level and by pattern of missing values.

`Rows` are in memory. `TiledRows` are sums over tiles of a matrix that may be a file or on a
cluster; a tile is a `Rows` while its sums are computed. Blocks and EM use what both have: the
`Layout` of the columns and sums over all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .design import Design

# Rows per matrix product: the product and the responsibilities stay in the cache.
CHUNK = 8192


class Columns(NamedTuple):
    """Encoded columns before sorting: numbers are standardised, missing values are nan.

    numbers     (n, g)
    floor       (g,), smallest variance within a group
    flags       (n, b) of 0 and 1; nan in new rows only
    categories  list of (codes (n,), -1 where missing, number of categories)
    """

    numbers: np.ndarray
    floor: np.ndarray
    flags: np.ndarray
    categories: list

    def take(self, which: np.ndarray) -> Columns:
        """Some of the rows."""
        codes = [(own[which], M) for own, M in self.categories]
        return Columns(self.numbers[which], self.floor, self.flags[which], codes)


class Layout:
    """Order and meaning of the columns of X, which are the same for all tiles.

    X (n, q) has numbers and flags (0 where missing), categories one-hot, then one column for each
    number, and each flag, with missing values: 1 where known.

    mask_of, flag_mask_of  numbers and flags with missing values
    patterns    for each pattern which numbers are known; one entry, all True, where patterns are
                not distinguished (no missing values, or too many patterns)
    design      effects of the levels, `Design`; the identity where None is given
    """

    def __init__(
        self, columns: Columns, n_levels: int, design: Design | None, mask_of: np.ndarray,
        flag_mask_of: np.ndarray, patterns: np.ndarray | None,
    ):  # fmt: skip
        """``columns``: any rows of the data; ``patterns`` (P, g), or None: too many."""
        self.n_levels = n_levels
        self.design = Design.of_levels(n_levels) if design is None else design
        self.n_gauss, self.n_bern = columns.numbers.shape[1], columns.flags.shape[1]
        self.floor, self.mask_of, self.flag_mask_of = columns.floor, mask_of, flag_mask_of
        self.patterns_exact = patterns is not None
        self.patterns = [np.ones(self.n_gauss, bool)] if patterns is None else list(patterns)
        self.categories, at = [], self.n_gauss + self.n_bern
        for _, M in columns.categories:
            self.categories.append((at, at + M))
            at += M
        self.first_mask, self.first_flag_mask = at, at + mask_of.size
        self.n_columns = self.first_flag_mask + flag_mask_of.size


class RowSums(Layout):
    """Sums over all rows that no iteration changes.

    level_squares, level_known  (L, g): weighted squares, and weight of the known values
    level_weight, pattern_weight, bern_share, category_share
    """

    def total(self, kernel: Callable, *arguments: Any) -> list[Any]:
        """Sum of kernel(rows, *arguments), tuples of arrays, over the rows."""
        raise NotImplementedError

    def _set_layout(self, layout: Layout) -> None:
        vars(self).update(vars(layout))
        self.layout = layout

    def _sum_up(self) -> None:
        found = self.total(constant_sums)
        self.level_squares, self.level_known, self.level_weight, self.pattern_weight = found[:4]
        self.weight = float(self.level_weight.sum())
        # Half a row of each value: shares inside (0, 1).
        self.bern_share = (found[4] + 0.5) / (max(self.weight, 1e-300) + 1.0)
        self.category_share, start = [], self.n_gauss + self.n_bern
        for first, last in self.categories:
            weight = found[5][first - start : last - start] + 0.5
            self.category_share.append(weight / weight.sum())

    @property
    def known_weight(self) -> np.ndarray:
        return self.level_known.sum(0)

    @cached_property
    def moments(self) -> np.ndarray:
        """Second moments of the numbers of each pattern, (P, g, g)."""
        return self.total(second_moments)[0]

    @cached_property
    def kurtosis(self) -> np.ndarray:
        """Kurtosis of the numbers within levels, at least 3, (g,). The variance of the logarithm of
        a sample variance is (kurtosis - 1) / n."""
        (sums,) = self.total(level_sums)
        second, fourth = self.total(central_moments, sums / np.maximum(self.level_known, 1e-300))
        total = np.maximum(self.known_weight, 1e-300)
        return np.maximum(fourth * total / np.maximum(second, 1e-150) ** 2, 3.0)


class Batch(NamedTuple):
    """Groups of consecutive rows, with positions relative to the first of them."""

    rows: slice
    groups: list[tuple]
    firsts: np.ndarray
    sizes: np.ndarray
    levels: np.ndarray
    patterns: np.ndarray

    @classmethod
    def of(cls, groups: list[tuple]) -> Batch:
        start, stop = groups[0][0], groups[-1][1]
        own = [(first - start, last - start, level, p) for first, last, level, p in groups]
        firsts, lasts, levels, patterns = np.array(own, dtype=np.intp).T
        return cls(slice(start, stop), own, firsts, lasts - firsts, levels, patterns)


class Rows(RowSums):
    """Sorted rows in memory.

    X           (n, q), see `Layout`
    groups      list of (first, last, level, pattern)
    level_groups  the same without patterns (0), for models whose natural parameters are the same
                for all patterns: those with a diagonal covariance
    order       position in the data of each sorted row
    """

    def __init__(
        self, columns: Columns, level: np.ndarray, n_levels: int, a: np.ndarray, max_patterns: int,
        design: Design | None = None, layout: Layout | None = None,
    ):  # fmt: skip
        """``layout``: that of all tiles; its constant sums are not computed for a single tile."""
        missing, no_flag = np.isnan(columns.numbers), np.isnan(columns.flags)
        is_tile = layout is not None
        pattern = np.zeros(len(level), dtype=np.intp)
        if layout is None:
            mask_of, flag_mask_of = (np.flatnonzero(x.any(0)) for x in (missing, no_flag))
            known: Any = np.ones((1, missing.shape[1]), bool)
            if mask_of.size:
                known, found = np.unique(~missing, axis=0, return_inverse=True)
                known, found = (None, pattern) if len(known) > max_patterns else (known, found)
                pattern = found.ravel()
            layout = Layout(columns, n_levels, design, mask_of, flag_mask_of, known)
            self._set_layout(layout)
        else:
            self._set_layout(layout)
            if len(self.patterns) > 1:
                place = {known.tobytes(): p for p, known in enumerate(self.patterns)}
                own, found = np.unique(~missing, axis=0, return_inverse=True)
                pattern = np.array([place[known.tobytes()] for known in own])[found.ravel()]
        self.order = np.lexsort((pattern, level))
        X = np.empty((len(level), self.n_columns))
        at = self.n_gauss + self.n_bern
        np.take(columns.numbers, self.order, axis=0, out=X[:, : self.n_gauss])
        np.take(columns.flags, self.order, axis=0, out=X[:, self.n_gauss : at])
        if self.mask_of.size or self.flag_mask_of.size:
            np.nan_to_num(X[:, :at], copy=False)
        for (first, last), (codes, _) in zip(self.categories, columns.categories):
            X[:, first:last] = codes[self.order, None] == np.arange(last - first)
        X[:, self.first_mask : self.first_flag_mask] = ~missing[:, self.mask_of][self.order]
        X[:, self.first_flag_mask :] = ~no_flag[:, self.flag_mask_of][self.order]
        self.X = X
        self.level, self.pattern, self.a = level[self.order], pattern[self.order], a[self.order]
        self.groups = self._runs(self.level * len(self.patterns) + self.pattern)
        self.level_groups = [(f, t, level, 0) for f, t, level, _ in self._runs(self.level)]
        self._batches: dict[bool, list[Batch]] = {}
        if not is_tile:
            self._sum_up()

    def total(self, kernel: Callable, *arguments: Any) -> list[Any]:
        return list(kernel(self, *arguments))

    def _runs(self, key: np.ndarray) -> list[tuple[int, int, int, int]]:
        """Runs of equal keys, of at most CHUNK rows each."""
        if key.size == 0:
            return []
        cuts = np.flatnonzero(np.diff(key)) + 1
        bounds = np.concatenate([[0], cuts, [key.size]]).astype(int)
        return [
            (at, min(at + CHUNK, int(t)), int(self.level[f]), int(self.pattern[f]))
            for f, t in pairwise(bounds)
            for at in range(int(f), int(t), CHUNK)
        ]

    def batches(self, full: bool) -> list[Batch]:
        """Consecutive groups of together at most about CHUNK rows: many small groups share the
        functions of the whole batch, and a batch stays in the cache."""
        if full not in self._batches:
            found: list[list[tuple]] = []
            for group in self.groups if full else self.level_groups:
                if not found or group[1] - found[-1][0][0] > CHUNK:
                    found.append([])
                found[-1].append(group)
            self._batches[full] = [Batch.of(groups) for groups in found]
        return self._batches[full]

    @property
    def masks(self) -> np.ndarray:
        return self.X[:, self.first_mask : self.first_flag_mask]


def read_tile(tile: np.ndarray, a: np.ndarray, work: tuple) -> tuple:
    """A kernel of `Rows` on a tile of a matrix: work = (reading, layout, kernel, arguments)."""
    reading, layout, kernel, arguments = work
    return tuple(kernel(reading.rows(tile, a, layout), *arguments))


class TiledRows(RowSums):
    """Rows of a matrix in tiles, in memory, in a file or on a cluster.

    matrix   `TiledMatrix`; reading: reading.rows(tile, a, layout) makes `Rows` of a tile, without
             those of weight 0. Tiles in memory are kept as `Rows`, except those of sparse matrices.
    """

    def __init__(self, matrix: Any, a: np.ndarray, reading: Any, layout: Layout):
        self.matrix, self.a, self.reading = matrix, a, reading
        self._set_layout(layout)
        self._kept: list[Rows] | None = None
        if matrix.in_memory and not matrix.sparse:
            kept = matrix.map(lambda tile, a: reading.rows(tile, a, layout), a)
            self._kept = list(kept)
        self._sum_up()

    def total(self, kernel: Callable, *arguments: Any) -> list[Any]:
        if self._kept is not None:
            parts = self.matrix.run(lambda rows: tuple(kernel(rows, *arguments)), self._kept)
        else:
            work = (self.reading, self.layout, kernel, arguments)
            parts = self.matrix.map(read_tile, self.a, coefs=work, additive=True)
        return self.matrix.total(parts)


class OneGroup(RowSums):
    """The same rows for models with one group: sums of the cells do not depend on parameters, so
    that one pass over the rows is enough for all iterations and all forms."""

    def __init__(self, rows: RowSums):
        vars(self).update(vars(rows))
        self._all = rows
        self.N, self.S = rows.total(sums_of_one)

    def total(self, kernel: Callable, *arguments: Any) -> list[Any]:
        return self._all.total(kernel, *arguments)


# --------------------------------------------------------------------------------------- kernels
def constant_sums(rows: Rows) -> tuple:
    """See `RowSums`: squares and known values by level, weights of levels and patterns, sums of the
    flags and categories."""
    g, a = rows.n_gauss, rows.a
    numbers = rows.X[:, :g]
    squares, known = (np.zeros((rows.n_levels, g)) for _ in range(2))
    for first, last, level, _ in rows.level_groups:
        own = a[first:last]
        squares[level] += own @ numbers[first:last] ** 2
        known[level] += own.sum()
        if rows.mask_of.size:
            known[level, rows.mask_of] += own @ (rows.masks[first:last] - 1.0)
    weight = np.bincount(rows.level, weights=a, minlength=rows.n_levels)
    patterns = np.bincount(rows.pattern, weights=a, minlength=len(rows.patterns))
    discrete = a @ rows.X[:, g : rows.first_mask]
    return squares, known, weight, patterns, discrete[: rows.n_bern], discrete[rows.n_bern :]


def second_moments(rows: Rows) -> tuple:
    g = rows.n_gauss
    moments = np.zeros((len(rows.patterns), g, g))
    for first, last, _, p in rows.groups:
        part = rows.X[first:last, :g]
        moments[p] += (part * rows.a[first:last, None]).T @ part
    return (moments,)


def level_sums(rows: Rows) -> tuple:
    sums = np.zeros((rows.n_levels, rows.n_gauss))
    for first, last, level, _ in rows.level_groups:
        sums[level] += rows.a[first:last] @ rows.X[first:last, : rows.n_gauss]
    return (sums,)


def central_moments(rows: Rows, means: np.ndarray) -> tuple:
    """Second and fourth moments around the means of the levels."""
    g = rows.n_gauss
    second, fourth = np.zeros(g), np.zeros(g)
    for first, last, level, _ in rows.level_groups:
        rest = rows.X[first:last, :g] - means[level]
        rest[:, rows.mask_of] *= rows.masks[first:last]
        second += rows.a[first:last] @ rest**2
        fourth += rows.a[first:last] @ rest**4
    return second, fourth


def cell_sums(rows: Rows, R: np.ndarray) -> tuple:
    """N and S of `Stats` for given responsibilities (n, K), in the order of ``rows``."""
    P, L, K = len(rows.patterns), rows.n_levels, R.shape[1]
    N, S = np.zeros((P, L, K)), np.zeros((P, L, K, rows.n_columns))
    for first, last, level, p in rows.groups:
        r = R[first:last] * rows.a[first:last, None]
        N[p, level] += r.sum(0)
        S[p, level] += r.T @ rows.X[first:last]
    return N, S


def sums_of_one(rows: Rows) -> tuple:
    return cell_sums(rows, np.ones((len(rows.X), 1)))


class Stats:
    """Sums of the cells: N (P, L, K) weights, S (P, L, K, q) weighted sums of the columns."""

    def __init__(self, rows: RowSums, N: np.ndarray, S: np.ndarray):
        self.rows, self.N, self.S = rows, N, S

    def swapped(self, levels: np.ndarray, one: int, other: int) -> Stats:
        """The sums if the rows of two groups at some levels changed places."""
        new = Stats(self.rows, self.N.copy(), self.S.copy())
        for k, h in ((one, other), (other, one)):
            new.N[:, levels, k] = self.N[:, levels, h]
            new.S[:, levels, k] = self.S[:, levels, h]
        return new

    @property
    def gauss(self) -> np.ndarray:
        return self.S[..., : self.rows.n_gauss]

    @property
    def bern(self) -> np.ndarray:
        g = self.rows.n_gauss
        return self.S[..., g : g + self.rows.n_bern]

    @property
    def masks(self) -> np.ndarray:
        return self.S[..., self.rows.first_mask : self.rows.first_flag_mask]

    @property
    def categories(self) -> np.ndarray:
        return self.S[..., self.rows.categories[0][0] : self.rows.categories[-1][1]]

    @classmethod
    def of_responsibilities(cls, rows: Rows, R: np.ndarray) -> Stats:
        """Sums for given responsibilities (n, K), in the order of ``rows``."""
        return cls(rows, *cell_sums(rows, R))
