"""DecorrelationWeights: sample weights that decorrelate the columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _solver
from ._base import BaseDecorrelator, rollback_on_error
from ._compat import with_callbacks
from ._progress import verbose_logging
from ._solver import Snapshot, nested, open_checkpoint


class DecorrelationWeights(BaseDecorrelator):
    """Sample weights that decorrelate the columns of X, without clustering.

    For each treatment j (a two-valued column, or one quantile bin of another column) and each
    column k of another source, D[k, j] is the weighted mean of k over the treated rows minus the
    one over the other rows, divided by the standard deviation of k at m = 1. The weights minimise,
    over m >= 0 with sum(a m) = N,

        balance_strength * sum(D**2) / B0 + spread_strength * (sum(a m**2) / N - 1)

    with B0 the value at m = 1, a = sample_weight and N = sum(a). With ``suspects`` (nuisance
    (batch) columns through which the bias came in: site, scanner, channel), only the other columns
    given the suspects' values (or bins) enter, and the weighted shares of these values are fixed at
    those of the sample; values of less than 0.2 % are pooled. Without this constraint the optimum
    puts all weight on one site, which is trivially balanced.

    Parameters
    ----------
    balance_strength : float, default=1.0
        Strength of the balance term; lambda1 of the paper under ``objective="paper"``.
    spread_strength : float, default=0.1
        Penalty on the variance of the weights; lambda2 under ``objective="paper"``.
    mass_strength : float or None, default=None
        lambda3 of the paper, which keeps its weights from vanishing; only with
        ``objective="paper", solver="paper"``, where None means 1.
    suspects : str, int, list of names or indices, boolean mask, or None
        The nuisance columns, see above. None balances all pairs of columns.
    objective : {"normalized", "paper"}
        "normalized": the dimensionless terms above, weights of (weighted) mean 1. "paper": the
        paper's terms, D not divided; weights sum to 1 with "descent".
    solver : {"descent", "paper"}
        "descent": with suspects Newton's method on the dual of a convex problem, without them
        quasi-Newton steps with the exact gradient, under which the objective never increases.
        "paper": the authors' accelerated gradient steps.
    min_effective_sample_size : float in (0, 1] or None
        Lower bound on ``effective_sample_size_`` during the fit.
    margins, margin_strength, encoder
        Known shares of the population, and how tables are encoded: see DCKM.
    n_bins : int, default=5
        Number of quantile bins of a column with more than two values.
    max_iter, tol : int, float
        Maximum number of steps; converged when the duality gap (with suspects), or what a step
        lowers the objective by, is less than ``tol / 10`` of the objective ("descent"), or when a
        step changes it by less than ``tol`` ("paper").
    n_threads : int or None
        Threads over tiles of rows, None for one per core. The result is bit-identical for any
        number. BLAS is limited to one thread in the whole process during a fit.
    checkpoint, checkpoint_seconds, resume
        File to which the state of a long fit is saved, and whether to resume from it: see DCKM.
    verbose : int
        1 logs each step (logger "unskew").

    Attributes
    ----------
    weights_ : ndarray (n,)
        The multipliers m under "normalized" (0 for rows of weight 0); the paper's w under "paper".
    combined_weights_ : ndarray (n,)
        a m, the weights to use downstream. (A ``sample_weight`` whose largest is outside 2**-64 to
        2**64 is divided by a power of two first.)
    imbalance_, initial_imbalance_ : float
        sum(D**2) at the solution and at m = 1.
    effective_sample_size_ : float
        As a share: sum(a m)**2 / (N sum(a m**2)).
    kish_size_ : float
        Kish's effective number of rows of the product a m.
    history_ : dict of arrays
        "objective" and its terms "balance", "spread", "margins", "mass", "inertia", per step.
    objective_, n_iter_, status_, n_features_in_, feature_names_in_, encoder_, suspects_,
    margins_, margin_distance_
        See DCKM.

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
        objective="normalized",
        solver="descent",
        min_effective_sample_size=None,
        margins=None,
        margin_strength=None,
        encoder=None,
        n_bins=5,
        max_iter=200,
        tol=1e-4,
        n_threads=None,
        checkpoint=None,
        checkpoint_seconds=60.0,
        resume=True,
        verbose=0,
    ):
        self.balance_strength = balance_strength
        self.spread_strength = spread_strength
        self.mass_strength = mass_strength
        self.suspects = suspects
        self.objective = objective
        self.solver = solver
        self.min_effective_sample_size = min_effective_sample_size
        self.margins = margins
        self.margin_strength = margin_strength
        self.encoder = encoder
        self.n_bins = n_bins
        self.max_iter = max_iter
        self.tol = tol
        self.n_threads = n_threads
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.resume = resume
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the weights.

        Parameters
        ----------
        X : array or CSR matrix (n, d), table, or out-of-core data: see DCKM
        y : ignored
        sample_weight : array (n,) or None
            Design weights a: weight 2 is equivalent to the row twice, weight 0 to its absence.

        Returns
        -------
        self
        """
        with rollback_on_error(self), verbose_logging(self.verbose):
            self._check_parameters()
            design = self._prepare(X, sample_weight, "all")
            context = None
            if hasattr(self, "_init_callback_context"):
                context = self._init_callback_context(max_subtasks=self.max_iter)
                context.call_on_fit_task_begin(estimator=self, X=X)
            with design.rows.executor:
                checkpoint, before, _ = open_checkpoint(self, design, np.zeros(0, dtype=np.int64))
                fit_problem = self._make_problem(design, None)
                watch = self._watcher(context)
                save = None
                if checkpoint is not None:
                    save = nested(checkpoint.save_if_due, lambda: Snapshot({}, {"seeds": []}))
                how: Any = {"max_iter": self.max_iter, "tol": self.tol, "watch": watch}
                how |= {"save": save, "resume": before}
                if self.solver == "paper":
                    solution = _solver.solve_paper(fit_problem.problem, None, **how)
                else:
                    solution = _solver.solve_weights(fit_problem.problem, **how)
                self._store(fit_problem, solution)
                if checkpoint is not None:
                    checkpoint.remove()
            if context is not None:
                context.call_on_fit_task_end(estimator=self, X=X)
        return self
