"""SelectionMixture on files: peak memory, time by the number of rows, results as in memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from unskew.mixture import SelectionMixture

from ._measure import figure

COLUMNS, GROUPS, SITES = 40, 4, 4
HOW = {"n_components": GROUPS, "suspects": [COLUMNS - 1], "random_state": 0}
FIT = """
import json, resource, sys, warnings
warnings.simplefilter("ignore")
from unskew import SelectionMixture
model = SelectionMixture(**json.loads(sys.argv[2])).fit(sys.argv[1])
used = resource.getrusage(resource.RUSAGE_SELF)
found = {"peak_mb": used.ru_maxrss / 2**10, "seconds": used.ru_utime + used.ru_stime}
print(json.dumps({**found, "n_iter": model.n_iter_, **model.choice_}))
"""


def write_sites(path: Path, n: int) -> None:
    """Gaussian groups at sites with different shares that shift the columns, written in pieces; the
    last column is the site."""
    rng = np.random.default_rng(0)
    d = COLUMNS - 1
    centre, shift = rng.normal(size=(GROUPS, d)), 0.7 * rng.normal(size=(SITES, d))
    header = {"descr": "<f4", "fortran_order": False, "shape": (n, COLUMNS)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, 2**16):
            count = min(2**16, n - start)
            group = rng.integers(GROUPS, size=count)
            site = np.where(rng.random(count) < 0.6, group % SITES, rng.integers(SITES, size=count))
            X = rng.normal(size=(count, d), scale=1.5) + centre[group] + shift[site]
            file.write(np.column_stack([X, site]).astype("<f4").tobytes())


def fit_file(path: Path) -> dict:
    """Peak memory, CPU seconds and form of a fit in a process of its own."""
    command = [sys.executable, "-c", FIT, str(path), json.dumps(HOW)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def mixture_file(quick: bool) -> list[dict]:
    sizes = (20_000, 100_000) if quick else (100_000, 1_000_000, 10_000_000)
    what, out, seconds = "SelectionMixture of a .npy of float32, default settings", [], []
    with tempfile.TemporaryDirectory(prefix="unskew-speed-") as folder:
        free, wanted = shutil.disk_usage(folder).free, 4 * COLUMNS * sizes[-1] + 2**30
        if free < wanted:
            note = f"{folder} has {free / 1e9:.1f} GB free and needs {wanted / 1e9:.1f}"
            return [figure(what, f"{sizes[-1]} x {COLUMNS}", None, "MB", note=note)]
        path = Path(folder) / "rows.npy"
        for n in sizes:
            write_sites(path, n)
            found = fit_file(path)
            seconds.append(found["seconds"])
            note = f"{found['seconds']:.0f} s of CPU, {found['n_iter']} iterations"
            note += f", {found['covariance']} {found['effects']} {found['selection']}"
            unit = "MB resident at the peak, whole process"
            more = {"note": note, "at_most": 1e9 / 2**20}
            out.append(figure(what, f"{n} x {COLUMNS}", found["peak_mb"], unit, **more))
        grown = (seconds[-1] - seconds[-2]) / (seconds[-2] - seconds[-3]) if not quick else None
        if grown is not None:
            # The search on 3,000 rows takes the same time for all sizes.
            what = "more CPU time for 9,000,000 more rows than for 900,000"
            out.append(figure(what, "10^5 to 10^7 rows", grown, "times", within=(5.0, 15.0)))
        write_sites(path, sizes[0])
        read = SelectionMixture(**HOW).fit(path)
        in_memory = SelectionMixture(**HOW).fit(np.load(path))
    names = ("labels_", "weights_", "means_", "shares_se_", "bic_")
    same = all(np.array_equal(getattr(read, k), getattr(in_memory, k)) for k in names)
    what = "the same file as an array in memory: labels, weights, means, BIC"
    out.append(figure(what, f"{sizes[0]} x {COLUMNS}", same, "the same bits", holds=same))
    return out
