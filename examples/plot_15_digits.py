"""
Does it work on images?
=======================

Handwritten digits, scanned at two sites whose scanners add a tint to each pixel. The site depends
on the digit. A correction is needed at a strong tint; at a weak one k-means is as good. The
verdict does not know which of the two it sees, and says so.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from unskew import DCKM
from unskew.diagnostics import verdict
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_tinted_digits

results = {}
for tint in (0.3, 1.0):
    data = make_tinted_digits(n_classes=4, n_sites=2, tint=tint, rate=0.6, random_state=0)
    kmeans = KMeans(4, n_init=10, random_state=0).fit(data.X[:, :64])
    model = DCKM(4, suspects=data.suspects, random_state=0).fit(data.X)
    results[tint] = [
        adjusted_rand_score(data.y_population, kmeans.predict(data.X_population[:, :64])),
        adjusted_rand_score(data.y_population, model.predict(data.X_population)),
    ]
    print(f"tint {tint}: k-means {results[tint][0]:.2f}, DCKM {results[tint][1]:.2f}, "
          f"verdict of DCKM: {verdict(model, data.X).word}")  # fmt: skip

# %%
# The population at the strong tint: mean of the images (without tint) in each cluster. A sharp
# picture means that a cluster has one digit.
fig, axes = plt.subplots(2, 4, figsize=(6, 3.4), layout="constrained")
both = {
    "k-means": kmeans.predict(data.X_population[:, :64]),
    "DCKM": model.predict(data.X_population),
}
for row, (title, labels) in zip(axes, both.items()):
    for k, ax in enumerate(row):
        mean = np.asarray(data.X_clean)[labels == k].mean(axis=0)
        ax.imshow(mean.reshape(8, 8), cmap="gray_r")
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(title)
plt.show()
