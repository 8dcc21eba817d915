"""Methods that are compared: each function returns rows of scores for all seeds of one setting."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer

from unskew import feature_selection
from unskew.baselines import DecorrelatedKMeans, DropKMeans, PCAKMeans, PlainKMeans
from unskew.datasets import load_paper
from unskew.dckm import DCKM
from unskew.metrics import adjusted_rand_score, matching_accuracy, normalized_mutual_info_score

K = 10  # classes in each data set of the paper
FEATURE_COUNTS = tuple(range(50, 451, 50))
INITS = ("random", "partition")


def score_labels(truth: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The paper's metrics: NMI is I / sqrt(H H)."""
    return {
        "nmi": normalized_mutual_info_score(truth, labels, average_method="geometric"),
        "ari": adjusted_rand_score(truth, labels),
        "accuracy": matching_accuracy(truth, labels),
    }


def consensus(partitions: list[np.ndarray], seed: int) -> np.ndarray:
    """Consensus of partitions without true labels: k-means on their stacked one-hot codes."""
    codes = np.hstack([np.eye(K)[labels] for labels in partitions])
    return KMeans(K, n_init=10, random_state=seed).fit_predict(codes)


def load(name: str, coding: str = "signs") -> tuple[np.ndarray, np.ndarray]:
    """The data coded as in the paper (-1/+1, exact in float32), or 0/1."""
    data = load_paper(name)
    X = np.asarray(data.data)
    X = (X > 0) if coding == "binary" else X
    return X.astype(np.float32), np.asarray(data.target)


def _timed(function: Any) -> tuple[Any, float]:
    begin = time.perf_counter()
    with warnings.catch_warnings():
        # k-means with a random partition may leave a cluster empty; the row is kept.
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = function()
    return result, time.perf_counter() - begin


def repeat(make: Any, X: np.ndarray, truth: np.ndarray, seeds: int, start: str, **facts) -> list:
    """fit_predict of ``make(seed)`` for each seed, and the consensus of all of them."""
    rows, partitions = [], []
    for seed in range(seeds):
        model = make(seed)
        labels, seconds = _timed(lambda model=model: model.fit_predict(X))
        partitions.append(labels)
        row = {
            "start": start,
            "seed": seed,
            "seconds": seconds,
            **score_labels(truth, labels),
            **facts,
        }
        if hasattr(model, "effective_sample_size_"):
            row["effective_size"] = float(model.effective_sample_size_)
            row["imbalance_left"] = float(model.imbalance_ / model.initial_imbalance_)
        rows.append(row)
    if seeds > 1:
        rows.append(
            {"start": start, "seed": -1, **score_labels(truth, consensus(partitions, 0)), **facts}
            | {"consensus": True}
        )
    return rows


def run_two_step(dataset: str, method: str, seeds: int) -> list[dict]:
    """k-means, PCA+KM, Drop+KM, Dec+KM, with both initializations."""
    X, truth = load(dataset)
    make = {
        "k-means": PlainKMeans,
        "PCA+KM": PCAKMeans,
        "Drop+KM": DropKMeans,
        "Dec+KM": DecorrelatedKMeans,
    }[method]
    rows = []
    for start in INITS:
        rows += repeat(
            lambda seed, start=start: make(K, init=start, n_init=1, random_state=seed),
            X, truth, seeds, start,
        )  # fmt: skip
    return rows


def run_selector(dataset: str, method: str, seeds: int) -> list[dict]:
    """Rank the features once (on 0/1 data), then k-means on the best m, for each m and
    initialization."""
    binary, _ = load(dataset, "binary")
    X, truth = load(dataset)
    cls = getattr(feature_selection, method)
    settings = {} if method == "REFS" else {"n_clusters": K}
    if method == "RUFS":
        settings["random_state"] = 0
    selector, ranking_seconds = _timed(lambda: cls(**settings).fit(binary.astype(np.float64)))
    rows = []
    for m in FEATURE_COUNTS:
        chosen = X[:, np.sort(selector.order_[:m])]
        for start in INITS:
            rows += repeat(
                lambda seed, start=start: PlainKMeans(K, init=start, n_init=1, random_state=seed),
                chosen, truth, seeds, start,
                n_features=m, ranking_seconds=ranking_seconds,
            )  # fmt: skip
    return rows


def run_dckm(
    dataset: str,
    start: str,
    lambda1: float,
    lambda2: float,
    lambda3: float,
    seeds: int,
) -> list[dict]:
    """The authors' procedure: 20 iterations, tolerance 0.01."""
    X, truth = load(dataset)
    facts = {"lambda1": lambda1, "lambda2": lambda2, "lambda3": lambda3}
    return repeat(
        lambda seed: DCKM(
            K,
            objective="paper",
            solver="paper",
            balance_strength=lambda1,
            spread_strength=lambda2,
            mass_strength=lambda3,
            init=start,
            n_init=1,
            max_iter=20,
            tol=0.01,
            n_threads=1,
            random_state=seed,
        ),
        X, truth, seeds, start, **facts,
    )  # fmt: skip


def run_descent(dataset: str, start: str, seeds: int) -> list[dict]:
    """DCKM with its defaults (normalized objective, descent), one initialization per seed."""
    X, truth = load(dataset)
    return repeat(
        lambda seed: DCKM(K, init=start, n_init=1, n_threads=1, random_state=seed),
        X, truth, seeds, start,
    )  # fmt: skip


def run_practice(dataset: str, method: str, seeds: int) -> list[dict]:
    """Methods of common practice."""
    binary, truth = load(dataset, "binary")
    if method == "Ward on 0/1":
        labels, seconds = _timed(lambda: AgglomerativeClustering(K).fit_predict(binary))
        return [{"start": "none", "seed": 0, "seconds": seconds, **score_labels(truth, labels)}]
    if method == "Bernoulli mixture":
        return repeat(
            lambda seed: BernoulliMixture(K, random_state=seed), binary, truth, seeds, "partition"
        )
    X = TfidfTransformer().fit_transform(binary).toarray()
    rows = []
    for start in (*INITS, "k-means++"):
        rows += repeat(
            lambda seed, start=start: PlainKMeans(K, init=start, n_init=1, random_state=seed),
            X, truth, seeds, start,
        )  # fmt: skip
    return rows


class BernoulliMixture:
    """EM for a mixture of independent Bernoulli columns; a baseline for these benchmarks only.

    Initialized with a random partition; stops when the mean log-likelihood increases by less than
    1e-4.
    """

    def __init__(self, n_components: int, *, random_state: int, max_iter: int = 200) -> None:
        self.n_components, self.random_state, self.max_iter = n_components, random_state, max_iter

    def fit_predict(self, X: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(self.random_state)
        X = X.astype(np.float64)
        share = np.eye(self.n_components)[rng.integers(self.n_components, size=X.shape[0])]
        last = -np.inf
        for _ in range(self.max_iter):
            # One pseudo-observation of each value keeps the logarithms finite.
            total = share.sum(0)
            on = (share.T @ X + 1.0) / (total + 2.0)[:, None]
            logs = X @ np.log(on / (1 - on)).T + np.log(1 - on).sum(1)
            logs += np.log((total + 1.0) / (total + 1.0).sum())
            top = logs.max(1, keepdims=True)
            share = np.exp(logs - top)
            norm = share.sum(1, keepdims=True)
            share /= norm
            mean = float((top + np.log(norm)).mean())
            if mean - last < 1e-4:
                break
            last = mean
        return share.argmax(1)
