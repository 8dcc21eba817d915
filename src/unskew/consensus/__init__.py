"""Consensus clustering and unsupervised model selection.

ConsensusDCKM(n_clusters)   consensus of DCKM runs; "auto" selects settings
choose_k(X, ...)            selects the number of clusters
choose_strengths(X, ...)    selects the strength of the balance
"""

from ._estimator import ConsensusDCKM
from ._model_selection import Choice, choose_k, choose_strengths

__all__ = ["Choice", "ConsensusDCKM", "choose_k", "choose_strengths"]
