"""Columns of a table or array as numbers, flags and categories."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._data.columns import (
    ColumnValues,
    as_frame,
    column_names,
    format_number,
    frame_columns,
    read_column,
)
from .._data.sampling import draw_rows
from .._mixture.gaussian import MIN_VARIANCE
from .._mixture.rows import Columns
from .._preprocessing.table_encoder import OTHER, Recipe
from .._validation import abbreviate, find_columns

# Most categories of a column.
MAX_CATEGORIES = 50
# A number of which one value makes up this share of each level's rows (a pixel that is nearly
# always 0) has at least its variance within levels: otherwise the likelihood would be highest where
# a group consists of the few rows with another value.
MOST_EQUAL = 0.9
# Rows that are sorted to find the resolution of a number.
RESOLUTION_ROWS = 20_000


@dataclass(frozen=True)
class ColumnModel:
    """How one source column enters the likelihood.

    kind    "number" (mean, sd), "flag" (words: its two values) or "category" (words)
    words   of an ordered column all its levels, whose positions are the scores
    numeric whether the source holds numbers
    exact   whether ``transform`` removes the effect: numbers that are not dates or scores
    asked   kind requested by the user, or None
    pooled  whether the last of ``words`` stands for all values that are not among the others
    """

    source: int
    name: str
    kind: str
    mean: float = 0.0
    sd: float = 1.0
    floor: float = MIN_VARIANCE
    words: tuple = ()
    numeric: bool = False
    exact: bool = False
    asked: str | None = None
    pooled: bool = False

    @property
    def names(self) -> list[str]:
        if self.kind == "number":
            return [self.name]
        if self.kind == "flag":
            return [f"{self.name}={self.words[1]}"]
        return [f"{self.name}={word}" for word in self.words]


def read_sources(X: Any, kinds: dict, which: Any = None) -> list[ColumnValues]:
    """All source columns of a table or of a float array (nan is missing)."""
    frame = as_frame(X)
    if frame is None:
        values = [ColumnValues("number", column, None, ()) for column in X.T]
        return [as_category(v) if kinds.get(i) == "category" else v for i, v in enumerate(values)]
    columns = frame_columns(frame)
    names = column_names(frame) if which is None else list(which)
    return [read_column(columns[name], name, kinds.get(i)) for i, name in enumerate(names)]


def as_category(values: ColumnValues) -> ColumnValues:
    x = np.asarray(values.numbers)
    known = ~np.isnan(x)
    different, places = np.unique(x[known], return_inverse=True)
    codes = np.full(x.size, -1, dtype=np.int64)
    codes[known] = places
    return ColumnValues("text", None, codes, tuple(format_number(v) for v in different))


def find_kinds(kinds: dict | None, names: np.ndarray | None, d: int) -> dict[int, str]:
    found = {}
    for key, kind in (kinds or {}).items():
        at = find_columns(key, names, d, "kinds")
        if not (isinstance(kind, str) and kind in ("number", "category")):
            shown = repr(kind)[:40]
            raise ValueError(f"kinds[{key!r}]={shown} should be 'number' or 'category'")
        found[int(at[0])] = kind
    return found


class Sample(NamedTuple):
    """Rows of positive weight on which the resolution of numbers is found: their positions, design
    weights, and levels of the first suspect."""

    rows: np.ndarray
    a: np.ndarray
    level: np.ndarray


class Facts(NamedTuple):
    """What the model of a column depends on, of the rows of positive weight.

    kind     that of `ColumnValues`; words: its distinct values, of codes those that occur
    whole    whether no value is missing
    low, high, two, mean, variance
             of numbers: range (nan: no value is known), whether no third value occurs, moments
    values   of numbers: those of the sample
    """

    kind: str
    words: tuple
    whole: bool
    low: float = np.nan
    high: float = np.nan
    two: bool = False
    mean: float = 0.0
    variance: float = 0.0
    values: np.ndarray | None = None


def sample_rows(a: np.ndarray) -> np.ndarray:
    """Positions of the rows of a `Sample`."""
    return draw_rows(a, RESOLUTION_ROWS, 0)


def facts_of(values: ColumnValues, a: np.ndarray, sample: np.ndarray) -> Facts:
    """Facts of a whole column; ``sample``: positions of the rows of a `Sample`."""
    if values.codes is not None:
        counts = np.bincount(values.codes[a > 0] + 1, minlength=len(values.words) + 1)
        used = tuple(str(values.words[c]) for c in np.flatnonzero(counts[1:]))
        return Facts(values.kind, used, counts[0] == 0)
    x = values.numbers
    known = ~np.isnan(x) & (a > 0)
    v, weight = x[known], a[known]
    if not v.size:
        return Facts(values.kind, values.words, False)
    low, high = v.min(), v.max()
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(v[0] + weight @ (v - v[0]) / weight.sum())
        variance = float(weight @ (v - mean) ** 2 / weight.sum())
    whole = v.size == np.count_nonzero(a)
    two = bool(np.isin(v, (low, high)).all())
    return Facts(values.kind, values.words, whole, low, high, two, mean, variance, x[sample])


def facts_of_matrix(matrix: Any, a: np.ndarray, few: np.ndarray) -> list[Facts]:
    """Facts of all columns of a matrix in tiles, in two passes; ``few``: rows of the sample."""
    d = matrix.d
    shift = np.where(np.isnan(few[0]), 0.0, few[0])
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    weight, total, lost = np.zeros(d), np.zeros(d), np.zeros(d)
    for part in matrix.map(_ranges, a, coefs=shift):
        low, high = np.minimum(low, part[0]), np.maximum(high, part[1])
        weight, total, lost = weight + part[2], total + part[3], lost + part[4]
    known = weight > 0
    with np.errstate(over="ignore", invalid="ignore"):
        mean = shift + total / np.where(known, weight, 1.0)
        spread, third = np.zeros(d), np.zeros(d)
        for more, others in matrix.map(_spreads, a, coefs=(mean, low, high)):
            spread, third = spread + more, third + others
        variance = spread / np.where(known, weight, 1.0)
    low, high = np.where(known, low, np.nan), np.where(known, high, np.nan)
    return [
        Facts(
            "number", (), bool(lost[j] == 0), float(low[j]), float(high[j]), bool(third[j] == 0),
            float(mean[j]), float(variance[j]), few[:, j],
        )
        for j in range(d)
    ]  # fmt: skip


def _present(tile: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of positive weight in float64, and their weights."""
    if not (a > 0).all():
        tile, a = tile[a > 0], a[a > 0]
    return tile.astype(np.float64, copy=False), a


def _ranges(tile: np.ndarray, a: np.ndarray, shift: np.ndarray) -> tuple:
    """Ranges, weight of the known values, weighted sums around ``shift``, missing values."""
    x, a = _present(tile, a)
    lost = np.isnan(x)
    low = np.where(lost, np.inf, x).min(axis=0, initial=np.inf)
    high = np.where(lost, -np.inf, x).max(axis=0, initial=-np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        return low, high, a @ ~lost, a @ np.where(lost, 0.0, x - shift), lost.sum(0)


def _spreads(tile: np.ndarray, a: np.ndarray, coefs: tuple) -> tuple:
    """Weighted squares around the means, and how many values are at neither end."""
    x, a = _present(tile, a)
    mean, low, high = coefs
    lost = np.isnan(x)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = a @ np.where(lost, 0.0, x - mean) ** 2
    return squares, ((x != low) & (x != high) & ~lost).sum(0)


def learn_columns(
    facts: list[Facts],
    names: list[str],
    suspects: np.ndarray,
    sample: Sample,
    kinds: dict[int, str],
    recipes: list[Recipe] | None = None,
) -> list[ColumnModel]:
    """Models of all columns that vary and are not suspects; warns of the others.

    ``recipes``: of the columns of a table, what its encoder leaves out and pools.
    """
    models, ignored = [], []
    for source, (fact, name) in enumerate(zip(facts, names)):
        if source in suspects:
            continue
        recipe = None if recipes is None else recipes[source]
        model = _learn(source, fact, name, sample, kinds.get(source), recipe)
        if isinstance(model, str):
            ignored.append(f"{name!r} ({model})")
        else:
            models.append(model)
    if not models:
        raise ValueError(
            f"no column of X outside the suspects varies: {abbreviate(ignored, quoted=False)}; at "
            "least one should"
        )
    if ignored and recipes is None:  # the encoder of a table has a warning for all columns
        warnings.warn(
            f"columns that do not vary are left out: {abbreviate(ignored, quoted=False)}",
            UserWarning,
            stacklevel=5,
        )
    return models


def _learn(
    source: int, fact: Facts, name: str, sample: Sample, asked: Any, recipe: Recipe | None
) -> ColumnModel | str:
    """The model, or why there is none."""
    if recipe is not None and recipe.identifier:
        return recipe.why
    if fact.kind in ("text", "flag"):
        used = fact.words
        if len(used) < 2:
            return f"every value is {used[0]!r}" if used else "no value is known"
        if recipe is not None and recipe.n_pooled:
            words = (*recipe.own_states, OTHER)
            return ColumnModel(source, name, "category", words=words, asked=asked, pooled=True)
        if recipe is None and len(used) > MAX_CATEGORIES:
            raise ValueError(
                f"column {name!r} of X has {len(used)} distinct values; a category should have at "
                f"most {MAX_CATEGORIES}. Drop an identifier"
            )
        kind = "flag" if len(used) == 2 and fact.whole else "category"
        return ColumnModel(source, name, kind, words=used, asked=asked)
    if np.isnan(fact.low):
        return "no value is known"
    if fact.low == fact.high:
        return f"every value is {fact.low:g}"
    if asked != "number" and fact.kind != "ordered" and fact.two:
        words = tuple(format_number(value) for value in (fact.low, fact.high))
        kind = "flag" if fact.whole else "category"
        return ColumnModel(source, name, kind, words=words, numeric=True, asked=asked)
    if not np.isfinite(fact.variance) or fact.variance <= np.finfo(float).tiny:
        raise ValueError(
            f"column {name!r} of X ranges from {fact.low:.3g} to {fact.high:.3g}, whose squares "
            "overflow or underflow; rescale it"
        )
    values = np.asarray(fact.values, dtype=np.float64)
    known = ~np.isnan(values)
    floor = _floor(values[known], sample.a[known], sample.level[known]) / fact.variance
    return ColumnModel(
        source,
        name,
        "number",
        fact.mean,
        fact.variance**0.5,
        max(floor, MIN_VARIANCE),
        words=tuple(map(str, fact.words)),
        numeric=fact.kind == "number",
        exact=fact.kind == "number",
        asked=asked,
    )


def _floor(v: np.ndarray, weight: np.ndarray, level: np.ndarray) -> float:
    """Smallest variance within a group: that of rounding, (resolution)^2 / 12, and the variance
    within levels of a column that is nearly constant in them (``MOST_EQUAL``)."""
    if not v.size:
        return 0.0
    equal = within = 0.0
    steps_found, smallest = [], 1e-9 * (v.max() - v.min())
    for one in np.unique(level):
        own, w = v[level == one], weight[level == one]
        order = np.argsort(own)
        own, w = own[order], w[order]
        steps = np.diff(own)
        # Values that agree up to rounding error are equal.
        first = np.concatenate([[True], steps > smallest])
        equal += np.bincount(np.cumsum(first) - 1, weights=w).max()
        mean = w @ own / w.sum()
        within += w @ (own - mean) ** 2
        steps_found.extend(steps[steps > smallest])
    total = weight.sum()
    # Continuous values hardly ever repeat, and their smallest gap says nothing.
    repeats = len(steps_found) < 0.5 * v.size
    resolution = float(np.min(steps_found)) ** 2 / 12 if steps_found and repeats else 0.0
    return max(resolution, within / total if equal > MOST_EQUAL * total else 0.0)


def check_numbers(models: list[ColumnModel], values: Any) -> None:
    """Raise where a number of the fit is now text, or true and false."""
    for model in models:
        value = values[model.source]
        if model.kind == "number" and value.numbers is None:
            raise ValueError(
                f"column {model.name!r} of X holds {value.kind} but was a number in the fit"
            )


def apply_columns(models: list[ColumnModel], values: Any, n: int) -> Columns:
    """The columns of n rows as the likelihood needs them, from values by source; unknown categories
    count as missing."""
    check_numbers(models, values)
    numbers, flags, categories, floor = [], [], [], []
    for model in models:
        value = values[model.source]
        if model.kind == "number":
            numbers.append((value.numbers - model.mean) / model.sd)
            floor.append(model.floor)
            continue
        if value.codes is None:
            value = as_category(value)
        own = model.words[:-1] if model.pooled else model.words
        place = {word: i for i, word in enumerate(own)}
        rest = len(own) if model.pooled else -1
        if {"0", "1"} == set(place) and set(map(str, value.words)) <= {"False", "True"}:
            place = {"False": place["0"], "True": place["1"]}
        elif {"False", "True"} == set(place) and set(map(str, value.words)) <= {"0", "1"}:
            place = {"0": place["False"], "1": place["True"]}
        codes = np.array([place.get(str(word), rest) for word in value.words] + [-1])[value.codes]
        if model.kind == "flag" and (codes >= 0).all():
            flags.append(codes.astype(float))
        elif model.kind == "flag":
            flags.append(np.where(codes < 0, np.nan, codes))
        else:
            categories.append((codes, len(model.words)))

    def stack(parts: list) -> np.ndarray:
        return np.column_stack(parts).astype(np.float64) if parts else np.zeros((n, 0))

    return Columns(stack(numbers), np.array(floor), stack(flags), categories)
