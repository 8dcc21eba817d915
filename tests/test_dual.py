"""Weights of named suspects: the dual problem, its laws, and what follows for the estimators."""

import os
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from unskew import DCKM, DecorrelationWeights, TableEncoder
from unskew._solver import dual as dual_module
from unskew.metrics import adjusted_rand_score


def biased(rng, n=300, d=6, sites=3, dtype=float):
    """Groups that are sampled at sites with different rates; sites shift the columns."""
    group = rng.integers(0, 3, n)
    site = np.where(rng.random(n) < 0.6, group % sites, rng.integers(0, sites, n))
    x = 2 * rng.normal(size=(3, d))[group] + rng.normal(size=(sites, d))[site]
    X = np.c_[x + rng.normal(size=(n, d)), np.eye(sites)[site]]
    return X.astype(dtype), group, site


def make_problem(X, suspects, a=None, **how):
    model = DCKM(3, suspects=suspects, **how)
    design = model._prepare(X, a, "non_suspects")
    return model._make_problem(design, design.distance).problem


@pytest.mark.parametrize("weighted", [False, True])
def test_the_solution_is_that_of_a_general_solver(rng, weighted):
    X, _, _ = biased(rng, n=40, d=3)
    a = rng.random(40) + 0.5 if weighted else np.ones(40)
    problem = make_problem(X, [3, 4, 5], a)
    dual, e = problem.dual, rng.random(40) * 6
    step = dual.solve(dual.start(), e, 1e-10)
    w = dual.weights(step.state, e)
    constraints = {
        "type": "eq",
        "fun": lambda w: dual.A.T @ np.bincount(dual.cell, w, len(dual.T)) - dual.target,
        "jac": lambda w: dual.A[dual.cell].T,
    }
    found = minimize(
        lambda w: problem.value_and_gradient(w, e),
        a, jac=True, method="SLSQP", bounds=[(0, None)] * 40, constraints=constraints,
        options={"maxiter": 500, "ftol": 1e-14},
    )  # fmt: skip
    assert found.success
    assert problem.value(w, e) == pytest.approx(found.fun, rel=1e-7)
    np.testing.assert_allclose(w, found.x, atol=2e-4)
    for j in (3, 4, 5):  # the shares of the sites are those of the design weights
        assert w @ X[:, j] == pytest.approx(a @ X[:, j], rel=1e-10)


def test_the_dual_value_rises_and_the_gap_bounds_the_distance_from_the_minimum(rng):
    X, _, _ = biased(rng)
    problem = make_problem(X, [6, 7, 8])
    dual, e = problem.dual, rng.random(300) * 10
    best = dual.solve(dual.start(), e, 1e-12)
    lowest = problem.value(dual.weights(best.state, e), e)
    assert (np.diff(best.values) > 0).all()
    for steps in (1, 2, 3):
        step = dual.solve(dual.start(), e, 0.0, max_steps=steps)
        J = problem.value(dual.weights(step.state, e), e)
        assert lowest <= J + 1e-12
        assert J <= lowest + step.gap + 1e-12


@pytest.mark.parametrize("kind", ["two suspects", "number", "redundant", "rare"])
def test_shapes_of_suspects(kind, rng):
    X, _, site = biased(rng)
    if kind == "two suspects":
        X = np.c_[X, rng.integers(0, 2, 300)]
        suspects = [6, 7, 8, 9]
    elif kind == "number":
        X = np.c_[X[:, :6], X[:, 0] + rng.normal(size=300)]
        suspects = [6]
    elif kind == "redundant":
        X = np.c_[X, X[:, 6:9], X[:, 6] + X[:, 7]]
        suspects = list(range(6, 13))
    else:
        X[:, 6:9] = np.eye(3)[np.where(np.arange(300) < 4, 2, site % 2)]
        suspects = [6, 7, 8]
    model = DecorrelationWeights(suspects=suspects, spread_strength=0.01).fit(X)
    assert model.status_ == "converged"
    assert model.imbalance_ < 0.3 * model.initial_imbalance_
    w = model.combined_weights_
    assert w.min() >= 0
    for j in (j for j in suspects if kind != "number"):
        if X[:, j].sum() >= 10:
            assert w @ X[:, j] == pytest.approx(X[:, j].sum(), rel=1e-9)


def test_stored_curvature_and_products_by_passes_agree(rng, monkeypatch):
    X, _, _ = biased(rng)
    one = make_problem(X, [6, 7, 8]).dual
    monkeypatch.setattr(dual_module, "LARGEST_MATRIX", 10)
    other = make_problem(X, [6, 7, 8]).dual
    e = rng.random(300) * 10
    first, second = (d.solve(d.start(), e, 1e-9) for d in (one, other))
    assert other._strides is None
    np.testing.assert_allclose(
        one.weights(first.state, e), other.weights(second.state, e), atol=1e-3
    )
    assert second.gap < 1e-8


def test_curvature_estimated_from_some_rows_gives_the_same_weights(rng, monkeypatch):
    X, _, _ = biased(rng, n=3000)
    e = rng.random(3000) * 10
    exact = make_problem(X, [6, 7, 8]).dual
    monkeypatch.setattr(dual_module, "MIN_CURVATURE_ROWS", 10)
    estimated = make_problem(X, [6, 7, 8]).dual
    assert (exact._strides == 1).all()
    assert (estimated._strides > 1).all()
    first, second = (d.solve(d.start(), e, 1e-9) for d in (exact, estimated))
    assert second.converged
    np.testing.assert_allclose(
        exact.weights(first.state, e), estimated.weights(second.state, e), atol=1e-3
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_have_the_weights_of_dense_ones(rng, dtype):
    X = np.c_[(rng.random((400, 30)) < 0.2), rng.random((400, 1)) < 0.4].astype(dtype)
    X[X[:, 30] > 0, :5] = rng.random((int(X[:, 30].sum()), 5)) < 0.5
    one, other = (
        DecorrelationWeights(suspects=[30], tol=1e-6).fit(each) for each in (X, sp.csr_array(X))
    )
    np.testing.assert_allclose(
        one.weights_, other.weights_, atol=1e-3 if dtype == np.float32 else 1e-8
    )


def test_weight_two_is_the_row_twice(rng):
    X, _, _ = biased(rng)
    a = rng.integers(0, 3, 300).astype(float)
    often = np.repeat(np.arange(300), a.astype(int))
    one = DecorrelationWeights(suspects=[6, 7, 8], tol=1e-8).fit(X, sample_weight=a)
    other = DecorrelationWeights(suspects=[6, 7, 8], tol=1e-8).fit(X[often])
    np.testing.assert_allclose(one.weights_[often], other.weights_, atol=1e-6)


def test_order_of_rows_and_columns_does_not_matter(rng):
    X, _, _ = biased(rng)
    rows, columns = rng.permutation(300), rng.permutation(9)
    one = DecorrelationWeights(suspects=[6, 7, 8], tol=1e-8).fit(X)
    where = [int(np.flatnonzero(columns == j)[0]) for j in (6, 7, 8)]
    other = DecorrelationWeights(suspects=where, tol=1e-8).fit(X[rows][:, columns])
    np.testing.assert_allclose(one.weights_[rows], other.weights_, atol=1e-7)


@pytest.mark.parametrize("adjust", ["weights", "both"])
def test_the_objective_never_rises_by_more_than_the_gap(adjust):
    for seed in range(6):
        X, _, _ = biased(np.random.default_rng(seed))
        model = DCKM(3, suspects=[6, 7, 8], adjust=adjust, n_init=1, random_state=seed, tol=1e-7)
        history = model.fit(X).history_
        assert (np.diff(history["objective"]) <= history["gap"][1:] + 1e-12).all()
        assert (history["gap"] >= 0).all()


@pytest.mark.parametrize("adjust", ["weights", "both"])
@pytest.mark.parametrize("bound", [None, 0.8])
def test_predicted_weights_are_those_of_the_fit(adjust, bound, rng):
    X, _, _ = biased(rng)
    model = DCKM(
        3, suspects=[6, 7, 8], adjust=adjust, min_effective_sample_size=bound, n_init=2,
        random_state=0,
    ).fit(X)  # fmt: skip
    np.testing.assert_allclose(model.predict_weights(X), model.weights_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.predict_weights(X[5:9]), model.weights_[5:9], atol=1e-12)
    if bound is not None:
        assert bound <= model.effective_sample_size_ <= 1.01 * bound


def test_a_value_that_the_fit_did_not_have_has_no_weight(rng):
    X, _, site = biased(rng)
    table = pd.DataFrame(X[:, :6], columns=list("abcdef")).assign(site=np.array(list("NSW"))[site])
    model = DCKM(3, suspects=["site"], n_init=1, random_state=0).fit(table)
    new = table.head(5).assign(site=["N", "X", "S", "X", "W"])
    with pytest.raises(ValueError, match="suspect 'site' has the value 'X' in 2 rows"):
        model.predict_weights(new)


def test_weights_without_suspects_that_are_no_function_of_the_row_are_refused(rng):
    X = rng.normal(size=(60, 8)) @ rng.normal(size=(8, 8))
    model = DCKM(2, n_init=1, max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    assert model._weights_r2 < 0.99
    with pytest.raises(ValueError, match=r"cannot be predicted from this fit: .* R2 = "):
        model.predict_weights(X)


def test_spread_strength_zero_is_refused_with_suspects(rng):
    with pytest.raises(ValueError, match="spread_strength=0 should be > 0 with suspects"):
        DecorrelationWeights(suspects=[3], spread_strength=0).fit(rng.normal(size=(20, 4)))


def test_a_site_whose_rows_are_all_far_away_keeps_its_share(rng):
    angle = rng.random(40) * 2 * np.pi
    ring = 10 * np.c_[np.cos(angle), np.sin(angle)]
    X = np.c_[np.r_[rng.normal(size=(360, 2)) / 2, ring], np.r_[np.zeros(360), np.ones(40)]]
    model = DCKM(1, suspects=[2]).fit(X)
    assert model.status_ == "converged"
    assert model.combined_weights_[360:].sum() == pytest.approx(40, rel=1e-9)


@pytest.mark.parametrize("rows", [1, 3, 9, 10])
def test_small_sites_keep_their_share_whatever_their_size(rows, rng):
    X = np.c_[rng.normal(size=(300, 2)), np.arange(300) < rows]
    X[:rows, :2] += 2
    model = DecorrelationWeights(suspects=[2]).fit(X)
    assert model.combined_weights_[:rows].sum() == pytest.approx(rows, rel=1e-9)
    twice = DecorrelationWeights(suspects=[2]).fit(np.repeat(X, 2, axis=0))
    np.testing.assert_allclose(model.weights_, twice.weights_[::2], atol=1e-4)


# ------------------------------------------------------------------------------------ margins
def test_restarts_screened_without_a_rare_value_reach_its_margin(few_screened, rng):
    X = np.c_[rng.normal(size=(2000, 3)), rng.random(2000) < 0.4, np.arange(2000) < 3]
    X[:, 0] += X[:, 3]
    for seed in range(3):
        model = DCKM(
            2, suspects=[3], margins={4: {1.0: 0.002, 0.0: 0.998}}, n_init=2, random_state=seed
        ).fit(X)  # fmt: skip
        assert model.margin_distance_ < 1e-9
    with pytest.raises(ValueError, match="margins have no meaning with adjust='effects'"):
        DCKM(2, suspects=[3], margins={4: {1.0: 0.002}}, adjust="effects").fit(X)


def survey(rng, n=600):
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("xyz"))
    table["site"] = rng.choice(["A", "B", "C"], n, p=[0.6, 0.3, 0.1])
    table["sex"] = rng.choice(["f", "m"], n)
    table["x"] += table["site"].map({"A": 0, "B": 1, "C": 2})
    return table


def test_margins_are_reached_exactly(rng):
    table = survey(rng)
    table.loc[rng.random(600) < 0.1, "sex"] = None
    margins = {"site": {"A": 0.4, "B": 0.4, "C": 0.2}, "sex": {"f": 0.55, "m": 0.45}}
    model = DecorrelationWeights(suspects=["site"], margins=margins, tol=1e-6).fit(table)
    assert model.margin_distance_ < 1e-9
    assert model.imbalance_ < 0.1 * model.initial_imbalance_
    known = table["sex"].notna().to_numpy()
    w = model.combined_weights_
    assert w[known].sum() / w.sum() == pytest.approx(known.mean(), rel=1e-9)
    np.testing.assert_allclose(model.predict_weights(table), model.weights_, atol=1e-12)


def test_a_known_share_of_zero_takes_all_weight_from_the_value(rng):
    table = survey(rng)
    margins = {"sex": {"f": 1.0, "m": 0.0}}
    model = DecorrelationWeights(suspects=["site"], margins=margins, tol=1e-6).fit(table)
    w, sex = model.combined_weights_, table["sex"]
    assert w[(sex == "m").to_numpy()].sum() < 1e-9 * w.sum()
    assert model.margins_["sex"]["f"]["reached"] == pytest.approx(1.0, rel=1e-9)


def test_margins_of_some_values_keep_the_proportions_of_the_others(rng):
    table = survey(rng)
    model = DecorrelationWeights(suspects=["site"], margins={"site": {"A": 0.3}}).fit(table)
    shares = {
        s: model.combined_weights_[(table["site"] == s).to_numpy()].sum() / 600 for s in "ABC"
    }
    assert shares["A"] == pytest.approx(0.3, rel=1e-9)
    counts = table["site"].value_counts()
    assert shares["B"] / shares["C"] == pytest.approx(counts["B"] / counts["C"], rel=1e-6)


def test_margins_that_no_weights_have_are_named(rng):
    table = survey(rng)
    table["sex"] = np.where(table["site"] == "A", "f", "m")  # all women are at A
    margins = {"site": {"A": 0.2, "B": 0.5, "C": 0.3}, "sex": {"f": 0.7, "m": 0.3}}
    with pytest.raises(ValueError, match="margins of 'site', 'sex' cannot be reached together"):
        DecorrelationWeights(suspects=["site"], margins=margins).fit(table)
    with pytest.raises(ValueError, match="margin_strength=10 has no meaning with suspects"):
        DecorrelationWeights(suspects=["site"], margins=margins, margin_strength=10).fit(table)


# ---------------------------------------------------------------------- screening, checkpoints
@pytest.fixture
def few_screened(monkeypatch):
    monkeypatch.setattr("unskew._clusterer.SCREENING_ROWS", 500)


def test_the_solution_of_a_subsample_is_a_start_for_all_rows(rng):
    X, _, _ = biased(rng, n=4000)
    few, every = make_problem(X[::4], [6, 7, 8]).dual, make_problem(X, [6, 7, 8]).dual
    e = rng.random(4000) * 10
    found = few.solve(few.start(), e[::4], 1e-8)
    assert found.converged
    own = few.transferred(few, found.state)
    np.testing.assert_allclose(own.Z, found.state.Z, atol=1e-12)
    np.testing.assert_allclose(own.mu, found.state.mu, atol=1e-12)
    begin = every.transferred(few, found.state)
    warm, cold = (every.solve(state, e, 1e-8) for state in (begin, every.start()))
    assert warm.values[0] > cold.values[0]
    assert len(warm.values) < len(cold.values)
    np.testing.assert_allclose(
        every.weights(warm.state, e), every.weights(cold.state, e), atol=1e-2
    )
    # A subsample that lacks a site has other cells.
    lacking = make_problem(X[X[:, 8] == 0], [6, 7, 8]).dual
    other = every.transferred(lacking, lacking.start())
    np.testing.assert_array_equal(other.mu, every.start().mu)


@pytest.mark.parametrize("adjust", ["weights", "both"])
def test_restarts_screened_on_a_subsample_end_in_the_same_clusters(adjust, few_screened, rng):
    X, _, _ = biased(rng, n=3000)
    screened = DCKM(3, suspects=[6, 7, 8], adjust=adjust, n_init=4, random_state=0).fit(X)
    whole = DCKM(3, suspects=[6, 7, 8], adjust=adjust, n_init=4, random_state=0)
    whole._screening_rows = lambda design, seeds: None
    whole.fit(X)
    assert adjusted_rand_score(screened.labels_, whole.labels_) > 0.95
    assert screened.objective_ <= whole.objective_ * (1 + 0.02)


@pytest.mark.parametrize("adjust", ["weights", "both"])
def test_a_checkpoint_has_no_vector_of_the_rows(adjust, few_screened, rng, tmp_path, monkeypatch):
    X, _, _ = biased(rng, n=4000)
    how = {"suspects": [6, 7, 8], "adjust": adjust, "n_init": 3, "random_state": 0, "tol": 1e-9}
    expected = DCKM(3, **how).fit(X)
    path = tmp_path / "state"
    sizes = []
    solve = dual_module.DualWeights.solve

    class Killed(Exception):
        pass

    def dying(self, *args, **kwargs):
        if path.exists() and len(self.a) == 4000:
            sizes.append(os.path.getsize(path))
            if len(sizes) == (3 if adjust == "weights" else 1):
                raise Killed
        return solve(self, *args, **kwargs)

    monkeypatch.setattr(dual_module.DualWeights, "solve", dying)
    with pytest.raises(Killed):
        DCKM(3, **how, checkpoint=path, checkpoint_seconds=0).fit(X)
    assert max(sizes) < 20_000  # labels or weights alone would be 16,000 or 32,000 bytes
    monkeypatch.setattr(dual_module.DualWeights, "solve", solve)
    resumed = DCKM(3, **how, checkpoint=path, checkpoint_seconds=0).fit(X)
    np.testing.assert_array_equal(resumed.labels_, expected.labels_)
    np.testing.assert_array_equal(resumed.weights_, expected.weights_)
    assert not path.exists()


def test_unscaled_tables_and_pooled_values(rng):
    table = survey(rng)
    table["site"] = [f"s{i % 40}" if i < 80 else "A" for i in range(600)]  # 40 values of two rows
    model = DecorrelationWeights(
        suspects=["site"], encoder=TableEncoder(max_categories=60, number_scale="none")
    ).fit(table)
    assert model.status_ == "converged"
    rare = (table["site"] != "A").to_numpy()
    assert model.combined_weights_[rare].sum() == pytest.approx(rare.sum(), rel=1e-9)
