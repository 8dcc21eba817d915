"""Harmony, ComBat and unskew on the data sets of `load_sites`: the table of coming-from-harmony.md.

    python -m benchmarks.integration

Needs harmonypy, scanpy and anndata. Rows are standardised columns, of more than 20 columns the
first 20 principal components. ARI is that of k-means on the corrected rows with the true groups,
of which the number is given.
"""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

import unskew.anndata
from unskew.datasets import load_sites
from unskew.metrics import kbet_score

NAMES = ("penguins", "cell_lines", "rna_mixtures", "three_platforms", "vowels")


def represent(X: np.ndarray) -> np.ndarray:
    X = (X - X.mean(0)) / np.maximum(X.std(0), 1e-12)
    return PCA(20, random_state=0).fit_transform(X) if X.shape[1] > 20 else X


def main() -> None:
    import anndata
    import harmonypy
    import pandas as pd
    import scanpy as sc

    print("| data | method | ARI | kBET | weighted kBET |\n|---|---|---|---|---|")
    for name in NAMES:
        data = load_sites(name)
        R, K = represent(data.data), len(data.target_names)
        obs = pd.DataFrame({"batch": pd.Categorical(data.suspect)}, index=map(str, range(len(R))))
        adata = anndata.AnnData(X=R.copy(), obs=obs, obsm={"X_pca": R})
        harmony = np.asarray(harmonypy.run_harmony(R, obs, "batch", verbose=False).Z_corr)
        combat = adata.copy()
        sc.pp.combat(combat, "batch")
        unskew.anndata.correct(adata, "batch", random_state=0)
        w = adata.obs["X_unskew_weight"].to_numpy()
        unskew.anndata.cluster(adata, "batch", n_components=K, random_state=0)
        reps = {
            "none": R,
            "Harmony": harmony if harmony.shape == R.shape else harmony.T,
            "ComBat": combat.X,
            "unskew, correct": adata.obsm["X_unskew"],
        }
        for method, Z in reps.items():
            labels = KMeans(K, n_init=10, random_state=0).fit_predict(Z)
            scores = (
                adjusted_rand_score(data.target, labels),
                kbet_score(Z, data.suspect),
                kbet_score(Z, data.suspect, sample_weight=w),
            )
            print(f"| {name} | {method} | " + " | ".join(f"{s:.2f}" for s in scores) + " |")
        found = adjusted_rand_score(data.target, adata.obs["unskew"])
        print(f"| {name} | unskew, cluster | {found:.2f} | | |")


if __name__ == "__main__":
    main()
