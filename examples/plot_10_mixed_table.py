"""
Can the table hold categories and missing values?
=================================================

Numbers, flags, categories and missing values in one table, as they come. The table is read once;
``encoder_`` shows what was made of each column.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unskew import SelectionMixture, plots
from unskew.metrics import adjusted_rand_score

rng = np.random.default_rng(4)
n = 1500
kind = rng.integers(3, size=n)
clinic = np.where(rng.random(n) < 0.7, kind, rng.integers(3, size=n))  # the selection
table = pd.DataFrame(
    {
        "patient_id": np.arange(10_000, 10_000 + n),
        "age": 45 + 12 * kind + rng.normal(0, 8, n),
        "pressure": 120 + 6 * kind + 10 * clinic + rng.normal(0, 6, n),  # each cuff is different
        "smoker": rng.random(n) < np.array([0.1, 0.4, 0.7])[kind],
        "therapy": np.array(["none", "diet", "drug"])[(kind + (rng.random(n) < 0.25)) % 3],
        "clinic": np.array(["North", "South", "West"])[clinic],
    }
)
table.loc[rng.random(n) < 0.15, "pressure"] = np.nan
table.loc[rng.random(n) < 0.10, "therapy"] = None

model = SelectionMixture(3, suspects="clinic", random_state=0).fit(table)
print(model.encoder_)

# %%
print("ARI with the kinds of patients:", round(adjusted_rand_score(kind, model.labels_), 2))
for effect in model.suspect_effects_:
    shift = dict(zip(effect["columns"], effect["effects"]))["pressure"]
    print(f"{effect['level']:6s} adds {shift:+5.1f} to the pressure (truth, around the mean: "
          f"{10 * (['North', 'South', 'West'].index(effect['level']) - 1):+d})")  # fmt: skip

# %%
fig, axes = plt.subplots(2, 1, figsize=(6.5, 4.6), layout="constrained")
plots.group_shares(model, axes[0])
plots.effect_intervals(model, axes[1])
plt.show()
