"""Plots of audits, comparisons of methods, and choices of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ._style import (
    BLUE,
    FONT,
    GREEN,
    GRID,
    INK,
    MUTED,
    ORANGE,
    RED,
    SKY,
    WIDTH,
    bars,
    new_axes,
    note,
    quiet,
    shorten,
    styled,
)


@styled
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

    Examples
    --------
    >>> from unskew import plots
    >>> ax = plots.sensitivity_surface([0.1, 1.0], [0.01, 0.1], [[0.4, 0.6], [0.5, 0.7]])
    """
    table = np.array(values, dtype=float)
    if table.shape != (len(y), len(x)):
        raise ValueError(
            f"values has shape {table.shape} but should be (len(y), len(x)) = ({len(y)}, {len(x)})"
        )
    ax = new_axes(ax, 1.1 + 0.42 * max(len(y), 2))
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


@styled
def choice(found: Any, ax: Axes | None = None) -> Axes:
    """Result of `unskew.choose_k` or `unskew.choose_strengths`: the criterion over the candidates,
    with the selected one marked; for strengths also the effective sample size and the remaining
    imbalance, on the right-hand axis.

    Examples
    --------
    ``chosen = choose_k(X, (2, 3), suspects=suspects)``:

    >>> from unskew import plots
    >>> ax = plots.choice(chosen)
    """
    candidates = found.candidates
    ax = new_axes(ax, 2.9)
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


@styled
def audited_pairs(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """The most associated pairs of columns of an Audit.

    Examples
    --------
    ``audited = audit(X, suspects=suspects)``:

    >>> from unskew import plots
    >>> ax = plots.audited_pairs(audited)
    """
    pairs = getattr(found, "pairs", found)
    shown = list(pairs)[:most]
    names = [f"{shorten(p.first, 17)} / {shorten(p.second, 17)}" for p in shown]
    ax = bars(ax, names, [p.association for p in shown], BLUE)
    ax.set_xlim(0, 1)
    ax.set_xlabel("association: |r|, eta or Cramér's V")
    total = getattr(found, "n_pairs", len(pairs))
    note(ax, f"the {len(shown)} strongest of {total:,} pairs" if total > len(shown) else "")
    return ax


@styled
def candidate_columns(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """What each candidate column of an Audit explains: by an effect, and by selection.

    Gain in BIC / 2 per row; names of columns that have neither are grey.

    Examples
    --------
    ``audited = audit(X, suspects=suspects)``:

    >>> from unskew import plots
    >>> ax = plots.candidate_columns(audited)
    """
    shown = list(getattr(found, "candidates", found))[:most]
    neither = [c.role == "neither" for c in shown]
    effects = [max(c.effect_gain, 0.0) if c.role == "effect" else 0.0 for c in shown]
    gains = [0.0 if none else max(c.selection_gain, 0.0) for c, none in zip(shown, neither)]
    ax = bars(ax, [shorten(c.column) for c in shown], effects, ORANGE)
    ax.barh(np.arange(len(shown))[::-1], gains, 0.62, left=effects, color=SKY, linewidth=0)
    ax.set_xlim(0, max([1e-9, *(e + g for e, g in zip(effects, gains))]) * 1.06)
    for label, none in zip(ax.get_yticklabels(), neither):
        label.set_color(MUTED if none else INK)
    ax.set_xlabel("gain in log-likelihood per row: orange by an effect, blue by selection")
    return ax


@styled
def reach_of_columns(found: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Share of the other columns that each column of an Audit predicts; columns with notices are
    highlighted.

    Examples
    --------
    ``audited = audit(X, suspects=suspects)``:

    >>> from unskew import plots
    >>> ax = plots.reach_of_columns(audited)
    """
    reach = list(getattr(found, "reach", found))
    shown = reach[:most]
    noticed = {n.column for n in getattr(found, "notices", ())}
    colours = [ORANGE if name in noticed else SKY for name, _ in shown]
    ax = bars(ax, [shorten(name) for name, _ in shown], [value for _, value in shown], colours)
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("share of the other columns that it predicts")
    left = len(reach) - len(shown)
    note(ax, f"largest {len(shown)} of {len(reach)} columns" if left else "")
    return ax


@styled
def method_scores(found: Any, axes: Sequence[Axes] | None = None) -> tuple[Axes, ...]:
    """Panels of a Comparison: explained variance, association with suspects, effective size,
    agreement with k-means. The method that the verdict is about is blue.

    Suspects are nuisance (batch) columns through which the bias came in: site, scanner, channel.

    Examples
    --------
    ``compared = compare(X, 2, suspects=suspects)``:

    >>> from unskew import plots
    >>> axes = plots.method_scores(compared)
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
        about = [rows[len(rows) - 1 - line].method == found.method for line, _ in known]
        own = [BLUE if judged else MUTED for judged in about]
        ax.hlines([line for line, _ in known], 0, [v for _, v in known], color=GRID, linewidth=2)
        ax.scatter([v for _, v in known], [line for line, _ in known], 42, color=own, zorder=3)
        for line, v in known:
            ax.annotate(f"{v:.2f}", (v, line), xytext=(0, 7), textcoords="offset points",
                        ha="center", fontsize=FONT - 2, color=INK)  # fmt: skip
        quiet(ax)
        ax.set_xlim(min([0.0, *(v for _, v in known)]) - 0.05, 1.08)
        ax.set_ylim(-0.6, len(rows) - 0.3)
        ax.set_title(title, fontsize=FONT, color=INK, loc="left")
        ax.set_yticks(y, [shorten(r.title, 34) for r in rows] if number == 0 else [], color=INK)
    return tuple(axes)
