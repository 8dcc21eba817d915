"""The command line: `unskew COMMAND ...`, also `python -m unskew COMMAND ...`.

Exit codes: 0 success; 1 success, but a requested check failed (--fail-on, --fail-below); 2 bad
usage or input, with one line that names file, column and rule; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

__all__ = ["main"]

STOPPED = "unskew: stopped by Ctrl-C\n"


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. None means the arguments of the process."""
    _open_closed_streams()
    try:
        with _handled(signal.SIGINT, _stop):
            from . import _commands  # noqa: F401 (adds the commands)
            from ._app import run
    except (ImportError, MemoryError) as error:  # also of a library that is too large for memory
        name = getattr(error, "name", None) or ""
        if name.split(".")[0] == "unskew":
            raise
        reason = "out of memory" if isinstance(error, MemoryError) else str(error)
        if isinstance(error, ModuleNotFoundError):
            reason = f"{name} is not installed; the command line needs pip install 'unskew[cli]'"
        sys.stderr.write(f"unskew: {reason}\n")
        return 2
    # As with Ctrl-C, an exception lets outputs be discarded.
    with _handled(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)):
        return run(sys.argv[1:] if arguments is None else list(arguments))


@contextlib.contextmanager
def _handled(number: int, handler: Callable[..., object]) -> Iterator[None]:
    """Handle a signal in the block; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _stop(*_: object) -> None:
    """Ctrl-C while modules are imported, which may turn an exception into another one. No file has
    been opened for writing yet."""
    os.write(2, STOPPED.encode())
    os._exit(130)


def _open_closed_streams() -> None:
    """Connect closed standard streams to the null device. Else the next file that is opened takes
    their number, and receives what libraries print there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
