"""The terms: a case by hand, the slow loop, central differences, invariances, the three forms."""

import numpy as np
import pytest
import scipy.sparse as sp

from unskew import _terms
from unskew._balance import (
    Balance,
    SketchedBalance,
    probe_count,
    sums_of,
    times_upper,
    upper_times,
    weighted_indicators,
)
from unskew._data.tiled import TiledMatrix
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
FORMS = ["primal", "gram", "sketch"]


def make_loss(
    X, a=None, form="primal", suspects=None, standardise=True, n_bins=4, seed=0, n_threads=1
):
    a = np.ones(X.shape[0]) if a is None else a
    design = make_design(
        TiledMatrix(X, n_threads=n_threads),
        a,
        suspects=None if suspects is None else np.asarray(suspects),
        cluster_on="all",
        n_bins=n_bins,
        standardise=standardise,
    )
    return Balance(design.rows, design.pair_blocks, form=form, seed=seed), design


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
            if suspects is not None and (k in suspects) == (source in suspects):
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
    if form != "sketch":  # different columns draw different probes
        # Column 0 is constant under w, so it is no effect of another column either.
        assert value == pytest.approx(without.value(w), rel=1e-10)


def test_probes_are_unbiased_within_their_stated_error(rng):
    X = make_data("mixed", rng, n=60, d=12)
    exact, design = make_loss(X)
    w = rng.random(60)
    truth = exact.value(w)
    estimates = np.array(
        [
            SketchedBalance(design.rows, design.pair_blocks[0], seed, n_probes=5).value(w)
            for seed in range(200)
        ]
    )
    bound = np.sqrt(2 / 5) * truth
    assert estimates.std() < bound
    # The mean of 200 estimates, four of its own standard errors.
    assert abs(estimates.mean() - truth) < 4 * estimates.std() / np.sqrt(200)
    assert probe_count(0.1) == 200


def test_probes_are_unbiased_on_sparse_rows_with_bins(rng):
    X = make_data("mixed", rng, n=60, d=9) * (rng.random((60, 9)) < 0.4)
    exact, _ = make_loss(X)
    _, design = make_loss(sp.csr_array(X))
    w = rng.random(60)
    estimates = [
        SketchedBalance(design.rows, design.pair_blocks[0], seed, n_probes=5).value(w)
        for seed in range(200)
    ]
    truth = exact.value(w)
    assert abs(np.mean(estimates) - truth) < 4 * np.std(estimates) / np.sqrt(200)


def test_form_is_chosen_by_cost_and_memory(rng, monkeypatch):
    assert make_loss(make_data("binary", rng, n=40, d=7), form="auto")[0].form == "primal"
    assert make_loss(make_data("binary", rng, n=10, d=30), form="auto")[0].form == "gram"
    monkeypatch.setattr("unskew._balance.loss.LARGEST_MATRIX", 50)
    assert make_loss(make_data("binary", rng, n=1000, d=9), form="auto")[0].form == "sketch"


def test_reported_value_of_probes_uses_fresh_ones(rng, monkeypatch):
    monkeypatch.setattr("unskew._balance.loss.LARGEST_MATRIX", 50)
    loss, _ = make_loss(make_data("binary", rng, n=1000, d=300), form="auto")
    w = rng.random(1000)
    assert loss.report(w) != loss.value(w)
    assert loss.report(w) == pytest.approx(loss.value(w), rel=0.5)


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


@pytest.mark.parametrize("sparse", [False, True])
def test_probes_of_few_treatments_are_exact(sparse, rng):
    X = make_data("mixed", rng, n=60, d=9) * (rng.random((60, 9)) < 0.6)
    exact, _ = make_loss(X)
    _, design = make_loss(sp.csr_array(X) if sparse else X)
    w = rng.random(60)
    probes = SketchedBalance(design.rows, design.pair_blocks[0], seed=3)
    assert probes.value(w) == pytest.approx(exact.value(w), rel=1e-10)
    _, gradient = probes.value_and_gradient(w)
    np.testing.assert_allclose(gradient, exact.value_and_gradient(w)[1], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_message_of_probes_gives_the_gradient_of_any_rows(sparse, rng):
    """Also to a term that has drawn other probes, as for rows that come later."""
    X = make_data("binary", rng, n=200, d=30)
    _, design = make_loss(sp.csr_array(X) if sparse else X)
    w, pairs = rng.random(200), design.pair_blocks[0]
    one, other = (SketchedBalance(design.rows, pairs, seed, n_probes=7) for seed in (1, 2))
    _, coefs = one.value_and_coefs(w)
    expected = one.value_and_gradient(w)[1]
    np.testing.assert_allclose(other.gradient_from(coefs), expected, rtol=1e-9, atol=1e-12)
    in_panels = tuple(np.hsplit(coefs[3], [3]))
    earlier = (*coefs[:3], in_panels, *coefs[4:])
    np.testing.assert_allclose(other.gradient_from(earlier), expected, rtol=1e-9, atol=1e-12)
    h, some = 1e-6, np.eye(200)[:20]
    numeric = [(one.value(w + h * u) - one.value(w - h * u)) / (2 * h) for u in some]
    np.testing.assert_allclose(expected[:20], numeric, atol=1e-6 * np.abs(expected).max())


def test_sparse_rows_read_together_or_apart_give_the_same(rng, monkeypatch):
    X = sp.csr_array((rng.random((9000, 40)) < 0.1).astype(np.float64))
    w = rng.random(9000)
    _, design = make_loss(X)
    together = SketchedBalance(design.rows, design.pair_blocks[0], 0, n_probes=8)
    monkeypatch.setattr("unskew._balance.sketch.JOINED_ROWS", 1)
    monkeypatch.setattr("unskew._balance.sketch.KEPT_BYTES", 0)
    apart = SketchedBalance(design.rows, design.pair_blocks[0], 0, n_probes=8)
    assert len(apart._groups) > len(together._groups)
    value, gradient = apart.value_and_gradient(w)
    assert value == pytest.approx(together.value(w), rel=1e-12)
    expected = together.value_and_gradient(w)[1]
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-14)


def test_sparse_rows_in_small_pieces_give_the_same(rng, monkeypatch):
    X = sp.csr_array((rng.random((3000, 40)) < 0.3).astype(np.float64))
    w = rng.random(3000)
    _, design = make_loss(X)
    whole = SketchedBalance(design.rows, design.pair_blocks[0], 0, n_probes=8)
    value, expected = whole.value_and_gradient(w)
    for name, size in {
        "FEW_ROWS": 7,
        "COLUMNS_OF_A_BLOCK": 11,
        "ROWS_OF_A_BLOCK": 90,
    }.items():
        monkeypatch.setattr(f"unskew._balance.sketch.{name}", size)
    for name, size in {"FEW_SUMS": 1, "FEW_FEATURES": 5, "JOINED_ROWS": 1}.items():
        monkeypatch.setattr(f"unskew._balance.sketch.{name}", size)
    parts = SketchedBalance(design.rows, design.pair_blocks[0], 0, n_probes=8)
    assert parts.value(w) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(parts.value_and_gradient(w)[1], expected, rtol=1e-9, atol=1e-14)
    reading = next(iter(parts._kept.values()))
    assert len(reading.pieces) > 1
    assert len(reading._columns) == 4
    assert len(reading._rows) > 10


@pytest.mark.parametrize("suspects", [None, [3]])
@pytest.mark.parametrize("kind", ["binary", "signs", "mixed"])
def test_other_probes_read_kept_rows_as_if_from_the_start(kind, suspects, rng):
    X = make_data(kind, rng, n=200, d=30)
    X[rng.random(X.shape) < 0.5] = 0
    w = rng.random(200)
    loss, design = make_loss(sp.csr_array(X), suspects=suspects, form="sketch")
    for term in loss.terms:
        few = SketchedBalance(design.rows, term.pairs, 1, n_probes=7)
        few.value(w)
        assert few._kept
        other, new = few.afresh(2), SketchedBalance(design.rows, term.pairs, 2, n_probes=7)
        assert other._kept
        assert other.value(w) == pytest.approx(new.value(w), rel=1e-12)
        exact = len(term.pairs.treatments) <= 7  # then any probes give the value itself
        assert (other.value(w) == pytest.approx(few.value(w), rel=1e-6)) == exact
        gradient = new.value_and_gradient(w)[1]
        np.testing.assert_allclose(other.value_and_gradient(w)[1], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 3.0), (-2.0, 0.0)])
def test_sparse_rows_with_one_treatment_a_column_are_read_entry_by_entry(values, rng):
    X = np.where(rng.random((300, 30)) < 0.2, *reversed(values))
    X[5] = 0
    rows = sp.csr_array(X)
    rows.data[::9] = 0  # stored, but 0
    _, design = make_loss(rows)
    sketch = SketchedBalance(design.rows, design.pair_blocks[0], 0, n_probes=7).sketch
    tile = design.rows.tile(0, dense=False)
    fast = sketch.read(tile)
    expected = sketch.treatments.indicators(tile.toarray())
    np.testing.assert_array_equal(fast.T.dense(), expected)
    k, i = sketch.excluded
    products = fast.T.products(tile, k, i).toarray()
    np.testing.assert_array_equal(fast.products.toarray(), products)
    assert products.any() == (values[1] > 0)


@pytest.mark.parametrize("kind", ["binary", "signs"])
def test_forms_for_columns_given_themselves_equal_the_general_ones(kind, rng, monkeypatch):
    """Many tiles, pieces of the triangle and slices of the treatments; one treatment is emptied."""
    from unskew._balance import PrimalBalance, binary

    monkeypatch.setattr("unskew._balance.binary.PIECE", 50)
    monkeypatch.setattr("unskew._balance.binary.WORTH_A_THREAD", 1)
    monkeypatch.setattr("unskew._balance.binary.SLICE", 7)
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
    for form in (binary.BinaryPrimalBalance, binary.BinaryGramBalance):
        term = form(rows, pairs)
        assert len(getattr(term, "slices", term.__dict__.get("_triangle"))) > 2
        assert term.value(w) == pytest.approx(value, rel=1e-10)
        own_value, own_gradient = term.value_and_gradient(w)
        assert own_value == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(own_gradient, gradient, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["binary", "signs"])
@pytest.mark.parametrize(
    ("shares", "kinds"),
    [
        ((0.04, 0.08), {"entries"}),
        ((0.4, 0.6), {"BLAS", "both"}),  # one column is emptied below
        ((0.45, 0.55), {"BLAS"}),  # none
        ((0.02, 0.98), {"entries", "both"}),
    ],
)
def test_strips_equal_the_general_form(kind, shares, kinds, rng):
    """Rare columns, frequent ones, both: products by entries, by BLAS, and side by side."""
    from dataclasses import replace

    from unskew._balance import BinaryStripBalance, PrimalBalance

    X = (rng.random((300, 50)) < np.linspace(*shares, 50)).astype(float)
    if shares != (0.45, 0.55):
        X[:, 7] = 0
        X[5, 7] = 1
    X = X if kind == "binary" else 2 * X - 1
    _, design = make_loss(X)
    (pairs,), rows = design.pair_blocks, design.rows
    k, j = pairs.excluded
    more = np.array([3, 7, 30, 41]), np.array([20, 8, 4, 40])
    excluded = np.concatenate([k, *more]), np.concatenate([j, *more[::-1]])
    pairs = replace(pairs, excluded=excluded)  # some columns have a source in common
    w = rng.random(300) ** 3
    w[5] = 0
    value, gradient = PrimalBalance(rows, pairs).value_and_gradient(w)
    term = BinaryStripBalance(rows, pairs)
    assert kinds == {
        "entries" if strip.rare == strip.stop else "both" if strip.rare else "BLAS"
        for strip in term.strips
    }
    assert term.value(w) == pytest.approx(value, rel=1e-12)
    own_value, own_gradient = term.value_and_gradient(w)
    assert own_value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(own_gradient, gradient, rtol=1e-9, atol=1e-12)


def test_strips_are_for_few_rows_and_many_columns_in_memory(rng, tmp_path):
    from unskew._balance import BinaryStripBalance

    def term(X, **more):
        loss, _ = make_loss(X, form="auto", **more)
        return loss.terms[0]

    X = (rng.random((700, 600)) < 0.2).astype(np.float32)
    assert isinstance(term(X), BinaryStripBalance)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for other in (X[:, :590], X[:100], sp.csr_array(X), np.tile(X, (6, 1)), mapped):
        assert not isinstance(term(other), BinaryStripBalance)
    assert not isinstance(term(X, suspects=[3]), BinaryStripBalance)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_strips_of_very_few_columns_and_of_other_pairs(d, rng):
    X = make_data("binary", rng, n=30, d=d)
    w = rng.random(30)
    for data in (X, np.c_[X, rng.normal(size=30)], np.c_[X, np.ones(30)]):
        loss, plain = (make_loss(data, form=form)[0] for form in ("strips", "primal"))
        assert loss.value(w) == pytest.approx(plain.value(w), rel=1e-12, abs=1e-12)


def test_strips_have_the_same_bits_for_any_number_of_threads(rng):
    from unskew._balance import BinaryStripBalance

    X = (rng.random((700, 650)) < 0.02 + 0.4 * rng.random(650)).astype(np.float32)
    w = rng.random(700)
    found = []
    for n_threads in (1, 2, 4):
        loss, design = make_loss(X, form="auto", n_threads=n_threads)
        assert isinstance(loss.terms[0], BinaryStripBalance)
        with design.rows.threads():
            found.append((loss.value(w), *loss.value_and_gradient(w)))
    for value, same, gradient in found:
        assert value == same == found[0][0]
        np.testing.assert_array_equal(gradient, found[0][2])


@pytest.mark.parametrize("form", ["primal", "strips", "gram"])
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
    rows = TiledMatrix(X, n_threads=1)
    with rows.threads():
        parts = list(rows.map(lambda tile: (tile[:, 1], [tile])))
    np.testing.assert_array_equal(np.concatenate([one for one, _ in parts]), X[:, 1])
    np.testing.assert_array_equal(np.concatenate([tile for _, (tile,) in parts]), X)


def test_large_buffers_are_freed_after_a_fit(rng, monkeypatch):
    from unskew import _buffers

    monkeypatch.setattr(_buffers, "MAX_IDLE_BYTES", 4000)
    rows = TiledMatrix(rng.random((50, 3)), n_threads=2)
    with rows.threads():
        large, small = (_buffers.buffer(f"test {n}", (n,), np.float64) for n in (1000, 100))
        again = _buffers.buffer("test 1000", (1000,), np.float64)
        assert np.shares_memory(large, again)
    assert not np.shares_memory(large, _buffers.buffer("test 1000", (1000,), np.float64))
    assert np.shares_memory(small, _buffers.buffer("test 100", (100,), np.float64))


def test_the_first_gradient_and_the_last_value_are_kept(rng):
    X = make_data("binary", rng)
    w, other = rng.random(40), rng.random(40)
    loss, _ = make_loss(X)
    plain, _ = make_loss(X)
    asked = []
    for name in ("value", "value_and_gradient"):
        function = getattr(loss.terms[0], name)
        monkey = lambda v, name=name, function=function: asked.append(name) or function(v)  # noqa: E731
        setattr(loss.terms[0], name, monkey)
    assert loss.begin(w) == plain.value(w)
    for v in (w, other, w):
        value, gradient = loss.value_and_gradient(v)
        expected, expected_gradient = plain.value_and_gradient(v)
        assert value == expected
        np.testing.assert_array_equal(gradient, expected_gradient)
        gradient *= 0  # the caller's own
    assert asked == ["value_and_gradient"] * 2
    for v in (other, other.copy(), w):
        assert loss.value(v) == plain.value(v)
    assert asked[2:] == ["value"] * 2
    other[3] += 1
    assert loss.value(other) == plain.value(other)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (0, 4), (40, 7)])
def test_triangular_products_read_one_triangle(dtype, shape):
    rng = np.random.default_rng(0)
    for product, size in ((times_upper, shape[1]), (upper_times, shape[0])):
        G = rng.normal(size=shape).astype(dtype)
        upper = rng.normal(size=(size, size)).astype(dtype)
        upper[np.tril_indices(size, -1)] = np.nan  # not read
        triangle = np.triu(np.nan_to_num(upper))
        before = G.copy()
        if product is times_upper:
            product(G, upper)
            wanted = before @ triangle
        else:
            product(upper, G)
            wanted = triangle @ before
        rtol = 1e-5 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(G, wanted, rtol=rtol, atol=1e-5)


def test_triangular_products_refuse_what_blas_would_misread():
    G = np.ones((4, 3))
    for wrong in (np.ones((3, 3), dtype=np.float32), np.ones((4, 4)), np.ones((3, 3)).T[::-1]):
        with pytest.raises(ValueError, match="3 x 3 array, contiguous"):
            times_upper(G, wrong)
    with pytest.raises(ValueError, match="4 x 4 array, contiguous"):
        upper_times(np.ones((3, 3)), G)


@pytest.mark.parametrize("tiny", [1.0, 1e-4, 1e-9, 1e-12])
@pytest.mark.parametrize("size", [(700, 3), (700, 650)], ids=["few columns", "many"])
def test_sums_over_rows_of_little_weight_have_their_digits_in_float32(tiny, size, rng):
    T = (rng.random(size) < 0.3).astype(np.float32)
    T[:, 0], T[:, 1] = 0, 1
    T[:5, 0], T[:5, 1] = 1, 0  # one that only light rows have, one that only they lack
    w = rng.random(size[0])
    w[:5] *= tiny
    exact = w @ T.astype(np.float64)
    np.testing.assert_allclose(weighted_indicators(w, T), exact, rtol=1e-6)
    rounding = 64 * np.finfo(float).eps * w.sum()  # what counts as nothing
    error = abs(weighted_indicators(w, T)[1] - exact[1])
    assert error <= max(1e-6 * w[:5].sum(), rounding)  # of the few that lack it
    F = rng.normal(size=(size[0], 1)).astype(np.float32)  # fewer features: layers with the product
    np.testing.assert_allclose(sums_of(F, T, w)[1], exact, rtol=1e-6)
