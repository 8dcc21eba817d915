"""A look at many rows: some are drawn, wherever they are; what counts all rows counts all."""

import numpy as np
import pytest
from scipy import sparse

from unskew import DCKM, ConsensusDCKM, DecorrelationWeights, ParquetReader
from unskew._data import sampling
from unskew.diagnostics import audit, compare, diagnose, verdict
from unskew.diagnostics._view import view_of_fit
from unskew.metrics import effective_sample_size, kish_size
from unskew.report import to_html, to_json
from unskew.simulate import make_site_footprint

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


class Reader:
    """The rows of an array or table in blocks of uneven sizes, one of them empty."""

    def __init__(self, X, *ends):
        self.X, self.ends, self.n_blocks = X, (0, *ends, len(X)), len(ends) + 1

    def read(self, number):
        return self.X[self.ends[number] : self.ends[number + 1]]


@pytest.fixture(scope="module")
def data():
    return make_site_footprint(1500, rate=0.8, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return DCKM(4, suspects=data.suspects, n_init=3, random_state=0).fit(data.X)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(sampling, "MAX_ROWS", 700)


@pytest.fixture(scope="module")
def fitted(model):
    """Labels and weights of the fit, copied before any diagnostics."""
    return model.labels_.copy(), model.weights_.copy()


@pytest.fixture(scope="module")
def whole(data, model, fitted):
    """Diagnostics of all rows."""
    return diagnose(model, data.X)


@pytest.fixture(scope="module")
def part(data, model, fitted):
    """Diagnostics of 700 of the 1,500 rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "MAX_ROWS", 700)
        return diagnose(model, data.X)


def test_few_rows_are_all_used(data, whole):
    assert sampling.sample_rows(data.X, None, 0).chosen is None
    assert not any("drawn at random" in note for note in whole.notes)


def test_fewer_rows_of_wide_data_are_sampled():
    wide = np.broadcast_to(np.uint8(0), (200_000, 2_000))
    assert sampling.max_rows(wide[:, :300]) == 20_000
    assert sampling.max_rows(wide) == 2**24 // 2_000
    assert sampling.max_rows(np.broadcast_to(np.uint8(0), (200_000, 10**5))) == 5_000
    assert sampling.max_rows(sparse.csr_array((200_000, 10**5))) == 20_000
    some = sampling.sample_rows(wide, None, 0)
    assert some.X.shape == (2**24 // 2_000, 2_000)


def test_rows_are_drawn_without_repeats_in_their_order_among_those_that_count(data, few):
    a = np.ones(1500)
    a[:600] = 0.0
    some = sampling.sample_rows(data.X, a, 0)
    assert some.n == 1500
    assert len(some.chosen) == 700
    assert (np.diff(some.chosen) > 0).all()
    assert some.chosen.min() >= 600
    np.testing.assert_array_equal(some.X, data.X[some.chosen])
    a[:1000] = 0.0  # fewer have weight than would be drawn: all of them
    np.testing.assert_array_equal(sampling.sample_rows(data.X, a, 0).chosen, np.arange(1000, 1500))


def test_what_counts_all_rows_counts_all(model, part):
    found = part
    assert "Computed on a random subsample of 700 of 1,500 rows." in found.notes
    assert found.settings.n_rows == found.weights.n_rows == found.evidence.n_rows == 1500
    sizes = np.bincount(model.labels_, minlength=4)
    assert [c.size for c in found.clusters] == sizes.tolist()
    weighted = np.bincount(model.labels_, weights=model.weights_) / model.weights_.sum()
    np.testing.assert_allclose([c.weighted_share for c in found.clusters], weighted)
    assert found.evidence.kish_size == pytest.approx(kish_size(model.weights_))
    size = effective_sample_size(model.weights_, np.ones(1500))
    assert found.weights.effective_size == pytest.approx(size)
    heaviest = [row.position for row in found.weights.heaviest]
    assert heaviest == np.argsort(-model.weights_, kind="stable")[:10].tolist()
    assert found.projection.n_rows == 1500
    positions = np.array(found.projection.positions)
    assert positions.max() >= 700  # of all rows, not of those drawn
    np.testing.assert_array_equal(found.projection.cluster, model.labels_[positions])
    np.testing.assert_allclose(found.projection.weight, model.weights_[positions], atol=1e-4)
    assert sum(map(sum, found.flow.counts)) == 700


def test_a_sample_of_rows_reports_nearly_what_all_rows_do(data, model, whole, part, few):
    assert part.verdict.word == whole.verdict.word == "helped"
    assert verdict(model, data.X).word == "helped"
    assert part.evidence.typical_after == pytest.approx(whole.evidence.typical_after, abs=0.05)
    assert part.explained_variance == pytest.approx(whole.explained_variance, abs=0.03)
    assert part.imbalance_after == whole.imbalance_after == model.imbalance_


def test_a_cluster_of_which_no_row_was_drawn(data, monkeypatch):
    X = np.vstack([np.full((2, data.X.shape[1]), 30.0), data.X])  # two rows far away
    model = DCKM(4, suspects=data.suspects, init="k-means++", n_init=3, random_state=0).fit(X)
    alone = model.labels_[0]
    assert (model.labels_ == alone).sum() == 2
    monkeypatch.setattr(sampling, "MAX_ROWS", 200)
    found = diagnose(model, X)
    assert sampling.sample_rows(X, None, 0).chosen.min() > 1
    assert found.clusters[alone].size == 2
    assert all(f.inside is None for f in found.clusters[alone].features)
    assert "NaN" not in to_json(found)
    assert "</html>" in to_html(found)


def test_the_model_is_left_as_it_was(model, fitted, part):
    np.testing.assert_array_equal(model.labels_, fitted[0])
    np.testing.assert_array_equal(model.weights_, fitted[1])


def test_rows_outside_memory_are_sampled_as_those_in_it(data, model, part, few, tmp_path):
    np.save(tmp_path / "x.npy", data.X)
    expected = part
    given = {
        "path": tmp_path / "x.npy",
        "memmap": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "reader": Reader(data.X, 10, 10, 900),
        "CSR": sparse.csr_array(data.X),
    }
    for name, X in given.items():
        found = diagnose(model, X)
        assert found.verdict == expected.verdict, name
        assert found.flow == expected.flow, name
        assert found.weights == expected.weights, name


def test_only_blocks_with_drawn_rows_are_kept(data, monkeypatch):
    monkeypatch.setattr(sampling, "MAX_ROWS", 3)
    some = sampling.sample_rows(Reader(data.X, *range(100, 1500, 100)), None, 5)
    assert some.X.shape == (3, data.X.shape[1])
    np.testing.assert_array_equal(some.X, data.X[some.chosen])


def make_table(n=900):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, n)
    site = np.where(rng.random(n) < 0.8, kind, rng.integers(0, 3, n))
    table = pd.DataFrame(
        {
            "site": np.array(["north", "south", "east"])[site],
            "year": rng.normal(2000 + 3 * kind, 1.0),
            **{f"x{j}": rng.normal(3 * (kind == j % 3) + (site == j % 3), 1.0) for j in range(6)},
        },
        index=[f"p{i}" for i in range(n)],
    )
    table.loc[table.index[::50], "x0"] = np.nan
    return table


@pytest.mark.parametrize("adjust", ["weights", pytest.param("both", marks=pytest.mark.soak)])
def test_tables_and_their_row_names(adjust, monkeypatch, tmp_path):
    table = make_table()
    model = DCKM(3, suspects=["site"], adjust=adjust, n_init=2, random_state=0).fit(table)
    whole = diagnose(model, table)
    monkeypatch.setattr(sampling, "MAX_ROWS", 400)
    found = diagnose(model, table)
    assert found.weights == whole.weights
    assert found.weights.heaviest[0].index == f"p{found.weights.heaviest[0].position}"
    assert found.explained_variance == pytest.approx(whole.explained_variance, abs=0.03)
    assert found.baselines[0].agreement == pytest.approx(whole.baselines[0].agreement, abs=0.1)
    pl.from_pandas(table).write_parquet(tmp_path / "t.parquet", row_group_size=128)
    same = diagnose(model, ParquetReader(tmp_path / "t.parquet"))
    assert same.verdict == found.verdict
    assert same.features == found.features


def test_columns_far_from_0_are_moved_by_the_means_of_the_fit(data, few):
    X = data.X + np.random.default_rng(0).normal(1000, 1, data.X.shape)
    how = {"suspects": data.suspects, "n_init": 1, "tol": 0.1, "random_state": 0}
    model = DCKM(4, adjust="both", **how).fit(X)
    some = sampling.sample_rows(X, None, 0)
    view = view_of_fit(sampling.subset_model(model, some.chosen), some.X, None)
    assert np.abs(model._shift).min() > 900
    np.testing.assert_array_equal(view.rows.shift, model._shift)


def test_a_consensus_and_weights_alone(data, few):
    consensus = ConsensusDCKM(4, suspects=data.suspects, n_runs=4, random_state=0).fit(data.X)
    assert diagnose(consensus, data.X).verdict.word == "helped"
    weights = DecorrelationWeights(suspects=data.suspects).fit(data.X)
    found = diagnose(weights, data.X)
    assert found.evidence.n_rows == 1500
    assert found.clusters == ()


def test_design_weights_of_all_rows_are_asked_for(data, few):
    a = np.linspace(0.5, 2.0, 1500)
    model = DCKM(4, suspects=data.suspects, n_init=1, random_state=0).fit(data.X, sample_weight=a)
    assert diagnose(model, data.X, a).evidence.n_rows == 1500
    with pytest.raises(ValueError, match="sample_weight differs"):
        diagnose(model, data.X)
    with pytest.raises(ValueError, match="X has 900 rows but the model was fitted to 1500"):
        verdict(model, data.X[:900])


def test_the_report_names_the_number_of_sampled_rows(part):
    page = to_html(part)
    assert "Computed on a random subsample of 700 of 1,500 rows" in page


def test_audit_and_compare_take_files_and_draw_rows(data, few, tmp_path):
    np.save(tmp_path / "x.npy", data.X)
    found = audit(tmp_path / "x.npy", suspects=data.suspects)
    assert (found.n_rows, found.n_rows_used, found.settings.n_rows) == (1500, 700, 1500)
    assert found.pairs == audit(data.X, suspects=data.suspects).pairs
    side_by_side = compare(
        tmp_path / "x.npy", 4, suspects=data.suspects, n_init=1, random_state=0, methods=["dropped"]
    )
    assert side_by_side.n_rows == 1500
    assert side_by_side.notes[0] == "Computed on a random subsample of 700 of 1,500 rows."
    assert sum(side_by_side.rows[0].sizes) == 700
