"""Checkpoints that were changed on purpose: refused, or continued to the same bits."""

import json
import warnings

import numpy as np
import pytest

from tests.trust.tally import count
from unskew import DCKM, DecorrelationWeights, SelectionMixture
from unskew._solver import Checkpoint, CheckpointError, Snapshot
from unskew._solver.checkpoint import digest_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

MODELS = {
    "all pairs": (DCKM, {"n_clusters": 3, "n_init": 3, "max_iter": 4, "random_state": 0}),
    "suspects": (DCKM, {"n_clusters": 3, "n_init": 3, "max_iter": 3, "tol": 0.0,
                        "suspects": [0], "random_state": 0}),
    "both": (DCKM, {"n_clusters": 2, "n_init": 2, "max_iter": 3, "suspects": [0], "adjust": "both",
                    "random_state": 0}),
    "paper": (DCKM, {"n_clusters": 3, "n_init": 2, "max_iter": 6, "objective": "paper",
                     "solver": "paper", "random_state": 0}),
    "mixture": (SelectionMixture, {"n_components": 2, "max_iter": 6, "tol": 0.0, "suspects": [0],
                                   "covariance": "diag", "effects": "shift", "random_state": 0}),
    "effects": (SelectionMixture, {"n_components": 2, "max_iter": 4, "tol": 0.0, "suspects": [0],
                                   "covariance": "full", "effects": "per-group",
                                   "kinds": {1: "number", 2: "number", 3: "category"},
                                   "random_state": 0}),
    "weights": (DecorrelationWeights, {"max_iter": 12}),
}  # fmt: skip
OTHER_FACTS = [None, True, -1, 0, 10**9, 0.5, float("nan"), float("inf"), "x", [], {}, [[]], [{}]]


def rows():
    rng = np.random.default_rng(0)
    return (rng.random((80, 5)) < 0.2 + 0.4 * rng.integers(0, 2, (80, 1))).astype(np.float64)


def fitted(kind, how, path, seconds):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # 80 rows do not show groups
        return kind(**how, checkpoint=path, checkpoint_seconds=seconds).fit(rows())


def saved(kind, how, path, monkeypatch):
    """Contents of the checkpoint at several moments of a fit, and the fit."""
    contents, write = [], Checkpoint.write

    def keep(self, snapshot):
        write(self, snapshot)
        contents.append(path.read_bytes())

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", keep)
        model = fitted(kind, how, path, 0)
    return contents, model


def changed_arrays(array):
    """The array with another shape, type or value."""
    yield array[..., None]
    yield array.astype(np.float32 if array.dtype == np.float64 else np.float64)
    yield array.astype(np.int64)
    if array.ndim:
        yield array[:-1]
        yield np.concatenate([array, array])
    if array.size:
        for value in (-1, 10**9, 2**31 - 1):
            with np.errstate(all="ignore"):
                yield np.full_like(array, np.array(value).astype(array.dtype))
        for value in (np.nan, np.inf) if array.dtype.kind == "f" else ():
            yield np.full_like(array, value)


def tampered(path):
    """(what was changed, arrays, header) for many changes of the checkpoint."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "__facts__"}
        header = json.loads(bytes(stored["__facts__"]))
    for name, array in arrays.items():
        yield f"without {name}", {k: v for k, v in arrays.items() if k != name}, header
        for number, other in enumerate(changed_arrays(array)):
            yield f"{name} change {number}", {**arrays, name: other}, header
    yield "further array", {**arrays, "other": np.ones(3)}, header
    facts = header["facts"]
    for name, was in facts.items():
        without = {k: v for k, v in facts.items() if k != name}
        yield f"without {name}", arrays, {**header, "facts": without}
        for other in OTHER_FACTS:
            if other != was or type(other) is not type(was):
                yield f"{name}={other!r}", arrays, {**header, "facts": {**facts, name: other}}


def put(path, arrays, header, repair):
    if repair:
        header = {**header, "digest": digest_of(Snapshot(arrays, header["facts"]))}
        header["arrays"] = sorted(arrays)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with open(path, "wb") as file:
        np.savez(file, __facts__=text, **arrays)


def check_tampering(which, tmp_path, monkeypatch, moments, repair, step=1):
    kind, how = MODELS[which]
    path = tmp_path / "fit.npz"
    path.unlink(missing_ok=True)
    contents, model = saved(kind, how, path, monkeypatch)
    tried, same = 0, 0
    for at in np.unique(np.linspace(0, len(contents) - 1, moments).astype(int)):
        path.write_bytes(contents[at])
        for what, arrays, header in list(tampered(path))[::step]:
            put(path, arrays, header, repair)
            tried += 1
            count("checkpoints tampered")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", category=UserWarning)
                try:
                    found = fitted(kind, how, path, 1e9)
                except CheckpointError:
                    continue
            same += 1
            assert np.isfinite(found.weights_).all(), what
            if not repair:
                np.testing.assert_array_equal(found.weights_, model.weights_, err_msg=what)
    return tried, same


@pytest.mark.parametrize("which", MODELS)
def test_a_changed_checkpoint_is_refused(which, tmp_path, monkeypatch):
    tried, same = check_tampering(which, tmp_path, monkeypatch, 2, False, step=9)
    assert tried > 10
    assert same == 0


@pytest.mark.parametrize("which", MODELS)
def test_a_forged_digest_does_not_reach_the_kernels(which, tmp_path, monkeypatch):
    check_tampering(which, tmp_path, monkeypatch, 2, True, step=11)


@pytest.mark.soak
@pytest.mark.parametrize("which", MODELS)
def test_changes_at_several_moments_are_refused_or_finite(which, tmp_path, monkeypatch):
    assert check_tampering(which, tmp_path, monkeypatch, 3, False, step=5)[1] == 0
    check_tampering(which, tmp_path, monkeypatch, 3, True, step=3)
