"""
Who was selected where?
=======================

The shares of the groups at each site are the selection. They are estimated with the groups, and
with them the weights that would undo the selection.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr

from unskew import SelectionMixture, plots
from unskew.metrics import effective_sample_size
from unskew.simulate import make_sites

data = make_sites(2000, n_clusters=3, n_sites=3, rate=0.8, random_state=0)
model = SelectionMixture(3, suspects=data.suspects, random_state=0).fit(data.X)

fig, ax = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
plots.group_shares(model, ax)
plt.show()

# %%
# Compared with the truth: which row of ``shares_`` belongs to which true group is found by the
# largest overlap.
true = np.array([[np.mean(data.y[data.site == s] == k) for k in range(3)] for s in range(3)])
match = [np.bincount(data.y[model.labels_ == k]).argmax() for k in range(3)]
print("largest error of a share:", np.abs(model.shares_ - true[:, match]).max().round(3))

# %%
# The learned weights against the true inverse-selection weights. A row of a group that the site
# rarely received has a large weight.
weights = model.weights_ / model.weights_.mean()
print("rank correlation:", round(spearmanr(weights, data.weights).statistic, 2))
print("effective sample size, learned:", round(effective_sample_size(weights), 2))
print("effective sample size, true   :", round(effective_sample_size(data.weights), 2))

fig, ax = plt.subplots(figsize=(5, 4), layout="constrained")
levels = np.unique(data.weights)
ax.boxplot(
    [weights[data.weights == w] for w in levels],
    tick_labels=[f"{w:.2f}" for w in levels],
    widths=0.6,
)
ax.set(xlabel="true weight", ylabel="learned weight")
plt.show()
