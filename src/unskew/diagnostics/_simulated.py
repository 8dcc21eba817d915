"""Scores of several methods on simulated data, whose classes are known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from .._io import need
from .._progress import emit, nested_progress
from ..baselines import RegressOutKMeans
from ..dckm import DCKM
from ..metrics import adjusted_rand_score
from ..mixture import SelectionMixture
from ..simulate import make_site_footprint
from ._diagnose import mean_difference


class MethodScores(NamedTuple):
    """Adjusted Rand index in the population and in the sample; of learned weights, the effective
    sample size as a share of the rows, and the mean difference of the other columns between the
    sites after the correction, in standard deviations."""

    population: float
    sample: float
    effective_size: float | None = None
    mean_difference: float | None = None


def score_methods(
    data: Any, random_state: int
) -> tuple[dict[str, MethodScores], SelectionMixture, Any]:
    """Fit eight methods to a data set of `simulate.make_site_footprint`.

    Returns
    -------
    scores : dict
        MethodScores by the title of the method.
    model, frame : SelectionMixture and polars.DataFrame
        The mixture, and the table that it was fitted to.
    """
    K, seed = data.params["n_clusters"], random_state
    rest = np.r_[data.core, data.footprint]
    X, population = data.X[:, rest], data.X_population[:, rest]
    frame = _with_site(data, X, data.site)
    frame_population = _with_site(data, population, data.site_population)
    scores: dict[str, MethodScores] = {}

    def add(title: str, model: Any, X: Any, X_population: Any, y: Any = data.y, **new: Any) -> None:
        size = difference = None
        if isinstance(model, (DCKM, SelectionMixture)):
            size = float(model.effective_sample_size_)
            difference = mean_difference(model, X)[1]
        scores[title] = MethodScores(
            float(adjusted_rand_score(data.y_population, model.predict(X_population, **new))),
            float(adjusted_rand_score(y, model.predict(X))),
            size,
            difference,
        )

    plain = KMeans(K, n_init=10, random_state=seed)
    add("k-means, all columns", plain.fit(data.X), data.X, data.X_population)
    add("k-means, site dropped", plain.fit(X), X, population)
    for title, rows in (("site regressed out", "corrected"), ("... new rows not corrected", "raw")):
        regressed = RegressOutKMeans(
            K, suspects=data.suspects, predict_on=rows, random_state=seed
        ).fit(data.X)
        add(title, regressed, data.X, data.X_population)
    how: dict[str, Any] = {"suspects": ["site"], "random_state": seed}
    weights = DCKM(K, adjust="weights", **how).fit(frame)
    add("unskew, DCKM, weights only", weights, frame, frame_population)
    both = DCKM(K, **how).fit(frame)
    add("unskew, DCKM", both, frame, frame_population)
    mixture = SelectionMixture(K, **how).fit(frame)
    add("unskew, SelectionMixture", mixture, frame, frame_population, shares="population")
    X = data.X_unbiased[:, rest]
    add("k-means on unbiased data (upper bound)", plain.fit(X), X, population, data.y_unbiased)
    return scores, mixture, frame


def score_samples(
    rows: int, rate: float, samples: int, seed: int
) -> tuple[dict[str, MethodScores], SelectionMixture, Any]:
    """Mean scores over samples; the mixture and the table of the last one."""
    results = []
    for i in range(samples):
        emit("sample", i, samples)
        with nested_progress():
            data = make_site_footprint(rows, rate=rate, random_state=seed + i)
            scores, model, frame = score_methods(data, seed + i)
        results.append(scores)
    emit("sample", samples, samples)

    def mean(values: tuple) -> Any:
        return None if None in values else float(np.mean(values))

    means = {
        title: MethodScores(*map(mean, zip(*(scores[title] for scores in results))))
        for title in results[0]
    }
    return means, model, frame


def _with_site(data: Any, X: np.ndarray, site: np.ndarray) -> Any:
    """The columns other than the site, as a table with one column `site` of strings."""
    polars = need("polars", "io", "a table")
    columns = {name: x.astype(np.int8) for name, x in zip(data.feature_names, X.T)}
    return polars.DataFrame({**columns, "site": [f"site {chr(65 + s)}" for s in site]})
