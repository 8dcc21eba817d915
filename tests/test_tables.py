"""Tables in, tables out: types, gaps, suspects by name, new rows, margins, hypothesis."""

import datetime
import os
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from unskew import DCKM, DecorrelationWeights, TableEncoder
from unskew._balance import Balance
from unskew._data.tiled import TiledMatrix
from unskew._kmeans import Clusters, Distance, assign, distances, label, lloyd, update
from unskew._preprocessing import ColumnMap, column_stats, design_for, make_design, make_distance
from unskew._terms import Margins
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_site_footprint


def make_table(rng, n=300, gaps=True):
    """Every type at once; the site follows the age."""
    age = rng.normal(50, 12, n)
    site = np.where(age + rng.normal(0, 8, n) > 50, "north", rng.choice(["south", "west"], n))
    table = pd.DataFrame(
        {
            "age": age,
            "site": site,
            "smoker": rng.random(n) < 0.3,
            "children": rng.integers(0, 4, n),
            "stage": pd.Categorical(
                rng.choice(["early", "middle", "late"], n),
                categories=["early", "middle", "late"],
                ordered=True,
            ),
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], n)),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
            "two": rng.integers(0, 2, n),
        }
    )
    if gaps:
        table.loc[rng.random(n) < 0.2, "age"] = np.nan
        table["colour"] = table["colour"].mask(pd.Series(rng.random(n) < 0.1))
        table["stage"] = table["stage"].mask(pd.Series(rng.random(n) < 0.1))
        table["seen"] = table["seen"].mask(pd.Series(rng.random(n) < 0.1))
    return table


@pytest.fixture
def table(rng):
    return make_table(rng)


def as_kind(table, kind):
    if kind == "pandas":
        return table
    if kind == "polars":
        return pl.from_pandas(table).with_columns(
            pl.col("stage").cast(pl.Enum(["early", "middle", "late"]))
        )
    return pa.Table.from_pandas(table.astype({"stage": object, "colour": object}))


# ------------------------------------------------------------------------------- the encoder
def test_encoder_by_hand():
    table = pl.DataFrame(
        {
            "x": [1.0, 2.0, 3.0, 4.0, 100.0, None],
            "c": ["a", "b", None, "a", "b", "a"],
            "yes": [True, False, True, True, False, True],
            "same": [7] * 6,
            "code": [10, 20, 10, 20, 10, 20],
        }
    )
    encoder = TableEncoder().fit(table)
    assert list(encoder.get_feature_names_out()) == [
        "x", "x is missing", "c=a", "c=b", "c is missing", "yes", "code",
    ]  # fmt: skip
    assert encoder.kinds_ == {
        "x": "number", "c": "category", "yes": "category", "same": "constant", "code": "two-valued",
    }  # fmt: skip
    assert encoder.ignored_ == {"same": "every value is 7"}
    E = encoder.transform(table)
    # Quartiles 2 and 4, median 3; 100 is clipped at 4 scales.
    scale = 2 / 1.3489795003921634
    x = np.clip((np.array([1, 2, 3, 4, 100]) - 3) / scale, -4, 4)
    np.testing.assert_allclose(E[:5, 0], x - x.mean(), rtol=1e-6)
    double = TableEncoder(dtype="float64").fit_transform(table)
    np.testing.assert_allclose(double[:5, 0], x - x.mean(), rtol=1e-12)
    assert E[5, 0] == 0
    np.testing.assert_array_equal(E[:, 1], [0, 0, 0, 0, 0, 1])
    np.testing.assert_allclose(E[:, 2:5] * np.sqrt(2), np.eye(3)[[0, 1, 2, 0, 1, 0]], rtol=1e-6)
    np.testing.assert_array_equal(E[:, 5], [1, 0, 1, 1, 0, 1])
    np.testing.assert_array_equal(E[:, 6], [0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_a_switch_of_category_is_a_distance_of_category_scale(scale):
    two, three = ["a", "b", "a"], ["a", "b", "c"]
    for values in (two, three):
        table = pd.DataFrame({"c": values, "x": [1.0, 2.0, 4.0]})
        E = TableEncoder(category_scale=scale).fit_transform(table)[:, :-1]
        assert np.linalg.norm(E[0] - E[1]) == pytest.approx(scale)


def test_a_normal_number_has_variance_one(rng):
    table = pd.DataFrame({"x": rng.normal(170, 10, 20_000)})
    assert TableEncoder().fit_transform(table).std() == pytest.approx(1, abs=0.03)
    for kind, sd in (("sd", 1.0), ("none", table["x"].std())):
        E = TableEncoder(number_scale=kind).fit_transform(table)
        assert E.std() == pytest.approx(sd, rel=1e-3)


def test_weight_two_is_the_row_twice_in_the_encoder(table, rng):
    a = rng.integers(0, 4, len(table))
    repeated = table.loc[np.repeat(table.index, a)].reset_index(drop=True)
    one, other = TableEncoder().fit(table, sample_weight=a), TableEncoder().fit(repeated)
    np.testing.assert_allclose(one.transform(table), other.transform(table), atol=1e-12)


def test_the_library_that_read_the_table_does_not_matter(table):
    fits = {}
    for kind in ("pandas", "polars"):
        model = DCKM(3, suspects=["site"], n_init=2, random_state=0).fit(as_kind(table, kind))
        fits[kind] = model
    np.testing.assert_array_equal(fits["pandas"].labels_, fits["polars"].labels_)
    np.testing.assert_array_equal(fits["pandas"].weights_, fits["polars"].weights_)
    # pyarrow from pandas has no ordered categories: compared with text.
    text = table.astype({"stage": object, "colour": object})
    one = DCKM(3, n_init=1, random_state=0).fit(text)
    other = DCKM(3, n_init=1, random_state=0).fit(pa.Table.from_pandas(text))
    np.testing.assert_array_equal(one.labels_, other.labels_)


def test_kinds_turn_codes_into_categories_and_truth_into_numbers():
    table = pd.DataFrame({"site": [3, 1, 2, 3, 10, 1], "yes": [True, False] * 3})
    encoder = TableEncoder(kinds={"site": "category", "yes": "number"}).fit(table)
    assert list(encoder.get_feature_names_out()) == ["site=1", "site=2", "site=3", "site=10", "yes"]
    assert encoder.kinds_ == {"site": "category", "yes": "two-valued"}


def test_rare_values_are_pooled_and_new_ones_go_with_them():
    table = pd.DataFrame({"c": list("aaabbcde"), "x": range(8)})
    encoder = TableEncoder(max_categories=2).fit(table)
    assert list(encoder.get_feature_names_out())[:3] == ["c=a", "c=b", "c: other values"]
    new = pd.DataFrame({"c": ["zzz"], "x": [1]})
    np.testing.assert_allclose(encoder.transform(new)[0, :3] * np.sqrt(2), [0, 0, 1])


def test_identifiers_are_left_out_and_rare_values_pooled_with_one_note(rng):
    n = 300
    state = np.array([f"S{i:02d}" for i in range(60)])[np.minimum(rng.geometric(0.05, n) - 1, 59)]
    state[:60] = [f"S{i:02d}" for i in range(60)]
    table = pd.DataFrame(
        {"id": [f"id-{i}" for i in range(n)], "state": state, "x": rng.normal(size=n)}
    )
    with pytest.warns(UserWarning, match="left out") as caught:
        model = DCKM(2, n_init=1, random_state=0).fit(table)
    text = str(caught[0].message)
    assert "left out: 'id' (300 different values in 300 rows: an identifier" in text
    assert "pooled: 'state' (10 rare values as 'other values')" in text
    assert model.encoder_.pooled_ == {"state": 10}
    assert list(model.encoder_.ignored_) == ["id"]
    np.testing.assert_array_equal(model.predict(table), model.labels_)
    for strict in (table.drop(columns="id"), table.drop(columns="state")):
        with pytest.raises(ValueError, match=r"different values in 300 rows.* with strict=True"):
            DCKM(2, encoder=TableEncoder(strict=True)).fit(strict)
    with pytest.raises(ValueError, match=r"column 'id' of X.*; column 'state' of X has 60 "):
        TableEncoder(strict=True).fit(table)
    # A single value is not pooled.
    one_more = pd.DataFrame({"state": [f"S{i % 51:02d}" for i in range(n)]})
    assert TableEncoder().fit(one_more).pooled_ == {}


def test_different_short_names_in_few_rows_are_no_identifier():
    names = ["ash", "bay", "cat", "dog", "elm", "fox", "gum", "hen", "ivy", "jay", "kid", "lot"]
    encoder = TableEncoder().fit(pd.DataFrame({"town": names, "x": range(12)}))
    assert encoder.kinds_["town"] == "category"
    dates = [f"2024-01-{i + 1:02d}" for i in range(12)]
    encoder.fit(pd.DataFrame({"day": dates, "x": range(12)}))
    assert "look like dates" in encoder.ignored_["day"]


@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame])
def test_columns_shows_what_was_made_of_each_column(rng, form):
    n = 200
    height, state = rng.normal(170, 10, n), rng.choice(list("ABCDEF"), n)
    table = form(
        {
            "patient_id": rng.permutation(10**6)[:n],
            "council tax": rng.permutation(5000)[:n],
            "year": np.arange(1801, 1801 + n),
            "shuffled": rng.permutation(n) + 1,
            "party": np.r_[0, 8, rng.integers(0, 8, n - 2)],
            "state": state,
            "state code": [{"A": 7}.get(s, ord(s)) for s in state],
            "cm": height,
            "inches": (height / 2.54).round(1),
            "other": -height + rng.normal(0, 2, n),
            "same": np.ones(n),
            "age": np.r_[[np.nan] * 3, rng.integers(18, 80, n - 3)],
        }
    )
    encoder = TableEncoder().fit(table)
    rows = {row["column"]: row for row in encoder.columns_}
    notes = {name: row["note"] for name, row in rows.items() if row["note"]}
    assert notes == {
        "patient_id": "left out: 200 different integers in 200 rows: an identifier",
        "shuffled": "left out: row numbers 1 to 200",
        "party": "whole numbers with few values: 0, 1, 2, ..., 8",
        "state code": "whole numbers with few values: 7, 66, 67, ..., 70; one to one: its "
        "values correspond to those of 'state'",
        "inches": "near-duplicate: repeats 'cm'",
        "same": "constant: every value is 1",
    }
    kinds = [row["read as"] for row in rows.values()]
    assert kinds == ["", *["number"] * 2, "", "number", "category", *["number"] * 4, "", "number"]
    assert [row["missing"] for row in rows.values()] == [0] * 11 + [3]
    assert type(encoder.columns_.to_frame()) is form
    for shown in (repr(encoder), encoder._repr_mimebundle_()["text/html"]):
        assert all(note.replace("'", "").split(":")[0] in shown for note in notes.values())
    kept = TableEncoder(kinds={"patient_id": "number", "party": "category"}).fit(table)
    assert [kept.kinds_[name] for name in ("patient_id", "party")] == ["number", "category"]
    assert not any(f.column in ("patient_id", "party") for f in kept.findings_)
    with pytest.raises(ValueError, match=r"'patient_id' of X has 200 different .* strict=True"):
        TableEncoder(strict=True).fit(table)


def test_columns_whose_values_all_differ_do_not_repeat_each_other(rng):
    table = pd.DataFrame({"a": rng.permutation(900)[:30], "b": rng.normal(size=30)})
    table["c"] = [f"{chr(65 + i // 6)}{chr(65 + i % 6)}" for i in range(30)]
    assert TableEncoder().fit(table).findings_ == []


def test_columns_whose_values_correspond_are_no_repetition(rng):
    """Numbers that are in no linear relation, and other words, differ in the distance."""
    code = rng.integers(0, 4, 200)
    table = pd.DataFrame(
        {
            "store": code,
            "number": np.array([7, 1, 5, 2])[code],
            "twice": 2 * code + 1,
            "word": np.array(list("wxyz"))[code],
            "copy": np.array(list("wxyz"))[code],
            "long": np.array(["west", "xi", "york", "zen"])[code],
        }
    )
    assert abs(np.corrcoef(table["store"], table["number"])[0, 1]) < 0.9
    found = {f.column: (f.topic, f.text) for f in TableEncoder().fit(table).findings_
             if f.topic != "whole numbers with few values"}  # fmt: skip
    assert found == {
        "number": ("one to one", "its values correspond to those of 'store'"),
        "twice": ("near-duplicate", "repeats 'store'"),
        "word": ("one to one", "its values correspond to those of 'store'"),
        "copy": ("one to one", "its values correspond to those of 'store'"),
        "long": ("one to one", "its values correspond to those of 'store'"),
    }
    words = TableEncoder().fit(table[["word", "copy", "long"]]).findings_
    assert [(f.column, f.text) for f in words] == [
        ("copy", "repeats 'word'"), ("long", "its values correspond to those of 'word'"),
    ]  # fmt: skip


@pytest.mark.parametrize(("alone", "twice", "left_out"), [
    (120, 40, True),  # most rows have a value of their own: names of cars
    (90, 55, False),  # fewer than half of the rows
    (30, 10, False),  # few values: pooling would hide none
])  # fmt: skip
def test_text_whose_values_mostly_occur_once_is_left_out(alone, twice, left_out):
    words = [f"car {chr(97 + i % 26)}{i}" for i in range(alone + twice)]
    column = words[:alone] + 2 * words[alone:]
    encoder = TableEncoder().fit(pd.DataFrame({"name": column, "x": np.arange(len(column)) / 7}))
    assert ("name" in encoder.identifiers_) == left_out
    kept = TableEncoder(kinds={"name": "category"}).fit(
        pd.DataFrame({"name": column, "x": np.arange(len(column)) / 7})
    )
    assert kept.kinds_["name"] == "category"


def test_text_named_as_an_identifier_is_left_out_though_values_occur_twice():
    twice = [f"N{i // 2}" for i in range(200)]
    encoder = TableEncoder().fit(pd.DataFrame({"Individual ID": twice, "nest": twice}))
    assert encoder.identifiers_ == {
        "Individual ID": "100 different values in 200 rows: an identifier"
    }
    assert encoder.pooled_ == {"nest": 50}


def test_survey_weights_are_offered_and_body_weights_are_not(rng):
    large, one, body = rng.gamma(2, 500, 100), rng.gamma(5, 0.2, 100), rng.normal(70, 9, 100)
    table = pd.DataFrame(
        {"finalwgt": large, "weight": one, "WTMEC2YR": large + one, "Weight": body, "wt": body**2}
    )
    found = [f.column for f in TableEncoder().fit(table).findings_ if f.topic == "weights"]
    assert found == ["finalwgt", "weight", "WTMEC2YR"]


def test_a_suspect_that_is_an_identifier_is_refused_with_the_remedy(rng):
    table = pd.DataFrame({"sequence": range(50), "x": rng.normal(size=50)})
    model = DCKM(2, suspects=["sequence"], n_init=1, random_state=0)
    with (
        pytest.warns(UserWarning, match="row numbers"),
        pytest.raises(ValueError, match=r"suspect 'sequence' .*row numbers.* keeps it"),
    ):
        model.fit(table)
    model.set_params(encoder=TableEncoder(kinds={"sequence": "number"})).fit(table)
    assert model.suspects_.tolist() == [0]


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        ([1.0, np.inf] * 30, ValueError, r"column 'bad' of X contains inf \(index 1\)"),
        ([[1], [2]] * 30, TypeError, r"column 'bad' of X (holds|mixes) "),
        ([1, "a"] * 30, TypeError, r"column 'bad' of X mixes numbers and text"),
        ([1e200, -1e200] * 29 + [1.0, 2.0], ValueError, r"column 'bad' of X ranges from"),
    ],
)
def test_columns_that_cannot_be_used_are_refused_by_name(column, error, message):
    table = pd.DataFrame({"x": np.arange(60.0), "bad": column})
    for model in (DCKM(2), DecorrelationWeights()):
        with pytest.raises(error, match=message):
            model.fit(table)
        assert not hasattr(model, "encoder_")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number_scale": "iqr"}, "number_scale='iqr' should be one of"),
        ({"category_scale": 0.0}, "category_scale=0.0 should be > 0"),
        ({"clip": -1.0}, "clip=-1.0 should be > 0"),
        ({"max_categories": 0}, "max_categories=0 should be >= 1"),
        ({"kinds": {"nope": "number"}}, "kinds names 'nope', which is not a column"),
        ({"dtype": "int8"}, "dtype='int8' should be"),
        ({"kinds": {"x": "text"}}, "kinds\\['x'\\]='text' should be"),
    ],
)
def test_encoder_parameters_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder(**options).fit(pd.DataFrame({"x": [1.0, 2.0]}))


def test_tables_of_other_kinds_are_refused_with_the_remedy(table):
    with pytest.raises(TypeError, match=r"pass X.collect\(\)"):
        DCKM(2).fit(pl.from_pandas(table).lazy())
    twice = pd.DataFrame(np.ones((3, 2)), columns=["x", "x"])
    with pytest.raises(ValueError, match="names of columns of X should differ"):
        DCKM(2).fit(twice)
    with pytest.raises(TypeError, match="encoder='robust' should be a TableEncoder"):
        DCKM(2, encoder="robust").fit(table)
    with pytest.raises(ValueError, match="no column of X varies"):
        DCKM(1).fit(pd.DataFrame({"x": [1, 1, 1]}))


def test_constant_columns_are_reported_and_ignored(table):
    table["hospital"] = "only one"
    table["empty"] = np.nan
    with pytest.warns(UserWarning, match=r"constant: 'hospital' \(every value is 'only one'\)"):
        model = DCKM(3, suspects=["site"], n_init=1, random_state=0).fit(table)
    assert set(model.encoder_.ignored_) == {"hospital", "empty"}
    other = DCKM(3, suspects=["site"], n_init=1, random_state=0)
    other.fit(table.drop(columns=["hospital", "empty"]))
    np.testing.assert_array_equal(model.labels_, other.labels_)
    np.testing.assert_array_equal(model.predict(table), model.labels_)


# ------------------------------------------------------------------------------------- gaps
def gappy(rng, n=60, d=5):
    """Matrix with 0 in the gaps, notes behind it, and the encoded distance."""
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1)
    missing = rng.random((n, d)) < 0.3
    missing[:, 0] = False
    X = X - (X * ~missing).sum(0) / (~missing).sum(0)
    X[missing] = 0.0
    noted = missing[:, 1:].astype(float)
    column_map = ColumnMap(
        None,
        np.r_[np.arange(d), np.arange(1, d)],
        np.r_[-1, np.arange(d, 2 * d - 1), np.full(d - 1, -1)],
        np.r_[np.zeros(d, bool), np.ones(d - 1, bool)],
        (None,) * (2 * d - 1),
    )
    rows = TiledMatrix(np.c_[X, noted])
    columns = column_stats(rows, np.ones(n), column_map)
    return X, missing, rows, column_map, make_distance(columns, column_map, np.arange(d))


def slow_distance(x, missing, c, variances):
    """The docstring's sentence, row by row."""
    known = ~missing
    factor = variances.sum() / variances[known].sum()
    return factor * ((x - c)[known] ** 2).sum()


def test_distances_with_gaps_are_the_slow_loop(rng):
    X, missing, rows, _, distance = gappy(rng)
    C = rng.normal(size=(4, X.shape[1]))
    slow = np.array(
        [[slow_distance(x, m, c, distance.variances) for c in C] for x, m in zip(X, missing)]
    )
    tile = rows.tile(0)
    fast = distances(distance.features(tile), C, distance.missing_mask(tile))
    np.testing.assert_allclose(fast**2, slow, rtol=1e-10)
    found, e = assign(distance.features(tile), C, distance.missing_mask(tile))
    np.testing.assert_array_equal(found, slow.argmin(1))
    np.testing.assert_allclose(e, slow.min(1), rtol=1e-12)


def test_variances_of_the_factor_are_those_of_known_values(rng):
    X, missing, _, _, distance = gappy(rng)
    for j in range(X.shape[1]):
        known = X[~missing[:, j], j]
        assert distance.variances[j] == pytest.approx(known.var())


def test_centres_with_gaps_minimise_the_inertia(rng):
    X, missing, rows, _, distance = gappy(rng)
    w, labels = rng.random(rows.n), rng.integers(0, 3, rows.n).astype(np.int32)
    C, empty = update(rows, distance, w, labels, np.zeros((3, X.shape[1])))
    assert not empty.any()

    def inertia(C):
        return sum(
            w_ * slow_distance(x, m, C[k], distance.variances)
            for w_, x, m, k in zip(w, X, missing, labels)
        )

    best = inertia(C)
    for _ in range(20):
        assert inertia(C + 1e-3 * rng.normal(size=C.shape)) > best


def test_inertia_never_rises_with_gaps(rng):
    X, _, rows, _, distance = gappy(rng, n=200)
    w = rng.random(rows.n)
    clusters = label(rows, distance, rng.normal(size=(4, X.shape[1])))
    values = [w @ clusters.e]
    for _ in range(6):
        clusters, _ = lloyd(rows, distance, w, clusters, max_sweeps=1)
        values.append(w @ clusters.e)
    assert (np.diff(values) <= 1e-12 * values[0]).all()
    assert isinstance(clusters, Clusters)


def test_no_gaps_no_change(rng):
    X = rng.normal(size=(50, 4))
    rows, C = TiledMatrix(X), rng.normal(size=(3, 4))
    plain = label(rows, Distance(np.arange(4)), C)
    noted = TiledMatrix(np.c_[X, np.zeros(50)])
    distance = Distance(np.arange(4), np.array([1]), np.array([4]), X.var(0))
    gaps = label(noted, distance, C)
    np.testing.assert_array_equal(plain.labels, gaps.labels)
    np.testing.assert_allclose(plain.e, gaps.e, rtol=1e-12)


@pytest.mark.parametrize("form", ["primal", "gram"])
def test_a_missing_value_is_in_no_bin_and_being_missing_is_a_treatment(rng, form):
    _, missing, rows, column_map, _ = gappy(rng, n=80)
    design = make_design(
        rows, np.ones(80), suspects=None, cluster_on="all", n_bins=3, standardise=True,
        column_map=column_map,
    )  # fmt: skip
    T = design.treatments.indicators(rows.tile(0))
    for k in range(1, 5):
        own = T[:, design.treatments.column == k]
        np.testing.assert_array_equal(own.sum(1), ~missing[:, k])
        note = T[:, design.treatments.column == column_map.missing_indicator[k]]
        np.testing.assert_array_equal(note[:, 0], missing[:, k])
    loss = Balance(design.rows, design.pair_blocks, form=form)
    w = rng.random(80)
    total = 0.0  # the definition, pair by pair
    for k in design.pair_blocks[0].features:
        for j, column in enumerate(design.treatments.column):
            if column_map.source[k] != column_map.source[column]:
                t, x = T[:, j] > 0, rows.X[:, k] / design.stats.sd[k]
                gap = np.average(x[t], weights=w[t]) - np.average(x[~t], weights=w[~t])
                total += gap**2
    assert loss.value(w) == pytest.approx(total, rel=1e-9)
    _, gradient = loss.value_and_gradient(w)
    for i in (0, 17, 44):
        step = np.zeros(80)
        step[i] = 1e-5
        slope = (loss.value(w + step) - loss.value(w - step)) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_no_pair_inside_a_source_enters_the_balance(table):
    model = DCKM(2, n_init=1, random_state=0).fit(table)
    design = design_for(model, table)
    for pairs in design.pair_blocks:
        source = design.sources
        mask = source[pairs.features][:, None] == source[pairs.treatments.column][None]
        found = np.zeros(mask.shape, bool)
        found[pairs.excluded] = True
        np.testing.assert_array_equal(found, mask)


def test_a_row_with_gaps_is_not_closer_to_everything(rng):
    X = rng.normal(size=(4000, 6))
    table = pd.DataFrame(X, columns=list("abcdef"))
    table.iloc[:2000, :3] = np.nan
    model = DCKM(1, balance_strength=0, spread_strength=1e6, n_init=1).fit(table)
    e = model.transform(table)[:, 0] ** 2
    assert e[:2000].mean() == pytest.approx(e[2000:].mean(), rel=0.05)


def test_rows_without_any_value_are_labelled_with_a_warning(rng):
    table = pd.DataFrame(rng.normal(size=(30, 2)), columns=["x", "y"])
    table.iloc[4] = np.nan
    with pytest.warns(UserWarning, match=r"1 rows have no value .* \(first at index 4\)"):
        model = DCKM(2, n_init=1, random_state=0).fit(table)
    assert model.labels_.size == 30
    assert np.isfinite(model.weights_).all()


# ------------------------------------------------------------------------------ whole fits
def test_a_table_of_zeros_and_ones_is_the_array():
    data = make_site_footprint(500, random_state=0)
    names = [f"f{k}" for k in range(data.X.shape[1])]
    table = pd.DataFrame(data.X, columns=names)
    how = {"n_init": 2, "random_state": 0}
    one = DCKM(4, suspects=data.suspects, **how).fit(data.X.astype(np.float32))
    other = DCKM(4, suspects=[names[s] for s in data.suspects], **how).fit(table)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_allclose(one.weights_, other.weights_, rtol=1e-9)


def test_a_category_column_is_its_one_hot_columns():
    # One column `site` in a table does what four 0/1 columns do in an array.
    data = make_site_footprint(1000, rate=0.8, random_state=1)
    site = data.X[:, data.suspects].argmax(1)
    rest = np.delete(np.arange(data.X.shape[1]), data.suspects)
    names = [f"f{k}" for k in rest]

    def as_table(X):
        table = pd.DataFrame(X[:, rest], columns=names)
        return table.assign(site=np.array(list("ABCD"))[X[:, data.suspects].argmax(1)])

    model = DCKM(4, suspects="site", n_init=3, random_state=0).fit(as_table(data.X))
    arrays = DCKM(4, suspects=data.suspects, n_init=3, random_state=0).fit(data.X)
    np.testing.assert_allclose(model.weights_, arrays.weights_, atol=0.02)
    found = model.predict(as_table(data.X_population))
    assert adjusted_rand_score(data.y_population, found) > 0.85
    shares = np.bincount(site, weights=model.weights_) / 1000
    np.testing.assert_allclose(shares, np.bincount(site) / 1000, atol=1e-9)


def test_suspects_leave_the_distance_but_not_the_balance(table):
    model = DCKM(3, suspects=["site", "seen"], n_init=1, random_state=0).fit(table)
    design = design_for(model, table)
    in_distance = {design.source_names[s] for s in design.sources[design.distance.columns]}
    assert in_distance == set(table.columns) - {"site", "seen"}
    assert list(np.asarray(table.columns)[model.suspects_]) == ["site", "seen"]
    assert model.imbalance_ < 0.5 * model.initial_imbalance_


def test_weight_two_is_the_row_twice_for_tables(table, rng):
    a = rng.integers(0, 3, len(table)).astype(float)
    repeated = table.loc[np.repeat(table.index, a.astype(int))]
    how = {"init": "principal", "suspects": ["site"], "max_iter": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = DCKM(3, **how).fit(table, sample_weight=a)
        other = DCKM(3, **how).fit(repeated)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)
    np.testing.assert_array_equal(np.repeat(one.labels_, a.astype(int)), other.labels_)


def test_rows_of_weight_zero_change_nothing_and_are_labelled(table):
    a = np.ones(len(table))
    a[:50] = 0
    weird = table.copy()
    weird.loc[:49, "site"] = "nowhere else"
    weird.loc[:49, "children"] = 1000
    # Few rounds and float64: rounding grows over a hundred quasi-Newton steps.
    how = {"init": "principal", "suspects": ["site"], "max_iter": 3, "tol": 0.1}
    how["encoder"] = TableEncoder(dtype="float64")
    one = DCKM(3, **how).fit(weird, sample_weight=a)
    other = DCKM(3, **how).fit(table.iloc[50:])
    np.testing.assert_array_equal(one.labels_[50:], other.labels_)
    np.testing.assert_allclose(one.weights_[50:], other.weights_, atol=1e-8)
    assert (one.weights_[:50] == 0).all()


def test_combined_weights_are_the_product(table, rng):
    a = rng.random(len(table))
    for model in (DCKM(2, n_init=1, random_state=0), DecorrelationWeights()):
        model.fit(table, sample_weight=a)
        np.testing.assert_allclose(model.combined_weights_, a * model.weights_)


# ------------------------------------------------------------------------------- new rows
def test_predict_matches_columns_by_name(table):
    model = DCKM(3, suspects=["site"], n_init=1, random_state=0).fit(table)
    np.testing.assert_array_equal(model.predict(table), model.labels_)
    np.testing.assert_array_equal(model.predict(table[table.columns[::-1]]), model.labels_)
    np.testing.assert_array_equal(model.transform(table).argmin(1), model.labels_)
    with pytest.raises(ValueError, match=r"yet now missing: 'age'"):
        model.predict(table.drop(columns="age"))
    with pytest.raises(ValueError, match=r"unseen at fit time: 'income'"):
        model.predict(table.assign(income=1))
    with pytest.raises(TypeError, match=r"X is ndarray of shape \(2, 8\) .* fitted to a table"):
        model.predict(np.ones((2, 8)))
    with pytest.raises(ValueError, match="column 'age' of X holds text but was a number"):
        model.predict(table.assign(age="old"))
    with pytest.raises(ValueError, match="column 'site' of X holds numbers but was a category"):
        model.predict(table.assign(site=3))


def test_unseen_and_newly_missing_values_are_counted_and_left_out_of_the_distance(table):
    model = DCKM(3, n_init=1, random_state=0).fit(table)
    new = table.iloc[:6].copy()
    new["site"] = new["site"].astype(object)
    new.iloc[0, new.columns.get_loc("site")] = "abroad"
    new.loc[new.index[1:3], "children"] = np.nan
    with pytest.warns(
        UserWarning, match=r"'site' in 1 rows \('abroad'\), 'children' in 2 rows \(missing\)"
    ):
        found = model.transform(new)
    # By hand: the distance over the other columns, times the factor.
    names = list(model.encoder_.get_feature_names_out())
    in_distance = model._distance.columns
    E = model.encoder_.transform(table.iloc[:6])
    known = np.array([not names[k].startswith("site") for k in in_distance])
    notes = model.encoder_._column_map().missing_indicator[in_distance]
    known &= ~((notes >= 0) & (E[0][notes] == 1))
    v = model._distance.variances
    for k in range(3):
        c = model.cluster_centers_[k][in_distance]
        e = v.sum() / v[known].sum() * ((E[0][in_distance] - c)[known] ** 2).sum()
        assert found[0, k] ** 2 == pytest.approx(e, rel=1e-5)


def test_weights_for_gives_back_the_weights_of_the_fit(table):
    for model in (
        DCKM(3, suspects=["site"], n_init=1, random_state=0, tol=1e-7, max_iter=300),
        DecorrelationWeights(suspects=["site"], tol=1e-7, max_iter=500),
        DecorrelationWeights(tol=1e-7, max_iter=500),
        DCKM(
            3, suspects=["site"], n_init=1, random_state=0, tol=1e-7, min_effective_sample_size=0.8
        ),
    ):
        model.fit(table)
        off = np.abs(model.predict_weights(table) - model.weights_)
        if model.suspects is not None:
            assert off.max() < 1e-9
        else:
            # A few rows may have been left at 0 where the minimum would give them some weight.
            assert (off < 0.05).mean() > 0.98
            assert model._weights_r2 > 0.99


def test_predict_weights_balances_rows_that_were_not_in_the_fit():
    data = make_site_footprint(4000, rate=0.8, random_state=0)
    old, new = np.arange(2000), np.arange(2000, 4000)
    model = DCKM(4, suspects=data.suspects, n_init=2, random_state=0).fit(data.X[old])
    weights = model.predict_weights(data.X[new])
    assert weights.mean() == pytest.approx(1, abs=0.05)
    site, kind = data.X[:, data.suspects].argmax(1), data.y

    def tie(rows, w):
        joint = np.histogram2d(site[rows], kind[rows], bins=4, weights=w)[0] / w.sum()
        return np.abs(joint - np.outer(joint.sum(1), joint.sum(0))).sum()

    assert tie(old, model.weights_) < 0.6 * tie(old, np.ones(2000))
    assert tie(new, weights) < 0.6 * tie(new, np.ones(2000))


def test_weights_for_says_when_they_do_not_follow(table):
    X = (np.random.default_rng(0).random((40, 4)) < 0.5).astype(float)
    model = DCKM(2, objective="paper", solver="paper", n_init=1, random_state=0).fit(X)
    with pytest.raises(ValueError, match="solver='paper' stops before its minimum"):
        model.predict_weights(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DecorrelationWeights(spread_strength=0).fit(X)
    with pytest.raises(ValueError, match="spread_strength=0 leaves them undetermined"):
        model.predict_weights(X)


# -------------------------------------------------------------------------------- margins
def test_margins_gradient_by_central_differences(rng):
    import scipy.sparse as sp

    codes = rng.integers(0, 3, 30)
    known = (rng.random(30) < 0.8).astype(float)
    T = sp.csr_array(np.eye(3)[codes][:, :2] * known[:, None])
    margins = Margins(T, sp.csr_array(known[:, None]), np.zeros(2, int), np.array([0.2, 0.5]))
    w = rng.random(30)
    _, gradient = margins.value_and_gradient(w)
    for i in range(30):
        step = np.zeros(30)
        step[i] = 1e-6
        slope = (margins.value(w + step) - margins.value(w - step)) / 2e-6
        assert gradient[i] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_margins_are_reached(table, kind):
    wanted = {"site": {"north": 0.3, "south": 0.4, "west": 0.3}, "smoker": {True: 0.5, False: 0.5}}
    clusters = DCKM(3, margins=wanted, n_init=1, random_state=0)
    for model in (clusters, DecorrelationWeights(margins=wanted)):
        model.fit(as_kind(table, kind))
        assert model.margin_distance_ < 0.01
        for name, shares in wanted.items():
            for value, share in shares.items():
                found = model.weights_[(table[name] == value).to_numpy()].sum() / len(table)
                assert found == pytest.approx(share, abs=0.01)
                assert model.margins_[name][value]["reached"] == pytest.approx(found)
        assert model.history_["margins"][-1] < 0.01


def test_margins_and_suspects_together(table):
    wanted = {"site": {"north": 0.3, "south": 0.4, "west": 0.3}}
    model = DCKM(3, suspects=["site"], margins=wanted, n_init=1, random_state=0).fit(table)
    assert model.margin_distance_ < 0.01
    assert model.imbalance_ < 0.5 * model.initial_imbalance_


def test_margins_of_known_values_missing_values_levels_and_codes(table):
    wanted = {
        "stage": {"early": 0.5, "middle": 0.25, "late": 0.25},
        "colour": {"red": 0.6, None: 0.05},
        "two": {0: 0.7, 1: 0.3},
    }
    model = DecorrelationWeights(margins=wanted).fit(table)
    assert model.margin_distance_ < 0.01
    known = table["stage"].notna().to_numpy()
    early = (table["stage"] == "early").to_numpy()
    share = model.weights_[early].sum() / model.weights_[known].sum()
    assert share == pytest.approx(0.5, abs=0.01)
    lost = table["colour"].isna().to_numpy()
    assert model.weights_[lost].sum() / len(table) == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(
    ("margins", "message"),
    [
        ({"nope": {"a": 1.0}}, "margins names 'nope', which is not a column"),
        ({"site": {"north": 1.5}}, r"margins\['site'\]\['north'\]=1.5 should be in \[0, 1\]"),
        (
            {"site": {"east": 0.5}},
            "'east' is not a value of 'site'; values: 'north', 'south', 'west'",
        ),
        ({"site": {"north": 0.5, "south": 0.5}}, "does not have all values of the column"),
        ({"site": {"north": 0.5, "south": 0.2, "west": 0.1}}, "sums to 0.8; it should sum to 1"),
        ({"age": {50: 0.5}}, "'age' is a number column; margins require a category"),
        ({"two": {5: 0.5}}, "5 is not one of the two values of 'two'"),
        ({"stage": {"never": 0.5}}, "'never' is not a level of 'stage'"),
    ],
)
def test_margins_that_cannot_be_are_refused(table, margins, message):
    with pytest.raises(ValueError, match=message):
        DCKM(2, margins=margins).fit(table)


def test_margins_must_be_a_dict_of_dicts(table):
    for wrong in ([1], {"site": 0.5}, {"site": {}}):
        with pytest.raises(TypeError, match="should be a dict of dicts"):
            DCKM(2, margins=wrong).fit(table)
    with pytest.raises(ValueError, match="no meaning with solver='paper'"):
        DCKM(2, margins={0: {1: 0.5}}, solver="paper", objective="paper").fit(np.eye(4))


def test_margins_of_an_array(rng):
    X = (rng.random((300, 4)) < 0.4).astype(float)
    model = DecorrelationWeights(margins={1: {1: 0.7, 0: 0.3}}).fit(X)
    assert model.weights_ @ X[:, 1] / 300 == pytest.approx(0.7, abs=0.01)
    with pytest.raises(ValueError, match="2 is not a value of the column; values: 0, 1"):
        DecorrelationWeights(margins={1: {2: 0.7}}).fit(X)


# -------------------------------------------------------------------------------- outputs
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_result_frame_is_a_table_of_the_kind_that_came_in(table, kind):
    given = as_kind(table.set_index(table.index + 1000), kind)
    model = DCKM(3, n_init=1, random_state=0).fit(given)
    found = model.to_frame(given)
    assert type(found) is type(given)
    names = found.column_names if kind == "pyarrow" else list(found.columns)
    assert names == ["cluster", "weight", "combined_weight"]
    np.testing.assert_array_equal(np.asarray(found["cluster"]), model.labels_)
    if kind == "pandas":
        assert found.index.equals(given.index)
    with pytest.raises(ValueError, match="the table has 2 rows but the fit had 300"):
        model.to_frame(given[:2])
    weights = DecorrelationWeights().fit(given).to_frame(given)
    names = weights.column_names if kind == "pyarrow" else list(weights.columns)
    assert names == ["weight", "combined_weight"]


def test_cluster_summary_by_hand(rng):
    n = 400
    group = rng.integers(0, 2, n)
    table = pd.DataFrame(
        {
            "height": 170 + 30 * group + rng.normal(0, 2, n),
            "noise": rng.normal(size=n),
            "town": np.where(group == 1, "A", rng.choice(["B", "C"], n)),
        }
    )
    table.loc[:20, "height"] = np.nan
    model = DCKM(2, suspects=["noise"], n_init=2, random_state=0).fit(table)
    w = model.combined_weights_
    for cluster in model.cluster_summary_:
        inside = model.labels_ == cluster["cluster"]
        assert cluster["size"] == inside.sum()
        assert cluster["share"] == pytest.approx(inside.mean())
        assert cluster["weighted_share"] == pytest.approx(w[inside].sum() / w.sum())
        by_name = {f["feature"]: f for f in cluster["features"]}
        known = table["height"].notna().to_numpy()
        mean = np.average(table["height"][inside & known], weights=w[inside & known])
        assert by_name["height"]["inside"] == pytest.approx(mean, rel=1e-6)
        share = w[inside & (table["town"] == "A")].sum() / w[inside].sum()
        assert by_name["town=A"]["inside"] == pytest.approx(share)
        sizes = [abs(f["difference"]) for f in cluster["features"]]
        assert sizes == sorted(sizes, reverse=True)
        assert abs(by_name["height"]["difference"]) > 1.5 > abs(by_name["noise"]["difference"])


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_results_are_tables_of_the_kind_that_came_in(table, kind):
    own = kind(table)
    model = DCKM(2, suspects=["site"], adjust="both", n_init=1, random_state=0).fit(own)
    summary, effects = model.cluster_summary_.to_frame(), model.suspect_effects_.to_frame()
    assert type(summary) is type(effects) is type(own)
    names = getattr(summary, "column_names", None) or list(summary.columns)
    assert names == ["cluster", "size", "share", "weighted_share", "feature", "difference",
                     "inside", "rest"]  # fmt: skip
    flat = [(c["cluster"], f["feature"]) for c in model.cluster_summary_ for f in c["features"]]
    assert list(zip(_list(summary, "cluster"), _list(summary, "feature"))) == flat
    first = model.suspect_effects_[0]
    n = len(first["columns"])
    assert _list(effects, "columns")[:n] == first["columns"]
    np.testing.assert_array_equal(_list(effects, "effects")[:n], first["effects"])


def _list(frame, name):
    values = frame[name]
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def test_encoder_and_estimator_can_be_cloned(table):
    model = DCKM(2, encoder=TableEncoder(category_scale=2.0), n_init=1, random_state=0)
    again = clone(model)
    assert again.encoder.category_scale == 2.0
    assert again.fit(table).encoder_ is not again.encoder
    assert not hasattr(again.encoder, "recipes_")


# ------------------------------------------------------------------------------ wild tables
def frame_columns(n):
    number = st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-5, 5).map(float))
    flag = st.one_of(st.none(), st.booleans())
    word = st.one_of(st.none(), st.sampled_from(["a", "b", "", "<script>", "missing", "é"]))
    day = st.one_of(st.none(), st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)))
    return st.one_of(
        st.lists(number, min_size=n, max_size=n).map(lambda v: pl.Series(v, dtype=pl.Float64)),
        st.lists(flag, min_size=n, max_size=n).map(lambda v: pl.Series(v, dtype=pl.Boolean)),
        st.lists(word, min_size=n, max_size=n).map(lambda v: pl.Series(v, dtype=pl.String)),
        st.lists(day, min_size=n, max_size=n).map(lambda v: pl.Series(v, dtype=pl.Date)),
        st.lists(st.integers(0, 2), min_size=n, max_size=n).map(
            lambda v: pl.Series(["xyz"[i] for i in v], dtype=pl.Enum(["x", "y", "z"]))
        ),
    )


@st.composite
def wild_tables(draw):
    n = draw(st.integers(1, 12))
    count = draw(st.integers(1, 5))
    series = [draw(frame_columns(n)).alias(f"c{i}") for i in range(count)]
    table = pl.DataFrame(series)
    if draw(st.booleans()):
        table = pl.concat([table, table])
    suspects = draw(st.one_of(st.none(), st.sampled_from([f"c{i}" for i in range(count)])))
    return table, suspects, draw(st.booleans())


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(wild_tables(), st.integers(1, 3))
def test_any_table_gives_a_finite_result_or_an_error_of_ours(case, K):
    table, suspects, through_pandas = case
    if through_pandas:
        table = table.to_pandas()
    model = DCKM(K, suspects=suspects, n_init=1, max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            model.fit(table)
        except (ValueError, TypeError) as error:
            text = str(error)
            ours = ("column", "suspects", "n_clusters=", "vary", "varies")
            assert any(word in text for word in ours), text
            return
        for found in (model.weights_, model.cluster_centers_, model.transform(table)):
            assert np.isfinite(found).all()
        assert model.weights_.mean() == pytest.approx(1)
        np.testing.assert_array_equal(model.predict(table), model.labels_)
        if model._weights_r2 is None or model._weights_r2 < 0.99:
            with pytest.raises(ValueError, match="cannot be predicted from this fit"):
                model.predict_weights(table)
        else:
            assert np.isfinite(model.predict_weights(table)).all()
        assert sum(c["size"] for c in model.cluster_summary_) == len(table)


# ------------------------------------------------------------------------------- real data
NHANES = [
    "Gender", "Age", "Race1", "Education", "MaritalStatus", "Poverty", "HomeOwn",
    "Work", "BMI", "Pulse", "BPSysAve", "BPDiaAve", "DirectChol", "TotChol",
    "Diabetes", "HealthGen", "Depressed", "SleepHrsNight", "PhysActive", "Smoke100",
]  # fmt: skip


@pytest.mark.soak
@pytest.mark.skipif("UNSKEW_DATA" not in os.environ, reason="UNSKEW_DATA is not set")
def test_nhanes_read_by_pandas_and_by_polars_gives_the_same_answer():
    path = os.path.join(os.environ["UNSKEW_DATA"], "NHANESraw.csv.gz")
    weights = pd.read_csv(path, usecols=["WTMEC2YR"])["WTMEC2YR"].to_numpy()
    first = pd.read_csv(path, keep_default_na=False, na_values=["", "NA"], low_memory=False)
    second = pl.read_csv(path, null_values=["", "NA"], infer_schema_length=None)
    fits = [
        DCKM(6, suspects=["Race1"], init="principal", max_iter=2, tol=1.0, random_state=0).fit(
            table, sample_weight=weights
        )
        for table in (first[NHANES], second.select(NHANES))
    ]
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)
    np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)
    assert fits[0].imbalance_ < 0.1 * fits[0].initial_imbalance_
    assert (fits[0].weights_[weights == 0] == 0).all()


@pytest.mark.parametrize("dtype", ["string", "string[pyarrow]", "str", "object", "category"])
def test_missing_text_of_any_pandas_dtype(dtype):
    site = pd.Series(["A", "B", None] * 30, dtype=dtype)
    flag = pd.Series([True, None, False] * 30, dtype="boolean")
    table = pd.DataFrame({"site": site, "flag": flag, "x": np.arange(90.0)})
    plain = pd.DataFrame({"site": site.astype(object), "flag": flag, "x": np.arange(90.0)})
    encoded, expected = (TableEncoder().fit_transform(each) for each in (table, plain))
    np.testing.assert_array_equal(encoded, expected)


def test_objects_with_the_missing_value_of_pandas():
    table = pd.DataFrame({"a": np.array(["u", pd.NA, "v"] * 5, dtype=object), "x": np.arange(15.0)})
    kinds = TableEncoder().fit(table).kinds_
    assert kinds["a"] != "number"


@pytest.mark.parametrize(
    "words", ["2020-{:02d}-{:02d}", "{1:02d}/{0:02d}/2020", "2020.{}.{} 10:00"]
)
def test_text_that_looks_like_dates_is_left_out_with_advice(words):
    days = [words.format(m, d) for m in range(1, 13) for d in range(1, 25)]
    table = pd.DataFrame({"admitted": days, "x": np.arange(288.0) ** 2})
    with pytest.warns(UserWarning, match="look like dates: convert the text to dates"):
        model = DCKM(2, n_init=1, random_state=0).fit(table)
    assert list(model.encoder_.ignored_) == ["admitted"]
