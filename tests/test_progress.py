"""Progress events: what estimators report, and what the terminal and the log make of it."""

import io
import logging

import numpy as np
import pytest

import unskew
from unskew import DCKM, ConsensusDCKM, DecorrelationWeights
from unskew._progress import emit, nested_progress, on_progress
from unskew.diagnostics import compare
from unskew.simulate import make_site_footprint


@pytest.fixture(scope="module")
def data():
    return make_site_footprint(120, random_state=0)


def events_of(function):
    events = []
    with on_progress(events.append):
        function()
    return events


def counts(events, phase):
    return [(e.done, e.total) for e in events if e.phase == phase]


def is_complete(events, phase, total):
    return counts(events, phase) == [(i, total) for i in range(total + 1)]


def test_nobody_listens_and_nothing_happens():
    emit("restart", 1, 2)


def test_events_are_nested_and_listeners_leave():
    events, others = [], []
    with on_progress(events.append):
        emit("run", 0, 1)
        with nested_progress(), on_progress(others.append):
            emit("iteration", 3, objective=0.5, inertia=0.25)
        emit("run", 1, 1, status="converged")
    emit("run", 2)
    assert [(e.phase, e.depth) for e in events] == [("run", 0), ("iteration", 1), ("run", 0)]
    assert [e.phase for e in others] == ["iteration"]
    assert str(events[1]) == "iteration 3: objective 0.5, inertia 0.25"
    assert str(events[2]) == "run 1 of 1: converged"


def test_a_listener_leaves_also_when_the_fit_fails():
    events = []
    with pytest.raises(ValueError, match="n_clusters"), on_progress(events.append):
        DCKM(50).fit(np.eye(4))
    emit("restart", 1)
    assert events == []


def test_a_fit_reports_restarts_and_iterations(data):
    events = events_of(lambda: DCKM(3, n_init=2, random_state=0).fit(data.X))
    assert is_complete(events, "restart", 2)
    iterations = [e for e in events if e.phase == "iteration"]
    assert {e.depth for e in iterations} == {1}
    terms = dict(iterations[0].numbers)
    assert terms.pop("objective") == pytest.approx(sum(terms.values()))
    last = next(e for e in events if e.phase == "restart" and e.done == 1)
    own = iterations[: next(i for i, e in enumerate(iterations[1:], 1) if e.done == 1)]
    assert last.numbers["iterations"] == own[-1].done


def test_weights_report_their_iterations(data):
    events = events_of(lambda: DecorrelationWeights(max_iter=5, tol=0.1).fit(data.X))
    assert {(e.phase, e.depth) for e in events} == {("iteration", 0)}


@pytest.mark.filterwarnings("ignore:The effects of")
def test_effects_report_their_initializations(data):
    model = DCKM(3, suspects=data.suspects, adjust="both", n_init=2, random_state=0)
    events = events_of(lambda: model.fit(data.X))
    assert is_complete(events, "initialization", 3)
    assert [(e.done, e.depth) for e in events if e.phase == "restart"] == 3 * [
        (0, 1), (1, 1), (2, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("suspects", [None, [76, 77, 78, 79]])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_consensus_reports_its_runs(data, suspects):
    model = ConsensusDCKM(3, n_runs=3, suspects=suspects, random_state=0)
    events = events_of(lambda: model.fit(data.X))
    assert is_complete(events, "run", 3)
    assert {e.depth for e in events if e.phase == "run"} == {0}


def test_the_choice_of_k_reports_candidates_and_their_runs(data):
    def choose():
        unskew.choose_k(data.X, [2, 3], n_runs=2, random_state=0)

    events = events_of(choose)
    assert is_complete(events, "candidate", 2)
    assert [e.status for e in events if e.phase == "candidate" and e.done] == [
        "n_clusters=2", "n_clusters=3",
    ]  # fmt: skip
    assert {e.depth for e in events if e.phase == "run"} == {1}


@pytest.mark.filterwarnings("ignore:The effects of")
def test_a_comparison_reports_its_methods(data):
    found = []
    events = events_of(
        lambda: found.append(
            compare(data.X, 3, suspects=data.suspects, method="dckm", random_state=0, n_init=1)
        )
    )
    methods = [e for e in events if e.phase == "method"]
    assert [e.done for e in methods] == list(range(len(found[0].rows) + 1))
    assert {e.status for e in methods if e.done} == {row.title for row in found[0].rows}


@pytest.mark.parametrize(("verbose", "phases"), [(1, {"restart"}), (2, {"restart", "iteration"})])
def test_verbose_logs_the_events(data, caplog, verbose, phases):
    with caplog.at_level(logging.INFO, logger="unskew"):
        DCKM(3, n_init=2, random_state=0, verbose=verbose).fit(data.X)
    assert {message.split()[0] for message in caplog.messages} == phases
    assert any(message.startswith("restart 2 of 2: objective") for message in caplog.messages)


# ----------------------------------------------------------------------------- in the terminal


def rows_of(bars):
    return [(task.description.strip(), task.completed, task.total) for task in bars.tasks]


def test_bars_show_one_row_per_phase():
    pytest.importorskip("rich")
    from rich.console import Console
    from rich.progress import Progress

    from unskew.cli._console import BarProgress

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, highlight=False)
    with Progress(console=console) as bars, on_progress(BarProgress(bars, "fitting")):
        assert rows_of(bars) == [("fitting", 0, None)]
        emit("run", 0, 20)
        with nested_progress():
            emit("restart", 1, 10, objective=0.5)
            with nested_progress():
                emit("iteration", 7, objective=0.4)
            assert rows_of(bars) == [
                ("run 0 of 20", 0, 20), ("restart 1 of 10", 1, 10), ("iteration 7", 7, None),
            ]  # fmt: skip
        emit("run", 1, 20)
        assert rows_of(bars) == [("run 1 of 20", 1, 20)]
        emit("message", status="the best 3 of 20 vote")
    assert "the best 3 of 20 vote" in out.getvalue()


def test_lines_are_of_the_outermost_phase_and_of_others_now_and_then(capsys, monkeypatch):
    pytest.importorskip("rich")
    from unskew.cli import _console

    terminal = _console.Terminal("fit")
    with terminal.progress("fitting"):
        emit("restart", 0, 2)
        with nested_progress():
            emit("iteration", 1, objective=0.4)
        emit("restart", 1, 2, status="converged", objective=0.4)
        monkeypatch.setattr(_console, "PLAIN_EVERY", -1.0)
        with nested_progress():
            emit("iteration", 2, objective=0.3)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "unskew fit: fitting",
        "unskew fit: restart 1 of 2: objective 0.4, converged",
        "unskew fit: iteration 2: objective 0.3",
    ]
