"""Laws of the generators: the bias is what it says, the weights undo it, the seeds repeat."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from unskew.simulate import (
    make_site_footprint,
    make_sites,
    make_spurious_background,
    select_by_site,
    select_with_bias,
)

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


# ------------------------------------------------------------------------------ sites in general
@pytest.mark.parametrize(
    "arguments",
    [
        {"rate": 0.8},
        {"rate": 0.5, "n_clusters": 5, "n_sites": 3},
        {"rate": 0.5, "shares": [4, 2, 1, 1], "site_shares": [1, 1, 2, 4]},
    ],
)
def test_true_weights_make_group_and_site_independent(arguments):
    data = make_sites(20_000, n_features=1, random_state=0, **arguments)
    table = joint(data.y, data.site, data.weights)
    product = np.outer(table.sum(1), table.sum(0))
    # Weights of 1 / (1 - rate) raise the standard error of a share by at most its square root.
    error = SHARE / np.sqrt(1 - arguments["rate"])
    np.testing.assert_allclose(table, product, atol=error)
    population = joint(data.y_population, data.site_population)
    np.testing.assert_allclose(table, population, atol=2 * error)
    unweighted = joint(data.y, data.site)
    before = np.abs(unweighted - np.outer(unweighted.sum(1), unweighted.sum(0))).max()
    assert before > 4 * np.abs(table - product).max()


@pytest.mark.parametrize("n_shared", [0, 1, 2])
def test_sites_are_joined_through_the_shared_groups_only(n_shared):
    data = make_sites(3000, n_clusters=5, n_sites=3, n_shared=n_shared, rate=0.5, random_state=0)
    for y, site in ((data.y, data.site), (data.y_population, data.site_population)):
        n_sites_of = (joint(y, site) > 0).sum(1)
        np.testing.assert_array_equal(n_sites_of, [3] * n_shared + [1] * (5 - n_shared))
    own = data.y >= n_shared
    np.testing.assert_array_equal(data.site[own], data.y[own] % 3)


def test_given_selection_is_the_share_of_each_pair():
    selection = np.array([[1.0, 0.0, 1.0], [0.0, 0.5, 1.0]])
    data = make_sites(20_000, n_clusters=2, n_sites=3, selection=selection, random_state=0)
    np.testing.assert_allclose(joint(data.y, data.site), selection / selection.sum(), atol=SHARE)
    exists = (selection > 0) / 4
    population = joint(data.y_population, data.site_population)
    np.testing.assert_allclose(population, exists, atol=SHARE)
    weighted = joint(data.y, data.site, data.weights)
    np.testing.assert_allclose(weighted, exists, atol=2 * SHARE)
    np.testing.assert_allclose(np.unique(data.weights / data.weights.min()), [1, 2])


def test_parameters_do_not_depend_on_the_selection():
    means = []
    for arguments in ({"rate": 0.0}, {"rate": 0.9}, {"n_shared": 1}):
        data = make_sites(40_000, shift=0, random_state=3, **arguments)
        means.append([data.X[data.y == k][:, data.core].mean(0) for k in range(4)])
    # Five standard errors of the mean of at least 2,000 rows of variance 1.
    np.testing.assert_allclose(means[0], means[1], atol=2 * 5 / np.sqrt(2000))
    np.testing.assert_allclose(means[0], means[2], atol=2 * 5 / np.sqrt(2000))


def test_sites_shift_stretch_and_interact_as_documented():
    def cell_statistics(**arguments):
        data = make_sites(60_000, n_features=6, rate=0.0, random_state=1, **arguments)
        cells = [[data.X[(data.y == k) & (data.site == s)][:, :6] for s in range(4)]
                 for k in range(4)]  # fmt: skip
        mean = np.array([[c.mean(0) for c in row] for row in cells])
        sd = np.array([[c.std(0) for c in row] for row in cells])
        return mean, sd

    error = 5 / np.sqrt(60_000 / 16 * 0.9)
    mean, sd = cell_statistics(shift=2.0)
    additive = mean - mean.mean(0) - mean.mean(1)[:, None] + mean.mean((0, 1))
    np.testing.assert_allclose(additive, 0, atol=2 * error)
    np.testing.assert_allclose(sd, 1, atol=error)
    mean, sd = cell_statistics(spread=0.5)
    np.testing.assert_allclose(sd / sd.mean(0), 1, atol=2 * error)
    assert np.log(sd.mean(0)).std(0).mean() == pytest.approx(0.5, rel=0.5)
    mean, _ = cell_statistics(interaction=1.0)
    additive = mean - mean.mean(0) - mean.mean(1)[:, None] + mean.mean((0, 1))
    # 9 of 16 degrees of freedom remain after two means are taken out.
    assert additive.std() == pytest.approx(0.75, rel=0.3)


def test_heavy_tails_have_variance_one_and_more_kurtosis():
    data = make_sites(50_000, tails=5, shift=0, n_clusters=1, n_features=4, random_state=0)
    Z = data.X[:, :4] - data.X[:, :4].mean(0)
    assert Z.var() == pytest.approx(1, rel=0.05)
    assert (Z**4).mean() > 4  # 9 for Student's t with 5 degrees, 3 for a Gaussian


def test_several_suspects_are_selected_independently_of_each_other():
    data = make_sites(20_000, n_sites=2, n_suspects=2, rate=0.8, random_state=0)
    assert data.site.shape == (20_000, 2)
    assert data.feature_names[-4:] == ["site0_0", "site0_1", "site1_0", "site1_1"]
    np.testing.assert_array_equal(data.X[:, data.suspects[::2]], data.site == 0)
    np.testing.assert_allclose(joint(*data.site.T), 0.25, atol=SHARE)
    for j in range(2):
        home = data.y // 2**j % 2
        assert (data.site[:, j] == home).mean() == pytest.approx(1 / 1.2, abs=SHARE)
        assert np.average(data.site[:, j] == home, weights=data.weights) == pytest.approx(
            0.5, abs=5 * SHARE
        )


def test_numeric_suspect_is_standard_normal_in_each_group_under_the_true_weights():
    data = make_sites(40_000, numeric=True, rate=0.8, n_features=2, random_state=0)
    t = data.site
    assert data.feature_names == ["x_0", "x_1", "site"]
    np.testing.assert_array_equal(data.X[:, data.suspects[0]], t)
    groups = [data.y == k for k in range(4)]
    assert t[groups[3]].mean() - t[groups[0]].mean() > 1
    for rows in groups:
        w = data.weights[rows]
        # Standard error at the effective size of a group under weights up to 5.
        error = 5 / np.sqrt(w.sum() ** 2 / (w**2).sum())
        assert np.average(t[rows], weights=w) == pytest.approx(0, abs=error)
        assert np.average(t[rows] ** 2, weights=w) == pytest.approx(1, abs=2 * error)


def test_no_groups_and_a_coin_are_special_cases():
    none = make_sites(1000, n_clusters=1, n_sites=2, random_state=0)
    assert (none.y == 0).all()
    coin = make_sites(20_000, n_sites=2, rate=0.0, shift=0.0, random_state=0)
    np.testing.assert_allclose(joint(coin.y, coin.site), 1 / 8, atol=SHARE)
    np.testing.assert_array_equal(coin.weights, 1)


def test_sites_repeat_with_their_seed():
    one, two, other = (make_sites(50, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.X, two.X)
    assert not np.array_equal(one.X, other.X)
    more = make_sites(50, n_population=80, random_state=0)
    np.testing.assert_array_equal(one.X, more.X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_shared": 5}, "n_shared=5 should be <= n_clusters=4"),
        ({"tails": 2}, "tails=2 should be > 2"),
        ({"shift": -1}, "shift=-1 should be a finite number >= 0"),
        ({"shares": [1, 0, 1, 1]}, r"shares=\[1, 0, 1, 1\] should be 4 positive numbers"),
        ({"selection": [[1, 0]]}, r"selection has shape \(1, 2\)"),
        ({"selection": np.zeros((4, 4))}, "selection should have probabilities"),
        ({"selection": np.ones((4, 4)), "n_shared": 1}, "n_shared=1 should be None with a given"),
        ({"n_shared": 1, "numeric": True}, "n_shared=1 should be None with numeric=True"),
        ({"n_shared": 1, "n_suspects": 2}, "n_shared=1 should be None with n_suspects=2"),
        ({"site_shares": [1, 1, 1, 1], "numeric": True}, "site_shares=.* should be None with"),
        ({"rate": 1}, "rate=1 should be a number in"),
    ],
)
def test_errors_of_sites_name_the_value_first(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_sites(100, **arguments)


# ------------------------------------------------------------------- selection by home sites
@settings(max_examples=40, deadline=None)
@given(
    rate=st.sampled_from([0.0, 0.5, 0.8, 0.95]),
    n_groups=st.integers(1, 6),
    n_sites=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_home_rows_are_complete_and_each_site_keeps_its_expected_number(
    rate, n_groups, n_sites, seed
):
    rng = np.random.default_rng(seed)
    y, site = rng.integers(n_groups, size=400), rng.integers(n_sites, size=400)
    sample = select_by_site(y[:, None], y, site, rate, random_state=seed)
    p = sample.selection_probability
    at_home = np.array([sample.home[k] for k in y.tolist()]) == site
    np.testing.assert_allclose(p, np.where(at_home, 1, 1 - rate))
    chosen = np.isin(np.arange(400), sample.indices)
    assert chosen[at_home].all()
    for s in np.unique(site):
        assert abs(chosen[site == s].sum() - p[site == s].sum()) < 1 + 1e-6
    np.testing.assert_array_equal(sample.y, y[sample.indices])
    np.testing.assert_allclose(sample.weights * p[sample.indices], sample.weights.min())
    if rate == 0:
        assert chosen.all()


def test_a_group_at_one_site_only_has_its_home_there():
    y = np.array(["a", "a", "b", "c", "c"])
    site = np.array([0, 1, 0, 0, 1])
    assert select_by_site(y[:, None], y, site, 0.5, random_state=0).home == {"a": 0, "b": 0, "c": 0}


def test_other_rows_are_drawn_with_one_minus_rate():
    y, site = np.tile([0, 1], 50), np.repeat([0, 1], 50)
    counts = sum(
        np.isin(np.arange(100), select_by_site(y[:, None], y, site, 0.8, random_state=s).indices)
        for s in range(2000)
    )
    away = y != site
    # Five standard errors of a share of 0.2 from 2,000 samples.
    np.testing.assert_allclose(counts[away] / 2000, 0.2, atol=5 * np.sqrt(0.16 / 2000))
