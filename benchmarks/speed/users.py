"""What users wait for: import, a fit with its report, the selection of k, suspects of many rows;
each relative to a named peer, or per row."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from unskew import SelectionMixture, TableEncoder, choose_k
from unskew.cli import main as unskew

from ._measure import Clock, cpu_seconds, figure
from .suspects import GROUPS, SITES, sites_matrix

MEMORY = """
import json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from benchmarks.speed._measure import watched_memory
from benchmarks.speed.suspects import GROUPS, SITES, sites_matrix
from unskew import DCKM
n, d = int(sys.argv[1]), int(sys.argv[2])
X = sites_matrix(n, d, np.float32)
model = DCKM(GROUPS, suspects=list(range(d, d + SITES)), random_state=0)
begin = time.perf_counter()
with watched_memory() as peak:
    model.fit(X)
print(json.dumps({"bytes": peak[0] * 2**20 / n, "seconds": time.perf_counter() - begin}))
"""


def importing(quick: bool) -> list[dict]:
    """Seconds of a new process that imports, the smallest of a few."""

    def run(words: str) -> None:
        subprocess.run([sys.executable, "-c", words], check=True)

    clock = Clock()
    ours, peer = clock.race(
        lambda: run("from unskew import DCKM"),
        lambda: run("from sklearn.cluster import KMeans"),
        3 if quick else 9,
    )
    alone = clock.best(lambda: run("import unskew"), 3)

    def cpu(words: str) -> float:
        def spent() -> float:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return used.ru_utime + used.ru_stime

        times = []
        for _ in range(5):
            before = spent()
            run(words)
            times.append(spent() - before)
        return min(times)

    by_cpu = cpu("from unskew import DCKM") / cpu("from sklearn.cluster import KMeans")
    more = {"seconds": ours, "peer_seconds": peer, "others": clock.others, "by_cpu": by_cpu}
    note = f"import unskew alone, which imports on first use: {alone:.2g} s"
    unit = "x from sklearn.cluster import KMeans"
    return [
        figure("from unskew import DCKM", "", ours / peer, unit, at_most=1.2, **more, note=note)
    ]


def report(quick: bool) -> list[dict]:
    """`unskew fit` of a csv file with a report, relative to reading the file and KMeans."""
    import polars as pl

    n, d = (20_000 if quick else 100_000), 30
    X = sites_matrix(n, d)
    rng = np.random.default_rng(1)
    columns = {f"x{k}": X[:, k].round(3) for k in range(d)}
    for k in range(10):
        cut = X[:, k] + rng.normal(size=n)
        columns[f"q{k}"] = np.array(["low", "middle", "high"])[np.digitize(cut, [-1, 1])]
    columns["site"] = np.array([f"s{s}" for s in range(SITES)])[X[:, d:].argmax(axis=1)]
    with tempfile.TemporaryDirectory(prefix="unskew-speed-") as folder:
        file, page = Path(folder) / "rows.csv", Path(folder) / "report.html"
        pl.DataFrame(columns).write_csv(file)
        words = [str(file), "-k", str(GROUPS), "-s", "site", "--report", str(page)]

        def ours() -> None:
            assert unskew(["fit", *words]) == 0

        def peer() -> None:
            table = pl.read_csv(file)
            encoded = TableEncoder().fit_transform(table.drop("site"))
            KMeans(GROUPS, n_init=10, random_state=0).fit(np.asarray(encoded))

        clock = Clock()
        first, second = clock.race(ours, peer, 2)
        by_cpu = cpu_seconds(ours) / cpu_seconds(peer)
    more = {"seconds": first, "peer_seconds": second, "others": clock.others, "by_cpu": by_cpu}
    what = "unskew fit of a csv file with report (mixture)"
    unit = "x reading, encoding and scikit-learn KMeans(4, n_init=10)"
    return [figure(what, f"{n} x 40 mixed", first / second, unit, at_most=5, **more)]


def harmony(quick: bool) -> list[dict]:
    """What `unskew fit --suspect` runs, relative to harmonypy on the same rows."""
    n, d = (20_000 if quick else 100_000), 30
    X = sites_matrix(n, d)
    table = np.column_stack([X[:, :d], X[:, d:].argmax(axis=1)])
    what, size = "SelectionMixture(4, suspects), default settings", f"{n} x {d}"
    unit = "x harmonypy.run_harmony, default settings"
    try:
        import harmonypy
    except ImportError:
        return [figure(what, size, None, unit, note="harmonypy is not installed")]
    import pandas as pd

    sites = pd.DataFrame({"site": table[:, d].astype(int).astype(str)})
    model = SelectionMixture(GROUPS, suspects=[d], kinds={d: "category"}, random_state=0)

    def peer() -> None:
        harmonypy.run_harmony(X[:, :d], sites, "site", verbose=False)

    clock = Clock()
    ours, theirs = clock.race(lambda: model.fit(table), peer, 1 if quick else 2)
    by_cpu = cpu_seconds(lambda: model.fit(table)) / cpu_seconds(peer)
    more = {"seconds": ours, "peer_seconds": theirs, "others": clock.others, "by_cpu": by_cpu}
    note = f"harmonypy {harmonypy.__version__}; without the k-means that follows it"
    return [figure(what, size, ours / theirs, unit, at_most=1, **more, note=note)]


def choice(quick: bool) -> list[dict]:
    """choose_k relative to as many KMeans(n_init=10)."""
    n, d = (20_000 if quick else 100_000), 40
    X = sites_matrix(n, d)
    rest = np.ascontiguousarray(X[:, :d])
    ks = range(2, 13)

    def peer() -> None:
        for k in ks:
            KMeans(k, n_init=10, random_state=0).fit(rest)

    named = list(range(d, d + SITES))
    clock = Clock()
    ours, theirs = clock.race(
        lambda: choose_k(X, ks, suspects=named, random_state=0), peer, 1
    )  # fmt: skip
    more = {"seconds": ours, "peer_seconds": theirs, "others": clock.others}
    unit = "x scikit-learn KMeans(k, n_init=10) for the same k"
    return [figure("choose_k, k = 2 to 12", f"{n} x {d}", ours / theirs, unit, at_most=5, **more)]


def memory(quick: bool) -> list[dict]:
    """Peak above the input of a fit with a suspect, in a process of its own."""
    n, d = (10**6 if quick else 10**7), 8
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(n), str(d)], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    what, size = "DCKM(4, suspects), default settings: peak above the input", f"{n} x {d}, float32"
    return [
        figure(what, size, found["bytes"], "bytes per row", at_most=16, seconds=found["seconds"])
    ]
