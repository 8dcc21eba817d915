"""SelectionMixture: mixture models in which the shares of the groups differ by site.

``_columns`` reads tables and arrays, ``_suspects`` the suspects and their combinations, ``_search``
has initializations and the choice of the model, ``_prediction`` the methods for rows, ``_identify``
what the data identify. The likelihood and EM are in ``unskew._mixture``.
"""

from ._estimator import SelectionMixture

__all__ = ["SelectionMixture"]
