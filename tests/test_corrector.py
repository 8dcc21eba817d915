"""SuspectCorrector: corrected rows of tables and arrays, and the methods that follow."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.compose import make_column_transformer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import unskew
from unskew import SuspectCorrector

SITES = np.array(["A", "B", "C"])


@parametrize_with_checks([SuspectCorrector(n_components=2, covariance="diag", max_iter=20)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def make_table(n=600, seed=0):
    """Three groups at three sites with known effects, and selection: (table, group, effects)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    site = np.where(rng.random(n) < 0.6, y, rng.integers(3, size=n))
    C = np.array([[0.0, 0.0, 6.0], [6.0, 0.0, 0.0], [0.0, 6.0, 0.0]])
    B = np.array([[3.0, 0.0, -3.0], [-3.0, 2.0, 0.0], [0.0, -2.0, 3.0]])
    x = C[y] + B[site] + rng.normal(size=(n, 3))
    table = pd.DataFrame(x, columns=["a", "b", "c"], index=np.arange(n) + 1000)
    table.insert(1, "site", SITES[site])
    table.loc[1005:1010, "b"] = np.nan
    return table.assign(ward=np.array(["x", "y", "z"])[rng.integers(3, size=n)]), y, B


def corrector(**how):
    given = {"suspects": "site", "n_components": 3, "covariance": "diag", "random_state": 0}
    return SuspectCorrector(**given | how)


@pytest.fixture(scope="module")
def data():
    return make_table()


@pytest.fixture(scope="module")
def fitted(data):
    return corrector().fit(data[0])


def test_means_of_a_group_agree_between_sites(data, fitted):
    table, y, B = data
    out = fitted.transform(table)
    assert fitted.identified_ == "yes"
    for k in range(3):
        own = out[y == k].groupby("site")[["a", "b", "c"]].mean()
        # 26 rows and more of standard deviation 1 in each cell: 5 standard errors of a difference.
        assert (own.max() - own.min() < 1.2).all()
    found = [one["effects"][:3] for one in fitted.suspect_effects_]
    np.testing.assert_allclose(found, B, atol=0.5)


def test_inverse_transform_adds_the_effects(data, fitted):
    table = data[0]
    back = fitted.inverse_transform(fitted.transform(table))
    pd.testing.assert_frame_equal(back, table, rtol=1e-12)
    with pytest.raises(ValueError, match="drop_suspects=True should be False"):
        corrector(drop_suspects=True).fit(table).inverse_transform(table)


def test_index_columns_and_missing_values_are_kept(data, fitted):
    table = data[0]
    out = fitted.transform(table)
    assert out.index.equals(table.index)
    assert list(out) == list(table) == list(fitted.get_feature_names_out())
    pd.testing.assert_frame_equal(out[["site", "ward"]], table[["site", "ward"]])
    pd.testing.assert_frame_equal(out.isna(), table.isna())
    # A table with its columns in another order comes back in the order of the fit.
    pd.testing.assert_frame_equal(fitted.transform(table[table.columns[::-1]]), out)


def test_polars_and_array_give_the_rows_of_pandas(data, fitted):
    table = data[0]
    expected = fitted.transform(table)
    given = pl.from_pandas(table)
    out = corrector().fit(given).transform(given)
    assert isinstance(out, pl.DataFrame)
    assert out["b"].null_count() == given["b"].null_count() == 6
    np.testing.assert_allclose(out["b"].to_numpy(), expected["b"], rtol=1e-10)
    numbers = table[["a", "b", "c"]].assign(site=table["site"].map({"A": 0.0, "B": 1.0, "C": 2.0}))
    as_table = corrector().fit_transform(numbers)
    as_array = corrector(suspects=3).fit_transform(numbers.to_numpy())
    # Means of the columns of an array are summed in another order: they agree up to rounding.
    np.testing.assert_allclose(as_array, as_table, rtol=1e-10, atol=1e-10 * numbers["c"].std())
    named = corrector().set_output(transform="polars").fit(numbers)
    assert named.transform(numbers).columns == list(numbers)


def test_units_of_a_column_change_its_units_only(data, fitted):
    table = data[0]
    out = corrector().fit_transform(table.assign(a=1000 * table["a"]))
    expected = fitted.transform(table)
    pd.testing.assert_frame_equal(out, expected.assign(a=1000 * expected["a"]), rtol=1e-5)


def test_an_unknown_site_gets_the_average_effect_or_an_error(data, fitted):
    new = data[0].head(3).assign(site="D")
    with pytest.warns(UserWarning, match="unknown levels of 'site' in 3 rows"):
        out = fitted.transform(new)
    weight = data[0]["site"].value_counts(normalize=True).sort_index().to_numpy()
    average = weight @ np.array([one["effects"][0] for one in fitted.suspect_effects_])
    np.testing.assert_allclose(new["a"] - out["a"], average, atol=1e-9)
    strict = corrector(unknown="error").fit(data[0])
    with pytest.raises(
        ValueError, match=r"unknown levels of 'site' in 3 rows \(first at index 0\)"
    ):
        strict.transform(new)


def test_weights_and_dropped_suspects(data):
    table, a = data[0], np.linspace(0.5, 2, len(data[0]))
    model = corrector(drop_suspects=True).fit(table, sample_weight=a)
    np.testing.assert_allclose(model.sample_weight_, a * model.mixture_.weights_)
    assert list(model.transform(table)) == ["a", "b", "c", "ward"]
    assert list(model.get_feature_names_out()) == ["a", "b", "c", "ward"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"unknown": "ignore"}, "unknown='ignore'"),
        ({"drop_suspects": "yes"}, "drop_suspects='yes' should be True or False"),
        ({"suspects": "center"}, "'center', which is not a column"),
    ],
)
def test_bad_parameters_are_named(data, how, message):
    with pytest.raises((ValueError, TypeError), match=message):
        corrector(**how).fit(data[0])


def test_kmeans_on_corrected_rows_recovers_the_groups(data):
    table, y, _ = data
    table = table.drop(columns="ward").dropna()
    y = y[table.index - 1000]
    estimate = KMeans(3, n_init=10, random_state=0)
    raw = adjusted_rand_score(y, estimate.fit_predict(table.drop(columns="site")))
    corrected = corrector(drop_suspects=True).fit_transform(table)
    found = adjusted_rand_score(y, estimate.fit_predict(corrected))
    assert found > 0.9 > raw + 0.1


def test_a_pipeline_with_encoders_before_and_hdbscan_behind(data):
    table, y, _ = data
    table = table.drop(columns="ward").dropna()
    encoded = make_column_transformer(
        (StandardScaler(), ["a", "b", "c"]), (OneHotEncoder(sparse_output=False), ["site"])
    )
    model = make_pipeline(
        encoded,
        corrector(suspects=[3, 4, 5], drop_suspects=True),
        HDBSCAN(min_cluster_size=40, min_samples=5, copy=True),
    )
    labels = model.fit_predict(table)
    known = labels >= 0
    assert known.mean() > 0.5
    assert adjusted_rand_score(y[table.index - 1000][known], labels[known]) > 0.9


def test_a_saved_model_gives_the_same_rows(data, fitted, tmp_path):
    pytest.importorskip("skops")
    loaded = unskew.load(unskew.save(fitted, tmp_path / "m.skops"))
    pd.testing.assert_frame_equal(loaded.transform(data[0]), fitted.transform(data[0]))


@pytest.mark.filterwarnings("ignore:A model with one group")
def test_a_table_without_numbers_is_returned_with_a_warning():
    rng = np.random.default_rng(0)
    X = np.c_[rng.random((200, 4)) < 0.5, rng.integers(0, 2, 200)].astype(float)
    with pytest.warns(UserWarning, match="No column is a number"):
        corrector = SuspectCorrector(suspects=[4], n_components=2, random_state=0).fit(X)
    np.testing.assert_array_equal(corrector.transform(X), X)


# --------------------------------------------------------------------- protected columns, reference
def make_patients(n=4000, seed=0):
    """Two sites and a diagnosis that is frequent at the second: x = diagnosis + 2 site + noise."""
    rng = np.random.default_rng(seed)
    site = rng.integers(2, size=n)
    ill = rng.random(n) < np.where(site == 1, 0.8, 0.2)
    x = np.c_[1.0 * ill + 2.0 * site, -1.0 * ill + 1.0 * site, 0.5 * site + 0.0 * ill]
    table = pd.DataFrame(x + rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    table["site"] = np.array(["north", "south"])[site]
    table["diagnosis"] = np.where(ill, "ill", "control")
    return table


def differences(table, column, values=("north", "south")):
    """Differences of the means of a, b, c between two values of a column."""
    means = table.groupby(column)[["a", "b", "c"]].mean()
    return (means.loc[values[1]] - means.loc[values[0]]).to_numpy()


def test_differences_between_protected_values_are_kept():
    table = make_patients()
    how = {"n_components": 1, "covariance": "diag"}
    kept = corrector(protect="diagnosis", **how).fit_transform(table)
    ill = ("control", "ill")
    for site in ("north", "south"):
        own = kept[kept["site"] == site]
        # 400 rows and more in a cell: 5 standard errors of a difference.
        np.testing.assert_allclose(differences(own, "diagnosis", ill), [1, -1, 0], atol=0.3)
    for diagnosis in ill:
        own = kept[kept["diagnosis"] == diagnosis]
        np.testing.assert_allclose(differences(own, "site"), 0, atol=0.3)
    # Without protection the effect of the site absorbs 0.6 of the difference.
    lost = corrector(**how).fit_transform(table.drop(columns="diagnosis"))
    lost["diagnosis"] = table["diagnosis"]
    np.testing.assert_allclose(differences(lost, "site"), 0, atol=0.05)
    own = lost[lost["diagnosis"] == "ill"]
    assert abs(differences(own, "site")[0]) > 0.4


def test_effects_of_one_group_are_those_of_least_squares():
    """Site means within diagnoses: ComBat without shrinkage (mean_only)."""
    table = make_patients(20_000)
    how = {"n_components": 1, "covariance": "diag"}
    out = corrector(protect="diagnosis", **how).fit_transform(table)
    removed = table[["a", "b", "c"]] - out[["a", "b", "c"]]
    found = differences(removed.assign(site=table["site"]), "site")
    Z = np.c_[np.ones(len(table)), table["site"] == "south", table["diagnosis"] == "ill"]
    expected = np.linalg.lstsq(Z.astype(float), table[["a", "b", "c"]].to_numpy(), rcond=None)[0][1]
    # Shrinkage moves an effect by less than its standard error, 0.018.
    np.testing.assert_allclose(found, expected, atol=1e-2)


def test_effects_are_learned_from_the_reference_only():
    table = make_patients()
    ill = (table["diagnosis"] == "ill") & (table["site"] == "south")
    moved = table.copy()
    moved.loc[ill, "a"] += 50.0  # patients of one site, not controls
    how = {"n_components": 1, "covariance": "diag", "reference": {"diagnosis": "control"}}
    out = corrector(**how).fit(moved).transform(moved)
    controls = out[table["diagnosis"] == "control"]
    np.testing.assert_allclose(differences(controls, "site"), 0, atol=0.3)
    change = (moved["a"] - out["a"]).groupby(moved["site"]).agg(["min", "max"])
    np.testing.assert_allclose(change["max"] - change["min"], 0, atol=1e-9)
    mask = (table["diagnosis"] == "control").to_numpy()
    same = corrector(**how | {"reference": mask}).fit(moved).transform(moved)
    pd.testing.assert_frame_equal(out, same)
    fitted = corrector(**how).fit(moved)
    assert fitted.sample_weight_.shape == (len(table),)
    assert (fitted.sample_weight_ > 0).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reference": {"diagnosis": "healthy"}}, "has no rows"),
        ({"reference": [0, 1]}, "should be a dict of columns"),
        ({"reference": {"diagnosi": "ill"}}, "diagnosi"),
        ({"protect": "site"}, "both name column 'site'"),
        ({"suspects": None, "protect": "diagnosis"}, "needs suspects"),
        ({"effects": "scale"}, "effects='scale' should be"),
    ],
)
def test_bad_protection_and_references_are_refused(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        corrector(**given).fit(make_patients(100))


@pytest.mark.parametrize("effects", ["shift", "shift-scale", "per-group"])
def test_every_form_of_effects_has_an_inverse(effects):
    table, y, _ = make_table()
    # Site A has half the spread, and shifts one group more.
    at = (table["site"] == "A").to_numpy()
    table.loc[at, "a"] *= 0.5
    table.loc[at & (y == 2), "c"] += 2.0
    fitted = corrector(effects=effects).fit(table)
    corrected = fitted.transform(table)
    assert np.abs(corrected[["a", "b", "c"]] - table[["a", "b", "c"]]).max().min() > 0.5
    pd.testing.assert_frame_equal(fitted.inverse_transform(corrected), table, atol=1e-8)


def test_without_effects_rows_stay_as_they_are(rng):
    table, _, _ = make_table()
    table["site"] = rng.permutation(table["site"].to_numpy())
    table[["a", "b", "c"]] = rng.normal(size=(600, 3)) + 6 * np.eye(3)[rng.integers(3, size=600)]
    fitted = corrector().fit(table)
    assert fitted.mixture_.choice_["effects"] == "none"
    pd.testing.assert_frame_equal(fitted.transform(table), table)


def test_one_group_is_reported_because_groups_of_a_site_are_removed_with_its_effects(rng):
    site = np.repeat([0, 1, 2], 60)
    X = np.c_[rng.normal(size=(180, 2)) + 6.0 * np.eye(3)[site][:, :2], site]
    with pytest.warns(UserWarning, match="A mixture of one group was selected"):
        found = corrector(suspects=2, n_components="auto", kinds={2: "category"}).fit(X)
    assert found.n_components_ == 1


def test_one_group_is_combat_of_the_means(rng):
    """Both shrink effects, by amounts that vanish as 1 / n; the origin is a convention."""
    combatlearn = pytest.importorskip("combatlearn")
    site, x = rng.integers(3, size=5000), rng.normal(size=(5000, 4)) * [1.0, 2.0, 0.5, 1.0]
    x += np.array([[1.0, -1, 0, 0.5], [0, 2, -1, 0], [-1, -1, 1, -0.5]])[site]
    table = pd.DataFrame(x, columns=list("abcd"))
    combat = combatlearn.ComBat(batch=pd.Series(site), mean_only=True).fit_transform(table)
    one = corrector(n_components=1, effects="shift", drop_suspects=True)
    own = one.fit_transform(table.assign(site=SITES[site]))
    difference = (own.to_numpy() - np.asarray(combat)) / x.std(0)
    assert np.abs(difference - difference.mean(0)).max() < 2e-3


# ------------------------------------------------------------------------------- command line
def test_correct_writes_the_whole_table_and_applies_the_model_to_new_rows(
    tmp_path, monkeypatch, unskew
):
    pytest.importorskip("rich_click")
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    table, _, _ = make_table()
    table = table.assign(visit=np.arange(len(table)) % 7, note="n")
    table.to_csv("data.csv", index=False)
    how = ["-s", "site", "-k", "3", "--drop", "visit", "--out", "out.csv", "--model", "m.skops"]
    code, out, err = unskew("correct", "data.csv", *how)
    assert code == 0, err
    assert "3 columns: a, b, c" in out
    given, found = pd.read_csv("data.csv"), pd.read_csv("out.csv")
    assert list(found) == list(given)
    pd.testing.assert_frame_equal(found.drop(columns=list("abc")), given.drop(columns=list("abc")))
    expected = corrector(covariance="auto").fit(given.drop(columns=["visit", "note"]))
    same = expected.transform(given.drop(columns=["visit", "note"]))
    np.testing.assert_allclose(found[list("abc")], same[list("abc")], atol=1e-6)
    given[:50].to_csv("new.csv", index=False)
    assert unskew("correct", "new.csv", "--apply", "m.skops", "--out", "new.parquet")[0] == 0
    new = pd.read_parquet("new.parquet")
    np.testing.assert_allclose(new[list("abc")], found.loc[:49, list("abc")], rtol=1e-9)
    code, out, _ = unskew("correct", "new.csv", "--apply", "m.skops", "-q")
    assert code == 0
    assert out.splitlines()[0] == ",".join(given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--suspect should be given, or --apply MODEL"),
        (["-s", "site", "--apply", "m.skops"], "--suspect should not be given with --apply"),
        (["-s", "site", "--reference", "ward"], "--reference 'ward' should be COLUMN=VALUE"),
        (["-s", "site", "--reference", "ward=q"], "column 'ward' has no value 'q'"),
        (["-s", "site", "--protect", "wards"], "--protect 'wards' is not one of its 5 columns"),
        (["-s", "site", "--out", "out.xlsx"], "out.xlsx"),
        (["-s", "site", "-k", "0"], "--groups 0 should be"),
    ],
)
def test_correct_refuses_what_it_cannot_do(tmp_path, monkeypatch, unskew, options, message):
    pytest.importorskip("rich_click")
    monkeypatch.chdir(tmp_path)
    make_table(60)[0].to_csv("data.csv", index=False)
    code, _, err = unskew("correct", "data.csv", *options)
    assert code == 2
    assert message in err


def test_columns_without_effects_are_returned_as_they_are(data):
    table = data[0].assign(count=np.arange(len(data[0])) % 5)
    out = corrector().fit_transform(table)
    assert out["count"].dtype == table["count"].dtype
    pd.testing.assert_series_equal(out["count"], table["count"])
