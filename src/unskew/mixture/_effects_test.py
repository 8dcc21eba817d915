"""Tests of the form of the effects: whether all sites measure the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._mixture.draw import draw_columns, draw_labels
from .._mixture.em import Choice, Mixture, bic, run_em
from .._mixture.rows import Columns, Rows, Stats

# Nested hypotheses: same measurement at all levels; same shift for all groups.
PAIRS = (("none", "shift"), ("shift", "per-group"))
MAX_ITER = 100


def compare_effects(
    rows: Rows, columns: Columns, R: np.ndarray, choice: Choice, n_bootstrap: int, rng: Any
) -> list[dict]:
    """Likelihood-ratio tests of nested effects with a parametric bootstrap; see
    `SelectionMixture.test_effects`. R (n, K): responsibilities in the order of the data."""
    found = {name: _fit(rows, R, choice, name) for pair in PAIRS for name in pair}
    out = []
    for null, other in PAIRS:
        value = _statistic(found[null], found[other])
        above = 0
        for _ in range(n_bootstrap):
            drawn, own = _simulate(found[null].model, rows, columns, rng)
            fits = [_fit(drawn, own, choice, name) for name in (null, other)]
            above += _statistic(*fits) >= value
        n = float(rows.a.sum())
        scores = [bic(found[name].marginal, found[name].model, n) for name in (null, other)]
        p = (1 + above) / (1 + n_bootstrap) if n_bootstrap else None
        out.append(
            {
                "null": null,
                "alternative": other,
                "statistic": value,
                "p_value": p,
                "bic_difference": scores[1] - scores[0],
            }
        )
    return out


def _statistic(null: Any, other: Any) -> float:
    """2 log(p(x | alternative) / p(x | null)), effects integrated out. The alternative contains the
    null: where its scales are 0 they are the same."""
    return max(2.0 * (other.marginal - null.marginal), 0.0)


def _fit(rows: Rows, R: np.ndarray, choice: Choice, effects: str) -> Any:
    model = Mixture(rows, R.shape[1], choice._replace(effects=effects))
    stats = Stats.of_responsibilities(rows, R[rows.order])
    return run_em(rows, model, stats, max_iter=MAX_ITER, tol=1e-6)


def _simulate(model: Mixture, rows: Rows, columns: Columns, rng: Any) -> tuple[Rows, np.ndarray]:
    """Rows of the same levels, weights and missing values, and their groups as responsibilities."""
    level = np.empty_like(rows.level)
    level[rows.order] = rows.level
    a = np.empty_like(rows.a)
    a[rows.order] = rows.a
    labels = draw_labels(model.shares[level], rng)
    drawn = draw_columns(model, level, labels, rng)
    numbers = np.where(np.isnan(columns.numbers), np.nan, drawn.numbers)
    flags = np.where(np.isnan(columns.flags), np.nan, drawn.flags)
    codes = [
        (np.where(given < 0, -1, new), M)
        for (given, _), (new, M) in zip(columns.categories, drawn.categories)
    ]
    patterns = len(rows.patterns) if rows.patterns_exact else 0
    made = Columns(numbers, columns.floor, flags, codes)
    drawn_rows = Rows(made, level, rows.n_levels, a, patterns, rows.design)
    return drawn_rows, np.eye(model.K)[labels]
