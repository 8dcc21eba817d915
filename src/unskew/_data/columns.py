"""One column of a pandas, polars or pyarrow table as numbers or as categories."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from .._records import MISSING_MARKS, MISSING_WORDS, marks_in_words

# Text that is a number, as in a file: integers with leading zeros are codes.
NUMBER = re.compile(r"[+-]?(?!0\d+$)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
NUMERIC_TEXT = "numeric text"  # kind of a text column that was read as numbers


class ColumnValues(NamedTuple):
    """A column as read, before the encoder is fitted.

    kind       "number", "date", "flag" (booleans), "text" or "ordered"
    numbers    float64, nan where missing (number, date; codes of an ordered column); else None
    codes      position in ``words`` of each value, -1 where missing (flag, text); else None
    words      the distinct values; for an ordered column all its levels, in their order
    marks      of text: distinct marks that were read as missing values, as "n/a"
    n_marked   number of rows with them
    declared   whether the dtype says that the words are categories: none of them is a mark
    """

    kind: str
    numbers: Any  # ndarray, or None where the values are codes
    codes: Any  # ndarray, or None where the values are numbers
    words: tuple
    marks: tuple = ()
    n_marked: int = 0
    declared: bool = False

    @property
    def marks_shown(self) -> str:
        return marks_in_words(self.marks, self.n_marked) if self.marks else ""


def as_frame(X: Any) -> Any:
    """A narwhals DataFrame of a table; None for an array, a matrix or anything without columns."""
    kind = type(X)  # the class: attributes of a lazy table itself may trigger its computation
    if not (hasattr(kind, "columns") or hasattr(kind, "column_names")):
        return None
    if isinstance(X, nw.DataFrame):
        return X
    try:
        frame = nw.from_native(X, pass_through=True)
    except DuplicateError as error:
        raise ValueError(f"names of columns of X should differ; {error}") from error
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(
            f"X is a {type(X).__module__.split('.')[0]} {type(X).__name__}, which is lazy; "
            "pass X.collect() (dask: X.compute(), or fit unskew.dask.DaskDCKM)"
        )
    return frame if isinstance(frame, nw.DataFrame) else None


def column_names(frame: Any) -> list[str]:
    """Names as text; raises for duplicates."""
    try:
        names = [str(name) for name in frame.columns]
    except DuplicateError as error:
        raise ValueError(f"names of columns of X should differ; {error}") from error
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"names of columns of X should differ; {twice!r} occurs twice")
    return names


def frame_columns(frame: Any) -> dict[str, Any]:
    """Name -> series. By position, because names that are not text cannot be used for selection."""
    return dict(zip(column_names(frame), frame.iter_columns()))


def read_column(series: Any, name: str, kind: str | None = None) -> ColumnValues:
    """Read by dtype, or as ``kind`` ("number", "category" or NUMERIC_TEXT) where given.

    MISSING_WORDS are missing values of text, unless it is a category by ``kind`` or by its dtype.
    """
    if kind == "category" and series.dtype.is_integer():
        return _integers_as_categories(series)
    values = _by_dtype(series, name)
    if values.kind == "text" and kind != "category" and not values.declared:
        values = _without_marks(values, MISSING_WORDS)
    if kind in ("number", NUMERIC_TEXT) and values.kind == "text":
        values = numbers_in_text(values, always=True)
    if kind == "category" and values.kind in ("number", "date", "ordered"):
        if values.kind == "ordered":
            numbers = values.numbers
            codes = np.where(np.isnan(numbers), -1, numbers).astype(np.int64)
            return ColumnValues("text", None, codes, values.words)
        return _numbers_as_categories(values.numbers)
    if kind == "number" and values.kind in ("text", "flag"):
        if values.kind == "text":
            raise ValueError(
                f"column {name!r} of X should be a number according to kinds but contains text, "
                f"e.g. {values.words[0]!r}"
            )
        numbers = np.array([*map(float, values.words), np.nan])[values.codes]
        return ColumnValues("number", numbers, None, ())
    return values


def numbers_in_text(values: ColumnValues, *, always: bool = False) -> ColumnValues:
    """Text as numbers if all its values are numbers but for marks of missing values; any other
    column as it is.

    Text without any mark stays text, unless ``always``: its type was chosen by the user.
    """
    if values.kind != "text" or values.declared:
        return values
    marked = _without_marks(values, MISSING_MARKS)
    numeric = all(map(NUMBER.fullmatch, marked.words))
    if not numeric or not (always or (marked.words and marked.marks)):
        return values
    numbers = np.array([*map(float, marked.words), np.nan])[marked.codes]
    return ColumnValues("number", numbers, None, (), marked.marks, marked.n_marked)


def _without_marks(values: ColumnValues, marks: tuple) -> ColumnValues:
    """The column with the given words as missing values."""
    marked = np.array([word.strip() in marks for word in values.words] + [False])
    if not marked.any():
        return values
    rank = np.where(marked, -1, np.cumsum(~marked) - 1)
    rank[-1] = -1
    kept = tuple(word for word, lost in zip(values.words, marked) if not lost)
    found = tuple(word for word, lost in zip(values.words, marked) if lost)
    n_marked = int(marked[values.codes].sum())
    return ColumnValues(
        "text", None, rank[values.codes], kept, (*values.marks, *found), values.n_marked + n_marked
    )


def _by_dtype(series: Any, name: str) -> ColumnValues:
    dtype = series.dtype
    if dtype == nw.Boolean:
        return _flags([None if v is None else bool(v) for v in _to_list(series)])
    if dtype.is_numeric():
        return ColumnValues("number", _floats(series, name), None, ())
    if dtype in (nw.Date, nw.Datetime, nw.Duration):
        return ColumnValues("date", _days(series, dtype), None, ())
    if dtype == nw.Enum:
        levels = tuple(dtype.categories)
        place = {level: float(i) for i, level in enumerate(levels)}
        place[None] = np.nan
        numbers = np.array([place.get(v, np.nan) for v in _to_list(series)])
        return ColumnValues("ordered", numbers, None, tuple(map(str, levels)))
    if dtype in (nw.String, nw.Categorical):
        return _words(_to_list(series))._replace(declared=dtype == nw.Categorical)
    if dtype == nw.Unknown and series.null_count() == len(series):
        return ColumnValues("number", np.full(len(series), np.nan), None, ())
    if dtype == nw.Object or dtype == nw.Unknown:
        return _objects(_to_list(series), name)
    raise TypeError(
        f"column {name!r} of X holds {dtype}; it should hold numbers, booleans, text, "
        "categories or dates. Drop it or convert it"
    )


def _to_list(series: Any) -> list:
    """Values, None where missing: pandas has three other missing values (nan, NaT, NA), one of
    which cannot be compared."""
    values = series.to_list()
    if not series.null_count():
        return values
    return [None if lost else v for v, lost in zip(values, series.is_null().to_list())]


def _floats(series: Any, name: str) -> np.ndarray:
    numbers = (
        series.cast(nw.Float64).to_numpy() if series.dtype != nw.Float64 else series.to_numpy()
    )
    numbers = np.array(numbers, dtype=np.float64)
    if series.null_count():
        numbers[np.asarray(series.is_null().to_numpy(), dtype=bool)] = np.nan
    if np.isinf(numbers).any():
        at = int(np.flatnonzero(np.isinf(numbers))[0])
        raise ValueError(
            f"column {name!r} of X contains inf (index {at}); values should be finite or missing"
        )
    return numbers


def _days(series: Any, dtype: Any) -> np.ndarray:
    """Days since 1970, or length of a duration in days."""
    if dtype == nw.Duration:
        counted = series.dt.total_microseconds()
    else:
        if dtype == nw.Date:
            series = series.cast(nw.Datetime("us"))
        counted = series.dt.timestamp("us")
    days = np.array(counted.cast(nw.Float64).to_numpy(), dtype=np.float64) / 86400e6
    missing = np.asarray(series.is_null().to_numpy(), dtype=bool)
    days[missing] = np.nan
    return days


def _flags(values: list) -> ColumnValues:
    codes = np.array([-1 if v is None else int(v) for v in values], dtype=np.int64)
    return ColumnValues("flag", None, codes, (False, True))


def _words(values: list) -> ColumnValues:
    """Text, coded in sorted order so that codes do not depend on the reader of a file."""
    seen = dict.fromkeys(values)
    # A float among text is pandas' nan: missing.
    words = sorted((v for v in seen if v is not None and v == v), key=str)
    place = dict.fromkeys(seen, -1) | {word: i for i, word in enumerate(words)}
    codes = np.fromiter(map(place.__getitem__, values), np.int64, len(values))
    return ColumnValues("text", None, codes, tuple(map(str, words)))


def _objects(values: list, name: str) -> ColumnValues:
    """A pandas column of Python objects, by the types of its values."""
    known = [v for v in values if v is not None and v == v]
    kinds = {
        "booleans" if isinstance(v, (bool, np.bool_))
        else "numbers" if isinstance(v, (int, float, np.number))
        else "text" if isinstance(v, str)
        else type(v).__name__
        for v in known
    }  # fmt: skip
    if kinds == {"booleans"}:
        return _flags([None if v is None or v != v else bool(v) for v in values])
    if kinds <= {"numbers", "booleans"}:
        try:
            numbers = np.array([np.nan if v is None else float(v) for v in values])
        except OverflowError:
            raise ValueError(
                f"column {name!r} of X has an integer above {np.finfo(float).max:.3g}; values "
                "should be smaller, or text"
            ) from None
        if np.isinf(numbers).any():
            raise ValueError(f"column {name!r} of X contains inf; values should be finite")
        return ColumnValues("number", numbers, None, ())
    if kinds == {"text"}:
        return _words(values)
    raise TypeError(
        f"column {name!r} of X mixes {' and '.join(sorted(kinds))}; a column should have one type "
        "of values"
    )


def _integers_as_categories(series: Any) -> ColumnValues:
    """Integers as categories, in ascending order. float64 would merge codes above 2**53."""
    known = ~np.asarray(series.is_null().to_numpy(), dtype=bool)
    different, places = np.unique(series.drop_nulls().to_numpy(), return_inverse=True)
    codes = np.full(known.size, -1, dtype=np.int64)
    codes[known] = places
    return ColumnValues("text", None, codes, tuple(map(str, different.tolist())))


def _numbers_as_categories(numbers: np.ndarray) -> ColumnValues:
    """Numbers as categories, in ascending order; integers without a decimal point."""
    known = ~np.isnan(numbers)
    different, places = np.unique(numbers[known], return_inverse=True)
    codes = np.full(numbers.size, -1, dtype=np.int64)
    codes[known] = places
    return ColumnValues("text", None, codes, tuple(format_number(v) for v in different))


def format_number(value: float) -> str:
    return (
        str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
    )
