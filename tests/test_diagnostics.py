"""Numbers about a fit and what is said about them: each test is named after the law it checks."""

import dataclasses
import json
import os
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from unskew import DCKM, ConsensusDCKM, DecorrelationWeights, SelectionMixture, SuspectCorrector
from unskew._data import sampling
from unskew.diagnostics import METHODS, Evidence, audit, compare, decide, diagnose, verdict
from unskew.diagnostics._likelihood import (
    Drawn,
    heavy_tails,
    levels_of,
    matching_gap,
    similarities,
    stability_on_halves,
    values_of,
)
from unskew.diagnostics._view import view_of_fit
from unskew.metrics import (
    adjusted_rand_score,
    amount_of_correlation,
    association,
    design_effect,
    effective_sample_size,
    kish_size,
)
from unskew.simulate import make_site_footprint, make_sites, make_spurious_background

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


@pytest.fixture(scope="module")
def footprint():
    return make_site_footprint(600, n_core=20, n_footprint=16, rate=0.8, random_state=0)


@pytest.fixture(scope="module")
def model(footprint):
    how = {"adjust": "weights", "n_init": 2, "random_state": 0}
    return DCKM(4, suspects=footprint.suspects, **how).fit(footprint.X)


@pytest.fixture(scope="module")
def found(model, footprint):
    return diagnose(model, footprint.X)


def make_patients(n=400, seed=0):
    """Three kinds at three sites: numbers with gaps, flags, levels, dates, a constant."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    site = np.where(rng.random(n) < 0.7, kind, rng.integers(0, 3, n))
    level = np.clip(kind + rng.integers(-1, 2, n), 0, 2)
    frame = pd.DataFrame(
        {
            "site": np.array(["north", "south", "east"])[site],
            "age": rng.normal(40 + 6 * kind + 4 * site, 6),
            "score": rng.normal(kind - site, 1.0),
            "smoker": rng.random(n) < 0.2 + 0.2 * kind,
            "grade": pd.Categorical.from_codes(level, ["low", "mid", "high"], ordered=True),
            "visit": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(site * 200 + rng.integers(0, 100, n), unit="D"),
        },
        index=[f"p{i}" for i in range(n)],
    )
    frame.loc[frame.index[site == 1][:60], "age"] = np.nan
    return frame


def plain(value):
    """Whether something is made of numbers, strings and tuples, with no NaN in it."""
    if dataclasses.is_dataclass(value):
        return all(plain(getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, tuple):
        return all(map(plain, value))
    if isinstance(value, float):
        return np.isfinite(value)
    return value is None or type(value) in (int, str, bool)


# ------------------------------------------------------------------------------------ one fit
def test_everything_is_plain_frozen_and_json(found):
    assert plain(found)
    json.dumps(dataclasses.asdict(found), allow_nan=False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.verdict = None


def test_columns_of_an_array_can_be_named(model, footprint):
    names = [f"q{k}" for k in range(footprint.X.shape[1])]
    named = diagnose(model, footprint.X, against=False, feature_names=names)
    assert {f.feature for c in named.clusters for f in c.features} <= set(names)
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match="feature_names has 1 names but X has"):
        diagnose(model, footprint.X, feature_names=["q"])


def test_weights_are_described_by_the_metrics(found, model):
    w = found.weights
    assert w.effective_size == pytest.approx(effective_sample_size(model.weights_))
    assert w.effective_size == pytest.approx(model.effective_sample_size_)
    assert w.kish_size == pytest.approx(kish_size(model.combined_weights_))
    assert w.design_effect == pytest.approx(design_effect(model.combined_weights_))
    assert sum(w.counts) == w.n_rows == 600
    assert w.heaviest[0].position == int(model.weights_.argmax())
    assert w.heaviest[0].weight == pytest.approx(w.maximum) == pytest.approx(model.weights_.max())
    assert w.heaviest[0].cluster == model.labels_[w.heaviest[0].position]
    assert w.lightest[0].weight == w.minimum


def test_differences_are_those_of_the_loop(found, model, footprint):
    X, w = footprint.X.astype(float), model.weights_
    sd = X.std(axis=0)
    row = next(f for f in found.features if f.feature == "column 3")
    for weights, value in ((np.ones(len(X)), row.before), (w, row.after)):
        gaps = []
        for j in footprint.suspects:
            on = X[:, j] == 1
            inside = np.average(X[on, 3], weights=weights[on])
            outside = np.average(X[~on, 3], weights=weights[~on])
            gaps.append(abs(inside - outside) / sd[3])
        assert value == pytest.approx(max(gaps), rel=1e-4)


def test_all_squared_differences_add_up_to_the_imbalance(found, model):
    assert found.imbalance_before == model.initial_imbalance_
    assert found.imbalance_after == model.imbalance_
    # typical is the mean size, so its square is at most the mean square
    n_pairs = 4 * 36
    assert found.evidence.typical_before**2 <= found.imbalance_before / n_pairs
    assert found.evidence.typical_after < found.evidence.typical_before


def test_independent_columns_differ_as_much_as_chance_says():
    rng = np.random.default_rng(0)
    X = (rng.random((2000, 20)) < 0.4).astype(float)
    fitted = DecorrelationWeights(suspects=[0, 1]).fit(X)
    e = diagnose(fitted, X).evidence
    assert e.typical_before == pytest.approx(e.by_chance, rel=0.25)


def test_pairs_name_a_suspect_first_and_are_sorted(found):
    suspects = set(found.settings.suspects)
    assert found.n_pairs == 4 * 36
    assert all(p.first in suspects and p.second not in suspects for p in found.pairs)
    before = [p.before for p in found.pairs]
    assert before == sorted(before, reverse=True)


def test_correlation_is_measured_before_and_after(found, model, footprint):
    c = found.correlation
    assert c.amount_before == pytest.approx(amount_of_correlation(footprint.X), rel=1e-4)
    expected = amount_of_correlation(footprint.X, model.weights_)
    assert c.amount_after == pytest.approx(expected, rel=1e-4)
    names = [int(name.split()[1]) for name in c.names]
    r = np.corrcoef(footprint.X[:, names].T)
    np.testing.assert_allclose(np.array(c.before), r, atol=1e-3)


def test_columns_of_the_maps_stand_in_the_order_of_clusters(found):
    groups = [4 if g is None else g for g in found.correlation.groups]
    assert groups == sorted(groups)
    assert len(found.correlation.names) <= 60


def test_profiles_are_those_of_the_model(found, model):
    for profile, summary in zip(found.clusters, model.cluster_summary_):
        assert profile.size == summary["size"]
        assert profile.weighted_share == pytest.approx(summary["weighted_share"])
        suspects = [f"column {j}" for j in model.suspects]
        others = [each for each in summary["features"] if each["feature"] not in suspects]
        assert others
        for own, other in zip(profile.features, others):
            assert own.feature == other["feature"]
            assert own.difference == pytest.approx(other["difference"])
            assert own.inside == pytest.approx(other["inside"])


def test_association_uses_design_weights_never_learned_ones(found, model, footprint):
    for one, j in zip(found.associations, footprint.suspects):
        assert one.value == pytest.approx(association(model.labels_, footprint.X[:, j]))


def test_explained_variance_is_that_between_the_clusters(found, model, footprint):
    X = np.delete(footprint.X, footprint.suspects, axis=1).astype(float)
    within = sum(
        ((X[model.labels_ == k] - X[model.labels_ == k].mean(axis=0)) ** 2).sum() for k in range(4)
    )
    total = ((X - X.mean(axis=0)) ** 2).sum()
    assert found.explained_variance == pytest.approx(1 - within / total, rel=1e-4)


def test_flow_counts_every_row_once_and_matches_best(found, model, footprint):
    counts = np.array(found.flow.counts)
    assert counts.sum() == 600
    np.testing.assert_array_equal(counts.sum(axis=0), np.bincount(model.labels_))
    assert found.flow.moved == pytest.approx(1 - np.trace(counts) / 600)
    swapped = [counts[list(order)].trace() for order in ((1, 0, 2, 3), (0, 2, 1, 3), (3, 1, 2, 0))]
    assert np.trace(counts) >= max(swapped)


def test_kmeans_flows_into_itself(footprint):
    still = DCKM(
        4, suspects=footprint.suspects, adjust="weights", balance_strength=0, spread_strength=1e6,
        n_init=10, random_state=0,
    ).fit(footprint.X)  # fmt: skip
    own = diagnose(still, footprint.X)
    assert own.flow.moved == 0
    assert own.flow.agreement == 1
    assert own.evidence.kept_variance == pytest.approx(1)
    assert own.verdict.dropping_would_do
    assert own.verdict.word == "no effect"
    assert "finds the same clusters (agreement 1.00)" in own.verdict.sentence
    alone = DCKM(4, balance_strength=0, spread_strength=1e6, n_init=2, random_state=0)
    assert diagnose(alone.fit(footprint.X), footprint.X).verdict.word == "no effect"


def test_projection_has_every_cluster_and_at_most_2000_rows():
    data = make_site_footprint(4500, n_core=8, n_footprint=8, random_state=0)
    fitted = DCKM(4, suspects=data.suspects, n_init=1, random_state=0).fit(data.X)
    p = diagnose(fitted, data.X, against=False).projection
    assert len(p.positions) <= 2000
    assert p.n_rows == 4500
    assert set(p.cluster) == set(range(4))
    assert p == diagnose(fitted, data.X, against=False).projection
    shares = np.bincount(p.cluster) / len(p.cluster)
    np.testing.assert_allclose(shares, np.bincount(fitted.labels_) / 4500, atol=0.01)


def test_without_baselines_nothing_is_reported_about_kmeans(model, footprint):
    alone = diagnose(model, footprint.X, against=False)
    assert alone.baselines == ()
    assert alone.flow is None
    assert alone.evidence.same_as_kmeans is None
    assert any("not compared with k-means" in reason for reason in alone.verdict.reasons)


def test_weights_without_clusters_have_diagnostics_too(footprint):
    fitted = DecorrelationWeights(suspects=footprint.suspects).fit(footprint.X)
    own = diagnose(fitted, footprint.X)
    assert own.clusters == own.baselines == own.associations == ()
    assert own.flow is None
    assert own.projection is None
    assert own.verdict.word == "helped"


def test_sparse_rows_give_the_numbers_of_dense_ones(model, footprint, found):
    X = sparse.csr_array(footprint.X.astype(float))
    fitted = DCKM(4, suspects=footprint.suspects, n_init=2, random_state=0).fit(X)
    other = diagnose(fitted, X)
    ours = diagnose(model, footprint.X).features
    before = {f.feature: f.before for f in ours}
    assert {f.feature: f.before for f in other.features} == pytest.approx(before, rel=1e-4)


def test_the_published_procedure_has_diagnostics(footprint):
    X = footprint.X.astype(float)
    fitted = DCKM(
        4, objective="paper", solver="paper", balance_strength=0.01, spread_strength=10, n_init=1,
        max_iter=20, tol=0.01, random_state=0,
    ).fit(X)  # fmt: skip
    own = diagnose(fitted, X)
    assert plain(own)
    assert own.convergence.converged
    assert own.weights.effective_size == pytest.approx(fitted.effective_sample_size_)


def test_rows_of_weight_zero_are_absent(footprint):
    a = np.ones(600)
    a[:200] = 0
    whole = DCKM(4, suspects=footprint.suspects, init="principal").fit(footprint.X, sample_weight=a)
    part = DCKM(4, suspects=footprint.suspects, init="principal").fit(footprint.X[200:])
    one = diagnose(whole, footprint.X, a)
    other = diagnose(part, footprint.X[200:])
    assert one.weights.n_rows == other.weights.n_rows == 400
    assert one.settings.n_rows - one.settings.n_zero == 400
    assert one.weights.design_size == pytest.approx(400)
    assert one.explained_variance == pytest.approx(other.explained_variance, rel=1e-3)
    assert [f.before for f in one.features] == pytest.approx(
        [f.before for f in other.features], rel=1e-3
    )
    assert one.verdict.word == other.verdict.word


def test_other_rows_or_weights_than_those_of_the_fit_are_refused(model, footprint):
    with pytest.raises(ValueError, match="X has 599 rows but the model was fitted to 600"):
        diagnose(model, footprint.X[1:])
    with pytest.raises(ValueError, match="sample_weight differs from that of the fit"):
        diagnose(model, footprint.X, np.arange(600) + 1.0)


def test_wide_data_are_cut_down_and_say_so(monkeypatch, footprint):
    from unskew.diagnostics import _view

    monkeypatch.setattr(_view, "MAX_PAIR_BLOCK", 100)
    fitted = DCKM(4, n_init=1, random_state=0).fit(footprint.X)
    own = diagnose(fitted, footprint.X, against=False)
    assert len(own.features) == 10
    assert any("columns of largest variance" in note for note in own.notes)


# ------------------------------------------------------------------------------------- tables
@pytest.mark.parametrize("convert", [lambda t: t, pl.from_pandas], ids=["pandas", "polars"])
def test_mixed_tables_are_reported_in_their_own_units(convert):
    table = convert(make_patients())
    fitted = DCKM(3, suspects=["site", "visit"], n_init=2, random_state=0).fit(table)
    own = diagnose(fitted, table)
    assert plain(own)
    assert {f.feature for f in own.features} == {"age", "score", "smoker", "grade"}
    assert own.settings.suspects == ("site", "visit")
    by_name = {a.suspect: a for a in own.associations}
    assert by_name["site"].kind == "cramers_v"
    assert by_name["visit"].kind == "eta"
    site = np.asarray(table["site"])
    assert by_name["site"].value == pytest.approx(association(fitted.labels_, site))
    age = [f for c in own.clusters for f in c.features if f.feature == "age"]
    assert age
    assert all(20 < f.plain_inside < 80 for f in age)
    known = np.asarray(table["age"], dtype=float)
    mine = known[(fitted.labels_ == 0) & ~np.isnan(known)]
    of_first = next(f for f in own.clusters[0].features if f.feature == "age")
    assert of_first.plain_inside == pytest.approx(mine.mean())
    against = {f.against for f in own.features}
    assert any(text.startswith(("visit up to 2020-", "visit 2020-", "site=")) for text in against)


def test_rows_are_named_by_the_index_of_the_table():
    table = make_patients()
    fitted = DCKM(3, suspects="site", n_init=1, random_state=0).fit(table)
    top = diagnose(fitted, table, against=False).weights.heaviest[0]
    assert top.index == f"p{top.position}"


def test_constant_columns_are_in_the_settings():
    table = make_patients().assign(same=1)
    with pytest.warns(UserWarning, match="same"):
        fitted = DCKM(3, suspects="site", n_init=1, random_state=0).fit(table)
    own = diagnose(fitted, table)
    assert own.settings.ignored == (("same", "every value is 1"),)


# ------------------------------------------------------------------------------------ verdict
FINE = Evidence(
    suspects=("site",), n_clusters=4, n_rows=2000, converged=True, effective_size=0.4,
    kish_size=800.0, typical_before=0.5, typical_after=0.2, by_chance=0.04, kept_variance=0.97,
    same_as_kmeans=0.6, same_as_regressed=0.3,
    follows=0.5, kmeans_follows=0.9, dropped_follows=0.7, weighted_same=0.4, stability=0.9,
    kmeans_stability=0.95, gained=(("age", 0.2),), lost=(("dust", -0.3),),
    bic=1000.0, kmeans_bic=1300.0, mixture_bic=950.0, same_as_dropped=0.6, kmeans_repeated=1.0,
    mixture_same=0.95, mixture_same_as_dropped=0.62, mixture_halves=0.94, identified="yes",
)  # fmt: skip
MIXTURE = {
    "kmeans_bic": 1200.0, "halves": 0.95, "mixture_bic": None, "mixture_same": None,
    "mixture_same_as_dropped": None, "of_mixture": True,
}  # fmt: skip
BLIND = {"suspects": (), "bic": None, "kmeans_bic": None, "same_as_dropped": None}


def change(**values):
    return decide(dataclasses.replace(FINE, **values))


def test_a_higher_likelihood_than_that_of_kmeans_is_help():
    assert change().word == "helped"
    for words in ("by 0.95, those of k-means without the suspects by 0.62", "lower by 300"):
        assert words in change().sentence
    assert not change().dropping_would_do


def test_a_kmeans_that_depends_on_its_initialization_is_called_unstable():
    told = " ".join(change(kmeans_repeated=0.7).reasons)
    assert "agree by 0.70: k-means itself is unstable on these data." in told


def test_reasons_have_the_numbers_and_the_columns():
    told = " ".join(change().reasons)
    for words in ("0.50 standard deviations before the correction and 0.20 after; 0.04 is expected "
                  "if “site” has nothing to do with the other columns.",
                  "effective sample size (Kish) is 800 of 2,000 rows (40%).",
                  "97% of that of k-means",
                  "without the suspects (adjusted Rand index, 1 = the same clusters): 0.60 in the "
                  "sample.",
                  "by their initialization only, agree by 1.00, so the initialization does not "
                  "explain the difference.",
                  "unskew 1,000, k-means without the suspects 1,300, groups of a mixture model 950 "
                  "(in the population that it estimates, they agree by 0.95 with unskew and by "
                  "0.62 with k-means).",
                  "rows: 0.90 with the correction, 0.95 for k-means",
                  "more of the variance of age (+0.20) and less of the variance of dust "
                  "(-0.30)."):  # fmt: skip
        assert words in told


@pytest.mark.parametrize(
    ("values", "word", "said"),
    [
        ({"effective_size": 0.01}, "harmed", "effective sample size is too small"),
        ({"kish_size": 11.0}, "harmed", "effective sample size is too small"),
        ({**BLIND, "weighted_same": 0.5}, "harmed", "Name suspects"),
        ({**BLIND, "weighted_same": 0.95}, "no effect", "Name suspects"),
        ({"same_as_dropped": 0.96}, "no effect", "finds the same clusters (agreement 0.96)"),
        # Two runs of k-means differ as much.
        ({"kmeans_repeated": 0.55}, "no effect", "two runs of k-means agree by 0.55"),
        ({"mixture_same": 0.5, "mixture_same_as_dropped": 0.95, "kmeans_bic": 899.0}, "harmed",
         "higher by 101. Do not use"),
        # A small difference of agreement: BIC decides, if the groups are those of the mixture.
        ({"mixture_same_as_dropped": 0.9}, "helped", "lower by 300"),
        ({"mixture_same": 0.64}, "cannot be told", "without clear evidence"),
        ({"mixture_same": 0.6, "kmeans_bic": 850.0, "mixture_bic": 840.0}, "harmed",
         "higher by 150"),
        # A small difference of BIC: a large one of the agreement decides.
        ({"kmeans_bic": 1050.0}, "helped", "by 0.95, those of"),
        ({"kmeans_bic": 1050.0, "mixture_same": 0.5, "mixture_same_as_dropped": 0.95}, "harmed",
         "by 0.50, those of"),
        ({"kmeans_bic": 1050.0, "mixture_same": 0.7}, "cannot be told", "without clear evidence"),
        # They contradict each other.
        ({"kmeans_bic": 850.0}, "cannot be told", "without clear evidence"),
        # Of a mixture: its own likelihood counts only where halves of the rows confirm it.
        (MIXTURE, "helped", "by 200, and each of them is found again in random halves"),
        (MIXTURE | {"halves": 0.84, "stabilities": ((0, 0.9), (3, 0.84))}, "cannot be told",
         "Only 1 of the 2 clusters is found again in random halves of the rows; the lowest "
         "Jaccard similarity is 0.84 (cluster 3), where at least 0.85 is asked"),
        (MIXTURE | {"halves": 0.86}, "helped", "by 200, and each of them is found again"),
        (MIXTURE | {"halves": 0.89, "stabilities": ((0, 0.95), (1, 0.89)),
                    "identified": "under small effects"}, "cannot be told",
         "Only 1 of the 2 clusters is found again in random halves of the rows; the lowest "
         "Jaccard similarity is 0.89 (cluster 1), where at least 0.9 is asked"),
        (MIXTURE | {"identified": "no"}, "cannot be told", "share too few clusters"),
        (MIXTURE | {"identified": "under small effects"}, "helped",
         "This holds if “site” has no large effects."),
        (MIXTURE | {"suspects_matter": False}, "no effect", "Naming “site” changed nothing"),
        (MIXTURE | {"group_gain": -60.0}, "cannot be told", "do not show clusters"),
        ({"group_gain": -60.0}, "cannot be told", "do not show clusters"),
        (MIXTURE | {"group_gain": 99.0}, "cannot be told", "hardly show clusters"),
        (MIXTURE | {"group_gain": 101.0}, "helped", "have a lower BIC than those of"),
        (MIXTURE | {"group_gain": -60.0, "suspects_matter": False}, "no effect", "changed nothing"),
        # Likelihoods of normal distributions are decided by heavy tails.
        (MIXTURE | {"heavy_share": 0.11, "heavy_columns": ("pay",)}, "cannot be told",
         "11% of the columns have heavy tails within the clusters (“pay”)"),
        ({"heavy_share": 0.2, "heavy_columns": ("pay",)}, "cannot be told", "Take logarithms"),
        ({"heavy_share": 0.1, "heavy_columns": ("pay",)}, "helped", "lower by 300"),
        # Another matching of the groups, with nearly the same BIC.
        (MIXTURE | {"matching_gap": 9.6}, "cannot be told", "at one value, BIC is only 10 higher"),
        (MIXTURE | {"matching_gap": -3.0}, "cannot be told", "at one value, BIC is not higher"),
        (MIXTURE | {"matching_gap": 11.0}, "helped", "have a lower BIC than those of"),
        ({"matching_gap": 4.0}, "cannot be told", "a mixture model, with which both could be"),
        (MIXTURE | {"kmeans_bic": 1009.0}, "cannot be told", "BIC (it differs by 9)"),
        (MIXTURE | {"kmeans_bic": 900.0}, "harmed", "have a higher BIC than those of"),
        # Its groups do not depend on its weights.
        (MIXTURE | {"kish_size": 3.0}, "helped", "have a lower BIC than those of"),
        # The groups of the mixture are no evidence where they are not reproducible.
        ({"mixture_halves": 0.84, "stabilities": ((0, 0.84), (1, 0.9))}, "cannot be told",
         "and only 1 of the 2 groups of a mixture model, with which both could be compared, is "
         "found again in random halves of the rows; the lowest Jaccard similarity is 0.84, "
         "where at least 0.85 is asked"),
        # The mixture found other groups than both, which is no reason not to say "harmed".
        ({"mixture_bic": 600.0, "mixture_same": 0.85}, "cannot be told",
         "lower than both, by 400. Try SelectionMixture"),
        ({"mixture_bic": 600.0, "mixture_same": 0.91}, "helped", "lower by 300"),
        # ... nor "helped" where all evidence agrees.
        ({"mixture_bic": 600.0, "mixture_same": 0.85, "mixture_halves": 0.96}, "helped",
         "lower than both, by 400. Try SelectionMixture"),
        ({"mixture_bic": 600.0, "mixture_same": 0.7, "mixture_halves": 0.96}, "cannot be told",
         "without clear evidence"),
        ({"mixture_bic": 600.0, "mixture_same": 0.3}, "cannot be told", "without clear evidence"),
        ({"mixture_bic": 600.0, "mixture_same": 0.3, "kmeans_bic": 1050.0}, "harmed", "by 0.30"),
        ({"identified": "no", "not_identified": "No group joins."}, "cannot be told",
         "No group joins."),
        ({"identified": "under small effects"}, "helped", "if “site” has no large effects"),
        ({"bic": None, "kmeans_bic": None}, "cannot be told", "too many columns"),
    ],
)  # fmt: skip
def test_the_first_rule_that_holds_decides(values, word, said):
    found = change(**values)
    assert found.word == word
    assert said in found.sentence


def test_values_and_levels_that_are_compared():
    table = make_patients()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = DCKM(3, suspects="site", n_init=1, random_state=0).fit(table)
    view = view_of_fit(fitted, table, None)
    tile = np.asarray(view.rows.take(np.arange(len(table))), dtype=float)
    X = values_of(view, tile)
    assert X.shape[1] == view.rest.size
    lost = [name for name in table if table[name].isna().any() and name != "site"]
    assert np.isnan(X).any(axis=1).sum() <= table[lost].isna().any(axis=1).sum()
    assert np.isnan(X).any()
    level = levels_of(tile[:, view.suspects])
    sites = table["site"].astype(str).to_numpy()
    assert len(np.unique(level)) == len(np.unique(sites))
    assert all(len(np.unique(level[sites == one])) == 1 for one in np.unique(sites))
    # A number is cut at its quintiles.
    assert np.bincount(levels_of(np.arange(100.0)[:, None])).tolist() == [20] * 5


def test_the_verdict_on_weights_without_clusters_is_by_imbalance():
    alone = {"n_clusters": None, "weighted_same": None, "same_as_dropped": None}
    assert change(**alone).word == "helped"
    assert change(typical_after=0.45, **alone).word == "no effect"
    assert change(typical_before=0.04, **alone).word == "no effect"


def test_without_suspects_the_danger_is_named():
    reasons = change(**BLIND).reasons
    assert any("can remove them" in reason for reason in reasons)


def test_a_baseline_that_does_as_well_and_a_fit_that_did_not_converge_are_named():
    reasons = change(same_as_regressed=0.99, converged=False).reasons
    assert any("Regressing the suspects out" in r for r in reasons)
    assert any("did not converge" in r for r in reasons)


def test_verdicts_on_simulated_bias():
    found = {}
    for rate in (0.0, 0.8):
        data = make_site_footprint(1200, rate=rate, random_state=0)
        fitted = DCKM(4, suspects=data.suspects, n_init=3, random_state=0).fit(data.X)
        found[rate] = verdict(fitted, data.X)
        assert found[rate] == diagnose(fitted, data.X).verdict
    # At rate 0 k-means without the sites finds the groups.
    assert [each.word for each in found.values()] == ["no effect", "helped"]
    assert [each.dropping_would_do for each in found.values()] == [True, False]


def test_too_strong_a_balance_of_all_pairs_is_called_harm():
    data = make_spurious_background(1500, n_background=6, rate=0.6, random_state=0)
    strong = DCKM(4, balance_strength=10, spread_strength=0.1, n_init=2, random_state=0)
    usual = DCKM(4, n_init=2, random_state=0)
    words = [verdict(model.fit(data.X), data.X).word for model in (strong, usual)]
    assert words == ["harmed", "no effect"]


def test_kmeans_that_was_merely_stuck_does_not_flatter_the_model():
    # From its own starts alone k-means finds the sites here, at a higher inertia.
    data = make_site_footprint(1200, rate=0.0, random_state=1)
    how = {"adjust": "weights", "n_init": 3, "random_state": 0}
    fitted = DCKM(4, suspects=data.suspects, **how).fit(data.X)
    own = diagnose(fitted, data.X)
    assert own.evidence.kept_variance < 1.01
    assert own.verdict.dropping_would_do


# -------------------------------------------------------------------------------------- audit
def test_the_difference_of_a_pair_is_not_that_of_joint_missing_values(rng):
    n = 400
    sex = rng.choice(["a", "b"], n)
    frame = pd.DataFrame({"mass": rng.normal(size=n) + (sex == "a"), "sex": sex})
    frame["length"] = rng.normal(size=n)
    frame.loc[:3, ["mass", "sex", "length"]] = None
    (pair,) = [p for p in audit(frame).pairs if {p.first, p.second} == {"mass", "sex"}]
    means = frame.groupby("sex")["mass"].mean()
    wanted = abs(means["a"] - means["b"]) / frame["mass"].std()
    assert pair.difference == pytest.approx(wanted, rel=0.05)  # missing values are filled


def test_audit_finds_the_column_that_reaches_furthest(footprint):
    own = audit(footprint.X)
    assert plain(own)
    assert {n.column for n in own.notices} == {f"column {j}" for j in footprint.suspects}
    assert {c.column for c in own.candidates[:4]} == {f"column {j}" for j in footprint.suspects}
    # Columns of an array have no names: only a shift of half of the columns suggests a collection.
    wide = any(c.role == "effect" and c.shifted >= 0.5 for c in own.candidates)
    assert own.worth.word == ("yes" if wide else "no")
    assert audit(footprint.X, suspects=footprint.suspects).worth.word == "yes"


def test_audit_of_independent_columns_says_no():
    X = (np.random.default_rng(0).random((1000, 12)) < 0.5).astype(float)
    own = audit(X)
    assert own.worth.word == "no"
    assert own.notices == ()
    assert own.typical_difference == pytest.approx(own.by_chance, rel=0.2)


def test_audit_notices_identifiers_constants_collection_and_gaps():
    table = make_patients()
    table.insert(0, "patient", [f"code {i}" for i in range(len(table))])
    table["number"] = np.arange(len(table))
    table["same"] = "x"
    own = audit(table)
    why = {(n.column, n.why) for n in own.notices}
    assert ("patient", "identifier") in why
    assert ("number", "identifier") in why
    assert ("same", "near-constant") in why
    assert ("site", "predicts many columns") in why
    assert ("age", "missing values predict others") in why
    assert own.n_columns == table.shape[1]


def test_fields_of_results_are_tables():
    own = audit(make_patients())
    pairs = own.to_frame("pairs")
    assert list(pairs.columns) == ["first", "second", "difference", "kind", "association"]
    assert pairs["association"].tolist() == [p.association for p in own.pairs]
    assert type(own.to_frame("notices", "polars")).__module__.startswith("polars")
    with pytest.raises(
        ValueError, match=r"field='worth' should be one of 'pairs', 'candidates', 'notices'"
    ):
        own.to_frame("worth")


def test_audit_offers_survey_weights_unless_they_are_given():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    table["weight"] = rng.lognormal(5, 1.5, 200)  # of a survey
    table["wt_kg"] = rng.normal(70, 9, 200)  # of a body
    found = [n.column for n in audit(table).notices if n.why == "survey weights"]
    assert found == ["weight"]
    assert not [
        n for n in audit(table, sample_weight=table["weight"]).notices if n.why == "survey weights"
    ]


def test_audit_measures_pairs_by_their_kinds():
    table = make_patients()
    kinds = {frozenset((p.first, p.second)): p for p in audit(table).pairs}
    assert kinds[frozenset(("site", "grade"))].kind == "cramers_v"
    site_visit = kinds[frozenset(("site", "visit"))]
    assert site_visit.kind == "eta"
    both = kinds[frozenset(("score", "visit"))]
    days = (table["visit"] - table["visit"].min()).dt.days
    assert both.kind == "r"
    assert both.association == pytest.approx(abs(np.corrcoef(table["score"], days)[0, 1]), abs=0.02)


def test_audit_draws_rows_by_its_seed(monkeypatch):
    monkeypatch.setattr(sampling, "MAX_ROWS", 150)
    table = make_patients()
    one, same, other = (audit(table, random_state=s) for s in (1, 1, 2))
    assert one.n_rows == 400
    assert one.n_rows_used == 150
    assert "150 of 400 rows" in one.notes[0]
    assert one.pairs == same.pairs != other.pairs


def test_audit_refuses_more_columns_than_it_can_compare(monkeypatch, footprint):
    from unskew.diagnostics import _audit

    monkeypatch.setattr(_audit, "MAX_AUDIT_COLUMNS", 10)
    with pytest.raises(ValueError, match="X has 40 columns"):
        audit(footprint.X)


def test_audit_refuses_suspects_that_are_not_there(footprint):
    with pytest.raises(ValueError, match="'nowhere', which is not a column"):
        audit(make_patients(), suspects="nowhere")
    with pytest.raises(ValueError, match="names every column"):
        audit(footprint.X, suspects=list(range(footprint.X.shape[1])))


# ------------------------------------------------------------------------------------ compare
def test_compare_puts_all_methods_side_by_side(footprint, model):
    how = {"method": "dckm", "adjust": "weights", "n_init": 2, "random_state": 0}
    own = compare(footprint.X, 4, suspects=footprint.suspects, **how)
    assert plain(own)
    # Weights only are the model itself.
    assert [row.method for row in own.rows] == [each for each in METHODS if each != "weights"]
    by_name = {row.method: row for row in own.rows}
    assert by_name["kmeans"].agreement == 1
    assert by_name["kmeans"].effective_size == 1
    found = diagnose(model, footprint.X)
    assert by_name["dropped"].mean_difference == found.evidence.typical_before
    ours = by_name["dckm"]
    assert ours.effective_size == pytest.approx(model.effective_sample_size_)
    assert ours.mean_difference == pytest.approx(found.evidence.typical_after, rel=1e-3)
    assert sum(ours.sizes) == 600
    assert own.summary == found.verdict


def test_compare_says_why_a_method_has_no_row():
    table = make_patients()
    a = np.random.default_rng(0).random(len(table)) + 0.5
    own = compare(table, 3, sample_weight=a, n_init=1, random_state=0)
    need = ("dropped", "regressed", "pca", "weights", "mixture")
    assert dict(own.skipped).keys() == {METHODS[m] for m in need}
    assert {row.method for row in own.rows} == {"kmeans", "two-step", "uncorrelated", "dckm"}


def test_labels_of_another_tool_are_described_like_those_of_a_method(footprint):
    how = {"method": "dckm", "suspects": footprint.suspects, "n_init": 2, "random_state": 0}
    first = compare(footprint.X, 4, methods=["kmeans", "dropped"], **how)
    from unskew.baselines import PlainKMeans

    labels = PlainKMeans(4, n_init=2, random_state=0).fit(footprint.X).labels_
    words = np.array(["first", "second", "third", "fourth"])[labels]
    own = compare(
        footprint.X, 4, methods=["kmeans", "dropped"],
        labels={"numbers": labels, "words": words, "truth": footprint.y}, **how,
    )  # fmt: skip
    assert own.rows[:3] == first.rows
    numbers, named, truth = own.rows[3:]
    assert [row.title for row in own.rows[3:]] == ["numbers", "words", "truth"]
    # Names of clusters have no influence.
    assert numbers.explained_variance == pytest.approx(named.explained_variance)
    values = [[a.value for a in row.associations] for row in (numbers, named)]
    np.testing.assert_allclose(*values)
    assert sorted(numbers.sizes) == sorted(named.sizes)
    assert truth.effective_size == 1
    assert truth.mean_difference == numbers.mean_difference == named.mean_difference
    assert truth.sizes == tuple(np.bincount(footprint.y))
    assert own.summary == first.summary


def test_labels_of_a_subsample_are_those_of_its_rows(monkeypatch, footprint):
    from unskew._data import sampling

    monkeypatch.setattr(sampling, "MAX_ROWS", 200)
    monkeypatch.setattr(sampling, "MIN_ROWS", 200)
    position = np.arange(600) // 300
    own = compare(
        np.c_[footprint.X, position], 2, method="dckm", methods=["kmeans"], n_init=1,
        random_state=0, suspects=[footprint.X.shape[1]], labels={"halves": position},
    )  # fmt: skip
    halves = own.rows[-1]
    assert sum(halves.sizes) == 200
    assert halves.associations[0].value == pytest.approx(1)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(599), r"labels 'other' have shape \(599,\), and X has 600 rows"),
        (["a", None] * 300, "labels 'other' are missing in 300 rows, first in row 2"),
        (np.r_[np.nan, np.zeros(599)], "labels 'other' are missing in 1 rows, first in row 1"),
    ],
)
def test_labels_that_do_not_fit_the_rows_are_refused(footprint, labels, message):
    with pytest.raises(ValueError, match=message):
        compare(footprint.X, 4, labels={"other": labels})


def test_missing_labels_of_pandas_are_missing(footprint):
    pd = pytest.importorskip("pandas")
    labels = pd.array([1, pd.NA] * 300, dtype="Int64")
    with pytest.raises(ValueError, match="missing in 300 rows"):
        compare(footprint.X, 4, labels={"other": labels})


def test_combat_is_compared_where_combatlearn_is_installed(footprint):
    pytest.importorskip("combatlearn")
    how = {"suspects": footprint.suspects, "random_state": 0, "methods": ["kmeans"]}
    own = compare(footprint.X, 4, also=["combat"], method="dckm", n_init=2, **how)
    assert [row.method for row in own.rows] == ["kmeans", "dckm", "combat"]
    by_name = {row.method: row for row in own.rows}
    largest = {name: max(a.value for a in row.associations) for name, row in by_name.items()}
    assert largest["combat"] < largest["kmeans"]
    assert compare(footprint.X, 4, method="dckm", n_init=2, **how).rows == own.rows[:2]


def test_combat_says_why_it_does_not_apply(footprint):
    pytest.importorskip("combatlearn")
    numbers = np.c_[footprint.X[:, :6], np.random.default_rng(0).normal(size=600)]
    for X, more, reason in [
        (footprint.X, {}, "no suspects are given"),
        (numbers, {"suspects": [6]}, "it takes categories, and suspect 'column 6' is numeric"),
        (
            footprint.X,
            {"suspects": footprint.suspects, "sample_weight": np.linspace(1, 2, 600)},
            "it does not support the given design weights",
        ),
        (
            np.c_[footprint.X[:, :6], np.r_[np.zeros(599), 1.0]],
            {"suspects": [6]},
            "a combination of values of the suspects has one row; it needs two in each",
        ),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own = compare(X, 2, methods=["kmeans"], also="combat", n_init=1, random_state=0, **more)
        assert dict(own.skipped)["ComBat (combatlearn), then k-means"] == reason


def test_other_methods_are_known_and_installed(monkeypatch, footprint):
    with pytest.raises(ValueError, match=r"also has 'magic', which should be one of \['combat'\]"):
        compare(footprint.X, 4, also=["magic"])
    monkeypatch.setitem(sys.modules, "combatlearn", None)
    with pytest.raises(ImportError, match="'combat' needs combatlearn, which is not installed"):
        compare(footprint.X, 4, also=["combat"])


def test_compare_refuses_methods_it_does_not_know(footprint):
    with pytest.raises(ValueError, match="methods has 'magic'"):
        compare(footprint.X, 4, methods=["magic"])


def test_baselines_agree_with_plain_kmeans(footprint, found):
    from unskew.baselines import PlainKMeans

    dropped = PlainKMeans(4, suspects=footprint.suspects, n_init=2, random_state=0)
    labels = dropped.fit(footprint.X.astype(np.float32)).labels_
    baseline = next(r for r in found.baselines if r.name == METHODS["dropped"])
    ours = adjusted_rand_score(labels, DCKM(
        4, suspects=footprint.suspects, adjust="weights", n_init=2, random_state=0
    ).fit(footprint.X).labels_)  # fmt: skip
    assert baseline.agreement == pytest.approx(ours, abs=0.02)


# ---------------------------------------------------------------------------------- real data
@pytest.mark.soak
@pytest.mark.skipif("UNSKEW_DATA" not in os.environ, reason="UNSKEW_DATA is not set")
def test_nhanes_as_it_comes():
    table = _nhanes()
    weights = table.pop("WTMEC2YR")
    own = audit(table, sample_weight=weights)
    assert ("ID", "identifier") in {(n.column, n.why) for n in own.notices}
    few = table.drop(columns=["ID"]).iloc[::5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = DecorrelationWeights(suspects=["SurveyYr"]).fit(few, sample_weight=weights[::5])
    seen = diagnose(fitted, few, weights[::5])
    assert plain(seen)
    assert plain(own)
    assert seen.settings.design_weights


def _nhanes():
    from pathlib import Path

    path = Path(os.environ["UNSKEW_DATA"]) / "NHANESraw.csv.gz"
    return pd.read_csv(path, keep_default_na=False, na_values=["", "NA"], low_memory=False)


def test_effects_of_suspects_are_measured_on_corrected_columns():
    data = make_site_footprint(600, rate=0.6, random_state=0)
    fitted = DCKM(4, suspects=data.suspects, adjust="effects", n_init=2, random_state=0).fit(data.X)
    own = diagnose(fitted, data.X)
    assert plain(own)
    assert own.evidence.corrected
    assert own.evidence.kept_variance is None
    assert own.evidence.typical_after < 0.7 * own.evidence.typical_before
    assert own.weights.effective_size == pytest.approx(1)
    assert {e.suspect for e in own.effects} == {f"column {j}" for j in data.suspects}
    assert all(int(e.feature.split()[1]) in data.footprint for e in own.effects[:10])
    assert own.verdict.word == "helped"


@pytest.mark.parametrize("model", [DCKM(3, n_init=2), ConsensusDCKM(3, n_runs=3)])
def test_a_suspect_of_one_value_leaves_nothing_to_correct(model):
    data = make_site_footprint(200, n_clusters=3, random_state=0)
    X = pd.DataFrame(np.delete(data.X, data.suspects, axis=1)).add_prefix("x").assign(site="A")
    model = clone(model).set_params(suspects=["site"], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        said = verdict(model.fit(X), X)
        assert diagnose(model, X).verdict.word == "no effect"
    assert said.word == "no effect"
    assert "the suspects are constant" in said.sentence
    assert not any("No suspect was named" in reason for reason in said.reasons)


def test_the_reasons_say_who_voted():
    data = make_spurious_background(500, n_background=36, rate=0.0, random_state=4)
    model = ConsensusDCKM(4, random_state=4).fit(data.X)
    voting = sum(run["votes"] for run in model.runs_)
    assert any(
        f"only the best {voting} vote" in reason for reason in verdict(model, data.X).reasons
    )


def test_a_numbered_family_is_not_how_data_are_collected():
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=300)
    table = pd.DataFrame(
        {f"lab{i}": (rng.random(300) < 0.1 + 0.8 * group).astype(int) for i in range(5)}
    )
    table["site"] = np.where(rng.random(300) < 0.9, group, 1 - group)
    notices = audit(table, random_state=0).notices
    telling = {n.column for n in notices if "suggests how the data were collected" in n.sentence}
    assert telling == {"site"}


# ------------------------------------------------------------------------------------ overlap
def test_overlap_counts_the_rows_of_each_value_in_each_cluster():
    frame = make_patients()
    model = DCKM(3, suspects=["site", "age"], adjust="weights", n_init=1, random_state=0).fit(frame)
    site, age = diagnose(model, frame, against=False).overlap
    cross = pd.crosstab(frame["site"], model.labels_)
    assert site.values == tuple(cross.index)
    assert site.rows == tuple(map(tuple, cross.to_numpy()))
    np.testing.assert_allclose(np.sum(site.shares, axis=1), 1)
    assert site.identified == "yes"
    # A number is cut at its quintiles; missing values are a value.
    assert len(age.values) == 6
    assert age.values[-1] == "missing"
    known = frame["age"].notna()
    assert np.sum(age.rows, axis=1)[-1] == (~known).sum()
    bins = pd.qcut(frame["age"], 5, labels=False)
    np.testing.assert_array_equal(
        np.sum(age.rows, axis=1)[:-1], np.bincount(bins[known].astype(int))
    )


def test_overlap_names_values_of_one_cluster(rng):
    group = np.repeat([0, 1, 2], 60)
    site = np.where(group == 0, 0, rng.integers(1, 3, 180))
    X = np.c_[8.0 * np.eye(3)[group] + rng.normal(size=(180, 3)), np.eye(3)[site]]
    model = DCKM(3, suspects=[3, 4, 5], adjust="weights", random_state=0).fit(X)
    (one,) = diagnose(model, X, against=False).overlap
    assert one.suspect == "column 3 ... column 5"
    assert one.one_cluster == ("column 3",)
    assert one.identified == "no"
    assert "no cluster has rows of both “column 3”" in one.sentence


def test_rare_values_of_a_suspect_are_one_value(rng):
    frame = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    frame["site"] = [f"s{i:02d}" for i in rng.integers(0, 40, 300)]
    model = DCKM(2, suspects="site", adjust="weights", n_init=1, random_state=0).fit(frame)
    (one,) = diagnose(model, frame, against=False).overlap
    assert len(one.values) == 30
    assert one.values[-1] == "11 other values"
    assert np.sum(one.rows) == 300


# ------------------------------------------------------------------------------------ mixtures
@pytest.mark.filterwarnings("ignore")
def test_a_corrector_is_described_by_its_mixture():
    data = make_sites(400, n_clusters=3, n_sites=2, separation=4, random_state=0)
    sites = data.suspects
    corrector = SuspectCorrector(sites, 3, random_state=0).fit(data.X)
    mixture = SelectionMixture(3, suspects=sites, random_state=0).fit(data.X)
    assert verdict(corrector, data.X) == verdict(mixture, data.X)
    reference = np.arange(400) < 300
    some = SuspectCorrector(sites, 3, reference=reference, random_state=0).fit(data.X)
    assert diagnose(some, data.X).evidence.n_rows == 300
    with pytest.raises(NotFittedError, match="SuspectCorrector"):
        verdict(SuspectCorrector(sites, 3), data.X)


@pytest.mark.filterwarnings("ignore")
def test_a_mixture_of_few_rows_has_a_verdict(rng):
    frame = pd.DataFrame({"x": rng.normal(size=5), "y": rng.normal(size=5), "site": list("aabbb")})
    model = SelectionMixture(3, suspects="site", random_state=0).fit(frame)
    assert diagnose(model, frame).verdict.word in ("no effect", "cannot be told")
    # A half has fewer rows than groups.
    part, a = model.set_params(effects="auto"), np.ones(5)
    stable = stability_on_halves(part, frame, a, None, model.labels_, model.labels_, 0)
    assert set(stable) == set(model.labels_)
    assert set(stable.values()) == {0}


def test_the_similarity_of_each_group_counts_by_hand():
    groups = np.array([0, 0, 0, 0, 2, 2, 2, 5])
    others = np.array([7, 7, 7, 1, 1, 1, 1, 1])
    expected = {0: 3 / 4, 2: 3 / 5, 5: 1 / 5}
    assert similarities(groups, others, np.ones(8)) == pytest.approx(expected)
    a = np.array([1.0, 1, 1, 0, 1, 1, 1, 0])
    assert similarities(groups[a > 0], others[a > 0], a[a > 0]) == {0: 1.0, 2: 1.0}
    alike = similarities(groups, np.zeros(8), np.full(8, 3.0))
    assert alike == pytest.approx({0: 4 / 8, 2: 3 / 8, 5: 1 / 8})


@pytest.mark.filterwarnings("ignore")
def test_groups_are_reproducible_if_both_halves_have_them(rng):
    n = 400
    labels, site = rng.integers(0, 2, n), rng.integers(0, 2, n)
    X = np.c_[rng.normal(size=(n, 3)) + 4 * labels[:, None] + 0.5 * site[:, None], site]

    def stability(X):
        model = SelectionMixture(2, suspects=[3], effects="shift", random_state=0).fit(X)
        found = stability_on_halves(model, X, np.ones(n), None, model.labels_, labels, 0)
        return min(found.values())

    assert stability(X) > 0.95
    second = np.array_split(np.random.default_rng(0).permutation(n), 2)[1]
    X[second, :3] = rng.normal(size=(second.size, 3))
    assert stability(X) < 0.6


@pytest.mark.filterwarnings("ignore")
def test_groups_of_sites_that_share_two_groups_cannot_be_matched_otherwise(rng):
    def gap(groups):
        k = np.concatenate([rng.choice(own, 300) for own in groups])
        site = np.repeat(np.arange(len(groups)), 300)
        X = np.c_[4 * np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])[k] + rng.normal(size=(600, 3))]
        X += np.array([0.0, 1.0])[site, None]
        X = np.c_[X, site]
        model = SelectionMixture(3, suspects=[3], effects="shift", random_state=0).fit(X)
        return matching_gap(model, X, None, model.labels_)

    assert gap([[0, 1, 2], [0, 1, 2]]) is None or gap([[0, 1, 2], [0, 1, 2]]) > 100
    # The only group of the second site can be any: the assumption of small effects decides.
    assert gap([[0, 1, 2], [0]]) < 40


def test_kurtosis_within_clusters_by_hand(rng):
    labels = np.repeat([0, 1], 500)
    x, pay, seldom = rng.normal(size=1000) + 100 * labels, np.ones(1000), rng.normal(size=1000)
    pay[::2], pay[7] = 0.9999, 500.0
    seldom[3] = np.nan
    columns = np.c_[x, pay, seldom, labels, labels == 0]
    view = SimpleNamespace(source_names=("x", "pay", "seldom", "kind"))
    rows = Drawn(np.arange(1000), columns, np.array([0, 1, 2, 3, 3]), labels, np.ones(1000))
    assert heavy_tails(view, rows, labels) == {"heavy_share": 0.25, "heavy_columns": ("pay",)}
    rows = rows._replace(a=np.where(np.arange(1000) == 7, 0.0, 1.0))
    assert heavy_tails(view, rows, labels)["heavy_share"] == 0
    units = np.array([1e300, 1e-300, 1e150, 1, 1])
    rows = rows._replace(X=columns * units, a=np.ones(1000))
    assert heavy_tails(view, rows, labels)["heavy_columns"] == ("pay",)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [SelectionMixture, DCKM])
def test_noise_with_columns_that_a_site_shifts_shows_no_groups(kind, rng):
    site = rng.integers(0, 3, 400)
    X = rng.normal(size=(400, 4))
    X[:, 0] += 0.8 * site
    X[:, 1] -= 0.6 * site
    found = diagnose(kind(3, suspects=[4], random_state=0).fit(np.c_[X, site]), np.c_[X, site])
    assert found.verdict.word == "cannot be told"
    assert "The data do not show clusters" in found.verdict.sentence
    assert found.separation.bic_gain < 0
    assert found.separation.silhouette < 0.2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [SelectionMixture, DCKM])
def test_groups_that_are_far_apart_are_well_separated(kind):
    data = make_sites(400, n_clusters=3, n_sites=2, separation=4, random_state=0)
    model = kind(3, suspects=data.suspects, random_state=0).fit(data.X)
    found = diagnose(model, data.X).separation
    assert found.silhouette > 0.5
    assert found.bic_gain > 400  # more than 1 per row


@pytest.mark.filterwarnings("ignore")
def test_diagnostics_of_a_mixture_are_those_of_its_rows_without_effects():
    data = make_sites(400, n_clusters=3, n_features=4, n_sites=3, rate=0.5, random_state=0)
    X = np.c_[data.X[:, data.core], data.site]
    model = SelectionMixture(3, suspects=[4], kinds={4: "category"}, random_state=0).fit(X)
    assert model.choice_["effects"] != "none"
    found = diagnose(model, X)
    assert found.verdict.word == "helped"
    assert found.evidence.corrected
    # The balance after the correction is measured on transformed rows under the weights.
    moved = model.transform(X)[:, :4]
    w, site, sd = model.combined_weights_, data.site, X[:, :4].std(axis=0)
    differences = [
        (np.average(moved[site == s], axis=0, weights=w[site == s])
         - np.average(moved[site != s], axis=0, weights=w[site != s])) / sd
        for s in range(3)
    ]  # fmt: skip
    largest = np.abs(differences).max(axis=0)
    by_name = {f.feature: f.after for f in found.features}
    # Quantile bins of an array's codes are its three values.
    np.testing.assert_allclose([by_name[f"column {k}"] for k in range(4)], largest, rtol=1e-4)
    assert found.imbalance_after < found.imbalance_before / 4


def test_effects_of_a_mixture_are_in_standard_deviations_and_leave_no_correlation(rng):
    group, site = rng.integers(2, size=400), rng.integers(2, size=400)
    x = np.c_[5.0 * group + 2.0 * site, 3.0 * group] + rng.normal(size=(400, 2))
    found = []
    for scale in (1.0, 100.0):
        table = pd.DataFrame({"a": scale * x[:, 0], "b": x[:, 1], "site": site.astype(str)})
        model = SelectionMixture(2, suspects=["site"], effects="shift", random_state=0).fit(table)
        found.append(diagnose(model, table))
    one, other = found
    assert {effect.suspect for effect in one.effects} == {
        "site=1"
    }  # that of the other is the opposite
    assert {effect.unit for effect in one.effects} == {"sd"}
    largest = one.effects[0]
    assert (largest.feature, abs(largest.effect)) == (
        "a",
        pytest.approx(1 / x[:, 0].std(), rel=0.2),
    )
    assert [e.effect for e in one.effects] == pytest.approx([e.effect for e in other.effects])
    at = one.correlation.names.index("a")
    sites = [i for i, name in enumerate(one.correlation.names) if name.startswith("site")]
    before, after = (np.abs(np.array(m)[at, sites]) for m in (one.correlation.before,
                                                              one.correlation.after))  # fmt: skip
    assert before.min() > 0.2
    assert after.max() < 0.1


def test_a_notebook_shows_the_verdict_and_a_table(footprint, found, model):
    how = {"method": "dckm", "suspects": footprint.suspects, "n_init": 1, "random_state": 0}
    compared = compare(footprint.X, 4, methods=["kmeans"], **how)
    audited = audit(make_patients(), suspects="site")
    for result, answer, cells in (
        (found, found.verdict, [f"{found.evidence.typical_after:.2f} after", "weighted share"]),
        (compared, compared.summary, ["mean difference", "unskew (DCKM)"]),
        (audited, audited.worth, ["p of effect", "site"]),
    ):
        shown = result._repr_html_()
        assert shown.startswith(f"<p><b>{answer.title}.</b>")
        for words in cells:
            assert words in shown
    hostile = dataclasses.replace(found.verdict, sentence="<script>")
    assert "<script>" not in dataclasses.replace(found, verdict=hostile)._repr_html_()


# ------------------------------------------------------------------------------- clusters in words
def test_suspects_are_not_among_the_differences_of_a_cluster():
    table = make_patients()
    fitted = DCKM(3, suspects="site", n_init=1, random_state=0).fit(table)
    named = {f.feature for c in diagnose(fitted, table, against=False).clusters for f in c.features}
    assert "score" in named
    assert not any(name.startswith("site") for name in named)


def test_a_column_that_separates_clusters_alone_is_told():
    rng = np.random.default_rng(0)
    kind, site = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    table = pd.DataFrame(
        {
            "x": rng.normal(3 * kind, 1),
            "y": rng.normal(kind, 1),
            "scan": np.where(kind == 1, rng.integers(6, 8, 400), 3).astype(float),
            "site": np.array(["a", "b"])[site],
        }
    )
    model = SelectionMixture(2, suspects="site", covariance="diag", random_state=0).fit(table)
    own = int(np.asarray(model.labels_)[kind == 0][0])
    words = (
        f"“scan” alone nearly decides between cluster {1 - own} and cluster {own}, and hardly "
        "varies within the latter. If its numbers are codes, fit again with “scan” as a category; "
        "the clusters may be others."
    )
    assert diagnose(model, table, against=False).separating == (words,)
    table.loc[::3, "scan"] = np.nan
    model.fit(table)
    own = int(np.asarray(model.labels_)[kind == 0][0])
    (sentence,) = diagnose(model, table, against=False).separating
    assert sentence.startswith(
        "Where “scan” is observed (66% of the rows), it alone nearly decides between cluster "
    )
    table["scan"] = rng.normal(size=400)
    assert diagnose(model.fit(table), table, against=False).separating == ()


def test_the_effective_size_of_a_comparison_is_relative_to_the_rows(footprint):
    a = np.random.default_rng(0).lognormal(size=600)
    a[:60] = 0
    how = {"suspects": footprint.suspects, "n_init": 1, "random_state": 0}
    rows = compare(footprint.X, 4, sample_weight=a, method="dckm", methods=["kmeans"], **how).rows
    by_name = {row.method: row.effective_size for row in rows}
    assert by_name["kmeans"] == pytest.approx(kish_size(a) / 540)
    assert 0 < by_name["dckm"] < 1
