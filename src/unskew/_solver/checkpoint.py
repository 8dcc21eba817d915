"""Checkpoints: the state of a long fit on disk, written atomically and restored bit by bit.

One ``.npz`` without Python objects (nothing in it is executed): arrays by name, and ``facts``, all
other values, as JSON, which round-trips floats exactly.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._compat import FIT_STACKLEVEL
from .._io import FileError, check_npz, check_output, one_line, write_atomic
from .._progress import emit
from .snapshot import CheckpointError, Snapshot, check_snapshot

FORMAT = "unskew checkpoint 4"
# Parameters that do not change the result: a fit may be resumed with other values.
NEUTRAL_PARAMETERS = (
    *("checkpoint", "checkpoint_seconds", "resume", "n_threads", "verbose"),
    *("client", "persist", "output_dir"),
)
# Exceptions that reading a damaged file, or one that is no checkpoint, may raise.
DAMAGED = (
    *(OSError, ValueError, KeyError, AttributeError, TypeError, EOFError, MemoryError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error, struct.error),
)
# Number of rows whose values are part of the fingerprint, evenly spaced.
FINGERPRINT_ROWS = 64


# Called where a fit can be resumed, with a function that returns its state.
SaveHook = Callable[[Callable[[], Snapshot]], None]


def nested(save: SaveHook | None, around: Callable[[], Snapshot]) -> SaveHook | None:
    """Save hook for an inner loop: its state is merged with the state of the outer loop."""
    if save is None:
        return None

    def inside(where: Callable[[], Snapshot]) -> None:
        def both() -> Snapshot:
            outer, inner = around(), where()
            return Snapshot({**outer.arrays, **inner.arrays}, {**outer.facts, **inner.facts})

        save(both)

    return inside


class Checkpoint:
    """Checkpoint file of one fit.

    path      path of the file
    identity  data and parameters of the fit: a checkpoint with another identity is an error
    seconds   minimum time between two writes; 0 writes at every opportunity
    """

    def __init__(self, path: str | os.PathLike, identity: dict[str, str], seconds: float):
        self.path, self.identity, self.seconds = Path(path), identity, float(seconds)
        check_output(self.path)
        self._last = time.monotonic()
        self._own = False  # whether the existing file may be overwritten and removed by this fit

    def save_if_due(self, where: Callable[[], Snapshot]) -> None:
        """Write the state of the fit, if enough time has passed since the last write."""
        if time.monotonic() - self._last >= self.seconds:
            self.write(where())

    def write(self, snapshot: Snapshot) -> None:
        header = {"identity": self.identity, "arrays": sorted(snapshot.arrays)}
        facts = {"format": FORMAT, **header, "facts": snapshot.facts}
        facts["digest"] = digest_of(snapshot)
        text = np.frombuffer(json.dumps(facts).encode("utf-8"), dtype=np.uint8)
        content: dict[str, Any] = {"__facts__": text, **snapshot.arrays}

        def save(path: Path) -> None:
            with open(path, "wb") as file:
                np.savez(file, **content)

        try:
            write_atomic(self.path, save)
        except (FileError, OSError) as error:
            # The fit is worth more than its checkpoint, and the disk may have space again later.
            warnings.warn(
                f"the checkpoint was not saved, and the fit continues: {error}",
                UserWarning,
                stacklevel=FIT_STACKLEVEL,
            )
        else:
            self._own = True
        self._last = time.monotonic()

    def read(self, resume: bool = True) -> Snapshot | None:
        """The saved state, None where there is no file. Raises if the file is of another fit, and,
        also with ``resume=False``, which overwrites it, if it is not a checkpoint."""
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                check_npz(file, max_bytes=size, stored=True)
                with np.load(file, allow_pickle=False) as stored:
                    header = json.loads(bytes(stored["__facts__"]).decode("utf-8"))
                    arrays = {name: stored[name] for name in stored.files if name != "__facts__"}
            ok = header.get("format") == FORMAT
            found = Snapshot(arrays, header.get("facts"))
            whole = isinstance(header.get("identity"), dict) and isinstance(found.facts, dict)
            whole = whole and header.get("digest") == digest_of(found)
        except DAMAGED as error:
            raise CheckpointError(
                f"{self.path}: is not a checkpoint of unskew, or is damaged "
                f"({one_line(error)}); remove it or use another path"
            ) from error
        if not ok:
            raise CheckpointError(
                f"{self.path}: is not a checkpoint of this version of unskew; remove it"
            )
        self._own = True
        if not resume:
            return None
        if not whole:
            raise CheckpointError(f"{self.path}: is damaged; remove it or use another path")
        before = header["identity"]
        for name in dict.fromkeys([*self.identity, *before]):
            was, now = before.get(name), self.identity.get(name)
            if was != now:
                shown = (
                    f"of other {name}"
                    if name in ("rows", "sample_weight", "encoding")
                    else f"of a fit with {name}={was}, this one has {name}={now}"
                )
                raise CheckpointError(
                    f"{self.path}: is the checkpoint {shown}; remove it or use another path "
                    "(resume=False overwrites it)"
                )
        return found

    def remove(self) -> None:
        if self._own:
            self.path.unlink(missing_ok=True)


def digest_of(snapshot: Snapshot) -> str:
    """Digest of a snapshot: a changed value is refused, not continued to another result."""
    arrays = [part for name in sorted(snapshot.arrays) for part in (name, snapshot.arrays[name])]
    return digest(json.dumps(snapshot.facts, sort_keys=True), *arrays)


def digest(*parts: Any) -> str:
    """Hash of arrays and other values."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.shape}{part.dtype}".encode())
            part = np.atleast_1d(part)
            for start in range(0, len(part), 2**20):
                found.update(np.ascontiguousarray(part[start : start + 2**20]).tobytes())
        else:
            found.update(repr(part).encode())
    return found.hexdigest()


def identity_of(model: Any, design: Any) -> dict[str, str]:
    """Identity of a fit: its class and parameters, the rows (their number and type, ranges, means
    and standard deviations of all columns, and a few whole rows), the design weights."""
    rows, columns = design.rows, design.stats
    subset = np.unique(np.linspace(0, rows.n - 1, FINGERPRINT_ROWS).astype(np.int64))
    identity = {
        "class": type(model).__name__,
        "sample_weight": digest(design.a) if design.a.strides != (0,) else "1",
        "rows": digest(
            (rows.n, rows.d, str(rows.dtype), bool(rows.sparse)),
            *(columns.low, columns.high, columns.mean, columns.sd),
            rows.take(subset),
        ),
        "encoding": digest(design.column_map.names, design.column_map.source),
    }
    for name, value in model.get_params(deep=False).items():
        if name in NEUTRAL_PARAMETERS:
            continue
        if name == "random_state" and not isinstance(value, (int, np.integer)):
            continue  # the drawn seeds are part of the checkpoint
        shown = repr(value) if not isinstance(value, np.ndarray) else f"array {digest(value)}"
        identity[name] = shown if len(shown) < 200 else f"{shown[:60]}... {digest(shown)}"
    return identity


def open_checkpoint(model: Any, design: Any, seeds: np.ndarray) -> tuple:
    """The checkpoint of this fit, its saved state, and the seeds to use."""
    if model.checkpoint is None:
        return None, None, seeds
    identity = identity_of(model, design)
    checkpoint = Checkpoint(model.checkpoint, identity, model.checkpoint_seconds)
    before = checkpoint.read(model.resume)
    if before is None:
        return checkpoint, None, seeds
    check_snapshot(before, model, design, seeds.size)
    kept = np.array(before.facts["seeds"], dtype=seeds.dtype)
    if getattr(model, "random_state", None) is not None and not np.array_equal(kept, seeds):
        raise CheckpointError(
            f"{model.checkpoint}: is the checkpoint of a fit with another random_state; remove it "
            "or use another path (resume=False overwrites it)"
        )
    emit("message", status=f"continued from the checkpoint {model.checkpoint}")
    return checkpoint, before, kept
