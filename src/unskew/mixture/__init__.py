"""SelectionMixture: mixture models in which the shares of the groups differ by site.

``_columns`` reads tables and arrays, ``_rows`` sorts the rows and holds their sums, ``_families``
has the distributions of the columns, ``_cells`` their least squares, ``_em`` the EM algorithm,
``_search`` initializations and the choice of the model, ``_identify`` what the data identify.
"""

from ._estimator import SelectionMixture

__all__ = ["SelectionMixture"]
