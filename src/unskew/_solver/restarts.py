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
    # With dual variables the best solution is kept packed, without vectors of length n.
    best: Solution | Snapshot | None = None
    found: Solution | None = None
    first, inside, lowest = 0, None, np.inf
    if resume is not None:
        first = resume.facts["restart"]
        if resume.facts["best"] is not None:
            best = found = unpack_solution(resume, "best", problem)
            lowest = found.objective
        inside = resume if resume.facts["begun"] else None
    total = len(starts)
    if not first < total:
        raise CheckpointError(f"the checkpoint is damaged (restart {first} of {total}); remove it")
    emit("restart", first, total)
    for number in range(first, total):
        under_way = nested(save, partial(pack_best, best, number, True))
        found = None
        with nested_progress():
            found = solve(starts[number], under_way, inside)
        inside = None
        numbers = {"objective": found.objective, "iterations": found.n_iter}
        emit("restart", number + 1, total, status=found.status, **numbers)
        if best is None or found.objective < lowest:
            lowest = found.objective
            best = found if found.dual is None else pack_solution("best", found)
        if save is not None and number + 1 < total:
            save(partial(pack_best, best, number + 1, False))
    assert best is not None
    if isinstance(best, Snapshot):
        if found is not None and found.objective == lowest:
            return found
        found = None
        return unpack_solution(best, "best", problem)
    return best


def pack_best(best: Solution | Snapshot | None, restart: int, begun: bool) -> Snapshot:
    """Pack the number of the next or current restart and the best solution so far."""
    if best is None:
        best = Snapshot({}, {"best": None})
    arrays, facts = best if isinstance(best, Snapshot) else pack_solution("best", best)
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
