"""Time and memory as ratios in one run: to this machine's matrix product, to scikit-learn."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from .. import feature_selection
from .._blocks import Rows
from .._encode import encode
from .._terms import Balance
from ..dckm import DCKM
from . import render
from .render import Table
from .runner import made_by, versions, write_rows

GRADIENTS = [(958, 800), (20_000, 200), (1_000_000, 100)]
PAPER_SIZES = [("dslr", 157, 800), ("amazon", 958, 800)]


def best_time(function: Callable[[], Any], repeats: int = 3) -> float:
    """Smallest of a few runs: other work on the machine only ever adds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            function()
        times.append(time.perf_counter() - begin)
    return min(times)


def peak_memory(function: Callable[[], Any]) -> float:
    """Megabytes of resident memory above the start while ``function`` runs."""
    process = psutil.Process()
    base = peak = process.memory_info().rss
    done = threading.Event()

    def look() -> None:
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            function()
    finally:
        done.set()
        watcher.join()
    return (peak - base) / 2**20


def machine_rate() -> float:
    """float32 operations a second of a 2000 x 2000 matrix product, all cores."""
    A = np.random.default_rng(0).random((2000, 2000), dtype=np.float32)
    return 2 * 2000**3 / best_time(lambda: A @ A, 7)


def binary_matrix(n: int, d: int, dtype: Any = np.float32) -> np.ndarray:
    """0/1 with column rates between .1 and .5, made in pieces: no float64 copy is ever held."""
    rng = np.random.default_rng(0)
    rates = np.linspace(0.1, 0.5, d, dtype=np.float32)
    X = np.empty((n, d), dtype=dtype)
    for start in range(0, n, 10_000):
        part = X[start : start + 10_000]
        part[:] = rng.random(part.shape, dtype=np.float32) < rates
    return X


def gradient_row(n: int, d: int, rate: float) -> dict:
    """One balance gradient, as a multiple of 3 n d^2 operations at the machine's rate."""
    X = binary_matrix(n, d)
    a = np.ones(n)
    rows = Rows(X)
    with rows.threads():
        encoded = encode(rows, a, suspects=None, cluster_on="all", n_bins=5, standardise=True)
    w = np.random.default_rng(1).random(n)
    with encoded.rows.threads():
        loss = Balance(encoded.rows, encoded.rectangles, form="primal")
        seconds = best_time(lambda: loss.value_and_gradient(w), 5 if n < 10**5 else 3)
    return {
        "what": "one balance gradient, float32",
        "size": f"{n} x {d}",
        "seconds": seconds,
        "peer": "3 n d^2 operations at the rate of a 2000 x 2000 product",
        "ratio": seconds / (3 * n * d * d / rate),
    }


def procedure_row(name: str, n: int, d: int) -> dict:
    """20 iterations of the authors' procedure against scikit-learn's KMeans(10, n_init=10)."""
    X = np.where(binary_matrix(n, d) > 0, 1, -1).astype(np.float32)
    model = DCKM(
        10, scale="paper", solver="paper", balance_strength=0.01, spread_strength=10, n_init=1,
        max_iter=20, tol=0.0, random_state=0,
    )  # fmt: skip
    seconds = best_time(lambda: model.fit(X))
    peer = best_time(lambda: KMeans(10, n_init=10, random_state=0).fit(X))
    return {
        "what": "20 iterations of the authors' procedure",
        "size": f"{n} x {d} (as {name})",
        "seconds": seconds,
        "peer": "scikit-learn KMeans(10, n_init=10)",
        "ratio": seconds / peer,
    }


def large_row(n: int, d: int, dtype: Any) -> dict:
    """10 rounds of DCKM against 10 iterations of KMeans from the same centres, and its memory."""
    X = binary_matrix(n, d, dtype)
    centres = X[:10].astype(np.float64)
    model = DCKM(10, init=centres, max_iter=10, tol=0.0)
    memory = peak_memory(lambda: model.fit(X))
    seconds = best_time(lambda: model.fit(X), 1)
    plain = KMeans(10, init=centres.astype(np.float32), n_init=1, max_iter=10, tol=0)
    as_float = X if dtype == np.float32 else X.astype(np.float32)
    peer = best_time(lambda: plain.fit(as_float), 1)
    return {
        "what": f"10 rounds of DCKM, {np.dtype(dtype).name} input",
        "size": f"{n} x {d}",
        "seconds": seconds,
        "peer": "scikit-learn KMeans, 10 iterations, same start",
        "ratio": seconds / peer,
        "peak_mb": memory,
        "input_mb_float32": 4 * n * d / 2**20,
    }


def selector_row(name: str, n: int, d: int) -> dict:
    """Ranking of all features with default settings, as in the paper's sizes."""
    X = binary_matrix(n, d, np.float64)
    settings = {} if name == "REFS" else {"n_clusters": 10}
    selector = getattr(feature_selection, name)(**settings)
    took: list[float] = []
    memory = peak_memory(lambda: took.append(best_time(lambda: selector.fit(X), 1)))
    peer = best_time(lambda: KMeans(10, n_init=10, random_state=0).fit(X))
    return {
        "what": f"{name}, default settings",
        "size": f"{n} x {d}",
        "seconds": took[0],
        "peer": "scikit-learn KMeans(10, n_init=10)",
        "ratio": took[0] / peer,
        "peak_mb": memory,
    }


def speed(folder: Path, cache: Path, *, quick: bool, command: str) -> list[Path]:
    """One figure after the other, nothing taken from ``cache``: timings are of one run."""
    rate = machine_rate()
    rows = [gradient_row(n, d, rate) for n, d in (GRADIENTS[:2] if quick else GRADIENTS)]
    rows += [procedure_row(*size) for size in PAPER_SIZES]
    n = 50_000 if quick else 1_000_000
    rows += [large_row(n, 100, dtype) for dtype in (np.float32, np.uint8)]
    rows += [selector_row(name, 1123, 800) for name in ("REFS", "RUFS", "FSASL")]
    for row in rows:
        row["versions"] = versions()
    columns = ["what", "size", "seconds", "ratio", "peer", "peak_mb", "input_mb_float32"]
    table = Table("Speed", columns, [[row.get(c) for c in columns] for row in rows])
    intro = (
        f"{made_by(command)} This machine: {rate / 1e9:.0f} Gflop/s in a 2000 x 2000 float32 "
        f"product, {psutil.cpu_count()} cores. peak_mb is resident memory above the input."
    )
    write_rows(rows, folder / "speed.parquet")
    facts = {"machine_gflops": rate / 1e9, "rows": rows}
    return [
        *render.save_tables(folder, "speed", "Speed and memory", intro, [table]),
        render.save_text(folder / "speed.json", json.dumps(facts, indent=1)),
    ]
