"""Growth of the time with rows, and with columns if a suspect is named."""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew._balance import Balance
from unskew._data.tiled import TiledMatrix
from unskew._preprocessing import make_design
from unskew.dckm import DCKM

from ._measure import PAPER, binary_matrix, cpu_seconds, figure


def slopes(sizes: list[int], times: list[float]) -> tuple[float, list[float]]:
    """Log-log slope by least squares, and from each size to the next."""
    x, y = np.log10(sizes), np.log10(times)
    return float(np.polyfit(x, y, 1)[0]), (np.diff(y) / np.diff(x)).tolist()


def rows(quick: bool) -> list[dict]:
    """CPU seconds of one iteration: the difference of a fit with more and one with fewer, so that
    fixed costs of a fit (input validation, threads) do not bias the slope."""
    sizes, d = [10**4, 10**5, 10**6, 10**7][: 2 if quick else 4], 50
    times = []
    for n in sizes:
        X = binary_matrix(n, d, np.uint8, groups=5)
        many = 2 if n >= 10**7 else 4 if n >= 10**6 else 10
        how = {"init": X[:5].astype(float), "n_threads": 1, **PAPER}
        few, more = (DCKM(5, max_iter=i, **how) for i in (1, 1 + many))
        repeats = 1 if n >= 10**7 else 2 if n >= 10**6 else 7
        short = cpu_seconds(lambda: few.fit(X), repeats)  # noqa: B023
        long = cpu_seconds(lambda: more.fit(X), repeats)  # noqa: B023
        times.append(max(long - short, 1e-9) / many)
    what = "one iteration (solver='paper') over n"
    return [grown(what, sizes, times, f"n x {d}, uint8", within=(0.9, 1.1))]


def columns(quick: bool) -> list[dict]:
    sizes = [10**3, 10**4] if quick else [10**3, 10**4, 10**5]
    n, times = 1000, []
    for d in sizes:
        loss = make_balance(binary_matrix(n, d, np.uint8))
        w = np.random.default_rng(1).random(n)
        with loss.rows.executor:
            repeats = 3 if d >= 10**5 else 10
            times.append(cpu_seconds(lambda: loss.value_and_gradient(w), repeats))  # noqa: B023
    what = "one balance gradient over d, one suspect named"
    return [grown(what, sizes, times, f"{n} x d, uint8")]


def grown(what: str, sizes: list[int], times: list[float], size: str, **target: Any) -> dict:
    slope, steps = slopes(sizes, times)
    listed = ", ".join(f"{s:.0e}: {t:.3g} s" for s, t in zip(sizes, times))
    by_decade = ", ".join(f"{s:.2f}" for s in steps)
    note = f"{listed}; by decade {by_decade}"
    unit = "log-log slope of CPU seconds, one thread, least squares"
    return figure(what, size, slope, unit, note=note, **target)


def make_balance(X: np.ndarray) -> Balance:
    rows = TiledMatrix(X)
    with rows.executor:
        design = make_design(
            rows,
            np.ones(len(X)),
            suspects=np.array([0]),
            cluster_on="all",
            n_bins=5,
            standardise=True,
        )
    return Balance(design.rows, design.pair_blocks)
