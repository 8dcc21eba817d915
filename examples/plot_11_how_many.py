"""
How many groups?
================

The number of groups is chosen without labels: by the BIC of a :class:`~unskew.SelectionMixture`,
or by the silhouette of corrected, weighted rows (:func:`~unskew.choose_k`). The silhouette of
plain k-means counts the sites as well.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from unskew import SelectionMixture, choose_k, plots
from unskew.simulate import make_sites

data = make_sites(900, n_clusters=3, n_sites=4, rate=0.6, shift=1.5, random_state=1)
X = data.X[:, data.core]

by_bic = SelectionMixture("auto", suspects=data.suspects, max_components=7, random_state=0)
print("groups by BIC:", by_bic.fit(data.X).n_components_, "(truth: 3)")

chosen = choose_k(data.X, range(2, 9), suspects=data.suspects, random_state=0)
print("clusters by choose_k:", chosen.chosen)

plain = {}
for k in range(2, 9):
    plain[k] = silhouette_score(X, KMeans(k, n_init=5, random_state=0).fit_predict(X))
print("clusters by the silhouette of k-means:", max(plain, key=plain.get))

# %%
# k-means counts the four sites. The silhouette of corrected rows does not; here it joins the two
# groups that are nearest to each other. The likelihood tells them apart.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
plots.choice(chosen, axes[0])
axes[0].set_title("choose_k", fontsize=10)
axes[1].plot(list(plain), list(plain.values()), marker="o")
axes[1].set(xlabel="n_clusters", ylabel="silhouette", title="k-means, sites ignored")
plt.show()
