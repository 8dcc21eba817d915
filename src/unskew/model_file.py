"""Models on disk: ``save`` and ``load``, with skops. No pickle, nothing in a file is executed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

__all__ = ["ModelFileError", "load", "save"]

# Raised with each change that older code could not read; older numbers that are still read.
FORMAT = 3
READABLE = (2, 3)
NOTE = "unskew.json"
# A model is numbers and short texts: whatever else a file asks for is refused.
OWN = "unskew."


class ModelFileError(ValueError):
    """A file that is not a whole, unchanged model of this package."""


def save(model: BaseEstimator, path: Any) -> Path:
    """Write a fitted model to a file that `load` reads, here or elsewhere.

    The file is written under another name and renamed, so that a crash leaves an old file whole.

    Parameters
    ----------
    model : a fitted estimator of unskew
    path : str or Path
        By custom ``something.skops``.

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
    if not (isinstance(model, BaseEstimator) and type(model).__module__.startswith(OWN)):
        raise TypeError(f"save takes an estimator of unskew, not {type(model).__name__}")
    if not any(name.endswith("_") and not name.startswith("_") for name in vars(model)):
        raise ValueError(f"{type(model).__name__} is not fitted; there is nothing to save yet")
    body = sio.dumps(model)
    foreign = _foreign(sio, body, path)
    if foreign:
        raise ModelFileError(
            f"{type(model).__name__} holds {', '.join(foreign)}, which a model file cannot; "
            "parameters should be plain numbers, texts and arrays"
        )
    note = {
        "format": FORMAT,
        "unskew": __version__,
        "model": type(model).__name__,
        "sha256": _digest(body),
    }
    out = io.BytesIO(body)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(NOTE, json.dumps(note))
    write_atomic(path, out.getvalue())
    return Path(path)


def load(path: Any) -> Any:
    """Read a model that `save` wrote.

    A file that is no model, or not a whole one, or was changed after it was written, raises
    `ModelFileError`, and nothing in it is executed. (The checksum inside guards against damage and
    careless edits; whoever rewrites it too can give you other numbers, but not other code.)

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    The fitted model.
    """
    sio = _skops()
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist")
    if os.path.isdir(path):
        raise ModelFileError(f"{path} is a folder, not a model file")
    content = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if NOTE not in archive.namelist():
                raise ModelFileError(f"{path} is a zip file but not a model of unskew")
            note = json.loads(archive.read(NOTE))
            damaged = archive.testzip()
    except (zipfile.BadZipFile, json.JSONDecodeError, OSError, EOFError, RuntimeError) as error:
        raise ModelFileError(f"{path} is not a whole model file: {error}") from error
    if damaged:
        raise ModelFileError(f"{path} is damaged: {damaged} does not match its checksum")
    if not isinstance(note, dict) or note.get("format") not in READABLE:
        written = note.get("unskew", "unknown") if isinstance(note, dict) else "unknown"
        has = note.get("format") if isinstance(note, dict) else None
        raise ModelFileError(
            f"{path} was written by unskew {written} in format {has!r}; this version reads "
            f"{', '.join(map(str, READABLE))}. Fit again, or load it with that version"
        )
    if note.get("sha256") != _digest(content):
        raise ModelFileError(f"{path} was changed after it was written: its checksum differs")
    foreign = _foreign(sio, content, path)
    if foreign:
        raise ModelFileError(
            f"{path} asks for {', '.join(foreign)}, which no model of unskew contains; not loaded"
        )
    try:
        model = sio.loads(content, trusted=_asked_for(sio, content, path))
    except Exception as error:  # whatever skops meets in a file that passed the checks
        raise ModelFileError(f"{path} cannot be read as a model: {error}") from error
    if not isinstance(model, BaseEstimator) or type(model).__name__ != note.get("model"):
        raise ModelFileError(f"{path} holds {type(model).__name__}, not {note.get('model')}")
    return model


def _skops():
    try:
        import skops.io as sio
    except ImportError as error:
        raise ImportError("model files need skops: pip install 'unskew[io]'") from error
    return sio


def _digest(content: bytes) -> str:
    """Of all members but the note, with their names, in order."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in sorted(set(archive.namelist()) - {NOTE}):
            digest.update(name.encode())
            digest.update(archive.read(name))
    return digest.hexdigest()


def _asked_for(sio: Any, content: bytes, path: Any) -> list[str]:
    """Types in the file that skops does not trust by itself."""
    try:
        return sio.get_untrusted_types(data=content)
    except Exception as error:
        raise ModelFileError(f"{path} is not a model file that skops can read: {error}") from error


def _foreign(sio: Any, content: bytes, path: Any) -> list[str]:
    return [name for name in _asked_for(sio, content, path) if not name.startswith(OWN)]
