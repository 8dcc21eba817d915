"""What one would do instead of DCKM: k-means after dropping, projecting, regressing or weighting.

Each class moves the rows into a space (some columns, principal components, residuals), perhaps with
weights, and runs scikit-learn's k-means there. All draw their starts as DCKM does: the same
``init`` and ``random_state`` give the same partition to every method, so that a difference between
two methods is not one between two starts.
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
