"""Conversion of a fitted model or a table to encoded columns with names and sources."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import check_array

from .. import _balance
from .._compat import installed_versions
from .._data.columns import as_frame
from .._data.sources import SUPPORTED_DTYPES
from .._data.tiled import TiledMatrix, as_tiled
from .._preprocessing import ColumnMap, Design, TableEncoder, design_for, make_design
from .._validation import check_weights, find_columns
from ..mixture import SelectionMixture
from ._results import Settings

# Blocks of D with more entries than this are restricted to the columns of largest variance.
MAX_PAIR_BLOCK = 2**22
# A column with at most this many distinct values is treated as categorical.
MAX_CODES = 20
# An audit keeps this many of the most frequent values of a category and pools the others.
MAX_CATEGORIES_SHOWN = 20


@dataclass(frozen=True)
class View:
    """Encoded rows of a fit, with a name and a source column for each encoded column.

    pair_blocks  pairs to balance; their D is standardised whatever the objective of the model
    suspects     encoded columns of the suspects, or None
    in_distance  encoded columns of the clustering distance
    encoder      the fitted encoder of a table, or None
    cut          whether pair_blocks were restricted to the columns of largest variance
    transformed  rows without the effects of the suspects, where the model is a mixture that
                 estimates some; None otherwise
    """

    design: Design
    names: tuple[str, ...]
    sources: np.ndarray
    source_names: tuple[str, ...]
    pair_blocks: tuple[Any, ...]
    encoder: Any
    cut: bool
    transformed: TiledMatrix | None = None

    @property
    def rows(self) -> TiledMatrix:
        return self.design.rows

    @property
    def a(self) -> np.ndarray:
        return self.design.a

    @property
    def suspects(self) -> Any:
        named = self.design.suspects
        return named if named is not None and np.size(named) else None

    @property
    def constant_suspects(self) -> bool:
        """Whether suspects were named and all of them are constant."""
        return self.design.suspects is not None and self.suspects is None

    @property
    def in_distance(self) -> np.ndarray:
        return self.design.distance.columns

    @property
    def sd(self) -> np.ndarray:
        return self.design.stats.sd

    @property
    def rest(self) -> np.ndarray:
        """Encoded columns of the distance that are not suspects."""
        return np.setdiff1d(self.in_distance, [] if self.suspects is None else self.suspects)

    @property
    def suspect_sources(self) -> np.ndarray:
        nothing = np.zeros(0, dtype=np.intp)
        return nothing if self.suspects is None else np.unique(self.sources[self.suspects])

    @property
    def suspect_names(self) -> tuple[str, ...]:
        return tuple(self.source_names[s] for s in self.suspect_sources)

    @property
    def kinds(self) -> dict[str, str]:
        """Source name -> kind of column; empty for arrays."""
        return {} if self.encoder is None else dict(self.encoder.kinds_)

    @property
    def corrected(self) -> bool:
        """Whether the model removes effects of the suspects from the other columns."""
        return self.design.distance.effects is not None or self.transformed is not None

    def features(self, which: np.ndarray, *, as_they_are: bool = False) -> np.ndarray:
        """Columns of the distance of these rows, without the effects that the model removes, or
        ``as_they_are``."""
        rows, distance = self.rows, self.design.distance
        if as_they_are:
            distance = replace(distance, effects=None)
        elif self.transformed is not None:
            rows = self.transformed
        return distance.features(rows.take(which)).astype(np.float64)

    def differences(
        self, w: np.ndarray, *, as_they_are: bool = False
    ) -> list[tuple[Any, np.ndarray]]:
        """(pairs, D) of each block under weights w.

        Columns are corrected for the effects of the suspects if the model does so;
        ``as_they_are`` turns this off.
        """
        pairs, rows = self.pair_blocks, self.rows
        if as_they_are:
            pairs = tuple(replace(one, effects=None) for one in pairs)
        elif self.transformed is not None:
            rows = self.transformed
        with rows.executor:
            return [(one, _balance.contrast(rows, one, w)) for one in pairs]

    def readable(self, k: int, value: float) -> float | None:
        """A mean of encoded column k in the units of the table; None if it is not finite."""
        if not np.isfinite(value):
            return None
        if self.encoder is None or self.design.column_map.is_indicator[k]:
            return float(value)
        return float(self.encoder.recipes_[self.sources[k]].readable(value))


def view_of_fit(model: Any, X: Any, sample_weight: Any) -> View:
    """View of the rows that ``model`` was fitted to."""
    a = check_weights(sample_weight, model.weights_.size)
    if not sp.issparse(X) and as_frame(X) is None:
        X = np.asarray(X)
    w = np.asarray(model.combined_weights_, dtype=np.float64)
    if isinstance(model, SelectionMixture):
        return _view_of_mixture(model, X, a)
    design = design_for(model, X, a)
    if model.objective == "normalized" and not np.allclose(a * model.weights_, w, rtol=1e-6):
        raise ValueError(
            "sample_weight differs from that of the fit; pass the weights that were passed to fit"
        )
    return _view(design, model.encoder_)


def _view_of_mixture(model: SelectionMixture, X: Any, a: np.ndarray) -> View:
    corrected = None if model.choice_["effects"] == "none" else model.transform(X)
    if as_frame(X) is not None:
        encoder = model.encoder_
        matrix, column_map = encoder._encode(X).matrix, encoder._column_map()
        if corrected is not None:
            corrected = encoder._encode(corrected).matrix
    else:
        # The distance of k-means needs complete rows; the likelihood leaves missing values out.
        encoder, known = None, ~np.isnan(np.asarray(X, dtype=np.float64))
        means = np.array([column[k].mean() if k.any() else 0.0 for column, k in zip(X.T, known.T)])
        matrix = np.where(known, X, means)
        column_map = ColumnMap.identity(X.shape[1], getattr(model, "feature_names_in_", None))
        if corrected is not None:
            corrected = np.where(known, corrected, means)
    suspects = None
    if model.suspects_ is not None:
        suspects = np.flatnonzero(np.isin(column_map.source, model.suspects_))
    rows = as_tiled(matrix, None)
    with rows.executor:
        design = make_design(
            rows,
            a,
            suspects=suspects,
            cluster_on="non_suspects",
            n_bins=5,
            standardise=True,
            column_map=column_map,
        )
    view = _view(design, encoder)
    if corrected is None:
        return view
    return replace(view, transformed=as_tiled(corrected, None).with_shift(design.rows.shift))


def view_of_table(X: Any, sample_weight: Any, encoder: Any, feature_names: Any = None) -> View:
    """View of a table or matrix without a model; every pair of source columns is measured."""
    frame = as_frame(X)
    if frame is None:
        X = check_array(X, accept_sparse="csr", dtype=SUPPORTED_DTYPES, order="C")
        a, fitted = check_weights(sample_weight, X.shape[0]), None
        column_map = ColumnMap.identity(X.shape[1], check_names(feature_names, X))
        matrix = sp.csr_array(X) if sp.issparse(X) else X
    else:
        check_names(feature_names, X)
        fitted = clone(encoder or TableEncoder(max_categories=MAX_CATEGORIES_SHOWN))
        a = check_weights(sample_weight, len(frame))
        matrix, column_map = fitted._fit_encode(frame, a).matrix, fitted._column_map()
    rows = as_tiled(matrix, None)
    with rows.executor:
        design = make_design(
            rows,
            a,
            suspects=None,
            cluster_on="all",
            n_bins=5,
            standardise=True,
            column_map=column_map,
        )
    return _view(design, fitted)


def check_names(feature_names: Any, X: Any) -> np.ndarray | None:
    """Validate the names for the columns of an array; None if none are given."""
    if feature_names is None:
        return None
    if as_frame(X) is not None:
        raise ValueError("feature_names should be None for a table, whose columns have names")
    names = np.array([str(name) for name in feature_names], dtype=object)
    if names.size != X.shape[1]:
        raise ValueError(
            f"feature_names has {names.size} names but X has {X.shape[1]} columns; there should "
            "be one name per column"
        )
    return names


def _view(design: Design, encoder: Any) -> View:
    sd = design.stats.sd
    scale = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    whole = [
        replace(pairs, scale=scale[pairs.features])
        for pairs in design.pair_blocks
        if pairs.n_pairs > 0
    ]
    pair_blocks = tuple(_cut_down(pairs, sd) for pairs in whole)
    return View(
        design=design,
        names=tuple(map(str, design.names)),
        sources=np.asarray(design.sources),
        source_names=tuple(map(str, design.source_names)),
        pair_blocks=pair_blocks,
        encoder=encoder,
        cut=any(cut is not pairs for cut, pairs in zip(pair_blocks, whole)),
    )


def _cut_down(pairs: Any, sd: np.ndarray) -> Any:
    """The block itself, or its part with the columns of largest variance if it is too large."""
    most = MAX_PAIR_BLOCK
    d, t = pairs.features.size, len(pairs.treatments)
    if d * t <= most:
        return pairs
    share = np.sqrt(most / (d * t))
    keep_k = _largest(sd[pairs.features], max(1, int(d * share)))
    keep_j = _largest(sd[pairs.treatments.column], max(1, int(t * share)))
    row, column = np.full(d, -1), np.full(t, -1)
    row[keep_k], column[keep_j] = np.arange(keep_k.size), np.arange(keep_j.size)
    excluded = row[pairs.excluded[0]], column[pairs.excluded[1]]
    inside = (excluded[0] >= 0) & (excluded[1] >= 0)
    return replace(
        pairs,
        features=pairs.features[keep_k],
        treatments=pairs.treatments.take(keep_j),
        excluded=(excluded[0][inside], excluded[1][inside]),
        scale=pairs.scale[keep_k],
        centre=pairs.centre[keep_k],
        range=pairs.range[keep_k],
        symmetric=False,
    )


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    return np.sort(np.argsort(-values, kind="stable")[:count])


def row_index(X: Any) -> Any:
    """The index of a pandas table unless it is the default RangeIndex, else None."""
    index = getattr(X, "index", None)
    if index is None or not hasattr(X, "columns") or type(index).__name__ == "RangeIndex":
        return None
    return index


def find_sources(named: Any, view: View) -> np.ndarray:
    """Positions of source columns given by name, index or mask."""
    names = None if view.encoder is None else np.array(view.source_names, dtype=object)
    return find_columns(named, names, len(view.source_names), "suspects")


def treatment_name(view: View, treatments: Any, j: int) -> str:
    """Display name: the column name if it is two-valued, else its bin, as in "age 31 to 45"."""
    k = int(treatments.column[j])
    name, low, high = view.names[k], float(treatments.above[j]), float(treatments.upto[j])
    if np.isfinite(low) and not np.isfinite(high) and int((treatments.column == k).sum()) == 1:
        return name
    shift = 0.0 if view.rows.shift is None else float(view.rows.shift[k])
    levels = view.design.column_map.levels[k]
    recipe = None if view.encoder is None else view.encoder.recipes_[view.sources[k]]
    if levels is not None and recipe is not None:
        inside = [recipe.readable(v) for v in levels if low < v - shift <= high]
        return f"{name}={' or '.join(recipe.words[round(v)] for v in inside)}"

    def format_bound(value: float) -> str:
        value = value + shift if recipe is None else recipe.readable(value + shift)
        if recipe is not None and recipe.kind == "date":
            return str(np.datetime64(round(value), "D"))
        return f"{value:.4g}"

    if not np.isfinite(low):
        return f"{name} up to {format_bound(high)}"
    if not np.isfinite(high):
        return f"{name} above {format_bound(low)}"
    return f"{name} {format_bound(low)} to {format_bound(high)}"


class SourceValues(NamedTuple):
    """A source column for `metrics.association`: values, measure, and mask of observed rows."""

    values: np.ndarray
    kind: str
    known: np.ndarray


def values_of_source(view: View, source: int) -> SourceValues:
    """Values of a source column, and the association measure for them.

    Numbers and dates with more than 20 distinct values are returned as encoded ("eta"). Any other
    column gets one code per pattern of its encoded columns ("cramers_v"), so that missing is a
    separate value.
    """
    columns = np.flatnonzero(view.sources == source)
    every = np.ones(view.rows.n, dtype=bool)
    if columns.size == 0:  # a constant column has no encoded columns
        return SourceValues(np.zeros(view.rows.n), "cramers_v", every)
    values = view.rows.columns(columns).astype(np.float64)
    kind = view.kinds.get(view.source_names[source], "number")
    if kind in ("number", "date") and np.unique(values[:, 0]).size > MAX_CODES:
        note = view.design.column_map.missing_indicator[columns[0]]
        known = every if note < 0 else values[:, np.flatnonzero(columns == note)[0]] == 0
        return SourceValues(values[:, 0], "eta", known)
    if columns.size == 1:
        return SourceValues(np.unique(values[:, 0], return_inverse=True)[1], "cramers_v", every)
    codes = np.unique(values, axis=0, return_inverse=True)[1].ravel()
    return SourceValues(codes, "cramers_v", every)


# ------------------------------------------------------------------------------------- settings
def format_value(value: Any) -> str:
    """A parameter as Python source, with long arrays abbreviated."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (list, tuple)) and len(value) > 12:
        shown = ", ".join(map(repr, value[:10]))
        return f"[{shown}, ... ({len(value)} in all)]"
    if isinstance(value, float):
        return f"{value:g}"
    return " ".join(repr(value).split())


def call_of(model: Any, weighted: bool) -> str:
    """The line of Python that fits a model with the same parameters."""
    defaults = type(model)().get_params(deep=False)
    changed = [
        f"{name}={format_value(value)}"
        for name, value in model.get_params(deep=False).items()
        if not _equal_setting(value, defaults[name])
    ]
    weights = ", sample_weight=sample_weight" if weighted else ""
    return f"{type(model).__name__}({', '.join(changed)}).fit(X{weights})"


def settings_of(
    view: View,
    X: Any,
    sample_weight: Any,
    *,
    model: str,
    call: str,
    parameters: dict,
    n_rows: int,
    n_zero: int = 0,
) -> Settings:
    """Parameters, versions and column information; ``n_rows`` is the size before subsampling."""
    ignored = {} if view.encoder is None else view.encoder.ignored_
    return Settings(
        model=model,
        call=call,
        parameters=tuple((name, format_value(value)) for name, value in parameters.items()),
        versions=library_versions(X),
        n_rows=n_rows,
        n_columns=len(view.source_names),
        n_encoded=view.rows.d,
        design_weights=sample_weight is not None,
        suspects=view.suspect_names,
        kinds=tuple((str(name), str(kind)) for name, kind in view.kinds.items()),
        ignored=tuple((str(name), str(why)) for name, why in ignored.items()),
        n_zero=n_zero,
    )


def _equal_setting(value: Any, default: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(default, np.ndarray):
        return False
    return type(value) is type(default) and value == default


def library_versions(X: Any) -> tuple[tuple[str, str], ...]:
    """Versions of unskew, Python and the libraries that results can depend on."""
    from .. import __version__

    library = type(X).__module__.split(".")[0]
    frames = [name for name in ("pandas", "polars", "pyarrow") if name == library]
    found = installed_versions("numpy", "scipy", "scikit-learn", "narwhals", *frames)
    return (
        ("unskew", __version__),
        ("python", platform.python_version()),
        *found.items(),
        ("platform", f"{platform.system()} {platform.machine()}"),
    )
