"""SelectionMixture compared with k-means, ComBat, Harmony and DCKM, in one default setting."""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier

from unskew import DCKM, ConsensusDCKM, SelectionMixture
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_site_footprint, make_tinted_digits

from . import render
from .render import ResultTable
from .runner import Task, made_by, run, write_rows

METHODS = ("k-means", "ComBat", "Harmony", "both", "consensus", "mixture")
DIGITS, FROM_TRUTH = ("digits, tint 0.3, rate 0.6", "digits, tint 1.0, rate 0.6"), "from the truth"


class Case(NamedTuple):
    """Rows without the site, sites, true groups, and the same of a population (or None)."""

    X: Any
    site: np.ndarray
    y: np.ndarray
    population: tuple | None = None


# ------------------------------------------------------------------------------------------ cases
def footprint(seed: int, rate: float) -> Case:
    data = make_site_footprint(2000, rate=rate, random_state=seed)
    rest = np.r_[data.core, data.footprint]
    population = (data.X_population[:, rest], data.site_population, data.y_population)
    return Case(data.X[:, rest], data.site, data.y, population)


def gaussian(seed: int, rate: float, shift: float = 2.0, n: int = 2000, d: int = 10) -> Case:
    """Four groups at four sites, N(C_k + B_l, I); a group is at its own site with probability
    ``rate``, else anywhere."""
    rng = np.random.default_rng(seed)
    C, B = 1.5 * rng.normal(size=(4, d)), shift * rng.normal(size=(4, d))

    def draw(rate: float) -> tuple:
        y = rng.integers(4, size=n)
        site = np.where(rng.random(n) < rate, y, rng.integers(4, size=n))
        return C[y] + B[site] + rng.normal(size=(n, d)), site, y

    return Case(*draw(rate), draw(0.0))


def own_groups(seed: int, n: int = 2000, d: int = 10) -> Case:
    """Two groups at all of three sites, and one of its own at each."""
    rng = np.random.default_rng(seed)
    C, B = 1.5 * rng.normal(size=(5, d)), rng.normal(size=(3, d))
    site, draw = rng.integers(3, size=n), rng.integers(3, size=n)
    y = np.where(draw < 2, draw, 2 + site)
    return Case(C[y] + B[site] + rng.normal(size=(n, d)), site, y)


def coin(seed: int) -> Case:
    """The Gaussian groups without sites; the site is a coin."""
    case = gaussian(seed, 0.0, shift=0.0)
    rng = np.random.default_rng(seed + 1000)
    population = (case.population[0], rng.integers(2, size=2000), case.population[2])
    return Case(case.X, rng.integers(2, size=2000), case.y, population)


def digits(seed: int, tint: float) -> Case:
    data = make_tinted_digits(n_classes=4, n_sites=4, tint=tint, rate=0.6, random_state=seed)
    population = (data.X_population[:, :64], data.site_population, data.y_population)
    return Case(data.X[:, :64], data.site, data.y, population)


def _read(name: str) -> Any:
    import pandas as pd

    folder = os.environ.get("UNSKEW_DATA")
    if not folder:
        raise FileNotFoundError(f"UNSKEW_DATA is not set; it should be a folder with sites/{name}")
    return pd.read_csv(Path(folder) / "sites" / name)


def penguins(seed: int) -> Case:
    columns = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
    frame = _read("penguins.csv").dropna(subset=columns)
    X = frame[columns].to_numpy()
    X = (X - X.mean(0)) / X.std(0)
    return Case(X, frame["island"].to_numpy(), frame["species"].to_numpy())


def cell_lines(seed: int) -> Case:
    frame = _read("harmony_cell_lines.csv.gz")
    X = frame[[f"X{i}" for i in range(1, 21)]].to_numpy()
    X = (X - X.mean(0)) / X.std(0)
    return Case(X, frame["dataset"].to_numpy(), frame["cell_type"].to_numpy())


def rna_mixtures(seed: int) -> Case:
    frame = _read("scmix_rnamix.csv.gz")
    X = PCA(20, random_state=0).fit_transform(frame.iloc[:, 2:].to_numpy())
    return Case(X, frame["protocol"].to_numpy(), frame["mix"].to_numpy())


def three_lines(seed: int) -> Case:
    frame = _read("scmix_3lines_3platforms.csv.gz")
    X = PCA(20, random_state=0).fit_transform(frame.iloc[:, 2:].to_numpy())
    return Case(X, frame["platform"].to_numpy(), frame["cell_line"].to_numpy())


def heart(seed: int) -> Case:
    frame = _read("uci_heart_four_sites.csv")
    return Case(
        frame.drop(columns=["num", "site", "disease"]),
        frame["site"].to_numpy(),
        frame["disease"].to_numpy(),
    )


# name -> (function, number of groups, arguments)
CASES = {
    **{f"footprint 36, rate {r}": (footprint, 4, {"rate": r}) for r in (0.6, 0.8, 0.9)},
    **{
        f"Gaussian groups, site shift 2, rate {r}": (gaussian, 4, {"rate": r})
        for r in (0, 0.8, 0.9)
    },
    "two groups at all sites, one of its own at each": (own_groups, 5, {}),
    "a coin as suspect": (coin, 4, {}),
    "cell lines, standardised": (cell_lines, 2, {}),
    "RNA mixtures, as they are": (rna_mixtures, 7, {}),
    "three cell lines, three platforms": (three_lines, 3, {}),
    "penguins, island": (penguins, 3, {}),
    "heart, four sites": (heart, 2, {}),
    **{f"digits, tint {t}, rate 0.6": (digits, 4, {"tint": t}) for t in (0.3, 1.0)},
}
REAL = ("cell lines, standardised", "RNA mixtures, as they are", "penguins, island",
        "three cell lines, three platforms", "heart, four sites")  # fmt: skip


# ---------------------------------------------------------------------------------------- methods
def with_site(X: Any, site: np.ndarray) -> Any:
    import pandas as pd

    frame = X.copy() if isinstance(X, pd.DataFrame) else pd.DataFrame(X)
    frame.columns = [str(name) for name in frame.columns]
    return frame.assign(site=[f"s{value}" for value in site])


def filled(X: Any) -> np.ndarray:
    """A matrix for the methods without missing values: standardised, mean for missing values."""
    if isinstance(X, np.ndarray):
        return X
    X = X.to_numpy(dtype=float)
    X = (X - np.nanmean(X, 0)) / np.nanstd(X, 0)
    return np.where(np.isnan(X), 0.0, X)


def labels_of(method: str, case: Case, K: int, seed: int) -> tuple[np.ndarray, dict]:
    """Labels of the population where there is one, else of the rows, and facts of the fit."""
    new = case.population
    if method in ("mixture", FROM_TRUTH):
        table = with_site(case.X, case.site)
        init = case.y if method == FROM_TRUTH else None
        model = SelectionMixture(K, suspects="site", init=init, random_state=seed).fit(table)
        facts = {**model.choice_, "identified": model.identified_, "bic": model.bic_}
        if new is None:
            return model.labels_, facts
        return model.predict(with_site(new[0], new[1]), shares="population"), facts
    if method in ("both", "consensus"):
        # Arrays as they are, with indicators of the site: a table would be scaled robustly.
        if isinstance(case.X, np.ndarray):
            levels = np.unique(case.site)
            suspects: Any = np.arange(levels.size) + case.X.shape[1]
            rows, target = (
                np.column_stack([X, site[:, None] == levels])
                for X, site in (case[:2], case[:2] if new is None else new[:2])
            )
        else:
            rows = target = with_site(case.X, case.site)
            suspects = "site"
        if method == "both":
            how = {"init": "k-means++", "n_init": 10}
            model = DCKM(K, suspects=suspects, adjust="both", random_state=seed, **how).fit(rows)
        else:
            model = ConsensusDCKM(K, suspects=suspects, adjust="both", random_state=seed).fit(rows)
        return model.predict(target), {}
    X = filled(case.X)
    kmeans = KMeans(K, n_init=10, random_state=seed)
    if method == "k-means":
        kmeans.fit(X)
        return (kmeans.labels_ if new is None else kmeans.predict(new[0])), {}
    if method == "ComBat":
        import pandas as pd
        from combatlearn import ComBat

        # Population rows are corrected with the parameters of the sample.
        site = np.concatenate([case.site, [] if new is None else new[1]]).astype(str)
        rows = pd.DataFrame(X if new is None else np.vstack([X, new[0]])).loc[:, X.std(0) > 0]
        combat = ComBat(batch=pd.Series(site)).fit(rows.iloc[: len(X)])
        corrected = np.asarray(combat.transform(rows))
        kmeans.fit(corrected[: len(X)])
        return kmeans.predict(corrected if new is None else corrected[len(X) :]), {}
    import harmonypy
    import pandas as pd

    # Harmony takes principal components; tables of 20 columns or fewer are taken as they are.
    Z = PCA(20, random_state=0).fit_transform(X) if X.shape[1] > 20 else X
    meta = pd.DataFrame({"site": case.site.astype(str)})
    found = harmonypy.run_harmony(Z, meta, ["site"], verbose=False, random_state=seed)
    corrected = np.asarray(found.Z_corr)
    corrected = corrected if corrected.shape[0] == len(X) else corrected.T
    labels = kmeans.fit(corrected).labels_
    if new is None:
        return labels, {}
    # Harmony has no rule for new rows: that of the nearest row of the same site.
    out = np.empty(len(new[0]), dtype=int)
    for one in np.unique(new[1]):
        nearest = KNeighborsClassifier(5).fit(X[case.site == one], labels[case.site == one])
        out[new[1] == one] = nearest.predict(new[0][new[1] == one])
    return out, {}


def run_case(name: str, method: str, seed: int) -> list[dict]:
    make, K, arguments = CASES[name]
    case = make(seed, **arguments)
    truth = case.y if case.population is None else case.population[2]
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels, facts = labels_of(method, case, K, seed)
    seconds = time.perf_counter() - begin
    return [{"seed": seed, "ari": adjusted_rand_score(truth, labels), "seconds": seconds, **facts}]


# ------------------------------------------------------------------------------------------ study
def tasks_of(quick: bool, seeds: int) -> list[Task]:
    return [
        Task("mixture", name, method, run_case, {}, {"name": name, "method": method, "seed": seed})
        for name in CASES
        for method in METHODS
        for seed in range(1 if quick else seeds)
        if not (quick and name in REAL)
        and not (quick and method in ("consensus", "ComBat", "Harmony"))
    ] + [
        Task(
            "mixture",
            name,
            FROM_TRUTH,
            run_case,
            {},
            {"name": name, "method": FROM_TRUTH, "seed": seed},
        )
        for name in DIGITS
        for seed in range(1 if quick else seeds)
    ]


def digits_table(good: Any) -> ResultTable:
    """Whether the true groups of the digits have a higher likelihood than those found."""
    import polars as pl

    body = []
    for name in DIGITS:
        one, other = (
            good.filter((pl.col("dataset") == name) & (pl.col("method") == method)).sort("seed")
            for method in ("mixture", FROM_TRUTH)
        )
        difference = (other["bic"] - one["bic"]).to_numpy()
        higher = f"{(difference > 0).sum()} of {difference.size}"
        found, true = one["ari"].mean(), other["ari"].mean()
        body.append([name, found, true, difference.min(), float(difference.mean()), higher])
    note = (
        "BIC of the solution that EM reaches from the true labels, minus that of the solution "
        "found: where it is positive, the true groups have the lower likelihood, and no better "
        "optimization would find them."
    )
    columns = [
        "case",
        "ARI found",
        "ARI from the true labels",
        "smallest BIC difference",
        "mean",
        "higher",
    ]
    return ResultTable("Digits", columns, body, note)


def time_of(quick: bool) -> ResultTable:
    """Time of an iteration and of a default fit, in one thread where OMP_NUM_THREADS is 1."""
    n, d, K, L = 10_000 if quick else 100_000, 40, 8, 5
    rng = np.random.default_rng(0)
    C, B = 0.8 * rng.normal(size=(K, d)), 0.5 * rng.normal(size=(L, d))
    y = rng.integers(K, size=n)
    site = np.where(rng.random(n) < 0.5, y % L, rng.integers(L, size=n))
    X = C[y] + B[site] + rng.normal(size=(n, d))
    rows, labels = np.column_stack([X, site]), rng.integers(K, size=n)

    def seconds(fit: Any) -> float:
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit()
        return time.perf_counter() - begin

    def per_iteration(make: Any) -> float:
        few, many = (min(seconds(lambda m=m: make(m)) for _ in range(2)) for m in (5, 25))
        return (many - few) / 20

    def mixture(covariance: str) -> float:
        how = {"covariance": covariance, "effects": "shift", "selection": "free", "tol": 0}
        return per_iteration(
            lambda m: SelectionMixture(K, suspects=[d], init=labels, max_iter=m, **how).fit(rows)
        )

    how = {"covariance_type": "tied", "tol": 0, "init_params": "random", "random_state": 0}
    tied = per_iteration(lambda m: GaussianMixture(K, max_iter=m, **how).fit(X))
    body = [["GaussianMixture(tied), per iteration", tied, None]]
    for covariance in ("diag", "full"):
        found = mixture(covariance)
        body.append([f"SelectionMixture({covariance}), per iteration", found, found / tied])
    kmeans = seconds(lambda: KMeans(K, n_init=10, random_state=0).fit(X))
    default = seconds(lambda: SelectionMixture(K, suspects=[d], random_state=0).fit(rows))
    body.append(["KMeans(n_init=10)", kmeans, None])
    body.append(["SelectionMixture, default fit", default, default / kmeans])
    return ResultTable(f"Seconds at {n:,} x {d}, K = {K}", ["what", "seconds", "ratio"], body)


def mixture(folder: Path, cache: Path, *, quick: bool, command: str, **how: Any) -> list[Path]:
    import polars as pl

    if not quick:
        _read("penguins.csv")  # raise an error for missing files before the study begins
    seeds = int(os.environ.get("UNSKEW_SEEDS", 10))
    rows = run(tasks_of(quick, seeds), cache, **how)
    good = rows.filter(pl.col("status") == "ok")
    failed = rows.filter(pl.col("status") == "failed")
    body, choices = [], []
    for name in CASES:
        cell = good.filter(pl.col("dataset") == name)
        if not cell.height:
            continue
        line: list[Any] = [name]
        for method in METHODS:
            ari = cell.filter(pl.col("method") == method)["ari"]
            error = "" if len(ari) < 2 else f" ± {ari.std() / len(ari) ** 0.5:.3f}"
            line.append(f"{ari.mean():.3f}{error} ({len(ari)})" if len(ari) else None)
        body.append(line)
        own = cell.filter(pl.col("method") == "mixture")
        counts = own.group_by("covariance", "effects", "selection", "identified").len()
        text = "; ".join(
            f"{c}, {e}, {s}, identified: {i} ({n})" for c, e, s, i, n in sorted(counts.iter_rows())
        )
        choices.append([name, text, own["seconds"].median()])
    tables = [
        ResultTable(
            "ARI",
            ["case", *METHODS],
            body,
            "Mean ± standard error (number of seeds); of the population where one is known, at the "
            "true number of groups.",
        ),
        ResultTable("Choices", ["case", "covariance, effects, selection", "seconds"], choices),
        digits_table(good),
        time_of(quick),
    ]
    reasons = failed.group_by("method", "reason").len().to_dicts() if failed.height else []
    intro = (
        f'{made_by(command)} `SelectionMixture(K, suspects="site")` in one default setting. '
        "ComBat (combatlearn) and Harmony (harmonypy) are followed by k-means; for new rows ComBat "
        "uses the parameters of the sample, and Harmony, which has no rule, the five nearest rows "
        f"of the same site. {failed.height} tasks failed."
        + "".join(f"\n\nFailed: {json.dumps(reason)}" for reason in reasons)
    )
    write_rows(rows.to_dicts(), folder / "mixture.parquet")
    paths = render.save_tables(folder, "mixture", "Selection mixture", intro, tables)
    return [*paths, folder / "mixture.parquet"]
