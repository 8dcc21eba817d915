"""Base class of DecorrelationWeights and DCKM: input validation, objective, fitted attributes."""

from __future__ import annotations

import numbers
import os
import warnings
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _balance, _kmeans, _solver, _terms
from ._compat import FIT_STACKLEVEL, CallbackSupportMixin
from ._data.columns import as_frame
from ._data.sources import SUPPORTED_DTYPES
from ._data.tables import TableBlocks, open_source
from ._data.tiled import as_tiled
from ._kmeans import Distance
from ._preprocessing import (
    ColumnMap,
    Design,
    EncodedTable,
    KnownShares,
    TableEncoder,
    check_sizes,
    make_design,
    make_margins,
    read_margins,
)
from ._progress import emit
from ._validation import (
    ORDINARY,
    abbreviate,
    check_number,
    check_option,
    check_weights,
    find_columns,
    power_of_two,
    to_native_byteorder,
)
from ._weight_model import DualWeightModel, WeightModel, fit_weight_model

# Default strengths of balance and spread (docs/results/defaults.md).
DEFAULT_STRENGTHS = {"suspects": (1.0, 0.1), "all pairs": (0.2, 0.3), "paper": (0.01, 10.0)}


# Default strength of the spread where suspects are not associated with the columns beyond chance:
# the inertia then changes no weight by more than about 0.01.
UNIFORM_SPREAD = 100.0


# Default of margin_strength without suspects.
DEFAULT_MARGIN_STRENGTH = 100.0


# predict_weights raises where it reproduces the weights of the fit with a lower R2.
LOWEST_R2 = 0.99


# Below this effective sample size a fit with solver="descent" warns.
LOW_ESS = 0.05


# Upper bounds of counts for which memory is allocated at once.
MAX_BINS, MAX_INIT = 10_000, 100_000


# Text of the ConvergenceWarning for each status.
NOT_CONVERGED = {
    "max_iter": "after max_iter={max_iter} iterations the objective still decreased by more "
    "than tol={tol:g} of itself; raise max_iter or tol",
    "non-finite": "the objective is not finite; rescale the columns of X or the strengths",
    "stopped": "a callback requested a stop",
}


class FitProblem(NamedTuple):
    """A problem to solve, and what is stored of it after the fit.

    B0         balance(w) at uniform weights
    left_out   terms that had to be left out of the objective, as text
    known      margins
    associated with suspects: whether they are associated with the columns beyond chance
    """

    problem: _solver.Problem
    B0: float
    left_out: str
    known: list[KnownShares]
    associated: bool = True


def weight_model_of(
    fit_problem: FitProblem, solution: _solver.Solution
) -> WeightModel | DualWeightModel | None:
    """The model that predicts the weights of new rows, from the solution of a fit."""
    problem, w = fit_problem.problem, solution.w
    if problem.dual is not None and solution.dual is not None:
        return DualWeightModel.of(problem.dual, solution.dual, solution.weight_C)
    known = [t for each in fit_problem.known for t in (each.treatments, each.unknown)]
    clusters = solution.clusters
    e = np.zeros(w.size) if clusters is None else clusters.e
    if e is None:
        assert problem.distance is not None
        e = _kmeans.label(problem.rows, problem.distance, clusters.C).e
    return fit_weight_model(problem, w, e, _balance.concat_treatments(known))


def set_features_in(model: Any, source: Any, names: Any) -> None:
    """Set ``n_features_in_`` and ``feature_names_in_`` from a file or reader."""
    n, d = source.shape
    if n == 0 or d == 0:
        raise ValueError(f"{source.name} has {n} rows and {d} columns; both should be >= 1")
    model.n_features_in_ = d
    vars(model).pop("feature_names_in_", None)
    if names is None:
        return
    if len(names) != d:
        raise ValueError(f"{source.name}: names {len(names)} columns but its blocks have {d}")
    names = [str(name) for name in names]
    if len(set(names)) < d:
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"{source.name}: has two columns named {twice!r}; names should differ")
    model.feature_names_in_ = np.array(names, dtype=object)


class CombinedWeightsMixin:
    """``combined_weights_``: kept only where it differs from ``weights_``, because there is one
    number for each row."""

    weights_: np.ndarray
    _combined_weights: np.ndarray | None

    @property
    def combined_weights_(self) -> np.ndarray:
        """``sample_weight`` times ``weights_``, to use downstream."""
        check_is_fitted(self, "weights_")
        found = vars(self).get("_combined_weights")
        return self.weights_.copy() if found is None else found

    @combined_weights_.setter
    def combined_weights_(self, value: np.ndarray) -> None:
        self._combined_weights = value


class BaseDecorrelator(CombinedWeightsMixin, CallbackSupportMixin, BaseEstimator):
    """Base class of DecorrelationWeights and DCKM: input validation, objective, fitted
    attributes."""

    encoder_: Any
    suspects_: Any
    _weight_model: Any

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        for strength in self._balance_strengths():
            if strength is not None:
                check_number("balance_strength", strength, low=0)
        if self.spread_strength is not None:
            check_number("spread_strength", self.spread_strength, low=0)
        check_option("objective", self.objective, ("normalized", "paper"))
        check_option("solver", self.solver, ("descent", "paper"))
        if self.mass_strength is not None:
            check_number("mass_strength", self.mass_strength, low=0)
            if self.objective == "normalized":
                raise ValueError(
                    f"mass_strength={self.mass_strength!r} has no meaning with "
                    "objective='normalized', where the weights keep mean 1; leave it None or use "
                    "objective='paper'"
                )
            if self.solver == "descent":
                raise ValueError(
                    f"mass_strength={self.mass_strength!r} has no meaning with solver='descent', "
                    "which fixes sum(weights) = 1 under objective='paper'; leave it None or use "
                    "solver='paper'"
                )
        if self.solver == "paper" and self.objective == "normalized":
            raise ValueError(
                "solver='paper' is defined for objective='paper' only; objective='normalized' "
                "should be used with solver='descent'"
            )
        if self.min_effective_sample_size is not None:
            check_number(
                "min_effective_sample_size",
                self.min_effective_sample_size,
                low=0,
                high=1,
                open_low=True,
            )
            if self.solver == "paper":
                raise ValueError(
                    f"min_effective_sample_size={self.min_effective_sample_size!r} has no meaning "
                    "with solver='paper', which has no lower bound; use solver='descent'"
                )
        if self.margins is not None:
            if not isinstance(self.margins, dict) or not all(
                isinstance(shares, dict) and shares for shares in self.margins.values()
            ):
                raise TypeError(
                    f"margins={self.margins!r} should be a dict of dicts: "
                    "{column: {value: share of the population}}"
                )
            if self.solver == "paper":
                raise ValueError(
                    "margins have no meaning with solver='paper', which has no such term; use "
                    "solver='descent'"
                )
        if self.margin_strength is not None:
            check_number("margin_strength", self.margin_strength, low=0, open_low=True)
            if self.suspects is not None:
                raise ValueError(
                    f"margin_strength={self.margin_strength!r} has no meaning with suspects, whose "
                    "weights have the margins exactly; leave it None"
                )
        if self.suspects is not None and self.solver == "descent" and self.spread_strength == 0:
            raise ValueError(
                "spread_strength=0 should be > 0 with suspects: it makes the weights unique"
            )
        if self.encoder is not None and not isinstance(self.encoder, TableEncoder):
            raise TypeError(
                f"encoder={self.encoder!r} should be a TableEncoder or None, not "
                f"{type(self.encoder).__name__}"
            )
        check_number("n_bins", self.n_bins, numbers.Integral, low=2, high=MAX_BINS)
        check_number("max_iter", self.max_iter, numbers.Integral, low=1)
        check_number("tol", self.tol, low=0)
        if self.n_threads is not None:
            check_number("n_threads", self.n_threads, numbers.Integral, low=1)
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, os.PathLike)):
            raise TypeError(f"checkpoint={self.checkpoint!r} should be a path or None")
        check_number("checkpoint_seconds", self.checkpoint_seconds, low=0)
        if not isinstance(self.resume, (bool, np.bool_)):
            raise TypeError(f"resume={self.resume!r} should be True or False")
        if not isinstance(self.verbose, (bool, np.bool_)):
            check_number("verbose", self.verbose, numbers.Integral, low=0)

    def _read(self, X: Any, sample_weight: Any) -> tuple[Any, np.ndarray, ColumnMap]:
        """Matrix, design weights and column map; tables are encoded, arrays are not."""
        source = self._open_source(X)
        frame = None if source is not None else as_frame(X)
        if source is not None and not isinstance(source, TableBlocks):
            self.encoder_ = None
            set_features_in(self, source, getattr(X, "columns", None))
            a = check_weights(sample_weight, source.shape[0])
            names = getattr(self, "feature_names_in_", None)
            return source, a, ColumnMap.identity(source.shape[1], names)
        if source is None and frame is None:
            self.encoder_ = None
            # Non-finite values are detected in the first pass over the tiles.
            X = validate_data(
                self,
                to_native_byteorder(X),
                accept_sparse="csr",
                dtype=SUPPORTED_DTYPES,
                order="C",
                ensure_all_finite=False,
            )
            a = check_weights(sample_weight, X.shape[0])
            return X, a, ColumnMap.identity(X.shape[1], getattr(self, "feature_names_in_", None))
        encoder = TableEncoder() if self.encoder is None else clone(self.encoder)
        if source is not None:
            a = check_weights(sample_weight, source.shape[0])
            source.fit_encoder(encoder, a)
            matrix: Any = source.matrix(encoder)
        else:
            assert frame is not None
            a = check_weights(sample_weight, len(frame))
            matrix = encoder._fit_encode(frame, a).matrix
        self.encoder_ = encoder
        self.n_features_in_ = encoder.n_features_in_
        self.feature_names_in_ = encoder.feature_names_in_
        encoder._warn_changed(FIT_STACKLEVEL + 2)
        return matrix, a, encoder._column_map()

    def _open_source(self, X: Any) -> Any:
        """The out-of-core source or tables of X, None where its rows are in memory."""
        return open_source(X)

    def _as_tiled(self, matrix: Any) -> Any:
        return as_tiled(matrix, self.n_threads)

    def _prepare(self, X: Any, sample_weight: Any, cluster_on: str) -> Design:
        X, a, column_map = self._read(X, sample_weight)
        if self.objective == "paper" and sample_weight is not None:
            largest = float(np.max(sample_weight))
            if power_of_two(largest) != 1:
                raise ValueError(
                    f"sample_weight has values up to {largest:g}; with objective='paper', whose "
                    f"spread depends on their scale, the largest should be in [{1 / ORDINARY:.0e}, "
                    f"{ORDINARY:.0e}]"
                )
        if self.solver == "paper" and not np.isin(a, (0.0, 1.0)).all():
            other = a[~np.isin(a, (0.0, 1.0))][0]
            raise ValueError(
                f"sample_weight has {other:g}, but solver='paper' is defined for weights 0 and 1 "
                "only; use solver='descent'"
            )
        d = self.n_features_in_
        names = getattr(self, "feature_names_in_", None)
        self.suspects_ = suspects = None
        if self.suspects is not None:
            self.suspects_ = find_columns(self.suspects, names, d, "suspects")
            if self.suspects_.size in (0, d):
                which = "no column" if self.suspects_.size == 0 else f"all {d} columns"
                raise ValueError(
                    f"suspects={self.suspects!r} names {which}, so there is no pair of a suspect "
                    "and another column to balance; None balances all pairs"
                )
            self._refuse_identifiers(self.suspects_)
            suspects = np.flatnonzero(np.isin(column_map.source, self.suspects_))
        rows = self._as_tiled(X)
        with rows.executor:
            design = make_design(
                rows,
                a,
                suspects=suspects,
                cluster_on=cluster_on,
                n_bins=self.n_bins,
                standardise=self.objective == "normalized",
                column_map=column_map,
                column_scale=getattr(self, "column_scale", None),
                row_scale=self._row_scale,
            )
        if design.distance.columns.size == 0:
            raise ValueError(
                "no column of the distance varies; ignored: "
                f"{abbreviate(list(self.encoder_.ignored_))}"
            )
        self._warn_of_empty_rows(design)
        return design

    def _refuse_identifiers(self, suspects: np.ndarray) -> None:
        """Raise for a suspect that the encoder leaves out as an identifier."""
        for name, why in getattr(self.encoder_, "identifiers_", {}).items():
            if name in self.feature_names_in_[suspects]:
                raise ValueError(
                    f"suspect {name!r} is left out of the table ({why}); kinds={{{name!r}: "
                    "'number'}} or 'category' of a TableEncoder keeps it"
                )

    @staticmethod
    def _warn_of_empty_rows(design: Design) -> None:
        distance = design.distance
        if distance.missing_at is None or distance.missing_at.size < distance.columns.size:
            return
        missing_mask: Any = distance.missing_mask
        factor = design.rows.gather(lambda tile: missing_mask(tile).factor)
        empty = np.flatnonzero(factor == 0)
        if empty.size:
            warnings.warn(
                f"{empty.size} rows have no value in any column of the distance (first at "
                f"index {empty[0]}); they are assigned to the first cluster",
                UserWarning,
                stacklevel=FIT_STACKLEVEL + 1,
            )

    @property
    def _row_scale(self) -> str | None:
        """How rows are scaled; None as they are."""
        return getattr(self, "row_scale", None)

    def _balance_strengths(self) -> list:
        """Strengths of the balance that are used, one after the other."""
        return [self.balance_strength]

    def _strengths(self, balance_strength: float | None = None) -> tuple[float, float]:
        """Strengths of balance and spread; None stands for the first that is used, which may be
        that of DEFAULT_STRENGTHS."""
        if balance_strength is None:
            balance_strength = self._balance_strengths()[0]
        usual = DEFAULT_STRENGTHS["all pairs" if self.suspects is None else "suspects"]
        if self.objective == "paper":
            usual = DEFAULT_STRENGTHS["paper"]
        given = (balance_strength, self.spread_strength)
        balance, spread = (u if g is None else g for u, g in zip(usual, given))
        return float(balance), float(spread)

    def _make_problem(
        self, design: Design, distance: Distance | None, whole: FitProblem | None = None,
        balance_strength: float | None = None,
    ) -> FitProblem:  # fmt: skip
        """The problem of a design. Of a subsample on which restarts are screened, ``whole`` is the
        problem of all rows: it has the same strengths, and no margins, because it may lack values
        whose shares are known."""
        rows, a = design.rows, design.a
        balance_strength, spread_strength = self._strengths(balance_strength)
        if whole is not None:
            spread_strength = whole.problem.spread_rate * whole.problem.design_sum
        N = float(a.sum())
        if a.strides == (0,):
            inverse_a = a
        else:
            inverse_a = np.divide(1.0, a, out=np.zeros_like(a), where=a > 0)
        pieces = [p for p in design.pair_blocks if p.n_pairs > 0]
        balance = _balance.Balance(rows, pieces) if pieces else None
        B0 = 0.0 if balance is None else balance.value(a)
        left_out = []
        known = read_margins(
            (self.margins or {}) if whole is None else {},
            design,
            self.encoder_,
            getattr(self, "feature_names_in_", None),
            self.n_features_in_,
        )
        if self.objective == "paper":
            mass = 1.0 if self.mass_strength is None else float(self.mass_strength)
            by_paper = self.solver == "paper"
            rates = {
                "weight_sum": 1.0,
                "inertia_rate": 1.0,
                "balance_rate": balance_strength if balance is not None else 0.0,
                "spread_rate": spread_strength,
                "mass_rate": mass if by_paper else 0.0,
            }
        else:
            V0 = self._total_variance(design, distance) if distance else 0.0
            # D is standardised here, so entries of the size of rounding count as 0.
            rounding = (64 * float(np.finfo(rows.dtype).eps)) ** 2 * (
                balance.n_pairs if balance else 1
            )
            nothing = B0 <= rounding
            if nothing:
                left_out.append("balance left out: no imbalance at uniform weights")
            if distance is not None and V0 == 0:
                left_out.append("inertia left out: the columns of the distance are constant")
            rates = {
                "weight_sum": N,
                "inertia_rate": 1.0 / (N * V0) if V0 > 0 else 0.0,
                "balance_rate": 0.0 if nothing else balance_strength / B0,
                "spread_rate": spread_strength / N,
                "constant": -spread_strength,
            }
        dual, associated = None, True
        if self.suspects is not None and self.solver == "descent" and pieces:
            own = {
                "beta": rates["balance_rate"],
                "rho": rates["inertia_rate"] if distance is not None else 0.0,
                "sigma": rates["spread_rate"],
                "weight_sum": rates["weight_sum"],
                "design_sum": N,
                "min_ess": self.min_effective_sample_size,
            }
            dual = _solver.make_dual(rows, pieces[0], a, design.column_map.source, known, own)
            if self.objective == "normalized" and whole is None:
                associated = _solver.is_beyond_chance(dual)
            if self.spread_strength is None and not associated:
                factor = UNIFORM_SPREAD / spread_strength
                dual = replace(dual, sigma=factor * dual.sigma)
                rates["spread_rate"] *= factor
                rates["constant"] *= factor
        strength = DEFAULT_MARGIN_STRENGTH if self.margin_strength is None else self.margin_strength
        problem = _solver.Problem(
            rows=rows,
            balance=balance,
            distance=distance,
            a=a,
            inverse_a=inverse_a,
            design_sum=N,
            min_ess=self.min_effective_sample_size,
            dual=dual,
            margins=make_margins(rows, known) if known else None,
            margin_rate=float(strength) if known and dual is None else 0.0,
            **rates,
        )
        return FitProblem(problem, B0, "; ".join(left_out), known, associated)

    @staticmethod
    def _total_variance(design: Design, distance: Distance) -> float:
        """Inertia of one cluster divided by N, at uniform weights."""
        if distance.missing_at is None and distance.scaling is None:
            return float((design.stats.sd[distance.columns] ** 2).sum())
        rows, a = design.rows, design.a
        C = _kmeans.init_from_labels(rows, distance, a, np.zeros(rows.n, dtype=np.int32), 1)
        return float(a @ _kmeans.label(rows, distance, C).e) / float(a.sum())

    def _store(self, fit_problem: FitProblem, solution: _solver.Solution) -> None:
        problem, w = fit_problem.problem, solution.w
        uniform = problem.a.strides == (0,) or bool((problem.a == 1.0).all())
        self.weights_ = w if uniform or self.objective == "paper" else w * problem.inverse_a
        self._combined_weights = None if self.weights_ is w else w
        self.objective_ = solution.objective
        self.initial_imbalance_ = fit_problem.B0
        self._associated = fit_problem.associated
        self.imbalance_ = problem.balance.value(w) if problem.balance is not None else 0.0
        self.effective_sample_size_ = _terms.effective_share(
            w, problem.inverse_a, problem.design_sum
        )
        squares = float(w @ w)  # Kish's size, without a vector of the length of w
        self.kish_size_ = float(w.sum()) ** 2 / squares if squares > 0 else 0.0
        self.history_ = solution.history
        self.n_iter_ = solution.n_iter
        self._store_margins(fit_problem, w)
        self._weight_model = None
        if self.solver == "descent":
            self._weight_model = weight_model_of(fit_problem, solution)
        self._shift = problem.rows.shift
        left_out = fit_problem.left_out
        self.status_ = solution.status + (f" ({left_out})" if left_out else "")
        if self.solver == "descent" and self.effective_sample_size_ < LOW_ESS:
            warnings.warn(
                f"effective_sample_size_ is {self.effective_sample_size_:.2g}: few rows have most "
                "of the weight. Raise spread_strength or set min_effective_sample_size.",
                UserWarning,
                stacklevel=FIT_STACKLEVEL,
            )
        if solution.status in NOT_CONVERGED and not (
            # Reaching max_iter is the regular stopping rule of the authors' procedure.
            self.solver == "paper" and solution.status == "max_iter"
        ):
            why = NOT_CONVERGED[solution.status].format(max_iter=self.max_iter, tol=self.tol)
            warnings.warn(
                f"{type(self).__name__} did not converge: {why}.",
                ConvergenceWarning,
                stacklevel=FIT_STACKLEVEL,
            )

    def _store_margins(self, fit_problem: FitProblem, w: np.ndarray) -> None:
        """``margins_`` and ``margin_distance_``, None without margins."""
        margins = fit_problem.problem.margins
        self.margins_ = self.margin_distance_ = None
        if margins is None:
            return
        start, reached = margins.shares(fit_problem.problem.a), margins.shares(w)
        self.margin_distance_ = float(np.abs(reached - margins.wanted).max())
        self.margins_, at = {}, 0
        for each in fit_problem.known:
            self.margins_[each.name] = {
                value: {
                    "wanted": float(margins.wanted[at + i]),
                    "start": float(start[at + i]),
                    "reached": float(reached[at + i]),
                }
                for i, value in enumerate(each.values)
            }
            at += len(each.values)

    def _apply_to_new(self, X: Any, answer: Any, stacklevel: int = 3) -> np.ndarray:
        """answer(rows, unknowns) for new rows: at once, or block by block and concatenated for a
        reader of tables. ``unknowns`` collects unknown values, for one warning."""
        check_is_fitted(self)
        source = self._open_source(X)
        unknowns: list = []
        if isinstance(source, TableBlocks):
            frames = (source.frame(i) for i, size in enumerate(source.sizes) if size)
            out = np.concatenate([answer(frame, unknowns) for frame in frames])
        else:
            out = answer(X if source is None else source, unknowns)
        unknown: dict = {}
        for column, (lost, example) in ((s, u) for part in unknowns for s, u in part.items()):
            count, shown = unknown.get(column, (0, example))
            unknown[column] = (count + lost.sum(), shown)
        if unknown:
            self.encoder_._warn_unknown(EncodedTable(np.zeros((0, 0)), unknown), stacklevel)
        return out

    def _new_matrix(self, X: Any, unknowns: list) -> tuple[Any, dict]:
        """Matrix of new rows, encoded as in the fit, and per source the rows with unknown values.
        Unknown values are set to the shift, which is 0 for the kernels."""
        if self.encoder_ is None and hasattr(X, "bounds"):
            if X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"{X.name} has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
            return X, {}
        if self.encoder_ is None:
            X = to_native_byteorder(X)
            how: Any = {"accept_sparse": "csr", "dtype": SUPPORTED_DTYPES, "order": "C"}
            with np.errstate(invalid="ignore"):  # of a sum with inf, which is refused
                matrix = validate_data(self, X, reset=False, **how)
            check_sizes(matrix)
            return matrix, {}
        read = self.encoder_._encode(X)
        check_sizes(read.matrix)
        unknowns.append(read.unknown)
        if self._shift is not None:
            for source, (lost, _) in read.unknown.items():
                columns = np.flatnonzero(self.encoder_.sources_ == source)
                read.matrix[np.ix_(lost, columns)] = self._shift[columns]
        return read.matrix, {source: lost for source, (lost, _) in read.unknown.items()}

    def predict_weights(self, X):
        """Predict the weights of new rows.

        At the minimum of the objective the weight of a row is a function of the row. With suspects
        it is this function: the positive part of a linear function of the row, of its squared
        distance to its centre and of its values of the suspects; on the rows of the fit it returns
        ``weights_``. Without suspects it is estimated by least squares from the derivative of the
        objective; a fit whose weights it does not reproduce (R2 < 0.99) raises.

        The predictions are not reliable where the new rows were sampled in another way than those
        of the fit (the balance is a property of a whole sample: fit again instead), or where values
        lie outside the range of the fit.

        Parameters
        ----------
        X : rows with the columns of the fit, suspects included

        Returns
        -------
        ndarray (n,), >= 0, of mean about 1 for rows like those of the fit
        """
        check_is_fitted(self)
        r2 = self._weights_r2
        if r2 is None or r2 < LOWEST_R2:
            if self.solver == "paper":
                why = "solver='paper' stops before its minimum"
            elif r2 is None:
                why = f"spread_strength={self._strengths()[1]:g} leaves them undetermined"
            else:
                why = (
                    f"the function of the row reproduces the weights of the fit with R2 = {r2:.2f} "
                    f"only, and at least {LOWEST_R2} is required; lower tol, raise max_iter or "
                    "name the suspects"
                )
            raise ValueError(f"weights of new rows cannot be predicted from this fit: {why}")

        if self._shift is not None and sp.issparse(X):
            X = X.toarray()  # the shift makes rows dense
        return self._apply_to_new(X, self._weights_of_new)

    def _weights_of_new(self, X: Any, unknowns: list) -> np.ndarray:
        model = self._weight_model
        C = model.centres if isinstance(model, DualWeightModel) else None
        rows, e = self._rows_and_distances(X, unknowns, C)
        if isinstance(model, DualWeightModel):
            self._refuse_unknown_suspects(unknowns)
        with rows.executor:
            return model.predict(rows, e)

    def _refuse_unknown_suspects(self, unknowns: list) -> None:
        """Raise where a suspect has a value that the fit did not have."""
        for source, (lost, example) in unknowns[-1].items() if unknowns else ():
            if source in self.suspects_:
                raise ValueError(
                    f"suspect {self.feature_names_in_[source]!r} has the value {example} in "
                    f"{int(lost.sum())} rows, which the fit did not have: their weights are not "
                    "defined"
                )

    def _rows_and_distances(
        self, X: Any, unknowns: list, centres: np.ndarray | None = None
    ) -> tuple[Any, np.ndarray]:
        matrix, _ = self._new_matrix(X, unknowns)
        rows = self._as_tiled(matrix).with_shift(self._shift)
        return rows, np.zeros(rows.n)

    @property
    def _weights_r2(self):
        """R2 of ``predict_weights`` on the rows of the fit."""
        check_is_fitted(self)
        return None if self._weight_model is None else self._weight_model.r2

    def to_frame(self, table):
        """Cluster and weights of each row of the fitted table, as a table of the same type.

        Parameters
        ----------
        table : the pandas, polars or pyarrow table of the fit

        Returns
        -------
        table with the columns "cluster" (DCKM), "weight" (``weights_``) and "combined_weight"
        (``combined_weights_``, to use downstream); a pandas index is kept
        """
        check_is_fitted(self)
        frame = as_frame(table)
        if frame is None:
            raise TypeError(f"to_frame takes a table, not {type(table).__name__}")
        n = self.weights_.size
        if len(frame) != n:
            raise ValueError(
                f"the table has {len(frame)} rows but the fit had {n}; for other rows use predict "
                "and predict_weights"
            )
        columns = {"weight": self.weights_, "combined_weight": self.combined_weights_}
        if hasattr(self, "labels_"):
            columns = {"cluster": self.labels_, **columns}
        series = [
            nw.new_series(name, values, backend=frame.implementation)
            for name, values in columns.items()
        ]
        found = series[0].to_frame().with_columns(*series[1:])
        if frame.implementation.is_pandas_like():
            native = found.to_native()
            native.index = frame.to_native().index
            return native
        return found.to_native()

    def _watcher(self, context: Any) -> _solver.Watcher:
        """Report each iteration to listeners and to scikit-learn's callbacks."""

        def watch(iteration: int, terms: dict[str, float]) -> bool:
            numbers: Any = {"objective": sum(terms.values()), **terms}
            emit("iteration", iteration, **numbers)
            if context is None:
                return False
            step = context.subcontext(task_name="iteration")
            step.call_on_fit_task_begin(estimator=self)
            return bool(step.call_on_fit_task_end(estimator=self))

        return watch


@contextmanager
def rollback_on_error(estimator: BaseEstimator):
    """If a fit fails, restore the fitted attributes that were there before it."""
    given = set(estimator.get_params(deep=False))

    def learned() -> dict:
        # scikit-learn's callbacks remove their own attributes, also after a failure.
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
