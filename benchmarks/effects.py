"""Effects of suspects: weights, effects and both compared with baselines, and the selection of the
initialization."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from unskew.baselines import PlainKMeans, RegressOutKMeans
from unskew.datasets import load_nhanes, load_surf
from unskew.dckm import DCKM
from unskew.diagnostics._measure import explained_variance
from unskew.diagnostics._view import view_of_fit
from unskew.metrics import adjusted_rand_score, association
from unskew.simulate import make_site_footprint, make_tinted_digits, select_with_bias

from . import render
from .render import ResultTable
from .runner import Task, made_by, run, write_rows
from .tables import COLUMNS as NHANES_COLUMNS

INIT = {"init": "k-means++", "n_init": 10}
MODES = ("weights", "effects", "both")
FOOTPRINTS = [(36, 0.0), (36, 0.6), (36, 0.8), (36, 0.9), (36, 0.95), (60, 0.8), (60, 0.9)]
DIGITS = [
    (classes, sites, tint, rate)
    for classes, sites in ((10, 2), (4, 4))
    for tint in (0.3, 1.0)
    for rate in (0.0, 0.6, 0.9)
]
TWISTS = (0.25, 0.5, 1.0)
# Not used in the design of the selection rule.
FRESH_DIGITS = [
    (classes, sites, tint, rate)
    for classes, sites in (((0, 1, 6, 7), 3), ((1, 2, 4, 5, 8, 9), 2))
    for tint in (0.2, 0.5, 0.8)
    for rate in (0.3, 0.75, 0.9)
]


def score_modes(data: Any, K: int, clean: Any, unbiased: Any, seed: int) -> list[dict]:
    """Population ARI of all methods on one sample."""
    rest = np.setdiff1d(np.arange(data.X.shape[1]), data.suspects)
    rows = []

    def add(method: str, labels: np.ndarray, truth: np.ndarray, model: Any = None, **more: Any):
        row = {"seed": seed, "method": method, "population_ari": adjusted_rand_score(truth, labels)}
        row["effective_size"] = getattr(model, "effective_sample_size_", None)
        rows.append(row | more)

    def plain(X: np.ndarray) -> PlainKMeans:
        return PlainKMeans(K, random_state=seed, **INIT).fit(X)

    truth = data.y_population
    add("k-means", plain(data.X).predict(data.X_population), truth)
    new = data.X_population[:, rest]
    add("suspects dropped", plain(data.X[:, rest]).predict(new), truth)
    model = RegressOutKMeans(K, suspects=data.suspects, random_state=seed, **INIT).fit(data.X)
    add("suspects regressed out", model.predict(data.X_population), truth)
    for mode in MODES:
        model = DCKM(K, suspects=data.suspects, adjust=mode, random_state=seed, **INIT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data.X)
        chosen = [one["restart"] for one in getattr(model, "restarts_", []) if one["chosen"]]
        add(mode, model.predict(data.X_population), truth, model, start="".join(chosen) or None)
    if unbiased is not None:
        add("k-means on unbiased data", plain(unbiased).predict(new), truth)
    if clean is not None:
        add("k-means on clean data", plain(clean).labels_, data.y)
    return rows


def run_footprint(n_footprint: int, rate: float, interaction: float, seed: int) -> list[dict]:
    data = make_site_footprint(
        2000, n_footprint=n_footprint, rate=rate, interaction=interaction, random_state=seed
    )
    rest = np.r_[data.core, data.footprint]
    return score_modes(data, 4, data.X[:, data.core], data.X_unbiased[:, rest], seed)


def run_digits(classes: Any, n_sites: int, tint: float, rate: float, seed: int) -> list[dict]:
    classes = range(classes) if isinstance(classes, int) else classes
    data = make_tinted_digits(
        classes=classes, n_sites=n_sites, tint=tint, rate=rate, random_state=seed
    )
    return score_modes(data, len(classes), data.X_clean, None, seed)


def run_digits_unbiased(
    classes: Any, n_sites: int, tint: float, rate: float, seed: int
) -> list[dict]:
    """k-means on the same tinted images with sites that are independent of the digit."""
    classes = range(classes) if isinstance(classes, int) else classes
    data = make_tinted_digits(
        classes=classes, n_sites=n_sites, tint=tint, rate=rate, random_state=seed
    )
    X = np.delete(data.X_population, data.suspects, axis=1)
    found = PlainKMeans(len(classes), random_state=seed, **INIT).fit(X).labels_
    return [{"seed": seed, "population_ari": adjusted_rand_score(data.y_population, found)}]


def run_no_bias(seed: int) -> list[dict]:
    """No bias and no effect of the site: the correction should do no harm."""
    data = make_site_footprint(2000, rate=0.0, random_state=seed)
    keep = np.r_[data.core, data.suspects]
    data.X, data.X_population = data.X[:, keep], data.X_population[:, keep]
    data.suspects = np.arange(data.core.size, keep.size)
    return score_modes(data, 4, None, None, seed)


def run_real(name: str, seed: int) -> list[dict]:
    """Association with the suspect at design weights, explained variance, stability."""
    if name == "NHANES":
        raw = load_nhanes()
        chosen = np.random.default_rng(seed).permutation(len(raw.frame))[:6000]
        X, a = raw.frame[NHANES_COLUMNS].iloc[chosen], raw.sample_weight[chosen]
        K, suspects, attribute = 6, ["Race1"], raw.frame["Race1"].to_numpy()[chosen]
    else:
        pooled = load_surf()
        domain = np.unique(pooled.domain, return_inverse=True)[1]
        picked = select_with_bias(
            pooled.data, pooled.target, domain, 0.8, n_samples=1200, random_state=seed
        )
        used = (picked.X > 0).mean(0) > 0.01
        X = np.c_[(picked.X[:, used] > 0), np.eye(4)[picked.attribute]].astype(np.float64)
        K, a, attribute = 10, np.ones(len(X)), picked.attribute
        suspects = np.arange(X.shape[1] - 4, X.shape[1])
    rows = []
    for mode in ("k-means", *MODES):
        how = {"suspects": suspects, "init": "k-means++", "n_init": 3}
        how |= (
            {"balance_strength": 0, "spread_strength": 1e6}
            if mode == "k-means"
            else {"adjust": mode}
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one, other = (
                DCKM(K, random_state=s, **how).fit(X, sample_weight=a) for s in (seed, seed + 100)
            )
        rows.append(
            {
                "seed": seed,
                "method": mode,
                "association": association(one.labels_, attribute, sample_weight=a),
                "explained": explained_variance(view_of_fit(one, X, a), one.labels_),
                "stability": adjusted_rand_score(one.labels_, other.labels_),
                "effective_size": one.effective_sample_size_,
            }
        )
    return rows


def tasks_of(quick: bool) -> list[Task]:
    seeds = range(1 if quick else 10)
    tasks = []

    def add(dataset: str, function: Any, settings: dict, method="all", **arguments: Any) -> None:
        tasks.append(Task("effects", dataset, method, function, settings, arguments))

    def add_digits(dataset: str, facts: dict, classes: Any, n_sites: int, tint, rate, seed) -> None:
        case = {"classes": classes, "n_sites": n_sites, "tint": tint, "rate": rate, "seed": seed}
        add(dataset, run_digits, facts, **case)
        add(dataset, run_digits_unbiased, facts, "k-means on unbiased data", **case)

    for seed in seeds:
        for n_footprint, rate in FOOTPRINTS[3:4] if quick else FOOTPRINTS:
            facts = {"footprint": n_footprint, "rate": rate}
            add("footprint", run_footprint, facts, n_footprint=n_footprint, rate=rate,
                interaction=0.0, seed=seed)  # fmt: skip
        for classes, n_sites, tint, rate in DIGITS[6:8] if quick else DIGITS:
            facts = {"classes": classes, "sites": n_sites, "tint": tint, "rate": rate}
            add_digits("tinted digits", facts, classes, n_sites, tint, rate, seed)
        add("no bias, no footprint", run_no_bias, {}, seed=seed)
        if quick:
            continue
        if seed < 5:
            for interaction in TWISTS:
                add("footprint with interactions", run_footprint, {"interaction": interaction},
                    n_footprint=36, rate=0.8, interaction=interaction, seed=seed)  # fmt: skip
            for classes, n_sites, tint, rate in FRESH_DIGITS:
                facts = {"classes": len(classes), "sites": n_sites, "tint": tint, "rate": rate}
                title = "tinted digits, not used to make the rule"
                add_digits(title, facts, classes, n_sites, tint, rate, seed)
        if seed < 3:
            add("NHANES", run_real, {}, name="NHANES", seed=seed)
            add("pooled SURF", run_real, {}, name="SURF", seed=seed)
    return tasks


def effects(folder: Path, cache: Path, *, quick: bool, command: str, **how: Any) -> list[Path]:
    import polars as pl

    if not quick:  # raise an error for missing files before the study begins
        load_nhanes(), load_surf()
    rows = run(tasks_of(quick), cache, **how)
    good = rows.filter(pl.col("status") == "ok")
    failed = rows.filter(pl.col("status") == "failed")
    tables = []
    for dataset, group in good.group_by("dataset", maintain_order=True):
        cells = list(group.group_by("settings", maintain_order=True))
        if dataset[0] in ("NHANES", "pooled SURF"):
            tables.append(_real_table(dataset[0], group))
            continue
        methods = list(dict.fromkeys(group["method"]))
        body = []
        for (settings,), cell in cells:
            facts = ", ".join(f"{k} {v}" for k, v in json.loads(settings).items())
            mean = dict(cell.group_by("method").agg(pl.col("population_ari").mean()).iter_rows())
            size = cell.filter(pl.col("method") == "both")["effective_size"].mean()
            baseline = max(mean[m] for m in ("suspects regressed out", "weights", "effects"))
            starts = cell.filter(pl.col("method") == "both")["start"].value_counts(sort=True)
            text = ", ".join(f"{name} {count}" for name, count in starts.iter_rows())
            body.append(
                [facts, *(mean.get(m) for m in methods), mean["both"] - baseline, size, text]
            )
        columns = [
            "case",
            *methods,
            "both - best of three",
            "effective size (both)",
            "initialization selected",
        ]
        tables.append(ResultTable(dataset[0], columns, body))
    intro = (
        f"{made_by(command)} Population ARI, means over seeds. `both - best of three`: compared "
        "with the best of regressed out, weights and effects, which is selected with labels. "
        f"{failed.height} tasks failed."
        + "".join(f"\n\nFailed: {r['dataset']}: {r['reason']}" for r in failed.to_dicts())
    )
    write_rows(rows.to_dicts(), folder / "effects.parquet")
    paths = render.save_tables(folder, "effects", "Weights and effects of suspects", intro, tables)
    return [*paths, folder / "effects.parquet"]


def _real_table(name: str, group: Any) -> ResultTable:
    import polars as pl

    shown = {"association": "association with the suspect", "explained": "explained variance",
             "stability": "agreement of two seeds", "effective_size": "effective size"}  # fmt: skip
    means = group.group_by("method", maintain_order=True).agg([pl.col(c).mean() for c in shown])
    body = [[row["method"], *(row[c] for c in shown)] for row in means.iter_rows(named=True)]
    note = "Association and explained variance (of the raw columns) under the design weights."
    return ResultTable(name, ["mode", *shown.values()], body, note)
