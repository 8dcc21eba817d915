"""The balance loss of several blocks of pairs, in the cheapest form for each block."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .._rows import Rows
from .binary import BinaryPrimalBalance
from .gram import BinaryGramBalance, GramBalance
from .primal import PrimalBalance, SparsePrimalBalance
from .treatments import LARGEST_MATRIX, Pairs

# Maximum number of columns of a sparse tile that are made dense.
NARROW = 64


class Term(Protocol):
    """Interface of a balance loss."""

    form: str

    def value(self, w: np.ndarray) -> float: ...

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]: ...


class Balance:
    """The balance loss, summed over blocks of D; the form of each block depends on its shape.

    form = "auto" selects the cheaper of two exact forms: "gram" where n < d and an n x n matrix
    fits in memory, "primal" otherwise. Or pass one of them.
    """

    def __init__(self, rows: Rows, pair_blocks: list[Pairs], *, form: str = "auto"):
        self.rows, self.pair_blocks = rows, pair_blocks
        self.terms: list[Term] = [make_balance(rows, pairs, form) for pairs in pair_blocks]
        self.form = "+".join(dict.fromkeys(term.form for term in self.terms))

    @property
    def n_pairs(self) -> int:
        return sum(pairs.n_pairs for pairs in self.pair_blocks)

    def value(self, w: np.ndarray) -> float:
        return sum(term.value(w) for term in self.terms)

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        parts = [term.value_and_gradient(w) for term in self.terms]
        gradient = parts[0][1]
        for _, g in parts[1:]:
            gradient = gradient + g
        return sum(value for value, _ in parts), gradient


def make_balance(rows: Rows, pairs: Pairs, form: str) -> Term:
    """The balance loss of one block; raises where neither exact form fits in memory."""
    n, d, t = rows.n, pairs.features.size, len(pairs.treatments)
    fits = d * t <= LARGEST_MATRIX
    if form == "auto":
        # X X' costs n n d once, which is amortised over about twenty evaluations.
        saves = n * (t + d / 20) < d * t and n * n <= LARGEST_MATRIX
        form = "gram" if saves and rows.in_memory else "primal"
    if form == "gram":
        kind = BinaryGramBalance if BinaryGramBalance.suits(rows, pairs) else GramBalance
        return kind(rows, pairs)
    if not fits:
        raise ValueError(
            f"the balance of {d:,} columns with {t:,} indicators of other columns needs a matrix "
            f"of {d * t:,} entries; at most {LARGEST_MATRIX:,} are allowed. Set suspects=[...], "
            "whose balance is linear in the number of columns, or reduce the columns, for example "
            "with unskew.feature_selection or a PCA"
        )
    if pairs.symmetric:
        return BinaryPrimalBalance(rows, pairs)
    if rows.sparse and min(d, t) <= NARROW:
        return SparsePrimalBalance(rows, pairs)
    return PrimalBalance(rows, pairs)


def contrast(rows: Rows, pairs: Pairs, w: np.ndarray) -> np.ndarray:
    """D, features x treatments, scaled, 0 where excluded: for diagnostics."""
    return PrimalBalance(rows, pairs).contrast(w)
