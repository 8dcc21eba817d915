"""Laws of the generators: the bias is what it says, the weights undo it, the seeds repeat."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from unskew.simulate import make_site_footprint, make_spurious_background, select_with_bias

MAKERS = [make_site_footprint, make_spurious_background]
# Five standard errors of a share from 20,000 rows.
SHARE = 5 * 0.5 / np.sqrt(20_000)


def joint(y, site, weights=None):
    table = np.zeros((y.max() + 1, site.max() + 1))
    np.add.at(table, (y, site), 1.0 if weights is None else weights)
    return table / table.sum()


# -------------------------------------------------------------------------------- the generators
@pytest.mark.parametrize("make", MAKERS)
def test_keys_and_shapes_agree(make):
    data = make(100, n_population=30, random_state=0)
    d = len(data.feature_names)
    assert data.X.shape == data.X_unbiased.shape == (100, d)
    assert data.X_population.shape == (30, d)
    assert data.y.shape == data.site.shape == data.weights.shape == (100,)
    assert data.y_unbiased.shape == data.site_unbiased.shape == (100,)
    assert data.y_population.shape == data.site_population.shape == (30,)
    parts = np.concatenate([data.core, data.footprint, data.suspects])
    np.testing.assert_array_equal(parts, np.arange(d))
    assert data.X.dtype == np.float64
    assert set(np.unique(data.X)) == {0.0, 1.0}
    assert len(set(data.feature_names)) == d
    assert data.params["n_population"] == 30
    assert data.weights.mean() == pytest.approx(1)


def test_site_columns_are_last_and_one_hot():
    data = make_site_footprint(200, n_sites=3, random_state=0)
    np.testing.assert_array_equal(data.suspects, [76, 77, 78])
    np.testing.assert_array_equal(data.X[:, data.suspects].argmax(axis=1), data.site)
    np.testing.assert_array_equal(data.X[:, data.suspects].sum(axis=1), 1)
    assert data.feature_names[-3:] == ["site_0", "site_1", "site_2"]


@pytest.mark.parametrize("make", MAKERS)
def test_site_follows_the_class_with_the_rate(make):
    data = make(20_000, rate=0.6, random_state=0)
    assert (data.site == data.y).mean() == pytest.approx(0.6 + 0.4 / 4, abs=SHARE)
    for y, site in [
        (data.y_unbiased, data.site_unbiased),
        (data.y_population, data.site_population),
    ]:
        np.testing.assert_allclose(joint(y, site), 1 / 16, atol=SHARE)


@pytest.mark.parametrize("n_sites", [2, 4, 6])
def test_true_weights_make_site_and_class_independent(n_sites):
    data = make_site_footprint(20_000, rate=0.7, n_sites=n_sites, random_state=1)
    weighted = joint(data.y, data.site, data.weights)
    # Weights reach 1 / 0.3 and make the shares noisier than SHARE.
    np.testing.assert_allclose(weighted, 1 / (4 * n_sites), atol=3 * SHARE)


def test_weights_equal_the_ratio_of_probabilities():
    data = make_site_footprint(500, rate=0.8, random_state=0)
    ratio = np.where(data.site == data.y, 0.25 / 0.85, 0.25 / 0.05)
    np.testing.assert_allclose(data.weights, ratio / ratio.mean())


def test_columns_are_on_with_their_probabilities():
    data = make_site_footprint(
        20_000, n_clusters=3, n_core=7, n_footprint=5, n_sites=2, random_state=0
    )
    for kind, columns, owner in [
        ("core", data.core, data.y),
        ("footprint", data.footprint, data.site),
    ]:
        for j in columns:
            name = data.feature_names[j].split("_")
            assert name[0] == kind
            own = owner == int(name[1])
            assert data.X[own, j].mean() == pytest.approx(0.7, abs=3 * SHARE)
            assert data.X[~own, j].mean() == pytest.approx(0.2, abs=3 * SHARE)


def test_rate_zero_is_unbiased():
    data = make_site_footprint(500, rate=0, random_state=0)
    np.testing.assert_array_equal(data.weights, 1)


@pytest.mark.parametrize("make", MAKERS)
def test_same_seed_same_data_and_rates_share_random_numbers(make):
    first, again = make(50, rate=0.5, random_state=3), make(50, rate=0.5, random_state=3)
    np.testing.assert_array_equal(first.X, again.X)
    other = make(50, rate=0.9, n_population=80, random_state=3)
    np.testing.assert_array_equal(first.y, other.y)
    np.testing.assert_array_equal(first.X[:, first.core], other.X[:, other.core])
    np.testing.assert_array_equal(first.X_unbiased, other.X_unbiased)
    assert (make(50, random_state=4).X != first.X).any()


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_generator_objects_are_accepted_and_move_on(kind):
    source = kind(0)
    first, second = (make_site_footprint(50, random_state=source) for _ in range(2))
    assert (first.X != second.X).any()
    np.testing.assert_array_equal(first.X, make_site_footprint(50, random_state=kind(0)).X)


def test_kmeans_fails_on_the_population_as_measured():
    """spec/dckm.md, 4 classes, 40 + 36 columns, rate 0.8: k-means .38, unbiased k-means .94."""
    biased, ceiling = [], []
    for seed in range(3):
        data = make_site_footprint(2000, random_state=seed)
        columns = np.concatenate([data.core, data.footprint])
        population = data.X_population[:, columns]
        for X, scores in [(data.X, biased), (data.X_unbiased, ceiling)]:
            model = KMeans(4, n_init=3, random_state=seed).fit(X[:, columns])
            scores.append(adjusted_rand_score(data.y_population, model.predict(population)))
    assert np.mean(biased) == pytest.approx(0.38, abs=0.05)
    assert np.mean(ceiling) == pytest.approx(0.94, abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 1}, r"rate=1 should be a number in \[0, 1\)"),
        ({"rate": -0.1}, "rate=-0.1"),
        ({"rate": "high"}, "rate='high'"),
        ({"on": 1.5}, "on=1.5 should be a probability"),
        ({"off": -1}, "off=-1 should be a probability"),
        ({"n_samples": 0}, "n_samples=0 should be an integer >= 1"),
        ({"n_samples": 10.0}, r"n_samples=10.0 should be an integer"),
        ({"n_clusters": 1}, "n_clusters=1 should be an integer >= 2"),
        ({"n_core": 3}, "n_core=3 should be >= n_clusters=4"),
        ({"n_population": 0}, "n_population=0"),
    ],
)
@pytest.mark.parametrize("make", MAKERS)
def test_errors_name_the_value_first(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


# ------------------------------------------------------------------------------ biased selection
def crossed(n=4000, classes=4, values=4, seed=0):
    rng = np.random.default_rng(seed)
    y, attribute = rng.integers(classes, size=n), rng.integers(values, size=n)
    return rng.normal(size=(n, 2)), y, attribute


@given(
    strength=st.floats(0, 0.99),
    classes=st.integers(2, 6),
    values=st.integers(2, 6),
    share=st.none() | st.floats(0.01, 1),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_probabilities_are_positive_and_add_up_to_the_size(strength, classes, values, share, seed):
    X, y, attribute = crossed(200, classes, values, seed)
    size = None if share is None else max(1, int(share * len(X)))
    sample = select_with_bias(X, y, attribute, strength, n_samples=size, random_state=seed)
    p = sample.selection_probability
    assert ((p > 0) & (p <= 1)).all()
    assert p.sum() == pytest.approx(len(sample.indices))
    assert size is None or len(sample.indices) == size
    assert (np.diff(sample.indices) > 0).all()
    np.testing.assert_array_equal(sample.X, X[sample.indices])
    np.testing.assert_array_equal(sample.y, y[sample.indices])
    np.testing.assert_array_equal(sample.attribute, attribute[sample.indices])
    assert sample.weights.mean() == pytest.approx(1)
    product = sample.weights * p[sample.indices]
    np.testing.assert_allclose(product, product[0])


def test_strength_is_the_rate_of_the_generator():
    X, y, attribute = crossed(100_000)
    sample = select_with_bias(X, y, attribute, 0.8, random_state=0)
    tied = sample.y == sample.attribute
    assert tied.mean() == pytest.approx(0.8 + 0.2 / 4, abs=SHARE)
    weighted = joint(sample.y, sample.attribute, sample.weights)
    np.testing.assert_allclose(weighted, 1 / 16, atol=2 * SHARE)


def test_strength_zero_is_a_plain_random_sample():
    X, y, attribute = crossed(300)
    np.testing.assert_array_equal(
        select_with_bias(X, y, attribute, 0, random_state=0).indices, np.arange(300)
    )
    sample = select_with_bias(X, y, attribute, 0, n_samples=100, random_state=0)
    np.testing.assert_allclose(sample.selection_probability, 1 / 3)
    np.testing.assert_allclose(sample.weights, 1)


def test_rows_are_drawn_with_their_probabilities():
    X, y, attribute = crossed(60, classes=3, values=2)
    rng = np.random.default_rng(0)
    counts = np.zeros(60)
    for _ in range(2000):
        sample = select_with_bias(X, y, attribute, 0.5, n_samples=30, random_state=rng)
        counts[sample.indices] += 1
    # Five standard errors of a share from 2000 draws.
    np.testing.assert_allclose(
        counts / 2000, sample.selection_probability, atol=5 * 0.5 / np.sqrt(2000)
    )


def test_each_class_has_a_tied_value_when_values_are_fewer():
    X, y, attribute = crossed(2000, classes=10, values=4)
    p = select_with_bias(X, y, attribute, 0.5, random_state=0).selection_probability
    tied = p > 0.9
    np.testing.assert_array_equal(tied, attribute == y % 4)


def test_tables_sparse_matrices_and_words_are_accepted():
    pandas = pytest.importorskip("pandas")
    X, y, attribute = crossed(200)
    words = np.array(["a", "b", "c", "d"])[attribute]
    expected = select_with_bias(X, y, words, 0.7, random_state=1)
    table = pandas.DataFrame(X, columns=["u", "v"])
    for form in (sparse.coo_array(X), table):
        got = select_with_bias(form, pandas.Series(y), list(words), 0.7, random_state=1)
        np.testing.assert_array_equal(got.indices, expected.indices)
        np.testing.assert_array_equal(got.attribute, expected.attribute)
    assert list(got.X.columns) == ["u", "v"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strength": 1}, r"strength=1 should be a number in \[0, 1\)"),
        ({"y": [0, 1]}, "y has 2 entries but X has 4 rows"),
        ({"attribute": [0, 1, 1]}, "attribute has 3 entries but X has 4 rows"),
        ({"attribute": [1, 1, 1, 1]}, r"attribute has 1 distinct value\(s\)"),
        ({"attribute": ["a", None, "a", "b"]}, "attribute has values that cannot be sorted"),
        ({"n_samples": 5}, "n_samples=5 should be <= the 4 rows of X"),
        ({"n_samples": 0}, "n_samples=0 should be an integer >= 1"),
    ],
)
def test_selection_errors_name_the_value_first(change, message):
    arguments = {"X": np.eye(4), "y": [0, 1, 0, 1], "attribute": [0, 0, 1, 1], "strength": 0.5}
    with pytest.raises(ValueError, match=message):
        select_with_bias(**arguments | change)
