"""
Which column should be a suspect?
=================================

Before anything is fitted, :func:`~unskew.diagnostics.audit` shows which columns predict which. A
column that says how data were gathered, and that predicts many others, is a candidate. A column
that says what the data are about is not.
"""

# %%
import matplotlib.pyplot as plt
import pandas as pd

from unskew import plots
from unskew.diagnostics import audit
from unskew.simulate import make_site_footprint

data = make_site_footprint(1000, n_core=12, n_footprint=12, rate=0.8, random_state=0)
names = [name for name in data.feature_names if not name.startswith("site")]
table = pd.DataFrame(data.X[:, :24], columns=names).astype(int)
table["scanner"] = [f"scanner {s}" for s in data.site]

found = audit(table)
for notice in found.notices:
    print(f"{notice.column}: {notice.sentence}")

fig, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
plots.reach_of_columns(found, axes[0])
plots.audited_pairs(found, axes[1], most=12)
plt.show()

# %%
# With the scanner named, the question is whether decorrelation is worthwhile.
named = audit(table, suspects="scanner")
print(named.worth.word + ":", named.worth.sentence)
