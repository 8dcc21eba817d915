"""Data sets and simulators of the benchmark of sites. A case is data: nothing in the methods or in
the evaluation depends on which one it is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from unskew.datasets import load_sites
from unskew.simulate import make_sites, select_by_site

RATES = (0.0, 0.5, 0.8, 0.95)


class Case(NamedTuple):
    """Arguments of ``evaluate``."""

    X: Any
    site: Any
    truth: np.ndarray
    K: int
    fit_on: np.ndarray
    judge_on: np.ndarray
    standardize: bool


# title -> (name, suspect) of load_sites
REAL = {
    "penguins, island": ("penguins", "island"),
    "cell lines, data set": ("cell_lines", "dataset"),
    "cell lines as a table, data set": ("cell_lines", "dataset"),
    "RNA mixtures, protocol": ("rna_mixtures", "protocol"),
    "three lines, platform": ("three_platforms", "platform"),
    "vowels, speaker": ("vowels", "speaker"),
    "vowels, sex": ("vowels", "sex"),
    "heart, hospital": ("heart", "site"),
}
# Principal components, which are not standardised; the same as a table are.
UNSCALED = ("cell lines, data set",)

# title -> arguments of make_sites
GRADED = {f"graded, rate {rate:g}": {"rate": rate} for rate in RATES}
SIMULATED: dict[str, dict[str, Any]] = {
    **GRADED,
    "one group per site": {"n_shared": 0},
    "two groups of its own at each site": {"n_clusters": 6, "n_sites": 3, "n_shared": 0},
    "joined through one group": {"n_clusters": 4, "n_sites": 3, "n_shared": 1, "rate": 0.0},
    "joined through two groups": {"n_clusters": 5, "n_sites": 3, "n_shared": 2, "rate": 0.0},
    "two pure sites and a mixed one": {
        "n_clusters": 2,
        "n_sites": 3,
        "selection": [[1, 0, 1], [0, 1, 1]],
    },
    "two suspects": {"n_sites": 2, "n_suspects": 2},
    "numeric suspect": {"numeric": True},
    "unequal shares": {"shares": [8, 4, 2, 1], "site_shares": [1, 2, 4, 8]},
    "effects on spread": {"spread": 0.5},
    "effects per group": {"interaction": 0.75},
    "heavy tails": {"tails": 3},
    "no groups": {"n_clusters": 1},
    "coin flip": {"n_sites": 2, "rate": 0.0, "shift": 0.0},
}
QUICK = (
    "graded, rate 0.8",
    "one group per site",
    "joined through one group",
    "two pure sites and a mixed one",
    "two suspects",
    "numeric suspect",
    "no groups",
    "coin flip",
)
# Effects of sites are as large as differences of groups.
COMMON = {"rate": 0.8, "shift": 1.5, "n_samples": 1000}
K_OF_NO_GROUPS = 4


@lru_cache(maxsize=2)
def _load(name: str, suspect: str) -> Any:
    return load_sites(name, suspect=suspect)


def real_case(title: str, rate: float, seed: int) -> Case:
    """Selection of ``select_by_site``; judged on all rows."""
    data = _load(*REAL[title])
    n = len(data.target)
    picked = select_by_site(np.arange(n), data.target, data.suspect, rate, random_state=seed)
    K = len(data.target_names)
    scale = title not in UNSCALED
    return Case(data.data, data.suspect, data.target, K, picked.indices, np.arange(n), scale)


def simulated_case(title: str, seed: int) -> Case:
    """Fitted to the biased sample, judged on the population."""
    arguments = COMMON | SIMULATED[title]
    data = make_sites(random_state=seed, **arguments)
    n, m = len(data.y), len(data.y_population)
    groups = arguments.get("n_clusters", 4)
    return Case(
        np.vstack([data.X[:, data.core], data.X_population[:, data.core]]),
        np.concatenate([data.site, data.site_population]),
        np.concatenate([data.y, data.y_population]),
        K_OF_NO_GROUPS if groups == 1 else groups,
        np.arange(n),
        np.arange(n, n + m),
        True,
    )
