"""Colours, style and small pieces that all plots share."""

from __future__ import annotations

from functools import wraps
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#24292f", "#6e7681", "#d8dee4", "#fefefe"
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"
# Black is slightly lighter, and yellow darker, than those of Okabe and Ito.
SKY, PURPLE, BLACK, YELLOW = "#56b4e9", "#cc79a7", "#4d4d4d", "#e3d12b"
VIOLET, SAND, WINE, FOREST = "#5b3fd6", "#cdc58f", "#661166", "#123b12"
PALETTE = (
    *(BLUE, ORANGE, GREEN, PURPLE, RED, SKY, BLACK, YELLOW),
    *(VIOLET, SAND, WINE, FOREST),
)
# The marker changes before the colours repeat, because the last colours are less distinct.
MARKERS, SAME_MARKER = "osD^vPX", 8
# Of values of suspects: no colour of a cluster, and no marker of the first clusters.
INDIGO, OLIVE, MAROON, MINT, PLUM = "#332288", "#999933", "#8a3b12", "#5cc4ae", "#aa3377"
SUSPECT_PALETTE = (INDIGO, MINT, MAROON, OLIVE, PLUM)
SUSPECT_MARKERS = "^sDvPX*"
# Areas of markers relative to that of a circle that looks as large.
AREAS = {"s": 0.8, "D": 0.65, "*": 1.4}
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
    """Marker of a cluster: colour and marker together differ for up to 56 clusters."""
    return MARKERS[(k // SAME_MARKER) % len(MARKERS)]


def suspect_colour(code: int) -> str:
    return SUSPECT_PALETTE[code % len(SUSPECT_PALETTE)]


def suspect_marker(code: int) -> str:
    """Marker of a value of a suspect: colour and marker together differ for up to 35 values."""
    return SUSPECT_MARKERS[code % len(SUSPECT_MARKERS)]


def shorten(name: str, most: int = 24) -> str:
    """Abbreviate a long name in the middle: names often differ at either end."""
    if len(name) <= most:
        return name
    tail = (most - 1) // 2
    return f"{name[: most - 1 - tail]}…{name[-tail:]}"


def new_axes(ax: Axes | None, height: float, width: float = WIDTH) -> Axes:
    if ax is not None:
        return ax
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def styled(function: Any) -> Any:
    """Apply STYLE during the call without changing the global settings."""

    @wraps(function)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        style: Any = STYLE
        with mpl.rc_context(style):
            return function(*args, **kwargs)

    return drawn


def in_rows(entries: list, n_columns: int) -> list:
    """Entries of a legend, which are placed column by column, such that they read row by row."""
    return [one for column in range(n_columns) for one in entries[column::n_columns]]


def quiet(ax: Axes, grid: Any = "x") -> None:
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=GRID, linewidth=0.6)
    ax.tick_params(length=0)
    for side in ("left", "right", "top", "bottom"):
        ax.spines[side].set_visible(False)


def note(ax: Axes, text: str) -> None:
    if text:
        ax.set_title(text, fontsize=FONT - 1, color=MUTED, loc="left", fontweight="normal")


# ---------------------------------------------------------------------------- audit, comparison
def bars(ax: Axes | None, names: list[str], values: list[float], colours: Any) -> Axes:
    ax = new_axes(ax, 0.7 + 0.22 * max(len(names), 3))
    y = np.arange(len(names))[::-1]
    ax.barh(y, values, 0.62, color=colours, linewidth=0, alpha=0.9)
    quiet(ax)
    ax.set_yticks(y, names, color=INK)
    ax.set_ylim(-0.7, max(len(names), 1) - 0.3)
    ax.set_xlim(0, max([1e-9, *values]) * 1.06)
    return ax
