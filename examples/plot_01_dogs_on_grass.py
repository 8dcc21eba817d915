"""
Why does k-means group by the background?
=========================================

Photos of four animals. In the collection each animal was mostly photographed on one background:
dogs on grass. In the world the background does not depend on the animal. 40 columns describe the
animal, 36 describe what the background does to the picture, and the background itself is recorded.

k-means sees columns that move together. It cannot know that half of them move because of how the
photos were taken.
"""

# %%
# The collection (``X``) and the world (``X_population``) come from one model, so that the truth is
# known.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from unskew import SelectionMixture
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_site_footprint

data = make_site_footprint(1500, rate=0.8, random_state=0)
pixels = np.r_[data.core, data.footprint]

kmeans = KMeans(4, n_init=10, random_state=0).fit(data.X[:, pixels])
mixture = SelectionMixture(4, suspects=data.suspects, random_state=0).fit(data.X)

# %%
# Both group the photos of the collection. Then both are asked about photos of the world.
found = {
    "k-means": kmeans.predict(data.X_population[:, pixels]),
    "SelectionMixture": mixture.predict(data.X_population, shares="population"),
}
for name, labels in found.items():
    print(f"{name:17s} ARI in the world: {adjusted_rand_score(data.y_population, labels):.2f}")

# %%
# Rows of the tables are clusters, columns are animals (left) or backgrounds (right). A good
# cluster has one dark cell on the left and an even row on the right.
fig, axes = plt.subplots(2, 2, figsize=(7.5, 6), layout="constrained")
for row, (name, labels) in zip(axes, found.items()):
    for ax, truth, title in zip(
        row, (data.y_population, data.site_population), ("animal", "background")
    ):
        table = np.array(
            [[np.sum((labels == k) & (truth == c)) for c in range(4)] for k in range(4)]
        )
        table = table[np.argsort(table.argmax(1), kind="stable")]
        ax.imshow(table / table.sum(1, keepdims=True), cmap="Blues", vmin=0, vmax=1)
        for (i, j), n in np.ndenumerate(table):
            ax.text(
                j,
                i,
                n,
                ha="center",
                va="center",
                color="white" if n > table[i].sum() * 0.5 else "black",
            )
        ax.set(
            title=f"{name}: clusters by {title}",
            xlabel=title,
            ylabel="cluster",
            xticks=range(4),
            yticks=range(4),
        )
plt.show()
