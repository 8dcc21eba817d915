"""SuspectCorrector: rows without the effects of the suspects, for any method that follows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._base import rollback_on_error
from ._data.columns import as_frame, column_names, frame_columns
from ._mixture.blocks import EFFECTS
from ._records import ColumnWarning
from ._validation import check_option, check_weights, find_columns
from .mixture import SelectionMixture
from .mixture._restored import (
    check_feature_names,
    check_mixture,
    check_row_weights,
    check_suspects,
)

__all__ = ["SuspectCorrector"]


class SuspectCorrector(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Remove the effects of suspects from the rows, in the units of the columns.

    Suspects are the nuisance (batch) columns through which the bias came in: site, scanner,
    channel. `SelectionMixture` estimates the effects B_l of the levels
    together with groups whose shares differ by level, so that a difference between the means of
    two sites is an effect only as far as their groups do not explain it. ``transform`` returns
    x - B_l. The groups need not be those of the method that follows.

    Numbers are corrected. Two-valued columns, categories, ordered categories, dates, and columns
    that do not vary in the fit are returned as they are: their effects act on probabilities, and
    no corrected value of a row follows from them. They do inform the estimate. ``kinds`` says
    which two-valued columns are numbers.

    Parameters
    ----------
    suspects : str, int, list of names or indices, boolean mask, or None
        One or several columns, categorical or numeric, as in `SelectionMixture`. None: there are
        no effects, and rows are returned as they are.
    protect : str, int, list of names or indices, boolean mask, or None
        Columns whose association with the other columns is kept although they are associated with
        the suspects: diagnosis, age. Their effects are estimated together with those of the
        suspects, and not removed.
    reference : dict, boolean array (n,), or None
        Rows from which the effects are learned; they are removed from all rows. A dict has columns
        and their values, ``{"diagnosis": "control"}`` or ``{"year": [2019, 2020]}``.
    effects : {"auto", "none", "shift", "shift-scale", "per-group"}, default="auto"
        As in `SelectionMixture`: shifts of the means, shifts and scales, or shifts that differ by
        group. "auto": that with the lowest BIC; with "none" rows stay as they are.
    n_components : int or "auto", default="auto"
        Number of groups of the mixture. "auto": that with the lowest BIC.
    drop_suspects : bool, default=False
        Whether ``transform`` leaves the suspects out, for a method that should not see them.
    unknown : {"average", "error"}, default="average"
        Levels that the fit has not seen: the average effect and a warning, or an error.
    covariance, selection, kinds, encoder, n_init, max_iter, tol, max_components
        As in `SelectionMixture`.
    random_state, verbose
        As in `SelectionMixture`.

    Attributes
    ----------
    mixture_ : SelectionMixture
        The fitted mixture.
    suspect_effects_ : list of dicts
        Effects of each level with their standard errors; see `SelectionMixture`.
    sample_weight_ : ndarray (n,)
        Inverse-selection weights of the rows of the fit, times their ``sample_weight``: the
        ``sample_weight`` of a method that follows.
    identified_ : {"yes", "under small effects", "no"}
        Whether groups that several levels share determine the effects; see `SelectionMixture`.
    n_components_, n_iter_, suspects_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from unskew import SuspectCorrector
    >>> rng = np.random.default_rng(0)
    >>> group, site = rng.integers(2, size=400), rng.integers(2, size=400)
    >>> x = np.c_[5.0 * group + 2.0 * site, 3.0 * group] + rng.normal(size=(400, 2))
    >>> corrector = SuspectCorrector(suspects=2, n_components=2, random_state=0)
    >>> corrected = corrector.fit_transform(np.c_[x, site])
    >>> means = [corrected[(group == 0) & (site == s), 0].mean() for s in (0, 1)]
    >>> bool(abs(means[1] - means[0]) < 0.5)  # 2 before
    True
    """

    def __init__(
        self,
        suspects=None,
        n_components="auto",
        *,
        protect=None,
        reference=None,
        effects="auto",
        drop_suspects=False,
        unknown="average",
        covariance="auto",
        selection="auto",
        kinds=None,
        encoder=None,
        n_init=1,
        max_iter=300,
        tol=1e-6,
        max_components=10,
        random_state=None,
        verbose=0,
    ):
        self.suspects = suspects
        self.n_components = n_components
        self.protect = protect
        self.reference = reference
        self.effects = effects
        self.drop_suspects = drop_suspects
        self.unknown = unknown
        self.covariance = covariance
        self.selection = selection
        self.kinds = kinds
        self.encoder = encoder
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_components = max_components
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def fit(self, X, y=None, sample_weight=None):
        """Estimate the effects.

        Parameters
        ----------
        X : array (n, d) or a pandas, polars or pyarrow table, the suspects included
            nan and missing values are left out of the likelihood.
        y : ignored
        sample_weight : array (n,) or None
            Design weights: weight 2 is equivalent to the row twice, weight 0 to its absence.

        Returns
        -------
        self
        """
        check_option("unknown", self.unknown, ("average", "error"))
        check_option("effects", self.effects, ("auto", *EFFECTS))
        if self.suspects is None and self.protect is not None:
            raise ValueError(f"protect={self.protect!r} needs suspects, and suspects=None")
        if not isinstance(self.drop_suspects, (bool, np.bool_)):
            raise TypeError(f"drop_suspects={self.drop_suspects!r} should be True or False")
        given = self.get_params(deep=False)
        own = {name: given[name] for name in SelectionMixture().get_params() if name in given}
        if self.suspects is None:
            own["effects"] = "none"
        with rollback_on_error(self):
            X = X if as_frame(X) is not None or sp.issparse(X) else np.asarray(X)
            suspects, own["suspects"] = self._find_suspects(X)
            weights = self._fit_weights(X, sample_weight)
            with warnings.catch_warnings():
                if self.reference is not None:  # the columns that define it are constant in it
                    warnings.simplefilter("ignore", ColumnWarning)
                mixture = SelectionMixture(**own).fit(X, sample_weight=weights)
            self.mixture_ = mixture
            self.n_features_in_ = mixture.n_features_in_
            self.__dict__.pop("feature_names_in_", None)
            if hasattr(mixture, "feature_names_in_"):
                self.feature_names_in_ = mixture.feature_names_in_
            self.suspects_ = suspects
            self.sample_weight_ = mixture.combined_weights_
            if self.reference is not None:
                w = mixture.predict_weights(X)
                self.sample_weight_ = w * check_weights(sample_weight, w.size)
            self.identified_ = mixture.identified_
            self.n_components_, self.n_iter_ = mixture.n_components_, mixture.n_iter_
            if suspects is not None and self.n_components == "auto" and self.n_components_ == 1:
                warnings.warn(
                    "A mixture of one group was selected, so that all differences between the "
                    "values of the suspects are removed. If each value has groups of its own, "
                    "these are removed too: give n_components.",
                    UserWarning,
                    stacklevel=2,
                )
            if self.suspects is not None and not any(
                column.kind == "number" for column in mixture._columns
            ):
                warnings.warn(
                    "No column is a number, so that transform returns all rows as they are; name "
                    "two-valued columns in kinds, as kinds={'smoker': 'number'}, to correct them.",
                    UserWarning,
                    stacklevel=2,
                )
        return self

    @property
    def suspect_effects_(self):
        """Effects of each level; see `SelectionMixture`."""
        return self.mixture_.suspect_effects_

    def _find_suspects(self, X: Any) -> tuple[np.ndarray | None, list[int] | None]:
        """Positions of the suspects, and of the suspects and the protected columns."""
        if self.suspects is None:
            return None, None
        frame = as_frame(X)
        names = None if frame is None else np.array(column_names(frame), dtype=object)
        d = np.shape(X)[1] if names is None else names.size
        suspects = find_columns(self.suspects, names, d, "suspects")
        if self.protect is None:
            return suspects, suspects.tolist()
        protected = find_columns(self.protect, names, d, "protect")
        both = np.intersect1d(suspects, protected)
        if both.size:
            raise ValueError(
                f"protect={self.protect!r} and suspects={self.suspects!r} both name column "
                f"{both[0] if names is None else names[both[0]]!r}; it should be one of them"
            )
        return suspects, [*suspects.tolist(), *protected.tolist()]

    def _fit_weights(self, X: Any, sample_weight: Any) -> Any:
        """Weights with which the mixture is fitted: those of the reference rows only."""
        if self.reference is None:
            return sample_weight
        rows = self._reference_rows(X)
        return check_weights(sample_weight, rows.size) * rows

    def _reference_rows(self, X: Any) -> np.ndarray:
        """Mask of the rows from which effects are learned."""
        frame = as_frame(X)
        n = len(X if frame is None else frame)
        if not isinstance(self.reference, dict):
            mask = np.asarray(self.reference)
            if mask.shape != (n,) or mask.dtype != bool:
                raise ValueError(
                    f"reference has shape {mask.shape} and dtype {mask.dtype}; it should be a dict "
                    f"of columns and values, or a boolean array of shape ({n},)"
                )
        else:
            own = [] if frame is None else column_names(frame)
            names = None if frame is None else np.array(own, dtype=object)
            mask = np.ones(n, dtype=bool)
            for column, wanted in self.reference.items():
                at = int(find_columns(column, names, np.shape(X)[1], "reference")[0])
                values = X[:, at] if frame is None else frame_columns(frame)[own[at]].to_list()
                accepted = list(wanted) if isinstance(wanted, (list, tuple, set)) else [wanted]
                mask &= np.array([value in accepted for value in values])
        if not mask.any():
            raise ValueError(f"reference={self.reference!r} has no rows; it should have some")
        return mask

    def _check_restored(self) -> None:
        """Raise ValueError for attributes that no fit can have made."""
        mixture, own = vars(self).get("mixture_"), self.suspects_
        if type(mixture) is not SelectionMixture:
            raise ValueError("mixture_ should be a SelectionMixture")
        check_mixture(mixture)
        if type(self.n_features_in_) is not int or self.n_features_in_ != mixture.n_features_in_:
            raise ValueError(f"n_features_in_ should be {mixture.n_features_in_}")
        check_feature_names(self)
        check_suspects(own, self.n_features_in_)
        if own is not None and (
            mixture.suspects_ is None or not np.isin(own, mixture.suspects_).all()
        ):
            raise ValueError("suspects_ should be among those of the mixture")
        check_option("unknown", self.unknown, ("average", "error"))
        if type(self.drop_suspects) is not bool:
            raise TypeError(f"drop_suspects={self.drop_suspects!r} should be True or False")
        check_row_weights(self.sample_weight_)

    def transform(self, X):
        """Rows without the effects of the suspects.

        Parameters
        ----------
        X : rows with the columns of the fit, the suspects included

        Returns
        -------
        An array for an array, a table of the same type with the same index for a table; columns
        in the order of the fit, without the suspects if ``drop_suspects``. Corrected columns are
        float64. Missing values stay missing.
        """
        check_is_fitted(self)
        out = self.mixture_._remove_effects(X, self.unknown, self.suspects_)
        return self._select(out, self._kept())

    def inverse_transform(self, X):
        """Rows with the effects of the suspects added: the inverse of ``transform``.

        X needs the suspects, so ``drop_suspects`` should be False. Effects on the spread and per
        group depend on the probabilities of the groups, so that the original row is the solution
        of an equation, found by iteration; a row between groups for which it does not converge is
        returned as it is after 200 iterations, with a warning.
        """
        check_is_fitted(self)
        if self.drop_suspects:
            raise ValueError(
                "inverse_transform needs the suspects of the rows; drop_suspects=True should be "
                "False"
            )
        out = self.mixture_._restore_effects(X, self.unknown, self.suspects_)
        return self._select(out, self._kept())

    def get_feature_names_out(self, input_features=None):
        """Names of the columns that ``transform`` returns."""
        return super().get_feature_names_out(input_features)[self._kept()]

    def _corrected(self) -> list[int]:
        """Positions of the columns that ``transform`` changes."""
        return [c.source for _, c in self.mixture_._shifted(self.suspects_)]

    def _kept(self) -> np.ndarray:
        kept = np.arange(self.n_features_in_)
        if self.drop_suspects and self.suspects_ is not None:
            kept = np.setdiff1d(kept, self.suspects_)
        return kept

    def _select(self, X: Any, kept: np.ndarray) -> Any:
        """Columns in the order of the fit, as ``get_feature_names_out`` names them."""
        frame = as_frame(X)
        if frame is None:
            return X if kept.size == X.shape[1] else X[:, kept]
        place = {name: i for i, name in enumerate(column_names(frame))}
        return frame[:, [place[self.mixture_._names[i]] for i in kept]].to_native()
