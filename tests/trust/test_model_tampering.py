"""Model files with forged contents: refused by `load`, or a model whose answers are finite."""

import copy
import random
import warnings
from functools import cache

import numpy as np
import polars as pl
import pytest

import unskew
from tests.trust.tally import count
from unskew import (
    DCKM,
    ConsensusDCKM,
    DecorrelationWeights,
    SelectionMixture,
    SuspectCorrector,
    TableEncoder,
    baselines,
    feature_selection,
    model_file,
)
from unskew.model_file import ESTIMATORS, ModelFileError

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def table(n=60):
    rng = np.random.default_rng(0)
    group, site = rng.integers(0, 2, (2, n))
    x = rng.standard_normal((n, 2)) + 4 * group[:, None] + site[:, None]
    return pl.DataFrame(
        {
            "site": [["a", None, "missing"][i] for i in site + (np.arange(n) % 7 == 0)],
            "x": [None if i % 9 == 0 else value for i, value in enumerate(x[:, 0])],
            "y": x[:, 1],
            "when": np.sort(rng.standard_normal(n)),
            "flag": rng.integers(0, 2, n) > 0,
            "word": [["u", "v", None][i] for i in rng.integers(0, 3, n)],
        }
    )


def array():
    return np.column_stack([table()["y"], table()["when"], np.arange(60) % 2])


QUICK = {"covariance": "diag", "selection": "free"}
MODELS = {
    "table": lambda: SelectionMixture(2, suspects=["site", "when"], effects="shift", **QUICK),
    "array": lambda: SelectionMixture(2, suspects=[2], effects="per-group", covariance="full"),
    "scale": lambda: SelectionMixture(2, suspects=[2], effects="shift-scale", selection="common"),
    "corrector": lambda: SuspectCorrector(
        "site", 2, protect="word", kinds={"word": "category"}, effects="shift", **QUICK
    ),
}
FAST = {"n_init": 1, "random_state": 0, "tol": 1e-2}
SHARES = {"flag": {True: 0.6, False: 0.4}}
# Of arrays without missing values, then of tables.
OTHERS = {
    "weights": lambda: DecorrelationWeights(),
    "dckm": lambda: DCKM(2, **FAST),
    "dckm of a suspect": lambda: DCKM(2, suspects=[2], adjust="weights", **FAST),
    "dckm of scaled rows": lambda: DCKM(2, column_scale="sd", row_scale="unit", **FAST),
    "dckm of the paper": lambda: DCKM(2, objective="paper", solver="paper", n_init=1),
    "consensus": lambda: ConsensusDCKM("auto", balance_strength="auto", n_runs=2, random_state=0),
    "plain": lambda: baselines.PlainKMeans(2, suspects=[2], **FAST),
    "components": lambda: baselines.PCAKMeans(2, n_components=2, **FAST),
    "dropped": lambda: baselines.DropKMeans(2, **FAST),
    "regressed": lambda: baselines.RegressOutKMeans(2, suspects=[2], **FAST),
    "decorrelated": lambda: baselines.DecorrelatedKMeans(2, **FAST),
    "selected": lambda: baselines.SelectKMeans(
        feature_selection.LaplacianScore(2, n_neighbors=3), 2, **FAST
    ),
    "variance": lambda: feature_selection.VarianceSelector(2),
    "laplacian": lambda: feature_selection.LaplacianScore(2, n_neighbors=3),
    "rufs": lambda: feature_selection.RUFS(2, n_clusters=2),
    "fsasl": lambda: feature_selection.FSASL(2, n_clusters=2),
    "refs": lambda: feature_selection.REFS(2),
    "encoder of a table": lambda: TableEncoder(max_categories=2),
    "weights of a table": lambda: DecorrelationWeights(suspects="site"),
    "dckm of a table": lambda: DCKM(2, margins=SHARES, **FAST),
    "effects of a table": lambda: DCKM(2, suspects=["site"], adjust="both", **FAST),
    "bins of a table": lambda: DCKM(
        2, suspects=["when"], adjust="effects", effect_degree="bins", **FAST
    ),
    "consensus of a table": lambda: ConsensusDCKM(
        2, suspects=["site"], n_runs=2, n_init=1, random_state=0
    ),
}
# Parameters of the next fit, which checks them.
UNUSED = {"n_init", "max_iter", "tol", "verbose", "checkpoint", "checkpoint_seconds", "resume",
          "init", "max_components"}  # fmt: skip


@cache
def fitted(which):
    if which in MODELS:
        X = array() if which in ("array", "scale") else table()
        model = MODELS[which]().set_params(random_state=0, max_iter=5, tol=1e-3)
    else:
        X, model = table() if "table" in which else np.abs(array()), OTHERS[which]()
    return model.fit(X), X[:15]


def changes(value):
    """Other values of an attribute: of another type, shape or range."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield from (value[None], value[:-1], np.concatenate([value, value]), value.astype("U8"))
        yield from (value.astype("f4"), value.astype(bool), np.zeros((0,) * value.ndim), None, "x")
        for number in (-1, 10**9, 2**31 - 1, -(10**9)):
            yield np.full_like(value, number)
        for number in (np.nan, np.inf, 1e300, 5e-324) if value.dtype.kind == "f" else ():
            yield np.full_like(value, number)
    elif isinstance(value, (list, tuple)):
        kind = list if isinstance(value, list) else tuple
        yield from (kind(), kind(value[:-1]), kind(value) * 2, kind([None] * len(value)), None, "x")
        yield kind([5] * len(value))
    elif isinstance(value, dict):
        yield from ({}, None, "x", {**value, "zz": 1}, {**value, 7: 1})
        yield from ({key: other for key in value} for other in (None, 10**9, -5, "x"))
    else:
        yield from (None, True, -1, 0, 1, 3, 10**12, 0.5, -1e300, 5e-324, float("nan"), "x", "", [])
        yield np.zeros(3)


def places(value, path=()):
    """Paths to all attributes and entries."""
    if path and path[-1] not in UNUSED:
        yield path
    if isinstance(value, (list, tuple)):
        keys = range(min(len(value), 3))
    elif isinstance(value, dict):
        keys = list(value)[:3]
    else:
        known = type(value).__module__.startswith(("unskew", "sklearn"))
        keys = list(vars(value)) if known else ()
    for key in keys:
        yield from places(entry(value, key), (*path, key))


def entry(value, key):
    return value[key] if isinstance(value, (list, tuple, dict)) else vars(value)[key]


def with_change(model, path, other):
    model = copy.deepcopy(model)
    for at in range(len(path) - 1, -1, -1):
        owner = model
        for key in path[:at]:
            owner = entry(owner, key)
        if not isinstance(owner, tuple):
            (owner if isinstance(owner, (list, dict)) else vars(owner))[path[at]] = other
            return model
        parts = [*owner[: path[at]], other, *owner[path[at] + 1 :]]
        other = owner._make(parts) if hasattr(owner, "_make") else tuple(parts)
    return model


def answers_are_finite(model, X):
    if isinstance(model, SuspectCorrector):
        out = model.transform(X)
        for name in out.columns:
            if out[name].dtype == pl.Float64:
                assert np.isfinite(out[name].drop_nulls().to_numpy()).all()
        return
    if not isinstance(model, SelectionMixture):
        other_answers_are_finite(model, X)
        return
    labels, R = model.predict(X), model.predict_proba(X)
    K = R.shape[1]
    assert labels.shape == (len(X),)
    assert ((labels >= 0) & (labels < K)).all()
    assert (R >= 0).all()
    assert np.allclose(R.sum(1), 1)
    weights = model.predict_weights(X)
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert np.isfinite(model.score_samples(X)).all()
    model.transform(X)
    model.sample(3, random_state=0)


def other_answers_are_finite(model, X):
    """Or the error for rows that are too far from the centres."""
    try:
        check_other_answers(model, X)
    except ValueError as error:
        if "so that squared distances do not overflow" not in str(error):
            raise


def check_other_answers(model, X):
    n = len(X)
    if hasattr(model, "transform"):
        out = np.asarray(model.transform(X))
        assert out.shape == (n, len(model.get_feature_names_out()))
        assert np.isfinite(out).all()
    if hasattr(model, "labels_"):
        labels = model.predict(X)
        assert labels.shape == (n,)
        assert ((labels >= 0) & (labels < len(model.cluster_centers_))).all()
        assert np.isfinite(model.score(X))
    if hasattr(model, "confidence"):
        assert np.isfinite(model.confidence(X)).all()
    for name in ("cluster_summary_", "suspect_effects_", "findings_", "columns_"):
        assert getattr(model, name, None) != ""
    if isinstance(model, (DCKM, ConsensusDCKM, DecorrelationWeights)):
        assert model.combined_weights_.shape == model.weights_.shape
        try:
            weights = model.predict_weights(X)
        except ValueError as error:
            if not any(words in str(error) for words in ("cannot be predicted", "did not have")):
                raise
            return
        assert weights.shape == (n,)
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()


def tamper(which, share, restored):
    """Number of changes that were refused, and that were not; of about this share of all."""
    model, X = fitted(which)
    refused = accepted = 0
    every = [(path, i) for path in places(model) for i in range(20)]
    for path, i in random.Random(0).sample(every, max(30, round(share * len(every)))):
        value = model
        for key in path:
            value = entry(value, key)
        with np.errstate(all="ignore"):
            other = list(changes(value))
        if i >= len(other):
            continue
        count("model files tampered")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            try:
                found = restored(with_change(model, path, other[i]))
            except ModelFileError:
                refused += 1
                continue
            accepted += 1
            try:
                answers_are_finite(found, X)
            except Exception as error:
                raise AssertionError(f"{path} changed to {other[i]!r:.80}") from error
    return refused, accepted


FORGED = {
    ("_model", "shares"): np.full((2, 7), 0.5),
    ("_model", "blocks", 0, "C"): np.full((2, 2), np.nan),
    ("_columns", 0, "source"): 10**12,
    ("_columns", 0, "sd"): 0.0,
    ("_combinations", "cells"): np.full((2, 1), 10**9),
    ("_combinations", "suspects", 0, "levels"): ("a",) * 1000,
    ("n_components_",): 10**9,
    ("population_shares_",): np.array([2.0, -1.0]),
}


@pytest.mark.parametrize("path", FORGED, ids=lambda path: str(path[-1]))
def test_a_forged_file_is_refused(path, tmp_path):
    model, _ = fitted("array")
    unskew.save(with_change(model, path, FORGED[path]), tmp_path / "m.skops")
    with pytest.raises(ModelFileError, match=r"m.skops is not loaded: .* is not that of a fitted"):
        unskew.load(tmp_path / "m.skops")


PLAIN = r"m.skops is not loaded: "
# What is wrong, and what it should be.
FORGED_OTHERS = {
    ("dckm", "_centres"): (np.zeros((2, 7)), r"_centres=.* should be of shape \(K=2, m=3\)"),
    ("dckm", "_distance", "columns"): (np.array([0, 1, 9]), r"_distance.columns=.* in \[0, 2\]"),
    ("dckm of a suspect", "_weight_model", "Z"): (
        np.zeros((1, 9)), r"_weight_model.Z=.* should be of shape \(z=1, f=2\)"
    ),
    ("consensus", "_voters"): (np.array([0, 10**9]), r"_voters=.* should be in \[0, 1\]"),
    ("consensus", "_runs", 0, "chosen"): (np.array([0, -1]), r"_runs\[0\].chosen=.* in \[0, "),
    ("regressed", "coef_"): (np.full((1, 3), np.nan), r"coef_=.* should be in "),
    ("components", "pca_", "mean_"): (np.zeros(4), r"pca_.mean_=.* should be of shape \(d=3\)"),
    ("selected", "selector_", "ranking_"): (np.array([1, 1, 2]), "the ranking of that order"),
    ("variance", "n_features_"): (10**9, r"n_features_=1000000000 should be in \[1, 3\]"),
    ("encoder of a table", "recipes_", 1, "scale"): (0.0, r"recipes_\[1\].scale=0.0 should be in"),
    ("encoder of a table", "sources_"): (np.arange(6), "sources of its recipes"),
    ("weights of a table", "encoder_", "dtype"): ("O", "dtype='O' should be one of"),
    ("effects of a table", "n_clusters"): (10**9, r"_centres=.* should be of shape"),
}  # fmt: skip


@pytest.mark.parametrize("place", FORGED_OTHERS, ids=lambda place: f"{place[0]} {place[-1]}")
def test_a_forged_file_names_the_attribute_and_the_rule(place, tmp_path):
    (which, *path), (value, words) = place, FORGED_OTHERS[place]
    if isinstance(value, str):  # the dtype of a matrix
        with pytest.raises(ModelFileError, match=words):
            checked(with_change(fitted(which)[0], path, value))
        return
    unskew.save(with_change(fitted(which)[0], path, value), tmp_path / "m.skops")
    with pytest.raises(ModelFileError, match=PLAIN + ".*" + words):
        unskew.load(tmp_path / "m.skops")


def test_every_class_of_model_files_is_tampered_with():
    kinds = {type(fitted(which)[0]) for which in (*MODELS, *OTHERS)}
    assert {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds} == ESTIMATORS


def checked(model):
    model_file._check_values(model, "m.skops")
    return model


@pytest.mark.parametrize("which", [*MODELS, *OTHERS])
def test_a_forged_attribute_is_refused_or_harmless(which):
    assert tamper(which, 1 / 400, checked)[0] > 0


@pytest.mark.soak
@pytest.mark.parametrize("which", OTHERS)
def test_other_forged_attributes_are_refused_or_harmless(which):
    assert tamper(which, 1, checked)[0] > 20


@pytest.mark.soak
@pytest.mark.parametrize("which", MODELS)
def test_many_forged_attributes_are_refused_or_harmless(which):
    assert tamper(which, 1 / 7, checked)[0] > 100


@pytest.mark.parametrize("which", [*MODELS, "dckm", "consensus of a table"])
def test_a_saved_model_gives_the_same_answers(which, tmp_path):
    """Also with levels of missing values, and kinds by position: keys that are not text."""
    model, X = fitted(which)
    found = unskew.load(unskew.save(model, tmp_path / "m.skops"))
    out, expected = found.transform(X), model.transform(X)
    same = expected.equals(out) if isinstance(out, pl.DataFrame) else np.array_equal(out, expected)
    assert same


@pytest.mark.parametrize("scale", [1e-120, 1e-30, 1e30, 1e130])
@pytest.mark.parametrize("which", [name for name in OTHERS if "table" not in name])
def test_models_of_any_scale_are_those_of_a_fit(which, scale):
    for X in (np.abs(array()) * np.array([scale, scale, 1.0]), np.abs(array()) * scale):
        model = OTHERS[which]()
        try:
            model.fit(X)
        except ValueError as error:  # of selectors with products of four values
            if "should neither overflow nor underflow" not in str(error):
                raise
            continue
        checked(model)


@pytest.mark.parametrize(
    "model",
    [
        ConsensusDCKM(2, n_runs=1, random_state=0),  # no stability
        DCKM(4, objective="paper", solver="paper", n_init=1, max_iter=3),  # empty clusters
        DCKM(1, suspects=[2]),
        DCKM(2, spread_strength=0),  # no weights of new rows
        DCKM(2, suspects=[1], adjust="effects", effect_degree=5, n_init=1),
    ],
)
def test_models_at_the_edges_are_those_of_a_fit(model):
    for X in (array(), np.repeat(array()[:5], 4, axis=0), array() + 1e9, array().astype("f4")):
        checked(model.fit(X))
