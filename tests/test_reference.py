"""DCKM by the authors' procedure agrees with recorded runs of the authors' code."""

from pathlib import Path

import numpy as np
import pytest

from unskew import DCKM

# case: K, lambda1, lambda2, lambda3, max_iter
SYNTHETIC = {
    "synthetic_a": (4, 1, 10, 1, 20),
    "synthetic_b": (3, 0.05, 2, 1, 20),
    "synthetic_c": (4, 20, 0.5, 3, 40),
}
PAPER_DATA = {
    "dslr60_a": (10, 1, 1, 1, 20),
    "dslr60_b": (10, 0.01, 10, 1, 20),
    "dslr60_c": (5, 100, 0.1, 1, 20),
    "oh1_80_a": (10, 0.1, 100, 1, 20),
    "oh1_80_b": (4, 10, 1000, 0.5, 20),
}


def compare(folder, case, settings):
    def read(what):
        return np.loadtxt(folder / f"{case}_{what}.csv", delimiter=",")

    K, lambda1, lambda2, lambda3, max_iter = settings
    model = DCKM(
        K,
        objective="paper",
        solver="paper",
        balance_strength=lambda1,
        spread_strength=lambda2,
        mass_strength=lambda3,
        init=read("labels0").astype(int),
        n_init=1,
        max_iter=max_iter,
        tol=0.01,
    ).fit(read("X"))
    np.testing.assert_array_equal(model.labels_, read("labels"))
    weights = read("weights")
    np.testing.assert_allclose(model.weights_, weights, atol=1e-10 * weights.max(), rtol=0)
    np.testing.assert_allclose(model.cluster_centers_, read("centers"), atol=1e-10, rtol=0)
    np.testing.assert_allclose(model.history_["objective"], read("objective"), rtol=1e-10)


@pytest.mark.parametrize("case", SYNTHETIC)
def test_agrees_with_the_authors_code_on_synthetic_data(case):
    compare(Path(__file__).parent / "reference" / "dckm", case, SYNTHETIC[case])


@pytest.mark.parametrize("case", PAPER_DATA)
def test_agrees_with_the_authors_code_on_the_papers_data(case, outside_reference):
    compare(outside_reference("dckm"), case, PAPER_DATA[case])
