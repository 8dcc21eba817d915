"""Several and numeric suspects of SelectionMixture, and effects per group and on the spread."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit, log_softmax, logsumexp, softmax
from scipy.stats import multivariate_normal, norm
from sklearn.metrics import adjusted_rand_score

from unskew import SelectionMixture
from unskew._mixture import blocks
from unskew._mixture.cells import (
    Prior,
    effects_of,
    expected_squares,
    log_volume,
    solve_cells,
    total_expected_squares,
)
from unskew._mixture.design import LOGIT_SD, Design, fit_logit
from unskew._mixture.em import Choice, Mixture, e_step, log_joint, run_em
from unskew._mixture.rows import Columns, Rows, Stats
from unskew.mixture._search import judged
from unskew.mixture._suspects import natural_spline

pytestmark = pytest.mark.filterwarnings("ignore")


def make_table(seed=0, n=600, shift=1.5, d=4):
    """Three groups; site and scanner (categorical) and age (numeric) shift the columns."""
    rng = np.random.default_rng(seed)
    y, site = rng.integers(3, size=n), rng.integers(3, size=n)
    site = np.where(rng.random(n) < 0.5, y, site)
    scanner, age = rng.integers(2, size=n), 50 + 12 * rng.normal(size=n)
    C, B = rng.normal(size=(3, d)) * 3, rng.normal(size=(3, d)) * shift
    E, slope = rng.normal(size=(2, d)) * shift, shift * rng.normal(size=d)
    X = C[y] + B[site] + E[scanner] + np.outer((age - 50) / 12, slope) + rng.normal(size=(n, d))
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])
    table["site"] = np.array(list("ABC"))[site]
    table["scanner"] = np.array(["old", "new"])[scanner]
    table["age"] = age
    return table, y, {"site": B, "scanner": E, "age": slope}


# --- the kernels against slow computations


def dense_problem(rng, K=3, L=5, p=4, J=2):
    W, Y = rng.random((K, L, J)) * 10, rng.normal(size=(K, L, J))
    Z, prior = rng.normal(size=(L, p)), Prior(rng.random((p, J)) + 0.2, rng.random(J) + 0.1)
    return W, Y, Z, prior


@pytest.mark.parametrize("identity", [True, False])
def test_means_and_effects_minimise_their_sum_of_squares(rng, identity):
    W, Y, Z, prior = dense_problem(rng, p=5)
    Z = None if identity else Z
    C, beta, B, D = solve_cells(W, W * Y, prior, Z)
    for found, same in zip(effects_of(C, W, W * Y, prior, Z), (C, beta, B, D)):
        np.testing.assert_allclose(found, same, rtol=1e-9)  # also the minimum for this C
    for j in range(2):

        def loss(v, j=j):
            c, b, dev = v[:3], v[3:8], v[8:].reshape(3, 5)
            effect = b if identity else Z @ b
            rest = Y[..., j] - c[:, None] - effect[None] - dev
            penalty = (b**2 / prior.beta[:, j]).sum() + (dev**2).sum() / prior.group[j]
            return (W[..., j] * rest**2).sum() + penalty

        at = np.concatenate([C[:, j], beta[:, j], D[..., j].ravel()])
        assert np.abs(approx_fprime(at, loss, 1e-7)).max() < 1e-4
    np.testing.assert_allclose(B, beta if identity else Z @ beta)


def test_volume_and_expected_squares_are_those_of_the_joint_posterior(rng):
    """Joint precision of (beta, D) given C, built entry by entry."""
    W, _, Z, prior = dense_problem(rng)
    K, L, J = W.shape
    p, volume = Z.shape[1], 0.0
    squares = expected_squares(W, prior, Z)
    np.testing.assert_allclose(total_expected_squares(W, prior, Z), squares.sum(0))
    plain = Prior(prior.beta)
    np.testing.assert_allclose(
        total_expected_squares(W, plain, Z), expected_squares(W, plain, Z).sum(0)
    )
    for j in range(J):
        M = np.zeros((K * L, p + K * L))  # mean of cell (k, l) as a function of (beta, D)
        for k in range(K):
            for at in range(L):
                M[k * L + at, :p] = Z[at]
                M[k * L + at, p + k * L + at] = 1.0
        w = W[..., j].ravel()
        v = np.concatenate([prior.beta[:, j], np.full(K * L, prior.group[j])])
        precision = (M.T * w) @ M + np.diag(1 / v)
        volume += np.linalg.slogdet(precision)[1] + np.log(v).sum()
        spread = np.diag(M @ np.linalg.inv(precision) @ M.T)
        np.testing.assert_allclose((w * spread).reshape(K, L).sum(0), squares[:, j])
    assert log_volume(W, prior, Z).sum() == pytest.approx(volume)


def test_logit_of_the_shares_is_at_its_maximum(rng):
    N, Z = rng.random((12, 3)) * 20, rng.normal(size=(12, 2))
    gamma = np.zeros((3, 3))
    for _ in range(10):
        P, gamma = fit_logit(N, Design(Z, np.zeros(2, int), np.zeros((12, 1))), gamma)

    def value(g):
        g = g.reshape(3, 3)
        eta = log_softmax(np.column_stack([np.ones(12), Z]) @ g, axis=1)
        return (N * eta).sum() - 0.5 * (g[1:] ** 2).sum() / LOGIT_SD**2

    # Rounding error of a value of about 300, divided by the step.
    assert np.abs(approx_fprime(gamma.ravel(), value, 1e-6)).max() < 1e-3
    np.testing.assert_allclose(P.sum(1), 1)


def small_rows(rng, n=150, flags=1, categories=(3,), design=True):
    y, one, two = rng.integers(2, size=n), rng.integers(3, size=n), rng.integers(2, size=n)
    X = 2.0 * y[:, None] + one[:, None] * [0.5, -1.0] + two[:, None] + rng.normal(size=(n, 2))
    flag = (rng.random((n, flags)) < expit(y[:, None] - 0.7 * two[:, None])).astype(float)
    codes = [((y + one + rng.integers(2, size=n)) % M, M) for M in categories]
    level = one * 2 + two
    Z = np.zeros((6, 5))
    Z[np.arange(6), np.arange(6) // 2] = Z[np.arange(6), 3 + np.arange(6) % 2] = 1.0
    which = np.column_stack([np.arange(6) // 2, np.arange(6) % 2])
    made = Design(Z, np.array([0, 0, 0, 1, 1]), which) if design else None
    rows = Rows(Columns(X, np.full(2, 1e-6), flag, codes), level, 6, np.ones(n), 50, made)
    R = np.full((n, 2), 0.1)
    R[np.arange(n), y] = 0.9
    return rows, Stats.of_responsibilities(rows, R[rows.order]), X, flag, codes, level


def slow_log_likelihood(model, X, flag, codes, level):
    """Row by row and group by group, from the definition of the model."""
    gauss = model.blocks[0]
    out = np.zeros((len(X), model.K))
    for i, at in enumerate(level):
        for k in range(model.K):
            eta = []
            for block in model.blocks:
                effect = block.C[k] + block.B[at]
                eta.append(effect if block.D is None else effect + block.D[k, at])
            out[i, k] = np.log(model.shares[at, k])
            if gauss.full:
                out[i, k] += multivariate_normal.logpdf(X[i], eta[0], gauss.Sigma)
            else:
                sd = np.sqrt(gauss.variance * np.exp(gauss.log_e[at]))
                out[i, k] += norm.logpdf(X[i], eta[0], sd).sum()
            p = expit(eta[1])
            out[i, k] += np.log(np.where(flag[i] == 1, p, 1 - p)).sum()
            out[i, k] += log_softmax(eta[2])[codes[0][0][i]]
    return out


@pytest.mark.parametrize("design", [True, False])
@pytest.mark.parametrize(
    ("covariance", "effects"),
    [("diag", "shift"), ("full", "shift"), ("diag", "shift-scale"), ("diag", "per-group"),
     ("full", "per-group")],
)  # fmt: skip
def test_likelihood_agrees_with_a_slow_loop(rng, covariance, effects, design):
    rows, stats, X, flag, codes, level = small_rows(rng, design=design)
    model = Mixture(rows, 2, Choice(covariance, effects, "free"))
    run_em(rows, model, stats, max_iter=8, tol=0)
    assert np.abs(model.blocks[0].B).max() > 0
    slow = slow_log_likelihood(model, X, flag, codes, level)[rows.order]
    fast = log_joint(rows, model)
    constants = sum(block.row_constants(rows) for block in model.blocks)
    np.testing.assert_allclose(fast + constants[:, None], slow, rtol=1e-8, atol=1e-8)
    total = e_step(rows, model)[0] + sum(block.row_constant(rows) for block in model.blocks)
    assert total == pytest.approx(logsumexp(slow, axis=1).sum())


@pytest.mark.parametrize("design", [True, False])
@pytest.mark.parametrize("effects", ["shift", "shift-scale", "per-group"])
def test_numerical_gradients_vanish_at_the_solution(rng, effects, design):
    """The derivative of log p(x | C, B, D, e) p(B) p(D) p(e) at fixed scales of the effects."""
    rows, stats, *_ = small_rows(rng, design=design)
    model = Mixture(rows, 2, Choice("diag", effects, "free"))
    for block in model.blocks:
        block.tau2, block.delta2 = block.tau2 * 0.4, block.delta2 * 2
    model.blocks[0].omega2 = np.full(2, 0.3 if effects == "shift-scale" else 0.0)
    run_em(rows, model, stats, max_iter=3000, tol=1e-13, learn_tau=False)
    Z = rows.design.Z

    def value():
        out, stats = e_step(rows, model)
        for block in model.blocks:
            out += block.row_constant(rows) + block.penalty(stats)[1]
            out += block._log_prior(rows.design)
        if effects == "shift-scale":
            out -= 0.5 * (model.blocks[0].log_e ** 2 / 0.3).sum()
        return out

    step = 1e-4
    for block in model.blocks:
        arrays = [block.C, block.beta]
        arrays += [block.D] if block.D is not None else []
        for array in arrays:
            for at in list(np.ndindex(array.shape))[::3]:
                kept, ends = array[at], []
                for side in (step, -step):
                    array[at] = kept + side
                    block.B = block.beta if Z is None else Z @ block.beta
                    ends.append(value())
                array[at] = kept
                block.B = block.beta if Z is None else Z @ block.beta
                # Curvatures are about n = 150 per unit.
                assert abs(ends[0] - ends[1]) / (2 * step) < 2e-2


def test_with_one_group_the_marginal_likelihood_of_two_suspects_is_exact(rng):
    """All rows are jointly Gaussian with covariance s^2 I + Z T Z'."""
    rows, _, X, _, _, level = small_rows(rng, n=40, flags=0, categories=())
    model = Mixture(rows, 1, Choice("diag", "shift", "free"))
    block = model.blocks[0]
    block.tau2 = np.array([[0.3, 0.8], [0.5, 0.2]])
    stats = Stats.of_responsibilities(rows, np.ones((40, 1)))
    for _ in range(400):
        model.m_step(stats, learn_tau=False)
    log_sum, stats = e_step(rows, model)
    Z, expected = rows.design.Z[level], 0.0
    for j in range(2):
        prior = np.diag(block.tau2[rows.design.suspect, j])
        whole = block.variance[j] * np.eye(40) + Z @ prior @ Z.T
        expected += multivariate_normal.logpdf(X[:, j], np.full(40, block.C[0, j]), whole)
    assert model.value(rows, log_sum, stats)[0] == pytest.approx(expected, rel=1e-6)


# --- numeric suspects


def test_natural_splines_are_linear_outside_their_knots():
    x = np.linspace(-5, 5, 201)
    f = natural_spline(x, np.array([-2.0, -1.0, 1.0, 2.0]))
    second = np.diff(f, n=2, axis=0)
    outside = (x[1:-1] < -2.1) | (x[1:-1] > 2.1)
    assert np.abs(second[outside]).max() < 1e-10
    assert np.abs(second[~outside, 1:]).max() > 1e-5
    # Continuous second derivatives.
    assert np.abs(np.diff(second, axis=0)).max() < 1e-3


def test_several_suspects_are_recovered():
    table, y, truth = make_table()
    model = SelectionMixture(
        3, suspects=["site", "scanner", "age"], covariance="diag", random_state=0
    ).fit(table)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert model.choice_["effects"] == "shift"
    assert model.levels_[:5] == ["site=A", "site=B", "site=C", "scanner=new", "scanner=old"]
    assert [one.startswith("age=") for one in model.levels_[5:]] == [True] * 5
    assert model.shares_.shape == model.positivity_.shape == (10, 3)
    np.testing.assert_allclose(model.shares_.sum(1), 1)
    found = {(e["suspect"], e["level"]): e["effects"] for e in model.suspect_effects_}
    for name, levels in (("site", "ABC"), ("scanner", ("old", "new"))):
        effects = np.array([found[name, level] for level in levels])
        expected = truth[name] - truth[name].mean(0)
        np.testing.assert_allclose(effects - effects.mean(0), expected, atol=0.4)
    ages = np.array([e["effects"] for e in model.suspect_effects_ if e["suspect"] == "age"])
    middle = [table["age"][list(part)].mean() for part in np.array_split(np.argsort(table.age), 5)]
    expected = np.outer((np.array(middle) - 50) / 12, truth["age"])
    np.testing.assert_allclose(ages - ages.mean(0), expected - expected.mean(0), atol=0.5)
    np.testing.assert_array_equal(model.predict(table), model.labels_)
    assert model.bic(table) == pytest.approx(model.bic_, rel=1e-9)
    corrected = model.transform(table)
    columns = [f"x{j}" for j in range(4)]
    slopes = np.polyfit(table["age"] - 50, corrected[columns] - table[columns], 1)[0] * 12
    np.testing.assert_allclose(slopes, -truth["age"], atol=0.3)
    drawn, labels = model.sample(200, random_state=0)
    assert list(drawn.columns) == list(table.columns)
    assert drawn["age"].between(table["age"].min(), table["age"].max()).all()
    assert (model.predict(drawn) == labels).mean() > 0.9


def test_arrays_tables_masks_and_indicators_name_the_same_suspects():
    table, y, _ = make_table(n=300)
    names = ["site", "scanner"]
    table = table.drop(columns="age")
    how = {"init": y, "covariance": "diag", "effects": "shift", "selection": "free"}
    one = SelectionMixture(3, suspects=names, **how).fit(table)
    codes = table.assign(
        site=table["site"].map({"A": 0, "B": 1, "C": 2}),
        scanner=table["scanner"].map({"new": 0, "old": 1}),
    ).to_numpy(dtype=float)
    mask = np.array([False] * 4 + [True] * 2)
    dummies = np.hstack([codes[:, :4], np.eye(3)[codes[:, 4].astype(int)],
                         np.eye(2)[codes[:, 5].astype(int)]])  # fmt: skip
    others = [
        SelectionMixture(3, suspects=names, **how).fit(pl.from_pandas(table)),
        SelectionMixture(3, suspects=[4, 5], **how).fit(codes),
        SelectionMixture(3, suspects=mask, **how).fit(codes),
        SelectionMixture(3, suspects=[4, 5, 6, 7, 8], **how).fit(dummies),
    ]
    for other in others:
        assert other.bic_ == pytest.approx(one.bic_, rel=1e-12)
        np.testing.assert_allclose(other.shares_, one.shares_, rtol=1e-9)
    assert len(one.levels_) == 5
    np.testing.assert_allclose(one._model.shares.sum(1), 1)


def test_a_numeric_suspect_alone():
    table, _, _ = make_table(seed=1)
    table = table.drop(columns=["site", "scanner"])
    model = SelectionMixture(3, suspects="age", random_state=0).fit(table)
    assert len(model.levels_) == 5
    new = table.assign(age=[-1e9] * 300 + [1e9] * 300)  # as the nearest value of the fit
    assert np.isfinite(model.score_samples(new)).all()
    low, high = table["age"].min(), table["age"].max()
    ends = table.assign(age=[low] * 300 + [high] * 300)
    np.testing.assert_allclose(model.transform(new)["x0"], model.transform(ends)["x0"], atol=0.2)


def test_missing_values_of_suspects_are_a_level():
    table, y, _ = make_table(n=300)
    table.loc[::7, "site"] = None
    table.loc[::9, "age"] = np.nan
    model = SelectionMixture(3, suspects=["site", "age"], init=y).fit(table)
    assert {"site=missing", "age=missing"} <= set(model.levels_)
    np.testing.assert_array_equal(model.predict(table), model.labels_)


def test_unknown_values_and_new_combinations():
    table, y, _ = make_table(n=300)
    table = table[~((table["site"] == "A") & (table["scanner"] == "old"))]
    y = y[table.index]
    for names in (["site", "scanner"], ["site", "scanner", "age"]):
        model = SelectionMixture(3, suspects=names, init=y).fit(table)
        new = table.iloc[:6].assign(site="A", scanner="old")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isfinite(model.predict_proba(new)).all()
        with pytest.warns(UserWarning, match="unknown levels of 'site' in 6 rows"):
            model.predict(new.assign(site="Z"))


def test_rare_levels_are_shrunk_and_the_rarest_pooled():
    rng = np.random.default_rng(0)
    table, y, _ = make_table(n=600)
    table["state"] = [f"s{int(v)}" for v in 200 * rng.random(600) ** 3]
    with pytest.warns(UserWarning, match=r"suspect 'state' has \d+ levels; the \d+ rarest"):
        model = SelectionMixture(3, suspects=["state", "scanner"], init=y).fit(table)
    assert model.levels_[2:][49:] == ["state=(other)"]
    assert np.isfinite(model.weights_).all()
    np.testing.assert_array_equal(model.predict(table), model.labels_)
    once = table.drop(columns="state").assign(site=["only here"] + ["B"] * 299 + ["C"] * 300)
    model = SelectionMixture(3, suspects=["site", "scanner"], init=y).fit(once)
    assert np.isfinite(model.bic_)
    with pytest.raises(ValueError, match="'id' has 600 distinct values in 600 rows"):
        SelectionMixture(3, suspects="id").fit(table.assign(id=[f"r{i}" for i in range(600)]))


def test_a_suspect_with_one_level_is_left_out_with_a_warning():
    table, y, _ = make_table(n=200)
    table["scanner"] = "old"
    with pytest.warns(UserWarning, match=r"'scanner' has one level \('old'\)"):
        model = SelectionMixture(3, suspects=["site", "scanner"], init=y).fit(table)
    assert model.levels_ == ["A", "B", "C"]


def test_kinds_tell_codes_from_numbers():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(400, 2)), rng.integers(30, size=400)])
    with pytest.warns(UserWarning, match="30 distinct whole numbers and is taken as a number"):
        model = SelectionMixture(1, suspects=[2], max_iter=5).fit(X)
    assert len(model.levels_) == 5
    codes = SelectionMixture(1, suspects=[2], kinds={2: "category"}, max_iter=5).fit(X)
    assert len(codes.levels_) == 30
    few = SelectionMixture(1, suspects=[2], kinds={2: "number"}).fit(X % [1e9, 1e9, 4])
    assert few.levels_[0].startswith("0 to")


def test_weight_two_equals_row_twice_with_several_suspects():
    table, y, _ = make_table(n=200)
    twice = np.arange(200) % 3 == 0
    index = np.concatenate([np.arange(200), np.flatnonzero(twice)])
    how = {"suspects": ["site", "scanner", "age"], "covariance": "diag"}
    one = SelectionMixture(3, init=y, **how).fit(table, sample_weight=1 + twice)
    other = SelectionMixture(3, init=y[index], **how).fit(table.iloc[index])
    assert one.bic_ == pytest.approx(other.bic_, rel=1e-9)
    np.testing.assert_allclose(one.shares_, other.shares_, rtol=1e-6)


# --- effects per group and on the spread


def spread_sites(seed=0, n=900, spread=0.5, interaction=0.0):
    rng = np.random.default_rng(seed)
    y, site = rng.integers(3, size=n), rng.integers(3, size=n)
    C, B = rng.normal(size=(3, 5)) * 3, rng.normal(size=(3, 5))
    D, T = interaction * rng.normal(size=(3, 3, 5)), spread * rng.normal(size=(3, 5))
    X = C[y] + B[site] + D[y, site] + np.exp(T[site]) * rng.normal(size=(n, 5))
    return np.column_stack([X, site]), y, D, T


def test_spread_of_each_level_is_recovered_and_removed():
    X, y, _, T = spread_sites()
    model = SelectionMixture(3, suspects=[5], init=y, effects="shift-scale").fit(X)
    found = 0.5 * model._model.blocks[0].log_e
    # Standard error of a log standard deviation from 300 rows: 0.04.
    np.testing.assert_allclose(found - found.mean(0), T - T.mean(0), atol=0.2)
    out = model.transform(X)[:, :5]
    for k in range(3):
        sd = np.array([out[(y == k) & (X[:, 5] == s)].std(0) for s in range(3)])
        assert (sd.max(0) / sd.min(0)).max() < 1.4
    assert model.bic(X) == pytest.approx(model.bic_, rel=1e-9)


def test_effects_per_group_are_recovered_and_removed():
    X, y, _, _ = spread_sites(spread=0.0, interaction=1.0)
    for covariance in ("diag", "full"):
        how = {"suspects": [5], "init": y, "covariance": covariance}
        model = SelectionMixture(3, effects="per-group", **how).fit(X)
        shift = SelectionMixture(3, effects="shift", **how).fit(X)
        assert model.bic_ < shift.bic_
        out = model.transform(X)[:, :5]
        for k in range(3):
            means = np.array([out[(y == k) & (X[:, 5] == s)].mean(0) for s in range(3)])
            assert np.ptp(means, axis=0).max() < 0.6  # standard error 0.1, shrinkage of D
        assert model.bic(X) == pytest.approx(model.bic_, rel=1e-9)


def effects_of_two_scales(rng, covariance, L=60, n=6000):
    """Groups far apart; shifts of a standard deviation of 1, and 0.3 per group."""
    y, level = rng.integers(2, size=n), np.arange(n) % L
    B, D = rng.normal(size=(L, 4)), 0.3 * rng.normal(size=(2, L, 4))
    Sigma = np.eye(4) if covariance == "diag" else np.full((4, 4), 0.6) + 0.4 * np.eye(4)
    noise = rng.multivariate_normal(np.zeros(4), Sigma, size=n)
    X = 8.0 * y[:, None] + B[level] + D[y, level] + noise
    return Rows(Columns(X, np.full(4, 1e-6), np.empty((n, 0)), []), level, L, np.ones(n), 50), y


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_scales_of_shifts_and_of_effects_per_group_are_those_of_the_rows(rng, covariance):
    rows, y = effects_of_two_scales(rng, covariance)
    model = Mixture(rows, 2, Choice(covariance, "per-group", "common"))
    start = Stats.of_responsibilities(rows, np.eye(2)[y[rows.order]])
    run_em(rows, model, start, max_iter=60, tol=1e-6)
    (block,) = model.blocks
    # Standard errors of variances of 60 levels x 4 columns, and of 120 cells: 9 % and 7 %.
    assert (block.tau2 / block.variance).mean() == pytest.approx(1.0, rel=0.25)
    # Effects per group for given shifts, which contain their average over the groups.
    _, stats = e_step(rows, model)
    n = stats.N.sum(0).T[..., None]
    y = stats.gauss.sum(0).transpose(1, 0, 2) / n - block.C[:, None] - block.B
    expected = (y**2 / block.variance - 1 / n).mean()
    assert 0.02 < expected < 0.09
    assert (block.delta2 / block.variance).mean() == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize("effects", ["none", "shift", "per-group"])
def test_a_full_covariance_has_one_set_of_columns_with_effects(rng, effects):
    rows, *_ = small_rows(rng)
    block = Mixture(rows, 2, Choice("full", effects, "common")).blocks[0]
    if effects == "none":
        assert block.log_prior_of_columns == 0.0
        return
    own = [block.tau2[0], block.tau2[1], *([block.delta2] if effects == "per-group" else [])]
    for one in own:
        for other in own:
            other[:] = 0.0
        one[0] = 1.0  # one of two columns: 3 numbers of columns, 2 sets of one
        assert block.log_prior_of_columns == pytest.approx(-np.log(3 * 2))


@pytest.mark.parametrize("effects", ["shift", "shift-scale"])
def test_scores_of_the_variance_are_central_differences(rng, effects):
    columns, level = small_rows(rng)[2], np.arange(150) % 6
    X = np.where(rng.random(columns.shape) < 0.2, np.nan, columns)
    given = Columns(X, np.full(2, 1e-6), np.empty((150, 0)), [])
    rows = Rows(given, level, 6, np.ones(150), 50)
    model = Mixture(rows, 2, Choice("diag", effects, "common"))
    (block,) = model.blocks
    block.C, block.B = rng.normal(size=(2, 2)), rng.normal(size=(6, 2))
    block.variance = np.array([0.7, 1.9])
    block.log_e = 0.3 * rng.normal(size=(6, 2)) if effects == "shift-scale" else block.log_e
    r = rng.dirichlet([1, 1], size=150)
    sorted_X, sorted_level, step = X[rows.order], level[rows.order], 1e-6

    def value(j, variance):
        sd = np.sqrt(variance * np.exp(block.log_e[sorted_level, j]))
        parts = [
            r[:, k] * norm.logpdf(sorted_X[:, j], block.C[k, j] + block.B[sorted_level, j], sd)
            for k in range(2)
        ]
        return np.where(np.isnan(sorted_X[:, j]), 0.0, sum(parts))

    for j, v in enumerate(block.variance):
        slope = (value(j, v + step) - value(j, v - step)) / (2 * step)
        np.testing.assert_allclose(block.variance_scores(rows, r, j), slope, atol=1e-6)


@pytest.mark.parametrize("which", [0, 1])
def test_discrete_columns_are_at_their_maximum_with_a_strong_prior(rng, monkeypatch, which):
    """Log-likelihood and log priors of the means, the effects and those per group."""
    monkeypatch.setattr(blocks, "PSEUDO_ROWS", 8.0)
    rows, stats, *_ = small_rows(rng, categories=(3, 4))
    block = Mixture(rows, 2, Choice("diag", "per-group", "common")).blocks[1 + which]
    block.tau2[:], block.delta2[:] = 0.6, 0.4
    for _ in range(400):
        block.m_step(stats, learn_tau=False)
    Z, n = rows.design.Z, stats.N.sum(0).T
    s = (stats.categories if which else stats.bern).sum(0).transpose(1, 0, 2)
    columns = [slice(0, 3), slice(3, 7)] if which else [slice(0, 1)]

    def log_p(eta, own):
        return log_softmax(eta[..., own], axis=-1) if which else -np.logaddexp(0, -eta)

    def value(C, beta, D):
        eta, out = C[:, None] + Z @ beta + D, 0.0
        for own in columns:
            out += (s[..., own] * log_p(eta, own)).sum()
            out += 8.0 * (block.share[own] * log_p(C, own)).sum()
            if not which:  # the other value
                out += ((n[..., None] - s) * log_p(-eta, own)).sum()
                out += 8.0 * ((1 - block.share) * log_p(-C, own)).sum()
        return out - 0.5 * ((beta**2).sum() / 0.6 + (D**2).sum() / 0.4)

    found = [block.C.copy(), block.beta.copy(), block.D.copy()]
    for array in found:
        for at in np.ndindex(array.shape):
            kept, values = array[at], []
            for array[at] in (kept + 1e-5, kept - 1e-5):
                values.append(value(*found))
            array[at] = kept
            assert abs(values[0] - values[1]) / 2e-5 < 1e-3


@pytest.mark.parametrize(("effects", "design"), [("shift", False), ("shift", True),
                                                 ("per-group", False)])  # fmt: skip
def test_the_volume_of_the_effects_of_categories(rng, effects, design):
    """Exact for one categorical suspect: log det(I + tau2 sum_k n_kl (diag(p) - p p')); else with
    the diagonal of the information."""
    rows, stats, *_ = small_rows(rng, categories=(3, 4), design=design)
    block = Mixture(rows, 2, Choice("diag", effects, "common")).blocks[2]
    block.C, block.beta = rng.normal(size=(2, 7)), rng.normal(size=block.beta.shape)
    block.B = rows.design.Z @ block.beta if design else block.beta
    block.tau2[:] = [0.6, 0.0]  # the second column has no effects
    block.delta2[:] = [0.0 if effects == "shift" else 0.3, 0.0]
    block.beta[:, 3:] = block.B[:, 3:] = 0.0
    n, volume = stats.N.sum(0).T, 0.0
    p = softmax(block.mu[..., :3], axis=-1)
    if effects == "shift" and not design:
        for one in range(6):
            H = sum(n[k, one] * (np.diag(p[k, one]) - np.outer(p[k, one], p[k, one]))
                    for k in range(2))  # fmt: skip
            volume += np.linalg.slogdet(np.eye(3) + 0.6 * H)[1]
    else:
        W = n[..., None] * p * (1 - p)
        prior = Prior(np.full((len(block.beta), 3), 0.6), block.delta2[:1].repeat(3))
        volume = log_volume(W, prior, rows.design.Z).sum()
    expected = -0.5 * (volume + (block.beta**2).sum() / 0.6)
    assert block.penalty(stats)[0] == pytest.approx(expected, rel=1e-9)


def test_effects_per_group_are_chosen_where_they_are_and_only_there():
    for interaction, expected in ((0.0, "shift"), (0.75, "per-group")):
        X, y, _, _ = spread_sites(spread=0.0, interaction=interaction, n=600)
        model = SelectionMixture(3, suspects=[5], covariance="diag", random_state=0).fit(X)
        assert model.choice_["effects"] == expected
        assert adjusted_rand_score(y, model.labels_) > 0.9
    X, y, _, _ = spread_sites(n=600)
    model = SelectionMixture(3, suspects=[5], covariance="diag", random_state=0).fit(X)
    assert model.choice_["effects"] == "shift-scale"


def test_effects_per_group_count_only_where_two_groups_join_the_levels(rng):
    n = 300
    level = np.repeat([0, 1, 2], n)
    # All levels have group 0; group 1 is at level 0 and, in the second case, at level 1.
    for labels, joined in (([0, 1], [0], [0]), False), (([0, 1], [0, 1], [0, 1]), True):
        k = np.concatenate([rng.choice(own, n) for own in labels])
        X = 4.0 * k[:, None] + rng.normal(size=(3 * n, 2))
        rows = Rows(
            Columns(X, np.full(2, 1e-6), np.empty((3 * n, 0)), []), level, 3, np.ones(3 * n), 9
        )
        R = np.eye(2)[k][rows.order]
        for effects in ("shift", "per-group"):
            model = Mixture(rows, 2, Choice("diag", effects, "free"))
            fit = run_em(rows, model, Stats.of_responsibilities(rows, R), max_iter=5, tol=1e-6)
            assert judged(0.0, fit, rows).coherent == (joined or effects == "shift")


def test_coherence_is_one_without_effects_per_group_and_negative_for_exchanged_groups(rng):
    rows, *_ = small_rows(rng, design=False)
    model = Mixture(rows, 2, Choice("full", "per-group", "free"))
    for block in model.blocks:
        block.C[1] = block.C[0] + 1.0
    shown = np.ones((6, 2), dtype=bool)
    assert model.coherence(shown) == pytest.approx(1.0)
    for block in model.blocks:
        block.D[0, 2], block.D[1, 2] = 1.0, -1.0  # the groups have changed places at level 2
    assert model.coherence(shown) == pytest.approx(-1.0)
    shown[2, 0] = False
    assert model.coherence(shown) == pytest.approx(1.0)


def test_columns_with_effects_have_the_higher_evidence(rng):
    """Profile evidence decides: a column without effect is dropped, one with an effect taken up."""
    n = 2000
    y = rng.integers(2, size=n)
    level = np.where(rng.random(n) < 0.9, y, 1 - y)  # groups and levels are associated
    X = np.column_stack([2.0 * y, 2.0 * level]) + rng.normal(size=(n, 2))
    rows = Rows(Columns(X, np.full(2, 1e-6), np.zeros((n, 0)), []), level, 2, np.ones(n), 50)
    model = Mixture(rows, 2, Choice("diag", "shift", "free"))
    stats = Stats.of_responsibilities(rows, np.eye(2)[y[rows.order]])
    model.m_step(stats, learn_tau=False)
    block = model.blocks[0]
    block.tau2 = np.array([[1.0, 0.0]])  # the wrong column
    for _ in range(5):
        model.m_step(stats, learn_tau=False)
    assert block.reconsider_columns(stats)
    assert (block.tau2 > 0).tolist() == [[False, True]]


def test_one_group_has_the_lower_bic_where_there_are_none(rng):
    site = rng.integers(3, size=400)
    X = rng.normal(size=(400, 4)) + rng.normal(size=(3, 4))[site]
    with pytest.warns(UserWarning, match="A model with one group has a lower BIC"):
        model = SelectionMixture(3, suspects=[4], random_state=0).fit(np.column_stack([X, site]))
    assert model.one_group_bic_ < model.bic_
    X, *_ = spread_sites(spread=0.0, n=400)
    model = SelectionMixture(3, suspects=[5], random_state=0).fit(X)
    assert model.bic_ < model.one_group_bic_


# --- tests and standard errors


def test_same_measurement_is_rejected_where_sites_shift_the_columns():
    X, y, _, _ = spread_sites(n=200, spread=0.0)
    model = SelectionMixture(3, suspects=[5], covariance="diag", init=y).fit(X)
    none, group = model.test_effects(X, n_bootstrap=19, random_state=0)
    assert (none["null"], none["alternative"]) == ("none", "shift")
    assert none["p_value"] == 1 / 20
    assert none["bic_difference"] < -10
    assert group["bic_difference"] > 0
    assert model.test_effects(X, n_bootstrap=0)[0]["p_value"] is None


def test_p_values_under_the_null_are_not_small():
    """Sites without effects: the median of nine p-values, and their smallest."""
    p = []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        y, site = rng.integers(2, size=120), rng.integers(2, size=120)
        X = np.column_stack([3.0 * y[:, None] + rng.normal(size=(120, 3)), site])
        how = {"covariance": "diag", "effects": "shift", "selection": "common"}
        model = SelectionMixture(2, suspects=[3], init=y, **how).fit(X)
        p += [one["p_value"] for one in model.test_effects(X, n_bootstrap=19, random_state=seed)]
    # A uniform p-value is at most 0.05 in one case of 20: 4 of 18 have probability 0.01.
    assert np.sum(np.array(p) <= 0.05) < 4
    assert np.median(p) > 0.2


def test_test_effects_needs_suspects_and_the_rows_of_the_fit():
    X, y, _, _ = spread_sites(n=150)
    with pytest.raises(ValueError, match="suspects=None: there are no effects to test"):
        SelectionMixture(3, init=y).fit(X).test_effects(X)
    model = SelectionMixture(3, suspects=[5], init=y).fit(X)
    with pytest.raises(ValueError, match="the fit has not seen"):
        model.test_effects(X + [0, 0, 0, 0, 0, 7])


def test_standard_errors_of_shares_are_binomial_where_groups_are_apart(rng):
    y, site = rng.integers(2, size=500), rng.integers(2, size=500)
    X = np.column_stack([20.0 * y[:, None] + rng.normal(size=(500, 2)), site])
    model = SelectionMixture(2, suspects=[2], init=y, selection="free").fit(X)
    n = np.bincount(site)[:, None]
    expected = np.sqrt(model.shares_ * (1 - model.shares_) / n)
    # The information about means and shares together is that of 500 rows: not exactly 0.
    np.testing.assert_allclose(model.shares_se_, expected, rtol=0.03)
    common = SelectionMixture(2, suspects=[2], init=y, selection="common").fit(X)
    p = common.shares_[0, 0]
    np.testing.assert_allclose(common.shares_se_, np.sqrt(p * (1 - p) / 500), rtol=0.03)


@pytest.mark.soak
@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_intervals_of_effects_and_shares_contain_the_truth(covariance):
    """Groups overlap: errors that take them as known contain the effects in 88 %."""
    inside: dict[str, list] = {"effects": [], "shares": []}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        C = 1.5 * np.array([[0, 0, 0, 1], [1, 0, 1, 0], [0, 1, 1, -1]])
        B, P = 0.7 * rng.normal(size=(3, 4)), rng.dirichlet(np.full(3, 3.0), size=3)
        site = rng.integers(3, size=600)
        y = np.array([rng.choice(3, p=P[at]) for at in site])
        X = np.column_stack([C[y] + B[site] + rng.normal(size=(600, 4)), site])
        how = {"covariance": covariance, "effects": "shift", "selection": "free", "init": y}
        model = SelectionMixture(3, suspects=[4], **how).fit(X)
        order = [int(((C + B.mean(0) - m) ** 2).sum(1).argmin()) for m in model.means_]
        if len(set(order)) < 3:
            continue
        B_hat = np.array([e["effects"] for e in model.suspect_effects_])
        se = np.array([e["se"] for e in model.suspect_effects_])[:, model.tau_ > 0]
        off = (B_hat - B_hat.mean(0) - B + B.mean(0))[:, model.tau_ > 0]
        inside["effects"].extend((np.abs(off) < 1.96 * se).ravel())
        off = model.shares_ - P[:, order]
        inside["shares"].extend((np.abs(off) < 1.96 * model.shares_se_).ravel())
    for name, found in inside.items():
        assert 0.91 < np.mean(found) < 0.98, name  # 900 or more intervals: +- .02


def test_heavy_tails_are_not_taken_for_differences_of_spread(rng):
    """The kurtosis within levels, 3 for Gaussian columns, sets the precision of log variances."""
    level = rng.integers(3, size=3000)
    X = np.column_stack([rng.normal(size=3000), rng.standard_t(3, size=3000)]) + level[:, None]
    rows = Rows(Columns(X, np.full(2, 1e-6), np.zeros((3000, 0)), []), level, 3, np.ones(3000), 50)
    expected = np.zeros(2)
    for j in range(2):
        rest = X[:, j] - np.array([X[level == at, j].mean() for at in range(3)])[level]
        expected[j] = (rest**4).mean() / (rest**2).mean() ** 2
    np.testing.assert_allclose(rows.kurtosis, np.maximum(expected, 3.0))
    scales = {}
    for tails in (3.0, expected[1]):
        rows.kurtosis = np.array([3.0, tails])
        model = Mixture(rows, 1, Choice("diag", "shift-scale", "common"))
        run_em(rows, model, Stats.of_responsibilities(rows, np.ones((3000, 1))), max_iter=9, tol=0)
        scales[tails] = np.abs(model.blocks[0].log_e[:, 1]).max()
    assert scales[expected[1]] < 0.5 * scales[3.0]
