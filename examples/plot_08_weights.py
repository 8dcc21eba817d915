"""
How much balance do how many rows cost?
=======================================

Weights that make the sites comparable cost precision: some rows count more, others less. The
effective sample size is the price. :class:`~unskew.DecorrelationWeights` learns weights alone, for
any later analysis.
"""

# %%
import matplotlib.pyplot as plt
import pandas as pd

from unskew import DecorrelationWeights, plots
from unskew.diagnostics import diagnose
from unskew.simulate import make_sites

data = make_sites(1500, n_clusters=3, n_sites=3, n_features=8, shift=0.0, rate=0.7, random_state=0)
table = pd.DataFrame(data.X[:, data.core]).add_prefix("m").assign(site=data.site.astype(str))

weigher = DecorrelationWeights(suspects="site").fit(table)
found = diagnose(weigher, table)
print("effective sample size, as a share:", round(weigher.effective_sample_size_, 2))
print("imbalance left, as a share:", round(weigher.imbalance_ / weigher.initial_imbalance_, 3))

# %%
# Differences between the sites, before and after: below 0.1 counts as balanced.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
plots.love_plot(found, axes[0])
plots.weight_distribution(found, axes[1])
plt.show()

# %%
# A larger ``spread_strength`` keeps the weights closer to 1.
rows = []
for strength in (0.1, 0.3, 1.0, 3.0, 10.0):
    fitted = DecorrelationWeights(suspects="site", spread_strength=strength).fit(table)
    left = fitted.imbalance_ / fitted.initial_imbalance_
    rows.append((strength, fitted.effective_sample_size_, left))
    size = fitted.effective_sample_size_
    print(
        f"spread_strength={strength:<6} effective sample size {size:.2f}, imbalance left {left:.3f}"
    )

fig, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
ax.plot([row[1] for row in rows], [row[2] for row in rows], marker="o")
for strength, size, left in rows:
    ax.annotate(
        f"{strength:g}", (size, left), textcoords="offset points", xytext=(-4, 6), ha="right"
    )
ax.set(xlabel="effective sample size, as a share", ylabel="imbalance left, as a share")
ax.set_title("labels: spread_strength", fontsize=10)
plt.show()
