"""SelectionMixture: mixture models in which the shares of the groups differ by site.

``_reading`` reads tiles and tables by the models of the columns (``_columns``) and the suspects and
their combinations (``_suspects``), ``_search`` has initializations and the choice of the model,
``_checkpoint`` its state, ``_prediction`` the methods for rows. The likelihood, EM and what the
data identify are in ``unskew._mixture``.
"""

from ._estimator import SelectionMixture

__all__ = ["SelectionMixture"]
