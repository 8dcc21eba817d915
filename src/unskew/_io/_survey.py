"""Files of statistics packages and spreadsheets: Stata, SPSS, SAS, Excel."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any, BinaryIO

from .._records import MISSING_WORDS, Finding
from ._archive import ArchiveError, check_archive
from ._errors import FileError, need
from ._text import infer_types

# Format -> function of pyreadstat.
STATISTICS = {
    "dta": "read_dta", "sav": "read_sav", "sas7bdat": "read_sas7bdat", "xpt": "read_xport",
}  # fmt: skip
SHOWN = 3  # labels in a finding
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


def read_excel(
    where: Any, name: str, sheet: str | None, limit: int
) -> tuple[Any, list[str], list[Finding]]:
    """(frame, notes, findings) of a sheet of an Excel file; None: the first."""
    polars = need("polars", "io", "reading tables")
    excel = need("fastexcel", "survey", "reading xlsx")
    with io.BytesIO(where.getvalue()) if isinstance(where, io.BytesIO) else open(where, "rb") as f:
        if f.read(2) == b"PK":
            check_archive(f, max_bytes=limit)
            check_sheets(f, limit)
        f.seek(0)
        book = excel.read_excel(f.read())
    sheets = book.sheet_names
    if sheet is not None and sheet not in sheets:
        raise FileError(f"{name}: has no sheet {sheet!r}; it has {', '.join(sheets)}")
    notes = []
    if sheet is None and len(sheets) > 1:
        notes.append(
            f"{name}: the first of its {len(sheets)} sheets, {sheets[0]!r}, is read; --variable "
            f"names another: {', '.join(sheets[1:])}"
        )
    frame = polars.DataFrame(book.load_sheet(sheet or sheets[0]))
    frame, findings = infer_types(frame, None, MISSING_WORDS, numbers=True)
    return frame, notes, findings
