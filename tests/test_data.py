"""Rows that are not in memory: the bits of those that are, little memory, errors with names."""

import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from unskew import DCKM, DecorrelationWeights, ParquetReader, TableEncoder
from unskew._data import sources
from unskew._data.sources import Blocks, NpyFile
from unskew._data.tables import open_source
from unskew._data.tiled import TiledMatrix, tile_rows, tile_rows_of_blocks
from unskew._io import FileError
from unskew._parallel import Executor
from unskew.simulate import make_site_footprint

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FITTED = ("weights_", "combined_weights_", "labels_", "cluster_centers_", "objective_", "inertia_")


class ArrayBlocks:
    """A reader over an array: blocks of so many rows. Counts its reads."""

    def __init__(self, X, rows, columns=None):
        self.X, self.rows, self.reads = X, rows, []
        self.n_blocks = -(-len(X) // rows)
        if columns is not None:
            self.columns = columns

    def read(self, i):
        self.reads.append(i)
        return self.X[i * self.rows : (i + 1) * self.rows]


def binary(n=3000, d=20, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    return (rng.random((n, d)) < 0.2 + 0.5 * (group[:, None] == np.arange(d) % 3)).astype(np.uint8)


def numbers(n=3000, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) + 3 * rng.integers(0, 3, n)[:, None]
    X[:, 4] += 1000  # far from 0: shifted
    return X.astype(dtype)


def assert_same_bits(one, other):
    for name in FITTED:
        if hasattr(one, name):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


# --- the same bits


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    "X",
    [
        binary(30_000, 12),
        binary(4000, 30).astype(bool),
        numbers(),
        numbers(dtype=np.float32),
        (10 * numbers()[:, :4]).astype(np.int8),
        (10 * numbers()).astype(np.int64),
    ],
    ids=["uint8", "bool", "float64", "float32", "int8", "int64"],
)
def test_a_file_gives_the_bits_of_the_array_in_it(X, n_threads, tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    model = DCKM(3, n_init=2, max_iter=3, random_state=0, n_threads=n_threads)
    in_memory = model.fit(X)
    expected = {name: getattr(in_memory, name) for name in FITTED}
    labels, to_centres = in_memory.predict(X), in_memory.transform(X)
    weights, score = in_memory.predict_weights(X), in_memory.score(X)
    for given in (path, str(path), np.load(path, mmap_mode="r")):
        found = DCKM(3, n_init=2, max_iter=3, random_state=0, n_threads=n_threads).fit(given)
        for name in FITTED:
            np.testing.assert_array_equal(getattr(found, name), expected[name], err_msg=name)
        np.testing.assert_array_equal(found.predict(given), labels)
        np.testing.assert_array_equal(found.transform(given), to_centres)
        np.testing.assert_array_equal(found.predict_weights(given), weights)
        assert found.score(given) == score
        np.testing.assert_array_equal(found.predict(X), labels)  # and rows in memory afterwards


def test_the_order_of_bytes_changes_no_bit(tmp_path):
    X = numbers(dtype=np.float32)
    np.save(tmp_path / "X.npy", X.astype(">f4"))
    model = DCKM(3, n_init=1, max_iter=3, random_state=0)
    fits = [clone(model).fit(each) for each in (X, X.astype(">f4"), tmp_path / "X.npy")]
    for other in fits[1:]:
        assert_same_bits(other, fits[0])
    np.testing.assert_array_equal(fits[0].predict(X.astype(">f4")), fits[0].labels_)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_of_suspects_with_numeric_columns(dtype, tmp_path):
    rng = np.random.default_rng(1)
    kind = rng.integers(3, size=3001)
    site = np.where(rng.random(3001) < 0.7, kind, rng.integers(3, size=3001))
    values = rng.normal(size=(3001, 3)) + kind[:, None]
    X = np.column_stack([np.eye(3)[site], values, rng.random(3001) < 0.4]).astype(dtype)
    np.save(tmp_path / "X.npy", X)
    model = DCKM(3, suspects=[0, 1, 2], n_init=1, max_iter=2, random_state=0)
    in_memory = clone(model).fit(X)
    assert_same_bits(clone(model).fit(tmp_path / "X.npy"), in_memory)
    assert_same_bits(clone(model).fit(ArrayBlocks(X, 10**6)), in_memory)


def test_weights_of_a_file_with_suspects_and_design_weights(tmp_path):
    data = make_site_footprint(2000, random_state=0)
    a = np.random.default_rng(0).integers(0, 3, 2000)
    np.save(tmp_path / "X.npy", data.X)
    for model in (
        DecorrelationWeights(suspects=data.suspects, max_iter=10, tol=1e-3),
        DCKM(4, suspects=data.suspects, n_init=1, init="k-means++", max_iter=2, random_state=0),
        DCKM(4, suspects=data.suspects, n_init=1, init="principal", max_iter=2, adjust="effects"),
        DCKM(4, objective="paper", solver="paper", n_init=1, max_iter=5, random_state=0),
    ):
        design = None if model.solver == "paper" else a
        one = model.fit(data.X, sample_weight=design)
        kept = {name: getattr(one, name) for name in FITTED if hasattr(one, name)}
        other = model.fit(tmp_path / "X.npy", sample_weight=design)
        for name, value in kept.items():
            np.testing.assert_array_equal(getattr(other, name), value, err_msg=name)


def test_blocks_of_whole_tiles_give_the_bits_of_the_array():
    X = binary(30_000, 40)
    step = tile_rows(X.shape, sparse=False)
    model = DCKM(3, n_init=1, max_iter=2, random_state=0)
    in_memory = DCKM(3, n_init=1, max_iter=2, random_state=0).fit(X)
    for rows in (step, 3 * step):
        reader = ArrayBlocks(X, rows)
        assert_same_bits(model.fit(reader), in_memory)
        np.testing.assert_array_equal(model.predict(reader), in_memory.predict(X))


@pytest.mark.parametrize("rows", [1, 7, 500, 10**6])
def test_any_blocks_give_the_same_answer_up_to_rounding(rows):
    X = binary(700, 12)
    in_memory = DecorrelationWeights(max_iter=5, tol=1e-2).fit(X)
    found = DecorrelationWeights(max_iter=5, tol=1e-2).fit(ArrayBlocks(X, rows))
    np.testing.assert_allclose(found.weights_, in_memory.weights_, atol=1e-3)


def test_a_slice_of_a_memmap_and_a_changed_one(tmp_path):
    X = numbers(2000)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    how = {"max_iter": 5, "tol": 1e-2}
    for part in (slice(500, 1500), slice(None, None, 2)):
        one = DecorrelationWeights(**how).fit(X[part])
        other = DecorrelationWeights(**how).fit(mapped[part])
        np.testing.assert_array_equal(one.weights_, other.weights_)
    private = np.load(tmp_path / "X.npy", mmap_mode="c")
    private[:, 0] = 0
    changed = X.copy()
    changed[:, 0] = 0
    one, other = (DecorrelationWeights(**how).fit(part) for part in (changed, private))
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert isinstance(open_source(mapped[500:]), NpyFile)
    assert open_source(mapped[::2]) is None
    np.testing.assert_array_equal(open_source(mapped[500:]).read(3, 9), X[503:509])


def test_columns_of_small_integers_have_the_cuts_of_the_array():
    X = np.random.default_rng(0).integers(-100, 100, (5000, 6)).astype(np.int8)
    X[:, 2] = 100 + X[:, 2] // 80  # far from 0
    a = np.random.default_rng(1).integers(0, 3, 5000)
    one = DecorrelationWeights(max_iter=2, tol=1.0).fit(X, sample_weight=a)
    step = tile_rows(X.shape, sparse=False)
    other = DecorrelationWeights(max_iter=2, tol=1.0).fit(ArrayBlocks(X, step), sample_weight=a)
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert other.initial_imbalance_ == one.initial_imbalance_ > 0


def test_tiles_do_not_cross_blocks_and_blocks_are_read_once_in_a_pass():
    X = numbers(10_000)
    reader = ArrayBlocks(X, 4000)
    source = Blocks(reader.read, [4000, 4000, 2000], 5, X.dtype, "reader")
    rows = TiledMatrix(source, executor=Executor(2))
    assert rows.bounds == [(0, 4000), (4000, 8000), (8000, 10_000)]
    with rows.executor:
        total = sum(part for part in rows.map(lambda tile: tile.sum(0)))
    np.testing.assert_allclose(total, X.sum(0))
    assert sorted(reader.reads) == [0, 1, 2]
    np.testing.assert_array_equal(rows.take(np.array([9999, 3, 4000])), X[[9999, 3, 4000]])
    np.testing.assert_array_equal(rows.columns(np.array([4, 1])), X[:, [4, 1]])
    few = rows.subsample(4000)
    assert few.source_bounds == [(0, 4000)]
    assert few.n == 4000


def test_wide_tiles_of_blocks_are_large_compared_with_their_sums():
    assert tile_rows_of_blocks(100) == tile_rows((0, 100), sparse=False)
    assert tile_rows_of_blocks(1000) == 16_000
    assert tile_rows_of_blocks(10_000) * 10_000 <= 2**24


# --- tables


def table(n=900, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 10, n).round(1)
    age[rng.random(n) < 0.1] = np.nan
    site = rng.choice(["A", "B", "C"], n).tolist()
    return pl.DataFrame(
        {
            "age": pl.Series(age, nan_to_null=True),
            "site": [None if lost else name for lost, name in zip(rng.random(n) < 0.05, site)],
            "smokes": rng.random(n) < 0.3,
            "visits": rng.integers(0, 4, n),
            "grade": pl.Series(
                rng.choice(["low", "high"], n), dtype=pl.Enum(["low", "mid", "high"])
            ),
            "code": rng.integers(1, 12, n),
            "when": pl.Series(rng.integers(0, 1000, n)).cast(pl.Int32).cast(pl.Date),
        }
    )


KINDS = {"code": "category"}


@pytest.mark.parametrize("given", ["row groups", "rows", "folder", "pandas blocks"])
def test_a_table_read_in_blocks_has_the_encoder_and_labels_of_the_table(given, tmp_path):
    whole = table()
    a = np.random.default_rng(3).integers(0, 3, 900)
    if given == "pandas blocks":

        class Reader:
            n_blocks = 3

            def read(self, i):
                return whole[300 * i : 300 * (i + 1)].to_pandas().astype({"grade": CATEGORY})

        CATEGORY = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
        reader = Reader()
    elif given == "folder":
        for i in range(3):
            whole[300 * i : 300 * (i + 1)].write_parquet(tmp_path / f"part{i}.parquet")
        reader = ParquetReader(tmp_path)
        assert reader.n_blocks == 3
    else:
        whole.write_parquet(tmp_path / "t.parquet", row_group_size=200)
        rows = None if given == "row groups" else 350
        reader = ParquetReader(tmp_path / "t.parquet", block_rows=rows)
        assert reader.shape == (900, 7)
        assert reader.sizes == ([200, 200, 200, 200, 100] if rows is None else [350, 350, 200])
    how = {"suspects": ["site"], "n_init": 1, "max_iter": 3, "random_state": 0}
    encoder = TableEncoder(kinds=KINDS)
    if given != "pandas blocks":
        # The same table as pyarrow reads it, which does not know the order of polars' levels.
        whole = pa.concat_tables([reader.read(i) for i in range(reader.n_blocks)])
    one = DCKM(3, encoder=encoder, **how).fit(whole, sample_weight=a)
    other = DCKM(3, encoder=encoder, **how).fit(reader, sample_weight=a)
    assert other.encoder_.recipes_ == one.encoder_.recipes_
    assert list(other.feature_names_in_) == list(one.feature_names_in_)
    np.testing.assert_array_equal(other.labels_, one.labels_)
    # Other tiles than in memory, float32: rounding grows in the steps.
    np.testing.assert_allclose(other.weights_, one.weights_, atol=0.02)
    np.testing.assert_array_equal(one.predict(reader), one.predict(whole))
    np.testing.assert_array_equal(one.transform(reader), one.transform(whole))
    np.testing.assert_allclose(one.predict_weights(reader), one.predict_weights(whole), atol=1e-5)


def test_a_table_in_one_block_gives_the_bits_of_the_table(tmp_path):
    table()[["age", "visits", "site"]].write_parquet(tmp_path / "t.parquet")
    reader = ParquetReader(tmp_path / "t.parquet")
    one, other = (
        DCKM(3, suspects="site", n_init=1, max_iter=3, random_state=0).fit(X)
        for X in (reader.read(0), reader)
    )
    assert_same_bits(one, other)


def test_the_path_of_a_parquet_file_is_read_too(tmp_path):
    whole = table()
    whole.write_parquet(tmp_path / "t.parquet")
    one, other = (DecorrelationWeights(max_iter=3, tol=1e-2).fit(X) for X in (
        whole.drop("code"), ParquetReader(tmp_path / "t.parquet", [*set(whole.columns) - {"code"}])
    ))  # fmt: skip
    assert one.encoder_.ignored_ == other.encoder_.ignored_
    assert open_source(tmp_path / "t.parquet").columns == whole.columns


def test_unknown_values_of_all_blocks_are_counted_in_one_warning(tmp_path):
    whole = table()[["age", "site", "visits"]].drop_nulls()
    model = DCKM(2, n_init=1, max_iter=2, random_state=0).fit(whole)
    new = whole[:100].with_columns(site=pl.lit("Z"))
    new.write_parquet(tmp_path / "new.parquet", row_group_size=30)
    with pytest.warns(UserWarning, match="'site' in 100 rows") as caught:
        labels = model.predict(ParquetReader(tmp_path / "new.parquet"))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="'site' in 100 rows"):
        np.testing.assert_array_equal(labels, model.predict(new))


def test_a_block_without_any_known_value_agrees_with_every_kind():
    frames = [
        pd.DataFrame({"x": [1.0, 2, 3], "site": ["A", "B", "A"]}),
        pd.DataFrame({"x": [5.0, 2, 3], "site": [None, None, None]}),
        pd.DataFrame({"x": [None, None, None], "site": ["A", "B", "B"]}),
    ]

    class Reader:
        n_blocks = 3

        def read(self, i):
            return frames[i]

    found = DecorrelationWeights(max_iter=2, tol=1.0).fit(Reader())
    whole = pl.DataFrame(
        {"x": [1.0, 2, 3, 5, 2, 3, None, None, None], "site": [*"ABA", *[None] * 3, *"ABB"]}
    )
    assert found.encoder_.recipes_ == TableEncoder().fit(whole).recipes_


# --- refusals


def test_errors_name_file_block_and_rule(tmp_path):
    X = numbers(100)
    fit = DecorrelationWeights(max_iter=1).fit
    np.save(tmp_path / "cut.npy", X)
    content = (tmp_path / "cut.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:-100])
    with pytest.raises(FileError, match=r"cut\.npy: the file has .* bytes but .* truncated"):
        fit(tmp_path / "cut.npy")
    np.save(tmp_path / "columns.npy", np.asfortranarray(X))
    with pytest.raises(FileError, match="column by column"):
        fit(tmp_path / "columns.npy")
    np.save(tmp_path / "flat.npy", X[:, 0])
    with pytest.raises(FileError, match=r"flat\.npy: the array has shape \(100,\)"):
        fit(tmp_path / "flat.npy")
    np.save(tmp_path / "words.npy", np.full((3, 3), "a"))
    with pytest.raises(ValueError, match=r"words\.npy holds <U1; it should hold numbers"):
        fit(tmp_path / "words.npy")
    (tmp_path / "other.npy").write_text("no array")
    with pytest.raises(FileError, match=r"other\.npy: is not a \.npy file"):
        fit(tmp_path / "other.npy")
    with pytest.raises(FileError, match=r"absent\.npy: cannot be read: No such file"):
        fit(tmp_path / "absent.npy")
    with pytest.raises(FileError, match=r"t\.csv: X as a path should be a \.npy or \.parquet"):
        fit(tmp_path / "t.csv")
    np.save(tmp_path / "none.npy", X[:0])
    with pytest.raises(ValueError, match=r"none\.npy has 0 rows"):
        fit(tmp_path / "none.npy")


def test_nan_in_a_file_is_named_by_row_in_fit_and_predict(tmp_path):
    X = numbers(20_000)
    np.save(tmp_path / "good.npy", X)
    X[15_000, 3] = np.nan
    np.save(tmp_path / "bad.npy", X)
    with pytest.raises(ValueError, match=r"bad\.npy: index 15000, column 3 is NaN"):
        DecorrelationWeights().fit(tmp_path / "bad.npy")
    with pytest.raises(ValueError, match=r"ArrayBlocks, block 3: index 3000, column 3 is NaN"):
        DecorrelationWeights().fit(ArrayBlocks(X, 4000))
    model = DCKM(2, n_init=1, max_iter=1).fit(tmp_path / "good.npy")
    with pytest.raises(ValueError, match=r"bad\.npy: index 15000, column 3 is NaN"):
        model.predict(tmp_path / "bad.npy")
    np.save(tmp_path / "narrow.npy", X[:, :4])
    with pytest.raises(ValueError, match=r"narrow\.npy has 4 features, but DCKM is expecting 5"):
        model.predict(tmp_path / "narrow.npy")


def test_blocks_that_disagree_are_refused():
    class Reader:
        n_blocks = 2

        def __init__(self, *blocks):
            self.blocks = blocks

        def read(self, i):
            return self.blocks[i]

    fit = DecorrelationWeights(max_iter=1).fit
    X = numbers(100)
    with pytest.raises(ValueError, match="Reader, block 1: has 4 columns but block 0 has 5"):
        fit(Reader(X, X[:, :4]))
    with pytest.raises(ValueError, match=r"Reader, block 1: has shape \(100,\)"):
        fit(Reader(X, X[:, 0]))
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1.5, 2, 3]})
    with pytest.raises(ValueError, match="Reader, block 1: has the columns 'a', 'c' but block 0"):
        fit(Reader(frame, frame.rename(columns={"b": "c"})))
    with pytest.raises(ValueError, match="Reader, block 1: column 'a' holds a text but a number"):
        fit(Reader(frame, frame.assign(a=["x", "y", "z"])))
    empty = Reader(X)
    empty.n_blocks = 0
    with pytest.raises(ValueError, match="n_blocks=0 should be an integer >= 1"):
        fit(empty)
    with pytest.raises(ValueError, match="names 2 columns but its blocks have 5"):
        fit(ArrayBlocks(X, 50, columns=["a", "b"]))
    named = DecorrelationWeights(max_iter=1, tol=1.0, suspects="b").fit(
        ArrayBlocks(X, 50, columns=list("abcde"))
    )
    assert list(named.suspects_) == [1]


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path):
    np.save(tmp_path / "X.npy", numbers(100))
    source = NpyFile.open(tmp_path / "X.npy")
    np.save(tmp_path / "X.npy", numbers(99))
    with pytest.raises(FileError, match="should not change while it is read"):
        source.read(0, 10)


def test_parquet_errors_name_the_file(tmp_path):
    table().write_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="has no column 'weight'"):
        ParquetReader(tmp_path / "a.parquet", ["weight"])
    table()[["age"]].write_parquet(tmp_path / "b.parquet")
    with pytest.raises(FileError, match=r"b\.parquet: has the columns \['age'\] but .*a\.parquet"):
        ParquetReader(tmp_path)
    (tmp_path / "b.parquet").write_text("no parquet")
    with pytest.raises(FileError, match=r"b\.parquet: cannot be read as Parquet"):
        ParquetReader(tmp_path / "b.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match=r"the folder has no \.parquet file"):
        ParquetReader(tmp_path / "empty")
    for rows in (0, 2.5, True, "5"):
        with pytest.raises(ValueError, match=r"block_rows=.* should be an integer >= 1"):
            ParquetReader(tmp_path / "a.parquet", block_rows=rows)
    with pytest.raises(TypeError, match=r"columns='age' should be a list of names: \['age'\]"):
        ParquetReader(tmp_path / "a.parquet", "age")
    table()[:0].write_parquet(tmp_path / "none.parquet")
    with pytest.raises(FileError, match=r"none\.parquet: has 0 rows and \d columns"):
        ParquetReader(tmp_path / "none.parquet")


def test_a_parquet_file_that_changed_is_an_error(tmp_path):
    table().write_parquet(tmp_path / "a.parquet")
    reader = ParquetReader(tmp_path / "a.parquet")
    table()[:100].write_parquet(tmp_path / "a.parquet")
    with pytest.raises(FileError, match=r"has 100 rows instead of .* was changed since"):
        reader.read(0)


def test_files_of_a_folder_may_differ_in_the_width_of_their_numbers(tmp_path):
    pl.DataFrame({"x": [1, 2, 3]}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"x": [0.5, 2.5]}).write_parquet(tmp_path / "b.parquet")
    read = ParquetReader(tmp_path, block_rows=5).read(0)
    assert read["x"].to_pylist() == [1.0, 2.0, 3.0, 0.5, 2.5]
    pl.DataFrame({"x": ["word"]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(FileError, match="block 0: its files have different types of values"):
        ParquetReader(tmp_path, block_rows=5).read(0)


# --- readers that are not careful


class OneHandle:
    """Seeks and reads with one handle, into one piece of memory: nothing for two threads."""

    def __init__(self, path, X, rows):
        X.tofile(path)
        self.file = open(path, "rb", buffering=0)  # noqa: SIM115
        self.rows, self.d, self.n_blocks = rows, X.shape[1], len(X) // rows
        self.sizes, self.memory = [rows] * self.n_blocks, np.empty((rows, X.shape[1]), X.dtype)

    def read(self, number):
        self.file.seek(number * self.memory.nbytes)
        for row in self.memory:  # in many calls: there is time to be disturbed
            self.file.readinto(row)
        return self.memory


def test_a_reader_is_asked_by_one_thread_at_a_time_and_may_use_its_memory_again(tmp_path):
    X = numbers(4000, dtype=np.float32)
    fits = []
    for n_threads in (1, 4):
        reader = OneHandle(tmp_path / "x.bin", X, 250)
        how = {"n_init": 1, "max_iter": 3, "random_state": 0, "n_threads": n_threads}
        fits.append(DCKM(3, **how).fit(reader))
        reader.file.close()
    assert_same_bits(*fits)
    assert_same_bits(DCKM(3, **how).fit(ArrayBlocks(X, 250)), fits[0])


def test_a_block_that_does_not_fit_the_type_of_the_first_is_an_error():
    X = numbers(600)
    reader = ArrayBlocks(X, 200)
    reader.sizes = [200] * 3
    read = reader.read
    reader.read = lambda i: (read(i) > 0).astype(np.uint8) if i == 0 else read(i)
    with pytest.raises(
        ValueError, match="block 1: holds float64, which cannot be cast safely to uint8"
    ):
        DCKM(3, n_init=1, random_state=0).fit(reader)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([200, 200], "sizes has 2 numbers but n_blocks=3"),
        ([200, 200, 200, 0], "sizes has 4 numbers but n_blocks=3"),
        ([200, "a", 200], r"sizes\[1\]='a' should be an integer >= 0"),
        ([200, -1, 200], r"sizes\[1\]=-1 should be an integer >= 0"),
    ],
)
def test_sizes_that_a_reader_tells_are_checked(sizes, words):
    reader = ArrayBlocks(numbers(600), 200)
    reader.sizes = sizes
    with pytest.raises(ValueError, match=words):
        DCKM(3).fit(reader)


def test_small_blocks_are_cached_and_large_ones_read_again(monkeypatch):
    calls = []

    def load(number):
        calls.append(number)
        return np.zeros((10, 4), dtype=np.float32)

    for most, expected in ((2**20, 6), (0, 18)):
        monkeypatch.setattr(sources, "CACHED_BYTES", most)
        blocks = Blocks(load, [10] * 6, 4, np.float32, "six")
        calls.clear()
        for _ in range(3):
            for number in range(6):
                blocks.block(number)
        assert len(calls) == expected


# --- memory


@pytest.mark.soak
@pytest.mark.parametrize("n", [120_000, 1_000_000])
def test_memory_stays_far_below_the_file(n, tmp_path):
    """200 n bytes of uint8: in memory 800 n bytes would be the float32 of it."""
    script = textwrap.dedent(
        """
        import resource, sys, warnings
        import numpy as np
        from unskew import DCKM

        warnings.simplefilter("ignore")
        path, n, d = sys.argv[1], int(sys.argv[2]), 200
        out = np.lib.format.open_memmap(path, "w+", np.uint8, (n, d))
        del out
        rng = np.random.default_rng(0)
        with open(path, "r+b") as file:
            file.seek(0, 2)
            file.seek(file.tell() - n * d)
            for start in range(0, n, 5_000):
                group = rng.integers(0, 2, 5_000)[:, None]
                rate = np.where(group == np.arange(d) % 2, 60, 180)
                file.write((rng.integers(0, 256, (5_000, d), dtype=np.uint8) < rate).tobytes())
        small = np.load(path, mmap_mode="r")[:5000]
        how = {"n_init": 1, "max_iter": 1, "init": "random", "random_state": 0, "n_threads": 2}
        DCKM(2, suspects=[0], tol=0.1, **how).fit(small)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        model = DCKM(2, suspects=[0], tol=0.1, **how).fit(path)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        assert np.bincount(model.labels_).min() > 0.4 * n
        print(before, after)
        """
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "X.npy"), str(n)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    before, after = map(float, found.stdout.split())
    # About 20 vectors of n float64 live in a fit, the indicators of the suspect beside them: 350
    # bytes a row, in MB.
    assert after - before < 350 * n / 10**6
