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

from collections.abc import Sequence
from functools import wraps
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator, PercentFormatter

__all__ = [
    "audited_pairs",
    "before_after",
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

INK, MUTED, GRID, PAPER = "#24292f", "#6e7681", "#d8dee4", "#fefefe"
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"
SKY, PURPLE, BLACK = "#56b4e9", "#cc79a7", "#4d4d4d"  # slightly lighter than Okabe and Ito's black
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, RED, SKY, BLACK)
MARKERS = "osD^vPX"
THRESHOLD = 0.1
WIDTH = 4.9  # inches
FONT = 9.5

STYLE = {
    "font.family": "sans-serif",
    "font.size": FONT,
    "text.color": INK,
    "text.parse_math": False,  # column names may contain "$"
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.labelsize": FONT,
    "axes.linewidth": 0.8,
    "axes.titlesize": FONT,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": FONT - 0.5,
    "ytick.labelsize": FONT - 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": FONT - 1,
    "svg.fonttype": "none",
}


def cluster_colour(k: int) -> str:
    return PALETTE[k % len(PALETTE)]


def cluster_marker(k: int) -> str:
    """Marker that changes when the colours repeat, so that up to 49 clusters differ."""
    return MARKERS[(k // len(PALETTE)) % len(MARKERS)]


def shorten(name: str, most: int = 26) -> str:
    """Abbreviate a long name in the middle: names often differ at either end."""
    if len(name) <= most:
        return name
    tail = (most - 1) // 2
    return f"{name[: most - 1 - tail]}…{name[-tail:]}"


def _axes(ax: Axes | None, height: float, width: float = WIDTH) -> Axes:
    if ax is not None:
        return ax
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def _styled(function: Any) -> Any:
    """Apply STYLE during the call without changing the global settings."""

    @wraps(function)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        style: Any = STYLE
        with mpl.rc_context(style):
            return function(*args, **kwargs)

    return drawn


def _quiet(ax: Axes, grid: Any = "x") -> None:
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=GRID, linewidth=0.6)
    ax.tick_params(length=0)
    for side in ("left", "right", "top", "bottom"):
        ax.spines[side].set_visible(False)


def _note(ax: Axes, text: str) -> None:
    if text:
        ax.set_title(text, fontsize=FONT - 1, color=MUTED, loc="left", fontweight="normal")


# ----------------------------------------------------------------------------------- imbalance
@_styled
def love_plot(
    found: Any, ax: Axes | None = None, *, most: int = 30, threshold: float = THRESHOLD
) -> Axes:
    """Largest |standardised difference| of each feature before and after weighting.

    ``found`` is a Diagnostics or a sequence of FeatureBalance. Suspects (nuisance (batch) columns
    through which the bias came in: site, scanner, channel) are omitted, because they are part of
    every pair. Features below ``threshold`` are considered balanced.
    """
    rows = list(getattr(found, "features", found))
    rows = sorted(rows, key=lambda row: -row.before)
    shown = rows[:most]
    ax = _axes(ax, 0.9 + 0.21 * max(len(shown), 3))
    y = np.arange(len(shown))[::-1]
    before, after = [row.before for row in shown], [row.after for row in shown]
    better = [b >= a for b, a in zip(before, after)]
    ax.hlines(y, before, after, color=[SKY if b else RED for b in better], linewidth=1.6)
    ax.plot(before, y, "o", color=MUTED, markerfacecolor="none", markersize=5.5, label="before")
    ax.plot(after, y, "o", color=BLUE, markersize=5.5, label="after weighting")
    ax.axvline(threshold, color=RED, linewidth=1, linestyle=(0, (4, 3)))
    _quiet(ax)
    ax.set_yticks(y, [shorten(row.feature) for row in shown], color=INK)
    ax.set_ylim(-0.8, len(shown) - 0.2)
    ax.set_xlim(0, 1.05 * max([threshold * 1.5, *before, *after]))
    ax.set_xlabel(f"largest |standardised difference|; dashed: {threshold:g}")
    left = len(rows) - len(shown)
    _note(ax, f"{left} omitted" if left else "")
    how = {"columnspacing": 1.0, "handletextpad": 0.1, "borderaxespad": 0.2}
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, **how)
    return ax


def _diverging() -> LinearSegmentedColormap:
    """Orange to blue, transparent in the middle, for light and dark backgrounds."""
    negative, positive = to_rgb(RED), to_rgb(BLUE)
    stops = [
        (0.0, (*negative, 1.0)),
        (0.5, (*negative, 0.0)),
        (0.5, (*positive, 0.0)),
        (1.0, (*positive, 1.0)),
    ]
    return LinearSegmentedColormap.from_list("unskew", stops, N=256)


@_styled
def correlation_map(found: Any, ax: Axes | None = None, *, which: str = "after") -> Axes:
    """Correlations of at most 60 encoded columns ``which`` = "before" or "after" weighting.

    Columns are ordered by the cluster in which they differ most from the other rows. Lines
    separate the clusters; suspects (nuisance (batch) columns through which the bias came in: site,
    scanner, channel) are the last block.
    """
    if which not in ("before", "after"):
        raise ValueError(f"which={which!r} should be one of 'before', 'after'")
    correlation = getattr(found, "correlation", found)
    r = np.array(getattr(correlation, which))
    d = len(correlation.names)
    np.fill_diagonal(r, 0.0)
    ax = _axes(ax, WIDTH * (0.92 if d > 6 else 0.6))
    top = max(0.3, float(np.abs(np.array(correlation.before) - np.eye(d)).max(initial=0.0)))
    image = ax.imshow(r, cmap=_diverging(), vmin=-top, vmax=top, interpolation="none")
    edges = [i for i in range(1, d) if correlation.groups[i] != correlation.groups[i - 1]]
    for i in edges:
        ax.axhline(i - 0.5, color=MUTED, linewidth=0.6)
        ax.axvline(i - 0.5, color=MUTED, linewidth=0.6)
    for spine in ax.spines.values():
        spine.set_visible(True)
    ax.tick_params(length=0)
    if d <= 20:
        ax.set_yticks(range(d), [shorten(name, 18) for name in correlation.names], color=INK)
        ax.set_xticks([])
    else:
        middle = np.diff([0, *edges, d]) / 2 + np.array([0, *edges]) - 0.5
        groups = [correlation.groups[i] for i in [0, *edges]]
        words = ["suspects" if g is None else f"cluster {g}" for g in groups]
        named = any(g is not None for g in groups)
        ax.set_yticks(middle if named else [], words if named else [], color=INK)
        ax.set_xticks([])
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.6, aspect=24, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    left = correlation.n_columns - d
    _note(ax, f"{d} of {correlation.n_columns} encoded columns" if left else "")
    return ax


def correlation_maps(found: Any, axes: Sequence[Axes] | None = None) -> tuple[Axes, Axes]:
    """`correlation_map` before and after, side by side."""
    if axes is None:
        figure = Figure(figsize=(2 * WIDTH, WIDTH * 0.92), layout="constrained")
        axes = list(figure.subplots(1, 2))
    if len(axes) != 2:
        raise ValueError(f"axes has {len(axes)} entries but should have 2")
    for which, ax in zip(("before", "after"), axes):
        correlation_map(found, ax, which=which)
        ax.set_xlabel(f"{which} weighting", color=INK)
    return axes[0], axes[1]


# ------------------------------------------------------------------------------------- weights
@_styled
def weight_distribution(found: Any, ax: Axes | None = None) -> Axes:
    """Histogram of the learned weights, whose mean is 1; the last bar includes all larger ones."""
    weights = getattr(found, "weights", found)
    ax = _axes(ax, 2.9)
    edges, counts = np.array(weights.edges), np.array(weights.counts)
    ax.bar(edges[:-1], counts, np.diff(edges), align="edge", color=BLUE, alpha=0.85, linewidth=0)
    ax.axvline(1.0, color=INK, linewidth=1, linestyle=(0, (2, 2)))
    _quiet(ax, "y")
    ax.set_xlim(0, edges[-1])
    ax.set_ylim(0, 1.15 * max(1, counts.max()))
    ax.text(1.0, 1.0, " 1 = mean", transform=ax.get_xaxis_transform(),
            va="top", fontsize=FONT - 1, color=MUTED)  # fmt: skip
    above = f"; last bar up to {weights.maximum:.3g}" if weights.maximum > edges[-1] else ""
    ax.set_xlabel(f"learned weight of a row{above}")
    ax.set_ylabel("rows")
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    _note(
        ax,
        f"effective sample size {weights.effective_size:.0%}: {weights.n_rows:,} rows are "
        f"equivalent to {weights.kish_size:,.0f}",
    )
    return ax


# ------------------------------------------------------------------------------------ clusters
SIZES = (0.15, 0.4, 0.8, 1.5, 3.0)  # bin edges of the weights for the point sizes


@_styled
def clusters_2d(found: Any, ax: Axes | None = None) -> Axes:
    """Rows on two principal components; the area of a point increases with its weight."""
    shown = getattr(found, "projection", found)
    if shown is None:
        raise ValueError("found has no clusters to plot (projection is None)")
    ax = _axes(ax, WIDTH * 0.82)
    x, y, weight = np.array(shown.x), np.array(shown.y), np.array(shown.weight)
    cluster, step = np.array(shown.cluster), np.digitize(shown.weight, SIZES)
    rows = max(len(x), 1)
    unit = np.clip(9000 / rows, 5, 40)
    for s in range(len(SIZES) + 1):  # in ascending order, so that large weights are on top
        area = unit * (0.12, 0.3, 0.6, 1.1, 2.1, 4.2)[s]
        for k in np.unique(cluster):
            own = (cluster == k) & (step == s)
            if own.any():
                ax.scatter(x[own], y[own], area, color=cluster_colour(k), alpha=0.55,
                           linewidths=0, marker=cluster_marker(k))  # fmt: skip
    for k in np.unique(cluster):
        own = cluster == k
        share = np.where(weight[own].sum() > 0, weight[own], 1.0)
        at = np.average(np.c_[x[own], y[own]], axis=0, weights=share + 1e-12)
        ax.annotate(str(k), tuple(at), ha="center", va="center", color=INK, fontweight="bold",
                    fontsize=FONT, bbox={"boxstyle": "circle,pad=0.25", "linewidth": 1.8,
                    "facecolor": PAPER, "edgecolor": cluster_colour(k)})  # fmt: skip
    _quiet(ax, "both")
    ax.set_xticklabels([])
    ax.set_yticklabels([])
    ax.set_xlabel(f"first component, {shown.variance[0]:.0%} of the variance")
    ax.set_ylabel(f"second component, {shown.variance[1]:.0%}")
    left = shown.n_rows - len(x)
    _note(ax, f"{len(x):,} of {shown.n_rows:,} rows" if left else f"{len(x):,} rows")
    return ax


@_styled
def before_after(
    found: Any, axes: Sequence[Axes] | None = None, *, most: int = 400
) -> tuple[Axes, ...]:
    """Rows before the correction, coloured by the first suspect, and after it, coloured by suspect
    and by cluster, on the same two components. Without effects before and after differ in the
    weights only, which are the sizes of the points after it.

    ``found``: Diagnostics of a fit with suspects; ``most``: number of rows that are drawn.
    """
    p = getattr(found, "projection", found)
    if p is None or not p.value:
        raise ValueError("found has no projection of a fit with suspects")
    if axes is None:
        figure = Figure(figsize=(WIDTH * 2, WIDTH * 0.72), layout="constrained")
        axes = list(figure.subplots(1, 3, sharex=True, sharey=True))
    if len(axes) != 3:
        raise ValueError(f"axes has {len(axes)} entries; there should be 3")
    some = np.random.default_rng(0).permutation(len(p.x))[:most]
    after = np.column_stack([p.x, p.y])[some]
    before = np.column_stack([p.before_x, p.before_y])[some] if p.before_x else after
    size = 5 + 9 * np.clip(np.asarray(p.weight)[some], 0, 4)
    values, clusters = np.asarray(p.value)[some], np.asarray(p.cluster)[some]
    panels = (
        ("before", before, values, np.full(len(values), 14.0), p.suspect),
        ("after", after, values, size, p.suspect),
        ("after", after, clusters, size, "cluster"),
    )
    for ax, (when, points, codes, s, by) in zip(axes, panels):
        for code in np.unique(codes):
            own = codes == code
            name = p.values[code] if by == p.suspect else str(code)
            ax.scatter(points[own, 0], points[own, 1], s=s[own], color=cluster_colour(code),
                       marker=cluster_marker(code), alpha=0.55, linewidth=0,
                       label=shorten(name, 14))  # fmt: skip
        ax.set_title(f"{when}, by {shorten(by, 18)}", loc="left")
        ax.set_xticks([])
        ax.set_yticks([])
        if len(np.unique(codes)) <= 8:
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=4, markerscale=1.2,
                      handletextpad=0.1, columnspacing=0.8)  # fmt: skip
    return tuple(axes)


@_styled
def cluster_profile(found: Any, cluster: int, ax: Axes | None = None, *, most: int = 6) -> Axes:
    """Largest differences of one cluster to the other rows, weighted (bars) and not (ticks)."""
    profiles = getattr(found, "clusters", found)
    profile = next((p for p in profiles if p.cluster == cluster), None)
    if profile is None:
        known = [p.cluster for p in profiles]
        raise ValueError(f"cluster={cluster!r} should be one of {known}")
    shown = profile.features[:most]
    ax = _axes(ax, 0.62 + 0.25 * max(len(shown), 2), width=WIDTH * 0.58)
    y = np.arange(len(shown))[::-1]
    values = [f.difference for f in shown]
    plain = [f.plain_difference for f in shown]
    ax.barh(y, values, 0.6, color=cluster_colour(cluster), alpha=0.85, linewidth=0)
    ax.plot(plain, y, "|", color=INK, markersize=9, markeredgewidth=1.4)
    ax.axvline(0, color=MUTED, linewidth=0.8)
    _quiet(ax)
    ax.set_yticks(y, [shorten(f.feature, 20) for f in shown], color=INK, fontsize=FONT)
    ax.set_ylim(-0.6, max(len(shown), 2) - 0.4)
    low, high = min([0.0, *values, *plain]), max([0.0, *values, *plain])
    padding = 0.06 * max(high - low, 0.5)
    ax.set_xlim(low - (padding if low < 0 else 0.0), high + padding)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    return ax


def cluster_profiles(
    found: Any, axes: Sequence[Axes] | None = None, *, most: int = 6
) -> tuple[Axes, ...]:
    """`cluster_profile` of every cluster, one below the other."""
    profiles = getattr(found, "clusters", found)
    if not profiles:
        raise ValueError("found has no clusters to plot")
    if axes is None:
        height = (0.75 + 0.25 * most) * len(profiles)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = list(figure.subplots(len(profiles), 1, squeeze=False)[:, 0])
    if len(axes) != len(profiles):
        raise ValueError(f"axes has {len(axes)} entries but there are {len(profiles)} clusters")
    for profile, ax in zip(profiles, axes):
        cluster_profile(profiles, profile.cluster, ax, most=most)
        ax.set_title(
            f"cluster {profile.cluster}: {profile.share:.0%} of the rows, weighted "
            f"{profile.weighted_share:.0%}",
            fontsize=FONT, color=INK, loc="left",
        )  # fmt: skip
    return tuple(axes)


@_styled
def suspect_effects(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """The largest effects of suspects that the model removes from the other columns.

    Suspects are nuisance (batch) columns through which the bias came in: site, scanner, channel.
    """
    effects = getattr(found, "effects", found)
    if not effects:
        raise ValueError("found has no effects of suspects; see the parameter adjust of DCKM")
    shown = list(effects)[:most]
    names = [f"{shorten(one.suspect, 17)} on {shorten(one.feature, 17)}" for one in shown]
    values = [one.effect for one in shown]
    ax = _bars(ax, names, values, [BLUE if value > 0 else RED for value in values])
    ax.set_xlim(1.06 * min([0.0, *values]), 1.06 * max([0.0, *values]))
    ax.axvline(0, color=MUTED, linewidth=0.8)
    ax.set_xlabel("effect, in standard deviations of the column")
    left = len(effects) - len(shown)
    _note(ax, f"largest {len(shown)} of {len(effects)}" if left else "")
    return ax


@_styled
def effect_intervals(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """The largest effects of suspects on numbers with 95 % intervals, in standard deviations within
    groups.

    ``found``: a fitted SelectionMixture or SuspectCorrector.
    """
    model = getattr(found, "mixture_", found)
    entries = model.suspect_effects_ or []
    variance = np.zeros(0) if model.covariance_ is None else np.asarray(model.covariance_)
    sd = np.sqrt(np.diag(variance) if variance.ndim == 2 else variance)
    rows = [
        (f"{one['level']}, {column}", effect / s, se / s)
        for one in entries
        for column, effect, se, s in zip(one["columns"], one["effects"], one["se"], sd)
        if effect != 0
    ]
    if not rows:
        raise ValueError("found has no effects of suspects on numbers")
    shown = sorted(rows, key=lambda row: -abs(row[1]))[:most]
    ax = _axes(ax, 0.7 + 0.22 * max(len(shown), 3))
    y = np.arange(len(shown))[::-1]
    ax.axvline(0, color=MUTED, linewidth=0.8)
    for at, (_, effect, se) in zip(y, shown):
        ax.plot([effect - 1.96 * se, effect + 1.96 * se], [at, at], color=BLUE, linewidth=1.6)
        ax.plot([effect], [at], "o", color=BLUE, markersize=4)
    _quiet(ax)
    ax.set_yticks(y, [shorten(name, 30) for name, *_ in shown], color=INK)
    ax.set_ylim(-0.6, len(shown) - 0.4)
    ax.set_xlabel("effect, in standard deviations within groups")
    _note(ax, f"largest {len(shown)} of {len(rows)}" if len(rows) > len(shown) else "")
    return ax


@_styled
def group_shares(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Shares of the groups at the levels of the suspects, and in the population.

    ``found``: a fitted SelectionMixture or SuspectCorrector.
    """
    model = getattr(found, "mixture_", found)
    shares = np.vstack([model.shares_[:most], model.population_shares_])
    names = [*map(str, model.levels_[:most]), "population"]
    ax = _axes(ax, 0.8 + 0.27 * len(names))
    y, left = np.arange(len(names))[::-1], np.zeros(len(names))
    for k, share in enumerate(shares.T):
        ax.barh(y, share, 0.72, left=left, color=cluster_colour(k), edgecolor=PAPER, label=str(k))
        left += share
    ax.set_yticks(y, [shorten(name) for name in names], color=INK)
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("share of the groups")
    for side in ax.spines.values():
        side.set_visible(False)
    ax.tick_params(length=0)
    ax.legend(title="group", loc="center left", bbox_to_anchor=(1.0, 0.5))
    _note(ax, f"{most} of {len(model.levels_)} levels" if len(model.levels_) > most else "")
    return ax


@_styled
def correction(
    found: Any, X: Any, axes: Sequence[Axes] | None = None, *, most: int = 1500
) -> tuple[Axes, ...]:
    """Rows before and after the correction, coloured by the first suspect and by group: four panels
    on the first two principal components of the standardised numbers before it.

    ``found``: a fitted SuspectCorrector or SelectionMixture; ``X``: rows with the columns of its
    fit, of which ``most`` are drawn.
    """
    model = getattr(found, "mixture_", found)
    values, codes, rows = model._read_rows(X)
    corrected = (
        model._read_rows(found.transform(rows))[0]
        if model is found
        else (model._read_rows(model._add_effects(rows, -1.0, "average", found.suspects_))[0])
    )
    numbers = [c.source for c in model._numbers() if c.exact]
    if len(numbers) < 2:
        raise ValueError(f"found has {len(numbers)} numeric columns; it should have at least 2")
    before, after = (
        np.column_stack([np.asarray(v[s].numbers, dtype=float) for s in numbers])
        for v in (values, corrected)
    )
    middle, scale = np.nanmean(before, axis=0), np.nanstd(before, axis=0)
    before, after = ((np.nan_to_num((each - middle) / scale)) for each in (before, after))
    _, _, directions = np.linalg.svd(before - before.mean(0), full_matrices=False)
    chosen = np.random.default_rng(0).permutation(len(before))[:most]
    groups = model.predict(rows, shares="population")
    level = model._combinations.suspects[0].shown_of(codes[:, 0])
    if axes is None:
        figure = Figure(figsize=(WIDTH * 1.6, WIDTH * 1.4), layout="constrained")
        axes = list(figure.subplots(2, 2, sharex=True, sharey=True).ravel())
    if len(axes) != 4:
        raise ValueError(f"axes has {len(axes)} entries; there should be 4")
    by = ((model._combinations.suspects[0].name, level), ("group", groups))
    for ax, (when, points), (title, colours) in zip(
        axes,
        [(w, p) for w, p in (("before", before), ("after", after)) for _ in by],
        [*by, *by],
    ):
        xy = points[chosen] @ directions[:2].T
        shades = [cluster_colour(k) for k in colours[chosen]]
        ax.scatter(xy[:, 0], xy[:, 1], s=8, c=shades, alpha=0.6, linewidth=0)
        ax.set_title(f"{when}, coloured by {shorten(str(title), 20)}", loc="left")
        ax.set_xticks([])
        ax.set_yticks([])
    return tuple(axes)


@_styled
def overlap(found: Any, ax: Axes | None = None, *, suspect: int = 0) -> Axes:
    """Clusters by the values of a suspect: share of each value's rows in each cluster, and the
    number of rows. Effects of the suspect can be told from clusters that several values share.

    ``found``: Diagnostics, or their ``overlap``; ``suspect``: position of the suspect.
    """
    entries = getattr(found, "overlap", found)
    if not 0 <= suspect < len(entries):
        raise ValueError(f"suspect={suspect} should be in 0..{len(entries) - 1}")
    one = entries[suspect]
    rows = np.array(one.rows, dtype=float)
    share = rows / np.maximum(rows.sum(1, keepdims=True), 1.0)
    L, K = rows.shape
    ax = _axes(ax, 0.9 + 0.27 * max(L, 2))
    shades = LinearSegmentedColormap.from_list("share", [PAPER, BLUE])
    ax.pcolormesh(share, cmap=shades, vmin=0, vmax=1, edgecolors=GRID, linewidth=0.6)
    for at, k in np.argwhere(rows > 0):
        colour = PAPER if share[at, k] > 0.55 else INK
        text = f"{int(rows[at, k]):,}"
        ax.text(k + 0.5, at + 0.5, text, ha="center", va="center", fontsize=FONT - 1.5,
                color=colour)  # fmt: skip
    ax.invert_yaxis()
    ax.set_yticks(np.arange(L) + 0.5, [shorten(value, 22) for value in one.values], color=INK)
    ax.set_xticks(np.arange(K) + 0.5, [str(k) for k in range(K)])
    ax.tick_params(length=0)
    ax.set_xlabel("cluster")
    ax.set_ylabel(shorten(one.suspect))
    for side in ax.spines.values():
        side.set_visible(False)
    return ax


@_styled
def sample_flow(found: Any, ax: Axes | None = None) -> Axes:
    """Flow of rows from k-means clusters to clusters of the model; the height of a band is its
    number of rows."""
    flow = getattr(found, "flow", found)
    if flow is None:
        raise ValueError("found has no flow: there are no clusters, or against=False was given")
    counts = np.array(flow.counts, dtype=float)
    K = len(counts)
    ax = _axes(ax, float(np.clip(1.5 + 0.5 * K, 2.6, 7.0)))
    total, gap = counts.sum(), 0.25 / max(K, 1)
    scale = (1 - gap * (K - 1)) / total

    def tops(sizes: np.ndarray) -> np.ndarray:
        return 1 - np.r_[0, np.cumsum(sizes[:-1] * scale + gap)]

    left, right = tops(counts.sum(1)), tops(counts.sum(0))
    at_left, at_right = left.copy(), right.copy()
    for i in range(K):
        for j in range(K):
            height = counts[i, j] * scale
            if height <= 0:
                continue
            band = _band(at_left[i], at_right[j], height)
            alpha = 0.3 if i == j else 0.6
            ax.add_patch(PathPatch(band, facecolor=cluster_colour(j), alpha=alpha, linewidth=0))
            at_left[i] -= height
            at_right[j] -= height
    for k in range(K):
        for x, top, size, side in (
            (-0.03, left[k], counts[k].sum(), "right"),
            (1.0, right[k], counts[:, k].sum(), "left"),
        ):
            height = size * scale
            ax.add_patch(Rectangle((x, top - height), 0.03, height, color=cluster_colour(k), lw=0))
            out = 1 if side == "left" else -1
            edge, middle = (1.03 if side == "left" else -0.03), top - height / 2
            ax.text(edge + 0.015 * out, middle, str(k), ha=side, va="center", color=INK,
                    fontsize=FONT, fontweight="bold")  # fmt: skip
            ax.text(edge + 0.06 * out, middle, f"{size:,.0f}", ha=side, va="center",
                    color=MUTED, fontsize=FONT - 1)  # fmt: skip
    ax.text(-0.03, 1.03, flow.baseline, ha="left", va="bottom", color=MUTED, fontsize=FONT - 1)
    ax.text(1.03, 1.03, "unskew", ha="right", va="bottom", color=MUTED, fontsize=FONT - 1)
    ax.set_xlim(-0.22, 1.22)
    ax.set_ylim(-0.02, 1.1)
    ax.set_axis_off()
    return ax


def _band(left: float, right: float, height: float) -> Path:
    """A ribbon from x = 0 to x = 1 whose upper ends are at ``left`` and ``right``."""
    points = [
        (0, left), (0.5, left), (0.5, right), (1, right),
        (1, right - height), (0.5, right - height), (0.5, left - height), (0, left - height),
        (0, left),
    ]  # fmt: skip
    bend = [Path.CURVE4] * 3
    return Path(points, [Path.MOVETO, *bend, Path.LINETO, *bend, Path.CLOSEPOLY])


# ----------------------------------------------------------------------------------------- fit
@_styled
def objective_terms(found: Any, ax: Axes | None = None) -> Axes:
    """The objective and its terms after each iteration; terms that are always 0 are omitted."""
    convergence = getattr(found, "convergence", found)
    ax = _axes(ax, 2.9)
    colours = {"objective": INK, "inertia": BLUE, "balance": ORANGE, "spread": GREEN}
    spare = iter((PURPLE, SKY, RED, BLACK))
    lines = [(n, np.array(v)) for n, v in convergence.history if len(v) and np.any(np.array(v))]
    for name, values in lines:
        colour = colours.get(name) or next(spare, MUTED)
        marker = "o" if len(values) < 3 else None
        style: Any = {"linewidth": 2.2 if name == "objective" else 1.6, "marker": marker}
        ax.plot(np.arange(1, len(values) + 1), values, color=colour, label=name, **style)
    _quiet(ax, "y")
    ax.set_xlabel("iteration")
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    _note(ax, f"{convergence.status} after {convergence.iterations} iterations")
    if lines:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


@_styled
def sensitivity_surface(
    x: Sequence[float],
    y: Sequence[float],
    values: Any,
    ax: Axes | None = None,
    *,
    xlabel: str = "balance_strength",
    ylabel: str = "spread_strength",
    label: str = "",
) -> Axes:
    """Heat map over a grid of two parameters: ``values[i][j]`` is at ``y[i]``, ``x[j]``.

    All cells have the same size, whatever the spacing of the grid, and are labelled with their
    value; None and nan give empty cells.
    """
    table = np.array(values, dtype=float)
    if table.shape != (len(y), len(x)):
        raise ValueError(
            f"values has shape {table.shape} but should be (len(y), len(x)) = ({len(y)}, {len(x)})"
        )
    ax = _axes(ax, 1.1 + 0.42 * max(len(y), 2))
    cmap = LinearSegmentedColormap.from_list("", [(*to_rgb(BLUE), 0.06), (*to_rgb(BLUE), 0.95)])
    known = table[np.isfinite(table)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    image = ax.imshow(
        table, cmap=cmap, vmin=low, vmax=high if high > low else low + 1.0,
        origin="lower", aspect="auto", interpolation="none",
    )  # fmt: skip
    for i, j in np.argwhere(np.isfinite(table)):
        dark = high > low and (table[i, j] - low) / (high - low) > 0.6
        ax.text(j, i, f"{table[i, j]:.2g}", ha="center", va="center", fontsize=FONT - 1,
                color="white" if dark else INK)  # fmt: skip
    ax.set_xticks(range(len(x)), [f"{v:g}" for v in x])
    ax.set_yticks(range(len(y)), [f"{v:g}" for v in y])
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    bar = ax.figure.colorbar(image, ax=ax, aspect=24, pad=0.02, label=label)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    return ax


@_styled
def choice(found: Any, ax: Axes | None = None) -> Axes:
    """Result of `unskew.choose_k` or `unskew.choose_strengths`: the criterion over the candidates,
    with the selected one marked; for strengths also the effective sample size and the remaining
    imbalance, on the right-hand axis."""
    candidates = found.candidates
    ax = _axes(ax, 2.9)
    places = np.arange(len(candidates))
    scores = [getattr(each, found.criterion) for each in candidates]
    ax.plot(places, scores, color=BLUE, marker="o", markersize=4, label=found.criterion)
    at = [each.value for each in candidates].index(found.chosen)
    ax.scatter([at], [scores[at]], 110, facecolor="none", edgecolor=RED, linewidth=1.6, zorder=4)
    ax.annotate(f"{found.chosen:g}", (at, scores[at]), xytext=(0, 9), textcoords="offset points",
                ha="center", color=RED, fontsize=FONT)  # fmt: skip
    ax.set_xticks(places, [f"{each.value:g}" for each in candidates])
    ax.set_xlabel(found.parameter)
    ax.set_ylabel(found.criterion, color=BLUE)
    ax.margins(y=0.18)
    if found.parameter == "balance_strength":
        right = ax.twinx()
        for name, colour, mark in (("effective_size", GREEN, "s"), ("imbalance_left", ORANGE, "^")):
            values = [getattr(each, name) for each in candidates]
            words = name.replace("_", " ")
            right.plot(places, values, color=colour, marker=mark, markersize=4, label=words)
        right.set_ylim(0, 1.05)
        right.yaxis.set_major_formatter(PercentFormatter(1.0))
        right.legend(loc="center left", bbox_to_anchor=(1.12, 0.5))
        for side in ("top", "right"):
            right.spines[side].set_visible(False)
    return ax


# ---------------------------------------------------------------------------- audit, comparison
def _bars(ax: Axes | None, names: list[str], values: list[float], colours: Any) -> Axes:
    ax = _axes(ax, 0.7 + 0.22 * max(len(names), 3))
    y = np.arange(len(names))[::-1]
    ax.barh(y, values, 0.62, color=colours, linewidth=0, alpha=0.9)
    _quiet(ax)
    ax.set_yticks(y, names, color=INK)
    ax.set_ylim(-0.7, max(len(names), 1) - 0.3)
    ax.set_xlim(0, max([1e-9, *values]) * 1.06)
    return ax


@_styled
def audited_pairs(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """The strongest pairs of columns of an Audit, by standardised difference."""
    pairs = getattr(found, "pairs", found)
    shown = list(pairs)[:most]
    names = [f"{shorten(p.first, 17)} / {shorten(p.second, 17)}" for p in shown]
    above = [p.difference > THRESHOLD for p in shown]
    ax = _bars(ax, names, [p.difference for p in shown], [BLUE if a else GRID for a in above])
    ax.axvline(THRESHOLD, color=RED, linewidth=1, linestyle=(0, (4, 3)))
    ax.set_xlabel(f"largest |standardised difference|; dashed: {THRESHOLD:g}")
    total = getattr(found, "n_pairs", len(pairs))
    _note(ax, f"the {len(shown)} strongest of {total:,} pairs" if total > len(shown) else "")
    return ax


@_styled
def reach_of_columns(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Share of the other columns that each column of an Audit predicts; columns with notices are
    highlighted."""
    reach = list(getattr(found, "reach", found))
    shown = reach[:most]
    noticed = {n.column for n in getattr(found, "notices", ())}
    colours = [ORANGE if name in noticed else SKY for name, _ in shown]
    ax = _bars(ax, [shorten(name) for name, _ in shown], [value for _, value in shown], colours)
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("share of the other columns that it predicts")
    left = len(reach) - len(shown)
    _note(ax, f"largest {len(shown)} of {len(reach)} columns" if left else "")
    return ax


@_styled
def method_scores(found: Any, axes: Sequence[Axes] | None = None) -> tuple[Axes, ...]:
    """Panels of a Comparison: explained variance, association with suspects, effective size,
    agreement with k-means.

    Suspects are nuisance (batch) columns through which the bias came in: site, scanner, channel.
    """
    rows = found.rows

    def strongest(row: Any) -> float | None:
        return max((one.value for one in row.associations), default=None)

    panels = [("explained variance", [r.explained_variance for r in rows])]
    if any(r.associations for r in rows):
        panels.append(("association with suspects", [strongest(r) for r in rows]))
    panels.append(("effective sample size", [r.effective_size for r in rows]))
    if any(r.agreement is not None for r in rows):
        panels.append(("agreement with k-means", [r.agreement for r in rows]))
    if axes is None:
        figure = Figure(figsize=(2 * WIDTH, 0.8 + 0.3 * len(rows)), layout="constrained")
        axes = list(figure.subplots(1, len(panels), squeeze=False)[0])
    if len(axes) != len(panels):
        raise ValueError(f"axes has {len(axes)} entries but there are {len(panels)} panels")
    y = np.arange(len(rows))[::-1]
    for number, (ax, (title, values)) in enumerate(zip(axes, panels)):
        known = [(line, v) for line, v in zip(y, values) if v is not None]
        own = [BLUE if rows[len(rows) - 1 - line].method == "dckm" else MUTED for line, _ in known]
        ax.hlines([line for line, _ in known], 0, [v for _, v in known], color=GRID, linewidth=2)
        ax.scatter([v for _, v in known], [line for line, _ in known], 42, color=own, zorder=3)
        for line, v in known:
            ax.annotate(f"{v:.2f}", (v, line), xytext=(0, 7), textcoords="offset points",
                        ha="center", fontsize=FONT - 2, color=INK)  # fmt: skip
        _quiet(ax)
        ax.set_xlim(min([0.0, *(v for _, v in known)]) - 0.05, 1.08)
        ax.set_ylim(-0.6, len(rows) - 0.3)
        ax.set_title(title, fontsize=FONT, color=INK, loc="left")
        ax.set_yticks(y, [shorten(r.title, 34) for r in rows] if number == 0 else [], color=INK)
    return tuple(axes)
