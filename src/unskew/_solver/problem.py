"""The objective, its gradient, and the constants of a fit. Letters as in ``_balance``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .. import _terms
from .._balance import Balance
from .._data.tiled import split_range
from .._kmeans import Distance
from .._rows import Rows
from .dual import DualState, DualWeights
from .snapshot import check_shape

TERMS = ("inertia", "balance", "spread", "margins", "mass")


class Problem(NamedTuple):
    """The constants of a fit.

    balance    the balance loss; None where there is no pair (its rate is then 0)
    distance   columns of the distance, or None for weights without clusters
    a          design weights, inverse_a = 1/a (0 where a is 0), design_sum = sum(a)
    weight_sum sum(w), fixed in ``alternate``
    min_ess    lower bound on the effective share, or None
    dual       the weight problem of named suspects, or None. It fixes the shares of the suspects:
               without this constraint the optimum puts all weight on one site, which is trivially
               balanced.
    margins    known shares of categories, or None; with ``dual`` they are constraints of it and
               their rate is 0
    """

    rows: Rows
    balance: Any
    distance: Any  # Distance, or None for weights alone
    a: np.ndarray
    inverse_a: np.ndarray
    design_sum: float
    weight_sum: float
    inertia_rate: float
    balance_rate: float
    spread_rate: float
    mass_rate: float = 0.0
    constant: float = 0.0
    min_ess: float | None = None
    dual: DualWeights | None = None
    margins: _terms.Margins | None = None
    margin_rate: float = 0.0

    def with_effects(self, distance: Distance) -> Problem:
        """The problem whose features are adjusted by the effects of ``distance``.

        The inertia is not part of the weight step here: with it, rows far from their centre are
        down-weighted, which halves the effective sample size of balanced data and costs 0.02 to
        0.07 ARI on the tinted digits.
        """
        balance, dual = self.balance, self.dual
        if balance is not None:
            pairs = [replace(p, effects=distance.effects) for p in balance.pair_blocks]
            balance = Balance(self.rows, pairs, form="primal")
            if dual is not None:
                dual = replace(dual, pairs=pairs[0], rho=0.0)
        return self._replace(balance=balance, dual=dual, distance=distance)

    def with_effects_of(self, B: np.ndarray) -> Problem:
        """``with_effects`` of the current distance at other coefficients."""
        assert self.distance is not None
        assert self.distance.effects is not None
        check_shape({"B": B}, "B", self.distance.effects.B)
        effects = replace(self.distance.effects, B=B)
        return self.with_effects(replace(self.distance, effects=effects))

    def effects_arrays(self) -> dict[str, np.ndarray]:
        """Coefficients of the effects, for a checkpoint."""
        effects = None if self.distance is None else self.distance.effects
        return {} if effects is None else {"B": effects.B}

    @property
    def keeps_distances(self) -> bool:
        """Whether squared distances of all rows are kept. Where the weights do not depend on them
        only their sum is needed, and many rows have no room for a vector of them."""
        return self.dual is None or bool(self.dual.rho)

    def terms(
        self, w: np.ndarray, inertia: float, balance: float | None = None
    ) -> dict[str, float]:
        """The terms of J, which is their sum."""
        if balance is None:
            balance = self.balance.value(w) if self.balance_rate else 0.0
        return {
            "inertia": self.inertia_rate * inertia,
            "balance": self.balance_rate * balance,
            "spread": self.spread_rate * _terms.spread(w, self.inverse_a) + self.constant,
            "margins": self.margin_rate * self.margins.value(w)
            if self.margins is not None
            else 0.0,
            "mass": self.mass_rate * _terms.mass(w) if self.mass_rate else 0.0,
        }

    def split(self, w: np.ndarray, e: np.ndarray, J: float) -> dict[str, float]:
        """The terms for known J: the balance is J minus the other terms."""
        terms = self.terms(w, _terms.inertia(w, e), balance=0.0)
        return {**terms, "balance": J - sum(terms.values())} if self.balance_rate else terms

    def value(self, w: np.ndarray, e: np.ndarray) -> float:
        return sum(self.terms(w, _terms.inertia(w, e)).values())

    def value_and_gradient(self, w: np.ndarray, e: np.ndarray) -> tuple[float, np.ndarray]:
        """J and dJ/dw at fixed e."""
        balance = 0.0
        if self.balance_rate:
            balance, gradient = self.balance.value_and_gradient(w)
            # In place and in chunks, here and below, to save temporary vectors of length n.
            gradient *= self.balance_rate
        else:
            gradient = np.zeros(w.size)
        for chunk in chunk_slices(w.size):
            part = (2.0 * self.spread_rate) * w[chunk]
            part *= self.inverse_a[chunk]
            part += self.inertia_rate * e[chunk]
            gradient[chunk] += part
        if self.margins is not None:
            gradient += self.margin_rate * self.margins.value_and_gradient(w)[1]
        if self.mass_rate:
            gradient += 2.0 * self.mass_rate * (w.sum() - 1.0)
        return sum(self.terms(w, _terms.inertia(w, e), balance).values()), gradient


class Solution(NamedTuple):
    """Result of a solver. ``dual`` and ``weight_C``: see ``State``; ``distance``: with effects."""

    w: np.ndarray
    clusters: Any  # Clusters, or None for weights alone
    objective: float
    history: dict[str, np.ndarray]
    n_iter: int
    status: str
    dual: DualState | None = None
    weight_C: np.ndarray | None = None
    distance: Any = None


class History:
    """Terms per iteration, for ``history_``."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def add(self, terms: dict[str, float], extra: dict[str, float] | None = None) -> float:
        """Add an iteration; ``extra`` numbers are recorded but not part of the objective."""
        objective = sum(terms.values())
        self.rows.append({"objective": objective, **terms, **(extra or {})})
        return objective

    def arrays(self) -> dict[str, np.ndarray]:
        names = self.rows[0] if self.rows else ("objective", *TERMS)
        return {name: np.array([r[name] for r in self.rows]) for name in names}


Watcher = Callable[[int, dict[str, float]], bool]


def watch_nothing(iteration: int, terms: dict[str, float]) -> bool:
    return False


def chunk_slices(n: int) -> list[slice]:
    return [slice(*bounds) for bounds in split_range(0, n, 2**18)]
