"""Memory of a fit to a large file, and its results compared with those of the array in memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from unskew.dckm import DCKM

from ._measure import binary_matrix, figure

HOW = {
    "n_clusters": 10,
    "suspects": [0],
    "init": "random",
    "n_init": 1,
    "max_iter": 1,
    "tol": 0.05,
    "random_state": 0,
}
FIT = """
import json, resource, sys, warnings
warnings.simplefilter("ignore")
from unskew import DCKM
model = DCKM(**json.loads(sys.argv[2])).fit(sys.argv[1])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"peak_mb": peak / 2**10, "clusters": len(set(model.labels_.tolist()))}))
"""


def write_npy(path: Path, n: int, d: int) -> None:
    """0/1 data with ten clusters, written block by block without having all in memory."""
    rng = np.random.default_rng(0)
    limits = np.linspace(25, 90, d).astype(np.uint8)
    header = {"descr": "|u1", "fortran_order": False, "shape": (n, d)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, 20_000):
            count = min(20_000, n - start)
            own = rng.integers(0, 10, count)[:, None] == np.arange(d) % 10
            chance = limits + np.uint8(100) * own.astype(np.uint8)
            draws = rng.integers(0, 256, (count, d), dtype=np.uint8)
            file.write((draws < chance).astype(np.uint8).tobytes())


def fit_of_file(folder: str, what: str, n: int, d: int, how: dict, limit: float | None) -> dict:
    """Peak memory of a process that fits a .npy file of n x d uint8."""
    size = f"{n} x {d} ({n * d / 1e9:.2g} GB)"
    unit = "MB resident at the peak, whole process"
    free, wanted = shutil.disk_usage(folder).free, n * d + 2**30
    if free < wanted:
        note = f"{folder} has {free / 1e9:.1f} GB free and needs {wanted / 1e9:.1f}"
        return figure(what, size, None, unit, note=note)
    path = Path(folder) / "rows.npy"
    write_npy(path, n, d)
    begin = time.perf_counter()
    words = [sys.executable, "-c", FIT, str(path), json.dumps(how)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    found = json.loads(done.stdout.splitlines()[-1])
    more = {"seconds": seconds, "note": f"{found['clusters']} clusters"}
    target = {} if limit is None else {"at_most": limit}
    return figure(what, size, found["peak_mb"], unit, **target, **more)


def long_file(quick: bool) -> list[dict]:
    """Many rows: labels and weights of all rows are in memory, 12 bytes a row."""
    n = 10**6 if quick else 10**8
    with tempfile.TemporaryDirectory(prefix="unskew-speed-") as folder:
        what = "a .npy of uint8, one suspect, one round, restarts screened"
        return [fit_of_file(folder, what, n, 20, {**HOW, "n_init": 2}, None)]


def file(quick: bool) -> list[dict]:
    n, d = (200_000, 100) if quick else (6_000_000, 1_000)
    what = "a .npy of uint8, one suspect, one round of descent"
    with tempfile.TemporaryDirectory(prefix="unskew-speed-") as folder:
        out = [fit_of_file(folder, what, n, d, HOW, 1e9 / 2**20)]
        small = binary_matrix(100_000, 100, np.uint8, groups=10)
        path = Path(folder) / "small.npy"
        np.save(path, small)
        read, in_memory = DCKM(**HOW).fit(path), DCKM(**HOW).fit(small)
    same = bool(
        (read.labels_ == in_memory.labels_).all() and (read.weights_ == in_memory.weights_).all()
    )
    what = "the same file as an array in memory: labels and weights"
    out.append(figure(what, "100000 x 100", same, "the same bits", holds=same))
    return out
