"""What the data can identify: levels joined through groups, and groups that levels lack."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from .._mixture.rows import Rows
from .._validation import abbreviate

# A level shows a group that has this share of its rows, and this many rows.
SHOWN_SHARE, SHOWN_ROWS = 0.01, 5.0
# A level lacks a group whose share is below this part of its share in the population.
LACKING = 0.05
MOST_NAMED = 4


def shown_groups(N: np.ndarray) -> np.ndarray:
    """Which level (L) shows which group (K), from the weights N of the cells (L, K)."""
    total = np.maximum(N.sum(1, keepdims=True), 1e-300)
    return (N >= SHOWN_SHARE * total) & (N >= np.minimum(SHOWN_ROWS, 0.5 * total))


def is_joined(N: np.ndarray) -> bool:
    """Whether groups join all levels: no level has groups that no other level shows."""
    shown = shown_groups(N).astype(int)
    return bool(_parts(shown @ shown.T >= 1).max() == 0)


def identify(
    N: np.ndarray,
    levels: list[str] | None,
    suspect: str,
    group: str = "group",
    *,
    effects: bool = True,
) -> tuple[str, str]:
    """("yes", "under small effects" or "no", and why, in words). ``levels`` without names: None;
    ``group``: what a group is called; ``effects``: whether the model has effects.

    Two levels that share two groups fix the effect and the matching of their groups: the
    difference of the two means is the same at both. Through one group only, either group of one
    level can be matched with the group of the other, with another effect and the same likelihood.
    """
    L, K = N.shape
    if L < 2 or K < 2:
        return "yes", ""
    shown = shown_groups(N).astype(int)
    shared = shown @ shown.T
    by_two = _parts(shared >= 2)
    if by_two.max() == 0:
        return "yes", ""
    by_one = _parts(shared >= 1)
    answer, part = ("no", by_one) if by_one.max() > 0 else ("under small effects", by_two)
    main = np.bincount(part, weights=N.sum(1)).argmax()
    apart = np.flatnonzero(part != main)
    named = "some values"
    if levels is not None:
        named = abbreviate(
            [f"“{levels[at]}” ({_list(np.flatnonzero(shown[at]), group)})" for at in apart],
            MOST_NAMED,
            quoted=False,
        )
    if answer == "no":
        return answer, (
            f"The effects of “{suspect}” are not identifiable: no {group} has rows of both {named} "
            "and the other values, so that any difference between them can be an effect or a "
            f"difference of the {group}s."
        )
    common = np.flatnonzero(shown.all(0))
    if by_two.max() == L - 1 and common.size == 1:
        overlap = f"Only {_list(common, group)} occurs at all values of “{suspect}”"
    else:
        have = "has" if apart.size == 1 and levels is not None else "have"
        overlap = (
            f"Of the values of “{suspect}”, {named} {have} at most one {group} in common with each "
            "of the others"
        )
    assumed = f"has small effects of “{suspect}”" if effects else f"has no effect of “{suspect}”"
    return answer, (
        f"{overlap}. So the data cannot show whether these values differ because “{suspect}” "
        f"changes the columns or because they have other {group}s. The selected model {assumed}; "
        f"if its effects are large, these {group}s are wrong."
    )


def identify_suspects(
    N: np.ndarray,
    which: np.ndarray,
    levels: list[str],
    suspects: list[str],
    *,
    effects: bool = True,
) -> tuple[str, str]:
    """The same for several suspects, each by itself: the worst answer, and why.

    N (R, K): weights of the groups at the levels of all suspects; which (R,): suspect of a level.
    """
    found = []
    for i, name in enumerate(suspects):
        own = np.flatnonzero(which == i)
        found.append(identify(N[own], [levels[at] for at in own], name, effects=effects))
    answers = [answer for answer, _ in found]
    worst = next(one for one in ("no", "under small effects", "yes") if one in answers)
    return worst, " ".join(why for _, why in found if why)


def positivity(N: np.ndarray, population: np.ndarray) -> np.ndarray:
    """Share of each group in each level divided by its share in the population, (L, K)."""
    shares = N / np.maximum(N.sum(1, keepdims=True), 1e-300)
    return np.divide(shares, population, out=np.ones_like(shares), where=population > 0)


def products_of_groups(rows: Rows, theta: np.ndarray, kappa: np.ndarray, full: bool) -> tuple:
    """sum a r r' of the responsibilities r at each level, (L, K, K)."""
    out = np.zeros((kappa.shape[1], kappa.shape[2], kappa.shape[2]))
    for first, last, level, p in rows.groups if full else rows.level_groups:
        r = rows.X[first:last] @ theta[p, level] + kappa[p, level]
        r = np.exp(r - r.max(1, keepdims=True))
        r /= r.sum(1, keepdims=True)
        out[level] += (r * rows.a[first:last, None]).T @ r
    return (out,)


def share_errors(A: np.ndarray, lowest: np.ndarray) -> np.ndarray:
    """Standard errors of shares pi that add up to 1, (K,), from their empirical information
    A = sum a u u', u_k = r_k / pi_k, and the lowest of the shares before a row was seen: the
    covariance is A^-1 - A^-1 1 1' A^-1 / (1' A^-1 1). 0 for groups that do not occur."""
    out = np.zeros(len(A))
    some = (np.diag(A) > 1e-6) & (lowest > 1e-9)
    if some.sum() < 2:
        return out
    inverse = np.linalg.pinv(A[np.ix_(some, some)])
    total = inverse.sum(1)
    out[some] = np.sqrt(np.maximum(np.diag(inverse) - total**2 / total.sum(), 0.0))
    return out


def describe_lacking(ratio: np.ndarray, levels: list[str], suspect: str) -> str:
    """Warning where rows cannot be weighted up; empty where there are none."""
    where = np.argwhere(ratio < LACKING)
    if where.size == 0:
        return ""
    pairs = [f"group {k} at “{levels[at]}”" for at, k in where]
    return (
        f"Some groups (nearly) do not occur at some levels of “{suspect}”: "
        f"{abbreviate(pairs, MOST_NAMED, quoted=False)}. There are no rows to weight up, and "
        "weights_ do not make group and level independent there."
    )


def _parts(joined: np.ndarray) -> np.ndarray:
    """Number of the connected component of each level."""
    return connected_components(csr_array(joined), directed=False)[1]


def _list(numbers: np.ndarray, group: str) -> str:
    named = ", ".join(map(str, numbers))
    return f"{group}{'s' * (numbers.size > 1)} {named}" if named else f"no {group}"
