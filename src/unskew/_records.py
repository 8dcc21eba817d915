"""Small results as tables: lists of dicts that know how to become a frame, and findings."""

from __future__ import annotations

import html
import importlib.util
from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any, NamedTuple

import numpy as np

from ._validation import abbreviate

# Width of a cell of the text that shows a table.
MAX_CELL = 48


# Missing in every column.
MISSING_WORDS = ("", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "NaT", "null", "NULL")
# Missing where all other values are numbers, dates, or true and false. In other columns they may be
# answers, as "None" in NHANES (days depressed: None, Several, Most).
MISSING_MARKS = (
    *("?", ".", "..", "...", "-", "--", "*", "na", "Na", "n.a.", "N.A.", "None", "none", "NONE"),
    *("missing", "Missing", "#NULL!", "#DIV/0!", "#VALUE!"),
)


def marks_in_words(marks: Iterable[str], n_rows: int) -> str:
    """Which marks of missing values a column has, and in how many rows."""
    *first, last = map(repr, sorted(marks))
    shown = f"{', '.join(first)} and {last}" if first else last
    return f"{shown} in {n_rows:,} row{'s' * (n_rows > 1)}"


# Characters that move the cursor, change colours or the direction of text, as \\x1b and so on.
_UNSEEN = [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x200E, 0x200F, *range(0x2028, 0x202F)]
_UNSEEN += [*range(0x2066, 0x206A), 0xFEFF, 0xFFF9, 0xFFFA, 0xFFFB, *range(0xD800, 0xE000)]
_ESCAPES = {code: chr(code).encode("unicode_escape").decode() for code in _UNSEEN if code != 0x0A}


def visible(text: str) -> str:
    """Text for a terminal: control characters, which could command it, are shown as escapes."""
    return text.translate(_ESCAPES)


class OverlapWarning(UserWarning):
    """Which values of a suspect share too few groups for its effects or for weights."""


class ColumnWarning(UserWarning):
    """Columns of a table are left out, or their rare values are pooled."""


class Finding(NamedTuple):
    """Something that a user should know about a column of a table.

    topic   what several columns may have in common, as "left out"
    column  name of the column
    text    what was found in it
    """

    topic: str
    column: str
    text: str


# A topic.
CODES = "whole numbers with few values"
# What to do about a topic. Both ways to say it: parameters, and options of the command line.
ADVICE = {
    "left out": ("kinds={name: 'number'} or 'category' keeps a column", "--number or --category"
                 " keeps a column"),
    "pooled": ("max_categories= sets how many are kept", "--max-categories sets how many are kept"),
    "missing": ("read as missing; kinds={name: 'category'} keeps the words", "read as missing"),
    "read as text": ("convert the column to numbers", "--missing WORD reads WORD as missing"),
    "value labels": ("read as numbers; kinds={name: 'category'} reads them as categories",
                     "read as numbers; as categories: --category NAME"),
    CODES: ("these are read as numbers; if they are codes: kinds={name: 'category'}",
                     "these are read as numbers; if they are codes: --category NAME"),
    "near-duplicate": ("counts twice in the distance", "counts twice in the distance: --drop NAME"),
    "one to one": ("the same information twice", "the same information twice: --drop NAME"),
    "weights": ("pass survey weights as sample_weight=", "pass survey weights with -w NAME"),
}  # fmt: skip


def by_topic(findings: Iterable[Finding], *, flags: bool = False) -> dict[str, str]:
    """Topic -> one sentence about all its columns, with advice; ``flags``: for a command line."""
    found: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for topic, column, text in findings:
        names[topic] = quote(column)
        found.setdefault(topic, []).append(f"{column!r} ({text})" if text else repr(column))
    sentences = {}
    for topic, parts in found.items():
        advice = f"; {ADVICE[topic][flags]}" if topic in ADVICE else ""
        if flags and len(parts) == 1:
            advice = advice.replace("NAME", names[topic])
        sentences[topic] = abbreviate(parts, quoted=False) + advice
    return sentences


class Records(list):
    """A list of dicts with the same keys, which is shown as a table.

    library : "pandas", "polars" or "pyarrow", of the table that was fitted; None if there was none
    """

    def __init__(self, rows: Iterable[dict[str, Any]] = (), library: str | None = None):
        super().__init__(rows)
        self.library = library

    def to_frame(self, library: str | None = None) -> Any:
        """A table of the library of the fitted table (else pandas, or what is installed).

        One row per dict. A dict that contains lists gives one row per entry: the features of a
        cluster are rows with the number of the cluster.
        """
        import narwhals.stable.v2 as nw

        library = library or self.library
        if library is None:
            library = next(
                (m for m in ("pandas", "polars", "pyarrow") if importlib.util.find_spec(m)), None
            )
        if library is None:
            raise ImportError("a table needs pandas, polars or pyarrow; none is installed")
        rows = [flat for row in self for flat in _long(row)]
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = {name: [_plain(row.get(name)) for row in rows] for name in names}
        backend: Any = library
        return nw.from_dict(columns, backend=backend).to_native()

    def _cells(self) -> list[list[str]]:
        names = list(dict.fromkeys(name for row in self for name in row))
        return [names, *([_cell(row.get(name)) for name in names] for row in self)]

    def __repr__(self) -> str:
        if not self:
            return "[]"
        # The last column, of notes, is shown in full.
        rows = [[visible(cell).replace("\n", "\\n") for cell in row] for row in self._cells()]
        cells = [[*map(_short, row[:-1]), row[-1]] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *body = [[html.escape(cell) for cell in row] for row in self._cells()]
        rows = "".join(f"<tr>{''.join(f'<td>{c}</td>' for c in row)}</tr>" for row in body)
        titles = "".join(f"<th>{c}</th>" for c in head)
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>"


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1)


def _long(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The row, or one row per entry of its lists, which have the same length."""
    lists = {name: value for name, value in row.items() if _is_list(value)}
    if not lists:
        return [dict(row)]
    scalars = {name: value for name, value in row.items() if name not in lists}
    out = []
    for entries in zip(*lists.values()):
        flat = dict(scalars)
        for name, entry in zip(lists, entries):
            flat |= entry if isinstance(entry, Mapping) else {name: entry}
        out.append(flat)
    return out


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    if _is_list(value):
        return f"({len(value)})"
    return str(value)


def _short(text: str) -> str:
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 3] + "..."
