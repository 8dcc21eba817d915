"""kill -9 at random moments: nothing lost or half written, and resumed fits have the same bits."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

from tests.trust.tally import count
from unskew import DCKM, SelectionMixture, load

pytestmark = [pytest.mark.soak]
KILLS = 30
HOW = {"n_clusters": 3, "n_init": 6, "max_iter": 40, "tol": 1e-9, "random_state": 0, "n_threads": 1}
FIT = f"""
import sys, warnings
warnings.simplefilter("ignore")
from unskew import DCKM
print("begin", flush=True)
DCKM(**{HOW!r}, checkpoint=sys.argv[2], checkpoint_seconds=0).fit(sys.argv[1])
"""
MAIN = "import sys; from unskew.cli import main; print(1, flush=True); sys.exit(main())"


def killed(command, seconds, **how):
    """Run a command, killed some seconds after its first line; whether it was killed."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
    process.stdout.readline()
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode == -9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_30_kills_of_a_fit_with_a_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 12)) + 2 * rng.integers(0, 3, (2000, 1))
    np.save(tmp_path / "X.npy", X)
    where = [str(tmp_path / "X.npy"), str(tmp_path / "fit.npz")]
    begin = time.monotonic()
    whole = DCKM(**HOW).fit(X)
    lasts = time.monotonic() - begin
    kills = fits = 0
    while kills < KILLS and fits < 3 * KILLS:
        fits += 1
        if killed([sys.executable, "-c", FIT, *where], float(rng.uniform(0, 0.5 * lasts))):
            kills += 1
            count("kills")
    assert kills == KILLS
    resumed = DCKM(**HOW, checkpoint=where[1]).fit(where[0])
    np.testing.assert_array_equal(resumed.weights_, whole.weights_)
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)
    assert sorted(os.listdir(tmp_path)) == ["X.npy"]


MIXTURE = {"n_components": 3, "suspects": [0], "effects": "shift", "covariance": "diag", "tol": 0.0,
           "max_iter": 200, "random_state": 0}  # fmt: skip
FIT_MIXTURE = f"""
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from unskew import SelectionMixture
X = np.load(sys.argv[1])
print("begin", flush=True)
SelectionMixture(**{MIXTURE!r}, checkpoint=sys.argv[2], checkpoint_seconds=0).fit(X)
"""


@pytest.mark.filterwarnings("ignore")
def test_kills_of_a_mixture_with_a_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 6)) + 2 * rng.integers(0, 3, (4000, 1))
    X[:, 0] = rng.integers(0, 3, 4000)
    np.save(tmp_path / "X.npy", X)
    where = [str(tmp_path / "X.npy"), str(tmp_path / "fit.npz")]
    begin = time.monotonic()
    whole = SelectionMixture(**MIXTURE).fit(X)
    lasts = time.monotonic() - begin
    kills = fits = 0
    while kills < 12 and fits < 40:
        fits += 1
        if killed([sys.executable, "-c", FIT_MIXTURE, *where], float(rng.uniform(0, lasts))):
            kills += 1
            count("kills")
    assert kills == 12
    resumed = SelectionMixture(**MIXTURE, checkpoint=where[1]).fit(X)
    np.testing.assert_array_equal(resumed.means_, whole.means_)
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)
    assert sorted(os.listdir(tmp_path)) == ["X.npy"]


def test_kills_of_outputs_leave_whole_files(tmp_path):
    rng = np.random.default_rng(0)
    pl.DataFrame(rng.standard_normal((3000, 4)), schema=list("abcd")).write_csv(tmp_path / "t.csv")
    command = [sys.executable, "-c", MAIN, "fit", "t.csv", "-k", "2", "--n-init", "1", "-q"]
    command += ["--labels", "l.csv", "--weights", "w.parquet", "--model", "m.skops"]
    command += ["--report", "r.json"]
    begin = time.monotonic()
    assert not killed(command, 120, cwd=tmp_path)
    lasts = time.monotonic() - begin
    for _ in range(10):
        count("kills")
        killed(command, float(rng.uniform(0.5 * lasts, lasts)), cwd=tmp_path)
        assert len(pl.read_csv(tmp_path / "l.csv")) == 3000
        assert len(pl.read_parquet(tmp_path / "w.parquet")) == 3000
        assert load(tmp_path / "m.skops").n_clusters == 2
        json.loads((tmp_path / "r.json").read_text())
    assert not killed(command, 120, cwd=tmp_path)
    assert not [name for name in os.listdir(tmp_path) if ".part" in name]
