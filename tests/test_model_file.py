"""Model files: round trips, and files that are refused without executing anything."""

import importlib
import io
import json
import os
import pickle
import pkgutil
import subprocess
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

import unskew
from unskew import (
    DCKM,
    ConsensusDCKM,
    DecorrelationWeights,
    ModelFileError,
    SelectionMixture,
    SuspectCorrector,
    TableEncoder,
    baselines,
    feature_selection,
    model_file,
)
from unskew.simulate import make_site_footprint

pytest.importorskip("skops")


def make_table(rng, n=200):
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
def table(rng):
    return make_table(rng)


@pytest.fixture(scope="module")
def fitted():
    table = make_table(np.random.default_rng(0), 60)
    return DCKM(3, suspects=["site"], n_init=1, random_state=0).fit(table)


@pytest.fixture
def path(fitted, tmp_path):
    return unskew.save(fitted, tmp_path / "model.skops")


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


def every_estimator(table):
    """Fitted models of every estimator, with settings that bring in each class of their parts."""
    X = make_site_footprint(60, random_state=0).X[:, ::4]
    fast = dict(n_init=1, random_state=0, tol=1e-2)
    margins = {"smoker": {True: 0.4, False: 0.6}, "site": {"A": 0.5, "B": 0.3, "C": 0.2}}
    gone = table.assign(site=table["site"].where(table["site"] != "C", None))
    return [
        DCKM(3, **fast).fit(X),
        DCKM(3, objective="paper", solver="paper", n_init=1, random_state=0).fit(X),
        DCKM(3, suspects=[19], column_scale="sd", row_scale="unit", **fast).fit(X),
        DCKM(np.int64(3), n_init=np.int32(1), tol=np.float32(0.01), random_state=np.uint8(3)).fit(
            X.astype(np.float32)
        ),
        DCKM(3, n_init=1, random_state=np.random.RandomState(0)).fit(X),
        DCKM(3, suspects=["site"], adjust="both", **fast).fit(table),
        DCKM(3, suspects=np.array(["site"]), adjust="effects", **fast).fit(table),
        DCKM(3, suspects="bmi", adjust="both", effect_degree="bins", **fast).fit(table),
        DCKM(3, margins=margins, min_effective_sample_size=0.5, **fast).fit(table),
        DCKM(3, margins={"site": {"A": 0.5, None: 0.3}}, **fast).fit(gone),
        DCKM(3, encoder=TableEncoder(kinds={"site": "category"}), **fast).fit(table),
        ConsensusDCKM(2, suspects=["site"], adjust="both", n_runs=3, random_state=0).fit(table),
        ConsensusDCKM("auto", n_runs=2, random_state=0).fit(X),
        ConsensusDCKM(3, balance_strength="auto", n_runs=3, random_state=0).fit(X),
        DecorrelationWeights().fit(X),
        DecorrelationWeights(suspects=["site"]).fit(table),
        SelectionMixture(2, suspects="site", init=np.arange(len(table)) % 2).fit(
            table.assign(ward=np.tile(["a", "b", "c"], len(table) // 3))
        ),
        SelectionMixture(2, init=np.arange(60) % 2).fit(X[:, :3]),
        SuspectCorrector("site", 1, random_state=0).fit(table),
        TableEncoder(max_categories=2, category_scale=0.7).fit(table),
        baselines.PlainKMeans(3, **fast).fit(X),
        baselines.PCAKMeans(3, **fast).fit(X),
        baselines.DropKMeans(3, **fast).fit(X),
        baselines.RegressOutKMeans(3, suspects=[19], **fast).fit(X),
        baselines.DecorrelatedKMeans(3, **fast).fit(X),
        baselines.SelectKMeans(feature_selection.LaplacianScore(5), 3, **fast).fit(X),
        feature_selection.VarianceSelector(10).fit(X),
        feature_selection.LaplacianScore(5).fit(X),
        feature_selection.RUFS(10, n_clusters=3).fit(X),
        feature_selection.FSASL(10, n_clusters=3).fit(X),
        feature_selection.REFS(10).fit(X),
    ]


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return every_estimator(make_table(np.random.default_rng(0), 60))


def nodes_of(value):
    """(loader, class) of every node of a schema."""
    if isinstance(value, dict) and "__loader__" in value:
        yield value["__loader__"], f"{value['__module__']}.{value['__class__']}"
    items = value.values() if isinstance(value, dict) else value
    for item in items if isinstance(value, (dict, list)) else ():
        yield from nodes_of(item)


def test_the_trusted_list_is_exactly_what_saved_models_consist_of(models, tmp_path):
    used = set()
    for model in models:
        with zipfile.ZipFile(unskew.save(model, tmp_path / "m.skops")) as archive:
            used |= set(nodes_of(json.loads(archive.read("schema.json"))))
    scalars = {("NdArrayNode", name) for name in model_file.SCALARS}
    assert used - scalars == model_file.NODES - scalars


def test_the_trusted_list_has_classes_only():
    for _, name in model_file.NODES - {("NdArrayNode", name) for name in model_file.SCALARS}:
        module, _, cls = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), cls), type), name


def test_every_estimator_of_the_package_is_among_the_models(models):
    found = set()
    for module in pkgutil.walk_packages(unskew.__path__, "unskew."):
        if module.name.split(".")[1] in ("__main__", "cli"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, BaseEstimator):
                found.add(value)
    public = {
        cls
        for cls in found
        if cls.__module__.startswith("unskew") and not cls.__name__.startswith("_")
    }
    # Those on a cluster are saved through to_local().
    abstract = {"BaseClusterer", "BaseDecorrelator", "BaselineKMeans", "RankingSelector"}
    abstract |= {"DaskDCKM", "DaskSelectionMixture"}
    assert {cls.__name__ for cls in public} - abstract == {type(m).__name__ for m in models}


def same(a, b):
    """Equal to the last bit, through containers and objects."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, np.random.RandomState):
        return same(a.get_state(legacy=False), b.get_state(legacy=False))
    if isinstance(a, float):
        return a == b or (a != a and b != b)
    return same(vars(a), vars(b)) if hasattr(a, "__dict__") else a == b


def test_every_estimator_comes_back_as_it_was(models, tmp_path):
    for model in models:
        again = unskew.load(unskew.save(model, tmp_path / "m.skops"))
        assert type(again) is type(model)
        for name, value in vars(model).items():
            assert same(getattr(again, name), value), f"{model}.{name}"


def test_a_foreign_file_is_refused(tmp_path):
    for name, content in (("text", b"hello"), ("empty", b""), ("pickle", pickle.dumps([1]))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelFileError, match=f"{name} is not a complete model file"):
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
    with pytest.raises(ModelFileError, match="is not a complete model file"):
        unskew.load(path)


def test_a_flipped_byte_is_refused(path, rng):
    content = bytearray(path.read_bytes())
    weights = unskew.load(path).weights_
    for at in rng.integers(0, len(content), 40):
        changed = bytearray(content)
        changed[at] ^= 0xFF
        path.write_bytes(bytes(changed))
        try:
            model = unskew.load(path)
        except ModelFileError:
            continue
        # A byte that says nothing, a time stamp for example: then all is as it was.
        np.testing.assert_array_equal(model.weights_, weights)


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


def forge(path, change):
    """Change the schema and sign the result, as somebody who knows the format would."""

    def sign(members):
        members["schema.json"] = json.dumps(change(json.loads(members["schema.json"]))).encode()
        return members

    rewrite(path, sign)
    digest = model_file._digest(path.read_bytes())
    rewrite(
        path,
        lambda members: {
            **members,
            "unskew.json": json.dumps(json.loads(members["unskew.json"]) | {"sha256": digest}),
        },
    )


def text(value):
    return node("JsonNode", "builtins.str", content=json.dumps(value), is_json=True)


def node(loader, name, **rest):
    module, _, cls = name.rpartition(".")
    return {"__loader__": loader, "__module__": module, "__class__": cls, **rest}


def sequence(kind, *items):
    return node(f"{kind.title()}Node", f"builtins.{kind}", content=list(items))


def mapping(**items):
    keys = sequence("list", *(node("TypeNode", "builtins.str") for _ in items))
    return node("DictNode", "builtins.dict", content=items, key_types=keys)


# `canary` is a module on the path that writes a file when it is imported, and whose function does
# when it is called.
CALLABLES = [
    *("canary.run", "os.system", "os.popen", "subprocess.Popen", "builtins.eval", "builtins.exec"),
    *("builtins.open", "builtins.getattr", "importlib.import_module", "pickle.loads"),
    *("unskew.dask.on_block", "unskew._io._write.write_atomic", "unskew.cli.main"),
    *("unskew.import_module", "unskew._io._errors.need", "unskew.model_file.load"),
    *("unskew.dckm.DCKM.fit", "unskew.dask.DaskDCKM", "unskew._data.sources.ParquetReader"),
    *("sklearn.utils.fixes.parse_version", "sklearn.preprocessing.FunctionTransformer"),
    *("sklearn.preprocessing._function_transformer.FunctionTransformer", "numpy.load"),
    *("sklearn.datasets.fetch_openml", "numpy.memmap", "numpy.save", "numpy.vectorize"),
    *(
        "numpy.frompyfunc",
        "functools.partial",
        "pathlib.PosixPath",
        "builtins.type",
        "builtins.map",
    ),
    *("scipy.special._ufuncs.expit", "numpy.exp", "operator.methodcaller"),
]


def payloads(name, flag):
    """A call of `name` by every way in which skops restores something."""
    command = text(f"touch {flag}")
    arguments = sequence("tuple", command)
    cls = name.rpartition(".")[2]
    function = node("FunctionNode", name)
    yield function
    yield node("TypeNode", name)
    yield node("ObjectNode", name)
    yield node("ObjectNode", name, content=mapping(args=command))
    yield node("ConstructorFromReduceNode", name, content=arguments)
    yield node("TreeNode", name, content=mapping(), __reduce__={"args": arguments})
    yield node("LossNode", name, content=mapping(), __reduce__={"args": arguments})
    yield node("TupleNode", name, content=[command])
    yield node("ListNode", name, content=[command])
    yield node("SetNode", name, content=[command])
    yield node("DictNode", name, content={}, key_types=sequence("list"))
    yield node("NdArrayNode", name, type="json", content=[command], shape=text([1]))
    yield node("MethodNode", name, content={"func": cls, "obj": command})
    yield node("OperatorFuncNode", name, attrs=arguments)
    yield node(
        "RandomGeneratorNode", name, content={"bit_generator": text(cls), "seed_seq": command}
    )
    yield node("RandomStateNode", name, content=mapping(state=function))
    yield node(
        "PartialNode",
        "functools.partial",
        content={
            "func": function,
            "args": arguments,
            "kwds": mapping(),
            "namespace": mapping(),
        },
    )
    yield node(
        "DefaultDictNode",
        "collections.defaultdict",
        content={"main": mapping(), "default_factory": function},
    )
    yield node(
        "DictNode", "builtins.dict", content={"x": command}, key_types=sequence("list", function)
    )
    yield node("RandomStateNode", "numpy.random.mtrand.RandomState", content=function)
    yield node("ObjectNode", "unskew.dckm.DCKM", content=mapping(fit=function))
    yield node(
        "ObjectNode", "unskew.dckm.DCKM", content=mapping(fit=node("TypeNode", "builtins.str"))
    )


def places(schema, payload):
    """The schema with the payload in each place where a model has values."""
    attributes = schema["content"]["content"]
    encoder = attributes["encoder_"]["content"]["content"]
    for target, key in ((attributes, "status_"), (encoder, "kinds_"), (attributes, "__class__")):
        for value in (
            payload,
            sequence("list", payload),
            sequence("tuple", text(1), payload),
            mapping(x=payload),
            mapping(x=sequence("list", mapping(y=payload))),
            node("NdArrayNode", "numpy.ndarray", type="json", content=[payload], shape=text([1])),
        ):
            before = target.get(key)
            target[key] = value
            yield schema
            target[key] = before
            if before is None:
                del target[key]
    yield payload | {"protocol": schema["protocol"]}
    yield schema | {"content": payload}


@pytest.fixture
def canary(tmp_path, monkeypatch):
    flag = tmp_path / "executed"
    touch = f"import pathlib\npathlib.Path({str(flag)!r}).touch()\n"
    (tmp_path / "canary.py").write_text(f"{touch}def run(*a, **k):\n    {touch.splitlines()[1]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    return flag


@pytest.mark.parametrize("name", CALLABLES)
def test_a_file_that_asks_for_other_code_is_refused_and_executes_nothing(name, path, canary):
    def shorten(schema):
        attributes = schema["content"]["content"]
        for attribute in set(attributes) - {"status_", "encoder_"}:
            del attributes[attribute]
        return schema

    forge(path, shorten)
    schema = json.loads(members_of(path)["schema.json"])
    tried = 0
    for payload in payloads(name, canary):
        for forged in places(schema, payload):
            assert model_file._foreign_nodes(forged), payload
            tried += 1
    assert tried > 400
    whole = path.read_bytes()
    # Each callable is also loaded by a fifth of the ways, so that all ways are loaded.
    for payload in list(payloads(name, canary))[CALLABLES.index(name) % 5 :: 5]:
        forge(path, lambda schema, payload=payload: next(places(schema, payload)))
        with pytest.raises(
            ModelFileError, match=r"is not loaded: it contains .*, which is not part of a model"
        ):
            unskew.load(path)
        path.write_bytes(whole)
    assert not canary.exists()
    assert "canary" not in sys.modules


def test_types_are_checked_again_after_loading(path, monkeypatch):
    # What the check of the schema should have seen, had it missed it.
    monkeypatch.setattr(model_file, "_foreign_nodes", lambda schema: [])
    for payload, told in (
        (node("TypeNode", "builtins.str"), "builtins.type is not part of a model"),
        (node("SetNode", "builtins.set", content=[text(1)]), "builtins.set is not part of a model"),
        (node("FunctionNode", "numpy.exp"), "numpy.ufunc is not part of a model"),
    ):
        whole = path.read_bytes()
        forge(path, lambda schema, payload=payload: next(places(schema, payload)))
        with pytest.raises(ModelFileError, match=told):
            unskew.load(path)
        path.write_bytes(whole)


def test_a_random_state_out_of_range_is_refused(tmp_path):
    model = DCKM(2, n_init=1, random_state=np.random.RandomState(0)).fit(np.eye(6))
    path = unskew.save(model, tmp_path / "m.skops")

    def change(schema):
        state = schema["content"]["content"]["random_state"]["content"]["content"]["state"]
        state["content"]["pos"] = text(10**6)
        return schema

    forge(path, change)
    with pytest.raises(ModelFileError, match="random_state is out of range"):
        unskew.load(path)


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_zip(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)


def npy_header(**declared):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"fortran_order": False, "descr": "<f8"} | declared)
    return out.getvalue()


def link(name):
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, 0o120777 << 16
    return info


@pytest.mark.parametrize(
    ("extra", "rule"),
    [
        ([("a.npy", b"x"), ("a.npy", b"y")], "two members named 'a.npy'"),
        ([("../a.npy", b"x")], "'../a.npy' is not a relative path inside"),
        ([("a/../../a.npy", b"x")], "is not a relative path inside"),
        ([("/etc/passwd", b"x")], "'/etc/passwd' is not a relative path inside"),
        ([("C:\\a.npy", b"x")], "is not a relative path inside"),
        ([(link("a.npy"), b"/etc/passwd")], "'a.npy' is not a regular file"),
        ([("folder/", b"")], "'folder/' is not a regular file"),
        ([(f"{i}.npy", b"") for i in range(10_001)], r"10,0\d\d members; at most 10,000 are read"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_that_no_model_has_are_refused(path, extra, rule):
    members = members_of(path)
    write_zip(path, [*members.items(), *extra])
    with pytest.raises(ModelFileError, match=f"model.skops is not loaded: .*{rule}"):
        unskew.load(path)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (npy_header(shape=(10**12,)), r"declares 8,000,000,000,000 bytes .* but has 0"),
        (npy_header(shape=(2**62, 2**62)), "declares .* but has 0"),
        (npy_header(shape=(0,), descr="|O"), "Python objects"),
        (npy_header(shape=(10**9,), descr="|V0"), "has dtype"),
        (npy_header(shape=(1,), descr=[("a", "<f8")]) + bytes(8), "has dtype"),
        (pickle.dumps([1]), "not a .npy array"),
        (b"", "not a .npy array"),
    ],
)
def test_arrays_that_are_not_what_they_declare_are_refused(path, content, rule):
    members = members_of(path) | {"0.npy": content}
    write_zip(path, members.items())
    note = json.loads(members["unskew.json"]) | {"sha256": model_file._digest(path.read_bytes())}
    write_zip(path, (members | {"unskew.json": json.dumps(note)}).items())
    with pytest.raises(ModelFileError, match=f"its array '0.npy': it .*{rule}"):
        unskew.load(path)


def overlapping(path):
    """Two hundred entries of the directory that share the bytes of one member."""
    write_zip(path, [("0.npy", bytes(10**6))])
    content = path.read_bytes()
    at = content.index(b"PK\1\2")
    end = content.index(b"PK\5\6")
    entry = content[at:end]
    entries = b"".join(entry.replace(b"0.npy", f"{i:05d}".encode()) for i in range(200))
    tail = bytearray(content[end:])
    tail[8:12] = (200).to_bytes(2, "little") * 2
    tail[12:16] = len(entries).to_bytes(4, "little")
    path.write_bytes(content[:at] + entries + bytes(tail))


@pytest.mark.parametrize("kind", ["deflated", "nested", "overlapping", "directory", "schema"])
def test_bombs_are_refused_before_they_are_unpacked(kind, tmp_path):
    path = tmp_path / "bomb.skops"
    if kind == "deflated":
        write_zip(
            path, [("schema.json", bytes(10**8)), ("unskew.json", b"{}")], zipfile.ZIP_DEFLATED
        )
    elif kind == "nested":
        write_zip(path, [("schema.json", b"[" * 10**6), ("unskew.json", b"{" * 10**6)])
    elif kind == "overlapping":
        overlapping(path)
    elif kind == "directory":
        write_zip(path, ((str(i), b"") for i in range(60_000)))
    else:
        write_zip(path, [("schema.json", bytes(2**26 + 1)), ("unskew.json", b"{}")])
        rule = "schema.json has 67,108,865 bytes; at most 67,108,864 are read"
        with pytest.raises(ModelFileError, match=rule):
            unskew.load(path)
        return
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=r"bomb\.skops"):
            unskew.load(path)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_the_limit_can_be_raised(path):
    with pytest.raises(ModelFileError, match="more than max_bytes=1,000"):
        unskew.load(path, max_bytes=1000)
    assert unskew.load(path, max_bytes=10**6).status_


def test_what_is_not_a_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ModelFileError, match="should be a regular file"):
            unskew.load(name)


def test_a_file_of_another_format_says_why(path):
    def change(members):
        note = json.loads(members["unskew.json"]) | {"format": 99, "unskew": "7.0"}
        return {**members, "unskew.json": json.dumps(note).encode()}

    rewrite(path, change)
    with pytest.raises(ModelFileError, match=r"written by unskew 7.0 in format 99; this version"):
        unskew.load(path)


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match="model should be an estimator of unskew, not dict"):
        unskew.save({}, tmp_path / "m")
    with pytest.raises(ValueError, match="DCKM is not fitted"):
        unskew.save(DCKM(2), tmp_path / "m")
    assert os.listdir(tmp_path) == []
