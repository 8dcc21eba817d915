"""Fits with a named suspect at default settings, relative to KMeans(4, n_init=10) on the other
columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from unskew._data.tiled import TiledMatrix
from unskew._solver.restarts import POLISHED
from unskew.consensus import ConsensusDCKM
from unskew.dckm import DCKM

from ._measure import Clock, cpu_seconds, figure

GROUPS = SITES = 4
# What is fitted, and the largest ratio to KMeans.
MODES = {"weights": 3.0, "effects": None, "both": 4.0}


def sites_matrix(n: int, d: int, dtype: Any = np.float64) -> np.ndarray:
    """Gaussian groups, sampled at sites with different rates; the site shifts the columns. The
    last columns are the indicators of the site."""
    rng = np.random.default_rng(0)
    group = rng.integers(GROUPS, size=n)
    site = np.where(rng.random(n) < 0.6, group % SITES, rng.integers(SITES, size=n))
    centre, shift = rng.normal(size=(GROUPS, d)), 0.7 * rng.normal(size=(SITES, d))
    X = np.empty((n, d + SITES), dtype=dtype)
    for start in range(0, n, 2**16):
        own = slice(start, min(n, start + 2**16))
        noise = 1.5 * rng.normal(size=(own.stop - start, d))
        X[own, :d] = centre[group[own]] + shift[site[own]] + noise
    X[:, d:] = site[:, None] == np.arange(SITES)
    return X


def passes_of(model: DCKM, X: np.ndarray) -> int:
    """Number of passes over all rows in a fit."""
    counted, run = [0], TiledMatrix.map

    def counting(self: TiledMatrix, *args: Any, **kwargs: Any) -> Any:
        counted[0] += self.n == len(X)
        return run(self, *args, **kwargs)

    TiledMatrix.map = counting  # type: ignore[method-assign]
    try:
        model.fit(X)
    finally:
        TiledMatrix.map = run  # type: ignore[method-assign]
    return counted[0]


def suspects(quick: bool) -> list[dict]:
    n, d = (20_000 if quick else 100_000), 80
    X = sites_matrix(n, d)
    named = list(range(d, d + SITES))
    plain = KMeans(GROUPS, n_init=10, random_state=0)
    rest = np.ascontiguousarray(X[:, :d])
    unit, size, out = "x scikit-learn KMeans(4, n_init=10)", f"{n} x {d}, float64", []

    def model(**how: Any) -> DCKM:
        return DCKM(GROUPS, suspects=named, random_state=0, **how)

    for adjust, limit in MODES.items():
        clock = Clock()
        ours, peer = clock.race(
            lambda: model(adjust=adjust).fit(X), lambda: plain.fit(rest), 3 if quick else 5  # noqa: B023
        )  # fmt: skip
        serial = cpu_seconds(lambda: model(adjust=adjust, n_threads=1).fit(X))  # noqa: B023
        more = {"seconds": ours, "peer_seconds": peer, "others": clock.others}
        more["by_cpu"] = serial / cpu_seconds(lambda: plain.fit(rest))
        target = {} if limit is None else {"at_most": limit}
        what = f"DCKM(4, suspects, adjust={adjust!r}), default settings"
        out.append(figure(what, size, ours / peer, unit, **target, **more))
    clock = Clock()
    consensus = ConsensusDCKM(GROUPS, suspects=named, random_state=0)
    ours, peer = clock.race(lambda: consensus.fit(X), lambda: plain.fit(rest), 1)
    more = {"seconds": ours, "peer_seconds": peer, "others": clock.others}
    out.append(
        figure("ConsensusDCKM, default settings", size, ours / peer, unit, at_most=6, **more)
    )
    passes = passes_of(model(), X) / POLISHED
    what = "passes over all rows in a default fit, per polished solution"
    out.append(figure(what, size, passes, "passes", at_most=25))
    big = sites_matrix(10 * n, d, np.float32)
    clock, small = Clock(), big[:n].copy()
    few = clock.best(lambda: model().fit(small), 3)
    many = clock.time(lambda: model().fit(big))
    times = {"seconds": many, "peer_seconds": few, "others": clock.others}
    size = f"{10 * n} x {d}, float32"
    out.append(
        figure(
            "DCKM(4, suspects): growth for ten times the rows",
            size,
            many / few,
            "x",
            at_most=10,
            **times,
        )
    )
    return out
