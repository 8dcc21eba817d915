"""The command line: `unskew COMMAND ...`, also `python -m unskew COMMAND ...`.

Exit codes: 0 success; 1 success, but a requested check failed (--fail-on,
--fail-below); 2 bad usage or input, with one line that names
file, column and rule; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

__all__ = ["main"]

STOPPED = "unskew: stopped by Ctrl-C\n"


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. None means the arguments of the process."""
    _open_closed_streams()
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, _stop) if in_main else None
    try:
        from . import _commands  # noqa: F401 (adds the commands)
        from ._app import run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "unskew":
            raise
        sys.stderr.write(
            f"unskew: {error.name} is not installed; the command line needs "
            "pip install 'unskew[cli]'\n"
        )
        return 2
    except ImportError as error:  # a library that does not load, as where memory is short
        if (error.name or "").split(".")[0] == "unskew":
            raise
        sys.stderr.write(f"unskew: {error}\n")
        return 2
    except MemoryError:
        sys.stderr.write("unskew: out of memory\n")
        return 2
    finally:
        if in_main:
            signal.signal(signal.SIGINT, before)
    return run(sys.argv[1:] if arguments is None else list(arguments))


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
