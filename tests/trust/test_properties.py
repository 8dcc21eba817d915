"""Random inputs: finite results that satisfy the documented invariants, or a documented error.

Warnings of NumPy are errors in all tests.
"""

import json
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.exceptions import ConvergenceWarning

from tests.trust.tally import EXAMPLES, count
from unskew import (
    DCKM,
    ConsensusDCKM,
    DecorrelationWeights,
    SelectionMixture,
    SuspectCorrector,
    TableEncoder,
    metrics,
)
from unskew import feature_selection as fs
from unskew.diagnostics import audit

WORDS = ["a", "b", "", "missing", "other values", "None", "nan", "\x1b[31m", "é", "a=b", "0", None]
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
        "needs",
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


def suspect_of(rng, X):
    """X with a suspect as its last column: sites, constant, confounded, or numeric."""
    n = len(X)
    kind = rng.integers(5)
    values = [
        rng.integers(0, 2, n),
        np.zeros(n),
        np.arange(n),
        X[:, 0] > np.sort(X[:, 0])[n // 2],
        rng.standard_normal(n),
    ][kind]
    return np.column_stack([X, values.astype(X.dtype)])


@many
@given(seed=seeds)
def test_mixtures_give_finite_results_or_an_error(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    X = matrix(rng)
    suspects = None
    if rng.random() < 0.8:
        X = suspect_of(rng, X)
        suspects = [[-1], [-1], [0], [0, -1], list(range(X.shape[1]))][rng.integers(5)]
    n = len(X)
    if rng.random() < 0.2:
        X[rng.random(X.shape) < 0.2] = np.nan
    K = [1, 2, n, n + 1, "auto"][rng.integers(5)]
    how = {"covariance": ["auto", "diag", "full"], "selection": ["auto", "common", "free"]}
    how["effects"] = ["auto", "none", "shift", "shift-scale", "per-group"]
    chosen = {name: str(rng.choice(words)) for name, words in how.items()}
    if suspects is None:
        chosen |= {"effects": "none", "selection": "common"}
    if rng.random() < 0.2:
        chosen["kinds"] = {0: str(rng.choice(["category", "number"]))}
    a = weights(rng, n)
    model = SelectionMixture(
        K, suspects=suspects, max_iter=10, max_components=3, random_state=0, **chosen
    )
    model, error = refused(model.fit, X, sample_weight=a)
    if error is not None:
        return
    K = model.n_components_
    assert ((model.labels_ >= 0) & (model.labels_ < K)).all()
    for name in ("weights_", "means_", "shares_", "population_shares_", "tau_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert (model.weights_ >= 0).all()
    if model.covariance_ is not None:
        covariance = np.asarray(model.covariance_)
        assert np.isfinite(covariance).all()
        assert (covariance.diagonal() if covariance.ndim == 2 else covariance >= 0).all()
    for shares in (model.shares_, model.population_shares_):
        assert (shares >= 0).all()
        np.testing.assert_allclose(np.sum(shares, axis=-1), 1.0, rtol=1e-6)
    for name in ("bic_", "one_group_bic_", "marginal_log_likelihood_"):
        assert np.isfinite(getattr(model, name)), name
    assert 0 < model.effective_sample_size_ <= 1 + 1e-9
    share = np.ones(n) if a is None else a / a.max()
    assert np.average(model.weights_, weights=share) == pytest.approx(1.0, rel=1e-6)
    assert np.isfinite(model.history_["bound"]).all()
    for one in model.suspect_effects_:
        assert np.isfinite(one["effects"]).all()
        assert (np.asarray(one["se"]) >= 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        R = model.predict_proba(X)
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        assert np.isfinite(model.transform(X)[~np.isnan(X)]).all()
    assert R.shape == (n, K)
    assert np.allclose(R.sum(1), 1)
    assert (R >= 0).all()


def table(rng, n):
    """A table of columns of all kinds, with the suspect "site"."""
    columns = {"site": rng.choice(["a", "b", "missing"], n)}
    if rng.random() < 0.2:
        columns["site"] = np.full(n, "a")
    X = matrix(rng, n=n)
    columns |= {f"x{k}": column for k, column in enumerate(X.T)}
    if rng.random() < 0.5:
        columns["words"] = [WORDS[i] for i in rng.integers(0, len(WORDS), n)]
    if rng.random() < 0.3:
        columns["flag"] = [[True, False, None][i] for i in rng.integers(0, 3, n)]
    if rng.random() < 0.3:
        columns["code"] = rng.integers(0, 2**62, n) // rng.choice([1, 2**60])
    if rng.random() < 0.2:
        columns["copy"] = columns["site"]
    return pl.DataFrame(columns, strict=False)


@settings(many, max_examples=max(4, EXAMPLES // 2))
@given(seed=seeds)
def test_corrected_tables_are_finite_or_refused(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 3, 8, 20]))
    rows = table(rng, n)
    how = {"suspects": ["site"], "n_components": [1, 2, "auto"][rng.integers(3)]}
    how["effects"] = str(rng.choice(["shift", "shift-scale", "per-group"]))
    if rng.random() < 0.3:
        how["protect"] = str(rng.choice(rows.columns))
    if rng.random() < 0.2:
        how["reference"] = {"site": "a"}
    model = SuspectCorrector(**how, max_components=3, max_iter=10, random_state=0)
    model, error = refused(model.fit, rows, sample_weight=weights(rng, n))
    if error is not None:
        return
    found, error = refused(model.transform, rows)
    assert error is None, error
    kept = [rows.columns[i] for i in model._kept()]
    assert list(found.columns) == kept
    assert len(found) == n
    corrected = {rows.columns[i] for i in model._corrected()}
    for name in kept:
        if name in corrected:
            values = found[name].drop_nulls().to_numpy().astype(np.float64)
            assert np.isfinite(values).all()
        else:
            assert found[name].equals(rows[name])
    assert np.isfinite(model.sample_weight_).all()
    assert (model.sample_weight_ >= 0).all()
    if model.effects == "shift" and not model.drop_suspects:
        back, error = refused(model.inverse_transform, found)
        assert error is None, error
        for name in corrected:
            x, y = (f[name].to_numpy().astype(np.float64) for f in (rows, back))
            assert np.allclose(x, y, rtol=1e-6, atol=1e-6 * np.abs(x).max(), equal_nan=True)


@settings(many, max_examples=max(4, EXAMPLES // 2))
@given(seed=seeds)
def test_audits_are_finite_or_refused(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 5, 30]))
    rows = table(rng, n)
    suspects = [None, ["site"]][rng.integers(2)]
    a = weights(rng, n)
    found, error = refused(audit, rows, suspects=suspects, sample_weight=a, random_state=0)
    if error is None:
        for pair in found.pairs:
            assert 0 <= pair.association <= 1 + 1e-9
        for one in found.candidates or ():
            assert 0 <= one.p_effect <= 1
            assert 0 <= one.p_dependence <= 1
        assert str(found)


@settings(many, max_examples=max(4, EXAMPLES // 2))
@given(seed=seeds)
def test_metrics_of_mixing_have_their_range(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    n = int(rng.choice([3, 10, 40]))
    X = matrix(rng, n=n)
    batch = rng.integers(0, rng.integers(1, 4), n)
    a = weights(rng, n)
    ranges = {
        metrics.lisi_samples: (1, 3, {"perplexity": 2}),
        metrics.lisi_score: (0, 1, {"perplexity": 2}),
        metrics.kbet_score: (0, 1, {"n_neighbors": 4}),
        metrics.batch_silhouette_score: (0, 1, {}),
        metrics.principal_component_regression_score: (0, 1, {}),
    }
    for metric, (low, high, how) in ranges.items():
        value, error = refused(metric, X, batch, sample_weight=a, **how)
        if error is None:
            value = np.asarray(value)
            known = value[~np.isnan(value)] if metric is metrics.lisi_samples else value
            assert np.all((known >= low - 1e-9) & (known <= high + 1e-9)), (metric, value)


@settings(many, max_examples=max(4, EXAMPLES // 8))
@given(seed=seeds)
@example(seed=10546)  # a row of weight 0 whose squared distance is 1e244
def test_consensus_gives_finite_results_or_an_error(seed):
    count("examples")
    rng = np.random.default_rng(seed)
    X = matrix(rng, n=20)
    model = ConsensusDCKM(2, n_runs=2, random_state=0, n_jobs=1, max_iter=3)
    found, error = refused(model.fit, X, sample_weight=weights(rng, 20))
    if error is None:
        assert ((found.confidence_ >= 0) & (found.confidence_ <= 1)).all()
        assert np.isfinite(found.weights_).all()


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
            # "" and "nan" are marks of missing values.
            different = {None if word in ("", "nan") else word for word in table[recipe.name]}
            assert len(np.unique(own, axis=0)) == len(different)


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
