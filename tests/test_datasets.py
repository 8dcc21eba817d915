"""Loaders: what they return when the data are there, what they say when they are not.

Tests on real files need the environment variable UNSKEW_DATA; the others make their own.
"""

import gzip
import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from unskew import datasets
from unskew.datasets import (
    PAPER_NAMES,
    SITE_NAMES,
    ChecksumError,
    get_data_home,
    load_nass_cds,
    load_nhanes,
    load_paper,
    load_sites,
    load_surf,
)

KEYS = {
    "data", "target", "feature_names", "target_names", "sample_weight", "suspect", "suspect_name",
    "frame", "DESCR", "filename",
}  # fmt: skip
CRASHES = (
    "rownames,dvcat,weight,dead,airbag,injSeverity,caseid\n"
    "1,25-39,2.5,alive,none,NA,2:3:1\n"
    "2,55+,1.0,dead,airbag,4,2:3:2\n"
)


def needs(*paths):
    home = os.environ.get("UNSKEW_DATA")
    missing = [p for p in paths if home is None or not (Path(home) / p).is_file()]
    return pytest.mark.skipif(bool(missing), reason=f"UNSKEW_DATA has no {', '.join(missing)}")


def register(monkeypatch, key, content, url="same"):
    """Let the registry expect these contents for `key`."""
    file = datasets._FILES[key]
    changed = file._replace(sha256=(hashlib.sha256(content).hexdigest(),))
    if url != "same":
        changed = changed._replace(url=url)
    monkeypatch.setitem(datasets._FILES, key, changed)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


# ------------------------------------------------------------------------------ where files are
def test_data_home_prefers_the_argument_then_the_environment_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("UNSKEW_DATA", str(tmp_path / "environment"))
    assert get_data_home(tmp_path / "argument") == tmp_path / "argument"
    assert get_data_home() == tmp_path / "environment"
    monkeypatch.delenv("UNSKEW_DATA")
    pooch = pytest.importorskip("pooch")
    assert get_data_home() == Path(pooch.os_cache("unskew"))


def test_missing_file_error_says_what_to_put_where(tmp_path):
    for load, path in [
        (lambda **k: load_paper("OH2", **k), "paper/OH2.mat"),
        (load_surf, "surf/amazon.mat"),
        (load_nass_cds, "nassCDS.csv.gz"),
    ]:
        with pytest.raises(FileNotFoundError) as caught:
            load(data_home=tmp_path, download_if_missing=False)
        message = str(caught.value)
        assert message.startswith(f"{tmp_path / path} does not exist")
        assert "UNSKEW_DATA" in message
        assert "github.com" in message


def test_missing_file_without_public_copy_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="no public copy with its checksum is known"):
        load_nhanes(data_home=tmp_path)


def test_offline_error_says_what_to_put_where(monkeypatch, tmp_path):
    pooch = pytest.importorskip("pooch")

    def offline(*args):
        raise OSError("no route to host")

    monkeypatch.setattr(pooch, "retrieve", offline)
    with pytest.raises(FileNotFoundError, match=r"no route to host.*Put amazon\.mat there"):
        load_paper("amazon", data_home=tmp_path)


@pytest.mark.parametrize("module", ["pooch", "pandas"])
def test_missing_library_error_names_the_extra(monkeypatch, tmp_path, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"unskew\[data\]"):
        load_nass_cds(data_home=tmp_path)


def test_missing_file_is_fetched_once_and_checked(monkeypatch, tmp_path):
    pooch = pytest.importorskip("pooch")
    content, calls = CRASHES.encode(), []
    register(monkeypatch, "nassCDS", content)

    def retrieve(url, known_hash, name, folder):
        calls.append((url, known_hash))
        write(Path(folder) / name, content)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    for _ in range(2):
        assert load_nass_cds(data_home=tmp_path).filename == str(tmp_path / "nassCDS.csv")
    expected = hashlib.sha256(content).hexdigest()
    assert calls == [(datasets._FILES["nassCDS"].url, f"sha256:{expected}")]


def test_every_url_names_a_commit():
    for file in datasets._FILES.values():
        if file.url is not None:
            commit = file.url.split("/")[5]
            assert len(commit) == 40
            assert set(commit) <= set("0123456789abcdef")


# --------------------------------------------------------------------------------- checksums
def test_wrong_checksum_names_file_expected_and_found(tmp_path):
    write(tmp_path / "paper" / "dslr.mat", b"not the file")
    with pytest.raises(ChecksumError) as caught:
        load_paper("dslr", data_home=tmp_path)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "paper" / "dslr.mat"))
    assert hashlib.sha256(b"not the file").hexdigest() in message
    assert datasets._FILES["paper/dslr"].sha256[0] in message


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"cut off" * 99, mtime=0)[:-9]])
def test_broken_gzip_is_a_checksum_error(tmp_path, content):
    write(tmp_path / "NHANESraw.csv.gz", content)
    with pytest.raises(ChecksumError, match="is not a complete gzip file"):
        load_nhanes(data_home=tmp_path)


def test_packed_and_unpacked_tables_are_the_same(monkeypatch, tmp_path):
    pytest.importorskip("pandas")
    content = CRASHES.encode()
    register(monkeypatch, "nassCDS", content)
    write(tmp_path / "a" / "nassCDS.csv", content)
    write(tmp_path / "b" / "nassCDS.csv.gz", gzip.compress(content))
    plain, packed = (load_nass_cds(data_home=tmp_path / home) for home in "ab")
    assert plain.frame.equals(packed.frame)


# ------------------------------------------------------------------------- what comes back
def test_paper_labels_start_at_zero_and_data_keep_their_signs(monkeypatch, tmp_path):
    signs = np.where(np.eye(4, 800) > 0, 1, -1).astype(np.float32)
    path = tmp_path / "paper" / "webcam.mat"
    path.parent.mkdir()
    savemat(path, {"X_train": signs, "label": np.array([[1], [10], [2], [2]], dtype=np.uint8)})
    register(monkeypatch, "paper/webcam", path.read_bytes())
    bunch = load_paper("webcam", data_home=tmp_path)
    assert set(bunch) == KEYS
    np.testing.assert_array_equal(bunch.target, [0, 9, 1, 1])
    np.testing.assert_array_equal(bunch.data, signs)
    assert bunch.data.dtype == np.float64
    assert bunch.target_names[9] == "projector"


def test_paper_error_names_the_value_first():
    with pytest.raises(ValueError, match="name='Amazon' should be one of"):
        load_paper("Amazon")


def test_crash_table_has_weights_target_and_no_outcome_among_the_features(monkeypatch, tmp_path):
    pytest.importorskip("pandas")
    register(monkeypatch, "nassCDS", CRASHES.encode())
    write(tmp_path / "nassCDS.csv", CRASHES.encode())
    bunch = load_nass_cds(data_home=tmp_path)
    assert set(bunch) == KEYS
    assert bunch.feature_names == list(bunch.data.columns) == ["dvcat", "airbag"]
    np.testing.assert_array_equal(bunch.target, [0, 1])
    np.testing.assert_array_equal(bunch.sample_weight, [2.5, 1.0])
    assert list(bunch.data["airbag"]) == ["none", "airbag"]
    assert list(bunch.suspect) == ["25-39", "55+"]
    assert bunch.frame["injSeverity"].isna().tolist() == [True, False]


SIZES = dict(zip(PAPER_NAMES, [958, 1123, 157, 295, 640, 678, 681]))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=needs(f"paper/{n}.mat")) for n in PAPER_NAMES]
)
def test_real_paper_data(name):
    bunch = load_paper(name)
    assert bunch.data.shape == (SIZES[name], 800)
    np.testing.assert_array_equal(np.unique(bunch.data), [-1, 1])
    np.testing.assert_array_equal(np.unique(bunch.target), np.arange(10))
    assert len(bunch.feature_names) == 800
    assert len(bunch.target_names) == 10


@needs(*(f"surf/{d}.mat" for d in datasets.DOMAINS), "paper/amazon.mat")
def test_real_surf_data_pool_the_images_of_the_paper():
    bunch = load_surf()
    assert set(bunch) == KEYS | {"domain"}
    assert bunch.data.shape == (2533, 800)
    assert bunch.data.min() == 0
    # The class names of one are those of the other: equal class sizes.
    np.testing.assert_array_equal(
        np.bincount(bunch.target[bunch.domain == "amazon"]),
        np.bincount(load_paper("amazon").target),
    )


@needs("NHANESraw.csv.gz", "NHANES_resampled.csv.gz")
def test_real_nhanes_weights_lead_to_the_resampled_population():
    raw, resampled = load_nhanes(), load_nhanes(resampled=True)
    assert raw.frame.shape == (20293, 79)
    assert resampled.frame.shape == (10000, 75)
    assert set(raw) == set(resampled) == KEYS
    assert resampled.sample_weight is None
    assert list(raw.data.columns) == list(resampled.data.columns) == raw.feature_names
    white = raw.suspect == "White"
    expected = (resampled.suspect == "White").mean()
    # Five standard errors of a share from 10,000 rows; unweighted it is .37 instead of .64.
    assert np.average(white, weights=raw.sample_weight) == pytest.approx(expected, abs=0.025)
    assert white.mean() < expected - 0.2
    for column in raw.data.select_dtypes("str" if "str" in set(map(str, raw.data.dtypes)) else "O"):
        words, others = (set(b.data[column].dropna()) for b in (raw, resampled))
        assert words == others, column


@needs("NHANESraw.csv.gz")
def test_the_answer_none_is_not_missing():
    assert (load_nhanes().frame["Depressed"] == "None").sum() == 7926


@needs("nassCDS.csv.gz")
def test_real_crashes_are_less_deadly_when_weighted():
    bunch = load_nass_cds()
    assert bunch.frame.shape == (26217, 16)
    weighted = np.average(bunch.target, weights=bunch.sample_weight)
    assert bunch.target.mean() / weighted > 5


# ------------------------------------------------------------------------------------- sites
SITE_SHAPES = {
    "penguins": ((342, 4), 3, 3),
    "cell_lines": ((2370, 20), 3, 2),
    "rna_mixtures": ((636, 500), 2, 7),
    "three_platforms": ((1394, 889), 3, 3),
    "vowels": ((990, 10), 15, 11),
    "heart": ((920, 13), 4, 2),
}


@needs(*(datasets._FILES[f"sites/{name}"].path for name in SITE_NAMES))
@pytest.mark.parametrize("name", SITE_NAMES)
def test_site_data_have_their_documented_shape_sites_and_groups(name):
    found = load_sites(name)
    shape, n_sites, n_groups = SITE_SHAPES[name]
    assert set(found) == KEYS
    assert found.data.shape == shape
    assert len(found.feature_names) == shape[1]
    assert len(np.unique(found.suspect)) == n_sites
    assert len(found.target_names) == n_groups == found.target.max() + 1
    assert len(found.suspect) == len(found.target) == shape[0]
    assert found.suspect_name not in found.feature_names
    if name != "heart":
        assert np.isfinite(found.data).all()


@needs(datasets._FILES["sites/vowels"].path)
def test_each_speaker_says_each_vowel_six_times():
    found = load_sites("vowels")
    _, counts = np.unique(np.c_[found.suspect, found.target], axis=0, return_counts=True)
    assert (counts == 6).all()
    assert counts.size == 15 * 11
    assert set(load_sites("vowels", suspect="sex").suspect) == {"f", "m"}


def test_birds_without_measurements_are_left_out(monkeypatch, tmp_path):
    pytest.importorskip("pandas")
    names = b"species,island,bill_length_mm,bill_depth_mm,flipper_length_mm,body_mass_g,sex,year\n"
    rows = b"Adelie,Dream,39.1,18,181,3750,male,2007\nGentoo,Biscoe,NA,NA,NA,NA,NA,2008\n"
    found = []
    for number, content in enumerate((names + rows, names + rows.replace(b"NA", b""))):
        register(monkeypatch, "sites/penguins", content)
        home = tmp_path / str(number)
        write(home / "sites" / "penguins.csv", content)
        found.append(load_sites("penguins", data_home=home))
    for one in found:
        np.testing.assert_array_equal(one.data, [[39.1, 18, 181, 3750]])
        assert one.suspect.tolist() == ["Dream"]
        assert one.target_names == ["Adelie"]


def test_missing_site_data_name_the_licence(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no public copy.*CC BY 4\.0"):
        load_sites("heart", data_home=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"penguins\.csv does not exist.*CC0"):
        load_sites("penguins", data_home=tmp_path, download_if_missing=False)


def test_heart_codes_become_categories_and_impossible_zeros_missing(monkeypatch, tmp_path):
    pytest.importorskip("pandas")
    content = (
        b"age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num,site,disease\n"
        b"63,1.0,1.0,145.0,0.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0,cleveland,0\n"
        b"67,0.0,4.0,0.0,286.0,,2.0,108.0,1.0,1.5,,3.0,3.0,2,va,1\n"
    )
    register(monkeypatch, "sites/heart", content)
    write(tmp_path / "sites" / "uci_heart_four_sites.csv", content)
    found = load_sites("heart", data_home=tmp_path)
    assert found.data["sex"].tolist() == ["male", "female"]
    assert found.data["thal"].tolist() == ["fixed defect", "normal"]
    missing = found.data.isna()
    assert missing.loc[0, "chol"]
    assert missing.loc[1, ["trestbps", "fbs", "slope"]].all()
    assert missing.to_numpy().sum() == 4
    assert found.suspect.tolist() == ["cleveland", "va"]
    assert "num" not in found.data


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "iris"}, "name='iris' should be one of"),
        ({"name": "penguins", "suspect": "sex"}, r"suspect='sex' should be one of \['island'\]"),
    ],
)
def test_unknown_site_data_or_suspect_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_sites(**arguments)
