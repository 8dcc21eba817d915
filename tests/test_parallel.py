"""Threads: results in order, a job beside another, errors where they are asked for."""

import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from unskew import DCKM, _kmeans
from unskew._data.tiled import SERIAL_ENTRIES, TiledMatrix
from unskew._parallel import Threads, one_blas_thread


def here() -> str:
    return threading.current_thread().name


@pytest.mark.parametrize("n", [1, 2, 5])
def test_results_come_in_order_whoever_made_them(n):
    def slow_at_first(i: int) -> int:
        time.sleep(0.002 if i < 3 else 0)
        return i * i

    with Threads(n) as threads:
        assert list(threads.run(slow_at_first, range(20))) == [i * i for i in range(20)]
        assert list(threads.run(slow_at_first, [])) == []


@pytest.mark.parametrize("n", [1, 2])
def test_what_a_piece_raises_is_raised(n):
    with Threads(n) as threads, pytest.raises(ZeroDivisionError):
        list(threads.run(lambda i: 1 // (i - 2), range(5)))


def test_what_is_put_off_is_done_by_another_thread_once_this_one_is_busy():
    calls = []
    with Threads(2) as threads:
        put_off = threads.later(lambda: calls.append(here()) or 7)
        assert calls == []
        threads.begin_later()
        threads.begin_later()  # nothing is left to begin
        while not calls:
            time.sleep(0.001)
        assert put_off.result() == 7
    assert len(calls) == 1
    assert calls[0].startswith("unskew")


@pytest.mark.parametrize("n", [1, 2])
def test_what_nobody_began_is_done_when_it_is_asked_for(n):
    with Threads(n) as threads:
        put_off = threads.later(here)
        if n == 1:
            threads.begin_later()
        assert put_off.result() == here()


def test_what_another_thread_has_no_time_for_is_done_here():
    with Threads(2) as threads:
        busy, go_on = threading.Event(), threading.Event()
        other = threads.submit(lambda: busy.set() or go_on.wait(10))
        busy.wait(10)
        put_off = threads.later(here)
        threads.begin_later()
        assert put_off.result() == here()
        go_on.set()
        assert other.result() is True


def test_an_error_of_what_was_put_off_waits_until_it_is_asked_for():
    with Threads(2) as threads:
        put_off = threads.later(lambda: 1 // 0)
        threads.begin_later()
        with pytest.raises(ZeroDivisionError):
            put_off.result()


def test_many_rows_are_not_put_off(rng):
    few, many = rng.random((600, 600)), np.zeros((SERIAL_ENTRIES // 100 + 1, 100), dtype=np.uint8)
    for X, expected in ((few, []), (many, [1])):
        rows, calls = TiledMatrix(X, n_threads=2), []
        with rows.threads():
            put_off = rows.later(lambda calls=calls: calls.append(1) or 5)
            assert calls == expected
            assert put_off.result() == 5
        assert calls == [1]


SHAPES = {
    "dual of two-valued columns": (160, 700, "binary"),
    "dual of bins": (160, 400, "numbers"),
    "strips": (700, 650, "binary"),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_authors_procedure_labels_during_the_balance_with_the_same_bits(
    shape, rng, monkeypatch
):
    n, d, kind = shape
    X = rng.normal(size=(n, d)).astype(np.float32)
    if kind == "binary":
        X = np.where(X + 0.5 * rng.normal(size=d) > 0, 1, -1).astype(np.float32)
    names, label = [], _kmeans.label
    monkeypatch.setattr(_kmeans, "label", lambda *given: names.append(here()) or label(*given))

    def fit(n_threads: int) -> DCKM:
        names.clear()
        how = {"objective": "paper", "solver": "paper", "balance_strength": 0.01, "tol": 0.0}
        return DCKM(4, **how, n_init=1, max_iter=8, random_state=0, n_threads=n_threads).fit(X)

    one = fit(1)
    assert len(names) == 8
    assert set(names) == {here()}
    for n_threads in (2, 4):
        other = fit(n_threads)
        assert len(names) == 8
        assert any(name.startswith("unskew") for name in names)
        for name in ("weights_", "cluster_centers_", "labels_", "inertia_"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_blas_has_one_thread_in_any_thread_and_all_of_them_afterwards():
    with threadpool_limits(2, user_api="blas"):  # this thread has asked first
        seen = []

        def look() -> None:
            with one_blas_thread():
                seen.append(blas_threads())

        other = threading.Thread(target=look)
        other.start()
        other.join()
        assert seen == [{1}]
        assert blas_threads() == {2}


def test_the_last_to_leave_lifts_the_limit_whichever_thread_it_is():
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with one_blas_thread():
            inside.set()
            leave.wait(10)

    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            other = threading.Thread(target=stay)
            other.start()
            inside.wait(10)
        assert blas_threads() == {1}
        leave.set()
        other.join()
        assert blas_threads() == {2}


def test_a_fit_in_another_thread_has_the_same_bits(rng):
    X = (rng.random((700, 650)) < rng.uniform(0.1, 0.9, 650)).astype(np.float32)

    def fit() -> np.ndarray:
        how = {"objective": "paper", "solver": "paper", "n_init": 1, "max_iter": 4, "tol": 0.0}
        return DCKM(4, **how, random_state=0, n_threads=1).fit(X).weights_

    here, there = fit(), []
    other = threading.Thread(target=lambda: there.append(fit()))
    other.start()
    other.join()
    np.testing.assert_array_equal(here, there[0])
