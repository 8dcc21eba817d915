"""The command line on files that are read block by block, and fits that survive a kill."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rich_click")
pytest.importorskip("skops")
pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

from unskew import DCKM, ParquetReader, _kmeans  # noqa: E402
from unskew._data import sources  # noqa: E402
from unskew._data.sources import CachedBlocks  # noqa: E402
from unskew.simulate import make_site_footprint  # noqa: E402

HOW = [
    "-k",
    "3",
    "--method",
    "dckm",
    "--n-init",
    "1",
    "--max-iter",
    "8",
    "--tol",
    "0.05",
    "--quiet",
]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """x.npy, t.parquet and the folder parts with the same rows as the latter, and we are there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    data = make_site_footprint(600, n_clusters=3, n_core=15, n_footprint=9, random_state=0)
    np.save("x.npy", data.X.astype(np.uint8))
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "name": [f"p{i:03d}" for i in range(600)],
            "w": 1.0 + rng.integers(0, 2, 600),
            "site": np.array(["north", "south", "east"])[data.X[:, data.suspects].argmax(axis=1)],
            "age": [
                None if i % 40 == 0 else float(v) for i, v in enumerate(rng.normal(40, 9, 600))
            ],
            **{f"q{k}": data.X[:, k] for k in range(24)},
        }
    )
    table.write_parquet("t.parquet", row_group_size=100)
    Path("parts").mkdir()
    table[:250].write_parquet("parts/a.parquet", row_group_size=100)
    table[250:].write_parquet("parts/b.parquet", row_group_size=100)
    return tmp_path


@pytest.mark.parametrize("chosen", [[], ["--drop", "c3"], ["--weight-column", "c3"]])
def test_a_matrix_in_blocks_gives_what_it_gives_in_memory(home, unskew, chosen):
    suspects = ["-s", "c24", "-s", "c25", "-s", "c26"]
    for name, more in (("memory", []), ("blocks", ["--blocks"])):
        outputs = ["--labels", f"{name}.csv", "--weights", f"{name}-w.csv"]
        assert unskew("fit", "x.npy", *suspects, *HOW, *chosen, *outputs, *more)[0] == 0
    assert Path("memory.csv").read_bytes() == Path("blocks.csv").read_bytes()
    memory, blocks = (pl.read_csv(f"{name}-w.csv")["weight"] for name in ("memory", "blocks"))
    np.testing.assert_allclose(blocks, memory, atol=1e-5)


def test_a_mixture_of_a_folder_is_that_of_the_table(home, unskew):
    """The default method with a suspect, with a checkpoint, a model file and a report."""
    how = ["-k", "3", "-s", "site", "--id", "name", "-w", "w", "--quiet"]
    files = ["--checkpoint", "fit.npz", "--model", "m.skops", "--report", "r.html"]
    assert unskew("fit", "t.parquet", *how, "--labels", "memory.csv")[0] == 0
    code, *_ = unskew("fit", "parts", *how, "--labels", "blocks.csv", *files, "--cache", "kept")
    assert code == 0
    assert Path("memory.csv").read_bytes() == Path("blocks.csv").read_bytes()
    assert not Path("fit.npz").exists()
    assert Path("r.html").stat().st_size > 10_000
    assert unskew("predict", "m.skops", "parts", "--id", "name", "--labels", "again.csv")[0] == 0
    assert Path("again.csv").read_bytes() == Path("blocks.csv").read_bytes()


@pytest.mark.parametrize("cache", [[], ["--cache", "kept"]])
def test_a_folder_of_parquet_gives_what_the_table_gives_in_memory(home, unskew, cache):
    how = ["-s", "site", "--id", "name", "-w", "w", *HOW]
    assert unskew("fit", "t.parquet", *how, "--labels", "memory.csv")[0] == 0
    code = unskew("fit", "parts", *how, *cache, "--labels", "parts.csv", "--model", "m.skops")[0]
    assert code == 0
    assert Path("memory.csv").read_bytes() == Path("parts.csv").read_bytes()
    assert pl.read_csv("parts.csv")["name"][0] == "p000"
    assert not cache or list(Path("kept").iterdir()) == []  # made, and left empty
    code, out, _ = unskew("predict", "m.skops", "parts", "--id", "name", "--quiet")
    assert code == 0
    assert out == Path("memory.csv").read_text()


def test_fit_reads_blocks_and_names_what_costs_time(home, unskew, monkeypatch):
    how = ["fit", "parts", "-s", "site", "--drop", "name", *HOW[:-1]]
    assert "decoded anew" not in unskew(*how)[2]  # small blocks are held
    monkeypatch.setattr(sources, "CACHED_BYTES", 0)
    code, out, err = unskew(
        "fit", "t.parquet", "--blocks", "-s", "site", "--drop", "name", *HOW[:-1], "--json",
        "--report", "r.json",
    )  # fmt: skip
    assert code == 0
    assert "decoded anew in each pass; --cache FOLDER does it once" in err
    found = json.loads(out)
    assert found["data"]["rows"] == 600
    assert found["verdict"] == json.loads(Path("r.json").read_text())["verdict"]
    assert found["inputs"][0]["size"] == Path("t.parquet").stat().st_size


def test_every_verb_reads_blocks(home, unskew):
    options = ["-s", "site", "--drop", "name", "--json"]
    code, out, _ = unskew("audit", "parts", *options)
    assert code == 0
    assert json.loads(out)["audit"]["n_rows"] == 600
    code, out, _ = unskew("compare", "parts", *options, "-k", "3", "--n-init", "1")
    assert code == 0
    assert json.loads(out)["comparison"]["n_rows"] == 600
    code, out, _ = unskew("weigh", "parts", *options)
    assert code == 0
    assert len(json.loads(out)["result"]["weights"]) == 600


def test_the_record_of_a_folder_notices_a_changed_file(home, unskew):
    how = ["-s", "site", "--id", "name", *HOW[:-1]]
    assert unskew("fit", "parts", *how, "--labels", "a.csv")[0] == 0
    assert "is not the file of the recorded run" not in unskew("fit", "--config", "a.run.toml")[2]
    pl.read_parquet("parts/b.parquet")[:-1].write_parquet("parts/b.parquet")
    assert "is not the file of the recorded run" in unskew("fit", "--config", "a.run.toml")[2]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-", "--blocks"], "standard input: --blocks reads DATA several times"),
        (["data.csv", "--blocks"], "parquet (a file or a folder of files) or npy, not csv"),
        (["parts", "--format", "npy"], "not a folder as npy"),
        (["x.npy", "--blocks", "--cache", "."], "x.npy: --cache does not apply to npy"),
        (["x.npy", "--cache", "."], "--cache is for parquet that is read in blocks"),
        (["parts", "--cache", "x.npy"], "--cache 'x.npy' should be a folder that can be"),
        (["parts", "--cache", "a/b"], "--cache 'a/b' should be a folder that can be"),
        (["parts", "--missing", "-9"], "parts: --missing does not apply to parquet"),
        (["t.parquet", "--missing", "-9"], "t.parquet: --missing does not apply to parquet"),
        (["t.parquet", "--encoding", "latin-1"], "--encoding does not apply to parquet"),
        (["gone.npy", "--blocks"], "gone.npy: cannot be read: No such file"),
        (["parts", "--labels", "parts/l.parquet"], "would be written into the input, the folder"),
        (["parts", "-s", "sites"], "'sites' is not one of its 28 columns; nearest: 'site'"),
        (["x.npy", "--checkpoint", "x.npy"], "--checkpoint would overwrite the input x.npy"),
        (["x.npy", "--checkpoint", "-"], "a checkpoint is written to a file only"),
        (["x.npy", "--runs", "3", "--checkpoint", "c"], "should not be given with --runs"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_so_is_an_error_that_says_why(home, unskew, words, expected):
    Path("data.csv").write_text("a,b\n1,2\n")
    before = sorted(home.rglob("*"))
    code, out, err = unskew("fit", *words, "-k", "3")
    assert code == 2
    assert out == ""
    assert expected in err
    assert sorted(home.rglob("*")) == before


def test_a_model_of_a_matrix_is_not_for_a_table_in_blocks(home, unskew):
    assert unskew("fit", "x.npy", *HOW, "--model", "m.skops")[0] == 0
    code, _, err = unskew("predict", "m.skops", "parts")
    assert code == 2
    assert "has 28 columns to predict from, but the model was fitted to a matrix of 27" in err
    code, _, err = unskew("predict", "m.skops", "parts", "--drop", "name")
    assert code == 2
    assert "is a table, but the model was fitted to a matrix without names" in err


def test_columns_of_a_matrix_have_the_names_that_options_use(home, unskew):
    how = ["fit", "x.npy", "--drop", "c0", "-s", "c26", *HOW[:-1]]
    code, out, _ = unskew(*how, "--json", "--report", "r.json")
    assert code == 0
    found = json.loads(out)
    marks = {f["feature"] for c in found["result"]["clusters"] for f in c["features"]}
    assert marks <= {f"c{k}" for k in range(1, 27)}
    # c26 is the last of the 26 columns that are left: "column 25" would mislead.
    assert json.loads(Path("r.json").read_text())["settings"]["suspects"] == ["c26"]


# ------------------------------------------------------------------------------------ checkpoint
def test_a_killed_fit_goes_on_and_ends_the_same(home, unskew, monkeypatch):
    how = ["fit", "x.npy", "--blocks", *HOW, "--n-init", "3"]
    assert unskew(*how, "--labels", "whole.csv", "--weights", "whole-w.csv")[0] == 0
    monkeypatch.setitem(DCKM.__init__.__kwdefaults__, "checkpoint_seconds", 0.0)
    sweeps, lloyd = [], _kmeans.lloyd

    def until_the_fourth(*given, **more):
        sweeps.append(1)
        if len(sweeps) == 4:
            raise KeyboardInterrupt
        return lloyd(*given, **more)

    monkeypatch.setattr(_kmeans, "lloyd", until_the_fourth)
    code = unskew(*how, "--checkpoint", "c.npz", "--labels", "l.csv", "--weights", "w.csv")[0]
    assert code != 0
    assert Path("c.npz").exists()
    assert not Path("l.csv").exists()
    monkeypatch.setattr(_kmeans, "lloyd", lloyd)
    code = unskew(*how, "--checkpoint", "c.npz", "--labels", "l.csv", "--weights", "w.csv")[0]
    assert code == 0
    assert not Path("c.npz").exists()
    assert Path("l.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert Path("w.csv").read_bytes() == Path("whole-w.csv").read_bytes()


def test_a_checkpoint_of_other_settings_is_refused(home, unskew):
    Path("c.npz").write_bytes(b"no checkpoint")
    code, _, err = unskew("fit", "x.npy", *HOW, "--checkpoint", "c.npz")
    assert code == 2
    assert "c.npz: is not a checkpoint of unskew" in err
    assert Path("c.npz").read_bytes() == b"no checkpoint"


# ----------------------------------------------------------------------------------- kept blocks
def test_blocks_are_made_once_and_their_folder_goes_with_them(tmp_path):
    made = []

    def make(number):
        made.append(number)
        return np.full((3, 2), number, dtype=np.float32)

    kept = CachedBlocks(make, tmp_path)
    for _ in range(3):
        for number in (0, 1):
            block = kept(number)
            assert block.dtype == np.float32
            np.testing.assert_array_equal(block, np.full((3, 2), number))
    assert made == [0, 1]
    (folder,) = tmp_path.iterdir()
    (folder / "1.npy").write_bytes(b"")
    with pytest.raises(ValueError, match=r"1\.npy: a cached block is missing or damaged"):
        kept(1)
    del kept
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_a_process_that_ends_takes_its_folder_along(tmp_path):
    code = (
        "import numpy as np, sys; from unskew._data.sources import CachedBlocks\n"
        f"k = CachedBlocks(lambda i: np.zeros((2, 2)), {str(tmp_path)!r}); k(0)\n"
        "sys.exit('on the way out')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert b"on the way out" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_cache_changes_no_bit_of_a_fit(home):
    Path("kept").mkdir()
    columns = ["site", "age", *(f"q{k}" for k in range(24))]
    plain, cached = (
        DCKM(3, suspects=["site"], n_init=1, max_iter=3, tol=0.1, random_state=0).fit(
            ParquetReader("parts", columns, cache=cache)
        )
        for cache in (None, "kept")
    )
    np.testing.assert_array_equal(plain.weights_, cached.weights_)
    np.testing.assert_array_equal(plain.labels_, cached.labels_)
    with pytest.raises(ValueError, match=r"cache='x\.npy' should be a folder"):
        ParquetReader("parts", cache="x.npy")
