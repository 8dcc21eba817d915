"""Checks of the models that are read from model files, before any of their methods is called.

One table for each class says which dtype, shape and range its attributes have (`_schema.py`). Then
the model answers for a few rows: what agrees in shape can still be far from what a fit learns.
Mixtures and correctors have checks of their own, `mixture/_restored.py`.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from ._balance import Effects, Pairs, Treatments
from ._balance.primal import GradientCoefs
from ._base import LOWEST_R2, BaseDecorrelator
from ._clusterer import BaseClusterer
from ._data.columns import ColumnValues
from ._kmeans import Distance, RowScaling
from ._preprocessing import TableEncoder
from ._preprocessing.stats import allowed_scales
from ._preprocessing.table_encoder import MISSING, OTHER, Recipe
from ._schema import (
    LARGEST,
    Sizes,
    Table,
    array,
    each_of,
    flag,
    integer,
    many,
    mapping,
    maybe,
    number,
    part,
    require,
    text,
)
from ._solver.cells import CellCoding
from ._weight_model import BlockGradient, DualWeightModel, WeightModel
from .baselines import (
    DecorrelatedKMeans,
    DropKMeans,
    PCAKMeans,
    PlainKMeans,
    RegressOutKMeans,
    SelectKMeans,
)
from .baselines._base import BaselineKMeans
from .consensus import Choice, ConsensusDCKM
from .consensus._estimator import ConsensusRun
from .consensus._model_selection import SelectionCandidate
from .consensus._voting import Votes
from .dckm import DCKM
from .feature_selection import FSASL, REFS, RUFS, LaplacianScore, VarianceSelector
from .feature_selection._selector import RankingSelector
from .weights import DecorrelationWeights

# Standard deviations of columns whose squares do not underflow are larger.
SMALLEST_SCALE = 1e-180
MAX = float(np.finfo(float).max)
# Rows for which a restored model answers.
ROWS = 5
REPORTED = number(any_float=True)
SHARE = number(-1e-9, 1 + 1e-9)
TEXTS = many(tuple, text())


def any_values(kinds: str, shape: str) -> Any:
    """An array that only reports show."""
    return array(kinds, shape, -MAX, MAX, nan=True, inf=True)


# --------------------------------------------------------------------------------------- parts

TREATMENTS = Table(
    Treatments,
    {
        "column": array("i", "t", 0, below="e"),
        "above": array("f", "t", inf=True),
        "upto": array("f", "t", inf=True),
        "as_is": flag,
        "missing_indicator": maybe(array("i", "t", -1, below="e")),
    },
)
EFFECTS = Table(
    Effects,
    {
        "column": array("i", "c", 0, below="e"),
        "power": array("f", "c", 1, 5),
        "centre": array("f", "c", "-X", "X"),
        "scale": array("f", "c", SMALLEST_SCALE),
        "bins": maybe(part(TREATMENTS, t="b")),
        "mean": array("f", "Q"),
        "B": array("f", "Q e", -MAX, MAX),
        "missing_indicator": array("i", "e", -1, below="e"),
    },
    (
        (
            "effects of as many values as its columns and bins have",
            lambda v, sizes: sizes["Q"] == sizes["c"] + sizes.get("b", 0),
        ),
    ),
)
PAIRS = Table(
    Pairs,
    {
        "features": array("i", "f", 0, below="e"),
        "treatments": part(TREATMENTS, t="t"),
        "excluded": each_of(array("i", "x", 0, below="f"), array("i", "x", 0, below="t")),
        "scale": array("f", "f", 0),
        "centre": array("f", "f", "-X", "X"),
        "range": array("f", "f", nan=True),
        "symmetric": flag,
        "effects": maybe(part(EFFECTS)),
    },
    (
        (
            "pairs of as many features as treatments where they are symmetric",
            lambda v, sizes: not v.symmetric or sizes["f"] == sizes["t"],
        ),
    ),
)
COEFS = Table(
    GradientCoefs,
    {
        "Q": array("f", "f t"),
        "v": array("f", "t"),
        "h": array("f", "h"),
        "const": number(),
    },
    (("coefficients h of all features, or none", lambda v, s: s["h"] in (0, s["f"])),),
)
PIECE = Table(
    BlockGradient,
    {"pairs": part(PAIRS, f="f", t="t"), "coefs": part(COEFS, f="f", t="t")},
)
WEIGHT_MODEL = Table(
    WeightModel,
    {
        "pieces": many(tuple, part(PIECE)),
        "inertia_rate": number(0, MAX),
        "balance_rate": number(0),
        "own": maybe(part(TREATMENTS, t="o")),
        "coefficients": array("f", "o+2"),
        "r2": number(-LARGEST, 1),
    },
    (
        (
            "a model of 2 coefficients and one for each treatment",
            lambda v, s: s["o"] == 0 or v.own is not None,
        ),
    ),
)
CODING = Table(
    CellCoding,
    {
        "treatments": part(TREATMENTS, t="q"),
        "contrast": array("f", "q p"),
        "offset": array("f", "p"),
        "constraint": array("f", "q+1 r"),
    },
)
DUAL_MODEL = Table(
    DualWeightModel,
    {
        "pairs": part(PAIRS, f="f"),
        "coding": part(CODING, q="q", p="p", r="r"),
        "Z": array("f", "z f"),
        "mu": array("f", "r"),
        "sigma": number(np.finfo(float).tiny),
        "rho": number(0, MAX),
        "centres": maybe(array("f", "K m", "-X", "X")),
        "T": array("f", "C q", 0, 1),
        "factor": array("f", "C", 0),
    },
    (("weights with at most as many Z as contrasts", lambda v, s: s["z"] <= s["p"]),),
)
SCALING = Table(
    RowScaling,
    {
        "offset": array("f", "m", "-X", "X"),
        "scale": array("f", "m", 0),
        "unit": flag,
    },
)
DISTANCE = Table(
    Distance,
    {
        "columns": array("i", "m", 0, below="e", ascending=True),
        "missing_at": maybe(array("i", "u", 0, below="m")),
        "indicator": maybe(array("i", "u", 0, below="e")),
        "variances": maybe(array("f", "m", 0, MAX)),
        "effects": maybe(part(EFFECTS)),
        "scaling": maybe(part(SCALING)),
    },
    (
        ("a distance with columns", lambda v, s: s["m"] > 0),
        (
            "a distance with an indicator for each column with missing values",
            lambda v, s: (v.missing_at is None) == (v.indicator is None),
        ),
        (
            "a distance without both effects and scaling",
            lambda v, s: v.effects is None or v.scaling is None,
        ),
    ),
)


def weight_model(value: Any, name: str, sizes: Sizes) -> None:
    part(DUAL_MODEL if type(value) is DualWeightModel else WEIGHT_MODEL)(value, name, sizes)


# ----------------------------------------------------------------------------------- the encoder

RECIPE = Table(
    Recipe,
    {
        "name": text(),
        "kind": text("number", "two-valued", "category", "ordered", "date", "constant"),
        "asked": maybe(text("number", "category")),
        "centre": number(-MAX, MAX),
        "scale": number(SMALLEST_SCALE, MAX),
        "limit": number(SMALLEST_SCALE, np.inf),
        "mean": number(-MAX, MAX),
        "states": TEXTS,
        "step": number(SMALLEST_SCALE),
        "note": flag,
        "empty": flag,
        "words": TEXTS,
        "levels": maybe(many(tuple, number())),
        "why": text(),
        "identifier": flag,
        "n_pooled": integer(0),
        "n_missing": integer(0),
        "numeric_text": flag,
        "values": text(),
        "notes": many(tuple, each_of(text(), text())),
    },
    (
        ("a recipe with different words", lambda r, s: len(set(r.words)) == len(r.words)),
        ("a recipe of a column, or of missing values", lambda r, s: r.note or not r.empty),
        (
            "a recipe of two or more states of a category, and of no others",
            lambda r, s: len(r.states) >= 2 if r.kind == "category" else not r.states,
        ),
        (
            f"a recipe with {OTHER!r} and {MISSING!r} where values are pooled or missing",
            lambda r, s: (
                r.kind != "category"
                or r.states[len(r.own_states) :]
                == (OTHER,) * (r.n_pooled > 0) + (MISSING,) * (r.n_missing > 0)
            ),
        ),
        (
            "a recipe with different states",
            lambda r, s: len(set(r.own_states)) == len(r.own_states),
        ),
    ),
)
ENCODER = Table(
    TableEncoder,
    {
        "n_features_in_": integer(1, size="d"),
        "feature_names_in_": array("O", "d"),
        "recipes_": many(list, part(RECIPE), "d"),
        "sources_": array("i", "e", 0, below="d"),
    },
    (
        (
            "an encoder of the columns of its recipes",
            lambda v, s: v.feature_names_in_.tolist() == [r.name for r in v.recipes_],
        ),
        (
            "an encoder of different columns",
            lambda v, s: len({r.name for r in v.recipes_}) == s["d"],
        ),
        (
            "an encoder with the columns and sources of its recipes",
            lambda v, s: np.array_equal(
                v.sources_, np.repeat(np.arange(s["d"]), [len(r.columns) for r in v.recipes_])
            ),
        ),
        (
            "an encoder with the kinds of its recipes",
            lambda v, s: v.kinds_ == {r.name: r.kind for r in v.recipes_},
        ),
        (
            "an encoder with the ignored and pooled columns of its recipes",
            lambda v, s: (
                (v.ignored_, v.identifiers_, v.pooled_)
                == (
                    {r.name: r.why for r in v.recipes_ if r.kind == "constant"},
                    {r.name: r.why for r in v.recipes_ if r.identifier},
                    {r.name: r.n_pooled for r in v.recipes_ if r.n_pooled},
                )
            ),
        ),
        (
            "an encoder of tables of pandas, polars or pyarrow",
            lambda v, s: vars(v).get("library_") in (None, "pandas", "polars", "pyarrow", "modin"),
        ),
    ),
)


# ------------------------------------------------------------------------------------ estimators


def anything(value: Any, name: str, sizes: Sizes) -> None:
    """A value that only reports show; `model_file` has checked its type."""


FEATURES = {"n_features_in_": integer(1, size="d")}
DECORRELATOR = {
    "suspects_": maybe(array("i", "S", 0, below="d", ascending=True)),
    "weights_": array("f", "n", 0),
    "_combined_weights": maybe(array("f", "n", 0)),
    "_shift": maybe(array("f", "e", "-X", "X")),
    "_weight_model": maybe(weight_model),
    "_associated": flag,
    "n_iter_": integer(0),
    "status_": text(),
    "history_": mapping(any_values("f", "h")),
    "margins_": maybe(mapping(mapping(mapping(REPORTED, ("wanted", "start", "reached"))))),
    "margin_distance_": maybe(REPORTED),
    **dict.fromkeys(("objective_", "initial_imbalance_", "imbalance_"), REPORTED),
    **dict.fromkeys(("effective_sample_size_", "kish_size_"), REPORTED),
}
PROFILE = {
    "size": array("i", "K", 0),
    "weight": array("f", "K", 0),
    **dict.fromkeys(("inside", "rest", "difference"), any_values("f", "K e")),
}


def profile(value: Any, name: str, sizes: Sizes) -> None:
    mapping(lambda *given: None, PROFILE)(value, name, sizes)
    for key, rule in PROFILE.items():
        rule(value[key], f"{name}[{key!r}]", sizes)
    require(value["size"].sum() > 0, name, value, "of one row or more")


CLUSTERER = {
    "_distance": part(DISTANCE),
    "_centres": array("f", "K m", "-X", "X"),
    "cluster_centers_": array("f", "K e", "-X", "X"),
    **DECORRELATOR,
    "labels_": array("i", "n", 0, below="K"),
    "inertia_": REPORTED,
    "identified_": maybe(text("yes", "under small effects", "no")),
    "_profile": profile,
    "_variances": array("f", "m", 0, MAX),
    **dict.fromkeys(("_means", "_low", "_high"), array("f", "e", "-X", "X")),
    "_sd": array("f", "e", 0),
    "_chosen": array("i", "chosen", 0, below="K", ascending=True),
    "_not_identified?": text(),
    "restarts_?": many(list, mapping(anything, ("restart", "objective", "bic", "chosen"))),
}
RUN = Table(
    ConsensusRun,
    {
        "centres": array("f", "K m", "-X", "X"),
        "chosen": array("i", "chosen", 0, below="K", ascending=True),
        "weight_model": maybe(weight_model),
        "factor": number(0),
        "n_iter": integer(0),
        "status": text(),
        **dict.fromkeys(("balance_strength", "objective", "effective_size", "imbalance"), REPORTED),
    },
    (("a run with clusters", lambda v, s: s["chosen"] > 0),),
)
CANDIDATE = Table(
    SelectionCandidate,
    dict.fromkeys(
        ("value", "silhouette", "stability", "effective_size", "imbalance_left", "explained"),
        REPORTED,
    ),
)
CHOICE = Table(
    Choice,
    {
        "parameter": text("n_clusters", "balance_strength"),
        "chosen": REPORTED,
        "criterion": text("silhouette", "stability", "tradeoff"),
        "candidates": many(tuple, part(CANDIDATE)),
    },
    (("a choice among candidates", lambda v, s: len(v.candidates) > 0),),
)
VOTES = Table(Votes, {"shares": array("f", "K V L", 0, 1 + 1e-9)})
SHOWN_RUNS = ("balance_strength", "objective", "n_iter", "status", "effective_size", "imbalance")


CONSENSUS = {
    "n_clusters_": integer(1, size="K"),
    **CLUSTERER,
    "_sparse": flag,
    "choice_": maybe(part(CHOICE)),
    "strength_choice_": maybe(part(CHOICE)),
    "_runs": many(list, part(RUN), "R"),
    "_voters": array("i", "V", 0, below="R", ascending=True),
    "_votes": part(VOTES, V="V", L="L"),
    "_shared_row_weights": flag,
    "confidence_": array("f", "n", 0, 1),
    "stability_": REPORTED,
    "runs_": many(list, mapping(anything, SHOWN_RUNS), "R"),
    "_r2": maybe(number(-LARGEST, 1)),
}
SELECTOR = {
    **FEATURES,
    "scores_": any_values("f", "d"),
    "order_": array("i", "d", 0, below="d"),
    "ranking_": array("i", "d", 1, "d"),
    "n_features_": integer(1, "d"),
}
RANKED = (
    (
        "a selector with an order and the ranking of that order",
        lambda v, s: np.array_equal(v.ranking_[v.order_], np.arange(1, s["d"] + 1)),
    ),
)
ITERATED = {"n_iter_": integer(0), "objective_history_": any_values("f", "h")}
BASELINE = {
    "n_clusters": integer(1, size="K"),
    **FEATURES,
    "_columns": array("i", "m", 0, below="d", ascending=True),
    "_centres": array("f", "K m", "-X", "X"),
    "cluster_centers_": array("f", "K d", "-X", "X"),
    "labels_": array("i", "n", 0, below="K"),
    "inertia_": REPORTED,
    "n_iter_": integer(0),
}
KEPT = (("a model of the columns in kept_", lambda v, s: np.array_equal(v.kept_, v._columns)),)
COMPONENTS = Table(
    PCA,
    {
        **FEATURES,
        "n_components_": integer(1, size="m"),
        "components_": array("f", "m d", -2, 2),
        "mean_": array("f", "d", "-X", "X"),
        "explained_variance_": array("f", "m", 0, MAX),
        "explained_variance_ratio_": any_values("f", "m"),
        "singular_values_": any_values("f", "m"),
        "noise_variance_": REPORTED,
        "n_samples_": integer(1),
        "whiten": flag,
    },
)
WEIGHTS = Table(DecorrelationWeights, {**FEATURES, **DECORRELATOR})


def selector(value: Any, name: str, sizes: Sizes) -> None:
    """A fitted selector of this package for the same columns."""
    require(type(value) in TABLES and isinstance(value, RankingSelector), name, value,
            "a selector")  # fmt: skip
    TABLES[type(value)].check(value, name, {"d": sizes["d"]})


def decorrelation(value: Any, name: str, sizes: Sizes) -> None:
    require(type(value) is DecorrelationWeights, name, value, "DecorrelationWeights")
    require(value.n_features_in_ == sizes["d"], name, value, f"of {sizes['d']} columns")
    require(value.weights_.size == sizes["n"], name, value, f"of {sizes['n']} rows")
    check_model(value)


TABLES = {
    table.kind: table
    for table in (
        ENCODER,
        WEIGHTS,
        Table(DCKM, {"n_clusters": integer(1, size="K"), **FEATURES, **CLUSTERER}),
        Table(
            ConsensusDCKM,
            {**FEATURES, **CONSENSUS},
            (
                ("a consensus with voters", lambda v, s: s["V"] > 0),
                (
                    "a consensus of votes for the clusters of its runs",
                    lambda v, s: all(v._runs[r].chosen.max() < s["L"] for r in v._voters),
                ),
            ),
        ),
        Table(VarianceSelector, SELECTOR, RANKED),
        Table(LaplacianScore, SELECTOR, RANKED),
        Table(
            RUFS,
            {
                **SELECTOR,
                **ITERATED,
                "coef_": array("f", "d c"),
                "indicator_": array("f", "n c"),
                "centers_": array("f", "c d"),
                "objective_terms_": any_values("f", "h terms"),
            },
            RANKED,
        ),
        Table(FSASL, {**SELECTOR, **ITERATED, "mu_": REPORTED, "coef_": array("f", "d c")}, RANKED),
        Table(
            REFS,
            {
                **SELECTOR,
                "n_neighbors_": integer(1),
                "errors_": any_values("f", "d d"),
                "objective_history_": any_values("f", "h"),
            },
            RANKED,
        ),
        Table(PlainKMeans, BASELINE),
        Table(DropKMeans, {**BASELINE, "kept_": array("i", "m", 0, below="d"),
                           "n_dropped_": integer(0)}, KEPT),
        Table(SelectKMeans, {**BASELINE, "kept_": array("i", "m", 0, below="d"),
                             "selector_": selector}, KEPT),
        Table(
            RegressOutKMeans,
            {
                **BASELINE,
                "_suspects": array("i", "S", 0, below="d", ascending=True),
                "_z_mean": array("f", "S", "-X", "X"),
                "coef_": array("f", "S d", -MAX, MAX),
            },
        ),
        Table(
            PCAKMeans,
            {
                **FEATURES,
                "pca_": part(COMPONENTS),
                "n_components_": integer(1, size="m"),
                **{name: rule for name, rule in BASELINE.items() if name != "_columns"},
            },
        ),
        Table(
            DecorrelatedKMeans,
            {
                **BASELINE,
                "weights_": array("f", "n", 0),
                "decorrelation_": decorrelation,
                **dict.fromkeys(
                    ("imbalance_", "initial_imbalance_", "effective_sample_size_"), REPORTED
                ),
            },
        ),
    )
}  # fmt: skip


# ---------------------------------------------------------------------------------------- checks


def check_model(model: Any) -> None:
    """Raise ValueError or TypeError for attributes that no fit can have made."""
    table = TABLES[type(model)]
    missing = [name for name in type(model)._get_param_names() if name not in vars(model)]
    require(not missing, missing[0] if missing else "", None, "there")
    d = vars(model).get("n_features_in_")
    FEATURES["n_features_in_"](d, "n_features_in_", {})
    _check_names(model)
    sizes: Sizes = {}
    encoder = None
    if isinstance(model, BaseDecorrelator):
        require("encoder_" in vars(model), "encoder_", None, "there")
        encoder = model.encoder_
        if encoder is not None:
            require(type(encoder) is TableEncoder, "encoder_", encoder, "a TableEncoder")
            check_model(encoder)
            names = vars(model).get("feature_names_in_", np.zeros(0)).tolist()
            require(names == encoder.feature_names_in_.tolist(), "feature_names_in_", names,
                    "those of encoder_")  # fmt: skip
        sizes["e"] = int(d) if encoder is None else encoder.sources_.size
    dtype = np.dtype(np.float64 if encoder is None else encoder.dtype)
    largest = allowed_scales(dtype, int(sizes.get("e", d)))[1]
    sizes["X"] = largest
    table.check(model, "", sizes)
    if isinstance(model, ConsensusDCKM):
        model._check_own()
    names = (model.feature_names_in_.tolist(),) if isinstance(model, TableEncoder) else ()
    model._check_parameters(*names)
    _ask(model, dtype, sizes)


def _check_names(model: Any) -> None:
    names = vars(model).get("feature_names_in_")
    if names is not None:
        array("O", "d")(names, "feature_names_in_", {"d": model.n_features_in_})
        for one in names:
            text()(one, "feature_names_in_", {})


def _ask(model: Any, dtype: np.dtype, sizes: Sizes) -> None:
    """The answers of the model for its own centres, or for rows of 0, are finite."""
    if isinstance(model, TableEncoder):
        _ask_encoder(model)
        return
    width = int(sizes.get("e", sizes["d"]))
    X = np.zeros((1, width), dtype)
    if hasattr(model, "cluster_centers_"):
        X = model.cluster_centers_[:ROWS].astype(dtype)
    model = copy.copy(model)  # rows as numbers, without names
    vars(model).pop("feature_names_in_", None)
    vars(model).update({"n_features_in_": width, "verbose": 0})
    if isinstance(model, BaseDecorrelator):
        model.encoder_ = None
    answers = {}
    if isinstance(model, (BaseClusterer, BaselineKMeans)):
        answers = {"predict": (len(X),), "transform": (len(X), sizes["K"]), "score": ()}
    if isinstance(model, RankingSelector):
        answers = {"transform": (len(X), model.n_features_)}
    if isinstance(model, ConsensusDCKM):
        answers["confidence"] = (len(X),)
    if isinstance(model, BaseDecorrelator) and (model._weights_r2 or 0) >= LOWEST_R2:
        answers["predict_weights"] = (len(X),)
    for method, shape in answers.items():
        found = np.asarray(getattr(model, method)(X))
        finite = found.shape == shape and bool(np.isfinite(found).all())
        require(finite, f"{method} of its own centres", found, f"finite, of shape {shape}")


def _ask_encoder(encoder: TableEncoder) -> None:
    columns = []
    for r in encoder.recipes_:
        if r.kind == "category":
            codes = np.minimum([-1, 0, 1], len(r.own_states) - 1)
            columns.append(ColumnValues("text", None, codes, r.own_states))
        else:
            kind = "ordered" if r.kind == "ordered" else "number"
            some = np.array([np.nan, r.centre, r.centre + r.scale])
            some = np.array([np.nan, 0, 0]) if kind == "ordered" and r.words else some
            columns.append(ColumnValues(kind, some, None, r.words))
    matrix = encoder._place_all(columns).matrix
    largest = allowed_scales(matrix.dtype, matrix.shape[1])[1]
    require(bool((np.abs(matrix) <= largest).all()), "recipes_", encoder.recipes_,
            f"recipes of values <= {largest:.3g}")  # fmt: skip
