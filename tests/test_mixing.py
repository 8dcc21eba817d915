"""Mixing of batches: the definitions as slow loops, the values of other packages, and weights."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import chi2

from unskew import DCKM, SelectionMixture
from unskew.diagnostics import diagnose
from unskew.metrics import (
    batch_silhouette_score,
    kbet_score,
    lisi_samples,
    lisi_score,
    principal_component_regression_score,
)
from unskew.report import to_markdown

SCORES = [
    lisi_score,
    kbet_score,
    batch_silhouette_score,
    principal_component_regression_score,
]
ROUNDING = 1e-10


def batches(seed=0, n=150, shift=1.0, d=3):
    """Rows with an effect of the batch, its batch, a group, and weights."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    batch = (rng.random(n) < np.where(group == 1, 0.75, 0.25)).astype(int)
    X = rng.normal(size=(n, d)) + 4 * group[:, None] + shift * batch[:, None]
    return X, batch, group, rng.uniform(0.2, 3, n)


def nearest(X, k):
    """Distances to the k nearest other rows, and which they are."""
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(D, np.inf)
    order = np.argsort(D, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(D, order, 1), order


# ------------------------------------------------------------------------------ slow loops
def slow_lisi(X, batch, w, perplexity):
    D, near = nearest(X, 3 * perplexity)
    found = []
    for d, j in zip(D, near):
        low, high, beta = -np.inf, np.inf, 1.0
        for _ in range(51):
            p = np.exp(-beta * d)
            excess = np.log(p.sum()) + beta * (d @ p) / p.sum() - np.log(perplexity)
            if abs(excess) <= 1e-5:
                break
            if excess > 0:
                low, beta = beta, beta * 2 if high == np.inf else (beta + high) / 2
            else:
                high, beta = beta, beta / 2 if low == -np.inf else (beta + low) / 2
        mass = p * w[j]
        shares = [mass[batch[j] == b].sum() / mass.sum() for b in np.unique(batch)]
        found.append(1 / sum(s * s for s in shares))
    return np.array(found)


def slow_kbet(X, batch, w, k, alpha):
    _, near = nearest(X, k - 1)
    accepted = []
    for i, others in enumerate(near):
        j = np.append(others, i)
        size = w[j].sum() ** 2 / (w[j] ** 2).sum()
        statistic = 0.0
        for b in np.unique(batch):
            expected = w[batch == b].sum() / w.sum()
            observed = w[j][batch[j] == b].sum() / w[j].sum()
            statistic += size * (observed - expected) ** 2 / expected
        accepted.append(chi2.sf(statistic, len(np.unique(batch)) - 1) >= alpha)
    return np.average(accepted, weights=w)


def slow_batch_silhouette(X, batch, labels, w):
    scores = []
    for g in np.unique(labels):
        rows = np.flatnonzero(labels == g)
        values = []
        for i in rows:
            d = np.linalg.norm(X[rows] - X[i], axis=1)
            others = (batch[rows] == batch[i]) & (rows != i)
            a = np.average(d[others], weights=w[rows][others])
            b = min(
                np.average(d[batch[rows] == c], weights=w[rows][batch[rows] == c])
                for c in np.unique(batch[rows])
                if c != batch[i]
            )
            values.append(1 - abs(b - a) / max(a, b))
        scores.append(np.average(values, weights=w[rows]))
    return np.mean(scores)


def slow_regression(X, Z, w, n_components):
    """Weighted least squares of each principal component on an intercept and Z."""
    centred = X - np.average(X, axis=0, weights=w)
    values, vectors = np.linalg.eigh((centred.T * w) @ centred / w.sum())
    top = np.argsort(-values)[:n_components]
    r2, root = [], np.sqrt(w)
    for c in top:
        y = centred @ vectors[:, c]
        design = np.column_stack([np.ones(len(y)), Z])
        fitted = design @ np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
        r2.append(1 - w @ (y - fitted) ** 2 / (w @ y**2))
    return (values[top] @ r2) / values[top].sum()


def test_lisi_is_the_slow_loop():
    X, batch, _, w = batches()
    found = lisi_samples(X, batch, sample_weight=w, perplexity=10)
    np.testing.assert_allclose(found, slow_lisi(X, batch, w, 10), rtol=ROUNDING)


def test_kbet_is_the_slow_loop():
    X, batch, _, w = batches()
    found = kbet_score(X, batch, sample_weight=w, n_neighbors=20, alpha=0.1)
    assert found == pytest.approx(slow_kbet(X, batch, w, 20, 0.1), abs=ROUNDING)


def test_batch_silhouette_is_the_slow_loop():
    X, batch, group, w = batches()
    found = batch_silhouette_score(X, batch, group, sample_weight=w)
    assert found == pytest.approx(slow_batch_silhouette(X, batch, group, w), abs=ROUNDING)


@pytest.mark.parametrize("n_components", [1, 2, None])
@pytest.mark.parametrize("kind", ["category", "number"])
def test_principal_component_regression_is_the_slow_loop(n_components, kind):
    X, batch, _, w = batches()
    Z = batch if kind == "category" else w**2
    found = principal_component_regression_score(
        X, Z, sample_weight=w, n_components=n_components, kind=kind
    )
    assert found == pytest.approx(slow_regression(X, Z, w, n_components or 3), abs=ROUNDING)


# ------------------------------------------------------------------------------ other packages
def test_lisi_with_unit_weights_is_harmonypys():
    harmonypy = pytest.importorskip("harmonypy")
    pd = pytest.importorskip("pandas")
    X, batch, _, _ = batches(n=300)
    theirs = harmonypy.compute_lisi(X, pd.DataFrame({"batch": batch.astype(str)}), ["batch"])
    np.testing.assert_allclose(lisi_samples(X, batch), np.ravel(theirs), atol=1e-6)


@pytest.fixture
def scib():
    jax = pytest.importorskip("jax")
    scib_metrics = pytest.importorskip("scib_metrics")
    jax.config.update("jax_enable_x64", True)  # its results have seven digits otherwise
    yield scib_metrics
    jax.config.update("jax_enable_x64", False)


def with_itself(X, k):
    """Neighbours as scib-metrics has them, the row itself first."""
    from scib_metrics.nearest_neighbors import NeighborsResults

    D, near = nearest(X, k - 1)
    return NeighborsResults(
        np.column_stack([np.arange(len(X)), near]), np.column_stack([np.zeros(len(X)), D])
    )


def test_scores_with_unit_weights_are_those_of_scib_metrics(scib):
    X, batch, group, _ = batches(n=300)
    theirs = scib.ilisi_knn(with_itself(X, 91), batch)
    assert lisi_score(X, batch) == pytest.approx(float(theirs), abs=1e-6)
    theirs = scib.kbet(with_itself(X, 50), batch)[0]
    assert kbet_score(X, batch) == pytest.approx(float(theirs), abs=1e-6)
    theirs = scib.silhouette_batch(X, group, batch)
    assert batch_silhouette_score(X, batch, group) == pytest.approx(float(theirs), abs=1e-6)
    for n_components in (2, None):
        theirs = scib.utils.principal_component_regression(
            X, batch, categorical=True, n_components=n_components
        )
        found = principal_component_regression_score(X, batch, n_components=n_components)
        assert found == pytest.approx(float(theirs), abs=1e-6)


# ------------------------------------------------------------------------------ laws of weights
@pytest.mark.parametrize("score", SCORES)
def test_zero_weight_is_an_absent_row(score):
    X, batch, _, w = batches(n=200)
    w[::3] = 0
    kept = w > 0
    found = score(X, batch, sample_weight=w)
    assert found == pytest.approx(score(X[kept], batch[kept], sample_weight=w[kept]), abs=ROUNDING)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("factor", [1e-200, 3.0, 1e200])
def test_scaling_the_weights_changes_nothing(score, factor):
    X, batch, _, w = batches()
    found = score(X, batch, sample_weight=factor * w)
    assert found == pytest.approx(score(X, batch, sample_weight=w), abs=ROUNDING)


@pytest.mark.parametrize("score", SCORES)
def test_names_of_batches_and_order_of_rows_change_nothing(score):
    X, batch, _, w = batches()
    order = np.random.default_rng(1).permutation(len(X))
    names = np.array(["north", "south"], dtype=object)[batch]
    found = score(X[order], names[order], sample_weight=w[order])
    assert found == pytest.approx(score(X, batch, sample_weight=w), abs=ROUNDING)


@pytest.mark.parametrize("score", SCORES)
def test_sparse_rows_give_the_same_as_dense_ones(score):
    X, batch, _, w = batches()
    X[np.abs(X) < 0.5] = 0
    found = score(sparse.csr_array(X), batch, sample_weight=w)
    assert found == pytest.approx(score(X, batch, sample_weight=w), abs=1e-6)


def test_inverse_selection_weights_find_batches_without_effects_mixed():
    """Groups have different shares by batch and no batch has an effect: the batches are as mixed
    as they can be, which only the weighted scores say."""
    X, batch, group, _ = batches(n=2000, shift=0.0)
    shares = np.array([[np.mean(group[batch == b] == g) for g in (0, 1)] for b in (0, 1)])
    w = np.bincount(group)[group] / len(group) / shares[batch, group]
    assert kbet_score(X, batch) < 0.2
    assert kbet_score(X, batch, sample_weight=w) > 0.8
    assert principal_component_regression_score(X, batch) > 0.1
    assert principal_component_regression_score(X, batch, sample_weight=w) < 0.01
    assert lisi_score(X, batch) < 0.7
    assert lisi_score(X, batch, sample_weight=w) > 0.9


@pytest.mark.parametrize("score", SCORES)
def test_effects_of_batches_are_seen_under_weights(score):
    X, batch, _, w = batches(shift=0.0, n=300)
    separated = score(X + 20.0 * batch[:, None], batch, sample_weight=w)
    mixed = score(X, batch, sample_weight=w)
    higher_is_worse = score is principal_component_regression_score
    assert (separated > mixed) if higher_is_worse else (separated < mixed)


# ------------------------------------------------------------------------------ diagnostics
def test_diagnose_measures_the_mixing_of_corrected_rows_under_the_weights():
    X, batch, _, _ = batches(n=400, shift=2.0)
    model = SelectionMixture(2, suspects=3, random_state=0).fit(np.column_stack([X, batch]))
    (found,) = diagnose(model, np.column_stack([X, batch]), against=False).mixing
    scaled, corrected = X / X.std(0), model.transform(np.column_stack([X, batch]))[:, :3] / X.std(0)
    assert found.kbet_before == pytest.approx(kbet_score(scaled, batch), abs=ROUNDING)
    w = model.combined_weights_
    weighted = batch_silhouette_score(corrected, batch, model.labels_, sample_weight=w)
    assert found.silhouette_after == pytest.approx(weighted, abs=ROUNDING)
    assert found.kbet_before < 0.2 < 0.7 < found.kbet_after
    assert found.explained_after < 0.1 < found.explained_before


def test_report_has_a_table_of_the_mixing():
    X, batch, _, _ = batches(n=200)
    X = np.column_stack([X, batch])
    text = to_markdown(diagnose(DCKM(2, suspects=3, n_init=2, random_state=0).fit(X), X))
    assert "Mixing of the suspects" in text
    assert "kBET, before" in text


# ------------------------------------------------------------------------------ errors
@pytest.mark.parametrize("score", SCORES)
def test_bad_input_is_named(score):
    X, batch, _, w = batches()
    with pytest.raises(ValueError, match="batch has 1 distinct value"):
        score(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="batch has 3 entries but X has 150 rows"):
        score(X, [0, 1, 0])
    with pytest.raises(ValueError, match=r"sample_weight\[2\]=-1.0 should be >= 0"):
        score(X, batch, sample_weight=np.where(np.arange(len(X)) == 2, -1, w))


def test_bad_options_are_named():
    X, batch, group, _ = batches()
    with pytest.raises(ValueError, match="perplexity=60 needs 181 rows"):
        lisi_score(X, batch, perplexity=60)
    with pytest.raises(ValueError, match="n_neighbors=200 should be <= 150"):
        kbet_score(X, batch, n_neighbors=200)
    with pytest.raises(ValueError, match="no group of labels has two batches"):
        batch_silhouette_score(X, group, group)
    with pytest.raises(ValueError, match="n_components=4 should be"):
        principal_component_regression_score(X, batch, n_components=4)
