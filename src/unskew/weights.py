"""DecorrelationWeights: sample weights under which columns stop predicting each other."""

from __future__ import annotations

import logging
import numbers
import warnings
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from . import _solver, _terms
from ._blocks import Rows
from ._encode import Encoded, encode, find_columns, find_text_column
from ._kmeans import Distance
from .metrics import kish_size

try:  # scikit-learn 1.9 brought callbacks
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    TO_THE_CALLER = 4  # stack frames from a warning to the line that called fit
except ImportError:  # pragma: no cover - older scikit-learn
    TO_THE_CALLER = 3

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method):  # type: ignore[no-redef]
        return method


logger = logging.getLogger("unskew")

# Storage that is read as it is, tile by tile; anything else becomes float64 at the door.
STORED_AS_GIVEN = [np.float64, np.float32, np.uint8, np.int8, np.bool_]

# Shares of the suspects are held where there are so many rows for each.
ROWS_PER_SHARE = 10

# Below this effective size a fit by descent warns.
FEW = 0.05

# How the fit ended, in words, for the warning that goes with the status.
NOT_CONVERGED = {
    "max_iter": "after max_iter={max_iter} iterations the objective was still falling by more "
    "than tol={tol:g} of itself; raise max_iter or tol",
    "non-finite": "the objective is not finite; rescale the columns of X or the strengths",
    "stopped": "a callback asked to stop",
}


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


class _Decorrelator(CallbackSupportMixin, BaseEstimator):
    """What DecorrelationWeights and DCKM share: the door, the objective, the fitted numbers."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        check_number("balance_strength", self.balance_strength, low=0)
        check_number("spread_strength", self.spread_strength, low=0)
        check_word("scale", self.scale, ("relative", "paper"))
        check_word("solver", self.solver, ("descent", "paper"))
        if self.mass_strength is not None:
            check_number("mass_strength", self.mass_strength, low=0)
            if self.scale == "relative":
                raise ValueError(
                    f"mass_strength={self.mass_strength!r} has no meaning with scale='relative', "
                    "where the weights keep mean 1; leave it None or use scale='paper'"
                )
            if self.solver == "descent":
                raise ValueError(
                    f"mass_strength={self.mass_strength!r} has no meaning with solver='descent', "
                    "which holds sum(weights) = 1 under scale='paper'; leave it None or use "
                    "solver='paper'"
                )
        if self.solver == "paper" and self.scale == "relative":
            raise ValueError(
                "solver='paper' is defined for scale='paper' only; scale='relative' should go with "
                "solver='descent'"
            )
        if self.min_effective_size is not None:
            check_number(
                "min_effective_size", self.min_effective_size, low=0, high=1, open_low=True
            )
            if self.solver == "paper":
                raise ValueError(
                    f"min_effective_size={self.min_effective_size!r} has no meaning with "
                    "solver='paper', whose steps know no floor; use solver='descent'"
                )
        check_number("n_bins", self.n_bins, numbers.Integral, low=2)
        check_number("max_iter", self.max_iter, numbers.Integral, low=1)
        check_number("tol", self.tol, low=0)
        if self.n_threads is not None:
            check_number("n_threads", self.n_threads, numbers.Integral, low=1)
        if not isinstance(self.verbose, (bool, np.bool_)):
            check_number("verbose", self.verbose, numbers.Integral, low=0)

    def _at_the_door(self, X: Any, sample_weight: Any, cluster_on: str) -> Encoded:
        text = find_text_column(X)
        if text is not None:
            raise ValueError(
                f"column {text!r} of X does not hold numbers; encode it first, a category as one "
                "0/1 column per value (pandas.get_dummies)"
            )
        # Finite or not is looked at in the first pass over the tiles.
        X = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=STORED_AS_GIVEN,
            order="C",
            ensure_all_finite=False,
        )
        a = check_weights(sample_weight, X.shape[0])
        if self.solver == "paper" and not np.isin(a, (0.0, 1.0)).all():
            other = a[~np.isin(a, (0.0, 1.0))][0]
            raise ValueError(
                f"sample_weight has {other:g}, but solver='paper' is defined for weights 0 and 1 "
                "only; use solver='descent'"
            )
        suspects = None
        names = getattr(self, "feature_names_in_", None)
        if self.suspects is not None:
            suspects = find_columns(self.suspects, names, X.shape[1], "suspects")
            if suspects.size in (0, X.shape[1]):
                which = "no column" if suspects.size == 0 else f"all {X.shape[1]} columns"
                raise ValueError(
                    f"suspects={self.suspects!r} names {which}, which leaves no pair of a suspect "
                    "and another column to balance; None balances all pairs"
                )
        with as_rows(X, self.n_threads).threads() as rows:
            return encode(
                rows,
                a,
                suspects=suspects,
                cluster_on=cluster_on,
                n_bins=self.n_bins,
                standardise=self.scale == "relative",
                names=names,
            )

    def _make_problem(
        self, encoded: Encoded, distance: Distance | None, seed: int
    ) -> tuple[_solver.Problem, float, str]:
        """The objective, balance(w) at the start, and what had to be left out of it, in words."""
        rows, a = encoded.rows, encoded.a
        N = float(a.sum())
        inverse_a = np.divide(1.0, a, out=np.zeros_like(a), where=a > 0)
        pieces = [p for p in encoded.rectangles if p.n_pairs > 0]
        balance = _terms.Balance(rows, pieces, seed=seed) if pieces else None
        B0 = balance.value(a) if balance is not None else 0.0
        left_out = []
        if self.scale == "paper":
            mass = 1.0 if self.mass_strength is None else float(self.mass_strength)
            by_paper = self.solver == "paper"
            rates = {
                "total": 1.0,
                "inertia_rate": 1.0,
                "balance_rate": float(self.balance_strength) if balance is not None else 0.0,
                "spread_rate": float(self.spread_strength),
                "mass_rate": mass if by_paper else 0.0,
            }
        else:
            V0 = float((encoded.columns.sd[distance.columns] ** 2).sum()) if distance else 0.0
            # D is standardised here: entries of the size of rounding are no imbalance.
            rounding = (64 * np.finfo(rows.dtype).eps) ** 2 * (balance.n_pairs if balance else 1)
            nothing = B0 <= rounding
            if nothing:
                left_out.append("balance left out: no imbalance at the start")
            if distance is not None and V0 == 0:
                left_out.append("inertia left out: the columns of the distance are constant")
            spread = float(self.spread_strength)
            rates = {
                "total": N,
                "inertia_rate": 1.0 / (N * V0) if V0 > 0 else 0.0,
                "balance_rate": 0.0 if nothing else float(self.balance_strength) / B0,
                "spread_rate": spread / N,
                "constant": -spread,
            }
        problem = _solver.Problem(
            rows=rows,
            balance=balance,
            distance=distance,
            a=a,
            inverse_a=inverse_a,
            N=N,
            floor=self.min_effective_size,
            held=None if self.solver == "paper" else self._shares_to_hold(encoded),
            **rates,
        )
        return problem, B0, "; ".join(left_out)

    @staticmethod
    def _shares_to_hold(encoded: Encoded) -> Any:
        """Indicators of the suspects, unless they are so many that the weights could not move."""
        held = encoded.held
        if held is None or held.shape[1] * ROWS_PER_SHARE > (encoded.a > 0).sum():
            return None
        return held

    def _store(
        self, problem: _solver.Problem, solution: _solver.Solution, B0: float, left_out: str
    ) -> None:
        w = solution.w
        if self.scale == "paper":
            self.weights_ = w
        else:
            self.weights_ = w * problem.inverse_a
        self.objective_ = solution.objective
        self.imbalance_start_ = B0
        self.imbalance_ = problem.balance.report(w) if problem.balance is not None else 0.0
        self.effective_sample_size_ = _terms.effective_share(w, problem.inverse_a, problem.N)
        self.kish_size_ = kish_size(w) if w.any() else 0.0
        self.history_ = solution.history
        self.n_iter_ = solution.n_iter
        self.status_ = solution.status + (f" ({left_out})" if left_out else "")
        if self.solver == "descent" and self.effective_sample_size_ < FEW:
            warnings.warn(
                f"effective_sample_size_ is {self.effective_sample_size_:.2g}: the weights rest on "
                "few rows. Raise spread_strength or set min_effective_size.",
                UserWarning,
                stacklevel=TO_THE_CALLER,
            )
        if solution.status in NOT_CONVERGED and not (
            # The authors' procedure has its number of steps; reaching it is its regular end.
            self.solver == "paper" and solution.status == "max_iter"
        ):
            why = NOT_CONVERGED[solution.status].format(max_iter=self.max_iter, tol=self.tol)
            warnings.warn(
                f"{type(self).__name__} did not converge: {why}.",
                ConvergenceWarning,
                stacklevel=TO_THE_CALLER,
            )

    def _watcher(self, context: Any, speak: bool, prefix: str = "") -> _solver.Watcher:
        """Tell logging and scikit-learn's callbacks about each iteration."""

        def watch(iteration: int, terms: dict[str, float]) -> bool:
            if speak:
                shown = ", ".join(f"{name} {value:.6g}" for name, value in terms.items())
                logger.info(
                    "%siteration %d: objective %.8g (%s)",
                    prefix,
                    iteration,
                    sum(terms.values()),
                    shown,
                )
            if context is None:
                return False
            step = context.subcontext(task_name="iteration")
            step.call_on_fit_task_begin(estimator=self)
            return bool(step.call_on_fit_task_end(estimator=self))

        return watch


class DecorrelationWeights(_Decorrelator):
    """Sample weights under which the columns of X stop predicting each other; no clusters.

    For each treatment j (a two-valued column, or one quantile bin of another column) and each
    column k of another source, D[k, j] is the weighted mean of k among the treated rows minus the
    one among the rest, divided by the starting standard deviation of k. The weights minimise, over
    m >= 0 with sum(a m) = N,

        balance_strength * sum(D**2) / B0 + spread_strength * (sum(a m**2) / N - 1)

    with B0 the value at m = 1, a = sample_weight and N = sum(a). With ``suspects``, only pairs of
    one suspect column and one other column enter, in both directions, and the weighted shares of
    the suspects' own values (or bins) stay what they were (with ten rows or more for each): else
    the weights would rather empty all sites but one than untie the sites from the rest.

    Parameters
    ----------
    balance_strength : float, default=1.0
        How much decorrelation; lambda1 of the paper under ``scale="paper"``.
    spread_strength : float, default=0.1
        How much unequal weights cost; lambda2 under ``scale="paper"``.
    mass_strength : float or None, default=None
        lambda3 of the paper, which keeps its weights from vanishing; only with
        ``scale="paper", solver="paper"``, where None means 1.
    suspects : str, int, list of names or indices, boolean mask, or None
        Columns through which the bias is thought to have come in. None balances all pairs.
    scale : {"relative", "paper"}
        "relative": the dimensionless terms above, weights of (weighted) mean 1. "paper": the
        paper's terms, D not divided; weights sum to 1 with "descent".
    solver : {"descent", "paper"}
        "descent": quasi-Newton on the true gradient, the objective never rises. "paper": the
        authors' accelerated gradient steps.
    min_effective_size : float in (0, 1] or None
        Floor for ``effective_sample_size_``, held inside the fit.
    n_bins : int, default=5
        Quantile bins of a column with more than two values.
    max_iter, tol : int, float
        At most so many steps; done when a step lowers the objective by less than ``tol / 10`` of
        itself ("descent") or changes it by less than ``tol`` ("paper").
    n_threads : int or None
        Threads over tiles of rows, None for one per core. The result has the same bits for any
        number. BLAS is held to one thread in the whole process during a fit.
    random_state : int, RandomState or None
        Only for very wide data, where the loss is estimated with random probes.
    verbose : int
        1 logs each step (logger "unskew").

    Attributes
    ----------
    weights_ : ndarray (n,)
        The multipliers m under "relative" (0 for rows of weight 0); the paper's w under "paper".
    imbalance_, imbalance_start_ : float
        sum(D**2) after and before.
    effective_sample_size_ : float
        As a share: sum(a m)**2 / (N sum(a m**2)).
    kish_size_ : float
        Kish's effective number of rows of the product a m.
    history_ : dict of arrays
        "objective" and its terms "balance", "spread", "mass", "inertia", per step.
    objective_, n_iter_, status_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from unskew import DecorrelationWeights
    >>> rng = np.random.default_rng(0)
    >>> dog = rng.integers(0, 2, 500)
    >>> grass = np.where(rng.random(500) < 0.8, dog, 1 - dog)
    >>> model = DecorrelationWeights(spread_strength=0.01).fit(np.c_[dog, grass])
    >>> for weights in (np.ones(500), model.weights_):
    ...     print(f"{np.cov(dog, grass, aweights=weights)[0, 1]:.2f}")
    0.15
    0.00
    """

    def __init__(
        self,
        *,
        balance_strength=1.0,
        spread_strength=0.1,
        mass_strength=None,
        suspects=None,
        scale="relative",
        solver="descent",
        min_effective_size=None,
        n_bins=5,
        max_iter=200,
        tol=1e-4,
        n_threads=None,
        random_state=None,
        verbose=0,
    ):
        self.balance_strength = balance_strength
        self.spread_strength = spread_strength
        self.mass_strength = mass_strength
        self.suspects = suspects
        self.scale = scale
        self.solver = solver
        self.min_effective_size = min_effective_size
        self.n_bins = n_bins
        self.max_iter = max_iter
        self.tol = tol
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the weights.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or a table of numeric columns
        y : ignored
        sample_weight : array (n,) or None
            Design weights a: weight 2 = the row twice, 0 = the row absent.

        Returns
        -------
        self
        """
        with whole_or_not_at_all(self), spoken(self.verbose):
            self._check_parameters()
            encoded = self._at_the_door(X, sample_weight, "all")
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            context = None
            if hasattr(self, "_init_callback_context"):
                context = self._init_callback_context(max_subtasks=self.max_iter)
                context.call_on_fit_task_begin(estimator=self, X=X)
            with encoded.rows.threads():
                problem, B0, left_out = self._make_problem(encoded, None, seed)
                watch = self._watcher(context, speak=self.verbose > 0)
                how = {"max_iter": self.max_iter, "tol": self.tol, "watch": watch}
                if self.solver == "paper":
                    solution = _solver.follow_paper(problem, None, **how)
                else:
                    solution = _solver.descend_weights(problem, **how)
                self._store(problem, solution, B0, left_out)
            if context is not None:
                context.call_on_fit_task_end(estimator=self, X=X)
        return self
