"""Effects of suspects on rows outside memory: files, readers, tables in blocks, a Dask cluster."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from unskew import DCKM, ParquetReader
from unskew.simulate import make_site_footprint

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:predict_weights reproduces"),
]

FITTED = ("weights_", "labels_", "cluster_centers_", "objective_", "imbalance_", "restarts_")
HOW = {"n_clusters": 3, "n_init": 2, "max_iter": 2, "init": "k-means++", "random_state": 0}
HOW["tol"] = 0.1
STEP = 110  # rows of a tile and of a block


class ArrayBlocks:
    def __init__(self, X, rows):
        self.X, self.rows = X, rows
        self.n_blocks = -(-len(X) // rows)

    def read(self, i):
        return self.X[i * self.rows : (i + 1) * self.rows]


@pytest.fixture(scope="module")
def data():
    """Few columns: 8 of the core, 6 of the footprint, 4 of the site."""
    made = make_site_footprint(3 * STEP, rate=0.6, random_state=0)
    columns = np.r_[made.core[:8], made.footprint[:6], made.suspects]
    return np.ascontiguousarray(made.X[:, columns], dtype=np.float64), made.site


@pytest.fixture
def small_tiles(monkeypatch):
    """Several tiles in memory and in a file, the same as the blocks."""
    for module in ("tiled", "sources"):
        monkeypatch.setattr(f"unskew._data.{module}.tile_rows", lambda shape, sparse: STEP)


@pytest.fixture(scope="module")
def table(data):
    X, site = data
    frame = pd.DataFrame(X[:, :14], columns=[f"x{i}" for i in range(14)])
    frame.loc[np.random.default_rng(0).random(len(X)) < 0.1, "x3"] = np.nan
    return frame.assign(site=np.array(list("NSWE"))[site])


def assert_same_bits(one, other):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_array_equal(one._distance.effects.B, other._distance.effects.B)


def fit(X, adjust, suspects=(14, 15, 16, 17), kind=DCKM, client=(), **how):
    return kind(*client, suspects=list(suspects), adjust=adjust, **{**HOW, **how}).fit(X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("adjust", ["effects", "both"])
def test_files_and_readers_give_the_bits_of_the_array(data, adjust, dtype, small_tiles, tmp_path):
    X = (data[0] > 0 if dtype == np.uint8 else data[0]).astype(dtype)
    model = fit(X, adjust)
    if adjust == "both":
        assert model.weights_.std() > 0.01
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for outside in (tmp_path / "X.npy", mapped, ArrayBlocks(X, STEP)):
        found = fit(outside, adjust, n_threads=2)
        assert_same_bits(found, model)
        np.testing.assert_array_equal(found.predict(outside), model.labels_)
        np.testing.assert_array_equal(found.transform(outside), model.transform(X))
        np.testing.assert_array_equal(found.predict_weights(outside), model.predict_weights(X))


@pytest.mark.parametrize("adjust", ["effects", "both"])
def test_tables_in_blocks_give_the_bits_of_the_table(table, adjust, small_tiles, tmp_path):
    path = tmp_path / "t.parquet"
    pl.from_pandas(table).write_parquet(path, row_group_size=STEP)
    model = fit(table, adjust, ["site"])
    for outside in (ParquetReader(path), path):
        found = fit(outside, adjust, ["site"])
        assert_same_bits(found, model)
        assert [one["suspect"] for one in found.suspect_effects_] == [
            one["suspect"] for one in model.suspect_effects_
        ]
        np.testing.assert_array_equal(found.predict(path), model.labels_)


def test_other_blocks_are_the_same_fit(data):
    # Other sums of the same numbers: equal but for rounding.
    one, other = (fit(ArrayBlocks(data[0], rows), "effects") for rows in (STEP, 137))
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_allclose(one._distance.effects.B, other._distance.effects.B, atol=1e-9)


@pytest.mark.parametrize("adjust", ["effects", "both"])
def test_sparse_rows_are_refused(data, adjust):
    with pytest.raises(ValueError, match=f"adjust='{adjust}' makes rows dense, and X is sparse"):
        fit(sp.csr_array(data[0]), adjust)


# ------------------------------------------------------------------------------------------ Dask
@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="dask is not installed")
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


FEW = {"n_clusters": 2, "n_init": 1, "max_iter": 1, "tol": 0.1, "init": "principal"}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("adjust", ["effects", pytest.param("both", marks=pytest.mark.soak)])
def test_a_dask_array_gives_the_bits_of_the_same_blocks(client, data, adjust):
    import dask.array as da

    from unskew.dask import DaskDCKM

    X = data[0][: 2 * STEP]
    local = fit(ArrayBlocks(X, STEP), adjust, **FEW)
    held = da.from_array(X, chunks=(STEP, 9))
    found = fit(held, adjust, kind=DaskDCKM, client=[client], **FEW)
    assert_same_bits(found, local)
    np.testing.assert_array_equal(found.predict(held), local.labels_)
    np.testing.assert_array_equal(found.to_local().predict_weights(X), local.predict_weights(X))


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_dask_dataframe_gives_the_bits_of_the_same_blocks(client, table):
    import dask.dataframe as dd

    from unskew.dask import DaskDCKM

    class Tables(ArrayBlocks):
        def read(self, i, columns=None):
            part = self.X.iloc[i * self.rows : (i + 1) * self.rows]
            return part if columns is None else part[list(columns)]

    table = table.iloc[: 2 * STEP]
    local = fit(Tables(table, STEP), "both", ["site"], **FEW)
    frame = dd.from_pandas(table, npartitions=2)
    assert [len(part) for part in frame.partitions] == [STEP, STEP]
    found = fit(frame, "both", ["site"], kind=DaskDCKM, client=[client], **FEW)
    assert_same_bits(found, local)
    np.testing.assert_array_equal(found.predict(frame), local.labels_)
