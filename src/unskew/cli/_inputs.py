"""Prepare the input of an estimator from a file and the column options."""

from __future__ import annotations

import inspect
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import SelectionMixture, TableEncoder
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
    """The data that are analysed."""

    table: Table
    X: Any  # frame, array, CSR matrix or reader of blocks of the selected columns
    names: list[str]  # of the columns of X
    suspects: list[str]  # some of these
    sample_weight: np.ndarray | None
    ids: dict[str, Any]  # the row identifiers, by the name of their column
    encoder: TableEncoder | None  # not fitted; None for matrices, which are not encoded

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns for functions that cannot see them in X."""
        return None if self.table.is_frame else self.names

    def in_X(self, columns: list[str], flag: str) -> list[Any] | None:
        """Columns as X has them: names, or positions if X is not a frame; None for none."""
        for name in columns:
            if name not in self.names:
                raise FileError(f"{self.table.name}: column {name!r} is {flag} and left out")
        found = columns if self.table.is_frame else [self.names.index(name) for name in columns]
        return found or None


def make_study(table: Table, options: dict[str, Any]) -> Study:
    """Apply the options about columns; they must not contradict each other."""
    weight, id_column = options.get("weight_column"), options.get("id")
    suspects = table.find(options.get("suspect"), "--suspect")
    dropped = table.find(options["drop"], "--drop")
    for flag, taken in (("--weight-column", [weight]), ("--id", [id_column]), ("--drop", dropped)):
        for name in [name for name in suspects if name in taken]:
            raise FileError(f"{table.name}: column {name!r} is --suspect and {flag} at once")
    chosen = chosen_columns(table, options).union(suspects) - {weight, id_column}
    names = [name for name in table.names if name in chosen]
    if not names:
        raise FileError(f"{table.name}: no column remains to be analysed")
    if suspects and len(suspects) == len(names):
        reason = "all remaining columns are --suspect; there should be others"
        raise FileError(f"{table.name}: {reason}")
    a = None if weight is None else table.weights(weight, "--weight-column")
    ids, encoder = row_names(table, id_column), make_encoder(table, names, options)
    return Study(table, table.select(names), names, suspects, a, ids, encoder)


def chosen_columns(table: Table, options: dict[str, Any]) -> set[str]:
    """Columns that --keep and --drop leave."""
    kept = table.find(options["keep"], "--keep") or table.names
    return set(kept).difference(table.find(options["drop"], "--drop"))


def named(estimator: Any, study: Study) -> Any:
    """The estimator, with the column names of the command line if X is a matrix."""
    if study.table.is_frame or hasattr(estimator, "feature_names_in_"):
        return estimator
    renamed = copy(estimator)
    renamed.feature_names_in_ = np.array(study.names, dtype=object)
    return renamed


def row_names(table: Table, id_column: str | None) -> dict[str, Any]:
    """The column of the outputs that identifies the rows."""
    if id_column is None:
        return {"row": np.arange(1, len(table) + 1)}
    if id_column in OUTPUT_NAMES:
        rule = "has the name of a column of the outputs; rename it"
        raise FileError(f"{table.name}: column {id_column!r} (--id) {rule}")
    return {id_column: table.identifiers(id_column, "--id")}


def read_margins(study: Study, given: list[str] | None) -> dict[Any, dict[Any, float]] | None:
    """race:White=0.64 -> {"race": {"White": 0.64}}; an empty value means missing values."""
    margins: dict[Any, dict[Any, float]] = {}
    for text in given or ():
        where = f"{study.table.name}: --margin {text!r}"
        left, _, share = text.rpartition("=")
        if ":" not in left:
            raise FileError(f"{where} should be COLUMN:VALUE=SHARE, for example race:White=0.64")
        # A column name may contain a colon: the longest matching name is used.
        column = max((n for n in study.names if left.startswith(f"{n}:")), key=len, default=None)
        if column is None:
            name = left.partition(":")[0]
            hint = nearest(name, study.names)
            raise FileError(f"{where}: {name!r} is not a column that is analysed{hint}")
        key: Any = column
        value: Any = left[len(column) + 1 :] or None
        if not study.table.is_frame:
            key, value = study.names.index(column), _number(value, f"{where}: the value")
        shares = margins.setdefault(key, {})
        if value in shares:
            raise FileError(f"{where}: this value already has a share")
        shares[value] = _number(share, f"{where}: the share")
        if not 0 <= shares[value] <= 1:
            raise FileError(f"{where}: the share {share} should be in [0, 1]")
    return margins or None


def _number(text: str | None, what: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise FileError(f"{what} {text!r} should be a number") from None


def make_encoder(table: Table, names: list[str], options: dict[str, Any]) -> TableEncoder | None:
    """TableEncoder with the encoding options, for these columns."""
    kinds = {}
    for kind in ("category", "number"):
        for name in table.find(options[kind], f"--{kind}"):
            if name in kinds:
                raise FileError(f"{table.name}: column {name!r} is --category and --number at once")
            if name in names:
                kinds[name] = kind
    given = {name: options[name] for name in ("max_categories", "strict", "number_scale")}
    if table.is_frame:
        return TableEncoder(kinds=kinds or None, **given)
    defaults = TableEncoder().get_params()
    for name in [*(n for n, value in given.items() if value != defaults[n]), *kinds.values()]:
        reason = f"does not apply to {table.format}: a matrix is not encoded"
        raise FileError(f"{table.name}: --{name.replace('_', '-')} {reason}")
    return None


def make_estimator(kind: Any, study: Study, options: dict[str, Any]) -> Any:
    """An estimator with the options of the same name; what is not given has its default."""
    given = options | {
        "suspect": study.in_X(study.suspects, "--suspect"),
        "margin": read_margins(study, options.get("margin")),
        "encoder": study.encoder,
    }
    if kind is SelectionMixture:
        given["init"] = None  # its --init is that of dckm
    values = {n: given.get(OPTIONS.get(n, n)) for n in inspect.signature(kind).parameters}
    return kind(**{name: value for name, value in values.items() if value is not None})


def for_model(table: Table, estimator: Any, options: dict[str, Any]) -> tuple[Any, list[str]]:
    """The columns that a model was fitted to, from a table that may have others; their names."""
    chosen = chosen_columns(table, options) - {options.get("id")}
    return table.select_for(estimator, [name for name in table.names if name in chosen])
