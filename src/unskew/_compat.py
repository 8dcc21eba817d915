"""What differs between versions of the libraries that unskew supports, in one place."""

from __future__ import annotations

from typing import Any

import numpy as np

try:  # scikit-learn >= 1.9 has callbacks
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    FIT_STACKLEVEL = 4  # stack frames from a warning to the line that called fit
except ImportError:  # pragma: no cover - older scikit-learn
    FIT_STACKLEVEL = 3

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method):  # type: ignore[no-redef]
        return method


# A_i . B_i for each row by BLAS; None before NumPy 2.0.
vecdot: Any = getattr(np, "vecdot", None)


def set_num_threads(library: Any, n: int) -> None:
    """Set the threads of a BLAS library that threadpoolctl found.

    Of OpenBLAS with threads of its own, threadpoolctl obeys one Python thread and passes over what
    others ask for; ``_parallel`` counts its users itself, so that it may call the library directly.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(n)
