"""Formulas of the mixture against their text: what a mutation check found untested."""

import numpy as np
import pytest
from scipy.special import entr, logsumexp

from unskew import SelectionMixture
from unskew._mixture.em import LOGIT_SD as SD
from unskew._mixture.em import Choice, Mixture, e_step, log_joint, run_em

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def rows(levels=3):
    rng = np.random.default_rng(0)
    site = np.arange(240) % levels
    X = rng.standard_normal((240, 3)) + 6 * rng.integers(0, 2, (240, 1)) + site[:, None]
    return np.column_stack([X, site])


@pytest.mark.parametrize("effects", ["none", "shift"])
def test_bic_counts_the_free_shares_and_the_columns_with_effects(effects):
    how = {"suspects": [3], "covariance": "diag", "effects": effects, "random_state": 0}
    free, common = (
        SelectionMixture(2, selection=one, **how).fit(rows()) for one in ("free", "common")
    )
    assert free.n_parameters_ - common.n_parameters_ == (2 - 1) * (3 - 1)
    # Means, variances, shares, and the scale of the effects.
    assert common.n_parameters_ == 2 * 3 + 3 + 1 + (effects == "shift")
    for model in (free, common):
        prior = model._model.log_prior_of_effects
        assert (prior < 0) == (effects == "shift")
        penalty = model.n_parameters_ * np.log(240)
        expected = -2 * (model.marginal_log_likelihood_ + prior) + penalty
        assert model.bic_ == pytest.approx(expected, rel=1e-12)


def test_coefficients_of_the_shares_have_a_normal_prior_in_the_bound():
    problem, _ = SelectionMixture(2, suspects=[3])._prepare(rows(), None)
    model = Mixture(problem.rows, 2, Choice("diag", "none", "free"))
    log_sum, stats = e_step(problem.rows, model)
    before = model.value(problem.rows, log_sum, stats)
    model.gamma[0], model.gamma[1:] = 7.0, 3.0  # the intercept has no prior
    after = model.value(problem.rows, log_sum, stats)
    assert after[0] == before[0]
    assert after[1] - before[1] == pytest.approx(-0.5 * 9.0 * model.gamma[1:].size / SD**2)


def test_coherence_is_the_smallest_share_of_a_difference_that_a_level_has():
    """Level 0 has the difference of the groups once, level 1 three times: the average is twice."""
    rng = np.random.default_rng(0)
    group, site = rng.integers(0, 2, (2, 2000))
    x = np.where(group == 1, np.array([10.0, 30.0])[site], 0.0) + rng.standard_normal(2000)
    how = {"suspects": [1], "effects": "per-group", "covariance": "diag", "selection": "common"}
    found = SelectionMixture(2, init=group, **how).fit(np.column_stack([x, site]))._model
    shown = np.ones((2, 2), dtype=bool)
    assert found.coherence(shown) == pytest.approx(0.5, abs=0.02)
    shown[0, 0] = False  # then level 1 alone shows both groups
    assert found.coherence(shown) == pytest.approx(1.5, abs=0.02)
    assert found.coherence(np.zeros((2, 2), dtype=bool)) == 1.0


def test_a_level_without_rows_has_the_shares_of_all_rows():
    problem, _ = SelectionMixture(2, suspects=[3])._prepare(rows(), None)
    model = Mixture(problem.rows, 2, Choice("diag", "none", "free"))
    _, stats = e_step(problem.rows, model)
    stats.N[:, 2] = 0.0
    model.logit = 0  # shares are counted, not regressed
    model.m_step(stats)
    total = stats.N.sum((0, 1))
    np.testing.assert_allclose(model.shares[2], total / total.sum())
    np.testing.assert_allclose(model.shares.sum(1), 1.0)


def test_em_ends_when_the_bound_has_not_risen_for_ten_iterations(monkeypatch):
    problem, _ = SelectionMixture(2, suspects=[3])._prepare(rows(), None)
    model = Mixture(problem.rows, 2, Choice("diag", "none", "common"))
    falling = [0.0, 500.0] + [-1e3 * (1 + k % 2) for k in range(40)]
    rising = [1e3 * (k + 2 * (k % 2)) for k in range(40)]
    for bounds, tried, kept in ((falling, 12, 2), (rising, 40, 40)):
        values = iter(bounds)
        monkeypatch.setattr(Mixture, "value", lambda *_, v=values: (0.0, next(v)))
        fit = run_em(problem.rows, model, None, max_iter=40, tol=1e-3)
        assert (len(bounds) - len(list(values)), fit.converged) == (tried, tried < 40)
        assert (fit.n_iter, fit.history) == (kept, bounds[:kept])


@pytest.mark.parametrize("effects", ["none", "shift", "shift-scale"])
def test_the_complete_value_is_the_marginal_one_minus_the_entropy_of_the_groups(effects):
    problem, _ = SelectionMixture(2, suspects=[3])._prepare(rows(), None)
    model = Mixture(problem.rows, 2, Choice("diag", effects, "free"))
    start = np.eye(2)[(rows()[:, 0] > 3).astype(int)]
    model.m_step(problem.stats_of(0.9 * start + 0.05))
    log_sum, stats = e_step(problem.rows, model)
    marginal, _ = model.value(problem.rows, log_sum, stats)
    joint = log_joint(problem.rows, model)
    r = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    entropy = float(entr(r).sum())
    assert entropy > 0
    assert model.complete_value(stats) == pytest.approx(marginal - entropy, rel=1e-10)


def test_the_penalty_of_effects_on_the_spread_is_their_laplace_approximation():
    problem, _ = SelectionMixture(2, suspects=[3])._prepare(rows(levels=4), None)
    model = Mixture(problem.rows, 2, Choice("diag", "shift-scale", "free"))
    _, stats = e_step(problem.rows, model)
    (block,) = model.blocks
    rng = np.random.default_rng(0)
    block.tau2[:] = block.delta2[:] = 0.0
    block.omega2, block.log_e = np.array([0.3, 0.0, 0.7]), rng.normal(size=(4, 3))
    n = 60 / (stats.rows.kurtosis - 1.0)  # rows of each level
    expected = sum(
        -0.5 * (block.log_e[level, j] ** 2 / block.omega2[j] + np.log1p(n[j] * block.omega2[j]))
        for level in range(4)
        for j in (0, 2)
    )
    assert block.penalty(stats)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("levels", [2, 3])
def test_the_likelihood_of_categories_without_effects_by_hand(levels):
    rng = np.random.default_rng(0)
    X = rng.integers(levels, size=(40, 3)).astype(float)
    kinds = dict.fromkeys(range(3), "category") if levels > 2 else None
    problem, _ = SelectionMixture(2, kinds=kinds)._prepare(X, None)
    model = Mixture(problem.rows, 2, Choice("diag", "none", "common"))
    model.m_step(problem.stats_of(0.8 * np.eye(2)[rng.integers(2, size=40)] + 0.1))
    log_sum, stats = e_step(problem.rows, model)
    marginal, _ = model.value(problem.rows, log_sum, stats)
    (block,) = model.blocks
    expected = 0.0
    for x in X.astype(int):
        density = 0.0
        for k, share in enumerate(model.shares[0]):
            for j, value in enumerate(x):
                if levels == 2:
                    p = 1 / (1 + np.exp(-block.C[k, j]))
                    share = share * (p if value else 1 - p)
                else:
                    p = np.exp(block.C[k, 3 * j : 3 * j + 3])
                    share = share * p[value] / p.sum()
            density += share
        expected += np.log(density)
    assert marginal == pytest.approx(expected, rel=1e-10)
