"""Time and memory relative to this machine's matrix product and to scikit-learn, in one run.

Each benchmark is a function ``name(quick) -> rows``, run in a separate process, so that memory
measurements are independent and a failure is a row.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import psutil

from .. import render
from ..render import ResultTable
from ..runner import made_by, versions, write_rows
from ._measure import QUIET, figure

# benchmark -> module
QUESTIONS = {
    "gradient": "gradient",
    "procedure": "procedure",
    "million_float32": "large",
    "million_uint8": "large",
    "sparse": "large",
    "rows": "growth",
    "columns": "growth",
    "file": "files",
    "long_file": "files",
    "cluster": "cluster",
    "threads": "threads",
    "suspects": "suspects",
    "mixture_file": "mixture_files",
    "memory": "users",
    "choice": "users",
    "report": "users",
    "harmony": "users",
    "importing": "users",
    "selectors": "selectors",
}
# Targets of earlier versions that no longer hold, and why.
WITHDRAWN = [
    (
        "20 iterations of the authors' procedure: 1.2 (amazon) and 1.0 (dslr) x KMeans",
        "2 x is enough: these are a second of work. The kernels that reached them (strips, "
        "deferred calls, a pointer into BLAS, exact layers, stored values) were 1,180 lines; only "
        "the two-valued form for n < d was worth 1.3 x and came back, in 60 lines.",
    ),
    (
        "one balance gradient: 1.5, 1.5 and 2.0 x its operations at the rate of a matrix product",
        "Missed when measured: 1.87, 2.49 and 3.11. They belonged to the same kernels. With "
        "suspects, which is what users have, no gradient over all rows is computed; the figures "
        "are shown without a target.",
    ),
    (
        "probe form: slope over d, error of its value",
        "The form is gone, because it raised the exact imbalance (1.006 after / before; exact form "
        ".971). All pairs of very wide data are refused; the error names suspects as the way out.",
    ),
]
# Timeout of a benchmark in seconds.
PATIENCE = 3600.0


def question(name: str) -> Callable[[bool], list[dict]]:
    return getattr(import_module(f"{__name__}.{QUESTIONS[name]}"), name)


def ask(name: str, quick: bool, patience: float = PATIENCE) -> list[dict]:
    """Rows of one benchmark, run in a separate process; a failure is a row with met=False."""
    words = [sys.executable, "-m", f"{__name__}", name, *(["--quick"] if quick else [])]
    begin = time.perf_counter()
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=patience, check=False)
        if done.returncode == 0:
            rows = json.loads(done.stdout.splitlines()[-1])
            return [{"question": name, **row} for row in rows]
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
    except subprocess.TimeoutExpired:
        reason = f"timeout after {patience:.0f} s"
    took = time.perf_counter() - begin
    row = figure(f"{name}: failed", "", None, "", seconds=took, note=reason)
    return [{"question": name, **row, "met": False}]


COLUMNS = {
    "what": "what",
    "size": "size",
    "figure": "figure",
    "target": "target",
    "met": "met",
    "by_cpu": "by CPU seconds",
    "unit": "unit",
    "seconds": "seconds",
    "peer_seconds": "reference seconds",
    "others": "others' share of the cores",
    "note": "note",
}


def as_cell(name: str, row: dict) -> object:
    value = row.get(name)
    if name == "met" and value is None and row["target"]:
        by_cpu = {True: "; by CPU yes", False: "; by CPU NO", None: ""}
        return "disturbed" + by_cpu[row.get("met_by_cpu")]
    if isinstance(value, bool):
        return "yes" if value else "NO" if name == "met" else "no"
    if isinstance(value, float) and name == "others":
        return f"{value:.0%}"
    if isinstance(value, float) and name == "figure" and value >= 100:
        return f"{value:,.0f}"
    return value


def speed(folder: Path, cache: Path, *, quick: bool, command: str) -> list[Path]:
    """Run all benchmarks serially; ``cache`` is not used, so that all timings are of one run."""
    rows: list[dict] = []
    for number, name in enumerate(QUESTIONS, 1):
        begin = time.perf_counter()
        rows += ask(name, quick)
        took = time.perf_counter() - begin
        print(f"{number} of {len(QUESTIONS)}: {name}, {took:.0f} s", file=sys.stderr, flush=True)
    return save(rows, folder, quick=quick, command=command)


def save(rows: list[dict], folder: Path, *, quick: bool, command: str) -> list[Path]:
    """Write the tables, and all rows as Parquet and JSON."""
    aimed = [row for row in rows if row["target"] or row["met"] is False]
    met = sum(row["met"] is True for row in aimed)
    open_ = sum(row["met"] is None for row in aimed)
    cells = [[as_cell(c, row) for c in COLUMNS] for row in rows]
    size = "Small sizes (--quick); the targets are for the full sizes. " if quick else ""
    intro = (
        f"{made_by(command)} {size}{met} of {len(aimed)} targets met"
        f"{f', {open_} undecided' if open_ else ''}. "
        f"{psutil.cpu_count()} cores; times are the smallest of a few runs, alternating with the "
        "reference. Others' share: share of all cores used by other processes; above "
        f"{QUIET:.0%} a target is undecided, because the ratio may be biased in either direction. "
        "By CPU seconds: the same ratio in CPU seconds, one thread each (Dask: of all processes)."
    )
    tables = [
        ResultTable("Speed", list(COLUMNS.values()), cells),
        ResultTable("Targets withdrawn", ["target", "why"], [list(row) for row in WITHDRAWN]),
    ]
    flat = [
        {**row, "figure": None if row["figure"] is None else float(row["figure"])} for row in rows
    ]
    write_rows(flat, folder / "speed.parquet")
    facts = {
        "versions": json.loads(versions()),
        "cores": psutil.cpu_count(),
        "quick": quick,
        "targets": len(aimed),
        "met": met,
        "undecided": open_,
        "rows": rows,
    }
    return [
        *render.save_tables(folder, "speed", "Speed and memory", intro, tables),
        render.save_text(folder / "speed.json", json.dumps(facts, indent=1)),
    ]
