"""Preprocessing of a table or matrix into a Design: distance, treatments, and pairs to balance.

``table_encoder`` encodes the columns of a table as numbers (TableEncoder), ``stats`` computes
weighted statistics of each column, ``design`` makes the input of the solver, and ``margins``
processes known population shares.
"""

from .design import Design, design_for, indicators, make_design, make_distance, scaled_distance
from .margins import KnownShares, make_margins, read_margins
from .stats import ColumnMap, ColumnStats, check_sizes, column_stats
from .table_encoder import EncodedTable, TableEncoder

__all__ = [
    "ColumnMap",
    "ColumnStats",
    "Design",
    "EncodedTable",
    "KnownShares",
    "TableEncoder",
    "check_sizes",
    "column_stats",
    "design_for",
    "indicators",
    "make_design",
    "make_distance",
    "make_margins",
    "read_margins",
    "scaled_distance",
]
