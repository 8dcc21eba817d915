"""
What can be drawn of a fit?
===========================

The plots that the other examples do not show, of one fit of :class:`~unskew.DCKM`. Each takes an
axes, and returns it.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unskew import DCKM, plots
from unskew.diagnostics import diagnose
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_sites

data = make_sites(800, n_clusters=3, n_sites=3, n_features=6, rate=0.6, random_state=0)
table = pd.DataFrame(data.X[:, data.core]).add_prefix("m").assign(site=data.site.astype(str))
model = DCKM(3, suspects="site", random_state=0).fit(table)
found = diagnose(model, table)

# %%
# The rows on two principal components, and what distinguishes each cluster.
fig, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
plots.clusters_2d(found, ax)
fig, axes = plt.subplots(3, 1, figsize=(6, 6), layout="constrained")
plots.cluster_profiles(found, axes)
plt.show()

# %%
# Correlations before and after weighting.
fig, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
plots.correlation_maps(found, axes)
plt.show()

# %%
# What the sites do to the columns, and the objective over the iterations.
fig, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
plots.suspect_effects(found, ax, most=12)
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
plots.objective_terms(found, ax)
plt.show()

# %%
# The agreement with the true groups over a grid of the two strengths, weights only.
balance, spread = [0.1, 1.0, 10.0], [0.01, 0.1, 1.0]
scores = np.zeros((3, 3))
for i, s in enumerate(spread):
    for j, b in enumerate(balance):
        fit = DCKM(3, suspects="site", balance_strength=b, spread_strength=s, adjust="weights",
                   n_init=2, random_state=0).fit(table)  # fmt: skip
        scores[i, j] = adjusted_rand_score(data.y, fit.labels_)
fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
plots.sensitivity_surface(balance, spread, scores, ax, label="ARI")
plt.show()
