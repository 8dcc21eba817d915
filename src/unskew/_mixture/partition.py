"""BIC of a given partition, by which solutions of k-means with weights and effects are compared.

Inertia cannot be compared between solutions with different effects or weights. The likelihood can:

    x | cluster k, level l  ~  N(C_k + B_l, Sigma),  B_l ~ N(0, tau^2),  P(k | l) = pi_kl

Parameters are those of the partition: C, Sigma, pi and the posterior of B at its labels. The value
is the likelihood of the mixture with these parameters, not that of the labels, which would reward
clusters that are the levels. Two-valued columns are Bernoulli. Sigma is diagonal or full, B is
present or 0; the form with the lowest BIC counts.
"""

from __future__ import annotations

import numpy as np

from .design import Design
from .em import Choice, Mixture, bic, e_step
from .gaussian import MIN_VARIANCE
from .rows import Columns, Rows, Stats

# More patterns of missing values, or numeric columns, than this: diagonal covariances only.
MAX_PATTERNS, MAX_FULL = 50, 128
# Updates of means, covariance and tau, which depend on each other.
M_STEPS = 4


class PartitionCriterion:
    """BIC of partitions of the same rows.

    level (n,): the combination of values of the suspects; a (n,): design weights, of which the
    scale does not matter; design: effects of the levels, free where None is given; own: a form of
    the model besides the usual ones.
    """

    def __init__(
        self,
        columns: Columns,
        level: np.ndarray,
        a: np.ndarray,
        design: Design | None = None,
        own: Choice | None = None,
    ):
        n_levels = int(level.max()) + 1 if design is None else len(design.codes)
        a = a / a[a > 0].mean()
        self.rows = Rows(columns, level, n_levels, a, MAX_PATTERNS, design)
        full = 1 < columns.numbers.shape[1] <= MAX_FULL and self.rows.patterns_exact
        self.forms = [
            Choice(covariance, effects, "free")
            for covariance in (("diag", "full") if full else ("diag",))
            for effects in ("none", "shift")
        ]
        self.forms.append(Choice("diag", "per-group", "free"))
        if own is not None and own not in self.forms:
            self.forms.append(own)

    @classmethod
    def of_matrix(
        cls, X: np.ndarray, level: np.ndarray, a: np.ndarray, source: np.ndarray | None = None
    ) -> PartitionCriterion:
        """Of a matrix (n, d) with nan where a value is missing. ``source`` (d,): two-valued columns
        of one source are the indicators of a category; None: each column is a source."""
        X = np.asarray(X, dtype=np.float64)
        source = np.arange(X.shape[1]) if source is None else source
        low, high = np.fmin.reduce(X), np.fmax.reduce(X)  # nan where all values are missing
        varies = high > low
        X, source, low, high = X[:, varies], source[varies], low[varies], high[varies]
        two_valued = ((X == low) | (X == high)).all(axis=0)
        numbers = X[:, ~two_valued]
        spread = np.nanstd(numbers, axis=0)
        numbers = (numbers - np.nanmean(numbers, axis=0)) / spread
        single, codes = merge_indicators((X == high)[:, two_valued], source[two_valued])
        level = np.unique(level, return_inverse=True)[1]
        floor = np.full(spread.size, MIN_VARIANCE)
        return cls(Columns(numbers, floor, single.astype(np.float64), codes), level, a)

    def bic(self, labels: np.ndarray, K: int, effects: bool = True) -> float:
        """``effects``: whether the clusters are those of rows whose effects were removed; B is 0
        otherwise."""
        one_hot = np.eye(K)[labels[self.rows.order]]
        stats = Stats.of_responsibilities(self.rows, one_hot)
        n, found = float(self.rows.a.sum()), []
        for form in self.forms:
            if form.effects != "none" and not effects:
                continue
            model = Mixture(self.rows, K, form)
            for _ in range(M_STEPS):
                model.m_step(stats)
            marginal, _ = model.value(self.rows, e_step(self.rows, model)[0], stats)
            found.append(bic(marginal, model, n))
        return min(found)


def merge_indicators(flags: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, list]:
    """Flags that are alone in their source, and of each other source the codes of its rows and
    their number: as independent flags a category would count several times."""
    single: list[int] = []
    codes: list[tuple[np.ndarray, int]] = []
    for one in np.unique(source):
        own = np.flatnonzero(source == one)
        if own.size == 1:
            single.append(int(own[0]))
        else:
            values, code = np.unique(flags[:, own], axis=0, return_inverse=True)
            codes.append((code.ravel(), len(values)))
    return flags[:, single], codes
