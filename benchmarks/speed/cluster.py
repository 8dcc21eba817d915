"""Two Dask workers compared with the same rows in memory; a killed worker; a lost scheduler."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import numpy as np

from unskew._data.tiled import TILES_PER_GROUP, tile_rows
from unskew._io import need
from unskew.dckm import DCKM

from ._measure import PAPER, Clock, binary_matrix, family_seconds, figure


def cluster(quick: bool) -> list[dict]:
    # Imported by name, because dask is optional and used only here.
    dask = need("unskew.dask", "dask", "the benchmark of clusters")
    distributed = need("distributed", "dask", "the benchmark of clusters")
    arrays = need("dask.array", "dask", "the benchmark of clusters")
    n, d = (200_000 if quick else 2_000_000), 100
    X = binary_matrix(n, d, np.uint8, groups=5)
    block = tile_rows(X.shape, sparse=False) * TILES_PER_GROUP * 6
    how: dict[str, Any] = {"n_clusters": 5, "init": X[:5].astype(float), "max_iter": 5, **PAPER}
    size = f"{n} x {d}, uint8, blocks of {block} rows"
    local, clock = DCKM(**how), Clock()
    spent = family_seconds()
    in_memory = clock.best(lambda: local.fit(X), 2)
    spent = family_seconds() - spent
    begin = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    out = []
    with begin as workers, distributed.Client(workers) as client:
        persisted = client.persist(arrays.from_array(X, chunks=(block, d)))
        distributed.wait(persisted)
        model = dask.DaskDCKM(client, **how)
        spent_here = family_seconds()
        seconds = clock.best(lambda: model.fit(persisted), 2)
        by_cpu = (family_seconds() - spent_here) / spent
        times = {"seconds": seconds, "peer_seconds": in_memory, "others": clock.others}
        times["by_cpu"] = by_cpu
        what, unit = "Dask, 2 workers: 5 iterations (solver='paper')", "x the time in memory"
        out.append(figure(what, size, seconds / in_memory, unit, at_most=1.5, **times))
        same = bool((model.weights_ == local.weights_).all())
        what = "Dask: weights and those of the array in memory"
        out.append(figure(what, size, same, "the same bits", holds=same))

        killed = []

        def kill() -> None:
            time.sleep(0.4 * seconds)
            address = next(iter(client.scheduler_info()["workers"]))
            killed.append(address)
            client.run(os._exit, 1, workers=[address], on_error="ignore")

        killer = threading.Thread(target=kill)
        killer.start()
        model.fit(persisted)
        killer.join()
        same = bool((model.weights_ == local.weights_).all() and killed)
        what = "Dask: the same after a worker was killed in the middle"
        out.append(figure(what, size, same, "the same bits", holds=same))

        stop = threading.Timer(0.3 * seconds, workers.close)
        stop.start()
        began, error = time.perf_counter(), "no error"
        try:
            dask.DaskDCKM(client, **{**how, "max_iter": 500}).fit(persisted)
        except dask.SchedulerGone as gone:
            error = f"SchedulerGone: {gone}"
        took = time.perf_counter() - began
        stop.join()
        clear = error.startswith("SchedulerGone")
        what = "Dask: the scheduler gone"
        note = error.split(" at ")[0] + " ..." if clear else error
        unit = "a clear error"
        out.append(figure(what, size, clear, unit, holds=clear, seconds=took, note=note))
    return out
