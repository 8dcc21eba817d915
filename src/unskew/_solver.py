"""State in, state out: the two ways to lower the objective. Letters as in ``_terms``.

    J = inertia_rate * inertia(w) + balance_rate * balance(w) + spread_rate * spread(w)
        + margin_rate * margins(w) + mass_rate * mass(w) + constant

``descend`` holds sum(w) fixed and lowers J by its true gradient; ``follow_paper`` is the authors'
published procedure, step by step, with a mass term instead of a fixed sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from . import _kmeans, _terms
from ._blocks import cut
from ._checkpoint import Keeper, Progress, within
from ._kmeans import Clusters, Distance

# Quasi-Newton steps on the weights between two rounds of k-means, and the pairs they remember.
# 10 and 60 gave the same answers on the simulated data; 20 was the fastest.
WEIGHT_STEPS = 20
MEMORY = 10
# From so many rows on, vectors of n numbers are what a fit costs in memory: fewer pairs, in
# float32 (they only shape the direction; the search decides on J in float64 as ever).
LARGE = 2**22
MEMORY_OF_LARGE = 3
TERMS = ("inertia", "balance", "spread", "margins", "mass")


class Problem(NamedTuple):
    """What is fixed during a fit.

    balance    the balance loss; None where there is no pair (its rate is then 0)
    distance   columns of the distance, or None for weights without clusters
    a          design weights, inverse_a = 1/a (0 where a is 0), N = sum(a)
    total      sum(w) that ``descend`` holds
    floor      smallest effective share allowed, or None
    held       n x q indicators (CSR) whose weighted shares ``descend`` holds at their start, or
               None: the suspects' own distribution. Without it the cheapest way to untie a site
               from the rest is to empty all sites but one.
    margins    known shares of some categories, or None
    """

    rows: Any
    balance: Any
    distance: Distance | None
    a: np.ndarray
    inverse_a: np.ndarray
    N: float
    total: float
    inertia_rate: float
    balance_rate: float
    spread_rate: float
    mass_rate: float = 0.0
    constant: float = 0.0
    floor: float | None = None
    held: Any = None
    margins: _terms.Margins | None = None
    margin_rate: float = 0.0

    def terms(self, w: np.ndarray, e: np.ndarray, balance: float | None = None) -> dict[str, float]:
        """Each term as it enters J; they add up to it."""
        if balance is None:
            balance = self.balance.value(w) if self.balance_rate else 0.0
        return {
            "inertia": self.inertia_rate * _terms.inertia(w, e),
            "balance": self.balance_rate * balance,
            "spread": self.spread_rate * _terms.spread(w, self.inverse_a) + self.constant,
            "margins": self.margin_rate * self.margins.value(w)
            if self.margins is not None
            else 0.0,
            "mass": self.mass_rate * _terms.mass(w) if self.mass_rate else 0.0,
        }

    def split(self, w: np.ndarray, e: np.ndarray, J: float) -> dict[str, float]:
        """The terms where J is known: the balance is what the others leave."""
        terms = self.terms(w, e, balance=0.0)
        return {**terms, "balance": J - sum(terms.values())} if self.balance_rate else terms

    def value(self, w: np.ndarray, e: np.ndarray) -> float:
        return sum(self.terms(w, e).values())

    def value_and_gradient(self, w: np.ndarray, e: np.ndarray) -> tuple[float, np.ndarray]:
        """J and dJ/dw at fixed e."""
        return self.with_other_terms(w, e, *self.balance_and_gradient(w))

    def balance_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """balance(w), and what it adds to dJ/dw: all of J that does not look at e."""
        if not self.balance_rate:
            return 0.0, np.zeros(w.size)
        balance, gradient = self.balance.value_and_gradient(w)
        # In place and in pieces, here and below: of many rows, each vector counts.
        gradient *= self.balance_rate
        return balance, gradient

    def with_other_terms(
        self, w: np.ndarray, e: np.ndarray, balance: float, gradient: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """J and dJ/dw from ``balance_and_gradient``, whose gradient becomes that of J."""
        for piece in pieces_of(w.size):
            pull = (2.0 * self.spread_rate) * w[piece]
            pull *= self.inverse_a[piece]
            pull += self.inertia_rate * e[piece]
            gradient[piece] += pull
        if self.margins is not None:
            gradient += self.margin_rate * self.margins.value_and_gradient(w)[1]
        if self.mass_rate:
            gradient += 2.0 * self.mass_rate * (w.sum() - 1.0)
        return sum(self.terms(w, e, balance).values()), gradient


class Solution(NamedTuple):
    w: np.ndarray
    clusters: Clusters | None
    objective: float
    history: dict[str, np.ndarray]
    n_iter: int
    status: str


class History:
    """Terms per iteration; the list that becomes ``history_``."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def add(self, terms: dict[str, float]) -> float:
        objective = sum(terms.values())
        self.rows.append({"objective": objective, **terms})
        return objective

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.array([r[name] for r in self.rows]) for name in ("objective", *TERMS)}


Watcher = Callable[[int, dict[str, float]], bool]


def watch_nothing(iteration: int, terms: dict[str, float]) -> bool:
    return False


def pieces_of(n: int) -> list[slice]:
    return [slice(*bounds) for bounds in cut(0, n, 2**18)]


# --------------------------------------------------------------------------------------------
# Descent: true gradient, quasi-Newton, monotone


class WeightStep(NamedTuple):
    w: np.ndarray
    objective: float
    n_steps: int
    settled: bool


def step_weights(
    problem: Problem,
    w: np.ndarray,
    e: np.ndarray,
    n_steps: int,
    *,
    tol: float,
    each: Callable[[np.ndarray, float], bool] | None = None,
    keep: Keeper | None = None,
    resume: Progress | None = None,
) -> WeightStep:
    """Lower J over w at fixed e, on {w >= 0, sum(w) = total, held shares as at the start,
    effective share >= floor}.

    L-BFGS on y with w = total y^2 / ||y||^2: the bounds are gone, the sum holds by itself. y
    carries a factor sqrt(a), so inner products, and with them every step, are those of repeated
    rows. A trial is brought back by tilting, w exp(T lambda) with the shares of ``held`` right,
    and from below the floor along w -> (1 - r) w_even + r w, the nearest point of the floor's
    ball; direction and memory are kept tangent to what holds.
    Stops when a step lowers J by less than tol |J|, or when no step lowers it; but rows that y = 0
    has put to sleep are woken first where J falls with their weight.
    """
    large, first = problem.rows.n >= LARGE, 0
    memory: deque[Any] = deque(maxlen=MEMORY_OF_LARGE if large else MEMORY)
    if resume is not None:
        y, g = resume.arrays["y"], resume.arrays["g"]
        J, on_floor, first = (resume.facts[name] for name in ("J", "on_floor", "done"))
        for i in range(resume.facts["pairs"]):
            memory.append((resume.arrays[f"moved{i}"], resume.arrays[f"turned{i}"]))
    else:
        y = np.sqrt(w)
        del w
        J, g = _value_and_gradient_in_y(problem, y, e)
        g, on_floor = _tangent(problem, y, g)
    for done in range(first, n_steps):
        direction = _quasi_newton(g, memory, y)
        if on_floor or problem.held is not None:
            direction = _tangent(problem, y, direction, on_floor)[0]
        slope = float(direction @ g)
        if not slope < 0:
            memory.clear()
            direction, slope = -g * _first_step(y, g), -float(g @ g) * _first_step(y, g)
        found = _search(problem, y, e, J, direction, slope) if slope < 0 else None
        if found is None and memory:
            # The remembered curvature may be of another place; plain descent decides.
            memory.clear()
            direction = -g * _first_step(y, g)
            found = _search(problem, y, e, J, direction, float(direction @ g))
        del direction
        woken = False
        if found is None or J - found[1] <= tol * abs(J):
            # At y = 0 the gradient in y vanishes whatever the one in w says.
            up = _wake(problem, y, e, J)
            if up is not None and J - up[1] > tol * abs(J):
                found, woken = up, True
        if found is None:
            return WeightStep(_weights(problem, y), J, done, True)
        y_new, J_new, g_new = found
        was_on_floor = on_floor
        g_new, on_floor = _tangent(problem, y_new, g_new)
        if woken or on_floor != was_on_floor:
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
        if keep is not None:
            keep(partial(_where_the_step_is, y, J, g, on_floor, memory, done + 1))
    return WeightStep(_weights(problem, y), J, n_steps, False)


def _where_the_step_is(y, J, g, on_floor, memory, done) -> Progress:
    arrays = {f"moved{i}": moved for i, (moved, _) in enumerate(memory)}
    arrays |= {f"turned{i}": turned for i, (_, turned) in enumerate(memory)}
    facts = {"J": float(J), "on_floor": bool(on_floor), "done": done, "pairs": len(memory)}
    return Progress({"y": y, "g": g, **arrays}, facts)


def _weights(problem: Problem, y: np.ndarray) -> np.ndarray:
    w = y * y
    w *= problem.total / w.sum()
    return w


def _even(problem: Problem) -> np.ndarray:
    """Weights of the start: every multiplier the same."""
    a, rate = problem.a, problem.total / problem.N
    return a * rate if a.strides != (0,) else np.broadcast_to(a[0] * rate, a.shape)


def _in_y(y: np.ndarray, w: np.ndarray, gradient: np.ndarray, total: float) -> np.ndarray:
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
    return J, _in_y(y, w, gradient, problem.total)


def _first_step(y: np.ndarray, g: np.ndarray) -> float:
    """Length of a step along -g that changes y by a tenth of its norm."""
    size = float(np.linalg.norm(g))
    return 0.1 * float(np.linalg.norm(y)) / size if size > 0 else 0.0


def _dot(one: np.ndarray, other: np.ndarray) -> float:
    """Inner product in float64, also of vectors kept in float32, without a copy of them."""
    if one.dtype == other.dtype == np.float64:
        return float(one @ other)
    return sum(float(one[p].astype(float) @ other[p].astype(float)) for p in pieces_of(one.size))


def _quasi_newton(g: np.ndarray, memory: deque, y: np.ndarray) -> np.ndarray:
    """Two-loop recursion."""
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
    """Halve the step until J falls enough; None when rounding is reached first."""
    size = 1.0
    while size > 1e-12:
        trial = size * direction
        trial += y
        trial = _feasible(problem, trial)
        J_trial, g_trial = _value_and_gradient_in_y(problem, trial, e)
        if np.isfinite(J_trial) and np.isfinite(g_trial).all() and J_trial < J:
            if J_trial <= J + 1e-4 * size * slope:
                return trial, J_trial, g_trial
        elif abs(size * slope) < 1e-15 * abs(J):
            return None
        del trial, g_trial
        size *= 0.5
    return None


def _wake(problem: Problem, y: np.ndarray, e: np.ndarray, J: float):
    """A lower point at which rows of almost no weight have some again, or None.

    A row is asleep when its weight is below a thousandth of an even one although J would fall if it
    had more (its reduced derivative in w is negative): w = 0 is a minimum in y, not in w.
    """
    w = _weights(problem, y)
    reduced = problem.value_and_gradient(w, e)[1]
    reduced -= (reduced @ w) / problem.total
    even = _even(problem)
    asleep = (w < 1e-3 * even) & (reduced < 0)
    gain = -float(reduced[asleep] @ np.ascontiguousarray(even[asleep]))
    del reduced
    share = 0.1
    while asleep.any() and share > 1e-7:
        trial = asleep * (even * share if even.strides != (0,) else even[0] * share)
        trial += w
        trial = _feasible(problem, np.sqrt(trial, out=trial))
        J_trial, g_trial = _value_and_gradient_in_y(problem, trial, e)
        if np.isfinite(g_trial).all() and J_trial <= J - 1e-4 * share * gain and J_trial < J:
            return trial, J_trial, g_trial
        share *= 0.25
    return None


def _feasible(problem: Problem, y: np.ndarray) -> np.ndarray:
    """The trial brought back into the feasible set: held shares first, then the floor.

    Even weights have the held shares, so pulling towards them keeps what tilting made right.
    """
    if problem.held is not None:
        y = _tilted(problem, y)
    if problem.floor is None:
        return y
    w = _weights(problem, y)
    share = _terms.effective_share(w, problem.inverse_a, problem.N)
    if share >= problem.floor:
        return y
    # share = 1 / (1 + r^2 v) with v = sum(a (m - 1)^2) / N for m of mean 1.
    r = np.sqrt((1.0 / problem.floor - 1.0) / (1.0 / share - 1.0))
    even = _even(problem)
    # A hair inside, so that rounding does not put the result below the floor.
    return np.sqrt(even + r * (1 - 1e-12) * (w - even)) * np.where(y < 0, -1.0, 1.0)


def _tilted(problem: Problem, y: np.ndarray) -> np.ndarray:
    """w exp(T lambda), the nearest weights in relative entropy with the held shares: Newton on
    the convex dual, whose gradient is the error of the shares. nan where there are none (a held
    group has lost all weight), which no search accepts."""
    T = problem.held
    wanted = T.T @ problem.a / problem.N
    p = _weights(problem, y)
    p /= problem.total
    tilt = np.ones_like(y)
    for _ in range(30):
        error = T.T @ p - wanted
        if np.abs(error).max() < 1e-13:
            return y * np.sqrt(tilt, out=tilt)
        shares = error + wanted
        covariance = _gram(T, p) - np.outer(shares, shares)
        move = T @ np.linalg.lstsq(covariance, error, rcond=1e-12)[0]
        move -= move @ p
        np.negative(np.clip(move, -2.0, 2.0, out=move), out=move)
        factor = np.exp(move, out=move)
        tilt *= factor
        p *= factor
        p /= p.sum()
    return y * np.sqrt(tilt) if np.abs(error).max() < 1e-9 else np.full_like(y, np.nan)


def _gram(T: Any, w: np.ndarray) -> np.ndarray:
    """T' diag(w) T."""
    if w.size < LARGE:
        return (T.T @ (T * w[:, None])).toarray()
    return sum((T[p].T @ (T[p] * w[p, None])).toarray() for p in pieces_of(w.size))


def _tangent(
    problem: Problem, y: np.ndarray, g: np.ndarray, on_floor: bool | None = None
) -> tuple[np.ndarray, bool]:
    """g less its part that would change the held shares or cross the floor.

    The floor counts where ``on_floor``, or, when that is None, where y is on it and descent along
    -g would cross it. Normals are those of the shares, y (T_j - s_j / W), and of sum(w^2 / a).
    """
    if problem.held is None and problem.floor is None:
        return g, False
    w = _weights(problem, y)
    if problem.held is not None:
        T = problem.held
        shares = T.T @ w / problem.total
        gram = _gram(T, w) / problem.total - np.outer(shares, shares)
        along = T.T @ (y * g) / float(y @ y) - shares * float(y @ g) / float(y @ y)
        part = np.linalg.lstsq(gram, along, rcond=1e-12)[0]
        g = g - y * (T @ part - shares @ part)
    if problem.floor is None:
        return g, False
    share = _terms.effective_share(w, problem.inverse_a, problem.N)
    normal = _in_y(y, w, 2.0 * w * problem.inverse_a, problem.total)
    if problem.held is not None:
        part = np.linalg.lstsq(gram, T.T @ (y * normal) / float(y @ y), rcond=1e-12)[0]
        normal = normal - y * (T @ part - shares @ part)
    outward, square = -float(g @ normal), float(normal @ normal)
    if on_floor is None:
        on_floor = share <= problem.floor * (1 + 1e-6) and outward > 0
    if not on_floor or square == 0:
        return g, False
    return g + (outward / square) * normal, True


def descend(
    problem: Problem, start: Any, *, max_iter, tol, watch=watch_nothing, keep=None, resume=None
) -> Solution:
    """k-means at fixed weights until it settles, then the weights at fixed clusters; in turn.

    J never rises: each half lowers it, and a half that would not is not taken. Ends "converged"
    when a whole round lowers J by no more than tol |J|. ``resume`` takes the place of ``start``.
    """
    assert problem.distance is not None
    rows, distance = problem.rows, problem.distance
    history, before, status, first, inside = History(), np.inf, "max_iter", 1, None
    if resume is not None:
        arrays, facts = resume
        history.rows, before, first = list(facts["history"]), facts["before"], facts["round"]
        clusters = Clusters(arrays["labels"], arrays["e"], arrays["C"])
        inside = resume if facts["inside"] else None
        w = arrays["y"] if inside else arrays["w"]
    else:
        assert start is not None
        w, clusters, start = _even(problem), start, None

    def stand(inside: bool = True, **more: Any) -> Progress:
        arrays = {"labels": clusters.labels, "e": clusters.e, "C": clusters.C}
        facts = {"history": history.rows, "before": before, "inside": inside}
        return Progress({**arrays, **more}, {**facts, "round": round_ + (not inside)})

    round_ = first - 1
    for round_ in range(first, max_iter + 1):
        if inside is None:
            clusters, _ = _kmeans.lloyd(rows, distance, w, clusters)
        # The old weights are handed over: nobody holds them while the new ones are sought.
        old, keeper, small = [w], within(keep, stand), 0.1 * tol
        del w
        step = step_weights(
            problem, old.pop(), clusters.e, WEIGHT_STEPS, tol=small, keep=keeper, resume=inside
        )
        w, J, inside, resume = step.w, step.objective, None, None
        del step
        terms = problem.split(w, clusters.e, J)
        J = history.add(terms)
        if not np.isfinite(J):
            status = "non-finite"
            break
        if watch(round_, terms):
            status = "stopped"
            break
        if before - J <= tol * abs(J):
            status = "converged"
            break
        before = J
        if keep is not None and round_ < max_iter:
            keep(partial(stand, inside=False, w=w))
    # The last weights moved the centres once more; labels, centres and weights end consistent.
    clusters, _ = _kmeans.lloyd(rows, distance, w, clusters)
    if status != "non-finite":
        # The polish belongs to the last iteration.
        last = history.rows.pop()
        history.add(problem.terms(w, clusters.e, last["balance"] / (problem.balance_rate or 1.0)))
    arrays = history.arrays()
    return Solution(w, clusters, float(arrays["objective"][-1]), arrays, round_, status)


def descend_weights(
    problem: Problem, *, max_iter, tol, watch=watch_nothing, keep=None, resume=None
) -> Solution:
    """The weights alone: no clusters, so one long weight step."""
    e = np.zeros(problem.rows.n)
    w = _even(problem)
    history = History()
    if resume is not None:
        history.rows = list(resume.facts["history"])

    def each(w: np.ndarray, J: float) -> bool:
        terms = problem.split(w, e, J)
        history.add(terms)
        return watch(len(history.rows), terms)

    how: Any = {"n_steps": max_iter, "tol": 0.1 * tol, "each": each, "resume": resume}
    step = step_weights(
        problem, w, e, keep=within(keep, lambda: Progress({}, {"history": history.rows})), **how
    )
    early = "max_iter" if step.n_steps == max_iter else "stopped"
    status = "converged" if step.settled else early
    return Solution(step.w, None, step.objective, history.arrays(), step.n_steps, status)


# --------------------------------------------------------------------------------------------
# The authors' procedure


def follow_paper(
    problem: Problem, start: Any, *, max_iter, tol, watch=watch_nothing, keep=None, resume=None
) -> Solution:
    """The published steps, kept as they are where they differ from the text.

    w = v^2, v starts at 1 (0 for an absent row). Each iteration: centres, then labels, once;
    extrapolate v by t/(t+3); one gradient step whose size is halved until a quadratic bound holds
    and never grows again. The k-means part of the gradient is half of its own derivative: so is
    the authors'. Stops when J changes by less than tol, not relative.
    """
    rows, distance = problem.rows, problem.distance
    v = np.sqrt(problem.a)
    v_before, step = v.copy(), 1.0
    clusters, history = start, History()
    e = np.zeros(rows.n)
    status, first = "max_iter", 1
    if resume is not None:
        arrays, facts = resume
        v, v_before, step = arrays["v"], arrays["v_before"], facts["step"]
        history.rows, first = list(facts["history"]), facts["iteration"] + 1
        if "labels" in arrays:
            clusters = Clusters(arrays["labels"], arrays["e"], arrays["C"])

    def stand() -> Progress:
        arrays = {"v": v, "v_before": v_before}
        if clusters is not None:
            arrays |= {"labels": clusters.labels, "e": clusters.e, "C": clusters.C}
        facts = {"step": step, "iteration": iteration, "history": history.rows}
        return Progress(arrays, facts)

    iteration = first - 1
    for iteration in range(first, max_iter + 1):
        sweep = None
        if clusters is not None and distance is not None:
            # The balance does not look at labels: of few rows both are found at the same time.
            sweep = rows.later(partial(_sweep_of_paper, rows, distance, v * v, clusters))
        v_last = v
        v = v + iteration / (iteration + 3) * (v - v_before)
        w = v * v
        balance = problem.balance_and_gradient(w)
        if sweep is not None:
            clusters = sweep.result()
            e = clusters.e
        J, gradient = problem.with_other_terms(w, e, *balance)
        # dJ/dv = 2 v dJ/dw, except that the authors' inertia part has 1 for the 2.
        g = 2.0 * v * gradient - problem.inertia_rate * e * v
        step, z, terms = _step_of_paper(problem, v, g, e, J, step)
        v_before, v = v_last, z
        objective = history.add(terms)
        if not np.isfinite(objective):
            status = "non-finite"
            break
        if watch(iteration, terms):
            status = "stopped"
            break
        if iteration > 1 and abs(objective - history.rows[-2]["objective"]) < tol:
            status = "converged"
            break
        if keep is not None and iteration < max_iter:
            keep(stand)
    arrays = history.arrays()
    return Solution(v * v, clusters, float(arrays["objective"][-1]), arrays, iteration, status)


def _step_of_paper(problem: Problem, v, g, e, J: float, step: float) -> tuple:
    """Halve the step until J(z^2) <= J + g.(z - v) + ||z - v||^2 / (2 step), z = v - step g.

    The first iteration halves some twenty times. A step at which the other terms alone are above
    the bound fails whatever the balance is, which is never negative: no pass over the rows.
    """
    while True:
        z = v - step * g
        w, move = z * z, z - v
        bound = J + float(g @ move) + float(move @ move) / (2.0 * step)
        end = step < 1e-300 or not np.isfinite(J)
        terms = problem.terms(w, e, 0.0)
        if end or not sum(terms.values()) > bound:
            if problem.balance_rate:
                terms["balance"] = problem.balance_rate * problem.balance.value(w)
            if end or sum(terms.values()) <= bound:
                return step, z, terms
        step /= 2.0


def _sweep_of_paper(rows: Any, distance: Distance, w: np.ndarray, clusters: Clusters) -> Clusters:
    """Centres at w, then the nearest of them; an empty cluster has none and is not chosen."""
    C, empty = _kmeans.update(rows, distance, w, clusters.labels, clusters.C)
    if not empty.any():
        return _kmeans.label(rows, distance, C)
    present = np.flatnonzero(~empty)
    found = _kmeans.label(rows, distance, C[present])
    return Clusters(present[found.labels].astype(np.int32), found.e, C)
