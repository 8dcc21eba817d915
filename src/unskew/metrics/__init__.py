"""Metrics of clusterings, of weights and of the mixing of batches, all with sample weights.

Functions of labels and of weights satisfy these rules: weight 2 is equivalent to the row twice,
weight 0 to an absent row, and unit weights give scikit-learn's value. Multiplying all weights by a
constant changes nothing, with one unavoidable exception: the adjusted Rand index and the silhouette
exclude the pair of a row with itself. Repeating each row adds pairs of copies, which scaling should
not add, so that scikit-learn's value at unit weights can be extended by either rule but not by
both; `weight_kind` selects one.

    "frequency"    weights count rows. Weight 2 = the row twice; the scale has a small effect.
    "importance"   weights are shares. Scaling changes nothing; a pair of distinct rows (i, j)
                   counts w_i w_j and a row has no copies. For learned weights.

The metrics of mixing (LISI, kBET, batch silhouette, principal component regression) have importance
weights: neighbours are distinct rows, and weights are their shares. Unit weights give the values of
scib-metrics and harmonypy. Inverse-selection weights (`SelectionMixture.weights_`) give each batch
the same share in all groups, so that mixing is judged against these shares. Without them, a batch
in which a group is rare counts as badly mixed even if all effects of the batch were removed.
"""

from ._agreement import (
    adjusted_rand_score,
    association,
    matching_accuracy,
    normalized_mutual_info_score,
    purity,
)
from ._mixing import (
    batch_silhouette_score,
    kbet_score,
    lisi_samples,
    lisi_score,
    principal_component_regression_score,
)
from ._shape import amount_of_correlation, silhouette_score
from ._sizes import design_effect, effective_sample_size, kish_size

__all__ = [
    "adjusted_rand_score",
    "amount_of_correlation",
    "association",
    "batch_silhouette_score",
    "design_effect",
    "effective_sample_size",
    "kbet_score",
    "kish_size",
    "lisi_samples",
    "lisi_score",
    "matching_accuracy",
    "normalized_mutual_info_score",
    "principal_component_regression_score",
    "purity",
    "silhouette_score",
]
