"""Reading of tables in many formats, and atomic writing of files.

`_text.py` reads csv, tsv and jsonl, `_survey.py` Stata, SPSS, SAS and Excel, `_read.py` the other
formats, `_toml.py` options, `_run_file.py` files of runs. `_write.py` writes a temporary file in
the target folder and renames it, so that a partial file is never visible. `_formats.py` has the
suffixes of both, `_table.py` finds columns by name.
"""

from ._archive import ArchiveError, check_archive, check_npy, check_npz, check_text, expansion_limit
from ._errors import FileError, nearest, need, one_line, why
from ._formats import SUFFIXES, stem_of
from ._read import (
    InputTable,
    check_options,
    index_columns,
    read_labels,
    read_table,
    size_and_digest,
)
from ._run_file import path_of_run, read_run, record_of, run_text
from ._table import Table
from ._toml import toml_text
from ._write import (
    Content,
    Outputs,
    check_output,
    same_file,
    table_bytes,
    table_format,
    write_atomic,
)

__all__ = [
    "SUFFIXES",
    "ArchiveError",
    "Content",
    "FileError",
    "InputTable",
    "Outputs",
    "Table",
    "check_archive",
    "check_npy",
    "check_npz",
    "check_options",
    "check_output",
    "check_text",
    "expansion_limit",
    "index_columns",
    "nearest",
    "need",
    "one_line",
    "path_of_run",
    "read_labels",
    "read_run",
    "read_table",
    "record_of",
    "run_text",
    "same_file",
    "size_and_digest",
    "stem_of",
    "table_bytes",
    "table_format",
    "toml_text",
    "why",
    "write_atomic",
]
