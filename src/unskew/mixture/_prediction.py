"""What a fitted SelectionMixture says about rows: labels, likelihoods, weights, corrected rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .._data.columns import ColumnValues, as_frame, column_names
from .._data.sampling import ROW_ATTRIBUTES, read_whole
from .._data.sources import SUPPORTED_DTYPES, allow_nan
from .._data.tables import TableBlocks
from .._mixture.discrete import BernoulliBlock, expit
from .._mixture.draw import draw_columns, draw_labels
from .._mixture.em import MIN_SHARE, Choice, Mixture, bic, log_joint
from .._mixture.gaussian import GaussianBlock
from .._mixture.information import observed_errors
from .._mixture.partition import PartitionCriterion
from .._mixture.rows import Columns, Rows, Stats
from .._records import Records
from .._validation import abbreviate, check_number, check_weights, to_native_byteorder
from ._columns import ColumnModel, apply_columns, check_numbers, read_sources
from ._effects_test import compare_effects
from ._reading import Reading, TableReading
from ._suspects import Combinations, Suspect, codes_of

# Iterations of the inverse of effects that depend on the row, and their tolerance in standard
# deviations of a column.
RESTORE_ITER, RESTORE_TOL = 200, 1e-10
# Standardised numbers of new rows, whose squares are divided by variances of at least 1e-6.
LARGEST_NUMBER = 1e140


class PredictionMixin:
    """Methods of SelectionMixture for rows."""

    _columns: list[ColumnModel]
    _model: Mixture
    _backend: Any
    _kinds: dict[int, str]
    choice_: dict[str, str]
    encoder_: Any
    _combinations: Combinations
    _names: list[str]
    _effects_term: float
    levels_: list[str]
    n_components_: int
    n_features_in_: int
    n_parameters_: int
    population_shares_: np.ndarray
    shares_: np.ndarray
    suspects_: np.ndarray | None

    # ------------------------------------------------------------------------------- methods
    def predict(self, X, *, shares="sample"):
        """Predict the group of each row.

        Parameters
        ----------
        X : rows with the columns of the fit, the suspect included
        shares : {"sample", "population", "equal"} or array (n_components,), default="sample"
            Shares of the groups before the row is seen. "sample": those of the row's level in the
            fit, which gives ``labels_`` on the rows of the fit. "population":
            ``population_shares_``, for rows that were not selected as those of the fit were.
            "equal", or given.

        Returns
        -------
        labels (n,). Rows of an unknown level get its average effect and the population's shares,
        with a warning. Combinations of known levels that the fit has not seen get the sum of their
        effects, and the shares of the logit where there is one, else of the population. Values of a
        numeric suspect outside the range of the fit count as the nearest value in it. Unknown
        categories of other columns are left out as missing values.
        """

        def answer(model: Any, columns: Columns, codes: np.ndarray) -> np.ndarray:
            joint, _, rows = model._joint_of(columns, codes, shares)
            return model._in_order(joint.argmax(1).astype(np.int32), rows)

        return self._apply(X, answer)

    def predict_proba(self, X, *, shares="sample"):
        """Probabilities of the groups, (n, n_components); see `predict`."""

        def answer(model: Any, columns: Columns, codes: np.ndarray) -> np.ndarray:
            joint, _, rows = model._joint_of(columns, codes, shares)
            joint = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
            return model._in_order(joint, rows)

        return self._apply(X, answer)

    def score_samples(self, X, *, shares="sample"):
        """Log density log p(x | level) of each row at the estimated effects; missing values are
        left out. Returns an array (n,)."""

        def answer(model: Any, columns: Columns, codes: np.ndarray) -> np.ndarray:
            joint, own, rows = model._joint_of(columns, codes, shares)
            value = logsumexp(joint, axis=1)
            for block in own.blocks:
                value = value + block.row_constants(rows)
            if rows.n_gauss:
                logs = np.log(model._sd())
                value -= logs.sum() - (1.0 - rows.masks) @ logs[rows.mask_of]
            return model._in_order(value, rows)

        return self._apply(X, answer)

    def score(self, X, y=None, sample_weight=None):
        """Mean of ``score_samples``, weighted by ``sample_weight``: larger is better."""
        values = self.score_samples(X)
        a = check_weights(sample_weight, values.size)
        return float(a @ values / a.sum())

    def bic(self, X, sample_weight=None):
        """Bayesian information criterion, lower is better: ``bic_`` on the rows of the fit."""
        values = self.score_samples(X)
        a = check_weights(sample_weight, values.size)
        marginal = float(a @ values) + self._effects_term
        return bic(marginal, self._model, float(a.sum()))

    def predict_weights(self, X):
        """Inverse-selection weights of rows, sum_k r_ik pi_k / pi_kl. Returns an array (n,)."""

        def answer(model: Any, columns: Columns, codes: np.ndarray) -> np.ndarray:
            joint, own, rows = model._joint_of(columns, codes, "sample")
            return model._in_order(model._weights_of(joint, own, rows), rows)

        return self._apply(X, answer)

    def transform(self, X):
        """Rows without the effects of the suspects.

        x - B_l; a numeric suspect has its effect at the row's value. With effects per group
        x - B_l - sum_k r_k D_kl, where r are the probabilities of the groups; with
        effects="shift-scale" m + (x - m - B_l) / e_l, where m = sum_k r_k C_k.

        Only numbers are changed. Flags, categories, ordered categories and dates are returned as
        they are: their effects act in the likelihood. An array is returned for an array, a table of
        the same type for a table.
        """
        return self._remove_effects(X)

    def _remove_effects(self, X: Any, unknown: str = "average", sources: Any = None) -> Any:
        """Rows without the effects of their levels on the numbers; with ``sources`` (columns of X)
        the effects of these suspects only."""
        values, codes, X = self._read_rows(X, unknown)
        return self._changed(X, values, -self._effects_of(values, codes, sources), sources)

    def _restore_effects(self, X: Any, unknown: str = "average", sources: Any = None) -> Any:
        """The rows x that ``_remove_effects`` maps to X: x = z + effects(x), by iteration; an
        effect on the spread e_l has the derivative 1 - 1 / e_l, whence the step e_l."""
        values, codes, X = self._read_rows(X, unknown)
        effects = self._effects_of(values, codes, sources)
        moved, open_rows = self._shifted(sources), np.zeros(len(codes), dtype=bool)
        block = self._model.blocks[0]
        by_row = bool(moved) and (block.D is not None or block.scale)
        step = self._spread_of(codes) if by_row else 1.0
        for _ in range(RESTORE_ITER if by_row else 0):
            guess = list(values)
            for j, c in moved:
                own = values[c.source]
                guess[c.source] = own._replace(numbers=own.numbers + effects[:, j] * c.sd)
            error = self._effects_of(guess, codes, sources) - effects
            # Only columns that are corrected; missing values stay missing.
            error = np.nan_to_num(error) * np.isin(np.arange(error.shape[1]), [j for j, _ in moved])
            open_rows = np.abs(error).max(1, initial=0.0) > RESTORE_TOL
            if not open_rows.any():
                break
            effects = effects + step * error
        if open_rows.any():
            warnings.warn(
                f"inverse_transform did not converge for {int(open_rows.sum())} rows (first at "
                f"index {int(open_rows.argmax())}): they lie between groups",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self._changed(X, values, effects, sources)

    def _changed(self, X: Any, values: list, shift: np.ndarray, sources: Any) -> Any:
        """Rows with ``shift``, standardised, added to the numbers that are corrected."""
        where = [(c.source, shift[:, j] * c.sd) for j, c in self._shifted(sources)]
        frame = as_frame(X)
        if frame is None:
            out = X.copy()
            for source, change in where:
                out[:, source] += change
            return out
        names = self._names  # the columns of a table may come in another order
        if frame.implementation.is_pandas_like():
            native, given = frame.to_native().copy(), column_names(frame)
            for source, change in where:
                # By position: names that are not text are text in the model.
                native.isetitem(given.index(names[source]), values[source].numbers + change)
            return native
        changed = [
            frame[names[source]].cast(nw.Float64)  # null + number is null
            + nw.new_series(names[source], change, backend=frame.implementation)
            for source, change in where
        ]
        return frame.with_columns(*changed).to_native()

    def _shifted(self, sources: Any = None) -> list[tuple[int, ColumnModel]]:
        """Position and model of the numbers that have effects; all others stay as they are."""
        if not self._numbers() or self.suspects_ is None:
            return []
        block, known = self._model.blocks[0], self._combinations
        own = np.ones(len(known.suspect_of_column), dtype=bool)
        if sources is not None:
            chosen = np.array([set(s.sources) <= set(sources) for s in known.suspects])
            own = chosen[known.suspect_of_column]
        moved = (block.beta[own] != 0).any(axis=0)
        if block.D is not None or block.scale:
            moved[:] = True
        return [(j, c) for j, c in enumerate(self._numbers()) if c.exact and moved[j]]

    def test_effects(self, X, sample_weight=None, *, n_bootstrap=99, random_state=None):
        """Test whether all levels measure the same, and whether they shift all groups alike.

        Two likelihood-ratio tests of nested forms of the effects, for the groups, covariance and
        selection of the fit: "none" against "shift" (same measurement at all levels, up to the
        composition of the groups), and "shift" against "per-group". The statistic is
        2 log(p(x | alternative) / p(x | null)) with the effects integrated out. Its distribution
        under the null is that of a parametric bootstrap: rows with the levels, weights and missing
        values of X are drawn from the fitted null, and both forms are fitted from the groups that
        were drawn; p = (1 + number of statistics at least as large) / (1 + n_bootstrap).

        Parameters
        ----------
        X : the rows of the fit
        sample_weight : array (n,) or None
        n_bootstrap : int, default=99
            0: no p-values.
        random_state : int, RandomState or None

        Returns
        -------
        list of dicts
            "null", "alternative", "statistic", "p_value" (None without bootstrap) and
            "bic_difference", BIC of the alternative minus that of the null: below -10 is decisive.
        """
        check_number("n_bootstrap", n_bootstrap, int, low=0)
        values, codes, _ = self._read_rows(X)
        if self.suspects_ is None:
            raise ValueError("suspects=None: there are no effects to test")
        a = check_weights(sample_weight, len(codes))
        known, columns = self._combinations, apply_columns(self._columns, values, len(codes))
        level = known.level_of(codes)
        if (level < 0).any():
            raise ValueError(
                f"X has combinations of suspects that the fit has not seen (first at index "
                f"{int((level < 0).argmax())}); it should be the rows of the fit"
            )
        joint, _, rows = self._joint_of(columns, codes, "sample")
        R = self._in_order(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)), rows)
        patterns = 2**62 if self._is_full() else 0
        rows = Rows(columns, level, len(known.cells), a, patterns, known.design())
        rng = check_random_state(random_state)
        return compare_effects(rows, columns, R, self._model.choice, n_bootstrap, rng)

    def sample(self, n_samples=1, *, shares="sample", random_state=None):
        """Draw rows from the model.

        Levels are drawn with their weights in the fit, groups with ``shares`` (see `predict`).

        Returns
        -------
        X : array (n, d), or a table of the type of the fit
            Dates are returned as days since 1970; columns that were left out of the fit are
            missing.
        labels : ndarray (n,)
        """
        check_is_fitted(self)
        check_number("n_samples", n_samples, int, low=1)
        rng = check_random_state(random_state)
        cells, weight = self._combinations.cells, self._combinations.weight
        level = rng.choice(weight.size, size=n_samples, p=weight / weight.sum())
        chances = self._at_levels(cells, shares).shares[level]
        labels = draw_labels(chances, rng)
        drawn = self._draw(level, labels, rng)
        if self.suspects_ is not None:
            for i, suspect in enumerate(self._combinations.suspects):
                drawn |= _draw_suspect(suspect, cells[level, i], self._names)
        if self._backend is None:
            X = np.full((n_samples, self.n_features_in_), np.nan)
            for source, values in drawn.items():
                X[:, source] = values.astype(np.float64)
            return X, labels
        data = {
            name: drawn[i].tolist() if i in drawn else [None] * n_samples
            for i, name in enumerate(self._names)
        }
        return nw.from_dict(data, backend=self._backend).to_native(), labels

    def _partition_criterion(self, X: Any, a: np.ndarray) -> PartitionCriterion:
        """BIC of partitions of rows of the fit, with the columns and suspects of this model."""
        values, codes, _ = self._read_rows(X)
        known = self._combinations
        columns, own = apply_columns(self._columns, values, len(codes)), Choice(**self.choice_)
        return PartitionCriterion(columns, known.level_of(codes), a, known.design(), own)

    @property
    def _K(self) -> int:
        return self.n_components_

    # ------------------------------------------------------------------------------- reading
    def _open_source(self, X: Any) -> Any:
        raise NotImplementedError

    def _as_tiled(self, matrix: Any) -> Any:
        raise NotImplementedError

    @property
    def _reading(self) -> Any:
        kind = Reading if self._backend is None else TableReading
        return kind(self._columns, self._combinations, self._names, self._kinds)

    def _apply(self, X: Any, answer: Callable) -> np.ndarray:
        """answer(model, columns, codes of the suspects), which has a value for each row, tile by
        tile: rows can be in memory, sparse, in a file or on a cluster."""
        check_is_fitted(self)
        source, reading = self._open_source(X), self._reading
        if self._backend is None:
            matrix = self._as_tiled(self._validated(X) if source is None else self._checked(source))
        elif isinstance(source, TableBlocks):
            raise_if_renamed(source.columns, self._names)
            matrix = self._as_tiled(allow_nan(source.matrix(reading)))
        else:
            frame = self._frame_of(X if source is None else None)
            values = read_sources(frame, self._kinds, self._names)
            matrix = self._as_tiled(reading.matrix(values, len(frame)))
        light = copy(self)
        for name in ROW_ATTRIBUTES:
            vars(light).pop(name, None)
        found, lost = [], 0
        with matrix.executor:
            for part, unknown in matrix.map(_answer_tile, coefs=(reading, light, answer)):
                found.append(part)
                lost = lost + unknown
        if not found:
            return _answer_tile(np.empty((0, matrix.d)), (reading, light, answer))[0]
        self._warn_unknown(np.asarray(lost)[:-1] > 0, int(np.asarray(lost)[-1]), 4)
        return np.concatenate(found)

    def _checked(self, source: Any) -> Any:
        if isinstance(source, TableBlocks):
            raise TypeError(
                f"{source.name}: is a table but the model was fitted to an array; X should be an "
                f"array or a file with {self.n_features_in_} columns"
            )
        if source.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{source.name} has {source.shape[1]} features, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input"
            )
        return source

    def _validated(self, X: Any) -> Any:
        frame = as_frame(X)
        if frame is not None:
            raise_if_renamed(column_names(frame), getattr(self, "feature_names_in_", None))
            X = frame.to_numpy()
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):  # of a sum with inf
            # The command line names the columns of a matrix; an array has no names to check.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            return validate_data(
                self,
                to_native_byteorder(X),
                reset=False,
                accept_sparse="csr",
                dtype=SUPPORTED_DTYPES,
                order="C",
                ensure_all_finite="allow-nan",
            )

    def _frame_of(self, X: Any) -> Any:
        frame = as_frame(X)
        if frame is None:
            raise TypeError(
                f"X is {type(X).__name__} but the model was fitted to a table; X should be a "
                f"table with columns {abbreviate(self._names)}"
            )
        raise_if_renamed(column_names(frame), self._names)
        return frame

    def _read_rows(
        self, X: Any, unknown: str = "average"
    ) -> tuple[list[ColumnValues], np.ndarray, Any]:
        """Source columns, codes (n, S) of the suspects (-1: unknown) of new rows, and X; rows of a
        file are read into memory."""
        check_is_fitted(self)
        source = self._open_source(X)
        if source is not None:
            X = read_whole(source)
        if self._backend is None:
            X = self._validated(X)
            X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
            values = read_sources(X, self._kinds)
            n = len(X)
        else:
            frame = self._frame_of(X)
            values, n = read_sources(frame, self._kinds, self._names), len(frame)
            check_numbers(self._columns, values)
        suspects = self._combinations.suspects
        codes = codes_of(suspects, values, self._names, n)
        lost = (codes < 0).any(1)
        if unknown == "error" and lost.any():
            which = [s for s, code in zip(suspects, codes.T) if (code < 0).any()]
            raise ValueError(
                f"Found unknown levels of {' and '.join(repr(s.name) for s in which)} in "
                f"{int(lost.sum())} rows (first at index {int(lost.argmax())}); with "
                f"unknown='error' they should be among {abbreviate(list(which[0].levels))}"
            )
        self._warn_unknown(np.any(codes < 0, axis=0), int(lost.sum()), 4)
        return values, codes, X

    def _warn_unknown(self, which: Any, count: int, stacklevel: int) -> None:
        if count:
            names = [s.name for s, lost in zip(self._combinations.suspects, which) if lost]
            warnings.warn(
                f"Found unknown levels of {' and '.join(map(repr, names))} in {count} rows; they "
                "get the average effect and the shares of the population.",
                UserWarning,
                stacklevel=stacklevel,
            )

    def _joint_of(
        self, columns: Columns, codes: np.ndarray, shares: Any
    ) -> tuple[np.ndarray, Mixture, Rows]:
        """log(share_k f(x | k, level)) up to a term of the row, in the order of the returned rows,
        and the model at their levels."""
        far = np.abs(columns.numbers) > LARGEST_NUMBER  # False where missing
        if far.any():
            name = self._numbers()[int(far.any(0).argmax())].name
            raise ValueError(
                f"column {name!r} of X has values further than {LARGEST_NUMBER:g} standard "
                "deviations from the mean of the fit; their squares would overflow"
            )
        cells, level = np.unique(codes, axis=0, return_inverse=True)
        patterns = 2**62 if self._is_full() else 0
        rows = Rows(columns, level.ravel(), len(cells), np.ones(len(codes)), patterns)
        model = self._at_levels(cells, shares)
        return log_joint(rows, model), model, rows

    def _at_levels(self, cells: np.ndarray, shares: Any) -> Mixture:
        """The model at combinations of values of the suspects, those of the fit or others."""
        known = self._combinations
        Z, same = known.design_of(cells), known.level_of(cells)
        prior = self._prior(shares, cells, Z, same)
        return self._model.at_levels(prior, Z, same, known.weight)

    def _is_full(self) -> bool:
        return self._model.choice.covariance == "full"

    @staticmethod
    def _in_order(values: np.ndarray, rows: Rows) -> np.ndarray:
        out = np.empty_like(values)
        out[rows.order] = values
        return out

    def _prior(self, shares: Any, cells: np.ndarray, Z: np.ndarray, same: np.ndarray) -> np.ndarray:
        """Shares of the groups at each combination. "sample": those of the fit; of a combination
        that did not occur those of the logit where there is one, else of the population."""
        K, model = self.n_components_, self._model
        if isinstance(shares, str) and shares == "sample":
            other = np.broadcast_to(self.population_shares_, (len(cells), K))
            if model.logit and model.choice.selection == "free":
                eta = model.gamma[0] + Z @ model.gamma[1:]
                eta = np.exp(eta - logsumexp(eta, axis=1, keepdims=True))
                other = np.where((cells >= 0).all(axis=1, keepdims=True), eta, other)
            return np.where((same >= 0)[:, None], model.shares[same], other)
        if isinstance(shares, str) and shares == "population":
            given = self.population_shares_
        elif isinstance(shares, str) and shares == "equal":
            given = np.full(K, 1.0 / K)
        elif isinstance(shares, str):
            raise ValueError(
                f"shares={shares!r} should be 'sample', 'population', 'equal' or an array"
            )
        else:
            given = check_shares("shares", shares, K)
        return np.broadcast_to(given, (len(cells), K))

    def _weights_of(self, joint: np.ndarray, model: Mixture, rows: Rows) -> np.ndarray:
        """sum_k r_ik pi_k / pi_kl = sum_k pi_k f_k / sum_k pi_kl f_k."""
        ratio = np.log(np.maximum(self.population_shares_, MIN_SHARE))
        ratio = ratio - np.log(np.maximum(model.shares[rows.level], MIN_SHARE))
        return np.exp(logsumexp(joint + ratio, axis=1) - logsumexp(joint, axis=1))

    # ------------------------------------------------------------------------------- columns
    def _numbers(self) -> list[ColumnModel]:
        return [c for c in self._columns if c.kind == "number"]

    def _sd(self) -> np.ndarray:
        return np.array([c.sd for c in self._numbers()])

    def _by_block(self) -> list[ColumnModel]:
        """Columns in the order of the blocks: numbers, flags, categories."""
        return [
            c for kind in ("number", "flag", "category") for c in self._columns if c.kind == kind
        ]

    def _spread_of(self, codes: np.ndarray) -> Any:
        """e_l of each row and number, 1 without effects on the spread."""
        if not self._model.blocks[0].scale:
            return 1.0
        cells, level = np.unique(codes, axis=0, return_inverse=True)
        own = self._at_levels(cells, "sample").blocks[0]
        return np.exp(0.5 * own.log_e[level.ravel()])

    def _effects_of(
        self, values: list[ColumnValues], codes: np.ndarray, sources: Any = None
    ) -> np.ndarray:
        """What ``transform`` subtracts from the numbers, standardised, (n, g)."""
        numbers = self._numbers()
        if not numbers or self.suspects_ is None:
            return np.zeros((len(codes), len(numbers)))
        block = self._model.blocks[0]
        known = self._combinations
        Z = known.design_at(values, codes)
        if sources is not None:
            chosen = np.array([set(s.sources) <= set(sources) for s in known.suspects])
            Z = np.where(chosen[known.suspect_of_column], Z, 0.0)
        shift = Z @ block.beta
        if block.D is None and not block.scale:
            return shift
        columns = apply_columns(self._columns, values, len(codes))
        joint, model, rows = self._joint_of(columns, codes, "sample")
        own = model.blocks[0]
        r = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        if block.D is not None:
            D = np.einsum("ik,kij->ij", r, own.D[:, rows.level])
            return shift + self._in_order(D, rows)
        e = self._in_order(np.exp(0.5 * own.log_e[rows.level]), rows)
        noise = columns.numbers - self._in_order(r @ own.C, rows) - shift
        return shift + noise * (1.0 - 1.0 / e)

    @property
    def suspect_effects_(self) -> Records:
        return Records(self._suspect_effects, getattr(self.encoder_, "library_", None))

    def _store_columns(self, model: Mixture, stats: Stats, few: Rows, factor: float) -> Any:
        """``means_``, ``suspect_effects_``, ``covariance_`` and ``tau_`` in units of the data;
        returns the variances of the reported shares, or None. ``few``: rows for standard errors,
        see `observed_errors`."""
        known = self._combinations
        which, parts, _ = known.reported()
        average = parts / parts.sum(1, keepdims=True)
        T = parts @ known.design_of(known.cells) / parts.sum(1, keepdims=True)
        T = np.where(known.suspect_of_column == which[:, None], T, 0.0)
        middle_of = np.array([T[which == i].mean(0) for i in which])
        numeric = np.array([s.is_number for s in known.suspects])[which]
        centred = np.where(numeric[:, None], T, T - middle_of)
        observed = observed_errors(few, model, factor, centred, average)
        means, effects, errors, tau = [], [], [], []
        self.covariance_: np.ndarray | None = None
        for block, variance in zip(model.blocks, observed.effects):
            middle = block.C + known.average @ block.beta
            if block.D is not None:
                middle = middle + np.einsum("klj,l->kj", block.D, known.weight / known.weight.sum())
            unit = np.ones(block.n_columns)
            if isinstance(block, GaussianBlock):
                unit = self._sd()
                means.append(np.array([c.mean for c in self._numbers()]) + unit * middle)
                self.covariance_ = (
                    block.Sigma * np.outer(unit, unit) if block.full else block.variance * unit**2
                )
            elif isinstance(block, BernoulliBlock):
                means.append(expit(middle))
            else:
                means.append(np.exp(block.log_probability(middle)))
            effects.append(T @ block.beta * unit)
            if variance is None:
                variance = block.effect_variance(stats, centred)
            errors.append(np.sqrt(np.maximum(variance, 0)) * unit)
            tau.append(np.sqrt(block.per_category(block.tau2)) * unit)
        self.column_names_ = [name for column in self._by_block() for name in column.names]
        self.means_, self.tau_ = np.hstack(means), np.hstack(tau)
        if len(known.suspects) == 1:
            self.tau_ = self.tau_[0]
        B, se = np.hstack(effects), np.hstack(errors)
        plain = [level for s in known.suspects for level in s.levels]
        self._suspect_effects = [
            {
                "suspect": known.suspects[i].name,
                "level": plain[at],
                "columns": list(self.column_names_),
                "effects": B[at],
                "se": se[at],
            }
            for at, i in enumerate(which if self.suspects_ is not None else [])
        ]
        return observed.shares

    # ------------------------------------------------------------------------------- drawing
    def _draw(self, level: np.ndarray, labels: np.ndarray, rng: Any) -> dict[int, np.ndarray]:
        """Source -> values of its column."""
        drawn, out = draw_columns(self._model, level, labels, rng), {}
        for kind, parts in (
            ("number", list(drawn.numbers.T)),
            ("flag", list(drawn.flags.T)),
            ("category", [codes for codes, _ in drawn.categories]),
        ):
            for column, x in zip((c for c in self._columns if c.kind == kind), parts):
                if kind == "number":
                    x = column.mean + column.sd * x
                out[column.source] = _as_words(column, np.rint(x)) if column.words else x
        return out


def _draw_suspect(suspect: Suspect, codes: np.ndarray, names: list[str]) -> dict[int, np.ndarray]:
    """Values of a suspect; of a numeric one the mean value of the interval."""
    if len(suspect.sources) > 1:
        drawn = np.array(suspect.levels)[codes]
        return {s: (drawn == names[s]).astype(float) for s in suspect.sources}
    if suspect.centres is not None:
        return {suspect.sources[0]: np.append(suspect.centres, np.nan)[codes]}
    words: list = [None] * len(suspect.levels)
    for word, at in suspect.words.items():
        words[at] = word
    if len(suspect.words) > len(words):  # the last level is that of rare values
        words[-1] = None
    if suspect.numeric:
        words = [np.nan if word is None else float(word) for word in words]
        return {suspect.sources[0]: np.array(words)[codes]}
    return {suspect.sources[0]: np.array(words, dtype=object)[codes]}


def _as_words(column: ColumnModel, codes: np.ndarray) -> np.ndarray:
    codes = np.clip(codes.astype(int), 0, len(column.words) - 1)
    if column.numeric:
        return np.array([float(word) for word in column.words])[codes]
    return np.array(column.words, dtype=object)[codes]


def check_shares(name: str, given: Any, K: int) -> np.ndarray:
    """K shares >= 0 that add up to 1."""
    found = np.asarray(given, dtype=np.float64)
    if found.shape != (K,) or not np.isfinite(found).all() or (found < 0).any():
        raise ValueError(f"{name}={given!r} should be {K} numbers >= 0, one for each group")
    if abs(found.sum() - 1) > 1e-6:
        raise ValueError(f"{name}={given!r} should add up to 1; they add up to {found.sum():g}")
    return found / found.sum()


def raise_if_renamed(names: list[str], fitted: Any) -> None:
    """Raise where the columns of a table are not those of the fit; their order may differ."""
    if fitted is None:
        return
    lacking = [c for c in fitted if c not in set(names)]
    further = [c for c in names if c not in set(fitted)]
    if lacking or further:
        text = "The feature names should match those that were passed during fit."
        if further:
            text += f" Feature names unseen at fit time: {abbreviate(further)}."
        if lacking:
            text += f" Feature names seen at fit time, yet now missing: {abbreviate(lacking)}."
        raise ValueError(text)


def _answer_tile(tile: np.ndarray, work: tuple) -> tuple[np.ndarray, np.ndarray]:
    """The answer, and how many rows have unknown values of each suspect, and of any."""
    reading, model, answer = work
    columns, codes = reading(tile)
    lost = codes < 0
    return answer(model, columns, codes), np.append(lost.sum(0), lost.any(1).sum())


def label_and_weigh(tile: np.ndarray, work: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Labels and weights of the rows of a tile; work: how it is read, and the model."""
    reading, model = work
    columns, codes = reading(tile)
    joint, own, rows = model._joint_of(columns, codes, "sample")
    labels = model._in_order(joint.argmax(1).astype(np.int32), rows)
    return labels, model._in_order(model._weights_of(joint, own, rows), rows)
