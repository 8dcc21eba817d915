"""
Which rows are certain?
=======================

:class:`~unskew.ConsensusDCKM` combines 20 runs. ``confidence_`` of a row is the agreement of the
runs on it; :class:`~unskew.SelectionMixture` has probabilities. Rows of low confidence should be
wrong more often.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from unskew import ConsensusDCKM, SelectionMixture
from unskew.metrics import matching_accuracy
from unskew.simulate import make_sites

data = make_sites(1500, n_clusters=3, n_sites=3, separation=0.75, rate=0.6, random_state=5)
consensus = ConsensusDCKM(3, suspects=data.suspects, random_state=0).fit(data.X)
mixture = SelectionMixture(3, suspects=data.suspects, random_state=0).fit(data.X)
print("agreement of two runs (stability_):", round(float(consensus.stability_), 2))

certainty = {
    "ConsensusDCKM, confidence_": (consensus.labels_, consensus.confidence_),
    "SelectionMixture, largest probability": (
        mixture.labels_,
        mixture.predict_proba(data.X).max(axis=1),
    ),
}

# %%
# Rows are sorted by certainty and cut into five equal parts.
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, (labels, sure) in certainty.items():
    to_true = [np.bincount(data.y[labels == k]).argmax() for k in range(3)]
    right = np.array(to_true)[labels] == data.y
    parts = np.array_split(np.argsort(sure, kind="stable"), 5)
    shares = [right[part].mean() for part in parts]
    print(f"{name}: accuracy {matching_accuracy(data.y, labels):.2f}; by fifth",
          " ".join(f"{share:.2f}" for share in shares))  # fmt: skip
    ax.plot(range(1, 6), shares, marker="o", label=name)
ax.set(xlabel="fifth of the rows, by certainty", ylabel="share of right labels", ylim=(0.4, 1.02))
ax.set_xticks(range(1, 6), ["least", "", "", "", "most"])
ax.legend(frameon=False, loc="lower right")
plt.show()

# %%
# The probabilities of the mixture order the rows. ``confidence_`` tells little here: the runs
# agree, and it is close to 1 also for rows of which all of them are wrong.
print("rows with a confidence_ above 0.95:", f"{(consensus.confidence_ > 0.95).mean():.0%}")
