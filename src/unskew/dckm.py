"""DCKM: k-means and sample weights that decorrelate the columns, learned together."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from . import _effects, _kmeans, _solver
from ._base import BaseDecorrelator, rollback_on_error
from ._compat import FIT_STACKLEVEL, with_callbacks
from ._kmeans import Clusters, Distance, check_init, init_clusters
from ._preprocessing import Design
from ._progress import verbose_logging
from ._solver import open_checkpoint
from ._summaries import describe_clusters, describe_effects, summarise_clusters
from ._validation import check_number, check_option, check_weights


class DCKM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseDecorrelator):
    """Decorrelated k-means: clusters that do not follow how the data were gathered.

    Learns centres, labels and one weight per row together. With a = sample_weight, N = sum(a), w =
    a m, it minimises over m >= 0 with sum(a m) = N (``objective="normalized"``)

        J =   inertia(w) / (N V0)                      inertia = sum_i w_i ||x_i - C[label_i]||^2
            + balance_strength * balance(w) / B0       balance = sum of D**2
            + spread_strength * (sum(a m**2) / N - 1)

    V0 is the total variance and B0 the balance, both at m = 1, so that balance_strength = 1 means
    "as important as the variance". D[k, j] is the weighted mean of column k where treatment j holds
    minus its mean elsewhere, divided by the starting standard deviation of k; treatments are the
    two-valued columns (the larger value is treated) and the weighted quantile bins of the others;
    pairs inside a column do not count. With ``suspects`` only pairs of one suspect and one other
    column enter, in both directions, and the weighted shares of the suspects' own values (or bins)
    stay what they were (with ten rows or more for each): else the weights would rather empty all
    sites but one than untie the sites from the rest.

    Weights serve two masters: the balance, and the inertia, which lowers the weight of rows far
    from their centre. So the effective size is below 1 also where there is nothing to balance;
    ``spread_strength`` and ``min_effective_sample_size`` limit both.

    The two solvers. "descent" lowers J by its true gradient: k-means to its end at fixed weights,
    then up to 20 quasi-Newton steps on the weights, in turn; J never rises, and the fit ends when a
    round brings less than ``tol`` of J. "paper" repeats the published procedure step by step (one
    sweep of k-means, one accelerated gradient step, an absolute tolerance, half the gradient of the
    inertia); its early end is part of what it finds, its J (``objective="paper"``) has no useful
    minimiser when run on. Use it to reproduce, "descent" for work.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    balance_strength, spread_strength : float or None
        See J; lambda1 and lambda2 of the paper under ``objective="paper"``. None: 1 and 0.1 where
        suspects are named, 0.2 and 0.3 over all pairs, where groups are correlations too and a
        strong balance takes them apart (docs/results/defaults.md); 0.01 and 10 on the paper's
        scale.
    mass_strength : float or None
        lambda3, with ``objective="paper", solver="paper"`` only, where None means 1.
    objective : {"normalized", "paper"}, default="normalized"
        "normalized": J above. "paper": inertia + lambda1 balance + lambda2 ||w||^2 + lambda3
        (sum(w) - 1)^2, D not divided; with "descent" sum(w) = 1 is held instead of the last term,
        because the paper's J falls to 0 with the weights.
    solver : {"descent", "paper"}, default="descent"
        See above. "paper" does not hold the suspects' shares.
    suspects : str, int, list of names or indices, boolean mask, or None
        Columns through which the bias came in (site, scanner, channel). None: all pairs.
    cluster_on : {"non_suspects", "all"}, default="non_suspects"
        "non_suspects": suspects are balanced but are not part of the distance; "all": they are.
    column_scale : {"sd", "idf"} or None, default=None
        Scales of the columns in the distance (the balance does not depend on scales). "sd": one
        over the standard deviation. "idf": rare words count more: columns of two values, absent
        and present, times log((1 + N) / (1 + N p)) + 1, p the share of rows where present.
    row_scale : {"unit", "auto"} or None, default=None
        "unit": the distance is taken between rows of length 1 (two-valued columns as absent 0,
        present 1), so that long and short documents can be near each other. Centres are means of
        such rows; ``cluster_centers_`` are weighted means of the rows as they are, for reading.
        "auto": where every column of an array says absent or present, see ConsensusDCKM.
    adjust : {"weights", "effects", "both"}, default="weights"
        How named suspects are neutralised. "weights": by the balance. "effects": what they add to
        the other columns is estimated and taken out, x - B'z with z the suspects (centred):
        inertia = sum_i w_i ||x_i - C[label_i] - B'z_i||^2, C and B together by least squares;
        weights stay at 1. "both": the balance is measured between suspects and x - B'z, so that
        weights have to undo the selection only; weights then follow balance and spread alone. New
        rows need their suspects' values. Starts come from the raw rows, from rows with the suspects
        regressed out, and (both) from the weights-only solution, which may be kept as it is;
        see ``restarts_``.
    effect_degree : int in 1..5 or "bins", default=1
        Effects of suspects that are numbers: polynomials of that degree, or one per quantile bin.
    effect_ridge : float, default=1e-3
        Ridge on B, relative to the mean variance of the entries of z.
    init : {"partition", "random", "k-means++", "principal"} or array, default="partition"
        "partition": random labels, as in the paper; "random": random rows as centres;
        "k-means++"; "principal": the first principal component cut at quantiles, deterministic; an
        integer array (n,) of labels; a float array (n_clusters, n_features) of centres.
    n_init : int, default=10
        Random starts; the lowest objective is kept. A start that is not random is run once.
    max_iter, tol : int, float, default=100, 1e-4
        At most so many rounds; done when a round lowers J by no more than ``tol`` of itself
        ("descent") or changes it by less than ``tol`` ("paper").
    min_effective_sample_size : float in (0, 1] or None
        Floor for ``effective_sample_size_``, held inside the fit: a step that would leave it is
        pulled back to it and taken only if J falls.
    margins : dict or None
        Known shares of the population, ``{"race": {"White": 0.64, ...}, ...}``: weighted shares are
        pulled towards them by a further term of J, margin_strength * sum((share - known)**2). Of
        rows whose value is known; None as a value asks for a share of missing ones. All values of
        a column (adding up to 1) or some. ``margins_`` and ``margin_distance_`` say what was
        reached. Suspects with margins are not held at their shares in the sample.
    margin_strength : float, default=100.0
        100: a share that is off by 0.1 costs as much as all of the variance.
    encoder : TableEncoder or None
        How tables are turned into numbers; None: ``TableEncoder()``. Arrays and CSR matrices are
        taken as they are.
    n_bins : int, default=5
        Quantile bins, as treatments, of a column with more than two values.
    n_threads : int or None
        Threads over tiles of rows, None for one per core; the same bits for any number. BLAS is
        held to one thread for the whole fit, and that setting belongs to the process: other threads
        of it that use BLAS meanwhile run it on one thread too. Fits in parallel threads do not
        disturb each other.
    random_state : int, RandomState or None
    checkpoint : str, Path or None
        File in which a long fit notes where it stands, every ``checkpoint_seconds`` (60) or more;
        gone when the fit is done.
    resume : bool, default=True
        Whether a fit goes on where its checkpoint says: the same call after a kill ends with the
        same bits. A checkpoint of other rows or settings is an error. False: starts anew.
    verbose : int
        1 logs each restart, 2 each iteration (logger "unskew"); `unskew.on_progress` gives the
        same events to a function.

    Attributes
    ----------
    labels_ : ndarray (n,) of int
    cluster_summary_ : list of dicts
        Sizes, weighted and not, and the columns that set each cluster apart, by readable names.
    cluster_centers_ : ndarray (n_clusters, n_features)
        Weighted means; of a table, in the columns of ``encoder_``; of rows less the suspects'
        effects, where those are taken out. Suspects outside the distance have their weighted mean
        too, for reading.
    weights_ : ndarray (n,)
        The multipliers m, of mean 1 weighted by a (0 for rows of weight 0); under "paper" the
        paper's w.
    combined_weights_ : ndarray (n,)
        a m, the weights to use downstream.
    inertia_ : float
        sum_i w_i ||x_i - C[label_i]||^2.
    objective_, history_ : float, dict of arrays
        J at the end; J and its terms after each iteration.
    imbalance_, initial_imbalance_ : float
        balance(w) after and before.
    effective_sample_size_ : float
        As a share: sum(a m)**2 / (N sum(a m**2)).
    kish_size_ : float
        Kish's effective number of rows of the product a m.
    n_iter_, status_ : int, str
        "converged", or "max_iter" with a ConvergenceWarning; what had to be left out of J, if
        anything, stands behind it. (The procedure "paper" ends with "max_iter" regularly.)
    encoder_ : TableEncoder or None
        What was made of the columns of a table; None for arrays.
    suspects_ : ndarray or None
        Positions of the suspects among the columns of X.
    n_features_in_, feature_names_in_
    margins_, margin_distance_ : dict, float, or None
        For each known share what was wanted, what it was at the start and what was reached; the
        largest distance that is left.
    suspect_effects_ : list of dicts, or None
        With ``adjust`` "effects" or "both": what each value of a suspect does to each column.
    restarts_ : list of dicts
        With ``adjust`` "effects" or "both": where each kind of start ended, what the choice among
        them saw, and which was chosen.

    Notes
    -----
    Missing values of a table: of categories they are a category. Of numbers they are left out of
    the distance, and the other columns stand in: with v_j the starting variance of column j over
    its known values,

        e = (sum of all v_j / sum of the known v_j) * sum over the known j of (x_j - c_j)^2

    so that a row with gaps is not closer to everything; centres are means with the same factors.
    In the balance a missing number counts as its column's starting mean, and being missing is a
    further treatment. A row without any known value in the distance goes to the first cluster,
    with a warning.

    References
    ----------
    Wang, Fan, Kuang, Shi, Liu, Wang: Decorrelated Clustering with Data Selection Bias, IJCAI 2020.

    Examples
    --------
    Four groups, and a site that followed them when the data were gathered. Only ``site`` is named:

    >>> from sklearn.metrics import adjusted_rand_score
    >>> from unskew import DCKM
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(1000, rate=0.8, random_state=0)
    >>> model = DCKM(4, suspects=data.suspects, n_init=3, random_state=0).fit(data.X)
    >>> blind = DCKM(4, suspects=data.suspects, balance_strength=0, spread_strength=100,
    ...              n_init=3, random_state=0).fit(data.X)  # weights stay at 1: k-means
    >>> for each in (blind, model):
    ...     print(f"{adjusted_rand_score(data.y_population, each.predict(data.X_population)):.1f}")
    0.4
    0.9
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        balance_strength=None,
        spread_strength=None,
        mass_strength=None,
        objective="normalized",
        solver="descent",
        suspects=None,
        cluster_on="non_suspects",
        column_scale=None,
        row_scale=None,
        adjust="weights",
        effect_degree=1,
        effect_ridge=1e-3,
        init="partition",
        n_init=10,
        max_iter=100,
        tol=1e-4,
        min_effective_sample_size=None,
        margins=None,
        margin_strength=100.0,
        encoder=None,
        n_bins=5,
        n_threads=None,
        random_state=None,
        checkpoint=None,
        checkpoint_seconds=60.0,
        resume=True,
        verbose=0,
    ):
        self.n_clusters = n_clusters
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
        self.max_iter = max_iter
        self.tol = tol
        self.min_effective_sample_size = min_effective_sample_size
        self.margins = margins
        self.margin_strength = margin_strength
        self.encoder = encoder
        self.n_bins = n_bins
        self.n_threads = n_threads
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.resume = resume
        self.verbose = verbose

    def _check_parameters(self) -> None:
        for name in ("n_clusters", "balance_strength"):
            if isinstance(getattr(self, name), str) and getattr(self, name) == "auto":
                raise ValueError(
                    f"{name}='auto' should be a number: DCKM does not choose it by itself, "
                    "unskew.ConsensusDCKM does"
                )
        check_number("n_clusters", self.n_clusters, numbers.Integral, low=1)
        check_number("n_init", self.n_init, numbers.Integral, low=1)
        check_option("cluster_on", self.cluster_on, ("non_suspects", "all"))
        check_option("adjust", self.adjust, ("weights", "effects", "both"))
        if self.effect_degree != "bins":
            check_number("effect_degree", self.effect_degree, numbers.Integral, low=1, high=5)
        check_number("effect_ridge", self.effect_ridge, low=0)
        check_option("column_scale", self.column_scale, (None, "sd", "idf"))
        check_option("row_scale", self.row_scale, (None, "unit", "auto"))
        if self.adjust != "weights":
            if self.suspects is None:
                raise ValueError(
                    f"adjust={self.adjust!r} takes the effects of suspects out, but suspects=None; "
                    "name the columns"
                )
            for name in ("column_scale", "row_scale"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}={getattr(self, name)!r} should go with adjust='weights': effects "
                        "are taken out of the columns as they are"
                    )
            if self.solver == "paper" or self.objective == "paper":
                raise ValueError(
                    f"adjust={self.adjust!r} should go with objective='normalized' and "
                    "solver='descent'"
                )
        super()._check_parameters()

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn centres, labels and weights.

        Parameters
        ----------
        X : array or CSR matrix (n, d), a pandas, polars or pyarrow table, or rows outside memory
            Outside memory: path of a .npy or .parquet file, np.memmap, ``unskew.ParquetReader``, or
            any object with ``n_blocks`` and ``read(i)`` (a 2-D array or a table); read again block
            by block in each pass; the same bits as in memory where tiles agree (see docs/scale.md).
            Arrays are taken as they are: float32 and float64 are computed in their own precision;
            uint8, int8 and bool are kept and read tile by tile in float32. Tables, with columns of
            any type and gaps, go through ``encoder``.
        y : ignored
        sample_weight : array (n,) or None
            Design weights a: weight 2 = the row twice, 0 = the row absent, though labelled.

        Returns
        -------
        self
        """
        with rollback_on_error(self), verbose_logging(self.verbose):
            self._check_parameters()
            design = self._prepare(X, sample_weight, self.cluster_on)
            rows, a, K = design.rows, design.a, self._K
            present = int((a > 0).sum())
            if present < K:
                of_weight = " of positive weight" if present < rows.n else ""
                raise ValueError(f"n_clusters={K} should be <= n_samples={present}{of_weight}")
            init = check_init(self.init, rows.n, K, rows.d)
            random = isinstance(init, str) and init != "principal"
            n_init = self.n_init if random else 1
            rng = check_random_state(self.random_state)
            seeds = rng.randint(2**31 - 1, size=n_init + 1)
            context = None
            if hasattr(self, "_init_callback_context"):
                context = self._init_callback_context(max_subtasks=n_init)
                context.call_on_fit_task_begin(estimator=self, X=X)
            with rows.threads():
                self.__dict__.pop("restarts_", None)  # of an earlier fit
                if self.adjust == "weights":
                    checkpoint, *kept = open_checkpoint(self, design, seeds)
                    fit_problem, best = self._fit_weights(design, init, context, checkpoint, *kept)
                    self._store(fit_problem, best)
                    self._store_clusters(design, best)
                    if checkpoint is not None:
                        checkpoint.remove()
                else:
                    self._fit_effects(design, init, seeds, context)
            if context is not None:
                context.call_on_fit_task_end(estimator=self, X=X)
        return self

    def _fit_weights(self, design: Design, init, context, checkpoint, before, seeds):
        rows, a, K = design.rows, design.a, self._K
        fit_problem = self._make_problem(design, design.distance)
        solve = _solver.solve_paper if self.solver == "paper" else _solver.alternate

        def solve_from(seed: int, save: Any, resume: Any) -> _solver.Solution:
            sub = None
            if context is not None:
                sub = context.subcontext(task_name="restart", max_subtasks=self.max_iter)
                sub.call_on_fit_task_begin(estimator=self)
            random = np.random.RandomState(seed)
            found = solve(
                fit_problem.problem,
                None
                if resume is not None
                else init_clusters(rows, design.distance, a, K, init, random),
                max_iter=self.max_iter,
                tol=self.tol,
                watch=self._watcher(sub),
                save=save,
                resume=resume,
            )
            if sub is not None:
                sub.call_on_fit_task_end(estimator=self)
            return found

        save = None if checkpoint is None else checkpoint.save_if_due
        best = _solver.best_of_restarts(solve_from, seeds, save, before)
        return fit_problem, best

    def _fit_effects(self, design: Design, init: Any, seeds: np.ndarray, context: Any) -> None:
        if design.rows.sparse:
            raise ValueError(
                f"adjust={self.adjust!r} makes rows dense, and X is sparse; give a dense array or "
                "use adjust='weights'"
            )
        checkpoint, before, seeds = open_checkpoint(self, design, seeds)
        # Corrected features against suspects; the other direction would see the footprint again.
        forward = [p for p in design.pair_blocks if not np.isin(p.features, design.suspects).any()]
        narrow = design._replace(pair_blocks=forward)
        fit_problem = self._make_problem(narrow, design.distance)
        effects = _effects.make_effects(design, self.effect_degree)

        def init_on(distance: Distance, seed: int) -> Clusters:
            generator = np.random.RandomState(seed)
            return init_clusters(design.rows, distance, design.a, self._K, init, generator)

        sub = None
        if context is not None:
            sub = context.subcontext(task_name="candidates", max_subtasks=3 * self.max_iter)
            sub.call_on_fit_task_begin(estimator=self)
        chosen, self.restarts_ = _effects.fit_candidates(
            fit_problem.problem,
            design,
            effects,
            init_on,
            seeds,
            weigh=self.adjust == "both",
            ridge=float(self.effect_ridge),
            max_iter=self.max_iter,
            tol=self.tol,
            watch=self._watcher(sub),
            save=None if checkpoint is None else checkpoint.save_if_due,
            resume=before,
        )
        if sub is not None:
            sub.call_on_fit_task_end(estimator=self)
        ended = fit_problem._replace(problem=chosen.problem)
        if chosen.init != _effects.WEIGHTS_ONLY:
            # The weights did not look at the inertia: nor does predict_weights.
            ended = fit_problem._replace(problem=chosen.problem._replace(inertia_rate=0.0))
        elif chosen.problem.balance is not None:
            ended = ended._replace(B0=chosen.problem.balance.value(design.a))
        self._store(ended, chosen.solution)
        self._store_clusters(design._replace(distance=chosen.fit.distance), chosen.solution)
        if checkpoint is not None:
            checkpoint.remove()
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        for source in _effects.confounded_sources(
            design, chosen.fit.clusters.labels, self.suspects_
        ):
            warnings.warn(
                f"values of suspect {names[source]!r} share no cluster with each other: what they "
                "do to the columns cannot be told apart from what the clusters are",
                UserWarning,
                stacklevel=FIT_STACKLEVEL + 1,
            )

    @property
    def suspect_effects_(self):
        """What each suspect does to each column (``adjust="effects"`` or ``"both"``), else None.

        List of dicts: "suspect" (readable, for a category its value), "source", "columns" (names),
        "effects" (array: in standard deviations of the column at the start, a value of a category
        against the average row, a number per standard deviation).
        """
        check_is_fitted(self)
        return describe_effects(self)

    def _store_clusters(self, design: Design, solution: _solver.Solution) -> None:
        rows, distance, clusters = design.rows, design.distance, solution.clusters
        K = self._K
        C = np.empty((K, rows.d))
        if distance.columns.size < rows.d or distance.scaling is not None:
            everything = Distance(np.arange(rows.d))
            C = _kmeans.init_from_labels(rows, everything, solution.w, clusters.labels, K)
        if distance.scaling is None:
            C[:, distance.columns] = clusters.C
        if rows.shift is not None:
            C += rows.shift
        self.labels_ = clusters.labels
        self.cluster_centers_ = C.astype(rows.dtype, copy=False)
        self.inertia_ = float(solution.w @ clusters.e)
        self._profile = describe_clusters(design, solution.w, clusters.labels, K)
        # What predict needs, to the last digit of the fit: the columns of the distance, their
        # variances and centres in shifted values, and which clusters have a centre at all (the
        # procedure "paper" may leave some empty, and does not choose them).
        self._distance = distance
        self._variances = design.stats.sd[distance.columns] ** 2
        columns = design.stats
        self._means, self._sd = columns.mean, columns.sd
        self._low, self._high = columns.low, columns.high
        chosen = np.unique(clusters.labels) if self.solver == "paper" else np.arange(K)
        self._chosen = chosen.astype(np.int32)
        self._centres = clusters.C
        used = np.unique(clusters.labels[design.a > 0]).size
        if used < K:
            warnings.warn(
                f"Number of distinct clusters ({used}) found smaller than n_clusters ({K}). "
                "Possibly due to duplicate points in X.",
                ConvergenceWarning,
                stacklevel=FIT_STACKLEVEL,
            )

    def _new_rows(self, X: Any, unknowns: list):
        matrix, unknown = self._new_matrix(X, unknowns)
        distance, centres = self._distance, self._centres
        if unknown:
            # Values that have no place: noted in further columns, and left out of the distance.
            d = matrix.shape[1]
            at = [] if distance.missing_at is None else list(distance.missing_at)
            indicator = [] if distance.indicator is None else list(distance.indicator)
            sources = self.encoder_.sources_[distance.columns]
            for number, source in enumerate(unknown):
                places = np.flatnonzero(sources == source)
                at.extend(places)
                indicator.extend([d + number] * places.size)
                if distance.effects is not None and source in self.suspects_:
                    own = np.flatnonzero(self.encoder_.sources_ == source)
                    matrix[np.ix_(unknown[source], own)] = self._means[own]  # an average effect
            notes = [lost.astype(matrix.dtype) for lost in unknown.values()]
            matrix = np.column_stack([matrix, *notes])
            variances = distance.variances
            if variances is None:
                scale = 1.0 if distance.scaling is None else distance.scaling.scale
                variances = self._variances * scale**2
            distance = replace(
                distance,
                missing_at=np.array(at, int),
                indicator=np.array(indicator, int),
                variances=variances,
            )
        shift = self._shift
        rows = self._as_tiled(matrix)
        if rows.sparse and shift is not None:
            own, scaling = shift[distance.columns], distance.scaling
            if scaling is None:
                return rows, distance, centres + own
            scaling = replace(scaling, offset=scaling.offset - own)
            return rows, replace(distance, scaling=scaling), centres
        if unknown and shift is not None:
            shift = np.append(shift, np.zeros(len(unknown), dtype=shift.dtype))
        return rows.with_shift(shift), distance, centres

    def _rows_and_distances(self, X: Any, unknowns: list) -> tuple[Any, np.ndarray]:
        rows, distance, C = self._new_rows(X, unknowns)
        with rows.threads():
            return rows, _kmeans.label(rows, distance, C[self._chosen]).e

    @property
    def cluster_summary_(self):
        """What the clusters are: sizes, and the columns that set each apart from the rest.

        List of dicts: "cluster"; "size" (rows); "share" of the rows; "weighted_share" (of
        ``combined_weights_``); "features": the ten with the largest standardised difference,
        (weighted mean inside - weighted mean of all other rows) / starting standard deviation, as
        "feature", "difference", "inside", "rest" (means in the units of the table; of a category
        its share).
        """
        check_is_fitted(self)
        return summarise_clusters(self)

    def predict(self, X):
        """Nearest centre of each row, by the columns of the distance. Returns labels (n,)."""

        def nearest(X: Any, unknowns: list) -> np.ndarray:
            rows, distance, C = self._new_rows(X, unknowns)
            with rows.threads():
                return self._chosen[_kmeans.label(rows, distance, C[self._chosen]).labels]

        return self._apply_to_new(X, nearest)

    def transform(self, X):
        """Distance of each row to each centre. Returns an array (n, n_clusters)."""

        def distances(X: Any, unknowns: list) -> np.ndarray:
            rows, distance, C = self._new_rows(X, unknowns)
            out = np.empty((rows.n, self._K), dtype=rows.dtype)
            with rows.threads():
                parts = rows.map(
                    lambda tile: _kmeans.distances(
                        distance.features(tile), C, distance.missing_mask(tile)
                    ),
                    dense=False,
                )
                for (start, stop), part in zip(rows.bounds, parts):
                    out[start:stop] = part
            return out

        return self._apply_to_new(X, distances, stacklevel=4)

    def fit_predict(self, X, y=None, sample_weight=None):
        """fit, then the labels of the same rows."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def score(self, X, y=None, sample_weight=None):
        """Minus the mean squared distance of rows to their nearest centre, weighted by
        ``sample_weight``: larger is better."""
        e = self._apply_to_new(X, lambda X, unknowns: self._rows_and_distances(X, unknowns)[1])
        a = check_weights(sample_weight, e.size)
        return -float(a @ e) / float(a.sum())

    def _shift_of(self, columns: np.ndarray) -> np.ndarray:
        return np.zeros(columns.size) if self._shift is None else self._shift[columns]

    @property
    def _K(self) -> int:
        return self.n_clusters

    @property
    def _n_features_out(self) -> int:
        return self._K
