"""Prepare the input of an estimator from a file and the column options."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import SelectionMixture, TableEncoder
from .._io import Table
from .._validation import check_weights
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
    sample_weight: np.ndarray | None  # design weights times weight_scale
    weight_scale: float
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
                raise self.table.error(f"column {name!r} is {flag} and left out")
        found = columns if self.table.is_frame else [self.names.index(name) for name in columns]
        return found or None


def make_study(table: Table, options: dict[str, Any]) -> Study:
    """Apply the options about columns; they must not contradict each other."""
    weight, id_column = options.get("weight_column"), options.get("id")
    suspects = table.find(options.get("suspect"), "--suspect")
    dropped = table.find(options["drop"], "--drop")
    for flag, taken in (("--weight-column", [weight]), ("--id", [id_column]), ("--drop", dropped)):
        for name in [name for name in suspects if name in taken]:
            raise table.error(f"column {name!r} is --suspect and {flag} at once")
    chosen = chosen_columns(table, options).union(suspects) - {weight, id_column}
    names = [name for name in table.names if name in chosen]
    if not names:
        raise table.error("no column remains to be analysed")
    if suspects and len(suspects) == len(names):
        raise table.error("all remaining columns are --suspect; there should be others")
    a, scale = None, 1.0
    if weight is not None:
        # BIC counts weight as rows, of which survey weights stand for millions: they are scaled to
        # Kish's effective number of rows.
        a = check_weights(table.weights(weight, "--weight-column"), len(table))
        scale = float(a.sum() / (a @ a))
        a = a * scale
    ids, encoder = row_names(table, id_column), make_encoder(table, names, options)
    return Study(table, table.select(names), names, suspects, a, scale, ids, encoder)


def chosen_columns(table: Table, options: dict[str, Any]) -> set[str]:
    """Columns that --keep and --drop leave."""
    kept = table.find(options["keep"], "--keep") or table.names
    return set(kept).difference(table.find(options["drop"], "--drop"))


def row_names(table: Table, id_column: str | None) -> dict[str, Any]:
    """The column of the outputs that identifies the rows."""
    if id_column is None:
        return {"row": np.arange(1, len(table) + 1)}
    if id_column in OUTPUT_NAMES:
        rule = "has the name of a column of the outputs; rename it"
        raise table.error(f"column {id_column!r} (--id) {rule}")
    return {id_column: table.identifiers(id_column, "--id")}


def make_encoder(table: Table, names: list[str], options: dict[str, Any]) -> TableEncoder | None:
    """TableEncoder with the encoding options, for these columns."""
    kinds = {}
    for kind in ("category", "number"):
        for name in table.find(options[kind], f"--{kind}"):
            if name in kinds:
                raise table.error(f"column {name!r} is --category and --number at once")
            if name in names:
                kinds[name] = kind
    given = {name: options[name] for name in ("max_categories", "strict", "number_scale")}
    if table.is_frame:
        return TableEncoder(kinds=kinds or None, **given)
    defaults = TableEncoder().get_params()
    for name in [*(n for n, value in given.items() if value != defaults[n]), *kinds.values()]:
        flag = f"--{name.replace('_', '-')}"
        raise table.error(f"{flag} does not apply to {table.format}: a matrix is not encoded")
    return None


def make_estimator(kind: Any, study: Study, options: dict[str, Any]) -> Any:
    """An estimator with the options of the same name; what is not given has its default."""
    given = options | {
        "suspect": study.in_X(study.suspects, "--suspect"),
        "margin": study.table.shares(options.get("margin"), "--margin", study.names),
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
