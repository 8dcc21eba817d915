"""Checkpoints: a fit that was killed goes on and ends with the bits of one that was not."""

import json
import signal
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

from unskew import DCKM, DecorrelationWeights
from unskew._io import FileError
from unskew._solver import Checkpoint, CheckpointError, Snapshot
from unskew._solver.checkpoint import digest

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FITTED = ("weights_", "labels_", "cluster_centers_", "objective_", "imbalance_", "n_iter_")
MODELS = {
    "descent": (DCKM, {"n_clusters": 3, "n_init": 3, "max_iter": 4, "random_state": 0}),
    "suspects": (
        DCKM,
        {
            "n_clusters": 3,
            "n_init": 2,
            "max_iter": 2,
            "suspects": [0],
            "min_effective_sample_size": 0.5,
            "random_state": 0,
        },
    ),
    "paper": (
        DCKM,
        {
            "n_clusters": 3,
            "n_init": 3,
            "max_iter": 8,
            "objective": "paper",
            "solver": "paper",
            "random_state": 0,
        },
    ),
    "weights": (DecorrelationWeights, {"max_iter": 15}),
    "paper weights": (
        DecorrelationWeights,
        {"max_iter": 8, "objective": "paper", "solver": "paper"},
    ),
}


def some_rows(n=250, d=6):
    rng = np.random.default_rng(0)
    return (rng.random((n, d)) < 0.1 + 0.8 * rng.integers(0, 2, (n, 1))).astype(np.float64)


class Killed(BaseException):
    """Stands for a kill: nothing of the fit gets to react."""


def fit_until(monkeypatch, model, X, writes):
    """Fit, killed after so many writes; returns whether it came to that."""
    written, write = 0, Checkpoint.write

    def count(self, progress):
        nonlocal written
        write(self, progress)
        written += 1
        if written == writes:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", count)
        try:
            model.fit(X)
        except Killed:
            return True
    return False


def assert_same(one, other):
    for name in FITTED:
        if hasattr(one, name):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name, values in one.history_.items():
        np.testing.assert_array_equal(values, other.history_[name], err_msg=name)


@pytest.mark.parametrize("which", MODELS)
def test_killed_anywhere_and_resumed_is_the_same_fit(which, tmp_path, monkeypatch):
    kind, how = MODELS[which]
    X, path = some_rows(), tmp_path / "fit.npz"
    whole = kind(**how).fit(X)
    kept = {"checkpoint": path, "checkpoint_seconds": 0}
    killed = 0
    for writes in (1, 3, 10):
        if fit_until(monkeypatch, kind(**how, **kept), X, writes):
            killed += 1
            assert path.exists()
            assert_same(kind(**how, **kept).fit(X), whole)
        assert not path.exists()  # gone when the fit is done
    assert killed > 1


@pytest.mark.parametrize("adjust", ["effects", "both"])
def test_killed_in_every_phase_of_a_fit_with_effects(adjust, tmp_path, monkeypatch):
    X, path, weigh = some_rows(80, 4), tmp_path / "fit.npz", adjust == "both"
    how = {"n_clusters": 2, "n_init": 2, "max_iter": 2, "suspects": [0], "random_state": 0}
    how |= {"adjust": adjust, "tol": 1e-2}
    whole, kept = DCKM(**how).fit(X), {"checkpoint": path, "checkpoint_seconds": 0}
    phases, write = [], Checkpoint.write

    def note(self, progress):
        phases.append((progress.facts["kind"], progress.facts["phase"]))
        write(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", note)
        assert_same(DCKM(**how, **kept).fit(X), whole)
    # From raw and regressed-out rows and (both) from weights; without weights one round is all.
    starts = {(kind, "starts") for kind in range(3 if weigh else 2)}
    assert set(phases) == starts | {(kind, "descent") for kind in range(3) if weigh}
    for phase in dict.fromkeys(phases):
        writes = len(phases) - phases[::-1].index(phase)  # the last one of its phase
        assert fit_until(monkeypatch, DCKM(**how, **kept), X, writes)
        resumed = DCKM(**how, checkpoint=path).fit(X)
        assert_same(resumed, whole)
        assert resumed.restarts_ == whole.restarts_
        B, expected = (model._distance.effects.B for model in (resumed, whole))
        np.testing.assert_array_equal(B, expected)
        assert not path.exists()


def test_killed_again_and_again(tmp_path, monkeypatch):
    X, (kind, how) = some_rows(), MODELS["descent"]
    whole, kills = kind(**how).fit(X), 0
    model = kind(**how, checkpoint=tmp_path / "fit.npz", checkpoint_seconds=0)
    while fit_until(monkeypatch, model, X, 9):
        kills += 1
        assert kills < 1000
    assert kills > 2
    assert_same(model, whole)


def test_a_fit_without_a_seed_goes_on_with_the_seeds_it_had(tmp_path, monkeypatch):
    X, path = some_rows(), tmp_path / "fit.npz"
    how = {"n_clusters": 3, "n_init": 2, "max_iter": 3, "checkpoint": path, "checkpoint_seconds": 0}
    assert fit_until(monkeypatch, DCKM(**how), X, 3)
    kept = path.read_bytes()
    one = DCKM(**how).fit(X)
    path.write_bytes(kept)
    np.testing.assert_array_equal(DCKM(**how).fit(X).weights_, one.weights_)


@pytest.mark.soak
def test_killed_for_good(tmp_path):
    """SIGKILL in the middle of a process of its own."""
    X = some_rows(3000, 10)
    np.save(tmp_path / "X.npy", X)
    script = textwrap.dedent(
        """
        import os, signal, sys, warnings
        from unskew import DCKM
        from unskew._solver.checkpoint import Checkpoint

        warnings.simplefilter("ignore")
        write, left = Checkpoint.write, int(sys.argv[3])

        def count(self, progress):
            global left
            write(self, progress)
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        Checkpoint.write = count
        DCKM(3, n_init=2, max_iter=3, random_state=0, checkpoint=sys.argv[2],
             checkpoint_seconds=0, n_threads=1).fit(sys.argv[1])
        """
    )
    where = [str(tmp_path / "X.npy"), str(tmp_path / "fit.npz")]
    found = subprocess.run([sys.executable, "-c", script, *where, "5"], timeout=120, check=False)
    assert found.returncode == -signal.SIGKILL
    how = {"n_init": 2, "max_iter": 3, "random_state": 0}
    resumed = DCKM(3, **how, checkpoint=where[1]).fit(where[0])
    assert_same(resumed, DCKM(3, **how).fit(X))
    assert not (tmp_path / "fit.npz").exists()


def test_other_rows_weights_or_settings_are_refused(tmp_path, monkeypatch):
    X, path = some_rows(), tmp_path / "fit.npz"
    how = {"n_init": 2, "max_iter": 3, "random_state": 0, "checkpoint": path}
    how["checkpoint_seconds"] = 0
    assert fit_until(monkeypatch, DCKM(3, **how), X, 2)
    kept = path.read_bytes()
    changed = X.copy()
    changed[1, 1] = 1 - changed[1, 1]
    with pytest.raises(CheckpointError, match=r"fit\.npz: is the checkpoint of other rows"):
        DCKM(3, **how).fit(changed)
    with pytest.raises(CheckpointError, match=r"of other (rows|sample_weight)"):
        DCKM(3, **how).fit(X[:-1])
    with pytest.raises(CheckpointError, match="of other sample_weight"):
        DCKM(3, **how).fit(X, sample_weight=np.r_[0, np.ones(249)])
    with pytest.raises(CheckpointError, match="a fit with n_clusters=3, this one has n_clusters=4"):
        DCKM(4, **how).fit(X)
    with pytest.raises(CheckpointError, match="class=DCKM, this one has class=Decorrelation"):
        DecorrelationWeights(checkpoint=path).fit(X)
    with pytest.raises(CheckpointError, match="random_state"):
        DCKM(3, **{**how, "random_state": np.random.RandomState(5)}).fit(X)
    assert path.read_bytes() == kept
    # Threads and speech do not change the answer.
    DCKM(3, **how, n_threads=1).fit(X)
    path.write_bytes(kept)
    anew = DCKM(4, **how, resume=False).fit(X)
    np.testing.assert_array_equal(
        anew.weights_, DCKM(4, n_init=2, max_iter=3, random_state=0).fit(X).weights_
    )
    assert not path.exists()


def test_what_is_no_checkpoint_is_refused(tmp_path):
    X, path = some_rows(), tmp_path / "fit.npz"
    model = DecorrelationWeights(max_iter=3, tol=1.0, checkpoint=path)
    for content in (b"", b"no zip", b"PK\x03\x04 no zip either"):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"fit\.npz: is not a checkpoint of unskew"):
            model.fit(X)
        assert path.read_bytes() == content
    np.savez(path, a=np.ones(3))
    with pytest.raises(CheckpointError, match="is not a checkpoint of unskew"):
        model.fit(X)
    np.savez(path, a=np.array([{}], dtype=object), __facts__=np.array([{}], dtype=object))
    with pytest.raises(CheckpointError, match="is not a checkpoint of unskew"):
        model.fit(X)
    facts = np.frombuffer(json.dumps({"format": "unskew checkpoint 0"}).encode(), dtype=np.uint8)
    np.savez(path, __facts__=facts)
    with pytest.raises(CheckpointError, match="not a checkpoint of this version"):
        model.fit(X)


def test_parameters_are_checked(tmp_path):
    X = some_rows()
    with pytest.raises(TypeError, match="checkpoint=3 should be a path"):
        DCKM(3, checkpoint=3).fit(X)
    with pytest.raises(ValueError, match="checkpoint_seconds=-1 should be >= 0"):
        DCKM(3, checkpoint_seconds=-1).fit(X)
    with pytest.raises(TypeError, match="resume='yes' should be True or False"):
        DCKM(3, resume="yes").fit(X)
    with pytest.raises(FileError, match="does not exist"):
        DCKM(3, checkpoint=tmp_path / "nowhere" / "fit.npz").fit(X)


def test_a_short_fit_writes_nothing(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(Checkpoint, "write", lambda self, progress: written.append(progress))
    DCKM(3, n_init=2, max_iter=3, checkpoint=tmp_path / "fit.npz").fit(some_rows())
    assert not written
    assert not list(tmp_path.iterdir())


def test_written_and_read_back_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"y": rng.normal(size=50), "moved0": rng.normal(size=5).astype(np.float32)}
    facts = {"J": 0.1 + 0.2, "before": np.inf, "history": [{"objective": 1 / 3}], "on_floor": False}
    checkpoint = Checkpoint(tmp_path / "a", {"rows": "x"}, 0.0)
    assert checkpoint.read() is None
    checkpoint.save_if_due(lambda: Snapshot(arrays, facts))
    found = checkpoint.read()
    assert found.facts == facts
    for name, values in arrays.items():
        np.testing.assert_array_equal(found.arrays[name], values)
        assert found.arrays[name].dtype == values.dtype
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    assert digest(np.arange(3)) != digest(np.arange(3.0))
    checkpoint.remove()
    checkpoint.remove()


def test_a_file_that_is_no_checkpoint_is_never_removed(tmp_path, rng):
    X = rng.random((60, 4))
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "notes.txt").write_text("mine")
    for name in ("x.npy", "notes.txt"):
        for resume in (True, False):
            model = DCKM(2, n_init=1, checkpoint=tmp_path / name, resume=resume)
            with pytest.raises(CheckpointError, match="is not a checkpoint of unskew"):
                model.fit(tmp_path / "x.npy")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)


def test_a_damaged_checkpoint_is_refused_or_harmless(tmp_path):
    path, whole = tmp_path / "c.npz", tmp_path / "whole.npz"
    checkpoint = Checkpoint(whole, {"class": "DCKM"}, 0)
    checkpoint.write(Snapshot({"w": np.arange(40.0), "moved0": np.ones(5)}, {"n": 3}))
    expected = checkpoint.read()
    content = whole.read_bytes()
    for at in range(0, len(content), 3):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x15]) + content[at + 1 :])
        try:
            found = Checkpoint(path, {"class": "DCKM"}, 0).read()
        except CheckpointError:
            continue
        assert found.facts == expected.facts
        for name, array in expected.arrays.items():
            np.testing.assert_array_equal(found.arrays[name], array)


def test_a_compressed_checkpoint_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "c.npz", __facts__=np.zeros(10**6, dtype=np.uint8))
    with pytest.raises(CheckpointError, match="compressed; members should be stored"):
        Checkpoint(tmp_path / "c.npz", {}, 0).read()


def test_a_checkpoint_with_objects_or_other_members_is_refused(tmp_path):
    path = tmp_path / "c.npz"
    np.savez(path, a=np.array([None], dtype=object))
    with pytest.raises(CheckpointError, match="array 'a': it contains Python objects"):
        Checkpoint(path, {}, 0).read()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.pkl", b"x")
    with pytest.raises(CheckpointError, match=r"member 'a\.pkl' is not an array"):
        Checkpoint(path, {}, 0).read()
