"""SelectionMixture on files, blocks, sparse rows, and interrupted: the bits of rows in memory."""

import json
import zipfile

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from unskew import ParquetReader, SelectionMixture, load, save
from unskew._data.tiled import tile_rows
from unskew._solver import CheckpointError
from unskew.diagnostics import diagnose

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FITTED = (
    *("labels_", "weights_", "combined_weights_", "means_", "shares_", "shares_se_", "bic_"),
    *("one_group_bic_", "covariance_", "positivity_", "effective_sample_size_"),
)
HOW = {"n_components": 2, "suspects": [5], "random_state": 0}


def some_rows(n=20_000, missing=0.02, seed=0):
    """Two groups at three sites that shift the columns: three numbers, a flag, one more number with
    missing values, the site."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 3, n)
    group = (rng.random(n) < np.array([0.2, 0.5, 0.8])[site]).astype(int)
    X = rng.normal(size=(n, 3)) + 3.0 * group[:, None] * [1, 0, 1] + 0.5 * site[:, None]
    flag = rng.random(n) < 0.2 + 0.6 * group
    last = rng.normal(size=n) - 2.0 * group
    last[rng.random(n) < missing] = np.nan
    return np.column_stack([X, flag, last, site])


def as_table(X):
    columns = {f"x{j}": X[:, j] for j in range(3)}
    columns["flag"] = np.array(["no", "yes"])[X[:, 3].astype(int)]
    columns["last"] = pl.Series(X[:, 4]).fill_nan(None)
    columns["site"] = np.array(["A", "B", "C"])[X[:, 5].astype(int)]
    return pl.DataFrame(columns)


def assert_same_bits(one, other):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


class ArrayBlocks:
    def __init__(self, X, rows):
        self.X, self.rows, self.n_blocks = X, rows, -(-len(X) // rows)

    def read(self, i):
        return self.X[i * self.rows : (i + 1) * self.rows]


@pytest.fixture(scope="module")
def rows():
    return some_rows()


@pytest.fixture(scope="module")
def in_memory(rows):
    return SelectionMixture(**HOW).fit(rows)


def test_a_file_gives_the_bits_of_the_array(rows, in_memory, tmp_path):
    np.save(tmp_path / "X.npy", rows)
    found = SelectionMixture(**HOW).fit(tmp_path / "X.npy")
    assert_same_bits(found, in_memory)
    np.testing.assert_array_equal(found.predict(tmp_path / "X.npy"), in_memory.labels_)
    np.testing.assert_array_equal(in_memory.predict(rows), in_memory.labels_)
    np.testing.assert_array_equal(
        found.predict_proba(np.load(tmp_path / "X.npy", mmap_mode="r")),
        in_memory.predict_proba(rows),
    )
    assert found.bic(tmp_path / "X.npy") == pytest.approx(found.bic_, rel=1e-12)
    one, other = diagnose(found, tmp_path / "X.npy"), diagnose(in_memory, rows)
    assert one.verdict == other.verdict


def test_labels_and_weights_can_be_written_to_files(rows, in_memory, tmp_path):
    folder, path = tmp_path / "rows of the fit", tmp_path / "rows.npy"
    folder.mkdir()
    np.save(path, rows)
    model = SelectionMixture(**HOW, output_dir=folder).fit(path)
    assert_same_bits(model, in_memory)
    for name in ("labels", "weights"):
        found = getattr(model, f"{name}_")
        assert isinstance(found, np.memmap)
        assert not found.flags.writeable
        np.testing.assert_array_equal(found, np.load(folder / f"{name}.npy"))
    assert sorted(file.name for file in folder.iterdir()) == ["labels.npy", "weights.npy"]
    # Fits to parts of the rows, for the verdict, leave the files alone.
    before = [file.read_bytes() for file in sorted(folder.iterdir())]
    assert diagnose(model, rows).verdict.word == diagnose(in_memory, rows).verdict.word
    assert [file.read_bytes() for file in sorted(folder.iterdir())] == before
    save(model, tmp_path / "model.skops")
    assert_same_bits(load(tmp_path / "model.skops"), in_memory)
    with pytest.raises(ValueError, match="does not exist"):
        SelectionMixture(**HOW, output_dir=tmp_path / "nowhere").fit(path)
    with pytest.raises(TypeError, match="output_dir=3 should be a path or None"):
        SelectionMixture(**HOW, output_dir=3).fit(path)


def test_files_of_labels_are_whole_or_those_before(rows, tmp_path, monkeypatch):
    (tmp_path / "labels.npy").write_bytes(b"before")
    model = SelectionMixture(**HOW, output_dir=tmp_path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(SelectionMixture, "_fill_rows", fail)
    with pytest.raises(ValueError, match="disk full"):
        model.fit(rows[:500])
    assert (tmp_path / "labels.npy").read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1
    assert not hasattr(model, "labels_")


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_few_rows_in_a_file(tmp_path, covariance):
    X = some_rows(500)
    np.save(tmp_path / "X.npy", X)
    how = {**HOW, "covariance": covariance}
    assert_same_bits(
        SelectionMixture(**how).fit(tmp_path / "X.npy"), SelectionMixture(**how).fit(X)
    )


def test_blocks_of_tiles_give_the_bits_of_the_array():
    X = some_rows(140_000)
    step = 16 * tile_rows(X.shape, sparse=False)
    assert step < len(X)
    how = {**HOW, "effects": "shift", "selection": "free", "covariance": "full"}
    assert_same_bits(
        SelectionMixture(**how).fit(ArrayBlocks(X, step)), SelectionMixture(**how).fit(X)
    )


@pytest.mark.parametrize("cache", [False, True])
def test_parquet_gives_the_bits_of_the_table(tmp_path, cache):
    table = as_table(some_rows(140_000))
    step = 16 * tile_rows(table.shape, sparse=False)
    table.write_parquet(tmp_path / "X.parquet", row_group_size=step)
    how = {**HOW, "suspects": "site", "covariance": "diag", "effects": "shift"}
    reader = ParquetReader(tmp_path / "X.parquet", cache=tmp_path / "cache" if cache else None)
    found, wanted = SelectionMixture(**how).fit(reader), SelectionMixture(**how).fit(table)
    assert_same_bits(found, wanted)
    assert found.encoder_.kinds_ == wanted.encoder_.kinds_
    np.testing.assert_array_equal(found.predict(reader), wanted.labels_)
    np.testing.assert_array_equal(found.predict(table[:100]), wanted.labels_[:100])


def test_sparse_rows_are_the_dense_ones():
    rng = np.random.default_rng(0)
    n, d = 6000, 40
    site = rng.integers(0, 2, n)
    group = (rng.random(n) < 0.3 + 0.4 * site).astype(int)
    rate = np.where(np.arange(d) % 2 == group[:, None], 1.5, 0.2) + 0.3 * site[:, None]
    X = np.column_stack([rng.poisson(rate), site]).astype(float)
    how = {"n_components": 2, "suspects": [d], "random_state": 0, "covariance": "diag"}
    dense = SelectionMixture(**how).fit(X)
    found = SelectionMixture(**how).fit(sp.csr_array(X))
    np.testing.assert_array_equal(found.labels_, dense.labels_)
    np.testing.assert_allclose(found.means_, dense.means_, rtol=1e-9, atol=1e-12)
    assert (found.labels_ == group).mean() > 0.95 or (found.labels_ != group).mean() > 0.95
    np.testing.assert_array_equal(found.predict(sp.csr_array(X[:50])), found.labels_[:50])
    np.testing.assert_allclose(found.transform(sp.csr_array(X[:50])), found.transform(X[:50]))
    assert diagnose(found, sp.csr_array(X)).verdict == diagnose(dense, X).verdict


def test_weight_two_equals_row_twice_in_a_file(tmp_path):
    X = some_rows(4000)
    labels = (X[:, 0] > 1.5).astype(int)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "twice.npy", np.repeat(X, 2, axis=0))
    how = {**HOW, "covariance": "diag", "effects": "shift", "selection": "free"}
    weighted = SelectionMixture(**how, init=labels).fit(
        tmp_path / "X.npy", sample_weight=np.full(4000, 2.0)
    )
    twice = SelectionMixture(**how, init=np.repeat(labels, 2)).fit(tmp_path / "twice.npy")
    np.testing.assert_allclose(weighted.bic_, twice.bic_, rtol=1e-10)
    np.testing.assert_allclose(weighted.means_, twice.means_, rtol=1e-6)
    np.testing.assert_array_equal(np.repeat(weighted.labels_, 2), twice.labels_)
    # Standard errors are those of other subsamples of 3,000 rows.
    np.testing.assert_allclose(weighted.shares_se_, twice.shares_se_, rtol=0.05)


def test_rows_of_weight_0_are_absent_from_a_file_but_labelled(tmp_path):
    X = some_rows(4000)
    a = np.ones(4000)
    a[::4] = 0.0
    X[::4, :3] = 1e3  # would change the fit
    labels = (X[:, 0] > 1.5).astype(int)
    np.save(tmp_path / "X.npy", X)
    how = {**HOW, "covariance": "full"}
    found = SelectionMixture(**how, init=labels).fit(tmp_path / "X.npy", sample_weight=a)
    few = SelectionMixture(**how, init=labels[a > 0]).fit(X[a > 0])
    np.testing.assert_allclose(found.means_, few.means_, rtol=1e-9)
    np.testing.assert_array_equal(found.labels_[a > 0], few.labels_)
    assert not found.combined_weights_[a == 0].any()


def test_a_numeric_suspect_of_many_values_in_a_file(tmp_path):
    X = some_rows(5000, missing=0.0)
    X[:, 5] += np.random.default_rng(1).normal(size=5000)
    np.save(tmp_path / "X.npy", X)
    how = {**HOW, "covariance": "diag"}
    found, wanted = SelectionMixture(**how).fit(tmp_path / "X.npy"), SelectionMixture(**how).fit(X)
    assert_same_bits(found, wanted)
    assert found._combinations.suspects[0].is_number


def test_infinite_values_of_a_file_are_refused(tmp_path):
    X = some_rows(100)
    X[7, 1] = np.inf
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match=r"X\.npy: index 7, column 1 is inf"):
        SelectionMixture(**HOW).fit(tmp_path / "X.npy")
    model = SelectionMixture(**HOW).fit(some_rows(1000))
    np.save(tmp_path / "narrow.npy", some_rows(10)[:, :4])
    with pytest.raises(ValueError, match="has 4 features, but SelectionMixture is expecting 6"):
        model.predict(tmp_path / "narrow.npy")


# ---------------------------------------------------------------------------------- checkpoints
class Killed(BaseException):
    """Stands for a kill: nothing of the fit gets to react."""


@pytest.mark.parametrize("n", [400, 4000])
@pytest.mark.parametrize("after", [1, 4])
def test_a_killed_fit_goes_on_with_the_same_bits(tmp_path, monkeypatch, n, after):
    from unskew._solver.checkpoint import Checkpoint

    X, path = some_rows(n), tmp_path / "fit.npz"
    how = {**HOW, "tol": 0.0, "max_iter": 5, "covariance": "diag"}
    wanted = SelectionMixture(**how).fit(X)
    write, written = Checkpoint.write, []

    def write_and_die(self, snapshot):
        write(self, snapshot)
        written.append(snapshot)
        if len(written) == after:
            raise Killed

    monkeypatch.setattr(Checkpoint, "write", write_and_die)
    model = SelectionMixture(**how, checkpoint=path, checkpoint_seconds=0)
    with pytest.raises(Killed):
        model.fit(X)
    assert path.stat().st_size < 40_000
    model.fit(X)
    assert not path.exists()
    assert_same_bits(model, wanted)
    assert model.candidates_ == wanted.candidates_
    np.testing.assert_array_equal(model.history_["bound"], wanted.history_["bound"])


def test_checkpoints_of_other_fits_and_changed_ones_are_refused(tmp_path, monkeypatch):
    from unskew._solver.checkpoint import Checkpoint

    X, path = some_rows(300), tmp_path / "fit.npz"
    write, written = Checkpoint.write, []

    def write_and_die(self, snapshot):
        write(self, snapshot)
        written.append(snapshot)
        raise Killed

    how = {**HOW, "checkpoint": path, "checkpoint_seconds": 0, "covariance": "diag", "tol": 0.0}
    how["max_iter"] = 4
    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "write", write_and_die)
        with pytest.raises(Killed):
            SelectionMixture(**how).fit(X)
    with pytest.raises(CheckpointError, match=r"checkpoint of a fit with tol=0\.0"):
        SelectionMixture(**{**how, "tol": 1e-3}).fit(X)
    with pytest.raises(CheckpointError, match="checkpoint of other rows"):
        SelectionMixture(**how).fit(X + 1.0)
    identity = json.loads(bytes(np.load(path)["__facts__"]).decode())["identity"]
    changed = written[0]._replace(facts={**written[0].facts, "done": 7})
    Checkpoint(path, identity, 0).write(changed)
    with pytest.raises(CheckpointError, match=r"no fit of these rows could have saved \(fits\)"):
        SelectionMixture(**how).fit(X)
    arrays = {**written[0].arrays, "0 shares": np.zeros((1, 1))}
    Checkpoint(path, identity, 0).write(written[0]._replace(arrays=arrays))
    with pytest.raises(CheckpointError, match="0 shares"):
        SelectionMixture(**how).fit(X)
    assert zipfile.is_zipfile(path)
    SelectionMixture(**how, resume=False).fit(X)
    with pytest.raises(TypeError, match="checkpoint=3 should be a path or None"):
        SelectionMixture(**{**how, "checkpoint": 3}).fit(X)
