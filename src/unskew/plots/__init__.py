"""Plots of diagnostics, audits and comparisons with matplotlib.

Every function takes a result of `unskew.diagnostics` and optionally an Axes, and returns the Axes;
without one it creates a figure (`ax.figure`) of a size that suits the number of rows. pyplot is not
used, so no figure is registered or shown. Colours are the colour-blind safe palette of Okabe and
Ito. If there are more features than a plot can label, the largest are plotted and a note gives the
number of omitted ones.

Examples
--------
>>> from unskew import DCKM, plots
>>> from unskew.diagnostics import diagnose
>>> from unskew.simulate import make_site_footprint
>>> data = make_site_footprint(300, random_state=0)
>>> model = DCKM(4, suspects=data.suspects, n_init=1, random_state=0).fit(data.X)
>>> ax = plots.love_plot(diagnose(model, data.X))
>>> ax.figure.savefig("love.svg")  # doctest: +SKIP
"""

from __future__ import annotations

from ._audit import (
    audited_pairs,
    candidate_columns,
    choice,
    method_scores,
    reach_of_columns,
    sensitivity_surface,
)
from ._correction import (
    before_after,
    correction,
    effect_intervals,
    group_shares,
    overlap,
    suspect_effects,
)
from ._fit import (
    cluster_profile,
    cluster_profiles,
    clusters_2d,
    correlation_map,
    correlation_maps,
    love_plot,
    objective_terms,
    sample_flow,
    weight_distribution,
)

__all__ = [
    "audited_pairs",
    "before_after",
    "candidate_columns",
    "choice",
    "cluster_profile",
    "cluster_profiles",
    "clusters_2d",
    "correction",
    "correlation_map",
    "correlation_maps",
    "effect_intervals",
    "group_shares",
    "love_plot",
    "method_scores",
    "objective_terms",
    "overlap",
    "reach_of_columns",
    "sample_flow",
    "sensitivity_surface",
    "suspect_effects",
    "weight_distribution",
]
