"""The same answer from independent code, from other containers and in other units."""

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

from tests.trust.tally import EXAMPLES, count
from unskew import DCKM, DecorrelationWeights, ParquetReader, metrics

CASES = range(max(3, EXAMPLES // 20))
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(seed, n=60, d=4):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) + 4 * rng.integers(0, 3, (n, 1)), rng


@pytest.mark.parametrize("seed", CASES)
def test_without_balance_the_clusters_are_those_of_kmeans(seed):
    count("differential cases")
    X, rng = rows(seed)
    a = rng.integers(1, 4, len(X)).astype(float)
    C = X[rng.choice(len(X), 3, replace=False)]
    expected = KMeans(3, init=C, n_init=1, tol=0).fit(X, sample_weight=a)
    how = {"balance_strength": 0, "spread_strength": 1e9}
    found = DCKM(3, init=C, **how).fit(X, sample_weight=a)
    assert metrics.adjusted_rand_score(found.labels_, expected.labels_) == 1
    assert found.inertia_ == pytest.approx(expected.inertia_, rel=1e-6)


@pytest.mark.parametrize("seed", CASES)
def test_imbalance_is_the_sum_over_pairs_of_the_text(seed):
    """balance = sum over pairs of columns of ((mean of k given j) - (mean of k else))^2 / var k."""
    count("differential cases")
    X, rng = rows(seed, d=3)
    X[:, 1:] = X[:, 1:] > np.median(X[:, 1:], axis=0)
    a = rng.random(len(X)) + 0.5
    model = DecorrelationWeights(suspects=[1], max_iter=30).fit(X, sample_weight=a)
    for w, value in ((a, model.initial_imbalance_), (a * model.weights_, model.imbalance_)):
        total, treated = 0.0, X[:, 1] == 1
        for k in (0, 2):
            mean = sum(a[i] * X[i, k] for i in range(len(X))) / sum(a)
            variance = sum(a[i] * (X[i, k] - mean) ** 2 for i in range(len(X))) / sum(a)
            means = [np.average(X[own, k], weights=w[own]) for own in (treated, ~treated)]
            total += (means[0] - means[1]) ** 2 / variance
        assert value == pytest.approx(total, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("seed", CASES)
def test_weighted_moments_are_those_of_statsmodels(seed):
    statsmodels = pytest.importorskip("statsmodels.stats.weightstats")
    count("differential cases")
    X, rng = rows(seed)
    a = rng.random(len(X))
    covariance = statsmodels.DescrStatsW(X, weights=a).cov
    np.fill_diagonal(covariance, 0)
    expected = np.linalg.norm(covariance)
    assert metrics.amount_of_correlation(X, a) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("suspects", [None, [0]])
def test_every_container_gives_the_same_fit(tmp_path, suspects):
    X, _ = rows(0)
    X = np.round(X, 2)
    # Effects are not removed from sparse rows.
    how = {"n_clusters": 3, "n_init": 2, "random_state": 0, "suspects": suspects}
    how["adjust"] = "weights"
    expected = DCKM(**how).fit(X)
    np.save(tmp_path / "x.npy", X)
    memmap = np.load(tmp_path / "x.npy", mmap_mode="r")
    for other in (tmp_path / "x.npy", memmap, np.asfortranarray(X), X.astype(">f8"), X.tolist()):
        np.testing.assert_array_equal(DCKM(**how).fit(other).weights_, expected.weights_)
    sparse = DCKM(**how).fit(sp.csr_array(X))
    np.testing.assert_array_equal(sparse.labels_, expected.labels_)
    np.testing.assert_allclose(sparse.weights_, expected.weights_, rtol=1e-4)
    table = pl.DataFrame(X, schema=list("abcd"))
    table.write_parquet(tmp_path / "x.parquet", row_group_size=25)
    memory = DCKM(**how).fit(table)
    for blocks in (tmp_path / "x.parquet", ParquetReader(tmp_path / "x.parquet")):
        found = DCKM(**how).fit(blocks)
        np.testing.assert_array_equal(found.labels_, memory.labels_)
        np.testing.assert_allclose(found.weights_, memory.weights_, rtol=1e-4)


@pytest.mark.parametrize("seed", CASES)
def test_units_order_and_repetition_of_rows_do_not_matter(seed):
    count("differential cases")
    X, rng = rows(seed)
    init = rng.integers(0, 3, len(X))
    how = {"n_clusters": 3, "suspects": [0], "tol": 1e-9}
    expected = DCKM(init=init, **how).fit(X)
    units = 2.0 ** rng.integers(-20, 20)
    np.testing.assert_allclose(
        DCKM(init=init, **how).fit(X * units).weights_, expected.weights_, rtol=1e-6
    )
    order = rng.permutation(len(X))
    permuted = DCKM(init=init[order], **how).fit(X[order])
    np.testing.assert_allclose(permuted.weights_, expected.weights_[order], rtol=1e-4, atol=1e-6)
    twice = rng.integers(1, 3, len(X))
    weighted = DCKM(init=init, **how).fit(X, sample_weight=twice)
    repeated = DCKM(init=np.repeat(init, twice), **how).fit(np.repeat(X, twice, axis=0))
    np.testing.assert_allclose(
        np.repeat(weighted.weights_, twice), repeated.weights_, rtol=1e-4, atol=1e-6
    )
