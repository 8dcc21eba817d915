"""What a fitted SelectionMixture says about rows: labels, likelihoods, weights, corrected rows."""

from __future__ import annotations

import warnings
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .._data.columns import ColumnValues, as_frame, column_names
from .._mixture.em import MIN_SHARE, Mixture, bic, log_joint
from .._mixture.families import BernoulliBlock, CategoricalBlock, GaussianBlock, expit
from .._mixture.rows import Columns, Rows, Stats
from .._validation import abbreviate, check_number, check_weights, to_native_byteorder
from ._columns import MISSING, ColumnModel, apply_columns, level_codes, read_sources


class PredictionMixin:
    """Methods of SelectionMixture for rows."""

    _columns: list[ColumnModel]
    _model: Mixture
    _backend: Any
    _kinds: dict[int, str]
    _level_weight: np.ndarray
    _names: list[str]
    _suspect: str
    _suspect_numeric: bool
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
        labels (n,). Rows of an unknown level get the average effect and the population's shares,
        with a warning; unknown categories of other columns are left out as missing values.
        """
        return self._in_order(*self._read_joint(X, shares)).argmax(1)

    def predict_proba(self, X, *, shares="sample"):
        """Probabilities of the groups, (n, n_components); see `predict`."""
        joint = self._in_order(*self._read_joint(X, shares))
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def score_samples(self, X, *, shares="sample"):
        """Log density log p(x | level) of each row at the estimated effects; missing values are
        left out. Returns an array (n,)."""
        joint, rows = self._read_joint(X, shares)
        value = logsumexp(joint, axis=1)
        for block in self._model.blocks:
            value = value + block.row_constants(rows)
        if rows.n_gauss:
            logs = np.log(self._sd())
            value -= logs.sum() - (1.0 - rows.masks) @ logs[rows.mask_of]
        return self._in_order(value, rows)

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
        joint, rows = self._read_joint(X, "sample")
        return self._in_order(self._weights_of(joint, rows), rows)

    def transform(self, X):
        """Rows without the effects of the suspect: x - B_l.

        Only numbers are changed. Flags, categories, ordered categories and dates are returned as
        they are: their effects act in the likelihood. An array is returned for an array, a table of
        the same type for a table.
        """
        return self._add_effects(X, -1.0)

    def _add_effects(self, X: Any, sign: float, unknown: str = "average") -> Any:
        """Rows with ``sign`` times the effects of their levels added to the numbers."""
        values, level, X = self._read_rows(X, unknown)
        shift = sign * self._effects_of(level)
        where = [(c.source, shift[:, j] * c.sd) for j, c in enumerate(self._numbers()) if c.exact]
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
        weight = self._level_weight / self._level_weight.sum()
        level = rng.choice(weight.size, size=n_samples, p=weight)
        chances = self._prior(shares)[level]
        labels = (rng.random_sample((n_samples, 1)) > np.cumsum(chances, 1)).sum(1)
        labels = np.minimum(labels, self.n_components_ - 1)
        drawn = self._draw(level, labels, rng) | self._draw_suspect(level)
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

    # ------------------------------------------------------------------------------- reading
    def _read_rows(
        self, X: Any, unknown: str = "average"
    ) -> tuple[list[ColumnValues], np.ndarray, Any]:
        """Source columns and levels (-1: unknown) of new rows."""
        check_is_fitted(self)
        frame = as_frame(X)
        if self._backend is None:
            if frame is not None:
                names = column_names(frame)
                X = frame.to_numpy()
                raise_if_renamed(names, getattr(self, "feature_names_in_", None))
            X = validate_data(
                self,
                to_native_byteorder(X),
                reset=False,
                dtype=np.float64,
                ensure_all_finite="allow-nan",
            )
            values = read_sources(X, self._kinds)
        else:
            if frame is None:
                raise TypeError(
                    f"X is {type(X).__name__} but the model was fitted to a table; X should be a "
                    f"table with columns {abbreviate(self._names)}"
                )
            raise_if_renamed(column_names(frame), self._names)
            values = read_sources(frame, self._kinds, self._names)
        return values, self._levels_of(values, unknown), X

    def _levels_of(self, values: list[ColumnValues], handling: str) -> np.ndarray:
        n = next(v.size for v in (values[0].numbers, values[0].codes) if v is not None)
        if self.suspects_ is None:
            return np.zeros(n, dtype=np.intp)
        level = level_codes(values, self._names, self.suspects_, self.levels_)[1]
        unknown = int((level < 0).sum())
        if unknown and handling == "error":
            raise ValueError(
                f"Found unknown levels of {self._suspect!r} in {unknown} rows (first: row "
                f"{int((level < 0).argmax())}); with unknown='error' they should be among "
                f"{abbreviate(self.levels_)}"
            )
        if unknown:
            warnings.warn(
                f"Found unknown levels of {self._suspect!r} in {unknown} rows; they get the "
                "average effect and the shares of the population.",
                UserWarning,
                stacklevel=4,
            )
        return level

    def _read_joint(self, X: Any, shares: Any) -> tuple[np.ndarray, Rows]:
        values, level, _ = self._read_rows(X)
        return self._joint_of(apply_columns(self._columns, values), level, shares)

    def _joint_of(
        self, columns: Columns, level: np.ndarray, shares: Any
    ) -> tuple[np.ndarray, Rows]:
        """log(share_k f(x | k, level)) up to a term of the row, in the order of the returned
        rows."""
        L = self._level_weight.size
        level = np.where(level < 0, L, level)
        rows = Rows(columns, level, L + 1, np.ones(level.size), 2**62 if self._is_full() else 0)
        model = self._model.for_new_rows(self._prior(shares), self._level_weight)
        return log_joint(rows, model), rows

    def _is_full(self) -> bool:
        return self._model.choice.covariance == "full"

    @staticmethod
    def _in_order(values: np.ndarray, rows: Rows) -> np.ndarray:
        out = np.empty_like(values)
        out[rows.order] = values
        return out

    def _prior(self, shares: Any) -> np.ndarray:
        """Shares of the groups at each level, and for unknown levels in the last row."""
        K, L = self.n_components_, self._level_weight.size
        if isinstance(shares, str) and shares == "sample":
            return np.vstack([self.shares_, self.population_shares_])
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
        return np.broadcast_to(given, (L + 1, K))

    def _weights_of(self, joint: np.ndarray, rows: Rows) -> np.ndarray:
        """sum_k r_ik pi_k / pi_kl = sum_k pi_k f_k / sum_k pi_kl f_k."""
        prior = self._prior("sample")[rows.level]
        ratio = np.log(np.maximum(self.population_shares_, MIN_SHARE))
        ratio = ratio - np.log(np.maximum(prior, MIN_SHARE))
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

    def _effects_of(self, level: np.ndarray) -> np.ndarray:
        """Effects of levels (-1: the average) on the numbers, standardised."""
        if not self._numbers() or self.suspects_ is None:
            return np.zeros((level.size, len(self._numbers())))
        B = self._model.blocks[0].B
        return np.vstack([B, self._level_weight @ B / self._level_weight.sum()])[level]

    def _store_columns(self, model: Mixture, stats: Stats) -> None:
        """``means_``, ``suspect_effects_``, ``covariance_`` and ``tau_`` in units of the data."""
        weight = self._level_weight / self._level_weight.sum()
        means, effects, errors, tau = [], [], [], []
        self.covariance_: np.ndarray | None = None
        for block in model.blocks:
            middle = block.C + weight @ block.B
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
                means.append(np.exp(middle - logsumexp(middle, axis=1, keepdims=True)))
            effects.append(block.B * unit)
            errors.append(np.sqrt(np.maximum(block.posterior_variance(stats), 0)) * unit)
            tau.append(np.broadcast_to(np.sqrt(block.tau2), (block.n_columns,)) * unit)
        self.column_names_ = [name for column in self._by_block() for name in column.names]
        self.means_, self.tau_ = np.hstack(means), np.concatenate(tau)
        B, se = np.hstack(effects), np.hstack(errors)
        self.suspect_effects_ = [
            {
                "suspect": self._suspect,
                "level": level,
                "columns": list(self.column_names_),
                "effects": B[at],
                "se": se[at],
            }
            for at, level in enumerate(self.levels_ if self.suspects_ is not None else [])
        ]

    # ------------------------------------------------------------------------------- drawing
    def _draw(self, level: np.ndarray, labels: np.ndarray, rng: Any) -> dict[int, np.ndarray]:
        out: dict[int, np.ndarray] = {}
        columns = iter(self._by_block())
        for block in self._model.blocks:
            eta = block.C[labels] + block.B[level]
            if isinstance(block, GaussianBlock):
                noise = rng.standard_normal(eta.shape)
                if block.full:
                    noise = noise @ np.linalg.cholesky(block.Sigma).T
                else:
                    noise = noise * np.sqrt(block.variance)
                for j in range(block.n_columns):
                    column = next(columns)
                    x = column.mean + column.sd * (eta + noise)[:, j]
                    out[column.source] = _as_words(column, np.rint(x)) if column.words else x
            elif isinstance(block, BernoulliBlock):
                drawn = (rng.random_sample(eta.shape) < expit(eta)).astype(int)
                for j in range(block.n_columns):
                    column = next(columns)
                    out[column.source] = _as_words(column, drawn[:, j])
            else:
                assert isinstance(block, CategoricalBlock)
                p = np.exp(eta - logsumexp(eta, axis=1, keepdims=True))
                drawn = (rng.random_sample((len(p), 1)) > np.cumsum(p, 1)).sum(1)
                column = next(columns)
                out[column.source] = _as_words(column, drawn)
        return out

    def _draw_suspect(self, level: np.ndarray) -> dict[int, np.ndarray]:
        if self.suspects_ is None:
            return {}
        if self.suspects_.size > 1:
            return {
                int(s): (np.array(self.levels_)[level] == self._names[s]).astype(float)
                for s in self.suspects_
            }
        words: list = [None if word == MISSING else word for word in self.levels_]
        if self._suspect_numeric:
            return {
                int(self.suspects_[0]): np.array(
                    [np.nan if word is None else float(word) for word in words]
                )[level]
            }
        return {int(self.suspects_[0]): np.array(words, dtype=object)[level]}


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
