"""unskew demo: eight methods on simulated data with one biased column."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from .._io import FileError
from . import _tables
from ._session import Session

KINDS = 4
# Adjusted Rand index in the population and in the sample, and two numbers about learned weights.
SCORES = ("population", "sample", "effective_size", "imbalance_left")
EXPLANATION = (
    "\nDropping the column does not help, because 36 other columns depend on the site. "
    "Regressing it out also removes part of the kinds, which shows in the sample.\n"
    "Effective size: effective sample size as a share of the rows. Imbalance left: remaining "
    "share of the association between site and the other columns.\n"
)


def demo(run: Session) -> int:
    """Compare eight methods on simulated data with one biased column.

    Patients of four kinds at four sites. Site and kind are associated in the sample and
    independent in the population; 40 columns depend on the kind, 36 on the site. Only the site is
    named as a suspect.
    """
    from ..diagnostics import diagnose
    from ..simulate import make_site_footprint

    rate, rows, samples, seed = (run.options[n] for n in ("rate", "rows", "samples", "seed"))
    if samples < 1:
        raise FileError(f"--samples {samples} should be >= 1")
    begin, results = time.monotonic(), []
    with run.outputs(record=False):
        for number in range(samples):
            words = f"sample {number + 1} of {samples}: simulating, eight methods"
            with run.step("demo", words):
                data = make_site_footprint(rows, rate=rate, random_state=seed + number)
                found, model, frame = score_methods(data, seed + number)
            results.append(found)
        with run.step("demo", "computing diagnostics"):
            diagnosed = diagnose(model, frame)
        run.write_report(diagnosed)
    means = {
        method: [_mean(found[method][i] for found in results) for i in range(len(SCORES))]
        for method in results[0]
    }
    seconds = time.monotonic() - begin
    of = f"mean of {samples} samples" if samples > 1 else "one sample"
    before = (
        f"{rows:,} patients, {KINDS} kinds, {KINDS} sites. Site and kind are associated in the "
        f"sample (rate {rate:g}) and independent in the population. Only `site` is named.\n"
        f"Agreement with the true kinds (adjusted Rand index, 1 = perfect), {of}:\n"
    )
    ending = _tables.facts(
        ("verdict", _tables.verdict_line(diagnosed.verdict)),
        ("report", run.written["report"]),
        ("time", f"{seconds:.0f} s"),
    )
    run.terminal.show(Group(before, scores_table(means), EXPLANATION, ending))
    run.document(
        rows=rows,
        rate=rate,
        samples=samples,
        methods=[{"method": n, **dict(zip(SCORES, values))} for n, values in means.items()],
        verdict=_tables.plain(diagnosed.verdict),
        seconds=round(seconds, 1),
    )
    return 0


def _mean(values: Any) -> float | None:
    given = [v for v in values if v is not None]
    return float(np.mean(given)) if given else None


def site_frame(data: Any, X: np.ndarray, site: np.ndarray) -> Any:
    """The simulated matrix as a table with one column `site` of strings."""
    import polars

    rest = len(data.core) + len(data.footprint)
    columns = {name: X[:, j].astype(np.int8) for j, name in enumerate(data.feature_names[:rest])}
    return polars.DataFrame({**columns, "site": [f"site {'ABCD'[s]}" for s in site]})


def score_methods(data: Any, seed: int) -> tuple[dict[str, tuple], Any, Any]:
    """name -> SCORES; the model with its table."""
    from sklearn.cluster import KMeans

    from .. import DCKM, SelectionMixture
    from ..baselines import RegressOutKMeans
    from ..metrics import adjusted_rand_score

    rest = np.r_[data.core, data.footprint]
    found: dict[str, tuple] = {}

    def add(name: str, fitted: Any, X: Any, X_population: Any, y: Any = data.y) -> None:
        learned: tuple[float | None, float | None] = (None, None)
        new: dict[str, Any] = {}
        if isinstance(fitted, DCKM):
            left = fitted.imbalance_ / fitted.initial_imbalance_
            learned = (float(fitted.effective_sample_size_), float(left))
        elif isinstance(fitted, SelectionMixture):
            learned, new = (float(fitted.effective_sample_size_), None), {"shares": "population"}
        found[name] = (
            float(adjusted_rand_score(data.y_population, fitted.predict(X_population, **new))),
            float(adjusted_rand_score(y, fitted.predict(X))),
            *learned,
        )

    plain = KMeans(KINDS, n_init=10, random_state=seed)
    add("k-means, all columns", plain.fit(data.X), data.X, data.X_population)
    X, population = data.X[:, rest], data.X_population[:, rest]
    add("k-means, site dropped", plain.fit(X), X, population)
    for name, predict_on in (
        ("site regressed out", "corrected"),
        ("... new rows not corrected", "raw"),
    ):
        regressed = RegressOutKMeans(
            KINDS, suspects=data.suspects, predict_on=predict_on, random_state=seed
        )
        add(name, regressed.fit(data.X), data.X, data.X_population)
    frame = site_frame(data, data.X, data.site)
    frame_population = site_frame(data, data.X_population, data.site_population)
    model = DCKM(KINDS, suspects=["site"], random_state=seed).fit(frame)
    both = DCKM(KINDS, suspects=["site"], adjust="both", random_state=seed).fit(frame)
    add("unskew, weights", model, frame, frame_population)
    add("unskew, weights and effects", both, frame, frame_population)
    mixture = SelectionMixture(KINDS, suspects=["site"], random_state=seed).fit(frame)
    add("unskew, selection mixture", mixture, frame, frame_population)
    X = data.X_unbiased[:, rest]
    add("k-means on unbiased data (upper bound)", plain.fit(X), X, population, data.y_unbiased)
    return found, model, frame


def scores_table(means: dict[str, list]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("population", no_wrap=True)
    for title in ("", "sample", "effective sample size", "imbalance left"):
        table.add_column(title, justify="right")
    for name, (population, *others) in means.items():
        style = "bold green" if name.startswith("unskew") else ""
        filled = round(20 * max(0.0, min(1.0, population)))
        bar = Text("━" * filled, style or "blue") + Text("·" * (20 - filled), "bright_black")
        table.add_row(
            Text(name, style),
            bar,
            Text(f"{population:.2f}", style),
            *map(_tables.number, others),
        )
    return table
