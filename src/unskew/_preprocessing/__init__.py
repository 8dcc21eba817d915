"""The door: a table or a matrix becomes columns of the distance, treatments, and pairs to balance.

``table_encoder`` learns how to make numbers of the columns of a table (TableEncoder), ``stats`` has
weighted facts about each column, ``design`` makes of the numbers what the solver needs, ``margins``
of known population shares.
"""

from .design import Design, design_for, indicators, make_design, make_distance, scaled_distance
from .margins import KnownShares, concat_treatments, make_margins, read_margins
from .stats import ColumnMap, ColumnStats, column_stats
from .table_encoder import EncodedTable, TableEncoder

__all__ = [
    "ColumnMap",
    "ColumnStats",
    "Design",
    "EncodedTable",
    "KnownShares",
    "TableEncoder",
    "column_stats",
    "concat_treatments",
    "design_for",
    "indicators",
    "make_design",
    "make_distance",
    "make_margins",
    "read_margins",
    "scaled_distance",
]
