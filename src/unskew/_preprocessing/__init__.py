"""The door: a table or a matrix becomes columns of the distance, treatments, and pairs to balance.

``_read`` reads one column of a table, ``_table`` learns how to make numbers of it (TableEncoder),
``_matrix`` makes of the numbers what the solver needs, ``_margins`` of known population shares.
"""

from .design import Encoded, encode, encode_for, indicators, make_distance, scaled_distance
from .margins import KnownShares, join_treatments, make_margins, read_margins
from .stats import Columns, Layout, describe_columns
from .table_encoder import Read, TableEncoder

__all__ = [
    "Columns",
    "Encoded",
    "KnownShares",
    "Layout",
    "Read",
    "TableEncoder",
    "describe_columns",
    "encode",
    "encode_for",
    "indicators",
    "join_treatments",
    "make_distance",
    "make_margins",
    "read_margins",
    "scaled_distance",
]
