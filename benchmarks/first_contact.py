"""Public tables through the command line as a new user has them: audit, fit, compare, predict.

Tables come with installed packages (statsmodels, vega_datasets, ISLP, lifelines and others);
those of packages that are not installed are left out, and nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
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


def first_contact(folder: Path, cache: Path, *, quick: bool, command: str) -> list[Path]:
    """Run all tables serially; ``cache`` is not used."""
    codes, notes, errors = [], [], []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        tables = list(find_tables(Path(temporary)))[:: 4 if quick else 1]
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
        ResultTable("Exit codes", ["table", "suspect", "audit", "fit", "compare", "predict"], codes,
                    f"{len(errors)} errors."),
        ResultTable("Notes", ["table", "topic", "column", "text"], notes, ""),
        ResultTable("Errors", ["table", "command", "message"], errors, ""),
    ]  # fmt: skip
    return render.save_tables(
        folder, "first-contact", "Public tables at the first command", intro, parts
    )
