"""Random inputs: finite results that satisfy the documented invariants, or a documented error.

Warnings of NumPy are errors in all tests.
"""

import json
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.exceptions import ConvergenceWarning

from tests.trust.tally import EXAMPLES, count
from unskew import (
    DCKM,
    ConsensusDCKM,
    DecorrelationWeights,
    SuspectCorrector,
    TableEncoder,
    metrics,
)
from unskew import feature_selection as fs

many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
seeds = st.integers(0, 2**32 - 1)
SCALES = [1.0, 1.0, 1.0, 1e-300, 1e-160, 1e-30, 1e-8, 1e8, 1e30, 1e150, 1e300, 5e-324]


def matrix(rng, n=None, d=None):
    """Rows of any kind: normal, ties, two values, constants, copies, all scales."""
    n, d = n or rng.choice([2, 3, 4, 7, 20]), d or rng.choice([1, 2, 3, 6])
    X = rng.standard_normal((n, d))
    for k in range(d):
        kind = rng.choice(["normal", "ties", "two", "constant", "offset", "copy"])
        if kind == "ties":
            X[:, k] = rng.integers(0, 3, n)
        elif kind == "two":
            X[:, k] = rng.integers(0, 2, n)
        elif kind == "constant":
            X[:, k] = rng.choice([0.0, 3.0, 1e-300, 1e100])
        elif kind == "offset":
            X[:, k] += rng.choice([1e3, 1e6, -1e9])
        elif kind == "copy":
            X[:, k] = X[:, 0]
    X = X[rng.integers(0, n, n)] if rng.random() < 0.3 else X
    with np.errstate(all="ignore"):
        X = X * rng.choice(SCALES)
        return X.astype(rng.choice([np.float64, np.float64, np.float32]), copy=False)


def weights(rng, n):
    """None, or weights of any scale, some of them 0."""
    if rng.random() < 0.5:
        return None
    a = rng.choice([1.0, 2.0, rng.random()], n) * (rng.random(n) < 0.8)
    with np.errstate(all="ignore"):
        return a * rng.choice(SCALES)


def refused(call, *args, **kwargs):
    """(result, None) or (None, error); an error should be one of ours, with value and rule."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return call(*args, **kwargs), None
        except (ValueError, TypeError) as error:
            found = error
    words = (
        "should",
        "is defined for",
        "names all",
        "names no",
        "contains",
        "infinity",
        "varies",
        "escale",
        "too large",
    )
    assert any(word in str(found) for word in words), found
    return None, found


@many
@given(seed=seeds)
def test_estimators_give_finite_results_or_an_error(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    X = matrix(rng)
    n, d = X.shape
    K = int(rng.choice([1, 2, n, n + 1]))
    suspects = [None, [0], list(range(d)), [d - 1]][rng.integers(4)]
    how = {"random_state": 0, "n_init": 1, "max_iter": 5, "suspects": suspects}
    if suspects is not None and rng.random() < 0.5:
        how["adjust"] = str(rng.choice(["effects", "both"]))
    elif rng.random() < 0.3:
        how |= {"objective": "paper", "solver": str(rng.choice(["paper", "descent"]))}
    a = weights(rng, n)
    model, error = refused(DCKM(K, **how).fit, X, sample_weight=a)
    if error is not None:
        return
    assert ((model.labels_ >= 0) & (model.labels_ < K)).all()
    assert np.isfinite(model.weights_).all()
    assert (model.weights_ >= 0).all()
    assert np.isfinite(model.cluster_centers_).all()
    assert np.isfinite(model.objective_)
    assert 0 < model.effective_sample_size_ <= 1 + 1e-9 or how.get("objective") == "paper"
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    if model.objective == "normalized":
        share = np.ones(n) if a is None else a / a.max()
        assert np.average(model.weights_, weights=share) == pytest.approx(1.0, rel=1e-6)


@many
@given(seed=seeds)
def test_weights_alone_balance_or_are_refused(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    X = matrix(rng)
    suspects = [None, [0]][rng.integers(2)]
    a = weights(rng, len(X))
    model, error = refused(
        DecorrelationWeights(suspects=suspects, max_iter=20).fit, X, sample_weight=a
    )
    if error is None:
        assert np.isfinite(model.weights_).all()
        assert (model.weights_ >= 0).all()
        assert np.isfinite(model.imbalance_)


@settings(many, max_examples=max(4, EXAMPLES // 8))
@given(seed=seeds)
def test_consensus_and_corrector_give_finite_results_or_an_error(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    X = matrix(rng, n=20)
    model = ConsensusDCKM(2, n_runs=2, random_state=0, n_jobs=1, max_iter=3)
    found, error = refused(model.fit, X, sample_weight=weights(rng, 20))
    if error is None:
        assert ((found.confidence_ >= 0) & (found.confidence_ <= 1)).all()
        assert np.isfinite(found.weights_).all()
    frame = pl.DataFrame({"site": rng.choice(["a", "b"], 20), **dict(zip("xy", X[:, :2].T))})
    found, error = refused(SuspectCorrector(suspects=["site"]).fit_transform, frame)
    if error is None:
        values = found.select(pl.col(pl.Float32, pl.Float64)).to_numpy()
        assert np.isfinite(values.astype(np.float64)).all()


WORDS = ["a", "b", "", "missing", "other values", "None", "nan", "\x1b[31m", "é", "a=b", "0", None]


@many
@given(seed=seeds)
def test_tables_are_encoded_as_a_finite_matrix(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 5, 30]))
    columns = {}
    for k in range(rng.integers(1, 5)):
        kind = rng.integers(6)
        if kind == 0:
            values = [WORDS[i] for i in rng.integers(0, len(WORDS), n)]
        elif kind == 1:
            values = [[True, False, None][i] for i in rng.integers(0, 3, n)]
        elif kind == 2:
            values = rng.integers(-(2**62), 2**62, n) // rng.choice([1, 2**60])
        elif kind == 3:
            values = matrix(rng, n=n, d=1)[:, 0]
        elif kind == 4:
            values = [None] * n
        else:
            values = rng.choice([1.5, -2.0, 7.0], n)
        columns[WORDS[k] or "empty"] = values
    table = pl.DataFrame(columns, strict=False)
    a = weights(rng, n)
    encoder, error = refused(TableEncoder().fit, table, sample_weight=a)
    if error is not None:
        return
    encoded, error = refused(encoder.transform, table)
    assert error is None
    assert encoded.shape == (n, len(encoder.get_feature_names_out()))
    assert np.isfinite(encoded).all()
    for source, recipe in enumerate(encoder.recipes_):
        if recipe.kind == "category" and not recipe.n_pooled and a is None:
            own = encoded[:, encoder.sources_ == source]
            assert len(np.unique(own, axis=0)) == table[recipe.name].n_unique()


@many
@given(seed=seeds)
def test_metrics_satisfy_their_invariants(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 15))
    true, found = rng.integers(0, rng.integers(1, 5), (2, n))
    twice = rng.integers(0, 3, n)
    a, order = weights(rng, n), rng.permutation(n)
    pairs = [
        (metrics.adjusted_rand_score, sk.adjusted_rand_score),
        (metrics.normalized_mutual_info_score, sk.normalized_mutual_info_score),
        (metrics.purity, None),
        (metrics.matching_accuracy, None),
    ]
    for ours, theirs in pairs:
        if theirs is not None:
            assert ours(true, found) == pytest.approx(theirs(true, found), abs=1e-12)
        if twice.any():
            repeated = ours(np.repeat(true, twice), np.repeat(found, twice))
            assert ours(true, found, sample_weight=twice) == pytest.approx(repeated, abs=1e-12)
        # Fractional frequency weights have no upper bound.
        kind = {"weight_kind": "importance"} if ours is metrics.adjusted_rand_score else {}
        value, error = refused(ours, true, found, sample_weight=a, **kind)
        if error is None:
            assert np.isfinite(value)
            assert value <= 1 + 1e-12
            own = None if a is None else a[order]
            again = ours(true[order], found[order], sample_weight=own, **kind)
            assert again == pytest.approx(value, abs=1e-9)
    if a is not None and a.any():
        assert 1 - 1e-9 <= metrics.kish_size(a) <= n + 1e-9
        assert 0 < metrics.effective_sample_size(a) <= 1 + 1e-9
        assert metrics.design_effect(a) >= 1 - 1e-9
    X = matrix(rng, n=n)
    value, error = refused(metrics.silhouette_score, X, found, sample_weight=a)
    assert error is not None or -1 - 1e-9 <= value <= 1 + 1e-9
    value, error = refused(metrics.amount_of_correlation, X, a)
    assert error is not None or (np.isfinite(value) and value >= 0)


@settings(many, max_examples=max(4, EXAMPLES // 4))
@given(seed=seeds)
def test_selectors_rank_the_columns_or_refuse(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    X = matrix(rng, n=20, d=int(rng.choice([2, 4])))
    if not 1e-30 < np.abs(X).max() < 1e30:
        X = rng.standard_normal(X.shape)
    for kind in SELECTORS:
        model, error = refused(kind().fit, X)
        if error is None:
            assert model.get_support().any()


SELECTORS = [getattr(fs, name) for name in fs.__all__ if isinstance(getattr(fs, name), type)]

CELLS = ["1", "2.5", "-3", "x", "", "NA", "1e400", "inf", "2024-13-01", "007", '"', "é", "\x1b[2J"]


@settings(many, max_examples=max(6, EXAMPLES // 2))
@given(seed=seeds)
def test_command_lines_end_with_an_exit_code_and_one_line(seed, unskew, tmp_path, monkeypatch):
    count("examples")
    rng = np.random.default_rng(seed)
    monkeypatch.chdir(tmp_path)
    d, n = int(rng.integers(1, 4)), int(rng.integers(1, 12))
    names = [str(c) for c in rng.choice(["a", "b", "c", "a", "", "x y", "missing"], d)]
    lines = [",".join(names)]
    odd = rng.random() < 0.5
    for _ in range(n):
        cells = [rng.choice(CELLS) if odd else f"{rng.standard_normal():.3f}" for _ in range(d)]
        lines.append(",".join(cells))
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    choices = [["-k", "2"], ["-k", "0"], ["-s", "a"], ["--drop", "b"], ["--bins", "99999999999"],
               ["--category", "a"], ["-w", "a"], ["--id", "c"], ["--tol", "nan"], ["--json"],
               ["--encoding", "utf-16"], ["--max-categories", "1"], ["--separator", ";"],
               ["--no-header"], ["--number-scale", "none"], ["--labels", "o.csv"], ["--strict"],
               ["--balance-strength", "1e308"], ["--min-effective-sample-size", "1e-320"],
               ["--threads", "1"], ["--margin", "a:1=0.5"]]  # fmt: skip
    chosen = [choices[i] for i in rng.choice(len(choices), rng.integers(0, 4), replace=False)]
    verb = str(rng.choice(["fit", "weigh", "columns", "audit"]))
    code, out, err = unskew(verb, "t.csv", *(word for option in chosen for word in option))
    assert code in (0, 1, 2)
    assert "internal error" not in err
    assert "\x1b" not in out + err
    if code == 2:
        assert err.strip().splitlines()[-1].startswith(f"unskew {verb}: ")
    elif ["--json"] in chosen and code == 0:
        json.loads(out)
