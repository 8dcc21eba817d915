"""SuspectCorrector: rows without the effects of the suspects, for any method that follows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._base import rollback_on_error
from ._data.columns import as_frame, column_names
from ._validation import check_option
from .mixture import SelectionMixture

__all__ = ["SuspectCorrector"]


class SuspectCorrector(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Remove the effects of suspects from the rows, in the units of the columns.

    Suspects are the nuisance (batch) columns through which the bias came in: site, scanner,
    channel. `SelectionMixture` with ``effects="shift"`` estimates the effects B_l of the levels
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
        The categorical suspect, or its indicator columns (exactly one is 1 in each row). None:
        there are no effects, and rows are returned as they are.
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
        if not isinstance(self.drop_suspects, (bool, np.bool_)):
            raise TypeError(f"drop_suspects={self.drop_suspects!r} should be True or False")
        given = self.get_params(deep=False)
        own = {name: given[name] for name in SelectionMixture().get_params() if name in given}
        effects = "none" if self.suspects is None else "shift"
        with rollback_on_error(self):
            mixture = SelectionMixture(**own, effects=effects).fit(X, sample_weight=sample_weight)
            self.mixture_ = mixture
            self.n_features_in_ = mixture.n_features_in_
            self.__dict__.pop("feature_names_in_", None)
            if hasattr(mixture, "feature_names_in_"):
                self.feature_names_in_ = mixture.feature_names_in_
            self.suspects_ = mixture.suspects_
            self.suspect_effects_ = mixture.suspect_effects_
            self.sample_weight_ = mixture.combined_weights_
            self.identified_ = mixture.identified_
            self.n_components_, self.n_iter_ = mixture.n_components_, mixture.n_iter_
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
        out = self.mixture_._add_effects(X, -1.0, self.unknown)
        return self._select(out, self._kept())

    def inverse_transform(self, X):
        """Rows with the effects of the suspects added: the inverse of ``transform``.

        X needs the suspects, so ``drop_suspects`` should be False.
        """
        check_is_fitted(self)
        if self.drop_suspects:
            raise ValueError(
                "inverse_transform needs the suspects of the rows; drop_suspects=True should be "
                "False"
            )
        return self._select(self.mixture_._add_effects(X, 1.0, self.unknown), self._kept())

    def get_feature_names_out(self, input_features=None):
        """Names of the columns that ``transform`` returns."""
        return super().get_feature_names_out(input_features)[self._kept()]

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
