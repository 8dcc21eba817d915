"""Model files with forged contents: refused by `load`, or a model whose answers are finite."""

import copy
import warnings
from functools import cache

import numpy as np
import polars as pl
import pytest

import unskew
from tests.trust.tally import count
from unskew import SelectionMixture, SuspectCorrector, model_file
from unskew.model_file import ModelFileError

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
# Parameters of the next fit, which checks them.
UNUSED = {"n_init", "max_iter", "tol", "verbose", "checkpoint", "checkpoint_seconds", "resume",
          "init", "max_components"}  # fmt: skip


@cache
def fitted(which):
    X = array() if which in ("array", "scale") else table()
    model = MODELS[which]().set_params(random_state=0, max_iter=5, tol=1e-3)
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
        known = type(value).__module__.startswith("unskew")
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


def tamper(which, step, restored):
    """Number of changes that were refused, and that were not."""
    model, X = fitted(which)
    refused = accepted = 0
    every = [(path, i) for path in places(model) for i in range(20)]
    for path, i in every[::step]:
        value = model
        for key in path:
            value = entry(value, key)
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


def checked(model):
    model_file._check_values(model, "m.skops")
    return model


@pytest.mark.parametrize("which", MODELS)
def test_a_forged_attribute_is_refused_or_harmless(which):
    assert tamper(which, 397, checked)[0] > 2


@pytest.mark.soak
@pytest.mark.parametrize("which", MODELS)
def test_many_forged_attributes_are_refused_or_harmless(which):
    assert tamper(which, 7, checked)[0] > 100


@pytest.mark.parametrize("which", MODELS)
def test_a_saved_model_gives_the_same_answers(which, tmp_path):
    """Also with levels of missing values, and kinds by position: keys that are not text."""
    model, X = fitted(which)
    found = unskew.load(unskew.save(model, tmp_path / "m.skops"))
    out, expected = found.transform(X), model.transform(X)
    same = expected.equals(out) if isinstance(out, pl.DataFrame) else np.array_equal(out, expected)
    assert same
