"""DCKM and DecorrelationWeights as estimators: laws of weights, bits, manners, refusals."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from unskew import DCKM, DecorrelationWeights
from unskew.simulate import make_site_footprint

RANDOM_STARTS = (
    "a random start draws from n rows, so weighted and repeated rows draw different starts: "
    "the law holds in distribution only (it holds exactly for init='principal')"
)


def expected_failures(estimator):
    if isinstance(estimator, DCKM) and estimator.init == "partition":
        return {
            "check_sample_weight_equivalence_on_dense_data": RANDOM_STARTS,
            "check_sample_weight_equivalence_on_sparse_data": RANDOM_STARTS,
        }
    return {}


@parametrize_with_checks(
    # Two starts instead of ten, since the others repeat what the second one does, and a large
    # tolerance: the checks do not depend on either.
    [
        DCKM(n_init=2, tol=1e-2),
        DCKM(init="principal"),
        DecorrelationWeights(),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore")  # tiny max_iter and duplicated points are part of the checks
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return make_site_footprint(400, rate=0.8, random_state=0)


# --- what it is for


def test_naming_the_site_recovers_the_groups_of_the_population():
    scores = {"k-means": [], "unskew": []}
    for seed in range(3):
        data = make_site_footprint(2000, rate=0.8, random_state=seed)
        rest = np.r_[data.core, data.footprint]
        plain = KMeans(4, n_init=10, random_state=seed).fit(data.X[:, rest])
        model = DCKM(4, suspects=data.suspects, n_init=3, random_state=seed).fit(data.X)
        scores["k-means"].append(
            adjusted_rand_score(data.y_population, plain.predict(data.X_population[:, rest]))
        )
        scores["unskew"].append(
            adjusted_rand_score(data.y_population, model.predict(data.X_population))
        )
    assert np.mean(scores["k-means"]) < 0.5
    assert np.mean(scores["unskew"]) > 0.88


def test_without_bias_nothing_is_lost():
    lost = []
    for seed in range(3):
        data = make_site_footprint(2000, rate=0.0, random_state=seed)
        rest = np.r_[data.core, data.footprint]
        plain = KMeans(4, n_init=10, random_state=seed).fit(data.X[:, rest])
        model = DCKM(4, suspects=data.suspects, n_init=3, random_state=seed).fit(data.X)
        lost.append(
            adjusted_rand_score(data.y_population, plain.predict(data.X_population[:, rest]))
            - adjusted_rand_score(data.y_population, model.predict(data.X_population))
        )
    assert np.mean(lost) < 0.01


def test_weights_without_clusters_lower_the_imbalance(data):
    model = DecorrelationWeights(suspects=data.suspects).fit(data.X)
    assert model.imbalance_ < 0.5 * model.initial_imbalance_
    assert model.weights_.mean() == pytest.approx(1)
    assert model.status_ == "converged"


def test_suspect_pairs_only_enter_the_loss(data):
    # A column that only correlates with another unnamed column changes nothing.
    copies = np.c_[data.X, data.X[:, 0]]
    names = list(data.suspects)
    a = DecorrelationWeights(suspects=names).fit(data.X)
    b = DecorrelationWeights(suspects=names).fit(copies)
    pairs = len(names) * data.core.size + len(names) * data.footprint.size
    assert a.initial_imbalance_ < b.initial_imbalance_  # the copy meets the suspects, once each way
    assert b.initial_imbalance_ < a.initial_imbalance_ * (1 + 8 * 2 / pairs * 4)


@pytest.mark.parametrize("cluster_on", ["non_suspects", "all"])
def test_cluster_on_decides_what_the_distance_is_made_of(data, cluster_on):
    model = DCKM(
        4,
        suspects=data.suspects,
        cluster_on=cluster_on,
        adjust="weights",
        balance_strength=0,
        n_init=2,
        random_state=0,
    ).fit(data.X)
    moved = data.X.copy()
    moved[:, data.suspects] = 50 * np.arange(4)
    same = (model.predict(moved) == model.labels_).all()
    assert same == (cluster_on == "non_suspects")
    assert model.cluster_centers_.shape == (4, data.X.shape[1])


def test_adjust_auto_removes_effects_where_that_applies(data):
    how = {"suspects": data.suspects, "n_init": 1, "random_state": 0}
    auto, both = (DCKM(4, adjust=each, **how).fit(data.X) for each in ("auto", "both"))
    np.testing.assert_array_equal(auto.labels_, both.labels_)
    assert auto.suspect_effects_ is not None
    for X, further in (
        (sp.csr_array(data.X), {}),
        (data.X, {"cluster_on": "all"}),
        (data.X, {"column_scale": "sd"}),
        (data.X, {"row_scale": "unit"}),
    ):
        auto, weights = (
            DCKM(4, adjust=each, **how, **further).fit(X) for each in ("auto", "weights")
        )
        np.testing.assert_array_equal(auto.weights_, weights.weights_)
        assert auto.suspect_effects_ is None


# --- laws of weights


@pytest.mark.parametrize("suspects", [None, [0, 1]])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_weight_two_equals_row_twice(suspects, storage, rng):
    X = np.c_[(rng.random((60, 5)) < 0.4), rng.normal(size=(60, 3))].astype(float)
    a = rng.integers(0, 4, 60)
    twice = np.repeat(np.arange(60), a)
    model = DCKM(3, suspects=suspects, init="principal")
    weighted = clone(model).fit(storage(X), sample_weight=a)
    repeated = clone(model).fit(storage(X[twice]))
    np.testing.assert_array_equal(weighted.labels_[twice], repeated.labels_)
    # The steps agree but for the order of summation; a hundred of them make more of it.
    np.testing.assert_allclose(weighted.weights_[twice], repeated.weights_, atol=1e-4)
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-5)
    for name in ("objective_", "imbalance_", "initial_imbalance_", "effective_sample_size_"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), rel=1e-5)


def test_weight_zero_is_an_absent_row_that_is_labelled(rng):
    X = np.c_[(rng.random((80, 5)) < 0.4), rng.normal(size=(80, 2))].astype(float)
    a = np.ones(80)
    a[60:] = 0
    X[60:, 0] = 7.0  # a third value, but in absent rows
    X[60:, 5] = 1e3
    model = DCKM(3, init="principal").fit(X, sample_weight=a)
    without = DCKM(3, init="principal").fit(X[:60])
    np.testing.assert_array_equal(model.labels_[:60], without.labels_)
    np.testing.assert_allclose(model.weights_[:60], without.weights_, atol=1e-6)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    assert (model.weights_[60:] == 0).all()


def test_scaling_the_design_weights_changes_nothing(data, rng):
    a = rng.random(400)
    one = DCKM(4, init="principal").fit(data.X, sample_weight=a)
    other = DCKM(4, init="principal").fit(data.X, sample_weight=1000 * a)
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-6)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-9)


def test_order_of_rows_and_columns_does_not_matter(data, rng):
    rows, columns = rng.permutation(400), rng.permutation(data.X.shape[1])
    one = DCKM(4, init="principal").fit(data.X)
    other = DCKM(4, init="principal").fit(data.X[rows][:, columns])
    np.testing.assert_array_equal(one.labels_[rows], other.labels_)
    np.testing.assert_allclose(one.weights_[rows], other.weights_, atol=1e-5)


def test_paper_solver_takes_absent_rows(rng):
    X = np.where(rng.random((60, 12)) < 0.5, 1.0, -1.0)
    a = (np.arange(60) < 45).astype(float)
    start = rng.integers(0, 3, 60)
    settings = {"objective": "paper", "solver": "paper", "max_iter": 20, "tol": 0.01}
    model = DCKM(3, init=start, **settings).fit(X, sample_weight=a)
    without = DCKM(3, init=start[:45], **settings).fit(X[:45])
    np.testing.assert_allclose(model.weights_[:45], without.weights_, atol=1e-12)
    np.testing.assert_array_equal(model.labels_[:45], without.labels_)
    assert (model.weights_[45:] == 0).all()


# --- the same bits


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("solver", ["descent", "paper"])
def test_same_bits_for_any_number_of_threads(dtype, solver):
    data = make_site_footprint(6000, random_state=0)  # several tiles
    X = data.X.astype(dtype)
    fits = [
        DCKM(
            4,
            solver=solver,
            objective="normalized" if solver == "descent" else "paper",
            n_init=1,
            max_iter=4,
            random_state=0,
            n_threads=n,
            tol=1e-2,
        ).fit(X)
        for n in (1, 2, 4)
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].weights_, other.weights_)
        np.testing.assert_array_equal(fits[0].cluster_centers_, other.cluster_centers_)
        np.testing.assert_array_equal(fits[0].labels_, other.labels_)


def test_same_bits_in_the_dual_form_for_any_number_of_threads(rng):
    X = (rng.random((300, 3000)) < 0.3).astype(float)
    one, two = (
        DecorrelationWeights(n_threads=n, max_iter=3, tol=1.0).fit(X).weights_ for n in (1, 3)
    )
    np.testing.assert_array_equal(one, two)


def test_fits_in_parallel_threads_keep_their_bits(data):
    from joblib import Parallel, delayed

    def fit(seed):
        return DCKM(4, n_init=1, random_state=seed).fit(data.X).weights_

    alone = [fit(seed) for seed in range(4)]
    together = Parallel(n_jobs=4, backend="threading")(delayed(fit)(seed) for seed in range(4))
    for one, other in zip(alone, together):
        np.testing.assert_array_equal(one, other)


def test_same_seed_same_answer(data):
    for init in ("partition", "random", "k-means++"):
        one = DCKM(4, init=init, n_init=2, random_state=1).fit(data.X)
        two = DCKM(4, init=init, n_init=2, random_state=1).fit(data.X)
        np.testing.assert_array_equal(one.weights_, two.weights_)


# --- storage


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int8, bool, np.int64])
def test_storage_types_find_the_same_clusters(data, dtype):
    # Effects are not removed from sparse rows.
    model = DCKM(4, suspects=data.suspects, adjust="weights", init="principal", tol=1e-3)
    exact = clone(model).fit(data.X)
    for X in (data.X.astype(dtype), sp.csr_array(data.X.astype(dtype))):
        other = clone(model).fit(X)
        assert adjusted_rand_score(exact.labels_, other.labels_) > 0.98
        np.testing.assert_array_equal(other.labels_, other.predict(X))
        assert other.transform(X).shape == (400, 4)


def test_float32_stays_float32(data):
    model = DCKM(4, n_init=1, random_state=0).fit(data.X.astype(np.float32))
    assert model.cluster_centers_.dtype == np.float32
    assert model.transform(data.X.astype(np.float32)).dtype == np.float32


def test_read_only_memory_maps_are_fine(data, tmp_path):
    np.save(tmp_path / "x.npy", data.X)
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    model = DCKM(4, n_init=1, random_state=0)
    np.testing.assert_array_equal(clone(model).fit(X).weights_, clone(model).fit(data.X).weights_)


# --- degenerate data


@pytest.mark.parametrize("solver", ["descent", "paper"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_wild_matrices_give_finite_answers(solver, data):
    n, d = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 5))
    values = st.sampled_from([0.0, 1.0, -1.0, 2.5, 1e6, -1e-3])
    X = np.array(
        data.draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n))
    )
    a = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=n, max_size=n)))
    K = data.draw(st.integers(1, 3))
    if a.sum() < K:
        a[:] = 1.0
    K = min(K, n)
    model = DCKM(
        K,
        solver=solver,
        objective="normalized" if solver == "descent" else "paper",
        n_init=1,
        random_state=0,
        max_iter=5,
    ).fit(X, sample_weight=a)
    for name in ("weights_", "cluster_centers_", "objective_", "imbalance_", "inertia_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert (model.weights_ >= 0).all()


def test_constant_columns_are_ignored(data):
    with_constant = np.c_[data.X, np.full(400, 3.0), np.zeros(400)]
    one = DCKM(4, init="principal").fit(data.X)
    other = DCKM(4, init="principal").fit(with_constant)
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-6)
    np.testing.assert_array_equal(one.labels_, other.labels_)


def test_nothing_to_balance_is_part_of_the_status(rng):
    X = rng.normal(size=(30, 1))
    model = DCKM(2, n_init=1, random_state=0).fit(X)
    assert model.status_.startswith("converged")
    assert "balance left out" in model.status_
    assert model.imbalance_ == model.initial_imbalance_ == 0
    same = DCKM(2, n_init=1, random_state=0, init="random")
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        same.fit(np.ones((10, 3)))
    assert "inertia left out" in same.status_
    np.testing.assert_allclose(same.weights_, 1)


def test_fewer_distinct_rows_than_clusters_warns(data):
    X = np.repeat(np.eye(3), 5, axis=0)
    with pytest.warns(ConvergenceWarning, match="smaller than n_clusters"):
        model = DCKM(5, n_init=1, random_state=0).fit(X)
    assert np.isfinite(model.cluster_centers_).all()


# --- manners


def test_arguments_are_stored_as_given(data):
    suspects = list(data.suspects)
    model = DCKM(4, suspects=suspects, n_init=1).fit(data.X)
    assert model.suspects is suspects
    assert clone(model).get_params()["suspects"] == suspects


@pytest.mark.parametrize("as_what", ["names", "indices", "negative", "mask", "one name"])
def test_suspects_by_name_index_or_mask(data, as_what):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(data.X, columns=data.feature_names)
    only_one = as_what == "one name"
    columns = data.suspects[:1] if only_one else data.suspects
    # A table is computed in float32.
    expected = DCKM(4, suspects=list(columns), init="principal").fit(data.X.astype(np.float32))
    named = {
        "names": list(np.array(data.feature_names)[columns]),
        "indices": columns,
        "negative": [int(c) - data.X.shape[1] for c in columns],
        "mask": np.isin(np.arange(data.X.shape[1]), columns),
        "one name": data.feature_names[columns[0]],
    }[as_what]
    model = DCKM(4, suspects=named, init="principal").fit(frame)
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    assert list(model.feature_names_in_) == list(data.feature_names)


def test_predict_transform_and_score_agree(data, rng):
    model = DCKM(4, suspects=data.suspects, n_init=2, random_state=0).fit(data.X)
    np.testing.assert_array_equal(model.predict(data.X), model.labels_)
    distances = model.transform(data.X_population)
    np.testing.assert_array_equal(distances.argmin(1), model.predict(data.X_population))
    a = rng.random(data.X_population.shape[0])
    expected = -np.average(distances.min(1) ** 2, weights=a)
    assert model.score(data.X_population, sample_weight=a) == pytest.approx(expected)
    assert model.score(data.X) == pytest.approx(-np.mean(model.transform(data.X).min(1) ** 2))


def test_pipeline_grid_search_and_output_names(data):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(data.X, columns=data.feature_names)
    pipe = make_pipeline(StandardScaler(), DCKM(4, n_init=1, random_state=0))
    pipe.set_output(transform="pandas")
    out = pipe.fit_transform(frame)
    assert list(out.columns) == ["dckm0", "dckm1", "dckm2", "dckm3"]
    model, strengths = DCKM(4, n_init=1, random_state=0), [0.1, 1.0]
    search = GridSearchCV(model, {"balance_strength": strengths}, cv=KFold(2)).fit(data.X)
    by_hand = [
        np.mean(
            [
                clone(model).set_params(balance_strength=s).fit(data.X[train]).score(data.X[test])
                for train, test in KFold(2).split(data.X)
            ]
        )
        for s in strengths
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand)
    assert search.best_params_ == {"balance_strength": strengths[int(np.argmax(by_hand))]}


def test_sample_weight_is_routed(data, rng):
    a = rng.random(400)
    with sklearn.config_context(enable_metadata_routing=True):
        model = DCKM(4, init="principal").set_fit_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), model)
        routed = pipe.fit(data.X, sample_weight=a)[-1]
    scaled = StandardScaler().fit(data.X, sample_weight=a).transform(data.X)
    direct = DCKM(4, init="principal").fit(scaled, sample_weight=a)
    np.testing.assert_array_equal(routed.weights_, direct.weights_)


def test_fit_predict_takes_sample_weight(data, rng):
    a = rng.random(400)
    one = DCKM(4, init="principal").fit_predict(data.X, sample_weight=a)
    two = DCKM(4, init="principal").fit(data.X, sample_weight=a).labels_
    np.testing.assert_array_equal(one, two)


def test_progress_goes_through_callbacks(data):
    pytest.importorskip("sklearn.callback")

    class Count:
        def __init__(self):
            self.ended, self.open = [], 0

        def setup(self, estimator, context):
            self.open += 1

        def teardown(self, estimator, context):
            self.open -= 1

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            self.ended.append(context.task_name)

    count = Count()
    model = DCKM(4, n_init=2, random_state=0).set_callbacks(count)
    model.fit(data.X)
    assert count.ended.count("restart") == 2
    assert count.ended.count("iteration") >= 2 + model.n_iter_ - 1
    assert count.ended[-1] == "fit"
    assert count.open == 0
    weights = DecorrelationWeights().set_callbacks(count).fit(data.X)
    assert count.ended.count("iteration") > weights.n_iter_


@pytest.mark.parametrize("init", ["random", "k-means++", "principal", "labels", "centres"])
def test_starts_lead_to_clusters(data, init):
    given = {
        "labels": data.y,
        "centres": np.stack([data.X[data.y == k].mean(0) for k in range(4)]),
    }.get(init, init)
    model = DCKM(4, suspects=data.suspects, init=given, n_init=3, random_state=0).fit(data.X)
    assert adjusted_rand_score(data.y, model.labels_) > 0.5


def test_centres_of_a_fit_are_a_start(data):
    first = DCKM(4, suspects=data.suspects, init="principal", tol=1e-6).fit(data.X)
    again = DCKM(4, suspects=data.suspects, init=first.cluster_centers_, tol=1e-6).fit(data.X)
    assert adjusted_rand_score(first.labels_, again.labels_) > 0.9


# --- bad input

BAD_PARAMETERS = [
    ({"n_clusters": 0}, ValueError, r"n_clusters=0 should be >= 1"),
    ({"n_clusters": 500}, ValueError, r"n_clusters=500 should be <= n_samples=400"),
    ({"n_clusters": 2.5}, TypeError, r"n_clusters=2.5 should be an integer"),
    ({"n_clusters": "4"}, TypeError, r"n_clusters='4' should be an integer, not str"),
    ({"verbose": "yes"}, TypeError, r"verbose='yes' should be an integer"),
    ({"init": np.full(400, 0.5)}, ValueError, r"init has label 0.5; labels should be integers"),
    ({"n_clusters": "auto"}, ValueError, r"n_clusters='auto' should be a number"),
    ({"balance_strength": "auto"}, ValueError, r"balance_strength='auto' should be a number"),
    ({"balance_strength": -1}, ValueError, r"balance_strength=-1 should be >= 0"),
    ({"spread_strength": np.inf}, ValueError, r"spread_strength=inf should be finite"),
    ({"spread_strength": np.nan}, ValueError, r"spread_strength=nan"),
    (
        {"mass_strength": 1.0},
        ValueError,
        r"mass_strength=1.0 has no meaning with objective='normalized'",
    ),
    (
        {"mass_strength": 1.0, "objective": "paper"},
        ValueError,
        r"mass_strength=1.0 has no meaning with solver='descent'",
    ),
    ({"solver": "paper"}, ValueError, r"solver='paper' is defined for objective='paper' only"),
    (
        {"solver": "paper", "objective": "paper", "min_effective_sample_size": 0.5},
        ValueError,
        r"min_effective_sample_size=0.5 has no meaning with solver='paper'",
    ),
    (
        {"min_effective_sample_size": 0.0},
        ValueError,
        r"min_effective_sample_size=0.0 should be in \(0, 1\]",
    ),
    (
        {"min_effective_sample_size": 1.5},
        ValueError,
        r"min_effective_sample_size=1.5 should be in \(0, 1\]",
    ),
    (
        {"objective": "absolute"},
        ValueError,
        r"objective='absolute' should be one of 'normalized', 'paper'",
    ),
    ({"solver": "newton"}, ValueError, r"solver='newton' should be one of"),
    ({"cluster_on": "suspects"}, ValueError, r"cluster_on='suspects' should be one of"),
    ({"init": "best"}, ValueError, r"init='best' should be one of"),
    ({"init": np.zeros(7, int)}, ValueError, r"init has 7 labels but X has 400 rows"),
    ({"init": np.full(400, 9)}, ValueError, r"init has label 9; labels should be in 0..3"),
    ({"init": np.zeros((4, 2))}, ValueError, r"init has shape \(4, 2\)"),
    ({"init": np.full((4, 80), np.nan)}, ValueError, r"init\[0, 0\]=nan should be finite"),
    ({"init": [object()]}, TypeError, r"init should be one of"),
    ({"n_init": 0}, ValueError, r"n_init=0 should be in"),
    ({"n_bins": 1}, ValueError, r"n_bins=1 should be in"),
    ({"max_iter": 0}, ValueError, r"max_iter=0 should be >= 1"),
    ({"tol": -1e-3}, ValueError, r"tol=-0.001 should be >= 0"),
    ({"n_threads": 0}, ValueError, r"n_threads=0 should be >= 1"),
    ({"suspects": []}, ValueError, r"suspects=\[\] names no column"),
    ({"suspects": np.ones(80, bool)}, ValueError, r"names all 80 columns"),
    ({"suspects": np.ones(3, bool)}, ValueError, r"mask of 3 entries but X has 80 columns"),
    ({"suspects": [99]}, ValueError, r"suspects has index 99 but X has 80 columns"),
    ({"suspects": ["site"]}, ValueError, r"names 'site' but X has no column names"),
    ({"suspects": [1.5]}, TypeError, r"suspects has 1.5 \(float\)"),
    ({"suspects": {"site": 1}}, (TypeError, ValueError), r"suspects"),
]


@pytest.mark.parametrize(("parameters", "error", "message"), BAD_PARAMETERS)
def test_bad_parameters_name_value_and_rule(data, parameters, error, message):
    with pytest.raises(error, match=message):
        DCKM(**{"n_clusters": 4, "n_init": 1} | parameters).fit(data.X)


def test_unknown_names_list_the_columns(data):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(data.X, columns=data.feature_names)
    with pytest.raises(
        ValueError, match=r"names 'clinic', which is not a column of X; columns: 'co"
    ):
        DCKM(4, suspects=["clinic"]).fit(frame)


BAD_WEIGHTS = [
    (-np.ones(400), r"sample_weight\[0\]=-1.0 should be >= 0"),
    (np.zeros(400), r"sample_weight is zero for every row"),
    (np.ones(3), r"sample_weight has shape \(3,\) but X has 400 rows"),
    (np.full(400, np.nan), r"sample_weight\[0\]=nan should be finite"),
    (np.r_[np.ones(2), np.zeros(398)], r"n_clusters=4 should be <= n_samples=2 of positive weight"),
]


@pytest.mark.parametrize(("weights", "message"), BAD_WEIGHTS)
def test_bad_weights_name_value_and_rule(data, weights, message):
    with pytest.raises(ValueError, match=message):
        DCKM(4, n_init=1).fit(data.X, sample_weight=weights)


def test_paper_solver_refuses_design_weights(data, rng):
    with pytest.raises(ValueError, match=r"defined for weights 0 and 1 only"):
        DCKM(4, objective="paper", solver="paper").fit(data.X, sample_weight=rng.random(400))


BAD_X = [
    (np.full((5, 2), np.nan), ValueError),
    (np.full((5, 2), np.inf), ValueError),
    (np.ones(5), ValueError),
    (np.zeros((0, 3)), ValueError),
    (np.ones((5, 2), complex), ValueError),
    (np.array([["a", "b"], ["c", "d"]]), ValueError),
    ("text", ValueError),
    (np.ones((2, 3, 4)), ValueError),
]


@pytest.mark.parametrize(("X", "error"), BAD_X)
@pytest.mark.parametrize("estimator", [DCKM(2, n_init=1), DecorrelationWeights()])
def test_bad_data_are_refused(estimator, X, error):
    with pytest.raises((error, TypeError)):
        clone(estimator).fit(X)


def test_values_whose_squares_overflow_are_refused(rng):
    X = rng.normal(size=(20, 3))
    X[3, 1] = 1e200
    with pytest.raises(ValueError, match=r"column 1 of X has values of size 1e\+200"):
        DCKM(2).fit(X)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_name_their_column(rng, value):
    X = rng.normal(size=(20, 3))
    X[3, 1] = value
    for model in (DCKM(2), DecorrelationWeights()):
        with pytest.raises(ValueError, match=r"column 1 of X contains (NaN|inf)"):
            model.fit(X)


def test_a_spread_that_vanishes_in_floating_point_is_refused(rng):
    with pytest.raises(ValueError, match=r"column 0 of X varies by .* Rescale it"):
        DCKM(2).fit(rng.normal(size=(20, 3)) * 1e-200)


def test_weights_on_few_rows_warn(data):
    with pytest.warns(
        UserWarning, match=r"few rows have most of the weight. Raise spread_strength"
    ):
        DCKM(4, balance_strength=0, spread_strength=0, n_init=1, random_state=0).fit(data.X)


# --- what a review found


@pytest.mark.filterwarnings("ignore:The effects of")  # few rows of a poor solution
def test_shares_of_the_suspects_are_fixed(rng):
    data = make_site_footprint(600, rate=0.9, random_state=0)
    a = rng.random(600) + 0.5
    X = np.c_[data.X, rng.normal(size=600) + data.y]  # a continuous suspect beside the sites
    suspects = [*data.suspects, X.shape[1] - 1]
    for model in (
        DCKM(4, suspects=suspects, n_init=1, random_state=0),
        DecorrelationWeights(suspects=suspects, tol=1e-6, max_iter=500),
        DCKM(4, suspects=suspects, n_init=1, random_state=0, min_effective_sample_size=0.6),
    ):
        w = a * model.fit(X, sample_weight=a).weights_
        before = np.bincount(data.site, a) / a.sum()
        np.testing.assert_allclose(np.bincount(data.site, w) / w.sum(), before, atol=1e-9)
        assert model.imbalance_ < model.initial_imbalance_
        assert (np.diff(model.history_["objective"]) <= 0).all()


def test_many_suspects_in_few_rows_leave_the_weights_free(rng):
    X = (rng.random((60, 80)) < 0.4).astype(float)
    model = DecorrelationWeights(suspects=range(40)).fit(X)
    assert model.imbalance_ < model.initial_imbalance_
    assert np.ptp(model.weights_) > 0.1


def test_imbalance_is_measured_where_the_balance_was_left_out():
    X = np.repeat(np.array(np.meshgrid([0, 1.0], [0, 1.0], [0, 1.0])).reshape(3, -1).T, 5, axis=0)
    model = DCKM(3, init="principal").fit(X)
    assert "balance left out" in model.status_
    assert model.initial_imbalance_ == pytest.approx(0, abs=1e-20)
    assert model.imbalance_ > 0.1


@pytest.mark.parametrize("offset", [1e3, 1e4])
def test_sparse_float32_far_from_zero_agrees_with_dense(rng, offset):
    X = (rng.normal(size=(200, 5)) + 3 * rng.integers(0, 2, 200)[:, None] + offset).astype("f4")
    dense = DCKM(2, init="principal").fit(X)
    sparse = DCKM(2, init="principal").fit(sp.csr_array(X))
    assert sparse.inertia_ == pytest.approx(dense.inertia_, rel=0.02)
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)


def test_a_rare_treatment_counts_in_small_integers_too():
    X = np.zeros((200_000, 2), dtype=np.uint8)
    X[:100_000, 0] = 1
    X[0, 1] = 1
    model = DecorrelationWeights(
        objective="paper", max_iter=1, tol=100.0
    )  # the start is of interest
    small, large = (clone(model).fit(data).initial_imbalance_ for data in (X, X * 1.0))
    assert small == pytest.approx(large, rel=1e-4)
    assert large > 0.2


def test_predict_repeats_the_labels_where_digits_are_few(rng):
    X = (rng.normal(size=(500, 3)) + 1e6).astype(np.float32)
    model = DCKM(4, n_init=1, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_paper_solver_never_predicts_an_empty_cluster(rng):
    X = np.where(rng.random((40, 12)) < 0.5, 1.0, -1.0)
    start = rng.integers(0, 2, 40)  # clusters 2 and 3 have no members
    model = DCKM(4, objective="paper", solver="paper", init=start, max_iter=20, tol=0.01)
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        model.fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_wide_sparse_data_with_a_suspect_stay_sparse(rng, monkeypatch):
    X = sp.random_array((300, 5000), density=0.01, rng=rng, format="csr")
    X.data[:] = 1.0
    X = sp.hstack([sp.csr_array((rng.random((300, 1)) < 0.4) * 1.0), X], format="csr")
    expected = DecorrelationWeights(suspects=[0], max_iter=5, tol=1.0).fit(X.toarray())
    whole = sp.csr_array.toarray

    def narrow_only(matrix, *args, **kwargs):
        # Sums over the rows of a tile and inner products of rows may be dense, the tile not.
        assert matrix.shape[0] == 1 or matrix.shape[1] <= 300, "a wide tile became dense"
        return whole(matrix, *args, **kwargs)

    monkeypatch.setattr(sp.csr_array, "toarray", narrow_only)
    found = DecorrelationWeights(suspects=[0], max_iter=5, tol=1.0).fit(X)
    # Newton's method multiplies rounding: another order of the columns, which changes nothing else,
    # changes weights by up to 2e-7 (measured, by processor).
    np.testing.assert_allclose(found.weights_, expected.weights_, rtol=1e-6)


def test_absent_rows_with_wild_values_change_nothing_in_the_dual_form(rng):
    X = (rng.random((40, 80)) < 0.4).astype(np.float32)
    a = np.ones(40)
    a[0] = 0
    wild = X.copy()
    wild[0] = 1e5
    one = DecorrelationWeights(max_iter=5, tol=1.0).fit(X, sample_weight=a)
    other = DecorrelationWeights(max_iter=5, tol=1.0).fit(wild, sample_weight=a)
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-4)


def test_principal_start_of_constant_wide_data():
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        DCKM(2, init="principal").fit(np.ones((10, 2100)))


def test_a_warning_points_at_the_line_that_called_fit(data):
    with pytest.warns(ConvergenceWarning) as caught:
        DCKM(4, max_iter=1, n_init=1, random_state=0).fit(data.X)
    assert caught[0].filename == __file__


def test_a_failed_fit_leaves_the_estimator_as_it_was(data):
    model = DCKM(4, n_init=1, random_state=0).fit(data.X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="n_clusters=4"):
        model.fit(np.ones((2, 3)))
    assert vars(model) == before
    # Also when it fails at the very end, by a warning that is an error.
    with pytest.raises(ConvergenceWarning):
        model.fit(np.repeat(np.eye(3), 5, axis=0) + 1000)
    assert vars(model) == before
    fresh = DCKM(4)
    with pytest.raises(ValueError, match="n_clusters=4"):
        fresh.fit(np.ones((2, 3)))
    assert not [name for name in vars(fresh) if name.endswith("_")]
