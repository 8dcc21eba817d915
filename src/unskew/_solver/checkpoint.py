"""Where a long fit stands, on disk: written aside and renamed, read back to the last bit.

One ``.npz`` without objects (nothing in it is ever executed): arrays by name, and ``facts``, the
rest, as JSON, whose floats come back exactly.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._io import check_npz, check_output, one_line, write_atomic
from .._kmeans import Clusters
from .._progress import emit

FORMAT = "unskew checkpoint 3"
# Settings that do not change the answer: a fit may go on with others.
NEUTRAL_PARAMETERS = (
    *("checkpoint", "checkpoint_seconds", "resume", "n_threads", "verbose"),
    *("client", "persist"),
)
# What reading a file that is no checkpoint, or half of one, may raise.
DAMAGED = (
    *(OSError, ValueError, KeyError, AttributeError, TypeError, EOFError, MemoryError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error, struct.error),
)
# Rows whose values are part of the fingerprint, spread over the data.
FINGERPRINT_ROWS = 64


class CheckpointError(ValueError):
    """A checkpoint that does not belong to this fit, or is none; the message says why."""


class Snapshot(NamedTuple):
    """Where a fit stands: all that the loop needs to go on from there, to the last bit.

    arrays and facts (numbers, words, lists of them), each by name.
    """

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]


# Called at places from which a fit can go on, with a function that says where it stands.
SaveHook = Callable[[Callable[[], Snapshot]], None]


def nested(save: SaveHook | None, around: Callable[[], Snapshot]) -> SaveHook | None:
    """A keeper for an inner loop: what it says is joined to where the outer loop stands."""
    if save is None:
        return None

    def inside(where: Callable[[], Snapshot]) -> None:
        def both() -> Snapshot:
            outer, inner = around(), where()
            return Snapshot({**outer.arrays, **inner.arrays}, {**outer.facts, **inner.facts})

        save(both)

    return inside


class Checkpoint:
    """The file of one fit.

    path      where
    identity  what the fit is of, by name: a checkpoint with another identity is refused
    seconds   at least so long between two writes; 0 writes at every chance
    """

    def __init__(self, path: str | os.PathLike, identity: dict[str, str], seconds: float):
        self.path, self.identity, self.seconds = Path(path), identity, float(seconds)
        check_output(self.path)
        self._last = time.monotonic()
        self._own = False  # whether the file there is this fit's

    def save_if_due(self, where: Callable[[], Snapshot]) -> None:
        """Write where the fit stands, if it is time to."""
        if time.monotonic() - self._last >= self.seconds:
            self.write(where())

    def write(self, snapshot: Snapshot) -> None:
        header = {"identity": self.identity, "arrays": sorted(snapshot.arrays)}
        facts = {"format": FORMAT, **header, "facts": snapshot.facts}
        text = np.frombuffer(json.dumps(facts).encode("utf-8"), dtype=np.uint8)
        content: dict[str, Any] = {"__facts__": text, **snapshot.arrays}

        def save(path: Path) -> None:
            with open(path, "wb") as file:
                np.savez(file, **content)

        write_atomic(self.path, save)
        self._last, self._own = time.monotonic(), True

    def read(self, resume: bool = True) -> Snapshot | None:
        """Where the fit stood, None where there is no file. Refuses what is not of this fit, and
        what is no checkpoint also where the fit is to start anew, which will overwrite it."""
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
            whole = sorted(arrays) == header.get("arrays", sorted(arrays))
        except DAMAGED as error:
            raise CheckpointError(
                f"{self.path}: is not a checkpoint of unskew, or is damaged "
                f"({one_line(error)}); remove it or name another"
            ) from error
        if not ok:
            raise CheckpointError(
                f"{self.path}: is not a checkpoint of this version of unskew; remove it"
            )
        self._own = True
        if not resume:
            return None
        if not whole:
            raise CheckpointError(f"{self.path}: is damaged; remove it or name another")
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
                    f"{self.path}: is the checkpoint {shown}; remove it or name another "
                    "(resume=False starts anew)"
                )
        return Snapshot(arrays, header["facts"])

    def remove(self) -> None:
        if self._own:
            self.path.unlink(missing_ok=True)


def digest(*parts: Any) -> str:
    """A short name for arrays and texts; other values, another name."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.shape}{part.dtype}".encode())
            for start in range(0, len(part), 2**20) if part.ndim else ():
                found.update(np.ascontiguousarray(part[start : start + 2**20]).tobytes())
        else:
            found.update(repr(part).encode())
    return found.hexdigest()


def identity_of(model: Any, design: Any) -> dict[str, str]:
    """What a fit is of: its class and settings, the rows (their number, type, ranges, means and
    spreads of all columns, and some rows as they are), the design weights."""
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
            continue  # the seeds that were drawn are part of what is kept
        shown = repr(value) if not isinstance(value, np.ndarray) else f"array {digest(value)}"
        identity[name] = shown if len(shown) < 200 else f"{shown[:60]}... {digest(shown)}"
    return identity


def open_checkpoint(model: Any, design: Any, seeds: np.ndarray) -> tuple:
    """The checkpoint of this fit, where it says the fit stood, and the seeds to use."""
    if model.checkpoint is None:
        return None, None, seeds
    identity = identity_of(model, design)
    checkpoint = Checkpoint(model.checkpoint, identity, model.checkpoint_seconds)
    before = checkpoint.read(model.resume)
    if before is None:
        return checkpoint, None, seeds
    kept = np.array(before.facts["seeds"], dtype=seeds.dtype)
    if getattr(model, "random_state", None) is not None and not np.array_equal(kept, seeds):
        raise CheckpointError(
            f"{model.checkpoint}: is the checkpoint of a fit with another random_state; remove it "
            "or name another (resume=False starts anew)"
        )
    emit("message", status=f"continued from the checkpoint {model.checkpoint}")
    return checkpoint, before, kept


def pack_solution(name: str, solution: Any) -> Snapshot:
    """A solution of the solver under a name; ``unpack_solution`` gives back its fields."""
    arrays = {f"{name} w": solution.w}
    arrays |= {f"{name} {k}": v for k, v in solution.clusters._asdict().items()}
    arrays |= {f"{name} history {k}": v for k, v in solution.history.items()}
    facts = {field: getattr(solution, field) for field in ("objective", "n_iter", "status")}
    return Snapshot(arrays, {name: facts})


def unpack_solution(snapshot: Snapshot, name: str) -> dict[str, Any]:
    arrays, facts = snapshot
    before = f"{name} history "
    history = {k.removeprefix(before): v for k, v in arrays.items() if k.startswith(before)}
    clusters = Clusters(*(arrays[f"{name} {field}"] for field in Clusters._fields))
    return {"w": arrays[f"{name} w"], "clusters": clusters, "history": history, **facts[name]}


def pack_best(best: Any, seeds: np.ndarray, restart: int, begun: bool) -> Snapshot:
    """Which start is next or under way, and the best solution of those before it."""
    arrays, facts = ({}, {"best": None}) if best is None else pack_solution("best", best)
    return Snapshot(arrays, {"seeds": seeds.tolist(), "restart": restart, "begun": begun, **facts})


def unpack_best(snapshot: Snapshot) -> dict[str, Any] | None:
    """The fields of that solution, None where no start has ended."""
    return None if snapshot.facts["best"] is None else unpack_solution(snapshot, "best")
