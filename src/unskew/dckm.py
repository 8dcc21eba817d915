"""DCKM: k-means and sample weights that decorrelate the columns, learned jointly."""

from __future__ import annotations

from sklearn.utils import check_random_state

from ._base import rollback_on_error
from ._clusterer import BaseClusterer
from ._compat import with_callbacks
from ._kmeans import check_init
from ._progress import verbose_logging
from ._solver import Snapshot, nested, open_checkpoint


class DCKM(BaseClusterer):
    """Decorrelated k-means: clustering under selection bias with learned sample weights.

    Learns centres, labels and one weight per row jointly. With a = sample_weight, N = sum(a), w =
    a m, it minimises over m >= 0 with sum(a m) = N (``objective="normalized"``)

        J =   inertia(w) / (N V0)                      inertia = sum_i w_i ||x_i - C[label_i]||^2
            + balance_strength * balance(w) / B0       balance = sum of D**2
            + spread_strength * (sum(a m**2) / N - 1)

    V0 is the total variance and B0 the balance, both at m = 1, so that with balance_strength = 1
    the balance counts as much as the variance. D[k, j] is the weighted mean of column k over the
    rows with treatment j minus its weighted mean over the other rows, divided by the standard
    deviation of k at m = 1. Treatments are the two-valued columns (the larger value is treated) and
    the weighted quantile bins of the other columns; pairs within one column are excluded. With
    ``suspects`` (nuisance (batch) columns through which the bias came in: site, scanner, channel),
    only the other columns given the suspects' values (or bins) enter, and the weighted shares of
    these values are fixed at those of the sample; values of less than 0.2 % are pooled. Without
    this constraint the optimum puts all weight on one site, which is trivially balanced.

    The weights minimise balance and inertia jointly; the inertia term down-weights rows far from
    their centre, so the effective sample size is below 1 even for balanced data.
    ``spread_strength`` and ``min_effective_sample_size`` limit both effects.

    There are two solvers. "descent" alternates k-means to convergence at fixed weights with the
    weights at fixed clusters, and stops when a round lowers J by less than ``tol`` of itself. With
    suspects the weights solve a convex problem: Newton's method on its dual, whose size does not
    depend on the number of rows; J never increases by more than the duality gap that is reported.
    Without suspects there are up to 20 quasi-Newton steps with the exact gradient, and J never
    increases. "paper" repeats the
    published procedure step by step (one sweep of k-means, one accelerated gradient step, an
    absolute tolerance, half the gradient of the inertia). Its early stopping is part of its result:
    its J (``objective="paper"``) has no useful minimiser. Use "paper" to reproduce the paper and
    "descent" otherwise.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    balance_strength, spread_strength : float or None
        See J; lambda1 and lambda2 of the paper under ``objective="paper"``. None: 1 and 0.1 where
        suspects are named, but a spread_strength of 100 (nearly uniform weights) where these are
        not associated with the other columns beyond chance (a permutation test at the 1 % level,
        in which a sample_weight is a design weight, not a number of rows); 0.2 and 0.3 over all
        pairs, because clusters are correlations too and a strong balance removes them
        (docs/results/defaults.md); 0.01 and 10 with ``objective="paper"``.
    mass_strength : float or None
        lambda3, with ``objective="paper", solver="paper"`` only, where None means 1.
    objective : {"normalized", "paper"}, default="normalized"
        "normalized": J above. "paper": inertia + lambda1 balance + lambda2 ||w||^2 + lambda3
        (sum(w) - 1)^2, D not divided; with "descent" the constraint sum(w) = 1 replaces the last
        term, because the paper's J tends to 0 as the weights do.
    solver : {"descent", "paper"}, default="descent"
        See above. "paper" does not fix the suspects' shares.
    suspects : str, int, list of names or indices, boolean mask, or None
        The nuisance columns, see above. None: all pairs of columns are balanced.
    cluster_on : {"non_suspects", "all"}, default="non_suspects"
        Columns of the distance. "non_suspects": suspects are balanced but excluded from the
        distance; "all": they are included.
    column_scale : {"sd", "idf"} or None, default=None
        Scales of the columns in the distance (the balance does not depend on scales). "sd": one
        over the standard deviation. "idf": two-valued columns (absent, present) are multiplied by
        log((1 + N) / (1 + N p)) + 1, with p the share of rows where present, so that rare words
        count more.
    row_scale : {"unit", "auto"} or None, default=None
        "unit": the distance is taken between rows scaled to length 1 (two-valued columns as absent
        0, present 1), so that long and short documents can be near each other. Centres are means of
        such rows; ``cluster_centers_`` are weighted means of the unscaled rows, for interpretation.
        "auto": "unit" where every column of an array is an absent / present indicator, see
        ConsensusDCKM.
    adjust : {"auto", "weights", "effects", "both"}, default="auto"
        How named suspects are adjusted for. "auto": "both" where it applies (a dense X, columns
        and rows that are not scaled, suspects outside the distance, the normalized objective),
        else "weights". "weights": by the balance. "effects": their additive
        effects on the other columns are estimated and removed, x - B'z with z the suspects
        (centred): inertia = sum_i w_i ||x_i - C[label_i] - B'z_i||^2, with C and B estimated
        jointly by least squares; weights stay at 1. "both": the balance is measured between
        suspects and x - B'z, so that the weights correct for the selection only; the weights then
        depend on balance and spread, not on the inertia. Prediction for new rows requires their
        suspects' values. Initializations come from the raw rows, from rows with the suspects
        regressed out, and (both) from the weights-only solution, which is itself a candidate; see
        ``restarts_``. Suspects that are not associated with the other columns beyond chance have no
        effects.
    effect_degree : int in 1..5 or "bins", default=1
        Effects of numeric suspects: polynomials of that degree, or one effect per quantile bin.
    effect_ridge : float, default=1e-3
        Ridge penalty on B, relative to the mean variance of the entries of z.
    init : {"partition", "random", "k-means++", "principal"} or array, default="partition"
        "partition": random labels, as in the paper; "random": random rows as centres;
        "k-means++"; "principal": the first principal component cut at quantiles, deterministic; an
        integer array (n,) of labels; a float array (n_clusters, n_features) of centres.
    n_init : int, default=10
        Number of random initializations; the solution with the lowest objective is kept. Where
        there are many rows (at least 2 * max(8192, 200 * n_clusters)) they are run on a random
        subsample of half as many, and the best two (with effects, the selected one) are continued
        on all rows. A deterministic initialization is run once, on all rows.
    max_iter, tol : int, float, default=100, 1e-4
        Maximum number of rounds; converged when a round lowers J by no more than ``tol`` of itself
        ("descent") or changes it by less than ``tol`` ("paper").
    min_effective_sample_size : float in (0, 1] or None
        Lower bound on ``effective_sample_size_``. With suspects the spread is penalised as much as
        the bound requires; without, a step that would violate it is projected back onto the bound
        and accepted only if J decreases.
    margins : dict or None
        Known shares of the population, ``{"race": {"White": 0.64, ...}, ...}``. With suspects the
        weights have these shares exactly; margins that no weights have are an error that names
        them. Without, a further term of J, margin_strength * sum((share - known)**2), penalises the
        differences. Shares are of the rows whose value is known; None as a value stands for missing
        values. All values of a column (adding up to 1) or some of them may be given. ``margins_``
        and ``margin_distance_`` report what was reached.
    margin_strength : float or None
        Without suspects only. None means 100: a share that differs by 0.1 from the known one costs
        as much as the total variance.
    encoder : TableEncoder or None
        How tables are encoded; None: ``TableEncoder()``. Arrays and CSR matrices are not encoded.
    n_bins : int, default=5
        Number of quantile bins, as treatments, of a column with more than two values.
    n_threads : int or None
        Threads over tiles of rows, None for one per core. The result is bit-identical for any
        number. BLAS is limited to one thread during the fit; this setting is per process, so other
        threads that use BLAS at the same time run it on one thread too. Fits in parallel threads do
        not interfere with each other.
    random_state : int, RandomState or None
    checkpoint : str, Path or None
        File to which the state of a long fit is saved, at most every ``checkpoint_seconds`` (60);
        removed when the fit is done.
    resume : bool, default=True
        Whether to resume from an existing checkpoint: the same call after an interruption gives a
        bit-identical result. A checkpoint of other rows or settings is an error. False: ignore it.
    verbose : int
        1 logs each restart, 2 each iteration (logger "unskew"); `unskew.on_progress` passes the
        same events to a function.

    Attributes
    ----------
    labels_ : ndarray (n,) of int
    cluster_summary_ : list of dicts
        Sizes, weighted and unweighted, and the columns that distinguish each cluster, by name.
    cluster_centers_ : ndarray (n_clusters, n_features)
        Weighted means; for a table, in the columns of ``encoder_``; with effects removed, of the
        rows minus the suspects' effects. Suspects that are not part of the distance have their
        weighted mean too, for interpretation.
    weights_ : ndarray (n,)
        The multipliers m, with mean 1 weighted by a (0 for rows of weight 0); under "paper" the
        paper's w.
    combined_weights_ : ndarray (n,)
        a m, the weights to use downstream. (A ``sample_weight`` whose largest is outside 2**-64 to
        2**64 is divided by a power of two first.)
    inertia_ : float
        sum_i w_i ||x_i - C[label_i]||^2.
    objective_, history_ : float, dict of arrays
        J at the solution; J and its terms after each iteration; with suspects also "gap" (the
        duality gap of the weights) and "dual" (the dual value).
    imbalance_, initial_imbalance_ : float
        balance(w) at the solution and at m = 1.
    effective_sample_size_ : float
        As a share: sum(a m)**2 / (N sum(a m**2)).
    kish_size_ : float
        Kish's effective number of rows of the product a m.
    n_iter_, status_ : int, str
        "converged", or "max_iter" with a ConvergenceWarning, followed by the terms that had to be
        left out of J, if any. (solver="paper" regularly stops with "max_iter".)
    encoder_ : TableEncoder or None
        The fitted encoder of a table; None for arrays.
    suspects_ : ndarray or None
        Positions of the suspects among the columns of X.
    identified_ : {"yes", "under small effects", "no"} or None
        With suspects: whether clusters join the suspects' values, so that their effects can be
        distinguished from differences of the clusters. "yes": values that share two clusters join
        all of them; "under small effects": through one cluster only; "no": not at all.
    n_features_in_, feature_names_in_
    margins_, margin_distance_ : dict, float, or None
        For each known share its target, its value at m = 1 and its value at the solution; the
        largest remaining difference.
    suspect_effects_ : list of dicts, or None
        With ``adjust`` "effects" or "both": the effect of each value of a suspect on each column.
    restarts_ : list of dicts
        With ``adjust`` "effects" or "both": the solution from each kind of initialization, the
        selected one first, then by BIC (10 is added to that without effects). BIC is that of the
        partition in a mixture in which clusters have means, and sites have shrunk effects and
        their own shares of the clusters, on at most 3,000 rows. Only "no effects" where the
        suspects are not associated with the other columns beyond chance.

    Notes
    -----
    Missing values of a table: missing categories are a category of their own. Missing numbers are
    left out of the distance, and the other columns are scaled up: with v_j the variance of column j
    over its known values at m = 1,

        e = (sum of all v_j / sum of the known v_j) * sum over the known j of (x_j - c_j)^2

    so that a row with missing values is not closer to all centres; centres are means with the same
    factors. In the balance a missing number counts as its column's mean at m = 1, and missingness
    is a further treatment. A row without any known value in the distance is assigned to the first
    cluster, with a warning.

    References
    ----------
    Wang, Fan, Kuang, Shi, Liu, Wang: Decorrelated Clustering with Data Selection Bias, IJCAI 2020.

    Examples
    --------
    Four clusters, and a site associated with them through the selection. Only ``site`` is named:

    >>> from sklearn.metrics import adjusted_rand_score
    >>> from unskew import DCKM
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(1000, rate=0.8, random_state=0)
    >>> model = DCKM(4, suspects=data.suspects, n_init=3, random_state=0).fit(data.X)
    >>> blind = DCKM(4, suspects=data.suspects, adjust="weights", balance_strength=0,
    ...              spread_strength=100, n_init=3, random_state=0).fit(data.X)  # k-means
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
        adjust="auto",
        effect_degree=1,
        effect_ridge=1e-3,
        init="partition",
        n_init=10,
        max_iter=100,
        tol=1e-4,
        min_effective_sample_size=None,
        margins=None,
        margin_strength=None,
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
                    f"{name}='auto' should be a number: DCKM does not select it, "
                    "unskew.ConsensusDCKM does"
                )
        super()._check_parameters()

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn centres, labels and weights.

        Parameters
        ----------
        X : array or CSR matrix (n, d), a pandas, polars or pyarrow table, or out-of-core data
            Out of core: path of a .npy or .parquet file, np.memmap, ``unskew.ParquetReader``, or
            any object with ``n_blocks`` and ``read(i)`` (a 2-D array or a table); read block by
            block in each pass; bit-identical to in-memory data where tiles agree (see
            docs/scale.md). Arrays are not encoded: float32 and float64 are computed in their own
            precision; uint8, int8 and bool are kept and converted tile by tile to float32. Tables,
            with columns of any type and missing values, are encoded by ``encoder``.
        y : ignored
        sample_weight : array (n,) or None
            Design weights a: weight 2 is equivalent to the row twice, weight 0 to its absence (the
            row is still labelled).

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
            with rows.executor:
                self.__dict__.pop("restarts_", None)  # of an earlier fit
                checkpoint, before, seeds = open_checkpoint(self, design, seeds)
                save = None
                if checkpoint is not None:
                    own = Snapshot({}, {"seeds": seeds.tolist()})
                    save = nested(checkpoint.save_if_due, lambda: own)
                if self._adjust_for(rows.sparse) == "weights":
                    fit_problem, best = self._fit_weights(
                        design, init, seeds, context, save, before
                    )
                    self._store(fit_problem, best)
                    self._store_clusters(design, best)
                else:
                    self._fit_effects(design, init, seeds, context, save, before)
                if checkpoint is not None:
                    checkpoint.remove()
            if context is not None:
                context.call_on_fit_task_end(estimator=self, X=X)
        return self
