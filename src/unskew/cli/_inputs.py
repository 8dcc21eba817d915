"""Prepare the input of an estimator from a file and the column options."""

from __future__ import annotations

import inspect
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._io import FileError, Table, nearest
from ._console import OPTIONS

# Options that SelectionMixture does not have.
DCKM_OPTIONS = (
    "runs", "adjust", "balance_strength", "spread_strength", "min_effective_sample_size", "margin",
    "bins", "threads", "cluster_on", "init", "number_scale",
)  # fmt: skip
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

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns for functions that cannot see them in X."""
        return None if self.table.is_frame else self.names


def make_study(table: Table, options: dict[str, Any]) -> Study:
    """Apply the options about columns; they must not contradict each other."""
    weight = table.check_name(options.get("weight_column"), "--weight-column")
    id_column = table.check_name(options.get("id"), "--id")
    suspects = table.find(options.get("suspect"), "--suspect")
    for flag, taken in (
        ("--weight-column", [weight]),
        ("--id", [id_column]),
        ("--drop", table.find(options["drop"], "--drop")),
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
        None if weight is None else table.weights(weight, "--weight-column"),
        row_names(table, id_column),
    )


def chosen_columns(table: Table, options: dict[str, Any]) -> set[str]:
    """Columns that --keep and --drop leave."""
    kept = table.find(options["keep"], "--keep") or table.names
    return set(kept) - set(table.find(options["drop"], "--drop"))


def chosen_names(table: Table, options: dict[str, Any]) -> list[str]:
    """Columns that a model may be applied to, in the order of the table."""
    chosen = chosen_columns(table, options) - {options.get("id")}
    return [name for name in table.names if name in chosen]


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
    if table.is_frame and (values.dtype.is_nested() or str(values.dtype) == "Object"):
        raise FileError(
            f"{flag} has dtype {values.dtype}; identifiers should be strings or numbers"
        )
    return id_column, values


def read_margins(study: Study, given: list[str] | None) -> dict[Any, dict[Any, float]] | None:
    """race:White=0.64 -> {"race": {"White": 0.64}}; an empty value means missing values."""
    margins: dict[Any, dict[Any, float]] = {}
    for text in given or ():
        where = f"{study.table.name}: --margin {text!r}"
        left, equals, share = text.rpartition("=")
        if not equals or ":" not in left:
            raise FileError(f"{where} should be COLUMN:VALUE=SHARE, for example race:White=0.64")
        # A column name may contain a colon: the longest matching name is used.
        fitting = [name for name in study.names if left.startswith(f"{name}:")]
        if not fitting:
            name = left.partition(":")[0]
            raise FileError(
                f"{where}: {name!r} is not a column that is analysed{nearest(name, study.names)}"
            )
        column = max(fitting, key=len)
        key: Any = column if study.table.is_frame else study.names.index(column)
        value: Any = left[len(column) + 1 :] or None
        if not study.table.is_frame:
            value = _number(value, f"{where}: the value")
        wanted = _number(share, f"{where}: the share")
        if not 0 <= wanted <= 1:
            raise FileError(f"{where}: the share {share} should be in [0, 1]")
        shares = margins.setdefault(key, {})
        if value in shares:
            raise FileError(f"{where}: this value already has a share")
        shares[value] = wanted
    return margins or None


def _number(text: str | None, what: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise FileError(f"{what} {text!r} should be a number") from None


def make_encoder(study: Study, options: dict[str, Any]) -> Any:
    """TableEncoder with the encoding options; None for matrices, which are not encoded."""
    from .. import TableEncoder

    table = study.table
    kinds: dict[str, str] = {}
    for kind in ("category", "number"):
        for name in table.find(options[kind], f"--{kind}"):
            if name in kinds:
                raise FileError(f"{table.name}: column {name!r} is --category and --number at once")
            if name in study.names:
                kinds[name] = kind
    given = {
        "max_categories": options["max_categories"],
        "strict": options["strict"],
        "number_scale": options["number_scale"],
        "kinds": kinds or None,
    }
    encoder = TableEncoder(**given)
    if table.is_frame:
        return encoder
    defaults = TableEncoder().get_params()
    for name, value in given.items():
        if value != defaults[name]:
            flag = f"--{next(iter(value.values())) if name == 'kinds' else name.replace('_', '-')}"
            raise FileError(
                f"{table.name}: {flag} does not apply to {table.format}: a matrix is not encoded"
            )
    return None


def make_estimator(kind: Any, study: Study, options: dict[str, Any]) -> Any:
    """An estimator with the options of the same name; what is not given has its default."""
    given = options | {
        "suspect": study.suspects,
        "margin": read_margins(study, options["margin"]),
        "encoder": make_encoder(study, options),
    }
    if kind.__name__ == "SelectionMixture":
        given = {name: value for name, value in given.items() if name not in DCKM_OPTIONS}
    values = {n: given.get(OPTIONS.get(n, n)) for n in inspect.signature(kind).parameters}
    return kind(**{name: value for name, value in values.items() if value is not None})


def for_model(table: Table, estimator: Any, options: dict[str, Any]) -> Any:
    """The columns that a model was fitted to, from a table that may have others."""
    names = chosen_names(table, options)
    chosen = set(names)
    known = getattr(estimator, "feature_names_in_", None)
    if known is None and len(names) != estimator.n_features_in_:
        raise FileError(
            f"{table.name}: has {len(names)} columns to predict from, but the model was fitted to "
            f"a matrix of {estimator.n_features_in_}; choose them with --drop or --keep"
        )
    for name in () if known is None else known:
        if name not in chosen:
            raise FileError(
                f"{table.name}: has no column {name!r}, which the model was fitted to"
                f"{nearest(str(name), names)}"
            )
    if known is None:
        return table.select_matrix(names)
    return table.select_frame(list(known))
