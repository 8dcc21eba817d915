"""Columns of a table by name, whether its rows are in memory or read in blocks."""

from __future__ import annotations

import fnmatch
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .._records import Finding
from ._errors import FileError, nearest


class Table(ABC):
    """Base class of `InputTable` and `BlockTable`. Errors name the file and the option of the
    command line that named the column.

    names : names of the columns
    name : name of the file in messages
    format, size, sha256 : of the file as stored
    notes : warnings for the user
    findings : what the user should know about single columns
    """

    names: tuple[str, ...]
    name: str
    format: str
    size: int
    sha256: str
    notes: tuple[str, ...]
    findings: tuple[Finding, ...] = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def is_frame(self) -> bool:
        """Whether it is a table with types and missing values; else it is a matrix."""

    @abstractmethod
    def column(self, name: str) -> Any:
        """One column in memory: a polars series, or an array."""

    @abstractmethod
    def select(self, names: list[str]) -> Any:
        """Columns for an estimator, in this order."""

    def select_for(self, model: Any, names: list[str]) -> tuple[Any, list[str]]:
        """Those of the named columns that a model was fitted to, as a table or a matrix like that
        of the fit; their names."""
        fitted = getattr(model, "feature_names_in_", None)
        if fitted is None and len(names) != model.n_features_in_:
            raise self.error(
                f"has {len(names)} columns to predict from, but the model was fitted "
                f"to a matrix of {model.n_features_in_}; choose them with --drop or --keep"
            )
        if fitted is not None:
            chosen = set(names)
            for name in fitted:
                if name not in chosen:
                    raise self.error(
                        f"has no column {name!r}, which the model was fitted to"
                        f"{nearest(str(name), names)}"
                    )
            names = list(fitted)
        X = self.select(names)
        return X if self.is_frame == (fitted is not None) else self._converted(X, names), names

    @abstractmethod
    def _converted(self, X: Any, names: list[str]) -> Any:
        """A frame as a matrix, or a matrix as a frame."""

    def error(self, text: str) -> FileError:
        """An error about the table, which names its file."""
        return FileError(f"{self.name}: {text}")

    def place(self, row: int) -> str:
        """Position of a row (counted from 0) for messages."""
        return f"row {row + 1}"

    def find(self, patterns: list[str] | None, option: str) -> list[str]:
        """Columns that match the patterns, in the order of the table; no match is an error."""
        found: set[str] = set()
        for pattern in patterns or ():
            hits = {pattern} & set(self.names)
            if not hits and "*" in pattern:
                hits = {name for name in self.names if fnmatch.fnmatchcase(name, pattern)}
            if not hits:
                raise self.error(
                    f"{option} {pattern!r} is not one of its {len(self.names)} columns"
                    f"{nearest(pattern, self.names)}"
                )
            found |= hits
        return [name for name in self.names if name in found]

    def check_name(self, name: str, option: str) -> str:
        """The name, unless the table has no such column."""
        if name not in self.names:
            self.find([name.replace("*", "?")], option)  # raises, with the nearest name
        return name

    def identifiers(self, name: str, option: str) -> Any:
        """A column that identifies the rows in outputs."""
        values = self.column(self.check_name(name, option))
        if self.is_frame and (values.dtype.is_nested() or str(values.dtype) == "Object"):
            raise self.error(
                f"column {name!r} ({option}) has dtype {values.dtype}; identifiers "
                "should be strings or numbers"
            )
        return values

    def rows_with(self, given: list[str] | None, option: str) -> np.ndarray | None:
        """Mask of the rows that have one of the given values of each column, as COLUMN=VALUE; None
        if none are given."""
        accepted: dict[str, set[str]] = {}
        for text in given or ():
            name, equals, value = text.partition("=")
            if not equals:
                raise FileError(f"{option} {text!r} should be COLUMN=VALUE")
            known = sorted({str(one) for one in self.column(self.check_name(name, option))})
            if value not in known:
                raise self.error(
                    f"{option} {text!r}: column {name!r} has no value {value!r}"
                    f"{nearest(value, known)}"
                )
            accepted.setdefault(name, set()).add(value)
        masks = [[str(v) in values for v in self.column(n)] for n, values in accepted.items()]
        return np.all(masks, axis=0) if masks else None

    def shares(
        self, given: list[str] | None, option: str, names: list[str]
    ) -> dict[Any, dict[Any, float]] | None:
        """Shares of values of columns among `names`, from COLUMN:VALUE=SHARE; None if none are
        given. An empty value means missing values. A column of a matrix is its position in
        `names`."""
        found: dict[Any, dict[Any, float]] = {}
        for text in given or ():
            where = f"{option} {text!r}"
            left, _, share = text.rpartition("=")
            if ":" not in left:
                example = "for example race:White=0.64"
                raise self.error(f"{where} should be COLUMN:VALUE=SHARE, {example}")
            # A column name may contain a colon: the longest matching name is used.
            name = max((n for n in names if left.startswith(f"{n}:")), key=len, default=None)
            if name is None:
                name = left.partition(":")[0]
                hint = nearest(name, names)
                raise self.error(f"{where}: {name!r} is not a column that is analysed{hint}")
            key: Any = name
            value: Any = left[len(name) + 1 :] or None
            if not self.is_frame:
                key, value = names.index(name), self._number(value, f"{where}: the value")
            shares = found.setdefault(key, {})
            if value in shares:
                raise self.error(f"{where}: this value already has a share")
            shares[value] = self._number(share, f"{where}: the share")
            if not 0 <= shares[value] <= 1:
                raise self.error(f"{where}: the share {share} should be in [0, 1]")
        return found or None

    def _number(self, text: str | None, what: str) -> float:
        try:
            return float(text or "")
        except ValueError:
            raise self.error(f"{what} {text!r} should be a number") from None

    def complete_column(self, name: str, option: str, what: str) -> Any:
        """A column in which no value is missing; `what` is the name of a value in messages."""
        values = self.column(self.check_name(name, option))
        if self.is_frame:
            values = values.fill_nan(None) if values.dtype.is_float() else values
            missing = values.is_null().to_numpy()
        else:
            missing = np.isnan(values)
        if missing.any():
            raise self.error(
                f"column {name!r} ({option}), {self.place(int(missing.argmax()))}: "
                f"is missing; each row should have a {what}"
            )
        return values

    def weights(self, name: str, option: str) -> np.ndarray:
        """A column as weights of the rows: finite and non-negative numbers, none missing."""
        values = self.complete_column(name, option, "weight")
        where = f"column {name!r} ({option})"
        if self.is_frame:
            if not (values.dtype.is_numeric() or values.dtype.is_decimal()):
                raise self.error(f"{where} has dtype {values.dtype}; weights should be numbers")
            values = values.cast(float).to_numpy()
        a = np.asarray(values, dtype=np.float64)
        bad = ~(np.isfinite(a) & (a >= 0))
        if bad.any():
            at = int(bad.argmax())
            raise self.error(
                f"{where}, {self.place(at)}: weight {a[at]:g} should be >= 0 and finite"
            )
        return a
