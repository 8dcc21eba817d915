"""The solver: the gradient of the sum, monotone descent, the floor, the end of a fit."""

from types import SimpleNamespace

import numpy as np
import pytest

from unskew import DCKM, DecorrelationWeights, _solver
from unskew._balance import Balance
from unskew._data.tiled import TiledMatrix
from unskew._preprocessing import make_design
from unskew.simulate import make_site_footprint


def make_problem(X, a, *, form="primal", suspects=None, mass_rate=0.0, bound=None):
    design = make_design(
        TiledMatrix(X),
        a,
        suspects=suspects,
        cluster_on="all",
        n_bins=3,
        standardise=True,
    )
    return _solver.Problem(
        rows=design.rows,
        balance=Balance(design.rows, design.pair_blocks, form=form),
        distance=design.distance,
        a=a,
        inverse_a=np.divide(1.0, a, out=np.zeros_like(a), where=a > 0),
        design_sum=a.sum(),
        weight_sum=a.sum(),
        inertia_rate=0.3,
        balance_rate=0.5,
        spread_rate=0.2,
        mass_rate=mass_rate,
        min_ess=bound,
    )


@pytest.mark.parametrize("form", ["primal", "gram"])
@pytest.mark.parametrize("mass_rate", [0.0, 0.7])
def test_gradient_of_the_sum_equals_central_differences(form, mass_rate, rng):
    X = np.c_[(rng.random((20, 4)) < 0.5), rng.normal(size=(20, 2))].astype(float)
    problem = make_problem(X, rng.random(20) + 0.5, form=form, mass_rate=mass_rate)
    w, e, h = rng.random(20) + 0.1, rng.random(20), 1e-6
    value, gradient = problem.value_and_gradient(w, e)
    assert value == pytest.approx(problem.value(w, e), rel=1e-12)
    numeric = [
        (problem.value(w + h * u, e) - problem.value(w - h * u, e)) / (2 * h) for u in np.eye(20)
    ]
    np.testing.assert_allclose(gradient, numeric, atol=1e-7 * np.abs(gradient).max())


@pytest.mark.parametrize("bound", [None, 0.5, 0.95])
def test_objective_never_rises_inside_a_weight_step(bound, rng):
    data = make_site_footprint(300, rate=0.8, random_state=0)
    a = rng.integers(0, 3, 300).astype(float)
    problem = make_problem(data.X, a, suspects=data.suspects, bound=bound)
    e, w = rng.random(300), a.copy()
    values = [problem.value(w, e)]

    def each(w, J):
        values.append(problem.value(w, e))
        assert values[-1] == pytest.approx(J, rel=1e-12)
        assert w.sum() == pytest.approx(a.sum(), rel=1e-12)
        assert (w[a == 0] == 0).all()
        share = w.sum() ** 2 / (a.sum() * (w**2 * problem.inverse_a).sum())
        assert bound is None or share >= bound * (1 - 1e-12)
        return False

    step = _solver.minimize_weights(problem, w, e, n_steps=60, tol=0.0, each=each)
    assert len(values) > 10
    # Evaluated again, the same numbers: strictly smaller at every step.
    assert (np.diff(values) < 0).all()
    assert step.objective == pytest.approx(values[-1], rel=1e-12)


@pytest.mark.parametrize("objective", ["normalized", "paper"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_objective_never_rises_across_iterations(objective, dtype):
    data = make_site_footprint(400, rate=0.8, random_state=1)
    model = DCKM(
        4,
        objective=objective,
        balance_strength=1.0,
        # The paper's ||w||^2 is of the order 1/n when sum(w) = 1.
        spread_strength=0.1 if objective == "normalized" else 1000.0,
        suspects=data.suspects,
        adjust="weights",
        tol=1e-6,
        n_init=1,
        random_state=0,
    ).fit(data.X.astype(dtype))
    J = model.history_["objective"]
    assert J.size > 2
    assert (np.diff(J) <= 0).all()
    assert model.status_ == "converged"
    assert J[-1] == model.objective_


def test_terms_of_the_history_add_up_to_the_objective():
    data = make_site_footprint(300, random_state=0)
    how = {"adjust": "weights", "n_init": 1, "random_state": 0}
    model = DCKM(4, suspects=data.suspects, **how).fit(data.X)
    parts = sum(model.history_[name] for name in ("inertia", "balance", "spread", "mass"))
    np.testing.assert_allclose(parts, model.history_["objective"], rtol=1e-12)
    assert len(parts) == model.n_iter_


def test_objective_is_the_formula_of_the_docstring(rng):
    data = make_site_footprint(300, rate=0.7, random_state=0)
    a = rng.random(300) + 0.5
    model = DCKM(
        4,
        suspects=data.suspects,
        adjust="weights",
        balance_strength=0.7,
        spread_strength=0.2,
        n_init=1,
        random_state=0,
    ).fit(data.X, sample_weight=a)
    rest = np.setdiff1d(np.arange(data.X.shape[1]), data.suspects)
    X, m, N = data.X[:, rest], model.weights_, a.sum()
    V0 = (a @ (X - a @ X / N) ** 2).sum() / N
    e = ((X - model.cluster_centers_[model.labels_][:, rest]) ** 2).sum(1)
    J = (
        (a * m) @ e / (N * V0)
        + 0.7 * model.imbalance_ / model.initial_imbalance_
        + 0.2 * ((a * m * m).sum() / N - 1)
    )
    assert model.objective_ == pytest.approx(J, rel=1e-10)
    assert model.inertia_ == pytest.approx((a * m) @ e, rel=1e-10)
    assert (a * m).sum() == pytest.approx(N, rel=1e-12)
    share = (a * m).sum() ** 2 / (N * (a * m * m).sum())
    assert model.effective_sample_size_ == pytest.approx(share, rel=1e-12)


@pytest.mark.parametrize("bound", [0.4, 0.7, 1.0])
@pytest.mark.parametrize("estimator", [DCKM, DecorrelationWeights])
def test_lower_bound_of_the_effective_size_holds_and_costs(bound, estimator):
    data = make_site_footprint(500, rate=0.8, random_state=0)
    settings = {"suspects": data.suspects, "spread_strength": 0.03}
    if estimator is DCKM:
        settings |= {"n_clusters": 4, "n_init": 1, "random_state": 0}
    free = estimator(**settings).fit(data.X)
    bounded = estimator(**settings, min_effective_sample_size=bound).fit(data.X)
    assert free.effective_sample_size_ < 0.4
    rounding = 500 * np.finfo(float).eps  # of a sum of 500 terms
    assert bounded.effective_sample_size_ >= bound * (1 - rounding)
    assert bounded.effective_sample_size_ == pytest.approx(bound, rel=1e-3)
    assert bounded.imbalance_ > free.imbalance_
    if bound < 1:  # the floor is used, not shied away from
        assert bounded.imbalance_ < bounded.initial_imbalance_


def test_floor_of_one_is_plain_k_means():
    data = make_site_footprint(300, random_state=0)
    model = DCKM(4, min_effective_sample_size=1.0, init="principal").fit(data.X)
    np.testing.assert_allclose(model.weights_, 1.0, rtol=1e-5)


def test_a_bound_inside_the_fit_is_a_better_point_than_clipping_afterwards():
    data = make_site_footprint(500, rate=0.8, random_state=0)
    bounded = DecorrelationWeights(suspects=data.suspects, min_effective_sample_size=0.6).fit(
        data.X
    )
    free = DecorrelationWeights(suspects=data.suspects).fit(data.X).weights_
    r = np.sqrt((1 / 0.6 - 1) / free.var())
    clipped = 1 + r * (free - 1)
    problem = make_problem(data.X, np.ones(500), suspects=data.suspects)
    assert bounded.imbalance_ < problem.balance.value(clipped)


def test_paper_objective_with_descent_keeps_the_sum_of_weights_at_one():
    data = make_site_footprint(300, random_state=0)
    model = DCKM(4, objective="paper", spread_strength=1000, n_init=1, random_state=0).fit(data.X)
    assert model.weights_.sum() == pytest.approx(1.0, rel=1e-12)
    assert model.history_["mass"].max() == 0


def test_not_converged_is_a_warning_and_a_status():
    from sklearn.exceptions import ConvergenceWarning

    data = make_site_footprint(300, rate=0.8, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 iterations"):
        model = DCKM(4, max_iter=1, n_init=1, random_state=0).fit(data.X)
    assert model.status_ == "max_iter"
    with pytest.warns(ConvergenceWarning, match="max_iter=2 iterations"):
        weights = DecorrelationWeights(max_iter=2).fit(data.X)
    assert weights.status_ == "max_iter"


def test_best_start_by_objective_is_kept():
    data = make_site_footprint(300, rate=0.8, random_state=0)
    seeds = np.random.RandomState(3).randint(2**31 - 1, size=5)
    from unskew._kmeans import init_clusters

    rows = TiledMatrix(data.X)
    distance = make_design(
        rows,
        np.ones(300),
        suspects=data.suspects,
        cluster_on="non_suspects",
        n_bins=5,
        standardise=True,
    ).distance
    singles = [
        DCKM(
            4,
            suspects=data.suspects,
            adjust="weights",
            init=init_clusters(
                rows, distance, np.ones(300), 4, "partition", np.random.RandomState(seed)
            ).labels,
        )
        .fit(data.X)
        .objective_
        for seed in seeds[:-1]
    ]
    best = DCKM(4, suspects=data.suspects, adjust="weights", n_init=4, random_state=3).fit(data.X)
    assert best.objective_ == min(singles)


def test_zero_weights_are_reactivated_where_that_lowers_the_objective(rng, monkeypatch):
    # y = 0 is a stationary point whatever the gradient in w says: rows at 0 would stay there.
    data = make_site_footprint(300, rate=0.8, random_state=0)
    problem, e = make_problem(data.X, np.ones(300)), rng.random(300)
    start = np.where(np.arange(300) < 200, 1.5, 0.0)

    def minimize():
        return _solver.minimize_weights(problem, start, e, n_steps=300, tol=1e-6)

    reactivated = minimize()
    assert (reactivated.w[200:] > 0.1).sum() > 50
    monkeypatch.setattr(_solver.weights, "_reactivate_zeros", lambda *given: None)
    zeroed = minimize()
    assert (zeroed.w[200:] == 0).all()
    assert reactivated.objective < 0.9 * zeroed.objective


def test_reactivation_lowers_what_a_whole_fit_reaches(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 5))
    X[:200] += 3
    strong = {"balance_strength": 1.0, "spread_strength": 0.1}
    model = DCKM(3, n_init=2, random_state=0, **strong)
    reactivated = model.fit(X).objective_
    monkeypatch.setattr(_solver.weights, "_reactivate_zeros", lambda *given: None)
    assert reactivated < 0.998 * model.fit(X).objective_


@pytest.mark.parametrize("a", [np.array([1.0, 2.0, 3.0]), np.broadcast_to(2.0, 3)])
def test_uniform_weights_are_multiples_of_the_design_weights(a):
    problem = SimpleNamespace(a=a, weight_sum=1.0, design_sum=a.sum())
    np.testing.assert_allclose(_solver.uniform_weights(problem), a / a.sum(), rtol=1e-15)


def test_points_with_a_gradient_that_is_not_finite_are_not_taken(rng, monkeypatch):
    problem = make_problem(rng.normal(size=(30, 3)), np.ones(30))
    e, y = rng.random(30), np.where(np.arange(30) < 20, 1.0, 0.0)
    J, g = _solver.weights._value_and_gradient_in_y(problem, y, e)
    given = problem, y, e, J

    def found():
        return (
            _solver.weights._search(*given, -g, -float(g @ g)),
            _solver.weights._reactivate_zeros(*given),
        )

    assert None not in found()
    right = _solver.weights._value_and_gradient_in_y

    def one_infinite(problem, y, e):
        J, g = right(problem, y, e)
        return J, np.append(np.inf, g[1:])

    monkeypatch.setattr(_solver.weights, "_value_and_gradient_in_y", one_infinite)
    assert found() == (None, None)


def test_the_gradient_at_an_active_bound_is_tangent_to_it(rng):
    a, y = rng.random(20) + 0.5, rng.random(20)
    X = rng.normal(size=(20, 3))

    def share(y):
        w = y**2 * a.sum() / (y @ y)
        return w.sum() ** 2 / (a.sum() * (w**2 / a).sum())

    problem = make_problem(X, a, bound=share(y))
    up = np.array([(share(y + h) - share(y - h)) / 2e-6 for h in 1e-6 * np.eye(20)])
    g = rng.normal(size=20)
    g *= np.sign(g @ up)  # a step along -g would lower the share
    tangent, active = _solver.weights._project_gradient(problem, y, g)
    assert active
    assert abs(tangent @ up) < 1e-7 * np.linalg.norm(g) * np.linalg.norm(up)
    kept = g - (g @ up) / (up @ up) * up
    np.testing.assert_allclose(tangent, kept, atol=1e-7)
    # A step that raises the share stays as it is, unless the bound is said to be active.
    assert _solver.weights._project_gradient(problem, y, -g)[1] is False
    np.testing.assert_array_equal(_solver.weights._project_gradient(problem, y, -g)[0], -g)
    forced, _ = _solver.weights._project_gradient(problem, y, -g, True)
    np.testing.assert_allclose(forced, -tangent)


@pytest.mark.parametrize("step", [1.0, 1e3, 1e-9])
def test_step_of_the_paper_is_that_of_plain_halving(step, rng):
    """Steps that are ruled out without the balance would have failed with it."""
    X = (rng.random((40, 6)) < 0.4).astype(float)
    problem = make_problem(X, np.ones(40), mass_rate=0.7)._replace(spread_rate=10.0)
    v, e = rng.random(40), rng.random(40)
    J, gradient = problem.value_and_gradient(v * v, e)
    g = 2.0 * v * gradient
    found, z, terms = _solver.paper._paper_step(problem, v, g, e, J, step)

    def fails(size):
        move = -size * g
        bound = J + g @ move + move @ move / (2 * size)
        return problem.value((v + move) ** 2, e) > bound

    while fails(step):
        step /= 2
    assert found == step
    assert sum(terms.values()) == pytest.approx(problem.value(z * z, e), rel=1e-12)
