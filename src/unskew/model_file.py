"""Model files: `save` and `load`, in the format of skops, without pickle.

Files from untrusted sources are treated as data and cannot execute code. `load` checks, in this
order and before any object is constructed: the size and type of the file; the members of the
archive; its checksum; each array header; and the schema, in which every node should be one of
`NODES`, an exact list of pairs (skops loader, class) without any function or method. The types of
the objects that skops constructed are checked once more before the model is returned.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import warnings
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ._io import ArchiveError, check_archive, check_npy, check_text, one_line, why
from ._restored import check_model

__all__ = ["ModelFileError", "load", "save"]

FORMAT = 4  # incremented with each incompatible change
NOTE, SCHEMA = "unskew.json", "schema.json"
# Larger files are refused. Members are stored uncompressed, so that the contents are never larger
# than the file; the schema has a separate limit, because it is parsed to Python objects.
MAX_BYTES = 2**32
MAX_SCHEMA_BYTES = 2**26

# Classes of fitted models and of their attributes. tests/test_model_file.py saves models of every
# estimator and checks that this list contains exactly the classes they need.
ESTIMATORS = frozenset(
    {
        "unskew._preprocessing.table_encoder.TableEncoder",
        "unskew.baselines._feature_space.DropKMeans",
        "unskew.baselines._feature_space.PCAKMeans",
        "unskew.baselines._feature_space.PlainKMeans",
        "unskew.baselines._feature_space.SelectKMeans",
        "unskew.baselines._adjusted.DecorrelatedKMeans",
        "unskew.baselines._adjusted.RegressOutKMeans",
        "unskew.consensus._estimator.ConsensusDCKM",
        "unskew.corrector.SuspectCorrector",
        "unskew.dckm.DCKM",
        "unskew.feature_selection._fsasl.FSASL",
        "unskew.feature_selection._refs.REFS",
        "unskew.feature_selection._rufs.RUFS",
        "unskew.feature_selection._selector.LaplacianScore",
        "unskew.feature_selection._selector.VarianceSelector",
        "unskew.mixture._estimator.SelectionMixture",
        "unskew.weights.DecorrelationWeights",
    }
)
PARTS = frozenset(
    {
        "sklearn.decomposition._pca.PCA",
        "unskew._balance.treatments.Effects",
        "unskew._balance.treatments.Pairs",
        "unskew._balance.treatments.Treatments",
        "unskew._kmeans.Distance",
        "unskew._kmeans.RowScaling",
        "unskew._preprocessing.table_encoder.Recipe",
        "unskew._solver.cells.CellCoding",
        "unskew._weight_model.BlockGradient",
        "unskew._weight_model.DualWeightModel",
        "unskew._weight_model.WeightModel",
        "unskew.consensus._estimator.ConsensusRun",
        "unskew.consensus._model_selection.Choice",
        "unskew.consensus._model_selection.SelectionCandidate",
        "unskew.mixture._columns.ColumnModel",
        "unskew.mixture._suspects.Combinations",
        "unskew.mixture._suspects.Suspect",
        "unskew._mixture.discrete.BernoulliBlock",
        "unskew._mixture.discrete.CategoricalBlock",
        "unskew._mixture.em.Mixture",
        "unskew._mixture.gaussian.GaussianBlock",
    }
)
NAMED_TUPLES = frozenset(
    {
        "unskew._balance.primal.GradientCoefs",
        "unskew.consensus._voting.Votes",
        "unskew._mixture.em.Choice",
        "unskew.model_file.Items",
    }
)
SCALARS = frozenset(
    f"numpy.{name}"
    for name in ("bool", "bool_", "float16", "float32", "float64")
    + tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
)
NODES = frozenset(
    {("ObjectNode", name) for name in ESTIMATORS | PARTS}
    | {("TupleNode", name) for name in NAMED_TUPLES | {"builtins.tuple"}}
    | {("NdArrayNode", name) for name in SCALARS | {"numpy.ndarray"}}
    | {
        ("DictNode", "builtins.dict"),
        ("JsonNode", "builtins.str"),
        ("ListNode", "builtins.list"),
        ("RandomStateNode", "numpy.random.mtrand.RandomState"),
        ("TypeNode", "builtins.str"),  # the type of the keys of a dict
    }
)
ARRAY_KINDS = "biufU"
MT19937_WORDS = 624


class ModelFileError(ValueError):
    """The file is not a complete, unmodified model of this package."""


class Items(NamedTuple):
    """A dict whose keys are not all strings, as the keys of a schema should be."""

    keys: list
    values: list


def save(model: BaseEstimator, path: Any) -> Path:
    """Save a fitted model to a file that `load` reads.

    A temporary file is written and renamed, so that a crash leaves an existing file intact.

    Parameters
    ----------
    model : a fitted estimator of unskew
    path : str or Path
        By convention ``name.skops``.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, unskew
    >>> model = unskew.DCKM(2, n_init=1, random_state=0).fit(np.eye(4)[[0, 0, 1, 1, 2]])
    >>> path = unskew.save(model, pathlib.Path(tempfile.mkdtemp()) / "model.skops")
    >>> bool((unskew.load(path).labels_ == model.labels_).all())
    True
    """
    from . import __version__
    from ._io import write_atomic

    sio = _skops()
    if _class_name(type(model)) not in ESTIMATORS:
        local = "; save model.to_local()" if hasattr(model, "to_local") else ""
        raise TypeError(
            f"model should be an estimator of unskew, not {type(model).__name__}{local}"
        )
    if not any(name.endswith("_") and not name.startswith("_") for name in vars(model)):
        raise ValueError(f"{type(model).__name__} is not fitted; model should be fitted")
    body = sio.dumps(_with_text_keys(model))
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        schema = json.loads(archive.read(SCHEMA))
    if foreign := _foreign_nodes(schema):
        raise ModelFileError(
            f"{type(model).__name__} contains {', '.join(foreign)}, which a model file cannot "
            "store; parameters should be numbers, strings and arrays"
        )
    note = {
        "format": FORMAT,
        "unskew": __version__,
        "model": type(model).__name__,
        "sha256": _digest(body),
    }
    out = io.BytesIO(body)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr(NOTE, json.dumps(note))
    write_atomic(path, out.getvalue())
    return Path(path)


def load(path: Any, *, max_bytes: int = MAX_BYTES) -> Any:
    """Read a model that `save` wrote.

    A file that is not a model, is incomplete, or was modified after it was written raises
    `ModelFileError`, which names the file and the rule. No code in a file is executed, whatever its
    source: only the classes of fitted models are restored, and no functions. (The checksum in the
    file detects damage and accidental edits. An attacker who also rewrites the checksum can change
    numbers, but cannot execute code.)

    Parameters
    ----------
    path : str or Path
    max_bytes : int, default=4 GiB
        Larger files are refused before they are read.

    Returns
    -------
    The fitted model.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import unskew
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> model = unskew.DCKM(2, n_init=1, random_state=0).fit(X)
    >>> path = unskew.save(model, tempfile.mkdtemp() + "/model.skops")
    >>> bool((unskew.load(path).labels_ == model.labels_).all())
    True
    """
    sio = _skops()
    content = _read(path, max_bytes)
    try:
        note = _check_content(content, path, max_bytes)
        model = sio.loads(content, trusted=sorted(_NAMES))
        _check_types(model)
    except ModelFileError:
        raise
    except ArchiveError as error:
        raise ModelFileError(f"{path} is not loaded: {error}") from error
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ModelFileError(f"{path} is not a complete model file: {error}") from error
    except Exception as error:  # skops and numpy raise various types for a damaged file
        reason = f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{path} cannot be read as a model: {reason}") from error
    if _class_name(type(model)) not in ESTIMATORS or type(model).__name__ != note.get("model"):
        raise ModelFileError(f"{path} contains {type(model).__name__}, not {note.get('model')}")
    _check_values(_with_own_keys(model), path)
    return model


def _check_values(model: Any, path: Any) -> None:
    """Check the shapes and ranges of what the fit learned."""
    own = getattr(model, "_check_restored", None)  # of mixtures and correctors
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_model(model) if own is None else own()
    except Exception as error:
        reason = one_line(error)
        raise ModelFileError(f"{path} is not loaded: {reason}") from error


def _skops() -> Any:
    try:
        import skops.io as sio
    except ImportError as error:
        raise ImportError("model files need skops: pip install 'unskew[io]'") from error
    return sio


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


# -------------------------------------------------------------------- checks before construction


def _read(path: Any, max_bytes: int) -> bytes:
    """Content of a regular file of at most `max_bytes`, read once, so that the checks apply to the
    bytes that are loaded."""
    try:
        kind = os.stat(path).st_mode
        if stat.S_ISDIR(kind):
            raise ModelFileError(f"{path} is a folder, not a model file")
        if not stat.S_ISREG(kind):
            raise ModelFileError(f"{path} should be a regular file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(size + 1) if size <= max_bytes else b""
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {why(error)}") from error
    if len(content) > size:
        raise ModelFileError(f"{path} changed while it was read")
    if size > max_bytes:
        raise ModelFileError(
            f"{path} has {size:,} bytes, more than max_bytes={max_bytes:,}; increase max_bytes to "
            "load it"
        )
    return content


def _check_content(content: bytes, path: Any, max_bytes: int) -> dict:
    """The note, after all checks that do not construct objects."""
    members = check_archive(io.BytesIO(content), max_bytes=max_bytes, stored=True)
    names = {member.filename for member in members}
    if not {NOTE, SCHEMA} <= names:
        raise ModelFileError(f"{path} is a zip file but not a model of unskew")
    sizes = {member.filename: member.file_size for member in members}
    for name in (NOTE, SCHEMA):
        if sizes[name] > MAX_SCHEMA_BYTES:
            raise ModelFileError(
                f"{path}: {name} has {sizes[name]:,} bytes; at most {MAX_SCHEMA_BYTES:,} are read"
            )
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        note = json.loads(archive.read(NOTE))
        if not isinstance(note, dict):
            raise ModelFileError(f"{path}: {NOTE} should be an object, not {note!r:.60}")
        if note.get("format") != FORMAT:
            raise ModelFileError(
                f"{path} was written by unskew {note.get('unskew', 'unknown')} in format "
                f"{note.get('format')!r}; this version reads format {FORMAT}. Fit again, or load "
                "it with that version"
            )
        if note.get("sha256") != _digest(content):  # reads, and so checks, every member
            raise ModelFileError(f"{path} was changed after it was written: its checksum differs")
        for name in sorted(names - {NOTE, SCHEMA}):
            if not name.endswith(".npy"):
                raise ModelFileError(f"{path} is not loaded: its member {name!r} is not an array")
            with archive.open(name) as array:
                _check_array(array, name, sizes[name], path)
        schema = json.loads(archive.read(SCHEMA))
    if not isinstance(schema, dict):
        raise ModelFileError(f"{path}: {SCHEMA} should be an object, not {schema!r:.60}")
    if foreign := _foreign_nodes(schema):
        raise ModelFileError(
            f"{path} is not loaded: it contains {', '.join(foreign)}, which is not part of a model"
        )
    return note


def _check_array(file: Any, name: str, size: int, path: Any) -> None:
    try:
        check_npy(file, size, kinds=ARRAY_KINDS, structured=False)
    except ArchiveError as error:
        raise ModelFileError(f"{path} is not loaded: its array {name!r}: {error}") from error


def _foreign_nodes(schema: Any) -> list[str]:
    """Nodes of a schema that are not in `NODES`, or not in a position where models have them.

    Every JSON object with one of the keys by which skops recognises a node is treated as a node,
    so that no node can be reached without being checked.
    """
    foreign: set[str] = set()
    queue: list[tuple[Any, bool]] = [(schema, False)]
    while queue:
        value, in_key_types = queue.pop()
        if isinstance(value, list):
            queue.extend((item, in_key_types) for item in value)
        if not isinstance(value, dict):
            continue
        if not {"__loader__", "__class__", "__module__"}.isdisjoint(value):
            loader = value.get("__loader__")
            name = f"{value.get('__module__')}.{value.get('__class__')}"
            known = isinstance(loader, str) and (loader, name) in NODES
            if not known or (loader == "TypeNode" and not in_key_types):
                foreign.add(f"{name} ({loader})" if known or name in _NAMES else name)
        queue.extend((item, in_key_types or key == "key_types") for key, item in value.items())
    return sorted(foreign)


_NAMES = frozenset(name for _, name in NODES)


def _digest(content: bytes) -> str:
    """SHA-256 of all members but the note, with their names, in sorted order."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in sorted(set(archive.namelist()) - {NOTE}):
            digest.update(name.encode())
            digest.update(archive.read(name))
    return digest.hexdigest()


# --------------------------------------------------------------------- checks after construction

_PLAIN = frozenset({type(None), bool, int, float, str})


def _check_types(model: Any) -> None:
    """Check the exact types of all objects of a restored model without calling its methods."""
    seen: set[int] = set()
    queue = [model]
    while queue:
        value = queue.pop()
        kind = type(value)
        if kind in _PLAIN or id(value) in seen:
            continue
        seen.add(id(value))
        name = _class_name(kind)
        if kind is dict:
            queue.extend([*value.keys(), *value.values()])
        elif kind in (list, tuple) or name in NAMED_TUPLES:
            queue.extend(value)
        elif kind is np.ndarray:
            if value.dtype.kind == "O":
                queue.extend(value.ravel().tolist())
            elif value.dtype.kind not in ARRAY_KINDS:
                raise ArchiveError(f"an array of type {value.dtype} is not part of a model")
            elif value.dtype.kind == "U":
                check_text(value)
        elif kind is np.random.RandomState:
            # numpy reads its state array at this position without a bounds check.
            if not 0 <= value.get_state(legacy=False)["state"]["pos"] <= MT19937_WORDS:
                raise ArchiveError("the state of its random_state is out of range")
        elif name in ESTIMATORS | PARTS:
            queue.extend(object.__getattribute__(value, "__dict__").values())
        elif not (isinstance(value, np.generic) and value.dtype.kind in ARRAY_KINDS):
            raise ArchiveError(f"{name} is not part of a model")


def _with_text_keys(value: Any) -> Any:
    """A copy in which dicts with keys other than strings are replaced by `Items`, memory maps by
    arrays and paths by strings."""
    if _class_name(type(value)) in ESTIMATORS | PARTS:
        copy = object.__new__(type(value))
        vars(copy).update({name: _with_text_keys(own) for name, own in vars(value).items()})
        return copy
    if type(value) is dict:
        values = [_with_text_keys(item) for item in value.values()]
        if all(type(key) is str for key in value):
            return dict(zip(value, values))
        return Items([_with_text_keys(key) for key in value], values)
    if type(value) in (list, tuple):
        return type(value)(_with_text_keys(item) for item in value)
    if isinstance(value, np.memmap):
        return np.asarray(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _with_own_keys(value: Any) -> Any:
    """The inverse of `_with_text_keys`; objects are changed in place."""
    if _class_name(type(value)) in ESTIMATORS | PARTS:
        vars(value).update({name: _with_own_keys(own) for name, own in vars(value).items()})
    if type(value) is Items:
        keys = [_with_own_keys(key) for key in value.keys]
        return dict(zip(keys, (_with_own_keys(item) for item in value.values)))
    if type(value) is dict:
        return {key: _with_own_keys(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_with_own_keys(item) for item in value)
    return value
