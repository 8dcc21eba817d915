"""Public tables through the command line as a new user has them: audit, fit, compare, predict.

Tables come with installed packages (statsmodels, vega_datasets, ISLP, lifelines and others);
those of packages that are not installed are left out, and nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from unskew.cli import main as unskew

from . import render
from .render import ResultTable
from .runner import made_by

# Package -> table (without suffix .csv) -> suspect, or None.
TABLES = {
    "statsmodels": {
        "anes96/anes96": "TVnews",
        "ccard/ccard": "OWNRENT",
        "china_smoking/china_smoking": "Location",
        "committee/committee": None,
        "cpunish/cpunish": "SOUTH",
        "elnino/elnino": None,
        "engel/engel": None,
        "fair/fair": "religious",
        "fertility/fertility": None,
        "grunfeld/grunfeld": "firm",
        "heart/heart": "censors",
        "longley/longley": None,
        "macrodata/macrodata": "quarter",
        "modechoice/modechoice": "mode",
        "scotland/scotvote": None,
        "spector/spector": "PSI",
        "stackloss/stackloss": None,
        "star98/star98": None,
        "statecrime/statecrime": None,
        "strikes/strikes": None,
    },
    "vega_datasets": {
        "airports": None,
        "barley.json": "site",
        "burtin.json": None,
        "cars.json": "Origin",
        "driving.json": None,
        "iowa-electricity": "source",
        "seattle-weather": "weather",
        "us-employment": None,
    },
    "ISLP": {
        "Auto": "origin",
        "Bikeshare": None,
        "Carseats": "ShelveLoc",
        "College": "Private",
        "Hitters": "League",
        "OJ": "StoreID",
        "Publication": "mech",
        "Wage": "race",
    },
    "lifelines": {
        "canadian_senators": None,
        "dd": "regime",
        "gbsg2": "horTh",
        "lung": "inst",
        "rossi": "race",
    },
    "bokeh_sampledata": {"auto-mpg": "origin", "forensic_glass": None, "titanic_all": None},
    "palmerpenguins": {"penguins": "island", "penguins-raw": "Island"},
    "sklearn": {"iris": None, "wine": None, "breast_cancer": None, "diabetes": "sex"},
}
FOLDERS = {
    "ISLP": "data",
    "bokeh_sampledata": "_data",
    "lifelines": "datasets",
    "palmerpenguins": "data",
    "statsmodels": "datasets",
    "vega_datasets": "_data",
}
QUICK = 8  # tables with --quick
LARGE = 100_000  # rows of the large table among CASES
SECONDS = 120.0  # tables that begin later than this times their number are left out


def find_tables(folder: Path) -> Iterator[tuple[str, Path, str | None]]:
    """(name, file, suspect) of each table of an installed package; csv as it is in the package."""
    for package, tables in TABLES.items():
        spec = importlib.util.find_spec(package)  # does not import the package
        if spec is None or spec.origin is None:
            continue
        for name, suspect in tables.items():
            title = f"{package} {name.split('/')[-1].removesuffix('.json')}"
            own = folder / f"{title.replace(' ', '-')}.csv"
            if package == "sklearn":
                from sklearn import datasets

                getattr(datasets, f"load_{name}")(as_frame=True).frame.to_csv(own, index=False)
                yield title, own, suspect
                continue
            path = Path(spec.origin).parent / FOLDERS[package] / name
            if path.suffix != ".json":
                yield title, path.with_name(f"{path.name}.csv"), suspect
                continue
            import pandas as pd

            pd.DataFrame(json.loads(path.read_text(encoding="utf-8"))).to_csv(own, index=False)
            yield title, own, suspect


def call(*arguments: str) -> tuple[int, dict, str]:
    """(exit code, JSON document, standard error) of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = unskew([*arguments, "--json"])
    return code, json.loads(out.getvalue() or "{}"), err.getvalue()


def try_table(path: Path, suspect: str | None, folder: Path) -> tuple[list, list, list]:
    """Exit codes and seconds of the commands, notes and errors."""
    named = [] if suspect is None else ["--suspect", suspect]
    model, report = folder / "model.skops", folder / "report.html"
    how = ["-k", "3", *named]
    commands = {
        "audit": [str(path), *named],
        "fit": [str(path), *how, "--model", str(model), "--report", str(report)],
        "compare": [str(path), *how],
        "predict": [str(model), str(path)],
    }
    cells, notes, errors = [], [], []
    for verb, arguments in commands.items():
        begin = time.monotonic()
        code, document, err = call(verb, *arguments)
        cells.append(f"{code} ({time.monotonic() - begin:.1f} s)")
        if code:
            errors.append([verb, err.strip().splitlines()[-1]])
            if verb == "fit":
                break
        if verb == "fit":
            found = document.get("findings", ())
            notes += [[f["topic"], f["column"], f["text"]] for f in found]
        notes += [[f"warning of {verb}", "", text] for text in document.get("warnings", ())]
    return cells, notes, errors


# What stopped new users of the first version on 16 tables; commands that show what happens now, and
# the lines of their output that matter.
CASES = (
    ("many levels", "exit 2: column 'state' has 51 different values in 1000 rows; a category "
     "should have at most 50", [["columns", "poll.csv"], ["fit", "poll.csv", "-k", "3"]],
     r"^ *state|verdict"),
    ("identifiers", "a text identifier stopped fit, a numeric one was clustered on without a word; "
     "council tax (32 values in 32 rows) was an identifier", [["columns", "council.csv"]],
     r"^ (name|patient_id|council tax)"),
    ("integer codes", "race and party (8 = don't know) became numbers without a word",
     [["columns", "poll.csv"]], r"^ *(race|party)|whole numbers with few values  "),
    ("formats", "no .dta, .sav, .xlsx, .zip; the error said: name it with --format",
     [["columns", "poll.dta"], ["columns", "poll.zip"], ["columns", "poll.xyz"]],
     r"^ *party|xyz: "),
    ("repeated names", "an error", [["columns", "repeated.csv"]], r"^ *priors"),
    ("marks of missing values", "n/a, None, <NA>, #N/A, ?, . were not missing: six . made a column "
     "of numbers text", [["columns", "marks.csv"]], r"^ *(a|b|c|d)  "),
    ("number of clusters", "-k auto needed --runs, compare had no auto",
     [["fit", "poll.csv", "-k", "auto", "-s", "race"],
      ["compare", "poll.csv", "-k", "auto", "-s", "race"]], r"^clusters .*selected"),
    ("time", "fit of 1,000 x 8 took 18 s, 100,000 x 40 with report 136 s; the choice of k did not "
     "end in 6 minutes", [["fit", "eight.csv", "-k", "3", "-s", "site"],
     ["fit", "eight.csv", "-k", "auto", "-s", "site"],
     ["fit", "large.parquet", "-k", "3", "-s", "site", "--report", "large.html"]], r" s: "),
    ("configuration", "--config with a new report was refused; the message did not say which "
     "output clashes", [["fit", "eight.csv", "-k", "3", "--labels", "a.csv", "-q"],
      ["fit", "--config", "a.run.toml", "--report", "new.html", "-q"],
      ["fit", "--config", "a.run.toml", "-k", "4", "-q"]], r"config"),
    ("tables of results", "encoder_ printed TableEncoder(), results were lists of dicts",
     [["columns", "eight.csv"]], r"^ *(column|site)  "),
)  # fmt: skip


def make_cases(folder: Path) -> None:
    """The tables of CASES."""
    import zipfile

    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 1000
    poll = pd.DataFrame(
        {
            "state": [f"state {chr(65 + i % 26)}{i // 26}" for i in rng.permutation(n) % 51],
            "race": rng.integers(1, 6, n),
            "party": rng.choice([*range(5), 8], n),
            "age": rng.integers(18, 90, n),
            "income": np.exp(rng.normal(10, 1, n)).round(),
        }
    )
    poll.to_csv(folder / "poll.csv", index=False)
    poll.to_csv(folder / "poll.xyz", index=False)
    labels = {0: "none", 1: "left", 2: "centre", 3: "right", 4: "other", 8: "don't know"}
    poll.to_stata(folder / "poll.dta", write_index=False, value_labels={"party": labels})
    with zipfile.ZipFile(folder / "poll.zip", "w") as archive:
        archive.write(folder / "poll.csv", "poll.csv")
    council = pd.DataFrame(
        {
            "name": [f"Council {chr(65 + i)} of {i}" for i in range(32)],
            "patient_id": rng.permutation(10**6)[:32],
            "council tax": rng.permutation(2000)[:32] + 0.5,
            "yes": rng.random(32),
        }
    )
    council.to_csv(folder / "council.csv", index=False)
    rows = "".join(f"{a},{b},{a}\n" for a, b in rng.integers(0, 30, (100, 2)))
    (folder / "repeated.csv").write_text(f"priors,age,priors\n{rows}")
    marks = ["n/a,1,None,x", "2,<NA>,3,y", "4,5,#N/A,?", "6,.,7,y"]
    more = "".join(f"{i},{i * i % 17},{i % 5},{'xyz'[i % 3]}\n" for i in range(60))
    (folder / "marks.csv").write_text("a,b,c,d\n" + "\n".join(marks) + "\n" + more)
    for name, size, d in (("eight.csv", 1000, 7), ("large.parquet", LARGE, 39)):
        group, site = rng.integers(0, 3, size), rng.integers(0, 4, size)
        site = np.where(rng.random(size) < 0.5, group, site)
        centre, shift = rng.normal(0, 2, (3, d)), rng.normal(0, 0.7, (4, d))
        X = rng.normal(size=(size, d)) + centre[group] + shift[site]
        table = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])
        table = table.assign(site=np.array(list("abcd"))[site])
        table.to_csv(folder / name, index=False) if name.endswith("csv") else table.to_parquet(
            folder / name
        )


def try_cases(folder: Path) -> ResultTable:
    """Each case with the lines of the output of its commands, their exit codes and seconds."""
    make_cases(folder)
    rows = []
    with contextlib.chdir(folder):
        for title, before, commands, pattern in CASES:
            for arguments in commands:
                out, begin = io.StringIO(), time.monotonic()
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                    code = unskew(arguments)
                seconds = time.monotonic() - begin
                lines = [" ".join(line.split()) for line in out.getvalue().splitlines()
                         if re.search(pattern, line)]  # fmt: skip
                shown = f"exit {code}, {seconds:.1f} s. {'; '.join(lines)}".strip()
                rows.append([title, before, f"unskew {' '.join(arguments)}", shown])
                title = before = ""
    return ResultTable(
        "What stopped a new user",
        ["what", "before", "command", "now"],
        rows,
        "Lines of the output that show it. Tables are made by the same script.",
    )


def first_contact(folder: Path, cache: Path, *, quick: bool, command: str) -> list[Path]:
    """Run all tables serially; ``cache`` is not used."""
    codes, notes, errors = [], [], []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        tables = list(find_tables(Path(temporary)))[:: 4 if quick else 1]
        cases = [] if quick else [try_cases(Path(temporary))]
        for name, path, suspect in tables[: QUICK if quick else None]:
            if time.monotonic() - begin > SECONDS * len(tables):
                break
            cells, own, failed = try_table(path, suspect, Path(temporary))
            codes.append([name, suspect or "", *cells, *[""] * (4 - len(cells))])
            notes += [[name, *each] for each in own]
            errors += [[name, *each] for each in failed]
    intro = (
        f"{made_by(command)} {len(codes)} tables of installed packages, as they are in the "
        "packages, through four commands with default options (`-k 3`)."
    )
    parts = [
        *cases,
        ResultTable("Exit codes", ["table", "suspect", "audit", "fit", "compare", "predict"], codes,
                    f"{len(errors)} errors."),
        ResultTable("Notes", ["table", "topic", "column", "text"], notes, ""),
        ResultTable("Errors", ["table", "command", "message"], errors, ""),
    ]  # fmt: skip
    return render.save_tables(
        folder, "first-contact", "Public tables at the first command", intro, parts
    )
