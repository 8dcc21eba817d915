"""The state of the polishing as a `Snapshot`: the parameters of a few models, some kilobytes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._mixture.blocks import EFFECTS
from .._mixture.em import Choice, Fit, Mixture
from .._mixture.gaussian import MIN_VARIANCE
from .._mixture.rows import RowSums
from .._progress import emit
from .._solver.checkpoint import Checkpoint, identity_of
from .._solver.snapshot import CheckpointError, Snapshot
from .._validation import is_integer, is_real

LARGEST_K = 10_000
# Parameters of standardised columns, and of the logarithm of a ratio of variances.
LARGEST, LARGEST_LOG = 1e6, 100.0
# Of a covariance: variances and eigenvalues of the correlations are at least MIN_VARIANCE.
SMALLEST_EIGENVALUE = 0.5 * MIN_VARIANCE**2


class Polishing:
    """Solutions of the search that are fitted to all rows, one after another.

    starts      fits to the subsample; done: the first of them, fitted to all rows
    candidates  BIC of all forms that were compared, as `SelectionMixture.candidates_`
    begun       the current fit where one was interrupted: after how many iterations
    """

    def __init__(self, starts: list[Fit], candidates: list[dict]):
        self.starts, self.candidates = starts, candidates
        self.done: list[Fit] = []
        self.begun = 0

    def snapshot(self, model: Mixture, history: list, iteration: int) -> Snapshot:
        """State between two iterations of the current fit."""
        current = Fit(model, 0.0, history, iteration, False)
        fits = [*self.done, current, *self.starts[len(self.done) + 1 :]]
        arrays = {}
        for number, fit in enumerate(fits):
            arrays.update(_arrays(fit.model, number))
        facts = [
            {
                "choice": list(fit.model.choice),
                "K": fit.model.K,
                "marginal": fit.marginal,
                "history": [float(bound) for bound in fit.history],
                "converged": bool(fit.converged),
            }
            for fit in fits
        ]
        state = {"fits": facts, "done": len(self.done), "iteration": iteration}
        return Snapshot(arrays, {**state, "candidates": self.candidates})

    @classmethod
    def of(cls, snapshot: Snapshot, rows: RowSums, max_iter: int) -> Polishing:
        """The state that was saved. Raises CheckpointError for what no fit could have saved."""
        facts: Any = snapshot.facts
        fits: Any
        fits, done, iteration = (facts.get(name) for name in ("fits", "done", "iteration"))
        _rule(isinstance(fits, list) and is_integer(done) and 0 <= done < len(fits), "fits")
        _rule(is_integer(iteration) and 0 <= iteration <= max_iter, "iteration")
        made = [_fit(one, number, rows, snapshot) for number, one in enumerate(fits)]
        candidates: Any = facts.get("candidates")
        _rule(isinstance(candidates, list) and bool(candidates), "candidates")
        for one in candidates:
            _rule(isinstance(one, dict) and set(one) == CANDIDATE, "candidates")
            _rule(is_real(one["bic"]) and is_integer(one["n_components"]), "candidates")
        found = cls(made, candidates)
        found.done, found.begun = made[:done], iteration
        return found


CANDIDATE = {"covariance", "effects", "selection", "n_components", "bic"}


def open_checkpoint(model: Any, problem: Any) -> tuple[Checkpoint | None, Polishing | None]:
    """The checkpoint of a fit of SelectionMixture, and its saved state."""
    if model.checkpoint is None:
        return None, None
    reading = problem.reading
    columns = [c for c in reading.columns if c.kind == "number"]
    mean, sd, floor = (
        np.array([getattr(c, name) for c in columns]) for name in ("mean", "sd", "floor")
    )
    weight = reading.combinations.weight
    design = SimpleNamespace(
        rows=problem.matrix,
        a=problem.a,
        stats=SimpleNamespace(low=floor, high=weight, mean=mean, sd=sd),
        column_map=SimpleNamespace(
            names=[name for c in reading.columns for name in c.names],
            source=np.array([c.source for c in reading.columns]),
        ),
    )
    checkpoint = Checkpoint(model.checkpoint, identity_of(model, design), model.checkpoint_seconds)
    before = checkpoint.read(model.resume)
    if before is None:
        return checkpoint, None
    found = Polishing.of(before, problem.rows, model.max_iter)
    emit("message", status=f"continued from the checkpoint {model.checkpoint}")
    return checkpoint, found


def _arrays(model: Mixture, number: int) -> dict[str, np.ndarray]:
    found = {f"{number} shares": model.shares, f"{number} gamma": model.gamma}
    for at, block in enumerate(model.blocks):
        own = {name: x for name, x in vars(block).items() if isinstance(x, np.ndarray)}
        found.update({f"{number} {at} {name}": x for name, x in own.items()})
    return found


def _fit(facts: Any, number: int, rows: RowSums, snapshot: Snapshot) -> Fit:
    _rule(isinstance(facts, dict), "fits")
    choice: Any
    K: Any
    history: Any
    choice, K, history = (facts.get(name) for name in ("choice", "K", "history"))
    _rule(is_choice(choice), "choice")
    _rule(is_integer(K) and 1 <= K <= LARGEST_K, "K")
    _rule(isinstance(history, list) and all(map(is_real, history)), "history")
    _rule(is_real(facts.get("marginal")) and isinstance(facts.get("converged"), bool), "fits")
    model = Mixture(rows, K, Choice(*choice))
    for name, fresh in _arrays(model, number).items():
        stored: Any = snapshot.arrays.get(name)
        at, *of = name.split(" ")[1:]
        _rule(are_parameters(of[0] if of else at, stored, fresh), name)
        owner = model.blocks[int(at)] if of else model
        setattr(owner, of[0] if of else at, stored)
    marginal = float(facts["marginal"])
    _rule(not math.isnan(marginal), "marginal")
    return Fit(model, marginal, [float(b) for b in history], len(history), facts["converged"])


def is_choice(choice: Any) -> bool:
    """Whether a list is that of a `Choice`."""
    options = (("diag", "full"), EFFECTS, ("common", "free"))
    return (
        isinstance(choice, list)
        and len(choice) == 3
        and all(isinstance(one, str) and one in words for one, words in zip(choice, options))
    )


def are_parameters(name: str, x: Any, fresh: np.ndarray) -> bool:
    """Whether x is an array of parameters that a fit can have; ``fresh``: that of a new model of
    the same rows, whose shape, type and constants it should have."""
    if not isinstance(x, np.ndarray) or x.shape != fresh.shape or x.dtype != fresh.dtype:
        return False
    if not np.isfinite(x).all():
        return False
    if name in ("firsts", "owner", "floor"):
        return np.array_equal(x, fresh)
    if x.dtype == bool:
        return True
    if name in ("shares", "share"):
        within = bool((x >= 0).all() and (x <= 1).all())
        return within and (name == "share" or np.allclose(x.sum(1), 1.0))
    if name in ("tau2", "delta2", "omega2"):
        return bool((x >= 0).all() and (x <= LARGEST).all())
    if name == "variance":
        return bool((x >= 0.5 * MIN_VARIANCE).all() and (x <= LARGEST).all())
    if name == "Sigma":
        within = bool((np.abs(x) <= LARGEST).all()) and np.allclose(x, x.T)
        return within and bool(np.linalg.eigvalsh(x)[0] >= SMALLEST_EIGENVALUE)
    return bool((np.abs(x) <= (LARGEST_LOG if name == "log_e" else LARGEST)).all())


def _rule(holds: bool, what: str) -> None:
    if not holds:
        raise CheckpointError(
            f"the checkpoint has a state that no fit of these rows could have saved ({what}); "
            "remove it or use another path"
        )
