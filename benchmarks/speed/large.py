"""A million rows, and wide sparse rows: time relative to KMeans with the same initialization, and
memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans

from unskew.dckm import DCKM

from ._measure import PAPER, Clock, binary_matrix, cpu_seconds, figure, watched_memory

ITERATIONS = 10


def compare(X: Any, K: int, repeats: int, **how: Any) -> tuple[float, dict, float]:
    """DCKM and KMeans with the same initial centres: ratio, times, peak MB of DCKM above the
    input."""
    clock = Clock()
    start = X[:K].toarray() if sp.issparse(X) else X[:K]
    model = DCKM(K, init=start.astype(np.float64), max_iter=ITERATIONS, **how)
    with watched_memory() as peak:
        seconds = clock.time(lambda: model.fit(X))
    plain = KMeans(K, init=start.astype(np.float32), n_init=1, max_iter=ITERATIONS, tol=0)
    numbers = X.astype(np.float32, copy=False)
    runs = [clock.time(lambda: plain.fit(numbers))]
    for _ in range(repeats - 1):
        seconds = min(seconds, clock.time(lambda: model.fit(X)))
        runs.append(clock.time(lambda: plain.fit(numbers)))
    times = {"seconds": seconds, "peer_seconds": min(runs), "others": clock.others}
    if repeats > 1:
        one = DCKM(K, init=start.astype(np.float64), max_iter=ITERATIONS, n_threads=1, **how)
        serial = cpu_seconds(lambda: one.fit(X))
        times["by_cpu"] = serial / cpu_seconds(lambda: plain.fit(numbers))
    return seconds / min(runs), times, peak[0]


def million(dtype: str, quick: bool) -> list[dict]:
    n, d = (50_000 if quick else 1_000_000), 100
    X = binary_matrix(n, d, np.dtype(dtype))
    allowed = 0.25 * 4 * n * d / 2**20 + 300
    unit = "x scikit-learn KMeans, 10 iterations, same initialization"
    size = f"{n} x {d}, {dtype}"
    ratio, times, memory = compare(X, 10, 3, **PAPER)
    what = "10 iterations (one sweep and one weight step each: solver='paper')"
    out = [
        figure(what, size, ratio, unit, at_most=8, **times),
        figure(f"{what}: peak above the input", size, memory, "MB", at_most=allowed),
    ]
    if dtype == "float32":
        ratio, times, memory = compare(X, 10, 1, tol=0.0)
        what = "10 rounds of the default descent (converged k-means, 20 quasi-Newton steps each)"
        out.append(figure(what, size, ratio, unit, **times))
        out.append(figure(f"{what}: peak above the input", size, memory, "MB", at_most=allowed))
    return out


def million_float32(quick: bool) -> list[dict]:
    return million("float32", quick)


def million_uint8(quick: bool) -> list[dict]:
    return million("uint8", quick)


def sparse(quick: bool) -> list[dict]:
    n, d, filled, K = (10_000 if quick else 100_000), 20_000, 50, 20
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, d, (n, filled)), axis=1).astype(np.int32).ravel()
    ends = np.arange(0, n * filled + 1, filled)
    X = sp.csr_matrix((np.ones(columns.size, np.float32), columns, ends), shape=(n, d))
    X.sum_duplicates()  # a few of the 50 indices coincide
    X.data[:] = 1
    size = f"{n} x {d}, {filled} non-zeros a row, K = {K}"
    ratio, times, memory = compare(X, K, 4, suspects=[0], **PAPER)
    what = "10 iterations on CSR rows (solver='paper', one suspect named)"
    unit = "x scikit-learn KMeans, 10 iterations, same initialization"
    return [
        figure(what, size, ratio, unit, at_most=10, **times),
        figure(f"{what}: peak above the input", size, memory, "MB", at_most=2048),
    ]
