"""Weighted k-means kernels: against scikit-learn, by hand, and under the laws of weights."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from unskew import _kmeans
from unskew._data.tiled import TiledMatrix
from unskew._kmeans import Clusters, Distance


def everything(X):
    return Distance(np.arange(X.shape[1]))


def run_lloyd(X, w, C, storage=np.asarray):
    rows, distance = TiledMatrix(storage(X)), everything(X)
    return _kmeans.lloyd(rows, distance, w, _kmeans.label(rows, distance, C))


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
def test_fixed_weights_equal_scikit_learn_from_the_same_start(storage, weighted, rng):
    X, _ = make_blobs(400, n_features=5, centers=6, cluster_std=3, random_state=0)
    w = rng.random(400) if weighted else np.ones(400)
    C = X[:6]
    ours, settled = run_lloyd(X, w, C, storage)
    theirs = KMeans(6, init=C, n_init=1, tol=0, max_iter=300).fit(X, sample_weight=w)
    assert settled
    np.testing.assert_array_equal(ours.labels, theirs.labels_)
    np.testing.assert_allclose(ours.C, theirs.cluster_centers_, atol=1e-10)
    assert w @ ours.e == pytest.approx(theirs.inertia_, rel=1e-10)


def test_update_is_the_weighted_mean_by_hand():
    X = np.array([[0.0], [2.0], [10.0]])
    C, empty = _kmeans.update(
        TiledMatrix(X), everything(X), np.array([1.0, 3, 5]), np.array([0, 0, 1]), np.zeros((3, 1))
    )
    np.testing.assert_allclose(C[:2, 0], [1.5, 10.0])
    assert list(empty) == [False, False, True]
    assert C[2, 0] == 0  # keeps its last centre


def test_ties_go_to_the_lowest_index_however_rows_are_cut(rng, monkeypatch):
    X = rng.integers(-2, 3, (500, 6)).astype(float)
    C = np.repeat(rng.integers(-2, 3, (3, 6)).astype(float), 2, axis=0)  # every centre twice
    whole = _kmeans.label(TiledMatrix(X), everything(X), C).labels
    assert set(whole) <= {0, 2, 4}
    monkeypatch.setattr("unskew._data.tiled.tile_rows", lambda shape, sparse: 7)
    np.testing.assert_array_equal(_kmeans.label(TiledMatrix(X), everything(X), C).labels, whole)


def test_rows_far_from_zero_are_distinguished():
    X = np.array([[1e8], [1e8 + 1], [1e8 + 10], [1e8 + 11]])
    C = np.array([[1e8 + 0.5], [1e8 + 10.5]])
    assert list(_kmeans.label(TiledMatrix(X), everything(X), C).labels) == [0, 0, 1, 1]


def test_an_emptied_cluster_is_refilled_with_the_farthest_row():
    X = np.array([[0.0], [0.1], [5.0], [5.1], [100.0]])
    C = np.array([[0.0], [5.0], [-1000.0]])
    found, _ = run_lloyd(X, np.ones(5), C)
    assert sorted(found.C[:, 0]) == pytest.approx([0.05, 5.05, 100.0])


def test_refill_takes_no_row_without_weight_and_no_row_twice():
    X = np.array([[0.0], [50.0], [50.0], [100.0], [7.0]])
    w = np.array([1.0, 1, 1, 0, 1])  # the farthest row is absent
    rows = TiledMatrix(X)
    start = _kmeans.label(rows, everything(X), np.array([[0.0], [-900.0], [-901.0]]))
    C = _kmeans.reseed_empty(rows, everything(X), w, start, np.array([False, True, True]))
    assert sorted(C[:, 0]) == [0.0, 7.0, 50.0]


def test_fewer_distinct_rows_than_clusters_stay_finite():
    X = np.repeat([[0.0, 1], [1, 0]], 4, axis=0)
    found, settled = run_lloyd(X, np.ones(8), np.array([[0.0, 1], [5, 5], [6, 6], [1, 0]]))
    assert settled
    assert np.isfinite(found.C).all()
    assert found.e.max() == 0


@pytest.mark.parametrize("start", ["random", "plusplus"])
def test_random_starts_are_rows_that_have_weight(start, rng):
    X = rng.normal(size=(50, 3))
    a = np.where(np.arange(50) < 10, 1.0, 0.0)
    draw = {"random": _kmeans.init_random, "plusplus": _kmeans.init_plusplus}[start]
    C = draw(TiledMatrix(X), everything(X), a, 5, np.random.RandomState(0))
    chosen = [np.flatnonzero((X == c).all(1))[0] for c in C]
    assert max(chosen) < 10
    assert len(set(chosen)) == 5


def test_plusplus_start_is_better_than_random_rows():
    X, _ = make_blobs(300, centers=8, cluster_std=0.3, random_state=0)
    rows, distance, a = TiledMatrix(X), everything(X), np.ones(300)

    def mean_inertia(draw):
        return np.mean(
            [
                _kmeans.label(
                    rows, distance, draw(rows, distance, a, 8, np.random.RandomState(s))
                ).e.sum()
                for s in range(20)
            ]
        )

    assert mean_inertia(_kmeans.init_plusplus) < 0.5 * mean_inertia(_kmeans.init_random)


def test_plusplus_start_survives_duplicates():
    X = np.repeat([[0.0], [1.0]], 5, axis=0)
    C = _kmeans.init_plusplus(
        TiledMatrix(X), everything(X), np.ones(10), 4, np.random.RandomState(0)
    )
    assert set(C[:, 0]) <= {0.0, 1.0}


@pytest.mark.parametrize("wide", [False, True])
def test_principal_start_ignores_row_order_and_duplication(wide, rng):
    X = rng.normal(size=(60, 2100 if wide else 5)) @ np.diag(
        np.r_[4.0, np.ones(2099 if wide else 4)]
    )
    a = rng.integers(0, 4, 60).astype(float)

    def start(X, a):
        return _kmeans.init_principal(TiledMatrix(X), everything(X), a, 4)

    labels = start(X, a)
    order = rng.permutation(60)
    np.testing.assert_array_equal(start(X[order], a[order]), labels[order])
    twice = np.repeat(np.arange(60), a.astype(int))
    np.testing.assert_array_equal(start(X[twice], np.ones(twice.size)), labels[twice])
    share = np.bincount(labels, weights=a) / a.sum()
    assert share.max() - share.min() < 2 * 3 / a.sum() + 1e-12  # a row's weight is at most 3


def test_weighted_cuts_by_hand():
    cuts = _kmeans.weighted_cuts(np.array([1.0, 2, 3, 4]), np.array([1.0, 1, 1, 1]), 2)
    assert list(cuts) == [2.5]
    cuts = _kmeans.weighted_cuts(np.array([1.0, 2, 3, 4]), np.array([3.0, 1, 1, 1]), 2)
    assert list(cuts) == [1.5]
    # A value that holds most of the weight is cut off once, not four times.
    cuts = _kmeans.weighted_cuts(np.array([0.0, 0, 0, 0, 0, 0, 0, 0, 1, 2]), np.ones(10), 5)
    assert list(cuts) == [0.5]


def test_distances_are_exact_on_the_centres(rng):
    X = rng.normal(size=(20, 4)) + 100
    D = _kmeans.distances(X, X)
    assert np.diag(D).max() == 0
    np.testing.assert_allclose(D, np.linalg.norm(X[:, None] - X[None], axis=2), atol=1e-9)


def test_lloyd_never_raises_the_inertia(rng):
    X = rng.normal(size=(200, 3)).astype(np.float32)
    rows, distance, w = TiledMatrix(X), everything(X), rng.random(200)
    clusters = _kmeans.label(rows, distance, X[:5].astype(float))
    last = w @ clusters.e
    for _ in range(30):
        clusters, settled = _kmeans.lloyd(rows, distance, w, clusters, max_sweeps=1)
        assert w @ clusters.e <= last
        last = w @ clusters.e
    assert settled
    assert isinstance(clusters, Clusters)


def test_sparse_ties_go_to_the_lowest_centre_as_dense_ones_do(rng):
    X = (rng.random((500, 12)) < 0.3).astype(np.float64)
    C = X[[3, 1, 4, 1, 5]]  # rows, one of them twice: distances are whole numbers, ties abound
    dense, e = _kmeans.assign(X, C)
    sparse, e_sparse = _kmeans.assign(sp.csr_array(X), C)
    np.testing.assert_array_equal(dense, sparse)
    np.testing.assert_allclose(e, e_sparse, atol=1e-12)
    assert not (dense == 3).any()
    exact = ((X[:, None] - C) ** 2).sum(2)
    np.testing.assert_array_equal(dense, exact.argmin(1))


@pytest.mark.parametrize("far", [0.0, 1e4])
@pytest.mark.parametrize("d", [6, 500])
def test_sparse_float32_rows_keep_their_digits(far, d, rng):
    """Far from 0 the squares of float32 have no digits left for the distances; and sums of many
    equal numbers are rounded the same way each time."""
    X = (rng.normal(size=(300, d)) + far).astype(np.float32)
    X[100:200] = np.float32(far + 0.3)
    C = X[:5].astype(np.float64) + 1e-3
    C[4] = C[3]
    labels, e = _kmeans.assign(sp.csr_array(X), np.asfortranarray(C))
    squares = ((X[:, None, :].astype(np.float64) - C) ** 2).sum(2)
    np.testing.assert_array_equal(labels, squares.argmin(1))
    assert 4 not in labels
    rounding = 1e-14 * d * far**2  # of the squares, in float64
    np.testing.assert_allclose(e, squares.min(1), rtol=3e-6, atol=1e-6 + rounding)


@pytest.mark.parametrize("seed", range(20))
def test_a_start_from_labels_knows_its_distances_far_from_0(seed):
    from unskew._kmeans import init_clusters

    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3, 5))
    X = (centres[rng.integers(0, 3, 300)] + 0.3 * rng.normal(size=(300, 5)) + 3000).astype("f4")
    labels = rng.integers(0, 3, 300).astype(np.int32)
    rows, distance = TiledMatrix(sp.csr_array(X)), Distance(np.arange(5))
    start = init_clusters(rows, distance, np.ones(300), 3, labels, None)
    means = np.array([X[labels == k].mean(0, dtype=np.float64) for k in range(3)])
    expected = ((X - means[labels]) ** 2).sum(1)
    np.testing.assert_allclose(start.e, expected, rtol=0.02, atol=0.02)


def test_sparse_rows_are_labelled_in_tall_tiles_unless_they_become_dense(rng, monkeypatch):
    monkeypatch.setattr("unskew._data.tiled.TALL_TILE", 40)
    monkeypatch.setattr("unskew._data.tiled.tile_rows", lambda shape, sparse: 7)
    X = (rng.random((90, 6)) < 0.4).astype(float)
    rows, dense = TiledMatrix(sp.csr_array(X)), TiledMatrix(X)
    assert rows.tall().bounds == [(0, 40), (40, 80), (80, 90)]
    some = rows.subsample(30)
    assert some.tall() is some
    seen = []

    class RowScaling(_kmeans.RowScaling):
        def apply(self, F):
            seen.append(F.shape[0])
            return super().apply(F)

    C = rng.random((3, 6))
    for offset, height in ((np.zeros(6), 40), (np.full(6, 0.5), 7)):
        distance = _kmeans.Distance(np.arange(6), scaling=RowScaling(offset, np.ones(6), True))
        seen.clear()
        found = _kmeans.label(rows, distance, C)
        assert max(seen) == height
        np.testing.assert_array_equal(found.labels, _kmeans.label(dense, distance, C).labels)


@pytest.mark.parametrize("start", ["k-means++", "principal"])
def test_lloyd_without_distances_is_the_same(start, rng):
    X = rng.normal(size=(3000, 4)) + 3 * rng.integers(3, size=(3000, 1))
    w, rows, distance = rng.uniform(0.1, 2, size=3000), TiledMatrix(X), everything(X)
    first = _kmeans.init_clusters(rows, distance, w, 3, start, np.random.RandomState(0))
    kept, _ = _kmeans.lloyd(rows, distance, w, first)
    summed, _ = _kmeans.lloyd(rows, distance, w, first._replace(e=None))
    assert summed.e is None
    assert summed.labels.dtype == np.uint8
    np.testing.assert_array_equal(kept.C, summed.C)
    np.testing.assert_array_equal(kept.labels, summed.labels)
    slow = float(sum(w * ((X - kept.C[kept.labels]) ** 2).sum(axis=1)))
    assert _kmeans.inertia(rows, distance, w, summed) == pytest.approx(slow, rel=1e-12)
    assert _kmeans.inertia(rows, distance, w, kept) == pytest.approx(slow, rel=1e-12)


def test_values_that_agree_up_to_rounding_are_cut_as_one():
    a = np.ones(6)
    for size in (1.0, 1e9, 1e-9):
        values = size * np.array([1.0, 1 + 1e-15, 1 + 2e-15, 2, 2 + 1e-15, 2 + 2e-15])
        np.testing.assert_allclose(_kmeans.weighted_cuts(values, a, 2), [1.5 * size])
        assert _kmeans.weighted_cuts(-values[::-1], a, 3).size == 1
    # Single precision: values are not merged.
    few = np.array([0.0, 0.25, 0.5, 0.75], dtype=np.float32)
    np.testing.assert_allclose(_kmeans.weighted_cuts(few, np.ones(4), 4), [0.125, 0.375, 0.625])


def test_rounding_is_that_of_the_largest_value():
    for values in ([0.0, 5e-13, 1.0], [-1.0, -5e-13, 0.0]):
        assert _kmeans.weighted_cuts(np.array(values), np.ones(3), 3).size == 1
    assert _kmeans.weighted_cuts(np.array([0.0, 5e-12, 1.0]), np.ones(3), 3).size == 2


def test_the_principal_start_of_wide_rows_is_that_of_their_svd(rng):
    n, d = 60, 2100  # the second moments are not computed as a matrix
    X = rng.normal(size=(n, d)) + 5 * rng.normal(size=(n, 1)) * rng.normal(size=d)
    X += 2 * rng.normal(size=(n, 1)) * rng.normal(size=d)
    labels = _kmeans.init_principal(TiledMatrix(X), everything(X), np.ones(n), 3)
    score = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[0][:, 0]
    ranks = np.argsort(np.argsort(score)) // (n // 3)
    assert np.array_equal(labels, ranks) or np.array_equal(labels, 2 - ranks)
