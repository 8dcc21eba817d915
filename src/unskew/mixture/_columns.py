"""Columns of a table or array as numbers, flags and categories."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._data.columns import (
    ColumnValues,
    as_frame,
    column_names,
    format_number,
    frame_columns,
    read_column,
)
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
        if kind not in ("number", "category"):
            raise ValueError(f"kinds[{key!r}]={kind!r} should be 'number' or 'category'")
        found[int(at[0])] = kind
    return found


def learn_columns(
    values: list[ColumnValues],
    names: list[str],
    suspects: np.ndarray,
    a: np.ndarray,
    level: np.ndarray,
    kinds: dict[int, str],
    recipes: list[Recipe] | None = None,
) -> list[ColumnModel]:
    """Models of all columns that vary and are not suspects; warns of the others.

    ``recipes``: of the columns of a table, what its encoder leaves out and pools.
    """
    models, ignored = [], []
    for source, (value, name) in enumerate(zip(values, names)):
        if source in suspects:
            continue
        recipe = None if recipes is None else recipes[source]
        model = _learn(source, value, name, a, level, kinds.get(source), recipe)
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
            stacklevel=4,
        )
    return models


def _learn(
    source: int,
    values: ColumnValues,
    name: str,
    a: np.ndarray,
    level: np.ndarray,
    asked: Any,
    recipe: Recipe | None,
) -> ColumnModel | str:
    """The model, or why there is none."""
    if recipe is not None and recipe.identifier:
        return recipe.why
    if values.codes is not None:
        known = (values.codes >= 0) & (a > 0)
        used = np.unique(values.codes[known])
        if used.size < 2:
            return f"every value is {values.words[used[0]]!r}" if used.size else "no value is known"
        if recipe is not None and recipe.n_pooled:
            words = (*recipe.own_states, OTHER)
            return ColumnModel(source, name, "category", words=words, asked=asked, pooled=True)
        if recipe is None and used.size > MAX_CATEGORIES:
            raise ValueError(
                f"column {name!r} of X has {used.size} distinct values; a category should have at "
                f"most {MAX_CATEGORIES}. Drop an identifier"
            )
        words = tuple(str(values.words[c]) for c in used)
        whole = known[a > 0].all()
        kind = "flag" if used.size == 2 and whole else "category"
        return ColumnModel(source, name, kind, words=words, asked=asked)
    x = values.numbers
    assert x is not None
    known = ~np.isnan(x) & (a > 0)
    if not known.any():
        return "no value is known"
    v, weight = x[known], a[known]
    if v.min() == v.max():
        return f"every value is {v[0]:g}"
    different = (v.min(), v.max())
    if asked != "number" and values.kind != "ordered" and np.isin(v, different).all():
        words = tuple(format_number(value) for value in different)
        kind = "flag" if known[a > 0].all() else "category"
        return ColumnModel(source, name, kind, words=words, numeric=True, asked=asked)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(v[0] + weight @ (v - v[0]) / weight.sum())
        variance = float(weight @ (v - mean) ** 2 / weight.sum())
    if not np.isfinite(variance) or variance <= np.finfo(float).tiny:
        raise ValueError(
            f"column {name!r} of X ranges from {v.min():.3g} to {v.max():.3g}, whose squares "
            "overflow or underflow; rescale it"
        )
    floor = _floor(v, weight, level[known]) / variance
    return ColumnModel(
        source,
        name,
        "number",
        mean,
        variance**0.5,
        max(floor, MIN_VARIANCE),
        words=tuple(map(str, values.words)),
        numeric=values.kind == "number",
        exact=values.kind == "number",
        asked=asked,
    )


def _floor(v: np.ndarray, weight: np.ndarray, level: np.ndarray) -> float:
    """Smallest variance within a group: that of rounding, (resolution)^2 / 12, and the variance
    within levels of a column that is nearly constant in them (``MOST_EQUAL``)."""
    if v.size > RESOLUTION_ROWS:
        chosen = np.random.RandomState(0).permutation(v.size)[:RESOLUTION_ROWS]
        v, weight, level = v[chosen], weight[chosen], level[chosen]
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


def apply_columns(models: list[ColumnModel], values: list[ColumnValues]) -> Columns:
    """The columns as the likelihood needs them; unknown categories count as missing."""
    n = next(v.size for v in (values[0].numbers, values[0].codes) if v is not None)
    numbers, flags, categories, floor = [], [], [], []
    for model in models:
        value = values[model.source]
        if model.kind == "number":
            if value.numbers is None:
                raise ValueError(
                    f"column {model.name!r} of X holds {value.kind} but was a number in the fit"
                )
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
