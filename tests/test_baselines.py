"""Laws of the baselines: one start for all, what each leaves out, and what weights mean."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin, VarianceThreshold
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from unskew import DCKM, _clusterer
from unskew.baselines import (
    DecorrelatedKMeans,
    DropKMeans,
    PCAKMeans,
    PlainKMeans,
    RegressOutKMeans,
    SelectKMeans,
    _base,
)
from unskew.simulate import make_site_footprint


class FirstColumns(SelectorMixin, BaseEstimator):
    """Keeps the first ``count`` columns, and remembers the weights it was given."""

    def __init__(self, count=1):
        self.count = count

    def fit(self, X, y=None, sample_weight=None):
        self.n_features_in_ = X.shape[1]
        self.seen_ = sample_weight
        return self

    def _get_support_mask(self):
        return np.arange(self.n_features_in_) < self.count


class Barest:
    """Not a scikit-learn estimator: fit, transform, get_support and nothing else."""

    def fit(self, X):
        self.d = X.shape[1]
        return self

    def transform(self, X):
        return X[:, self.get_support()]

    def get_support(self):
        return np.arange(self.d) == self.d - 1

    def __sklearn_clone__(self):
        return Barest()


def methods(n_clusters=3, **how):
    """One of each, with the first column as the suspect where there is one."""
    return [
        PlainKMeans(n_clusters, **how),
        PlainKMeans(n_clusters, suspects=0, **how),
        PCAKMeans(n_clusters, **how),
        PCAKMeans(n_clusters, whiten=True, **how),
        DropKMeans(n_clusters, **how),
        DecorrelatedKMeans(n_clusters, **how),
        DecorrelatedKMeans(n_clusters, suspects=0, weights="converged", **how),
        RegressOutKMeans(n_clusters, suspects=0, **how),
        SelectKMeans(VarianceThreshold(), n_clusters, **how),
        SelectKMeans(FirstColumns(2), n_clusters, **how),
    ]


def takes_weights(model):
    return not (isinstance(model, PCAKMeans) or getattr(model, "weights", "") == "paper")


def name(model):
    return repr(model).replace("\n", " ")[:60]


each = pytest.mark.parametrize("model", methods(init="principal"), ids=name)
each_with_weights = pytest.mark.parametrize(
    "model", [m for m in methods(init="principal") if takes_weights(m)], ids=name
)


def make_groups(seed=0, n=90, k=3, d=5):
    """Groups, and a first column that follows them now and then."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = rng.normal(size=(n, d)) + 3 * rng.normal(size=(k, d))[y]
    X[:, 0] = np.where(rng.random(n) < 0.7, y == 0, rng.random(n) < 0.5)
    return X, y, rng


# ------------------------------------------------------------------------------ scikit-learn
def expected_failures(model):
    failing = {}
    why = (
        "a random start draws other numbers for other rows; with init='principal' the check passes"
    )
    if takes_weights(model) and isinstance(model.init, str) and model.init == "partition":
        failing["check_sample_weight_equivalence_on_dense_data"] = why
        failing["check_sample_weight_equivalence_on_sparse_data"] = why
    if getattr(model, "weights", "") == "paper":
        why = "the authors' steps are defined for weights 0 and 1 only, and say so"
        for check in (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
            "check_sample_weights_list",
            "check_sample_weights_not_overwritten",
        ):
            failing[check] = why
    return failing


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # 2 distinct rows
@parametrize_with_checks(
    [
        *methods(n_init=1, random_state=0),
        *(
            m
            for m in methods(init="principal")
            if takes_weights(m) and m.get_params().get("suspects") == 0
        ),
        SelectKMeans(VarianceThreshold(), 3, init="principal"),
        DropKMeans(3, init="principal"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@each
def test_clone_and_params_keep_what_was_given(model):
    same = clone(model)
    assert repr(same) == repr(model)
    assert same.set_params(n_clusters=5).get_params()["n_clusters"] == 5


@each
def test_works_at_the_end_of_a_pipeline(model):
    X, _, _ = make_groups()
    pipeline = make_pipeline(StandardScaler(), model).fit(X)
    np.testing.assert_array_equal(pipeline.predict(X), pipeline[-1].labels_)
    assert pipeline.transform(X).shape == (90, 3)
    assert pipeline[-1].get_feature_names_out().size == 3


# ------------------------------------------------------------------------------ one start for all
@pytest.mark.parametrize("init", ["partition", "random", "k-means++", "principal"])
def test_starts_are_those_of_dckm(init, monkeypatch):
    X, _, _ = make_groups()
    drawn = {_clusterer: [], _base: []}
    for module in drawn:
        original = module.init_clusters

        def record(*given, module=module, original=original):
            drawn[module].append(original(*given))
            return drawn[module][-1]

        monkeypatch.setattr(module, "init_clusters", record)
    how = {"init": init, "n_init": 3, "random_state": 7}
    DCKM(3, n_threads=1, **how).fit(X)
    PlainKMeans(3, **how).fit(X)
    assert len(drawn[_clusterer]) == len(drawn[_base]) == (1 if init == "principal" else 3)
    for theirs, ours in zip(drawn[_clusterer], drawn[_base]):
        np.testing.assert_array_equal(ours.labels, theirs.labels)
        np.testing.assert_allclose(ours.C, theirs.C, rtol=1e-12)


@pytest.mark.parametrize("init", ["partition", "principal"])
def test_every_method_starts_from_the_same_partition(init, monkeypatch):
    X, _, _ = make_groups()
    X[:, 0] /= 1000  # too small to turn the first component where it is left out
    drawn, original = [], _base.init_clusters
    monkeypatch.setattr(
        _base, "init_clusters", lambda *given: drawn.append(original(*given)) or drawn[-1]
    )
    for model in methods(init=init, n_init=1, random_state=3):
        model.fit(X)
    for one in drawn[1:]:
        np.testing.assert_array_equal(one.labels, drawn[0].labels)


def test_dckm_with_weights_fixed_at_one_finds_what_k_means_finds():
    X, _, _ = make_groups()
    how = {"n_init": 4, "random_state": 1, "suspects": 0}
    fixed = {"adjust": "weights", "balance_strength": 0, "spread_strength": 1e6}
    joint = DCKM(3, n_threads=1, **fixed, **how).fit(X)
    plain = PlainKMeans(3, **how).fit(X)
    np.testing.assert_array_equal(joint.labels_, plain.labels_)
    np.testing.assert_allclose(joint.cluster_centers_, plain.cluster_centers_, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_plain_from_labels_is_scikit_learn_from_their_means(weighted):
    X, y, rng = make_groups()
    start = rng.integers(0, 3, y.size)
    w = rng.uniform(0.5, 2, y.size) if weighted else np.ones(y.size)
    means = np.stack([np.average(X[start == k], axis=0, weights=w[start == k]) for k in range(3)])
    theirs = KMeans(3, init=means, n_init=1).fit(X, sample_weight=w)
    ours = PlainKMeans(3, init=start).fit(X, sample_weight=w)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-12)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-10)
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-6)


@each
def test_centres_given_in_columns_start_as_their_partition_does(model):
    X, y, rng = make_groups()
    start = rng.integers(0, 3, y.size)
    w = np.ones(y.size)
    if isinstance(model, DecorrelatedKMeans):  # its means are weighted by what it learns
        w = clone(model).fit(X).weights_
    means = np.stack([np.average(X[start == k], axis=0, weights=w[start == k]) for k in range(3)])
    by_labels = clone(model).set_params(init=start).fit(X)
    by_centres = clone(model).set_params(init=means).fit(X)
    np.testing.assert_array_equal(by_labels.labels_, by_centres.labels_)
    assert by_labels.n_iter_ == by_centres.n_iter_


def test_more_starts_never_end_higher():
    X, _, _ = make_groups(seed=4, k=6)
    ends = [PlainKMeans(6, n_init=m, random_state=0).fit(X).inertia_ for m in (1, 3, 10)]
    assert ends[0] >= ends[1] >= ends[2]


def test_labels_without_a_member_are_refilled():
    X, _, _ = make_groups()
    start = np.zeros(len(X), dtype=int)
    assert np.unique(PlainKMeans(3, init=start).fit(X).labels_).size == 3


# ------------------------------------------------------------------------------ what each does
@each
def test_predict_repeats_the_labels_of_the_fit(model):
    X, _, _ = make_groups()
    fitted = clone(model).fit(X)
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)
    np.testing.assert_array_equal(fitted.transform(X).argmin(1), fitted.labels_)
    np.testing.assert_array_equal(clone(model).fit_predict(X), fitted.labels_)
    assert fitted.cluster_centers_.shape == (3, 5)
    if not isinstance(model, DecorrelatedKMeans):
        assert fitted.score(X) == pytest.approx(-fitted.inertia_ / len(X))


@each
def test_sparse_rows_are_the_same_rows(model):
    if not get_tags(model).input_tags.sparse:
        pytest.skip("its selector takes no sparse rows")
    X, _, rng = make_groups()
    X = X * (rng.random(X.shape) < 0.7)
    dense, sparse = clone(model).fit(X), clone(model).fit(sp.csr_array(X))
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)
    np.testing.assert_allclose(dense.cluster_centers_, sparse.cluster_centers_, atol=1e-9)
    np.testing.assert_array_equal(sparse.predict(sp.csr_array(X)), dense.labels_)


def test_indices_of_64_bits_and_repeated_entries_are_read():
    X, _, rng = make_groups()
    X = X * (rng.random(X.shape) < 0.7)
    i, j = np.nonzero(X)
    halves = np.r_[X[i, j], X[i, j]] / 2, np.r_[j, j], np.r_[i, i]
    order = np.argsort(halves[2], kind="stable")
    data, columns, row = (part[order] for part in halves)
    start = np.searchsorted(row, np.arange(len(X) + 1))
    twice = sp.csr_array((data, columns.astype(np.int64), start.astype(np.int64)), shape=X.shape)
    for model in methods(init="principal"):
        if get_tags(model).input_tags.sparse:
            np.testing.assert_array_equal(model.fit(twice).labels_, clone(model).fit(X).labels_)


def test_plain_without_suspects_does_not_see_them():
    X, _, rng = make_groups()
    loud = X.copy()
    loud[:, 2] = 1e6 * rng.normal(size=len(X))
    quiet = PlainKMeans(3, random_state=0).fit(np.delete(X, 2, axis=1))
    model = PlainKMeans(3, suspects=[2], random_state=0).fit(loud)
    np.testing.assert_array_equal(model.labels_, quiet.labels_)
    means = [loud[model.labels_ == k, 2].mean() for k in range(3)]
    np.testing.assert_allclose(model.cluster_centers_[:, 2], means)


def test_suspects_are_found_by_name():
    pandas = pytest.importorskip("pandas")
    X, _, _ = make_groups()
    table = pandas.DataFrame(X, columns=["site", "b", "c", "d", "e"])
    for make in (PlainKMeans, RegressOutKMeans, DecorrelatedKMeans):
        by_name = make(3, suspects="site", random_state=0).fit(table)
        by_index = make(3, suspects=0, random_state=0).fit(X)
        np.testing.assert_array_equal(by_name.labels_, by_index.labels_)


def test_pca_keeps_one_component_less_than_clusters():
    X, _, _ = make_groups()
    assert PCAKMeans(4, random_state=0).fit(X).n_components_ == 3
    assert PCAKMeans(1, random_state=0).fit(X).n_components_ == 1
    assert PCAKMeans(9, random_state=0).fit(X).n_components_ == 5
    assert PCAKMeans(3, n_components=4, random_state=0).fit(X).n_components_ == 4


def test_whitened_components_count_alike():
    X, _, _ = make_groups()
    model = PCAKMeans(3, whiten=True, random_state=0).fit(X)
    np.testing.assert_allclose(model.pca_.transform(X).var(axis=0, ddof=1), 1)


def test_whitening_does_not_blow_up_components_without_variance():
    X, y, _ = make_groups()
    line = X[:, 1:2] * np.array([1.0, 2.0, 3.0])
    model = PCAKMeans(3, n_components=3, whiten=True, init=y).fit(line)
    assert model.n_components_ == 1
    np.testing.assert_array_equal(model.labels_, PlainKMeans(3, init=y).fit(line).labels_)


def test_drop_drops_the_copy_of_a_column_and_keeps_the_first():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200))
    X = np.c_[a, b, -2 * a + 5, np.ones(200), b + 0.1 * a, np.zeros(200)]
    model = DropKMeans(2, random_state=0).fit(X)
    np.testing.assert_array_equal(model.kept_, [0, 1, 3, 5])
    assert model.n_dropped_ == 2
    kept = PlainKMeans(2, random_state=0).fit(X[:, model.kept_])
    np.testing.assert_array_equal(model.labels_, kept.labels_)


def test_drop_uses_only_columns_it_kept():
    # b is dropped for a (r = 0.8); c goes with b (r = 0.8) but not with a (r = 0.28), so c stays.
    ones, noise = np.ones(50), np.random.default_rng(0).normal(size=(50, 2))
    a, e = np.linalg.qr(np.c_[ones, noise])[0][:, 1:].T
    b, c = 0.8 * a + 0.6 * e, 0.28 * a + 0.96 * e
    np.testing.assert_array_equal(DropKMeans(2).fit(np.c_[a, b, c]).kept_, [0, 2])
    np.testing.assert_array_equal(DropKMeans(2).fit(np.c_[b, a, c]).kept_, [0])
    np.testing.assert_array_equal(DropKMeans(2, threshold=0.81).fit(np.c_[b, a, c]).kept_, range(3))


def test_drop_is_not_fooled_by_columns_far_from_zero():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) + 1e7
    np.testing.assert_array_equal(DropKMeans(2, random_state=0).fit(X).kept_, [0, 1])


@pytest.mark.parametrize("weighted", [False, True])
def test_regressing_out_leaves_no_correlation_with_the_suspects(weighted):
    X, y, rng = make_groups()
    site = np.eye(3)[np.where(rng.random(y.size) < 0.5, y, rng.integers(0, 3, y.size))]
    dose = 1e-6 * rng.normal(size=(y.size, 1))
    X = np.hstack([site, X[:, 1:] + site @ rng.normal(size=(3, 4)) + 1e6 * dose, dose])
    a = rng.uniform(0, 2, y.size) if weighted else None
    model = RegressOutKMeans(3, suspects=[0, 1, 2, -1], random_state=0).fit(X, sample_weight=a)
    Y = X - (X - np.average(X, axis=0, weights=a))[:, [0, 1, 2, 7]] @ model.coef_
    r = np.cov(Y.T, aweights=a)[np.ix_([0, 1, 2, 7], range(3, 7))]
    np.testing.assert_allclose(r / np.array([1, 1, 1, 1e-6])[:, None], 0, atol=1e-10)
    np.testing.assert_allclose(np.average(Y - X, axis=0, weights=a), 0, atol=1e-10)
    assert model.coef_.shape == (4, 8)
    assert not model.coef_[:, [0, 1, 2, 7]].any()


def test_regressing_out_by_hand():
    # Two sites, 0 and 10 apart; groups 2 apart within each: means by site are the effect.
    site = np.array([0, 0, 0, 0, 1, 1, 1, 1.0])
    x = np.array([0, 0, 2, 2, 10, 10, 12, 12.0])
    model = RegressOutKMeans(2, suspects=0, random_state=0).fit(np.c_[site, x])
    np.testing.assert_allclose(model.coef_, [[0, 10]], atol=1e-12)
    assert adjusted_rand_score(model.labels_, [0, 0, 1, 1, 0, 0, 1, 1]) == 1
    np.testing.assert_allclose(np.sort(model.cluster_centers_[:, 1]), [5, 7])
    raw = clone(model).set_params(predict_on="raw").fit(np.c_[site, x])
    np.testing.assert_array_equal(raw.labels_, model.labels_)
    high = np.argmax(model.cluster_centers_[:, 1])
    new = [[0, 6.5], [1, 6.5]]
    np.testing.assert_array_equal(raw.predict(new) == high, [True, True])
    np.testing.assert_array_equal(model.predict(new) == high, [True, False])


def test_raw_prediction_spares_the_classes_of_an_unbiased_population():
    data = make_site_footprint(2000, rate=0.8, random_state=0)
    found = {}
    for on in ("corrected", "raw"):
        model = RegressOutKMeans(4, suspects=data.suspects, predict_on=on, random_state=0)
        labels = model.fit(data.X).predict(data.X_population)
        found[on] = adjusted_rand_score(data.y_population, labels)
    assert found["raw"] > 0.85 > 0.75 > found["corrected"]


@pytest.mark.parametrize("weights", ["paper", "converged"])
def test_decorrelated_is_plain_k_means_with_its_weights(weights):
    data = make_site_footprint(400, random_state=0)
    rng = np.random.default_rng(0)
    start, suspects = rng.integers(0, 4, 400), data.suspects
    two_step = DecorrelatedKMeans(4, weights=weights, suspects=suspects, init=start).fit(data.X)
    plain = PlainKMeans(4, suspects=suspects, init=start)
    plain.fit(data.X, sample_weight=two_step.weights_)
    np.testing.assert_array_equal(two_step.labels_, plain.labels_)
    np.testing.assert_allclose(two_step.cluster_centers_, plain.cluster_centers_)
    assert two_step.inertia_ == pytest.approx(plain.inertia_)
    assert two_step.imbalance_ < two_step.initial_imbalance_
    w = two_step.weights_
    assert two_step.effective_sample_size_ == pytest.approx(w.sum() ** 2 / (w @ w) / 400)


def test_suspects_stay_in_the_distance_on_request():
    data = make_site_footprint(300, random_state=0)
    how = {"suspects": data.suspects, "init": "principal"}
    rest = DecorrelatedKMeans(4, **how).fit(data.X)
    both = DecorrelatedKMeans(4, cluster_on="all", **how).fit(data.X)
    np.testing.assert_array_equal(rest.weights_, both.weights_)
    far = data.X.astype(float)
    far[:, data.suspects] *= 100
    np.testing.assert_allclose(rest.transform(far), rest.transform(data.X))
    assert not np.allclose(both.transform(far), both.transform(data.X))


def test_select_clusters_on_the_columns_of_the_selector():
    X, _, _ = make_groups()
    for selector, kept in ((FirstColumns(2), [0, 1]), (Barest(), [4])):
        model = SelectKMeans(selector, 3, random_state=0).fit(X)
        np.testing.assert_array_equal(model.kept_, kept)
        plain = PlainKMeans(3, random_state=0).fit(X[:, kept])
        np.testing.assert_array_equal(model.labels_, plain.labels_)
        assert model.selector_ is not selector
    wide = SelectKMeans(VarianceThreshold(), 3, random_state=0).fit(np.c_[np.ones(90), X])
    np.testing.assert_array_equal(wide.kept_, np.arange(1, 6))


def test_select_gives_weights_to_a_selector_that_takes_them():
    X, _, rng = make_groups()
    a = rng.integers(0, 3, len(X)).astype(float)
    model = SelectKMeans(FirstColumns(2), 3, random_state=0).fit(X, sample_weight=a)
    np.testing.assert_array_equal(model.selector_.seen_, a[a > 0])


# ------------------------------------------------------------------------------ weights
@each_with_weights
def test_weight_two_equals_row_twice(model):
    X, _, rng = make_groups()
    a = rng.integers(0, 3, len(X))
    weighted = clone(model).fit(X, sample_weight=a)
    repeated = clone(model).fit(np.repeat(X, a, axis=0))
    np.testing.assert_array_equal(weighted.labels_, repeated.predict(X))
    # The learned weights of Dec+KM agree to the tolerance of their own solver.
    loose = 1e-3 if isinstance(model, DecorrelatedKMeans) else 1e-9
    np.testing.assert_allclose(
        weighted.cluster_centers_, repeated.cluster_centers_, rtol=loose, atol=loose
    )
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=loose)


@each_with_weights
def test_scaling_weights_changes_no_label(model):
    X, _, rng = make_groups()
    a = rng.uniform(0.1, 2, len(X))
    once, more = (clone(model).fit(X, sample_weight=c * a) for c in (1, 1000))
    np.testing.assert_array_equal(once.labels_, more.labels_)


@each
def test_row_of_weight_zero_is_absent_but_labelled(model):
    if isinstance(model, PCAKMeans):
        pytest.skip("takes no weights")
    X, _, _ = make_groups()
    far = np.r_[X, np.full((2, 5), 1e3)]
    a = np.r_[np.ones(len(X)), 0, 0]
    alone, other = clone(model).fit(X), clone(model).fit(far, sample_weight=a)
    np.testing.assert_array_equal(other.labels_[:-2], alone.labels_)
    np.testing.assert_allclose(other.cluster_centers_, alone.cluster_centers_, rtol=1e-9)
    np.testing.assert_array_equal(other.labels_, other.predict(far))


def test_tolerance_of_k_means_is_weighted_too():
    X, _, rng = make_groups(k=2, n=400)
    X = np.r_[X / 3, 50 * rng.normal(size=(40, 5))]
    a = np.r_[np.full(400, 10), np.full(40, 1)]
    start = rng.integers(0, 4, 440)
    weighted = PlainKMeans(4, init=start, tol=0.05).fit(X, sample_weight=a)
    repeated = PlainKMeans(4, init=np.repeat(start, a), tol=0.05).fit(np.repeat(X, a, axis=0))
    assert weighted.n_iter_ == repeated.n_iter_


# ------------------------------------------------------------------------------ the door
def test_pca_refuses_weights_and_says_why():
    X, _, _ = make_groups()
    with pytest.raises(ValueError, match=r"sample_weight should be None.*PCA has no weights"):
        PCAKMeans(3).fit(X, sample_weight=np.ones(len(X)))
    with pytest.raises(ValueError, match="sample_weight should be None"):
        PCAKMeans(3).fit_predict(X, sample_weight=np.ones(len(X)))
    with pytest.raises(TypeError, match="'weight'"):
        PCAKMeans(3).fit(X, weight=1)
    PCAKMeans(3, random_state=0).fit(X, sample_weight=None)


def test_paper_weights_refuse_design_weights_other_than_zero_and_one():
    X, _, _ = make_groups()
    with pytest.raises(ValueError, match=r"sample_weight has 2.5.*use weights='converged'"):
        DecorrelatedKMeans(3).fit(X, sample_weight=np.full(len(X), 2.5))


@each
def test_more_clusters_than_rows_are_refused(model):
    X, _, _ = make_groups()
    with pytest.raises(ValueError, match="n_clusters=12 should be <= n_samples=8"):
        clone(model).set_params(n_clusters=12).fit(X[:8])


def test_rows_of_weight_zero_are_no_rows_for_clusters():
    X, _, _ = make_groups()
    a = (np.arange(len(X)) < 2).astype(float)
    with pytest.raises(ValueError, match="n_clusters=3 should be <= n_samples=2 of positive"):
        PlainKMeans(3).fit(X, sample_weight=a)


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (PlainKMeans(0), ValueError, "n_clusters=0 should be >= 1"),
        (PlainKMeans(2.5), TypeError, "n_clusters=2.5 should be an integer"),
        (PlainKMeans(3, n_init=0), ValueError, "n_init=0 should be >= 1"),
        (PlainKMeans(3, max_iter=0), ValueError, "max_iter=0 should be >= 1"),
        (PlainKMeans(3, tol=-1), ValueError, "tol=-1 should be >= 0"),
        (PlainKMeans(3, init="best"), ValueError, "init='best' should be one of 'partition'"),
        (PlainKMeans(3, init=[0, 1]), ValueError, "init has 2 labels but X has 90 rows"),
        (PlainKMeans(3, init=np.zeros((3, 2))), ValueError, r"\(3, 5\)"),
        (PlainKMeans(3, suspects="site"), ValueError, "names 'site' but X has no column names"),
        (PlainKMeans(3, suspects=range(5)), ValueError, r"every column \(n_features=5\)"),
        (PlainKMeans(3, suspects=[]), ValueError, r"suspects=\[\] names no column"),
        (RegressOutKMeans(3, suspects=None), ValueError, "suspects=None should name the columns"),
        (RegressOutKMeans(3, suspects=9), ValueError, "index 9 but X has 5 columns"),
        (RegressOutKMeans(3, suspects=0, predict_on="x"), ValueError, "predict_on='x' should be"),
        (DropKMeans(3, threshold=1.2), ValueError, r"threshold=1.2 should be in \[0, 1\]"),
        (PCAKMeans(3, n_components=6), ValueError, r"n_components=6 should be in \[1, 5\]"),
        (PCAKMeans(3, n_components=0.9), TypeError, "n_components=0.9 should be an integer"),
        (DecorrelatedKMeans(3, weights="x"), ValueError, "weights='x' should be one of 'paper'"),
        (DecorrelatedKMeans(3, cluster_on="x"), ValueError, "cluster_on='x' should be one of"),
        (DecorrelatedKMeans(3, spread_strength=1), ValueError, "spread_strength=1 should be None"),
        (SelectKMeans(StandardScaler(), 3), TypeError, "should be a scikit-learn selector"),
        (SelectKMeans(VarianceThreshold, 3), TypeError, "should be a scikit-learn selector"),
        (SelectKMeans(FirstColumns(0), 3), ValueError, "selects none of 5 columns"),
    ],
)
def test_bad_input_is_refused_with_value_and_rule(model, error, words):
    X, _, _ = make_groups()
    with pytest.raises(error, match=words):
        model.fit(X)


@each
def test_rows_whose_squares_overflow_or_underflow_are_refused(model):
    X = np.random.default_rng(0).normal(size=(40, 3))
    for scale, words in ((1e160, "should be <= 1.68e"), (1e-160, "should be >= 1.15e-128")):
        with pytest.raises(ValueError, match=words):
            clone(model).fit(X * scale)
    own = clone(model).fit(X)
    for method in (own.predict, own.transform, own.score):
        with pytest.raises(ValueError, match=r"X has a value of size .* should be <= 1.68e\+135"):
            method(X * 1e160)


def test_fewer_distinct_rows_than_clusters_warns_once():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 5, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\)") as printed:
        PlainKMeans(3, n_init=4, random_state=0).fit(X)
    assert len(printed) == 1


@each
def test_constant_data_are_one_cluster(model):
    if isinstance(model, SelectKMeans):
        pytest.skip("VarianceThreshold keeps nothing")
    fitted = clone(model).set_params(n_clusters=1).fit(np.ones((6, 4)))
    assert fitted.inertia_ == pytest.approx(0, abs=1e-20)
    np.testing.assert_allclose(fitted.cluster_centers_, np.ones((1, 4)))


def test_a_fit_cut_short_warns():
    X, _, _ = make_groups()
    with pytest.warns(ConvergenceWarning, match="reached max_iter=1 iterations"):
        PlainKMeans(3, max_iter=1, random_state=0).fit(X)


def test_a_failed_fit_leaves_the_last_one_whole():
    X, _, _ = make_groups()
    model = PlainKMeans(3, random_state=0).fit(X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="n_clusters=3"):
        model.fit(np.ones((2, X.shape[1] + 2)))
    assert vars(model) == before


def test_text_is_refused_with_a_way_out():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"site": ["York", "Oslo"] * 10, "x": np.arange(20.0)})
    for method in (PlainKMeans(2, suspects=["site"]), RegressOutKMeans(2, suspects=["site"])):
        with pytest.raises(
            ValueError, match=r"column 'site' of X has dtype .*diagnostics\.compare"
        ):
            method.fit(table)
