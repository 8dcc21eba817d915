"""
Is it better than dropping the column?
======================================

Dropping a suspect or regressing it out is what people do. :func:`~unskew.diagnostics.compare` fits
these baselines on one table and describes all of them by the same numbers; clusters of any other
tool can join the comparison.
"""

# %%
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.mixture import GaussianMixture

from unskew import plots
from unskew.diagnostics import compare
from unskew.simulate import make_sites

data = make_sites(1000, n_clusters=3, n_sites=3, n_features=8, rate=0.7, shift=2.0, random_state=0)
table = pd.DataFrame(data.X[:, data.core]).add_prefix("m").assign(site=data.site.astype(str))

other = GaussianMixture(3, covariance_type="tied", n_init=3, random_state=0)
labels = {"GaussianMixture": other.fit_predict(table.drop(columns="site"))}
found = compare(table, 3, suspects="site", labels=labels, random_state=0)
print(found.summary.word + ":", found.summary.sentence)
print(found.to_frame("rows").drop(columns=["associations"], errors="ignore").round(2).to_string())

# %%
# The simulation knows the groups. Explained variance prefers k-means by construction; what the
# clusters should not do is follow the site.

# %%
fig, axes = plt.subplots(1, 4, figsize=(10, 3.2), layout="constrained")
plots.method_scores(found, axes)
plt.show()
