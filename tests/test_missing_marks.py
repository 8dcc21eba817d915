"""Marks of missing values in data frames: the rule of files."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unskew import DCKM, SelectionMixture, TableEncoder, load, save
from unskew._io import read_table
from unskew._records import MISSING_MARKS, MISSING_WORDS, ColumnWarning

LIBRARIES = pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])


def columns(n=60, mark="?"):
    rng = np.random.default_rng(0)
    number = [f"{x:.3f}" for x in rng.normal(size=n)]
    number[5] = mark
    answer = list(rng.choice(["None", "Several", "Most"], n))
    answer[7] = "NA"
    return {
        "number": number,
        "answer": answer,
        "x": list(rng.normal(size=n) + 9 * (np.arange(n) % 2)),
    }


@LIBRARIES
@pytest.mark.parametrize("mark", [*MISSING_WORDS, *MISSING_MARKS])
def test_a_mark_among_numbers_is_missing(library, mark):
    encoder = TableEncoder().fit(library(columns(mark=mark)))
    assert encoder.kinds_["number"] == "number"
    row = next(r for r in encoder.columns_ if r["column"] == "number")
    assert row["missing"] == 1
    assert f"{mark!r} in 1 row" in row["note"]


@LIBRARIES
def test_frames_are_read_as_files_are(library, tmp_path):
    data = columns()
    path = tmp_path / "table.csv"
    pl.DataFrame(data).write_csv(path)
    of_file = TableEncoder().fit(read_table(path).data)
    of_frame = TableEncoder().fit(library(data))
    assert of_file.kinds_ == of_frame.kinds_
    np.testing.assert_array_equal(
        of_file.transform(read_table(path).data), of_frame.transform(library(data))
    )


@LIBRARIES
def test_answers_codes_and_declared_categories_keep_their_words(library):
    frame = library(columns() | {"code": ["?", *["01", "02"] * 29, "01"]})
    assert TableEncoder().fit(frame).kinds_["code"] == "category"
    answer = next(r for r in TableEncoder().fit(frame).recipes_ if r.name == "answer")
    assert answer.states == ("Most", "None", "Several", "missing")
    kept = TableEncoder(kinds={"number": "category", "answer": "category"}).fit(frame)
    assert "NA" in next(r for r in kept.recipes_ if r.name == "answer").states
    assert kept.kinds_["number"] == "category"
    declared = pd.DataFrame({"level": pd.Categorical(["1", "2", "?"] * 20), "x": range(60)})
    assert TableEncoder().fit(declared).recipes_[0].states == ("1", "2", "?")


def test_text_of_numbers_without_a_mark_stays_text():
    frame = pl.DataFrame({"code": ["1", "2", "3"] * 20, "x": np.arange(60.0) % 7})
    assert TableEncoder().fit(frame).kinds_["code"] == "category"
    asked = TableEncoder(kinds={"code": "number"}).fit(frame)
    assert asked.kinds_["code"] == "number"


@LIBRARIES
@pytest.mark.parametrize("kind", [DCKM, SelectionMixture])
def test_new_rows_are_read_as_those_of_the_fit(library, kind, tmp_path):
    frame = library(columns())
    with pytest.warns(ColumnWarning, match=r"'\?' in 1 row"):
        model = kind(2, random_state=0).fit(frame)
    save(model, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")
    # Rows without a mark are text of numbers alone.
    part = library({name: values[20:30] for name, values in columns().items()})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(again.predict(part), model.labels_[20:30])
