"""Base class of DCKM and ConsensusDCKM: restarts, clusters, prediction."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from . import _effects, _kmeans, _solver
from ._base import MAX_INIT, BaseDecorrelator, FitProblem
from ._compat import FIT_STACKLEVEL
from ._data.sampling import draw_rows
from ._kmeans import Clusters, Distance, init_clusters
from ._preprocessing import Design, check_sizes
from ._summaries import count_labels, describe_clusters, describe_effects, summarise_clusters
from ._validation import check_number, check_option, check_weights

# Restarts are compared on a subsample of at least this many rows, and rows per cluster, where there
# are twice as many.
SCREENING_ROWS, SCREENING_ROWS_PER_CLUSTER = 8192, 200


class BaseClusterer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseDecorrelator
):
    """Restarts with weights or effects, the fitted clusters, and what is computed from them."""

    _row_scales_with_effects: tuple = (None,)

    def _check_parameters(self) -> None:
        check_number("n_clusters", self._K, numbers.Integral, low=1)
        check_number("n_init", self.n_init, numbers.Integral, low=1, high=MAX_INIT)
        check_option("cluster_on", self.cluster_on, ("non_suspects", "all"))
        check_option("adjust", self.adjust, ("auto", "weights", "effects", "both"))
        if self.effect_degree != "bins":
            check_number("effect_degree", self.effect_degree, numbers.Integral, low=1, high=5)
        check_number("effect_ridge", self.effect_ridge, low=0)
        check_option("column_scale", self.column_scale, (None, "sd", "idf"))
        check_option("row_scale", self.row_scale, (None, "unit", "auto"))
        if self.adjust in ("effects", "both"):
            if self.suspects is None:
                raise ValueError(
                    f"adjust={self.adjust!r} removes the effects of suspects, but suspects=None; "
                    "name the columns"
                )
            if self.margins is not None and self.adjust == "effects":
                raise ValueError(
                    "margins have no meaning with adjust='effects', which learns no weights; use "
                    "adjust='both'"
                )
            for name, value in (
                ("column_scale", self.column_scale),
                ("row_scale", self._row_scale),
            ):
                if value is not None:
                    raise ValueError(
                        f"{name}={value!r} should be used with adjust='weights': "
                        "effects are removed from the unscaled columns"
                    )
            if self.solver == "paper" or self.objective == "paper":
                raise ValueError(
                    f"adjust={self.adjust!r} should be used with objective='normalized' and "
                    "solver='descent'"
                )
        super()._check_parameters()

    def _adjust_for(self, sparse: bool) -> str:
        """ "weights", "effects" or "both": ``adjust``, with "auto" replaced."""
        if self.adjust != "auto":
            return self.adjust
        applies = (
            self.suspects is not None
            and not sparse
            and self.objective == "normalized"
            and self.solver == "descent"
            and self.column_scale is None
            and self.row_scale in self._row_scales_with_effects
            and self.cluster_on == "non_suspects"
        )
        return "both" if applies else "weights"

    def _fit_weights(
        self, design: Design, init: Any, seeds: np.ndarray, context: Any = None,
        save: Any = None, resume: Any = None, balance_strength: float | None = None,
    ) -> tuple[FitProblem, _solver.Solution]:  # fmt: skip
        """The best solution of the restarts. Restarts of many rows are screened on a subsample, and
        the best of them solved on all rows."""
        make_problem = partial(self._make_problem, balance_strength=balance_strength)
        fit_problem = make_problem(design, design.distance)
        problem = fit_problem.problem
        solve = _solver.solve_paper if self.solver == "paper" else _solver.alternate

        def start_on(problem: _solver.Problem, seed: Any) -> Any:
            rng = np.random.RandomState(seed)
            clusters = init_clusters(problem.rows, problem.distance, problem.a, self._K, init, rng)
            return clusters if self.solver == "paper" else _solver.initial_state(problem, clusters)

        def solve_from(start: Any, save: Any, resume: Any) -> _solver.Solution:
            sub = None
            if context is not None:
                sub = context.subcontext(task_name="restart", max_subtasks=self.max_iter)
                sub.call_on_fit_task_begin(estimator=self)
            found = solve(
                problem,
                None if resume is not None else start(),
                max_iter=self.max_iter,
                tol=self.tol,
                watch=self._watcher(sub),
                save=save,
                resume=resume,
                **owned,
            )
            if sub is not None:
                sub.call_on_fit_task_end(estimator=self)
            return found

        # Each start is made for one solve, which may overwrite its vectors.
        owned: dict[str, Any] = {} if self.solver == "paper" else {"owned": True}
        starts = [partial(start_on, problem, seed) for seed in seeds[:-1]]
        few = self._screening_rows(design, seeds)
        if few is not None:
            small = make_problem(few, few.distance, fit_problem).problem
            screened = _solver.screen(
                [partial(start_on, small, seed) for seed in seeds[:-1]],
                lambda start: _solver.alternate(small, start(), max_iter=self.max_iter, tol=1e-3),
            )
            starts = [
                partial(_solver.continued_state, problem, small, found, 0.1 * self.tol)
                for found in screened
            ]
        return fit_problem, _solver.best_of_restarts(solve_from, problem, starts, save, resume)

    def _screening_rows(self, design: Design, seeds: np.ndarray) -> Design | None:
        """The subsample on which restarts are compared; None where all rows are used."""
        size = max(SCREENING_ROWS, SCREENING_ROWS_PER_CLUSTER * self._K)
        if self.solver == "paper" or seeds.size <= 2 or design.rows.n < 2 * size:
            return None
        which = draw_rows(design.a, size, seeds[-1])
        return design._replace(rows=design.rows.select(which), a=design.a[which])

    def _fit_effects(
        self, design: Design, init: Any, seeds: np.ndarray, context: Any = None,
        save: Any = None, resume: Any = None,
    ) -> _effects.EffectsCandidate:  # fmt: skip
        adjust = self._adjust_for(design.rows.sparse)
        if design.rows.sparse:
            raise ValueError(
                f"adjust={adjust!r} makes rows dense, and X is sparse; pass a dense array or "
                "use adjust='weights'"
            )
        effects = _effects.make_effects(design, self.effect_degree)
        fit_problem = self._make_problem(design, replace(design.distance, effects=effects))
        few = self._screening_rows(design, seeds)
        small = None
        if few is not None:
            own = replace(few.distance, effects=effects)
            small = self._make_problem(few, own, fit_problem).problem

        def init_on(problem: _solver.Problem, distance: Distance, seed: int) -> Clusters:
            generator = np.random.RandomState(seed)
            return init_clusters(problem.rows, distance, problem.a, self._K, init, generator)

        sub = None
        if context is not None:
            sub = context.subcontext(task_name="candidates", max_subtasks=3 * self.max_iter)
            sub.call_on_fit_task_begin(estimator=self)
        chosen, self.restarts_ = _effects.fit_candidates(
            fit_problem.problem,
            small,
            init_on,
            seeds[:-1],
            source=design.column_map.source,
            any_effect=fit_problem.associated,
            weigh=adjust == "both" and fit_problem.problem.dual is not None,
            ridge=float(self.effect_ridge),
            max_iter=self.max_iter,
            tol=self.tol,
            watch=self._watcher(sub),
            save=save,
            resume=resume,
        )
        if sub is not None:
            sub.call_on_fit_task_end(estimator=self)
        self._store(fit_problem._replace(problem=chosen.problem), chosen.solution)
        self._store_clusters(design._replace(distance=chosen.solution.distance), chosen.solution)
        if self.identified_ == "no":
            warnings.warn(self._not_identified, UserWarning, stacklevel=FIT_STACKLEVEL + 1)
        return chosen

    @property
    def suspect_effects_(self):
        """Effect of each suspect on each column (``adjust="effects"`` or ``"both"``), else None.

        List of dicts: "suspect" (its name, with the value for a category), "source", "columns"
        (names), "effects" (array, in standard deviations of the column at m = 1: of a category's
        value compared with the average row, of a number per standard deviation). Its method
        ``to_frame()`` makes a table of the kind of X, with a row for each suspect and column.
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
        self.labels_ = clusters.labels.astype(np.int32)
        self.identified_ = None
        if self.suspects_ is not None:
            names = getattr(self, "feature_names_in_", None)
            if names is None:
                names = [f"column {k}" for k in range(self.n_features_in_)]
            self.identified_, self._not_identified = _effects.identify_effects(
                design, clusters.labels, K, [str(name) for name in names]
            )
        self.cluster_centers_ = C.astype(rows.dtype, copy=False)
        self.inertia_ = _kmeans.inertia(rows, distance, solution.w, clusters)
        self._profile = describe_clusters(design, solution.w, clusters.labels, K)
        # State of predict, bit-identical to the fit: the columns of the distance, their variances,
        # centres in shifted values, and the clusters that have a centre (solver="paper" may leave
        # some empty and never assigns rows to them).
        self._distance = distance
        self._variances = design.stats.sd[distance.columns] ** 2
        columns = design.stats
        self._means, self._sd = columns.mean, columns.sd
        self._low, self._high = columns.low, columns.high
        chosen = np.unique(clusters.labels) if self.solver == "paper" else np.arange(K)
        self._chosen = chosen.astype(np.int32)
        self._centres = clusters.C
        used = int((count_labels(clusters.labels, K, design.a) > 0).sum())
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
            # Unknown values: marked in further indicator columns and left out of the distance.
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
        rows = rows.with_shift(shift)
        if distance.effects is not None and (distance.effects.power > 1).any():
            # Powers of a suspect far from its mean can overflow although its square does not.
            for _ in rows.map(partial(_check_features, distance)):
                pass
        return rows, distance, centres

    def _rows_and_distances(
        self, X: Any, unknowns: list, centres: np.ndarray | None = None
    ) -> tuple[Any, np.ndarray]:
        """Rows, and their squared distances to the nearest of ``centres`` (None: of the fit)."""
        rows, distance, C = self._new_rows(X, unknowns)
        if centres is not None:
            C = C + (centres - self._centres)  # sparse rows have centres that are not shifted
        with rows.executor:
            return rows, _kmeans.label(rows, distance, C[self._chosen]).e

    @property
    def cluster_summary_(self):
        """Description of the clusters: sizes, and the columns that distinguish each of them.

        List of dicts: "cluster"; "size" (rows); "share" of the rows; "weighted_share" (of
        ``combined_weights_``); "features": the ten with the largest standardised difference,
        (weighted mean inside - weighted mean of all other rows) / standard deviation at m = 1, as
        "feature", "difference", "inside", "rest" (means in the units of the table; for a category
        its share). Its method ``to_frame()`` makes a table of the kind of X, with a row for each
        feature of a cluster.
        """
        check_is_fitted(self)
        return summarise_clusters(self)

    def predict(self, X):
        """Predict the nearest centre of each row. Returns labels (n,)."""

        def nearest(X: Any, unknowns: list) -> np.ndarray:
            rows, distance, C = self._new_rows(X, unknowns)
            with rows.executor:
                return self._chosen[_kmeans.label(rows, distance, C[self._chosen]).labels]

        return self._apply_to_new(X, nearest)

    def transform(self, X):
        """Distances of each row to all centres. Returns an array (n, n_clusters)."""

        def distances(X: Any, unknowns: list) -> np.ndarray:
            rows, distance, C = self._new_rows(X, unknowns)
            out = np.empty((rows.n, self._K), dtype=rows.dtype)
            with rows.executor:
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
        """Fit, and return the labels of the same rows."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def score(self, X, y=None, sample_weight=None):
        """Negative mean squared distance of rows to their nearest centre, weighted by
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


def _check_features(distance: Distance, tile: np.ndarray) -> None:
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        own = distance.features(tile)
    check_sizes(own)
