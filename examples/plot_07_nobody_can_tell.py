"""
When can nobody tell?
=====================

Two worlds that give the same table. In the first, two hospitals treat two kinds of patients with
the same instrument. In the second, they treat the same kind of patient with two instruments. The
numbers are the same; only what happened is different.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unskew import SelectionMixture
from unskew.diagnostics import verdict

rng = np.random.default_rng(0)
hospital = rng.integers(2, size=600)
measured = 2.0 * hospital[:, None] + rng.normal(size=(600, 2))  # patients, or instruments?
table = pd.DataFrame(measured, columns=["pressure", "rate"])
table["hospital"] = np.array(["A", "B"])[hospital]

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = SelectionMixture(2, suspects="hospital", random_state=0).fit(table)
    found = verdict(model, table)
print("identified_:", model.identified_)
print("verdict:", found.word)
print(found.sentence)
print("warning:", caught[0].message)

# %%
# What helps is not a better method but other data: the same kind of patient at both hospitals.
# With 100 patients of the first kind at hospital B the groups are joined through one kind, and the
# answer rests on the assumption that effects are small.
low = pd.DataFrame(rng.normal(size=(100, 2)), columns=["pressure", "rate"]).assign(hospital="B")
joined = pd.concat([table, low], ignore_index=True)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    second = SelectionMixture(2, suspects="hospital", random_state=0).fit(joined)
print("identified_:", second.identified_)
print("verdict:", verdict(second, joined).word)
print("effects of the hospitals:", second.choice_["effects"])

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained", sharex=True, sharey=True)
titles = ("nobody can tell", "100 patients join the hospitals")
for ax, rows, title in zip(axes, (table, joined), titles):
    for value, marker in (("A", "o"), ("B", "^")):
        own = rows[rows.hospital == value]
        ax.scatter(own.pressure, own["rate"], s=12, marker=marker, alpha=0.6, label=value)
    ax.set(title=title, xlabel="pressure")
axes[0].set_ylabel("rate")
axes[0].legend(title="hospital", frameon=False)
plt.show()
