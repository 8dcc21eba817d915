"""The benchmark's machinery: stored rows, resuming, failures as rows, honest tables."""

import json
import os

import numpy as np
import pytest
from sklearn.cluster import KMeans

pl = pytest.importorskip("polars")

from benchmarks import defaults, methods, paper, render, runner, selection, verdict  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402
from unskew._io import FileError  # noqa: E402
from unskew.metrics import adjusted_rand_score  # noqa: E402

needs_data = pytest.mark.skipif(
    not os.environ.get("UNSKEW_DATA"), reason="UNSKEW_DATA is not set: the paper's data are absent"
)


def count_calls(folder, number, fail=False):
    """Leaves a mark, so that a second call shows."""
    (folder / f"called-{number}-{len(list(folder.iterdir()))}").touch()
    if fail:
        raise ValueError("strength=-1 should be >= 0")
    return [{"seed": s, "nmi": 0.5 + s} for s in range(2)]


def make_tasks(folder, numbers, failing=()):
    return [
        runner.Task(
            "study", "data", f"method {n}", count_calls, {"n": n},
            {"folder": folder, "number": n, "fail": n in failing},
        )
        for n in numbers
    ]  # fmt: skip


@pytest.fixture
def marks(tmp_path):
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"


def test_an_interrupted_run_continues_where_it_stopped(tmp_path, marks):
    runner.run(make_tasks(marks, [1, 2]), tmp_path / "parts", jobs=1)
    rows = runner.run(make_tasks(marks, [1, 2, 3]), tmp_path / "parts", jobs=1)
    assert len(list(marks.iterdir())) == 3  # 1 and 2 were not done again
    assert rows.height == 6
    assert set(rows["method"]) == {"method 1", "method 2", "method 3"}
    assert json.loads(rows["versions"][0])["unskew"]


def test_a_failed_task_is_a_row_with_its_reason(tmp_path, marks):
    tasks = make_tasks(marks, [1, 2], failing=[2])
    rows = runner.run(tasks, tmp_path / "parts", jobs=1)
    failed = rows.filter(rows["status"] == "failed")
    assert failed.height == 1
    assert "ValueError: strength=-1 should be >= 0 (test_benchmarks.py:" in failed["reason"][0]
    runner.run(tasks, tmp_path / "parts", jobs=1)
    assert len(list(marks.iterdir())) == 2
    runner.run(tasks, tmp_path / "parts", jobs=1, retry_failed=True)
    assert len(list(marks.iterdir())) == 3


def test_a_crash_while_writing_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    runner.write_rows([{"a": 1}], path)

    def full_disk(frame, target):
        target.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full_disk)
    with pytest.raises(FileError, match=r"x\.parquet: cannot be written: no space left"):
        runner.write_rows([{"a": 2}], path)
    assert list(tmp_path.iterdir()) == [path]
    assert pl.read_parquet(path)["a"].to_list() == [1]


def test_user_text_is_escaped_in_html_and_markdown():
    table = render.ResultTable("<script>", ["a|b"], [["<b>", 0.25]], "note & more")
    page = render.to_html("t <x>", "intro", [table])
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "&lt;b&gt;" in page
    assert "a\\|b" in render.to_markdown(table)
    assert render.to_csv([table]).splitlines()[1] == "<script>,<b>,0.2500"


def fake_rows():
    """Means that are known: DCKM .5, k-means .4 from random samples and .45 from a partition."""
    rows = []
    for name in ("dslr", "OH1"):
        for seed in range(2):
            noise = 0.01 * (-1) ** seed

            def add(method, start, nmi, noise=noise, seed=seed, name=name, **facts):
                rows.append(
                    {
                        "dataset": name, "method": method, "start": start, "seed": seed,
                        "status": "ok", "nmi": nmi + noise, "ari": nmi - 0.2 + noise,
                        "lambda1": None, "lambda2": None, "n_features": None, "consensus": None,
                        "effective_size": None, **facts,
                    }
                )  # fmt: skip

            for start, gain in (("random", 0.0), ("partition", 0.05)):
                add("k-means", start, 0.40 + gain)
                for method in ("PCA+KM", "Drop+KM", "Dec+KM"):
                    add(method, start, 0.35 + gain)
                for method in ("REFS", "FSASL", "RUFS"):
                    for m, extra in ((50, 0.0), (200, 0.06)):
                        add(method, start, 0.36 + gain + extra, n_features=m)
                add(paper.NO_BALANCE, start, 0.42 + gain, lambda1=0.0, lambda2=10.0)
                add("DCKM", start, 0.45 + gain, lambda1=0.01, lambda2=10.0)
                add("DCKM", start, 0.46 + gain, lambda1=0.1, lambda2=1.0)
    return pl.DataFrame(rows, infer_schema_length=None)


def test_shares_of_the_gain_add_up():
    table = paper.decomposition(paper.summarise(fake_rows()), ["dslr", "OH1"])
    for row in table.rows:
        *_, start, weighting, decorrelation, everything = row
        assert start + weighting + decorrelation == pytest.approx(everything)
    dslr = table.rows[0]
    assert dslr[2:6] == pytest.approx([0.40, 0.45, 0.47, 0.51])


def test_settings_are_chosen_with_labels_or_fixed():
    means = paper.summarise(fake_rows())
    best = paper.choose(means, "dslr", "DCKM", "partition", "labels")
    assert (best["lambda1"], best["nmi"]) == (0.1, pytest.approx(0.51))
    fixed = paper.choose(means, "dslr", "DCKM", "partition", "fixed")
    assert (fixed["lambda1"], fixed["nmi"]) == (0.01, pytest.approx(0.50))
    assert paper.choose(means, "dslr", "REFS", "random", "fixed")["n_features"] == 200


def test_conclusions_are_counted_under_equal_starts():
    verdicts = [row[1] for row in paper.conclusions(
        paper.summarise(fake_rows()), ["dslr", "OH1"], "partition"
    ).rows]  # fmt: skip
    assert verdicts == ["holds", "holds", "holds", "holds"]
    better = fake_rows().with_columns(
        pl.when(pl.col("method") == "REFS").then(0.9).otherwise(pl.col("nmi")).alias("nmi")
    )
    verdicts = [row[1] for row in paper.conclusions(
        paper.summarise(better), ["dslr", "OH1"], "partition"
    ).rows]  # fmt: skip
    assert verdicts[0] == "does not hold"
    assert verdicts[3] == "does not hold"


def test_gain_is_over_the_best_baseline_of_the_paper():
    table = paper.main_table(paper.summarise(fake_rows()), ["dslr"], "random", "labels")
    gain = table.rows[-1]
    assert gain[0] == "DCKM over the best baseline, %"
    assert gain[1] == pytest.approx(100 * (0.46 / 0.42 - 1))


def test_full_table_covers_the_papers_grid():
    tasks = paper.table_tasks(quick=False)
    dckm = [t for t in tasks if t.method == "DCKM"]
    assert len(dckm) == 7 * 2 * 36
    assert {t.arguments["seeds"] for t in tasks} == {20}
    assert {t.method for t in tasks} >= {*paper.OF_PAPER, *paper.PRACTICE}
    assert len({t.key for t in tasks}) == len(tasks)


def test_sensitivity_at_the_papers_mass_shares_the_tables_tasks():
    table = {t.file for t in paper.table_tasks(quick=False)}
    assert paper.dckm_task("dslr", "partition", 0.1, 10.0, 1.0, 20).file in table


def test_published_gain_of_the_text_is_not_that_of_its_table():
    # The paper's text says 25.1 %; from its own table it is 21.5 %.
    gains = [p["DCKM"][0] / p["k-means"][0] - 1 for p in paper.PUBLISHED.values()]
    assert np.mean(gains) == pytest.approx(0.215, abs=0.0005)


def test_bernoulli_mixture_finds_planted_groups(rng):
    y = rng.integers(0, 3, 300)
    X = (rng.random((300, 30)) < np.where(np.arange(30) // 10 == y[:, None], 0.8, 0.1)).astype(
        float
    )
    labels = max(
        (methods.BernoulliMixture(10, random_state=s).fit_predict(X) for s in range(3)),
        key=lambda found: methods.score_labels(y, found)["nmi"],
    )
    assert methods.score_labels(y, labels)["nmi"] > 0.5


def test_consensus_of_equal_partitions_is_that_partition(rng):
    labels = rng.integers(0, 10, 200)
    found = methods.consensus([labels, (labels + 3) % 10], 0)
    assert methods.score_labels(labels, found)["nmi"] == pytest.approx(1)


@pytest.mark.soak
def test_simulated_selection_compares_all_baselines():
    shape = {"n_clusters": 3, "n_core": 12, "n_footprint": 9}
    rows = selection.run_simulated("site footprint", 0.6, 0, shape)
    names = [row["method"] for row in rows]
    assert names == [*selection.METHODS, selection.TRUE_WEIGHTS, selection.CEILING]
    by_name = {row["method"]: row for row in rows}
    assert by_name[selection.CEILING]["agreement_with_unbiased"] == 1
    assert 0 < by_name["unskew, suspects named"]["effective_size"] <= 1
    assert "effective_size" not in by_name["k-means"]


@needs_data
def test_one_setting_of_the_table_on_real_data():
    rows = runner.perform(paper.dckm_task("dslr", "partition", 0.01, 10.0, 1.0, 2))
    assert [row["status"] for row in rows] == ["ok"] * 3
    assert [row.get("consensus") for row in rows] == [None, None, True]
    assert all(0.3 < row["nmi"] < 0.6 for row in rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["paper-table", "--jobs", "0"], "--jobs 0 should be >= 1"),
        (["speed", "--jobs", "2"], "do not apply to it"),
    ],
)
def test_bad_usage_is_one_line_and_code_two(words, message, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_unknown_name_lists_the_names(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["paper-tables"])
    assert stop.value.code == 2
    assert "paper-table" in capsys.readouterr().err


def test_missing_data_are_failed_rows_not_a_crash(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSKEW_DATA", str(tmp_path))
    rows = runner.perform(
        runner.Task(
            "s",
            "d",
            "m",
            methods.run_two_step,
            {},
            {"dataset": "nowhere", "method": "k-means", "seeds": 1},
        )
    )
    assert rows[0]["status"] == "failed"
    assert "nowhere" in rows[0]["reason"]


# ------------------------------------------------------------------------ answers without labels


def test_the_truth_of_a_verdict_is_the_change_against_kmeans_without_the_suspects():
    (row,) = verdict.run_case("binary", "few binary columns", 0.6, 1000, "weights")
    assert row["change"] == row["ari"] - row["kmeans_ari"]
    assert row["truth"] == "helped"
    assert row["change"] > 0.02
    # k-means from the model's clusters may have a lower inertia than its own solutions.
    case = verdict.make_case("binary", "few binary columns", 0.6, 1000)
    plain = KMeans(4, n_init=10, random_state=1000).fit(case.X[case.fit_on])
    found = adjusted_rand_score(case.truth[case.judge_on], plain.predict(case.X[case.judge_on]))
    assert row["kmeans_ari"] == pytest.approx(found, abs=0.05)


def test_accuracy_of_the_verdict_is_the_mean_over_its_words_where_it_answers():
    rows = [("helped", "helped")] * 8 + [("helped", "harmed")] * 2
    rows += [("no effect", "no effect")] * 5 + [("no effect", "helped")] * 5
    rows += [("harmed", "no effect")] * 10 + [("harmed", "cannot be told")] * 10
    table = pl.DataFrame(
        [{"truth": t, "word": w, "mode": "both", "kind": "real", "dataset": "a"} for t, w in rows]
    )
    # Random suspects count for their own column, and not for the accuracy.
    table = pl.concat([table, table[-1:].with_columns(kind=pl.lit("random suspect"))])
    *found, nothing = verdict.overview(table).rows[-1]
    assert (found[1], nothing) == (41, 0.0)
    table = table[:-1]
    _, n, wrong, interval, of_said, said, accuracy, answered, _, nothing = verdict.overview(
        table
    ).rows[-1]
    assert nothing is None
    assert found[6] == accuracy
    assert (n, said) == (40, 13)
    assert accuracy == pytest.approx((0.8 + 0.5 + 0.0) / 3)
    assert (wrong, of_said, answered) == (5 / 40, 5 / 13, 30 / 40)
    # Wilson's interval of 5 of 40, by hand.
    assert interval == "0.055 to 0.261"
    assert verdict.crossed(table).rows[2] == ["harmed", 0, 10, 0, 10]
    assert verdict.by_group(table, "kind").rows[0][5:] == [0.75, 13 / 30, 5]


def test_simulated_defaults_name_what_falls_short():
    values = {
        defaults.KM: 0.5, defaults.DROPPED: 0.6, defaults.REGRESSED: 0.7, defaults.BLIND: 0.4,
        defaults.NAMED: 0.8, defaults.CEILING: 0.95,
    }  # fmt: skip
    settings = '{"shape": "a", "rate": 0.6}'
    rows = pl.DataFrame(
        [{"settings": settings, "method": m, "population_ari": v, "size": 0.5}
         for m, v in values.items()]
    )  # fmt: skip
    table = defaults.simulated_table("footprint", rows)
    assert (
        "below k-means: 1; with suspects named more than 0.06 below the upper bound: 1"
        in table.note
    )


def test_first_contact_lists_notes_and_errors_of_each_command(tmp_path, monkeypatch):
    from benchmarks import first_contact

    monkeypatch.setattr(
        first_contact, "TABLES", {"sklearn": {"iris": None, "wine": "no such column"}, "none": {}}
    )
    cases = [case for case in first_contact.CASES if case[0] in ("formats", "identifiers")]
    monkeypatch.setattr(first_contact, "CASES", cases)
    monkeypatch.setattr(first_contact, "LARGE", 100)
    paths = first_contact.first_contact(tmp_path, tmp_path, quick=False, command="test")
    text = paths[0].read_text(encoding="utf-8")
    assert "| unskew columns poll.dta | exit 0, " in text
    assert "left out: 32 different values" in text
    iris = next(line for line in text.splitlines() if line.startswith("| sklearn iris |  |"))
    assert iris.count("| 0 (") == 4
    assert "| sklearn iris | whole numbers with few values | target | 0, 1, 2 |" in text
    assert text.count("--suspect 'no such column' is not one of its 14 columns") == 2
