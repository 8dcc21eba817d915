"""Tasks, tables and the figure of the benchmark of sites."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from unskew.datasets import load_sites

from .. import render
from ..render import ResultTable
from ..runner import Task, made_by, run, write_rows
from .cases import QUICK, RATES, REAL, SIMULATED, real_case, simulated_case
from .evaluation import evaluate
from .methods import METHODS, installed_methods

SEEDS, QUICK_SEEDS = 10, 2
QUICK_RATES = (0.0, 0.8)
PEERS = [name for name, method in METHODS.items() if not method.own]
OWN = [name for name, method in METHODS.items() if method.own]


def run_real(title: str, rate: float, method: str, seed: int) -> list[dict]:
    return _run(real_case(title, rate, seed), method, seed)


def run_simulated(title: str, method: str, seed: int) -> list[dict]:
    return _run(simulated_case(title, seed), method, seed)


def _run(case: Any, method: str, seed: int) -> list[dict]:
    where = {"fit_on": case.fit_on, "judge_on": case.judge_on, "standardize": case.standardize}
    found = evaluate(*case[:4], **where, methods=[method], seed=seed)
    sizes = {"n_fitted": case.fit_on.size, "n_judged": case.judge_on.size, "K": case.K}
    return [{"seed": seed, **sizes, **row} for row in found]


def tasks_of(quick: bool, seeds: int) -> list[Task]:
    """One task per case, method and seed, so that every run is stored; seeds are the outer loop, so
    that an interrupted run has all cases."""
    tasks = []
    for seed in range(seeds):
        for title in REAL:
            for rate in QUICK_RATES if quick else RATES:
                for method in installed_methods():
                    arguments = {"title": title, "rate": rate, "method": method, "seed": seed}
                    tasks.append(Task("sites", title, method, run_real, {"rate": rate}, arguments))
        for title in QUICK if quick else SIMULATED:
            for method in installed_methods():
                arguments = {"title": title, "method": method, "seed": seed}
                tasks.append(Task("sites", title, method, run_simulated, {}, arguments))
    return tasks


def sites(folder: Path, cache: Path, *, quick: bool, command: str, **how: Any) -> list[Path]:
    """Run the benchmark; UNSKEW_SEEDS is the number of seeds (default 10, quick 2)."""
    import polars as pl

    for title in REAL:  # raise an error for missing files before the study begins
        load_sites(REAL[title][0])
    chosen = os.environ.get("UNSKEW_SEEDS")
    seeds = int(chosen) if chosen else QUICK_SEEDS if quick else SEEDS
    rows = run(tasks_of(quick, seeds), cache, **how)
    command = f"UNSKEW_SEEDS={chosen} {command}" if chosen else command
    rate = pl.col("settings").str.json_path_match("$.rate").cast(pl.Float64)
    rows = rows.with_columns(rate=rate)
    good = rows.filter(pl.col("status") == "ok")
    tables = [
        summary_table(good),
        difference_table(good),
        *(real_table(title, good) for title in REAL),
        simulated_table(good, "ari", "Simulated sites: population ARI"),
        simulated_table(good, "association", "Simulated sites: association with the suspect"),
        seconds_table(good),
        refusal_table(rows),
    ]
    write_rows(rows.to_dicts(), folder / "sites.parquet")
    figure = draw(good)
    paths = render.save_tables(
        folder, "sites", "Real and simulated sites", introduction(command, seeds, rows), tables
    )
    page = paths[0].read_text(encoding="utf-8")
    # The first table follows the figure, in the Markdown page only: HTML pages are self-contained.
    image = "![Population ARI over the rate of selection](sites.png)\n\n"
    render.save_text(paths[0], page.replace("### ", f"{image}### ", 1))
    figures = [render.save_figure(folder / f"sites.{kind}", figure) for kind in ("png", "svg")]
    return [*paths, *figures, folder / "sites.parquet"]


def introduction(command: str, seeds: int, rows: Any) -> str:
    import polars as pl

    packages = ("harmonypy", "combatlearn", "scanpy", "stepmix", "scikit-learn", "unskew")
    found, lacking = [], []
    for name in packages:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            lacking.append(name)
    failed = rows.filter(pl.col("status") == "failed").height
    return (
        f"{made_by(command)} {seeds} seed{'s' if seeds > 1 else ''}, {rows.height:,} runs, each "
        "stored in `sites.parquet`; "
        f"{failed} failed. Versions: {', '.join(found)}."
        f"{' Not installed: ' + ', '.join(lacking) + '.' if lacking else ''}\n\n"
        "Real data as they are (rate 0) and under graded selection: each group has a home site, "
        "other sites keep 1 - rate of its rows (`unskew.simulate.select_by_site`). Methods are "
        "fitted to the selection and judged on all rows by the adjusted Rand index with the true "
        "groups (population ARI). The number of groups is given. Simulated sites "
        "(`unskew.simulate.make_sites`): fitted to a biased sample of 1,000 rows, judged on a "
        "population of 1,000 rows in which group and site are independent, apart from pairs that "
        "do not exist.\n\n"
        "Expression data are reduced to 20 principal components of the fitted rows, all other "
        "columns are standardised; the cell lines, which come as principal components, are not, "
        "and once more are, like a table. The heart data are a table with "
        "categories and missing values; methods that take numbers only get mean-imputed numbers "
        "and indicators.\n\n"
        "Each method has one setting for all cases. Harmony, ComBat and CovBat are followed by "
        "k-means. Harmony and scanpy's ComBat have no rule for new rows: these get the cluster "
        "with the nearest mean among the means of their own site, the most generous mapping, "
        "which corrects effects that differ by group; combatlearn has a rule, which is used. Its "
        "CovBat returns the leading components with variance 1, which removes the differences in "
        "scale that k-means relies on. GaussianMixture does not see the site; its covariance type "
        "is that of lowest BIC. StepMix has the site as covariate of the class shares. DCKM, "
        "ConsensusDCKM and SelectionMixture have their defaults; SelectionMixture labels new rows "
        "with population shares."
    )


# ----------------------------------------------------------------------------------------- tables
def mean_and_error(values: Any) -> str | None:
    """Mean ± standard error over seeds."""
    values = values.drop_nulls()
    if not len(values):
        return None
    error = f" ± {values.std() / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{error}"


def present(good: Any) -> list[str]:
    found = set(good["method"])
    return [name for name in METHODS if name in found]


def rates_of(good: Any) -> list[float]:
    return sorted(good["rate"].drop_nulls().unique())


def summary_table(good: Any) -> ResultTable:
    """Means over the real data sets, and over the simulated cases that all methods take."""
    import polars as pl

    real = good.filter(pl.col("rate").is_not_null())
    simulated = good.filter(pl.col("rate").is_null() & pl.col("ari").is_not_null())
    takers = simulated.group_by("dataset").agg(pl.col("method").n_unique())
    common = takers.filter(pl.col("method") == len(present(good)))["dataset"].to_list()
    simulated = simulated.filter(pl.col("dataset").is_in(common))
    rates = rates_of(good)
    body = []
    for method in present(good):
        own = real.filter(pl.col("method") == method)
        # The mean of the data sets, each with the same weight.
        by = own.group_by("dataset", "rate").agg(
            pl.col("ari").mean(), pl.col("nmi").mean(), pl.col("seconds").median()
        )
        at = {r: by.filter(pl.col("rate") == r) for r in rates}
        body.append(
            [
                method,
                *(at[r]["ari"].mean() for r in rates),
                by["ari"].mean(),
                by["nmi"].mean(),
                by["ari"].min(),
                simulated.filter(pl.col("method") == method)["ari"].mean(),
                by["seconds"].median(),
            ]
        )
    columns = [
        *("method", *(f"ARI, rate {r:g}" for r in rates)),
        *("ARI, mean", "NMI, mean", "ARI, worst case", "ARI, simulated", "seconds, median"),
    ]
    note = (
        f"Means over {len(REAL)} real data sets with equal weights; simulated: mean over the "
        f"{len(common)} simulated cases that all methods take."
    )
    return ResultTable("All data sets", columns, body, note)


def difference_table(good: Any) -> ResultTable:
    """Each estimator of unskew minus the best peer, wins and losses alike."""
    import polars as pl

    mean = good.filter(pl.col("ari").is_not_null())
    mean = mean.group_by("dataset", "rate", "method").agg(pl.col("ari").mean())
    body = []
    for title in (*REAL, *SIMULATED):
        for rate in rates_of(good) if title in REAL else [None]:
            own_rate = pl.col("rate").is_null() if rate is None else pl.col("rate") == rate
            cell = mean.filter((pl.col("dataset") == title) & own_rate)
            ari = dict(cell.select("method", "ari").iter_rows())
            peers = {name: ari[name] for name in PEERS if name in ari}
            if not peers:
                continue
            best = max(peers, key=lambda name: peers[name])
            case = title if rate is None else f"{title}, rate {rate:g}"
            gaps = [f"{ari[m] - peers[best]:+.3f}" if m in ari else None for m in OWN]
            body.append([case, best, f"{peers[best]:.3f}", *gaps])
    wins = [
        sum(1 for row in body if row[3 + j] is not None and float(row[3 + j]) > 0.01)
        for j in range(len(OWN))
    ]
    losses = [
        sum(1 for row in body if row[3 + j] is not None and float(row[3 + j]) < -0.01)
        for j in range(len(OWN))
    ]
    body.append(
        ["better by > .01 / worse by > .01", "", "", *(f"{w} / {x}" for w, x in zip(wins, losses))]
    )
    return ResultTable(
        "Population ARI minus that of the best peer",
        ["case", "best peer", "its ARI", *OWN],
        body,
        "The best peer of each case is chosen with the truth, among all methods that are not "
        "unskew's: no single peer has these numbers.",
    )


def real_table(title: str, good: Any) -> ResultTable:
    import polars as pl

    rates = rates_of(good)
    cell = good.filter((pl.col("dataset") == title) & pl.col("rate").is_not_null())
    body = []
    for method in present(good):
        own = cell.filter(pl.col("method") == method)
        at = {r: own.filter(pl.col("rate") == r) for r in rates}
        body.append(
            [
                method,
                *(mean_and_error(at[r]["ari"]) for r in rates),
                *(_short(at[r]["nmi"].mean()) for r in rates),
                *(_short(at[r]["association"].mean()) for r in rates),
                _short(own["seconds"].median()),
            ]
        )
    true = cell["true_association"].mean() if cell.height else None
    sizes = ", ".join(
        f"{cell.filter(pl.col('rate') == r)['n_fitted'].mean():.0f} (rate {r:g})" for r in rates
    )
    columns = [
        "method",
        *(f"ARI, rate {r:g}" for r in rates),
        *(f"NMI, {r:g}" for r in rates),
        *(f"association, {r:g}" for r in rates),
        "seconds",
    ]
    note = (
        f"Fitted rows: {sizes}. Association: Cramer's V of the labels of all rows with the "
        f"suspect; that of the true groups is {_short(true)}."
    )
    return ResultTable(title, columns, body, note)


def _short(value: Any) -> str | None:
    return None if value is None else f"{value:.3f}"


def simulated_table(good: Any, what: str, title: str) -> ResultTable:
    import polars as pl

    simulated = good.filter(pl.col("rate").is_null())
    methods, body = present(good), []
    for case in SIMULATED:
        cell = simulated.filter(pl.col("dataset") == case)
        if not cell.height or not len(cell[what].drop_nulls()):
            continue
        line: list[Any] = [case]
        if what == "association":
            line.append(_short(cell["true_association"].mean()))
        for method in methods:
            values = cell.filter(pl.col("method") == method)[what]
            line.append(mean_and_error(values) if what == "ari" else _short(values.mean()))
        body.append(line)
    true = ["true groups"] if what == "association" else []
    note = "Empty: not applicable, see the end."
    return ResultTable(title, ["case", *true, *methods], body, note)


def seconds_table(good: Any) -> ResultTable:
    import polars as pl

    body = []
    for method in present(good):
        seconds = good.filter(pl.col("method") == method)["seconds"]
        body.append([method, *(_short(seconds.quantile(q)) for q in (0.5, 0.9, 1.0))])
    return ResultTable(
        "Seconds of fit and prediction, one thread",
        ["method", "median", "90 %", "largest"],
        body,
        "The machine was shared with other work; times are for orders of magnitude.",
    )


def refusal_table(rows: Any) -> ResultTable:
    import polars as pl

    refused = rows.filter(pl.col("status") != "ok")
    keys = ["method", "dataset", "status", "reason"]
    counts = refused.group_by(keys, maintain_order=True).len().sort("method", "dataset", "status")
    return ResultTable(
        "Not applicable or failed", [*keys, "runs"], [list(row) for row in counts.iter_rows()]
    )


# ----------------------------------------------------------------------------------------- figure
COLORS = {
    "DCKM weights": "#E69F00",
    "DCKM effects": "#56B4E9",
    "DCKM both": "#009E73",
    "ConsensusDCKM": "#CC79A7",
    "SelectionMixture": "#0050B0",
}
PEER_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">")


def draw(good: Any) -> Any:
    """Population ARI over the rate, one panel per data set; peers grey."""
    import polars as pl
    from matplotlib.figure import Figure

    rates = rates_of(good)
    place = np.arange(len(rates))
    width = 4
    height = -(-len(REAL) // width)
    figure = Figure(figsize=(3.4 * width, 3.1 * height + 1.0), layout="constrained")
    axes = figure.subplots(height, width, squeeze=False).ravel()
    for axis in axes[len(REAL) :]:
        axis.set_axis_off()
    handles = {}
    for axis, title in zip(axes, REAL):
        cell = good.filter((pl.col("dataset") == title) & pl.col("rate").is_not_null())
        for order, method in enumerate(present(good)):
            own = cell.filter(pl.col("method") == method)
            mean = [own.filter(pl.col("rate") == r)["ari"].mean() for r in rates]
            values = [np.nan if value is None else value for value in mean]
            if method in COLORS:
                look = {"color": COLORS[method], "marker": "o", "lw": 1.8, "ms": 4.5, "zorder": 3}
            else:
                look = {"color": "0.6", "marker": PEER_MARKERS[order % len(PEER_MARKERS)],
                        "lw": 0.9, "ms": 4.5, "mfc": "white", "zorder": 2}  # fmt: skip
            (handles[method],) = axis.plot(place, values, **look)
        axis.set_title(title, fontsize=10)
        axis.set_xticks(place, [f"{r:g}" for r in rates])
        highest = cell["ari"].max()
        # All panels have one of two scales.
        axis.set_ylim(-0.05, 1.03 if highest is None or highest > 0.5 else 0.515)
        axis.grid(axis="y", color="0.92")
        axis.spines[["top", "right"]].set_visible(False)
    for row in range(height):
        axes[row * width].set_ylabel("population ARI")
    for axis in axes[max(0, len(REAL) - width) : len(REAL)]:
        axis.set_xlabel("rate of selection")
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=7, frameon=False,
        fontsize=9,
    )  # fmt: skip
    return figure
