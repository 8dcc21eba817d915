"""Timing, memory measurement and data of the speed benchmarks."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

# The authors' procedure; an iteration is one sweep of k-means and one step of the weights.
PAPER = {
    "objective": "paper",
    "solver": "paper",
    "balance_strength": 0.01,
    "spread_strength": 10,
    "n_init": 1,
    "tol": 0.0,
}


def figure(what: str, size: str, value: Any, unit: str, **more: Any) -> dict:
    """One row: a number, its unit, and with ``at_most``, ``at_least`` or ``within`` its target."""
    target, met = "", None
    if "at_most" in more:
        limit = more.pop("at_most")
        target, met = f"<= {limit:.6g}", bool(value <= limit)
    if "at_least" in more:
        limit = more.pop("at_least")
        target, met = f">= {limit:.6g}", bool(value >= limit)
    if "within" in more:
        low, high = more.pop("within")
        target, met = f"{low:.3g} to {high:.3g}", bool(low <= value <= high)
    if "holds" in more:
        target, met = "yes", more.pop("holds")
    row = {"what": what, "size": size, "figure": value, "unit": unit, "target": target, "met": met}
    if "by_cpu" in more and met is not None:
        more["met_by_cpu"] = bool(more["by_cpu"] <= limit)
    if met is not None and more.get("others", 0.0) > QUIET:
        row["met"] = None  # undecided, because other processes used the machine
    return {**row, **more}


# Largest share of the cores used by other processes for which a timing is valid.
QUIET = 0.1


def family_seconds() -> float:
    """CPU seconds of this process and its children."""
    process = psutil.Process()
    total = 0.0
    for each in [process, *process.children(recursive=True)]:
        try:
            spent = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system
    return total


class Clock:
    """Measures wall time and the CPU use of other processes meanwhile."""

    def __init__(self) -> None:
        self.busy = self.wall = 0.0

    @property
    def others(self) -> float:
        """Share of all cores that other processes used while this clock ran."""
        return max(0.0, self.busy) / (self.wall * (psutil.cpu_count() or 1)) if self.wall else 0.0

    def time(self, function: Callable[[], Any]) -> float:
        before, own = psutil.cpu_times(), family_seconds()
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            function()
        took = time.perf_counter() - begin
        after = psutil.cpu_times()
        names = ("user", "nice", "system", "irq", "softirq", "steal")
        spent = sum(getattr(after, n, 0.0) - getattr(before, n, 0.0) for n in names)
        self.busy += spent - (family_seconds() - own)
        self.wall += took
        return took

    def best(self, function: Callable[[], Any], repeats: int) -> float:
        """Smallest of a few runs, because other processes can only increase the time."""
        return min(self.time(function) for _ in range(repeats))

    def race(self, ours: Callable, peer: Callable, repeats: int) -> tuple[float, float]:
        """Smallest time of each, alternating, so that both have the same disturbances."""
        runs = [(self.time(ours), self.time(peer)) for _ in range(repeats)]
        return min(a for a, _ in runs), min(b for _, b in runs)


def cpu_seconds(function: Callable[[], Any], repeats: int = 1) -> float:
    """CPU seconds of this process with BLAS and OpenMP on one thread, the smallest of a few runs.

    Other processes affect it through the cache only, so that it is usable on a shared machine.
    """
    times = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(repeats):
            begin = time.process_time()
            function()
            times.append(time.process_time() - begin)
    return min(times)


@contextmanager
def watched_memory():
    """A list whose only entry is the peak of resident memory, in MB above the initial value."""
    process = psutil.Process()
    base = process.memory_info().rss
    peak = [0.0]
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], (process.memory_info().rss - base) / 2**20)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def machine_rate(clock: Clock) -> float:
    """float32 operations per second of a 2000 x 2000 matrix product, all cores."""
    A = np.random.default_rng(0).random((2000, 2000), dtype=np.float32)
    return 2 * 2000**3 / clock.best(lambda: A @ A, 7)


def rate_of_one_thread() -> float:
    A = np.random.default_rng(0).random((2000, 2000), dtype=np.float32)
    return 2 * 2000**3 / cpu_seconds(lambda: A @ A, 3)


def binary_matrix(n: int, d: int, dtype: Any = np.float32, groups: int = 1) -> np.ndarray:
    """0/1 with column rates between .1 and .5, generated in pieces without a float64 copy.

    With groups, the rates of a group's own columns are larger.
    """
    rng = np.random.default_rng(0)
    rates = np.linspace(0.1, 0.5, d, dtype=np.float32)
    X = np.empty((n, d), dtype=dtype)
    for start in range(0, n, 10_000):
        part = X[start : start + 10_000]
        chance = np.broadcast_to(rates, part.shape)
        if groups > 1:
            own = rng.integers(0, groups, len(part))[:, None] == np.arange(d) % groups
            chance = chance + np.float32(0.3) * own
        part[:] = rng.random(part.shape, dtype=np.float32) < chance
    return X
