"""Accuracy of the verdict, on data with known groups that were not used in its design."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from unskew import DCKM, ConsensusDCKM, SelectionMixture
from unskew.datasets import load_sites
from unskew.diagnostics import diagnose
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_site_footprint, make_tinted_digits

from . import render
from .render import ResultTable
from .runner import Task, made_by, run, write_rows
from .sites.cases import RATES, REAL, SIMULATED, Case, real_case, simulated_case
from .sites.evaluation import as_suspects, prepare
from .sites.methods import Rows, take

SEEDS, QUICK_SEEDS = 2, 1
# Further seeds of the default model, because few fits are harmed.
MORE_SEEDS = 3
# Seeds of the design of the rules were 100 to 310, 1000 to 1003, 3000, 3001, 5000 to 5002, 6000,
# 6001, 7000 to 7004 and 8000 to 8004.
FIRST_SEED = 9000
WORDS = ("helped", "no effect", "harmed", "cannot be told")
# A change of the population ARI within this is no effect.
NOTHING = 0.02
FOOTPRINTS = {
    "binary columns": {"n_samples": 2000},
    "few binary columns": {"n_samples": 1000, "n_core": 20, "n_footprint": 16},
}
BIASED_RATES = (0.25, 0.6, 0.8, 0.9)
# Data sets without a group structure have no truth.
WITHOUT_TRUTH = ("no groups",)
MODELS = {
    "mixture": lambda K, **how: SelectionMixture(K, **how),
    "weights": lambda K, **how: DCKM(K, adjust="weights", n_threads=1, **how),
    "both": lambda K, **how: DCKM(K, adjust="both", n_threads=1, **how),
    "consensus": lambda K, **how: ConsensusDCKM(K, n_threads=1, **how),
}

DEFAULT = "mixture"


def make_case(kind: str, title: str, rate: float, seed: int) -> Case:
    if kind == "real sites":
        return real_case(title, rate, seed)
    if kind == "simulated sites":
        return simulated_case(title, seed)
    if kind == "random suspect":  # of 2 to 5 values, on the rows of a real data set
        levels = 2 + seed % 4
        case = real_case(title, 0.0, seed)
        site = np.random.RandomState(seed).randint(levels, size=len(case.truth))
        return case._replace(site=site)
    if kind == "digits":
        data = make_tinted_digits(rate=rate, random_state=seed)
    else:
        data = make_site_footprint(rate=rate, random_state=seed, **FOOTPRINTS[title])
    rest = np.setdiff1d(np.arange(data.X.shape[1]), data.suspects)
    n, m = len(data.y), len(data.y_population)
    return Case(
        np.vstack([data.X[:, rest], data.X_population[:, rest]]),
        np.concatenate([data.site, data.site_population]),
        np.concatenate([data.y, data.y_population]),
        len(np.unique(data.y)),
        np.arange(n),
        np.arange(n, n + m),
        True,
    )


def run_case(kind: str, title: str, rate: float, seed: int, mode: str) -> list[dict]:
    case = make_case(kind, title, rate, seed)
    if kind in ("binary", "digits"):  # columns have a common unit
        matrix, table = np.asarray(case.X, dtype=np.float64), None
    else:
        matrix, table = prepare(case.X, case.fit_on, case.standardize)
    rows = Rows(matrix, table, as_suspects(case.site), case.fit_on, case.judge_on)
    X, suspects = rows.with_suspects()
    fitted, truth = take(X, rows.fit), case.truth[case.judge_on]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[mode](case.K, suspects=suspects, random_state=seed).fit(fitted)
        new = {"shares": "population"} if mode == "mixture" else {}
        found = model.predict(take(X, rows.judge), **new)
        judged = diagnose(model, fitted)
        plain = best_kmeans(rows, case.K, model.labels_, seed)
    ari = adjusted_rand_score(truth, found)
    kmeans_ari = adjusted_rand_score(truth, plain)
    change = ari - kmeans_ari
    evidence = json.dumps(asdict(judged.evidence), default=float)
    word = "no effect" if abs(change) <= NOTHING else "helped" if change > 0 else "harmed"
    return [
        {"kind": kind, "mode": mode, "seed": seed, "rate": rate, "ari": ari, "change": change,
         "kmeans_ari": kmeans_ari, "truth": word, "word": judged.verdict.word,
         "sentence": judged.verdict.sentence, "evidence": evidence}
    ]  # fmt: skip


def best_kmeans(rows: Rows, K: int, labels: np.ndarray, seed: int) -> np.ndarray:
    """Population labels of k-means without the suspects: the best of ten initializations and of one
    with the model's clusters, so that a poor local minimum is not taken for a difference."""
    X = rows.X[rows.fit]
    means = pd.DataFrame(X).groupby(labels).mean().to_numpy()
    fits = [KMeans(K, n_init=10, random_state=seed).fit(X)]
    if len(means) == K:
        fits.append(KMeans(K, n_init=1, init=means).fit(X))
    return min(fits, key=lambda one: one.inertia_).predict(rows.X[rows.judge])


def tasks_of(seeds: int, more: int = 0) -> list[Task]:
    """``more``: number of further seeds of the default model."""
    cases: list[tuple] = [("real sites", title, rate) for title in REAL for rate in RATES]
    cases += [("simulated sites", title, 0.8) for title in SIMULATED if title not in WITHOUT_TRUTH]
    cases += [("random suspect", title, 0.0) for title in REAL]
    cases += [("binary", title, rate) for title in FOOTPRINTS for rate in BIASED_RATES]
    cases += [("digits", "tinted digits", rate) for rate in BIASED_RATES]
    return [
        Task("verdict", title, mode, run_case, {"rate": rate, "kind": kind},
             {"kind": kind, "title": title, "rate": rate, "seed": FIRST_SEED + seed, "mode": mode})
        for seed in range(seeds + more)
        for kind, title, rate in cases
        for mode in (MODELS if seed < seeds else [DEFAULT])
    ]  # fmt: skip


def verdict(folder: Path, cache: Path, *, quick: bool, command: str, **how: Any) -> list[Path]:
    """Run the study; UNSKEW_SEEDS is the number of seeds (default 2, quick 1); three
    further seeds of the default model are run unless quick."""
    import polars as pl

    for title in REAL:  # raise an error for missing files before the study begins
        load_sites(REAL[title][0])
    chosen = os.environ.get("UNSKEW_SEEDS")
    seeds = int(chosen) if chosen else QUICK_SEEDS if quick else SEEDS
    rows = run(tasks_of(seeds, 0 if quick else MORE_SEEDS), cache, **how)
    command = f"UNSKEW_SEEDS={chosen} {command}" if chosen else command
    write_rows(rows.to_dicts(), folder / "verdict.parquet")
    good = rows.filter(pl.col("status") == "ok")
    failed = rows.height - good.height
    intro = (
        f"{made_by(command)} {good.height:,} fits, {failed} failed; every one is stored in "
        "`verdict.parquet`. The rules were designed on other samples and selections (seeds) of the "
        "same data sets and generators.\n\n"
        "Truth: population ARI of the model minus that of k-means without the suspects (the best "
        "of ten initializations and of one with the model's clusters). More than 0.02 is helped, "
        "less than -0.02 harmed. Balanced accuracy is the mean of the three shares of right words, "
        'among the fits for which a word other than "cannot be told" is given.'
    )
    tables = [overview(good), crossed(good), by_group(good, "kind"), by_group(good, "dataset")]
    paths = render.save_tables(folder, "verdict", "Accuracy of the verdict", intro, tables)
    return [*paths, folder / "verdict.parquet"]


def wilson(hits: int, n: int) -> str:
    """95 % interval of a share."""
    if n == 0:
        return ""
    z, p = 1.96, hits / n
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return f"{max(0.0, centre - half):.3f} to {min(1.0, centre + half):.3f}"


def balanced_accuracy(truth: np.ndarray, word: np.ndarray) -> float:
    answered = word != "cannot be told"
    shares = [
        float((word == one)[answered & (truth == one)].mean())
        for one in WORDS[:3]
        if (answered & (truth == one)).any()
    ]
    return float(np.mean(shares)) if shares else float("nan")


def overview(rows: Any) -> ResultTable:
    body = []
    modes = [*MODELS, "all"]
    for mode in modes:
        own = rows if mode == "all" else rows.filter(rows["mode"] == mode)
        if own.height == 0:
            continue
        truth, word = own["truth"].to_numpy(), own["word"].to_numpy()
        wrong = int(((word == "helped") & (truth != "helped")).sum())
        said, n = int((word == "helped").sum()), len(word)
        answered = int((word != "cannot be told").sum())
        random = (own["kind"] == "random suspect").to_numpy()
        nothing = float((word[random] == "no effect").mean()) if random.any() else None
        body.append(
            [mode, n, wrong / n, wilson(wrong, n), wrong / said if said else None, said,
             balanced_accuracy(truth[~random], word[~random]), answered / n, wilson(answered, n),
             nothing]
        )  # fmt: skip
    columns = ["model", "fits", "wrongly helped, of all", "95 %", "of those said", "helped said",
               "balanced accuracy", "answered", "95 %", "random suspect: no effect"]  # fmt: skip
    note = (
        "Balanced accuracy without random suspects, of which the word should be no effect whatever "
        "the difference between a mixture and k-means is."
    )
    return ResultTable("Overview", columns, body, note)


def crossed(rows: Any) -> ResultTable:
    truth, word = rows["truth"].to_numpy(), rows["word"].to_numpy()
    body = [
        [one, *(int(((truth == one) & (word == said)).sum()) for said in WORDS)]
        for one in WORDS[:3]
    ]
    return ResultTable("Truth and verdict", ["truth", *WORDS], body, "Number of fits.")


def by_group(rows: Any, column: str) -> ResultTable:
    body = []
    for value in sorted(set(rows[column])):
        own = rows.filter(rows[column] == value)
        truth, word = own["truth"].to_numpy(), own["word"].to_numpy()
        answered = word != "cannot be told"
        right = float((truth == word)[answered].mean()) if answered.any() else None
        wrong = int(((word == "helped") & (truth != "helped")).sum())
        shares = [float((truth == one).mean()) for one in WORDS[:3]]
        body.append([value, len(word), *shares, float(answered.mean()), right, wrong])
    columns = [column, "fits", *(f"truth: {one}" for one in WORDS[:3]), "answered",
               "right, of the answered", "wrongly helped"]  # fmt: skip
    return ResultTable(f"By {'data set' if column == 'dataset' else column}", columns, body)
