"""A report as plain data, from which every format is rendered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from .._validation import abbreviate
from ..diagnostics import Settings

MISSING = "\N{EN DASH}"
# At the first mention.
GLOSS = "columns that may reflect how the data were collected, not their subject"


@dataclass(frozen=True)
class Tile:
    label: str
    value: str
    note: str


@dataclass(frozen=True)
class Picture:
    """A plot. ``draw`` creates the figure for HTML; other formats use the texts instead."""

    key: str
    title: str
    caption: str
    description: str
    draw: Callable[[], Any]
    size: str = "half"  # "half", "full" or "card"
    tall: bool = False  # spans two rows of the grid


@dataclass(frozen=True)
class Column:
    """``form``: "text", "int", "number" (3 digits), "percent"."""

    name: str
    form: str = "text"


def texts(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name) for name in names)


def numbers(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "number") for name in names)


@dataclass(frozen=True)
class ReportTable:
    key: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Section:
    key: str
    title: str
    lead: str
    pictures: tuple[Picture, ...] = ()
    tables: tuple[ReportTable, ...] = ()


@dataclass(frozen=True)
class Page:
    """``word`` is the verdict, ``tone`` its colour: good, neutral, bad; ``limits`` are
    assumptions that it needs and warnings; ``done`` is what was done; ``front`` is the picture
    above the sections; ``n_first`` reasons are shown, the others on demand."""

    kind: str
    subject: str
    word: str
    tone: str
    sentence: str
    reasons: tuple[str, ...]
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    settings: Settings
    notes: tuple[str, ...] = field(default=())
    done: str = ""
    limits: tuple[str, ...] = ()
    front: Picture | None = None
    n_first: int = 4


def pictures_of(page: Page) -> list[Picture]:
    front = [] if page.front is None else [page.front]
    return front + [picture for section in page.sections for picture in section.pictures]


def drawn(name: str, *args: Any, **how: Any) -> Callable[[], Any]:
    """A function that creates the figure of a function of `plots` when called, so that the other
    formats do not need matplotlib."""

    def draw() -> Any:
        from .. import plots

        axes = getattr(plots, name)(*args, **how)
        return (axes[0] if isinstance(axes, tuple) else axes).figure

    return draw


class Day(float):
    """Days since 1970-01-01: sorted as a number, displayed as a date."""


def form(value: Any, how: str) -> str:
    """Format a value for display."""
    if value is None:
        return MISSING
    if isinstance(value, Day):
        return str(date(1970, 1, 1) + timedelta(days=round(value)))
    if how == "text":
        return str(value)
    if how == "int":
        return f"{value:,.0f}"
    if how == "percent":
        return f"{value:.0%}" if abs(value) >= 0.0995 or value == 0 else f"{value:.1%}"
    return number(float(value))


def number(value: float) -> str:
    size = abs(value)
    if value == int(value) and size < 1e6:
        return f"{value:,.0f}" if size >= 1e4 else f"{value:.0f}"
    if size >= 1000:  # four digits are not grouped: a year is a number too
        return f"{value:.0f}" if size < 1e4 else f"{value:,.0f}" if size < 1e7 else f"{value:.3g}"
    if size >= 100:
        return f"{value:.1f}"
    if size < 0.0005:
        return "0"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.3f}"


def suspects_in_words(names: Sequence[str]) -> str:
    """The names of the suspects, or that there are none, and what suspects are."""
    return f"{abbreviate(list(names), quoted=False) if names else 'none named'} ({GLOSS})"


def rows_in_words(settings: Settings) -> str:
    """The number of rows that the numbers are about, and what becomes of those of weight 0."""
    used = f"{settings.n_rows - settings.n_zero:,}"
    if not settings.n_zero:
        return used
    are = f"{plural(settings.n_zero, 'row')} of weight 0 {'is' if settings.n_zero == 1 else 'are'}"
    return f"{used} of positive weight ({are} labelled only)"


def plural(count: int, one: str) -> str:
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def overlap_picture(overlaps: Any, at: int, groups: str = "Clusters") -> Picture:
    """Clusters, or groups, by the values of a suspect."""
    each = overlaps[at]
    one = groups.lower()[:-1]
    alone = f" Every value has rows of several {one}s."
    if each.one_cluster:
        shown = [
            f"{value} in {one} {max(range(len(row)), key=row.__getitem__)}"
            for value, row in zip(each.values, each.rows)
            if value in each.one_cluster
        ]
        alone = f" All or nearly all rows of a value are in one {one}: "
        alone += f"{abbreviate(shown, quoted=False)}."
    return Picture(
        f"overlap-{at}",
        f"{groups} by {each.suspect}",
        f"Number of rows; shade: share of the rows of a value of {each.suspect}.{alone}",
        f"Table of {groups.lower()} by the values of {each.suspect}.{alone}",
        drawn("overlap", overlaps, suspect=at),
    )
