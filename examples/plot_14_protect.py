"""
Can a difference of interest be kept?
=====================================

Patients with a diagnosis are mostly at one site. A correction that only knows the site would take
a part of the diagnosis along. ``protect`` keeps the association of a column with the others;
``reference`` learns the effects from the rows of the controls alone.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unskew import SuspectCorrector

rng = np.random.default_rng(1)
n = 800
ill = rng.random(n) < 0.5
site = np.where(rng.random(n) < np.where(ill, 0.85, 0.15), "A", "B")
volume = 50 - 3.0 * ill + 4.0 * (site == "A") + rng.normal(0, 2, n)
flow = 20 + 1.5 * ill - 2.0 * (site == "A") + rng.normal(0, 1, n)
table = pd.DataFrame({"volume": volume, "flow": flow, "site": site,
                      "diagnosis": np.where(ill, "ill", "control")})  # fmt: skip

# %%
# True difference between the ill and the controls: -3 in volume, +1.5 in flow.
correctors = {
    "not corrected": None,
    "site means removed": "means",
    "SuspectCorrector": SuspectCorrector("site", n_components=2, random_state=0),
    "... protect": SuspectCorrector("site", 1, protect="diagnosis", random_state=0),
    "... reference": SuspectCorrector(
        "site", 1, reference={"diagnosis": "control"}, random_state=0
    ),
}
differences = {}
for name, corrector in correctors.items():
    if corrector is None:
        rows = table
    elif corrector == "means":
        rows = table.copy()
        columns = ["volume", "flow"]
        rows[columns] -= rows.groupby("site")[columns].transform("mean")
    else:
        rows = corrector.fit_transform(table)
    differences[name] = [rows[c][ill].mean() - rows[c][~ill].mean() for c in ("volume", "flow")]
    print(f"{name:20s} volume {differences[name][0]:+.2f}   flow {differences[name][1]:+.2f}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", sharey=True)
for ax, j, column, truth in zip(axes, (0, 1), ("volume", "flow"), (-3.0, 1.5)):
    ax.barh(list(differences), [each[j] for each in differences.values()])
    ax.axvline(truth, color="black", linestyle=":", label="truth")
    ax.set_xlabel(f"{column}: ill minus controls")
axes[0].invert_yaxis()
axes[1].legend(frameon=False)
plt.show()
