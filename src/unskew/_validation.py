"""Input validation shared by all estimators."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from ._buffers import LARGE_N


def find_columns(named: Any, names: np.ndarray | None, d: int, parameter: str) -> np.ndarray:
    """Positions of columns given by name, index or boolean mask."""
    if isinstance(named, (str, int, np.integer)) and not isinstance(named, bool):
        named = [named]
    given = np.asarray(named, dtype=object if _has_text(named) else None)
    if given.ndim != 1:
        raise ValueError(
            f"{parameter}={named!r} should be a list of column names or indices, or a boolean mask"
        )
    if given.dtype == bool:
        if given.size != d:
            raise ValueError(
                f"{parameter} is a boolean mask of {given.size} entries but X has {d} columns"
            )
        return np.flatnonzero(given)
    found = []
    for one in given.tolist():
        if isinstance(one, str):
            if names is None:
                raise ValueError(
                    f"{parameter} names {one!r} but X has no column names; pass indices or a table"
                )
            where = np.flatnonzero(names == one)
            if where.size == 0:
                raise ValueError(
                    f"{parameter} names {one!r}, which is not a column of X; columns: "
                    f"{abbreviate(list(names))}"
                )
            found.append(int(where[0]))
        elif isinstance(one, int) and not isinstance(one, bool):
            if not -d <= one < d:
                raise ValueError(f"{parameter} has index {one} but X has {d} columns")
            found.append(one % d)
        else:
            raise TypeError(
                f"{parameter} has {one!r} ({type(one).__name__}); "
                "columns should be given by name, index or boolean mask"
            )
    return np.unique(np.array(found, dtype=np.intp))


def _has_text(named: Any) -> bool:
    try:
        return any(isinstance(one, str) for one in named)
    except TypeError:
        return False


def abbreviate(names: Any, most: int = 8, quoted: bool = True) -> str:
    """The first ``most`` entries of a list as text, and its length if it is longer."""
    shown = ", ".join(map(repr if quoted else str, list(names)[:most]))
    return shown + (f", ... ({len(names)} in all)" if len(names) > most else "")


def is_integer(value: Any) -> bool:
    """Whether value is an integer, and not a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))


def is_real(value: Any) -> bool:
    """Whether value is a number, and not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def check_number(
    name: str,
    value: Any,
    kind: Any = numbers.Real,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
) -> None:
    """Raise for a value of the wrong type or outside its range; the message has value and rule."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
        wanted = "an integer" if kind is numbers.Integral else "a number"
        raise TypeError(f"{name}={value!r} should be {wanted}, not {type(value).__name__}")
    if not low <= value <= high or (open_low and value == low):
        if np.isinf(high):
            rule = f"{'>' if open_low else '>='} {low:g}"
        else:
            rule = f"in {'(' if open_low else '['}{low:g}, {high:g}]"
        raise ValueError(f"{name}={value!r} should be {rule}")
    if not isinstance(value, numbers.Integral) and not math.isfinite(value):
        raise ValueError(f"{name}={value!r} should be finite")


def check_option(name: str, value: Any, words: tuple[str | None, ...]) -> None:
    if not ((value is None or isinstance(value, str)) and value in words):
        raise ValueError(f"{name}={value!r} should be one of {', '.join(map(repr, words))}")


# Weights whose largest is outside 1 / ORDINARY .. ORDINARY are divided by a power of two, so that
# sums and squares do not overflow or underflow. A weight of less than NEGLIGIBLE times the largest
# has no reciprocal.
ORDINARY, NEGLIGIBLE = 2.0**64, 2.0**-900


def power_of_two(size: float) -> float:
    """The power of two p with 1 <= size / p < 2 where size is extreme (see ORDINARY), else 1."""
    if size == 0 or 1 / ORDINARY <= size <= ORDINARY:
        return 1.0
    return math.ldexp(1.0, math.frexp(size)[1] - 1)


def check_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Design weights as float64: one per row, finite, none negative, not all zero.

    Weights of an extreme scale are divided by a power of two, which is exact."""
    if n == 0:
        raise ValueError("X has 0 rows; it should have at least one")
    if sample_weight is None:
        # For many rows, one number broadcast to all: saves n float64, here and in the solver.
        return np.ones(n) if n < LARGE_N else np.broadcast_to(np.float64(1.0), (n,))
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n, sample_weight)
    given = np.asarray(sample_weight)
    if given.dtype.kind not in "buif":
        raise TypeError(f"sample_weight has dtype {given.dtype}; it should be numeric")
    a = given.astype(np.float64)
    if a.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {a.shape} but X has {n} rows; it should be ({n},)"
        )
    if not np.isfinite(a).all():
        at = int(np.flatnonzero(~np.isfinite(a))[0])
        raise ValueError(f"sample_weight[{at}]={a[at]} should be finite")
    if (a < 0).any():
        at = int(np.flatnonzero(a < 0)[0])
        raise ValueError(f"sample_weight[{at}]={a[at]} should be >= 0")
    if not a.any():
        raise ValueError(
            "sample_weight is zero for every row; at least one weight should be positive"
        )
    scale = power_of_two(float(a.max()))
    a = a / scale if scale != 1 else a
    check_negligible("sample_weight", a, given)
    return a


def check_negligible(name: str, a: np.ndarray, given: np.ndarray) -> None:
    """Raise for a weight that is so small that it has no reciprocal; ``given``: before scaling."""
    negligible = (a > 0) & (a < NEGLIGIBLE * a.max())
    if negligible.any():
        at = int(negligible.argmax())
        raise ValueError(
            f"{name}[{at}]={given[at]:g} should be 0 or >= {NEGLIGIBLE:.0e} times the "
            f"largest weight {given.max():g}"
        )


def to_native_byteorder(X: Any) -> Any:
    """Convert arrays of foreign byte order to the native one. scikit-learn does not recognise
    float32 of foreign byte order as float32."""
    if isinstance(X, np.ndarray) and not X.dtype.isnative:
        return X.astype(X.dtype.newbyteorder("="))
    return X
