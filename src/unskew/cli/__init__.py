"""The command line: `unskew COMMAND ...`, also `python -m unskew COMMAND ...`.

Exit codes: 0 success; 1 success, but a requested check failed (--fail-on,
--fail-below); 2 bad usage or input, with one line that names
file, column and rule; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. None means the arguments of the process."""
    try:
        from ._app import run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "unskew":
            raise
        sys.stderr.write(
            f"unskew: {error.name} is not installed; the command line needs "
            "pip install 'unskew[cli]'\n"
        )
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("unskew: stopped by Ctrl-C\n")
        return 130
    return run(sys.argv[1:] if arguments is None else list(arguments))
