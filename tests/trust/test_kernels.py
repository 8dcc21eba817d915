"""Formulas of the mixture against their text: what a mutation check found untested."""

import numpy as np
import pytest

from unskew import SelectionMixture
from unskew._mixture.em import LOGIT_SD as SD
from unskew._mixture.em import Choice, Mixture, e_step

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
