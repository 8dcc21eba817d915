"""SelectionMixture: mixture models in which the shares of the groups differ by site.

``_columns`` reads tables and arrays, ``_suspects`` the suspects and their combinations, ``_search``
has initializations and the choice of the model, ``_prediction`` the methods for rows. The
likelihood, EM and what the data identify are in ``unskew._mixture``.
"""

from ._estimator import SelectionMixture

__all__ = ["SelectionMixture"]
