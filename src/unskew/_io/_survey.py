"""Files of statistics packages and spreadsheets: Stata, SPSS, SAS, Excel."""

from __future__ import annotations

import html
import io
import logging
import re
import zipfile
from typing import Any, BinaryIO

from .._records import Finding
from ._archive import ArchiveError, check_archive
from ._errors import FileError, need
from ._text import infer_types

# Format -> function of pyreadstat.
STATISTICS = {
    "dta": "read_dta", "sav": "read_sav", "sas7bdat": "read_sas7bdat", "xpt": "read_xport",
}  # fmt: skip
SHOWN = 3  # labels in a finding
TOP = 20  # rows of a sheet among which the names of the columns are searched
NUMBER = re.compile(r"[-+]?\d[\d.,:/ -]*(?:[eE][-+]?\d+)?")  # or a date
# Position of a row or a cell in an .xlsx file, and the size of a cell in memory.
PLACE = re.compile(rb"""\sr\s*=\s*["']([A-Za-z]*)(\d+)["']""")
CELL_BYTES = 32


def read_statistics(form: str, where: Any) -> tuple[Any, list[Finding]]:
    """A file of Stata, SPSS or SAS. A column whose values all have labels is a category with the
    labels as values; values that the file declares missing are missing."""
    reader = need("pyreadstat", "survey", f"reading {form}")
    polars = need("polars", "io", "reading tables")
    source = where if isinstance(where, io.BytesIO) else str(where)
    frame, meta = getattr(reader, STATISTICS[form])(source, output_format="polars")
    findings, columns = [], []
    for column in frame.get_columns():
        if column.dtype == polars.String:
            column = column.set(column == "", None)
        labels = meta.variable_value_labels.get(column.name)
        if labels:
            column, text = _with_labels(column, labels, polars)
            findings += [Finding("value labels", column.name, text)] if text else []
        columns.append(column)
    return polars.DataFrame(columns), findings


def _with_labels(column: Any, labels: dict[Any, str], polars: Any) -> tuple[Any, str]:
    """The column with its labels if they name all its values; else as it is, and why."""
    if column.dtype.is_numeric():
        labels = {float(value): str(label) for value, label in labels.items()}
        column = column.cast(polars.Float64)
    values = column.drop_nulls().unique().to_list()
    without = [value for value in values if value not in labels]
    if not values or len(without) == len(values):
        return column, ""
    if not without and len({labels[value] for value in values}) < len(values):
        return column, "several values with the same label"
    if not without:
        return column.replace_strict(labels, return_dtype=polars.String), ""
    named = [f"{value:g} {labels[value]!r}" for value in sorted(values) if value in labels]
    shown = ", ".join(named[:SHOWN]) + (", ..." if len(named) > SHOWN else "")
    return column, f"{len(without)} values without label; others: {shown}"


def check_sheets(file: BinaryIO, limit: int) -> None:
    """Raise where the cells of a sheet lie far apart: a sheet is read into a dense array from its
    first to its last cell, and a few bytes can place one anywhere."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        if "xl/workbook.xml" not in names:
            raise ArchiveError("it has no workbook of an .xlsx file")
        for name in (name for name in names if name.lower().endswith(".xml")):
            rows = columns = 1
            for match in PLACE.finditer(archive.read(name)):
                letters, digits = match.groups()
                rows = max(rows, int(digits[:20]))
                column = 0
                for letter in letters.upper()[:8]:
                    column = 26 * column + letter - ord("A") + 1
                columns = max(columns, column)
            if rows * columns * CELL_BYTES > limit:
                raise ArchiveError(
                    f"its sheet {name!r} has {rows:,} rows and {columns:,} columns, more cells "
                    f"than the limit of {limit:,} bytes holds; increase max_bytes to read it"
                )


def find_header(first: list[tuple]) -> int:
    """Position of the row with the names of the columns among the first rows of a sheet: the first
    row without empty cells, if it has different words only. Titles above it have fewer cells. 0 if
    that row has numbers: then a column has no name, as the index of a data frame."""
    used = [j for j in range(len(first[0])) if any(row[j] is not None for row in first)]
    for at, row in enumerate(first):
        words = [row[j] for j in used if row[j] is not None]
        if len(words) == len(used):
            plain = not any(NUMBER.fullmatch(word.strip()) for word in words)
            return at if plain and len(set(words)) == len(words) else 0
    return 0


def merged_rows(file: BinaryIO, sheet: str) -> list[str]:
    """Ranges of a sheet in which cells of several rows are merged: only the first has a value."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        parts = {name: archive.read(name).decode("utf-8", "replace") for name in names
                 if name in ("xl/workbook.xml", "xl/_rels/workbook.xml.rels")}  # fmt: skip
        own = next((t for t in re.findall(r"<sheet\b[^>]*>", parts.get("xl/workbook.xml", ""))
                    if f'name="{html.escape(sheet)}"' in t), "")  # fmt: skip
        key = re.search(r'r:id="([^"]*)"', own)
        links = re.findall(r"<Relationship\b[^>]*>", parts.get("xl/_rels/workbook.xml.rels", ""))
        link = next((t for t in links if key and f'Id="{key[1]}"' in t), "")
        target = re.search(r'Target="/?(?:xl/)?([^"]*)"', link)
        if target is None or f"xl/{target[1]}" not in names:
            return []
        text = archive.read(f"xl/{target[1]}").decode("utf-8", "replace")
    found = re.findall(r'<mergeCell\b[^>]*ref="([A-Z]+(\d+):[A-Z]+(\d+))"', text)
    return [ref for ref, top, bottom in found if top != bottom]


def read_excel(
    where: Any, name: str, sheet: str | None, limit: int, missing: tuple[str, ...]
) -> tuple[Any, list[str], list[Finding]]:
    """(frame, notes, findings) of a sheet of an Excel file; None: the first."""
    polars = need("polars", "io", "reading tables")
    excel = need("fastexcel", "survey", "reading xlsx")
    logging.getLogger("fastexcel").setLevel(logging.ERROR)  # of columns without values
    with io.BytesIO(where.getvalue()) if isinstance(where, io.BytesIO) else open(where, "rb") as f:
        zipped = f.read(2) == b"PK"
        if zipped:
            check_archive(f, max_bytes=limit)
            check_sheets(f, limit)
        f.seek(0)
        book = excel.read_excel(f.read())
        sheets = book.sheet_names
        if sheet is not None and sheet not in sheets:
            raise FileError(f"{name}: has no sheet {sheet!r}; it has {', '.join(sheets)}")
        own = sheet or sheets[0]
        merged = merged_rows(f, own) if zipped else []
    notes, others = [], ", ".join(each for each in sheets if each != own)
    if sheet is None and others:
        notes.append(
            f"{name}: the first of its {len(sheets)} sheets, {own!r}, is read; --variable names "
            f"another: {others}"
        )
    first = polars.DataFrame(book.load_sheet(own, header_row=None, n_rows=TOP, dtypes="string"))
    if first.height < 2:
        hint = f"; --variable names another: {others}" if others else ""
        raise FileError(f"{name}: its sheet {own!r} has no rows below the names of columns{hint}")
    header = find_header(first.rows())
    frame = polars.DataFrame(book.load_sheet(own, header_row=header))
    unnamed = [column for column in frame.columns if column.startswith("__UNNAMED__")]
    frame = frame.drop([c for c in unnamed if frame[c].null_count() == frame.height])
    empty = frame.select(polars.all_horizontal(polars.all().is_null())).to_series()
    frame = frame.filter(~empty)
    if header:
        rows = "row is" if header == 1 else f"{header} rows are"
        notes.append(f"{name}: the first {rows} above the names of the columns and left out")
    if empty.any():
        notes.append(f"{name}: rows without any value are left out: {int(empty.sum())}")
    if merged:
        notes.append(
            f"{name}: cells of several rows are merged ({', '.join(merged[:SHOWN])}"
            f"{', ...' if len(merged) > SHOWN else ''}): the first row of each has the value, in "
            "the others it is missing"
        )
    frame, findings = infer_types(frame, None, missing, numbers=True)
    return frame, notes, findings
