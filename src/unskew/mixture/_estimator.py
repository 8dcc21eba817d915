"""SelectionMixture: a mixture model of rows that were selected with different shares by site."""

from __future__ import annotations

import numbers
import os
import warnings
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClusterMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from .._base import CombinedWeightsMixin, rollback_on_error, set_features_in
from .._compat import FIT_STACKLEVEL
from .._data.columns import as_frame, column_names
from .._data.sources import SUPPORTED_DTYPES, allow_nan
from .._data.tables import TableBlocks, open_source
from .._data.tiled import as_tiled
from .._io import Outputs, check_output
from .._mixture.blocks import EFFECTS
from .._mixture.em import Choice, Mixture, bic, e_step, run_em
from .._mixture.identify import (
    describe_lacking,
    identify_suspects,
    positivity,
    products_of_groups,
    share_errors,
)
from .._mixture.partition import MAX_FULL
from .._mixture.rows import RowSums
from .._parallel import one_openmp_thread
from .._preprocessing import TableEncoder
from .._progress import emit, nested_progress, verbose_logging
from .._records import OverlapWarning
from .._summaries import count_labels
from .._terms import effective_share
from .._validation import (
    check_number,
    check_option,
    check_weights,
    find_columns,
    to_native_byteorder,
)
from ._checkpoint import Polishing, open_checkpoint
from ._columns import facts_of, find_kinds, sample_rows
from ._prediction import PredictionMixin, check_shares, label_and_weigh
from ._reading import read_matrix, read_table_blocks, read_values
from ._restored import check_mixture
from ._search import (
    DECISIVE,
    POLISHED,
    Problem,
    Screened,
    Settings,
    matching_gap,
    one_group,
    polish,
    reconsidered,
    screen,
    screen_all,
    search_once,
)

# A full covariance distinguishes at most this many patterns of missing values.
MAX_PATTERNS = 50


class SelectionMixture(
    PredictionMixin,
    CombinedWeightsMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """Mixture model for rows gathered with selection bias: group shares differ by site.

    For a row x of group k at level l of the suspects (the nuisance (batch) columns through which
    the bias came in: site, scanner, channel)

        x | k, l  ~  f(C_k + B_l)           P(k | l) = pi_kl
        B_lj      ~  N(0, tau_j^2)

    The shares pi_kl are the selection: nothing assumes that sites have equal shares, or that group
    and site are independent. B_l is the effect of the level on the columns; it is integrated out of
    the likelihood.

    A level of several suspects is a combination of their values. Effects are additive,
    B_l = sum_s B_s(value of suspect s), each with a tau of its own; that of a numeric suspect is a
    natural cubic spline with 3 coefficients per column, constant within at most 26 intervals. The
    shares of at most 12 combinations of categories are free; those of more combinations, or of a
    numeric suspect, are a multinomial logit, log pi_kl = alpha_k + sum_s gamma_sk(value) + c_l.

    Effects can also differ by group, B_l + D_kl with D_klj ~ N(0, delta_j^2), or act on the spread:
    the variance of column j at level l is e_lj s_j^2 with log e_lj ~ N(0, omega_j^2). Their scales
    are estimated as tau is.

    Numbers are Gaussian with a covariance that all groups share (diagonal or full);
    two-valued columns are Bernoulli and categories multinomial, with C + B on the logit scale;
    ordered categories are Gaussian scores. Missing values are left out of the likelihood.

    tau_j is estimated by empirical Bayes: tau_j = t s_j in the columns in which that raises the
    marginal likelihood, with s_j the standard deviation within groups (1 on the logit scale), and 0
    in the others. The single t makes small effects more likely than large ones; where the data
    allow several matchings of the groups of two levels (see ``identified_``), the one with the
    smallest effects has the highest marginal likelihood. The prior also identifies the origin of
    C and B: the effects of the levels have mean 0.

    One criterion ranks initializations, ``covariance``, ``effects``, ``selection`` and
    ``n_components``: BIC = -2 log p(x) + p ln n, with B integrated out (in closed form for numbers
    given the responsibilities, by Laplace's approximation otherwise) and p the number of means,
    covariances, shares and scales t; n is the sum of the sample weights. The columns that have
    effects are part of it as in the extended BIC: every number of columns is equally likely, and
    every subset of that size. Two kinds of solutions are set back. Effects per group should leave
    the groups what they are: at every level that shows two groups, at least half of the difference
    of their means, (C_k - C_h)' (C_k + D_kl - C_h - D_hl) >= |C_k - C_h|^2 / 2, and two groups have
    to join the levels of each suspect. Groups that do not join the levels (``identified_`` is "no")
    need a BIC that is lower by 10.

    Parameters
    ----------
    n_components : int or "auto", default=8
        Number of groups. "auto": the number up to ``max_components`` with the lowest BIC.
    suspects : str, int, list of names or indices, boolean mask, or None
        One suspect or several. Text, booleans, ordered categories, and numbers with at most 20
        distinct values are categorical, other numbers and dates numeric; see ``kinds``. Consecutive
        indicator columns of which exactly one is 1 in each row are one categorical suspect. Missing
        values are a level. Of more than 50 levels the rarest are pooled, with a warning. None: a
        mixture without effects and with common shares.
    covariance : {"auto", "diag", "full"}, default="auto"
        Covariance of the numbers, shared by all groups. A full one is shrunk towards the variances
        of each column given the others, with d + 1 prior rows. With missing values it is exact by
        pattern of missing values; with more than 50 patterns "auto" is "diag" and "full" an error.
        "auto" tries a full one for at most 128 numbers.
    effects : {"auto", "none", "shift", "shift-scale", "per-group"}, default="auto"
        Whether levels shift the columns, change their spread as well (of numbers, with
        covariance="diag"), or shift the groups differently. "auto": the form with the lowest BIC;
        with more than 12 combinations of suspects, or a numeric one, "none" or "shift".
    selection : {"auto", "common", "free"}, default="auto"
        Whether the shares of the groups differ by level.
    population_shares : array (n_components,) or None
        Shares of the groups in the population, in the order of the groups (by size in the sample,
        largest first), for ``weights_`` and ``predict(shares="population")``. None: the shares in
        the whole sample. The data do not identify those of the population.
    kinds : dict or None
        Column (name or index) -> "category" (numbers that are codes) or "number" (two-valued
        numbers to be treated as Gaussian, numeric suspects with few values).
    encoder : TableEncoder or None
        How the columns of a table are read: its ``kinds``, and what is left out (identifiers) and
        pooled (rare values of categories). None: ``TableEncoder()``. Scales have no influence.
    init : array of labels (n,), of responsibilities (n, n_components), or None
        None: k-means on rows with 0, 50, 75 and 100 % of the levels' means removed, DCKM with
        weights and with effects, and random partitions, compared on at most 3,000 rows; then
        merging and splitting groups.
    n_init : int, default=1
        Repetitions of these initializations.
    max_iter, tol : int, float, default=300, 1e-6
        Converged when an iteration raises the bound by less than ``tol`` per row.
    max_components : int, default=10
        For ``n_components="auto"``.
    random_state : int, RandomState or None
    checkpoint : path or None
        File for the state of the iterations on all rows (parameters, some kilobytes), saved at most
        every ``checkpoint_seconds`` and removed at the end. After an interruption the same call
        resumes there, with a bit-identical result; ``resume=False`` discards the file.
    checkpoint_seconds, resume : float, bool, default=60, True
    output_dir : path or None
        Existing folder for ``labels.npy`` and ``weights.npy``, which are written tile by tile and
        replaced when both are complete; ``labels_`` and ``weights_`` are then read-only memory maps
        of them, so that the memory of a fit does not grow with the number of rows. None: in memory.
    verbose : int
        1 logs the candidates, 2 each iteration (logger "unskew").

    Attributes
    ----------
    labels_ : ndarray (n,)
        Group with the largest responsibility. Groups are numbered by size, largest first.
    means_ : ndarray (n_components, n_columns)
        Means of numbers and probabilities of flags and categories, at the average effect, of the
        columns ``column_names_``.
    shares_, shares_se_ : ndarray (n_levels, n_components)
        P(k | level) of the levels ``levels_``: those of the suspect; of several suspects the levels
        of each ("site=A", "scanner=2"), at the other suspects' values of its rows; of a numeric
        suspect up to five intervals. Standard errors: see Notes.
    population_shares_ : ndarray (n_components,)
    suspect_effects_ : list of dicts
        For each of these levels: "suspect", "level", "columns", "effects" (in units of the numbers,
        on the logit scale for discrete columns; the mean of the rows in an interval) and "se",
        their posterior standard deviations relative to the mean of the suspect's levels.
    covariance_ : ndarray (n_numbers, n_numbers) or (n_numbers,)
    tau_ : ndarray (n_columns,), of several suspects (n_suspects, n_columns)
        Standard deviations of the effects, in the same units.
    weights_, combined_weights_ : ndarray (n,)
        Inverse-selection weights, and their product with ``sample_weight``; see Notes.
    effective_sample_size_ : float
        As a share: sum(a w)^2 / (sum(a) sum(a w^2)).
    identified_ : {"yes", "under small effects", "no"}
        Whether the levels are joined through two groups or more, through one, or not; a level shows
        a group that has 1 % of its rows, and five rows. Otherwise a warning names the levels. The
        worst answer of several suspects.
    positivity_ : ndarray (n_levels, n_components)
        Share of each group at each level divided by its share in the population. Below 0.05 there
        is next to nothing to weight up, and a warning is issued.
    choice_ : dict
        The covariance, effects and selection of the model.
    candidates_ : list of dicts
        BIC of the choices that were compared, extrapolated from the subsample (at most 3,000 rows)
        where there are more rows.
    bic_, marginal_log_likelihood_, n_parameters_ : float, float, int
    one_group_bic_ : float
        BIC of a model with one group. A warning is issued where it is below ``bic_``.
    history_ : dict
        "bound": the penalised marginal log-likelihood after each iteration up to the highest one,
        whose model is kept; standardised columns.
    n_iter_, status_ : int, str
    encoder_ : TableEncoder or None
        The fitted encoder of a table, by which its columns were read; None for arrays.
    n_components_, n_features_in_, feature_names_in_, suspects_

    Notes
    -----
    The weight of a row is the expectation of its true inverse-selection weight,
    w_i = sum_k r_ik pi_k / pi_kl. Group and level are independent in the rows weighted group by
    group, r_ik pi_k / pi_kl; under w_i they are so only where groups are well separated.

    Standard errors are those of the empirical information of the rows (at most 3,000 of them, if
    there are more) about means, effects, shares and diagonal variances together, given which
    columns have effects. 95 % intervals contained the truth in 95.0 % (effects of columns that have
    any) and 95.6 % (shares) of the cases for groups 3 standard deviations apart in two or three of
    four columns, and in 94.5 % and 93.5 % for half of that (300 simulations of 600 rows, three
    groups, three sites, diagonal covariance; with groups taken as known 88 % and 90 %). With fewer
    than 10 rows for each parameter, each column is taken with the shares only. With fewer rows than
    that, or effects per group, errors of effects take the groups as known, and those of shares the
    means and effects, and are too small where groups overlap.

    A number that is recorded with resolution h has a variance of at least h^2 / 12 within groups.
    One that is nearly constant within the levels has at least its variance within levels: without
    that bound groups would consist of the few rows with another value.

    Examples
    --------
    >>> from sklearn.metrics import adjusted_rand_score
    >>> from unskew import SelectionMixture
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(1000, rate=0.8, random_state=0)
    >>> model = SelectionMixture(4, suspects=data.suspects, random_state=0).fit(data.X)
    >>> labels = model.predict(data.X_population, shares="population")
    >>> round(adjusted_rand_score(data.y_population, labels), 1)
    0.9
    """

    def __init__(
        self,
        n_components=8,
        *,
        suspects=None,
        covariance="auto",
        effects="auto",
        selection="auto",
        population_shares=None,
        kinds=None,
        encoder=None,
        init=None,
        n_init=1,
        max_iter=300,
        tol=1e-6,
        max_components=10,
        random_state=None,
        checkpoint=None,
        checkpoint_seconds=60,
        resume=True,
        output_dir=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.suspects = suspects
        self.covariance = covariance
        self.effects = effects
        self.selection = selection
        self.population_shares = population_shares
        self.kinds = kinds
        self.encoder = encoder
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_components = max_components
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.resume = resume
        self.output_dir = output_dir
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            check_number("n_components", self.n_components, numbers.Integral, low=1)
        elif self.init is not None:
            raise ValueError("n_components='auto' should be used with init=None")
        check_option("covariance", self.covariance, ("auto", "diag", "full"))
        check_option("effects", self.effects, ("auto", *EFFECTS))
        check_option("selection", self.selection, ("auto", "common", "free"))
        for name in ("n_init", "max_iter", "max_components"):
            check_number(name, getattr(self, name), numbers.Integral, low=1)
        check_number("tol", self.tol, low=0)
        if self.kinds is not None and not isinstance(self.kinds, dict):
            raise TypeError(f"kinds={self.kinds!r} should be a dict of columns and kinds")
        if self.suspects is None:
            for name, without in (("effects", "none"), ("selection", "common")):
                value = getattr(self, name)
                if value not in ("auto", without):
                    raise ValueError(f"{name}={value!r} needs suspects, and suspects=None")
        if self.effects == "shift-scale" and self.covariance == "full":
            raise ValueError("effects='shift-scale' should be used with covariance='diag'")
        if self.population_shares is not None:
            if self.n_components == "auto":
                raise ValueError("population_shares should be used with a given n_components")
            check_shares("population_shares", self.population_shares, self.n_components)
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, os.PathLike)):
            raise TypeError(f"checkpoint={self.checkpoint!r} should be a path or None")
        check_number("checkpoint_seconds", self.checkpoint_seconds, low=0)
        if self.output_dir is not None:
            if not isinstance(self.output_dir, (str, os.PathLike)):
                raise TypeError(f"output_dir={self.output_dir!r} should be a path or None")
            for path in self._row_files():
                check_output(path)
        if not isinstance(self.resume, (bool, np.bool_)):
            raise TypeError(f"resume={self.resume!r} should be True or False")
        if not isinstance(self.verbose, (bool, np.bool_)):
            check_number("verbose", self.verbose, numbers.Integral, low=0)

    # ------------------------------------------------------------------------------------ fit
    def fit(self, X, y=None, sample_weight=None):
        """Fit the mixture.

        Parameters
        ----------
        X : array or CSR matrix (n, d), a pandas, polars or pyarrow table, or out-of-core data
            nan and missing values are left out of the likelihood. In an array, columns with two
            values are Bernoulli and all others Gaussian; see ``kinds``. Out of core: path of a .npy
            or .parquet file or of a folder of these, np.memmap, ``unskew.ParquetReader``, or any
            object with ``n_blocks`` and ``read(i)``, read block by block in each iteration;
            bit-identical to in-memory data where tiles agree (see docs/scale.md). CSR rows become
            dense tile by tile.
        y : ignored
        sample_weight : array (n,) or None
            Design weights: weight 2 is equivalent to the row twice, weight 0 to its absence (the
            row is still labelled). BIC counts them as rows: survey weights should be scaled to
            Kish's effective number of rows, ``a * a.sum() / (a @ a)``.

        Returns
        -------
        self
        """
        with rollback_on_error(self), verbose_logging(self.verbose):
            self._check_parameters()
            problem, settings = self._prepare(X, sample_weight)
            # Rows are divided among threads, each with one thread of BLAS. The search consists of
            # thousands of small products, which threads of BLAS delay.
            with problem.matrix.executor, one_openmp_thread():
                checkpoint, work = open_checkpoint(self, problem)
                if work is None:
                    found = self._search(problem, settings)
                    candidates = [
                        {**one.choice._asdict(), "n_components": one.fit.model.K, "bic": one.score}
                        for one in found
                    ]
                    work = Polishing([one.fit for one in found[:POLISHED]], candidates)

                def watch(iteration: int, bound: float) -> None:
                    emit("iteration", iteration, bound=bound)

                with nested_progress():
                    save = None if checkpoint is None else checkpoint.save_if_due
                    fit = polish(problem, work, settings, watch, save)
                    alone = one_group(problem, settings)
                self._store(problem, fit, work.candidates, alone)
                if len(work.candidates) > 1:
                    number = f"{fit.model.K} clusters"
                    start = (
                        f"selected by BIC: {number},"
                        if self.n_components == "auto"
                        else f"selected by BIC for {number}:"
                    )
                    emit("message", status=f"{start} {fit.model.choice.in_words}")
                if checkpoint is not None:
                    checkpoint.remove()
        return self

    def _search(self, problem: Problem, settings: Settings) -> list[Screened]:
        """Solutions to be polished on all rows, best first."""
        if self.init is not None:
            return self._from_init(problem, settings)
        if self.n_components == "auto":
            return screen_all(problem, settings, min(self.max_components, problem.n_used))
        return screen(problem, self.n_components, settings)

    def _open_source(self, X: Any) -> Any:
        """The out-of-core source or tables of X, None where its rows are in memory."""
        return allow_nan(open_source(X))

    def _as_tiled(self, matrix: Any) -> Any:
        return as_tiled(matrix, None)

    def _check_restored(self) -> None:
        check_mixture(self)

    def _prepare(self, X: Any, sample_weight: Any) -> tuple[Problem, Settings]:
        self.__dict__.pop("feature_names_in_", None)
        self.encoder_: Any = None
        source = self._open_source(X)
        frame = None if source is not None else as_frame(X)
        if frame is not None or isinstance(source, TableBlocks):
            matrix, a, reading = self._read_table(frame, source, sample_weight)
        else:
            matrix, a, reading = self._read_matrix(X, source, sample_weight)
        self._columns, self._combinations = reading.columns, reading.combinations
        self._names, self._kinds = reading.names, reading.kinds
        rng = check_random_state(self.random_state)
        problem = Problem(matrix, a, reading, MAX_PATTERNS, rng)
        return problem, self._settings(problem.rows)

    def _weights_of_rows(self, sample_weight: Any, n: int) -> np.ndarray:
        a = check_weights(sample_weight, n)
        present = n if a.strides == (0,) else int(np.count_nonzero(a))
        if present < 2:
            raise ValueError(f"n_samples={present} of positive weight should be >= 2")
        if self.n_components != "auto" and present < self.n_components:
            of_weight = " of positive weight" if present < n else ""
            raise ValueError(
                f"n_components={self.n_components} should be <= n_samples={present}{of_weight}"
            )
        return a

    def _find_suspects(self, names: Any, d: int) -> np.ndarray:
        self.suspects_ = None
        if self.suspects is None:
            return np.zeros(0, dtype=np.intp)
        self.suspects_ = suspects = find_columns(self.suspects, names, d, "suspects")
        if suspects.size in (0, d):
            which = "no column" if suspects.size == 0 else f"all {d} columns"
            raise ValueError(
                f"suspects={self.suspects!r} names {which}; at least one column should be a "
                "suspect and one should not"
            )
        return suspects

    def _read_matrix(self, X: Any, source: Any, sample_weight: Any) -> tuple:
        """Rows of an array, CSR matrix, file or blocks, their weights, and what they mean."""
        self._backend = None
        if source is None:
            with np.errstate(invalid="ignore"):  # of a sum with inf, which is refused
                X = validate_data(
                    self,
                    to_native_byteorder(X),
                    accept_sparse="csr",
                    dtype=SUPPORTED_DTYPES,
                    order="C",
                    ensure_all_finite="allow-nan",
                )
        else:
            set_features_in(self, source, getattr(X, "columns", None))
            X = source
        names, d = getattr(self, "feature_names_in_", None), self.n_features_in_
        a = self._weights_of_rows(sample_weight, X.shape[0])
        kinds, suspects = find_kinds(self.kinds, names, d), self._find_suspects(names, d)
        matrix = self._as_tiled(X)
        with matrix.executor:
            own_names = [f"column {i}" for i in range(d)]
            return matrix, a, read_matrix(matrix, a, own_names, suspects, kinds)

    def _read_table(self, frame: Any, source: Any, sample_weight: Any) -> tuple:
        """The same for a table, in memory or in blocks, by its encoder."""
        encoder = TableEncoder() if self.encoder is None else clone(self.encoder)
        names = column_names(frame) if source is None else source.columns
        n = len(frame) if source is None else source.shape[0]
        if n == 0 or not names:
            raise ValueError(f"X has {n} rows and {len(names)} columns; both should be >= 1")
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        first = frame if source is None else source.frame(0)
        self._backend = first.implementation.value
        a = self._weights_of_rows(sample_weight, n)
        kinds = find_kinds(self.kinds, self.feature_names_in_, len(names))
        asked = {**(encoder.kinds or {}), **{names[i]: kind for i, kind in kinds.items()}}
        encoder.set_params(kinds=asked or None)
        suspects = self._find_suspects(self.feature_names_in_, len(names))
        values: Any
        if source is None:
            values = encoder._learn(frame, a)
            which = sample_rows(a)
            facts = [facts_of(column, a, which) for column in values]
        else:
            values, facts = read_table_blocks(source, encoder, a, suspects)
        self.encoder_ = encoder
        encoder._warn_changed(FIT_STACKLEVEL + 2)
        asked |= {r.name: r.reading for r in encoder.recipes_ if r.numeric_text}
        kinds = {names.index(name): kind for name, kind in asked.items()}
        reading = read_values(values, facts, a, names, suspects, kinds, encoder.recipes_)
        if source is None:
            return self._as_tiled(reading.matrix(values, n)), a, reading
        return self._as_tiled(allow_nan(source.matrix(reading))), a, reading

    def _settings(self, rows: RowSums) -> Settings:
        covariances = ("diag", "full") if self.covariance == "auto" else (self.covariance,)
        if not 2 <= rows.n_gauss <= MAX_FULL and self.covariance == "auto":
            covariances = ("diag",)
        if "full" in covariances and not rows.patterns_exact:
            if self.covariance == "full":
                raise ValueError(
                    "covariance='full' is fitted for at most "
                    f"{MAX_PATTERNS} patterns of missing values, and X has more; use 'diag'"
                )
            covariances = ("diag",)
        effects: tuple[str, ...] = EFFECTS if self.effects == "auto" else (self.effects,)
        if self.effects == "auto" and rows.design.logit:
            effects = ("none", "shift")  # other forms have a parameter for each combination
        if not rows.n_gauss:
            effects = tuple("shift" if one == "shift-scale" else one for one in effects)
            effects = tuple(dict.fromkeys(effects))
        if effects == ("shift-scale",):
            covariances = ("diag",)
        selections = ("free", "common") if self.selection == "auto" else (self.selection,)
        if self.suspects is None:
            effects, selections = ("none",), ("common",)
        return Settings(covariances, effects, selections, self.n_init, self.max_iter, self.tol)

    def _from_init(self, problem: Problem, settings: Settings) -> list[Screened]:
        """One solution of each form, from the given labels or responsibilities, on all rows."""
        K, n = int(self.n_components), len(problem.a)
        given = np.asarray(self.init)
        if given.shape == (n,) and given.dtype.kind in "iu":
            if given.min() < 0 or given.max() >= K:
                raise ValueError(
                    f"init has labels from {given.min()} to {given.max()}; they should be in "
                    f"0..{K - 1}"
                )
            R = np.eye(K)[given]
        elif given.shape == (n, K) and given.dtype.kind in "fbiu":
            R = given.astype(np.float64)
            if not (np.isfinite(R).all() and (R >= 0).all() and (R.sum(1) > 0).all()):
                raise ValueError("init should be responsibilities >= 0 with a positive sum per row")
            R = R / R.sum(1, keepdims=True)
        else:
            raise ValueError(
                f"init has shape {given.shape} and dtype {given.dtype}; it should be integer "
                f"labels ({n},) or responsibilities ({n}, {K})"
            )
        stats, found = problem.stats_of(R), []
        for covariance, effects in settings.forms:
            for selection in settings.selections:
                model = Mixture(problem.rows, K, Choice(covariance, effects, selection))
                fit = run_em(problem.rows, model, stats, max_iter=self.max_iter, tol=self.tol)
                fit = reconsidered(problem.rows, fit, self.max_iter, self.tol)
                found.append(problem.fitted(fit))
        return sorted(found, key=lambda one: one.rank)

    def _fit_part(self, X: Any, sample_weight: Any) -> SelectionMixture:
        """Fit one form to a part of the rows, from ``init`` and from a few other initializations.
        These count if their BIC is lower by more than 10."""
        self._check_parameters()
        problem, settings = self._prepare(X, sample_weight)
        with problem.matrix.executor, one_openmp_thread(), nested_progress():
            same = self._from_init(problem, settings)[0]
            free = search_once(problem, self.n_components, settings)
            best = free if free.score < same.score - DECISIVE else same
            self._store(problem, best.fit, [], np.nan)
        return self

    def _matching_gap(self, X: Any, sample_weight: Any) -> float:
        """How much BIC increases, from the solution at ``init``, if two groups are exchanged at one
        value of a suspect, which assigns its rows to other groups; see `matching_gap`. For few
        rows: all of them are compared."""
        self._check_parameters()
        problem, settings = self._prepare(X, sample_weight)
        with problem.matrix.executor, one_openmp_thread():
            return matching_gap(problem, self._from_init(problem, settings)[0], settings)

    # ---------------------------------------------------------------------------------- store
    def _store(self, problem: Problem, fit: Any, candidates: list[dict], one: float) -> None:
        model, rows = fit.model, problem.rows
        stats = e_step(rows, model)[1]
        order = np.argsort(-stats.N.sum((0, 1)), kind="stable")
        model.reorder(order)
        stats.N, stats.S = stats.N[:, :, order], stats.S[:, :, order]
        N = stats.N.sum(0)
        K = model.K
        self._model, self.n_components_ = model, K
        weight = self._combinations.weight
        which, parts, self.levels_ = self._combinations.reported()
        self.choice_ = model.choice._asdict()
        self.history_ = {"bound": np.array(fit.history)}
        self.n_iter_ = fit.n_iter
        self.status_ = "converged" if fit.converged else "max_iter"
        self.shares_ = parts @ model.shares / parts.sum(1, keepdims=True)
        self.population_shares_ = weight @ model.shares / weight.sum()
        if self.population_shares is not None:
            self.population_shares_ = check_shares("population_shares", self.population_shares, K)
        self.candidates_ = [{**each, "bic": each["bic"] + problem.units} for each in candidates]
        self.marginal_log_likelihood_ = fit.marginal - 0.5 * problem.units
        self.n_parameters_ = model.n_parameters
        self._n = problem.n
        self.bic_ = bic(self.marginal_log_likelihood_, model, problem.n)
        self.one_group_bic_ = one + problem.units
        self._effects_term = sum(block.penalty(stats)[0] for block in model.blocks)
        shares = self._store_columns(model, stats, problem.sub, problem.factor)
        self._store_rows(problem, model, parts)
        if shares is not None:
            self.shares_se_ = np.sqrt(np.maximum(shares, 0.0))
        shown = (parts > 0) @ N
        names = [s.name for s in self._combinations.suspects]
        effects = self.choice_["effects"] != "none"
        self.identified_, why = identify_suspects(
            shown, which, self.levels_, names, effects=effects
        )
        self.positivity_ = positivity(shown, self.population_shares_)
        lacking = describe_lacking(self.positivity_, self.levels_, self._combinations.label)
        used = int((count_labels(self.labels_, K, problem.a) > 0).sum())
        no_groups = ""
        if K > 1 and self.one_group_bic_ < self.bic_:
            no_groups = (
                f"A model with one group has a lower BIC ({self.one_group_bic_:.0f}) than "
                f"n_components={K} ({self.bic_:.0f}): the columns do not show groups."
            )
        for text, kind in (
            (no_groups, UserWarning),
            (why, OverlapWarning),
            (lacking if self.suspects is not None else "", OverlapWarning),
            (
                ""
                if used == K
                else f"Number of distinct groups ({used}) found smaller than n_components ({K}).",
                ConvergenceWarning,
            ),
            (
                ""
                if fit.converged
                else f"SelectionMixture did not converge in max_iter={self.max_iter} iterations; "
                f"raise max_iter or tol={self.tol:g}.",
                ConvergenceWarning,
            ),
        ):
            if text:
                warnings.warn(text, kind, stacklevel=3)

    def _fill_rows(self, problem: Problem, labels: np.ndarray, w: np.ndarray) -> None:
        """Labels and weights of all rows, tile by tile."""
        matrix, a, total = problem.matrix, problem.a, 0.0
        work = (problem.reading, copy(self))
        for (start, stop), (found, own) in zip(
            matrix.bounds, matrix.map(label_and_weigh, coefs=work)
        ):
            a_ = np.ascontiguousarray(a[start:stop])
            labels[start:stop], w[start:stop] = found, np.where(a_ > 0, own, 0.0)
            total += float(a_ @ w[start:stop])
        w *= problem.n / total

    def _row_files(self) -> list[Path]:
        return [Path(self.output_dir) / f"{name}.npy" for name in ("labels", "weights")]

    def _fill_files(self, problem: Problem) -> list[np.ndarray]:
        """Memory maps of the files with labels and weights."""
        n, paths = problem.a.size, self._row_files()

        def fill(labels_file: Path, weights_file: Path) -> None:
            labels = np.lib.format.open_memmap(labels_file, "w+", np.dtype(np.int32), (n,))
            w = np.lib.format.open_memmap(weights_file, "w+", np.dtype(np.float64), (n,))
            self._fill_rows(problem, labels, w)
            for each in (labels, w):
                each.flush()

        with Outputs() as outputs:
            outputs.write(
                paths[0], lambda first: outputs.write(paths[1], lambda second: fill(first, second))
            )
            outputs.commit()
        return [np.load(path, mmap_mode="r") for path in paths]

    def _store_rows(self, problem: Problem, model: Mixture, parts: np.ndarray) -> None:
        """Labels and weights, tile by tile, and standard errors of the shares."""
        a = problem.a
        if self.output_dir is None:
            self.labels_, w = np.empty(a.size, dtype=np.int32), np.empty(a.size)
            self._fill_rows(problem, self.labels_, w)
        else:
            self.labels_, w = self._fill_files(problem)
        (G,) = problem.rows.total(products_of_groups, *model.natural(problem.rows), model.is_full)
        scaled = G / np.maximum(model.shares[:, :, None] * model.shares[:, None], 1e-300)
        lowest = model.shares
        if model.choice.selection == "common":
            self.shares_se_ = np.tile(share_errors(scaled.sum(0), lowest.min(0)), (len(parts), 1))
        else:
            self.shares_se_ = np.array(
                [
                    share_errors(scaled[own].sum(0), lowest[own].min(0, initial=1.0))
                    for own in parts > 0
                ]
            )
        self.weights_ = w
        if a.strides == (0,):  # one number for all of many rows
            self._combined_weights, inverse = None, np.broadcast_to(1.0 / a[0], a.shape)
        else:
            w = self._combined_weights = a * w
            inverse = np.divide(1.0, a, out=np.zeros(a.size), where=a > 0)
        self.effective_sample_size_ = float(effective_share(w, inverse, problem.n))
