"""Do mixing metrics rank correctors as population ARI does? With and without sample weights.

    python -m benchmarks.mixing [seed ...]

The cases and correctors of `benchmarks.correction`. For each case Kendall's tau between a metric of
the corrected rows and the population ARI of k-means on them, over four correctors. Weights are the
inverse-selection weights of `SuspectCorrector`, for every corrector. Intervals are those of the
mean over cases, by bootstrap.
"""

import sys
import warnings
from typing import Any

import numpy as np
from scipy.stats import kendalltau
from sklearn.cluster import KMeans

from unskew import SuspectCorrector
from unskew.metrics import (
    adjusted_rand_score,
    batch_silhouette_score,
    kbet_score,
    lisi_score,
    principal_component_regression_score,
)

from .correction import CORRECTORS, LEFT_OUT, QUICK_RATES
from .sites.cases import REAL, SIMULATED, real_case, simulated_case
from .sites.evaluation import as_suspects, prepare
from .sites.methods import Rows, label_new_rows

# Larger is better; of the share of variance that the batch explains smaller is.
METRICS = {
    "LISI": lisi_score,
    "kBET": kbet_score,
    "batch silhouette": batch_silhouette_score,
    "PC regression": lambda *given, **how: -principal_component_regression_score(*given, **how),
}


def taus_of_case(case: Any, seed: int) -> dict[tuple[str, bool], float]:
    """Kendall's tau of each metric, without (False) and with (True) weights."""
    matrix, _ = prepare(case.X, case.fit_on, case.standardize)
    rows = Rows(matrix, None, as_suspects(case.site), case.fit_on, case.judge_on)
    site, truth = rows.suspects.iloc[rows.fit, 0].to_numpy(), case.truth[case.judge_on]
    table = rows.suspects.iloc[rows.fit].copy()
    for j in range(rows.X.shape[1]):
        table[f"x{j}"] = rows.X[rows.fit, j]
    weights = SuspectCorrector(list(rows.suspects), random_state=seed).fit(table).sample_weight_
    scores: dict[tuple[str, bool], list[float]] = {}
    ari = []
    for make in CORRECTORS.values():
        Z = make(rows, seed)
        found = KMeans(case.K, n_init=10, random_state=seed).fit_predict(Z)
        ari.append(adjusted_rand_score(truth, label_new_rows(rows, found + 1)))
        for name, metric in METRICS.items():
            for weighted in (False, True):
                how = {"sample_weight": weights} if weighted else {}
                scores.setdefault((name, weighted), []).append(metric(Z, site, **how))
    return {key: float(np.nan_to_num(kendalltau(ari, own)[0])) for key, own in scores.items()}


def mean_and_interval(values: np.ndarray) -> str:
    rng = np.random.default_rng(0)
    means = rng.choice(values, (2000, values.size)).mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{values.mean():.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    seeds = [int(seed) for seed in sys.argv[1:]] or [0]
    warnings.simplefilter("ignore")
    found = []
    for seed in seeds:
        cases = [real_case(title, rate, seed) for title in REAL for rate in QUICK_RATES]
        cases += [simulated_case(title, seed) for title in SIMULATED if title not in LEFT_OUT]
        for number, case in enumerate(cases):
            found.append(taus_of_case(case, seed))
            print(f"{number + 1} of {len(cases)}, seed {seed}", file=sys.stderr)
    print(
        f"{len(found)} cases\n\n| metric | unweighted | weighted | difference |\n|---|---|---|---|"
    )
    for name in METRICS:
        plain, own = (np.array([one[name, weighted] for one in found]) for weighted in (0, 1))
        shown = (mean_and_interval(values) for values in (plain, own, own - plain))
        print(f"| {name} | " + " | ".join(shown) + " |")


if __name__ == "__main__":
    main()
