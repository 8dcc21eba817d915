"""Plots of suspects: overlap with the clusters, effects, shares, rows before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from .._arrays import oriented
from ._style import (
    AREAS,
    BLUE,
    FONT,
    GRID,
    INK,
    MUTED,
    PALETTE,
    PAPER,
    RED,
    WIDTH,
    bars,
    cluster_colour,
    cluster_marker,
    in_rows,
    new_axes,
    note,
    quiet,
    shorten,
    styled,
    suspect_colour,
    suspect_marker,
)


@styled
def before_after(
    found: Any, axes: Sequence[Axes] | None = None, *, most: int = 300
) -> tuple[Axes, ...]:
    """Rows before the correction, coloured by cluster of k-means (if there is one to compare with)
    and by the first suspect, and after it, coloured by suspect and by cluster, on the same two
    components. Values of the suspect and clusters have different colours and markers; the sizes of
    the points after the correction are the learned weights. Without effects the rows stay in their
    places, and the suspect has one panel.

    ``found``: Diagnostics of a fit with suspects; ``most``: number of rows that are drawn.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> axes = plots.before_after(found)
    """
    p = getattr(found, "projection", found)
    if p is None or not p.value:
        raise ValueError("found has no projection of a fit with suspects")
    some = np.random.default_rng(0).permutation(len(p.x))[:most]
    after = np.column_stack([p.x, p.y])[some]
    before = np.column_stack([p.before_x, p.before_y])[some] if p.before_x else after
    size = 5 + 9 * np.clip(np.asarray(p.weight)[some], 0, 4)
    plain = np.full(len(some), 14.0)
    values, clusters = np.asarray(p.value)[some], np.asarray(p.cluster)[some]
    by_suspect, when = f"by {shorten(p.suspect, 18)}", ("before, ", "after, ")
    if not p.before_x:
        when = ("", "")
    panels = [
        (when[0] + by_suspect, before, values, plain),
        (when[1] + "by cluster of this fit", after, clusters, size),
    ]
    if p.before_x:
        panels.append((when[1] + by_suspect, after, values, size))
    if p.baseline_cluster:
        baseline = np.asarray(p.baseline_cluster)[some]
        panels.insert(0, (when[0] + "by k-means cluster", before, baseline, plain))
    n_rows = 2 if len(panels) == 4 else 1
    if axes is None:
        size_of_figure = (WIDTH * 1.6, WIDTH * (1.15 if n_rows == 2 else 0.66))
        figure = Figure(figsize=size_of_figure, layout="constrained")
        grid = figure.subplots(n_rows, len(panels) // n_rows, sharex=True, sharey=True)
        axes = list(grid.ravel())
    if len(axes) != len(panels):
        raise ValueError(f"axes has {len(axes)} entries; there should be {len(panels)}")
    for number, (ax, (title, points, codes, s)) in enumerate(zip(axes, panels)):
        of_suspect = codes is values
        colour, marker = (
            (suspect_colour, suspect_marker) if of_suspect else (cluster_colour, cluster_marker)
        )
        for code in np.unique(codes):
            own = codes == code
            name = p.values[code] if of_suspect else str(code)
            area = s[own] * AREAS.get(marker(code), 1.0)
            ax.scatter(points[own, 0], points[own, 1], s=area, color=colour(code),
                       marker=marker(code), alpha=0.6, linewidth=0,
                       label=shorten(name, 14))  # fmt: skip
        ax.set_title(title, loc="left")
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel(f"component 1, {p.variance[0]:.0%}")
        if number % (len(panels) // n_rows) == 0:
            ax.set_ylabel(f"component 2, {p.variance[1]:.0%}")
        if len(np.unique(codes)) <= len(PALETTE):
            columns = 2 if of_suspect and max(map(len, map(str, p.values))) > 4 else 6
            entries = [in_rows(each, columns) for each in ax.get_legend_handles_labels()]
            legend = ax.legend(*entries, loc="upper center", bbox_to_anchor=(0.5, -0.1),
                               ncols=columns, handletextpad=0.1, columnspacing=0.8)  # fmt: skip
            for handle in legend.legend_handles:
                handle.set_sizes([20.0])  # type: ignore[union-attr]
    return tuple(axes)


@styled
def suspect_effects(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """The largest effects of suspects that the model removes from the other columns.

    Suspects are nuisance (batch) columns through which the bias came in: site, scanner, channel.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> ax = plots.suspect_effects(found)
    """
    effects = getattr(found, "effects", found)
    if not effects:
        raise ValueError("found has no effects of suspects; see the parameter adjust of DCKM")
    shown = list(effects)[:most]
    names = [f"{shorten(one.suspect, 17)} on {shorten(one.feature, 17)}" for one in shown]
    marked = ["" if one.unit == "sd" else "*" for one in shown]
    names = [name + mark for name, mark in zip(names, marked)]
    values = [one.effect for one in shown]
    ax = bars(ax, names, values, [BLUE if value > 0 else RED for value in values])
    ax.set_xlim(1.06 * min([0.0, *values]), 1.06 * max([0.0, *values]))
    ax.axvline(0, color=MUTED, linewidth=0.8)
    unit = "standard deviations; *: log-odds" if any(marked) else "standard deviations"
    ax.set_xlabel(f"effect ({unit})")
    left = len(effects) - len(shown)
    note(ax, f"largest {len(shown)} of {len(effects)}" if left else "")
    return ax


@styled
def effect_intervals(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """The largest effects of suspects on numbers with 95 % intervals, in standard deviations within
    groups.

    ``found``: a fitted SelectionMixture or SuspectCorrector.

    Examples
    --------
    ``mixture`` is a fitted SelectionMixture with suspects:

    >>> from unskew import plots
    >>> ax = plots.effect_intervals(mixture)
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
    ax = new_axes(ax, 0.7 + 0.22 * max(len(shown), 3))
    y = np.arange(len(shown))[::-1]
    ax.axvline(0, color=MUTED, linewidth=0.8)
    for at, (_, effect, se) in zip(y, shown):
        ax.plot([effect - 1.96 * se, effect + 1.96 * se], [at, at], color=BLUE, linewidth=1.6)
        ax.plot([effect], [at], "o", color=BLUE, markersize=4)
    quiet(ax)
    ax.set_yticks(y, [shorten(name, 30) for name, *_ in shown], color=INK)
    ax.set_ylim(-0.6, len(shown) - 0.4)
    ax.set_xlabel("effect, in standard deviations within groups")
    note(ax, f"largest {len(shown)} of {len(rows)}" if len(rows) > len(shown) else "")
    return ax


@styled
def group_shares(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Shares of the groups at the levels of the suspects, and in the population.

    ``found``: a fitted SelectionMixture or SuspectCorrector.

    Examples
    --------
    ``mixture`` is a fitted SelectionMixture with suspects:

    >>> from unskew import plots
    >>> ax = plots.group_shares(mixture)
    """
    model = getattr(found, "mixture_", found)
    shares = np.vstack([model.shares_[:most], model.population_shares_])
    names = [*map(str, model.levels_[:most]), "population"]
    ax = new_axes(ax, 0.8 + 0.27 * len(names))
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
    note(ax, f"{most} of {len(model.levels_)} levels" if len(model.levels_) > most else "")
    return ax


@styled
def correction(
    found: Any, X: Any, axes: Sequence[Axes] | None = None, *, most: int = 1500
) -> tuple[Axes, ...]:
    """Rows before and after the correction, coloured by the first suspect and by group: four panels
    on the first two principal components of the standardised numbers before it.

    ``found``: a fitted SuspectCorrector or SelectionMixture; ``X``: rows with the columns of its
    fit, of which ``most`` are drawn.

    Examples
    --------
    ``mixture`` is a fitted SelectionMixture with suspects:

    >>> from unskew import plots
    >>> axes = plots.correction(mixture, X)
    """
    model = getattr(found, "mixture_", found)
    values, codes, rows = model._read_rows(X)
    corrected = (
        model._read_rows(found.transform(rows))[0]
        if model is found
        else (model._read_rows(model._remove_effects(rows, "average", found.suspects_))[0])
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
    directions = oriented(np.linalg.svd(before - before.mean(0), full_matrices=False)[2][:2])
    chosen = np.random.default_rng(0).permutation(len(before))[:most]
    groups = model.predict(rows, shares="population")
    level = model._combinations.suspects[0].shown_of(codes[:, 0])
    if axes is None:
        figure = Figure(figsize=(WIDTH * 1.6, WIDTH * 1.4), layout="constrained")
        axes = list(figure.subplots(2, 2, sharex=True, sharey=True).ravel())
    if len(axes) != 4:
        raise ValueError(f"axes has {len(axes)} entries; there should be 4")
    by = (
        (model._combinations.suspects[0].name, level, suspect_colour, suspect_marker),
        ("group", groups, cluster_colour, cluster_marker),
    )
    for ax, (when, points), (title, codes, colour, marker) in zip(
        axes,
        [(w, p) for w, p in (("before", before), ("after", after)) for _ in by],
        [*by, *by],
    ):
        xy, own = points[chosen] @ directions.T, codes[chosen]
        for code in np.unique(own):
            x, y = xy[own == code].T
            ax.scatter(x, y, s=8, color=colour(code), marker=marker(code), alpha=0.6, linewidth=0)
        ax.set_title(f"{when}, coloured by {shorten(str(title), 20)}", loc="left")
        ax.set_xticks([])
        ax.set_yticks([])
    return tuple(axes)


@styled
def overlap(found: Any, ax: Axes | None = None, *, suspect: int = 0) -> Axes:
    """Clusters by the values of a suspect: share of each value's rows in each cluster, and the
    number of rows. Effects of the suspect can be told from clusters that several values share.

    ``found``: Diagnostics, or their ``overlap``; ``suspect``: position of the suspect.

    Examples
    --------
    ``found = diagnose(model, X)`` of a fitted model:

    >>> from unskew import plots
    >>> ax = plots.overlap(found)
    """
    entries = getattr(found, "overlap", found)
    if not 0 <= suspect < len(entries):
        raise ValueError(f"suspect={suspect} should be in 0..{len(entries) - 1}")
    one = entries[suspect]
    rows = np.array(one.rows, dtype=float)
    share = rows / np.maximum(rows.sum(1, keepdims=True), 1.0)
    L, K = rows.shape
    ax = new_axes(ax, 0.9 + 0.27 * max(L, 2))
    # Opacity instead of a colour map: the shades then suit a dark background too.
    for (at, k), opacity in np.ndenumerate(share):
        ax.add_patch(Rectangle((k, at), 1, 1, facecolor=BLUE, alpha=opacity, linewidth=0))
    ax.vlines(np.arange(K + 1), 0, L, color=GRID, linewidth=0.6)
    ax.hlines(np.arange(L + 1), 0, K, color=GRID, linewidth=0.6)
    ax.set_xlim(0, K)
    ax.set_ylim(0, L)
    for at, k in np.ndindex(L, K):
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
