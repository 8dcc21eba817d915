"""Known selection bias: does the clustering of the biased sample describe the population?

Each method is fitted to the biased sample and evaluated on the population: by the true classes if
there are any, and by its agreement with k-means of the same number of clusters on unbiased data.
Also reported: the association of the sample's clusters with the suspect, always under the design
weights, and the distance of learned weights from the true ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.utils import Bunch

from unskew.baselines import DecorrelatedKMeans, PlainKMeans, RegressOutKMeans
from unskew.consensus import ConsensusDCKM
from unskew.datasets import load_nass_cds, load_nhanes, load_surf
from unskew.dckm import DCKM
from unskew.metrics import adjusted_rand_score, association
from unskew.simulate import make_site_footprint, make_spurious_background, select_with_bias

from . import render
from .render import ResultTable
from .runner import Task, made_by, run, write_rows

# One initialization for all: with a random partition k-means sometimes stops at poor minima.
INIT = {"init": "k-means++", "n_init": 10}
METHODS = {
    "k-means": lambda K, s, seed: PlainKMeans(K, random_state=seed, **INIT),
    "k-means without the suspects": lambda K, s, seed: PlainKMeans(
        K, suspects=s, random_state=seed, **INIT
    ),
    "suspects regressed out": lambda K, s, seed: RegressOutKMeans(
        K, suspects=s, random_state=seed, **INIT
    ),
    "suspects regressed out, rows as they are": lambda K, s, seed: RegressOutKMeans(
        K, suspects=s, predict_on="raw", random_state=seed, **INIT
    ),
    "Dec+KM, suspects named, 20 steps": lambda K, s, seed: DecorrelatedKMeans(
        K, weights="paper", suspects=s, random_state=seed, **INIT
    ),
    "Dec+KM, suspects named, converged": lambda K, s, seed: DecorrelatedKMeans(
        K, weights="converged", suspects=s, random_state=seed, **INIT
    ),
    "unskew, all pairs": lambda K, s, seed: DCKM(K, random_state=seed, **INIT),
    "unskew, suspects named": lambda K, s, seed: DCKM(
        K, suspects=s, adjust="weights", random_state=seed, **INIT
    ),
    # With its own initializations: 20 runs, effects of the suspects removed.
    "unskew, consensus, suspects named": lambda K, s, seed: ConsensusDCKM(
        K, suspects=s, random_state=seed
    ),
}
TRUE_WEIGHTS = "k-means with the true weights"
CEILING = "k-means on unbiased data (ceiling)"

RATES = (0.0, 0.3, 0.6, 0.8, 0.9)
NHANES_COLUMNS = (
    "Age", "BMI", "Height", "BPSysAve", "BPDiaAve", "Pulse", "TotChol", "DirectChol", "Poverty",
)  # fmt: skip


def study(case: Bunch, seed: int) -> list[dict]:
    """All methods on one biased sample.

    case: X, suspects (columns), attribute (n, values of the suspect); true_weights or None;
    X_population; y_population or None; X_unbiased or None; n_clusters; y or None.
    """
    K, rest = case.n_clusters, np.setdiff1d(np.arange(case.X.shape[1]), case.suspects)
    rows = []

    def reference(X: np.ndarray, weights: Any = None) -> PlainKMeans:
        return PlainKMeans(K, random_state=seed, **INIT).fit(X[:, rest], sample_weight=weights)

    if case.X_unbiased is not None:
        ideal = reference(case.X_unbiased).predict(case.X_population[:, rest])
    else:
        ideal = reference(case.X_population, case.population_weights).predict(
            case.X_population[:, rest]
        )

    def add(name: str, sample_labels: Any, population_labels: np.ndarray, model: Any = None):
        row: dict[str, Any] = {"seed": seed, "method": name}
        row["agreement_with_unbiased"] = adjusted_rand_score(ideal, population_labels)
        if case.y_population is not None:
            row["population_ari"] = adjusted_rand_score(case.y_population, population_labels)
        if sample_labels is not None:
            row["association"] = association(
                sample_labels, case.attribute, sample_weight=case.true_weights
            )
            if case.y is not None:
                row["sample_ari"] = adjusted_rand_score(case.y, sample_labels)
        if hasattr(model, "weights_"):
            row["effective_size"] = float(model.effective_sample_size_)
            row["imbalance_left"] = float(model.imbalance_ / model.initial_imbalance_)
            if case.true_weights is not None and np.ptp(case.true_weights) > 0:
                row["rank_correlation_of_weights"] = float(
                    spearmanr(model.weights_, case.true_weights).statistic
                )
                share = model.weights_ / model.weights_.sum()
                true = case.true_weights / case.true_weights.sum()
                row["distance_of_weights"] = float(np.abs(share - true).sum() / 2)
        rows.append(row)

    for name, make in METHODS.items():
        model = make(K, case.suspects, seed).fit(case.X)
        add(name, model.labels_, model.predict(case.X_population), model)
    if case.true_weights is not None:
        model = reference(case.X, case.true_weights)
        add(TRUE_WEIGHTS, model.labels_, model.predict(case.X_population[:, rest]))
    if case.X_unbiased is not None:
        add(CEILING, None, ideal)
    return rows


# --------------------------------------------------------------------------------------------
# The cases


def _case(**given: Any) -> Bunch:
    defaults = dict.fromkeys(
        ["y", "true_weights", "y_population", "X_unbiased", "population_weights"]
    )
    return Bunch(**defaults | given)


def run_simulated(kind: str, rate: float, seed: int, shape: dict) -> list[dict]:
    make = make_site_footprint if kind == "site footprint" else make_spurious_background
    data = make(2000, rate=rate, random_state=seed, **shape)
    return study(
        _case(
            n_clusters=shape["n_clusters"],
            X=data.X,
            y=data.y,
            suspects=data.suspects,
            attribute=data.site,
            true_weights=data.weights,
            X_population=data.X_population,
            y_population=data.y_population,
            X_unbiased=data.X_unbiased,
        ),
        seed,
    )


def one_hot(values: Any) -> np.ndarray:
    values = np.asarray(values)
    return (values[:, None] == np.unique(values)[None, :]).astype(np.float64)


def run_surf(rate: float, seed: int) -> list[dict]:
    """Pooled image domains, sampled with a domain that depends on the class; presence of words."""
    data = load_surf()
    words = (np.asarray(data.data) > 0).astype(np.float64)
    X = np.hstack([words, one_hot(data.domain)])
    suspects = np.arange(words.shape[1], X.shape[1])
    sample = select_with_bias(X, data.target, data.domain, rate, n_samples=800, random_state=seed)
    fair = select_with_bias(X, data.target, data.domain, 0.0, n_samples=800, random_state=seed)
    return study(
        _case(
            n_clusters=10,
            X=sample.X,
            y=sample.y,
            suspects=suspects,
            attribute=sample.attribute,
            true_weights=sample.weights,
            X_population=X,
            y_population=data.target,
            X_unbiased=fair.X,
        ),
        seed,
    )


def run_nhanes(seed: int) -> list[dict]:
    """A survey that oversampled minorities, and the same survey resampled to the population.

    Adults without missing values in the columns used; columns standardised by the sample.
    """
    raw, fair = load_nhanes(), load_nhanes(resampled=True)
    columns = list(NHANES_COLUMNS)

    def adults(data: Bunch) -> Any:
        keep = (data.frame["Age"] >= 20) & data.frame[columns].notna().all(axis=1)
        return data.frame[keep], keep.to_numpy()

    sample, kept = adults(raw)
    population, _ = adults(fair)
    mean, sd = sample[columns].mean(), sample[columns].std()

    def matrix(frame: Any) -> np.ndarray:
        return np.hstack([((frame[columns] - mean) / sd).to_numpy(float), one_hot(frame["Race1"])])

    weights = np.asarray(raw.sample_weight)[kept]
    X = matrix(sample)
    return study(
        _case(
            n_clusters=6,
            X=X,
            suspects=np.arange(len(columns), X.shape[1]),
            attribute=sample["Race1"].to_numpy(),
            true_weights=weights,
            X_population=matrix(population),
            X_unbiased=matrix(population),
        ),
        seed,
    )


def run_crashes(seed: int) -> list[dict]:
    """Severe crashes oversampled; no unbiased table exists, so the truth is the weighted sample."""
    data = load_nass_cds()
    frame = data.frame
    numbers = ["ageOFocc", "yearacc", "yearVeh", "injSeverity"]
    words = ["dead", "airbag", "seatbelt", "frontal", "sex", "abcat", "occRole", "deploy"]
    keep = frame[[*numbers, *words, "dvcat"]].notna().all(axis=1)
    frame = frame[keep]
    weights = np.asarray(data.sample_weight)[keep.to_numpy()]
    scaled = (frame[numbers] - frame[numbers].mean()) / frame[numbers].std()
    # One indicator for a column of two values; scaled by 1 / sqrt(2) for more.
    parts = [scaled.to_numpy(float)]
    for word in words:
        coded = one_hot(frame[word].astype(str))
        parts.append(coded[:, 1:] if coded.shape[1] == 2 else coded / np.sqrt(2))
    speed = one_hot(frame["dvcat"].astype(str))
    X = np.hstack([*parts, speed])
    return study(
        _case(
            n_clusters=5,
            X=X,
            suspects=np.arange(X.shape[1] - speed.shape[1], X.shape[1]),
            attribute=frame["dvcat"].astype(str).to_numpy(),
            true_weights=weights,
            X_population=X,
            population_weights=weights,
        ),
        seed,
    )


def tasks_of(*, quick: bool) -> list[Task]:
    seeds = range(2 if quick else 3)
    rates = (0.0, 0.8) if quick else RATES
    shapes = {
        "site footprint": [
            {"n_clusters": 4, "n_core": 40, "n_footprint": 36},
            {"n_clusters": 3, "n_core": 30, "n_footprint": 24},
        ],
        "spurious background": [{"n_clusters": 4, "n_core": 40, "n_background": 36}],
    }
    tasks = []

    def add(name: str, function: Any, settings: dict, **arguments: Any) -> None:
        tasks.append(Task("selection", name, "all", function, settings, arguments))

    for seed in seeds:
        for rate in (0.0, 0.8) if quick else (0.0, 0.5, 0.8):
            add("pooled SURF", run_surf, {"rate": rate}, rate=rate, seed=seed)
        if seed < (1 if quick else 3):
            add("NHANES", run_nhanes, {}, seed=seed)
            add("car crashes", run_crashes, {}, seed=seed)
        for kind, several in shapes.items():
            for shape in several[: 1 if quick else None]:
                for rate in rates:
                    add(
                        kind,
                        run_simulated,
                        {"rate": rate, **shape},
                        kind=kind,
                        rate=rate,
                        seed=seed,
                        shape=shape,
                    )
    return tasks


COLUMNS = {
    "population_ari": "population ARI",
    "sample_ari": "sample ARI",
    "agreement_with_unbiased": "agreement with unbiased k-means",
    "association": "association with the suspect",
    "effective_size": "effective size",
    "imbalance_left": "imbalance left",
    "rank_correlation_of_weights": "rank correlation with true weights",
    "distance_of_weights": "distance from true weights",
}


def selection(folder: Path, cache: Path, *, quick: bool, command: str, **how: Any) -> list[Path]:
    import polars as pl

    # Missing files raise an error before the study begins and are not stored as failed tasks.
    for load in (load_surf, load_nhanes, load_nass_cds):
        load()
    load_nhanes(resampled=True)
    rows = run(tasks_of(quick=quick), cache, **how)
    failed = rows.filter(pl.col("status") == "failed")
    good = rows.filter(pl.col("status") == "ok")
    tables = []
    shown = [c for c in COLUMNS if c in good.columns]
    for (dataset, settings), group in sorted(
        good.group_by(["dataset", "settings"], maintain_order=True), key=lambda pair: pair[0]
    ):
        means = group.group_by("method", maintain_order=True).agg(
            [pl.col(c).mean() for c in shown] + [pl.len().alias("seeds")]
        )
        facts = ", ".join(f"{k} {v}" for k, v in json.loads(settings).items())
        used = [c for c in shown if means[c].is_not_null().any()]
        body = [
            [row["method"], *(row[c] for c in used), row["seeds"]]
            for row in means.iter_rows(named=True)
        ]
        title = f"{dataset}" + (f": {facts}" if facts else "")
        tables.append(ResultTable(title, ["method", *(COLUMNS[c] for c in used), "samples"], body))
    intro = (
        f"{made_by(command)} Means over samples drawn with different seeds. Every method is "
        "fitted to the biased sample. Association is Cramer's V of its clusters with the suspect "
        "under the true (design) weights. Distance of weights: half the sum of absolute "
        f"differences of shares, 0 = equal, 1 = disjoint. {failed.height} tasks failed."
        + "".join(f"\n\nFailed: {r['dataset']}: {r['reason']}" for r in failed.to_dicts())
    )
    write_rows(rows.to_dicts(), folder / "selection.parquet")
    paths = render.save_tables(folder, "selection", "Known selection bias", intro, tables)
    return [*paths, folder / "selection.parquet"]
