"""
What if the bias came in through a number?
==========================================

An instrument drifts with time, and the kinds of samples were measured at different times. The
suspect is a number: its effect is a smooth curve for each column.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from unskew import SelectionMixture, SuspectCorrector
from unskew.metrics import adjusted_rand_score

rng = np.random.default_rng(2)
n = 1200
kind = rng.integers(3, size=n)
day = np.clip(rng.normal(30 + 20 * kind, 30), 0, 100)  # the kinds came at different times
drift = 3 * np.sin(day / 100 * np.pi)
x = np.c_[2.5 * kind + drift, -2.0 * (kind == 1) + 0.5 * drift, 2.0 * (kind == 2) - drift]
table = pd.DataFrame(x + rng.normal(size=(n, 3)), columns=["a", "b", "c"]).assign(day=day)

kmeans = KMeans(3, n_init=10, random_state=0).fit_predict(table[["a", "b", "c"]])
model = SelectionMixture(3, suspects="day", random_state=0).fit(table)
print("k-means          ARI", round(adjusted_rand_score(kind, kmeans), 2))
print("SelectionMixture ARI", round(adjusted_rand_score(kind, model.labels_), 2))

# %%
# What the corrector takes away from column ``a`` on each day, and the true drift.
corrector = SuspectCorrector("day", n_components=3, random_state=0).fit(table)
removed = table["a"] - corrector.transform(table)["a"]

fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
axes[0].scatter(day, table["a"], c=kind, s=6, cmap="viridis")
axes[0].set(xlabel="day", ylabel="a", title="colours: true kinds")
axes[1].scatter(day, removed - removed.mean(), s=6, label="removed")
order = np.argsort(day)
axes[1].plot(day[order], (drift - drift.mean())[order], color="black", label="true drift")
axes[1].set(xlabel="day", title="effect on a, around its mean")
axes[1].legend(frameon=False)
plt.show()
