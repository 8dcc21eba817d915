"""The balance loss of several rectangles of pairs, each in the form that suits it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .binary import BinaryGramBalance, BinaryPrimalBalance
from .gram import GramBalance
from .primal import PrimalBalance, SparsePrimalBalance
from .sketch import PROBE_ERROR, SketchedBalance, probe_count
from .strips import BinaryStripBalance
from .treatments import LARGEST_MATRIX, Pairs

# Columns of a side that is made dense without a second thought, tile by tile.
NARROW = 64
# Weights of more rows are not compared with those of the last value: it costs as much as it saves.
# From MANY_ROWS on nothing is kept that has one number per row.
FEW_ROWS, MANY_ROWS = 2**16, 2**22


class Term(Protocol):
    """What the solver asks of a balance loss."""

    form: str

    def value(self, w: np.ndarray) -> float: ...

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]: ...


class Balance:
    """The balance loss of several rectangles of D: their forms are chosen one by one.

    form = "auto" takes the cheaper exact form (dual when n < d and n x n fits, primal otherwise,
    in strips where that is faster), and random probes only where neither fits in memory; or name
    one of "primal", "strips", "dual", "probes".
    """

    def __init__(self, rows: Any, pair_blocks: list[Pairs], *, form: str = "auto", seed: int = 0):
        self.rows, self.pair_blocks, self.seed = rows, pair_blocks, seed
        self.terms: list[Term] = [
            make_balance(rows, pairs, form, seed + i) for i, pairs in enumerate(pair_blocks)
        ]
        self.form = "+".join(dict.fromkeys(term.form for term in self.terms))
        self._first: tuple | None = None
        self._last: tuple | None = None

    @property
    def n_pairs(self) -> int:
        return sum(pairs.n_pairs for pairs in self.pair_blocks)

    def value(self, w: np.ndarray) -> float:
        if self._last is not None and _same(w, self._last[0]):
            return self._last[1]
        value = sum(term.value(w) for term in self.terms)
        if w.size <= FEW_ROWS:  # the end of a fit asks for what its last step has found
            self._last = w.copy(), value
        return value

    def begin(self, w: np.ndarray) -> float:
        """The value where a fit begins; its first gradient, at the same weights, is kept."""
        if w.size >= MANY_ROWS:
            return self.value(w)
        value, gradient = self.value_and_gradient(w)
        self._first = w.copy(), value, gradient
        return value

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        if self._first is not None:
            known, value, gradient = self._first
            if _same(w, known):
                return value, gradient.copy()
        parts = [term.value_and_gradient(w) for term in self.terms]
        gradient = parts[0][1]
        for _, g in parts[1:]:
            gradient = gradient + g
        return sum(value for value, _ in parts), gradient

    def explicit(self) -> list[Any]:
        """Terms whose gradient is a function of a row and of a message of moderate size."""
        return [
            make_balance(self.rows, pairs, "explicit", self.seed + i)
            for i, pairs in enumerate(self.pair_blocks)
        ]

    def report(self, w: np.ndarray) -> float:
        """The value to publish: exact forms as they are, probes drawn afresh (the weights were
        fitted to the first ones)."""
        if "sketch" not in self.form:
            return self.value(w)
        fresh = [
            term.afresh(self.seed + 10**6 + i) if isinstance(term, SketchedBalance) else term
            for i, term in enumerate(self.terms)
        ]
        return sum(term.value(w) for term in fresh)


def _same(w: np.ndarray, known: np.ndarray) -> bool:
    """Whether they are equal; most that are not differ at once."""
    return np.array_equal(w[:100], known[:100]) and np.array_equal(w, known)


def make_balance(rows: Any, pairs: Pairs, form: str, seed: int) -> Term:
    n, d, t = rows.n, pairs.features.size, len(pairs.treatments)
    if form == "explicit":
        form = "primal" if d * t <= LARGEST_MATRIX // 4 else "sketch"
    if form == "auto":
        fits = d * t <= LARGEST_MATRIX
        # X X' costs n n d once, which some twenty evaluations have to earn.
        squares = n * (t + d / 20) < d * t and n * n <= LARGEST_MATRIX
        if squares and (fits or n <= 4 * probe_count(PROBE_ERROR)):
            form = "gram"
        elif BinaryStripBalance.suits(rows, pairs):
            form = "strips"
        else:
            form = "primal" if fits else "sketch"
    if form == "gram":
        own = BinaryGramBalance.suits(rows, pairs)
        return (BinaryGramBalance if own else GramBalance)(rows, pairs)
    if form == "sketch":
        return SketchedBalance(rows, pairs, seed)
    if form == "strips" and pairs.symmetric:
        return BinaryStripBalance(rows, pairs)
    if pairs.symmetric:
        return BinaryPrimalBalance(rows, pairs)
    if rows.sparse and min(d, t) <= NARROW:
        return SparsePrimalBalance(rows, pairs)
    return PrimalBalance(rows, pairs)


def contrast(rows: Any, pairs: Pairs, w: np.ndarray) -> np.ndarray:
    """D itself, features x treatments, scaled, 0 where masked: for showing, not for fitting."""
    return PrimalBalance(rows, pairs).contrast(w)
