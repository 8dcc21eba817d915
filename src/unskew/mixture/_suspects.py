"""Suspects of SelectionMixture: their levels, the basis of numeric ones, combinations of values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .._data.columns import ColumnValues, format_number
from .._mixture.design import Design
from .._validation import abbreviate
from ._columns import as_category

# Most levels of a categorical suspect; the rarest others are pooled.
MAX_LEVELS = 50
# A number with more distinct values than this is a numeric suspect.
MAX_CODES = 20
# Most combinations of levels whose shares are free; a multinomial logit otherwise.
MAX_FREE = 12
# Intervals of a numeric suspect within which effects and shares are constant: equally wide for
# normal data. ``SHOWN`` of them are reported.
EDGES = np.array([0.0082, 0.0139, 0.0228, 0.0359, 0.0548, 0.0808, 0.1151, 0.1587, 0.2119, 0.2743,
                  0.3446, 0.4207, 0.5, 0.5793, 0.6554, 0.7257, 0.7881, 0.8413, 0.8849, 0.9192,
                  0.9452, 0.9641, 0.9772, 0.9861, 0.9918])  # fmt: skip
SHOWN = 5
KNOTS = np.array([0.05, 0.35, 0.65, 0.95])
MISSING, OTHER = "missing", "(other)"
# Columns by their position in the source.
Values = Sequence[ColumnValues] | Mapping[int, ColumnValues]


@dataclass(frozen=True)
class Suspect:
    """One suspect.

    sources   its columns of X: one, or the indicators of its levels
    levels    names of the levels, of a numeric suspect of its intervals that are reported
    words     value -> position in ``levels`` (categorical); None: missing values
    numeric   whether the source holds numbers (categorical: codes)
    edges, centres, shown
              numeric: bounds between intervals, mean value and reported level of each interval
    knots, middle, turn
              numeric: basis (f(z) - middle) @ turn of the natural cubic spline f
    has_missing
              numeric: whether missing values occurred; they are the last level
    """

    name: str
    sources: tuple
    levels: tuple
    words: dict
    numeric: bool = False
    edges: np.ndarray | None = None
    centres: np.ndarray | None = None
    shown: np.ndarray | None = None
    knots: np.ndarray | None = None
    middle: np.ndarray | None = None
    turn: np.ndarray | None = None
    has_missing: bool = False

    @property
    def is_number(self) -> bool:
        return self.edges is not None

    @property
    def n_codes(self) -> int:
        return len(self.levels) if self.centres is None else self.centres.size + self.has_missing

    @property
    def n_free(self) -> int:
        """Free coefficients of a logit of the shares."""
        return self.basis().shape[1] - (0 if self.is_number else 1)

    def codes(self, values: Values, names: list[str], n: int) -> np.ndarray:
        """Level, or interval, of each of n rows; -1 where unknown."""
        if not self.sources:  # a model without suspects
            return np.zeros(n, dtype=np.intp)
        if self.edges is not None:
            x = numbers_of(values[self.sources[0]])
            found = np.searchsorted(self.edges, x, side="right")
            return np.where(np.isnan(x), self.n_codes - 1 if self.has_missing else -1, found)
        words, codes = words_of(values, names, self.sources)
        return np.array([self.words.get(word, -1) for word in words] + [-1])[codes]

    def shown_of(self, codes: np.ndarray) -> np.ndarray:
        """Reported level of each code."""
        if self.shown is None:
            return codes
        return np.append(self.shown, len(self.levels) - 1)[codes]

    def basis(self) -> np.ndarray:
        """Row of the design of each code, (n_codes, p)."""
        if self.centres is None:
            return np.eye(len(self.levels))
        return self.basis_at(np.append(self.centres, np.nan) if self.has_missing else self.centres)

    def basis_at(self, x: np.ndarray) -> np.ndarray:
        """Basis of a numeric suspect at values x, within the range of the fit; a missing value has
        an indicator of its own where some were missing in the fit."""
        assert self.centres is not None
        assert self.knots is not None
        known = ~np.isnan(x)
        inside = np.clip(np.where(known, x, self.centres[0]), self.centres[0], self.centres[-1])
        Z = (natural_spline(inside, self.knots) - self.middle) @ self.turn
        Z[~known] = 0.0
        return np.column_stack([Z, ~known]).astype(float) if self.has_missing else Z


def _short(value: float) -> str:
    return format_number(value) if float(value).is_integer() else f"{value:.4g}"


def natural_spline(x: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Natural cubic splines: x and, for m knots, m - 2 functions that are linear outside them, in
    units of the range of the knots and from the first of them."""
    x, knots = ((one - knots[0]) / (knots[-1] - knots[0]) for one in (x, knots))

    def cubic(at: float) -> np.ndarray:
        return np.maximum(x - at, 0.0) ** 3

    last = (cubic(knots[-2]) - cubic(knots[-1])) / (knots[-1] - knots[-2])
    curved = [(cubic(at) - cubic(knots[-1])) / (knots[-1] - at) - last for at in knots[:-2]]
    return np.column_stack([x, *curved])


NO_SUSPECT = Suspect("", (), ("all",), {})


def numbers_of(value: ColumnValues) -> np.ndarray:
    if value.numbers is None:
        raise ValueError(f"a suspect holds {value.kind} but was a number in the fit")
    return np.asarray(value.numbers, dtype=np.float64)


def words_of(values: Values, names: list[str], sources: tuple) -> tuple[list, np.ndarray]:
    """Values of a categorical suspect as text, None for missing ones, and the position of each
    row's value. Rows without exactly one indicator get the last position plus one."""
    if len(sources) > 1:
        Z = np.column_stack([numbers_of(values[s]) for s in sources])
        one_hot = np.isin(Z, (0.0, 1.0)).all(1) & (Z.sum(1) == 1)
        return [names[s] for s in sources], np.where(one_hot, Z.argmax(1), len(sources))
    value = values[sources[0]]
    if value.kind == "ordered":
        given = np.where(np.isnan(value.numbers), -1, value.numbers).astype(np.int64)
        value = ColumnValues("text", None, given, value.words)
    if value.codes is None:
        value = as_category(value)
    words = [*map(str, value.words), None]
    return words, np.where(value.codes < 0, len(words) - 1, value.codes)


def read_suspects(
    values: Values, names: list[str], columns: np.ndarray, a: np.ndarray,
    kinds: dict[int, str], n_used: int | None = None,
) -> list[Suspect]:  # fmt: skip
    """Suspects of the named columns, from their rows with weights a or from their distinct rows
    with the sums of the weights of n_used rows; consecutive indicator columns of which exactly one
    is 1 in each row are one suspect. A suspect with one level is left out with a warning."""
    found, constant = [], []
    n_used = int((a > 0).sum()) if n_used is None else n_used
    for sources in _indicator_groups(values, columns, a):
        suspect = _learn(values, names, sources, a, kinds.get(sources[0]), n_used)
        if isinstance(suspect, str):
            constant.append(suspect)
        else:
            found.append(suspect)
    if not found:
        raise ValueError(f"suspect {constant[0]}; it should have at least 2, or not be named")
    if constant:
        warnings.warn(f"suspects without effect: {'; '.join(constant)}", UserWarning, stacklevel=4)
    return found


def _indicator_groups(values: Values, columns: np.ndarray, a: np.ndarray) -> list[tuple[int, ...]]:
    groups: list[tuple[int, ...]] = []
    run: list[int] = []
    total = np.zeros(a.size)

    def close() -> None:
        groups.extend((source,) for source in run)
        run.clear()

    for source in map(int, columns):
        x = values[source].numbers
        if x is None or values[source].kind != "number" or not np.isin(x, (0.0, 1.0)).all():
            close()
            groups.append((source,))
            continue
        if not run:
            total = np.zeros(a.size)
        run.append(source)
        total += x
        if len(run) > 1 and (total == 1).all():
            groups.append(tuple(run))
            run.clear()
    close()
    return groups


def _learn(
    values: Values, names: list[str], sources: tuple, a: np.ndarray, kind: str | None, n_used: int
) -> Suspect | str:
    """The suspect, or why it is none."""
    value = values[sources[0]]
    name = names[sources[0]]
    if len(sources) > 1:
        name = f"{name} ... {names[sources[-1]]}"
    elif value.kind in ("number", "date") and kind != "category":
        x = numbers_of(value)[a > 0]
        distinct = np.unique(x[~np.isnan(x)])
        if distinct.size > MAX_CODES or (kind == "number" and distinct.size > 2):
            if kind is None and distinct.size <= MAX_LEVELS and (distinct % 1 == 0).all():
                warnings.warn(
                    f"suspect {name!r} has {distinct.size} distinct whole numbers and is taken as "
                    f"a number; kinds={{{name!r}: 'category'}} takes them as codes",
                    UserWarning,
                    stacklevel=5,
                )
            return _learn_number(name, sources, numbers_of(value), a)
    words, codes = words_of(values, names, sources)
    weight = np.bincount(codes[a > 0], weights=a[a > 0], minlength=len(words) + 1)
    used = np.flatnonzero(weight > 0)
    # The level of missing values is not a value that is called "missing".
    missing = f"({MISSING})" if MISSING in words else MISSING
    texts = [missing if word is None else word for word in words]
    levels = [texts[c] for c in used]
    if len(levels) < 2:
        return f"{name!r} has one level ({levels[0]!r})"
    if len(levels) > max(MAX_LEVELS, 0.5 * n_used):
        raise ValueError(
            f"suspect {name!r} has {len(levels)} distinct values in {n_used} rows; the "
            "levels of a categorical suspect should repeat"
        )
    place = {words[c]: i for i, c in enumerate(used)}
    if len(levels) > MAX_LEVELS:
        kept = set(used[np.argsort(-weight[used], kind="stable")][: MAX_LEVELS - 1])
        own = [c for c in used if c in kept]
        levels = [*(texts[c] for c in own), OTHER]
        place = {words[c]: MAX_LEVELS - 1 for c in used}
        place.update({words[c]: i for i, c in enumerate(own)})
        warnings.warn(
            f"suspect {name!r} has {used.size} levels; the {used.size - MAX_LEVELS + 1} rarest are "
            f"one level, {levels[-1]!r}: {abbreviate([texts[c] for c in used if c not in kept])}",
            UserWarning,
            stacklevel=5,
        )
    return Suspect(name, sources, tuple(levels), place, numeric=value.kind == "number")


def _learn_number(name: str, sources: tuple, x: np.ndarray, a: np.ndarray) -> Suspect:
    """Intervals, and a natural cubic spline that is orthonormal over the rows of the fit."""
    known = ~np.isnan(x) & (a > 0)
    order = np.argsort(x[known], kind="stable")
    v, w = x[known][order], a[known][order]
    below = np.cumsum(w) / w.sum()

    def quantiles(at: np.ndarray) -> np.ndarray:
        return np.unique(v[np.minimum(np.searchsorted(below, at - 1e-12), v.size - 1)])

    edges = quantiles(EDGES)
    code = np.searchsorted(edges, v, side="right")
    used = np.unique(code)
    edges = np.array([v[code == c].min() for c in used[1:]])
    code = np.searchsorted(edges, v, side="right")
    weight = np.bincount(code, weights=w)
    centres = np.bincount(code, weights=w * v) / weight
    cut = np.searchsorted(np.arange(1, SHOWN) / SHOWN, (np.cumsum(weight) - 0.5 * weight) / w.sum())
    shown = np.unique(cut, return_inverse=True)[1]
    levels = []
    for at in range(shown.max() + 1):
        own = v[shown[code] == at]
        levels.append(f"{_short(own.min())} to {_short(own.max())}")
    knots = quantiles(KNOTS)
    if knots.size < 3:
        knots = np.linspace(v[0], v[-1], 4)
    f = natural_spline(centres, knots)
    middle = weight @ f / weight.sum()
    root = np.sqrt(weight / weight.sum())[:, None]
    _, s, Vt = np.linalg.svd(root * (f - middle) / np.abs(f).max(0), full_matrices=False)
    kept = s > 1e-6 * s[0]
    turn = (Vt[kept].T / s[kept]) / np.abs(f).max(0)[:, None]
    has_missing = bool((np.isnan(x) & (a > 0)).any())
    if has_missing:
        levels.append(MISSING)
    return Suspect(
        name, sources, tuple(levels), {}, True, edges, centres, shown, knots, middle, turn,
        has_missing,
    )  # fmt: skip


class Combinations:
    """Combinations of the suspects' values that occur in the rows of a fit: the levels of the
    model, and their design.

    cells (L, S): codes; weight (L,): weight of the rows; average (p,): mean row of the design
    """

    def __init__(self, suspects: list[Suspect], codes: np.ndarray, a: np.ndarray):
        """codes (n, S) of the rows of positive weight a."""
        self.suspects = suspects
        _, first, level = np.unique(self._keys(codes), return_index=True, return_inverse=True)
        self.cells = codes[first]
        self.weight = np.bincount(level.ravel(), weights=a)
        self.average = np.zeros(sum(s.basis().shape[1] for s in suspects))
        self.average = self.weight @ self.design_of(self.cells) / self.weight.sum()

    @property
    def one(self) -> bool:
        """Whether the levels are those of one categorical suspect."""
        return len(self.suspects) == 1 and not self.suspects[0].is_number

    @property
    def label(self) -> str:
        return " and ".join(s.name for s in self.suspects)

    @property
    def suspect_of_column(self) -> np.ndarray:
        """Suspect of each column of the design."""
        widths = [s.basis().shape[1] for s in self.suspects]
        return np.repeat(np.arange(len(widths)), widths)

    def design(self) -> Design:
        L = len(self.cells)
        if self.one:
            return Design.of_levels(L)
        shown = [s.shown_of(self.cells[:, i]) for i, s in enumerate(self.suspects)]
        few = L <= MAX_FREE and not any(s.is_number for s in self.suspects)
        logit = 0 if few else 1 + sum(s.n_free for s in self.suspects)
        Z = self.design_of(self.cells)
        return Design(Z, self.suspect_of_column, np.column_stack(shown), logit)

    def design_of(self, codes: np.ndarray) -> np.ndarray:
        """Rows of the design of combinations; unknown values (-1) have the average one."""
        of, parts = self.suspect_of_column, []
        for i, suspect in enumerate(self.suspects):
            rows = np.vstack([suspect.basis(), self.average[of == i]])
            parts.append(rows[codes[:, i]])
        return np.hstack(parts)

    def design_at(self, values: Values, codes: np.ndarray) -> np.ndarray:
        """Rows of the design of rows, numeric suspects at their value instead of the interval."""
        Z, of = self.design_of(codes), self.suspect_of_column
        for i, suspect in enumerate(self.suspects):
            if suspect.is_number:
                known = codes[:, i] >= 0
                own = suspect.basis_at(numbers_of(values[suspect.sources[0]])[known])
                Z[np.ix_(known, of == i)] = own
        return Z

    def level_of(self, codes: np.ndarray) -> np.ndarray:
        """Level of the fit of each combination, -1 where it did not occur."""
        known, wanted = self._keys(self.cells), self._keys(codes)
        at = np.minimum(np.searchsorted(known, wanted), known.size - 1)
        return np.where(known[at] == wanted, at, -1)

    def _keys(self, codes: np.ndarray) -> np.ndarray:
        """One number for each combination, in the order of the combinations."""
        sizes = [s.n_codes + 1 for s in self.suspects]
        keys = np.zeros(len(codes), dtype=np.int64 if math.prod(sizes) < 2**62 else object)
        for size, code in zip(sizes, codes.T):
            keys = keys * size + (code + 1)
        return keys

    def reported(self) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """The levels of all suspects: the suspect of each, the weight of each combination in it
        (R, L), and its name."""
        which, parts, names = [], [], []
        for i, suspect in enumerate(self.suspects):
            shown = suspect.shown_of(self.cells[:, i])
            plain = len(self.suspects) == 1 or len(suspect.sources) > 1
            for at, level in enumerate(suspect.levels):
                which.append(i)
                parts.append(np.where(shown == at, self.weight, 0.0))
                names.append(level if plain else f"{suspect.name}={level}")
        return np.array(which), np.array(parts), names


def codes_of(suspects: list[Suspect], values: Values, names: list[str], n: int) -> np.ndarray:
    """Codes (n, S) of rows; -1 where a value is unknown."""
    return np.column_stack([s.codes(values, names, n) for s in suspects]).astype(np.intp)
