"""Solvers of the objective. Letters as in ``_balance``.

    J = inertia_rate * inertia(w) + balance_rate * balance(w) + spread_rate * spread(w)
        + margin_rate * margins(w) + mass_rate * mass(w) + constant

``alternate`` minimises J with its exact gradient at fixed sum(w); ``solve_paper`` is the authors'
published procedure, step by step, with a mass term instead of a fixed sum.
"""

from .alternate import alternate
from .checkpoint import (
    Checkpoint,
    CheckpointError,
    SaveHook,
    Snapshot,
    nested,
    open_checkpoint,
    pack_best,
    pack_solution,
    unpack_best,
    unpack_solution,
)
from .paper import solve_paper
from .problem import History, Problem, Solution, Watcher, watch_nothing
from .restarts import best_of_restarts
from .weights import WEIGHT_STEPS, minimize_weights, solve_weights

__all__ = [
    "WEIGHT_STEPS",
    "Checkpoint",
    "CheckpointError",
    "History",
    "Problem",
    "SaveHook",
    "Snapshot",
    "Solution",
    "Watcher",
    "alternate",
    "best_of_restarts",
    "minimize_weights",
    "nested",
    "open_checkpoint",
    "pack_best",
    "pack_solution",
    "solve_paper",
    "solve_weights",
    "unpack_best",
    "unpack_solution",
    "watch_nothing",
]
