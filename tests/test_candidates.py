"""Traces of the collection: effect, selection or neither, and the answer of an audit."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from unskew.datasets import SITE_NAMES, get_data_home, load_sites
from unskew.diagnostics import _candidates, audit
from unskew.diagnostics._candidates import holm


def table(seed=0, n=400, role="effect", shift=1.0):
    """Three groups in four columns, and a site that shifts two, selects groups, or neither."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    site = rng.integers(0, 2, n)
    if role != "neither":
        site = (rng.random(n) < np.array([0.8, 0.5, 0.2])[group]).astype(int)
    X = rng.normal(size=(n, 4)) + 4 * np.eye(3, 4)[group]
    if role == "effect":
        X[:, :2] += shift * site[:, None]
    made = pd.DataFrame(X, columns=["height", "weight", "score", "income"])
    made["site"] = np.array(["north", "south"])[site]
    return made


def p_values(n_tables, role, monkeypatch, n=120):
    """(independence, effect) of the site in tables of a role."""
    monkeypatch.setattr(_candidates, "N_PERMUTATIONS", 99)
    found = []
    for seed in range(n_tables):
        made = table(seed, n, role)
        X = np.column_stack([made.iloc[:, :4], made["site"] == "south"])
        args = made.columns, None, np.array([4]), np.zeros(5), seed
        found += _candidates.find_candidates(X, np.ones(n), *args)[0]
    return np.array([(c.p_dependence, c.p_effect) for c in found]), [c.role for c in found]


@pytest.mark.parametrize("role", ["effect", "selection", "neither"])
def test_the_role_of_a_site_is_found_with_its_number(role):
    found = audit(table(role=role), suspects="site")
    (site,) = found.candidates
    assert site.role == role
    assert found.worth.word == ("no" if role == "neither" else "yes")
    number = {"effect": site.p_effect}.get(role, site.p_dependence)
    assert f"p = {number:.2g}" in found.worth.sentence
    if role == "effect":
        assert site.shifted == 0.5  # two of four columns
        assert 0.3 < site.shift < 0.7  # 1 apart: a standard deviation of 0.5
    assert site.explained == pytest.approx(site.effect_gain + site.selection_gain)


def test_a_site_is_found_among_other_columns_of_few_values():
    made = table()
    rng = np.random.default_rng(1)
    made["hand"] = rng.choice(["left", "right"], len(made))
    made["answer"] = rng.integers(1, 6, len(made))
    made["day"] = pd.date_range("2024-01-01", periods=len(made))
    found = audit(made)
    assert [c.role for c in found.candidates] == ["effect", "neither", "neither", "neither"]
    assert found.candidates[0].column == "site"
    assert {c.column for c in found.candidates} == {"site", "hand", "answer", "day"}
    assert found.worth.word == "yes"
    assert "“site” shifts" in found.worth.sentence


def test_a_column_that_does_not_look_like_the_collection_is_no_reason_for_a_correction():
    rng = np.random.default_rng(1)
    found = audit(table().rename(columns={"site": "sex"}).assign(a=rng.normal(size=400)))
    assert found.candidates[0].role == "effect"
    assert found.candidates[0].shifted < 0.5
    assert found.worth.word == "no"
    assert "“sex” shifts" in found.worth.sentence


def test_few_rows_and_no_columns_of_few_values_cannot_tell():
    few = audit(table(n=30), suspects="site")
    assert (few.worth.word, few.candidates) == ("cannot tell", ())
    assert "30 rows are too few" in few.worth.sentence
    some = audit(table(n=100, role="neither"), suspects="site")
    assert some.worth.word == "cannot tell"
    assert audit(table().drop(columns="site")).worth.word == "cannot tell"
    independent = np.random.default_rng(0).normal(size=(300, 4))
    assert audit(independent).worth.word == "no"


def test_independent_columns_have_uniform_p_values(monkeypatch):
    p, _ = p_values(25, "neither", monkeypatch)
    assert 1 <= (p[:, 0] < 0.2).sum() <= 11  # 5 expected; both tails 0.5 %
    assert 0.35 < p[:, 0].mean() < 0.65


@pytest.mark.soak
def test_p_values_of_independent_columns_are_uniform_in_many_tables(monkeypatch):
    p, roles = p_values(500, "neither", monkeypatch)
    assert kstest(p[:, 0] - 0.005, "uniform").pvalue > 0.01  # p is a multiple of 1 / 100
    assert roles.count("neither") >= 0.92 * len(roles)


@pytest.mark.soak
@pytest.mark.parametrize("n", [120, 400, 1000])
def test_size_for_selection_only_is_at_most_twice_alpha(monkeypatch, n):
    p, roles = p_values(200, "selection", monkeypatch, n)
    assert (p[:, 1] < 0.05).mean() <= 0.1
    assert roles.count("effect") <= 0.05 * len(roles)


@pytest.mark.soak
@pytest.mark.parametrize("name", SITE_NAMES)
def test_the_true_nuisance_ranks_first_on_real_data(name):
    try:
        data = load_sites(name, download_if_missing=False)
    except FileNotFoundError:
        pytest.skip(f"no data in {get_data_home()}")
    made = pd.DataFrame(np.asarray(data.data), columns=data.feature_names)
    made = data.data.copy() if name == "heart" else made.rename(columns=str)
    made[data.suspect_name] = data.suspect
    rng = np.random.default_rng(0)
    for i in range(3):
        made[f"noise {i}"] = rng.integers(0, 3, len(made)).astype(str)
    first = audit(made).candidates[0]
    assert first.column == data.suspect_name
    assert first.role == ("selection" if name == "penguins" else "effect")


def test_pairs_are_ranked_by_association_and_not_by_rare_values():
    made = table()
    rng = np.random.default_rng(0)
    rare = np.full(len(made), "usual")
    rare[np.argsort(-made["income"])[:2]] = "rare"  # a large difference of two rows
    made["rare"] = rare
    made["copy"] = made["height"] + rng.normal(size=len(made))
    pairs = audit(made).pairs
    assert {pairs[0].first, pairs[0].second} == {"height", "copy"}
    odd = next(p for p in pairs if {p.first, p.second} == {"income", "rare"})
    assert odd.difference > pairs[0].difference
    associations = [p.association for p in pairs]
    assert associations == sorted(associations, reverse=True)


def test_weights_count_rows_by_their_precision():
    made = table(shift=0.6)
    w = np.random.default_rng(0).exponential(size=len(made)) ** 3
    weighted = audit(made, suspects="site", sample_weight=w).candidates[0]
    scaled = audit(made, suspects="site", sample_weight=7 * w).candidates[0]
    assert scaled.explained == pytest.approx(weighted.explained)
    plain = audit(made, suspects="site").candidates[0]
    assert weighted.effect_gain < plain.effect_gain


def test_holm_is_the_step_down_bonferroni():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5]) == [0.5]
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_overlap_of_groups_and_values_is_reported(rng):
    y = rng.integers(0, 3, 600)
    site = np.where(rng.random(600) < 0.5, "north", "south")
    site[(y == 2) & (rng.random(600) < 0.5)] = "west"  # which has rows of this group only
    x = np.array([[0, 0], [9, 0], [3, 7]])[y] + rng.normal(size=(600, 2))
    x[:, 0] += 2.0 * (site == "south")
    found = audit(pd.DataFrame(x, columns=["a", "b"]).assign(site=site), suspects=["site"])
    overlap = found.candidates[0].overlap
    assert np.array_equal(
        sorted(map(sum, overlap.rows)), np.sort(np.unique(site, return_counts=True)[1])
    )
    assert set(overlap.values) == {"north", "south", "west"}
    assert overlap.one_cluster == ("west",)
    assert overlap.identified == "under small effects"
    assert overlap.sentence in found.worth.reasons
