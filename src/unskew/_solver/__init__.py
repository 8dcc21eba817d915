"""State in, state out: the two ways to lower the objective. Letters as in ``_terms``.

    J = inertia_rate * inertia(w) + balance_rate * balance(w) + spread_rate * spread(w)
        + margin_rate * margins(w) + mass_rate * mass(w) + constant

``descend`` holds sum(w) fixed and lowers J by its true gradient; ``follow_paper`` is the authors'
published procedure, step by step, with a mass term instead of a fixed sum.
"""

from .alternate import descend
from .checkpoint import (
    Checkpoint,
    CheckpointError,
    Keeper,
    Progress,
    best_so_far,
    note_best,
    note_solution,
    noted_solution,
    open_checkpoint,
    within,
)
from .paper import _step_of_paper, follow_paper
from .problem import History, Problem, Solution, Watcher, watch_nothing
from .restarts import best_start
from .weights import WEIGHT_STEPS, descend_weights, step_weights

__all__ = [
    "WEIGHT_STEPS",
    "Checkpoint",
    "CheckpointError",
    "History",
    "Keeper",
    "Problem",
    "Progress",
    "Solution",
    "Watcher",
    "_step_of_paper",
    "best_so_far",
    "best_start",
    "descend",
    "descend_weights",
    "follow_paper",
    "note_best",
    "note_solution",
    "noted_solution",
    "open_checkpoint",
    "step_weights",
    "watch_nothing",
    "within",
]
