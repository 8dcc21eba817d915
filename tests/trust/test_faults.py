"""Faults of files, disks, streams and signals: an error in one line, nothing lost or left over."""

import errno
import io
import os
import resource
import signal
import struct
import subprocess
import sys
import time
import zlib

import joblib
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse as sp
from joblib.externals.loky.process_executor import TerminatedWorkerError

from tests.trust.tally import count
from unskew import (
    DCKM,
    ConsensusDCKM,
    DecorrelationWeights,
    SelectionMixture,
    SuspectCorrector,
    save,
)
from unskew._io import FileError, read_table, write_atomic
from unskew._io import _read as reading
from unskew._records import Records, visible
from unskew._solver import Checkpoint, Snapshot

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(0)
    names = [f"a{ESCAPE}", "b", "c"]
    frame = pl.DataFrame(rng.randn(40, 3), schema=names)
    frame = frame.with_columns(pl.Series(f"d{ESCAPE}", rng.choice([f"x{ESCAPE}", "y", "z"], 40)))
    frame.write_csv("data.csv")
    frame.select("b", "c").write_csv("plain.csv")
    return frame


# ------------------------------------------------------------------------------------- terminal
@pytest.mark.parametrize(
    "arguments",
    [
        ["columns", "data.csv"],
        ["audit", "data.csv"],
        ["fit", "data.csv", "-k", "2"],
        ["fit", "data.csv", "-k", "2", "--suspect", f"d{ESCAPE}"],
        ["fit", "data.csv", "-k", "2", "--drop", ESCAPE],
        ["fit", f"{ESCAPE}.csv", "-k", "2"],
        ["fit", "data.csv", f"--{ESCAPE}"],
        ["compare", "data.csv", "-k", "2", "--suspect", f"a{ESCAPE}", "--n-init", "1"],
    ],
)
def test_names_and_values_cannot_command_the_terminal(table, unskew, arguments):
    _, out, err = unskew(*arguments)
    assert not set("\x1b\x07\x9b\u202e") & set(out + err)


def test_visible_text_is_unchanged():
    text = "Größe = 3,5 µm — 東京\nnext line"
    assert visible(text) == text
    assert visible("\x1b[31m\x9b\u202e\x7f\r") == "\\x1b[31m\\x9b\\u202e\\x7f\\r"
    assert "\x1b" not in repr(Records([{"name": ESCAPE, "note": ESCAPE}]))


# -------------------------------------------------------------------------------------- streams
def run(arguments, **how):
    code = "import sys; from unskew.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, timeout=120, **how
    )


@pytest.mark.parametrize(
    ("closed", "arguments", "code", "words"),
    [
        (0, ["fit", "-", "-k", "2"], 2, b"standard input: is closed"),
        (1, ["fit", "plain.csv", "-k", "2", "--labels", "-", "-q"], 2, b"standard output: is clo"),
        pytest.param(1, ["--version"], 0, b"", marks=pytest.mark.soak),
        pytest.param(2, ["fit", "nowhere.csv"], 2, b"", marks=pytest.mark.soak),
    ],
)
def test_closed_streams_are_errors_not_faults(table, closed, arguments, code, words):
    found = run(arguments, preexec_fn=lambda: os.close(closed))
    assert found.returncode == code
    assert b"Traceback" not in found.stderr
    assert words in found.stderr


@pytest.mark.soak
def test_a_full_device_is_one_line(table):
    with open("/dev/full", "wb") as full:
        code = "import sys; from unskew.cli import main; sys.exit(main())"
        found = subprocess.run(
            [sys.executable, "-c", code, "--help"], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert found.returncode == 2
    assert found.stderr.splitlines() == [b"unskew: standard output: no space left on the disk"]


@pytest.mark.parametrize(
    "after", [0.2, *(pytest.param(0.1 * i, marks=pytest.mark.soak) for i in range(10))]
)
def test_ctrl_c_during_imports_is_one_line(table, after):
    code = "import sys; from unskew.cli import main; print('go', flush=True); sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "fit", "plain.csv", "-k", "2", "--n-init", "100000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.readline()
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert err.splitlines()[-1].endswith(b"stopped by Ctrl-C")
    assert b"Traceback" not in err


# ---------------------------------------------------------------------------------------- files
def test_temporary_files_of_killed_processes_are_removed(tmp_path):
    script = (
        "import os, sys; from unskew._io import write_atomic\n"
        "write_atomic(sys.argv[1], lambda path: os.kill(os.getpid(), 9))"
    )
    target = tmp_path / "labels.csv"
    target.write_text("old")
    subprocess.run([sys.executable, "-c", script, str(target)], timeout=60, check=False)
    left = [file.name for file in tmp_path.iterdir()]
    assert len(left) == 2  # the kill left a hidden file
    write_atomic(tmp_path / "other.csv", "x")
    assert len(list(tmp_path.iterdir())) == 3
    write_atomic(target, "new")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["labels.csv", "other.csv"]


def test_temporary_files_of_running_processes_stay(tmp_path):
    other = []

    def write(path):
        other.append(path)
        write_atomic(tmp_path / "a.csv", "inner")
        assert path.exists()
        path.write_text("outer")

    write_atomic(tmp_path / "a.csv", write)
    assert (tmp_path / "a.csv").read_text() == "outer"
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_full_disk_at_a_checkpoint_does_not_end_the_fit(tmp_path, monkeypatch):
    X = np.random.RandomState(0).randn(60, 4)
    how = {"n_clusters": 2, "n_init": 2, "max_iter": 3, "random_state": 0}
    whole = DCKM(**how).fit(X)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("unskew._io._write._put", full)
    model = DCKM(**how, checkpoint=tmp_path / "fit.npz", checkpoint_seconds=0)
    with pytest.warns(UserWarning, match="was not saved, and the fit continues.*no space left"):
        model.fit(X)
    np.testing.assert_array_equal(model.weights_, whole.weights_)
    assert not list(tmp_path.iterdir())


def test_a_limit_on_file_sizes_leaves_the_old_file(tmp_path):
    target = tmp_path / "a.bin"
    target.write_text("old")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    script = (
        "import sys; from unskew._io import FileError, write_atomic\n"
        "try: write_atomic(sys.argv[1], b'x' * 5000)\n"
        "except FileError as error: print(error)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(target)], capture_output=True, timeout=60,
        preexec_fn=limit, text=True,
    )  # fmt: skip
    assert "cannot be written" in found.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["a.bin"]
    assert target.read_text() == "old"


# ------------------------------------------------------------------------------------ bad files
def sparse_npz(path, form="csr", **changes):
    X = sp.random(20, 5, 0.4, format=form, random_state=0)
    parts = {"format": np.array(form.encode()), "shape": np.array(X.shape), "data": X.data}
    parts |= {"indices": X.indices, "indptr": X.indptr}
    for name, (at, value) in changes.items():
        parts[name] = parts[name].astype(np.int64)
        parts[name][at] = value
    np.savez(path, **parts)
    return path


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize(
    "changes",
    [
        {"indices": (3, 10**6)},
        {"indices": (3, -(10**6))},
        {"indptr": (2, 10**8)},
        {"indptr": (-1, 10**8)},
        {"indptr": (0, 5)},
        {"shape": (1, 10**12)},
        {"shape": (0, 10**12)},
        {"shape": (0, -1)},
    ],
)
def test_crafted_sparse_files_are_refused(tmp_path, form, changes):
    with pytest.raises(FileError, match=r"a\.npz: "):
        read_table(sparse_npz(tmp_path / "a.npz", form, **changes))


@pytest.mark.parametrize("compress", [False, True])
def test_a_matlab_file_with_an_undefined_type_is_refused(tmp_path, compress):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"X": np.arange(12.0).reshape(4, 3)})
    assert read_table(path).data.shape == (4, 3)
    content = path.read_bytes().replace(b"\t\0\0\0\x60\0\0\0", b"\0\0\0\0\x60\0\0\0")
    if compress:
        packed = zlib.compress(content[128:])
        content = content[:128] + struct.pack("<II", 15, len(packed)) + packed
    path.write_bytes(content)
    with pytest.raises(FileError, match="undefined type 0"):
        read_table(path)


def test_an_index_of_two_billion_is_refused(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1 1:2.0\n0 2000000000:1\n")
    with pytest.raises(FileError, match="and 1,048,576 columns are read"):
        read_table(path)


def test_too_many_columns_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_COLUMNS", 3)
    path = tmp_path / "a.csv"
    path.write_text("a,b,c,d\n1,2,3,4\n")
    with pytest.raises(FileError, match="has 4 columns; at most 3 are read"):
        read_table(path)


def test_many_columns_have_the_types_of_few(tmp_path, monkeypatch):
    cells = ["1", "1.5", "x", "007", "true", "2024-01-31", "NA", "99999999999999999999", "?"]
    path = tmp_path / "a.csv"
    path.write_text(",".join("abcdefghi") + "\n" + ",".join(cells) + "\n" + ",".join(cells) + "\n")
    expected = read_table(path)
    monkeypatch.setattr("unskew._io._text.COLUMNS_AT_ONCE", 2)
    found = read_table(path)
    assert found.data.equals(expected.data)
    assert found.data.schema == expected.data.schema
    assert found.findings == expected.findings


def test_long_codes_that_floats_would_merge_stay_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("code,x\n" + "".join(f"{10**20 + i},{i}\n" for i in range(3)))
    assert read_table(path).data["code"].to_list() == [str(10**20 + i) for i in range(3)]


@pytest.mark.parametrize("cell", ["2024-13-01", "2024-02-30 25:00", "2024/13/41", "2024-00-00"])
def test_impossible_dates_are_text(tmp_path, cell):
    path = tmp_path / "a.csv"
    path.write_text("day,x\n" + f"{cell},1\n" * 3)
    assert read_table(path).data["day"].to_list() == [cell] * 3


@pytest.mark.parametrize("encoding", ["rot13", "base64", "zlib", "hex", "undefined", "a\0b", ""])
def test_encodings_that_are_not_of_text_are_refused(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match=r"a\.csv: (encoding|is not)"):
        read_table(path, encoding=encoding)


@pytest.mark.parametrize("depth", [10, 100_000])
def test_deep_json_is_refused(tmp_path, depth):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": ' + "[" * depth + "]" * depth + ', "b": 1}\n{"a": 1, "b": "x"}\n')
    with pytest.raises(FileError, match=r"a\.jsonl: line 1"):
        read_table(path)


@pytest.mark.parametrize(
    "text",
    ["record = 3", "record = [1]", "[record]\ninputs = 3", "[record]\ninputs = [3]",
     "[record]\ninputs = [{}]", "[record]\ninputs = [{file = 3, sha256 = 4}]",
     "clusters = " + "[" * 5000 + "]" * 5000, "\"\\u001b[31m\" = 3", "encoding = \"a\\u0000b\""],
)  # fmt: skip
def test_a_bad_config_is_one_line(table, unskew, text):
    with open("c.toml", "w") as file:
        file.write(text + "\n")
    code, _, err = unskew("fit", "plain.csv", "-k", "2", "-q", "--config", "c.toml")
    assert code == 2
    assert "internal error" not in err
    assert "object" not in err


@pytest.mark.parametrize("blocks", [[], ["--blocks"]])
def test_duplicate_names_in_a_file_are_refused(table, unskew, blocks):
    values = pa.array(np.random.RandomState(0).randn(30))
    pyarrow.parquet.write_table(pa.Table.from_arrays([values, values], ["a", "a"]), "d.parquet")
    code, _, err = unskew("fit", "d.parquet", "-k", "2", "-q", *blocks)
    assert code == 2
    assert "'a'" in err
    assert "internal error" not in err


def test_duplicate_names_in_feather_are_refused(tmp_path):
    values = pa.array([1.0, 2.0])
    both = pa.Table.from_arrays([values, values], ["a", "a"])
    pyarrow.feather.write_feather(both, tmp_path / "d.feather")
    with pytest.raises(FileError, match="two columns named 'a'"):
        read_table(tmp_path / "d.feather")


def test_duplicate_names_of_a_reader_of_arrays_are_refused():
    class Reader:
        n_blocks, columns = 1, ("a", "a")

        def read(self, number):
            return np.random.RandomState(0).randn(20, 2)

    with pytest.raises(ValueError, match="two columns named 'a'"):
        DCKM(2).fit(Reader())


# ---------------------------------------------------------------------------------- bad numbers
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, pl.DataFrame])
@pytest.mark.parametrize("model", [DCKM(2, n_init=1), DecorrelationWeights(), SelectionMixture(2)])
def test_infinity_is_refused_without_a_warning_of_numpy(value, kind, model):
    X = np.random.RandomState(0).randn(30, 3)
    X[4, 1], X[5, 1] = value, -value
    if np.isnan(value) and (kind is pl.DataFrame or isinstance(model, SelectionMixture)):
        return  # a missing value
    with pytest.raises(ValueError, match=r"inf|NaN"):
        model.fit(kind(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_paper_solver_fits_two_rows(dtype):
    X = np.array([[0.0, 1.0], [1.0, 0.0]], dtype=dtype)
    for K in (1, 2):
        model = DCKM(K, objective="paper", solver="paper", random_state=0, n_init=2).fit(X)
        assert np.isfinite(model.weights_).all()


def test_counts_that_would_exhaust_memory_are_refused():
    X = np.random.RandomState(0).randn(30, 3)
    for how in ({"n_bins": 2**31}, {"n_init": 10**12}, {"n_bins": 10**400}):
        with pytest.raises(ValueError, match=r"should be in \["):
            DCKM(2, **how).fit(X)


def test_nothing_is_read_from_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(FileError, match="standard input: is closed"):
        read_table("-")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n3,4\n")))
    assert len(read_table("-")) == 2


def test_a_checkpoint_is_saved_again_when_the_disk_has_space(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "c.npz", {}, 0)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("unskew._io._write._put", full)
        with pytest.warns(UserWarning, match="was not saved"):
            checkpoint.write(Snapshot({}, {}))
    checkpoint.write(Snapshot({}, {"n": 1}))
    assert checkpoint.read().facts == {"n": 1}


# ------------------------------------------------------------------------------ memory, processes
@pytest.mark.soak
@pytest.mark.parametrize("verb", ["fit", "correct"])
def test_too_little_memory_leaves_no_file(tmp_path, verb):
    """With limits from too little for the imports to enough for all: exit code 2 and one line, or
    polars ends the process (its allocator aborts)."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.standard_normal((20_000, 30)), schema=[f"x{i}" for i in range(30)])
    frame.with_columns(site=pl.Series(rng.choice(["a", "b"], 20_000))).write_parquet(
        tmp_path / "t.parquet"
    )
    words = [verb, "t.parquet", "-s", "site", "-q", "-k", "3"]
    words += ["--out", "o.csv"] if verb == "correct" else ["--labels", "o.csv", "--method", "dckm"]
    for megabytes in (500, 700, 900, 1100):
        limit = megabytes * 2**20
        found = run(
            words, cwd=tmp_path, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            preexec_fn=lambda b=limit: resource.setrlimit(resource.RLIMIT_AS, (b, b)),
        )  # fmt: skip
        count("faults injected")
        # The allocators of polars (by a signal) and OpenBLAS (by exit) end the process.
        library = found.returncode < 0 or found.stderr.startswith(b"OpenBLAS error")
        assert library or found.returncode in (0, 2), (megabytes, found)
        if found.returncode == 0:
            assert len(pl.read_csv(tmp_path / "o.csv")) == 20_000
            (tmp_path / "o.csv").unlink()
        assert [file.name for file in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.soak
@pytest.mark.parametrize("model", ["DCKM(2, suspects=[0])", "SelectionMixture(2, suspects=[0])"])
def test_a_fit_without_memory_is_a_memory_error_and_leaves_the_model(model):
    script = f"""
import resource, warnings, numpy as np
from unskew import DCKM, SelectionMixture
warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((60_000, 40))
X[:, 0] = X[:, 0] > 0
model = {model}.set_params(random_state=0, max_iter=3).fit(X[:500])
before = model.labels_
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 12 * 2**20, hard))
try:
    model.fit(X)
except (MemoryError, RuntimeError) as error:  # can't start new thread
    print("refused", bool(str(error)))
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
assert model.labels_ is before
print(len(model.fit(X[:600]).labels_))
"""
    count("faults injected")
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
    )
    assert found.stdout.split() == ["refused", "True", "600"], found


class Deadly:
    """Rows in blocks that end any other process that reads them."""

    n_blocks = 2

    def __init__(self):
        self.own = os.getpid()

    def read(self, number):
        if os.getpid() != self.own:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.random.default_rng(number).standard_normal((50, 3))


@pytest.mark.soak
def test_a_worker_that_dies_is_an_error():
    count("faults injected")
    worker = joblib.Parallel(n_jobs=2)
    with pytest.raises(TerminatedWorkerError):
        worker(joblib.delayed(DCKM(2, n_init=1).fit)(Deadly()) for _ in range(4))
    X = np.random.default_rng(0).standard_normal((60, 3))
    model = ConsensusDCKM(2, n_runs=3, n_jobs=2, random_state=0, tol=1e-1)
    assert np.isfinite(model.fit(X).weights_).all()  # the next pool works


@pytest.mark.soak
def test_two_processes_with_one_checkpoint_and_one_output(tmp_path):
    """Each ends with the bits of a fit of its own, or with an error about the checkpoint."""
    how = {"n_clusters": 3, "n_init": 3, "max_iter": 5, "tol": 1e-3, "random_state": 0}
    X = np.random.default_rng(0).standard_normal((300, 4))
    np.save(tmp_path / "X.npy", X)
    script = f"""
import sys, warnings, numpy as np
warnings.simplefilter("ignore")
from unskew import DCKM
from unskew._io import write_atomic
from unskew._solver import CheckpointError
try:
    model = DCKM(**{how!r}, checkpoint="c.npz", checkpoint_seconds=0).fit(np.load("X.npy"))
except CheckpointError:
    sys.exit(3)
write_atomic("w.bin", model.weights_.tobytes())
"""
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, cwd=tmp_path, timeout=120).returncode == 0
    expected = (tmp_path / "w.bin").read_bytes()
    for _ in range(3):
        count("faults injected")
        (tmp_path / "w.bin").unlink(missing_ok=True)
        both = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(2)]
        errors = [process.communicate(timeout=300)[1] for process in both]
        codes = {process.returncode for process in both}
        assert codes <= {0, 3}, errors
        if 0 in codes:
            assert (tmp_path / "w.bin").read_bytes() == expected
        (tmp_path / "c.npz").unlink(missing_ok=True)
    assert {file.name for file in tmp_path.iterdir()} <= {"X.npy", "w.bin"}


@pytest.mark.soak
def test_a_limit_on_file_sizes_leaves_no_output(tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.standard_normal((3000, 3)), schema=list("abc"))
    frame.write_csv(tmp_path / "t.csv")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

    for name in ("--labels", "--weights", "--model", "--report"):
        count("faults injected")
        suffix = {"--model": "skops", "--report": "html"}.get(name, "csv")
        words = ["fit", "t.csv", "-k", "2", "-q", "--n-init", "1", name, f"o.{suffix}"]
        found = run(words, cwd=tmp_path, preexec_fn=limit)
        assert found.returncode == 2
        assert b"Traceback" not in found.stderr
        assert not [f.name for f in tmp_path.iterdir() if f.name.startswith((".", "o."))]


# --------------------------------------------------------------------------- models and tables
@pytest.fixture
def corrected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(0)
    site, group = rng.randint(0, 2, size=(2, 60))
    frame = pl.DataFrame(rng.randn(60, 2) + 4 * group[:, None] + site[:, None], schema=["x", "y"])
    frame = frame.with_columns(site=pl.Series([["a", "b"][i] for i in site]))
    frame.write_csv("t.csv")
    how = {"covariance": "diag", "selection": "common", "effects": "shift", "max_iter": 5}
    save(SuspectCorrector("site", 2, **how, tol=0.1, random_state=0).fit(frame), "m.skops")
    return frame


@pytest.mark.parametrize("x", ["text", True])
def test_a_model_is_not_applied_to_a_table_with_other_types(corrected, unskew, x):
    corrected.with_columns(x=pl.lit(x)).write_csv("other.csv")
    code, out, err = unskew("correct", "other.csv", "--apply", "m.skops")
    assert (code, out) == (2, "")
    assert "column 'x' holds" in err
    assert "but was a number in the fit" in err


@pytest.mark.parametrize(
    "words", [["-k", "3"], ["--effects", "per-group"], ["--seed", "1"], ["--drop-suspects"],
              ["--weights", "w.csv"], ["--category", "y"], ["-w", "y"]],
)  # fmt: skip
def test_options_of_the_fit_are_refused_where_nothing_is_fitted(corrected, unskew, words):
    code, out, err = unskew("correct", "t.csv", "--apply", "m.skops", *words)
    assert (code, out) == (2, "")
    assert "should not be given with --apply, which fits nothing" in err
