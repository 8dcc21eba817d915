"""ConsensusDCKM: consensus clustering of DCKM runs with different initializations."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import _kmeans, _solver, _terms
from .._base import rollback_on_error, weight_model_of
from .._clusterer import BaseClusterer
from .._compat import FIT_STACKLEVEL, with_callbacks
from .._data.sampling import draw_rows
from .._data.sources import Blocks
from .._data.tiled import TiledMatrix
from .._effects import partition_bic
from .._kmeans import check_init, init_clusters
from .._parallel import Executor
from .._preprocessing import Design
from .._progress import emit, nested_progress, verbose_logging
from .._rows import Rows
from .._validation import check_number, check_option
from .._weight_model import DualWeightModel, WeightModel
from . import _voting
from ._model_selection import choose_k, choose_strengths

# Rows of the subsample of each run: with suspects, at least per cluster, and without.
SUBSAMPLE, SUBSAMPLE_PER_CLUSTER, SUBSAMPLE_ALL_PAIRS = 10_000, 200, 100_000
# Least number of initializations from which effects, which all runs share, are learned.
EFFECTS_INIT = 10
# Without effects the consensus should explain at least this share of the variance that the best run
# explains. (Measured: .88 and .90 where the vote mixed two optima, .96 and more in all other
# samples, of the simulators and of amazon, webcam and Office-Home 1.)
ENOUGH_EXPLAINED = 0.95
# Maximum number of entries of dense rows on which explained variance is computed.
ENTRIES = 2**25


@dataclass(frozen=True)
class ConsensusRun:
    """One run, as needed for new rows.

    centres are in the space of the distance; chosen are the clusters to which rows may be assigned;
    weight_model times factor predicts the weights of new rows; the other fields are reported only.
    """

    centres: np.ndarray
    chosen: np.ndarray
    weight_model: WeightModel | DualWeightModel | None
    factor: float
    balance_strength: float
    objective: float
    n_iter: int
    status: str
    effective_size: float
    imbalance: float


class ConsensusDCKM(BaseClusterer):
    """Consensus clustering of DCKM runs with different initializations.

    The solution of one run of k-means, weighted or not, depends on its initialization. Here each of
    ``n_runs`` runs has its own initialization and learns its own weights, and the runs are combined
    by their co-association. The result is more stable and, on the paper's data, better than the run
    with the lowest objective (see docs/results/README.md), and it comes with a confidence for each
    row and a measure of stability.

    With S[i, j] the co-association of rows i and j, the share of runs that assign both to the same
    cluster, the consensus is the partition with the largest mean S within clusters, searched from
    each run's own partition as initialization. Time and memory are linear in the number of rows.
    (For up to 2,048 rows average linkage on S is one more initialization.) Runs that converged to
    different optima can have a consensus that is worse than the best run: then only the better half
    of the runs votes, and so on. Worse means that the partition explains less than 95 % of the
    variance that the best run explains or, where effects are removed, that its BIC is higher.

    With ``suspects`` (nuisance (batch) columns through which the bias came in: site, scanner,
    channel), ``adjust="auto"`` also removes their effects from the other columns (``adjust="both"``
    of DCKM): effects and weights are then learned once and shared by the runs, of which the first
    begins at the solution of DCKM.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        "auto": selected by `choose_k` among 2 to 12.
    n_runs : int, default=20
        Number of runs to combine.
    balance_strength : float, list of floats, "auto" or None
        As in DCKM. The values of a list are used by the runs in turn. "auto": selected by
        `choose_strengths`.
    row_scale : {"auto", "unit"} or None, default="auto"
        As in DCKM. "auto": "unit" for arrays in which every column of the distance is two-valued
        (absent, present), and for sparse arrays without negative values: there the length of a row
        reflects how much was recorded, not what. None for all others, for tables, and where effects
        are removed.
    adjust : {"auto", "weights", "effects", "both"}, default="auto"
        As in DCKM. "auto": "both" where suspects are named (X dense, default objective, solver and
        scales), else "weights".
    n_init : int, default=1
        Initializations of each run, of which the lowest objective is kept. Effects, which the runs
        share, are learned as in DCKM, from at least 10 initializations.
    max_samples : int, float in (0, 1], "auto" or None, default="auto"
        Number (or share) of rows in the subsample that is drawn for each run and to which the run
        is fitted; all rows are then labelled and weighted by it. None: all rows. "auto": 10,000
        rows and at least 200 per cluster where suspects are named, 100,000 otherwise, where
        weights are not a function of the row. Effects are learned from all rows.
    tol : float, default=1e-3
        Tolerance of each run. Larger than in DCKM, since the consensus averages over the runs.
    n_jobs : int or None
        Number of processes over runs, None for one (threads are then used over tiles of rows); the
        result is bit-identical for any number. Always one where X is a reader of blocks.
    spread_strength, mass_strength, objective, solver, suspects, cluster_on, column_scale,
    effect_degree, effect_ridge, init, max_iter, min_effective_sample_size, margins,
    margin_strength, encoder, n_bins, n_threads, random_state, verbose
        As in DCKM.

    Attributes
    ----------
    labels_ : ndarray (n,)
        The same as ``predict`` returns for the rows of the fit.
    confidence_ : ndarray (n,)
        Mean co-association, over the voting runs, of the row with the members of its cluster, 0 to
        1.
    stability_ : float
        Mean adjusted Rand index over pairs of runs, voting or not: 1 for identical partitions,
        about 0 for independent ones, nan for a single run. (On at most 20,000 rows.) Where effects
        are removed, the runs share them, so the variability of the effects with ``random_state`` is
        not included.
    n_clusters_, balance_strength_ : int, float or list
        The values selected by "auto", or those given.
    choice_, strength_choice_ : Choice or None
        Results of `choose_k` and `choose_strengths`.
    runs_ : list of dicts
        For each run: "balance_strength", "objective", "n_iter", "status", "effective_size",
        "imbalance", "votes" (whether it votes).
    weights_, combined_weights_ : ndarray (n,)
        Means of the runs' weights.
    cluster_centers_, inertia_, objective_ and all others
        As in DCKM, for the consensus at these weights; ``history_`` is that of the run with the
        lowest objective. ``transform`` returns distances to the centres of the consensus,
        ``predict`` the vote of the runs: near a cluster boundary the two may differ.

    Examples
    --------
    >>> from sklearn.metrics import adjusted_rand_score
    >>> from unskew import ConsensusDCKM
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(1000, rate=0.8, random_state=0)
    >>> model = ConsensusDCKM(4, suspects=data.suspects, random_state=0).fit(data.X)
    >>> found = model.predict(data.X_population)
    >>> bool(adjusted_rand_score(data.y_population, found) > 0.85)
    True
    """

    # A fit consists of many short ones here, so there is no checkpoint.
    checkpoint, checkpoint_seconds, resume = None, 60.0, True

    # "auto" scales rows only where no effects are removed.
    _row_scales_with_effects = (None, "auto")

    def __init__(
        self,
        n_clusters=8,
        *,
        n_runs=20,
        balance_strength=None,
        spread_strength=None,
        mass_strength=None,
        objective="normalized",
        solver="descent",
        suspects=None,
        cluster_on="non_suspects",
        column_scale=None,
        row_scale="auto",
        adjust="auto",
        effect_degree=1,
        effect_ridge=1e-3,
        init="partition",
        n_init=1,
        max_samples="auto",
        max_iter=100,
        tol=1e-3,
        min_effective_sample_size=None,
        margins=None,
        margin_strength=None,
        encoder=None,
        n_bins=5,
        n_jobs=None,
        n_threads=None,
        random_state=None,
        verbose=0,
    ):
        self.n_clusters = n_clusters
        self.n_runs = n_runs
        self.balance_strength = balance_strength
        self.spread_strength = spread_strength
        self.mass_strength = mass_strength
        self.objective = objective
        self.solver = solver
        self.suspects = suspects
        self.cluster_on = cluster_on
        self.column_scale = column_scale
        self.row_scale = row_scale
        self.adjust = adjust
        self.effect_degree = effect_degree
        self.effect_ridge = effect_ridge
        self.init = init
        self.n_init = n_init
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.tol = tol
        self.min_effective_sample_size = min_effective_sample_size
        self.margins = margins
        self.margin_strength = margin_strength
        self.encoder = encoder
        self.n_bins = n_bins
        self.n_jobs = n_jobs
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _K(self) -> int:
        return getattr(self, "n_clusters_", self.n_clusters)

    def _check_own(self) -> None:
        check_number("n_runs", self.n_runs, numbers.Integral, low=1)
        check_option("adjust", self.adjust, ("auto", "weights", "effects", "both"))
        check_option("row_scale", self.row_scale, ("auto", None, "unit"))
        if isinstance(self.max_samples, str):
            check_option("max_samples", self.max_samples, ("auto",))
        elif self.max_samples is not None:
            if isinstance(self.max_samples, numbers.Integral):
                check_number("max_samples", self.max_samples, numbers.Integral, low=1)
            else:
                check_number("max_samples", self.max_samples, low=0, high=1, open_low=True)
        if self.n_jobs is not None:
            check_number("n_jobs", self.n_jobs, numbers.Integral)
            if self.n_jobs == 0:
                raise ValueError("n_jobs=0 should be None, a positive number, or -1 for all cores")
        given = self.balance_strength
        if isinstance(given, str) and given != "auto":
            raise ValueError(f"balance_strength={given!r} should be a number, a list or 'auto'")
        if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
            if len(given) == 0:
                raise ValueError("balance_strength=[] should have at least one value")
            if self._adjust_for(self._sparse) != "weights":
                raise ValueError(
                    f"balance_strength={list(given)!r} should be a single value unless "
                    "adjust='weights': effects are learned once, at one strength"
                )
        if isinstance(self.n_clusters, str) and self.n_clusters != "auto":
            raise ValueError(f"n_clusters={self.n_clusters!r} should be a number or 'auto'")

    @property
    def _row_scale(self) -> str | None:
        with_effects = self._adjust_for(self._sparse) != "weights"
        return None if with_effects and self.row_scale == "auto" else self.row_scale

    def _balance_strengths(self) -> list:
        given = self.balance_strength_
        if given is None or isinstance(given, numbers.Real):
            return [given]
        return [float(one) for one in given]

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Fit the runs and compute their consensus.

        Parameters
        ----------
        X, y, sample_weight : as in DCKM.fit

        Returns
        -------
        self
        """
        # Warnings from any depth are issued again at the line that called fit.
        remember = warnings.catch_warnings(record=True)
        with rollback_on_error(self), verbose_logging(self.verbose), remember as caught:
            warnings.simplefilter("always")
            self._fit(X, sample_weight)
        for each in caught:
            if issubclass(each.category, UserWarning):
                warnings.warn(each.message, each.category, stacklevel=FIT_STACKLEVEL - 1)
            else:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        return self

    def _fit(self, X: Any, sample_weight: Any) -> None:
        self._sparse = hasattr(X, "tocsr")
        self._check_own()
        self._choose_settings(X, sample_weight)
        self._check_parameters()
        self.__dict__.pop("restarts_", None)  # of an earlier fit
        design = self._prepare(X, sample_weight, self.cluster_on)
        K, present = self._K, int((design.a > 0).sum())
        if present < K:
            raise ValueError(f"n_clusters={K} should be <= n_samples={present}")
        size = self._size(design.rows.n)
        if size < K:
            raise ValueError(
                f"max_samples={self.max_samples!r} gives subsamples of {size} rows; it should give "
                f"at least n_clusters={K}"
            )
        init = check_init(self.init, design.rows.n, K, design.rows.d)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_runs + 1)
        context = None
        if hasattr(self, "_init_callback_context"):
            context = self._init_callback_context(max_subtasks=self.n_runs)
            context.call_on_fit_task_begin(estimator=self, X=X)
        if self._adjust_for(self._sparse) == "weights":
            self._fit_runs(design, init, seeds, context)
        else:
            self._fit_around_effects(design, init, seeds, context)
        if context is not None:
            context.call_on_fit_task_end(estimator=self, X=X)

    def _choose_settings(self, X: Any, sample_weight: Any) -> None:
        self.choice_ = self.strength_choice_ = None
        self.n_clusters_, self.balance_strength_ = self.n_clusters, self.balance_strength
        if isinstance(self.n_clusters, str):
            self.choice_ = choose_k(X, sample_weight=sample_weight, model=self)
            self.n_clusters_ = self.choice_.chosen
        if isinstance(self.balance_strength, str):
            self.strength_choice_ = choose_strengths(
                X, self.n_clusters_, sample_weight=sample_weight, model=self
            )
            self.balance_strength_ = self.strength_choice_.chosen

    def _size(self, n: int) -> int:
        if self.max_samples is None:
            return n
        if isinstance(self.max_samples, str):
            by_suspects = max(SUBSAMPLE, SUBSAMPLE_PER_CLUSTER * self._K)
            return min(n, SUBSAMPLE_ALL_PAIRS if self.suspects is None else by_suspects)
        if isinstance(self.max_samples, numbers.Integral):
            return min(n, int(self.max_samples))
        return max(1, round(self.max_samples * n))

    # ----------------------------------------------------------------------------------------
    # Weights learned in each run

    def _fit_runs(self, design: Design, init: Any, seeds: Any, context: Any) -> None:
        size, strengths = self._size(design.rows.n), self._balance_strengths()
        at = [strengths[r % len(strengths)] for r in range(self.n_runs)]
        n_jobs, rows = self._workers(design)
        single = design._replace(rows=rows)
        found = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
            joblib.delayed(one_run)(self, single, init, seed, strength, size)
            for seed, strength in zip(seeds[:-1], at)
        )
        runs, labels, history = [], [], []
        emit("run", 0, self.n_runs)
        w = np.zeros(design.rows.n)
        for r, (run, labels_r, w_r, history_r) in enumerate(found):
            runs.append(run)
            labels.append(labels_r)
            history.append(history_r)
            w += w_r
            self._log_run(context)
            numbers = {"objective": run.objective, "iterations": run.n_iter}
            emit("run", r + 1, self.n_runs, status=run.status, **numbers)
        w /= self.n_runs
        best = min(range(self.n_runs), key=lambda r: runs[r].objective)
        fit_problem = self._make_problem(design, design.distance)
        score = _explained(design.rows, design.distance, w, self._K)
        self._put_together(
            design, np.stack(labels), w, fit_problem, runs, history[best], score, ENOUGH_EXPLAINED
        )
        self._r2: float | None = None
        if all(run.weight_model is not None for run in runs):
            self._learn_r2(design, w)
        unfinished = sum(run.status not in ("converged", "max_iter (paper)") for run in runs)
        if unfinished:
            warnings.warn(
                f"{unfinished} of {self.n_runs} runs did not converge in max_iter={self.max_iter} "
                f"iterations to tol={self.tol:g}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _workers(self, design: Design) -> tuple[int, Any]:
        """Number of processes over runs, and the rows as passed to each of them."""
        n_jobs = joblib.effective_n_jobs(self.n_jobs)
        if not design.rows.in_memory and isinstance(design.rows.X, Blocks):
            n_jobs = 1  # a reader of blocks holds locks and cannot be sent to another process
        return n_jobs, _with_threads(design.rows, 1 if n_jobs > 1 else self.n_threads)

    def _log_run(self, context: Any) -> None:
        """Report to callbacks that a run is done."""
        if context is not None:
            sub = context.subcontext(task_name="run")
            sub.call_on_fit_task_begin(estimator=self)
            sub.call_on_fit_task_end(estimator=self)

    def _learn_r2(self, design: Design, w: np.ndarray) -> None:
        """R2 of the mean of the runs' weight models on the mean of their weights."""
        rows, a = design.rows, design.a
        with rows.executor:
            predicted = a * self._mean_weights(rows, self._distance)
        mean = float(w.sum() / a.sum())
        total = float(((w - a * mean) ** 2).sum())
        residual = float(((w - predicted) ** 2).sum())
        self._r2 = 1.0 - residual / total if total > 1e-20 * float((a @ a) * mean**2) else 1.0

    # ----------------------------------------------------------------------------------------
    # Effects and weights learned once

    def _fit_around_effects(self, design: Design, init: Any, seeds: Any, context: Any) -> None:
        n_starts = max(self.n_init, EFFECTS_INIT)
        starts = check_random_state(seeds[-1]).randint(2**31 - 1, size=n_starts + 1)
        emit("message", status=f"effects of suspects and weights, then {self.n_runs} runs")
        with design.rows.executor:
            selected = self._fit_effects(design, init, starts)
        w, distance, K = self.combined_weights_, self._distance, self._K
        size = self._size(design.rows.n)
        n_jobs, rows = self._workers(design)
        found = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
            joblib.delayed(one_kmeans)(rows, distance, w, K, start, self.n_init, size, seed)
            for start, seed in zip(chain([self.labels_], repeat(init)), seeds[:-1])
        )
        ess, left = self.effective_sample_size_, self.imbalance_
        strength, everyone = self._strengths()[0], np.arange(K, dtype=np.int32)
        labels, runs = [], []
        emit("run", 0, self.n_runs)
        for r, (clusters, converged) in enumerate(found):
            status, inertia = "converged" if converged else "max_iter", float(w @ clusters.e)
            emit("run", r + 1, self.n_runs, status=status, inertia=inertia)
            labels.append(clusters.labels)
            runs.append(
                ConsensusRun(clusters.C, everyone, None, 1.0, strength, inertia, self.n_iter_,
                    status, ess, left)
            )  # fmt: skip
            self._log_run(context)
        fitted = design._replace(distance=distance)
        bic = partition_bic(selected.problem, design.column_map.source)
        one = bic(np.zeros(rows.n, dtype=np.int32), 1, selected.has_effects)

        def score(labels: np.ndarray) -> float:
            return one - bic(labels, K, selected.has_effects)

        self._put_together(fitted, np.stack(labels), w, None, runs, self.history_, score, 1.0)
        self._r2 = None if self._weight_model is None else self._weight_model.r2

    # ----------------------------------------------------------------------------------------

    def _put_together(self, design, labels, w, fit_problem, runs, history, score, share) -> None:
        rows, distance, K, a = design.rows, design.distance, self._K, design.a
        voters, votes, own, confidence = _voting.elect(labels, K, a, score, share)
        if voters.size < len(runs):
            text = f"runs converged to different optima: the best {voters.size} of {len(runs)} vote"
            emit("message", status=text)
        with rows.executor:
            clusters = init_clusters(rows, distance, w, K, own, None)
            n_iter, J = max(run.n_iter for run in runs), None
            if fit_problem is not None:
                J = fit_problem.problem.value(w, clusters.e)
            objective = self.objective_ if J is None else J
            solution = _solver.Solution(w, clusters, objective, history, n_iter, "converged")
            if fit_problem is not None:
                self._store(fit_problem, solution)
                status = "converged" if all(r.status == "converged" for r in runs) else "max_iter"
                self.status_ = self.status_.replace("converged", status, 1)
            self._store_clusters(design, solution)
        self._votes, self._voters, self._runs = votes, voters, runs
        self._shared_row_weights = fit_problem is None
        self.labels_, self.confidence_ = own, confidence
        self.stability_ = _voting.stability(labels, a)
        self.runs_ = [
            {
                "balance_strength": run.balance_strength,
                "objective": run.objective,
                "n_iter": run.n_iter,
                "status": run.status,
                "effective_size": run.effective_size,
                "imbalance": run.imbalance,
                "votes": r in voters,
            }
            for r, run in enumerate(runs)
        ]
        self.n_iter_ = n_iter

    def _labels_of_voters(self, X: Any, unknowns: list) -> np.ndarray:
        rows, distance, _ = self._new_rows(X, unknowns)
        shift = 0.0
        if rows.sparse and self._shift is not None and distance.scaling is None:
            shift = self._shift[distance.columns]
        out = np.empty((self._voters.size, rows.n), dtype=np.int32)
        with rows.executor:
            for r, run in enumerate(self._runs[voter] for voter in self._voters):
                C = run.centres[run.chosen] + shift
                out[r] = run.chosen[_kmeans.label(rows, distance, C).labels]
        return out

    def predict(self, X):
        """Predict the cluster of each row by the vote of the runs. Returns labels (n,)."""
        return self._apply_to_new(
            X, lambda X, unknowns: self._votes.of(self._labels_of_voters(X, unknowns))[0]
        )

    def confidence(self, X):
        """Mean co-association of each row with the members of its cluster. Returns (n,)."""
        return self._apply_to_new(
            X, lambda X, unknowns: self._votes.of(self._labels_of_voters(X, unknowns))[1]
        )

    def _mean_weights(self, rows: Rows, distance: Any) -> np.ndarray:
        total = np.zeros(rows.n)
        for run in self._runs:
            C = run.centres[run.chosen]
            total += run.factor * predict_run(run.weight_model, rows, distance, C)
        return total / len(self._runs)

    def _weights_of_new(self, X: Any, unknowns: list) -> np.ndarray:
        if self._shared_row_weights:
            return super()._weights_of_new(X, unknowns)
        rows, distance, _ = self._new_rows(X, unknowns)
        with rows.executor:
            return self._mean_weights(rows, distance)

    @property
    def _weights_r2(self):
        """R2 of ``predict_weights`` on the rows of the fit."""
        check_is_fitted(self)
        return self._r2


def one_run(
    model: ConsensusDCKM, design: Design, init: Any, seed: int, strength: Any, size: int
) -> tuple:
    """One run, the labels and weights it assigns to all rows, and its history."""
    rng = np.random.RandomState(seed)
    n, whole = design.rows.n, design
    rows = design.rows
    if size < n:
        which = draw_rows(design.a, size, rng.randint(2**31 - 1))
        design = design._replace(rows=rows.select(which), a=design.a[which])
        if not isinstance(init, str) and init.ndim == 1:
            init = init[which]
    seeds = rng.randint(2**31 - 1, size=model.n_init + 1)
    with design.rows.executor, nested_progress():
        fit_problem, best = model._fit_weights(design, init, seeds, balance_strength=strength)
        problem, clusters = fit_problem.problem, best.clusters
        weight_model, factor = None, 1.0
        if model.solver == "descent":
            weight_model = weight_model_of(fit_problem, best)
        labels, w = clusters.labels, best.w
        paper = model.solver == "paper"
        chosen = np.unique(labels) if paper else np.arange(model._K)
        if size < n:
            labels = chosen[_kmeans.label(rows, design.distance, clusters.C[chosen]).labels]
            labels = labels.astype(np.int32)
            if weight_model is None:
                raise ValueError(
                    f"max_samples={size} should be None with solver='paper' or spread_strength=0, "
                    "which do not predict the weights of rows outside the subsample"
                )
            w = whole.a * predict_run(weight_model, rows, design.distance, clusters.C[chosen])
            factor = problem.weight_sum / problem.design_sum * whole.a.sum() / max(w.sum(), 1e-300)
            w *= factor
    status = best.status
    if paper and status == "max_iter":
        status = "max_iter (paper)"
    run = ConsensusRun(
        clusters.C,
        chosen.astype(np.int32),
        weight_model,
        float(factor),
        model._strengths(strength)[0],
        best.objective,
        best.n_iter,
        status,
        _terms.effective_share(best.w, problem.inverse_a, problem.design_sum),
        float(problem.balance.value(best.w)) if problem.balance is not None else 0.0,
    )
    return run, labels, w, best.history


def predict_run(model: Any, rows: Rows, distance: Any, C: np.ndarray) -> np.ndarray:
    """Weights that the model of a run predicts; with suspects e has centres of its own."""
    own = getattr(model, "centres", None)
    return model.predict(rows, _kmeans.label(rows, distance, C if own is None else own).e)


def one_kmeans(rows, distance, w, K, init, n_init, size, seed) -> tuple:
    """k-means at fixed weights and effects, on a subsample: the clusters of all rows by the best
    solution, and whether it converged."""
    rng = np.random.RandomState(seed)
    few, own = rows, w
    if size < w.size:
        drawn = draw_rows(w, size, rng.randint(2**31 - 1))
        few, own = rows.select(drawn), w[drawn]
        if not isinstance(init, str) and init.ndim == 1:
            init = init[drawn]
    with few.executor:
        inits = (init_clusters(few, distance, own, K, init, rng) for _ in range(n_init))
        solutions = [_kmeans.lloyd(few, distance, own, clusters) for clusters in inits]
    clusters, converged = min(solutions, key=lambda solution: float(own @ solution[0].e))
    if few is not rows:
        with rows.executor:
            clusters = _kmeans.label(rows, distance, clusters.C)
    return clusters, converged


def _explained(rows: Rows, distance: Any, w: np.ndarray, K: int) -> Callable[[np.ndarray], float]:
    """Function of labels: the share of weighted variance they explain, on a subsample of rows."""
    subset = _voting.linkage_rows(rows.n)
    if not rows.sparse and subset.size * rows.d > ENTRIES:
        subset = subset[:: -(-subset.size * rows.d // ENTRIES)]
    few, w = (rows, w) if subset.size == rows.n else (rows.select(subset), w[subset])

    def left(labels: np.ndarray, K: int) -> float:
        with few.executor:
            return float(w @ init_clusters(few, distance, w, K, labels, None).e)

    total = left(np.zeros(subset.size, dtype=np.int32), 1)
    return lambda labels: 1.0 - left(labels[subset], K) / total if total > 0 else 0.0


def _with_threads(rows: Rows, n_threads: int | None) -> Any:
    if n_threads is None or n_threads == rows.executor.n_threads or not rows.in_memory:
        return rows
    return TiledMatrix(rows.X, shift=rows.shift, executor=Executor(n_threads))
