"""AnnData in and out: results where scanpy's users look for them, with a stand-in and the real."""

from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import unskew
from unskew import SelectionMixture, SuspectCorrector
from unskew._records import OverlapWarning
from unskew.anndata import cluster, correct


class StandIn:
    """What unskew uses of AnnData."""

    def __init__(self, X, obs, obsm):
        self.X, self.obs, self.obsm, self.uns = X, obs, obsm, {}

    def copy(self):
        return deepcopy(self)


def cells(n=300, seed=0):
    """Three groups with different shares in two batches, and a shift of the second batch."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    batch = np.where(rng.random(n) < np.array([0.2, 0.5, 0.8])[group], "late", "early")
    rep = rng.normal(size=(n, 4)) + 5 * np.eye(3, 4)[group] + 2.0 * (batch == "late")[:, None]
    counts = sp.csr_array(rng.poisson(0.3, (n, 12)).astype(np.float32))
    obs = {"batch": batch, "age": rng.normal(size=n), "share": rng.uniform(1, 2, n)}
    return StandIn(counts, obs, {"X_pca": rep}), group


def test_corrected_rows_are_those_of_the_corrector():
    adata, _ = cells()
    assert correct(adata, "batch", n_components=3, random_state=0) is None
    late = (adata.obs["batch"] == "late").astype(float)
    X = np.column_stack([adata.obsm["X_pca"], late])
    own = SuspectCorrector(4, 3, drop_suspects=True, random_state=0).fit(X)
    np.testing.assert_allclose(adata.obsm["X_unskew"], own.transform(X), atol=1e-12)
    np.testing.assert_allclose(adata.obs["X_unskew_weight"], own.sample_weight_)
    found = adata.uns["X_unskew"]
    assert found["levels"].tolist() == ["batch=early", "batch=late"]
    np.testing.assert_allclose(found["shares"], own.mixture_.shares_)
    removed = adata.obsm["X_pca"] - adata.obsm["X_unskew"]
    np.testing.assert_allclose(removed, found["effects"][late.astype(int)], atol=1e-12)
    np.testing.assert_allclose(np.diff(found["effects"], axis=0), 2.0, atol=0.5)


def test_groups_are_those_of_the_mixture():
    adata, group = cells()
    cluster(adata, "batch", n_components=3, random_state=0)
    late = (adata.obs["batch"] == "late").astype(float)
    X = np.column_stack([adata.obsm["X_pca"], late])
    own = SelectionMixture(3, suspects=4, random_state=0).fit(X)
    assert adata.obs["unskew"].tolist() == own.labels_.astype(str).tolist()
    np.testing.assert_allclose(adata.obsm["unskew_proba"].sum(1), 1.0)
    np.testing.assert_allclose(adata.uns["unskew"]["shares"], own.shares_)
    assert adjusted_rand_score(group, adata.obs["unskew"]) > 0.95


def test_only_the_results_are_added_and_a_copy_leaves_the_original_alone():
    adata, _ = cells()
    before = deepcopy(adata)
    made = correct(adata, "batch", n_components=3, copy=True, random_state=0)
    assert adata.obsm.keys() == {"X_pca"}
    assert made.obsm.keys() == {"X_pca", "X_unskew"}
    assert made.obs.keys() - before.obs.keys() == {"X_unskew_weight"}
    assert sp.issparse(made.X)
    assert (made.X != before.X).nnz == 0
    np.testing.assert_array_equal(made.obsm["X_pca"], before.obsm["X_pca"])


def test_several_keys_weights_and_protected_columns_are_read_from_obs():
    adata, _ = cells()
    adata.obs["share"][:10] = 0
    correct(
        adata, ["batch"], protect="age", weight_key="share", n_components=3, random_state=0,
        key_added="X_clean",
    )  # fmt: skip
    found = adata.uns["X_clean"]
    assert found["levels"].tolist() == ["batch=early", "batch=late"]  # age is not removed
    assert found["shares"].shape == (2, 3)
    np.testing.assert_allclose(found["shares"].sum(axis=1), 1.0)
    assert found["params"]["protect"] == "age"
    np.testing.assert_array_equal(adata.obs["X_clean_weight"] == 0, adata.obs["share"] == 0)


def test_batches_can_be_missing_or_integers():
    adata, _ = cells()
    batch = adata.obs["batch"].astype(object)
    batch[:30] = None
    adata.obs["batch"] = batch
    correct(adata, n_components=3, random_state=0)
    levels = adata.uns["X_unskew"]["levels"].tolist()
    assert levels == ["batch=early", "batch=late", "batch=missing"]
    adata.obs["batch"] = np.arange(300) % 2 + 7
    correct(adata, n_components=3, random_state=0)
    assert adata.uns["X_unskew"]["levels"].tolist() == ["batch=7", "batch=8"]


def test_sparse_x_can_be_the_representation():
    adata, _ = cells()
    correct(adata, use_rep="X", n_components=1, random_state=0)
    assert adata.obsm["X_unskew"].shape == (300, 12)
    assert sp.issparse(adata.X)


def test_warnings_and_levels_have_the_name_and_the_values_of_the_batch():
    rng = np.random.default_rng(0)
    late = rng.integers(0, 2, 400)
    rep = rng.normal(size=(400, 3)) + 8.0 * late[:, None]  # a group of its own in each batch
    adata = StandIn(None, {"run": np.array(["a=1", "b=1"])[late]}, {"X_pca": rep})
    for call in (correct, cluster):
        with pytest.warns(OverlapWarning) as caught:
            call(adata, "run", n_components=2, random_state=0)
        text = " ".join(str(one.message) for one in caught)
        assert "“run”" in text
        assert "a=1" in text
        assert "b=1" in text
        assert "column" not in text
    for name in ("X_unskew", "unskew"):
        assert adata.uns[name]["levels"].tolist() == ["run=a=1", "run=b=1"]
        assert adata.uns[name]["identified"] == "no"


def test_the_form_of_the_effects_is_kept():
    adata, _ = cells()
    for call, name in ((correct, "X_unskew"), (cluster, "unskew")):
        call(adata, "batch", n_components=3, effects="per-group", random_state=0)
        assert adata.uns[name]["choice"]["effects"] == "per-group"


def test_a_numeric_batch_has_intervals():
    adata, _ = cells()
    correct(adata, "age", n_components=3, effects="shift", random_state=0)
    levels = adata.uns["X_unskew"]["levels"].tolist()
    assert len(levels) > 1
    assert all(level.startswith("age=") for level in levels)


def test_bad_input_is_named(monkeypatch):
    adata, _ = cells()
    with pytest.raises(KeyError, match=r"key='site' should be a column of adata\.obs"):
        correct(adata, "site")
    with pytest.raises(KeyError, match=r"use_rep='X_umap' should be 'X' or a key of adata\.obsm"):
        cluster(adata, use_rep="X_umap")
    with pytest.raises(KeyError, match=r"weight_key='w' should be a column of adata\.obs"):
        correct(adata, weight_key="w")
    monkeypatch.setattr(unskew.anndata, "MAX_DENSE", 100)
    with pytest.raises(ValueError, match="X has 300 x 12 entries; use_rep='X' accepts at most 100"):
        correct(adata, use_rep="X")


# ------------------------------------------------------------------------------ the real ones
@pytest.fixture
def real(tmp_path):
    anndata = pytest.importorskip("anndata")
    pd = pytest.importorskip("pandas")
    adata, group = cells()
    obs = pd.DataFrame(adata.obs, index=[f"cell{i}" for i in range(len(group))])
    obs["batch"] = obs["batch"].astype("category")
    made = anndata.AnnData(X=sp.csr_matrix(adata.X), obs=obs, obsm=adata.obsm)
    return made, group, tmp_path / "cells.h5ad", anndata


@pytest.mark.filterwarnings("default")  # of other packages
def test_results_in_anndata_are_written_and_a_backed_file_stays_backed(real):
    adata, _, path, anndata = real
    correct(adata, "batch", n_components=3, random_state=0)
    cluster(adata, "batch", n_components=3, random_state=0)
    assert adata.obs["unskew"].cat.categories.tolist() == ["0", "1", "2"]
    adata.write_h5ad(path)
    backed = anndata.read_h5ad(path, backed="r")
    correct(backed, "batch", n_components=3, random_state=0, key_added="X_again")
    assert backed.isbacked
    np.testing.assert_allclose(backed.obsm["X_again"], adata.obsm["X_unskew"])
    assert backed.uns["X_unskew"]["identified"] == "yes"


@pytest.mark.filterwarnings("default")
def test_leiden_on_corrected_rows_finds_the_groups_and_not_the_batches(real):
    sc = pytest.importorskip("scanpy")
    pytest.importorskip("igraph")
    adata, group, _, _ = real
    found = {}
    correct(adata, "batch", random_state=0)
    for rep in ("X_pca", "X_unskew"):
        sc.pp.neighbors(adata, use_rep=rep)
        sc.tl.leiden(adata, flavor="igraph", n_iterations=2, resolution=0.3, random_state=0)
        found[rep] = adjusted_rand_score(group, adata.obs["leiden"])
    assert found["X_unskew"] > 0.9 > found["X_pca"]
