"""Rows corrected by SuspectCorrector, ComBat and Harmony, followed by four clustering methods."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture

from unskew import SuspectCorrector
from unskew.metrics import adjusted_rand_score

from . import render
from .render import ResultTable
from .runner import Task, made_by, run, write_rows
from .sites.cases import RATES, REAL, SIMULATED, real_case, simulated_case
from .sites.evaluation import as_suspects, prepare
from .sites.methods import Rows, label_new_rows

SEEDS, QUICK_SEEDS, QUICK_RATES = 3, 1, (0.0, 0.8)
# Correctors of other packages take one categorical suspect and need groups to be found.
LEFT_OUT = ("no groups", "two suspects", "numeric suspect")
FOLLOWERS: dict[str, Callable[[int, int], Any]] = {
    "KMeans": lambda K, seed: KMeans(K, n_init=10, random_state=seed),
    "GaussianMixture": lambda K, seed: GaussianMixture(
        K, covariance_type="tied", n_init=3, random_state=seed
    ),
    "Ward": lambda K, seed: AgglomerativeClustering(K),
    "HDBSCAN": lambda K, seed: HDBSCAN(min_cluster_size=20),
}


def nothing(rows: Rows, seed: int) -> np.ndarray:
    return rows.X[rows.fit]


def corrected(rows: Rows, seed: int) -> np.ndarray:
    """SuspectCorrector with its defaults; of a table, on its encoded columns."""
    table = pd.DataFrame(rows.X, columns=[f"x{i}" for i in range(rows.X.shape[1])])
    model = SuspectCorrector(list(rows.suspects), drop_suspects=True, random_state=seed)
    return model.fit_transform(table.join(rows.suspects).iloc[rows.fit]).to_numpy()


def combat(rows: Rows, seed: int) -> np.ndarray:
    from combatlearn import ComBat

    varies = rows.X[rows.fit].std(0) > 1e-12
    X = pd.DataFrame(rows.X[rows.fit][:, varies])
    batch = rows.suspects.iloc[rows.fit, 0].reset_index(drop=True)
    return np.asarray(ComBat(batch=batch).fit_transform(X))


def harmony(rows: Rows, seed: int) -> np.ndarray:
    import harmonypy

    sites = rows.suspects.iloc[rows.fit].reset_index(drop=True)
    how = {"verbose": False, "random_state": seed, "ncores": 1}
    found = harmonypy.run_harmony(rows.X[rows.fit], sites, list(sites), **how)
    Z = np.asarray(found.Z_corr)
    return Z if Z.shape[0] == rows.fit.size else Z.T


CORRECTORS = {
    "nothing": nothing,
    "Harmony": harmony,
    "ComBat": combat,
    "SuspectCorrector": corrected,
}


def run_case(kind: str, title: str, rate: float, corrector: str, seed: int) -> list[dict]:
    case = real_case(title, rate, seed) if kind == "real" else simulated_case(title, seed)
    matrix, _ = prepare(case.X, case.fit_on, case.standardize)
    rows = Rows(matrix, None, as_suspects(case.site), case.fit_on, case.judge_on)
    truth = case.truth[case.judge_on]
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Z = CORRECTORS[corrector](rows, seed)
        for follower, make in FOLLOWERS.items():
            labels = label_new_rows(rows, make(case.K, seed).fit_predict(Z) + 1)
            ari = adjusted_rand_score(truth, labels)
            found.append({"kind": kind, "seed": seed, "follower": follower, "ari": ari})
    return found


def tasks_of(quick: bool, seeds: int) -> list[Task]:
    cases: list[tuple] = [("real", t, r) for t in REAL for r in (QUICK_RATES if quick else RATES)]
    cases += [("simulated", title, 0.8) for title in SIMULATED if title not in LEFT_OUT]
    return [
        Task("correction", title, corrector, run_case, {"rate": rate, "kind": kind},
             {"kind": kind, "title": title, "rate": rate, "corrector": corrector, "seed": seed})
        for seed in range(seeds)
        for kind, title, rate in cases
        for corrector in CORRECTORS
    ]  # fmt: skip


def correction(folder: Path, cache: Path, *, quick: bool, command: str, **how: Any) -> list[Path]:
    """Run the study; UNSKEW_SEEDS is the number of seeds (default 3, quick 1)."""
    import polars as pl

    chosen = os.environ.get("UNSKEW_SEEDS")
    seeds = int(chosen) if chosen else QUICK_SEEDS if quick else SEEDS
    rows = run(tasks_of(quick, seeds), cache, **how)
    write_rows(rows.to_dicts(), folder / "correction.parquet")
    good = rows.filter(pl.col("status") == "ok")
    command = f"UNSKEW_SEEDS={chosen} {command}" if chosen else command
    intro = (
        f"{made_by(command)} {good.height:,} results, {rows.height - good.height} failed tasks. "
        "Rows of the benchmark of sites (sites.md) are corrected and then clustered; population "
        "ARI. All correctors have their defaults and see the site only, not the number of groups. "
        "New rows get the cluster with the nearest mean at their own site, for every corrector."
    )
    tables = [overview(good), *(losses(good, follower) for follower in FOLLOWERS)]
    paths = render.save_tables(folder, "correction", "Correction, then clustering", intro, tables)
    return [*paths, folder / "correction.parquet"]


def overview(rows: Any) -> ResultTable:
    """Mean ARI by corrector, follower and kind of case; cases have equal weights."""
    import polars as pl

    cases = rows.group_by("kind", "dataset", "settings", "method", "follower").agg(
        pl.col("ari").mean()
    )
    body = []
    for follower in FOLLOWERS:
        for kind in ("real", "simulated"):
            own = cases.filter((pl.col("follower") == follower) & (pl.col("kind") == kind))
            means = dict(own.group_by("method").agg(pl.col("ari").mean()).iter_rows())
            body.append([follower, kind, *(means.get(name) for name in CORRECTORS)])
    return ResultTable("Mean population ARI", ["followed by", "cases", *CORRECTORS], body)


def losses(rows: Any, follower: str) -> ResultTable:
    """Cases in which SuspectCorrector is below the best other corrector by more than .02."""
    import polars as pl

    cases = (
        rows.filter(pl.col("follower") == follower)
        .group_by("dataset", "settings", "method")
        .agg(pl.col("ari").mean())
        .pivot(on="method", index=["dataset", "settings"], values="ari")
        .sort("dataset", "settings")
    )
    others = [name for name in CORRECTORS if name in cases.columns and name != "SuspectCorrector"]
    body = []
    for row in cases.iter_rows(named=True):
        known = {name: row[name] for name in others if row[name] is not None}
        own = row["SuspectCorrector"]
        if own is None or not known:
            continue
        best = max(known, key=lambda name: known[name])
        if own < known[best] - 0.02:
            body.append([row["dataset"], row["settings"], own, best, known[best]])
    columns = ["case", "settings", "SuspectCorrector", "best other", "its ARI"]
    title = f"Followed by {follower}: cases below the best other corrector by more than 0.02"
    return ResultTable(title, columns, body, f"{len(body)} of {cases.height} cases.")
