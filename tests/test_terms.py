"""Terms of the objective, by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from unskew import _terms


def test_spread_of_one_design_weight_for_all_rows_is_that_of_a_vector(rng):
    w = rng.uniform(size=50)
    for inverse_a in (0.25, 3.0):
        one = np.broadcast_to(np.float64(inverse_a), w.shape)
        assert _terms.spread(w, one) == pytest.approx((w**2).sum() * inverse_a, rel=1e-14)
        assert _terms.spread(w, one.copy()) == pytest.approx(_terms.spread(w, one), rel=1e-14)


def test_effective_share_of_no_weight_is_zero():
    assert _terms.effective_share(np.zeros(3), np.ones(3), 3.0) == 0.0
    assert _terms.effective_share(np.array([2.0, 0, 0, 0]), np.ones(4), 4.0) == 0.25
    assert _terms.effective_share(np.ones(4), np.ones(4), 4.0) == 1.0


def test_shares_are_of_the_rows_whose_value_is_known():
    T = sp.csr_array(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 0]]))
    known = sp.csr_array(np.array([[1.0, 0], [1, 0], [0, 0]]))  # of the second variable: none
    margins = _terms.Margins(T, known, np.array([0, 0, 1]), np.array([0.5, 0.5, 0.1]))
    w = np.array([0.1, 0.3, 0.5])  # of less than one row in all
    np.testing.assert_allclose(margins.shares(w), [0.25, 0.75, 0.0])
    assert margins.value(w) == pytest.approx(0.25**2 + 0.25**2 + 0.1**2)
    _, gradient = margins.value_and_gradient(w)
    for i in range(3):
        step = np.zeros(3)
        step[i] = 1e-6
        slope = (margins.value(w + step) - margins.value(w - step)) / 2e-6
        assert gradient[i] == pytest.approx(slope, abs=1e-8)
