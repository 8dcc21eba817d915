"""How time grows with rows, and with columns in the probe form; how good the probes are."""

from __future__ import annotations

import numpy as np

from unskew._balance import PROBE_ERROR, Balance, SketchedBalance
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
    what a fit costs once (the door, checks, threads) does not flatten the slope."""
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
    return [grown("one iteration (solver='paper') over n", sizes, times, f"n x {d}, uint8")]


def columns(quick: bool) -> list[dict]:
    sizes = [10**3, 10**4] if quick else [10**3, 10**4, 10**5]
    n, times = 1000, []
    for d in sizes:
        loss = make_balance(binary_matrix(n, d, np.uint8), "sketch")
        w = np.random.default_rng(1).random(n)
        with loss.rows.threads():
            repeats = 3 if d >= 10**5 else 10
            times.append(cpu_seconds(lambda: loss.value_and_gradient(w), repeats))  # noqa: B023
    what = "one balance gradient in probe form over d"
    return [grown(what, sizes, times, f"{n} x d, uint8"), *agreement(quick)]


def grown(what: str, sizes: list[int], times: list[float], size: str) -> dict:
    slope, steps = slopes(sizes, times)
    told = ", ".join(f"{s:.0e}: {t:.3g} s" for s, t in zip(sizes, times))
    by_decade = ", ".join(f"{s:.2f}" for s in steps)
    note = f"{told}; by decade {by_decade}"
    unit = "log-log slope of CPU seconds, one thread, least squares"
    return figure(what, size, slope, unit, within=(0.9, 1.1), note=note)


def make_balance(X: np.ndarray, form: str) -> Balance:
    rows = TiledMatrix(X, n_threads=1)
    with rows.threads():
        design = make_design(
            rows, np.ones(len(X)), suspects=None, cluster_on="all", n_bins=5, standardise=True
        )
    return Balance(design.rows, design.pair_blocks, form=form)


def agreement(quick: bool) -> list[dict]:
    """Relative error of the value, root mean square of several draws, beside the stated bound."""
    n, d = 2000, 1000
    exact = make_balance(binary_matrix(n, d, groups=10), "primal")
    w = np.random.default_rng(1).random(n)
    with exact.rows.threads():
        truth = exact.value(w)
        values = [
            SketchedBalance(exact.rows, exact.pair_blocks[0], seed).value(w)
            for seed in range(5 if quick else 30)
        ]
    off = np.array(values) / truth - 1
    note = f"{off.size} draws, largest {np.abs(off).max():.4f}"
    what, unit = "probe form beside the exact value", "relative error (root mean square)"
    error = float(np.sqrt((off**2).mean()))
    return [figure(what, f"{n} x {d}", error, unit, at_most=PROBE_ERROR, note=note)]
