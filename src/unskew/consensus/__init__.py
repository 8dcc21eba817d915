"""Answers without labels: many runs into one clustering, and settings chosen by the data.

ConsensusDCKM(n_clusters)   DCKM from many starts, put together; "auto" chooses settings
choose_k(X, ...)            how many clusters
choose_strengths(X, ...)    how strong the balance
"""

from ._estimator import ConsensusDCKM
from ._model_selection import Choice, choose_k, choose_strengths

__all__ = ["Choice", "ConsensusDCKM", "choose_k", "choose_strengths"]
