"""Laws of the weighted metrics: unit weights, repeated rows, absent rows, scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import metrics as reference
from sklearn.metrics.cluster import contingency_matrix

from unskew.metrics import (
    adjusted_rand_score,
    amount_of_correlation,
    association,
    design_effect,
    effective_sample_size,
    kish_size,
    matching_accuracy,
    normalized_mutual_info_score,
    purity,
    silhouette_score,
)
from unskew.metrics._validation import WEIGHT_KINDS

AGREEMENT = [
    normalized_mutual_info_score,
    adjusted_rand_score,
    purity,
    matching_accuracy,
    association,
]
AVERAGES = ["arithmetic", "geometric", "min", "max"]
ROUNDING = 1e-12


@st.composite
def labelings(draw, most_labels=4, least=1):
    """Two labelings of up to 30 rows and whole weights, one of them positive."""
    n = draw(st.integers(least, 30))
    column = st.lists(st.integers(0, most_labels - 1), min_size=n, max_size=n)
    weights = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any))
    return np.array(draw(column)), np.array(draw(column)), np.array(weights)


def blobs(seed=0, n=60, k=3, d=4):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    return rng.normal(size=(n, d)) + 2 * rng.normal(size=(k, d))[labels], labels, rng


# ------------------------------------------------------------------------------ unit weights
@given(labelings())
@pytest.mark.parametrize("average", AVERAGES)
def test_nmi_with_unit_weights_is_sklearns(average, drawn):
    true, pred, _ = drawn
    expected = reference.normalized_mutual_info_score(true, pred, average_method=average)
    ours = normalized_mutual_info_score(true, pred, average_method=average)
    assert ours == pytest.approx(expected, abs=ROUNDING)


@given(labelings(most_labels=30))
@pytest.mark.parametrize("kind", WEIGHT_KINDS)
def test_ari_with_unit_weights_is_sklearns(kind, drawn):
    true, pred, _ = drawn
    expected = reference.adjusted_rand_score(true, pred)
    assert adjusted_rand_score(true, pred, weight_kind=kind) == pytest.approx(
        expected, abs=ROUNDING
    )


@pytest.mark.parametrize("kind", WEIGHT_KINDS)
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_silhouette_with_unit_weights_is_sklearns(kind, metric):
    X, labels, _ = blobs()
    labels[0] = 7  # a cluster of one row
    expected = reference.silhouette_score(X, labels, metric=metric)
    ours = silhouette_score(X, labels, weight_kind=kind, metric=metric)
    assert ours == pytest.approx(expected, abs=ROUNDING)


def test_silhouette_draws_the_rows_that_sklearn_draws():
    X, labels, _ = blobs()
    expected = reference.silhouette_score(X, labels, sample_size=30, random_state=5)
    ours = silhouette_score(X, labels, sample_size=30, random_state=5)
    assert ours == pytest.approx(expected, abs=ROUNDING)


def test_amount_of_correlation_with_unit_weights_is_numpys():
    X, _, _ = blobs()
    covariance = np.cov(X, rowvar=False, ddof=0)
    whole = amount_of_correlation(X, diagonal=True)
    assert whole == pytest.approx(np.linalg.norm(covariance), rel=ROUNDING)
    off = covariance - np.diag(np.diag(covariance))
    assert amount_of_correlation(X) == pytest.approx(np.linalg.norm(off), rel=ROUNDING)


# --------------------------------------------------------------- weight 2 = row twice, 0 = absent
@given(labelings())
@pytest.mark.parametrize("metric", AGREEMENT)
def test_weight_two_equals_row_twice(metric, drawn):
    true, pred, w = drawn
    repeated = metric(np.repeat(true, w), np.repeat(pred, w))
    assert metric(true, pred, sample_weight=w) == pytest.approx(repeated, abs=ROUNDING)


@given(labelings())
def test_ari_with_whole_weights_is_sklearns_on_repeated_rows(drawn):
    true, pred, w = drawn
    expected = reference.adjusted_rand_score(np.repeat(true, w), np.repeat(pred, w))
    assert adjusted_rand_score(true, pred, sample_weight=w) == pytest.approx(expected, abs=ROUNDING)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_silhouette_weight_two_equals_row_twice(seed):
    X, labels, rng = blobs(seed)
    w = rng.integers(0, 4, size=len(X))
    repeated = silhouette_score(np.repeat(X, w, axis=0), np.repeat(labels, w))
    # 1e-7: the expanded square leaves copies at a distance of sqrt(rounding), not 0.
    assert silhouette_score(X, labels, sample_weight=w) == pytest.approx(repeated, abs=1e-7)


def test_silhouette_of_repeated_single_rows_is_one():
    assert silhouette_score([[0.0], [1.0]], [0, 1], sample_weight=[2, 2]) == pytest.approx(1)


def test_amount_of_correlation_weight_two_equals_row_twice():
    X, _, rng = blobs()
    w = rng.integers(0, 4, size=len(X))
    repeated = amount_of_correlation(np.repeat(X, w, axis=0))
    assert amount_of_correlation(X, w) == pytest.approx(repeated, rel=ROUNDING)


def test_correlation_ratio_weight_two_equals_row_twice():
    X, labels, rng = blobs()
    w = rng.integers(0, 4, size=len(X))
    repeated = association(np.repeat(labels, w), np.repeat(X[:, 0], w))
    assert association(labels, X[:, 0], sample_weight=w) == pytest.approx(repeated, rel=ROUNDING)


@given(labelings())
def test_design_weight_two_equals_row_twice_in_effective_size(drawn):
    _, m, a = drawn
    m = m + 0.5
    repeated = effective_sample_size(np.repeat(m, a))
    assert effective_sample_size(m, a) == pytest.approx(repeated, rel=ROUNDING)


@pytest.mark.parametrize("kind", WEIGHT_KINDS)
def test_zero_weight_equals_absent_row_for_both_kinds(kind):
    X, labels, rng = blobs()
    pred = rng.integers(3, size=len(X))
    w = np.where(np.arange(len(X)) < 40, rng.random(len(X)) + 0.5, 0)
    kept = w > 0
    options = {"weight_kind": kind}
    assert silhouette_score(X, labels, sample_weight=w, **options) == pytest.approx(
        silhouette_score(X[kept], labels[kept], sample_weight=w[kept], **options), abs=ROUNDING
    )
    assert adjusted_rand_score(labels, pred, sample_weight=w, **options) == pytest.approx(
        adjusted_rand_score(labels[kept], pred[kept], sample_weight=w[kept], **options),
        abs=ROUNDING,
    )


# ------------------------------------------------------------------------- scale of the weights
SCALE_FREE = {
    "nmi": normalized_mutual_info_score,
    "ari, importance": lambda *a, **k: adjusted_rand_score(*a, weight_kind="importance", **k),
    "purity": purity,
    "matching accuracy": matching_accuracy,
    "cramers v": association,
}


@given(labelings(), st.floats(1e-6, 1e6))
@pytest.mark.parametrize("metric", SCALE_FREE.values(), ids=SCALE_FREE)
def test_scaling_weights_changes_nothing(metric, drawn, scale):
    true, pred, w = drawn
    expected = metric(true, pred, sample_weight=w)
    # Square roots of rounding appear where the value is 0 (Cramer's V): 1e-7.
    assert metric(true, pred, sample_weight=scale * w) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("scale", [1e-6, 3, 1e6])
def test_scaling_weights_changes_nothing_for_data(scale):
    X, labels, rng = blobs()
    w = rng.random(len(X)) + 0.1
    for value in (
        lambda w: silhouette_score(X, labels, sample_weight=w, weight_kind="importance"),
        lambda w: amount_of_correlation(X, w),
        lambda w: association(labels, X[:, 0], sample_weight=w),
        kish_size,
        design_effect,
        effective_sample_size,
        lambda w: effective_sample_size(X[:, 0] ** 2, w),
    ):
        assert value(scale * w) == pytest.approx(value(w), rel=1e-10)


def test_ari_of_both_kinds_differs_by_the_order_of_one_row():
    rng = np.random.default_rng(0)
    true, pred = rng.integers(4, size=(2, 5000))
    pred = np.where(rng.random(5000) < 0.6, true, pred)
    w = rng.random(5000) * 2
    frequency = adjusted_rand_score(true, pred, sample_weight=w)
    importance = adjusted_rand_score(true, pred, sample_weight=w, weight_kind="importance")
    assert frequency == pytest.approx(importance, abs=5 / 5000)


# ----------------------------------------------------------------------- definitions and limits
def test_silhouette_equals_its_formula_written_as_loops():
    X, labels, rng = blobs(n=18)
    w = rng.random(len(X)) + 0.5
    distance = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    scores = []
    for i in range(len(X)):
        sums = [sum(w[j] * distance[i, j] for j in np.flatnonzero(labels == c)) for c in range(3)]
        mass = [w[labels == c].sum() for c in range(3)]
        a = sums[labels[i]] / (mass[labels[i]] - w[i])
        b = min(sums[c] / mass[c] for c in range(3) if c != labels[i])
        scores.append((b - a) / max(a, b))
    ours = silhouette_score(X, labels, sample_weight=w, weight_kind="importance")
    assert ours == pytest.approx(np.average(scores, weights=w), abs=1e-9)


def test_tiles_change_nothing(monkeypatch):
    X, labels, rng = blobs(n=300)
    w = rng.random(300) + 0.5
    whole = silhouette_score(X, labels, sample_weight=w), amount_of_correlation(X, w)
    monkeypatch.setattr("unskew.metrics._shape.TILE_BYTES", 2**14)
    tiled = silhouette_score(X, labels, sample_weight=w), amount_of_correlation(X, w)
    assert tiled == pytest.approx(whole, rel=1e-10)


def test_sparse_equals_dense():
    X, labels, rng = blobs()
    X = X * (rng.random(X.shape) < 0.3)
    w = rng.random(len(X))
    S = sparse.csr_array(X)
    assert amount_of_correlation(S, w) == pytest.approx(amount_of_correlation(X, w), rel=1e-10)
    dense = silhouette_score(X, labels, sample_weight=w)
    assert silhouette_score(S, labels, sample_weight=w) == pytest.approx(dense, rel=1e-7)


def test_a_far_origin_does_not_change_the_amount_of_correlation():
    X, _, _ = blobs()
    # Shifted by 1e6, the data keep 10 digits; sums of raw squares would keep none to speak of.
    assert amount_of_correlation(X + 1e6) == pytest.approx(amount_of_correlation(X), rel=1e-8)


@given(labelings())
def test_identical_labelings_score_one(drawn):
    true, _, w = drawn
    weights = w + 0.3
    assert normalized_mutual_info_score(true, true + 5, sample_weight=weights) == pytest.approx(1)
    for kind in WEIGHT_KINDS:
        assert adjusted_rand_score(true, -true, sample_weight=weights, weight_kind=kind) == 1
    assert purity(true, true, sample_weight=weights) == pytest.approx(1)
    assert matching_accuracy(true, true + 1, sample_weight=weights) == pytest.approx(1)


@given(labelings())
def test_matching_accuracy_is_at_most_purity_and_at_least_the_largest_cell(drawn):
    true, pred, w = drawn
    accuracy = matching_accuracy(true, pred, sample_weight=w)
    table = contingency_matrix(np.repeat(true, w), np.repeat(pred, w))
    assert table.max() / table.sum() - ROUNDING <= accuracy
    assert accuracy <= purity(true, pred, sample_weight=w) + ROUNDING


def test_cramers_v_equals_scipys():
    from scipy.stats.contingency import association as scipys

    rng = np.random.default_rng(1)
    labels, site = rng.integers(3, size=200), rng.integers(5, size=200)
    expected = scipys(contingency_matrix(labels, site), method="cramer")
    assert association(labels, site) == pytest.approx(expected, rel=ROUNDING)


def test_association_takes_a_many_valued_float_for_a_quantity():
    labels = np.repeat([0, 1], 50)
    attribute = labels + np.linspace(0, 0.1, 100)
    assert association(labels, attribute) == association(labels, attribute, kind="eta") > 0.99
    assert association(labels, attribute.round()) == pytest.approx(1)
    assert association(labels, np.arange(100), kind="cramers_v") == pytest.approx(1)


def test_missing_values_are_one_category():
    pandas = pytest.importorskip("pandas")
    site = ["a", "a", None, float("nan"), pandas.NA, "b"]
    labels = [0, 0, 1, 1, 1, 2]
    assert association(labels, np.array(site, dtype=object)) == pytest.approx(1)
    assert association(labels, pandas.Series(site, dtype=object)) == pytest.approx(1)


def test_constant_labels_have_no_association():
    assert association([0, 0, 0], ["a", "b", "c"]) == 0
    assert association([0, 0, 1], [2.0, 2.0, 2.0], kind="eta") == 0


@given(labelings())
def test_effective_size_of_unit_base_is_kish_size_over_rows(drawn):
    _, _, w = drawn
    assert effective_sample_size(w) == pytest.approx(kish_size(w) / len(w), rel=ROUNDING)
    assert design_effect(w) == pytest.approx((w > 0).sum() / kish_size(w), rel=ROUNDING)


@given(st.lists(st.floats(1e-150, 1e150), min_size=1, max_size=20))
def test_effective_size_is_a_share_for_any_weights(weights):
    share = effective_sample_size(weights)
    assert 1 / len(weights) - ROUNDING <= share <= 1 + ROUNDING
    assert design_effect(weights) >= 1 - ROUNDING


# ---------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: purity([0, 1], [0, 1, 1]), "labels_pred has 3 entries but labels_true has 2"),
        (
            lambda: adjusted_rand_score([0] * 6, [0] * 6, sample_weight=[1] * 5),
            "sample_weight has 5 entries but labels_true has 6",
        ),
        (
            lambda: silhouette_score([[0.0]] * 3, [0, 1, 1], sample_weight=[1, 1]),
            "sample_weight has 2 entries but labels has 3",
        ),
        (lambda: silhouette_score([[0.0]] * 3, [0, 1]), "labels has 2 entries but X has 3 rows"),
        (lambda: silhouette_score([[0.0]] * 3, [0, 0, 0]), "labels has 1 distinct values"),
        (lambda: silhouette_score([[0.0]] * 3, [0, 1, 2]), "labels has 3 distinct values"),
        (
            lambda: silhouette_score([[0.0]] * 3, [0, 1, 1], sample_size=9),
            "sample_size=9 should be 2",
        ),
        (lambda: silhouette_score([[0.0]], [0], metric="precomputed"), "metric='precomputed'"),
        (lambda: purity([0, 1], [0, 1], sample_weight=[1, -2]), r"sample_weight\[1\]=-2.0"),
        (lambda: purity([0, 1], [0, 1], sample_weight=[np.nan, 1]), r"sample_weight\[0\]=nan"),
        (lambda: purity([0, 1], [0, 1], sample_weight=[0, 0]), "sample_weight has sum 0"),
        (lambda: purity([], []), "labels_true has 0 entries"),
        (lambda: purity([[0]], [0]), "labels_true has 2 dimensions"),
        (lambda: amount_of_correlation([[1.0]], [1, 1]), "sample_weight has 2 entries but X has 1"),
        (lambda: effective_sample_size([1, 1], [1]), "base has 1 entries but weights has 2"),
        (lambda: effective_sample_size([1, 0], [0, 1]), r"weights \* base has sum 0"),
        (lambda: kish_size([-1.0]), r"weights\[0\]=-1.0 should be >= 0"),
        (lambda: association([0, 1], [0.0, np.nan], kind="eta"), "attribute has 1 missing"),
        (lambda: association([0, 1], [0]), "attribute has 1 entries but labels has 2"),
        (lambda: association([0, 1], [0, 1], kind="phi"), "kind='phi' should be one of"),
        (
            lambda: normalized_mutual_info_score([0], [0], average_method="mean"),
            "average_method='mean' should be one of",
        ),
        (
            lambda: adjusted_rand_score([0], [0], weight_kind="share"),
            "weight_kind='share' should be one of",
        ),
    ],
)
def test_errors_name_the_value_first(call, message):
    with pytest.raises(ValueError, match=message):
        call()
