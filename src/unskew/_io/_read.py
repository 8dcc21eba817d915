"""read_table: read a table or matrix of any supported format."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import os
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from .._records import MISSING_WORDS, Finding
from . import _text
from ._archive import (
    ArchiveError,
    check_archive,
    check_mat,
    check_npy,
    check_npz,
    check_text,
    expansion_limit,
)
from ._errors import FileError, need, one_line, why
from ._formats import STANDARD, SUFFIXES, TEXT, TEXT_TABLES, split_name
from ._survey import STATISTICS, read_excel, read_statistics
from ._table import Table

# A few bytes can declare a sparse matrix of any width.
MAX_COLUMNS = 2**20


@dataclass(frozen=True)
class InputTable(Table):
    """A table read from a file: a frame, or an array or CSR matrix for matrix formats.

    data : polars.DataFrame, ndarray (n, d) or scipy.sparse.csr_array
    names : names of the columns; c0, c1, ... if the file has none
    first_line : line of the first row, None if rows are not lines
    """

    data: Any
    names: tuple[str, ...]
    name: str
    format: str
    size: int
    sha256: str
    first_line: int | None = None
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __len__(self) -> int:
        return int(self.data.shape[0])

    @property
    def is_frame(self) -> bool:
        return not (isinstance(self.data, np.ndarray) or sp.issparse(self.data))

    def place(self, row: int) -> str:
        return f"row {row + 1}" if self.first_line is None else f"line {self.first_line + row}"

    def column(self, name: str) -> Any:
        if self.is_frame:
            return self.data[name]
        values = self.data[:, [self.names.index(name)]]
        return (values.toarray() if sp.issparse(values) else values).ravel()

    def select(self, names: list[str]) -> Any:
        """Columns for an estimator, in this order: a frame, an array or a CSR matrix.

        Columns of unsupported types (nested, binary) raise an error that names them.
        """
        if not self.is_frame:
            if list(names) == list(self.names):
                return self.data
            return self.data[:, [self.names.index(name) for name in names]]
        return _plain(self.data.select(names), self.name)

    def _converted(self, X: Any, names: list[str]) -> Any:
        if not self.is_frame:
            polars = need("polars", "io", "a table")
            return polars.DataFrame(X.toarray() if sp.issparse(X) else X, schema=names)
        for name, kind in X.schema.items():
            if not kind.is_numeric():
                raise FileError(
                    f"{self.name}: column {name!r} has dtype {kind}; the model was fitted to a "
                    "matrix of numbers"
                )
        return X.to_numpy()


def read_table(
    source: str | os.PathLike,
    *,
    format: str | None = None,
    header: bool = True,
    separator: str | None = None,
    encoding: str = "utf-8",
    variable: str | None = None,
    missing: Sequence[str] | None = None,
    max_bytes: int | None = None,
) -> InputTable:
    """Read a table of any supported format.

    Parameters
    ----------
    source : path, or "-" for standard input
    format : one of csv, tsv, jsonl, parquet, feather, npy, npz, mat, svmlight, dta (Stata), sav
        (SPSS), sas7bdat and xpt (SAS), xlsx, zip (of one table); None means by the suffix (csv for
        standard input and pipes). Text formats may be gzipped.
    header : whether the first line of csv and tsv has the names; else they are c0, c1, ...
    separator : of csv; "tab" and a backslash with t mean the tab. None means the most frequent of
        `,` `;` and tab in the first line (without them `|` or blank, if all lines have the same
        number). If it is `;`, numbers may have a decimal comma.
    encoding : of the text formats
    variable : name of the matrix in a npz or mat file (None means the only one with at least two
        rows and columns), of the sheet of an xlsx file, or of the file in a zip archive
    missing : markers of missing values in text formats, in addition to "", NA, N/A, NaN, null and
        the like, and to ? . - None and the like where all other values are numbers or dates
    max_bytes : maximum decompressed size of a gz, npz, mat, xlsx or zip file, and number of values
        of a jsonl, parquet or feather file; None: 64 MiB or 100 times its size

    Returns
    -------
    InputTable

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from unskew._io import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "a.csv"
    ...     _ = path.write_text("age;site;depressed\\n34;A;None\\n;B;Most\\n")
    ...     read_table(path).data.rows()
    [(34, 'A', 'None'), (None, 'B', 'Most')]
    """
    name = "standard input" if str(source) == STANDARD else str(source)
    place = _locate(source, name)
    form, packed = _format(source, place, format, name)
    separator = "\t" if separator in ("tab", "\\t") else separator
    first: int | None = None
    notes: list[str] = []
    findings: list[Finding] = []
    if place is not None and form not in TEXT:
        size, digest = size_and_digest(place, name)
        where: Any = place
    else:
        content = _all_of(source, name)
        size, digest = len(content), hashlib.sha256(content).hexdigest()
        where = io.BytesIO(content)
    if not size:
        raise FileError(f"{name}: is empty")
    zipped = form == "zip"
    if zipped:
        form, packed, content = _unzip(where, name, variable, max_bytes)
        variable, where = None, io.BytesIO(content)
    check_options(
        form,
        name,
        header=header,
        separator=separator,
        encoding=encoding,
        variable=variable,
        missing=missing,
        max_bytes=None if zipped else max_bytes,
    )
    limit = expansion_limit(size) if max_bytes is None else max_bytes
    if form in TEXT:
        content = _text.unpack(content, name, packed, max_bytes)
        where = io.BytesIO(content)
    if form in TEXT_TABLES:
        content = _text.as_utf8(content, name, encoding)
    missing = (*MISSING_WORDS, *(missing or ()))
    if form == "jsonl":
        limit = max(limit, expansion_limit(len(content))) if max_bytes is None else limit
        data, findings = _text.read_jsonl(content, name, missing, limit)
    elif form in TEXT_TABLES:
        separator = "\t" if form == "tsv" else separator
        data, first, notes, findings = _text.read_csv(
            content, name, separator=separator, header=header, missing=missing
        )
    else:
        with _damage_named(form, name):
            if form in STATISTICS:
                data, findings = read_statistics(form, where)
            elif form == "xlsx":
                data, notes, findings = read_excel(where, name, variable, limit, missing)
            else:
                data = _READERS[form](where, name, variable, limit)
    if data.shape[1] > MAX_COLUMNS:
        raise FileError(f"{name}: has {data.shape[1]:,} columns; at most {MAX_COLUMNS:,} are read")
    if isinstance(data, np.ndarray) or sp.issparse(data):
        names = [f"c{j}" for j in range(data.shape[1])]
    else:
        index = index_columns(data.columns)
        if index:
            data = data.drop(index)
            notes.append(f"{name}: the stored pandas index was ignored")
        names = list(data.columns)
    if data.shape[0] == 0 or data.shape[1] == 0:
        raise FileError(f"{name}: has {data.shape[0]} rows and {data.shape[1]} columns")
    said = tuple(notes), tuple(findings)
    return InputTable(data, tuple(names), name, form, size, digest, first, *said)


def read_labels(
    given: Sequence[str], n: int, option: str, missing: Sequence[str] | None = None
) -> tuple[list[InputTable], dict[str, list]]:
    """Labels of n rows from columns of files, each given as FILE:COLUMN.

    Returns the tables, and a title -> labels. The last colon that follows the name of a file is
    meant; both names may contain colons.
    """
    tables: list[InputTable] = []
    found: dict[str, list] = {}
    for text in given:
        colons = [i for i in range(len(text) - 2, 0, -1) if text[i] == ":"]
        if not colons:
            example = "for example other.csv:cluster"
            raise FileError(f"{option} {text!r} should be FILE:COLUMN, {example}")
        at = next((i for i in colons if os.path.exists(text[:i])), colons[0])
        table = read_table(text[:at], missing=missing)
        labels = list(table.complete_column(text[at + 1 :], option, "label"))
        if len(labels) != n:
            raise table.error(
                f"has {len(labels):,} rows but should have {n:,}, those of the data in the same "
                f"order ({option})"
            )
        title = f"{os.path.basename(text[:at])}:{text[at + 1 :]}"
        if title in found:
            raise FileError(f"{option} {title} is given twice")
        tables.append(table)
        found[title] = labels
    return tables, found


# --------------------------------------------------------------------------- source and format


def _locate(source: str | os.PathLike, name: str) -> Path | None:
    """Path of a regular file; None for sources that can be read only once."""
    if str(source) == STANDARD:
        return None
    path = Path(source)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise FileError(f"{name}: {why(error)}") from error
    if stat.S_ISDIR(mode):
        raise FileError(f"{name}: is a folder; the input should be a file")
    return path if stat.S_ISREG(mode) else None


def _all_of(source: str | os.PathLike, name: str) -> bytes:
    try:
        if str(source) == STANDARD:
            if sys.stdin is None:
                raise FileError(f"{name}: is closed")
            return sys.stdin.buffer.read()
        return Path(source).read_bytes()
    except OSError as error:
        raise FileError(f"{name}: {why(error)}") from error


def size_and_digest(path: Path, name: str) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return file.tell(), digest
    except OSError as error:
        raise FileError(f"{name}: {why(error)}") from error


def _format(
    source: str | os.PathLike, place: Path | None, given: str | None, name: str
) -> tuple[str, bool]:
    """(format, whether the name ends in .gz)."""
    _, suffix, packed = split_name(source)
    if given is not None:
        if given not in SUFFIXES.values():
            known = ", ".join(dict.fromkeys(SUFFIXES.values()))
            raise FileError(f"{name}: format {given!r} should be one of {known}")
        return given, packed
    if suffix in SUFFIXES:
        form = SUFFIXES[suffix]
        if packed and form not in TEXT:
            raise FileError(f"{name}: .{suffix}.gz is not supported; decompress it first")
        return form, packed
    if place is None:
        return "csv", packed
    known = ", ".join("." + s for s in SUFFIXES)
    raise FileError(
        f"{name}: the suffix {'.' + suffix if suffix else '(none)'} is not one of those that are "
        f"read: {known} (text also .gz); if the file has one of these formats, use --format"
    )


def check_options(
    form: str,
    name: str,
    *,
    header: bool,
    separator: str | None,
    encoding: str,
    variable: str | None,
    missing: Sequence[str] | None,
    max_bytes: int | None,
) -> None:
    """Raise an error for options that do not apply to the format."""
    for option, given, forms in (
        ("--no-header", not header, ("csv", "tsv")),
        ("--separator", separator is not None, ("csv",)),
        ("--missing", bool(missing), (*TEXT_TABLES, "xlsx")),
        ("--encoding", encoding != "utf-8", TEXT_TABLES),
        ("--variable", variable is not None, ("npz", "mat", "xlsx")),
        (
            "--max-bytes",
            max_bytes is not None,
            (*TEXT, "npz", "mat", "xlsx", "parquet", "feather"),
        ),
    ):
        if given and form not in forms:
            raise FileError(f"{name}: {option} does not apply to {form}")
    if separator is not None and (len(separator.encode()) != 1 or separator in '"\r\n'):
        raise FileError(f"{name}: separator {separator!r} should be one character")


# --------------------------------------------------------------------------------------- frames


def index_columns(names: list[str]) -> list[str]:
    """Columns in which pandas stored its unnamed row index."""
    return [name for name in names if name.startswith("__index_level_") and name.endswith("__")]


def _plain(frame: Any, name: str) -> Any:
    import polars as pl

    casts = []
    for column, kind in frame.schema.items():
        if isinstance(kind, (pl.Decimal, pl.Null)) or str(kind) in ("Int128", "Null"):
            casts.append(pl.col(column).cast(pl.Float64))
        elif kind == pl.Duration:
            casts.append(pl.col(column).dt.total_microseconds() / 1e6)
        elif kind == pl.Time:
            casts.append(pl.col(column).cast(pl.Int64) / 1e9)  # seconds since midnight
        elif kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise FileError(
                f"{name}: column {column!r} has dtype {kind}; a column should have numbers, "
                "strings, booleans or dates; exclude it with --drop"
            )
    return frame.with_columns(casts) if casts else frame


def _parquet(where: Any, name: str, variable: None, limit: int) -> Any:
    polars = need("polars", "io", "reading parquet")
    parquet = need("pyarrow.parquet", "io", "reading parquet")
    rows = columns = 0
    with _opened(where) as file, contextlib.suppress(Exception):  # polars names the damage
        found = parquet.read_metadata(file)
        rows, columns = found.num_rows, found.num_columns
    _check_cells(rows, columns, limit)
    if isinstance(where, io.BytesIO):
        where.seek(0)
    return polars.read_parquet(where)


def _check_cells(rows: int, columns: int, limit: int) -> None:
    """Raise where a few bytes declare many values: each takes a byte or more in memory."""
    if rows * columns > limit:
        raise ArchiveError(
            f"it has {rows:,} rows of {columns:,} columns, more values than the limit of {limit:,} "
            "bytes; increase max_bytes to read it"
        )


def _feather(where: Any, name: str, variable: None, limit: int) -> Any:
    polars = need("polars", "io", "reading feather and arrow")
    arrow = need("pyarrow", "io", "reading feather and arrow")
    ipc = need("pyarrow.ipc", "io", "reading feather and arrow")
    with _opened(where) as file, contextlib.suppress(arrow.ArrowInvalid):
        names = ipc.open_file(file).schema.names
        for twice in (each for i, each in enumerate(names) if each in names[:i]):
            raise FileError(f"{name}: has two columns named {twice!r}; names should differ")
    if isinstance(where, io.BytesIO):
        where.seek(0)
    rows = columns = 0
    with contextlib.suppress(Exception):
        lazy = polars.scan_ipc(where)
        columns = len(lazy.collect_schema())
        rows = lazy.select(polars.len()).collect().item()  # from the metadata
    _check_cells(rows, columns, limit)
    if isinstance(where, io.BytesIO):
        where.seek(0)
    try:
        return polars.read_ipc(where)
    except (polars.exceptions.PolarsError, OSError) as error:
        try:  # the streaming variant of the format has the same suffix
            if isinstance(where, io.BytesIO):
                where.seek(0)
            return polars.read_ipc_stream(where)
        except (polars.exceptions.PolarsError, OSError):
            raise error from None


# ------------------------------------------------------------------------------------- matrices


def _npy(where: Any, name: str, variable: None, limit: int) -> Any:
    with _opened(where) as file:
        if file.read(4) == b"PK\3\4":
            raise FileError(f"{name}: is a npz archive, not a npy array; use --format npz")
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        check_npy(file, size)
        file.seek(0)
        array = np.load(file, allow_pickle=False)
    if array.dtype.names:
        for text in (n for n in array.dtype.names if array.dtype[n].kind == "U"):
            check_text(array[text])
        polars = need("polars", "io", "reading tables")
        return polars.DataFrame({n: np.ascontiguousarray(array[n]) for n in array.dtype.names})
    return _matrix(array, name, limit)


def _npz(where: Any, name: str, variable: str | None, limit: int) -> Any:
    with _opened(where) as file:
        names = set(check_npz(file, max_bytes=limit))
        if variable is None and {"format", "shape", "data", "indices", "indptr"} <= names:
            with np.load(file, allow_pickle=False) as archive:
                for part in ("indices", "indptr"):  # SciPy would drop fractions
                    if archive[part].dtype.kind not in "iu":
                        raise ArchiveError(
                            f"its array {part!r} has dtype {archive[part].dtype}; it should have "
                            "integers"
                        )
            file.seek(0)
            matrix = sp.load_npz(file)
            # Before any conversion: indices out of range write outside of the new arrays.
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)
            return _matrix(matrix, name, limit)
        _check_variable(name, variable, names)
        with np.load(file, allow_pickle=False) as archive:
            found = {k: archive[k] for k in archive.files if variable in (None, k)}
    return _matrix(_choose_variable(found, variable, name), name, limit)


@contextmanager
def _opened(where: Any) -> Iterator[BinaryIO]:
    """Open a path; yield a buffer in memory unchanged."""
    if isinstance(where, io.BytesIO):
        yield where
    else:
        with open(where, "rb") as file:
            yield file


# Numeric MATLAB classes and their item sizes; others (objects, functions, cells, structures, text)
# are never constructed.
MAT_CLASSES = {
    **{"double": 8, "single": 4, "logical": 1, "sparse": 0},
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def _mat(where: Any, name: str, variable: str | None, limit: int) -> Any:
    import scipy.io

    with _opened(where) as file:
        check_mat(file.read(), limit)
        file.seek(0)
    try:
        declared = {k: (shape, kind) for k, shape, kind in scipy.io.whosmat(where)}
    except NotImplementedError:
        raise FileError(
            f"{name}: is a MATLAB 7.3 file (HDF5), which is not supported; save it with -v7"
        ) from None
    _check_variable(name, variable, set(declared))
    wanted = {
        k: math.prod(shape) * MAT_CLASSES[kind]
        for k, (shape, kind) in declared.items()
        if variable in (None, k) and kind in MAT_CLASSES
    }
    if variable is not None and not wanted:
        raise FileError(
            f"{name}: variable {variable!r} is a MATLAB {declared[variable][1]}; it should be a "
            "matrix of numbers"
        )
    if sum(wanted.values()) > limit:
        raise ArchiveError(
            f"its decompressed size of {sum(wanted.values()):,} bytes exceeds the limit of "
            f"{limit:,}; increase max_bytes to read it"
        )
    if isinstance(where, io.BytesIO):
        where.seek(0)
    loaded = scipy.io.loadmat(where, variable_names=list(wanted)) if wanted else {}
    found = {k: loaded[k] for k in wanted}
    for matrix in found.values():
        if sp.issparse(matrix):
            matrix.check_format(full_check=True)
    return _matrix(_choose_variable(found, variable, name), name, limit)


def _svmlight(where: Any, name: str, variable: None, limit: int) -> Any:
    from sklearn.datasets import load_svmlight_file

    return _matrix(load_svmlight_file(where)[0], name, limit)


def _check_variable(name: str, variable: str | None, names: set[str]) -> None:
    if variable is not None and variable not in names:
        raise FileError(
            f"{name}: has no variable {variable!r}; it has {', '.join(sorted(names)) or 'none'}"
        )


def _choose_variable(found: dict[str, Any], variable: str | None, name: str) -> Any:
    if variable is not None:
        return found[variable]

    def is_matrix(value: Any) -> bool:
        numeric = sp.issparse(value) or getattr(value, "dtype", np.dtype(object)).kind in "buif"
        return numeric and value.ndim == 2 and value.shape[1] > 1 and value.shape[0] > 1

    matrices = [k for k, v in found.items() if is_matrix(v)]
    if len(matrices) != 1:
        which = f"{len(matrices)} matrices ({', '.join(matrices)})" if matrices else "no matrix"
        raise FileError(
            f"{name}: has {which} with at least two rows and columns; --variable should name the "
            f"one to read ({', '.join(sorted(found)) or 'there is none'})"
        )
    return found[matrices[0]]


def _matrix(value: Any, name: str, limit: int) -> Any:
    if value.ndim != 2:
        raise FileError(f"{name}: has shape {value.shape}; a matrix should be (rows, columns)")
    if value.dtype.kind not in "buif":
        raise FileError(f"{name}: has dtype {value.dtype}; values should be numbers")
    if sp.issparse(value):
        n, d = value.shape
        if d > MAX_COLUMNS or 8 * n > limit:
            raise FileError(
                f"{name}: has {n:,} rows and {d:,} columns; at most {limit // 8:,} rows (see "
                f"max_bytes) and {MAX_COLUMNS:,} columns are read"
            )
        return sp.csr_array(value)
    return np.ascontiguousarray(value)


_READERS: dict[str, Callable[[Any, str, Any, int], Any]] = {
    "parquet": _parquet,
    "feather": _feather,
    "npy": _npy,
    "npz": _npz,
    "mat": _mat,
    "svmlight": _svmlight,
}


@contextmanager
def _damage_named(form: str, name: str) -> Iterator[None]:
    """Errors of other libraries get the name of the file."""
    try:
        yield
    except (FileError, MemoryError):
        raise
    except BaseException as error:  # the libraries raise many types for a damaged file
        # polars' PanicException is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise FileError(f"{name}: cannot be read as {form}: {one_line(error)}") from error


def _unzip(
    where: Any, name: str, member: str | None, max_bytes: int | None
) -> tuple[str, bool, bytes]:
    """(format, gzipped, content) of the only table of a zip archive, or of the member."""
    with _damage_named("zip", name), _opened(where) as file:
        found = check_archive(file, max_bytes=max_bytes, folders=True)
        hidden = ("__MACOSX/", ".")
        names = [m.filename for m in found if not m.filename.startswith(hidden)]
        tables = [n for n in names if split_name(n)[1] in set(SUFFIXES) - {"zip"}]
        if member is not None:
            tables = [n for n in names if n == member]
        elif len(tables) > 1:  # a text besides the data is their description
            tables = [n for n in tables if split_name(n)[1] != "txt"] or tables
        if len(tables) != 1:
            raise FileError(
                f"{name}: should contain one table, or --variable should name it; it contains "
                f"{', '.join(names) or 'no file'}"
            )
        with zipfile.ZipFile(file) as archive:
            content = archive.read(tables[0])
    return *_format(tables[0], Path(tables[0]), None, f"{name}: {tables[0]}"), content
