"""DaskDCKM and DaskSelectionMixture: the bits of the same blocks in memory, workers that die, a
scheduler that goes away."""

import threading
import time

import numpy as np
import polars as pl
import pytest

from unskew import DCKM, ParquetReader, SelectionMixture, TableEncoder
from unskew._data.columns import as_frame
from unskew._data.tiled import tile_rows

distributed = pytest.importorskip("distributed", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")

from sklearn.base import clone  # noqa: E402

from unskew.dask import DaskDCKM, DaskSelectionMixture, SchedulerGone  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:predict_weights reproduces"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FITTED = ("weights_", "labels_", "cluster_centers_", "objective_", "imbalance_")
HOW = {"n_clusters": 3, "n_init": 1, "max_iter": 1, "tol": 0.05, "random_state": 0}
HOW["init"] = "random"


def start_cluster():
    return distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    )


@pytest.fixture(scope="module")
def client():
    with start_cluster() as cluster, distributed.Client(cluster) as client:
        yield client


class ArrayBlocks:
    def __init__(self, X, rows):
        self.X, self.rows = X, rows
        self.n_blocks = -(-len(X) // rows)

    def read(self, i):
        return self.X[i * self.rows : (i + 1) * self.rows]


def binary(n=20_000, d=12, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    return (rng.random((n, d)) < 0.2 + 0.5 * (group[:, None] == np.arange(d) % 3)).astype(np.uint8)


def assert_same_bits(one, other):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("persist", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_dask_array_gives_the_bits_of_the_array(client, persist):
    X = binary()
    step = tile_rows(X.shape, sparse=False)
    model = DaskDCKM(client, persist=persist, **HOW).fit(da.from_array(X, chunks=(step, 7)))
    in_memory = DCKM(**HOW).fit(X)
    assert_same_bits(model, in_memory)
    np.testing.assert_array_equal(model.predict(da.from_array(X, chunks=(8000, 12))), model.labels_)
    local = model.to_local()
    assert type(local) is DCKM
    np.testing.assert_array_equal(local.predict(X[:100]), in_memory.predict(X[:100]))
    np.testing.assert_array_equal(
        local.predict_weights(X[:100]), in_memory.predict_weights(X[:100])
    )


def test_any_blocks_are_those_of_a_reader(client, tmp_path):
    X = np.random.default_rng(0).normal(size=(900, 4)) + 5 * (np.arange(900)[:, None] % 3)
    how = {**HOW, "suspects": [0], "init": "k-means++", "tol": 1.0}
    local = DCKM(**how).fit(ArrayBlocks(X, 350))
    assert_same_bits(DaskDCKM(client, **how).fit(da.from_array(X, chunks=(350, 4))), local)
    assert_same_bits(DaskDCKM(client, **how).fit(ArrayBlocks(X, 350)), local)
    np.save(tmp_path / "X.npy", X)
    from_file = DaskDCKM(client, **how, persist=False).fit(tmp_path / "X.npy")
    assert_same_bits(from_file, DCKM(**how).fit(tmp_path / "X.npy"))


def test_tables_are_encoded_on_the_workers(client, tmp_path):
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "age": [None if lost else age for lost, age in zip(rng.random(900) < 0.1,
                                                              rng.normal(50, 10, 900))],
            "site": rng.choice(["A", "B", "C"], 900).tolist(),
            "visits": rng.integers(0, 9, 900),
        }
    )  # fmt: skip
    table.write_parquet(tmp_path / "t.parquet", row_group_size=300)
    reader = ParquetReader(tmp_path / "t.parquet")
    how = {**HOW, "suspects": ["site"], "tol": 1.0}
    local = DCKM(**how).fit(reader)
    assert local.encoder_.recipes_ == TableEncoder().fit(table).recipes_
    found = DaskDCKM(client, **how).fit(reader)
    assert_same_bits(found, local)
    frame = dd.from_pandas(table.to_pandas(), npartitions=3)
    from_frame = DaskDCKM(client, **how).fit(frame)
    assert from_frame.encoder_.recipes_ == local.encoder_.recipes_
    assert_same_bits(from_frame, local)
    np.testing.assert_array_equal(from_frame.predict(frame), local.predict(table))
    assert as_frame(table) is not None


@pytest.mark.soak
def test_a_worker_killed_in_the_middle_changes_nothing(client):
    X = binary(60_000, 32)
    step = tile_rows(X.shape, sparse=False)
    how = {**HOW, "max_iter": 2, "tol": 1e-3}
    expected = DCKM(**how).fit(X)
    held = da.from_array(X, chunks=(step, 32))

    def kill():
        time.sleep(0.6)
        workers = list(client.scheduler_info()["workers"])
        client.run(__import__("os")._exit, 1, workers=workers[:1], on_error="ignore")

    killer = threading.Thread(target=kill)
    killer.start()
    found = DaskDCKM(client, **how).fit(held)
    killer.join()
    assert_same_bits(found, expected)


@pytest.mark.soak
def test_without_a_scheduler_there_is_an_error_not_a_hang(monkeypatch):
    monkeypatch.setattr("unskew.dask.SCHEDULER_TIMEOUT", 2.0)
    monkeypatch.setattr("unskew.dask.POLL_SECONDS", 0.5)
    X = binary(200_000, 30)
    cluster = start_cluster()
    client = distributed.Client(cluster)
    address = cluster.scheduler_address
    try:
        stop = threading.Timer(2.0, cluster.close)
        model = DaskDCKM(client, n_clusters=3, n_init=50, max_iter=50, tol=0.0, random_state=0)
        held = da.from_array(X, chunks=(8192, 30))
        begun = time.monotonic()
        stop.start()
        with pytest.raises(SchedulerGone, match=f"the scheduler at {address}"):
            model.fit(held)
        assert time.monotonic() - begun < 40
        stop.join()
        with pytest.raises(SchedulerGone, match=r"the scheduler at .* is lost"):
            model.fit(held)
    finally:
        client.close(timeout=1)
        cluster.close()


def test_no_client_is_an_error(monkeypatch):
    def nobody():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", nobody)
    with pytest.raises(ValueError, match="client=None should mean the current dask client"):
        DaskDCKM(**HOW).fit(da.from_array(binary(100), chunks=(50, 12)))


def test_nan_names_the_block(client):
    X = np.random.default_rng(0).normal(size=(1000, 3))
    X[700, 1] = np.nan
    with pytest.raises(ValueError, match="dask array, block 1: index 200, column 1 is NaN"):
        DaskDCKM(client, **HOW).fit(da.from_array(X, chunks=(500, 3)))


def test_parameters_are_those_of_dckm(client):
    model = DaskDCKM(client, n_clusters=4, balance_strength=2.0)
    parameters = model.get_params(deep=False)
    assert set(DCKM().get_params(deep=False)) | {"client", "persist"} == set(parameters)
    assert clone(model).get_params(deep=False) == parameters
    model.set_params(n_clusters=5)
    assert model.n_clusters == 5
    with pytest.raises(TypeError):
        DaskDCKM(client, no_such=1)


# ------------------------------------------------------------------------------ SelectionMixture
MIXTURE = ("labels_", "weights_", "means_", "shares_", "shares_se_", "bic_", "one_group_bic_")
MIX = {"n_components": 2, "random_state": 0, "covariance": "diag", "selection": "free"}


def groups_at_sites(n, seed=0):
    """Two groups with other shares at each of three sites, a missing value here and there."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 3, n)
    group = rng.random(n) < np.array([0.2, 0.5, 0.8])[site]
    X = rng.normal(size=(n, 4)) + 3.0 * group[:, None] * [1, 0, 1, 0] + 0.5 * site[:, None]
    X[rng.random(n) < 0.01, 1] = np.nan
    return np.column_stack([X, site])


def assert_same_mixture(one, other):
    for name in MIXTURE:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_a_mixture_on_a_cluster_has_the_bits_of_the_array(client, tmp_path):
    X = groups_at_sites(9_000)
    how = {**MIX, "suspects": [4], "effects": "shift"}
    wanted = SelectionMixture(**how).fit(X)
    step = tile_rows(X.shape, sparse=False)
    found = DaskSelectionMixture(client, **how).fit(da.from_array(X, chunks=(step, 3)))
    assert_same_mixture(found, wanted)
    np.testing.assert_array_equal(found.predict(da.from_array(X, chunks=(700, 5))), wanted.labels_)
    local = found.to_local()
    assert type(local) is SelectionMixture
    np.testing.assert_array_equal(local.predict(X[:100]), wanted.labels_[:100])
    frame = pl.DataFrame(X[:, :4], schema=list("abcd"), nan_to_null=True)
    frame = frame.with_columns(site=pl.Series(np.array(["A", "B", "C"])[X[:, 4].astype(int)]))
    how["suspects"] = "site"
    wanted = SelectionMixture(**how).fit(frame)
    parts = dd.from_pandas(frame.to_pandas(), npartitions=1)
    on_table = DaskSelectionMixture(client, **how).fit(parts)
    np.testing.assert_allclose(on_table.means_, wanted.means_, rtol=1e-8)
    np.testing.assert_array_equal(on_table.labels_, wanted.labels_)


@pytest.mark.soak
def test_a_worker_killed_during_a_mixture_changes_nothing(client):
    X = groups_at_sites(200_000)
    step = tile_rows(X.shape, sparse=False)
    how = {**MIX, "suspects": [4], "effects": "shift", "tol": 0.0, "max_iter": 30}
    expected = SelectionMixture(**how).fit(X)
    killed = []

    def kill():
        time.sleep(4.0)
        workers = list(client.scheduler_info()["workers"])
        client.run(__import__("os")._exit, 1, workers=workers[:1], on_error="ignore")
        killed.append(workers[0])

    killer = threading.Thread(target=kill)
    killer.start()
    found = DaskSelectionMixture(client, **how).fit(da.from_array(X, chunks=(16 * step, 5)))
    assert killed, "the fit ended before the worker was killed"
    killer.join()
    assert_same_mixture(found, expected)
