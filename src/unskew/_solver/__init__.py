"""Solvers of the objective. Letters as in ``_balance``.

    J = inertia_rate * inertia(w) + balance_rate * balance(w) + spread_rate * spread(w)
        + margin_rate * margins(w) + mass_rate * mass(w) + constant

``alternate`` minimises J with its exact gradient at fixed sum(w); ``solve_paper`` is the authors'
published procedure, step by step, with a mass term instead of a fixed sum.
"""

from .alternate import (
    State,
    alternate,
    continued_state,
    initial_state,
    pack_solution,
    state_of_centres,
    unpack_solution,
)
from .cells import count_cells
from .chance import is_beyond_chance
from .checkpoint import (
    Checkpoint,
    CheckpointError,
    SaveHook,
    Snapshot,
    nested,
    open_checkpoint,
)
from .dual import DualState, DualWeights, make_dual
from .paper import solve_paper
from .problem import History, Problem, Solution, Watcher, watch_nothing
from .restarts import best_of_restarts, screen
from .weights import minimize_weights, solve_weights, uniform_weights

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "DualState",
    "DualWeights",
    "History",
    "Problem",
    "SaveHook",
    "Snapshot",
    "Solution",
    "State",
    "Watcher",
    "alternate",
    "best_of_restarts",
    "continued_state",
    "count_cells",
    "initial_state",
    "is_beyond_chance",
    "make_dual",
    "minimize_weights",
    "nested",
    "open_checkpoint",
    "pack_solution",
    "screen",
    "solve_paper",
    "solve_weights",
    "state_of_centres",
    "uniform_weights",
    "unpack_solution",
    "watch_nothing",
]
