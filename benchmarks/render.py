"""Write tables as csv, Markdown and a self-contained HTML page, atomically."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unskew._io import write_atomic


class ResultTable(NamedTuple):
    """A title, column names, rows of strings or numbers, and a note below the table."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


def as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}"
    return str(value)


def to_markdown(table: ResultTable) -> str:
    def line(cells: Sequence[Any]) -> str:
        return "| " + " | ".join(as_text(c).replace("|", "\\|") for c in cells) + " |"

    body = [line(table.columns), line(["---"] * len(table.columns)), *map(line, table.rows)]
    note = f"\n\n{table.note}" if table.note else ""
    return f"### {table.title}\n\n" + "\n".join(body) + note + "\n"


def to_csv(tables: Sequence[ResultTable]) -> str:
    """All tables in one file; the first column is the title of the table."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for table in tables:
        writer.writerow(["table", *table.columns])
        for row in table.rows:
            writer.writerow([table.title, *map(as_text, row)])
    return out.getvalue()


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto;
  padding: 0 1rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #8884; }}
th {{ position: sticky; top: 0; background: Canvas; }}
th:first-child, td:first-child {{ text-align: left; }}
tbody tr:hover {{ background: #8882; }}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""


def to_html(title: str, intro: str, tables: Sequence[ResultTable]) -> str:
    def cells(tag: str, row: Sequence[Any]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(as_text(c))}</{tag}>" for c in row) + "</tr>"

    parts = [f"<p>{html.escape(paragraph)}</p>" for paragraph in intro.split("\n\n") if paragraph]
    for table in tables:
        parts.append(f"<h2>{html.escape(table.title)}</h2><div class='wide'><table>")
        parts.append(f"<thead>{cells('th', table.columns)}</thead><tbody>")
        parts.extend(cells("td", row) for row in table.rows)
        parts.append("</tbody></table></div>")
        parts.extend(f"<p>{html.escape(p)}</p>" for p in table.note.split("\n\n") if p)
    return PAGE.format(title=html.escape(title), body="\n".join(parts))


def save_text(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text)
    return path


def save_figure(path: Path, figure: Any) -> Path:
    # No date in the file, so that it is reproducible.
    metadata = {"Date": None} if path.suffix == ".svg" else None
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(
        path,
        lambda temporary: figure.savefig(
            temporary, dpi=150, bbox_inches="tight", format=path.suffix[1:], metadata=metadata
        ),
    )
    return path


def save_tables(
    folder: Path, name: str, title: str, intro: str, tables: Sequence[ResultTable]
) -> list:
    markdown = f"# {title}\n\n{intro}\n\n" + "\n".join(map(to_markdown, tables))
    return [
        save_text(folder / f"{name}.md", markdown),
        save_text(folder / f"{name}.csv", to_csv(tables)),
        save_text(folder / f"{name}.html", to_html(title, intro, tables)),
    ]
