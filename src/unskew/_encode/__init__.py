"""The door: a table or a matrix becomes columns of the distance, treatments, and pairs to balance.

``_read`` reads one column of a table, ``_table`` learns how to make numbers of it (TableEncoder),
``_matrix`` makes of the numbers what the solver needs, ``_margins`` of known population shares.
"""

from ._again import encode_for
from ._margins import KnownShares, join_treatments, make_margins, read_margins
from ._matrix import (
    Columns,
    Encoded,
    Layout,
    describe_columns,
    encode,
    find_columns,
    indicators,
    make_distance,
    scaled_distance,
    some,
)
from ._read import as_frame
from ._table import Read, TableEncoder

__all__ = [
    "Columns",
    "Encoded",
    "KnownShares",
    "Layout",
    "Read",
    "TableEncoder",
    "as_frame",
    "describe_columns",
    "encode",
    "encode_for",
    "find_columns",
    "indicators",
    "join_treatments",
    "make_distance",
    "make_margins",
    "read_margins",
    "scaled_distance",
    "some",
]
