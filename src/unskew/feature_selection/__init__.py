"""Unsupervised feature selection: RUFS, FSASL, REFS, and two simple baselines.

Every class is a scikit-learn selector: `fit(X)` ranks the columns of X without labels and
`transform(X)` keeps the best `n_features_to_select`. None of them centres or scales X; use a scaler
in a pipeline if needed.

A fitted selector has `order_`, the column indices from best to worst, and `ranking_`, the rank of
each column with 1 for the best (as in scikit-learn's RFE), so that
`ranking_[order_[i]] == i + 1`. Columns with equal scores keep their order.

Notation: X is n x d (rows are samples), c the number of clusters, k the number of
neighbours, A' the transpose, ||A||_21 the sum of the Euclidean norms of the rows of A.
"""

from ._fsasl import FSASL
from ._refs import REFS
from ._rufs import RUFS
from ._selector import LaplacianScore, VarianceSelector

__all__ = ["FSASL", "REFS", "RUFS", "LaplacianScore", "VarianceSelector"]
