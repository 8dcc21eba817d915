"""Minimisation over the weights at fixed clusters: quasi-Newton, exact gradient, monotone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import _terms
from .._buffers import LARGE_N
from .checkpoint import SaveHook, nested
from .problem import TERMS, History, Problem, Solution, chunk_slices, watch_nothing
from .snapshot import Snapshot

# Quasi-Newton steps on the weights between two rounds of k-means, and stored pairs of L-BFGS.
# 10 and 60 steps gave the same results on the simulated data; 20 was the fastest.
WEIGHT_STEPS = 20


MEMORY = 10


MEMORY_LARGE_N = 3


class WeightStep(NamedTuple):
    w: np.ndarray
    objective: float
    n_steps: int
    converged: bool


def minimize_weights(
    problem: Problem,
    w: np.ndarray,
    e: np.ndarray,
    n_steps: int,
    *,
    tol: float,
    each: Callable[[np.ndarray, float], bool] | None = None,
    save: SaveHook | None = None,
    resume: Snapshot | None = None,
) -> WeightStep:
    """Minimise J over w at fixed e, on {w >= 0, sum(w) = weight_sum, fixed shares, effective
    share >= min_ess}.

    L-BFGS on y with w = weight_sum y^2 / ||y||^2, which satisfies the bounds and the sum. y has a
    factor sqrt(a), so inner products, and so all steps, are those of repeated rows. A trial is
    projected onto the lower bound of the effective share along w -> (1 - r) w_uniform + r w, the
    nearest point of its ball; the direction and the stored pairs are tangent to an active bound.
    Stops when a step lowers J by less than tol |J|, or when no step lowers it. dJ/dy vanishes at
    y = 0, so zero weights with a negative reduced gradient are reactivated before convergence is
    declared.
    """
    large, first = problem.rows.n >= LARGE_N, 0
    memory: deque[Any] = deque(maxlen=MEMORY_LARGE_N if large else MEMORY)
    if resume is not None:
        y, g = resume.arrays["y"], resume.arrays["g"]
        J, at_bound, first = (resume.facts[name] for name in ("J", "at_bound", "done"))
        for i in range(resume.facts["pairs"]):
            memory.append((resume.arrays[f"moved{i}"], resume.arrays[f"turned{i}"]))
    else:
        y = np.sqrt(w)
        del w
        J, g = _value_and_gradient_in_y(problem, y, e)
        g, at_bound = _project_gradient(problem, y, g)
    for done in range(first, n_steps):
        direction = _quasi_newton(g, memory, y)
        if at_bound:
            direction = _project_gradient(problem, y, direction, at_bound)[0]
        slope = float(direction @ g)
        if not slope < 0:
            memory.clear()
            direction, slope = -g * _first_step(y, g), -float(g @ g) * _first_step(y, g)
        found = _search(problem, y, e, J, direction, slope) if slope < 0 else None
        if found is None and memory:
            # The stored curvature may be outdated: retry with steepest descent.
            memory.clear()
            direction = -g * _first_step(y, g)
            found = _search(problem, y, e, J, direction, float(direction @ g))
        del direction
        reactivated = False
        if found is None or J - found[1] <= tol * abs(J):
            # At y = 0 the gradient in y vanishes whatever the gradient in w.
            up = _reactivate_zeros(problem, y, e, J)
            if up is not None and J - up[1] > tol * abs(J):
                found, reactivated = up, True
        if found is None:
            return WeightStep(_weights(problem, y), J, done, True)
        y_new, J_new, g_new = found
        was_at_bound = at_bound
        g_new, at_bound = _project_gradient(problem, y_new, g_new)
        if reactivated or at_bound != was_at_bound:
            memory.clear()
        else:
            moved, turned = np.subtract(y_new, y, out=y), np.subtract(g_new, g, out=g)
            if moved @ turned > 1e-10 * np.linalg.norm(moved) * np.linalg.norm(turned):
                kept = np.float32 if large else np.float64
                memory.append((moved.astype(kept, copy=False), turned.astype(kept, copy=False)))
        fall = J - J_new
        y, J, g = y_new, J_new, g_new
        found = y_new = g_new = moved = turned = None
        if each is not None and each(_weights(problem, y), J):
            return WeightStep(_weights(problem, y), J, done + 1, False)
        if fall <= tol * abs(J):
            return WeightStep(_weights(problem, y), J, done + 1, True)
        if save is not None:
            save(partial(_pack_step, y, J, g, at_bound, memory, done + 1))
    return WeightStep(_weights(problem, y), J, n_steps, False)


def _pack_step(y, J, g, at_bound, memory, done) -> Snapshot:
    arrays = {f"moved{i}": moved for i, (moved, _) in enumerate(memory)}
    arrays |= {f"turned{i}": turned for i, (_, turned) in enumerate(memory)}
    facts = {"J": float(J), "at_bound": bool(at_bound), "done": done, "pairs": len(memory)}
    return Snapshot({"y": y, "g": g, **arrays}, facts)


def _weights(problem: Problem, y: np.ndarray) -> np.ndarray:
    w = y * y
    w *= problem.weight_sum / w.sum()
    return w


def uniform_weights(problem: Problem) -> np.ndarray:
    """Uniform weights: all multipliers are equal."""
    a, rate = problem.a, problem.weight_sum / problem.design_sum
    return a * rate if a.strides != (0,) else np.broadcast_to(a[0] * rate, a.shape)


def _chain_to_y(y: np.ndarray, w: np.ndarray, gradient: np.ndarray, total: float) -> np.ndarray:
    """Chain rule of w = total y^2 / ||y||^2: 2 y (gradient - gradient.w / total) total / ||y||^2.

    Overwrites ``gradient``.
    """
    gradient -= (gradient @ w) / total
    gradient *= y
    gradient *= 2.0
    gradient *= total / float(y @ y)
    return gradient


def _value_and_gradient_in_y(problem: Problem, y: np.ndarray, e: np.ndarray):
    w = _weights(problem, y)
    J, gradient = problem.value_and_gradient(w, e)
    return J, _chain_to_y(y, w, gradient, problem.weight_sum)


def _first_step(y: np.ndarray, g: np.ndarray) -> float:
    """Length of a step along -g that changes y by a tenth of its norm."""
    size = float(np.linalg.norm(g))
    return 0.1 * float(np.linalg.norm(y)) / size if size > 0 else 0.0


def _dot(one: np.ndarray, other: np.ndarray) -> float:
    """Inner product in float64, also of float32 vectors, without copying them whole."""
    if one.dtype == other.dtype == np.float64:
        return float(one @ other)
    return sum(float(one[p].astype(float) @ other[p].astype(float)) for p in chunk_slices(one.size))


def _quasi_newton(g: np.ndarray, memory: deque, y: np.ndarray) -> np.ndarray:
    """L-BFGS direction by the two-loop recursion."""
    q = g.copy()
    shares = []
    for moved, turned in reversed(memory):
        share = _dot(moved, q) / _dot(moved, turned)
        shares.append(share)
        q -= share * turned
    if memory:
        moved, turned = memory[-1]
        q *= _dot(moved, turned) / _dot(turned, turned)
    else:
        q *= _first_step(y, g)
    for (moved, turned), share in zip(memory, reversed(shares)):
        q += (share - _dot(turned, q) / _dot(moved, turned)) * moved
    return np.negative(q, out=q)


def _search(problem, y, e, J, direction, slope):
    """Backtracking line search; None where J cannot be lowered beyond rounding."""
    size = 1.0
    while size > 1e-12:
        trial = size * direction
        trial += y
        trial = _project(problem, trial)
        J_trial, g_trial = _value_and_gradient_in_y(problem, trial, e)
        if np.isfinite(J_trial) and np.isfinite(g_trial).all() and J_trial < J:
            if J_trial <= J + 1e-4 * size * slope:
                return trial, J_trial, g_trial
        elif abs(size * slope) < 1e-15 * abs(J):
            return None
        del trial, g_trial
        size *= 0.5
    return None


def _reactivate_zeros(problem: Problem, y: np.ndarray, e: np.ndarray, J: float):
    """A point with lower J at which rows at the zero bound are reactivated, or None.

    These are rows whose weight is below a thousandth of the uniform one and whose reduced gradient
    in w is negative: w = 0 is stationary in y, not in w.
    """
    w = _weights(problem, y)
    reduced = problem.value_and_gradient(w, e)[1]
    reduced -= (reduced @ w) / problem.weight_sum
    uniform = uniform_weights(problem)
    zeroed = (w < 1e-3 * uniform) & (reduced < 0)
    gain = -float(reduced[zeroed] @ np.ascontiguousarray(uniform[zeroed]))
    del reduced
    share = 0.1
    while zeroed.any() and share > 1e-7:
        trial = zeroed * (uniform * share if uniform.strides != (0,) else uniform[0] * share)
        trial += w
        trial = _project(problem, np.sqrt(trial, out=trial))
        J_trial, g_trial = _value_and_gradient_in_y(problem, trial, e)
        if np.isfinite(g_trial).all() and J_trial <= J - 1e-4 * share * gain and J_trial < J:
            return trial, J_trial, g_trial
        share *= 0.25
    return None


def _project(problem: Problem, y: np.ndarray) -> np.ndarray:
    """Project a trial onto the lower bound of the effective share."""
    if problem.min_ess is None:
        return y
    w = _weights(problem, y)
    share = _terms.effective_share(w, problem.inverse_a, problem.design_sum)
    if share >= problem.min_ess:
        return y
    # share = 1 / (1 + r^2 v) with v = sum(a (m - 1)^2) / N for m of mean 1.
    r = np.sqrt((1.0 / problem.min_ess - 1.0) / (1.0 / share - 1.0))
    uniform = uniform_weights(problem)
    # Slightly inside, so that rounding does not put the result below the lower bound.
    return np.sqrt(uniform + r * (1 - 1e-12) * (w - uniform)) * np.where(y < 0, -1.0, 1.0)


def _project_gradient(
    problem: Problem, y: np.ndarray, g: np.ndarray, at_bound: bool | None = None
) -> tuple[np.ndarray, bool]:
    """g minus its component normal to an active lower bound, the gradient of sum(w^2 / a).

    The lower bound is active if ``at_bound`` or, when that is None, if y is on it and a step along
    -g would violate it.
    """
    if problem.min_ess is None:
        return g, False
    w = _weights(problem, y)
    share = _terms.effective_share(w, problem.inverse_a, problem.design_sum)
    normal = _chain_to_y(y, w, 2.0 * w * problem.inverse_a, problem.weight_sum)
    outward, square = -float(g @ normal), float(normal @ normal)
    if at_bound is None:
        at_bound = share <= problem.min_ess * (1 + 1e-6) and outward > 0
    if not at_bound or square == 0:
        return g, False
    return g + (outward / square) * normal, True


def solve_weights(
    problem: Problem, *, max_iter, tol, watch=watch_nothing, save=None, resume=None
) -> Solution:
    """Weights without clusters: one long weight step."""
    e = np.zeros(problem.rows.n)
    if problem.dual is not None:
        return _solve_dual(problem, e, max_iter, tol, watch)
    w = uniform_weights(problem)
    history = History()
    if resume is not None:
        history.rows = list(resume.facts["history"])

    def each(w: np.ndarray, J: float) -> bool:
        terms = problem.split(w, e, J)
        history.add(terms)
        return watch(len(history.rows), terms)

    how: Any = {"n_steps": max_iter, "tol": 0.1 * tol, "each": each, "resume": resume}
    step = minimize_weights(
        problem, w, e, save=nested(save, lambda: Snapshot({}, {"history": history.rows})), **how
    )
    early = "max_iter" if step.n_steps == max_iter else "stopped"
    status = "converged" if step.converged else early
    return Solution(step.w, None, step.objective, history.arrays(), step.n_steps, status)


def _solve_dual(problem: Problem, e: np.ndarray, max_iter: int, tol: float, watch: Any) -> Solution:
    """Weights of named suspects; an iteration is a Newton step. Too short to be saved."""
    assert problem.dual is not None
    history = History()
    step = problem.dual.solve(problem.dual.start(), e, 0.1 * tol, max_iter)
    w = problem.dual.weights(step.state, e)
    status = "converged" if step.converged else "max_iter"
    for terms, value in zip(step.terms[-max_iter:], step.values[-max_iter:]):
        inertia, balance, spread = terms
        named = dict.fromkeys(TERMS, 0.0)
        named |= {"inertia": inertia, "balance": balance, "spread": spread + problem.constant}
        J = history.add(named, {"gap": sum(terms) - value, "dual": value + problem.constant})
        if watch(len(history.rows), named):
            status = "stopped"
            break
    return Solution(
        w, None, J, history.arrays(), len(history.rows), status, step.state
    )  # fmt: skip
