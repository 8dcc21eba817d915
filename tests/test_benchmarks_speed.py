"""The speed benchmark's own arithmetic; times are never tested."""

import numpy as np
import pytest

pytest.importorskip("psutil")
pytest.importorskip("polars")

from benchmarks import speed
from benchmarks.speed import _measure, files, growth


def test_a_figure_says_its_target_and_whether_it_was_met():
    row = _measure.figure("w", "s", 1.4, "x", at_most=1.5, others=0.01)
    assert (row["target"], row["met"]) == ("<= 1.5", True)
    assert _measure.figure("w", "s", 1.6, "x", at_most=1.5)["met"] is False
    assert _measure.figure("w", "s", 3000.0, "x", at_least=2000)["met"] is True
    assert _measure.figure("w", "s", 1.2, "x", within=(0.9, 1.1))["met"] is False
    assert _measure.figure("w", "s", 1.2, "x")["met"] is None


def test_a_disturbed_time_has_no_verdict():
    row = _measure.figure("w", "s", 0.1, "x", at_most=1.5, others=0.7, by_cpu=3.0)
    assert row["met"] is None
    assert row["met_by_cpu"] is False
    assert speed.as_cell("met", row) == "disturbed; by CPU NO"


def test_slope_of_proportional_times_is_one():
    slope, steps = growth.slopes([10, 100, 1000], [0.2, 2.0, 20.0])
    assert slope == pytest.approx(1)
    assert steps == pytest.approx([1, 1])


def test_the_file_has_the_shape_it_says(tmp_path):
    files.write_npy(tmp_path / "X.npy", 50, 20)
    X = np.load(tmp_path / "X.npy")
    assert X.shape == (50, 20)
    assert set(np.unique(X)) == {0, 1}


def test_a_question_that_fails_is_a_row_with_its_reason(monkeypatch):
    monkeypatch.setitem(speed.QUESTIONS, "nothing", "nowhere")
    (row,) = speed.ask("nothing", quick=True)
    assert row["met"] is False
    assert "one of: gradient" in row["note"]


def test_every_question_has_its_function():
    for name in speed.QUESTIONS:
        assert callable(speed.question(name))
