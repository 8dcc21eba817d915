"""Distribution of the p-values of `audit` for columns that are no traces of the collection.

    python -m benchmarks.candidate_tests docs/results/candidates.png

A site that is independent of the other columns (p of dependence, which should be uniform), and one
that has a selection only (p of an effect, which should be below alpha in at most 2 alpha of the
tables). Two groups, two values of the site, four numbers.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unskew.diagnostics import audit

TABLES, ROWS = 200, 400


def p_value(role: str, seed: int) -> float:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, ROWS)
    share = np.where(y == 1, 0.8, 0.3) if role == "selection" else 0.5
    site = np.where(rng.random(ROWS) < share, "north", "south")
    x = rng.normal(size=(ROWS, 4)) + 3.0 * y[:, None] * np.array([1, 1, 0, 0])
    table = pd.DataFrame(x, columns=list("abcd")).assign(site=site)
    (one,) = audit(table, suspects="site", random_state=seed).candidates
    return one.p_effect if role == "selection" else one.p_dependence


def main() -> None:
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    titles = {"neither": "independent column: p of dependence",
              "selection": "selection only: p of an effect"}  # fmt: skip
    for ax, (role, title) in zip(axes, titles.items()):
        p = np.sort([p_value(role, seed) for seed in range(TABLES)])
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
        ax.step(p, np.arange(1, TABLES + 1) / TABLES, where="post", color="#0072b2")
        ax.set(title=title, xlabel="p", ylabel="share of the tables", xlim=(0, 1), ylim=(0, 1))
        print(
            f"{title}: below .05 in {np.mean(p < 0.05):.3f} of {TABLES} tables, mean {p.mean():.2f}"
        )
    figure.savefig(sys.argv[1], dpi=150)


if __name__ == "__main__":
    main()
