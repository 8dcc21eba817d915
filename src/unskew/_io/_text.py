"""Text tables: csv, tsv, jsonl. Every cell is read as a string first, then types are inferred.

polars' own type inference is not used, because error messages should name the line with an invalid
number, codes with leading zeros should stay strings, and the markers of missing values differ
("None" is an answer).
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from .._records import MISSING_MARKS, Finding, marks_in_words
from ._archive import expansion_limit
from ._errors import FileError, need, one_line

# Integers with leading zeros are codes. Those that int64 cannot hold are, if floats would be equal.
CODES, LONG = r"^[+-]?0\d+$", r"^[+-]?\d{19,}$"
# Dates whose month is a word, as Apr 1 2005 and 1-Apr-2005; months as numbers can be days.
NAMED_MONTH = r"^([A-Za-z]{3,9}\.? \d{1,2},? \d{4}|\d{1,2}[ -][A-Za-z]{3,9}\.?[ -]\d{4})$"
SEPARATORS = (",", ";", "\t")
COLUMNS_AT_ONCE = 1000  # of one polars expression: its memory grows with their number
BLOCK = 1 << 24  # bytes per block of the csv reader; a record should not be longer


def unpack(content: bytes, name: str, expected: bool, max_bytes: int | None = None) -> bytes:
    """Decompress gzip content; other content is returned unchanged unless gzip is expected.

    The decompressed size is limited to `max_bytes`; None: `expansion_limit` of the file.
    """
    if not content.startswith(b"\x1f\x8b"):
        if expected and content:
            raise FileError(f"{name}: is named .gz but is not a gzip file")
        return content
    limit = expansion_limit(len(content)) if max_bytes is None else max_bytes
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            unpacked = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{name}: is not a complete gzip file: {one_line(error)}") from error
    if len(unpacked) > limit:
        raise FileError(
            f"{name}: has {len(content):,} bytes, and its decompressed size exceeds the limit of "
            f"{limit:,}; increase max_bytes to read it"
        )
    return unpacked


def as_utf8(content: bytes, name: str, encoding: str) -> bytes:
    """Convert text to UTF-8 without a byte order mark; an error names an undecodable byte."""
    try:
        codec = codecs.lookup(encoding).name
        "".encode(codec)  # LookupError for codecs of bytes, as base64
    except (LookupError, ValueError):
        raise FileError(
            f"{name}: encoding {encoding[:40]!r} is not a text encoding known to Python"
        ) from None
    if codec == "utf-8" and content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FileError(f"{name}: is UTF-16, not UTF-8; use --encoding utf-16")
    if codec == "utf-8":
        content = content.removeprefix(codecs.BOM_UTF8)
        if content.isascii():
            return _without_nul(content, name)
    try:
        text = content.decode(codec)
    except UnicodeDecodeError as error:
        at = error.start
        line = content.count(b"\n", 0, at) + 1
        raise FileError(
            f"{name}: line {line}: byte 0x{content[at]:02x} at offset {at} is not "
            f"{encoding.upper()}; if the file has another encoding, specify it, "
            "for example --encoding latin-1"
        ) from None
    except ValueError as error:
        raise FileError(f"{name}: is not {encoding.upper()}: {one_line(error)}") from None
    return _without_nul(text.encode("utf-8"), name)


def _without_nul(content: bytes, name: str) -> bytes:
    at = content.find(b"\0")
    if at >= 0:
        raise FileError(f"{name}: byte 0x00 at offset {at}: this is not a text file")
    return content


def guess_separator(content: bytes) -> str:
    """The most frequent of `,` `;` and tab in the first line, outside quotes. Without them `|` or a
    blank, if the first lines have the same number of it: of blanks at least two, because names and
    values of a single column may contain one."""
    lines = [line.strip() for line in content[:BLOCK].splitlines() if line.strip()][:20]
    bare = [re.sub(rb'"[^"]*"', b"", line) for line in lines] or [b""]
    if not any(s.encode() in bare[0] for s in SEPARATORS):
        for separator, least in ((b"|", 1), (b" ", 2)):
            counts = {line.count(separator) for line in bare}
            if len(counts) == 1 and min(counts) >= least and len(bare) > 2:
                return separator.decode()
    # Ties: the first in SEPARATORS.
    return max(SEPARATORS, key=lambda s: bare[0].count(s.encode()))


# ------------------------------------------------------------------------------------------ csv


def read_csv(
    content: bytes, name: str, *, separator: str | None, header: bool, missing: tuple[str, ...]
) -> tuple[Any, int | None, list[str], list[Finding]]:
    """(frame, line of the first row or None if rows are not lines, notes, findings)."""
    if not content.strip():
        raise FileError(f"{name}: is empty; a table should have a header and rows")
    separator = separator or guess_separator(content)
    lines = content.count(b"\n") + (not content.endswith(b"\n"))
    frame = _read_regular(content, name, separator)
    # A quoted field of several lines may also be a quote that is not closed: checked strictly.
    if frame is None or (lines != len(frame) and b'"' in content):
        frame = _read_untidy(content, name, separator)
    first = 1 + int(header) if lines == len(frame) else None
    notes: list[str] = []
    findings: list[Finding] = []
    cells = frame.row(0)
    names = _column_names(cells, name, header, notes, findings)
    frame.columns = names
    frame = frame[int(header) :]
    if not len(frame):
        raise FileError(f"{name}: has a header but no rows")
    # With the separator ; a comma can be the decimal mark (as in R's read.csv2).
    frame, more = infer_types(frame, first, missing, numbers=True, decimal_comma=separator == ";")
    unnamed = [n for n, cell in zip(names, cells) if header and not cell.strip()]
    empty = [n for n in unnamed if frame[n].null_count() == len(frame)]
    if empty:
        notes.append(f"{name}: {len(empty)} column(s) without name and values were ignored")
        frame = frame.drop(empty)
    return frame, first, notes, findings + more


def _read_regular(content: bytes, name: str, separator: str) -> Any:
    """Frame of strings by pyarrow, which refuses records of different lengths (polars fills short
    ones); None where it refuses, or where quotes are not used as RFC 4180 says."""
    inside = rf'[^{re.escape(separator)}\r\n"]'.encode()
    # A quote between two other characters, as in 5" pipe, and in , "x" after a blank.
    if content.count(b'"') % 2 or re.search(rb'"(?<=%b")%b' % (inside, inside), content):
        return None
    polars = need("polars", "io", "reading tables")
    arrow = need("pyarrow", "io", "reading csv")
    arrow_csv = need("pyarrow.csv", "io", "reading csv")
    _, cells = next(_records(content, name, separator))
    strings = {f"f{j}": arrow.string() for j in range(len(cells))}
    try:
        table = arrow_csv.read_csv(
            arrow.BufferReader(content),
            arrow_csv.ReadOptions(autogenerate_column_names=True, block_size=BLOCK),
            arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            arrow_csv.ConvertOptions(column_types=strings, strings_can_be_null=False),
        )
    except arrow.ArrowInvalid:
        return None
    return polars.from_arrow(table)


def _read_untidy(content: bytes, name: str, separator: str) -> Any:
    """Frame of strings by Python's csv module; errors name the line."""
    rows: list[list[str]] = []
    for line, record in _records(content, name, separator):
        wide = len(rows[0]) if rows else len(record)
        if len(record) == wide:
            rows.append(record)
        elif any(cell.strip() for cell in record):  # else blank, as spreadsheets append them
            shown = "tab" if separator == "\t" else repr(separator)
            raise FileError(
                f"{name}: line {line}: {len(record)} field{'s' * (len(record) != 1)}, but the "
                f"first line has {wide} (separator {shown})"
            )
    polars = need("polars", "io", "reading tables")
    schema = {f"f{j}": polars.String for j in range(len(rows[0]))}
    return polars.DataFrame(rows, schema=schema, orient="row")


def _records(content: bytes, name: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of each record that is not blank, by Python's csv module."""
    lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="")
    reader = csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=True)
    try:
        for record in reader:
            if record:
                yield reader.line_num, record
    except csv.Error as error:
        raise FileError(f"{name}: line {reader.line_num}: {one_line(error)}") from error


def _column_names(
    cells: Sequence[str], name: str, header: bool, notes: list[str], findings: list[Finding]
) -> list[str]:
    """Names of the first line; a name that occurs again gets a number: age, age_2."""
    if not header:
        return [f"c{j}" for j in range(len(cells))]
    if all(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", cell.strip()) for cell in cells):
        notes.append(
            f"{name}: the first line has only numbers and was used as column names; use "
            "--no-header if it is data"
        )
    wanted = [cell.strip() or f"c{j}" for j, cell in enumerate(cells)]
    if all(re.fullmatch("'[^']+'", column) for column in wanted):
        wanted = [column[1:-1] for column in wanted]
    names: dict[str, int] = {}  # and the next number to try
    taken = set(wanted)
    for j, column in enumerate(wanted):
        if column in names:
            own = next(c for i in count(names[column]) if (c := f"{column}_{i}") not in taken)
            names[column] = int(own.rpartition("_")[2]) + 1
            findings.append(Finding("renamed", own, f"column {j + 1}, also named {column!r}"))
            taken.add(own)
            column = own
        names[column] = 2
    return list(names)


# ---------------------------------------------------------------------------------------- types


def infer_types(
    frame: Any,
    first: int | None,
    missing: tuple[str, ...],
    *,
    numbers: bool,
    decimal_comma: bool = False,
) -> tuple[Any, list[Finding]]:
    """Infer missing values and types of string columns; also returns findings.

    bool (true, false), integer, float, date (2024-01-31, 2024/1/31, Jan 31 2024) and time
    (2024-01-31 12:00), else string. Integers with leading zeros are codes and stay strings, as do
    those that int64 cannot hold where different ones would be the same float. `MISSING_MARKS` are
    missing values where a type other than string remains without them. A column of which at least
    half but not all values are numbers stays a string column and gets a finding. With
    `decimal_comma`, 1,5 is also a number.
    """
    import polars as pl

    if frame.width > COLUMNS_AT_ONCE:
        parts, of_parts = [], []
        for start in range(0, frame.width, COLUMNS_AT_ONCE):
            part = frame[:, start : start + COLUMNS_AT_ONCE]
            part, found = infer_types(
                part, first, missing, numbers=numbers, decimal_comma=decimal_comma
            )
            parts += part.get_columns()
            of_parts += found
        return pl.DataFrame(parts), of_parts
    findings: list[Finding] = []
    columns = []
    stripped = pl.col(pl.String).str.strip_chars()
    frame = frame.with_columns(
        pl.when(stripped.is_in(list(missing))).then(None).otherwise(stripped).name.keep()
    )
    plain = _numeric_columns(frame.select(pl.col(pl.String))) if numbers else {}
    for text in frame.get_columns():
        if text.dtype != pl.String or text.name in plain:
            columns.append(plain.get(text.name, text))
            continue
        typed = _typed(text, numbers, decimal_comma)
        marked = text.is_in(MISSING_MARKS).fill_null(False)
        if typed.dtype == pl.String and marked.any():
            without = text.set(marked, None)
            if without.null_count() < len(text):
                other = _typed(without, numbers, decimal_comma)
                if other.dtype != pl.String:
                    where = marks_in_words(text.filter(marked).unique(), marked.sum())
                    findings.append(Finding("missing", text.name, where))
                    typed = other
        if typed.dtype == pl.String and numbers:
            findings += _mixed(text, first, decimal_comma)
        columns.append(typed)
    return pl.DataFrame(columns), findings


def _numeric_columns(frame: Any) -> dict[str, Any]:
    """Columns of strings that are all numbers, as ``_typed`` returns them, by name. All columns at
    once: one by one, a table of 100,000 columns takes minutes."""
    import polars as pl

    def nulls(frame: Any) -> tuple:
        return frame.null_count().row(0)

    if not frame.width:
        return {}
    values = frame.select(pl.all().cast(pl.Float64, strict=False))
    missing = nulls(frame)
    good = [n for n, m, v in zip(frame.columns, missing, nulls(values)) if m == v < len(frame)]
    if not good:
        return {}
    frame = frame.select(good)
    whole = frame.select(pl.all().cast(pl.Int64, strict=False))
    codes = frame.select(pl.all().str.contains(f"{CODES}|{LONG}").any()).row(0)
    found = {}
    for name, m, w, code in zip(good, nulls(frame), nulls(whole), codes):
        if not code:
            found[name] = whole[name] if m == w else values[name]
    return found


def _typed(text: Any, numbers: bool, decimal_comma: bool) -> Any:
    import polars as pl

    filled = len(text) - text.null_count()
    if filled == 0:
        return text.cast(pl.Float64)
    sample = text.drop_nulls()
    if numbers:
        if sample.str.to_lowercase().is_in(["true", "false"]).all():
            return text.str.to_lowercase() == "true"
        points = text
        if decimal_comma and not sample.str.contains(".", literal=True).any():
            points = text.str.replace(",", ".", literal=True)
        values = points.cast(pl.Float64, strict=False)
        if len(values) - values.null_count() == filled:
            if sample.str.contains(CODES).any():
                return text
            whole = points.cast(pl.Int64, strict=False)
            if whole.null_count() == text.null_count():
                return whole
            merged = sample.str.contains(LONG).any() and values.n_unique() < text.n_unique()
            return text if merged else values
    if sample[:100].str.contains(r"^\d{4}/\d\d?/\d\d?$").all():
        day = text.str.to_date("%Y/%m/%d", strict=False)
        if day.null_count() == text.null_count():
            return day
    if sample[:100].str.contains(NAMED_MONTH).all():
        words = text.str.replace_all(r"[,. -]+", " ")
        for form in ("%b %d %Y", "%d %b %Y", "%B %d %Y", "%d %B %Y"):
            day = words.str.to_date(form, strict=False)
            if day.null_count() == text.null_count():
                return day
    if sample[:100].str.contains(r"^\d{4}-\d\d-\d\d").all():
        day = text.str.to_date("%Y-%m-%d", strict=False)
        if day.null_count() == text.null_count():
            return day
        try:
            time = text.str.to_datetime(strict=False)
        except pl.exceptions.ComputeError:  # polars finds no format, as for 2024-13-01
            return text
        if time.null_count() == text.null_count():
            return time
    return text


def _mixed(text: Any, first: int | None, decimal_comma: bool) -> list[Finding]:
    """A finding if at least half of the values, but not all, are numbers."""
    points = text.str.replace(",", ".", literal=True) if decimal_comma else text
    values = points.cast(float, strict=False)
    filled, good = len(text) - text.null_count(), len(values) - values.null_count()
    if good == filled or 2 * good < filled:
        return []
    at = int((text.is_not_null() & values.is_null()).arg_max())
    place = f"row {at + 1}" if first is None else f"line {first + at}"
    others = filled - good
    other = f"{others} other value{'s' * (others > 1)}, first {text[at]!r} in {place}"
    return [Finding("read as text", text.name, f"{good} numbers and {other}")]


# ---------------------------------------------------------------------------------------- jsonl


def read_jsonl(
    content: bytes, name: str, missing: tuple[str, ...], limit: int
) -> tuple[Any, list[Finding]]:
    """One JSON object per line; an absent key is a missing value. At most ``limit`` values."""
    polars = need("polars", "io", "reading tables")
    if not content.strip():
        raise FileError(f"{name}: is empty; jsonl should have one object per line")
    _check_keys(content, name, limit)
    try:
        frame = polars.read_ndjson(io.BytesIO(content), infer_schema_length=None)
    except polars.exceptions.PolarsError:
        frame = _jsonl_by_line(content, name, polars)
    if not frame.width or not len(frame):
        raise FileError(f"{name}: has no rows with values")
    return infer_types(frame, None, missing, numbers=False)


def _check_keys(content: bytes, name: str, limit: int) -> None:
    """Raise where rows with different keys would become a table of more than ``limit`` values."""
    rows = content.count(b"\n") + 1
    if rows * content.count(b":") <= limit:  # at least the number of keys
        return
    keys: set[str] = set()
    for line in content.split(b"\n"):
        try:
            keys.update(json.loads(line))
        except (ValueError, TypeError, RecursionError):
            continue  # the reader names the line
        if rows * len(keys) > limit:
            raise FileError(
                f"{name}: has {rows:,} rows with {len(keys):,} or more different keys, more values "
                f"than the limit of {limit:,}; increase max_bytes to read it"
            )


def _jsonl_by_line(content: bytes, name: str, polars: Any) -> Any:
    """Fallback of the fast reader: reads line by line, names invalid lines in errors, and converts
    mixed columns to strings."""
    columns: dict[str, dict[int, Any]] = {}
    n = 0
    for number, line in enumerate(content.decode("utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", one_line(error))
            raise FileError(f"{name}: line {number}: is not JSON: {reason}") from None
        if not isinstance(row, dict):
            raise FileError(f"{name}: line {number}: should be an object, {{...}}, not {line[:20]}")
        for key, value in row.items():
            if isinstance(value, (list, dict)):
                raise FileError(
                    f"{name}: line {number}: column {key!r} has a "
                    f"{'list' if isinstance(value, list) else 'nested object'}; a value should be "
                    "a number, a string, true, false or null"
                )
            columns.setdefault(key, {})[n] = value
        n += 1
    data = {}
    for key, found in columns.items():
        values = [found.get(i) for i in range(n)]
        kinds = {type(v) for v in values if v is not None}
        if len(kinds) > 1 and kinds != {int, float}:
            values = [
                None if v is None else v if isinstance(v, str) else json.dumps(v) for v in values
            ]
        data[key] = polars.Series(key, values, strict=False)
    return polars.DataFrame(data)
