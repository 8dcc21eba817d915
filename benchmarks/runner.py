"""Tasks in, stored rows out: parallel, resumable, a failed task is a row with its reason."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn

import unskew
from unskew._parallel import one_blas_thread


class StudyFailed(RuntimeError):
    """Tasks failed that the result cannot do without."""


@dataclass(frozen=True)
class Task:
    """One piece of work that shares its preparation, e.g. one method with one setting on one data
    set, for all seeds. ``function(**arguments)`` returns rows (dicts); the task's own fields are
    added to each of them."""

    study: str
    dataset: str
    method: str
    function: Callable[..., list[dict]]
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        what = [self.study, self.dataset, self.method, self.settings, self.arguments]
        return json.dumps(what, sort_keys=True, default=str)

    @property
    def file(self) -> str:
        return hashlib.sha256(self.key.encode()).hexdigest()[:20] + ".parquet"


def made_by(command: str) -> str:
    """The sentence that opens every result."""
    return f"Made by `{command}` on {time.strftime('%Y-%m-%d', time.gmtime())}."


def versions() -> str:
    """What the numbers were made with."""
    return json.dumps(
        {
            "unskew": unskew.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        }
    )


def perform(task: Task) -> list[dict]:
    """Run one task with BLAS on one thread: tasks are the parallel part."""
    common = {
        "study": task.study,
        "dataset": task.dataset,
        "method": task.method,
        "settings": json.dumps(task.settings, sort_keys=True, default=str),
        "versions": versions(),
    }
    begin = time.perf_counter()
    try:
        with one_blas_thread():
            rows = task.function(**task.arguments)
        status = {"status": "ok", "reason": ""}
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        rows = [{}]
        place = f"{Path(where.filename).name}:{where.lineno}"
        status = {"status": "failed", "reason": f"{type(error).__name__}: {error} ({place})"}
    seconds = {"task_seconds": time.perf_counter() - begin}
    return [{**common, **status, **seconds, **row} for row in rows]


def write_rows(rows: list[dict], path: Path) -> None:
    """Parquet under a temporary name, then renamed: a file is whole or absent."""
    import polars as pl

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_rows(folder: Path, tasks: Iterable[Task]):
    """The stored rows of these tasks as one polars table."""
    import polars as pl

    found = [folder / task.file for task in tasks]
    frames = [pl.read_parquet(path) for path in found if path.exists()]
    if not frames:
        raise FileNotFoundError(f"{folder} holds no results of this study yet")
    return pl.concat(frames, how="diagonal_relaxed")


def run(tasks: list[Task], folder: Path, *, jobs: int = -1, retry_failed: bool = False) -> Any:
    """Do what is not stored yet, in parallel, and return all rows of ``tasks``.

    Each finished task is stored at once in ``folder``, so an interrupted run continues where it
    stopped. Failed tasks are rows with status "failed" and a reason; they are done again only with
    ``retry_failed``.
    """
    import polars as pl

    folder = Path(folder)
    waiting = []
    for task in tasks:
        path = folder / task.file
        if path.exists() and not (
            retry_failed and pl.read_parquet(path)["status"].eq("failed").any()
        ):
            continue
        waiting.append(task)
    progress = ProgressBar(len(tasks), len(tasks) - len(waiting))
    parallel = joblib.Parallel(
        n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs"
    )
    with progress:
        for name in parallel(joblib.delayed(_perform_and_store)(task, folder) for task in waiting):
            progress.advance(name)
    return read_rows(folder, tasks)


def _perform_and_store(task: Task, folder: Path) -> str:
    write_rows(perform(task), folder / task.file)
    return f"{task.dataset} {task.method}"


class ProgressBar:
    """A bar with the time left on a terminal; a plain line every half minute elsewhere."""

    def __init__(self, total: int, done: int) -> None:
        self.total, self.done, self.before = total, done, done
        self.begin = self.last_printed = time.monotonic()
        self.bar: Any = None

    def __enter__(self) -> ProgressBar:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self.bar = Bar(
                TextColumn("{task.description:30}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self.bar.start()
            self.task = self.bar.add_task("", total=self.total, completed=self.done)
        elif self.before:
            print(f"{self.before} of {self.total} tasks were done before", file=sys.stderr)
        return self

    def advance(self, name: str) -> None:
        self.done += 1
        if self.bar is not None:
            self.bar.update(self.task, advance=1, description=name)
            return
        now = time.monotonic()
        if now - self.last_printed > 30 or self.done == self.total:
            self.last_printed = now
            rate = (now - self.begin) / max(1, self.done - self.before)
            left = rate * (self.total - self.done)
            print(
                f"{self.done} of {self.total} tasks, {now - self.begin:.0f} s, "
                f"about {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )

    def __exit__(self, *exception: Any) -> None:
        if self.bar is not None:
            self.bar.stop()
