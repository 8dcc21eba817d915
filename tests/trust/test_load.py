"""Many fits in one process, in threads and in processes; no network."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import joblib
import numpy as np
import pytest

from tests.trust.tally import count
from unskew import DCKM, SelectionMixture

X = np.random.RandomState(0).randn(300, 6)


def fit_dckm(seed):
    return DCKM(3, n_init=2, max_iter=5, suspects=[0], random_state=seed, tol=1e-2).fit(X).weights_


def fit_mixture(seed):
    how = {"suspects": [0], "effects": "shift", "covariance": "diag", "random_state": seed}
    return SelectionMixture(2, max_iter=10, **how).fit(X[:150]).means_


fits = pytest.mark.parametrize("fit", [fit_dckm, fit_mixture])


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


pytestmark = [
    # Not inside of the functions: filters of warnings are shared by threads.
    pytest.mark.filterwarnings("ignore::UserWarning"),  # rows without groups, few iterations
    pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc"),
]


@pytest.mark.soak
@fits
def test_200_fits_leave_no_threads_handles_or_memory(fit):
    for _ in range(20):
        fit(0)
    gc.collect()
    before = threading.active_count(), len(os.listdir("/proc/self/fd")), memory()
    expected = fit(0)
    for number in range(200):
        count("fits under load")
        if number % 10 == 0:
            np.testing.assert_array_equal(fit(0), expected)
        else:
            fit(number)
    gc.collect()
    after = threading.active_count(), len(os.listdir("/proc/self/fd")), memory()
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 20 * 2**20


@pytest.mark.soak
@fits
@pytest.mark.parametrize("how", ["threads", "fork", "spawn", "joblib"])
def test_parallel_fits_have_the_same_bits(fit, how):
    expected = [fit(seed) for seed in range(4)] * 2
    seeds = [0, 1, 2, 3] * 2
    count("fits under load", 8)
    if how == "threads":
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(fit, seeds))
    elif how == "joblib":
        found = joblib.Parallel(n_jobs=2)(joblib.delayed(fit)(seed) for seed in seeds)
    else:
        context = multiprocessing.get_context(how)
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            found = list(pool.map(fit, seeds))
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


def test_import_and_fit_open_no_socket():
    script = """
import sys
def refuse(event, args):
    if event.startswith("socket.") and event != "socket.gethostname":
        raise SystemExit(f"{event} {args}")
sys.addaudithook(refuse)
import numpy as np, unskew, unskew.metrics, unskew.diagnostics
X = np.random.RandomState(0).randn(40, 3)
unskew.DCKM(2, n_init=1).fit(X).predict(X)
unskew.SelectionMixture(2, random_state=0).fit(X).predict(X)
"""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stderr
