"""Rules for the attributes of objects: types, dtypes, shapes that agree, and ranges.

A table maps each attribute of a class to a rule. Shapes and bounds are names of sizes: the first
array with a name gives its size, every other one should have the same. The names of ``SHARED`` are
those of the whole model; others belong to one object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ._validation import is_integer, is_real

# Rows, columns of X, columns as numbers, clusters, columns of the space in which rows are compared,
# and the largest value whose squared distances do not overflow.
SHARED = ("n", "d", "e", "K", "m", "X")
# Squares and products of two such numbers are finite.
LARGEST = 1e150
Sizes = dict[str, float]
Rule = Callable[[Any, str, Sizes], None]
Bound = float | str


def require(holds: Any, name: str, value: Any, rule: str) -> None:
    if not holds:
        raise ValueError(f"{name}={_shown(value)} should be {rule}")


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array({value.dtype}, shape {value.shape})"
    if isinstance(value, (list, tuple, dict)):
        return f"{type(value).__name__} of {len(value)}"
    return f"{value!r:.60}"


def _size(bound: Bound, sizes: Sizes) -> float:
    """A number, or the size of that name; "-X" is its negative."""
    if isinstance(bound, str):
        return -sizes[bound[1:]] if bound.startswith("-") else sizes[bound]
    return bound


def array(
    kinds: str, shape: str, low: Bound = -LARGEST, high: Bound = LARGEST, *, nan: bool = False,
    inf: bool = False, below: str | None = None, ascending: bool = False,
) -> Rule:  # fmt: skip
    """An array of these kinds of dtype and this shape, as "K m" or "q+1 r", with values in [low,
    high], or positions in [low, below - 1]."""
    of = {"f": "floats", "i": "integers", "iu": "integers", "O": "objects"}[kinds]

    def rule(value: Any, name: str, sizes: Sizes) -> None:
        is_array = isinstance(value, np.ndarray) and value.dtype.kind in kinds
        require(is_array, name, value, f"an array of {of}")
        words = shape.split()
        require(value.ndim == len(words), name, value, f"of shape ({', '.join(words)})")
        for word, length in zip(words, value.shape):
            size, more = re.fullmatch(r"(\w+?)(?:\+(\d))?", word).groups()  # type: ignore[union-attr]
            wanted = sizes.setdefault(size, length - int(more or 0)) + int(more or 0)
            shown = ", ".join(f"{one}={sizes[one]}" for one in words if one in sizes)
            require(length == wanted >= 0, name, value, f"of shape ({shown})")
        if kinds == "O":
            return
        lowest, highest = _size(low, sizes), _size(high, sizes)
        if kinds != "f":
            lowest = max(lowest, -(2.0**62))
            highest = sizes[below] - 1 if below else min(highest, 2.0**62)
        known = value[~np.isnan(value)] if nan else value
        known = known[~np.isinf(known)] if inf else known
        if known.size:
            least, most = float(known.min()), float(known.max())  # nan where any is
            require(lowest <= least and most <= highest, name, value,
                    f"in [{lowest:g}, {highest:g}]")  # fmt: skip
        if ascending:
            require(bool((np.diff(value) > 0).all()), name, value, "in ascending order")

    return rule


def number(low: float = -LARGEST, high: float = LARGEST, *, any_float: bool = False) -> Rule:
    """A number in [low, high]; ``any_float``: also nan and inf, of what only reports show."""

    def rule(value: Any, name: str, sizes: Sizes) -> None:
        require(is_real(value), name, value, "a number")
        require(any_float or low <= value <= high, name, value, f"in [{low:g}, {high:g}]")

    return rule


def integer(low: float, high: Bound = 2.0**62, size: str | None = None) -> Rule:
    """An integer in [low, high], which is the size of that name."""

    def rule(value: Any, name: str, sizes: Sizes) -> None:
        require(is_integer(value), name, value, "an integer")
        highest = _size(high, sizes)
        require(low <= value <= highest, name, value, f"in [{low:g}, {highest:g}]")
        if size is not None:
            wanted = sizes.setdefault(size, int(value))
            require(value == wanted, name, value, f"{wanted}")

    return rule


def text(*options: str) -> Rule:
    def rule(value: Any, name: str, sizes: Sizes) -> None:
        require(type(value) is str, name, value, "text")
        require(not options or value in options, name, value, f"one of {', '.join(options)}")

    return rule


def flag(value: Any, name: str, sizes: Sizes) -> None:
    require(type(value) in (bool, np.bool_), name, value, "True or False")


def maybe(own: Rule) -> Rule:
    """None, or what the rule says."""
    return lambda value, name, sizes: None if value is None else own(value, name, sizes)


def many(kind: Any, own: Rule, size: str | None = None) -> Rule:
    """A list or tuple; the sizes of an entry are its own."""

    def rule(value: Any, name: str, sizes: Sizes) -> None:
        require(type(value) is kind, name, value, f"a {kind.__name__}")
        if size is not None:
            wanted = sizes.setdefault(size, len(value))
            require(len(value) == wanted, name, value, f"of {wanted} entries")
        for number, one in enumerate(value):
            own(one, f"{name}[{number}]", {s: sizes[s] for s in SHARED if s in sizes})

    return rule


def each_of(*rules: Rule) -> Rule:
    """A tuple with one entry for each rule."""

    def rule(value: Any, name: str, sizes: Sizes) -> None:
        require(type(value) is tuple and len(value) == len(rules), name, value,
                f"a tuple of {len(rules)}")  # fmt: skip
        for number, (one, own) in enumerate(zip(value, rules)):
            own(one, f"{name}[{number}]", sizes)

    return rule


def mapping(own: Rule, keys: Iterable[str] | None = None) -> Rule:
    """A dict with these keys, all of whose values follow the rule."""

    def rule(value: Any, name: str, sizes: Sizes) -> None:
        require(type(value) is dict, name, value, "a dict")
        if keys is not None:
            require(set(keys) <= set(value), name, value, f"a dict with {', '.join(keys)}")
        for key, one in value.items():
            own(one, f"{name}[{key!r:.30}]", sizes)

    return rule


class Table(NamedTuple):
    """Rules of the attributes of a class ("name?": where it has one), and of the object as a whole:
    pairs of a text and a function (object, sizes) that should hold."""

    kind: Any
    rules: dict[str, Rule]
    whole: tuple[tuple[str, Callable[[Any, Sizes], Any]], ...] = ()

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        known = value._asdict() if hasattr(value, "_fields") else vars(value)
        for given, rule in self.rules.items():
            attribute = given.removesuffix("?")
            shown = f"{name}.{attribute}" if name else attribute
            require(attribute in known or given != attribute, shown, None, "there")
            if attribute in known:
                rule(known[attribute], shown, sizes)
        for words, holds in self.whole:
            if not holds(value, sizes):
                raise ValueError(f"{name or self.kind.__name__} should be {words}")


def part(table: Table, **outer: str) -> Rule:
    """An object of the class of the table, with its own sizes: ``t="q"``, its t is the q here."""

    def rule(value: Any, name: str, sizes: Sizes) -> None:
        require(type(value) is table.kind, name, value, f"a {table.kind.__name__}")
        names = {**{s: s for s in SHARED}, **outer}
        inner = {own: sizes[size] for own, size in names.items() if size in sizes}
        table.check(value, name, inner)
        for own, size in names.items():
            if own in inner:
                sizes[size] = inner[own]

    return rule
