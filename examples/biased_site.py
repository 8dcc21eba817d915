"""One biased column and what six methods make of it: what `make demo` shows.

Patients of four kinds are examined at four sites. In the sample the site follows the kind of
patient (rate 0.8); in the population it does not. Every site leaves a footprint: 36 of 76 columns
follow the site, 40 the kind. Only the site (four 0/1 columns) is named to unskew. All methods are
judged by the groups they find in the population, where the truth is known: the data are simulated.

    python examples/biased_site.py [--rate 0.8] [--samples 2000] [--seeds 3]
"""

import argparse
import sys

import numpy as np
from sklearn.cluster import KMeans

from unskew import DCKM
from unskew.baselines import RegressOutKMeans
from unskew.metrics import adjusted_rand_index
from unskew.simulate import make_site_footprint

K = 4


def compare(data, seed):
    """name -> (ARI in the population, ARI in the sample, effective size, imbalance left)."""
    rest = np.r_[data.core, data.footprint]

    def judge(fitted, X, X_population, y=data.y):
        return (
            adjusted_rand_index(data.y_population, fitted.predict(X_population)),
            adjusted_rand_index(y, fitted.predict(X)),
        )

    plain = KMeans(K, n_init=10, random_state=seed)
    rows = {}
    rows["k-means, all columns"] = judge(plain.fit(data.X), data.X, data.X_population)
    rows["k-means, site dropped"] = judge(
        plain.fit(data.X[:, rest]), data.X[:, rest], data.X_population[:, rest]
    )
    for words, predict_on in [
        ("site regressed out", "corrected"),
        ("... and new rows taken as they are", "raw"),
    ]:
        model = RegressOutKMeans(
            K, suspects=data.suspects, predict_on=predict_on, random_state=seed
        ).fit(data.X)
        rows[words] = judge(model, data.X, data.X_population)
    model = DCKM(K, suspects=data.suspects, random_state=seed).fit(data.X)
    rows["unskew, site named"] = (
        *judge(model, data.X, data.X_population),
        model.effective_sample_size_,
        model.imbalance_ / model.imbalance_start_,
    )
    rows["k-means on unbiased data (ceiling)"] = judge(
        plain.fit(data.X_unbiased[:, rest]),
        data.X_unbiased[:, rest],
        data.X_population[:, rest],
        data.y_unbiased,
    )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rate", type=float, default=0.8, help="how often the site follows the kind"
    )
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3, help="means over so many simulated samples")
    options = parser.parse_args()

    results = []
    for seed in range(options.seeds):
        data = make_site_footprint(options.samples, rate=options.rate, random_state=seed)
        results.append(compare(data, seed))
        print(f"sample {seed + 1} of {options.seeds} done", file=sys.stderr)

    print(f"\n{options.samples} patients, {K} kinds, {K} sites; in the sample the site follows the")
    print(f"kind at rate {options.rate}, in the population it does not. Only `site` is named.")
    print(f"Agreement with the true kinds (ARI, 1 = perfect), mean of {options.seeds} samples:\n")
    print(
        f"{'':38}{'population':>10}  {'sample':>7}  {'effective size':>14}  {'imbalance left':>14}"
    )
    for name in results[0]:
        mean = np.mean([r[name] for r in results], axis=0)
        bar = "#" * round(20 * max(0.0, mean[0]))
        extra = "".join(f"  {value:14.2f}" for value in mean[2:]) or " " * 32
        print(f"{name:38}{mean[0]:10.2f}  {mean[1]:7.2f}{extra}  {bar}")
    print(
        "\nEffective size: share of the rows that the weights are worth. Imbalance left: how much\n"
        "of the tie between site and the other columns remains under the weights.\n"
    )


if __name__ == "__main__":
    main()
