"""Compatibility with the supported versions of other libraries."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

try:  # scikit-learn >= 1.9 has callbacks
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    FIT_STACKLEVEL = 4  # stack frames from a warning to the line that called fit
except ImportError:  # pragma: no cover - older scikit-learn
    FIT_STACKLEVEL = 3

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Placeholder for scikit-learn versions without callbacks."""

    def with_callbacks(method):
        return method


# Row-wise inner products by BLAS; None before NumPy 2.0.
vecdot: Any = getattr(np, "vecdot", None)


def installed_versions(*packages: str) -> dict[str, str]:
    """Version of each of these packages that is installed."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def set_num_threads(library: Any, n: int) -> None:
    """Set the number of threads of a BLAS library found by threadpoolctl.

    For OpenBLAS with its own threads, threadpoolctl accepts calls from one Python thread and
    ignores those from others; ``_parallel`` counts its users itself, so it can call the library
    directly.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(n)
