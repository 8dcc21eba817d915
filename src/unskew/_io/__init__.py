"""Files: tables of every format in, whole files out.

`_text.py` reads csv, tsv and jsonl, `_read.py` knows the formats, `_write.py` writes a file under a
temporary name in its own folder and renames it, so that a reader never sees half a file.
"""

from ._errors import FileError, need, one_line
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
    "FileError",
    "InputTable",
    "Outputs",
    "check_options",
    "check_output",
    "index_columns",
    "need",
    "one_line",
    "read_table",
    "same_file",
    "stem_of",
    "table_bytes",
    "table_format",
    "write_atomic",
    "write_table",
]
