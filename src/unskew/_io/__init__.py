"""Reading of tables in many formats, and atomic writing of files.

`_text.py` reads csv, tsv and jsonl, `_read.py` the other formats, `_write.py` writes a temporary
file in the target folder and renames it, so that a partial file is never visible.
"""

from ._archive import ArchiveError, check_archive, check_npy, check_npz, expansion_limit
from ._errors import FileError, need, one_line, why
from ._read import READS, InputTable, check_options, index_columns, read_table
from ._write import (
    STANDARD,
    WRITES,
    Outputs,
    check_output,
    same_file,
    stem_of,
    table_bytes,
    table_format,
    write_atomic,
    write_table,
)

__all__ = [
    "READS",
    "STANDARD",
    "WRITES",
    "ArchiveError",
    "FileError",
    "InputTable",
    "Outputs",
    "check_archive",
    "check_npy",
    "check_npz",
    "check_options",
    "check_output",
    "expansion_limit",
    "index_columns",
    "need",
    "one_line",
    "read_table",
    "same_file",
    "stem_of",
    "table_bytes",
    "table_format",
    "why",
    "write_atomic",
    "write_table",
]
