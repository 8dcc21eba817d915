"""The mathematics of DCKM: what each term of the objective is, as sums over rows that add.

Glossary (letters of the paper where it has one)
    X        n x d   data                       T        n x t   treatment indicators in {0, 1}
    a        n       design weights             m        n       learned multipliers
    w        n       weights, w = a m           W        sum(w)
    S        d x t   X' diag(w) T               x        d       X' w
    s, c     t       T' w and W - s: total weight of the treated and of the control group
    D        d x t   mean of feature k among the treated of j minus its mean among the controls
    C        K x d   centres                    e        n       squared distance to the own centre

A term knows no estimator and no file. It is given ``rows``, which hands out tiles of X through
``rows.map(kernel, ...)`` in a fixed order; partial sums are added in that order, in float64, so the
result does not depend on the number of threads.
"""

from ._balance import Balance, Term, contrast, make_balance
from ._closed import Margins, effective_share, inertia, mass, spread
from ._pairs import (
    Effects,
    Pairs,
    Treatments,
    add_up,
    csr_of,
    csr_rows,
    group_rates,
    row_products,
    sum_of_squares,
    take_columns,
    weighted_sum,
)
from ._primal import PrimalBalance, SparsePrimalBalance
from ._scratch import detached, release, scratch
from ._symmetric import SymmetricPrimalBalance
from ._wide import LARGEST_MATRIX, PROBE_ERROR, DualBalance, ProbeBalance, probe_count

__all__ = [
    "LARGEST_MATRIX",
    "PROBE_ERROR",
    "Balance",
    "DualBalance",
    "Effects",
    "Margins",
    "Pairs",
    "PrimalBalance",
    "ProbeBalance",
    "SparsePrimalBalance",
    "SymmetricPrimalBalance",
    "Term",
    "Treatments",
    "add_up",
    "contrast",
    "csr_of",
    "csr_rows",
    "detached",
    "effective_share",
    "group_rates",
    "inertia",
    "make_balance",
    "mass",
    "probe_count",
    "release",
    "row_products",
    "scratch",
    "spread",
    "sum_of_squares",
    "take_columns",
    "weighted_sum",
]
