"""What is handed out: frozen dataclasses of plain numbers, strings and tuples.

Every number is finite or None, so that `dataclasses.asdict` is json without NaN. Differences are
standardised mean differences (0.1 = "balanced"); "before" is under the design weights alone,
"after" under design weights times learned weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._verdict import Evidence, Verdict


@dataclass(frozen=True)
class Row:
    """A row of the data: position, name in the table's index (or None), weight, cluster."""

    position: int
    index: str | None
    weight: float
    cluster: int | None


@dataclass(frozen=True)
class Weights:
    """The learned weights (mean 1) and their price.

    effective_size  share of the rows that the weights are worth
    kish_size       number of rows that design weights times learned weights are worth
    design_effect   of that product: factor on the variance of a mean
    unused          rows of weight below 1 % of the mean
    top_share       share of the total weight on the heaviest 1 % of the rows
    edges, counts   histogram; the last bin holds everything above its left edge
    """

    n_rows: int
    minimum: float
    maximum: float
    quantiles: tuple[tuple[float, float], ...]
    effective_size: float
    kish_size: float
    design_effect: float
    unused: int
    top_share: float
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    heaviest: tuple[Row, ...]
    lightest: tuple[Row, ...]


@dataclass(frozen=True)
class FeatureBalance:
    """A source column against the columns that it should not predict (the suspects, or all others).

    before, after          largest |standardised difference|
    typical_*              mean of |difference| over all its pairs
    against                the value or range behind ``before``
    """

    feature: str
    suspect: bool
    before: float
    after: float
    typical_before: float
    typical_after: float
    against: str


@dataclass(frozen=True)
class PairBalance:
    """Two source columns: largest |standardised difference| of either under the other."""

    first: str
    second: str
    before: float
    after: float


@dataclass(frozen=True)
class Correlation:
    """Amount of correlation (`metrics.amount_of_correlation`) and the matrices of some columns.

    names     at most 60 encoded columns, those with the largest differences, ordered by cluster
    groups    of each of them: the cluster it marks most, None for suspects
    n_columns encoded columns in all; the amount is over all of them (None if they are too many)
    """

    amount_before: float | None
    amount_after: float | None
    n_columns: int
    names: tuple[str, ...]
    groups: tuple[int | None, ...]
    before: tuple[tuple[float, ...], ...]
    after: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Convergence:
    """How the fit ended, and the objective and its terms after each iteration."""

    status: str
    converged: bool
    iterations: int
    objective: float
    history: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True)
class FeatureProfile:
    """Mean of a column inside a cluster and in the rest, in the units of the table.

    Weighted as learned, and (``plain_``) by design weights only; None without an observed value.
    """

    feature: str
    difference: float
    inside: float | None
    rest: float | None
    plain_difference: float
    plain_inside: float | None
    plain_rest: float | None


@dataclass(frozen=True)
class ClusterProfile:
    """A cluster: rows, its share by design weights and by learned weights, what marks it."""

    cluster: int
    size: int
    share: float
    weighted_share: float
    features: tuple[FeatureProfile, ...]


@dataclass(frozen=True)
class Flow:
    """Rows by k-means cluster (line) and cluster of the model (column), after matching.

    ``baseline_clusters`` are k-means' own numbers in the order of the lines; ``moved`` is the share
    of the rows off the diagonal.
    """

    baseline: str
    clusters: tuple[int, ...]
    baseline_clusters: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]
    moved: float
    agreement: float


@dataclass(frozen=True)
class Association:
    """How much a clustering follows a suspect: Cramer's V or eta, with design weights only."""

    suspect: str
    kind: str
    value: float


@dataclass(frozen=True)
class Baseline:
    """A simpler clustering of the same rows.

    explained_variance  share of the variance of the rest columns between its clusters
    agreement           adjusted Rand index with the model's clusters
    """

    name: str
    explained_variance: float
    agreement: float
    associations: tuple[Association, ...]


@dataclass(frozen=True)
class Projection:
    """Some rows (all clusters in proportion) on the first two weighted principal components."""

    n_rows: int
    variance: tuple[float, float]
    positions: tuple[int, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    weight: tuple[float, ...]
    cluster: tuple[int, ...]


@dataclass(frozen=True)
class SuspectEffect:
    """What a suspect (a value of it) adds to a column, in standard deviations of the column."""

    suspect: str
    feature: str
    effect: float


@dataclass(frozen=True)
class Settings:
    """Everything needed to run it again."""

    model: str
    call: str
    parameters: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    n_rows: int
    n_columns: int
    n_encoded: int
    design_weights: bool
    suspects: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    ignored: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Diagnostics:
    """What the weights of a fitted model did to its data; see `diagnose`.

    For DecorrelationWeights, which know no clusters, ``clusters``, ``baselines`` and
    ``associations`` are empty and ``flow``, ``projection``, ``explained_variance`` None.
    """

    verdict: Verdict
    evidence: Evidence
    weights: Weights
    imbalance_before: float
    imbalance_after: float
    features: tuple[FeatureBalance, ...]
    pairs: tuple[PairBalance, ...]
    n_pairs: int
    correlation: Correlation
    convergence: Convergence
    clusters: tuple[ClusterProfile, ...]
    explained_variance: float | None
    associations: tuple[Association, ...]
    baselines: tuple[Baseline, ...]
    flow: Flow | None
    projection: Projection | None
    effects: tuple[SuspectEffect, ...]
    notes: tuple[str, ...]
    settings: Settings


@dataclass(frozen=True)
class AuditedPair:
    """Two source columns that go together: largest |standardised difference| and an association."""

    first: str
    second: str
    difference: float
    kind: str
    association: float


@dataclass(frozen=True)
class Notice:
    """A column that looks like a trace of how the data were collected.

    why    "identifier", "near-constant", "predicts many columns" or "missing values predict others"
    reach  share of the other columns that it predicts, where that is the reason
    """

    column: str
    why: str
    sentence: str
    reach: float | None


@dataclass(frozen=True)
class Audit:
    """A table before any clustering; see `audit`.

    worth              a Verdict whose word is "yes", "maybe" or "no"
    typical_difference mean of |difference| over all pairs; ``by_chance`` is its expected value
                       if the columns were independent
    reach              of each source column: share of the others that it predicts
    """

    worth: Verdict
    n_rows: int
    n_rows_used: int
    n_columns: int
    n_encoded: int
    suspects: tuple[str, ...]
    typical_difference: float
    by_chance: float
    pairs: tuple[AuditedPair, ...]
    n_pairs: int
    n_pairs_above: int
    notices: tuple[Notice, ...]
    reach: tuple[tuple[str, float], ...]
    notes: tuple[str, ...]
    settings: Settings


@dataclass(frozen=True)
class MethodRow:
    """One method of a comparison; None where a number has no meaning for it.

    imbalance_left  balance under its weights over balance before: 1 for methods without weights
    agreement       adjusted Rand index with k-means on all columns
    """

    method: str
    title: str
    explained_variance: float
    associations: tuple[Association, ...]
    effective_size: float
    imbalance_left: float
    silhouette: float | None
    agreement: float | None
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """Several methods on one table; see `compare`. ``skipped`` says why a method has no row."""

    summary: Verdict
    rows: tuple[MethodRow, ...]
    skipped: tuple[tuple[str, str], ...]
    n_rows: int
    n_columns: int
    n_encoded: int
    suspects: tuple[str, ...]
    notes: tuple[str, ...]
    settings: Settings
