"""Laws of the feature selectors, and their agreement with recorded runs (see reference/)."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from unskew.feature_selection import FSASL, REFS, RUFS, LaplacianScore, VarianceSelector, _lasso
from unskew.feature_selection._fsasl import l21_regression, project_on_simplex
from unskew.feature_selection._graphs import nearest, ridge
from unskew.feature_selection._lasso import converged_lasso
from unskew.feature_selection._refs import column_graph, reconstruction_path
from unskew.feature_selection._rufs import _RUFSProblem, local_learning_matrix

REFERENCE = Path(__file__).parent / "reference" / "feature_selection"
ALL = [VarianceSelector, LaplacianScore, REFS, FSASL, RUFS]
REFS_CONFIGS = {"A": {"alpha": 0.9, "beta": 0.1}, "B": {"alpha": 0.1, "beta": 1.0}}
FSASL_CONFIGS = {
    "B": {},
    "C": {"local_strength": 0.1, "sparsity_strength": 0.1, "lasso_ratio": 0.05},
}
RUFS_CONFIGS = {"N1": {"alpha": 1.0}, "N2": {"alpha": 10.0}}


def load(name):
    return np.loadtxt(REFERENCE / f"{name}.csv", delimiter=",")


def planted(n=40, d=6, seed=0):
    """Non-negative data: columns 0, 1 mark the first half of the rows, 2, 3 the other; then noise.

    Both clusters need a mark: no method centres X, so a constant would have to stand in for it.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    X[:, :4] = X[:, :4] / 2 + np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], [n // 2, n - n // 2], axis=0)
    return X


def build(cls, m=None, **parameters):
    """A selector with two clusters and a fixed start where it has such things."""
    if cls in (FSASL, RUFS):
        parameters = {"n_clusters": 2, **parameters}
    if cls is RUFS:
        parameters = {"random_state": 0, **parameters}
    return cls(m, **parameters)


# ------------------------------------------------------------------------------ the selector


@parametrize_with_checks([VarianceSelector(), LaplacianScore(), REFS()])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore:RUFS did not converge:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([FSASL(max_iter=4), RUFS(n_clusters=2, max_iter=2)])
def test_scikit_learn_estimator_checks_of_iterative_selectors(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", ALL)
def test_order_ranking_support_and_transform_tell_the_same(cls):
    X = planted()
    selector = build(cls, 2).fit(X)
    assert selector.ranking_[selector.order_].tolist() == [1, 2, 3, 4, 5, 6]
    assert sorted(selector.order_[:2]) == selector.get_support(indices=True).tolist()
    np.testing.assert_array_equal(selector.transform(X), X[:, np.sort(selector.order_[:2])])
    better_first = selector.scores_[selector.order_] * (1 if cls is LaplacianScore else -1)
    assert np.all(np.diff(better_first) >= 0)


@pytest.mark.parametrize("cls", ALL)
def test_names_of_kept_columns_follow_the_frame(cls):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(planted(), columns=list("abcdef"))
    selector = build(cls, 3).set_output(transform="pandas").fit(frame)
    kept = [c for c, keep in zip(frame.columns, selector.get_support()) if keep]
    assert selector.get_feature_names_out().tolist() == kept
    assert selector.transform(frame).columns.tolist() == kept


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(("d", "kept"), [(1, 1), (2, 1), (5, 2), (6, 3)])
def test_default_keeps_half_of_the_columns(cls, d, kept):
    loose = {"tol": 1e-2} if cls is RUFS else {}
    assert build(cls, **loose).fit(planted(d=6)[:, :d]).n_features_ == kept


@pytest.mark.parametrize("cls", [LaplacianScore, FSASL, RUFS])
def test_planted_columns_come_first(cls):
    assert sorted(build(cls).fit(planted(d=8)).order_[:4]) == [0, 1, 2, 3]


@pytest.mark.parametrize("cls", ALL)
def test_permuting_columns_permutes_the_scores(cls):
    X, perm = planted(), np.array([3, 0, 5, 1, 4, 2])
    a, b = build(cls).fit(X), build(cls).fit(X[:, perm])
    np.testing.assert_allclose(b.scores_, a.scores_[perm], rtol=1e-2 if cls is RUFS else 1e-6)
    np.testing.assert_array_equal(perm[b.order_], a.order_)


@pytest.mark.parametrize("cls", ALL)
def test_permuting_rows_changes_nothing(cls):
    X, perm = planted(), np.random.default_rng(1).permutation(40)
    labels = np.repeat([0, 1], 20)
    first = {"init": labels} if cls is RUFS else {}
    second = {"init": labels[perm]} if cls is RUFS else {}
    a, b = build(cls, **first).fit(X), build(cls, **second).fit(X[perm])
    np.testing.assert_allclose(b.scores_, a.scores_, rtol=1e-2 if cls is RUFS else 1e-6)
    np.testing.assert_array_equal(b.order_, a.order_)


@pytest.mark.parametrize("cls", ALL)
def test_same_input_gives_same_output(cls):
    X = planted()
    np.testing.assert_array_equal(build(cls).fit(X).scores_, build(cls).fit(X).scores_)


def test_equal_scores_go_to_the_lower_column():
    X = np.array([[0.0, 1, 0, 2], [1, 0, 1, 0], [0, 1, 0, 2]])
    assert VarianceSelector().fit(X).order_.tolist() == [3, 0, 1, 2]
    # Columns 0 and 2 are equal, so are their reconstruction errors.
    order = REFS(n_neighbors=1).fit(X).order_.tolist()
    assert order.index(0) < order.index(2)


# --------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("m", [0, -1, 7, 2.5, "half", True])
def test_number_of_columns_outside_its_range_is_refused(cls, m):
    with pytest.raises(
        ValueError, match=rf"n_features_to_select={m!r} should be between 1 and n_f"
    ):
        build(cls, m).fit(planted())


@pytest.mark.parametrize(
    ("cls", "name", "value", "rule"),
    [
        (REFS, "alpha", 0.0, "> 0 and < 1"),
        (REFS, "alpha", 1.0, "> 0 and < 1"),
        (REFS, "beta", 0.0, "> 0"),
        (REFS, "beta", np.nan, "> 0"),
        (REFS, "n_neighbors", 0, "an integer >= 1"),
        (LaplacianScore, "n_neighbors", 2.0, "an integer >= 1"),
        (FSASL, "lasso", "fast", "'converged' or 'author'"),
        (FSASL, "lasso", None, "'converged' or 'author'"),
        (FSASL, "lasso_ratio", 1.0, "> 0 and < 1"),
        (FSASL, "global_strength", -1.0, ">= 0"),
        (FSASL, "local_strength", 0.0, "> 0"),
        (FSASL, "sparsity_strength", np.inf, "> 0"),
        (FSASL, "max_iter", 0, "an integer >= 1"),
        (FSASL, "n_clusters", "two", "an integer >= 1"),
        (RUFS, "alpha", 0, "> 0"),
        (RUFS, "beta", 0, "> 0"),
        (RUFS, "nu", -1, ">= 0"),
        (RUFS, "tol", -1e-5, ">= 0"),
        (RUFS, "max_iter", 1.5, "an integer >= 1"),
        (RUFS, "n_clusters", 0, "an integer >= 1"),
    ],
)
def test_parameter_outside_its_rule_is_refused_by_value(cls, name, value, rule):
    with pytest.raises(ValueError, match=f"{name}={value!r} should be .*{rule}"):
        build(cls, **{name: value}).fit(planted())


@pytest.mark.parametrize("cls", ALL)
def test_columns_whose_squares_overflow_or_underflow_are_refused(cls):
    for scale, words in ((1e200, "should be <= "), (1e-200, "should be >= ")):
        with pytest.raises(ValueError, match=words):
            cls().fit(scale * planted())


@pytest.mark.parametrize("scale", [1e-120, 1e130])
@pytest.mark.parametrize("cls", ALL)
def test_columns_of_extreme_scales_have_scores_or_are_refused(cls, scale):
    for X in (scale * planted(), planted() * np.array([scale, 1, 1, 1, 1, 1])):
        selector = cls()
        try:
            selector.fit(X)
        except ValueError as error:
            assert "should neither overflow nor underflow" in str(error)  # noqa: PT017
        else:
            assert not np.isnan(selector.scores_).any()


@pytest.mark.parametrize("cls", [FSASL, RUFS])
def test_more_clusters_than_rows_are_refused(cls):
    with pytest.raises(ValueError, match="n_clusters=41 should be <= n_samples=40"):
        build(cls, n_clusters=41).fit(planted())


def test_rufs_refuses_more_clusters_than_distinct_rows():
    X = np.repeat(planted(n=4), 5, axis=0)
    with pytest.raises(ValueError, match="n_clusters=5 should be <= number of distinct rows=4"):
        RUFS(n_clusters=5).fit(X)


@pytest.mark.parametrize(("cls", "spare"), [(LaplacianScore, 1), (FSASL, 2)])
def test_more_neighbours_than_rows_are_refused(cls, spare):
    X = planted(n=6)
    build(cls, n_neighbors=6 - spare).fit(X)
    with pytest.raises(ValueError, match=rf"n_neighbors=6 should be <= n_samples - {spare}="):
        build(cls, n_neighbors=6).fit(X)


def test_rufs_with_more_neighbours_than_rows_uses_all_other_rows():
    X = planted(n=7)
    every = local_learning_matrix(X, 6).toarray()
    np.testing.assert_array_equal(local_learning_matrix(X, 60).toarray(), every)
    # Predicting a row from all others is kernel ridge regression left-one-out: the same matrix
    # as row by row with k = n - 1 neighbours.
    index, _, mean = nearest(X, 6)
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (2 * mean**2))
    B = np.eye(7)
    for i, near in enumerate(index):
        B[i, near] = -np.linalg.solve(K[np.ix_(near, near)] + 0.1 * np.eye(6), K[near, i])
    np.testing.assert_allclose(every, B.T @ B, atol=1e-12)


def test_refs_with_more_neighbours_than_columns_joins_all_columns():
    X = planted()
    a, b = REFS(n_neighbors=50).fit(X), REFS(n_neighbors=5).fit(X)
    assert a.n_neighbors_ == b.n_neighbors_ == 5
    np.testing.assert_array_equal(a.errors_, b.errors_)


def test_rufs_refuses_negative_data():
    with pytest.raises(ValueError, match=r"Negative values .* min\(X\)=-0.5 should be >= 0"):
        RUFS(n_clusters=2).fit(planted() - np.where(np.arange(6) == 3, planted()[:, 3:4] + 0.5, 0))


@pytest.mark.parametrize("shape", [(39, 39), (40, 39)])
def test_rufs_refuses_a_laplacian_of_the_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"laplacian.shape=.* should be .*=\(40, 40\)"):
        RUFS(n_clusters=2, laplacian=np.ones(shape)).fit(planted())


def test_rufs_refuses_wrong_labels():
    with pytest.raises(ValueError, match=r"init.shape=\(39,\) should be \(n_samples,\)=\(40,\)"):
        RUFS(n_clusters=2, init=np.zeros(39)).fit(planted())
    with pytest.raises(ValueError, match="init has 1 distinct labels, should be n_clusters=2"):
        RUFS(n_clusters=2, init=np.zeros(40)).fit(planted())


def test_fsasl_warns_of_more_components_than_clusters():
    X = np.random.default_rng(0).normal(size=(30, 4)) + np.repeat([0, 50, 100], 10)[:, None]
    with pytest.warns(UserWarning, match="n_clusters=2 is less than the 3 connected components"):
        FSASL(n_clusters=2, max_iter=5).fit(X)


def test_rufs_warns_when_sweeps_run_out():
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=1 sweeps"):
        RUFS(n_clusters=2, max_iter=1, tol=0, random_state=0).fit(planted())


@pytest.mark.parametrize("cls", ALL)
def test_constant_and_duplicate_columns_give_finite_rankings(cls):
    X = planted(d=4)
    X = np.column_stack([X, X[:, 0], np.full(40, 0.3), np.zeros(40)])
    selector = build(cls).fit(X)
    assert sorted(selector.ranking_) == [1, 2, 3, 4, 5, 6, 7]
    if cls is not REFS:  # REFS gives places, not magnitudes
        np.testing.assert_allclose(selector.scores_[4], selector.scores_[0], rtol=1e-5)
    if cls in (VarianceSelector, LaplacianScore, FSASL):
        assert selector.order_[-1] == 6


@pytest.mark.parametrize("cls", [LaplacianScore, REFS, FSASL])
def test_equal_rows_give_finite_scores(cls):
    selector = build(cls).fit(np.ones((12, 3)))
    assert sorted(selector.ranking_) == [1, 2, 3]
    assert not np.isnan(selector.scores_).any()


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10_000), st.integers(8, 20), st.integers(1, 12))
@example(10_000, 8, 3)  # its embedding has a row that is orthogonal to the others to rounding
def test_any_binary_table_is_ranked(seed, n, d):
    X = np.random.default_rng(seed).integers(0, 2, size=(n, d)).astype(float)
    selectors = [VarianceSelector(), LaplacianScore(), REFS(), FSASL(n_clusters=n, max_iter=5)]
    selectors.append(FSASL(n_clusters=n, max_iter=5, lasso="author"))
    if len(np.unique(X, axis=0)) >= 2:
        selectors.append(RUFS(n_clusters=2, tol=1e-2, random_state=0))
    for selector in selectors:
        assert sorted(selector.fit(X).ranking_) == list(range(1, d + 1))
        assert not np.isnan(selector.scores_).any()


# ------------------------------------------------------------------------------------ kernels


def test_neighbours_exclude_the_row_itself_and_break_ties_by_index():
    X = np.array([[0.0], [0], [0], [1], [3]])
    index, square, mean = nearest(X, 2)
    assert index.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [3, 0]]
    assert square.tolist() == [[0, 0], [0, 0], [0, 0], [1, 1], [4, 9]]
    assert mean == pytest.approx(2 * (3 * 1 + 3 * 3 + 2) / 25)


@pytest.mark.parametrize("shape", [(30, 8), (8, 30), (9, 9)])
def test_ridge_solves_its_normal_equations_in_both_branches(shape):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=shape), rng.normal(size=(shape[0], 3))
    r, e = rng.uniform(0.1, 2, shape[0]), rng.uniform(0.1, 2, shape[1])
    tall = np.linalg.solve(X.T @ (r[:, None] * X) + np.diag(1 / e), X.T @ (r[:, None] * Y))
    E = np.diag(e)
    wide = E @ X.T @ np.linalg.solve(X @ E @ X.T + np.diag(1 / r), Y)
    np.testing.assert_allclose(tall, wide, atol=1e-10)
    np.testing.assert_allclose(ridge(X, Y, r, e), tall, atol=1e-10)
    gram = X.T @ (r[:, None] * X)
    np.testing.assert_allclose(ridge(X, Y, r, e, gram), tall, atol=1e-10)


def test_zero_columns_move_l21_regression_to_the_wide_branch_and_change_nothing():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(12, 5)), rng.normal(size=(12, 2))
    padded = np.column_stack([X, np.zeros((12, 20))])
    W = l21_regression(padded, Y, 0.3)
    np.testing.assert_allclose(W[:5], l21_regression(X, Y, 0.3), atol=1e-12)
    np.testing.assert_array_equal(W[5:], 0)


def test_projection_on_simplex_is_the_nearest_point():
    rng = np.random.default_rng(0)
    V = rng.normal(size=(50, 5))
    P = project_on_simplex(V)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert P.min() >= 0
    for other in rng.dirichlet(np.ones(5), size=200):
        assert np.all(((P - V) ** 2).sum(axis=1) <= ((other - V) ** 2).sum(axis=1) + 1e-12)


def lasso_gap(Z, S, ratio):
    """Largest relative duality gap of the lassos of the rows of Z on each other.

    The dual point is the scaled residual, so this is of the order of the root of the true gap.
    """
    gram = np.abs(Z @ Z.T)
    np.fill_diagonal(gram, 0)
    weight = ratio * gram.max(axis=0)
    U = Z - S.T @ Z
    violation = np.abs(U @ Z.T)
    np.fill_diagonal(violation, 0)
    T = U * np.minimum(1, weight / violation.max(axis=1))[:, None]
    value = (U**2).sum(axis=1) / 2 + weight * np.abs(S).sum(axis=0)
    dual = (Z**2).sum(axis=1) / 2 - ((Z - T) ** 2).sum(axis=1) / 2
    return ((value - dual) / (Z**2).sum(axis=1)).max()


@pytest.mark.parametrize("ratio", [0.01, 0.3])
def test_lasso_on_working_sets_is_optimal_and_equals_coordinate_descent(monkeypatch, ratio):
    Z = np.random.default_rng(0).normal(size=(80, 6)) * 0.1
    S = converged_lasso(Z, ratio).toarray()
    np.testing.assert_array_equal(np.diag(S), 0)
    assert lasso_gap(Z, S, ratio) < 1e-5
    monkeypatch.setattr(_lasso, "_NARROW", 0)
    monkeypatch.setattr(_lasso, "_GAP", 1e-7)  # coordinate descent gets no further here
    np.testing.assert_allclose(converged_lasso(Z, ratio).toarray(), S, atol=1e-4)


def test_lasso_shares_weight_between_copies_of_a_row():
    Z = np.random.default_rng(0).normal(size=(12, 3))
    Z[0] *= 3  # the cheapest way to write row 0 is then a copy of it
    Z = np.vstack([Z, Z[:2], Z[:1], np.zeros((1, 3))])
    S = converged_lasso(Z, 0.05).toarray()
    assert lasso_gap(Z[:-1], S[:-1, :-1], 0.05) < 1e-6
    np.testing.assert_array_equal(np.diag(S), 0)
    np.testing.assert_array_equal(S[:, -1], 0)  # the zero row
    # Rows 0, 12 and 14 are equal. Row 5 uses them alike; each of them uses the two others alike.
    np.testing.assert_allclose(S[[12, 14], 5], S[0, 5])
    assert S[12, 0] == S[14, 0] > 0.4
    np.testing.assert_allclose(S[0, 12], S[12, 0])


# --------------------------------------------------------------------------------------- REFS


def naive_refs(X, L, alpha, beta):
    """The algorithm as printed: a full error for every candidate at every step."""
    d = X.shape[1]
    a, order, errors = np.full(d, alpha), [], np.full((d, d), np.inf)
    for step in range(d):
        for j in set(range(d)) - set(order):
            trial = a.copy()
            trial[j] = 1
            Q = np.diag(trial) + beta * L
            errors[step, j] = np.sum((beta * X @ L @ np.linalg.inv(Q)) ** 2)
        order.append(int(np.argmin(errors[step])))
        a[order[-1]] = 1
    return np.array(order), errors


@pytest.mark.parametrize("data", ["binary", "cont"])
@pytest.mark.parametrize("config", REFS_CONFIGS)
def test_refs_agrees_with_recorded_runs(data, config):
    X = load(f"X_{data}")
    np.testing.assert_array_equal(column_graph(X, 5), load(f"refs_{data}_p5_W"))
    selector = REFS(**REFS_CONFIGS[config]).fit(X)
    np.testing.assert_array_equal(selector.order_, load(f"refs_{data}_{config}_order"))
    np.testing.assert_allclose(selector.errors_, load(f"refs_{data}_{config}_v"), atol=1e-8)
    assert np.all(np.diff(selector.objective_history_) <= 0)


@pytest.mark.parametrize("shape", [(40, 25), (10, 25)])
@pytest.mark.parametrize("refresh", [1, 7, 1000])
def test_refs_fast_form_equals_naive_form(shape, refresh):
    X = np.random.default_rng(0).normal(size=shape)
    A = column_graph(X, 4)
    L = np.diag(A.sum(axis=0)) - A
    order, errors = reconstruction_path(X, L, 0.2, 0.7, refresh)
    slow_order, slow_errors = naive_refs(X, L, 0.2, 0.7)
    np.testing.assert_array_equal(order, slow_order)
    np.testing.assert_allclose(errors, slow_errors, rtol=1e-10)


# -------------------------------------------------------------------------------------- FSASL


def assert_same_scores(selector, name, atol):
    """Scores within atol * max, and the same order among scores > 1e-8 max."""
    scores, order = load(f"{name}_score"), load(f"{name}_rank").astype(int)
    np.testing.assert_allclose(selector.scores_, scores, rtol=0, atol=atol * scores.max())
    visible = scores > 1e-8 * scores.max()
    assert [j for j in selector.order_ if visible[j]] == [j for j in order if visible[j]]


@pytest.mark.parametrize(("data", "config"), [("binary", "B"), ("binary", "C"), ("cont", "B")])
def test_fsasl_in_author_mode_agrees_with_recorded_runs(data, config):
    name = f"fsasl_{data}_{config}_asis"
    selector = FSASL(n_clusters=3, lasso="author", **FSASL_CONFIGS[config]).fit(load(f"X_{data}"))
    assert_same_scores(selector, name, 1e-6)
    np.testing.assert_allclose(selector.objective_history_, load(f"{name}_obj"), rtol=1e-9)


def test_fsasl_in_converged_mode_agrees_with_the_recorded_tight_run():
    selector = FSASL(n_clusters=3, max_iter=1).fit(load("X_binary"))
    assert_same_scores(selector, "fsasl_binary_A_tight", 1e-3)
    assert selector.objective_history_[0] == pytest.approx(
        load("fsasl_binary_A_tight_obj"), rel=1e-6
    )


@pytest.mark.parametrize("data", ["binary", "cont"])
@pytest.mark.parametrize("config", FSASL_CONFIGS)
@pytest.mark.parametrize("lasso", ["converged", "author"])
def test_fsasl_prefers_planted_columns_to_noise(data, config, lasso):
    selector = FSASL(n_clusters=3, lasso=lasso, **FSASL_CONFIGS[config]).fit(load(f"X_{data}"))
    assert selector.scores_[:12].mean() > 2 * selector.scores_[13:].mean()


def test_fsasl_ranks_more_columns_than_rows():
    X = np.column_stack([planted(n=20, d=6), np.zeros((20, 30))])
    wide, tall = FSASL(n_clusters=2).fit(X), FSASL(n_clusters=2).fit(X[:, :6])
    np.testing.assert_allclose(wide.scores_[:6], tall.scores_, rtol=1e-3)
    np.testing.assert_array_equal(wide.scores_[6:], 0)


# --------------------------------------------------------------------------------------- RUFS


@pytest.fixture(scope="module", params=[(d, c) for d in ("binary", "cont") for c in RUFS_CONFIGS])
def recorded_rufs(request):
    data, config = request.param
    selector = RUFS(
        n_clusters=3,
        tol=1e-4,
        laplacian=load(f"rufs_{data}_L_llr"),
        init=load(f"kmeans_{data}"),
        **RUFS_CONFIGS[config],
    )
    return selector.fit(load(f"X_{data}")), load(f"rufs_{data}_{config}_tight_objterms")


def test_rufs_starts_where_the_recorded_run_starts(recorded_rufs):
    selector, terms = recorded_rufs
    np.testing.assert_allclose(selector.objective_terms_[0], terms[0], rtol=1e-9, atol=1e-9)


def test_rufs_ends_no_higher_than_the_recorded_run_and_never_rises(recorded_rufs):
    selector, terms = recorded_rufs
    assert selector.objective_history_[-1] <= terms[-1].sum()
    assert np.all(np.diff(selector.objective_history_) <= 0)


def test_rufs_keeps_its_constraints(recorded_rufs):
    selector, _ = recorded_rufs
    G = selector.indicator_
    assert G.min() >= 0
    assert selector.centers_.min() >= 0
    assert np.abs(G.T @ G - np.eye(3)).max() < 1e-3


def test_rufs_prefers_planted_columns_to_noise(recorded_rufs):
    selector, _ = recorded_rufs
    assert selector.scores_[:12].mean() > 1.5 * selector.scores_[13:].mean()


@pytest.mark.parametrize("data", ["binary", "cont"])
def test_local_learning_matrix_agrees_with_the_recorded_one(data):
    L = local_learning_matrix(load(f"X_{data}"), 5)
    np.testing.assert_allclose(L.toarray(), load(f"rufs_{data}_L_llr"), atol=1e-12)


def test_rufs_takes_sparse_dense_or_lopsided_laplacians_alike():
    X = planted()
    L = local_learning_matrix(X, 5)
    lopsided = 2 * sp.triu(L, 1) + sp.diags_array(L.diagonal())
    own = build(RUFS).fit(X)
    for given_ in (L, L.toarray(), lopsided):
        np.testing.assert_allclose(build(RUFS, laplacian=given_).fit(X).scores_, own.scores_, 1e-6)


@pytest.mark.parametrize("step", ["_with_new_G", "_with_new_F"])
def test_rufs_gradients_equal_central_differences(monkeypatch, step):
    X = planted(n=10, d=4)
    problem = _RUFSProblem(X, local_learning_matrix(X, 3), 1.3, 0.7, 2.0)
    rng, caught = np.random.default_rng(0), []
    monkeypatch.setattr(
        "unskew.feature_selection._rufs._minimize_nonnegative",
        lambda function, start, **_: caught.append(function) or start,
    )
    W, G, F = rng.uniform(size=(4, 2)), rng.uniform(size=(10, 2)) / 3, rng.uniform(size=(2, 4))
    getattr(problem, step)(W, G, F)
    point = (G if step == "_with_new_G" else F).ravel()
    gradient = caught[0](point)[1]
    for j in range(point.size):
        h = 1e-5 * np.eye(point.size)[j]
        slope = (caught[0](point + h)[0] - caught[0](point - h)[0]) / 2e-5
        assert slope == pytest.approx(gradient[j], rel=1e-5, abs=1e-4)
    # What the step lowers is the part of the objective that moves with its block.
    other = point * 1.1
    moved = (
        (W, other.reshape(G.shape), F) if step == "_with_new_G" else (W, G, other.reshape(F.shape))
    )
    change = problem.terms(*moved).sum() - problem.terms(W, G, F).sum()
    assert caught[0](other)[0] - caught[0](point)[0] == pytest.approx(change, rel=1e-6)


def test_rufs_regression_step_is_a_minimum():
    X = planted(n=20, d=5)
    problem = _RUFSProblem(X, local_learning_matrix(X, 3), 1.0, 0.5, 1.0)
    W, G, F = problem.start(np.repeat([0, 1], 10), 2)
    W = problem._with_new_W(W, G, F, steps=500, tol=1e-12)[0]
    best, rng = problem.terms(W, G, F).sum(), np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(50):
            moved = problem.terms(W + size * rng.normal(size=W.shape), G, F).sum()
            assert moved >= best - 1e-6
    start = problem.start(np.repeat([0, 1], 10), 2)[0]
    assert problem.terms(*problem._with_new_W(start, G, F)).sum() <= best * (1 + 2e-3)


def test_laplacian_score_of_a_case_by_hand():
    # Two pairs of rows far apart, k = 1: each row is joined to its partner with weight w, so
    # D = w I and score = sum over pairs of (f_i - f_j)^2 / sum (f - mean)^2.
    X = np.array([[0.0, 0], [0, 1], [10, 0], [10, 1]])
    score = LaplacianScore(n_neighbors=1).fit(X).scores_
    np.testing.assert_allclose(score, [0, 2 / 1])


def test_a_failed_fit_leaves_the_last_one_whole(rng):
    selector = REFS(5).fit(rng.random((30, 12)))
    before = dict(vars(selector))
    with pytest.raises(ValueError, match="n_features_to_select=5"):
        selector.fit(rng.random((30, 4)))
    assert vars(selector) == before
