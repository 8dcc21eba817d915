"""Fuzzing of each reader: a damaged file is a FileError or a table, never a crash or exhaustion."""

import gzip
import json
import os
import resource
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.io
import scipy.sparse as sp

from tests.trust.tally import FUZZ_SECONDS, count
from unskew._io import FileError, read_table

MEMORY = 4 * 2**30  # bytes of address space of the process that reads


def seeds(folder):
    """A valid file of each format."""
    frame = pl.DataFrame({"a": [1, 2, None], "b": ["x", "é", ""], "c": [1.5, -2.0, 1e300]})
    X = np.arange(12.0).reshape(4, 3)
    frame.write_csv(folder / "a.csv")
    frame.write_csv(folder / "a.tsv", separator="\t")
    frame.write_ndjson(folder / "a.jsonl")
    frame.write_parquet(folder / "a.parquet")
    frame.write_ipc(folder / "a.feather")
    np.save(folder / "a.npy", X)
    np.savez(folder / "b.npz", X=X)
    sp.save_npz(folder / "a.npz", sp.csr_array(X), compressed=False)
    scipy.io.savemat(folder / "a.mat", {"X": X})
    (folder / "a.svm").write_text("1 1:2.5 3:1\n0 2:1 # note\n1 qid:2 3:4\n")
    (folder / "a.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes()))
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.write(folder / "a.csv", "a.csv")
    try:
        import pyreadstat

        pyreadstat.write_dta(frame.to_pandas(), folder / "a.dta")
        pyreadstat.write_sav(frame.to_pandas(), folder / "a.sav")
        pyreadstat.write_xport(frame.to_pandas(), folder / "a.xpt")
    except ImportError:
        pass
    return sorted(file.name for file in folder.iterdir())


TOKENS = [b"9" * 12, b"-1", b"1e999", b"\x1b", b'"', b"\n"]


def mutate(content, rng):
    """Some bytes changed, inserted, removed or repeated; numbers replaced by extreme ones."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 6)):
        at, kind = int(rng.integers(0, max(1, len(content)))), rng.integers(6)
        if kind == 0 and content:
            content[at] ^= 1 << rng.integers(8)
        elif kind == 1:
            content[at:at] = bytes(rng.integers(0, 256, rng.integers(1, 9), dtype=np.uint8))
        elif kind == 2:
            del content[at : at + rng.integers(1, 20)]
        elif kind == 3:
            content[at : at + 8] = [b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7][rng.integers(3)]
        elif kind == 4:
            content[at:at] = content[at : at + rng.integers(1, 40)]
        else:
            content[at : at + 1] = TOKENS[rng.integers(len(TOKENS))]
    return bytes(content)


def fuzz(name, seconds, seed, folder):
    """Number of files tried; raises where one is not handled."""
    rng, begin, tried = np.random.default_rng(seed), time.monotonic(), 0
    whole = Path(folder, name).read_bytes()
    target = os.path.join(folder, f"fuzzed-{name}")
    while time.monotonic() - begin < seconds:
        with open(target, "wb") as file:
            file.write(mutate(whole, rng))
        tried += 1
        try:
            table = read_table(target)
        except (FileError, MemoryError):
            continue
        assert len(table) > 0
        assert table.names
    return tried


FORMATS = ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.feather", "a.npy", "a.npz", "b.npz",
           "a.mat", "a.svm", "a.csv.gz", "a.zip"]  # fmt: skip
SURVEY = ["a.dta", "a.sav", "a.xpt"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.npy", "a.npz", "a.svm", "a.zip"])
def test_damaged_files_are_refused_in_a_moment(tmp_path, name):
    seeds(tmp_path)
    count("files fuzzed", fuzz(name, min(FUZZ_SECONDS, 0.2), 0, tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize("name", FORMATS + SURVEY)
def test_readers_survive_fuzzing(tmp_path, name):
    """In a process of its own, with limited memory: a crash is found, and exhaustion."""
    if name not in seeds(tmp_path):
        pytest.skip("needs pyreadstat")
    script = (
        "import sys, json; sys.path.insert(0, '.')\n"
        "from tests.trust.test_hostile_files import fuzz\n"
        "print(fuzz(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))"
    )
    arguments = [name, str(FUZZ_SECONDS), "0", str(tmp_path)]
    found = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True,
        timeout=60 + 10 * FUZZ_SECONDS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
    )  # fmt: skip
    assert found.returncode == 0, (found.returncode, found.stderr[-2000:])
    count("files fuzzed", int(found.stdout.split()[-1]))
    count("seconds fuzzed", round(FUZZ_SECONDS))


def test_a_value_that_looks_like_a_formula_is_written_as_it_was_read(tmp_path, unskew, monkeypatch):
    """Outputs are data: identifiers are not changed, and the report escapes them for HTML."""
    monkeypatch.chdir(tmp_path)
    ids = ['=HYPERLINK("http://x")', "<script>alert(1)</script>", "+1", "@x"] * 6
    rng = np.random.RandomState(0)
    pl.DataFrame({"id": ids, "a<b>": rng.randn(24), "c": rng.randn(24)}).write_csv("t.csv")
    arguments = ["-k", "2", "--id", "id", "--labels", "o.jsonl", "--report", "r.html", "-q"]
    assert unskew("fit", "t.csv", *arguments)[0] == 0
    lines = (tmp_path / "o.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids
    page = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in page
    assert "a<b>" not in page


def test_sparse_files_with_fractional_positions_are_refused(tmp_path):
    """SciPy would drop the fractions, and so move values to other columns."""
    X = sp.random(20, 5, 0.4, format="csr", random_state=0)
    for name in ("indices", "indptr"):
        sp.save_npz(tmp_path / "a.npz", X)
        with np.load(tmp_path / "a.npz") as stored:
            parts = dict(stored)
        np.savez(tmp_path / "a.npz", **{**parts, name: parts[name] + 0.5})
        with pytest.raises(FileError, match=f"its array '{name}' has dtype float64"):
            read_table(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
def test_a_few_bytes_that_declare_many_values_are_refused(tmp_path, name):
    frame = pl.DataFrame({"a": np.zeros(40_000_000, np.int8)}).with_columns(b=pl.col("a"))
    path = tmp_path / name
    frame.write_parquet(path) if name == "a.parquet" else frame.write_ipc(path, compression="zstd")
    assert path.stat().st_size < 600_000
    with pytest.raises(FileError, match=r"40,000,000 rows of 2 columns.*increase max_bytes"):
        read_table(path)
    frame[:10].write_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet", max_bytes=20).data.shape == (10, 2)


def test_rows_of_json_with_different_keys_are_limited(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"k{i}": 1}}\n' for i in range(9000)))
    with pytest.raises(FileError, match=r"9,001 rows with .* different keys"):
        read_table(path)
    path.write_text('{"a": 1, "b": 2}\n' * 9000)
    assert read_table(path).data.shape == (9000, 2)


def test_line_separators_of_unicode_do_not_end_a_row_of_json(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "x\u2028y", "b": 1}\n{"a": 2, "b": "q"}\n', encoding="utf-8")
    assert read_table(path).data["a"].to_list() == ["x\u2028y", "2"]


def test_text_in_a_npy_file_that_is_no_unicode_is_refused(tmp_path):
    records = np.zeros(3, dtype=[("a", "<U2"), ("b", "<f8")])
    np.save(tmp_path / "a.npy", records)
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content[:-48] + b"\xff" * 48)
    with pytest.raises(FileError, match="code points that are no characters"):
        read_table(tmp_path / "a.npy")


def test_values_with_the_same_label_are_not_merged(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0]}).to_pandas()
    labels = {"a": {1: "yes", 2: "yes", 3: "no"}, "b": {1: "low", 2: "middle", 3: "high"}}
    pyreadstat.write_sav(frame, tmp_path / "a.sav", variable_value_labels=labels)
    found = read_table(tmp_path / "a.sav")
    assert found.data["a"].to_list() == [1, 2, 3]
    assert found.data["b"].to_list() == ["low", "middle", "high"]
    assert [(one.column, one.text) for one in found.findings] == [
        ("a", "several values with the same label")
    ]


@pytest.mark.parametrize(("row", "column"), [(2**20, "XFD"), (100_000, "ZZ"), (10**9, "A")])
def test_a_sheet_with_a_cell_far_away_is_refused(tmp_path, row, column):
    """It would be read into a dense array: the reader ends the process where it has no memory."""
    pytest.importorskip("fastexcel")
    path, cell = tmp_path / "a.xlsx", f'<row r="{row}"><c r="{column}{row}"><v>1</v></c></row>'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", f"<sheetData>{cell}</sheetData>")
    with pytest.raises(FileError, match=r"a\.xlsx: .*more cells than the limit"):
        read_table(path)
