"""TableEncoder: encodes a table of mixed types as a numeric matrix."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._data.columns import (
    NUMERIC_TEXT,
    ColumnValues,
    as_frame,
    column_names,
    format_number,
    frame_columns,
    numbers_in_text,
    read_column,
)
from .._records import ColumnWarning, Finding, Records, by_topic
from .._validation import abbreviate, check_number, check_option, check_weights
from .findings import (
    MAX_DISTINCT,
    Signature,
    describe_number,
    near_duplicates,
    number_identifier,
    text_identifier,
)
from .stats import ColumnMap

OTHER, MISSING = "other values", "missing"
# Interquartile range of the standard normal distribution.
QUARTILES = 1.3489795003921634


@dataclass(frozen=True)
class Recipe:
    """How one source column is encoded; learned once, applied to every table.

    kind      "number", "two-valued", "category", "ordered", "date", or "constant" (left out)
    asked     kind requested by the user, or None
    centre, scale, limit, mean   of numbers: clip((x - centre) / scale, limit) - mean
    states    of categories: the value of each 0/1 column; after the values that have a column of
              their own, "other values" if n_pooled > 0, then "missing" if n_missing > 0
    step      encoded value of a 0/1 column where it is present
    note      whether there is an indicator column of missing values
    empty     whether only that indicator column is encoded
    words     all levels of an ordered column
    levels    encoded values of the levels that occur
    why       reason why a column is left out
    identifier  whether that is because it looks like an identifier or free text
    n_pooled  number of values that are pooled as "other values"
    n_missing number of rows without a value
    numeric_text  whether the numbers are text with marks of missing values
    values    what the values are, in a few words
    notes     (topic, text) of further findings
    """

    name: str
    kind: str
    asked: str | None = None
    centre: float = 0.0
    scale: float = 1.0
    limit: float = np.inf
    mean: float = 0.0
    states: tuple = ()
    step: float = 1.0
    note: bool = False
    empty: bool = False
    words: tuple = ()
    levels: tuple | None = None
    why: str = ""
    identifier: bool = False
    n_pooled: int = 0
    n_missing: int = 0
    numeric_text: bool = False
    values: str = ""
    notes: tuple = ()

    @property
    def reading(self) -> str | None:
        """Kind with which new rows are read."""
        return NUMERIC_TEXT if self.numeric_text else self.asked

    @property
    def findings(self) -> list[Finding]:
        """What a user should know about the column."""
        found = list(self.notes)
        if self.n_pooled:
            found.insert(0, ("pooled", f"{self.n_pooled:,} rare values as {OTHER!r}"))
        if self.why:
            found.insert(0, ("left out" if self.identifier else "constant", self.why))
        return [Finding(topic, self.name, text) for topic, text in found]

    @property
    def columns(self) -> list[str]:
        """Names of the encoded columns; the indicator of missing values is the last."""
        if self.kind == "constant":
            return []
        if self.kind == "category":
            if self.states == ("False", "True") and not self.n_missing:
                return [self.name]
            named = [f"{self.name}={state}" for state in self.own_states]
            named += [f"{self.name}: {OTHER}"] if self.n_pooled else []
            named += [f"{self.name} is {MISSING}"] if self.n_missing else []
            return named[1:] if len(named) == 2 else named
        own = [] if self.empty else [self.name]
        return [*own, f"{self.name} is {MISSING}"] if self.note else own

    @property
    def own_states(self) -> tuple:
        """States that are a single value of the table, which may also be called "missing"."""
        return self.states[: len(self.states) - bool(self.n_pooled) - bool(self.n_missing)]

    def number(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # clipped, or refused by the encoder
            return np.clip((x - self.centre) / self.scale, -self.limit, self.limit) - self.mean

    def readable(self, value: float) -> float:
        """An encoded mean in the units of the table."""
        if self.kind == "category":
            return value / self.step
        return (value + self.mean) * self.scale + self.centre


def _range(values: ColumnValues, v: np.ndarray) -> str:
    """Smallest and largest of the numbers, dates or levels ``v``."""
    low, high = float(v.min()), float(v.max())
    if values.words:
        return f"{values.words[int(low)]} < {values.words[int(high)]}"
    if values.kind == "date" and abs(low) < 10**6 and abs(high) < 10**6:
        low_day, high_day = (np.datetime64(int(np.floor(x)), "D") for x in (low, high))
        return f"{low_day} to {high_day}"
    return " to ".join(format_number(x) if x.is_integer() else f"{x:.4g}" for x in (low, high))


def _list_words(words: tuple, used: np.ndarray, weight: np.ndarray) -> str:
    """The most frequent values, and how many there are."""
    top = used[np.argsort(-weight[used], kind="stable")]
    shown = ", ".join(str(words[c])[:20] for c in top[:3])
    return f"{shown}, ... ({used.size:,})" if used.size > 3 else shown


class EncodedTable(NamedTuple):
    """A table as a matrix. ``unknown``: for each source with unknown values (not seen in the fit,
    or missing where none was missing in the fit), the rows and an example."""

    matrix: np.ndarray
    unknown: dict[int, tuple[np.ndarray, str]]


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table with columns of any type as a numeric matrix.

    Numbers (integers, floats, dates as days): (x - median) / scale, with scale = (interquartile
    range) / 1.349, the standard deviation of a normal column; clipped at ``clip`` scales from the
    median; then centred. If the quartiles coincide, scale is the standard deviation. Categories
    (text, categorical): one column per value, 0 or category_scale / sqrt(2), so that two different
    values have distance category_scale: with 1, as much as one standard deviation of a number. Two
    values (booleans, numbers with two values, categories with two): one column, 0 or
    category_scale, the same distance. Ordered categories (pandas ordered categoricals, polars
    Enum): the index of the level, divided by its standard deviation.

    In text, "", NA, n/a, NaN, null and the like are missing values, and so are ? . - None and the
    like where all other values are numbers: such a column is read as numbers (``findings_`` says
    so; ``kinds={name: "category"}`` keeps the words).

    Missing values are a category of their own for categories and booleans. For numbers and ordered
    columns they are encoded as 0, the mean, and marked in a 0/1 column "... is missing"; DCKM
    leaves them out of the distance and scales up the observed columns (see there).

    Quantiles and means are weighted by ``sample_weight``.

    Parameters
    ----------
    number_scale : {"robust", "sd", "none"}, default="robust"
        "sd": mean and standard deviation, "none": unscaled (neither is clipped).
    category_scale : float, default=1.0
        Distance between two categories.
    clip : float or None, default=4.0
        With "robust": maximum number of scales from the median. None: no clipping.
    max_categories : int or None, default=None
        Number of the most frequent values that get a column of their own; the others are pooled as
        "other values". None: 50.
    strict : bool, default=False
        Raise an error for a column that is an identifier, and for a text column that is pooled
        although ``max_categories`` is not given, instead of a warning.
    kinds : dict or None, default=None
        Source name -> "category" (numbers that are codes) or "number" (levels or booleans to be
        treated as a number), where the type of the column is misleading. Other columns are left
        out if they look like identifiers: text whose values nearly all occur once and have digits,
        are long, or are more than 50; text of more than 50 values where those that occur once have
        more than half of the rows; different integers that are consecutive (row numbers) or have
        the name of an identifier (patient_id).
    dtype : {"float32", "float64"}, default="float32"
        Of the matrix, and so of the arithmetic of a fit (sums over rows are in float64).

    Attributes
    ----------
    feature_names_in_, n_features_in_
        Source columns.
    sources_ : ndarray of int
        For each encoded column the position of its source.
    kinds_ : dict
        Source name -> "number", "two-valued", "category", "ordered", "date" or "constant".
    ignored_ : dict
        Source columns that are left out (constants, identifiers, free text) -> reason.
    identifiers_ : dict
        Those of them that look like identifiers or free text -> reason.
    pooled_ : dict
        Source columns with values pooled as "other values" -> the number of these values.
    columns_ : list of dicts
        What was made of each column: kind, values, number of missing values, and a note. Shown as
        a table by ``print(encoder)`` and in notebooks; ``columns_.to_frame()`` makes it one.
    findings_ : list of (topic, column, text)
        The notes: columns that are left out, pooled, near-duplicates of others, or numbers with
        whole numbers with few values, which may be codes.
    recipes_ : list
        One per source, with centre, scale, categories.

    Examples
    --------
    >>> import polars as pl
    >>> from unskew import TableEncoder
    >>> table = pl.DataFrame({"age": [20, 40, None, 60], "site": ["A", "B", "C", "A"]})
    >>> encoder = TableEncoder().fit(table)
    >>> list(encoder.get_feature_names_out())
    ['age', 'age is missing', 'site=A', 'site=B', 'site=C']
    >>> encoder.transform(table).round(2)
    array([[-0.67,  0.  ,  0.71,  0.  ,  0.  ],
           [ 0.  ,  0.  ,  0.  ,  0.71,  0.  ],
           [ 0.  ,  1.  ,  0.  ,  0.  ,  0.71],
           [ 0.67,  0.  ,  0.71,  0.  ,  0.  ]], dtype=float32)
    """

    def __init__(
        self,
        *,
        number_scale="robust",
        category_scale=1.0,
        clip=4.0,
        max_categories=None,
        strict=False,
        kinds=None,
        dtype="float32",
    ):
        self.number_scale = number_scale
        self.category_scale = category_scale
        self.clip = clip
        self.max_categories = max_categories
        self.strict = strict
        self.kinds = kinds
        self.dtype = dtype

    def _check_parameters(self, names: list[str]) -> None:
        check_option("number_scale", self.number_scale, ("robust", "sd", "none"))
        check_option("dtype", self.dtype, ("float32", "float64"))
        check_number("category_scale", self.category_scale, low=0, open_low=True)
        if self.clip is not None:
            check_number("clip", self.clip, low=0, open_low=True)
        if self.max_categories is not None:
            check_number("max_categories", self.max_categories, numbers.Integral, low=1)
        for name, kind in (self.kinds or {}).items():
            if name not in names:
                raise ValueError(
                    f"kinds names {name!r}, which is not a column of X; columns: "
                    f"{abbreviate(names)}"
                )
            if kind not in ("number", "category"):
                raise ValueError(f"kinds[{name!r}]={kind!r} should be 'number' or 'category'")

    def fit(self, X, y=None, sample_weight=None):
        """Learn scales and categories from a pandas, polars or pyarrow table. Returns self."""
        self._learn(X, sample_weight)
        return self

    def _fit_encode(self, X: Any, sample_weight: Any = None) -> EncodedTable:
        """``fit``, then encode the same table; each column is read once."""
        read = self._learn(X, sample_weight)
        return self._place_all(read)

    def _learn(self, X: Any, sample_weight: Any) -> list[ColumnValues]:
        frame = as_frame(X)
        if frame is None:
            raise TypeError(
                f"X is {type(X).__name__}; TableEncoder takes pandas, polars and pyarrow tables"
            )
        names = column_names(frame)
        self._check_parameters(names)
        n = len(frame)
        if not names or n == 0:
            raise ValueError(f"X has {n} rows and {len(names)} columns; both should be >= 1")
        a = check_weights(sample_weight, n)
        kinds = self.kinds or {}
        read = []
        for name, series in frame_columns(frame).items():
            values = read_column(series, name, kinds.get(name))
            read.append(values if name in kinds else numbers_in_text(values))
        self._learn_columns(names, read, a)
        self.library_ = str(frame.implementation.value)
        return read

    def _fit_columns(
        self, names: list[str], columns: Iterable[ColumnValues], a: np.ndarray
    ) -> None:
        """``fit`` on whole columns, one at a time, for a table that need not fit in memory."""
        self._check_parameters(names)
        self._learn_columns(names, columns, a)

    def _learn_columns(
        self, names: list[str], columns: Iterable[ColumnValues], a: np.ndarray
    ) -> None:
        kinds = self.kinds or {}
        recipes: list[Recipe] = []
        signatures: dict[str, Signature] = {}
        for name, values in zip(names, columns):
            recipes.append(self._recipe(name, values, a, kinds.get(name)))
            if recipes[-1].kind != "constant":
                signatures[name] = Signature(values)
        notes = near_duplicates(signatures)
        recipes = [replace(r, notes=(*r.notes, *notes.get(r.name, ()))) for r in recipes]
        self._refuse_if_strict(recipes, int((a > 0).sum()))
        self.recipes_ = recipes
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        self.kinds_ = {r.name: r.kind for r in recipes}
        self.ignored_ = {r.name: r.why for r in recipes if r.kind == "constant"}
        self.identifiers_ = {r.name: r.why for r in recipes if r.identifier}
        self.pooled_ = {r.name: r.n_pooled for r in recipes if r.n_pooled}
        self.sources_ = np.repeat(np.arange(len(recipes)), [len(r.columns) for r in recipes])
        if self.sources_.size == 0:
            reasons = [f"{r.name!r} ({r.why})" for r in recipes]
            raise ValueError(
                f"no column of X varies: {abbreviate(reasons, quoted=False)}; at least one should"
            )

    # ----------------------------------------------------------------------------------- learn
    def _recipe(self, name: str, values: ColumnValues, a: np.ndarray, asked: str | None) -> Recipe:
        recipe = self._recipe_of(name, values, a, asked)
        if not values.marks or recipe.identifier:
            return recipe
        notes = (("missing", values.marks_shown), *recipe.notes)
        return replace(recipe, numeric_text=values.codes is None, notes=notes)

    def _recipe_of(
        self, name: str, values: ColumnValues, a: np.ndarray, asked: str | None
    ) -> Recipe:
        if values.codes is not None:
            return self._category(name, values, a, asked)
        assert values.numbers is not None
        x, present = values.numbers, a > 0
        missing = np.isnan(x)
        known = present & ~missing
        note = bool((present & missing).any())
        if not known.any():
            return Recipe(name, "constant", asked, why="no value is known")
        v, weight = x[known], a[known]
        n_missing = int((present & missing).sum())
        why = number_identifier(name, v) if not note and values.kind == "number" else ""
        if why and asked is None:
            return Recipe(name, "constant", why=why, identifier=True, values=_range(values, v))
        if v.min() == v.max():
            if note:  # missingness itself still varies
                shown = _range(values, v)
                return Recipe(name, "two-valued", asked, centre=float(v[0]), note=True, empty=True,
                              n_missing=n_missing, values=shown)  # fmt: skip
            shown = values.words[int(v[0])] if values.words else f"{v[0]:g}"
            return Recipe(name, "constant", asked, why=f"every value is {shown}")
        different = np.unique(v)
        common: Any = {
            "asked": asked,
            "note": note,
            "n_missing": n_missing,
            "values": _range(values, v),
            "notes": ()
            if asked or values.kind != "number"
            else describe_number(name, v, different),
        }
        with np.errstate(over="ignore", under="ignore"):
            squares = np.square(v - v[0])
            # From the mean instead of v[0], squares are up to four times as large.
            finite = np.isfinite([squares.sum(), 4.0 * (weight @ squares)]).all()
        if not finite or squares.max() == 0:
            raise ValueError(
                f"column {name!r} of X ranges from {v.min():.3g} to {v.max():.3g}, whose squares "
                "overflow or underflow; rescale it"
            )
        if values.kind == "ordered":
            mean = float(weight @ v / weight.sum())
            sd = float(np.sqrt(weight @ (v - mean) ** 2 / weight.sum()))
            levels = tuple(float(level) for level in (different - mean) / sd)
            return Recipe(
                name, "ordered", centre=mean, scale=sd, words=values.words, levels=levels, **common
            )
        if ((v == v.min()) | (v == v.max())).all():
            # A number with two values is encoded like a category with two values.
            step = float(v.max() - v.min()) / self.category_scale
            recipe = Recipe(name, "two-valued", centre=float(v.min()), scale=step, **common)
        else:
            kind = "date" if values.kind == "date" else "number"
            centre, scale, limit = self._scale(v, weight)
            recipe = Recipe(name, kind, centre=centre, scale=scale, limit=limit, **common)
            if recipe.number(v).min() == recipe.number(v).max():
                recipe = Recipe(name, kind, centre=centre, scale=scale, **common)
        if recipe.kind == "two-valued" and not note:
            return recipe
        return replace(recipe, mean=float(weight @ recipe.number(v) / weight.sum()))

    def _refuse_if_strict(self, recipes: list[Recipe], n: int) -> None:
        """Raise an error that names all columns that would be left out or pooled by default."""
        default = self.max_categories is None
        refused = []
        for r in recipes:
            if r.identifier:
                refused.append(f"column {r.name!r} of X has {r.why}")
            elif r.n_pooled and default:
                many = f"{r.n_pooled + MAX_DISTINCT:,} different values in {n - r.n_missing:,} rows"
                refused.append(f"column {r.name!r} of X has {many}")
        if self.strict and refused:
            raise ValueError(
                f"{'; '.join(refused)}; with strict=True none should be left out, and a category "
                f"have at most {MAX_DISTINCT} values: drop the columns, say their kinds, or pool "
                "rare values with max_categories=20"
            )

    def _scale(self, v: np.ndarray, weight: np.ndarray) -> tuple[float, float, float]:
        mean = float(weight @ v / weight.sum())
        sd = float(np.sqrt(weight @ (v - mean) ** 2 / weight.sum()))
        if self.number_scale == "none":
            return 0.0, 1.0, np.inf
        if self.number_scale == "sd":
            return mean, sd, np.inf
        low, middle, high = weighted_quantiles(v, weight, (0.25, 0.5, 0.75))
        scale = (high - low) / QUARTILES
        limit = np.inf if self.clip is None else float(self.clip)
        return middle, scale if scale > 1e-9 * sd else sd, limit

    def _category(
        self, name: str, values: ColumnValues, a: np.ndarray, asked: str | None
    ) -> Recipe:
        codes = values.codes
        assert codes is not None
        known = (codes >= 0) & (a > 0)
        weight = np.bincount(codes[known], weights=a[known], minlength=len(values.words))
        used = np.flatnonzero(weight > 0)
        count = np.bincount(codes[known], minlength=len(values.words))
        n_missing = int(((codes < 0) & (a > 0)).sum())
        values_shown = _list_words(values.words, used, weight)
        why = "" if asked or values.kind != "text" else text_identifier(name, values.words, count)
        if why:
            return Recipe(name, "constant", why=why, identifier=True, n_missing=n_missing,
                          values=values_shown)  # fmt: skip
        most = self.max_categories
        if values.kind == "text" and most is None:
            most = MAX_DISTINCT
            most += used.size == most + 1  # a single value is not pooled
        pooled = most is not None and used.size > most
        n_pooled = used.size - most if pooled else 0
        if pooled:
            # The values with the largest weight; ties in sorted order.
            heaviest = np.argsort(-weight[used], kind="stable")[:most]
            used = np.sort(used[heaviest])
        states = tuple(str(values.words[c]) for c in used)
        states += ((OTHER,) if pooled else ()) + ((MISSING,) if n_missing else ())
        if len(states) < 2:
            why = f"every value is {states[0]!r}" if used.size else "no value is known"
            return Recipe(name, "constant", asked, why=why)
        step = self.category_scale * (1.0 if len(states) == 2 else 2**-0.5)
        return Recipe(name, "category", asked, states=states, step=float(step),
                      n_pooled=int(n_pooled), n_missing=n_missing,
                      values=values_shown)  # fmt: skip

    # ------------------------------------------------------------------------------------ shown
    @property
    def findings_(self) -> list[Finding]:
        return [finding for recipe in self.recipes_ for finding in recipe.findings]

    def _warn_changed(self, stacklevel: int) -> None:
        """Warn of columns that are left out, of values that are pooled without being asked, and of
        words that are read as missing values."""
        topics = {"left out", "constant", "missing"} | (
            {"pooled"} if self.max_categories is None else set()
        )
        changed = [f for f in self.findings_ if f.topic in topics]
        if changed:
            text = "; ".join(f"{t}: {words}" for t, words in by_topic(changed).items())
            warnings.warn(text, ColumnWarning, stacklevel=stacklevel)

    @property
    def columns_(self) -> Records:
        return self._describe_columns(())

    def _describe_columns(self, further: Iterable[Finding]) -> Records:
        """``columns_``, with findings of the reader of a file."""
        notes: dict[str, list[str]] = {}
        for topic, column, text in (*further, *self.findings_):
            notes.setdefault(column, []).append(f"{topic}: {text}")
        return Records(
            (
                {
                    "column": r.name,
                    "read as": "" if r.kind == "constant" else r.kind,
                    "values": r.values,
                    "missing": r.n_missing,
                    "note": "; ".join(notes.get(r.name, ())),
                }
                for r in self.recipes_
            ),
            getattr(self, "library_", None),
        )

    def __repr__(self, *args: Any) -> str:
        parameters = super().__repr__(*args)
        return f"{parameters}\n{self.columns_!r}" if hasattr(self, "recipes_") else parameters

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        if not hasattr(self, "recipes_"):
            return super()._repr_mimebundle_(**kwargs)
        return {"text/plain": repr(self), "text/html": self.columns_._repr_html_()}

    # ----------------------------------------------------------------------------------- apply
    def _match(self, X: Any) -> Any:
        """The table; raises if its columns are not those of the fit."""
        check_is_fitted(self)
        frame = as_frame(X)
        if frame is None:
            shape = getattr(X, "shape", (0, 0))
            raise TypeError(
                f"X is {type(X).__name__} of shape {shape} but the model was fitted to a table; X "
                f"should be a table with columns {abbreviate(list(self.feature_names_in_))}"
            )
        names = column_names(frame)
        lacking = [c for c in self.feature_names_in_ if c not in names]
        further = [c for c in names if c not in set(self.feature_names_in_)]
        if lacking or further:
            text = "The feature names should match those that were passed during fit."
            if further:
                text += f" Feature names unseen at fit time: {abbreviate(further)}."
            if lacking:
                text += f" Feature names seen at fit time, yet now missing: {abbreviate(lacking)}."
            raise ValueError(text)
        return frame

    def _encode(self, X: Any) -> EncodedTable:
        """The matrix, and the unknown values."""
        frame = self._match(X)
        columns = frame_columns(frame)
        return self._place_all(
            [read_column(columns[r.name], r.name, r.reading) for r in self.recipes_]
        )

    def _place_all(self, read: list[ColumnValues]) -> EncodedTable:
        n = next(v.size for v in (read[0].numbers, read[0].codes) if v is not None)
        matrix = np.zeros((n, self.sources_.size), dtype=self.dtype)
        unknown, at = {}, 0
        for number, (recipe, values) in enumerate(zip(self.recipes_, read)):
            width = len(recipe.columns)
            if width:
                lost = self._place(values, recipe, matrix[:, at : at + width])
                if lost is not None:
                    unknown[number] = lost
            at += width
        return EncodedTable(matrix, unknown)

    def _place(self, values: ColumnValues, recipe: Recipe, out: np.ndarray):
        """Fill in the columns of one source; returns (rows with unknown values, example)."""
        if recipe.kind == "category":
            return self._place_category(values, recipe, out)
        if values.numbers is None and values.codes is not None and (values.codes < 0).all():
            # All values are missing, so the type is undetermined: the block is read as any kind.
            values = ColumnValues("number", np.full(values.codes.size, np.nan), None, recipe.words)
        if values.numbers is None:
            kind_found = "text" if values.kind == "text" else "booleans"
            raise ValueError(
                f"column {recipe.name!r} of X holds {kind_found} but was a {recipe.kind} column in "
                "the fit"
            )
        x = values.numbers
        if recipe.kind == "ordered" and values.words != recipe.words:
            if values.kind != "ordered":
                raise ValueError(
                    f"column {recipe.name!r} of X holds numbers but was an ordered category in the "
                    f"fit, with levels {abbreviate(list(recipe.words))}"
                )
            place = [
                recipe.words.index(word) if word in recipe.words else np.nan
                for word in values.words
            ]
            x = np.array([*place, np.nan])[np.where(np.isnan(x), -1, x).astype(np.intp)]
        missing = np.isnan(x)
        if not recipe.empty:
            encoded = recipe.number(np.where(missing, recipe.centre, x))
            if recipe.kind == "two-valued":
                encoded = np.clip(encoded + recipe.mean, 0.0, self.category_scale) - recipe.mean
            largest = np.finfo(out.dtype).max
            if np.abs(encoded).max(initial=0.0) > largest:
                value = x[np.nanargmax(np.abs(x))]
                raise ValueError(
                    f"column {recipe.name!r} of X has the value {value:g}, which is "
                    f"{np.abs(encoded).max():.3g} when scaled; it should be <= {largest:.3g}, the "
                    f"largest {out.dtype}"
                )
            out[:, 0] = np.where(missing, 0.0, encoded)
        if recipe.note:
            out[:, -1] = missing
        elif missing.any():
            return missing, "missing"
        return None

    def _place_category(self, values: ColumnValues, recipe: Recipe, out: np.ndarray):
        if values.codes is None and np.isnan(values.numbers).all():
            values = ColumnValues("text", None, np.full(values.numbers.size, -1), ())
        if values.codes is None:
            raise ValueError(
                f"column {recipe.name!r} of X holds {values.kind}s but was a category in the fit, "
                f"with values {abbreviate(list(recipe.states))}"
            )
        state = {word: i for i, word in enumerate(recipe.own_states)}
        rest = len(state) if recipe.n_pooled else -1
        missing = len(recipe.states) - 1 if recipe.n_missing else -1
        # Position -1 is the missing value.
        place = np.array([state.get(str(word), rest) for word in values.words] + [missing])[
            values.codes
        ]
        found = place >= 0
        if len(recipe.states) == 2:
            out[place == 1, 0] = recipe.step
        else:
            rows = np.flatnonzero(found)
            out[rows, place[rows]] = recipe.step
        if found.all():
            return None
        code = values.codes[np.argmin(found)]
        return ~found, "missing" if code < 0 else repr(str(values.words[code]))

    def transform(self, X):
        """Encode a table. Returns a finite matrix (n, n_encoded). Unknown values are 0 in the
        columns of their source, and counted in a warning."""
        read = self._encode(X)
        self._warn_unknown(read, stacklevel=3)
        return read.matrix

    def _warn_unknown(self, read: EncodedTable, stacklevel: int) -> None:
        if not read.unknown:
            return
        parts = [
            f"{self.feature_names_in_[s]!r} in {int(rows.sum())} rows ({example})"
            for s, (rows, example) in read.unknown.items()
        ]
        warnings.warn(
            "Found unknown categories, or missing values in columns that had none in the fit: "
            + abbreviate(parts, quoted=False),
            UserWarning,
            stacklevel=stacklevel + 1,
        )

    def get_feature_names_out(self, input_features=None):
        """Names of the encoded columns: "age", "age is missing", "site=A", ..."""
        check_is_fitted(self)
        return np.array([c for recipe in self.recipes_ for c in recipe.columns], dtype=object)

    # --------------------------------------------------------------------------- for the solver
    def _column_map(self) -> ColumnMap:
        """Sources, indicators of missing values and levels, for the solver."""
        names = self.get_feature_names_out()
        missing_indicator, is_indicator = np.full(names.size, -1), np.zeros(names.size, dtype=bool)
        levels: list = [None] * names.size
        at = 0
        for recipe in self.recipes_:
            width = len(recipe.columns)
            if recipe.note and width:
                is_indicator[at + width - 1] = True
                missing_indicator[at : at + width - 1] = at + width - 1
            if recipe.levels is not None:
                levels[at] = recipe.levels
            at += width
        return ColumnMap(
            tuple(names),
            self.sources_,
            missing_indicator,
            is_indicator,
            tuple(levels),
            tuple(self.feature_names_in_),
        )

    def _first_column(self, source: int) -> int:
        return int(np.searchsorted(self.sources_, source))

    def _interval(self, source: int, value: Any) -> tuple[int, float, float]:
        """(column, above, upto): the interval of an encoded column in which ``source`` has
        ``value``; None stands for missing values."""
        recipe, at = self.recipes_[source], self._first_column(source)
        if recipe.kind == "category":
            states, own = recipe.states, recipe.own_states
            if value is None and recipe.n_missing:
                place = len(states) - 1
            elif value is not None and str(value) in own:
                place = own.index(str(value))
            elif value == OTHER and recipe.n_pooled:
                place = len(own)
            else:
                raise ValueError(
                    f"{value!r} is not a value of {recipe.name!r}; values: {abbreviate(states)}"
                )
            half = recipe.step / 2
            if len(states) == 2:
                return (at, half, np.inf) if place == 1 else (at, -np.inf, half)
            return at + place, half, np.inf
        if value is None:
            if not recipe.note:
                raise ValueError(f"{recipe.name!r} has no missing values")
            return at + len(recipe.columns) - 1, 0.5, np.inf
        if recipe.kind == "ordered":
            if str(value) not in recipe.words:
                raise ValueError(
                    f"{value!r} is not a level of {recipe.name!r}; levels: "
                    f"{abbreviate(recipe.words)}"
                )
            code = recipe.number(np.array([float(recipe.words.index(str(value)))]))[0]
            half = 0.5 / recipe.scale
            return at, code - half, code + half
        if recipe.kind == "two-valued" and not recipe.empty:
            code = recipe.number(np.array([float(value)]))[0] + recipe.mean
            if code not in (0.0, self.category_scale):
                raise ValueError(f"{value!r} is not one of the two values of {recipe.name!r}")
            half = self.category_scale / 2 - recipe.mean
            return (at, half, np.inf) if code > 0 else (at, -np.inf, half)
        raise ValueError(
            f"{recipe.name!r} is a {recipe.kind} column; margins require a category (see kinds)"
        )


def weighted_quantiles(v: np.ndarray, weight: np.ndarray, shares: tuple) -> list[float]:
    """Weighted quantiles: the smallest value with at least a share q of the weight at or below it,
    averaged with the next value where the share is met exactly (the median of two values is their
    mean)."""
    equal = bool((weight == weight[0]).all())
    if not equal:
        order = np.argsort(v, kind="stable")
        v, weight = v[order], weight[order]
    below, places = np.cumsum(weight), []
    for share in shares:
        goal = share * below[-1]
        at = after = int(np.searchsorted(below, goal * (1 - 1e-12)))
        if abs(below[at] - goal) <= 1e-12 * below[-1] and at + 1 < v.size:
            after = int(np.searchsorted(below, below[at] * (1 + 1e-12), side="right"))
        places.append((at, after))
    if equal:
        v = np.partition(v, np.unique(places))
    return [
        float(v[at]) if at == after else 0.5 * (float(v[at]) + float(v[after]))
        for at, after in places
    ]
