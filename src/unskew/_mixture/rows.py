"""Rows as the expectation step reads them: sorted by level and by pattern of missing values."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

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


class Rows:
    """Sorted rows with their constant sums.

    X           (n, q): numbers and flags (0 where missing), categories one-hot, then one column
                for each number, and each flag, with missing values: 1 where known
    groups      list of (first, last, level, pattern)
    level_groups  the same without patterns (0), for models whose natural parameters are the same
                for all patterns: those with a diagonal covariance
    patterns    for each pattern which numbers are known; one entry, all True, where patterns are
                not distinguished (no missing values, or too many patterns)
    order       position in the data of each sorted row
    design      effects of the levels, `Design`; the identity where None is given
    """

    def __init__(
        self, columns: Columns, level: np.ndarray, n_levels: int, a: np.ndarray, max_patterns: int,
        design: Design | None = None,
    ):  # fmt: skip
        self.design = Design.of_levels(n_levels) if design is None else design
        numbers = columns.numbers
        missing = np.isnan(numbers)
        n, self.n_gauss = numbers.shape
        self.n_bern = columns.flags.shape[1]
        self.n_levels = n_levels
        self.floor = columns.floor
        self.mask_of = np.flatnonzero(missing.any(0))
        self.patterns_exact = True
        pattern = np.zeros(n, dtype=np.intp)
        self.patterns = [np.ones(self.n_gauss, bool)]
        if self.mask_of.size:
            known, pattern = np.unique(~missing, axis=0, return_inverse=True)
            pattern = pattern.ravel()
            self.patterns = list(known)
            if len(known) > max_patterns:
                self.patterns_exact = False
                pattern = np.zeros(n, dtype=np.intp)
                self.patterns = [np.ones(self.n_gauss, bool)]
        self.order = np.lexsort((pattern, level))
        one_hot = [
            (codes[:, None] == np.arange(M)).astype(float) for codes, M in columns.categories
        ]
        no_flag = np.isnan(columns.flags)
        self.flag_mask_of = np.flatnonzero(no_flag.any(0))
        parts = [np.where(missing, 0.0, numbers), np.where(no_flag, 0.0, columns.flags), *one_hot]
        parts.append((~missing[:, self.mask_of]).astype(float))
        parts.append((~no_flag[:, self.flag_mask_of]).astype(float))
        self.X = np.concatenate(parts, axis=1)[self.order]
        self.level, self.pattern, self.a = level[self.order], pattern[self.order], a[self.order]
        self.categories, at = [], self.n_gauss + self.n_bern
        for _, M in columns.categories:
            self.categories.append((at, at + M))
            at += M
        self.first_mask, self.first_flag_mask = at, at + self.mask_of.size
        self._group()
        self._sum_up()

    def _group(self) -> None:
        self.groups = self._runs(self.level * len(self.patterns) + self.pattern)
        self.level_groups = [(f, t, level, 0) for f, t, level, _ in self._runs(self.level)]

    def _runs(self, key: np.ndarray) -> list[tuple[int, int, int, int]]:
        """Runs of equal keys, of at most CHUNK rows each."""
        cuts = np.flatnonzero(np.diff(key)) + 1
        bounds = np.concatenate([[0], cuts, [key.size]]).astype(int)
        return [
            (at, min(at + CHUNK, int(t)), int(self.level[f]), int(self.pattern[f]))
            for f, t in pairwise(bounds)
            for at in range(int(f), int(t), CHUNK)
        ]

    def _sum_up(self) -> None:
        g, a = self.n_gauss, self.a
        numbers = self.X[:, :g]
        self.level_squares, self.level_known = (np.zeros((self.n_levels, g)) for _ in range(2))
        for first, last, level, _ in self.level_groups:
            own = a[first:last]
            self.level_squares[level] += own @ numbers[first:last] ** 2
            self.level_known[level] += own.sum()
        if self.mask_of.size:
            self.level_known[:, self.mask_of] = 0.0
            np.add.at(
                self.level_known, (self.level[:, None], self.mask_of), a[:, None] * self.masks
            )
        self.squares, self.known_weight = a @ numbers**2, np.full(g, a.sum())
        self.known_weight[self.mask_of] = a @ self.masks
        self.moments = [np.zeros((g, g)) for _ in self.patterns]
        self.pattern_weight = np.zeros(len(self.patterns))
        for first, last, _, p in self.groups:
            part = numbers[first:last]
            self.moments[p] += (part * a[first:last, None]).T @ part
            self.pattern_weight[p] += a[first:last].sum()
        total = max(float(a.sum()), 1e-300)
        flags = self.X[:, g : g + self.n_bern]
        # Half a row of each value: shares inside (0, 1).
        self.bern_share = (a @ flags + 0.5) / (total + 1.0)
        self.category_share = []
        for first, last in self.categories:
            weight = a @ self.X[:, first:last] + 0.5
            self.category_share.append(weight / weight.sum())

    @cached_property
    def kurtosis(self) -> np.ndarray:
        """Kurtosis of the numbers within levels, at least 3, (g,). The variance of the logarithm of
        a sample variance is (kurtosis - 1) / n."""
        g, n = self.n_gauss, np.maximum(self.level_known, 1e-300)
        second, fourth = np.zeros(g), np.zeros(g)
        known = np.ones((len(self.X), g))
        known[:, self.mask_of] = self.masks
        sums = np.zeros((self.n_levels, g))
        for first, last, level, _ in self.level_groups:
            sums[level] += self.a[first:last] @ self.X[first:last, :g]
        for first, last, level, _ in self.level_groups:
            rest = (self.X[first:last, :g] - sums[level] / n[level]) * known[first:last]
            second += self.a[first:last] @ rest**2
            fourth += self.a[first:last] @ rest**4
        total = np.maximum(self.level_known.sum(0), 1e-300)
        return np.maximum(fourth * total / np.maximum(second, 1e-300) ** 2, 3.0)

    @property
    def masks(self) -> np.ndarray:
        return self.X[:, self.first_mask : self.first_flag_mask]

    @property
    def level_weight(self) -> np.ndarray:
        return np.bincount(self.level, weights=self.a, minlength=self.n_levels)


class Stats:
    """Sums of the cells: N (P, L, K) weights, S (P, L, K, q) weighted sums of the columns."""

    def __init__(self, rows: Rows, K: int):
        P, L, q = len(rows.patterns), rows.n_levels, rows.X.shape[1]
        self.rows = rows
        self.N, self.S = np.zeros((P, L, K)), np.zeros((P, L, K, q))

    def swapped(self, levels: np.ndarray, one: int, other: int) -> Stats:
        """The sums if the rows of two groups at some levels changed places."""
        new = Stats(self.rows, self.N.shape[2])
        new.N, new.S = self.N.copy(), self.S.copy()
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
        stats = cls(rows, R.shape[1])
        for first, last, level, p in rows.groups:
            r = R[first:last] * rows.a[first:last, None]
            stats.N[p, level] += r.sum(0)
            stats.S[p, level] += r.T @ rows.X[first:last]
        return stats
