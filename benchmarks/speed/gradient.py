"""Time of one balance gradient relative to its operations at the machine's rate."""

from __future__ import annotations

import numpy as np

from unskew._balance import Balance
from unskew._data.tiled import TiledMatrix
from unskew._preprocessing import make_design

from ._measure import Clock, binary_matrix, cpu_seconds, figure, machine_rate, rate_of_one_thread

SIZES = [(958, 800), (20_000, 200), (1_000_000, 100)]


def gradient(quick: bool) -> list[dict]:
    out = []
    for n, d in SIZES:
        if quick and n > 10**5:
            n = 200_000
        X = binary_matrix(n, d)
        rows = TiledMatrix(X)
        with rows.executor:
            design = make_design(
                rows, np.ones(n), suspects=None, cluster_on="all", n_bins=5, standardise=True
            )
        w = np.random.default_rng(1).random(n)
        clock = Clock()
        # The machine's rate is measured before, between and after, and the best is used.
        rates, times = [machine_rate(clock)], []
        for _ in range(2):
            with design.rows.executor:
                loss = Balance(design.rows, design.pair_blocks)
                times.append(clock.best(lambda: loss.value_and_gradient(w), 3 if n > 10**5 else 9))  # noqa: B023
            rates.append(machine_rate(clock))
        design.rows.n_threads = 1
        with design.rows.executor:
            serial = cpu_seconds(lambda: loss.value_and_gradient(w), 3)  # noqa: B023
        by_cpu = serial * rate_of_one_thread() / (3 * n * d * d)
        seconds, peer = min(times), 3 * n * d * d / max(rates)
        out.append(
            figure(
                "one balance gradient, float32",
                f"{n} x {d}",
                seconds / peer,
                "x 3 n d^2 operations at the rate of a 2000 x 2000 product",
                seconds=seconds,
                peer_seconds=peer,
                others=clock.others,
                by_cpu=by_cpu,
                note=f"{max(rates) / 1e9:.0f} Gflop/s",
            )
        )
    return out
