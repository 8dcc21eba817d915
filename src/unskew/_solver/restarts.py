"""Several restarts, of which the best is kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._progress import emit, nested_progress
from .alternate import pack_solution, unpack_solution
from .checkpoint import SaveHook, nested
from .problem import Problem, Solution
from .snapshot import CheckpointError, Snapshot

# Number of solutions of the subsample that are continued on all rows.
POLISHED = 2


def best_of_restarts(
    solve: Callable, problem: Problem, starts: list, save: SaveHook | None, resume: Any
) -> Solution:
    """Solution with the lowest objective of ``solve(start, save, resume)`` over all starts."""
    best, first, inside = None, 0, None
    if resume is not None:
        first = resume.facts["restart"]
        best = None if resume.facts["best"] is None else unpack_solution(resume, "best", problem)
        inside = resume if resume.facts["begun"] else None
    total = len(starts)
    if not first < total:
        raise CheckpointError(f"the checkpoint is damaged (restart {first} of {total}); remove it")
    emit("restart", first, total)
    for number in range(first, total):
        under_way = nested(save, partial(pack_best, best, number, True))
        with nested_progress():
            found = solve(starts[number], under_way, inside)
        inside = None
        numbers = {"objective": found.objective, "iterations": found.n_iter}
        emit("restart", number + 1, total, status=found.status, **numbers)
        if best is None or found.objective < best.objective:
            best = found
        if save is not None and number + 1 < total:
            save(partial(pack_best, best, number + 1, False))
    assert best is not None
    return best


def pack_best(best: Solution | None, restart: int, begun: bool) -> Snapshot:
    """Pack the number of the next or current restart and the best solution so far."""
    arrays, facts = ({}, {"best": None}) if best is None else pack_solution("best", best)
    return Snapshot(arrays, {"restart": restart, "begun": begun, **facts})


def screen(starts: list, solve: Callable) -> list[Solution]:
    """The best POLISHED solutions, with different labels, of ``solve(start)``."""
    found = []
    emit("screening", 0, len(starts))
    for number, start in enumerate(starts):
        with nested_progress():
            found.append(solve(start))
        emit("screening", number + 1, len(starts), objective=found[-1].objective)
    out: list[Solution] = []
    for each in sorted(found, key=lambda solution: solution.objective):
        if not any(np.array_equal(each.clusters.labels, one.clusters.labels) for one in out):
            out.append(each)
    return out[:POLISHED]
