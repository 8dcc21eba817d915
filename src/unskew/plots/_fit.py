"""Plots of the diagnostics of a fit: balance, correlations, weights, clusters, convergence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from ..diagnostics._results import leading
from ._style import (
    BLACK,
    BLUE,
    FONT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    PURPLE,
    RED,
    SKY,
    THRESHOLD,
    WIDTH,
    cluster_colour,
    cluster_marker,
    new_axes,
    note,
    quiet,
    shorten,
    styled,
)


# ----------------------------------------------------------------------------------- imbalance
@styled
def love_plot(
    found: Any, ax: Axes | None = None, *, most: int = 30, threshold: float = THRESHOLD
) -> Axes:
    """Largest |standardised difference| of each column before and after the correction.

    ``found`` is a Diagnostics or a sequence of FeatureBalance. Suspects (nuisance (batch) columns
    through which the bias came in: site, scanner, channel) are omitted, because they are part of
    every pair. Columns below ``threshold`` are considered balanced.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> ax = plots.love_plot(found)
    """
    rows = list(getattr(found, "features", found))
    rows = sorted(rows, key=lambda row: -row.before)
    shown = rows[:most]
    ax = new_axes(ax, 0.9 + 0.21 * max(len(shown), 3))
    y = np.arange(len(shown))[::-1]
    before, after = [row.before for row in shown], [row.after for row in shown]
    better = [b >= a for b, a in zip(before, after)]
    ax.hlines(y, before, after, color=[SKY if b else RED for b in better], linewidth=1.6)
    if before != after:
        # Larger, so that it is seen where both are the same.
        ax.plot(before, y, "o", color=MUTED, markerfacecolor="none", markersize=8, label="before")
    ax.plot(after, y, "o", color=BLUE, markersize=5, label="after")
    if not all(better):
        ax.plot([], [], color=RED, linewidth=1.6, label="increased")
    ax.axvline(threshold, color=RED, linewidth=1, linestyle=(0, (4, 3)))
    quiet(ax)
    ax.set_yticks(y, [shorten(row.feature) for row in shown], color=INK)
    ax.set_ylim(-0.8, len(shown) - 0.2)
    ax.set_xlim(0, 1.05 * max([threshold * 1.5, *before, *after]))
    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.set_xlabel(f"largest |standardised difference|; dashed: {threshold:g}")
    left = len(rows) - len(shown)
    note(ax, f"{left} omitted" if left else "")
    if before != after:
        how = {"columnspacing": 1.0, "handletextpad": 0.3, "borderaxespad": 0.2}
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, **how)
    return ax


MOST_NAMED = 20  # columns of a map


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


@styled
def correlation_map(found: Any, ax: Axes | None = None, *, which: str = "after") -> Axes:
    """Correlations of at most 60 encoded columns ``which`` = "before" or "after" the correction.

    Columns are ordered by the cluster in which they differ most from the other rows. Lines
    separate the clusters; suspects (nuisance (batch) columns through which the bias came in: site,
    scanner, channel) are the last block.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> ax = plots.correlation_map(found)
    """
    if which not in ("before", "after"):
        raise ValueError(f"which={which!r} should be one of 'before', 'after'")
    correlation = getattr(found, "correlation", found)
    r = np.array(getattr(correlation, which))
    d = len(correlation.names)
    np.fill_diagonal(r, 0.0)
    names = [f"{i}: {shorten(name)}" for i, name in enumerate(correlation.names, 1)]
    # The names stand left of the map, which is square.
    taken = 0.07 * max(map(len, names), default=0) if d <= MOST_NAMED else 0.0
    ax = new_axes(ax, WIDTH * (0.92 if d > 6 else 0.6) - 0.9 * taken)
    top = max(0.3, float(np.abs(np.array(correlation.before) - np.eye(d)).max(initial=0.0)))
    image = ax.imshow(r, cmap=_diverging(), vmin=-top, vmax=top, interpolation="none")
    edges = [i for i in range(1, d) if correlation.groups[i] != correlation.groups[i - 1]]
    for i in edges:
        ax.axhline(i - 0.5, color=MUTED, linewidth=0.6)
        ax.axvline(i - 0.5, color=MUTED, linewidth=0.6)
    for spine in ax.spines.values():
        spine.set_visible(True)
    ax.tick_params(length=0)
    if d <= MOST_NAMED:
        ax.set_yticks(range(d), names, color=INK)
        ax.set_xticks(range(d), [str(i) for i in range(1, d + 1)], color=INK, fontsize=FONT - 3)
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
    bar.set_label("correlation", color=MUTED)
    left = correlation.n_columns - d
    note(ax, f"{d} of {correlation.n_columns} encoded columns" if left else "")
    return ax


def correlation_maps(found: Any, axes: Sequence[Axes] | None = None) -> tuple[Axes, Axes]:
    """`correlation_map` before and after, side by side.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> axes = plots.correlation_maps(found)
    """
    if axes is None:
        figure = Figure(figsize=(2 * WIDTH, WIDTH * 0.92), layout="constrained")
        axes = list(figure.subplots(1, 2))
    if len(axes) != 2:
        raise ValueError(f"axes has {len(axes)} entries but should have 2")
    for which, ax in zip(("before", "after"), axes):
        correlation_map(found, ax, which=which)
        ax.set_xlabel(f"{which} the correction", color=INK)
    return axes[0], axes[1]


# ------------------------------------------------------------------------------------- weights
@styled
def weight_distribution(found: Any, ax: Axes | None = None) -> Axes:
    """Histogram of the learned weights, whose mean is 1; the last bar includes all larger ones.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> ax = plots.weight_distribution(found)
    """
    weights = getattr(found, "weights", found)
    ax = new_axes(ax, 2.9)
    edges, counts = np.array(weights.edges), np.array(weights.counts)
    ax.bar(edges[:-1], counts, np.diff(edges), align="edge", color=BLUE, alpha=0.85, linewidth=0)
    ax.axvline(1.0, color=INK, linewidth=1, linestyle=(0, (2, 2)))
    quiet(ax, "y")
    ax.set_xlim(0, edges[-1])
    ax.tick_params(axis="x", pad=7)  # the zeros of the axes do not touch
    ax.set_ylim(0, 1.15 * max(1, counts.max()))
    ax.annotate("mean: 1", (1.0, 1.0), (5, 0), xycoords=ax.get_xaxis_transform(),
                textcoords="offset points", va="top", fontsize=FONT - 1, color=MUTED)  # fmt: skip
    above = f"; last bar up to {weights.maximum:.3g}" if weights.maximum > edges[-1] else ""
    ax.set_xlabel(f"learned weight of a row{above}")
    ax.set_ylabel("rows")
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    return ax


# ------------------------------------------------------------------------------------ clusters
SIZES = (0.15, 0.4, 0.8, 1.5, 3.0)  # bin edges of the weights for the point sizes


@styled
def clusters_2d(found: Any, ax: Axes | None = None) -> Axes:
    """Rows on two principal components; the area of a point increases with its weight.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> ax = plots.clusters_2d(found)
    """
    shown = getattr(found, "projection", found)
    if shown is None:
        raise ValueError("found has no clusters to plot (projection is None)")
    ax = new_axes(ax, WIDTH * 0.82)
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
    quiet(ax, "both")
    ax.set_xticklabels([])
    ax.set_yticklabels([])
    ax.set_xlabel(f"first component, {shown.variance[0]:.0%} of the variance")
    ax.set_ylabel(f"second component, {shown.variance[1]:.0%}")
    left = shown.n_rows - len(x)
    note(ax, f"{len(x):,} of {shown.n_rows:,} rows" if left else f"{len(x):,} rows")
    return ax


@styled
def cluster_profile(found: Any, cluster: int, ax: Axes | None = None, *, most: int = 6) -> Axes:
    """Largest differences of one cluster to the other rows, weighted (bars) and not (ticks); all
    clusters have the same scale.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> ax = plots.cluster_profile(found, 0)
    """
    profiles = getattr(found, "clusters", found)
    profile = next((p for p in profiles if p.cluster == cluster), None)
    if profile is None:
        known = [p.cluster for p in profiles]
        raise ValueError(f"cluster={cluster!r} should be one of {known}")
    shown = leading(profile)[:most]
    ax = new_axes(ax, 0.62 + 0.25 * max(len(shown), 2), width=WIDTH * 0.58)
    y = np.arange(len(shown))[::-1]
    values = [f.difference for f in shown]
    plain = [f.plain_difference for f in shown]
    ax.barh(y, values, 0.6, color=cluster_colour(cluster), alpha=0.85, linewidth=0)
    if plain != values:
        ax.plot(plain, y, "|", color=INK, markersize=9, markeredgewidth=1.4)
    ax.axvline(0, color=MUTED, linewidth=0.8)
    quiet(ax)
    ax.set_yticks(y, [shorten(f.feature) for f in shown], color=INK, fontsize=FONT)
    ax.set_ylim(-0.6, max(len(shown), 2) - 0.4)
    every = [f for p in profiles for f in leading(p)[:most]]
    ends = [0.0, *(f.difference for f in every), *(f.plain_difference for f in every)]
    low, high = min(ends), max(ends)
    padding = 0.06 * max(high - low, 0.5)
    ax.set_xlim(low - (padding if low < 0 else 0.0), high + padding)
    ax.xaxis.set_major_locator(MaxNLocator(4, min_n_ticks=2))
    ax.set_xlabel("standard deviations")
    return ax


def cluster_profiles(
    found: Any, axes: Sequence[Axes] | None = None, *, most: int = 6
) -> tuple[Axes, ...]:
    """`cluster_profile` of every cluster, one below the other.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> axes = plots.cluster_profiles(found)
    """
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


THIN = 0.01  # bands with less than this share of the rows are not drawn


@styled
def sample_flow(found: Any, ax: Axes | None = None) -> Axes:
    """Flow of rows from k-means clusters to clusters of the model; the height of a band is its
    number of rows. Bands with less than 1 % of the rows are not drawn.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> ax = plots.sample_flow(found)
    """
    flow = getattr(found, "flow", found)
    if flow is None:
        raise ValueError("found has no flow: there are no clusters, or against=False was given")
    counts = np.array(flow.counts, dtype=float)
    K = len(counts)
    ax = new_axes(ax, float(np.clip(1.5 + 0.5 * K, 2.6, 7.0)))
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
            if counts[i, j] >= THIN * total:
                band = _band(at_left[i], at_right[j], height)
                alpha = 0.3 if i == j else 0.6
                ax.add_patch(PathPatch(band, facecolor=cluster_colour(j), alpha=alpha, linewidth=0))
            at_left[i] -= height
            at_right[j] -= height
    sizes = counts.sum(1), counts.sum(0)
    middles = [_apart(tops - size * scale / 2) for tops, size in zip((left, right), sizes)]
    for k in range(K):
        for x, top, size, middle, side in (
            (-0.03, left[k], sizes[0][k], middles[0][k], "right"),
            (1.0, right[k], sizes[1][k], middles[1][k], "left"),
        ):
            height = size * scale
            ax.add_patch(Rectangle((x, top - height), 0.03, height, color=cluster_colour(k), lw=0))
            out = 1 if side == "left" else -1
            edge = 1.03 if side == "left" else -0.03
            ax.text(edge + 0.015 * out, middle, str(k), ha=side, va="center", color=INK,
                    fontsize=FONT, fontweight="bold")  # fmt: skip
            ax.text(edge + 0.09 * out, middle, f"{size:,.0f}", ha=side, va="center",
                    color=MUTED, fontsize=FONT - 1)  # fmt: skip
    ax.text(-0.03, 1.03, flow.baseline, ha="left", va="bottom", color=MUTED, fontsize=FONT - 1)
    ax.text(1.03, 1.03, "unskew", ha="right", va="bottom", color=MUTED, fontsize=FONT - 1)
    ax.set_xlim(-0.24, 1.24)
    ax.set_ylim(-0.02, 1.1)
    ax.set_axis_off()
    return ax


def _apart(middles: np.ndarray, least: float = 0.032) -> np.ndarray:
    """Descending positions of labels, moved apart such that none covers the next."""
    moved = middles.copy()
    for k in range(1, moved.size):
        moved[k] = min(moved[k], moved[k - 1] - least)
    return moved


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
@styled
def objective_terms(found: Any, ax: Axes | None = None) -> Axes:
    """The objective and its terms after each iteration; terms that are always 0 are omitted.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> ax = plots.objective_terms(found)
    """
    convergence = getattr(found, "convergence", found)
    ax = new_axes(ax, 2.9)
    colours = {"objective": INK, "inertia": BLUE, "balance": ORANGE, "spread": GREEN}
    spare = iter((PURPLE, SKY, RED, BLACK))
    lines = [(n, np.array(v)) for n, v in convergence.history if len(v) and np.any(np.array(v))]
    for name, values in lines:
        colour = colours.get(name) or next(spare, MUTED)
        marker = "o" if len(values) < 3 else None
        style: Any = {"linewidth": 2.2 if name == "objective" else 1.6, "marker": marker}
        ax.plot(np.arange(1, len(values) + 1), values, color=colour, label=name, **style)
    quiet(ax, "y")
    ax.set_xlabel("iteration")
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.ticklabel_format(axis="y", useOffset=False)
    note(ax, f"{convergence.status} after {convergence.iterations} iterations")
    if len(lines) > 1:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif lines:
        ax.set_ylabel(lines[0][0])
    return ax
