"""The balance loss and its gradient, from sums over tiles of rows.

Glossary (letters of the paper where it has one)
    X        n x d   data                       T        n x t   treatment indicators in {0, 1}
    a        n       design weights             m        n       learned multipliers
    w        n       weights, w = a m           W        sum(w)
    S        d x t   X' diag(w) T               x        d       X' w
    s, c     t       T' w and W - s: total weight of the treated and of the control group
    D        d x t   mean of feature k among the treated of j minus its mean among the controls
    C        K x d   centres                    e        n       squared distance to its centre

A term does not depend on estimators or files. It is given ``rows``, which passes tiles of X to
``rows.map(kernel, ...)`` in a fixed order; partial sums are added in that order, in float64, so the
result does not depend on the number of threads.
"""

from .binary import BinaryPrimalBalance
from .gram import BinaryGramBalance, GramBalance
from .loss import Balance, Term, contrast, make_balance
from .primal import PrimalBalance, SparsePrimalBalance, sums_of
from .treatments import LARGEST_MATRIX, Effects, Pairs, Treatments, concat_treatments, group_rates

__all__ = [
    "LARGEST_MATRIX",
    "Balance",
    "BinaryGramBalance",
    "BinaryPrimalBalance",
    "Effects",
    "GramBalance",
    "Pairs",
    "PrimalBalance",
    "SparsePrimalBalance",
    "Term",
    "Treatments",
    "concat_treatments",
    "contrast",
    "group_rates",
    "make_balance",
    "sums_of",
]
