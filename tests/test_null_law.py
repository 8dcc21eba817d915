"""Naming a column that has nothing to do with the data changes nothing."""

import numpy as np
import pytest

from unskew import DCKM, DecorrelationWeights
from unskew._solver import is_beyond_chance
from unskew._solver.chance import _traces
from unskew.diagnostics import diagnose
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_sites


def dual_of(X, suspects, a=None):
    model = DecorrelationWeights(suspects=suspects)
    design = model._prepare(X, a, "non_suspects")
    return model._make_problem(design, None).problem.dual


def correlated(rng, n, d=6):
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 0.3 * rng.exponential(size=(n, d))


@pytest.mark.parametrize("levels", [2, 7, "number"])
def test_the_test_has_its_level(levels):
    rng = np.random.default_rng(0)
    draws, rejected = 300, 0
    for _ in range(draws):
        n = 150
        site = rng.normal(size=n) if levels == "number" else rng.integers(0, levels, n)
        coded = site[:, None] if levels == "number" else site[:, None] == np.unique(site)
        X = np.c_[correlated(rng, n), coded]
        rejected += is_beyond_chance(dual_of(X, np.arange(6, X.shape[1])))
    # Binomial(300, 0.01) exceeds 9 with probability 0.001.
    assert rejected <= 9


def test_the_test_has_its_level_under_design_weights():
    rng, rejected = np.random.default_rng(1), 0
    for _ in range(300):
        X = np.c_[correlated(rng, 150), rng.integers(0, 2, 150)]
        rejected += is_beyond_chance(dual_of(X, [6], rng.exponential(size=150) ** 2))
    assert rejected <= 9


def permutation_p(dual, X, rng, draws=2000):
    """The same test by permutations of the rows against the cells."""
    F = dual.a[:, None] * (X - np.average(X, axis=0, weights=dual.a)) * dual.pairs.scale

    def imbalance(cell):
        return ((dual.G[cell].T @ F) ** 2).sum()

    observed = imbalance(dual.cell)
    above = sum(imbalance(rng.permutation(dual.cell)) >= observed for _ in range(draws))
    return (1 + above) / (1 + draws)


def test_the_test_agrees_with_permutations():
    rng, sides = np.random.default_rng(2), set()
    for _ in range(40):
        X, site = correlated(rng, 150), rng.integers(0, 3, 150)
        X[:, 0] += 0.55 * X[:, 0].std() * site  # p is about 0.01
        dual = dual_of(np.c_[X, np.eye(3)[site]], [6, 7, 8])
        p = permutation_p(dual, X, rng)
        if not 0.005 < p < 0.015:  # the approximation, and 2,000 permutations
            assert is_beyond_chance(dual) == (p < 0.01), p
            sides.add((p < 0.01, 0.0015 < p < 0.03))
    # Both answers were seen, also near the level.
    assert {(True, True), (False, True)} <= sides


@pytest.mark.parametrize("weighted", [False, True])
def test_traces_from_few_rows_are_those_of_the_population(rng, weighted):
    """tr(R^2) / tr(R)^2 of d independent columns is 1 / d, of a sample about 1 / d + 1 / n."""
    n, d = 60, 200
    X = np.c_[rng.normal(size=(n, d)), np.arange(n) % 2]
    first, second = _traces(dual_of(X, [d], rng.random(n) + 0.5 if weighted else None))
    assert second / first**2 == pytest.approx(1 / d, rel=0.5)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_few_shifted_columns_are_found_at_any_scale_of_the_weights(rng, scale):
    X = rng.normal(size=(400, 50))
    site = rng.integers(0, 2, 400)
    X[:, :2] += site[:, None]
    assert is_beyond_chance(dual_of(np.c_[X, site], [50], np.full(400, scale)))


@pytest.mark.parametrize("adjust", ["weights", "effects", "both"])
@pytest.mark.parametrize("levels", [2, 10, "number"])
def test_a_random_suspect_changes_nothing(adjust, levels, rng):
    data = make_sites(800, rate=0.0, shift=0.0, random_state=0)
    X = data.X[:, data.core]
    site = rng.normal(size=800) if levels == "number" else rng.integers(0, levels, 800)
    coded = site[:, None] if levels == "number" else site[:, None] == np.arange(levels)
    suspects = np.arange(X.shape[1], X.shape[1] + coded.shape[1])
    how = {"n_clusters": 4, "suspects": suspects, "n_init": 5, "random_state": 0}
    model = DCKM(adjust=adjust, **how).fit(np.c_[X, coded])
    plain = DCKM(adjust="weights", balance_strength=0, spread_strength=1e6, **how)
    plain.fit(np.c_[X, coded])
    assert adjusted_rand_score(model.labels_, plain.labels_) > 0.98
    assert model.effective_sample_size_ > 0.98
    verdict = diagnose(model, np.c_[X, coded]).verdict
    assert verdict.word == "no effect"
    assert "no association with the other columns beyond chance" in verdict.sentence
    if adjust != "weights":
        assert all((each["effects"] == 0).all() for each in model.suspect_effects_)


def test_a_given_strength_of_the_spread_is_used(rng):
    X = np.c_[correlated(rng, 200), rng.integers(0, 2, 200)]
    how = {"n_clusters": 2, "suspects": [6], "adjust": "weights", "random_state": 0}
    given, default = (DCKM(spread_strength=s, **how).fit(X) for s in (0.1, None))
    assert given.effective_sample_size_ < 0.9 < 0.98 < default.effective_sample_size_
