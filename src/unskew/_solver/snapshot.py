"""The state of a fit as arrays and facts, and the validation of one that was read from a file.

A file may come from anywhere. Kernels do not check labels and lengths, so that every array and
every number is checked here before the fit continues from it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._buffers import LARGE_N
from .._kmeans import label_type
from .._validation import is_integer, is_real


class CheckpointError(ValueError):
    """The file is not a checkpoint, or not of this fit; the message has the reason."""


class Snapshot(NamedTuple):
    """State of a fit from which it can be resumed with a bit-identical result.

    arrays and facts (numbers, strings, lists of them), each by name.
    """

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]


# Facts of each loop: all of them are present, or none.
RESTARTS = ("restart", "begun", "best")
ROUNDS = ("history", "before", "round", "inside")
STEPS = ("J", "at_bound", "done", "pairs")
PAPER = ("history", "step", "iteration")
CANDIDATES = ("kind", "phase", "candidates")
PHASES = ("starts", "descent")
# Vectors with a number for each row; arrays that are not negative.
VECTORS = ("labels", "e", "w", "y", "g", "v", "v_before")
NOT_NEGATIVE = ("e", "w", "factor")
MAX_PAIRS = 10


def check_snapshot(snapshot: Snapshot, model: Any, design: Any, n_seeds: int) -> None:
    """Raise CheckpointError unless the fit of ``model`` could have saved this snapshot.

    Shapes that depend on the suspects (dual variables, effects) are checked where they are used.
    """
    arrays, facts = snapshot
    seeds: Any = facts.get("seeds")
    _rule(isinstance(seeds, list) and len(seeds) == n_seeds, "seeds")
    _rule(all(is_integer(seed) and 0 <= seed < 2**31 for seed in seeds), "seeds")
    names = _check_facts(facts, model, n_seeds, design.rows.sparse)
    clusters = hasattr(model, "n_clusters")
    K = model._K if clusters else 0
    size = {"n": design.rows.n, "K": K, "d": design.distance.columns.size}
    for name, array in arrays.items():
        owner = next((each for each in names if name.startswith(f"{each} ")), "")
        _check_array(name.removeprefix(f"{owner} ") if owner else name, array, **size)
    for owner in names:
        _check_owned(arrays, f"{owner} ", facts[owner], clusters)
    if "done" in facts:
        needed = [
            "y",
            "g",
            *(f"{p}{i}" for i in range(facts["pairs"]) for p in ("moved", "turned")),
        ]
        needed += ["labels", "e", "C"] if "round" in facts else []
        _rule(set(needed) <= set(arrays), "arrays of a weight step")
    elif "iteration" in facts:
        needed = ["v", "v_before", *(["labels", "e", "C"] if clusters else [])]
        _rule(set(needed) <= set(arrays), "arrays of the iterations")
    elif "round" in facts:
        _check_state(arrays, "")


def _check_facts(facts: dict[str, Any], model: Any, n_seeds: int, sparse: bool) -> list[str]:
    """Names of the solutions that the snapshot has."""
    names: list[str] = []
    for group in (RESTARTS, ROUNDS, STEPS, PAPER, CANDIDATES):
        own = [name for name in group if name in facts and name != "history"]
        _rule(not own or all(name in facts for name in group), f"{group[0]} without its state")
    if hasattr(model, "n_clusters"):
        effects = model._adjust_for(sparse) != "weights"
        _rule("restart" in facts or (effects and "round" in facts), "no restart")
        _rule(facts.get("phase") != "starts" or "restart" in facts, "no restart")
        _rule(("kind" in facts) == effects or (effects and "restart" not in facts), "kind")
        if facts.get("begun") or "restart" not in facts:
            loop = "iteration" if model.solver == "paper" else "round"
            _rule(loop in facts, f"no {loop}")
    else:
        _rule(("iteration" if model.solver == "paper" else "done") in facts, "no state")
    for name in ("begun", "inside", "at_bound"):
        _rule(isinstance(facts.get(name, False), bool), name)
    for name in ("restart", "round", "done", "pairs", "iteration", "kind"):
        _rule(is_integer(facts.get(name, 0)) and facts.get(name, 0) >= 0, name)
    for name in ("before", "J", "step"):
        _rule(is_real(facts.get(name, 0.0)) and not math.isnan(facts.get(name, 0.0)), name)
    _rule(facts.get("step", 1.0) > 0 and math.isfinite(facts.get("step", 1.0)), "step")
    _rule(facts.get("pairs", 0) <= MAX_PAIRS, "pairs")
    _rule(facts.get("inside", "done" in facts) == ("done" in facts), "inside")
    _rule(facts.get("restart", 0) <= max(n_seeds - 2, 0), "restart")
    _check_history(facts, model.max_iter)
    if "restart" in facts:
        _rule(facts["begun"] or facts["best"] is not None, "best")
        _rule(facts["restart"] == 0 or facts["best"] is not None, "best")
        names += ["best"] if facts["best"] is not None else []
    if "kind" in facts:
        made = facts["candidates"]
        _rule(facts["kind"] <= 2 and facts["phase"] in PHASES, "kind")
        _rule(isinstance(made, list) and len(made) <= 4, "candidates")
        _rule(all(isinstance(each, str) for each in made), "candidates")
        names += [f"candidate {number}" for number in range(len(made))]
    for name in names:
        _check_solution(facts.get(name), name)
    return names


def _check_history(facts: dict[str, Any], max_iter: int) -> None:
    """One row of numbers for each iteration so far."""
    history = facts.get("history", [])
    _rule(isinstance(history, list), "history")
    for row in history:
        _rule(isinstance(row, dict) and row.keys() == history[0].keys(), "history")
        _rule("objective" in row and all(map(is_real, row.values())), "history")
    if "round" in facts:
        before = history[-1]["objective"] if history else math.inf
        _rule(1 <= facts["round"] <= max_iter and len(history) == facts["round"] - 1, "round")
        _rule(facts["before"] == before, "before")
    elif "iteration" in facts:
        _rule(1 <= facts["iteration"] < max_iter, "iteration")
        _rule(len(history) == facts["iteration"], "history")
    elif "done" in facts:
        _rule(1 <= facts["done"] <= max_iter and len(history) == facts["done"], "done")


def _check_solution(found: Any, name: str) -> None:
    keys = ("objective", "n_iter", "status")
    _rule(isinstance(found, dict) and set(keys) == set(found), name)
    _rule(is_real(found["objective"]) and is_integer(found["n_iter"]), name)
    _rule(isinstance(found["status"], str), name)


def _check_owned(arrays: dict, prefix: str, facts: dict, clusters: bool) -> None:
    """The state and the history of a solution."""
    if clusters:
        _check_state(arrays, prefix)
    lengths = {array.shape for name, array in arrays.items() if name.startswith(f"{prefix}history")}
    _rule(len(lengths) <= 1, f"{prefix}history")
    _rule(f"{prefix}history objective" in arrays or facts["n_iter"] == 0, f"{prefix}history")


def _check_state(arrays: dict, prefix: str) -> None:
    weights = {"labels", "C", "w"}
    dual = {"C", "weight_C", "Z", "mu", "sigma", "factor"}
    own = {name.removeprefix(prefix) for name in arrays if name.startswith(prefix)}
    _rule(weights <= own or dual <= own, f"{prefix}state")


def _check_array(name: str, array: np.ndarray, *, n: int, K: int, d: int) -> None:
    kept = np.dtype(np.float32 if n >= LARGE_N else np.float64)
    expected: dict[str, tuple] = dict.fromkeys(VECTORS, (n,))
    expected |= {"C": (K, d), "weight_C": (K, d), "sigma": ()}
    dtype = label_type(K) if name == "labels" else np.dtype(np.float64)
    if name.startswith("history "):
        _rule(array.ndim == 1 and array.size > 0, name)
    elif name.startswith(("moved", "turned")):
        _rule(name.removeprefix("moved").removeprefix("turned") in map(str, range(MAX_PAIRS)), name)
        expected[name], dtype = (n,), kept
    elif name in ("Z", "mu", "factor", "B"):
        _rule(array.ndim == (2 if name in "ZB" else 1), name)
    else:
        _rule(name in expected, f"unknown array {name!r}")
    _rule(array.shape == expected.get(name, array.shape) and array.dtype == dtype, name)
    if name == "labels":
        _rule(bool(((array >= 0) & (array < K)).all()), name)
    elif not name.startswith("history "):
        _rule(bool(np.isfinite(array).all()), name)
    if name in NOT_NEGATIVE or name == "sigma":
        _rule(bool((array >= 0).all()), name)
    if name in ("w", "y", "v", "sigma"):
        _rule(bool(array.any()), name)


def check_shape(arrays: dict[str, np.ndarray], name: str, like: Any) -> np.ndarray:
    """The array ``name``, which should have the shape of ``like``."""
    _rule(name in arrays and arrays[name].shape == np.shape(like), name)
    return arrays[name]


def _rule(holds: bool, what: str) -> None:
    if not holds:
        raise CheckpointError(f"the checkpoint is damaged ({what}); remove it or use another path")
