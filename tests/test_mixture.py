"""EM, families and evidence of SelectionMixture: laws that hold to rounding error."""

import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.mixture import GaussianMixture

from unskew import SelectionMixture
from unskew._mixture import blocks, gaussian
from unskew._mixture.cells import Prior, common_scale, log_evidence, solve_cells
from unskew._mixture.em import Choice, Mixture, e_step, log_joint, run_em
from unskew._mixture.rows import Columns, Rows, Stats

pytestmark = pytest.mark.filterwarnings("ignore")


def make_columns(rng, n=240, numbers=3, flags=2, categories=(3,), missing=0.0, K=3, L=3):
    """Mixed columns with real groups and effects, the groups and the levels."""
    label, level = rng.integers(K, size=n), rng.integers(L, size=n)
    shift = rng.normal(size=(K, numbers)) * 1.5
    X = shift[label] + rng.normal(size=(L, numbers))[level] + rng.normal(size=(n, numbers))
    X[rng.random(X.shape) < missing] = np.nan
    eta = rng.normal(size=(K, flags))[label] + 0.7 * rng.normal(size=(L, flags))[level]
    flag = (rng.random((n, flags)) < expit(eta)).astype(float)
    codes = []
    for M in categories:
        score = rng.normal(size=(K, M))[label] + rng.gumbel(size=(n, M))
        code = score.argmax(1)
        if missing:
            code[rng.random(n) < missing] = -1
        codes.append((code, M))
    return Columns(X, np.full(numbers, 1e-6), flag, codes), label, level


def make_rows(columns, level, a=None, L=3, max_patterns=50):
    a = np.ones(level.size) if a is None else a
    return Rows(columns, level, L, a, max_patterns)


def start(rows, label, K=3, noise=0.3):
    R = np.full((label.size, K), noise / K)
    R[np.arange(label.size), label] += 1 - noise
    return Stats.of_responsibilities(rows, R[rows.order])


CASES = {
    "diagonal": dict(flags=0, categories=()),
    "diagonal, missing": dict(flags=0, categories=(), missing=0.2),
    "Bernoulli": dict(numbers=0, categories=()),
    "categories": dict(numbers=0, flags=0, categories=(3, 4)),
    "mixed, missing": dict(missing=0.2),
}
CHOICES = [
    Choice(c, e, s) for c in ("diag", "full") for e in ("none", "shift") for s in ("common", "free")
]


# --- solve_cells


def test_solve_cells_minimises_its_sum_of_squares(rng):
    K, L, J = 3, 4, 5
    W, Z = rng.random((K, L, J)) * 10, rng.normal(size=(K, L, J))
    ridge, w0, z0 = rng.random(J) + 0.1, rng.random((K, J)), rng.normal(size=(K, J))
    prior = Prior(np.tile(1 / ridge, (L, 1)))
    C, B, _, _ = solve_cells(W, W * Z, prior, None, w0, w0 * z0)

    def loss(C, B):
        fit = (W * (Z - C[:, None] - B[None]) ** 2).sum()
        return fit + (w0 * (z0 - C) ** 2).sum() + (ridge * B**2).sum()

    step = 1e-5
    for array in (C, B):
        for at in np.ndindex(array.shape):
            kept = array[at]
            array[at] = kept + step
            up = loss(C, B)
            array[at] = kept - step
            down = loss(C, B)
            array[at] = kept
            # Rounding error of a loss of about 100, divided by 2 steps.
            assert abs(up - down) / (2 * step) < 1e-6


def test_a_prior_variance_of_zero_gives_no_effects(rng):
    W, Z = rng.random((2, 3, 4)), rng.normal(size=(2, 3, 4))
    C, B, _, _ = solve_cells(W, W * Z, Prior(np.zeros((3, 4))))
    assert not B.any()
    np.testing.assert_allclose(C, (W * Z).sum(1) / W.sum(1), rtol=1e-10)


def test_log_evidence_is_that_of_the_normal_law():
    y, n, ratio = 0.7, 12.0, 0.4
    expected = norm.logpdf(y, scale=np.sqrt(ratio + 1 / n)) - norm.logpdf(y, scale=n**-0.5)
    assert log_evidence(y**2, n, ratio) == pytest.approx(expected, rel=1e-12)


def test_common_scale_finds_the_scale_and_the_columns(rng):
    n = np.full((40, 30), 200.0)
    y = rng.normal(size=(40, 30)) * np.sqrt(1 / n + np.where(np.arange(30) < 20, 0.5, 0.0))
    t2, used = common_scale(y**2, n, 0.0)
    assert 0.3 < t2 < 0.8  # the grid has steps of 1.65
    np.testing.assert_array_equal(used, np.arange(30) < 20)
    # Without effects the scale is a fraction of the standard error of a mean, 1 / 200.
    assert common_scale(rng.normal(size=(40, 30)) ** 2 / n, n, 0.0)[0] < 1 / 200


# --- EM


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("choice", CHOICES, ids="-".join)
def test_the_bound_never_falls_at_fixed_tau(rng, case, choice):
    columns, label, level = make_columns(rng, **CASES[case])
    rows = make_rows(columns, level)
    model = Mixture(rows, 3, choice)
    for block in model.blocks:
        block.tau2 = block.tau2 * 0.4
    fit = run_em(rows, model, start(rows, label), max_iter=40, tol=0, learn_tau=False)
    bound = np.array(fit.history)
    if rows.n_bern or rows.categories:
        # Laplace's volume is a function of the parameters and not part of what EM maximises.
        bound = penalised(rows, model, start(rows, label), 40)
    assert len(bound) == 40
    assert np.diff(bound).min() > -1e-9 * abs(bound[-1])


def penalised(rows, model, stats, steps):
    """log p(x, B) and log priors after each step; for Gaussian columns with B integrated out."""
    model = Mixture(rows, model.K, model.choice)
    for block in model.blocks:
        block.tau2 = block.tau2 * 0.4
    for _ in range(3):
        model.m_step(stats, learn_tau=False)
    out = []
    for _ in range(steps):
        log_sum, stats = e_step(rows, model)
        value = log_sum
        for block in model.blocks:
            effects, prior = block.penalty(stats)
            value += block.row_constant(rows) + prior
            if hasattr(block, "Sigma"):
                value += effects
            elif block.shift:
                value -= 0.5 * (block.B**2 / block.per_category(block.tau2)).sum()
        out.append(value)
        model.m_step(stats, learn_tau=False)
    return np.array(out)


@pytest.mark.parametrize("choice", CHOICES, ids="-".join)
def test_central_differences_vanish_at_the_solution(rng, choice):
    """The derivative of log p(x | C, B, Sigma) p(B) at the maximum, without missing values."""
    columns, label, level = make_columns(rng, flags=2, categories=(3,))
    rows = make_rows(columns, level)
    model = Mixture(rows, 3, choice)
    for block in model.blocks:
        block.tau2 = block.tau2 * 0.4
    run_em(rows, model, start(rows, label, noise=0.1), max_iter=400, tol=1e-12, learn_tau=False)

    def value():
        out, stats = e_step(rows, model)
        for block in model.blocks:
            out += block.row_constant(rows) + block.penalty(stats)[1]
            if block.shift:
                out -= 0.5 * (block.B**2 / block.per_category(block.tau2)).sum()
        return out

    step = 1e-4
    for block in model.blocks:
        for array in (block.C, block.B) if block.shift else (block.C,):
            for at in list(np.ndindex(array.shape))[::2]:
                kept = array[at]
                array[at] = kept + step
                up = value()
                array[at] = kept - step
                down = value()
                array[at] = kept
                # Curvatures are about n = 240 per unit: 1e-2 is 4e-5 of a unit from the maximum.
                assert abs(up - down) / (2 * step) < 1e-2


def slow_diagonal_em(X, level, R, tau2, steps):
    """EM for a shared diagonal covariance with shares by level and effects, in loops: alternating
    C and B until they no longer change."""
    n, d = X.shape
    K, L = R.shape[1], level.max() + 1
    C, B, s2 = np.zeros((K, d)), np.zeros((L, d)), np.ones(d)

    def maximise(R):
        nonlocal C, B, s2
        for _ in range(2000):
            for k in range(K):
                C[k] = (R[:, k : k + 1] * (X - B[level])).sum(0) / R[:, k].sum()
            old = B.copy()
            for one in range(L):
                own = level == one
                rest = sum((R[own, k : k + 1] * (X[own] - C[k])).sum(0) for k in range(K))
                B[one] = rest / (own.sum() + s2 / tau2)
            if np.abs(B - old).max() < 1e-14:
                break
        total = np.zeros(d)
        for k in range(K):
            total += (R[:, k : k + 1] * (X - C[k] - B[level]) ** 2).sum(0)
        for one in range(L):
            n_l = (level == one).sum()
            total += n_l / (n_l / s2 + 1 / tau2)
        s2 = total / n
        return np.array([R[level == one].mean(0) for one in range(L)])

    for _ in range(3):
        shares = maximise(R)
    for _ in range(steps - 1):
        logs = np.log(shares[level]) + np.column_stack(
            [norm.logpdf(X, C[k] + B[level], np.sqrt(s2)).sum(1) for k in range(K)]
        )
        shares = maximise(np.exp(logs - logsumexp(logs, axis=1, keepdims=True)))
    return C, B, s2, shares


def test_agrees_with_a_slow_loop_to_ten_digits(rng):
    columns, label, level = make_columns(rng, n=120, flags=0, categories=())
    rows = make_rows(columns, level)
    model = Mixture(rows, 3, Choice("diag", "shift", "free"))
    block = model.blocks[0]
    block.tau2 = np.full((1, 3), 0.5)
    run_em(rows, model, start(rows, label), max_iter=3, tol=0, learn_tau=False)
    R = np.full((label.size, 3), 0.1)
    R[np.arange(label.size), label] += 0.7
    C, B, s2, shares = slow_diagonal_em(columns.numbers, level, R, block.tau2[0], 3)
    for ours, theirs in ((block.C, C), (block.B, B), (block.variance, s2), (model.shares, shares)):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_agrees_with_scikit_learns_tied_mixture_without_suspects(rng, monkeypatch):
    X = np.concatenate([rng.normal(m, 1, size=(150, 3)) @ [[1, 0.4, 0], [0, 1, 0], [0, 0, 2]]
                        for m in (-2.5, 0, 3)])  # fmt: skip
    label = np.repeat([0, 1, 2], 150)
    means = np.array([X[label == k].mean(0) for k in range(3)])
    peer = GaussianMixture(
        3, covariance_type="tied", means_init=means, reg_covar=0, tol=1e-12, max_iter=5000
    ).fit(X)
    ours = SelectionMixture(3, covariance="full", init=label, tol=1e-13, max_iter=5000)
    monkeypatch.setattr(gaussian, "PRIOR_ROWS", 0.0)  # scikit-learn has no prior rows
    ours.fit(X)
    order = [int(np.abs(peer.means_ - m).sum(1).argmin()) for m in ours.means_]
    np.testing.assert_allclose(ours.means_, peer.means_[order], atol=1e-5)
    np.testing.assert_allclose(ours.covariance_, peer.covariances_, atol=1e-5)
    np.testing.assert_allclose(ours.score_samples(X), peer.score_samples(X), atol=1e-5)
    assert ours.bic_ == pytest.approx(peer.bic(X), abs=1e-3)
    np.testing.assert_array_equal(np.array(order)[ours.labels_], peer.predict(X))


@pytest.mark.parametrize("n_iter", [1, 8, 2000])
def test_agrees_with_stepmix_from_the_same_start(rng, monkeypatch, n_iter):
    stepmix = pytest.importorskip("stepmix")
    y = rng.integers(3, size=600)
    chance = np.where(rng.permuted(np.tile([0, 0, 1], (9, 1)), axis=1).T, 0.85, 0.2)
    X = (rng.random((600, 9)) < chance[y]).astype(float)
    start = np.where(rng.random(600) < 0.3, rng.integers(3, size=600), y)

    class FromLabels(stepmix.StepMix):
        def _initialize_parameters(self, X, random_state):
            self.log_resp_ = np.log(np.clip(np.eye(3)[start], 1e-15, 1))
            self.weights_ = np.bincount(start) / start.size
            self._initialize_parameters_measurement(X, random_state)

    tight = {"abs_tol": 0, "rel_tol": 0} if n_iter < 2000 else {"abs_tol": 1e-15}
    peer = FromLabels(
        3, measurement="binary", max_iter=n_iter, progress_bar=0, verbose=0, **tight
    ).fit(X)
    monkeypatch.setattr(blocks, "PSEUDO_ROWS", 0.0)  # StepMix has no prior rows
    # Parameters are maximised before the first iteration here, after the last one there.
    rows = make_rows(Columns(np.empty((600, 0)), np.empty(0), X, []), np.zeros(600, int), L=1)
    model = Mixture(rows, 3, Choice("diag", "none", "common"))
    stats = Stats.of_responsibilities(rows, np.eye(3)[start[rows.order]])
    run_em(rows, model, stats, max_iter=n_iter + 1, tol=0 if n_iter < 2000 else 1e-15)
    theirs = peer.get_parameters()["measurement"]["pis"]
    atol = 1e-10 if n_iter < 2000 else 1e-6
    np.testing.assert_allclose(expit(model.blocks[0].C), theirs, atol=atol)
    np.testing.assert_allclose(model.shares[0], peer.weights_, atol=atol)


@pytest.mark.parametrize("measurement", ["binary", "gaussian_tied"])
def test_agrees_with_stepmix_with_the_site_as_covariate(rng, monkeypatch, measurement):
    """One-step estimation with a multinomial logit of the classes on indicators of the site, which
    is saturated: shares that are free at each site."""
    stepmix = pytest.importorskip("stepmix")
    n, site = 900, rng.integers(3, size=900)
    y = (rng.random((n, 1)) > np.cumsum([[0.6, 0.3], [0.3, 0.3], [0.1, 0.3]], axis=1)[site]).sum(1)
    if measurement == "binary":
        chance = np.where(rng.permuted(np.tile([0, 0, 1], (9, 1)), axis=1).T, 0.85, 0.2)
        X = (rng.random((n, 9)) < chance[y]).astype(float)
    else:
        X = rng.normal(size=(n, 3)) + 2.5 * np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]])[y]
    start = np.where(rng.random(n) < 0.2, rng.integers(3, size=n), y)

    class FromLabels(stepmix.StepMix):
        def _initialize_parameters(self, X, random_state):
            self.log_resp_ = np.log(np.clip(np.eye(3)[start], 1e-15, 1))
            self.weights_ = np.bincount(start) / start.size
            self._initialize_parameters_measurement(X, random_state)

    peer = FromLabels(
        3, n_steps=1, measurement=measurement, structural="covariate", max_iter=3000,
        structural_params={"tol": 1e-10, "max_iter": 20}, abs_tol=1e-14, progress_bar=0,
        verbose=0, random_state=0,
    ).fit(X, np.eye(3)[site][:, 1:])  # fmt: skip
    monkeypatch.setattr(blocks, "PSEUDO_ROWS", 0.0)  # StepMix has no prior rows
    monkeypatch.setattr(gaussian, "PRIOR_ROWS", 0.0)
    ours = SelectionMixture(
        3, suspects=[X.shape[1]], effects="none", selection="free", covariance="full", init=start,
        tol=1e-14, max_iter=3000,
    ).fit(np.column_stack([X, site]))  # fmt: skip
    theirs = peer.get_parameters()
    means = np.array(theirs["measurement"]["pis" if "pis" in theirs["measurement"] else "means"])
    order = [int(np.abs(means - m).sum(1).argmin()) for m in ours.means_]
    beta = np.array(theirs["structural"]["beta"])
    logits = np.column_stack([np.ones(3), np.eye(3)[:, 1:]]) @ beta.T
    shares = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
    np.testing.assert_allclose(ours.means_, means[order], atol=1e-6)
    np.testing.assert_allclose(ours.shares_, shares[:, order], atol=1e-6)


# --- likelihood and evidence


def test_missing_numbers_give_the_marginal_likelihood(rng):
    columns, label, level = make_columns(rng, flags=0, categories=(), missing=0.3)
    for choice in (Choice("diag", "shift", "free"), Choice("full", "shift", "free")):
        rows = make_rows(columns, level)
        model = Mixture(rows, 3, choice)
        run_em(rows, model, start(rows, label), max_iter=10, tol=0)
        block = model.blocks[0]
        Sigma = block.Sigma if block.full else np.diag(block.variance)
        expected = np.zeros(label.size)
        for i, x in enumerate(columns.numbers):
            known = ~np.isnan(x)
            logs = np.log(model.shares[level[i]])
            if known.any():
                logs = logs + [
                    multivariate_normal.logpdf(
                        x[known], (c + block.B[level[i]])[known], Sigma[np.ix_(known, known)]
                    )
                    for c in block.C
                ]
            expected[i] = logsumexp(logs)
        found = logsumexp(log_joint(rows, model), axis=1) + block.row_constants(rows)
        np.testing.assert_allclose(found, expected[rows.order], rtol=1e-9, atol=1e-9)
        assert e_step(rows, model)[0] + block.row_constant(rows) == pytest.approx(expected.sum())


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_with_one_group_the_marginal_likelihood_is_exact(rng, covariance):
    """The joint law of all rows of a level is Gaussian with covariance I x Sigma + 11' x T."""
    X, level = rng.normal(size=(14, 2)), np.repeat([0, 1], 7)
    rows = make_rows(Columns(X, np.full(2, 1e-6), np.zeros((14, 0)), []), level, L=2)
    model = Mixture(rows, 1, Choice(covariance, "shift", "free"))
    block = model.blocks[0]
    block.tau2 = np.array([[0.3, 0.8]])
    stats = Stats.of_responsibilities(rows, np.ones((14, 1)))
    for _ in range(300):  # C, B and Sigma at their fixed point
        model.m_step(stats, learn_tau=False)
    log_sum, stats = e_step(rows, model)
    Sigma = block.Sigma if block.full else np.diag(block.variance)
    whole = np.kron(np.eye(7), Sigma) + np.kron(np.ones((7, 7)), np.diag(block.tau2[0]))
    expected = sum(
        multivariate_normal.logpdf(X[level == one].ravel(), np.tile(block.C[0], 7), whole)
        for one in (0, 1)
    )
    assert model.value(rows, log_sum, stats)[0] == pytest.approx(expected, rel=1e-6)


def test_laplace_agrees_with_numerical_integration_for_one_flag(rng):
    level = np.repeat([0, 1], 60)
    x = (rng.random(120) < np.where(level == 0, 0.3, 0.7)).astype(float)
    columns = Columns(np.zeros((120, 0)), np.zeros(0), x[:, None], [])
    rows = make_rows(columns, level, L=2)
    model = Mixture(rows, 1, Choice("diag", "shift", "free"))
    block = model.blocks[0]
    block.tau2 = np.array([[0.5]])
    stats = Stats.of_responsibilities(rows, np.ones((120, 1)))
    for _ in range(50):
        model.m_step(stats, learn_tau=False)
    log_sum, stats = e_step(rows, model)
    exact = 0.0
    for one in (0, 1):
        s, c = x[level == one].sum(), block.C[0, 0]
        top = s * (c + block.B[one, 0]) - 60 * np.log1p(np.exp(c + block.B[one, 0]))

        def f(b, s=s, c=c, top=top):
            return np.exp(s * (c + b) - 60 * np.log1p(np.exp(c + b)) - top) * norm.pdf(
                b, scale=0.5**0.5
            )

        exact += top + np.log(quad(f, -5, 5)[0])
    # The error of Laplace's approximation is of order 1 / n_l.
    assert model.value(rows, log_sum, stats)[0] == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("case", CASES)
def test_effects_have_mean_zero_over_the_levels(rng, case):
    columns, label, level = make_columns(rng, **CASES[case])
    rows = make_rows(columns, level)
    model = Mixture(rows, 3, Choice("diag", "shift", "free"))
    for block in model.blocks:
        block.tau2 = block.tau2 * 0.4
    run_em(rows, model, start(rows, label), max_iter=150, tol=1e-12, learn_tau=False)
    for block in model.blocks:
        assert np.abs(block.B.mean(0)).max() < 1e-3


@pytest.mark.parametrize(
    ("case", "covariance"),
    [(case, "diag") for case in CASES]
    + [(case, "full") for case, made in CASES.items() if made.get("numbers") != 0],
)
def test_weight_two_equals_row_twice_and_order_does_not_matter(rng, case, covariance):
    columns, label, level = make_columns(rng, n=90, **CASES[case])
    twice = rng.random(label.size) < 0.4
    index = np.concatenate([np.arange(label.size), np.flatnonzero(twice)])
    index = rng.permutation(index)

    def take(where):
        return Columns(
            columns.numbers[where],
            columns.floor,
            columns.flags[where],
            [(codes[where], M) for codes, M in columns.categories],
        )

    fits = []
    for where, a in ((np.arange(label.size), 1.0 + twice), (index, np.ones(index.size))):
        rows = make_rows(take(where), level[where], a)
        model = Mixture(rows, 3, Choice(covariance, "shift", "free"))
        fits.append(run_em(rows, model, start(rows, label[where]), max_iter=15, tol=0))
    one, other = fits
    assert one.marginal == pytest.approx(other.marginal, rel=1e-9)
    np.testing.assert_allclose(one.model.shares, other.model.shares, atol=1e-7)
    for block, twin in zip(one.model.blocks, other.model.blocks):
        np.testing.assert_allclose(block.C, twin.C, atol=1e-6)
        np.testing.assert_allclose(block.B, twin.B, atol=1e-6)


def test_permuted_columns_and_levels_give_the_same_fit(rng):
    columns, label, level = make_columns(rng, n=150)
    moved = Columns(
        columns.numbers[:, ::-1], columns.floor, columns.flags[:, ::-1], columns.categories
    )
    new_level = np.array([2, 0, 1])[level]
    fits = []
    for some, where in ((columns, level), (moved, new_level)):
        rows = make_rows(some, where)
        model = Mixture(rows, 3, Choice("full", "shift", "free"))
        fits.append(run_em(rows, model, start(rows, label), max_iter=15, tol=0))
    assert fits[0].marginal == pytest.approx(fits[1].marginal, rel=1e-10)
    np.testing.assert_allclose(
        fits[0].model.shares, fits[1].model.shares[[2, 0, 1]], rtol=1e-7, atol=1e-12
    )


def test_a_singular_covariance_does_not_fail(rng):
    base = rng.normal(size=(60, 1))
    X = np.hstack([base, base, 2 * base, np.repeat(rng.normal(size=(6, 1)), 10, axis=0)])
    X = np.vstack([X, X])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for covariance in ("diag", "full"):
            model = SelectionMixture(3, covariance=covariance, random_state=0).fit(X)
            assert np.isfinite(model.bic_)
            assert np.isfinite(model.score_samples(X)).all()


def test_the_model_of_the_highest_bound_is_kept():
    # Counts with long tails: the spread at a site is estimated with less precision than the
    # likelihood has, so that the bound falls in the last iterations.
    rng = np.random.default_rng(10)
    site, group = rng.integers(4, size=400), rng.integers(2, size=400)
    means = [0.3 + 0.5 * site * (1 + j % 2) + group * (j % 3) for j in range(6)]
    X = np.column_stack([rng.poisson(one) for one in means]) + 0.05 * rng.normal(size=(400, 6))
    model = SelectionMixture(
        2, suspects=[6], kinds={6: "category"}, covariance="diag", effects="shift-scale",
        random_state=0,
    ).fit(np.column_stack([X, site]))  # fmt: skip
    bound = model.history_["bound"]
    assert bound[-1] == bound.max()


@pytest.mark.parametrize("levels", [2, 3])
def test_columns_without_a_scale_have_no_effects(levels):
    # Effects that stay after their scale became 0 would raise the likelihood without a prior.
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(levels, size=(900, 6)), rng.integers(3, size=900)])
    kinds = dict.fromkeys(range(7) if levels > 2 else [6], "category")
    problem, _ = SelectionMixture(2, suspects=[6], kinds=kinds)._prepare(X.astype(float), None)
    model = Mixture(problem.rows, 2, Choice("diag", "shift", "free"))
    (block,) = model.blocks
    block.tau2[:] = 1.0
    for _ in range(3):
        model.m_step(e_step(problem.rows, model)[1])
        scale = (block.per_category(block.tau2) if levels > 2 else block.tau2)[0]
        assert not block.B[:, scale == 0].any()
    assert (scale == 0).any()
