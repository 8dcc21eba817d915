"""Files of statistics packages and spreadsheets: Stata, SPSS, SAS, Excel."""

from __future__ import annotations

import io
from typing import Any

from .._records import MISSING_WORDS, Finding
from ._archive import check_archive
from ._errors import FileError, need
from ._text import infer_types

# Format -> function of pyreadstat.
STATISTICS = {
    "dta": "read_dta", "sav": "read_sav", "sas7bdat": "read_sas7bdat", "xpt": "read_xport",
}  # fmt: skip
SHOWN = 3  # labels in a finding


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
    if not without:
        return column.replace_strict(labels, return_dtype=polars.String), ""
    named = [f"{value:g} {labels[value]!r}" for value in sorted(values) if value in labels]
    shown = ", ".join(named[:SHOWN]) + (", ..." if len(named) > SHOWN else "")
    return column, f"{len(without)} values without label; others: {shown}"


def read_excel(
    where: Any, name: str, sheet: str | None, limit: int
) -> tuple[Any, list[str], list[Finding]]:
    """(frame, notes, findings) of a sheet of an Excel file; None: the first."""
    polars = need("polars", "io", "reading tables")
    excel = need("fastexcel", "survey", "reading xlsx")
    with io.BytesIO(where.getvalue()) if isinstance(where, io.BytesIO) else open(where, "rb") as f:
        if f.read(2) == b"PK":
            check_archive(f, max_bytes=limit)
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
