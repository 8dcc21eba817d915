"""
Can another clustering method follow?
=====================================

:class:`~unskew.SuspectCorrector` removes the effects of the suspects and returns the columns in
their own units. Any method can follow: here HDBSCAN and Ward's method.
"""

# %%
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.cluster import HDBSCAN, AgglomerativeClustering
from sklearn.pipeline import make_pipeline

from unskew import SuspectCorrector, plots
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_sites

data = make_sites(1000, n_clusters=3, n_sites=3, n_features=4, rate=0.6, separation=3.0, shift=2.0,
                  random_state=0)  # fmt: skip
table = pd.DataFrame(data.X[:, data.core]).add_prefix("m").assign(site=data.site.astype(str))

methods = {
    "HDBSCAN": HDBSCAN(min_cluster_size=40, copy=True),
    "Ward": AgglomerativeClustering(3),
}
for name, method in methods.items():
    before = method.fit_predict(table.drop(columns="site"))
    corrector = SuspectCorrector("site", drop_suspects=True, random_state=0)
    after = make_pipeline(corrector, method).fit_predict(table)
    print(f"{name:8s} ARI {adjusted_rand_score(data.y, before):.2f} before, "
          f"{adjusted_rand_score(data.y, after):.2f} after the correction")  # fmt: skip

# %%
corrector = SuspectCorrector("site", random_state=0).fit(table)
fig, axes = plt.subplots(2, 2, figsize=(8, 7), layout="constrained")
plots.correction(corrector, table, axes.ravel())
plt.show()
