"""Progress of long computations, as events.

A computation reports its progress with `emit`; `on_progress` registers a function that receives the
events: the progress bar of the command line, the log of ``verbose``, or a function of the user.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

logger = logging.getLogger("unskew")


class ProgressEvent(NamedTuple):
    """One step of a computation.

    phase    what is counted: "restart", "iteration", "initialization", "run", "candidate",
             "candidate with common shares", "method", "column", "baseline", "half"; or "message"
    done     how many are done; 0 announces the phase
    total    of how many; None where that is not known
    numbers  what was computed, by name: the objective and its terms, a silhouette, ...
    status   how the step ended, which candidate it was, or the text of a message
    depth    nesting: 0 for the outermost phase
    """

    phase: str
    done: int
    total: int | None
    numbers: dict[str, float]
    status: str
    depth: int

    def __str__(self) -> str:
        if self.phase == "message":
            return self.status
        text = self.details()
        return self.step + (f": {text}" if text else "")

    @property
    def step(self) -> str:
        """The phase and the count: restart 1 of 10."""
        return f"{self.phase} {self.done}" + ("" if self.total is None else f" of {self.total}")

    def details(self, form: str = ".6g", most: int | None = None) -> str:
        """The first `most` numbers that are not 0, those from 1,000 with one decimal, and the
        status."""
        numbers = [
            f"{name} {value}"
            if isinstance(value, int)
            else f"{name} {value:{form if abs(value) < 1000 else ',.1f'}}"
            for name, value in self.numbers.items()
            if value
        ]
        return ", ".join([*numbers[:most], *([self.status] if self.status else [])])


Listener = Callable[[ProgressEvent], None]
_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("unskew progress listeners", default=())
_depth: ContextVar[int] = ContextVar("unskew progress depth", default=0)


@contextmanager
def on_progress(listener: Listener) -> Iterator[None]:
    """Call `listener(event)` for every event of the computations inside the ``with`` block.

    Parameters
    ----------
    listener : callable
        Receives a `ProgressEvent`: ``phase``, ``done``, ``total``, ``numbers``, ``status``,
        ``depth``.

    Examples
    --------
    >>> import unskew
    >>> from unskew.simulate import make_site_footprint
    >>> X, events = make_site_footprint(100, random_state=0).X, []
    >>> with unskew.on_progress(events.append):
    ...     model = unskew.DCKM(2, n_init=3, random_state=0).fit(X)
    >>> [(e.done, e.total) for e in events if e.phase == "restart"]
    [(0, 3), (1, 3), (2, 3), (3, 3)]
    """
    if not callable(listener):
        raise TypeError(f"listener={listener!r} should be a function of one event")
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


@contextmanager
def nested_progress() -> Iterator[None]:
    """Events inside belong to one step of the phase outside."""
    token = _depth.set(_depth.get() + 1)
    try:
        yield
    finally:
        _depth.reset(token)


def emit(
    phase: str, done: int = 0, total: int | None = None, *, status: str = "", **numbers: float
) -> None:
    """Report a step to all listeners."""
    listeners = _listeners.get()
    if listeners:
        event = ProgressEvent(phase, done, total, numbers, status, _depth.get())
        for listener in listeners:
            listener(event)


@contextmanager
def verbose_logging(verbose: int) -> Iterator[None]:
    """Log progress: 1 the outermost phase, 2 all phases. Adds a handler where there is none."""
    if not verbose:
        yield
        return

    outermost = _depth.get()

    def log(event: ProgressEvent) -> None:
        announced = event.done == 0 and event.phase != "message"
        if not announced and (verbose > 1 or event.depth == outermost):
            logger.info("%s%s", "  " * (event.depth - outermost), event)

    level, handler = logger.level, None
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)
    if not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    try:
        with on_progress(log):
            yield
    finally:
        logger.setLevel(level)
        if handler is not None:
            logger.removeHandler(handler)
