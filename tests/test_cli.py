"""The command line as a person types it."""

import dataclasses
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rich_click")
pytest.importorskip("skops")
pl = pytest.importorskip("polars")


FIT = ["-k", "2", "--n-init", "2", "--tol", "0.01"]
UNSKEW = [sys.executable, "-m", "unskew"]


def make_frame(n=160, seed=0):
    """Two kinds of rows, and a site that follows them and leaves a footprint."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    site = np.where(rng.random(n) < 0.8, kind, 1 - kind)
    columns = {f"x{j}": rng.normal(kind * 2.0 * (j < 3), 1).round(3) for j in range(4)}
    columns |= {f"f{j}": rng.normal(site * 1.5, 1).round(3) for j in range(3)}
    return pl.DataFrame(
        {
            "patient": [f"p{i:03d}" for i in range(n)],
            **columns,
            "site": [["north", "south"][s] for s in site],
            "mood": [["None", "Most", None][i % 3] for i in range(n)],
            "w": [1.0 + i % 2 for i in range(n)],
        }
    )


@pytest.fixture(scope="session")
def frame():
    return make_frame()


@pytest.fixture
def home(tmp_path, monkeypatch, frame):
    """A folder with data.csv, and we are in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    frame.write_csv("data.csv")
    return tmp_path


def one_line(err):
    """The error, which should be one line, without lines about progress and columns."""
    steps = (
        "  ",
        "columns of",
        "reading",
        "comparing",
        "writing",
        "warning:",
        "predicting",
        "fitting",
    )
    phases = ("restart ", "candidate ", "initialization ", "run ", "method ")
    lines = [x for x in err.splitlines() if not x.split(": ", 1)[-1].startswith(steps + phases)]
    assert len(lines) == 1, err
    return lines[0]


# ----------------------------------------------------------------------------------------- fit


def test_fit_writes_everything_that_was_asked_for(home, unskew, frame):
    code, out, err = unskew(
        "fit", "data.csv", *FIT, "--suspect", "site", "--weight-column", "w", "--id", "patient",
        "--report", "out.html", "--labels", "labels.csv", "--weights", "weights.parquet",
        "--model", "m.skops",
    )  # fmt: skip
    assert code == 0, err
    labels, weights = pl.read_csv("labels.csv"), pl.read_parquet("weights.parquet")
    assert labels.columns == ["patient", "cluster"]
    assert labels["patient"].to_list() == frame["patient"].to_list()
    assert set(labels["cluster"]) == {0, 1}
    assert weights.columns == ["patient", "weight", "combined_weight"]
    np.testing.assert_allclose(weights["combined_weight"], weights["weight"] * frame["w"])
    assert Path("out.html").read_text().lstrip().lower().startswith("<!doctype html>")
    for word in (
        "rows",
        "160",
        "suspects",
        "site",
        "effective sample size",
        "mean difference",
        "verdict",
    ):
        assert word in out
    assert "candidate 1 of 7: bic" in err
    assert sorted(os.listdir()) == [
        "data.csv", "labels.csv", "m.run.toml", "m.skops", "out.html", "weights.parquet",
    ]  # fmt: skip


def test_a_recorded_run_can_be_repeated_from_anywhere(home, unskew, monkeypatch):
    (home / "out").mkdir()
    arguments = ["data.csv", *FIT, "-s", "site", "--drop", "patient", "--seed", "3"]
    assert unskew("fit", *arguments, "--labels", "out/a.csv", "-q") == (0, "", "")
    first = Path("out/a.csv").read_bytes()
    record = tomllib.loads(Path("out/a.run.toml").read_text())
    assert record["data"] == "../data.csv"
    assert record["clusters"] == 2
    assert record["suspect"] == ["site"]
    assert record["record"]["inputs"][0]["size"] == os.path.getsize("data.csv")
    assert record["record"]["versions"]["numpy"] == np.__version__
    text = Path("out/a.run.toml").read_text()
    assert "weight-column is not set" in text
    os.remove("out/a.csv")
    monkeypatch.chdir(home / "out")
    assert unskew("fit", "--config", "a.run.toml", "-q") == (0, "", "")
    assert (home / "out" / "a.csv").read_bytes() == first
    assert (home / "out" / "a.run.toml").read_text() == text

    code, _, err = unskew("fit", "--config", "a.run.toml", "-k", "3", "-q")
    assert code == 2
    assert "would overwrite its --config" in one_line(err)
    code, _, err = unskew("weigh", "--config", "a.run.toml")
    assert code == 2
    assert "records a run of 'fit'" in one_line(err)

    make_frame(seed=1).write_csv(home / "data.csv")
    code, _, err = unskew("fit", "--config", "a.run.toml")
    assert code == 0
    assert "warning: ../data.csv: is not the file of the recorded run" in err.replace(
        "./../", "../"
    )


def test_a_repeated_run_uses_the_method_that_its_options_select(home, unskew):
    arguments = ["data.csv", *FIT, "-s", "site", "--drop", "patient", "--adjust", "weights"]
    assert unskew("fit", *arguments, "--labels", "a.csv", "-q")[0] == 0
    code, out, err = unskew("fit", "--config", "a.run.toml", "--json")
    assert code == 0
    assert "--method dckm is used: --adjust is an option of --method dckm" in err
    assert json.loads(out)["result"]["method"] == "DCKM"


def test_the_command_line_beats_the_file(home, unskew):
    Path("run.toml").write_text(
        'data = "data.csv"\nclusters = 3\nn_init = 1\ndrop = "patient"\nquiet = true\n'
        'suspect = ["site"]\n'
    )
    code, out, _ = unskew("fit", "--config", "run.toml", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["configuration"]["clusters"] == 3
    assert found["configuration"]["drop"] == ["patient"]
    assert len(found["result"]["clusters"]) == 3
    code, out, _ = unskew("fit", "--config", "run.toml", "-k", "2", "--json")
    assert len(json.loads(out)["result"]["clusters"]) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("balence-strength = 1", "'balence-strength' is not an option of fit; nearest: "
         "'balance-strength'"),
        ("clusters = 'five'", "run.toml: Invalid value for '--clusters'"),
        ("clusters = 2.5", "run.toml: Invalid value for '--clusters'"),
        ("clusters = [2]", "'clusters' = [2] should be a string or a number"),
        ("quiet = 1", "'quiet' = 1 should be true or false"),
        ("n-init = 1\nn_init = 2", "'n-init' is given twice"),
        ("[fit]\nk = 1", "'fit' is not an option of fit"),
        ("what is this", "is not TOML"),
        ("config = 'x'", "'config' is not an option"),
        ("record = 3", "'record' = 3 should be a table"),
        ("a = " + "[" * 5000 + "]" * 5000, "its values are nested too deeply"),
        ("#" * 2**20 + "#", "has more than 1,048,576 bytes"),
    ],
)  # fmt: skip
def test_a_bad_file_of_options_is_named(home, unskew, text, words):
    Path("run.toml").write_text(text)
    code, _, err = unskew("fit", "data.csv", "--config", "run.toml")
    assert code == 2
    assert "run.toml" in one_line(err)
    assert words in err


def test_paths_of_a_record_are_relative_to_its_folder():
    from unskew.cli._config import options_as_toml

    options = {"out": "a/out.csv", "apply": "m.skops", "labels": ["b/x.csv:g"], "report": "-"}
    assert options_as_toml(options, Path("a")).splitlines() == [
        'out = "out.csv"', 'apply = "../m.skops"', 'labels = ["../b/x.csv:g"]', 'report = "-"',
    ]  # fmt: skip


def test_a_missing_file_of_options_is_named(home, unskew):
    code, _, err = unskew("fit", "data.csv", "--config", "no.toml")
    assert code == 2
    assert "no.toml: no such file" in one_line(err)


def test_json_is_one_document_and_messages_go_elsewhere(home, unskew):
    code, out, err = unskew(
        "fit", "data.csv", *FIT, "-s", "site", "--drop", "patient", "--json", "--report", "r.json"
    )
    assert code == 0
    found = json.loads(out)
    assert found["verdict"] == json.loads(Path("r.json").read_text())["verdict"]
    assert found["data"]["rows"] == 160
    assert found["data"]["kinds"]["site"] == "category"
    assert sum(each["size"] for each in found["result"]["clusters"]) == 160
    assert found["inputs"][0]["file"] == "data.csv"
    assert "candidate 1 of 7: bic" in err
    assert found["result"]["method"] == "SelectionMixture"


def test_quiet_is_silent(home, unskew):
    arguments = ["data.csv", "-s", "site", "--drop", "patient", "--quiet"]
    assert unskew("fit", *arguments, *FIT) == (0, "", "")
    code, out, err = unskew("weigh", *arguments)
    assert (code, err) == (0, "")
    assert out.startswith("row,weight\n1,")


def test_checks_that_fail_exit_with_one_and_still_write(home, unskew):
    base = ["fit", "data.csv", *FIT, "-s", "site", "--drop", "patient", "-q"]
    code, _, err = unskew(*base, "--fail-below", "1", "--labels", "a.csv")
    assert code == 1
    assert "check failed: effective sample size" in one_line(err)
    assert Path("a.csv").exists()
    # Without balance the weights change nothing: no effect, which is worse than asked for.
    base = ["fit", "data.csv", *FIT, "--drop", "patient", "-q"]
    base += ["--balance-strength", "0", "--spread-strength", "1e6"]
    code, _, err = unskew(*base, "--fail-on", "no-effect")
    assert code == 1
    assert "with --fail-on no-effect" in one_line(err)
    code, _, err = unskew(*base, "--fail-below", "0.5")
    assert (code, err) == (0, "")
    code, _, err = unskew(*base, "--fail-below", "1.5")
    assert code == 2
    assert "--fail-below 1.5 should be in (0, 1]" in one_line(err)


def test_the_lower_bound_of_the_effective_size_holds_inside_the_fit(home, unskew):
    code, out, _ = unskew(
        "fit", "data.csv", *FIT, "-s", "site", "--drop", "patient",
        "--min-effective-sample-size", "0.9", "--json", "-q",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["result"]["effective_size"] >= 0.9 - 1e-6


def test_margins(home, unskew):
    base = ["fit", "data.csv", *FIT, "--drop", "patient", "--weights", "w.csv", "-q"]
    both = ["--margin", "site:north=0.7", "--margin", "site:south=0.3"]
    code, out, err = unskew(*base[:-1], *both)
    assert code == 0, err
    assert "site; largest difference from the known shares 0.0" in out
    weight = pl.read_csv("w.csv")["weight"].to_numpy()
    north = (pl.read_csv("data.csv")["site"] == "north").to_numpy()
    assert weight[north].sum() / weight.sum() == pytest.approx(0.7, abs=0.02)
    for margin, words in [
        ("site", "should be COLUMN:VALUE=SHARE"),
        ("sitr:north=0.7", "'sitr' is not a column that is analysed; nearest: 'site'"),
        ("site:north=much", "'much' should be a number"),
        ("site:north=7", "7 should be in [0, 1]"),
        ("site:west=0.7", "'west' is not a value of 'site'"),
    ]:
        code, _, err = unskew(*base, "--margin", margin)
        assert code == 2
        assert words in one_line(err)
        assert "data.csv" in err


def test_columns_are_chosen_by_name_or_pattern(home, unskew):
    code, out, _ = unskew(
        "fit", "data.csv", *FIT, "--keep", "x*", "--drop", "x3", "-s", "site", "--json", "-q"
    )
    assert code == 0
    assert json.loads(out)["data"]["columns"] == ["x0", "x1", "x2", "site"]


def test_findings_of_all_columns_are_one_block(home, unskew):
    data = pl.read_csv("data.csv").with_row_index("number")
    coded = pl.Series("coded", [9, 1, 2, 1, 2] * (len(data) // 5 + 1))[: len(data)]
    wide = data.with_columns(pl.lit(1).alias("same"), (2.54 * data["x0"]).alias("cm"), coded)
    wide.write_csv("wide.csv")
    for verb in (["fit", *FIT], ["audit"], ["compare", *FIT]):
        code, _, err = unskew(*verb[:1], "wide.csv", *verb[1:], "-s", "site")
        assert code == 0, err
        for words in ("constant", "'same' (every value is 1)", "left out 'number' (row numbers",
                      "'patient' (", "'cm' (repeats 'x0')",
                      "'coded' (1, 2, 9); these are read as numbers; if they are codes: "
                      "--category coded"):  # fmt: skip
            assert " ".join(err.split()).count(words) == 1, (verb, words)
        assert "warning" not in err
        assert all(line == line.rstrip() for line in err.splitlines())
    head, *body = Path("wide.csv").read_text().splitlines()
    lines = [f"{head},x0", *(f"{line},{i if i % 5 else '.'}" for i, line in enumerate(body))]
    Path("twice.csv").write_text("\n".join(lines))
    code, out, err = unskew("columns", "twice.csv")
    assert code == 0, err
    shown = " ".join(out.split())
    assert "x0_2 number 1 to 159 32 renamed: column 16, also named 'x0'; missing: '.' in" in shown
    code, out, err = unskew("columns", "wide.csv", "--category", "coded", "--number", "number")
    assert code == 0, err
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "near-duplicate: repeats 'x0'" in rows["cm"]
    assert rows["coded"].split()[1:4] == ["category", "1,", "2,"]
    assert rows["number"].split()[1] == "number"
    code, out, _ = unskew("columns", "wide.csv", "--json", "-q")
    document = json.loads(out)
    assert [row["column"] for row in document["columns"]] == wide.columns
    assert {"topic": "constant", "column": "same", "text": "every value is 1"} in document[
        "findings"
    ]
    code, _, err = unskew("columns", "wide.csv", "--category", "cm", "--number", "cm")
    assert code == 2
    assert "column 'cm' is --category and --number at once" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--suspect", "sight"], "data.csv: --suspect 'sight' is not one of its 11 columns; "
         "nearest: 'site'"),
        (["--drop", "zz*"], "--drop 'zz*' is not one of"),
        (["--keep", "nothing"], "--keep 'nothing'"),
        (["--weight-column", "W"], "--weight-column 'W' is not one of"),
        (["--weight-column", "site"], "column 'site' (--weight-column) has dtype String"),
        (["--weight-column", "x0"], "column 'x0' (--weight-column), line"),
        (["--id", "pat"], "--id 'pat' is not one of its 11 columns; nearest: 'patient'"),
        (["-s", "site", "--drop", "site"], "'site' is --suspect and --drop at once"),
        (["-s", "w", "-w", "w"], "'w' is --suspect and --weight-column at once"),
        (["--drop", "*"], "no column remains"),
        (["--keep", "site", "-s", "site"], "all remaining columns are --suspect"),
        (["--strict"], "column 'patient' has 160 different values"),
        (["--drop", "patient", "-k", "0"], "--clusters 0 should be >= 1"),
        (["--drop", "patient", "-k", "500"], "--clusters 500 should be <= n_samples=160"),
        (["--drop", "patient", "--bins", "1"], "--bins 1 should be in [2, 10000]"),
        (["--labels", "labels.xlsx"], "labels.xlsx: a table is written as"),
        (["--report", "out.pdf"], "out.pdf: --report should end in"),
        (["--report", "no/out.html"], "no/out.html: the folder"),
        (["--labels", "data.csv"], "--labels would overwrite the input data.csv"),
        (["--labels", "a.csv", "--weights", "./a.csv"], "--labels and --weights cannot both"),
        (["--labels", "-", "--json"], "standard output: --json and --labels cannot both"),
        (["--no-header", "--format", "jsonl"], "--no-header does not apply to jsonl"),
        (["--init", "best"], "'best' is not one of"),
        (["--what"], "No such option"),
        (["--clusters", "x"], "Invalid value for '--clusters'"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_line_and_exit_code_two(home, unskew, arguments, words):
    code, out, err = unskew("fit", "data.csv", "-k", "2", *arguments)
    assert code == 2
    assert out == ""
    assert words in one_line(err)
    assert sorted(os.listdir()) == ["data.csv"]


# Without a time stamp, so that the test has the same name in every process.
CUT = gzip.compress(b"a,b\n1,2\n" * 50, mtime=0)[:-20]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("gone.csv", None, "gone.csv: no such file"),
        ("empty.csv", b"", "empty.csv: is empty"),
        ("header.csv", b"a,b\n", "header.csv: has a header but no rows"),
        ("one.csv", b"a,b\n1,2\n", "one.csv: "),
        ("ragged.csv", b"a,b\n1,2\n3,4,5\n", "ragged.csv: line 3: 3 fields"),
        ("latin.csv", b"a,b\n1,Zo\xeb\n", "latin.csv: line 2: byte 0xeb at offset 8"),
        ("cut.csv.gz", CUT, "cut.csv.gz: is not a complete gzip"),
        ("bad.parquet", b"PAR1nothing", "bad.parquet: cannot be read as parquet"),
        (".", None, ".: the folder has no .parquet file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(home, unskew, name, content, words):
    if content is not None:
        Path(name).write_bytes(content)
    code, out, err = unskew("fit", name, "-k", "2")
    assert code == 2
    assert out == ""
    assert words in one_line(err)


def test_the_limit_on_unpacked_data_is_named_as_the_option(home, unskew):
    Path("a.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 100))
    code, _, err = unskew("fit", "a.csv.gz", "--max-bytes", "100")
    assert code == 2
    assert "exceeds the limit of 100; increase --max-bytes to read it" in one_line(err)


def test_debug_shows_the_traceback(home, unskew):
    code, _, err = unskew("fit", "gone.csv", "--debug")
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1] == "unskew fit: gone.csv: no such file"


BY_SITE = [*FIT, "-s", "site", "--id", "patient", "-q"]


@pytest.fixture(scope="module")
def labels_of_csv(frame, tmp_path_factory):
    """The labels that fit writes for data.csv."""
    from unskew.cli import main

    folder = tmp_path_factory.mktemp("csv")
    frame.write_csv(folder / "data.csv")
    data, labels = str(folder / "data.csv"), folder / "labels.csv"
    assert main(["fit", data, *BY_SITE, "--labels", str(labels)]) == 0
    return labels.read_text()


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv", "a.jsonl", "a.parquet", "a.feather"])
def test_the_format_does_not_change_the_answer(home, unskew, frame, name, labels_of_csv):
    from unskew._io import table_bytes, write_atomic

    write_atomic(name, table_bytes(name, frame.to_dict(as_series=False)))
    code, out, err = unskew("fit", name, *BY_SITE, "--labels", "-")
    assert code == 0, err
    assert out == labels_of_csv


def test_matrices_are_taken_as_they_are(home, unskew, rng):
    X = rng.normal(size=(60, 4))
    X[:, 3] = X[:, 0] > 0
    np.save("X.npy", X)
    code, _, err = unskew(
        "fit", "X.npy", *FIT, "-s", "c3", "--labels", "a.csv", "--model", "m.skops", "-q"
    )
    assert code == 0, err
    code, _, err = unskew("fit", "X.npy", *FIT, "--max-categories", "3")
    assert code == 2
    assert "--max-categories does not apply to npy" in one_line(err)
    code, out, err = unskew("predict", "m.skops", "X.npy", "-q")
    assert code == 0, err
    assert out == Path("a.csv").read_text()
    np.savetxt("X.csv", X, delimiter=",")
    assert unskew("predict", "m.skops", "X.csv", "--no-header", "-q") == (0, out, "")
    code, _, err = unskew("predict", "m.skops", "X.npy", "--drop", "c0")
    assert code == 2
    assert "X.npy: has 3 columns to predict from" in one_line(err)


def test_svmlight_and_mat(home, unskew, rng):
    import scipy.io
    from sklearn.datasets import dump_svmlight_file

    X = (rng.random((40, 6)) < 0.5).astype(float)
    dump_svmlight_file(X, np.zeros(40), "X.svmlight", zero_based=False)
    scipy.io.savemat("X.mat", {"X": X, "y": np.zeros((40, 1))})
    answers = []
    for name in ("X.svmlight", "X.mat"):
        code, out, err = unskew("fit", name, *FIT, "--labels", "-", "-q")
        assert code == 0, err
        answers.append(out)
    assert answers[0] == answers[1]


def test_standard_input_and_output(home, unskew, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(Path("data.csv").read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    code, out, err = unskew("fit", "-", *FIT, "--drop", "patient", "--labels", "-")
    assert code == 0
    assert out.startswith("row,cluster\n1,")
    assert len(out.splitlines()) == 161
    assert "verdict" in err
    assert sorted(os.listdir()) == ["data.csv"]


def test_options_reach_the_estimator_and_else_its_defaults_hold(home, unskew, rng, monkeypatch):
    from unskew import DCKM, ConsensusDCKM, DecorrelationWeights, SuspectCorrector

    seen = []

    def fit(self, X, y=None, sample_weight=None):
        seen.append((type(self), self.get_params()))
        raise ValueError("this test does not fit")

    for kind in (DCKM, ConsensusDCKM, DecorrelationWeights, SuspectCorrector):
        monkeypatch.setattr(kind, "fit", fit)
    np.save("X.npy", rng.normal(size=(60, 4)))
    asked = ["--n-init", "2", "--tol", "1e-5", "--bins", "7", "--threads", "1", "--seed", "4"]
    given = {"n_init": 2, "tol": 1e-5, "n_bins": 7, "n_threads": 1, "random_state": 4}
    for arguments, expected in [
        (["fit", "-k", "3"], DCKM(3, random_state=0)),
        (["fit", "-k", "3", "--runs", "5"], ConsensusDCKM(3, n_runs=5, random_state=0)),
        (["fit", "--adjust", "effects", *asked], DCKM(adjust="effects", **given)),
        (["fit", "--runs", "5", "--init", "random", *asked],
         ConsensusDCKM(n_runs=5, init="random", **given)),
        (["weigh", "-s", "c1"], DecorrelationWeights(suspects=[1])),
        (["weigh", "--max-iter", "3"], DecorrelationWeights(max_iter=3)),
        (["correct", "-s", "c1"], SuspectCorrector([1], random_state=0)),
        (["correct", "-s", "c1", "-k", "2", "--effects", "shift", "--protect", "c0"],
         SuspectCorrector([1], 2, effects="shift", protect=[0], random_state=0)),
    ]:  # fmt: skip
        assert unskew(arguments[0], "X.npy", *arguments[1:])[0] == 2
        assert seen.pop() == (type(expected), expected.get_params())


# --------------------------------------------------------------------------- the other verbs


def test_predict_gives_the_labels_of_the_fit(home, unskew):
    unskew(
        "fit", "data.csv", *FIT, "-s", "site", "--id", "patient", "-w", "w",
        "--labels", "a.csv", "--model", "m.skops", "-q",
    )  # fmt: skip
    code, out, _ = unskew("predict", "m.skops", "data.csv", "--id", "patient", "-q")
    assert code == 0
    assert out == Path("a.csv").read_text()
    code, _, err = unskew("predict", "m.skops", "data.csv", "--weights", "w.csv", "-q")
    assert code == 0, err
    assert pl.read_csv("w.csv").columns == ["row", "weight"]
    code, out, _ = unskew("predict", "m.skops", "data.csv", "--json", "-q")
    found = json.loads(out)["result"]
    assert sum(found["sizes"]) == found["rows"] == len(found["labels"]) == 160

    pl.read_csv("data.csv").rename({"x1": "x 1"}).write_csv("new.csv")
    code, _, err = unskew("predict", "m.skops", "new.csv")
    assert code == 2
    assert "new.csv: has no column 'x1', which the model was fitted to; nearest: 'x 1'" in err
    Path("bad.skops").write_bytes(b"no model")
    code, _, err = unskew("predict", "bad.skops", "data.csv")
    assert code == 2
    assert "bad.skops" in one_line(err)
    code, _, err = unskew("predict", "none.skops", "data.csv")
    assert code == 2
    assert "none.skops" in one_line(err)


def test_weigh(home, unskew):
    code, out, err = unskew("weigh", "data.csv", "-s", "site", "--id", "patient", "--drop", "w")
    assert code == 0, err
    frame = pl.read_csv(io.StringIO(out))
    assert frame.columns == ["patient", "weight"]
    assert frame["weight"].mean() == pytest.approx(1.0)
    assert "mean difference" in err
    code, out, err = unskew(
        "weigh", "data.csv", "-s", "site", "--drop", "patient", "--weights", "w.csv", "--report",
        "w.md", "--model", "m.skops", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["outputs"] == {
        "weights": "w.csv", "report": "w.md", "model": "m.skops", "run": "m.run.toml",
    }  # fmt: skip


def test_audit(home, unskew):
    code, out, err = unskew("audit", "data.csv", "-s", "site", "--report", "audit.html")
    assert code == 0, err
    assert "worthwhile" in out
    assert "site" in out
    assert Path("audit.html").exists()
    code, out, _ = unskew("audit", "data.csv", "--json", "-q")
    assert code == 0
    from unskew.diagnostics import audit

    worth = dataclasses.asdict(audit(pl.read_csv("data.csv")).worth)
    assert json.loads(out)["audit"]["worth"] == json.loads(json.dumps(worth))


def test_quick_analyses_a_subsample_and_says_so(home, unskew, monkeypatch):
    from unskew.cli import _commands

    monkeypatch.setattr(_commands, "QUICK_ROWS", 100)
    for verb in (("audit",), ("fit", *FIT), ("compare", *FIT)):
        code, _out, err = unskew(
            verb[0], "data.csv", *verb[1:], "-s", "site", "--quick", "--report", f"{verb[0]}.md"
        )
        assert code == 0, err
        assert "--quick: 100 of" in err
        assert "--quick: 100 of" in Path(f"{verb[0]}.md").read_text()
    code, _, err = unskew("fit", "data.csv", *FIT, "--quick", "--labels", "labels.csv")
    assert code == 2
    assert "--labels is for all rows and --quick for some" in err


def test_compare(home, unskew):
    code, out, err = unskew(
        "compare", "data.csv", *FIT, "-s", "site", "--drop", "patient", "--report", "c.html",
        "--json",
    )  # fmt: skip
    assert code == 0, err
    assert "k-means" in err
    assert "assoc." in err
    assert "verdict" in err
    assert Path("c.html").exists()
    assert len(json.loads(out)["comparison"]["rows"]) >= 3


COMPARE = ["compare", "data.csv", *FIT, "-s", "site", "--drop", "patient"]


def test_compare_takes_labels_of_other_tools(home, unskew, frame):
    Path("other").mkdir()
    half = ["low" if x < 1 else "high" for x in frame["x0"]]
    pl.DataFrame({"id": frame["patient"], "a:b": half, "group": [0, 1] * 80}).write_csv(
        "other/tool.csv"
    )
    code, out, err = unskew(
        *COMPARE, "--labels", "other/tool.csv:a:b", "--labels", "other/tool.csv:group", "--json",
        "--report", "c.md",
    )  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    rows = {row["title"]: row for row in found["comparison"]["rows"]}
    assert "tool.csv:a:b" in err
    assert rows["tool.csv:group"]["sizes"] == [80, 80]
    assert sorted(rows["tool.csv:a:b"]["sizes"]) == sorted([half.count("low"), half.count("high")])
    assert [one["file"] for one in found["inputs"]][1:] == ["other/tool.csv"] * 2
    assert "tool.csv:group" in Path("c.md").read_text()
    # The record of the run repeats it, from another folder too.
    recorded = tomllib.loads(Path("c.run.toml").read_text())
    assert recorded["labels"] == ["other/tool.csv:a:b", "other/tool.csv:group"]
    os.chdir("other")
    code, out, err = unskew("compare", "--config", "../c.run.toml", "--json")
    assert code == 0, err
    assert json.loads(out)["comparison"]["rows"] == found["comparison"]["rows"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("tool.csv", "--labels 'tool.csv' should be FILE:COLUMN"),
        ("nowhere.csv:group", "nowhere.csv"),
        ("tool.csv:gruop", "--labels 'gruop' is not one of its 2 columns; nearest: 'group'"),
        ("tool.csv:group", "tool.csv: has 3 rows but should have 160"),
        ("gaps.csv:group", "gaps.csv: column 'group' (--labels), line 3: is missing"),
    ],
)
def test_labels_that_cannot_be_used_are_one_line(home, unskew, given, message):
    pl.DataFrame({"id": [1, 2, 3], "group": [0, 1, 1]}).write_csv("tool.csv")
    pl.DataFrame({"id": range(160), "group": [0, None] * 80}).write_csv("gaps.csv")
    code, _, err = unskew(*COMPARE, "--labels", given)
    assert code == 2
    assert message in one_line(err)


def test_compare_also_combat(home, unskew, monkeypatch):
    code, _, err = unskew(*COMPARE, "--also", "magic")
    assert code == 2
    assert "magic" in one_line(err)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "combatlearn", None)
        code, _, err = unskew(*COMPARE, "--also", "combat")
        assert code == 2
        assert "pip install combatlearn" in one_line(err)
    pytest.importorskip("combatlearn")
    code, out, err = unskew(*COMPARE, "--also", "combat", "--json")
    assert code == 0, err
    assert "combat" in [row["method"] for row in json.loads(out)["comparison"]["rows"]]


def test_demo(home, unskew):
    code, out, err = unskew("demo", "--rows", "300", "--samples", "1", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert len(found["methods"]) == 8
    assert found["outputs"] == {"report": "unskew-demo.html"}
    assert Path("unskew-demo.html").stat().st_size > 10_000
    code, _, err = unskew("demo", "--rate", "1")
    assert code == 2
    assert "rate" in one_line(err.replace("sample 1 of 3", "restart "))


@pytest.mark.parametrize("verb", ["demo", "audit", "fit", "predict", "weigh", "compare"])
def test_help_of_each_verb(home, unskew, verb):
    code, out, _ = unskew(verb, "--help")
    assert code == 0
    assert f"unskew {verb}" in out
    assert "Examples" in out


def test_help_version_and_unknown_verbs(home, unskew):
    import unskew as package

    assert unskew("--version") == (0, f"unskew {package.__version__}\n", "")
    assert unskew()[1] == unskew("--help")[1]
    code, _, err = unskew("fitt")
    assert code == 2
    assert "'fit'" in one_line(err)
    code, _, err = unskew("fit")
    assert code == 2
    assert "DATA" in one_line(err)


def test_text_of_the_user_is_not_obeyed(home, unskew):
    pl.read_csv("data.csv").rename({"x0": "[red]x0[/red]"}).write_csv("data.csv")
    code, out, _ = unskew("fit", "data.csv", *FIT, "-s", "[red]x0[/red]", "--drop", "patient")
    assert code == 0
    assert "[red]x0[/red]" in out


# ------------------------------------------------------------------------------ as a process


def test_pipes(home):
    """cat | unskew | head: packed input, output that its reader leaves early."""
    packed = gzip.compress(Path("data.csv").read_bytes())
    run = subprocess.run(
        [*UNSKEW, "fit", "-", *FIT, "--id", "patient", "--labels", "-", "--quiet"],
        input=packed, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stderr == b""
    assert run.stdout.startswith(b"patient,cluster\np000,")

    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [*UNSKEW, "weigh", "data.csv", "--drop", "patient", "-q"],
        stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert run.returncode == 141
    assert run.stderr == b""


@pytest.mark.soak
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_in_the_middle_outputs_are_whole_or_absent(home, rng, number, code):
    np.save("X.npy", rng.normal(size=(3000, 30)))
    Path("labels.csv").write_text("old\n")
    process = subprocess.Popen(
        [*UNSKEW, "fit", "X.npy", "-k", "5", "--n-init", "5000",
         "--labels", "labels.csv", "--weights", "weights.csv"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    begin, line = time.monotonic(), b""
    while b"restart 1 of" not in line:
        line = process.stderr.readline()
        assert time.monotonic() - begin < 60
        assert process.poll() is None, line
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert b"Traceback" not in err
    words = b"stopped by Ctrl-C" if number == signal.SIGINT else b"terminated by SIGTERM"
    assert err.rstrip().endswith(b"unskew fit: " + words)
    assert sorted(os.listdir()) == ["X.npy", "data.csv", "labels.csv"]
    assert Path("labels.csv").read_text() == "old\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk(home, unskew):
    Path("labels.csv").write_text("old\n")
    code, _, err = unskew(
        "fit", "data.csv", *FIT, "--drop", "patient", "--labels", "labels.csv", "--weights",
        "/dev/full", "-q",
    )  # fmt: skip
    assert code == 2
    assert "/dev/full: cannot be written: no space left on the disk" in one_line(err)
    assert Path("labels.csv").read_text() == "old\n"
    assert sorted(os.listdir()) == ["data.csv", "labels.csv"]


def test_a_name_that_is_too_long_is_refused_before_the_fit(home, unskew):
    name = "a" * 300 + ".csv"
    code, _, err = unskew("fit", "data.csv", *FIT, "--labels", name, "-q")
    assert code == 2
    assert f"{name}: the name is too long" in one_line(err)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_found_before_the_fit(home, unskew):
    (home / "closed").mkdir(mode=0o500)
    code, _, err = unskew("fit", "data.csv", "-k", "2", "--labels", "closed/labels.csv")
    assert code == 2
    assert "closed/labels.csv: cannot be written: permission denied" in err
    assert "reading" not in err


def test_a_read_only_file_is_not_replaced(home, unskew):
    Path("labels.csv").write_text("old\n")
    os.chmod("labels.csv", 0o444)
    code, _, err = unskew("fit", "data.csv", "-k", "2", "--labels", "labels.csv")
    assert code == 2
    assert "labels.csv: the file is read-only" in one_line(err)
    assert "reading" not in err


def on_a_terminal(*arguments):
    """What a command prints in a pseudo terminal, and its exit code."""
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*UNSKEW, *arguments],
        stdout=slave, stderr=slave, stdin=slave, close_fds=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160"},
    )  # fmt: skip
    os.close(slave)
    printed = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        printed += part
    code = process.wait(timeout=60)
    os.close(master)
    return code, printed.decode()


BY_DCKM = [*FIT, "-s", "site", "--drop", "patient", "--method", "dckm"]


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        (["fit", *FIT, "--drop", "patient"], ["restart 2 of 2", "objective", "baseline 1 of 1"]),
        (
            ["fit", *FIT, "-s", "site", "--drop", "patient"],
            ["candidate with common shares 1 of 1", "selected by BIC for ", "half 2 of 2"],
        ),
        (["fit", *BY_DCKM, "--adjust", "both"], ["initialization 3 of 3", "baseline 3 of 3"]),
        (["fit", *BY_DCKM, "--runs", "3"], ["run 3 of 3"]),
        (["compare", *FIT, "-s", "site", "--drop", "patient"], ["method "]),
        (["audit", "-s", "site"], ["column 1 of 1"]),
    ],
    ids=["fit", "mixture", "both", "runs", "compare", "audit"],
)
def test_a_terminal_sees_a_bar_and_a_summary(home, arguments, steps):
    """Progress is drawn and taken away, the result stays; no bar shows a dict."""
    verb, *options = arguments
    code, text = on_a_terminal(verb, "data.csv", *options)
    assert code == 0, text
    for words in steps:
        assert words in text
    assert "\u2501" in text  # a part of a bar
    assert "{'" not in text
    assert ("worthwhile" if verb == "audit" else "verdict") in text
    assert f"unskew {verb}: {steps[0]}:" not in text  # the line of a log


@pytest.mark.parametrize("verb", ["fit", "compare"])
def test_the_number_of_clusters_is_selected_without_runs(home, unskew, verb):
    how = ["data.csv", "-k", "auto", "--keep", "x*", "-s", "site", "--tol", "0.05", "--json"]
    code, out, err = unskew(verb, *how, "--n-init", "1", "--method", "dckm")
    assert code == 0, err
    assert "clusters tried" in err
    document = json.loads(out)
    choice = (document["result"] if verb == "fit" else document)["choice"]
    assert [each["value"] for each in choice["candidates"]] == list(range(2, 13))
    best = max(choice["candidates"], key=lambda each: each["silhouette"])
    assert choice["chosen"] == best["value"]
    found = document["result"]["clusters"] if verb == "fit" else document["comparison"]["rows"][-1][
        "sizes"
    ]  # fmt: skip
    assert len(found) == choice["chosen"]
    assert document["configuration"]["clusters"] == "auto"


def test_what_the_number_of_clusters_was_chosen_from_is_shown(home, unskew):
    how = ["fit", "data.csv", "-k", "auto", "--runs", "2", "--drop", "patient", "-s", "site"]
    how += ["--keep", "x0", "--keep", "x1", "--keep", "f0", "--tol", "0.05"]
    code, out, err = unskew(*how, "--json")
    assert code == 0
    assert "clusters tried" in err
    assert "candidate 1 of 11: silhouette" in err
    assert "--method dckm is used: --runs is an option of --method dckm" in err
    found = json.loads(out)["result"]
    choice = found["choice"]
    assert [each["value"] for each in choice["candidates"]] == list(range(2, 13))
    best = max(choice["candidates"], key=lambda each: each["silhouette"])
    assert choice["chosen"] == best["value"]
    assert len(found["clusters"]) == choice["chosen"]


def test_one_run_has_nothing_to_agree_with(home, unskew):
    how = ["fit", "data.csv", "-k", "2", "--runs", "1", "--drop", "patient", "-s", "site"]
    code, out, err = unskew(*how, "--json")
    assert code == 0
    assert "1, so agreement is undefined" in err
    assert json.loads(out)["result"]["stability"] is None


@pytest.mark.parametrize("verb", ["fit", "compare"])
def test_the_number_of_groups_of_a_mixture_is_selected_by_bic(home, unskew, verb):
    how = ["data.csv", "-k", "auto", "--keep", "x0", "--keep", "x1", "-s", "site", "--json"]
    code, out, err = unskew(verb, *how)
    assert code == 0, err
    assert "selected from 1 to" in err
    document = json.loads(out)
    choice = (document["result"] if verb == "fit" else document)["choice"]
    best = min(choice["candidates"], key=lambda each: each["bic"])
    assert choice["chosen"] == best["value"]


def test_the_method_depends_on_suspects_and_options(home, unskew):
    def method(*options):
        code, out, err = unskew("fit", "data.csv", *FIT, "--drop", "patient", "--json", *options)
        assert code == 0, err
        return json.loads(out)["result"]["method"]

    assert method() == method("-s", "site", "--adjust", "weights") == "DCKM"
    assert method("-s", "site") == method("--method", "mixture") == "SelectionMixture"
    assert method("-s", "site", "--method", "dckm") == "DCKM"
    for options, reason in (
        (["--adjust", "both"], "--adjust is an option of --method dckm"),
        (["--margin", "site:a=0.5"], "--margin is an option of --method dckm"),
    ):
        code, _, err = unskew(
            "fit", "data.csv", *FIT, "-s", "site", "--method", "mixture", *options
        )
        assert code == 2
        assert reason in err


def test_fit_and_compare_give_the_same_verdict(home, unskew):
    how = ["data.csv", *FIT, "--drop", "patient", "-s", "site", "--json"]
    for options in ([], ["--method", "dckm"]):
        fitted, compared = (
            json.loads(unskew(verb, *how, *options)[1]) for verb in ("fit", "compare")
        )
        assert fitted["verdict"] == compared["comparison"]["summary"]
        rows = {row["method"]: row["mean_difference"] for row in compared["comparison"]["rows"]}
        result = fitted["result"]
        assert rows[compared["comparison"]["method"]] == result["mean_difference_after"]
        assert rows["kmeans"] == result["mean_difference_before"]
