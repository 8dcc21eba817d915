"""A survey as a table: NHANES with two readers, compared with baselines, and known shares."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from unskew.datasets import load_nhanes
from unskew.dckm import DCKM
from unskew.diagnostics import compare
from unskew.weights import DecorrelationWeights

from . import render
from .render import ResultTable
from .runner import made_by

# Plausible columns for clustering people, and the suspect.
COLUMNS = [
    "Gender", "Age", "Race1", "Education", "MaritalStatus", "HHIncomeMid", "Poverty", "HomeOwn",
    "Work", "BMI", "Pulse", "BPSysAve", "BPDiaAve", "DirectChol", "TotChol", "Diabetes",
    "HealthGen", "DaysPhysHlthBad", "DaysMentHlthBad", "Depressed", "SleepHrsNight",
    "SleepTrouble", "PhysActive", "Smoke100", "AlcoholYear",
]  # fmt: skip
SUSPECT, K = "Race1", 6
MARGINS = (["Race1"], ["Race1", "Gender", "Education"])


def tables(folder: Path, cache: Path, *, quick: bool, command: str) -> list[Path]:
    """Run all parts serially; ``cache`` is not used."""
    raw, resampled = load_nhanes(), load_nhanes(resampled=True)
    n_init = 1 if quick else 3
    parts = [
        readers(raw, n_init),
        side_by_side(raw, n_init),
        known_shares(raw.frame, resampled.frame, n_init),
    ]
    intro = (
        f"{made_by(command)} NHANES 2009-12, 20,293 people, {len(COLUMNS)} columns of mixed types "
        f"with missing values, `suspects=[{SUSPECT!r}]`, K = {K}, best of {n_init} restarts."
    )
    return render.save_tables(folder, "tables", "A survey as a table", intro, parts)


def readers(raw: Any, n_init: int) -> ResultTable:
    """The same file read by pandas and by polars, and the time of a fit."""
    import polars as pl

    weights = raw.sample_weight
    second = pl.read_csv(raw.filename, null_values=["", "NA"], infer_schema_length=None)
    rows, models = [], []
    for name, table in (("pandas", raw.frame[COLUMNS]), ("polars", second.select(COLUMNS))):
        begin = time.perf_counter()
        model = DCKM(K, suspects=[SUSPECT], adjust="weights", n_init=n_init, random_state=0)
        model.fit(table, sample_weight=weights)
        models.append(model)
        seconds = time.perf_counter() - begin
        rows.append(
            [name, seconds, model.n_iter_, model.status_, model.effective_sample_size_,
             model.initial_imbalance_, model.imbalance_]
        )  # fmt: skip
    same = np.array_equal(models[0].labels_, models[1].labels_) and np.array_equal(
        models[0].weights_, models[1].weights_
    )
    columns = ["read by", "seconds of the fit", "rounds", "status", "effective size",
               "imbalance before", "imbalance after"]  # fmt: skip
    note = f"Labels and weights of the two fits are {'the same' if same else 'NOT the same'}."
    return ResultTable("Two readers", columns, rows, note)


def side_by_side(raw: Any, n_init: int) -> ResultTable:
    found = compare(
        raw.frame[COLUMNS],
        K,
        suspects=[SUSPECT],
        sample_weight=raw.sample_weight,
        random_state=0,
        n_init=n_init,
    )
    rows = [
        [row.title, row.associations[0].value, row.explained_variance, row.effective_size,
         row.mean_difference, row.agreement]
        for row in found.rows
    ]  # fmt: skip
    columns = ["method", f"Cramer's V with {SUSPECT}", "explained variance", "effective size",
               "mean difference", "agreement with k-means"]  # fmt: skip
    note = (
        "Cramer's V and explained variance are computed with the design weights (WTMEC2YR), not "
        f"with learned ones; explained variance is that of the columns without {SUSPECT}. Verdict: "
        f"{found.summary.word}. {found.summary.sentence}"
    )
    return ResultTable("Comparison of methods", columns, rows, note)


def known_shares(frame: Any, population: Any, n_init: int) -> ResultTable:
    """Margins of the resampled table, without design weights, and the rank correlation of learned
    and true weights."""
    true = frame["WTMEC2YR"].to_numpy(np.float64)
    rows = []
    for names in MARGINS:
        margins = {
            name: {
                value: float(share)
                for value, share in population[name].value_counts(normalize=True).items()
            }
            for name in names
        }
        how = {"margins": margins, "random_state": 0}
        fits = {
            "margins only": DecorrelationWeights(balance_strength=0, **how),
            "margins, Race1 decoupled": DecorrelationWeights(suspects=[SUSPECT], **how),
            "margins, Race1 decoupled, clusters": DCKM(
                K, suspects=[SUSPECT], adjust="weights", n_init=n_init, **how
            ),
        }
        for title, model in fits.items():
            model.fit(frame[COLUMNS])
            off = max(
                abs(one["start"] - one["wanted"])
                for shares in model.margins_.values()
                for one in shares.values()
            )
            rows.append(
                [", ".join(names), title, off, model.margin_distance_,
                 model.effective_sample_size_, float(spearmanr(model.weights_, true).statistic)]
            )  # fmt: skip
    columns = ["known shares of", "model", "largest distance before", "after", "effective size",
               "rank correlation with WTMEC2YR"]  # fmt: skip
    note = (
        "Shares of NHANES_resampled as margins, without design weights. Decoupling Race1 from the "
        "other columns requires other weights than those of the survey, which preserve real "
        "differences between groups: the rank correlation decreases."
    )
    return ResultTable("Known shares", columns, rows, note)
