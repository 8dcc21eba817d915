"""Checks of the mixtures that are read from model files, before any of their methods is called.

A forged file can contain any numbers, but not arrays of other shapes, positions outside of them, or
values with which rows would get probabilities that are not finite.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .._mixture.em import Choice, Mixture
from .._mixture.gaussian import MIN_VARIANCE
from .._mixture.rows import Columns, Rows
from .._preprocessing.table_encoder import TableEncoder
from .._validation import is_integer, is_real
from ._checkpoint import LARGEST, LARGEST_K, are_parameters, is_choice
from ._columns import ColumnModel
from ._suspects import MAX_LEVELS, SHOWN, Combinations, Suspect

# Standard deviations of columns whose squares neither overflow nor underflow.
SMALLEST_SD, LARGEST_SD = np.finfo(float).tiny ** 0.5, np.finfo(float).max ** 0.5
KINDS = ("number", "category", "numeric text")
WHOLE = ("levels_", "column_names_", "_suspect_effects", "candidates_", "choice_", "identified_",
         "shares_", "positivity_", "shares_se_", "means_", "tau_", "covariance_", "history_",
         "weights_", "_combined_weights", "n_iter_", "status_", "encoder_")  # fmt: skip


def check_mixture(model: Any) -> None:
    """Raise ValueError for a SelectionMixture that no fit can have made."""
    d = vars(model).get("n_features_in_")
    for name in (*WHOLE, "_columns", "_combinations", "_names", "_kinds", "_model", "_backend"):
        _rule(name in vars(model), name)
    names = model._names
    _rule(is_integer(d) and _are_texts(names, list) and len(names) == d > 0, "_names")
    _rule(len(set(names)) == d, "_names")
    check_feature_names(model)
    of_table = model._backend is not None
    _rule(model._backend in (None, "pandas", "polars", "pyarrow", "modin", "cudf"), "_backend")
    _rule(
        isinstance(model.encoder_, TableEncoder) if of_table else model.encoder_ is None, "encoder_"
    )
    _rule(not of_table or list(model.feature_names_in_) == names, "feature_names_in_")
    _rule(type(model._kinds) is dict, "_kinds")
    for source, kind in model._kinds.items():
        _rule(_is_place(source, d) and kind in KINDS, "_kinds")
    check_suspects(model.suspects_, d)
    _check_columns(model._columns, [] if model.suspects_ is None else model.suspects_, d)
    _check_combinations(model._combinations, model.suspects_)
    _check_parameters(model)
    _check_rows(model)


def check_feature_names(model: Any) -> None:
    names = vars(model).get("feature_names_in_")
    if names is not None:
        _rule(_is_array(names, "O", (model.n_features_in_,)), "feature_names_in_")
        _rule(_are_texts(names.tolist(), list), "feature_names_in_")


def check_suspects(suspects: Any, d: int) -> None:
    """Ascending positions of columns, or None."""
    if suspects is not None:
        _rule(_is_array(suspects, "i", (None,)) and 0 < suspects.size < d, "suspects_")
        _rule(bool((np.diff(suspects) > 0).all()) and 0 <= suspects[0], "suspects_")
        _rule(bool(suspects[-1] < d), "suspects_")


def check_row_weights(w: Any, n: int | None = None) -> None:
    _rule(_is_array(w, "f", (n,)) and bool((w >= 0).all()), "weights")


def _rule(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} is not that of a fitted model")


def _is_array(x: Any, kinds: str, shape: tuple) -> bool:
    """Whether x is an array of these kinds of dtype and this shape (None: any length), and has
    neither nan nor inf."""
    return (
        isinstance(x, np.ndarray)
        and x.dtype.kind in kinds
        and x.ndim == len(shape)
        and all(wanted in (None, size) for size, wanted in zip(x.shape, shape))
        and (x.dtype.kind != "f" or bool(np.isfinite(x).all()))
    )


def _is_place(x: Any, size: int) -> bool:
    return is_integer(x) and 0 <= x < size


def _are_texts(x: Any, kind: Any) -> bool:
    return type(x) is kind and all(type(one) is str for one in x)


def _ascends(x: np.ndarray) -> bool:
    return bool((np.diff(x) > 0).all())


def _has_fields(x: Any, kind: Any) -> bool:
    return type(x) is kind and set(vars(x)) == {field.name for field in dataclasses.fields(kind)}


def _check_columns(columns: Any, suspects: Any, d: int) -> None:
    _rule(type(columns) is list and bool(columns), "_columns")
    for c in columns:
        _rule(_has_fields(c, ColumnModel) and _is_place(c.source, d), "a column")
        _rule(c.source not in suspects and type(c.name) is str, "a column")
        _rule(all(type(x) is bool for x in (c.numeric, c.exact, c.pooled)), "a column")
        _rule(all(is_real(x) and np.isfinite(x) for x in (c.mean, c.sd, c.floor)), "a column")
        _rule(SMALLEST_SD <= c.sd <= LARGEST_SD and abs(c.mean) <= LARGEST_SD, "a column")
        _rule(MIN_VARIANCE <= c.floor <= LARGEST, "a column")
        _rule(_are_texts(c.words, tuple) and len(set(c.words)) == len(c.words), "a column")
        least = {"number": 0, "flag": 2, "category": 2}.get(c.kind)
        _rule(least is not None and len(c.words) >= least, "a column")
        _rule(c.kind != "flag" or len(c.words) == 2, "a column")
        if c.numeric and c.words:
            _rule(all(map(_is_number, c.words)), "a column")
    sources = [c.source for c in columns]
    _rule(len(set(sources)) == len(sources), "_columns")


def _is_number(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False


def _check_combinations(known: Any, suspects: Any) -> None:
    _rule(type(known) is Combinations, "_combinations")
    _rule(set(vars(known)) == {"suspects", "cells", "weight", "average"}, "_combinations")
    _rule(type(known.suspects) is list and bool(known.suspects), "_combinations")
    for suspect in known.suspects:
        _check_suspect(suspect, suspects)
    _rule(suspects is not None or len(known.suspects) == 1, "_combinations")
    sources = [source for suspect in known.suspects for source in suspect.sources]
    _rule(len(set(sources)) == len(sources), "_combinations")
    S, p = len(known.suspects), sum(s.basis().shape[1] for s in known.suspects)
    _rule(_is_array(known.cells, "i", (None, S)) and len(known.cells), "_combinations")
    for code, suspect in zip(known.cells.T, known.suspects):
        _rule(bool((code >= 0).all() and (code < suspect.n_codes).all()), "_combinations")
    keys = known._keys(known.cells)
    _rule(bool((keys[1:] > keys[:-1]).all()), "_combinations")
    _rule(_is_array(known.weight, "f", (len(known.cells),)), "_combinations")
    _rule(bool((known.weight > 0).all()) and np.isfinite(known.weight.sum()), "_combinations")
    _rule(_is_array(known.average, "f", (p,)), "_combinations")
    _rule(bool((np.abs(known.average) <= LARGEST).all()), "_combinations")


def _check_suspect(s: Any, suspects: Any) -> None:
    what = "a suspect"
    _rule(_has_fields(s, Suspect) and type(s.name) is str, what)
    _rule(type(s.sources) is tuple and bool(s.sources) == (suspects is not None), what)
    _rule(all(is_integer(one) and one in suspects for one in s.sources), what)
    _rule(_are_texts(s.levels, tuple) and 0 < len(s.levels) <= MAX_LEVELS, what)
    _rule(type(s.words) is dict and type(s.numeric) is bool and type(s.has_missing) is bool, what)
    if s.edges is None:
        _rule(not s.has_missing, what)
        parts = (s.centres, s.shown, s.knots, s.middle, s.turn)
        _rule(all(part is None for part in parts), what)
        for word, at in s.words.items():
            _rule((word is None or type(word) is str) and _is_place(at, len(s.levels)), what)
            _rule(not s.numeric or word is None or _is_number(word), what)
        return
    _rule(len(s.sources) == 1 and not s.words, what)
    _rule(_is_array(s.edges, "f", (None,)) and _ascends(s.edges), what)
    n = s.edges.size + 1
    _rule(_is_array(s.centres, "f", (n,)) and _ascends(s.centres), what)
    _rule(len(s.levels) - s.has_missing <= SHOWN and _is_array(s.shown, "i", (n,)), what)
    _rule(bool((s.shown >= 0).all() and (s.shown < len(s.levels) - s.has_missing).all()), what)
    _rule(_is_array(s.knots, "f", (None,)) and s.knots.size >= 3 and _ascends(s.knots), what)
    m = s.knots.size - 1
    _rule(_is_array(s.middle, "f", (m,)) and _is_array(s.turn, "f", (m, None)), what)
    with np.errstate(all="ignore"):
        basis = s.basis()
    _rule(bool((np.abs(basis) <= LARGEST).all()), what)  # False where nan


def _check_parameters(model: Any) -> None:
    """The shapes and ranges of the parameters are those of a new model of such rows."""
    K, choice, found = model.n_components_, model.choice_, model._model
    _rule(is_integer(K) and 1 <= K <= LARGEST_K, "n_components_")
    _rule(type(choice) is dict and tuple(choice) == Choice._fields, "choice_")
    _rule(is_choice(list(choice.values())), "choice_")
    flags, categories = (
        [c for c in model._columns if c.kind == kind] for kind in ("flag", "category")
    )
    floor = np.array([c.floor for c in model._numbers()])
    columns = Columns(
        np.zeros((1, floor.size)),
        floor,
        np.zeros((1, len(flags))),
        [(np.zeros(1, np.intp), len(c.words)) for c in categories],
    )
    known = model._combinations
    L, design = len(known.cells), known.design()
    rows = Rows(columns, np.zeros(1, np.intp), L, np.ones(1), 0, design)
    fresh = Mixture(rows, K, Choice(**choice))
    _rule(type(found) is Mixture and set(vars(found)) == set(vars(fresh)), "_model")
    _rule(tuple(found.choice) == tuple(fresh.choice), "_model")
    for name in ("K", "logit", "min_share"):
        _rule(type(getattr(found, name)) is type(getattr(fresh, name)), "_model")
        _rule(getattr(found, name) == getattr(fresh, name), "_model")
    _rule(len(found.blocks) == len(fresh.blocks), "_model")
    for own, new in zip((found, *found.blocks), (fresh, *fresh.blocks)):
        _rule(type(own) is type(new) and set(vars(own)) == set(vars(new)), "_model")
        for name, x in vars(new).items():
            if isinstance(x, np.ndarray):
                _rule(are_parameters(name, vars(own)[name], x), name)
            elif name not in ("choice", "blocks"):
                _rule(type(vars(own)[name]) is type(x) and vars(own)[name] == x, name)
    if found.blocks and vars(found.blocks[0]).get("full"):
        _rule(np.allclose(np.diag(found.blocks[0].Sigma), found.blocks[0].variance), "Sigma")
    shares = model.population_shares_
    _rule(_is_array(shares, "f", (K,)) and bool((shares >= 0).all()), "population_shares_")
    _rule(abs(shares.sum() - 1.0) < 1e-6, "population_shares_")


def _check_rows(model: Any) -> None:
    """What the fit reports about its rows."""
    R, K = len(model.levels_), model.n_components_
    _rule(_is_array(model.labels_, "i", (None,)) and model.labels_.size, "labels_")
    _rule(bool((model.labels_ >= 0).all() and (model.labels_ < K).all()), "labels_")
    own = model._combined_weights
    for w in (model.weights_, model.weights_ if own is None else own):
        check_row_weights(w, model.labels_.size)
    for name in ("_n", "_effects_term", "bic_", "one_group_bic_", "marginal_log_likelihood_",
                 "effective_sample_size_", "n_parameters_"):  # fmt: skip
        value = vars(model).get(name)
        _rule(is_real(value) and np.isfinite(value), name)
    _rule(_are_texts(model.levels_, list) and _are_texts(model.column_names_, list), "levels_")
    columns = len(model.column_names_)
    _rule(columns == sum(len(c.names) for c in model._columns), "column_names_")
    for name, shape in {"shares_": (R, K), "means_": (K, columns), "shares_se_": (R, K)}.items():
        _rule(_is_array(getattr(model, name), "f", shape), name)
    check_effects(model._suspect_effects)


def check_effects(effects: Any) -> None:
    """``suspect_effects_``, of a mixture or a corrector."""
    _rule(isinstance(effects, list), "suspect_effects_")
    for one in effects:
        _rule(type(one) is dict, "suspect_effects_")
        _rule({"suspect", "level", "columns", "effects", "se"} <= set(one), "suspect_effects_")
        _rule(type(one["suspect"]) is str and type(one["level"]) is str, "suspect_effects_")
        _rule(_are_texts(one["columns"], list), "suspect_effects_")
        for name in ("effects", "se"):
            _rule(_is_array(one[name], "f", (len(one["columns"]),)), "suspect_effects_")
