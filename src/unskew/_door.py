"""What every estimator does at the door and around a fit: checks, rows, speech, all or nothing."""

from __future__ import annotations

import logging
import numbers
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ._blocks import Rows

logger = logging.getLogger("unskew")

# Storage that is read as it is, tile by tile; anything else becomes float64 at the door.
STORED_AS_GIVEN = [np.float64, np.float32, np.uint8, np.int8, np.bool_]


def check_number(
    name: str,
    value: Any,
    kind: type = numbers.Real,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
) -> None:
    """Raise for a value of the wrong kind or outside its range, naming both."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
        wanted = "an integer" if kind is numbers.Integral else "a number"
        raise TypeError(f"{name}={value!r} should be {wanted}, not {type(value).__name__}")
    if not low <= value <= high or (open_low and value == low):
        if np.isinf(high):
            rule = f"{'>' if open_low else '>='} {low:g}"
        else:
            rule = f"in {'(' if open_low else '['}{low:g}, {high:g}]"
        raise ValueError(f"{name}={value!r} should be {rule}")
    if not np.isfinite(value):
        raise ValueError(f"{name}={value!r} should be finite")


def check_word(name: str, value: Any, words: tuple[str, ...]) -> None:
    if not (isinstance(value, str) and value in words):
        raise ValueError(f"{name}={value!r} should be one of {', '.join(map(repr, words))}")


def check_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Design weights as float64: one per row, finite, none negative, not all zero."""
    if sample_weight is None:
        return np.ones(n)
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n, sample_weight)
    given = np.asarray(sample_weight)
    if given.dtype.kind not in "buif":
        raise TypeError(f"sample_weight has dtype {given.dtype}; it should be numeric")
    a = given.astype(np.float64)
    if a.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {a.shape} but X has {n} rows; it should be ({n},)"
        )
    if not np.isfinite(a).all():
        at = int(np.flatnonzero(~np.isfinite(a))[0])
        raise ValueError(f"sample_weight[{at}]={a[at]} should be finite")
    if (a < 0).any():
        at = int(np.flatnonzero(a < 0)[0])
        raise ValueError(f"sample_weight[{at}]={a[at]} should be >= 0")
    if not a.any():
        raise ValueError(
            "sample_weight is zero for every row; at least one weight should be positive"
        )
    return a


def as_rows(X: Any, n_threads: int | None) -> Rows:
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return Rows(sp.csr_array(X) if sp.issparse(X) else X, n_threads=n_threads)


@contextmanager
def spoken(verbose: int):
    """Let ``verbose`` be heard: at the level of its messages, and where nobody set up logging."""
    if not verbose:
        yield
        return
    level, handler = logger.level, None
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)
    if not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        if handler is not None:
            logger.removeHandler(handler)


@contextmanager
def whole_or_not_at_all(estimator: BaseEstimator):
    """A fit that fails leaves everything that was learned before, and nothing else."""
    given = set(estimator.get_params(deep=False))

    def learned() -> dict:
        # scikit-learn's callbacks clear up after themselves, also after a failure.
        return {
            name: value
            for name, value in vars(estimator).items()
            if name not in given and not name.startswith(("_skl", "_callback", "_parent"))
        }

    before = learned()
    try:
        yield
    except BaseException:
        for name in learned():
            delattr(estimator, name)
        vars(estimator).update(before)
        raise
