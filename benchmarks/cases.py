"""Cases for the verdict: data with known classes, and settings that help, do nothing, or harm.

A case is determined by its seed. Its truth is the change in population ARI compared with k-means on
all columns (ten initializations, and one with the model's clusters).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from unskew.baselines import PlainKMeans
from unskew.consensus import ConsensusDCKM
from unskew.dckm import DCKM
from unskew.metrics import adjusted_rand_score
from unskew.simulate import (
    make_site_footprint,
    make_spurious_background,
    make_tinted_digits,
    select_with_bias,
)

# Changes of the population ARI below NOTHING are no effect. Simulated populations have POPULATION
# rows, so that the change is known more accurately than that.
NOTHING, POPULATION = 0.02, 10_000
KINDS = ("footprint", "footprint", "background", "background", "digits", "scanned", "blobs",
         "resampled")  # fmt: skip
# Probability of each setting.
SETTINGS = {
    "named": 0.16,
    "named, weights": 0.12,
    "named, consensus": 0.1,
    "named, far too strong": 0.08,
    "all pairs": 0.07,
    "all pairs, consensus": 0.07,
    "all pairs, strong": 0.4,
}


SIZES, WIDTHS = (200, 400, 800, 1500), (6, 12, 24, 36, 60)


def make_data(kind: str, rng: np.random.RandomState, sizes=SIZES, widths=WIDTHS) -> Bunch:
    """X, X_population, y_population, n_clusters, suspects (columns)."""
    seed = int(rng.randint(2**31 - 1))
    rate = float(rng.choice([0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9]))
    n, K = int(rng.choice(sizes)), int(rng.choice([3, 4, 5, 6]))
    if kind in ("footprint", "background"):
        on, off = [(0.7, 0.2), (0.7, 0.2), (0.6, 0.2)][rng.randint(3)]
        made: Any = {"rate": rate, "on": on, "off": off, "n_population": POPULATION}
        made |= {"n_core": int(rng.choice([8, 10, 12])) * K, "n_clusters": K, "random_state": seed}
        width = int(rng.choice(widths))
        if kind == "footprint":
            made |= {"n_footprint": width, "interaction": float(rng.choice([0, 0, 0.5]))}
            data = make_site_footprint(n, **made)
        else:
            data = make_spurious_background(n, n_background=width, **made)
        X, population, y = data.X, data.X_population, data.y_population
        suspects = data.suspects
    elif kind == "digits":
        K = int(rng.choice([3, 4, 6]))
        classes = rng.permutation(10)[:K].tolist()
        data = make_tinted_digits(
            classes=classes, n_sites=int(rng.choice([2, 3, 4])), rate=rate, random_state=seed,
            tint=float(rng.choice([0.1, 0.3, 0.6, 1.0])),
        )  # fmt: skip
        X, population, y = data.X, data.X_population, data.y_population
        suspects = data.suspects
    elif kind == "scanned":  # presence of ink, and scanners that add ink
        digits = load_digits()
        K = int(rng.choice([3, 4, 6]))
        own = np.isin(digits.target, rng.permutation(10)[:K])
        ink, y = (digits.data[own] > 7).astype(float), digits.target[own]
        dirt = (rng.random_sample((2, 64)) < rng.choice([0.1, 0.2])).astype(float)
        code = np.unique(y, return_inverse=True)[1]

        def scan(site: np.ndarray) -> np.ndarray:
            seen = np.maximum(ink, dirt[site] * (rng.random_sample(ink.shape) < 0.8))
            return np.hstack([seen, site[:, None]])

        biased = np.where(rng.random_sample(y.size) < rate, code % 2, rng.randint(2, size=y.size))
        X, population = scan(biased), scan(rng.randint(2, size=y.size))
        suspects = np.array([64])
    elif kind == "blobs":  # numbers: clusters, and a site that shifts other columns
        d, extra = int(rng.choice([4, 8])), int(rng.choice([2, 4, 8]))
        centres = rng.normal(size=(K, d)) * rng.choice([1.5, 2.0])
        shifts = rng.normal(size=(2, extra)) * rng.choice([0.5, 1.0, 2.0])

        def draw(count: int, rate: float) -> tuple:
            y = rng.randint(K, size=count)
            site = np.where(rng.random_sample(count) < rate, y % 2, rng.randint(2, size=count))
            core = centres[y] + rng.normal(size=(count, d))
            return np.hstack(
                [core, shifts[site] + rng.normal(size=(count, extra)), site[:, None]]
            ), y

        (X, _), (population, y) = draw(n, rate), draw(POPULATION, 0.0)
        suspects = np.array([d + extra])
    else:  # real rows, sampled such that one of their own columns depends on the class
        digits = load_digits()
        K = int(rng.choice([3, 4, 6]))
        own = np.isin(digits.target, rng.permutation(10)[:K])
        population, y = digits.data[own] / 16.0, digits.target[own]
        dark = population.sum(1) > np.median(population.sum(1))
        population = np.hstack([population, dark[:, None].astype(float)])
        X = select_with_bias(population, y, dark.astype(int), rate, random_state=seed).X
        suspects = np.array([64])
    return Bunch(
        X=np.asarray(X, dtype=np.float64), X_population=np.asarray(population, dtype=np.float64),
        y_population=y, suspects=suspects, n_clusters=K,
        rate=rate,
    )  # fmt: skip


def make_model(setting: str, data: Bunch, rng: np.random.RandomState) -> Any:
    seed = int(rng.randint(2**31 - 1))
    K, named = data.n_clusters, {"suspects": data.suspects, "random_state": seed}
    strong = {
        "balance_strength": float(rng.choice([3, 10, 30])),
        "spread_strength": float(rng.choice([0.003, 0.01, 0.03])),
        "n_init": 3,
    }
    if setting == "named":
        return DCKM(K, adjust="both", n_init=3, **named)
    if setting == "named, weights":
        return DCKM(K, n_init=3, **named)
    if setting == "named, consensus":
        return ConsensusDCKM(K, n_runs=10, **named)
    if setting == "named, far too strong":
        return DCKM(K, **named, **strong)
    if setting == "all pairs":
        return DCKM(K, n_init=3, random_state=seed)
    if setting == "all pairs, consensus":
        return ConsensusDCKM(K, n_runs=10, random_state=seed)
    strength = float(rng.choice([3, 10, 30]))
    return DCKM(K, balance_strength=strength, spread_strength=0.1, n_init=3, random_state=seed)


def make_case(seed: int) -> tuple[str, str, Bunch, Any]:
    """kind, setting, data and the unfitted model."""
    rng = np.random.RandomState(seed)
    kind = str(rng.choice(KINDS))
    setting = str(rng.choice(list(SETTINGS), p=list(SETTINGS.values())))
    if setting == "all pairs, strong":
        # Enough rows, and clusters that k-means finds, so that harm is possible.
        kind = str(rng.choice(["footprint", "background"]))
        data = make_data(kind, rng, (2000, 3000), (6, 12))
    else:
        data = make_data(kind, rng)
    return kind, setting, data, make_model(setting, data, rng)


def best_kmeans(data: Bunch, columns: np.ndarray, labels: np.ndarray, seed: int) -> np.ndarray:
    """Population labels of k-means on the given columns: the best solution of ten initializations
    and of one with the model's clusters, so that a poor local minimum is not taken for a
    difference."""
    X = data.X[:, columns]
    fits = [
        PlainKMeans(data.n_clusters, n_init=10, init="k-means++", random_state=seed),
        PlainKMeans(data.n_clusters, init=labels),
    ]
    best = min((one.fit(X) for one in fits), key=lambda one: one.inertia_)
    return best.predict(data.X_population[:, columns])


def fit_case(seed: int) -> tuple[dict, Bunch, Any]:
    """The truth of a case as a row, the data and the fitted model."""
    kind, setting, data, model = make_case(seed)
    every = np.arange(data.X.shape[1])
    rest = np.setdiff1d(every, data.suspects)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X)
        found = model.predict(data.X_population)
        plain = {len(columns): best_kmeans(data, columns, model.labels_, seed)
                 for columns in (every, rest)}  # fmt: skip
    y = data.y_population
    row = {
        "seed": seed,
        "kind": kind,
        "setting": setting,
        "rate": data.rate,
        "model_ari": adjusted_rand_score(y, found),
        "kmeans_ari": adjusted_rand_score(y, plain[every.size]),
        "dropped_ari": adjusted_rand_score(y, plain[rest.size]),
    }
    change = row["model_ari"] - row["kmeans_ari"]
    row["change"] = change
    row["truth"] = "no effect" if abs(change) <= NOTHING else "helped" if change > 0 else "harmed"
    return row, data, model
