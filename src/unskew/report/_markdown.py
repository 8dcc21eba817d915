"""Render a Page as Markdown: the same text and tables, with captions instead of plots."""

from __future__ import annotations

import re

from ._page import Page, ReportTable, form, rows_in_words

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def _escape(text: str) -> str:
    """Escape Markdown syntax, also inside a table."""
    return _SPECIAL.sub(r"\\\1", str(text).replace("\r", " ").replace("\n", " "))


def _table(table: ReportTable) -> list[str]:
    lines = [f"### {_escape(table.title)}", "", _escape(table.caption), ""]
    lines.append("| " + " | ".join(_escape(c.name) for c in table.columns) + " |")
    lines.append("|" + "|".join("---" if c.form == "text" else "---:" for c in table.columns) + "|")
    for row in table.rows:
        cells = (_escape(form(value, c.form)) for value, c in zip(row, table.columns))
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def render_markdown(page: Page) -> str:
    lines = [f"# {_escape(page.word)}: {_escape(page.sentence)}", ""]
    lines += [f"{page.kind} by unskew. {page.subject}.", ""]
    lines += [line for text in page.limits for line in (_escape(text), "")]
    lines += [_escape(page.done), ""] if page.done else []
    if page.tiles:
        lines += ["| | | |", "|---|---:|---|"]
        lines += [
            f"| {_escape(t.label)} | {_escape(t.value)} | {_escape(t.note)} |" for t in page.tiles
        ]
        lines.append("")
    if page.front is not None:
        lines += [f"{_escape(page.front.title)}: {_escape(page.front.caption)}", ""]
    lines += [f"- {_escape(reason)}" for reason in page.reasons]
    for section in page.sections:
        lines += ["", f"## {_escape(section.title)}", "", _escape(section.lead), ""]
        lines += [f"- {_escape(p.title)}: {_escape(p.caption)}" for p in section.pictures]
        lines += [""] if section.pictures else []
        for table in section.tables:
            lines += _table(table)
    s = page.settings
    fence = "`" * (3 + max((len(run) for run in re.findall("`+", s.call)), default=0))
    lines += ["", "## How to reproduce this", "", f"{fence}python", s.call, fence, ""]
    encoded = f", encoded as {s.n_encoded:,}" if s.n_encoded != s.n_columns else ""
    facts = [
        ("rows", rows_in_words(s)),
        ("columns", f"{s.n_columns:,}{encoded}"),
        *([("names", ", ".join(name for name, _ in s.kinds))] if s.kinds else []),
        ("design weights", "given" if s.design_weights else "none"),
        ("suspects", ", ".join(s.suspects) or "none"),
        *((f"ignored: {name}", why) for name, why in s.ignored),
        *s.parameters,
        *s.versions,
    ]
    lines += ["| | |", "|---|---|"]
    lines += [f"| {_escape(name)} | {_escape(value)} |" for name, value in facts]
    if page.notes:
        lines += ["", *(f"- {_escape(note)}" for note in page.notes)]
    return "\n".join(lines).rstrip() + "\n"
