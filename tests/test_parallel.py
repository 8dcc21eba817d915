"""Threads: results in order, a job beside another, errors where they are asked for."""

import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from unskew import DCKM
from unskew._data.tiled import TiledMatrix
from unskew._parallel import Executor, one_blas_thread


def here() -> str:
    return threading.current_thread().name


@pytest.mark.parametrize("n", [1, 2, 5])
def test_results_come_in_order_whoever_made_them(n):
    def slow_at_first(i: int) -> int:
        time.sleep(0.002 if i < 3 else 0)
        return i * i

    with Executor(n) as threads:
        assert list(threads.run(slow_at_first, range(20))) == [i * i for i in range(20)]
        assert list(threads.run(slow_at_first, [])) == []


@pytest.mark.parametrize("n", [1, 2])
def test_what_a_piece_raises_is_raised(n):
    with Executor(n) as threads, pytest.raises(ZeroDivisionError):
        list(threads.run(lambda i: 1 // (i - 2), range(5)))


def test_matrices_made_from_another_use_its_threads():
    rows = TiledMatrix(np.zeros((5_000, 200)), executor=Executor(2))
    names = set()

    def kernel(tile):
        names.add(here())
        time.sleep(0.005)
        return (tile.sum(),)

    with rows.executor, rows.with_shift(np.ones(200)).subsample(4_000).executor as nested:
        assert nested is rows.executor
        shifted = rows.with_shift(np.ones(200))
        shifted.total(shifted.map(kernel))
    assert len(names) == 2
    assert rows.executor.submit is None


@pytest.mark.parametrize(("n", "d"), [(60, 200), (200, 60)], ids=["gram", "primal"])
def test_the_authors_procedure_has_the_same_bits_for_any_number_of_threads(n, d, rng):
    X = np.where(rng.normal(size=(n, d)) > 0, 1, -1).astype(np.float32)
    how = {"objective": "paper", "solver": "paper", "balance_strength": 0.01, "tol": 0.0}
    one, *others = (
        DCKM(4, **how, n_init=1, max_iter=8, random_state=0, n_threads=n_threads).fit(X)
        for n_threads in (1, 2, 4)
    )
    for other in others:
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
