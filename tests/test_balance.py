"""The terms: a case by hand, the slow loop, central differences, invariances, the three forms."""

import numpy as np
import pytest
import scipy.sparse as sp

from unskew import _terms
from unskew._arrays import weighted_sum
from unskew._balance import Balance, sums_of
from unskew._data.tiled import TiledMatrix
from unskew._parallel import Executor
from unskew._preprocessing import make_design


def make_data(kind, rng, n=40, d=7):
    if kind == "binary":
        return (rng.random((n, d)) < 0.4).astype(float)
    if kind == "signs":
        return np.where(rng.random((n, d)) < 0.4, 1.0, -1.0)
    if kind == "real":
        return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 1.0
    X = np.c_[(rng.random((n, d - 3)) < 0.4), rng.normal(size=(n, 3)) * [1, 5, 0.2] + [0, 50, 0]]
    return X.astype(float)


KINDS = ["binary", "signs", "real", "mixed"]
FORMS = ["primal", "gram"]


def make_loss(X, a=None, form="primal", suspects=None, standardise=True, n_bins=4, n_threads=1):
    a = np.ones(X.shape[0]) if a is None else a
    design = make_design(
        TiledMatrix(X, executor=Executor(n_threads)),
        a,
        suspects=None if suspects is None else np.asarray(suspects),
        cluster_on="all",
        n_bins=n_bins,
        standardise=standardise,
    )
    return Balance(design.rows, design.pair_blocks, form=form), design


def slow_balance(X, w, design, suspects=None):
    """The definition, pair by pair: treated mean minus control mean, squared, summed."""
    total = 0.0
    everything = make_design(
        TiledMatrix(X), design.a, suspects=None, cluster_on="all", n_bins=4, standardise=True
    )
    treatments = everything.pair_blocks[0].treatments
    shift = np.zeros(X.shape[1]) if everything.rows.shift is None else everything.rows.shift
    scale = everything.pair_blocks[0].scale
    for j in range(len(treatments)):
        source = treatments.column[j]
        values = X[:, source] - shift[source]
        treated = (values > treatments.above[j]) & (values <= treatments.upto[j])
        if w[treated].sum() == 0 or w[~treated].sum() == 0:
            continue
        for k in range(X.shape[1]):
            if k == source:
                continue
            if suspects is not None and (k in suspects or source not in suspects):
                continue
            difference = np.average(X[treated, k], weights=w[treated]) - np.average(
                X[~treated, k], weights=w[~treated]
            )
            total += (scale[k] * difference) ** 2
    return total


def test_balance_of_a_case_computed_by_hand():
    # Column 0 is on in rows 0, 1; column 1 in rows 0, 2. Weights 2, 1, 1, 0.
    X = np.array([[1.0, 1], [1, 0], [0, 1], [0, 0]])
    w = np.array([2.0, 1, 1, 0])
    # D[1 | 0] = 2/3 - 1 = -1/3 and D[0 | 1] = 2/3 - 1 = -1/3, not divided.
    loss, _ = make_loss(X, standardise=False)
    assert loss.value(w) == pytest.approx(2 / 9, abs=1e-15)
    # At equal weights the two columns do not predict each other.
    assert loss.value(np.ones(4)) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suspects", [None, [0], [1, 5]])
@pytest.mark.parametrize("form", ["primal", "gram"])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_fast_forms_equal_the_slow_loop(kind, suspects, form, storage, rng):
    X = make_data(kind, rng)
    w = rng.random(40) * (rng.random(40) < 0.8)
    loss, design = make_loss(
        sp.csr_array(X) if storage == "sparse" else X, form=form, suspects=suspects
    )
    expected = slow_balance(X, w, design, suspects)
    assert loss.value(w) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suspects", [None, [0, 6]])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_gradient_equals_central_differences(kind, suspects, form, storage, rng):
    X = make_data(kind, rng, n=25, d=7)
    if storage == "sparse":
        X = sp.csr_array(X)
    loss, _ = make_loss(X, form=form, suspects=suspects)
    w = rng.random(25) + 0.2
    value, gradient = loss.value_and_gradient(w)
    assert value == pytest.approx(loss.value(w), rel=1e-12)
    h = 1e-6
    numeric = np.array(
        [(loss.value(w + h * row) - loss.value(w - h * row)) / (2 * h) for row in np.eye(25)]
    )
    np.testing.assert_allclose(gradient, numeric, atol=1e-7 * max(1, np.abs(numeric).max()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_scaling_the_weights_changes_nothing(form, kind, rng):
    loss, _ = make_loss(make_data(kind, rng), form=form)
    w = rng.random(40)
    value, gradient = loss.value_and_gradient(w)
    assert loss.value(1e3 * w) == pytest.approx(value, rel=1e-10)
    assert w @ gradient == pytest.approx(0, abs=1e-10 * np.abs(gradient).sum())


@pytest.mark.parametrize("kind", ["signs", "mixed"])
def test_standardised_balance_does_not_see_units(kind, rng):
    X = make_data(kind, rng)
    w = rng.random(40)
    one, _ = make_loss(X)
    other, _ = make_loss(X * np.array([2, 3, 0.1, 7, 1, 10, 4.0]) + 3)
    assert other.value(w) == pytest.approx(one.value(w), rel=1e-9)


def test_coding_by_signs_is_four_times_zero_one(rng):
    X = make_data("binary", rng)
    w = rng.random(40)
    zero_one, _ = make_loss(X, standardise=False)
    signs, _ = make_loss(2 * X - 1, standardise=False)
    assert signs.value(w) == pytest.approx(4 * zero_one.value(w), rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_one_sided_treatments_contribute_nothing(form, rng):
    X = make_data("binary", rng)
    X[:, 2] = 1.0  # constant
    loss, _ = make_loss(X, form=form)
    w = np.where(X[:, 0] == 1, rng.random(40), 0.0)  # column 0 becomes one-sided under w
    value, gradient = loss.value_and_gradient(w)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    without, _ = make_loss(np.delete(X, [0, 2], axis=1), form=form)
    # Column 0 is constant under w, so it is no effect of another column either.
    assert value == pytest.approx(without.value(w), rel=1e-10)


def test_form_is_chosen_by_cost_and_memory(rng, monkeypatch):
    assert make_loss(make_data("binary", rng, n=40, d=7), form="auto")[0].form == "primal"
    assert make_loss(make_data("binary", rng, n=10, d=30), form="auto")[0].form == "gram"
    monkeypatch.setattr("unskew._balance.loss.LARGEST_MATRIX", 50)
    wide = make_data("binary", rng, n=1000, d=9)
    with pytest.raises(ValueError, match=r"needs a matrix of 81 entries; at most 50 .*suspects=\["):
        make_loss(wide, form="auto")
    assert make_loss(wide, form="auto", suspects=[0])[0].form == "primal"


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int8, bool])
def test_storage_types_agree_with_float64(dtype, rng):
    X = make_data("binary", rng, n=3000)
    w = rng.random(3000)
    value, gradient = make_loss(X)[0].value_and_gradient(w)
    for storage in (X.astype(dtype), sp.csr_array(X.astype(dtype))):
        other, g = make_loss(storage)[0].value_and_gradient(w)
        # float32 sums leave each entry of D within about 10 roundings (of entries of size 1).
        per_entry = 10 * np.finfo(np.float32).eps
        assert other == pytest.approx(value, abs=2 * per_entry * np.sqrt(42 * value))
        np.testing.assert_allclose(g, gradient, atol=1e-4 * np.abs(gradient).max())


def test_columns_far_from_zero_keep_their_digits(rng):
    X = make_data("real", rng, n=300)
    w = rng.random(300)
    near = make_loss(X)[0].value(w)
    far = make_loss((X + 1000.0).astype(np.float32))[0].value(w)
    assert far == pytest.approx(near, rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_any_split_into_tiles_is_one_tile(kind, rng, monkeypatch):
    X = make_data(kind, rng, n=1000)
    w = rng.random(1000)
    whole = make_loss(X)[0].value_and_gradient(w)
    monkeypatch.setattr("unskew._data.tiled.tile_rows", lambda shape, sparse: 37)
    for storage in (X, sp.csr_array(X)):
        value, gradient = make_loss(storage)[0].value_and_gradient(w)
        assert value == pytest.approx(whole[0], rel=1e-12)
        np.testing.assert_allclose(gradient, whole[1], atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_weight_two_equals_row_twice(form, rng):
    X = make_data("mixed", rng)
    a = rng.integers(0, 4, 40).astype(float)
    m = rng.random(40)
    twice = np.repeat(np.arange(40), a.astype(int))
    one, _ = make_loss(X, a, form=form)
    other, _ = make_loss(X[twice], form=form)
    assert other.value(m[twice]) == pytest.approx(one.value(a * m), rel=1e-10)


def test_other_terms_by_hand():
    w, e, a = np.array([1.0, 2, 0]), np.array([3.0, 1, 9]), np.array([1.0, 2, 0])
    inverse_a = np.array([1, 0.5, 0])
    assert _terms.inertia(w, e) == 5
    assert _terms.spread(w, inverse_a) == 1 + 4 / 2  # sum a m^2 with m = 1, 1
    assert _terms.mass(w) == 4
    assert _terms.effective_share(w, inverse_a, a.sum()) == 1.0


def test_group_sums_of_float32_rows_are_exact(rng):
    from unskew._balance import sums_of

    T = (rng.random((8192, 40)) < rng.random(40)).astype(np.float32)
    F = rng.normal(size=(8192, 3)).astype(np.float32)
    w = rng.random(8192) ** 8 * 1e3
    S, s, _ = sums_of(F, T, w)
    np.testing.assert_allclose(s, w @ T.astype(np.float64), rtol=1e-9)
    np.testing.assert_allclose(S, F.T @ (w[:, None] * T), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("kind", ["binary", "signs"])
def test_forms_for_columns_given_themselves_equal_the_general_ones(kind, rng, monkeypatch):
    """Many tiles and pieces of the triangle; one treatment is emptied."""
    from unskew._balance import PrimalBalance, binary

    monkeypatch.setattr("unskew._balance.binary.PIECE", 50)
    monkeypatch.setattr("unskew._balance.binary.BLOCK", 7)
    monkeypatch.setattr("unskew._data.tiled.tile_rows", lambda shape, sparse: 9)
    X = make_data(kind, rng, n=40, d=60)
    X[:, 7] = X.min()
    X[5, 7] = X.max()
    _, design = make_loss(X)
    (pairs,), rows = design.pair_blocks, design.rows
    assert pairs.symmetric
    assert len(rows.bounds) > 2
    w = rng.random(40) ** 3
    w[5] = 0
    value, gradient = PrimalBalance(rows, pairs).value_and_gradient(w)
    term = binary.BinaryPrimalBalance(rows, pairs)
    assert len(term._triangle) > 2
    assert term.value(w) == pytest.approx(value, rel=1e-10)
    own_value, own_gradient = term.value_and_gradient(w)
    assert own_value == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(own_gradient, gradient, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1e-8, 1e8])
@pytest.mark.parametrize("share", [0.03, 0.4, 0.97])
def test_float32_forms_stand_weights_of_any_size_and_rare_values(form, size, share, rng):
    X = (rng.random((300, 500)) < share).astype(np.float32)
    w = rng.random(300)
    exact, _ = make_loss(X.astype(np.float64), form="primal")
    loss, _ = make_loss(X, form=form)
    value, gradient = exact.value_and_gradient(w)
    own_value, own_gradient = loss.value_and_gradient(size * w)
    assert own_value == pytest.approx(value, rel=1e-5)
    assert loss.value(size * w) == pytest.approx(value, rel=1e-5)
    error = np.abs(size * own_gradient - gradient).max()
    assert error < 1e-4 * np.abs(gradient).max()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_without_any_weight_there_is_nothing_to_balance(form, storage, rng):
    X = storage(make_data("binary", rng, n=20, d=30))
    loss, _ = make_loss(X, form=form)
    assert loss.value(np.zeros(20)) == 0
    value, gradient = loss.value_and_gradient(np.zeros(20))
    assert value == 0
    assert not gradient.any()


def test_what_a_kernel_returns_does_not_change_with_the_next_tile(rng):
    """Tiles share memory; a result that is part of one is copied."""
    from unskew._data.tiled import TiledMatrix, tile_rows

    X = rng.integers(0, 2, (3 * tile_rows((0, 4), False) + 5, 4)).astype(np.uint8)
    rows = TiledMatrix(X)
    with rows.executor:
        parts = list(rows.map(lambda tile: (tile[:, 1], [tile])))
    np.testing.assert_array_equal(np.concatenate([one for one, _ in parts]), X[:, 1])
    np.testing.assert_array_equal(np.concatenate([tile for _, (tile,) in parts]), X)


def test_large_buffers_are_freed_after_a_fit(rng, monkeypatch):
    from unskew import _buffers

    monkeypatch.setattr(_buffers, "MAX_IDLE_BYTES", 4000)
    rows = TiledMatrix(rng.random((50, 3)), executor=Executor(2))
    with rows.executor:
        large, small = (_buffers.buffer(f"test {n}", (n,), np.float64) for n in (1000, 100))
        again = _buffers.buffer("test 1000", (1000,), np.float64)
        assert np.shares_memory(large, again)
    assert not np.shares_memory(large, _buffers.buffer("test 1000", (1000,), np.float64))
    assert np.shares_memory(small, _buffers.buffer("test 100", (100,), np.float64))


def test_scratch_is_of_one_thread_and_one_name():
    import threading

    from unskew._buffers import buffer

    one, other = buffer("a", (5, 2), np.float32), buffer("b", (5, 2), np.float32)
    assert not np.shares_memory(one, other)
    assert np.shares_memory(one, buffer("a", (2, 2), np.float64))
    found = []
    thread = threading.Thread(target=lambda: found.append(buffer("a", (5, 2), np.float32)))
    thread.start()
    thread.join()
    assert not np.shares_memory(one, found[0])


@pytest.mark.parametrize("tiny", [1.0, 1e-4, 1e-9, 1e-12])
@pytest.mark.parametrize("size", [(700, 3), (700, 650)], ids=["few columns", "many"])
def test_sums_over_rows_of_little_weight_have_their_digits_in_float32(tiny, size, rng):
    T = (rng.random(size) < 0.3).astype(np.float32)
    T[:, 0], T[:, 1] = 0, 1
    T[:5, 0], T[:5, 1] = 1, 0  # one that only light rows have, one that only they lack
    w = rng.random(size[0])
    w[:5] *= tiny
    exact = w @ T.astype(np.float64)
    np.testing.assert_allclose(weighted_sum(w, T), exact, rtol=1e-6)
    rounding = 64 * np.finfo(float).eps * w.sum()  # what counts as nothing
    error = abs(weighted_sum(w, T)[1] - exact[1])
    assert error <= max(1e-6 * w[:5].sum(), rounding)  # of the few that lack it
    F = rng.normal(size=(size[0], 1)).astype(np.float32)
    np.testing.assert_allclose(sums_of(F, T, w)[1], exact, rtol=1e-6)
