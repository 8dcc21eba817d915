"""Prepare the input of an estimator from a file and the column options."""

from __future__ import annotations

import fnmatch
import inspect
import os
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._io import FileError, read_table
from ._block_table import BlockTable, Table, open_blocks
from ._config import nearest
from ._console import PARAMETERS

OUTPUT_NAMES = ("cluster", "weight", "combined_weight")


@dataclass(frozen=True)
class Study:
    """The data that are analysed.

    X : frame, array, CSR matrix or reader of blocks of the selected columns
    names : its columns
    suspects : names (positions if X is not a frame), or None
    sample_weight : array or None
    ids : (name, values) of the row identifiers
    """

    table: Table
    X: Any
    names: list[str]
    suspects: list[Any] | None
    sample_weight: np.ndarray | None
    ids: tuple[str, Any]

    def __len__(self) -> int:
        return len(self.table)

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns for functions that cannot see them in X."""
        return None if self.table.is_frame else self.names


def read(source: str, options: dict[str, Any]) -> Table:
    reading: dict[str, Any] = {
        "header": not options["no_header"],
        "separator": {"\\t": "\t", "tab": "\t"}.get(options["separator"], options["separator"]),
        "missing": tuple(options["missing"] or ()),
        **{name: options[name] for name in ("format", "encoding", "variable", "max_bytes")},
    }
    cache = options["cache"]
    if options["blocks"] or os.path.isdir(source):
        return open_blocks(source, cache, **reading)
    if cache is not None:
        raise FileError(f"{source}: --cache is for parquet that is read in blocks; add --blocks")
    return read_table(source, **reading)


def find(table: Table, patterns: list[str] | None, flag: str) -> list[str]:
    """Columns that match the patterns, in the order of the table; no match is an error."""
    found: list[str] = []
    for pattern in patterns or ():
        if pattern in table.names:
            found.append(pattern)
            continue
        hits = [n for n in table.names if fnmatch.fnmatchcase(n, pattern)] if "*" in pattern else []
        if not hits:
            raise FileError(
                f"{table.name}: {flag} {pattern!r} is not one of its {len(table.names)} columns"
                f"{nearest(pattern, list(table.names))}"
            )
        found.extend(hits)
    chosen = set(found)
    return [name for name in table.names if name in chosen]


def one(table: Table, name: str | None, flag: str) -> str | None:
    if name is not None and name not in table.names:
        find(table, [name.replace("*", "?")], flag)  # raises, with the nearest name
    return name


def make_study(table: Table, options: dict[str, Any]) -> Study:
    """Apply the options about columns; they must not contradict each other."""
    weight = one(table, options["weight_column"], "--weight-column")
    id_column = one(table, options.get("id"), "--id")
    suspects = find(table, options["suspect"], "--suspect")
    for flag, taken in (
        ("--weight-column", {weight}),
        ("--id", {id_column}),
        ("--drop", set(find(table, options["drop"], "--drop"))),
    ):
        for name in suspects:
            if name in taken:
                raise FileError(f"{table.name}: column {name!r} is --suspect and {flag} at once")
    chosen = chosen_columns(table, options).union(suspects) - {weight, id_column}
    names = [name for name in table.names if name in chosen]
    if not names:
        raise FileError(f"{table.name}: no column remains to be analysed")
    if suspects and len(suspects) == len(names):
        raise FileError(
            f"{table.name}: all remaining columns are --suspect; there should be others"
        )
    in_x: list[Any] = suspects if table.is_frame else [names.index(name) for name in suspects]
    return Study(
        table,
        table.select(names),
        names,
        in_x or None,
        None if weight is None else design_weights(table, weight),
        row_names(table, id_column),
    )


def chosen_columns(table: Table, options: dict[str, Any]) -> set[str]:
    """Columns that --keep and --drop leave."""
    dropped = find(table, options["drop"], "--drop")
    kept = find(table, options["keep"], "--keep") or table.names
    return set(kept) - set(dropped)


def named(estimator: Any, study: Study) -> Any:
    """The estimator, with the column names of the command line if X is a matrix."""
    if study.table.is_frame or hasattr(estimator, "feature_names_in_"):
        return estimator
    renamed = copy(estimator)
    renamed.feature_names_in_ = np.array(study.names, dtype=object)
    return renamed


def row_names(table: Table, id_column: str | None) -> tuple[str, Any]:
    if id_column is None:
        return "row", np.arange(1, len(table) + 1)
    values = table.column(id_column)
    flag = f"{table.name}: column {id_column!r} (--id)"
    if id_column in OUTPUT_NAMES:
        raise FileError(f"{flag} has the name of a column of the outputs; rename it")
    if table.is_frame and (values.dtype.is_nested() or values.dtype.is_object()):
        raise FileError(
            f"{flag} has dtype {values.dtype}; identifiers should be strings or numbers"
        )
    return id_column, values


def design_weights(table: Table, name: str) -> np.ndarray:
    """A column as design weights: finite and non-negative numbers, none missing."""
    values = table.column(name)
    flag = f"{table.name}: column {name!r} (--weight-column)"
    if table.is_frame:
        if not (values.dtype.is_numeric() or values.dtype.is_decimal()):
            raise FileError(f"{flag} has dtype {values.dtype}; weights should be numbers")
        if values.null_count():
            at = int(values.is_null().arg_max())
            raise FileError(f"{flag}, {table.place(at)}: is missing; each row should have a weight")
        values = values.cast(float).to_numpy()
    a = np.asarray(values, dtype=np.float64)
    bad = ~(np.isfinite(a) & (a >= 0))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise FileError(f"{flag}, {table.place(at)}: weight {a[at]:g} should be >= 0 and finite")
    if not a.any():
        raise FileError(f"{flag}: is 0 in every row; at least one weight should be positive")
    return a


def read_margins(study: Study, given: list[str] | None) -> dict[Any, dict[Any, float]] | None:
    """race:White=0.64 -> {"race": {"White": 0.64}}; an empty value means missing values."""
    margins: dict[Any, dict[Any, float]] = {}
    for text in given or ():
        where = f"{study.table.name}: --margin {text!r}"
        left, equals, share = text.rpartition("=")
        # A column name may contain a colon: the longest matching name is used.
        fitting = [name for name in study.names if left.startswith(f"{name}:")]
        if not equals or ":" not in left:
            raise FileError(f"{where} should be COLUMN:VALUE=SHARE, for example race:White=0.64")
        if not fitting:
            name = left.partition(":")[0]
            raise FileError(
                f"{where}: {name!r} is not a column that is analysed{nearest(name, study.names)}"
            )
        column = max(fitting, key=len)
        value: Any = left[len(column) + 1 :] or None
        try:
            wanted = float(share)
        except ValueError:
            raise FileError(f"{where}: the share {share!r} should be a number") from None
        if not 0 <= wanted <= 1:
            raise FileError(f"{where}: the share {share} should be in [0, 1]")
        key: Any = column
        if not study.table.is_frame:
            key = study.names.index(column)
            try:
                value = float(value)
            except (TypeError, ValueError):
                raise FileError(f"{where}: the value {value!r} should be a number") from None
        shares = margins.setdefault(key, {})
        if value in shares:
            raise FileError(f"{where}: this value already has a share")
        shares[value] = wanted
    return margins or None


def make_encoder(study: Study, options: dict[str, Any]) -> Any:
    """TableEncoder with the encoding options; None for matrices, which are not encoded."""
    from .. import TableEncoder

    table, scale = study.table, options["number_scale"]
    codes = find(table, options["category"], "--category")
    if not table.is_frame:
        for flag, given in (
            ("--max-categories", options["max_categories"] is not None),
            ("--strict", options["strict"]),
            ("--category", bool(codes)),
            ("--number-scale", scale != "robust"),
        ):
            if given:
                raise FileError(
                    f"{table.name}: {flag} does not apply to {table.format}: a matrix is not "
                    "encoded"
                )
        return None
    return TableEncoder(
        max_categories=options["max_categories"],
        strict=options["strict"],
        number_scale=scale,
        kinds={name: "category" for name in codes if name in study.names} or None,
    )


def make_estimator(kind: Any, study: Study, options: dict[str, Any]) -> Any:
    """An estimator with the options of the same name; what is not given has its default."""
    given = {PARAMETERS.get(n, n): v for n, v in options.items() if v is not None}
    given |= {
        "suspects": study.suspects,
        "margins": read_margins(study, options["margin"]),
        "encoder": make_encoder(study, options),
    }
    return kind(**{n: given[n] for n in inspect.signature(kind).parameters if n in given})


def for_model(table: Table, estimator: Any, options: dict[str, Any]) -> Any:
    """The columns that a model was fitted to, from a table that may have others."""
    chosen = chosen_columns(table, options) - {options["id"]}
    given = [name for name in table.names if name in chosen]
    known = getattr(estimator, "feature_names_in_", None)
    if known is None and len(given) != estimator.n_features_in_:
        raise FileError(
            f"{table.name}: has {len(given)} columns to predict from, but the model was fitted to "
            f"a matrix of {estimator.n_features_in_}; choose them with --drop or --keep"
        )
    for name in () if known is None else known:
        if name not in chosen:
            raise FileError(
                f"{table.name}: has no column {name!r}, which the model was fitted to"
                f"{nearest(str(name), given)}"
            )
    names = given if known is None else list(known)
    X = table.select(names)
    if table.is_frame == (known is not None):
        return X
    if isinstance(table, BlockTable):
        is_, was = ("table", "matrix without") if table.is_frame else ("matrix", "table with")
        raise FileError(
            f"{table.name}: is a {is_}, but the model was fitted to a {was} names; read it without "
            "--blocks"
        )
    if known is not None:
        import polars

        return polars.DataFrame(np.asarray(X), schema=names)
    for name, kind in X.schema.items():
        if not kind.is_numeric():
            raise FileError(
                f"{table.name}: column {name!r} has dtype {kind}; the model was fitted to a matrix "
                "of numbers"
            )
    return X.to_numpy()
