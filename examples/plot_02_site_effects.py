"""
What did the sites do to the measurements?
==========================================

Four sites measure ten quantities. Each site shifts them in its own way, and each site mostly
received one of four groups. The difference between two sites is then a mixture of both: their
effects and their patients. :class:`~unskew.SelectionMixture` estimates the two together.
"""

# %%
import matplotlib.pyplot as plt
import pandas as pd

from unskew import SelectionMixture, plots
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_sites

data = make_sites(1500, n_clusters=4, n_sites=4, rate=0.8, random_state=3)
table = pd.DataFrame(data.X[:, data.core], columns=[f"m{j}" for j in range(10)])
table["site"] = [f"site {s}" for s in data.site]

model = SelectionMixture(4, suspects="site", random_state=0).fit(table)
print("groups found, ARI:", round(adjusted_rand_score(data.y, model.labels_), 2))
print("can effects be told from groups?", model.identified_)

# %%
# Before the correction the sites are apart (top left) and the groups are not compact (top right).
# After it the sites lie on each other as far as they have the same groups.
fig, axes = plt.subplots(2, 2, figsize=(8, 7), layout="constrained")
plots.correction(model, table, axes.ravel())
plt.show()

# %%
# The largest effects, with 95 % intervals.
fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
plots.effect_intervals(model, ax, most=15)
plt.show()
