"""SelectionMixture as an estimator: tables, prediction, weights, identification, bad input."""

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import unskew
from unskew import SelectionMixture, simulate
from unskew._mixture.identify import identify
from unskew.simulate import make_site_footprint

# scikit-learn's checks of sparse input with predict_proba read the tags of a classifier.
NOT_A_CLASSIFIER = "the check takes an estimator with predict_proba for a classifier"


@parametrize_with_checks(
    [SelectionMixture(2, covariance="diag", max_iter=50)],  # one form: the checks repeat fits
    expected_failed_checks=lambda _: {
        "check_estimator_sparse_array": NOT_A_CLASSIFIER,
        "check_estimator_sparse_matrix": NOT_A_CLASSIFIER,
    },
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def make_sites(seed=0, n=900, rate=0.6, shift=1.5, K=3, L=3, d=5):
    """Gaussian groups at sites with additive effects: X with the site last, group, true weights."""
    rng = np.random.default_rng(seed)
    C, B = rng.normal(size=(K, d)) * 2, rng.normal(size=(L, d)) * shift
    y = rng.integers(K, size=n)
    site = np.where(rng.random(n) < rate, y % L, rng.integers(L, size=n))
    X = np.column_stack([C[y] + B[site] + rng.normal(size=(n, d)), site])
    weights = (1 / L) / (rate * (site == y % L) + (1 - rate) / L)
    return X, y, weights / weights.mean(), B


@pytest.fixture(scope="module")
def sites():
    return make_sites()


@pytest.fixture(scope="module")
def fitted(sites):
    return SelectionMixture(3, suspects=[5], random_state=0).fit(sites[0])


def make_table(seed=0, n=300):
    rng = np.random.default_rng(seed)
    y, site = rng.integers(2, size=n), rng.integers(2, size=n)
    return pd.DataFrame(
        {
            "age": np.where(
                rng.random(n) < 0.1, np.nan, 40 + 15 * y + 5 * site + rng.normal(size=n)
            ),
            "bmi": 25 + 3 * y + rng.normal(size=n),
            "site": np.array(["north", "south"])[site],
            "smoker": rng.random(n) < 0.2 + 0.5 * y,
            "ward": np.array(["a", "b", "c"])[(2 * rng.random(n) + y).astype(int)],
            "stage": pd.Categorical(
                np.array(["low", "mid", "high"])[y + rng.integers(2, size=n)],
                categories=["low", "mid", "high"],
                ordered=True,
            ),
        }
    ), y


def to_polars(table):
    return pl.from_pandas(table).cast({"stage": pl.Enum(["low", "mid", "high"])})


# --- what it is for


def test_groups_effects_and_selection_are_recovered(sites, fitted):
    _, y, _, B = sites
    assert adjusted_rand_score(y, fitted.labels_) > 0.95
    assert fitted.choice_ == {"covariance": "diag", "effects": "shift", "selection": "free"}
    assert fitted.identified_ == "yes"
    found = np.array([one["effects"] for one in fitted.suspect_effects_])
    errors = np.array([one["se"] for one in fitted.suspect_effects_])
    # Effects are relative to the mean of the levels; 4.5 standard errors for 15 of them. The mean
    # of B is shared by all groups.
    assert (np.abs(found - (B - B.mean(0))) < 4.5 * np.maximum(errors, 0.05)).all()


def test_weights_are_the_true_ones_in_expectation():
    X, y, truth, _ = make_sites(seed=3, n=20_000)
    model = SelectionMixture(3, suspects=[5], covariance="diag", init=y).fit(X)
    for site in range(3):
        for group in range(3):
            cell = (X[:, 5] == site) & (y == group)
            # At least 880 rows per cell: 3.4 % standard error of a share.
            assert model.weights_[cell].mean() == pytest.approx(truth[cell].mean(), rel=0.1)


def test_weights_have_mean_one_and_make_group_and_site_independent(sites, fitted):
    X = sites[0]
    assert fitted.weights_.mean() == pytest.approx(1)
    R = fitted.predict_proba(X)
    W = R * fitted.population_shares_ / fitted.shares_[X[:, 5].astype(int)]
    # Row-by-group weights: every site has the population's shares, up to convergence.
    for site in range(3):
        mass = W[X[:, 5] == site].sum(0)
        np.testing.assert_allclose(mass / mass.sum(), fitted.population_shares_, atol=1e-3)
    np.testing.assert_allclose(fitted.predict_weights(X), W.sum(1), rtol=1e-8)


def test_a_coin_flip_as_suspect_changes_nothing():
    X, _, _, _ = make_sites(n=500, shift=0.0)
    coin = np.random.default_rng(5).integers(2, size=len(X))
    how = {"covariance": "diag", "tol": 1e-10, "random_state": 0}
    with_coin = SelectionMixture(3, suspects=[5], **how).fit(np.column_stack([X[:, :5], coin]))
    without = SelectionMixture(3, **how).fit(X[:, :5])
    assert with_coin.choice_["effects"] == "none"
    assert with_coin.choice_["selection"] == "common"
    np.testing.assert_array_equal(with_coin.labels_, without.labels_)


def test_indicator_columns_are_one_suspect():
    data = make_site_footprint(800, rate=0.8, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", category=RuntimeWarning)
        model = SelectionMixture(4, suspects=data.suspects, random_state=0).fit(data.X)
    assert model.shares_.shape == (4, 4)
    labels = model.predict(data.X_population, shares="population")
    assert adjusted_rand_score(data.y_population, labels) > 0.85


def test_auto_finds_the_number_of_groups(sites):
    model = SelectionMixture(
        "auto", suspects=[5], covariance="diag", selection="free", max_components=4, random_state=0
    ).fit(sites[0][:400])
    assert model.n_components_ == 3
    assert len(np.unique(model.labels_)) == 3


def test_a_large_sample_is_screened_on_a_subsample():
    X, y, _, _ = make_sites(n=5000)
    model = SelectionMixture(3, suspects=[5], random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert model.choice_["effects"] == "shift"


SITES = Path(os.environ.get("UNSKEW_DATA", "")) / "sites"
needs_sites = pytest.mark.skipif(
    not (SITES / "penguins.csv").exists(), reason="UNSKEW_DATA has no folder sites"
)


@needs_sites
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_species_of_penguins_and_cell_lines_in_the_default_setting(seed):
    frame = pd.read_csv(SITES / "penguins.csv")
    columns = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "island"]
    penguins = SelectionMixture(3, suspects="island", random_state=seed).fit(frame[columns])
    assert adjusted_rand_score(frame["species"], penguins.labels_) > 0.95
    assert penguins.identified_ == "under small effects"
    with_sex = SelectionMixture(3, suspects="island", random_state=seed).fit(
        frame[[*columns, "sex"]]
    )
    assert adjusted_rand_score(frame["species"], with_sex.labels_) > 0.95
    frame = pd.read_csv(SITES / "harmony_cell_lines.csv.gz")
    columns = [*(f"X{i}" for i in range(1, 21)), "dataset"]
    lines = SelectionMixture(2, suspects="dataset", random_state=seed).fit(frame[columns])
    assert adjusted_rand_score(frame["cell_type"], lines.labels_) > 0.99
    assert lines.identified_ == "under small effects"


def test_groups_of_sites_that_share_one_group_are_matched_with_small_effects():
    """Two pure sites and a mixed one: four matchings have nearly the same likelihood."""
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1, 0, 1], [150, 150, 300, 300])
    site = np.repeat([0, 0, 1, 2], [150, 150, 300, 300])
    C, B = rng.normal(size=(2, 8)) * 2, rng.normal(size=(3, 8)) * 0.4
    X = np.column_stack([C[y] + B[site] + rng.normal(size=(900, 8)), site])
    wrong = np.where(site == 2, 0, y)  # the second pure site matched with the other group
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SelectionMixture(2, suspects=[8], effects="shift", random_state=0).fit(X)
        other = SelectionMixture(2, suspects=[8], effects="shift", init=wrong).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert model.bic_ < other.bic_
    assert model.identified_ == "under small effects"


# --- prediction


def test_predict_gives_labels_back(sites, fitted):
    np.testing.assert_array_equal(fitted.predict(sites[0]), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict_proba(sites[0]).argmax(1), fitted.labels_)
    np.testing.assert_allclose(fitted.predict_weights(sites[0]), fitted.weights_, rtol=1e-3)


def test_bic_of_the_fitted_rows_is_bic(sites, fitted):
    assert fitted.bic(sites[0]) == pytest.approx(fitted.bic_, rel=1e-9)
    assert fitted.score(sites[0]) == pytest.approx(fitted.score_samples(sites[0]).mean())


def test_shares_of_predict(sites, fitted):
    X = sites[0]
    equal = fitted.predict_proba(X, shares="equal")
    given = fitted.predict_proba(X, shares=np.full(3, 1 / 3))
    np.testing.assert_allclose(equal, given)
    population = fitted.predict_proba(X, shares="population")
    ratio = population / fitted.predict_proba(X)
    expected = fitted.population_shares_ / fitted.shares_[X[:, 5].astype(int)]
    np.testing.assert_allclose(
        ratio / ratio.sum(1, keepdims=True), expected / expected.sum(1, keepdims=True), rtol=1e-6
    )
    for wrong in ("other", [0.5, 0.5], [0.5, 0.6, 0.7], [-1, 1, 1]):
        with pytest.raises(ValueError, match="shares"):
            fitted.predict(X, shares=wrong)


def test_an_unknown_site_gets_the_average_effect_and_a_warning(sites, fitted):
    X = sites[0][:5].copy()
    X[:2, 5] = 9
    with pytest.warns(UserWarning, match=r"unknown levels of 'column 5' in 2 rows"):
        probability = fitted.predict_proba(X)
    weight = np.bincount(sites[0][:, 5].astype(int)) / len(sites[0])
    average = weight @ fitted._model.blocks[0].B
    moved = X.copy()
    moved[:, 5] = 0
    sd = np.array([c.sd for c in fitted._columns])
    moved[:, :5] += (fitted._model.blocks[0].B[0] - average) * sd
    expected = fitted.predict_proba(moved, shares="population")
    np.testing.assert_allclose(probability[:2], expected[:2], rtol=1e-8)


def test_transform_removes_the_effects(sites, fitted):
    X = sites[0]
    corrected = fitted.transform(X)
    np.testing.assert_array_equal(corrected[:, 5], X[:, 5])
    effects = np.array([one["effects"] for one in fitted.suspect_effects_])
    np.testing.assert_allclose(X[:, :5] - corrected[:, :5], effects[X[:, 5].astype(int)])


def test_population_shares_are_used(sites):
    X, y, _, _ = sites
    model = SelectionMixture(3, suspects=[5], init=y, population_shares=[0.6, 0.3, 0.1]).fit(X)
    np.testing.assert_allclose(model.population_shares_, [0.6, 0.3, 0.1])
    for group, share in enumerate((0.6, 0.3, 0.1)):
        mass = model.weights_[model.labels_ == group].sum() / len(X)
        assert mass == pytest.approx(share, abs=0.03)


def test_common_shares_give_weights_of_one(sites):
    model = SelectionMixture(3, suspects=[5], selection="common", init=sites[1]).fit(sites[0])
    np.testing.assert_allclose(model.weights_, 1, rtol=1e-12)
    assert model.effective_sample_size_ == pytest.approx(1)


def test_sample_has_the_moments_of_the_model(sites, fitted):
    X, labels = fitted.sample(30_000, random_state=0)
    assert X.shape == (30_000, 6)
    counts = np.bincount(labels, minlength=3) / labels.size
    weight = np.bincount(sites[0][:, 5].astype(int)) / len(sites[0])
    # Five standard deviations of a share of 30,000 rows.
    np.testing.assert_allclose(counts, weight @ fitted.shares_, atol=5 * 0.5 / 30_000**0.5)
    np.testing.assert_allclose(X[:, :5].mean(0), sites[0][:, :5].mean(0), atol=0.12)
    assert (fitted.predict(X) == labels).mean() > 0.95


# --- tables


@pytest.fixture(scope="module")
def table_model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SelectionMixture(2, suspects="site", random_state=0).fit(make_table()[0])


@pytest.mark.filterwarnings("ignore")
def test_tables_of_mixed_types(table_model):
    table, y = make_table()
    model = table_model
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert model.levels_ == ["north", "south"]
    assert model.column_names_ == [
        *("age", "bmi", "stage", "smoker=True"),
        *("ward=a", "ward=b", "ward=c"),
    ]
    assert model.means_.shape == (2, 7)
    np.testing.assert_allclose(model.means_[:, 4:].sum(1), 1)
    how = {"suspects": "site", "init": model.labels_}
    one, other = (SelectionMixture(2, **how).fit(t) for t in (table, to_polars(table)))
    np.testing.assert_array_equal(one.weights_, other.weights_)
    np.testing.assert_array_equal(model.predict(table), model.labels_)
    # Columns may come in another order.
    np.testing.assert_array_equal(model.predict(table[table.columns[::-1]]), model.labels_)
    assert model.bic(table) == pytest.approx(model.bic_, rel=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_transform_and_sample_of_tables():
    table, truth = make_table()
    for given in (table, to_polars(table)):
        how = {"suspects": "site", "effects": "shift", "covariance": "diag"}
        model = SelectionMixture(2, init=truth, **how).fit(given)
        out = model.transform(given)
        assert type(out) is type(given)
        assert list(out.columns) == list(given.columns)
        effects = dict(zip(model.column_names_, model.suspect_effects_[0]["effects"]))
        north = table["site"].to_numpy() == "north"
        difference = (np.asarray(given["age"]) - np.asarray(out["age"])).astype(float)[north]
        np.testing.assert_allclose(difference[~np.isnan(difference)], effects["age"], atol=1e-9)
        for name in ("smoker", "ward", "stage", "site"):
            assert list(out[name]) == list(given[name])
        drawn, labels = model.sample(50, random_state=0)
        assert type(drawn) is type(given)
        assert set(drawn["ward"]) <= {"a", "b", "c"}
        assert set(drawn["stage"]) <= {"low", "mid", "high"}
        assert labels.shape == (50,)


@pytest.mark.filterwarnings("ignore")
def test_kinds_overrule_the_type():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.integers(2, size=100), rng.integers(3, size=100), rng.normal(size=100)]
    )
    plain = SelectionMixture(1).fit(X)
    assert plain.column_names_ == ["column 1", "column 2", "column 0=1"]
    other = SelectionMixture(1, kinds={0: "number", 1: "category"}).fit(X)
    assert other.column_names_ == [
        *("column 0", "column 2"),
        *("column 1=0", "column 1=1", "column 1=2"),
    ]


@pytest.mark.filterwarnings("ignore")
def test_missing_flags_and_categories_of_new_rows_are_left_out(table_model):
    table, _ = make_table()
    model = table_model
    new = table.iloc[:20].astype({"smoker": object, "ward": object})
    new["smoker"] = None
    known = table.iloc[:20]
    yes, no = known.assign(smoker=True), known.assign(smoker=False)
    marginal = np.logaddexp(model.score_samples(yes), model.score_samples(no))
    np.testing.assert_allclose(model.score_samples(new), marginal, rtol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_weight_two_equals_row_twice(sites):
    X, y, _, _ = sites
    X, y = X[:200], y[:200]
    twice = np.arange(200) % 3 == 0
    index = np.concatenate([np.arange(200), np.flatnonzero(twice)])
    how = {"suspects": [5], "covariance": "full"}
    one = SelectionMixture(3, init=y, **how).fit(X, sample_weight=1 + twice)
    other = SelectionMixture(3, init=y[index], **how).fit(X[index])
    assert one.bic_ == pytest.approx(other.bic_, rel=1e-9)
    np.testing.assert_allclose(one.means_, other.means_, rtol=1e-6)
    np.testing.assert_allclose(one.weights_, other.weights_[:200], rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_a_row_of_weight_zero_is_labelled_and_changes_nothing(sites):
    X, y, _, _ = sites
    a = np.ones(300)
    a[:3] = 0
    far = X[:300].copy()
    far[0, :5] = 1e6
    far[1, 5] = 77
    one = SelectionMixture(3, suspects=[5], init=y[:300]).fit(far, sample_weight=a)
    other = SelectionMixture(3, suspects=[5], init=y[3:300]).fit(X[3:300])
    assert one.bic_ == pytest.approx(other.bic_, rel=1e-9)
    np.testing.assert_array_equal(one.labels_[3:], other.labels_)
    assert not one.weights_[:3].any()


# --- identification and positivity


def test_identified_counts_the_groups_that_join_the_levels():
    yes = np.array([[50, 50, 0], [50, 50, 50.0]])
    assert identify(yes, ["a", "b"], "site") == ("yes", "")
    answer, why = identify(np.array([[50, 50, 0], [0, 50, 50.0]]), ["a", "b"], "site")
    assert answer == "under small effects"
    assert why == (
        "Only group 1 occurs at all values of “site”. So the data cannot show whether these values "
        "differ because “site” changes the columns or because they have other groups. The selected "
        "model has small effects of “site”; if its effects are large, these groups are wrong."
    )
    none = identify(np.array([[50, 50, 0], [0, 50, 50.0]]), ["a", "b"], "site", effects=False)
    assert none == (answer, why.replace("has small effects", "has no effect"))
    three = np.array([[50, 50, 0], [50, 50, 50], [0, 0, 50.0]])
    for levels, named in ((["a", "b", "c"], "“c” (group 2) has"), (None, "some values have")):
        answer, why = identify(three, levels, "site")
        assert answer == "under small effects"
        assert f"Of the values of “site”, {named} at most one group in common with" in why
    answer, why = identify(np.array([[50, 0, 0], [0, 50, 50.0]]), ["a", "b"], "site")
    assert answer == "no"
    assert "“a” (group 0)" in why
    # Through a third level.
    chain = np.array([[50, 50, 0, 0], [50, 50, 50, 50], [0, 0, 50, 50.0]])
    assert identify(chain, list("abc"), "site")[0] == "yes"


def test_sites_that_share_one_group_are_named_in_a_warning():
    X, y, _, _ = make_sites(rate=0.0, shift=0.3)
    site = X[:, 5].astype(int)
    # Group 0 everywhere, group 1 at site 0 only and group 2 at site 1 only.
    kept = (y == 0) | ((y == 1) & (site == 0)) | ((y == 2) & (site == 1))
    model = SelectionMixture(3, suspects=[5], random_state=0)
    with (
        pytest.warns(UserWarning, match="Only group . occurs at all values of “column 5”"),
        pytest.warns(UserWarning, match="do not occur at some levels of “column 5”"),
    ):
        model.fit(X[kept])
    assert model.identified_ == "under small effects"
    assert adjusted_rand_score(y[kept], model.labels_) > 0.95
    assert (model.positivity_ < 0.05).sum() == 4


# --- bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (dict(n_components=0), "n_components=0 should be >= 1"),
        (dict(n_components=1.5), "n_components=1.5 should be an integer"),
        (dict(covariance="tied"), "covariance='tied' should be one of"),
        (dict(effects="scale"), "effects='scale' should be one of"),
        (dict(selection=None), "selection=None should be one of"),
        (dict(tol=-1), "tol=-1 should be >= 0"),
        (dict(suspects="site"), "X has no column names"),
        (dict(suspects=[9]), "index 9"),
        (dict(effects="shift-scale", covariance="full"), "'shift-scale' should be used with"),
        (dict(suspects=[0, 1, 2, 3, 4, 5]), "names all 6 columns"),
        (dict(suspects=None, effects="shift"), "effects='shift' needs suspects"),
        (dict(n_components=901), "n_components=901 should be <= n_samples=900"),
        (dict(init=np.zeros(3, int)), "init has shape"),
        (dict(init=np.full(900, 7)), "labels from 7 to 7"),
        (dict(population_shares=[1, 2, 3]), "they add up to 6"),
        (dict(kinds={0: "text"}), "should be 'number' or 'category'"),
        (dict(kinds={0: np.zeros(900)}), r"kinds\[0\]=array.* should be 'number' or 'category'"),
    ],
)
def test_bad_parameters_are_named(sites, parameters, message):
    given = {"n_components": 3, "suspects": [5], "random_state": 0, **parameters}
    with pytest.raises((ValueError, TypeError), match=message):
        SelectionMixture(**given).fit(sites[0])


def test_bad_rows_are_named(sites):
    X = sites[0][:60].copy()
    model = SelectionMixture(2, suspects=[5], random_state=0)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.where(np.arange(6) == 1, np.inf, X))
    one = X.copy()
    one[:, 5] = 4
    with pytest.raises(ValueError, match=r"has one level \('4'\); it should have at least 2"):
        model.fit(one)
    constant = np.column_stack([np.ones(60), X[:, 5]])
    with pytest.raises(ValueError, match=re.escape("'column 0' (every value is 1)")):
        SelectionMixture(2, suspects=[1]).fit(constant)
    with pytest.raises(ValueError, match="overflow"):
        model.fit(X * np.array([1e200, 1, 1, 1, 1, 1]))


@pytest.mark.filterwarnings(
    "ignore:Some groups", "ignore::unskew._records.OverlapWarning", "ignore:Number of"
)
def test_constant_and_empty_columns_and_levels_of_one_row(sites):
    X = sites[0][:200].copy()
    X[0, 5] = 8
    X = np.column_stack([X, np.ones(200), np.full(200, np.nan)])
    with pytest.warns(UserWarning, match=r"'column 6' \(every value is 1\), 'column 7' \(no value"):
        model = SelectionMixture(3, suspects=[5], random_state=0).fit(X)
    assert model.levels_ == ["0", "1", "2", "8"]
    assert np.isfinite(model.weights_).all()
    assert np.isfinite(model.means_).all()
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.filterwarnings("ignore")
def test_more_groups_than_distinct_rows():
    X = np.repeat(np.arange(3.0), 5)[:, None] + [[0.0, 1.0]]
    model = SelectionMixture(6, random_state=0).fit(X)
    assert np.isfinite(model.bic_)
    assert len(np.unique(model.labels_)) <= 6


@pytest.mark.filterwarnings("ignore")
def test_many_patterns_of_missing_values_are_diagonal():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)) + 3 * rng.integers(2, size=(300, 1))
    X[rng.random(X.shape) < 0.3] = np.nan
    model = SelectionMixture(2, random_state=0).fit(X)
    assert model.choice_["covariance"] == "diag"
    with pytest.raises(ValueError, match="at most 50 patterns"):
        SelectionMixture(2, covariance="full", random_state=0).fit(X)


def test_a_failed_fit_leaves_the_model_as_it_was(sites, fitted):
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match="n_components=3 should be <= n_samples=2"):
        fitted.fit(sites[0][:2])
    assert set(vars(fitted)) == set(before)
    assert fitted.labels_ is before["labels_"]


@pytest.mark.filterwarnings("ignore")
def test_progress_events_and_verbose(sites, caplog):
    events = []
    with unskew.on_progress(events.append):
        SelectionMixture(2, random_state=0).fit(sites[0][:60])
    assert {"candidate", "iteration"} <= {event.phase for event in events}
    with caplog.at_level("INFO", logger="unskew"):
        SelectionMixture(2, random_state=0, verbose=1).fit(sites[0][:60])
    assert any("candidate" in record.message for record in caplog.records)


def test_same_random_state_same_result(sites):
    one, other = (
        SelectionMixture(3, suspects=[5], random_state=4, covariance="diag").fit(sites[0][:300])
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert one.bic_ == other.bic_


def sites_table(rng, n=400):
    site, group = rng.integers(0, 3, n), rng.integers(0, 2, n)
    x = np.c_[3.0 * group + site, -2.0 * group + 0.5 * site] + 0.3 * rng.normal(size=(n, 2))
    return pd.DataFrame(x, columns=["x", "y"]).assign(site=np.array(list("ABC"))[site])


def test_transform_does_not_depend_on_the_order_of_the_columns(rng):
    table = sites_table(rng)
    model = SelectionMixture(2, suspects="site", effects="shift", random_state=0).fit(table)
    expected = model.transform(table)
    for order in (["site", "y", "x"], ["y", "x", "site"]):
        pd.testing.assert_frame_equal(model.transform(table[order])[["x", "y", "site"]], expected)


def test_a_share_of_zero_is_respected(rng):
    table = sites_table(rng)
    model = SelectionMixture(2, suspects="site", random_state=0).fit(table)
    assert set(model.predict(table, shares=[0.0, 1.0])) == {1}
    assert np.isfinite(model.score_samples(table)).all()


def test_bic_of_the_fitted_rows_is_that_of_the_fit_with_flags(rng):
    group, site = rng.choice(3, 500, p=[0.2, 0.3, 0.5]), rng.integers(0, 3, 500)
    chance = rng.random((3, 8))[group] * 0.8 + 0.1 + 0.1 * (site[:, None] == 1)
    X = np.c_[rng.random((500, 8)) < chance, np.eye(3)[site]].astype(float)
    model = SelectionMixture(
        3, suspects=[8, 9, 10], effects="shift", random_state=0
    ).fit(X)  # fmt: skip
    assert model.bic(X) == pytest.approx(model.bic_, abs=1e-6)


def test_marginal_likelihood_with_missing_values_is_that_of_the_joint_gaussian(rng):
    n, L = 120, 6
    level = np.repeat(np.arange(L), n // L)
    X = (
        rng.normal(size=(n, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
        + rng.normal(size=(L, 2))[level]
    )
    X[rng.random(n) < 0.6, 0] = np.nan
    model = SelectionMixture(
        1, suspects=[2], covariance="full", effects="shift", selection="common", random_state=0
    ).fit(np.c_[X, level.astype(float)])  # fmt: skip
    C, S, tau = model.means_[0], model.covariance_, model.tau_
    exact = 0.0
    for own in (level == at for at in range(L)):
        known = ~np.isnan(X[own]).ravel()
        m = int(own.sum())
        K = np.kron(np.eye(m), S) + np.kron(np.ones((m, m)), np.diag(tau**2))
        z = (X[own] - C).ravel()[known]
        K = K[np.ix_(known, known)]
        exact -= 0.5 * (z @ np.linalg.solve(K, z) + np.linalg.slogdet(2 * np.pi * K)[1])
    assert model.marginal_log_likelihood_ == pytest.approx(exact, abs=0.05)


@pytest.mark.filterwarnings("ignore::unskew._records.OverlapWarning")
def test_effects_on_many_columns_are_found_in_few_rows():
    """Half of 72 columns have effects; one parameter for each would outweigh them."""
    data = make_site_footprint(800, rate=0.9, random_state=1)
    model = SelectionMixture(4, suspects=data.suspects, random_state=0).fit(data.X)
    assert model.choice_["effects"] == "shift"
    labels = model.predict(data.X_population, shares="population")
    assert adjusted_rand_score(data.y_population, labels) > 0.85


@pytest.mark.filterwarnings("ignore")
def test_a_full_covariance_of_very_many_numbers_is_not_tried(monkeypatch):
    from unskew.mixture import _estimator

    monkeypatch.setattr(_estimator, "MAX_FULL", 3)
    rng = np.random.default_rng(0)
    for d, forms in ((3, {"diag", "full"}), (4, {"diag"})):
        model = SelectionMixture(1, random_state=0).fit(rng.normal(size=(40, d)))
        assert {one["covariance"] for one in model.candidates_} == forms


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_bic_of_the_candidates_is_that_of_the_model(unit):
    data = simulate.make_sites(300, n_clusters=2, n_sites=2, n_features=3, random_state=0)
    X = np.c_[unit * data.X[:, data.core], data.site]
    events = []
    with unskew.on_progress(events.append):
        model = SelectionMixture(2, suspects=[3], random_state=0).fit(X)
    # All rows are in the subsample: only the last steps of EM lie between the two.
    lowest = min(each["bic"] for each in model.candidates_)
    assert model.bic_ <= lowest + 1e-6
    assert lowest - model.bic_ < 0.1
    # What progress reports is in the same units; later steps can improve a candidate a little.
    candidates = [e for e in events if e.phase.startswith("candidate")]
    reported = [e.numbers["bic"] for e in candidates if e.done]
    assert lowest - 1e-6 <= min(reported) < lowest + 10
    last = {e.phase: e for e in candidates}.values()
    assert all(e.done == e.total for e in last)
    assert sum(e.total for e in last) == len(reported) == len(model.candidates_)
    (chosen,) = [e.status for e in events if e.phase == "message"]
    assert chosen.startswith("selected by BIC for 2 clusters: columns ")


def test_a_notebook_shows_the_model_before_and_after_the_fit(rng):
    model = SelectionMixture(2, suspects="site", random_state=0)
    assert "SelectionMixture" in model._repr_html_()
    assert "SelectionMixture" in model.fit(sites_table(rng))._repr_html_()
