"""
Did it help?
============

Without true labels nobody can compute an accuracy. The verdict compares the groups with those of
k-means without the suspect, by their likelihood, and says one of four things: helped, no effect,
harmed, cannot be told. Here it is compared with the truth, which the simulation knows.
"""

# %%
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.cluster import KMeans

from unskew import SelectionMixture, plots
from unskew.diagnostics import diagnose
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_sites

data = make_sites(1200, n_clusters=3, n_sites=3, n_features=8, rate=0.7, shift=2.0, random_state=2)
table = pd.DataFrame(data.X[:, data.core]).add_prefix("m").assign(site=data.site.astype(str))
model = SelectionMixture(3, suspects="site", random_state=0).fit(table)
found = diagnose(model, table)

print(found.verdict.word)
print(found.verdict.sentence)
for reason in found.verdict.reasons:
    print("-", reason)

# %%
# Where the rows of each cluster of k-means went.
fig, ax = plt.subplots(figsize=(6.5, 3.5), layout="constrained")
plots.sample_flow(found, ax)
plt.show()

# %%
# The truth: agreement with the groups.
kmeans = KMeans(3, n_init=10, random_state=0).fit_predict(data.X[:, data.core])
print("k-means         ", round(adjusted_rand_score(data.y, kmeans), 2))
print("SelectionMixture", round(adjusted_rand_score(data.y, model.labels_), 2))
