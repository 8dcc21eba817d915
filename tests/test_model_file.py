"""Model files: round trips, and files that are refused without executing anything."""

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

import unskew
from unskew import DCKM, DecorrelationWeights, ModelFileError, TableEncoder
from unskew.baselines import PlainKMeans, RegressOutKMeans
from unskew.simulate import make_site_footprint

pytest.importorskip("skops")


@pytest.fixture
def table(rng):
    n = 200
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(50, 10, n)),
            "site": rng.choice(["A", "B", "C"], n),
            "stage": pd.Categorical(
                rng.choice(["low", "high"], n), categories=["low", "high"], ordered=True
            ),
            "smoker": rng.random(n) < 0.4,
            "bmi": rng.normal(25, 4, n),
        }
    )


@pytest.fixture
def path(table, tmp_path):
    model = DCKM(3, suspects=["site"], n_init=1, random_state=0).fit(table)
    return unskew.save(model, tmp_path / "model.skops")


def test_round_trip_in_a_new_process(table, tmp_path):
    a = np.linspace(0.5, 2, len(table))
    wanted = {"site": {"A": 0.5, "B": 0.3, "C": 0.2}}
    model = DCKM(
        3, suspects=["site"], margins=wanted, n_init=1, random_state=0, tol=1e-6,
        encoder=TableEncoder(category_scale=0.7),
    ).fit(table, sample_weight=a)  # fmt: skip
    unskew.save(model, tmp_path / "model.skops")
    table.to_parquet(tmp_path / "table.parquet")
    script = (
        "import sys, numpy as np, pandas as pd, unskew\n"
        "model = unskew.load('model.skops'); table = pd.read_parquet('table.parquet')\n"
        "np.savez('out.npz', labels=model.predict(table), weights=model.predict_weights(table),\n"
        "         own=model.weights_, distances=model.transform(table))\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    out = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(out["labels"], model.labels_)
    np.testing.assert_array_equal(out["own"], model.weights_)
    np.testing.assert_array_equal(out["weights"], model.predict_weights(table))
    np.testing.assert_array_equal(out["distances"], model.transform(table))


def test_every_attribute_comes_back(path, table):
    model = unskew.load(path)
    again = DCKM(3, suspects=["site"], n_init=1, random_state=0).fit(table)
    assert model.get_params()["suspects"] == ["site"]
    assert model.status_ == again.status_
    assert model.cluster_summary_ == again.cluster_summary_
    assert model.encoder_.kinds_ == again.encoder_.kinds_
    np.testing.assert_array_equal(model.history_["objective"], again.history_["objective"])


@pytest.mark.parametrize(
    "model",
    [
        DecorrelationWeights(),
        PlainKMeans(3, n_init=1, random_state=0),
        RegressOutKMeans(3, suspects=[76, 77, 78, 79], n_init=1, random_state=0),
        DCKM(3, objective="paper", solver="paper", n_init=1, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_estimators_round_trip(model, tmp_path):
    X = make_site_footprint(200, random_state=0).X
    model.fit(X)
    again = unskew.load(unskew.save(model, tmp_path / "m.skops"))
    assert type(again) is type(model)
    if hasattr(model, "predict"):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    else:
        np.testing.assert_array_equal(again.weights_, model.weights_)


def test_a_foreign_file_is_refused(tmp_path):
    for name, content in (("text", b"hello"), ("empty", b""), ("pickle", pickle.dumps([1]))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelFileError, match=f"{name} is not a whole model file"):
            unskew.load(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(ModelFileError, match="is a zip file but not a model of unskew"):
        unskew.load(tmp_path / "other.zip")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        unskew.load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="is a folder"):
        unskew.load(tmp_path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError, match="is not a whole model file"):
        unskew.load(path)


def test_a_flipped_byte_is_refused(path, rng):
    content = bytearray(path.read_bytes())
    for at in rng.integers(0, len(content), 40):
        changed = bytearray(content)
        changed[at] ^= 0xFF
        path.write_bytes(bytes(changed))
        try:
            model = unskew.load(path)
        except ModelFileError:
            continue
        # A byte that says nothing, a time stamp for example: then all is as it was.
        assert model.status_


def rewrite(path, change):
    """The archive with some members changed, as someone with a zip tool would."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in change(members).items():
            archive.writestr(name, content)
    path.write_bytes(out.getvalue())


def test_a_changed_number_is_refused(path):
    def change(members):
        array = next(name for name in members if name.endswith(".npy"))
        return {**members, array: members[array][:-1] + b"\x01"}

    rewrite(path, change)
    with pytest.raises(ModelFileError, match="was changed after it was written"):
        unskew.load(path)


def test_a_file_that_asks_for_other_code_is_refused_and_executes_nothing(path, tmp_path):
    from unskew.model_file import _digest

    flag = tmp_path / "executed"

    def change(members):
        schema = members["schema.json"].decode()
        assert '"Recipe"' in schema
        schema = schema.replace('"Recipe"', '"Popen"')
        schema = schema.replace('"unskew._preprocessing.table_encoder"', '"subprocess"')
        schema = schema.replace('"kind"', '"args"').replace('"category"', f'"touch {flag}"')
        return {**members, "schema.json": schema.encode()}

    rewrite(path, change)
    digest = _digest(path.read_bytes())

    def sign(members):
        note = json.loads(members["unskew.json"]) | {"sha256": digest}
        return {**members, "unskew.json": json.dumps(note).encode()}

    rewrite(path, sign)
    with pytest.raises(ModelFileError, match=r"asks for .*Popen.*not loaded"):
        unskew.load(path)
    assert not flag.exists()


def test_a_file_of_another_format_says_why(path):
    def change(members):
        note = json.loads(members["unskew.json"]) | {"format": 99, "unskew": "7.0"}
        return {**members, "unskew.json": json.dumps(note).encode()}

    rewrite(path, change)
    with pytest.raises(ModelFileError, match=r"written by unskew 7.0 in format 99; this version"):
        unskew.load(path)


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match="save takes an estimator of unskew, not dict"):
        unskew.save({}, tmp_path / "m")
    with pytest.raises(ValueError, match="DCKM is not fitted"):
        unskew.save(DCKM(2), tmp_path / "m")
    assert os.listdir(tmp_path) == []
