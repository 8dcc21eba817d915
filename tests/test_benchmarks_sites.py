"""The benchmark of sites: no method sees more than it should, and a refusal has its reason."""

import importlib.util
import json

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pytest.importorskip("matplotlib")

from sklearn.utils import Bunch  # noqa: E402

from benchmarks.sites import cases, evaluate, study  # noqa: E402
from benchmarks.sites.evaluation import as_suspects, prepare  # noqa: E402
from benchmarks.sites.methods import (  # noqa: E402
    METHODS,
    Method,
    NotApplicable,
    Rows,
    installed_methods,
    label_new_rows,
)
from unskew.simulate import make_sites  # noqa: E402

FAST = ["k-means", "suspects dropped", "regressed out", "DCKM weights"]


@pytest.fixture(scope="module")
def data():
    return make_sites(240, n_clusters=3, n_sites=3, n_features=4, separation=3, random_state=0)


def arguments(data):
    return data.X[:, data.core], data.site, data.y, 3


# --------------------------------------------------------------------------------------- evaluate
@pytest.mark.parametrize("method", installed_methods())
def test_rows_that_are_not_fitted_have_no_influence(data, method):
    X, site, y, K = arguments(data)
    extended = np.vstack([X, 100 + 50 * X[:60]])
    fit = np.arange(240)
    how = {"fit_on": fit, "judge_on": fit, "methods": [method]}
    first = evaluate(X, site, y, K, **how)[0]
    more = evaluate(extended, np.r_[site, site[:60]], np.r_[y, y[:60]], K, **how)[0]
    assert first["status"] == "ok", first["reason"]
    for name in ("ari", "nmi", "association", "n_found"):
        assert more[name] == pytest.approx(first[name], abs=1e-12)


def test_names_of_groups_and_sites_have_no_influence(data):
    X, site, y, K = arguments(data)
    first = evaluate(X, site, y, K, methods=FAST)
    words = np.array(["c", "b", "a"])
    other = evaluate(X, np.array(["x", "y", "z"])[site], words[y], K, methods=FAST)
    for one, two in zip(first, other):
        assert one["ari"] == pytest.approx(two["ari"])
        assert one["association"] == pytest.approx(two["association"])


def test_new_rows_are_judged_by_their_own_truth(data):
    X, site, y, K = arguments(data)
    population = data.X_population[:, data.core]
    found = evaluate(
        np.vstack([X, population]), np.r_[site, data.site_population],
        np.r_[y, data.y_population], K, fit_on=np.arange(240), judge_on=np.arange(240, 480),
        methods=["suspects dropped"],
    )[0]  # fmt: skip
    wrong = evaluate(
        np.vstack([X, population]), np.r_[site, data.site_population],
        np.r_[y, np.roll(data.y_population, 7)], K, fit_on=np.arange(240),
        judge_on=np.arange(240, 480), methods=["suspects dropped"],
    )[0]  # fmt: skip
    assert found["ari"] > 0.3
    assert wrong["ari"] < 0.1


@pytest.mark.parametrize(
    ("kind", "refusing"),
    [
        ("numeric", {"Harmony", "ComBat", "CovBat", "ComBat (scanpy)"}),
        ("two", {"ComBat (scanpy)"}),
    ],
)
def test_methods_that_do_not_apply_give_their_reason(kind, refusing):
    how = {"numeric": True} if kind == "numeric" else {"n_suspects": 2, "n_sites": 2}
    data = make_sites(200, n_clusters=2, n_features=4, random_state=0, **how)
    found = evaluate(*arguments(data)[:3], 2)
    refused = {row["method"] for row in found if row["status"] == "not applicable"}
    assert refused == refusing & set(installed_methods())
    for row in found:
        assert row["status"] == ("not applicable" if row["method"] in refused else "ok")
        assert bool(row["reason"]) == (row["method"] in refused)


@pytest.mark.soak
def test_a_table_with_categories_and_missing_values_goes_through_all_methods(data):
    X, site, y, K = arguments(data)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(X[:100], columns=list("abcd"))
    table.loc[rng.random(100) < 0.1, "a"] = np.nan
    kind = (y[:100] + (rng.random(100) < 0.2)) % 3
    table["kind"] = pd.Categorical(np.array(["u", "v", "w"])[kind])
    table.loc[5, "kind"] = np.nan
    for row in evaluate(table, site[:100], y[:100], K):
        assert row["status"] == "ok", row
        assert 1 <= row["n_found"] <= K


def test_a_failure_is_a_row(monkeypatch, data):
    def fails(rows, K, seed):
        raise RuntimeError("no memory of it")

    monkeypatch.setitem(METHODS, "k-means", METHODS["k-means"]._replace(function=fails))
    found = evaluate(*arguments(data), methods=["k-means", "suspects dropped"])
    assert [row["status"] for row in found] == ["failed", "ok"]
    assert found[0]["reason"] == "RuntimeError: no memory of it"


def test_a_method_that_is_not_installed_is_not_applicable(monkeypatch, data):
    changed = METHODS["k-means"]._replace(package="no_such_package")
    monkeypatch.setitem(METHODS, "k-means", changed)
    found = evaluate(*arguments(data), methods=["k-means"])[0]
    assert found["status"] == "not applicable"
    assert found["reason"] == "no_such_package is not installed"


def test_one_true_group_has_no_ari(data):
    found = evaluate(data.X[:, :4], data.site, np.zeros(240), 3, methods=["suspects dropped"])[0]
    assert found["ari"] is None
    assert found["association"] > 0


def test_bad_arguments_are_named(data):
    X, site, y, K = arguments(data)
    with pytest.raises(ValueError, match="methods has 'magic'"):
        evaluate(X, site, y, K, methods=["magic"])
    with pytest.raises(ValueError, match="X has 240 rows, site 239 and truth 240"):
        evaluate(X, site[1:], y, K, methods=FAST)


def test_wide_matrices_are_reduced_and_others_standardised():
    rng = np.random.default_rng(0)
    fit = np.arange(50)
    wide, table = prepare(rng.normal(size=(80, 60)), fit, True)
    assert wide.shape == (80, 20)
    assert table is None
    assert wide[fit].var(0).mean() == pytest.approx(1)
    narrow, _ = prepare(5 + 3 * rng.normal(size=(80, 4)), fit, True)
    np.testing.assert_allclose(narrow[fit].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(narrow[fit].std(0), 1)
    X = rng.normal(size=(80, 3)) * [1, 2, 3]
    kept, _ = prepare(X, fit, False)
    np.testing.assert_allclose(kept / kept[0, 0], X / X[0, 0])


def test_labels_of_new_rows_come_from_the_nearest_mean_of_their_site():
    # Two clusters at 0 and 10 at site a, at 100 and 110 at site b.
    X = np.array([0.0, 10, 100, 110, 2, 9, 101, 112, 109])[:, None]
    site = np.array(list("aabbaabbb"))
    rows = Rows(X, None, as_suspects(site), np.arange(4), np.arange(9))
    found = label_new_rows(rows, np.array([0, 1, 0, 1]))
    np.testing.assert_array_equal(found, [0, 1, 0, 1, 0, 1, 0, 1, 1])
    # A fitted row keeps its label, wherever it is.
    strange = label_new_rows(rows, np.array([1, 0, 0, 1]))
    np.testing.assert_array_equal(strange[:4], [1, 0, 0, 1])


# ------------------------------------------------------------------------------------------ cases
@pytest.mark.parametrize("title", cases.SIMULATED)
def test_simulated_cases_have_separate_populations(title):
    case = cases.simulated_case(title, 0)
    assert np.intersect1d(case.fit_on, case.judge_on).size == 0
    assert len(case.X) == len(case.site) == len(case.truth)
    assert set(np.unique(case.truth[case.fit_on])) == set(np.unique(case.truth[case.judge_on]))


def test_quick_tasks_are_a_part_of_the_full_ones():
    quick, full = (study.tasks_of(quick, 2) for quick in (True, False))
    keys = [task.key for task in full]
    assert len(set(keys)) == len(keys)
    assert {task.key for task in quick} < set(keys)


def test_methods_without_their_package_are_left_out(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "combatlearn" else find(name)
    )
    assert not {"ComBat", "CovBat"} & set(installed_methods())
    assert "k-means" in installed_methods()


def test_study_stores_every_run_and_prints_losses(monkeypatch, tmp_path, data):
    X, site, y, _ = arguments(data)
    bunch = Bunch(data=X, suspect=site, target=y, target_names=["a", "b", "c"])
    real = {"made, site": ("made", "site")}
    for module in (cases, study):
        monkeypatch.setattr(module, "REAL", real)
    monkeypatch.setattr(study, "load_sites", lambda name: bunch)
    monkeypatch.setattr(cases, "_load", lambda *what: bunch)
    monkeypatch.setattr(study, "QUICK", ("no groups", "numeric suspect"))

    def refuse(rows, K, seed):
        if rows.numeric_suspects:
            raise NotApplicable("it takes categories")
        return np.zeros(len(rows.judge), dtype=int)

    monkeypatch.setitem(METHODS, "SelectionMixture", Method(refuse, own=True))
    chosen = ["suspects dropped", "DCKM effects", "SelectionMixture"]
    monkeypatch.setattr(study, "installed_methods", lambda: chosen)
    monkeypatch.setitem(cases.COMMON, "n_samples", 150)
    monkeypatch.setenv("UNSKEW_SEEDS", "1")
    paths = study.sites(tmp_path, tmp_path / "parts", quick=True, command="test", jobs=1)
    stored = pl.read_parquet(tmp_path / "sites.parquet")
    assert stored.height == (2 + 2) * 3
    assert (stored["status"] == "failed").sum() == 0
    refused = stored.filter(pl.col("status") == "not applicable")
    assert set(refused["method"]) == {"SelectionMixture"}
    at_zero = stored.filter(pl.col("settings") == json.dumps({"rate": 0.0}))
    assert (at_zero["n_fitted"] == 240).all()
    page = paths[0].read_text()
    assert "UNSKEW_SEEDS=1 test" in page
    assert "1 seed, 12 runs" in page
    assert "minus that of the best peer" in page
    assert "![Population ARI" in page
    assert "it takes categories" in page
    assert {path.suffix for path in paths} == {".md", ".csv", ".html", ".png", ".svg", ".parquet"}
