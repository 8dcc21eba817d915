"""Baselines for DCKM: k-means after dropping, projecting, regressing or weighting.

Each class transforms the rows to a feature space (selected columns, principal components,
residuals), optionally with weights, and runs scikit-learn's k-means there. All draw their
initializations as DCKM does: the same ``init`` and ``random_state`` give the same partition to
every method, so that differences between methods are not due to the initialization.
"""

from ._adjusted import DecorrelatedKMeans, RegressOutKMeans
from ._feature_space import DropKMeans, PCAKMeans, PlainKMeans, SelectKMeans

__all__ = [
    "DecorrelatedKMeans",
    "DropKMeans",
    "PCAKMeans",
    "PlainKMeans",
    "RegressOutKMeans",
    "SelectKMeans",
]
