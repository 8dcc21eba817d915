"""Several restarts, of which the best is kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._progress import emit, nested_progress
from .checkpoint import SaveHook, nested, pack_best, unpack_best
from .problem import Solution


def best_of_restarts(
    solve: Callable, seeds: np.ndarray, save: SaveHook | None, resume: Any
) -> Solution:
    """Solution with the lowest objective of ``solve(seed, save, resume)`` over all seeds but the
    last."""
    best, first, inside = None, 0, None
    if resume is not None:
        first, found = resume.facts["restart"], unpack_best(resume)
        best = None if found is None else Solution(**found)
        inside = resume if resume.facts["begun"] else None
    total = seeds.size - 1
    emit("restart", first, total)
    for number in range(first, total):
        under_way = nested(save, partial(pack_best, best, seeds, number, True))
        with nested_progress():
            found = solve(seeds[number], under_way, inside)
        inside = None
        numbers = {"objective": found.objective, "iterations": found.n_iter}
        emit("restart", number + 1, total, status=found.status, **numbers)
        if best is None or found.objective < best.objective:
            best = found
        if save is not None and number + 2 < seeds.size:
            save(partial(pack_best, best, seeds, number + 1, False))
    assert best is not None
    return best
