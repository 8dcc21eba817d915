"""Formats of files by their suffixes, for reading and writing."""

from __future__ import annotations

import os
from pathlib import Path

STANDARD = "-"  # standard input, standard output

SUFFIXES = {
    **dict.fromkeys(("csv", "txt"), "csv"),
    **dict.fromkeys(("tsv", "tab"), "tsv"),
    **dict.fromkeys(("jsonl", "ndjson"), "jsonl"),
    **dict.fromkeys(("parquet", "pq"), "parquet"),
    **dict.fromkeys(("feather", "arrow", "ipc"), "feather"),
    **{name: name for name in ("npy", "npz", "mat", "dta", "sas7bdat", "xpt")},
    **dict.fromkeys(("svmlight", "svm", "libsvm"), "svmlight"),
    **dict.fromkeys(("sav", "zsav"), "sav"),
    **dict.fromkeys(("xlsx", "xlsm", "xls"), "xlsx"),
    "zip": "zip",  # of one table
}
TEXT_TABLES = ("csv", "tsv", "jsonl")
TEXT = (*TEXT_TABLES, "svmlight")  # these may be gzipped
TABLES = (*TEXT_TABLES, "parquet", "feather")  # these are also written


def split_name(path: str | os.PathLike) -> tuple[str, str, bool]:
    """(stem, suffix in lower case without the dot, whether .gz follows) of a name of a file."""
    name = Path(path).name
    gzipped = name.lower().endswith(".gz")
    bare = Path(name[:-3] if gzipped else name)
    return bare.stem, bare.suffix.lower().lstrip("."), gzipped


def stem_of(path: str | os.PathLike) -> str:
    """Name without folder, suffix and .gz: results/labels.csv.gz -> labels."""
    return split_name(path)[0]
