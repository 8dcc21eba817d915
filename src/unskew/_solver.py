"""State in, state out: the two ways to lower the objective. Letters as in ``_terms``.

    J = inertia_rate * inertia(w) + balance_rate * balance(w) + spread_rate * spread(w)
        + margin_rate * margins(w) + mass_rate * mass(w) + constant

``descend`` holds sum(w) fixed and lowers J by its true gradient; ``follow_paper`` is the authors'
published procedure, step by step, with a mass term instead of a fixed sum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _kmeans, _terms
from ._kmeans import Clusters, Distance

# Quasi-Newton steps on the weights between two rounds of k-means, and the pairs they remember.
# 10 and 60 gave the same answers on the simulated data; 20 was the fastest.
WEIGHT_STEPS = 20
MEMORY = 10
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
        gradient = self.inertia_rate * e + 2.0 * self.spread_rate * w * self.inverse_a
        balance = 0.0
        if self.balance_rate:
            balance, g = self.balance.value_and_gradient(w)
            gradient += self.balance_rate * g
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
    *,
    n_steps: int,
    tol: float,
    each: Callable[[np.ndarray, float], bool] | None = None,
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
    y = np.sqrt(w)
    J, g = _value_and_gradient_in_y(problem, y, e)
    memory: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=MEMORY)
    g, on_floor = _tangent(problem, y, g)
    for done in range(n_steps):
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
            moved, turned = y_new - y, g_new - g
            if moved @ turned > 1e-10 * np.linalg.norm(moved) * np.linalg.norm(turned):
                memory.append((moved, turned))
        fall = J - J_new
        y, J, g = y_new, J_new, g_new
        if each is not None and each(_weights(problem, y), J):
            return WeightStep(_weights(problem, y), J, done + 1, False)
        if fall <= tol * abs(J):
            return WeightStep(_weights(problem, y), J, done + 1, True)
    return WeightStep(_weights(problem, y), J, n_steps, False)


def _weights(problem: Problem, y: np.ndarray) -> np.ndarray:
    w = y * y
    return w * (problem.total / w.sum())


def _in_y(y: np.ndarray, w: np.ndarray, gradient: np.ndarray, total: float) -> np.ndarray:
    """Chain rule of w = total y^2 / ||y||^2."""
    return 2.0 * y * (gradient - (gradient @ w) / total) * (total / float(y @ y))


def _value_and_gradient_in_y(problem: Problem, y: np.ndarray, e: np.ndarray):
    w = _weights(problem, y)
    J, gradient = problem.value_and_gradient(w, e)
    return J, _in_y(y, w, gradient, problem.total)


def _first_step(y: np.ndarray, g: np.ndarray) -> float:
    """Length of a step along -g that changes y by a tenth of its norm."""
    size = float(np.linalg.norm(g))
    return 0.1 * float(np.linalg.norm(y)) / size if size > 0 else 0.0


def _quasi_newton(g: np.ndarray, memory: deque, y: np.ndarray) -> np.ndarray:
    """Two-loop recursion."""
    q = g.copy()
    shares = []
    for moved, turned in reversed(memory):
        share = float(moved @ q) / float(moved @ turned)
        shares.append(share)
        q -= share * turned
    if memory:
        moved, turned = memory[-1]
        q *= float(moved @ turned) / float(turned @ turned)
    else:
        q *= _first_step(y, g)
    for (moved, turned), share in zip(memory, reversed(shares)):
        q += (share - float(turned @ q) / float(moved @ turned)) * moved
    return -q


def _search(problem, y, e, J, direction, slope):
    """Halve the step until J falls enough; None when rounding is reached first."""
    size = 1.0
    while size > 1e-12:
        trial = _feasible(problem, y + size * direction)
        J_trial, g_trial = _value_and_gradient_in_y(problem, trial, e)
        if np.isfinite(J_trial) and np.isfinite(g_trial).all() and J_trial < J:
            if J_trial <= J + 1e-4 * size * slope:
                return trial, J_trial, g_trial
        elif abs(size * slope) < 1e-15 * abs(J):
            return None
        size *= 0.5
    return None


def _wake(problem: Problem, y: np.ndarray, e: np.ndarray, J: float):
    """A lower point at which rows of almost no weight have some again, or None.

    A row is asleep when its weight is below a thousandth of an even one although J would fall if it
    had more (its reduced derivative in w is negative): w = 0 is a minimum in y, not in w.
    """
    w = _weights(problem, y)
    gradient = problem.value_and_gradient(w, e)[1]
    reduced = gradient - (gradient @ w) / problem.total
    even = problem.a * (problem.total / problem.N)
    asleep = (w < 1e-3 * even) & (reduced < 0)
    gain = -float(reduced[asleep] @ even[asleep])
    share = 0.1
    while asleep.any() and share > 1e-7:
        trial = _feasible(problem, np.sqrt(w + share * even * asleep))
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
    even = problem.a * (problem.total / problem.N)
    # A hair inside, so that rounding does not put the result below the floor.
    return np.sqrt(even + r * (1 - 1e-12) * (w - even)) * np.where(y < 0, -1.0, 1.0)


def _tilted(problem: Problem, y: np.ndarray) -> np.ndarray:
    """w exp(T lambda), the nearest weights in relative entropy with the held shares: Newton on
    the convex dual, whose gradient is the error of the shares. nan where there are none (a held
    group has lost all weight), which no search accepts."""
    T = problem.held
    wanted = T.T @ problem.a / problem.N
    p = _weights(problem, y) / problem.total
    tilt = np.ones_like(y)
    for _ in range(30):
        error = T.T @ p - wanted
        if np.abs(error).max() < 1e-13:
            return y * np.sqrt(tilt)
        shares = error + wanted
        covariance = (T.T @ (T * p[:, None])).toarray() - np.outer(shares, shares)
        move = T @ np.linalg.lstsq(covariance, error, rcond=1e-12)[0]
        factor = np.exp(-np.clip(move - move @ p, -2.0, 2.0))
        tilt *= factor
        p = p * factor
        p /= p.sum()
    return y * np.sqrt(tilt) if np.abs(error).max() < 1e-9 else np.full_like(y, np.nan)


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
        gram = (T.T @ (T * w[:, None])).toarray() / problem.total - np.outer(shares, shares)
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
    problem: Problem,
    start: Clusters,
    *,
    max_iter: int,
    tol: float,
    watch: Watcher = watch_nothing,
) -> Solution:
    """k-means at fixed weights until it settles, then the weights at fixed clusters; in turn.

    J never rises: each half lowers it, and a half that would not is not taken. Ends "converged"
    when a whole round lowers J by no more than tol |J|.
    """
    assert problem.distance is not None
    rows, distance = problem.rows, problem.distance
    w = problem.a * (problem.total / problem.N)
    history, before = History(), np.inf
    clusters, status, round_ = start, "max_iter", 0
    for round_ in range(1, max_iter + 1):
        clusters, _ = _kmeans.lloyd(rows, distance, w, clusters)
        step = step_weights(problem, w, clusters.e, n_steps=WEIGHT_STEPS, tol=0.1 * tol)
        w = step.w
        terms = problem.split(w, clusters.e, step.objective)
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
    # The last weights moved the centres once more; labels, centres and weights end consistent.
    clusters, _ = _kmeans.lloyd(rows, distance, w, clusters)
    if status != "non-finite":
        # The polish belongs to the last iteration.
        last = history.rows.pop()
        history.add(problem.terms(w, clusters.e, last["balance"] / (problem.balance_rate or 1.0)))
    arrays = history.arrays()
    return Solution(w, clusters, float(arrays["objective"][-1]), arrays, round_, status)


def descend_weights(
    problem: Problem, *, max_iter: int, tol: float, watch: Watcher = watch_nothing
) -> Solution:
    """The weights alone: no clusters, so one long weight step."""
    e = np.zeros(problem.rows.n)
    w = problem.a * (problem.total / problem.N)
    history = History()

    def each(w: np.ndarray, J: float) -> bool:
        terms = problem.split(w, e, J)
        history.add(terms)
        return watch(len(history.rows), terms)

    step = step_weights(problem, w, e, n_steps=max_iter, tol=0.1 * tol, each=each)
    status = (
        "converged" if step.settled else ("max_iter" if step.n_steps == max_iter else "stopped")
    )
    return Solution(step.w, None, step.objective, history.arrays(), step.n_steps, status)


# --------------------------------------------------------------------------------------------
# The authors' procedure


def follow_paper(
    problem: Problem,
    start: Clusters | None,
    *,
    max_iter: int,
    tol: float,
    watch: Watcher = watch_nothing,
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
    status, iteration = "max_iter", 0
    for iteration in range(1, max_iter + 1):
        if clusters is not None and distance is not None:
            C, empty = _kmeans.update(rows, distance, v * v, clusters.labels, clusters.C)
            clusters = _label_present(rows, distance, C, empty)
            e = clusters.e
        v_last = v
        v = v + iteration / (iteration + 3) * (v - v_before)
        w = v * v
        J, gradient = problem.value_and_gradient(w, e)
        # dJ/dv = 2 v dJ/dw, except that the authors' inertia part has 1 for the 2.
        g = 2.0 * v * gradient - problem.inertia_rate * e * v
        while True:
            z = v - step * g
            terms = problem.terms(z * z, e)
            move = z - v
            bound = J + float(g @ move) + float(move @ move) / (2.0 * step)
            if sum(terms.values()) <= bound or step < 1e-300 or not np.isfinite(J):
                break
            step /= 2.0
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
    arrays = history.arrays()
    return Solution(v * v, clusters, float(arrays["objective"][-1]), arrays, iteration, status)


def _label_present(rows: Any, distance: Distance, C: np.ndarray, empty: np.ndarray) -> Clusters:
    """Nearest centre among the clusters that have members; an empty one has no centre."""
    if not empty.any():
        return _kmeans.label(rows, distance, C)
    present = np.flatnonzero(~empty)
    found = _kmeans.label(rows, distance, C[present])
    return Clusters(present[found.labels].astype(np.int32), found.e, C)
