"""
Do the sites share enough groups?
=================================

An effect of a site can be told from a group only if sites have groups in common. The same two
sites and groups, three patterns of selection: both groups at both sites; one group at both; one
group at each.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import pandas as pd

from unskew import SelectionMixture, plots
from unskew.diagnostics import diagnose
from unskew.metrics import adjusted_rand_score
from unskew.simulate import make_sites

patterns = {
    "both groups at both sites": [[1.0, 0.3], [0.3, 1.0]],
    "one group at both sites": [[1.0, 1.0], [0.0, 1.0]],
    "one group at each site": [[1.0, 0.0], [0.0, 1.0]],
}
fig, axes = plt.subplots(3, 1, figsize=(6.5, 6), layout="constrained")
for ax, (title, selection) in zip(axes, patterns.items()):
    data = make_sites(
        800, n_clusters=2, n_sites=2, n_features=6, selection=selection, random_state=1
    )
    table = pd.DataFrame(data.X[:, data.core]).add_prefix("m").assign(site=data.site.astype(str))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SelectionMixture(2, suspects="site", random_state=0).fit(table)
    found = diagnose(model, table, against=False)
    plots.overlap(found, ax)
    ax.set_title(f"{title}: identified_ = {model.identified_!r}", fontsize=10, loc="left")
    score = adjusted_rand_score(data.y, model.labels_)
    print(f"{title}: identified_ = {model.identified_!r}, ARI {score:.2f}")
    for warning in caught:
        print("   ", warning.message)
plt.show()

# %%
# With one common group the matching of the other two is a guess: that effects are small. Here they
# are not, and the guess is wrong. In the last pattern the groups are the sites. No method can know
# whether they differ because of their patients or because of their instruments. ``identified_``
# and a warning say so in both cases.
