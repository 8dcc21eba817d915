"""Effects of suspects: the least-squares problem, its laws, and what it finds."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from unskew import DCKM
from unskew._balance import Balance
from unskew._data.tiled import TiledMatrix
from unskew._effects import lloyd_with_effects, make_effects, regress_out, solve_jointly
from unskew._kmeans import label
from unskew._mixture.partition import PartitionCriterion
from unskew._preprocessing import design_for, make_design
from unskew._solver import Problem, State
from unskew.baselines import RegressOutKMeans
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_site_footprint, make_tinted_digits


def tinted(rng, n=120, K=3, sites=3, d=5):
    """Rows = class centre + site effect + little noise; exactly the model."""
    y, site = rng.integers(0, K, n), rng.integers(0, sites, n)
    C, B = 3 * rng.normal(size=(K, d)), rng.normal(size=(sites, d))
    x = C[y] + B[site] + 0.1 * rng.normal(size=(n, d))
    return np.c_[x, np.eye(sites)[site]], y, site


def make_encoded(X, suspects, a=None):
    a = np.ones(len(X)) if a is None else a
    return make_design(
        TiledMatrix(X), a, suspects=np.asarray(suspects), cluster_on="non_suspects",
        n_bins=4, standardise=True,
    )  # fmt: skip


def make_distance(X, suspects, a=None, degree=1):
    design = make_encoded(X, suspects, a)
    return design, replace(design.distance, effects=make_effects(design, degree))


# ------------------------------------------------------------------- the least-squares problem
def test_centres_and_effects_are_numpys_least_squares(rng):
    X, y, _ = tinted(rng)
    w = rng.random(len(X))
    design, distance = make_distance(X, [5, 6, 7])
    C, effects, _ = solve_jointly(design.rows, distance, w, y, np.zeros((3, 5)), 0.0)
    # The same from a dummy regression: indicators of clusters and of sites.
    dummies = np.c_[np.eye(3)[y], X[:, 5:]]
    root = np.sqrt(w)[:, None]
    found = np.linalg.lstsq(root * dummies, root * X[:, :5], rcond=None)[0]
    shown = C[y] + effects.z(design.rows.tile(0)) @ effects.B[:, :5]
    if design.rows.shift is not None:
        shown = shown + design.rows.shift[:5]
    np.testing.assert_allclose(shown, dummies @ found, atol=1e-9)
    assert (effects.B[:, 5:] == 0).all()


def test_least_squares_from_any_present_point(rng):
    X, y, _ = tinted(rng)
    w = rng.random(len(X))
    design, distance = make_distance(X, [5, 6, 7])
    one = solve_jointly(design.rows, distance, w, y, np.zeros((3, 5)), 1e-3)
    far = replace(distance.effects, B=np.r_["-1", rng.normal(size=(3, 5)), np.zeros((3, 3))])
    other = solve_jointly(
        design.rows, replace(distance, effects=far), w, y, rng.normal(size=(3, 5)), 1e-3
    )
    np.testing.assert_allclose(one[0], other[0], atol=1e-9)
    np.testing.assert_allclose(one[1].B, other[1].B, atol=1e-9)


def test_the_solution_is_the_argmin_of_its_docstring(rng):
    X, y, _ = tinted(rng)
    w, ridge = rng.random(len(X)), 0.05
    design, distance = make_distance(X, [5, 6, 7])
    C, effects, _ = solve_jointly(design.rows, distance, w, y, np.zeros((3, 5)), ridge)
    Z = effects.z(design.rows.tile(0))
    x = design.rows.tile(0)[:, :5]
    penalty = ridge * np.trace(Z.T @ (w[:, None] * Z)) / 3

    def value(C, B):
        return w @ ((x - C[y] - Z @ B) ** 2).sum(1) + penalty * (B**2).sum()

    best = value(C, effects.B[:, :5])
    for _ in range(20):
        moved = value(C + 1e-3 * rng.normal(size=C.shape), effects.B[:, :5])
        turned = value(C, effects.B[:, :5] + 1e-3 * rng.normal(size=(3, 5)))
        assert min(moved, turned) > best


def test_one_cluster_is_the_regression_of_the_baseline(rng):
    X, _, _ = tinted(rng)
    a = rng.random(len(X))
    design, distance = make_distance(X, [5, 6, 7], a)
    found = regress_out(design.rows, distance, a, 1e-9)
    baseline = RegressOutKMeans(2, suspects=[5, 6, 7], n_init=1, random_state=0)
    baseline.fit(X, sample_weight=a)
    ours = found.features(design.rows.tile(0))
    theirs = baseline._to_space(X)
    np.testing.assert_allclose(ours - ours.mean(0), theirs - theirs.mean(0), atol=1e-6)


def test_inertia_does_not_rise_in_the_sweeps(rng):
    data = make_tinted_digits(n_classes=4, n_sites=4, tint=1.0, rate=0.6, random_state=0)
    design, distance = make_distance(data.X, data.suspects)
    w = rng.random(len(data.X))
    C = distance.features(design.rows.take(np.arange(4)))
    problem = Problem(design.rows, None, distance, w, 1 / w, 1.0, 1.0, 1.0, 0.0, 0.0)
    state = State(label(design.rows, distance, C), w)
    values = [w @ state.clusters.e]
    for _ in range(8):
        problem, clusters = lloyd_with_effects(problem, state, False, 0.0, max_sweeps=1)
        state = replace(state, clusters=clusters)
        values.append(w @ clusters.e)
    assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert values[-1] < 0.9 * values[0]


def test_balance_gradient_on_corrected_features(rng):
    X, _, _ = tinted(rng)
    design, distance = make_distance(X, [5, 6, 7])
    effects = replace(distance.effects, B=np.r_["-1", rng.normal(size=(3, 5)), np.zeros((3, 3))])
    pairs = replace(design.pair_blocks[0], effects=effects)
    loss, w = Balance(design.rows, [pairs], form="primal"), rng.random(len(X))
    # The definition: contrasts of y = x - B'z.
    y = design.rows.tile(0)[:, :5] - effects.z(design.rows.tile(0)) @ effects.B[:, :5]
    total = 0.0
    for j in (5, 6, 7):
        t = X[:, j] > 0
        gap = np.average(y[t], axis=0, weights=w[t]) - np.average(y[~t], axis=0, weights=w[~t])
        total += ((gap / design.stats.sd[:5]) ** 2).sum()
    value, gradient = loss.value_and_gradient(w)
    assert value == pytest.approx(total, rel=1e-9)
    for i in range(0, 120, 17):
        step = np.zeros(120)
        step[i] = 1e-6
        slope = (loss.value(w + step) - loss.value(w - step)) / 2e-6
        assert gradient[i] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_gradient_of_the_whole_objective_with_effects(rng):
    X, y, _ = tinted(rng)
    a = rng.random(len(X)) + 0.5
    design, distance = make_distance(X, [5, 6, 7], a)
    C, effects, _ = solve_jointly(design.rows, distance, a, y, np.zeros((3, 5)), 1e-3)
    effects = replace(effects, B=effects.B + np.r_["-1", np.ones((3, 5)), np.zeros((3, 3))])
    balance = Balance(design.rows, design.pair_blocks[:1], form="primal")
    N = float(a.sum())
    plain = Problem(design.rows, balance, distance, a, 1 / a, N, N, 0.3 / N, 0.7, 0.1 / N)
    problem = plain.with_effects(replace(distance, effects=effects))
    e = label(design.rows, problem.distance, C).e
    w = a * rng.random(len(X))
    J, gradient = problem.value_and_gradient(w, e)
    assert J != pytest.approx(plain.value(w, e), rel=1e-3)  # the effects are in it
    for i in range(0, 120, 13):
        step = np.zeros(120)
        step[i] = 1e-5
        slope = (problem.value(w + step, e) - problem.value(w - step, e)) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("rows_of_a_tile", [7, 50, 119])
def test_tiles_do_not_change_the_least_squares(rng, monkeypatch, rows_of_a_tile):
    X, y, _ = tinted(rng)
    w, start = rng.random(len(X)), rng.normal(size=(3, 5))
    design, distance = make_distance(X, [5, 6, 7])
    one = solve_jointly(design.rows, distance, w, y, start, 1e-3)
    monkeypatch.setattr("unskew._data.tiled.tile_rows", lambda shape, sparse: rows_of_a_tile)
    design, distance = make_distance(X, [5, 6, 7])
    assert len(design.rows.bounds) > 1
    other = solve_jointly(design.rows, distance, w, y, start, 1e-3)
    np.testing.assert_allclose(one[0], other[0], atol=1e-11)
    np.testing.assert_allclose(one[1].B, other[1].B, atol=1e-11)


def test_least_squares_of_weights_is_that_of_repeated_rows(rng):
    X, y, _ = tinted(rng)
    a = rng.integers(0, 3, len(X))
    often = np.repeat(np.arange(len(X)), a)
    design, distance = make_distance(X, [5, 6, 7], a.astype(float))
    one = solve_jointly(design.rows, distance, a.astype(float), y, np.zeros((3, 5)), 1e-3)
    design, distance = make_distance(X[often], [5, 6, 7])
    other = solve_jointly(
        design.rows, distance, np.ones(often.size), y[often], np.zeros((3, 5)), 1e-3
    )
    np.testing.assert_allclose(one[0], other[0], atol=1e-10)
    np.testing.assert_allclose(one[1].B, other[1].B, atol=1e-10)


def test_effects_of_numbers_by_degree_and_by_bins(rng):
    n = 400
    age = rng.uniform(-1, 1, n)
    group = rng.integers(0, 2, n)
    x = 6 * group[:, None] + np.c_[4 * age**2, -3 * age**2] + 0.1 * rng.normal(size=(n, 2))
    X = np.c_[x, age]
    left = {}
    for degree in (1, 2, "bins"):
        model = DCKM(
            2, suspects=[2], adjust="effects", effect_degree=degree, n_init=4, random_state=0,
            n_bins=8,
        ).fit(X)  # fmt: skip
        left[degree] = model.inertia_
    assert left[2] < 0.05 * left[1]
    assert left["bins"] < 0.3 * left[1]


def test_missing_values_have_no_residual(rng):
    n = 300
    y, site = rng.integers(0, 3, n), rng.integers(0, 3, n)
    centre = np.array([[0, 0, 0], [6, 0, 3], [0, 6, -3.0]])
    x = centre[y] + np.array([[0, 0, 0], [1, 2, 3], [-2, 1, 0.0]])[site]
    table = pd.DataFrame(x + 0.1 * rng.normal(size=(n, 3)), columns=["p", "q", "r"])
    table["site"] = np.array(["A", "B", "C"])[site]
    table.loc[rng.random(n) < 0.2, "p"] = np.nan
    table.loc[rng.random(n) < 0.2, "r"] = np.nan
    model = DCKM(3, suspects=["site"], adjust="effects", n_init=4, random_state=0).fit(table)
    # With both p and r missing, two of the groups look alike.
    told = table[["p", "r"]].notna().any(axis=1).to_numpy()
    assert adjusted_rand_score(y[told], model.labels_[told]) > 0.99
    np.testing.assert_array_equal(model.predict(table), model.labels_)


def test_missing_values_make_no_imbalance(rng):
    # Half of a column is missing, at random; the site moves what is there.
    n = 2000
    site, group = rng.integers(0, 2, n), rng.integers(0, 2, n)
    table = pd.DataFrame(
        {"x": 3.0 * site + rng.normal(size=n), "y": 5.0 * group + rng.normal(size=n)}
    )
    table["site"] = np.array(["A", "B"])[site]
    table.loc[rng.random(n) < 0.5, "x"] = np.nan
    model = DCKM(2, suspects=["site"], adjust="both", n_init=3, random_state=0).fit(table)
    assert model.effective_sample_size_ > 0.95
    assert model.imbalance_ < 0.01 * model.initial_imbalance_


# -------------------------------------------------------------------------------- laws of a fit
@pytest.fixture(scope="module")
def data():
    return make_site_footprint(600, rate=0.8, random_state=0)


def fit(X, adjust="both", **how):
    how = {"n_init": 3, "random_state": 0} | how
    return DCKM(4, adjust=adjust, **how).fit(X)


@pytest.fixture(scope="module")
def both(data):
    return fit(data.X, suspects=data.suspects)


@pytest.mark.filterwarnings("ignore:The effects of")  # few rows of a poor solution
@pytest.mark.parametrize("adjust", ["effects", "both"])
def test_threads_do_not_change_a_bit(data, adjust, monkeypatch):
    monkeypatch.setattr("unskew._data.tiled.tile_rows", lambda shape, sparse: 97)  # several tiles
    X, how = data.X[:250].astype(np.float32), {"suspects": data.suspects, "n_init": 1}
    one, two = (fit(X, adjust, **how, n_threads=t) for t in (1, 2))
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.weights_, two.weights_)
    np.testing.assert_array_equal(one._distance.effects.B, two._distance.effects.B)


def test_blocks_do_not_change_the_sums(data, both, monkeypatch):
    one = both
    monkeypatch.setattr("unskew._data.tiled.tile_rows", lambda shape, sparse: 97)
    other = fit(data.X, suspects=data.suspects)
    assert (one.labels_ == other.labels_).mean() > 0.99
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-3)


@pytest.mark.parametrize("adjust", ["effects", "both"])
def test_weight_two_is_the_row_twice(data, adjust, rng):
    a = rng.integers(0, 3, 600).astype(float)
    repeated = data.X[np.repeat(np.arange(600), a.astype(int))]
    how = {"suspects": data.suspects, "init": "principal", "max_iter": 2, "tol": 1.0}
    one = DCKM(4, adjust=adjust, **how).fit(data.X, sample_weight=a)
    other = DCKM(4, adjust=adjust, **how).fit(repeated)
    # Each solution is the same. Their BIC counts rows, since the scale of weights has no meaning.
    first, second = (
        {end["restart"]: (end["objective"], end["inertia"]) for end in model.restarts_}
        for model in (one, other)
    )
    assert first.keys() == second.keys()
    for name, values in first.items():
        assert values == pytest.approx(second[name], rel=1e-5)
    if one.restarts_[0]["restart"] == other.restarts_[0]["restart"]:
        np.testing.assert_array_equal(np.repeat(one.labels_, a.astype(int)), other.labels_)
        np.testing.assert_allclose(one._distance.effects.B, other._distance.effects.B, atol=1e-4)


@pytest.mark.parametrize("adjust", ["effects", "both"])
def test_scaling_the_weights_changes_nothing(data, adjust, rng):
    a = rng.random(600)
    how = {"suspects": data.suspects, "init": "principal", "max_iter": 2, "tol": 1.0}
    one = DCKM(4, adjust=adjust, **how).fit(data.X, sample_weight=a)
    other = DCKM(4, adjust=adjust, **how).fit(data.X, sample_weight=a * 1000)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-6)


def test_a_suspect_without_effect_and_no_balance_is_kmeans(rng):
    # z independent of everything, strength 0: k-means from the same starts.
    X = np.r_[rng.normal(size=(200, 3)), rng.normal(size=(200, 3)) + 6]
    X = np.c_[X, rng.integers(0, 2, 400)]
    model = DCKM(
        2, suspects=[3], adjust="both", balance_strength=0, n_init=3, random_state=0
    ).fit(X)  # fmt: skip
    plain = DCKM(
        2, suspects=[3], balance_strength=0, spread_strength=1e6, n_init=3, random_state=0
    ).fit(X)
    assert adjusted_rand_score(model.labels_, plain.labels_) > 0.99
    np.testing.assert_allclose(model.weights_, 1, atol=1e-6)


@pytest.mark.parametrize("adjust", ["effects", "both"])
@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_a_constant_suspect_is_kmeans(data, adjust, strength):
    X = np.c_[data.X[:, :20], np.ones(600)]
    model = fit(X, adjust, suspects=[20], balance_strength=strength)
    plain = fit(X, "weights", suspects=[20], balance_strength=0, spread_strength=1e6)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    np.testing.assert_allclose(model.weights_, 1, atol=1e-12)
    np.testing.assert_allclose(model.cluster_centers_, plain.cluster_centers_, atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.suspect_effects_ == []


def test_predict_transform_and_weights_give_back_the_fit(data, both):
    for model in (fit(data.X, "effects", suspects=data.suspects), both):
        np.testing.assert_array_equal(model.predict(data.X), model.labels_)
        np.testing.assert_array_equal(model.transform(data.X).argmin(1), model.labels_)
        np.testing.assert_allclose(model.predict_weights(data.X), model.weights_, rtol=1e-9)


def test_encode_for_sees_corrected_features(data, both):
    model = both
    design = design_for(model, data.X)
    value = Balance(design.rows, design.pair_blocks, form="primal").value(model.combined_weights_)
    assert value == pytest.approx(model.imbalance_, rel=1e-9)


def test_suspect_effects_are_what_was_put_in(rng):
    n = 2000
    site, y = rng.integers(0, 3, n), rng.integers(0, 2, n)
    effect = np.array([[0.0, 0, 0], [2, 0, -1], [-1, 3, 0]])
    x = 8 * y[:, None] + effect[site] + 0.2 * rng.normal(size=(n, 3))
    table = pd.DataFrame(x, columns=["a", "b", "c"]).assign(site=np.array(["N", "S", "W"])[site])
    from unskew import TableEncoder

    model = DCKM(
        2, suspects=["site"], adjust="both", n_init=3, random_state=0,
        encoder=TableEncoder(number_scale="none"),
    ).fit(table)  # fmt: skip
    told = {one["suspect"]: one for one in model.suspect_effects_}
    assert set(told) == {"site=N", "site=S", "site=W"}
    assert told["site=S"]["columns"] == ["a", "b", "c"]
    sd = x.std(0)
    for i, name in enumerate(["site=N", "site=S", "site=W"]):
        expected = (effect[i] - np.bincount(site) / n @ effect) / sd
        np.testing.assert_allclose(told[name]["effects"], expected, atol=0.03)


def test_unseen_values_of_a_suspect_have_an_average_effect(rng):
    X, _, site = tinted(rng, n=300)
    table = pd.DataFrame(X[:, :5], columns=list("abcde")).assign(site=np.array(list("NSW"))[site])
    model = DCKM(3, suspects=["site"], adjust="both", n_init=3, random_state=0).fit(table)
    new = table.iloc[:3].assign(site="abroad")
    with pytest.warns(UserWarning, match="'site' in 3 rows"):
        found = model.transform(new)
    matrix = model.encoder_.transform(table.iloc[:3])[:, :5]
    np.testing.assert_allclose(
        found, np.linalg.norm(matrix[:, None] - model._centres[None], axis=2), rtol=1e-6
    )


def test_new_rows_need_the_value_of_their_suspect(rng):
    X, _, site = tinted(rng, n=300)
    table = pd.DataFrame(X[:, :5], columns=list("abcde")).assign(site=np.array(list("NSW"))[site])
    model = DCKM(3, suspects=["site"], adjust="both", n_init=3, random_state=0).fit(table)
    for answer in (model.predict, model.transform, model.predict_weights):
        with pytest.raises(ValueError, match="site"):
            answer(table.drop(columns="site"))
    moved = table.assign(site="N")
    elsewhere = table["site"] != "N"
    assert np.abs(model.transform(moved) - model.transform(table))[elsewhere].max() > 0.1
    np.testing.assert_array_equal(
        model.transform(moved)[~elsewhere], model.transform(table)[~elsewhere]
    )


def test_the_report_shows_what_a_site_does_to_the_columns(rng, tmp_path):
    pytest.importorskip("matplotlib")
    from unskew.diagnostics import diagnose
    from unskew.report import write_report

    site, y = rng.integers(0, 3, 400), rng.integers(0, 2, 400)
    x = 8 * y[:, None] + np.array([[0.0, 0], [0, 0], [0, 6]])[site] + rng.normal(size=(400, 2))
    table = pd.DataFrame(x, columns=["a", "b"]).assign(site=np.array(["1", "2", "3"])[site])
    model = DCKM(2, suspects=["site"], adjust="both", n_init=2, random_state=0).fit(table)
    own = diagnose(model, table)
    assert (own.effects[0].suspect, own.effects[0].feature) == ("site=3", "b")
    assert own.effects[0].effect > 0.5
    write_report(own, tmp_path / "r.html")
    write_report(own, tmp_path / "r.md")
    for name in ("r.html", "r.md"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "Effects of the suspects on the columns" in text
        assert "Largest: site=3 on b, +" in text
    assert any("before the correction and" in reason for reason in own.verdict.reasons)


def test_no_overlap_warns(rng):
    y = np.repeat([0, 1, 2], 100)
    X = np.c_[6 * np.eye(3)[y] + 0.3 * rng.normal(size=(300, 3)), rng.normal(size=300)]
    table = pd.DataFrame(X, columns=list("abcd")).assign(site=np.array(list("NSW"))[y])
    how = {"suspects": ["site"], "init": y, "n_init": 1, "effect_ridge": 100.0}
    with pytest.warns(UserWarning, match="The effects of “site” are not identifiable: no group"):
        model = DCKM(3, adjust="effects", **how).fit(table)
    assert model.identified_ == "no"
    assert DCKM(3, adjust="weights", **how).fit(table).identified_ == "no"


def test_identified_says_which_values_share_clusters(rng):
    y = rng.integers(0, 3, 300)
    site = np.where(rng.random(300) < 0.5, y, rng.integers(0, 3, 300))
    x = 8 * np.eye(3)[y] + 0.3 * rng.normal(size=(300, 3))
    how = {"adjust": "weights", "init": y, "n_init": 1}
    one_hot = np.c_[x, np.eye(3)[site]]
    assert DCKM(3, suspects=[3, 4, 5], **how).fit(one_hot).identified_ == "yes"
    assert DCKM(3, **how).fit(x).identified_ is None
    # Site 2 has rows of cluster 0 only.
    keep = (site != 2) | (y == 0)
    how["init"] = y[keep]
    few = DCKM(3, suspects=[3, 4, 5], **how).fit(one_hot[keep])
    assert few.identified_ == "under small effects"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"adjust": "all"}, "adjust='all' should be one of"),
        ({"adjust": "both"}, "adjust='both' removes the effects of suspects, but suspects=None"),
        (
            {"adjust": "both", "suspects": [0], "objective": "paper"},
            "adjust='both' should be used with objective='normalized'",
        ),
        ({"effect_degree": 0}, "effect_degree=0 should be in"),
        ({"effect_ridge": -1.0}, "effect_ridge=-1.0 should be >= 0"),
    ],
)
def test_wrong_parameters(how, message):
    with pytest.raises(ValueError, match=message):
        DCKM(2, **how).fit(np.eye(6))


# ------------------------------------------------------------------- selection of a solution
def pure_and_mixed(rng, n=200):
    """Two sites with one group each and one with both, no effects: labels that follow the sites,
    with effects that absorb the groups, have as low an inertia as the groups."""
    y = np.r_[np.zeros(n, int), np.ones(n, int), np.arange(n) % 2]
    site = np.repeat([0, 1, 2], n)
    centre = np.array([[0.0, 0, 0, 0], [6, 6, 0, 0]])
    return centre[y] + rng.normal(size=(3 * n, 4)), site, y


def test_bic_of_a_partition_is_that_of_its_docstring(rng):
    y, site = rng.integers(2, size=300), rng.integers(3, size=300)
    x = 4.0 * y + rng.normal(size=300)
    found = PartitionCriterion.of_matrix(x[:, None], site, np.ones(300)).bic(y, 2)
    x = (x - x.mean()) / x.std()  # columns are standardised
    means = np.array([x[y == k].mean() for k in (0, 1)])
    sd = np.sqrt(((x - means[y]) ** 2).mean())
    counts = np.array([[((y == k) & (site == one)).sum() for k in (0, 1)] for one in range(3)])
    shares = counts / counts.sum(1, keepdims=True)
    logs = np.log((shares[site] * norm.pdf(x[:, None], means, sd)).sum(1)).sum()
    # Two means, a variance and three shares; no site has an effect here.
    assert found == pytest.approx(-2 * logs + 6 * np.log(300), rel=1e-6)


def test_bic_prefers_the_groups_to_effects_that_absorb_them(rng):
    X, site, y = pure_and_mixed(rng)
    criterion = PartitionCriterion.of_matrix(X, site, np.ones(len(X)))
    absorbed = (X[:, 2] > 0).astype(int)  # splits noise: the sites absorb the groups
    assert criterion.bic(y, 2) < criterion.bic(absorbed, 2) - 100
    assert criterion.bic(1 - y, 2) == pytest.approx(criterion.bic(y, 2), rel=1e-9)
    order = rng.permutation(len(X))
    other = PartitionCriterion.of_matrix(X[order], site[order], np.ones(len(X)))
    assert other.bic(y[order], 2) == pytest.approx(criterion.bic(y, 2), rel=1e-9)


def test_bic_of_a_partition_depends_on_neither_scale_of_weights_nor_empty_columns(rng):
    X, site, y = pure_and_mixed(rng, 60)
    X = np.column_stack([X, rng.random(180) < 0.2 + 0.5 * y])
    X[rng.random(180) < 0.2, 1] = np.nan
    a = 0.5 + rng.random(180)
    value = PartitionCriterion.of_matrix(X, site, a).bic(y, 2)
    assert PartitionCriterion.of_matrix(X, site, 1000 * a).bic(y, 2) == pytest.approx(
        value, rel=1e-9
    )
    empty = np.column_stack([X, np.full(180, np.nan), np.full(180, 3.0)])
    assert PartitionCriterion.of_matrix(empty, site, a).bic(y, 2) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("adjust", ["effects", "both"])
def test_sites_with_one_group_each_do_not_absorb_the_groups(rng, adjust):
    X, site, y = pure_and_mixed(rng)
    model = DCKM(2, suspects=[4, 5, 6], adjust=adjust, random_state=0)
    model.fit(np.column_stack([X, np.eye(3)[site]]))
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_both_finds_the_classes_where_weights_alone_fail():
    data = make_site_footprint(2000, n_footprint=60, rate=0.9, random_state=0)
    scores = {}
    for adjust in ("weights", "both"):
        model = DCKM(
            4, suspects=data.suspects, adjust=adjust, n_init=3, random_state=0
        ).fit(data.X)  # fmt: skip
        found = model.predict(data.X_population)
        scores[adjust] = adjusted_rand_score(data.y_population, found)
    assert scores["weights"] < 0.1
    assert scores["both"] > 0.9


def test_nothing_is_lost_without_bias_and_footprint(rng):
    data = make_site_footprint(1500, rate=0.0, random_state=3)
    keep = np.r_[data.core, data.suspects]  # no footprint columns
    X, new = data.X[:, keep], data.X_population[:, keep]
    suspects = np.arange(40, 44)
    how = {"suspects": suspects, "n_init": 3, "random_state": 0}
    model = DCKM(4, adjust="both", **how).fit(X)
    plain = DCKM(4, balance_strength=0, spread_strength=1e6, **how).fit(X)
    scores = [adjusted_rand_score(data.y_population, m.predict(new)) for m in (model, plain)]
    assert scores[0] > scores[1] - 0.01
    assert model.effective_sample_size_ > 0.9


def test_candidates_are_reported(both):
    names = [one["restart"] for one in both.restarts_]
    assert sorted(names) == ["raw", "regressed", "weights", "weights only"]
    values = [one["bic"] + 10 * (one["restart"] == "weights only") for one in both.restarts_]
    assert values == sorted(values)
    assert [one["chosen"] for one in both.restarts_] == [True, False, False, False]


def test_model_file_keeps_the_effects(data, both, tmp_path):
    pytest.importorskip("skops")
    import unskew

    model = both
    again = unskew.load(unskew.save(model, tmp_path / "m.skops"))
    np.testing.assert_array_equal(
        again.predict(data.X_population), model.predict(data.X_population)
    )
    np.testing.assert_array_equal(again.predict_weights(data.X), model.predict_weights(data.X))


def test_interactions_take_the_additive_effect_away():
    additive = make_site_footprint(3000, rate=0.0, interaction=0.0, random_state=0)
    twisted = make_site_footprint(3000, rate=0.0, interaction=1.0, random_state=0)

    def by_site(data):
        means = np.array([data.X[data.site == s][:, data.footprint].mean(0) for s in range(4)])
        return means.std(axis=0).mean()

    assert by_site(twisted) < 0.2 * by_site(additive)
    np.testing.assert_array_equal(additive.y, twisted.y)
    with pytest.raises(ValueError, match=r"interaction=2 should be in \[0, 1\]"):
        make_site_footprint(10, interaction=2)


def test_tinted_digits_are_as_described():
    data = make_tinted_digits(n_classes=4, n_sites=4, tint=0.5, rate=0.6, random_state=0)
    tint = data.X[:, :64] - data.X_clean
    for s in range(4):
        own = tint[data.site == s]
        assert np.abs(own - own[0]).max() < 1e-12
    ratio = np.array([tint[data.site == s][0] for s in range(4)])
    used = data.X_clean.std(0) > 0
    assert (ratio[:, used] / data.X_clean.std(0)[used]).std() == pytest.approx(0.5, abs=0.08)
    assert np.average(data.site == data.y, weights=data.weights) == pytest.approx(0.25, abs=0.05)
    with warnings.catch_warnings():
        for wrong in ({"n_classes": 1}, {"classes": [3]}, {"tint": -1}, {"rate": 1.0}):
            with pytest.raises(ValueError, match="should be"):
                make_tinted_digits(**wrong)


def test_indicators_of_a_category_are_one_column_of_the_criterion(rng):
    y, site = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    x = 3.0 * y + rng.normal(size=300)
    code = rng.integers(0, 3, 300)
    X, source = np.c_[x, np.eye(3)[code]], np.array([0, 1, 1, 1])
    value = PartitionCriterion.of_matrix(X, site, np.ones(300), source).bic(y, 2)
    # A fourth indicator, of a value that two others share, says nothing new.
    same = np.c_[X, code != 2]
    again = PartitionCriterion.of_matrix(same, site, np.ones(300), np.append(source, 1))
    assert again.bic(y, 2) == pytest.approx(value, rel=1e-12)
    assert PartitionCriterion.of_matrix(X, site, np.ones(300)).bic(y, 2) > value + 100
