"""unskew demo: seven methods on simulated data with one biased column."""

from __future__ import annotations

import time
from typing import Annotated, Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from .._io import FileError
from . import _tables
from ._options import Option
from ._session import Session

KINDS = 4
REPORT = "unskew-demo.html"


def demo(
    run: Session,
    report: Annotated[
        str, Option(metavar="FILE", help="Report of the last fit: .html, .md or .json.")
    ] = REPORT,
    rate: Annotated[
        float, Option(help="Association of site and kind in the sample, below 1.")
    ] = 0.8,
    rows: Annotated[int, Option(help="Number of patients in a sample.")] = 2000,
    samples: Annotated[int, Option(help="Number of simulated samples to average over.")] = 3,
    seed: Annotated[int, Option(help="Seed of the first sample.")] = 0,
) -> int:
    """Compare seven methods on simulated data with one biased column.

    Patients of four kinds at four sites. Site and kind are associated in the sample and
    independent in the population; 40 columns depend on the kind, 36 on the site. Only the site is
    named as a suspect.
    """
    from ..diagnostics import diagnose
    from ..simulate import make_site_footprint
    from ._commands import _write_report

    if samples < 1:
        raise FileError(f"--samples {samples} should be >= 1")
    begin = time.monotonic()
    with run.outputs([], report=report, record=False):
        results = []
        for number in range(samples):
            with (
                run.about("demo"),
                run.terminal.working(
                    f"sample {number + 1} of {samples}: simulating, seven methods"
                ),
            ):
                data = make_site_footprint(rows, rate=rate, random_state=seed + number)
                found, model, frame = score_methods(data, seed + number)
            results.append(found)
        with run.about("demo"), run.terminal.working("computing diagnostics"):
            about_fit = diagnose(model, frame)
        _write_report(run, about_fit, report)
    means = {
        name: [_mean(found[name][i] for found in results) for i in range(4)] for name in results[0]
    }
    seconds = time.monotonic() - begin
    run.terminal.show(story(means, rows, rate, samples, about_fit, run.written["report"], seconds))
    names = ("population", "sample", "effective_size", "imbalance_left")
    run.document(
        rows=rows,
        rate=rate,
        samples=samples,
        methods=[{"method": n, **dict(zip(names, values))} for n, values in means.items()],
        verdict=_tables.verdict(about_fit),
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
    """name -> (ARI in the population, in the sample, effective size, imbalance left); the model
    with its table."""
    from sklearn.cluster import KMeans

    from .. import DCKM
    from ..baselines import RegressOutKMeans
    from ..metrics import adjusted_rand_score

    rest = np.r_[data.core, data.footprint]

    def decide(fitted: Any, X: Any, X_population: Any, y: Any = data.y) -> tuple:
        return (
            float(adjusted_rand_score(data.y_population, fitted.predict(X_population))),
            float(adjusted_rand_score(y, fitted.predict(X))),
            None,
            None,
        )

    plain = KMeans(KINDS, n_init=10, random_state=seed)
    found = {"k-means, all columns": decide(plain.fit(data.X), data.X, data.X_population)}
    found["k-means, site dropped"] = decide(
        plain.fit(data.X[:, rest]), data.X[:, rest], data.X_population[:, rest]
    )
    for words, predict_on in [
        ("site regressed out", "corrected"),
        ("... new rows not corrected", "raw"),
    ]:
        regressed = RegressOutKMeans(
            KINDS, suspects=data.suspects, predict_on=predict_on, random_state=seed
        ).fit(data.X)
        found[words] = decide(regressed, data.X, data.X_population)
    frame = site_frame(data, data.X, data.site)
    model = DCKM(KINDS, suspects=["site"], random_state=seed).fit(frame)
    population = site_frame(data, data.X_population, data.site_population)
    found["unskew, weights"] = (
        *decide(model, frame, population)[:2],
        float(model.effective_sample_size_),
        float(model.imbalance_ / model.initial_imbalance_),
    )
    both = DCKM(KINDS, suspects=["site"], adjust="both", random_state=seed).fit(frame)
    found["unskew, weights and effects"] = (
        *decide(both, frame, population)[:2],
        float(both.effective_sample_size_),
        float(both.imbalance_ / both.initial_imbalance_),
    )
    found["k-means on unbiased data (upper bound)"] = decide(
        plain.fit(data.X_unbiased[:, rest]),
        data.X_unbiased[:, rest],
        data.X_population[:, rest],
        data.y_unbiased,
    )
    return found, model, frame


def story(
    means: dict[str, list], rows: int, rate: float, samples: int, found: Any, path: str, s: float
) -> Group:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("population", no_wrap=True)
    for title in ("", "sample", "effective sample size", "imbalance left"):
        table.add_column(title, justify="right")
    for name, (population, sample, size, left) in means.items():
        style = "bold green" if name.startswith("unskew") else ""
        share = max(0.0, min(1.0, population))
        filled = round(20 * share)
        bar = Text("━" * filled, style or "blue") + Text("·" * (20 - filled), "bright_black")
        table.add_row(
            Text(name, style),
            bar,
            Text(f"{population:.2f}", style),
            f"{sample:.2f}",
            _tables._number(size),
            _tables._number(left),
        )
    of = f"mean of {samples} samples" if samples > 1 else "one sample"
    before = Text(
        f"{rows:,} patients, {KINDS} kinds, {KINDS} sites. Site and kind are associated in the "
        f"sample (rate {rate:g}) and independent in the population. Only `site` is named.\n"
        f"Agreement with the true kinds (adjusted Rand index, 1 = perfect), {of}:\n"
    )
    after = Text(
        "\nDropping the column does not help, because 36 other columns depend on the site. "
        "Regressing it out also removes part of the kinds, which shows in the sample.\n"
        "Effective size: effective sample size as a share of the rows. Imbalance left: remaining "
        "share of the association between site and the other columns.\n"
    )
    ending = _tables._facts()
    ending.add_row("verdict", _tables._verdict_line(found.verdict.word, found.verdict.sentence))
    ending.add_row("report", path)
    ending.add_row("time", f"{s:.0f} s")
    return Group(before, table, after, ending)
