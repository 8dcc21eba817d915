"""Many runs into one clustering; settings chosen without labels."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import check_estimator

import unskew
from unskew import DCKM, ConsensusDCKM, choose_k, choose_strengths
from unskew._mixture.partition import PartitionCriterion
from unskew.consensus import _voting
from unskew.diagnostics import verdict
from unskew.simulate import make_site_footprint, make_sites, make_spurious_background


@pytest.fixture(scope="module")
def biased():
    return make_site_footprint(400, rate=0.7, random_state=0)


def quick(K=4, **given):
    return ConsensusDCKM(K, **{"n_runs": 4, "random_state": 0, **given})


# ------------------------------------------------------------------------------------- the votes


def random_runs(rng, n=60, runs=7, K=3, noise=0.3):
    truth = rng.integers(K, size=n)
    out = []
    for _ in range(runs):
        labels = np.where(rng.random(n) < noise, rng.integers(K, size=n), truth)
        out.append(rng.permutation(K)[labels])
    return truth, np.stack(out).astype(np.int32)


def test_the_vote_finds_what_noisy_runs_share():
    truth, runs = random_runs(np.random.default_rng(0), n=300, runs=15, noise=0.4)
    _, own, confidence = _voting.agree(runs, 3, np.ones(300))
    single = [adjusted_rand_score(truth, each) for each in runs]
    assert adjusted_rand_score(truth, own) > max(single) + 0.2
    assert ((confidence >= 0) & (confidence <= 1)).all()


def test_confidence_is_the_mean_co_association_with_the_own_cluster():
    _, runs = random_runs(np.random.default_rng(1))
    _, own, confidence = _voting.agree(runs, 3, np.ones(60))
    together = _voting.co_association(runs)
    for i in range(60):
        assert confidence[i] == pytest.approx(together[i, own == own[i]].mean(), abs=1e-12)


def test_the_vote_does_not_depend_on_the_names_of_clusters_in_the_runs():
    rng = np.random.default_rng(2)
    _, runs = random_runs(rng)
    renamed = np.stack([rng.permutation(3)[each] for each in runs])
    one, other = (_voting.agree(each, 3, np.ones(60)) for each in (runs, renamed))
    assert adjusted_rand_score(one[1], other[1]) == 1
    assert np.allclose(one[2], other[2])


def test_a_row_of_weight_two_votes_like_two_rows_and_one_of_weight_zero_like_none():
    _, runs = random_runs(np.random.default_rng(3))
    a = np.ones(60)
    a[:20], a[50:] = 2, 0
    which = np.r_[np.arange(50), np.arange(20)]
    weighted = _voting.agree(runs, 3, a)
    repeated = _voting.agree(runs[:, which], 3, np.ones(70))
    assert adjusted_rand_score(weighted[1][:50], repeated[1][:50]) == 1
    assert np.allclose(weighted[2][:50], repeated[2][:50])


def test_many_rows_take_the_linear_form_and_give_the_same(monkeypatch):
    _, runs = random_runs(np.random.default_rng(4), n=500, noise=0.2)
    exact = _voting.agree(runs, 3, np.ones(500))
    monkeypatch.setattr(_voting, "SMALL_N", 10)
    monkeypatch.setattr(_voting, "MAX_LINKAGE_ROWS", 100)
    monkeypatch.setattr(_voting, "PIECE", 64)
    linear = _voting.agree(runs, 3, np.ones(500))
    assert adjusted_rand_score(exact[1], linear[1]) == 1
    assert np.allclose(exact[2], linear[2])


def test_runs_that_all_leave_clusters_empty_are_put_together():
    runs = np.zeros((3, 10), dtype=np.int32)
    _, _, confidence = _voting.agree(runs, 3, np.ones(10))
    assert np.allclose(confidence, 1)
    assert _voting.stability(runs, np.ones(10)) == 1


def test_ties_that_scipy_cannot_link_are_no_error():
    # SciPy 1.17 returns a tree that it refuses itself.
    runs = np.zeros((3, 65), dtype=np.int32)
    runs[0, 1] = 1
    runs[1, [1, 23]] = 1
    runs[2, [1, 2, 7, 12, 17, 23, 37, 47, 56]] = 1
    runs[2, 49] = 2
    _, own, _ = _voting.agree(runs, 3, np.ones(65))
    assert set(own) == {0, 1, 2}


def explained_by(x):
    """Share of the variance of one column that labels explain."""

    def explained(labels):
        inside = sum(((x[labels == k] - x[labels == k].mean()) ** 2).sum() for k in set(labels))
        return 1 - inside / ((x - x.mean()) ** 2).sum()

    return explained


def test_runs_of_a_worse_optimum_do_not_outvote_the_best():
    x = np.repeat([0.0, 0.1, 5.0, 5.1], 15)
    good, bad = np.repeat([0, 0, 1, 1], 15), np.repeat([0, 1, 0, 1], 15)
    runs = np.stack([bad, bad, good, bad, good]).astype(np.int32)
    assert adjusted_rand_score(bad, _voting.agree(runs, 2, np.ones(60))[1]) == 1
    voters, votes, own, confidence = _voting.elect(runs, 2, np.ones(60), explained_by(x), 0.95)
    assert voters.tolist() == [0, 2, 4]  # the better half, of which two are good
    assert adjusted_rand_score(good, own) == 1
    assert confidence.max() < 1
    assert votes.shares.shape[1] == 3


def test_all_runs_vote_where_what_they_agree_on_explains_enough():
    rng = np.random.default_rng(5)
    truth, runs = random_runs(rng)
    x = truth + rng.normal(scale=0.01, size=60)
    voters, _, own, confidence = _voting.elect(runs, 3, np.ones(60), explained_by(x), 0.95)
    assert voters.tolist() == list(range(len(runs)))
    _, same, alike = _voting.agree(runs, 3, np.ones(60))
    assert np.array_equal(own, same)
    assert np.array_equal(confidence, alike)


def test_all_runs_vote_where_there_is_nothing_to_explain():
    _, runs = random_runs(np.random.default_rng(6))
    voters, *_ = _voting.elect(runs, 3, np.ones(60), lambda labels: -1e-16 * (labels[0] + 1), 0.95)
    assert voters.size == len(runs)


def test_vote_does_not_lose_the_solution_of_dckm_where_sites_have_own_groups():
    # Each site has a group of its own, so that most runs from random partitions find other groups.
    data = make_sites(600, n_clusters=5, n_sites=3, n_shared=2, rate=0, shift=1.5, random_state=1)
    how = {"suspects": data.suspects, "random_state": 0}
    model = ConsensusDCKM(5, n_runs=6, **how).fit(data.X)
    selected = next(one for one in model.restarts_ if one["chosen"])
    rest = np.setdiff1d(np.arange(data.X.shape[1]), data.suspects)
    criterion = PartitionCriterion.of_matrix(data.X[:, rest], data.site, np.ones(600))
    assert criterion.bic(model.labels_, 5) <= selected["bic"] * (1 + 1e-9)  # rounding


# --------------------------------------------------------------------------------- the estimator


def test_only_the_best_runs_vote_where_runs_end_in_different_groups():
    # Without bias the background is a second, independent grouping: most starts end in mixtures.
    data = make_spurious_background(500, n_background=36, rate=0.0, random_state=4)
    model = ConsensusDCKM(4, random_state=4).fit(data.X)
    votes = np.array([run["votes"] for run in model.runs_])
    objective = np.array([run["objective"] for run in model.runs_])
    assert 0 < votes.sum() < 20
    assert votes[np.argmin(objective)]
    assert objective[votes].mean() < objective[~votes].mean()
    found = model.predict(data.X_population)
    assert adjusted_rand_score(data.y_population, found) > 0.85
    assert np.array_equal(model.predict(data.X), model.labels_)
    assert model.stability_ < 0.5  # of all runs


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"suspects": "named"},
        {"suspects": "named", "adjust": "weights"},
        {"suspects": "named", "adjust": "effects"},
        {"max_samples": 0.5},
        {"balance_strength": [0.1, 0.2]},
        {"objective": "paper", "solver": "paper", "max_iter": 5},
        {"column_scale": "idf", "row_scale": "unit"},
    ],
    ids=str,
)
def test_labels_are_what_predict_gives_and_a_file_keeps_them(biased, given, tmp_path):
    if given.get("suspects") == "named":
        given = given | {"suspects": biased.suspects}
    model = quick(**given).fit(biased.X)
    assert np.array_equal(model.predict(biased.X), model.labels_)
    assert np.allclose(model.confidence(biased.X), model.confidence_)
    assert model.confidence_.shape == (400,)
    assert 0 <= model.stability_ <= 1
    assert model.transform(biased.X).shape == (400, 4)
    assert len(model.runs_) == 4
    assert model.combined_weights_.min() >= 0
    again = unskew.load(unskew.save(model, tmp_path / "m.skops"))
    assert np.array_equal(again.predict(biased.X_population), model.predict(biased.X_population))
    if model._weights_r2 is not None:
        assert np.allclose(again.predict_weights(biased.X), model.predict_weights(biased.X))


def test_any_number_of_workers_and_threads_gives_the_same_bits(biased):
    one = quick().fit(biased.X)
    for given in ({"n_jobs": 2}, {"n_threads": 1}, {"n_threads": 2}):
        other = quick(**given).fit(biased.X)
        assert np.array_equal(one.labels_, other.labels_)
        assert np.array_equal(one.weights_, other.weights_)
        assert np.array_equal(one.confidence_, other.confidence_)


def test_workers_share_the_runs_around_effects_too(biased):
    one, two = (quick(suspects=biased.suspects, n_jobs=n).fit(biased.X) for n in (None, 2))
    assert one.suspect_effects_ is not None
    assert np.array_equal(one.labels_, two.labels_)
    assert np.array_equal(one.confidence_, two.confidence_)
    assert {run["status"] for run in two.runs_} == {"converged"}


def test_one_run_is_that_run():
    data = make_spurious_background(300, rate=0.5, random_state=0)
    model = quick(n_runs=1, row_scale=None).fit(data.X)
    assert np.isnan(model.stability_)  # there is no other run to agree with
    assert np.allclose(model.confidence_, 1)
    centres = model.cluster_centers_
    nearest = ((data.X[:, None] - centres) ** 2).sum(2).argmin(1)
    assert (nearest == model.labels_).mean() > 0.99


def test_without_balance_and_with_equal_weights_it_is_a_consensus_of_kmeans():
    data = make_spurious_background(300, rate=0.0, random_state=0)
    model = quick(balance_strength=0.0, spread_strength=1e6).fit(data.X)
    assert np.allclose(model.weights_, 1, atol=1e-4)
    assert adjusted_rand_score(data.y, model.labels_) > 0.85


def test_mean_weights_are_reproduced_for_new_rows(biased):
    model = quick(suspects=biased.suspects, adjust="weights", tol=1e-5).fit(biased.X)
    assert model._weights_r2 > 0.95
    assert np.abs(model.predict_weights(biased.X) - model.weights_).mean() < 0.1
    assert model.weights_.mean() == pytest.approx(1)


def test_naming_the_site_finds_the_groups_of_the_population(biased):
    blind = quick().fit(biased.X)
    named = quick(suspects=biased.suspects).fit(biased.X)
    scores = [
        adjusted_rand_score(biased.y_population, m.predict(biased.X_population))
        for m in (blind, named)
    ]
    assert scores[1] > 0.8 > 0.2 > scores[0]
    assert named.suspect_effects_ is not None
    assert named.restarts_
    assert quick(suspects=biased.suspects, adjust="weights").fit(biased.X).suspect_effects_ is None


def test_rows_are_brought_to_length_one_only_where_columns_say_present_or_absent():
    data = make_spurious_background(200, random_state=0)
    rng = np.random.default_rng(0)
    assert quick().fit(data.X)._distance.scaling.unit
    assert quick().fit(sp.csr_array(data.X))._distance.scaling.unit
    assert quick(row_scale=None).fit(data.X)._distance.scaling is None
    assert quick().fit(rng.normal(size=(50, 3)))._distance.scaling is None
    assert quick().fit(pd.DataFrame(data.X))._distance.scaling is None


def test_signs_and_zero_one_and_sparse_are_the_same_to_unit_rows():
    data = make_spurious_background(250, random_state=0)
    X = data.X.astype(np.float64)
    models = [quick().fit(x) for x in (X, 2 * X - 1, sp.csr_array(X), data.X.astype(np.uint8))]
    for other in models[1:]:
        assert np.array_equal(models[0].labels_, other.labels_)
        assert np.allclose(models[0].weights_, other.weights_, atol=1e-3)


def test_a_table_with_gaps_and_categories(biased):
    table = pd.DataFrame(biased.X[:, :20], columns=[f"c{i}" for i in range(20)])
    table["age"] = np.random.default_rng(0).normal(size=400)
    table.loc[::7, "age"] = np.nan
    table["site"] = [f"s{s}" for s in biased.site]
    for adjust in ("auto", "weights"):
        model = quick(suspects="site", adjust=adjust).fit(table)
        assert np.array_equal(model.predict(table), model.labels_)
        frame = model.to_frame(table)
        assert list(frame.columns) == ["cluster", "weight", "combined_weight"]


def test_rows_of_weight_zero_are_absent(biased):
    a = np.ones(400)
    a[350:] = 0
    X = biased.X.copy()
    one = quick(init="k-means++").fit(X, sample_weight=a)
    X[350:] = 1 - X[350:]
    other = quick(init="k-means++").fit(X, sample_weight=a)
    assert adjusted_rand_score(one.labels_[:350], other.labels_[:350]) == 1
    assert np.array_equal(one.weights_[350:], np.zeros(50))


def test_a_sample_of_rows_for_each_run_labels_and_weighs_all_rows(biased):
    model = quick(max_samples=150, suspects=biased.suspects, adjust="weights").fit(biased.X)
    assert model.labels_.shape == model.weights_.shape == (400,)
    assert model.weights_.mean() == pytest.approx(1)
    with pytest.raises(ValueError, match=r"max_samples=150.*solver='paper'"):
        quick(max_samples=150, objective="paper", solver="paper").fit(biased.X)


def test_a_subsample_for_each_run_with_effects_labels_all_rows(biased):
    model = quick(max_samples=200, suspects=biased.suspects).fit(biased.X)
    whole = quick(max_samples=None, suspects=biased.suspects).fit(biased.X)
    assert model.labels_.shape == (400,)
    np.testing.assert_array_equal(model.predict(biased.X), model.labels_)
    np.testing.assert_array_equal(model.weights_, whole.weights_)  # learned from all rows
    assert adjusted_rand_score(model.labels_, whole.labels_) > 0.8


@pytest.mark.parametrize(
    ("named", "K", "n", "size"),
    [(True, 4, 10**6, 10_000), (True, 100, 10**6, 20_000), (False, 4, 10**6, 100_000),
     (True, 4, 500, 500)],
)  # fmt: skip
def test_automatic_size_of_the_subsample(named, K, n, size):
    assert ConsensusDCKM(K, suspects=[0] if named else None)._size(n) == size
    with pytest.raises(ValueError, match="max_samples='all' should be one of"):
        quick(max_samples="all").fit(np.eye(8))


def test_candidates_are_compared_on_a_subsample_of_many_rows(biased, monkeypatch):
    monkeypatch.setattr("unskew.consensus._model_selection.MAX_SELECTION_ROWS", 150)
    sizes, fit = [], ConsensusDCKM.fit

    def counting(self, X, y=None, sample_weight=None):
        sizes.append((len(X), sample_weight.sum(), len(self.init)))
        return fit(self, X, sample_weight=sample_weight)

    monkeypatch.setattr(ConsensusDCKM, "fit", counting)
    labels = np.arange(400) % 3
    model = ConsensusDCKM(suspects=biased.suspects, init=labels, tol=0.1, random_state=0)
    found = choose_k(biased.X, [3], model=model, n_runs=1, sample_weight=np.full(400, 2.0))
    assert sizes == [(150, 300.0, 150)]
    assert found.chosen == 3


def test_scaling_the_sample_weights_changes_nothing(biased):
    a = np.random.default_rng(0).uniform(0.5, 2, size=400)
    one, other = (quick().fit(biased.X, sample_weight=s * a) for s in (1.0, 2.0**-20))
    assert np.array_equal(one.labels_, other.labels_)
    assert one.stability_ == pytest.approx(other.stability_, abs=1e-9)


def test_labels_to_start_from_go_with_their_rows(biased):
    """Of a sample of the rows, too: a run from the ends of another one stays there."""
    ends = quick(n_runs=1).fit(biased.X).labels_
    model = quick(n_runs=3, init=ends, max_samples=0.9).fit(biased.X)
    assert adjusted_rand_score(model.labels_, ends) > 0.9


def test_nothing_is_left_of_an_earlier_fit(biased):
    named = [f"c{i}" for i in range(biased.X.shape[1])]
    model = quick(suspects=biased.suspects).fit(pd.DataFrame(biased.X, columns=named))
    model.set_params(suspects=None).fit(biased.X)
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model, "restarts_")


@pytest.mark.parametrize("given", [{}, {"suspects": [0]}], ids=str)
def test_warnings_are_shown_where_fit_was_called_and_name_the_class(biased, given):
    with pytest.warns(ConvergenceWarning) as told:
        quick(max_iter=1, tol=0.0, **given).fit(biased.X)
    assert {each.filename for each in told} == {__file__}
    assert not any("_Inner" in str(each.message) for each in told)
    with pytest.warns(ConvergenceWarning, match="distinct clusters") as told:
        quick().fit(np.repeat(biased.X[:3], 5, axis=0))
    assert {each.filename for each in told} == {__file__}


def test_a_table_with_missing_values_is_compared_at_the_chosen_number_of_clusters():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4)), columns=list("abcd"))
    table.loc[::5, "a"] = np.nan
    model = quick("auto", n_runs=2).fit(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unskew.consensus._estimator.choose_k", None)
        verdict(model, table)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"n_runs": 0}, "n_runs"),
        ({"max_samples": 3}, "max_samples=3 gives subsamples of 3 rows"),
        ({"max_samples": 0.0}, "max_samples"),
        ({"max_samples": 1.5}, "max_samples"),
        ({"adjust": "weigths"}, "adjust='weigths'"),
        ({"row_scale": "unti"}, "row_scale='unti'"),
        ({"balance_strength": "much"}, "balance_strength='much'"),
        ({"balance_strength": []}, r"balance_strength=\[\]"),
        ({"balance_strength": [0.1, -1]}, "balance_strength"),
        ({"K": "many"}, "n_clusters='many'"),
        ({"K": 401}, "n_clusters=401"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"balance_strength": [1, 2], "suspects": [0]}, "should be a single value"),
        ({"row_scale": "unit", "suspects": [0], "adjust": "both"}, "row_scale='unit'"),
    ],
)
def test_bad_settings_are_named(biased, given, words):
    model = quick(**given)
    with pytest.raises((ValueError, TypeError), match=words):
        model.fit(biased.X)
    assert not hasattr(model, "labels_")


def test_dckm_refuses_auto_and_names_who_does_not():
    for given in ({"n_clusters": "auto"}, {"n_clusters": 2, "balance_strength": "auto"}):
        with pytest.raises(ValueError, match=r"'auto' should be a number.*ConsensusDCKM"):
            DCKM(**given).fit(np.eye(6))


def test_runs_that_do_not_converge_warn(biased):
    with pytest.warns(ConvergenceWarning, match="of 4 runs did not converge"):
        model = quick(max_iter=1, tol=0.0).fit(biased.X)
    assert model.status_.startswith("max_iter")


@pytest.mark.soak
def test_it_passes_the_checks_of_scikit_learn():
    expected = {
        "check_sample_weight_equivalence_on_dense_data": "starts are drawn by row",
        "check_sample_weight_equivalence_on_sparse_data": "starts are drawn by row",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ConsensusDCKM(3, n_runs=2, max_iter=5)
        check_estimator(model, expected_failed_checks=expected)


def test_it_can_be_cloned_and_keeps_its_parameters():
    model = clone(ConsensusDCKM(3, n_runs=7, balance_strength=[0.1, 0.3], row_scale=None))
    assert model.get_params()["n_runs"] == 7
    assert model.get_params()["balance_strength"] == [0.1, 0.3]
    assert "checkpoint" not in model.get_params()


# ------------------------------------------------------------------------- choosing, no labels


@pytest.mark.soak
def test_choose_k_counts_the_groups_and_not_the_sites():
    data = make_site_footprint(500, n_clusters=3, n_core=30, n_sites=2, rate=0.6, random_state=1)
    found = choose_k(data.X, range(2, 6), suspects=data.suspects, n_runs=3, random_state=0)
    assert found.chosen == 3
    assert [each.value for each in found.candidates] == [2, 3, 4, 5]
    assert found.best_by("silhouette") == 3
    model = quick(K="auto", suspects=data.suspects, tol=0.05).fit(data.X)
    assert model.n_clusters_ == 3 == model.cluster_centers_.shape[0]
    assert model.choice_.parameter == "n_clusters"
    assert model.n_clusters == "auto"


def test_choose_strengths_keeps_all_rows_where_effects_are_enough():
    data = make_site_footprint(800, rate=0.9, random_state=0)
    found = choose_strengths(data.X, 4, (0.0, 0.3), suspects=data.suspects, random_state=0)
    assert found.chosen == 0.0
    weak, strong = found.candidates
    assert weak.effective_size == pytest.approx(1)
    assert strong.effective_size < weak.effective_size
    assert strong.imbalance_left < weak.imbalance_left
    assert strong.tradeoff == (1 - strong.imbalance_left) * strong.effective_size


def test_auto_strength_is_one_of_the_candidates():
    data = make_spurious_background(200, random_state=0)
    model = quick(balance_strength="auto", n_runs=2).fit(data.X)
    choice = model.strength_choice_
    assert choice.parameter == "balance_strength"
    assert [each.value for each in choice.candidates] == [0.0, 0.05, 0.1, 0.2, 0.5]
    # The weakest whose silhouette is within 5 % of the largest, and the fit is the one with it.
    best = max(each.silhouette for each in choice.candidates)
    assert best > 0
    as_good = [each.value for each in choice.candidates if each.silhouette >= 0.95 * best]
    assert model.balance_strength_ == choice.chosen == min(as_good)
    given = quick(balance_strength=min(as_good), n_runs=2).fit(data.X)
    np.testing.assert_array_equal(model.labels_, given.labels_)
    np.testing.assert_array_equal(model.weights_, given.weights_)


@pytest.mark.soak
def test_both_settings_can_be_auto():
    data = make_spurious_background(60, n_clusters=3, random_state=0)
    model = quick("auto", balance_strength="auto", n_runs=2).fit(data.X[:, :12])
    assert model.strength_choice_.chosen == model.balance_strength_
    assert model.choice_.chosen == model.n_clusters_


def test_auto_tries_numbers_that_the_rows_of_positive_weight_allow():
    X = np.random.default_rng(0).normal(size=(40, 3))
    a = np.zeros(40)
    a[:6] = 1
    assert [c.value for c in choose_k(X, sample_weight=a, n_runs=2).candidates] == [2, 3, 4, 5]
    assert [c.value for c in choose_k(X[:4].tolist(), n_runs=2).candidates] == [2, 3]


def test_files_and_readers_work_in_model_selection_and_verdict(biased, tmp_path):
    np.save(tmp_path / "x.npy", biased.X)
    table = pd.DataFrame(biased.X, columns=[f"c{i}" for i in range(biased.X.shape[1])])
    table.to_parquet(tmp_path / "x.parquet")
    reader = unskew.ParquetReader(tmp_path / "x.parquet", block_rows=150)
    for X, same in ((tmp_path / "x.npy", biased.X), (reader, table)):
        found, wanted = (choose_k(each, [3, 4], n_runs=2, random_state=0) for each in (X, same))
        assert found.chosen == wanted.chosen
        for one, other in zip(found.candidates, wanted.candidates):
            assert one.silhouette == pytest.approx(other.silhouette, abs=1e-6)
        model = quick().fit(X)
        assert verdict(model, X) == verdict(model, same)
    assert np.array_equal(model.labels_, quick(n_jobs=2).fit(reader).labels_)


def test_choices_refuse_nonsense():
    X = np.eye(10)
    with pytest.raises(ValueError, match="should be >= 2"):
        choose_k(X, [1, 2])
    with pytest.raises(TypeError, match="candidates=3"):
        choose_k(X, 3)
    with pytest.raises(ValueError, match="n_samples=10"):
        choose_k(X, [10, 11])
    with pytest.raises(ValueError, match="criterion='luck'"):
        choose_k(X, criterion="luck")
    with pytest.raises(ValueError, match="at least one value"):
        choose_strengths(X, 2, [])
    with pytest.raises(ValueError, match="n_runs=1 should be >= 2"):
        choose_k(X, [2, 3], criterion="stability", n_runs=1)
    with pytest.raises(ValueError, match="suspects should be None where a model is passed"):
        choose_k(X, suspects=[0], model=ConsensusDCKM())
    with pytest.raises(ValueError, match="n_clusters='auto' should be a number"):
        choose_strengths(X, model=ConsensusDCKM("auto"))


def test_the_curve_can_be_drawn():
    plots = pytest.importorskip("unskew.plots")
    data = make_spurious_background(150, random_state=0)
    choice = choose_k(data.X, [2, 3, 4], n_runs=2, random_state=0)
    plots.choice(choice).figure.draw_without_rendering()
    choice = choose_strengths(data.X, 4, [0.0, 0.2], n_runs=2, random_state=0)
    ax = plots.choice(choice)
    ax.figure.draw_without_rendering()
    assert ax.get_xlabel() == "balance_strength"


# --------------------------------------------------------------- scales of the distance elsewhere


def documents(rng, n=300, d=30, K=3):
    """Groups of words, long and short documents."""
    y = rng.integers(K, size=n)
    length = rng.choice([0.25, 1.0], size=n)
    rates = np.where(np.arange(d) % K == y[:, None], 0.8, 0.15) * length[:, None]
    return (rng.random((n, d)) < rates).astype(float), y


def test_the_verdict_is_about_the_correction_and_not_about_the_distance():
    X, _ = documents(np.random.default_rng(0))
    still = quick(3, balance_strength=0.0, spread_strength=1e6).fit(X)
    raw = quick(3, balance_strength=0.0, spread_strength=1e6, row_scale=None).fit(X)
    assert adjusted_rand_score(still.labels_, raw.labels_) < 0.88  # the distance does matter
    said = verdict(still, X)
    assert said.word == "no effect"


def test_unknown_values_leave_the_other_columns_their_scales():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=80) * 10, "z": rng.normal(size=80)})
    table["kind"] = rng.choice(list("abcd"), size=80)
    model = DCKM(2, column_scale="sd", n_init=1, random_state=0).fit(table)
    new = table.head(3).assign(kind="other")
    with pytest.warns(UserWarning, match="other"):
        found = model.transform(new)
    # Four columns of kind and two numbers, each of variance 1: a third of it is known.
    form, columns = model._distance.scaling, model.encoder_._encode(table.head(3)).matrix[:, :2]
    F = columns * form.scale[:2]
    C = model._centres[:, :2] if model._shift is None else None
    expected = np.sqrt(3.0 * ((F[:, None] - C) ** 2).sum(2))
    assert np.allclose(found, expected, rtol=1e-4)


def test_weights_for_sparse_rows_after_a_dense_fit_far_from_zero():
    rng = np.random.default_rng(0)
    X = np.c_[1000 + rng.normal(size=(120, 3)), rng.random((120, 3)) < 0.4]
    for model in (DCKM(2, n_init=1, random_state=0), quick(2, n_runs=2)):
        model.fit(X)
        assert np.allclose(model.predict_weights(sp.csr_array(X)), model.predict_weights(X))


def test_of_strengths_that_separate_alike_the_weaker_is_taken():
    from unskew.consensus import Choice
    from unskew.consensus._model_selection import SelectionCandidate

    def choice(parameter, *silhouettes):
        found = [
            SelectionCandidate(v, s, 1, 1, 1, 1) for v, s in zip((1.0, 0.1, 10.0), silhouettes)
        ]
        return Choice(parameter, None, "silhouette", tuple(found))

    assert choice("balance_strength", 0.126, 0.05, 0.128).best_by("silhouette") == 1.0
    assert choice("balance_strength", 0.12, 0.05, 0.128).best_by("silhouette") == 10.0
    assert choice("balance_strength", -0.2, -0.3, -0.1).best_by("silhouette") == 10.0
    assert choice("n_clusters", 0.126, 0.05, 0.128).best_by("silhouette") == 10


def test_candidates_that_the_rows_are_too_few_for_are_named():
    data = make_site_footprint(40, n_clusters=2, n_core=20, n_footprint=4, random_state=0)
    with pytest.warns(UserWarning, match=r"candidates=\[40, 500\] are ignored"):
        found = choose_k(data.X, [2, 3, 40, 500], suspects=data.suspects, random_state=0)
    assert [each.value for each in found.candidates] == [2, 3]
