"""Inputs that once gave a wrong result without an error: names, codes, scales, weights."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from unskew import (
    DCKM,
    DecorrelationWeights,
    ParquetReader,
    SelectionMixture,
    TableEncoder,
    metrics,
)
from unskew._data.tiled import as_tiled
from unskew._preprocessing import column_stats

SCALES = [5e-324, 1e-300, 1e-170, 1e-160, 1e-30, 1e30, 1e153, 1e300]


# ------------------------------------------------------------------------------ names of values
def test_a_value_called_missing_is_not_a_missing_value():
    table = pd.DataFrame({"s": ["missing", "a", None, "b"] * 5, "x": np.arange(20.0) ** 2})
    encoder = TableEncoder().fit(table)
    names = list(encoder.get_feature_names_out())
    assert names == ["s=a", "s=b", "s=missing", "s is missing", "x"]
    encoded = encoder.transform(table)[:4, :4] > 0
    assert (encoded == np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]])).all()


def test_a_value_called_other_values_is_not_the_pool():
    values = ["other values", "a", "b", "c", "other values", "a"] * 5
    table = pd.DataFrame({"s": values, "x": np.arange(30.0) ** 2})
    encoder = TableEncoder(max_categories=2).fit(table)
    assert list(encoder.get_feature_names_out()) == [
        "s=a",
        "s=other values",
        "s: other values",
        "x",
    ]
    encoded = encoder.transform(table)[:3, :3] > 0
    assert (encoded == np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1]])).all()


def test_margins_tell_a_value_called_missing_from_missing_values():
    site = ["missing", "a", None, "b"] * 25
    table = pd.DataFrame({"s": site, "x": np.random.RandomState(0).randn(100)})
    model = DecorrelationWeights(margins={"s": {None: 0.4, "missing": 0.1}}).fit(table)
    shares = [model.weights_[i::4].sum() / 100 for i in (2, 0)]
    assert np.allclose(shares, [0.4, 0.1], atol=0.02)


# ---------------------------------------------------------------------------------------- codes
CODES = [2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3, 2**62, 7]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_integer_codes_above_2_53_stay_different(library):
    table = library({"s": CODES * 3, "x": np.arange(18.0) ** 2})
    encoder = TableEncoder(kinds={"s": "category"}).fit(table)
    assert list(encoder.get_feature_names_out()[:-1]) == [f"s={c}" for c in sorted(CODES)]
    assert ((encoder.transform(table)[:, :-1] > 0).sum(1) == 1).all()


def test_integer_codes_in_blocks_are_encoded_as_in_memory(tmp_path):
    table = pl.DataFrame({"s": [*CODES, None] * 3, "x": np.arange(21.0) ** 2})
    table.write_parquet(tmp_path / "a.parquet", row_group_size=4)
    how = {"n_clusters": 2, "n_init": 1, "random_state": 0}
    how["encoder"] = TableEncoder(kinds={"s": "category"})
    memory = DCKM(**how).fit(table)
    blocks = DCKM(**how).fit(ParquetReader(tmp_path / "a.parquet"))
    names = memory.encoder_.get_feature_names_out()
    assert list(names) == list(blocks.encoder_.get_feature_names_out())
    assert np.array_equal(memory.labels_, blocks.labels_)


# --------------------------------------------------------------------------------------- scales
@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(0)
    return rng.randn(120, 4) + np.repeat([[0], [4]], 60, axis=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [-1000, -400, -120, -60, -40, 40, 60, 400, 1000])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_rows_of_any_scale_have_the_same_objective_or_are_refused(rows, dtype, exponent):
    model = DCKM(2, n_init=1, random_state=0)
    expected = model.fit(rows.astype(dtype)).objective_
    scaled = np.ldexp(rows.astype(dtype), exponent)
    if not np.isfinite(scaled).all() or not scaled.any():
        return
    if abs(exponent) > (400 if dtype == np.float64 else 45):
        with pytest.raises(ValueError, match="Rescale it"):
            model.fit(scaled)
    else:
        found = model.fit(scaled).objective_
        assert found == pytest.approx(expected, rel=1e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("suspects", [None, [0]])
@pytest.mark.parametrize("scale", SCALES)
def test_weights_of_any_scale_give_the_same_fit(rows, suspects, scale):
    a = np.ldexp(1.0, np.random.RandomState(1).randint(0, 4, size=len(rows)))
    model = DCKM(2, n_init=1, random_state=0, suspects=suspects)
    expected = model.fit(rows, sample_weight=a).weights_
    found = model.fit(rows, sample_weight=a * 2.0 ** np.floor(np.log2(scale))).weights_
    assert np.allclose(found, expected, rtol=1e-6)


def test_a_weight_without_reciprocal_is_refused(rows):
    a = np.ones(len(rows))
    a[7] = 5e-324
    with pytest.raises(ValueError, match=r"sample_weight\[7\]=4.94066e-324 should be 0 or >="):
        DCKM(2).fit(rows, sample_weight=a)


def test_paper_objective_refuses_weights_of_extreme_scale(rows):
    with pytest.raises(ValueError, match="with objective='paper'"):
        DCKM(2, objective="paper").fit(rows, sample_weight=np.full(len(rows), 1e-170))


def test_rows_of_weight_zero_get_the_label_of_the_nearest_centre():
    different = 0
    for seed in range(30):
        rng = np.random.RandomState(seed)
        X = np.repeat(3 * rng.randn(2, 3), 6, axis=0) + 1e-9 * rng.randn(12, 3)
        a = np.tile([1.0, 1, 1, 1, 0, 0], 2)
        init = np.repeat([0, 1], 6)
        init[a == 0] = 1 - init[a == 0]
        model = DCKM(2, init=init).fit(X, sample_weight=a)
        different += (model.predict(X) != model.labels_).any()
    assert different == 0


# -------------------------------------------------------------------------------------- metrics
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("metric", "how"),
    [
        (metrics.adjusted_rand_score, {"weight_kind": "importance"}),
        (metrics.normalized_mutual_info_score, {}),
        (metrics.purity, {}),
        (metrics.matching_accuracy, {}),
        (metrics.association, {}),
    ],
)
def test_metrics_do_not_depend_on_the_scale_of_the_weights(metric, how, scale):
    rng = np.random.RandomState(0)
    true, found = rng.randint(3, size=(2, 40))
    a = np.ldexp(1.0, rng.randint(0, 3, size=40))
    power = 2.0 ** np.floor(np.log2(scale))
    expected = metric(true, found, sample_weight=a, **how)
    assert metric(true, found, sample_weight=a * power, **how) == pytest.approx(expected, rel=1e-12)


def test_frequency_weights_approach_their_limits_smoothly():
    rng = np.random.RandomState(0)
    true, found = rng.randint(3, size=(2, 40))

    def score(weight):
        return metrics.adjusted_rand_score(true, found, sample_weight=np.full(40, weight))

    for first, *others in ([1e-18, 1e-25, 1e-170, 5e-324], [1e18, 1e25, 1e160, 1e300]):
        assert [score(w) for w in others] == pytest.approx([score(first)] * 3, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [-120, -60, 60, 100])
def test_silhouette_does_not_depend_on_the_unit_of_the_columns(rows, dtype, exponent):
    labels = np.repeat([0, 1, 2], 40)
    X = rows.astype(dtype)
    expected = metrics.silhouette_score(X, labels)
    assert metrics.silhouette_score(np.ldexp(X, exponent), labels) == pytest.approx(expected, 1e-5)


def test_correlation_ratio_does_not_depend_on_the_unit(rows):
    labels = np.repeat([0, 1, 2], 40)
    expected = metrics.association(labels, rows[:, 0], kind="eta")
    for scale in (1e-200, 1e200):
        found = metrics.association(labels, rows[:, 0] * scale, kind="eta")
        assert found == pytest.approx(expected, rel=1e-12)


def test_amount_of_correlation_refuses_values_whose_products_overflow(rows):
    with pytest.raises(ValueError, match="should be <= 1e"):
        metrics.amount_of_correlation(rows * 1e100)


# -------------------------------------------------------------------------------------- mixture
@pytest.mark.parametrize("scale", [1e-140, 1e140])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_effects_of_a_numeric_suspect_do_not_depend_on_its_unit_and_origin(scale, offset):
    rng = np.random.default_rng(0)
    when = rng.integers(0, 2**20, 200) / 2**20
    X = np.column_stack([rng.standard_normal((200, 2)) + 3 * when[:, None], when])
    how = {"suspects": [2], "effects": "shift", "covariance": "diag", "random_state": 0}
    expected = SelectionMixture(1, **how).fit(X)
    assert np.abs(expected.suspect_effects_[0]["effects"]).min() > 0.5
    X[:, 2] = (X[:, 2] + offset) * 2.0 ** np.floor(np.log2(scale))
    found = SelectionMixture(1, **how).fit(X)
    for one, other in zip(found.suspect_effects_, expected.suspect_effects_):
        np.testing.assert_allclose(one["effects"], other["effects"], atol=1e-6)


def test_a_site_called_missing_is_not_the_level_of_missing_values():
    rng = np.random.default_rng(0)
    site = ["a", "missing", None] * 60
    shift = np.tile([0.0, 3.0, -3.0], 60)
    table = pl.DataFrame({"site": site, "x": rng.standard_normal(180) + shift})
    table = table.with_columns(y=pl.Series(rng.standard_normal(180)))
    model = SelectionMixture(1, suspects="site", effects="shift", random_state=0).fit(table)
    assert list(model.levels_) == ["a", "missing", "(missing)"]
    effects = [one["effects"][0] for one in model.suspect_effects_]
    np.testing.assert_allclose(effects, [0, 3, -3], atol=0.5)
    drawn = model.sample(300, random_state=0)[0]["site"]
    assert {word for word in drawn if word is not None} == {"a", "missing"}


def test_metrics_of_mixing_do_not_depend_on_the_unit(rows):
    batch = np.arange(len(rows)) % 2
    for metric, how in ((metrics.lisi_score, {"perplexity": 5}), (metrics.kbet_score, {})):
        expected = metric(rows, batch, **how)
        for exponent in (-400, 400, 1000):
            found = metric(np.ldexp(rows, exponent), batch, **how)
            assert found == pytest.approx(expected, abs=1e-3)


def test_weighted_squares_that_overflow_are_refused():
    table = pl.DataFrame({"x": [1e154, -2e153, 3e152] * 4, "y": list(range(12))})
    with pytest.raises(ValueError, match="squares overflow or underflow; rescale it"):
        TableEncoder().fit(table, sample_weight=np.full(12, 2.0**10))


def test_the_bic_of_one_group_is_that_of_shifts_where_effects_are_per_group():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((60, 2)), np.arange(60) % 2])
    how = {"suspects": [2], "covariance": "diag", "selection": "common", "random_state": 0}
    bic = [
        SelectionMixture(1, effects=effects, **how).fit(X).one_group_bic_
        for effects in ("shift", "per-group")
    ]
    assert bic[1] == pytest.approx(bic[0], rel=1e-12)


def test_effects_on_the_spread_of_rows_that_are_equal_within_levels_are_finite():
    level = np.arange(30) % 5
    X = np.column_stack([level**2.0, np.sin(level), level])
    how = {"suspects": [2], "effects": "shift-scale", "covariance": "diag", "random_state": 0}
    model = SelectionMixture(1, **how).fit(X)
    assert np.isfinite(model.bic_)


@pytest.mark.parametrize("weights", [np.full(6, 1j), np.full(6, "1"), np.full(6, None)])
def test_metrics_refuse_weights_that_are_no_numbers(weights):
    true, found = [0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 2]
    for metric in (metrics.adjusted_rand_score, metrics.purity, metrics.association):
        with pytest.raises(TypeError, match=r"sample_weight has dtype .*; it should be numeric"):
            metric(true, found, sample_weight=weights)


def test_association_of_rare_values_does_not_underflow():
    first, second = [0, 0, 1, 1], [0, 0, 1, 1]
    for rare in (1e-100, 1e-160, 1e-250):
        a = [1.0, 1.0, rare, rare]
        assert metrics.association(first, second, sample_weight=a) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="should be 0 or >= 1e-271 times the largest weight"):
        metrics.association(first, second, sample_weight=[1e308, 1, 1, 1e-3])


def test_integers_that_no_float_can_hold_are_refused():
    table = pd.DataFrame({"s": pd.Series([10**400, 1, 2] * 5, dtype=object), "x": np.arange(15.0)})
    with pytest.raises(ValueError, match="column 's' of X has an integer above"):
        DCKM(2).fit(table)


# ------------------------------------------------------------------------------------- new rows
@pytest.mark.parametrize("scale", [1e155, 1e200, 1e300])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_new_rows_whose_squares_overflow_are_refused(rows, scale):
    X = np.column_stack([rows, np.arange(len(rows)) % 2])
    how = {"suspects": [4], "random_state": 0}
    models = [
        DCKM(2, n_init=1, adjust="weights", **how),
        SelectionMixture(2, covariance="diag", effects="shift", selection="common", **how),
    ]
    for model in models:
        model.fit(X)
        assert model.predict(X * np.array([1, 1e3, 1, 1, 1])).shape == (120,)
        far = X * np.array([1, scale, 1, 1, 1])
        for method in (model.predict, model.predict_weights):
            with pytest.raises(ValueError, match="overflow"):
                method(far)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_new_rows_whose_powers_overflow_are_refused(rows):
    how = {"suspects": [3], "adjust": "effects", "effect_degree": 5}
    model = DCKM(2, n_init=1, random_state=0, **how).fit(rows)
    far = rows * np.array([1, 1, 1, 1e60])
    for method in (model.predict, model.transform, model.score):
        with pytest.raises(ValueError, match=r"X has a value of size .* do not overflow"):
            method(far)


def test_a_score_of_no_rows_is_refused(rows):
    table = pl.DataFrame(rows, schema=list("abcd"))
    for model in (DCKM(2, n_init=1), SelectionMixture(2)):
        model.set_params(random_state=0).fit(table)
        assert model.predict(table[:0]).shape == (0,)
        with pytest.raises(ValueError, match="X has 0 rows; it should have at least one"):
            model.score(table[:0])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numbers_too_large_for_the_matrix_of_an_encoder_are_refused():
    table = pl.DataFrame({"x": np.arange(20.0) ** 1.5, "y": np.arange(20.0) % 7})
    far = table.with_columns(pl.Series("x", [1e300, *range(19)], dtype=pl.Float64))
    for how in ({"clip": None}, {"number_scale": "none"}):
        with pytest.raises(ValueError, match=r"column 'x' of X has the value 1e.300, .* <= 3.4e"):
            TableEncoder(**how).fit(table).transform(far)
    assert TableEncoder().fit(table).transform(far)[0, 0] == pytest.approx(4, abs=0.5)  # clipped


@pytest.mark.parametrize("least", [1e-150, 1e-200, 1e-240])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_rows_of_next_to_no_weight_do_not_overflow(rows, least):
    """With one ordinary row, the standard deviations are those of the others."""
    X = np.column_stack([rows, np.arange(len(rows)) % 2])
    weight = np.where(np.arange(len(rows)) == 0, 1.0, least)
    weights = DecorrelationWeights(suspects=[4]).fit(X, sample_weight=weight).weights_
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()


@pytest.mark.parametrize("offset", [0.0, 1e7, 1e9])
def test_standard_deviations_of_sparse_columns_do_not_depend_on_their_origin(rows, offset):
    weight = np.linspace(0.5, 2, len(rows))
    for X in (rows + offset, np.where(rows > 0, rows + offset, 0.0)):
        sparse, dense = (
            column_stats(as_tiled(own, 1), weight) for own in (sp.csr_array(X), X)
        )  # fmt: skip
        np.testing.assert_allclose(sparse.sd, dense.sd, rtol=1e-11)
        np.testing.assert_array_equal(sparse.two_valued, dense.two_valued)
