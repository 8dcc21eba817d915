"""Result classes: frozen dataclasses of plain numbers, strings and tuples.

Every number is finite or None, so that `dataclasses.asdict` gives JSON without NaN. Differences are
standardised mean differences (0.1 = "balanced"); "before" is under the design weights alone,
"after" under design weights times learned weights.
"""

from __future__ import annotations

import html
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from .._records import Records
from ._verdict import Evidence, Verdict, describe_size

# Smallest difference between a cluster and the other rows that is shown first, in standard
# deviations.
SMALL = 0.2


@dataclass(frozen=True)
class Row:
    """A row of the data: position, label in the table's index (or None), weight, cluster."""

    position: int
    index: str | None
    weight: float
    cluster: int | None


@dataclass(frozen=True)
class Weights:
    """The learned weights (mean 1) and the loss of effective sample size.

    effective_size  sum(a m)^2 / (sum(a) sum(a m^2)) for design weights a and learned weights m: the
                    share of the sample that the learned weights leave
    kish_size       effective sample size (Kish) of design weights times learned weights, in rows
    design_size     the same of the design weights alone
    design_effect   of that product: factor on the variance of a mean
    unused          number of rows with a weight below 1 % of the mean
    top_share       share of the total weight on the 1 % of the rows with the largest weights
    edges, counts   histogram; the last bin contains everything above its left edge
    """

    n_rows: int
    minimum: float
    maximum: float
    quantiles: tuple[tuple[float, float], ...]
    effective_size: float
    kish_size: float
    design_size: float
    design_effect: float
    unused: int
    top_share: float
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    heaviest: tuple[Row, ...]
    lightest: tuple[Row, ...]


@dataclass(frozen=True)
class FeatureBalance:
    """Balance of a source column with those that it should not predict (suspects, or all others).

    before, after          largest |standardised difference|
    typical_*              mean of |difference| over all its pairs
    against                the value or range that attains ``before``
    n_pairs                number of its pairs: its encoded columns times the values or ranges
    """

    feature: str
    before: float
    after: float
    typical_before: float
    typical_after: float
    against: str
    n_pairs: int


@dataclass(frozen=True)
class PairBalance:
    """Two source columns: largest |standardised difference| of either under the other."""

    first: str
    second: str
    before: float
    after: float


@dataclass(frozen=True)
class Correlation:
    """Amount of correlation (`metrics.amount_of_correlation`) and correlation matrices.

    names     at most 60 encoded columns, those with the largest differences, ordered by cluster
    groups    for each of them the cluster with the largest difference, None for suspects
    n_columns number of encoded columns; the amount is over all of them (None if they are too many)
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
    """Status of the fit, and the objective and its terms after each iteration."""

    status: str
    converged: bool
    iterations: int
    objective: float
    history: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True)
class FeatureProfile:
    """Mean of a column inside a cluster and in the other rows, in the units of the table.

    Under the combined weights, and (``plain_``) under the design weights only; None without an
    observed value.
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
    """A cluster: number of rows, share by design weights and by learned weights, and the columns
    in which it differs most from the other rows, without the suspects."""

    cluster: int
    size: int
    share: float
    weighted_share: float
    features: tuple[FeatureProfile, ...]


def leading(profile: ClusterProfile) -> tuple[FeatureProfile, ...]:
    """The columns with a difference of at least 0.2, which is small; at least one."""
    large = tuple(f for f in profile.features if abs(f.difference) >= SMALL)
    return large or profile.features[:1]


@dataclass(frozen=True)
class Flow:
    """Contingency table of k-means clusters (rows) and clusters of the model (columns), matched.

    ``baseline_clusters`` are the cluster numbers of k-means in the order of the rows; ``moved`` is
    the share of the data off the diagonal.
    """

    baseline: str
    clusters: tuple[int, ...]
    baseline_clusters: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]
    moved: float
    agreement: float


@dataclass(frozen=True)
class Association:
    """Association of a clustering with a suspect: Cramer's V or eta, with design weights only."""

    suspect: str
    kind: str
    value: float


@dataclass(frozen=True)
class Baseline:
    """A simpler clustering of the same rows.

    explained_variance  between-cluster share of the variance of the columns other than suspects
    agreement           adjusted Rand index with the model's clusters
    """

    name: str
    explained_variance: float
    agreement: float
    associations: tuple[Association, ...]


@dataclass(frozen=True)
class Projection:
    """A sample of rows, stratified by cluster, on the first two weighted principal components.

    before_x, before_y  the same rows with the effects that the model removes; empty without them
    suspect, values     the first suspect and its values; empty without suspects
    value               position of the value of each row
    baseline_cluster    cluster of each row by the k-means of ``Flow``, matched as there; empty
                        without it
    """

    n_rows: int
    variance: tuple[float, float]
    positions: tuple[int, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    weight: tuple[float, ...]
    cluster: tuple[int, ...]
    before_x: tuple[float, ...] = ()
    before_y: tuple[float, ...] = ()
    suspect: str = ""
    values: tuple[str, ...] = ()
    value: tuple[int, ...] = ()
    baseline_cluster: tuple[int, ...] = ()


@dataclass(frozen=True)
class SuspectEffect:
    """Effect of (a value of) a suspect on a column.

    unit   "sd": standard deviations of the column; "log-odds": of a value, in a mixture
    """

    suspect: str
    feature: str
    effect: float
    unit: str = "sd"


@dataclass(frozen=True)
class Overlap:
    """Clusters by the values of a suspect.

    rows         number of rows of each value (rows) in each cluster (columns)
    shares       the same under the learned weights, as shares of the value
    one_cluster  values whose rows are of one cluster
    identified   "yes": values are joined through two clusters or more, so that effects of the
                 suspect and clusters can be distinguished; "under small effects": through one;
                 "no": some values share no cluster with the others
    sentence     the reason, empty for "yes"
    """

    suspect: str
    values: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]
    shares: tuple[tuple[float, ...], ...]
    one_cluster: tuple[str, ...]
    identified: str
    sentence: str


@dataclass(frozen=True)
class KnownShare:
    """A share that ``margins`` gave: of the population, under the design weights, and under the
    weights of the fit."""

    column: str
    value: str
    known: float
    design: float
    reached: float


@dataclass(frozen=True)
class Mixing:
    """How well the values of a suspect are mixed, by the metrics of batch integration.

    Before: the rows as they are, design weights. After: rows without the effects that the model
    removes, under its weights, so that shares of clusters that differ by value do not count as bad
    mixing. Numbers are those of at most 1,000 rows; a numeric suspect is binned.

    lisi        `metrics.lisi_score`, 0 separate, 1 mixed in equal shares
    kbet        `metrics.kbet_score`, share of neighbourhoods with the overall shares
    silhouette  `metrics.batch_silhouette_score` within clusters, 1 mixed; None where no cluster
                has two values
    explained   `metrics.principal_component_regression_score`, share of the variance of the
                columns that the suspect explains
    """

    suspect: str
    lisi_before: float
    lisi_after: float
    kbet_before: float
    kbet_after: float
    silhouette_before: float | None
    silhouette_after: float | None
    explained_before: float
    explained_after: float


@dataclass(frozen=True)
class Settings:
    """Parameters, versions and data description needed to reproduce a result.

    ``n_zero`` of the ``n_rows`` rows have a design weight of 0.
    """

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
    n_zero: int = 0


@dataclass(frozen=True)
class Separation:
    """How well separated the clusters are.

    silhouette  mean silhouette coefficient, in the columns without the effects that the model
                removes: 1 for clusters that are far apart, about 0 for clusters that overlap
    bic_gain    BIC of one cluster minus that of the clusters: negative where the data do not show
                them; None for data with too many columns
    """

    silhouette: float | None
    bic_gain: float | None


class HasTables:
    """Fields that are tuples of dataclasses, as tables."""

    def to_frame(self, field: str, library: str | None = None) -> Any:
        """One of the fields as a table, with a row for each entry; lists inside of it are left out.

        Parameters
        ----------
        field : name of a field that is a tuple of dataclasses, as "features" or "pairs"
        library : "pandas", "polars" or "pyarrow"; None: the first of them that is installed
        """
        tables = [
            own.name
            for own in fields(self)  # type: ignore[arg-type]
            if re.fullmatch(r"tuple\[[A-Z]\w+, \.\.\.\]", str(own.type))
        ]
        if field not in tables:
            raise ValueError(f"field={field!r} should be one of {', '.join(map(repr, tables))}")
        rows = (asdict(entry).items() for entry in getattr(self, field))
        plain = ({k: v for k, v in row if not isinstance(v, (tuple, dict))} for row in rows)
        return Records(plain, library).to_frame()

    def _answer(self) -> tuple[Verdict, str, list[dict[str, Any]]]:
        """The verdict, numbers in one sentence, and rows of a table: what a notebook shows."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        verdict, numbers, rows = self._answer()
        word, *sentences = (
            html.escape(text) for text in (verdict.title, verdict.sentence, numbers)
        )
        return f"<p><b>{word}.</b> {' '.join(sentences)}</p>{Records(rows)._repr_html_()}"


def _percent(share: float) -> str:
    return f"{share:.0%}"


@dataclass(frozen=True)
class Diagnostics(HasTables):
    """Diagnostics of a fitted model; see `diagnose`.

    For DecorrelationWeights, which have no clusters, ``clusters``, ``baselines`` and
    ``associations`` are empty and ``flow``, ``projection``, ``explained_variance`` and
    ``separation`` are None. ``form`` is the form of a mixture, in words, else "";
    ``separating`` are sentences about columns that nearly determine clusters by themselves.
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
    separation: Separation | None
    associations: tuple[Association, ...]
    baselines: tuple[Baseline, ...]
    flow: Flow | None
    projection: Projection | None
    effects: tuple[SuspectEffect, ...]
    overlap: tuple[Overlap, ...]
    mixing: tuple[Mixing, ...]
    margins: tuple[KnownShare, ...]
    notes: tuple[str, ...]
    settings: Settings
    form: str = ""
    separating: tuple[str, ...] = ()

    def _answer(self) -> tuple[Verdict, str, list[dict[str, Any]]]:
        e = self.evidence
        numbers = (
            f"Mean difference: {e.typical_before:.2f} before, {e.typical_after:.2f} after. "
            f"Effective sample size: {describe_size(e)}."
        )
        rows = [
            {
                "cluster": each.cluster,
                "rows": each.size,
                "share": _percent(each.share),
                "weighted share": _percent(each.weighted_share),
                "largest differences": ", ".join(
                    f"{one.feature} {one.difference:+.1f}" for one in leading(each)[:4]
                ),
            }
            for each in self.clusters
        ]
        return self.verdict, numbers, rows


@dataclass(frozen=True)
class AuditedPair:
    """Two associated source columns: most certain |standardised difference| and association."""

    first: str
    second: str
    difference: float
    kind: str
    association: float


@dataclass(frozen=True)
class Notice:
    """A column that may reflect how the data were collected.

    why    "survey weights", "identifier", "near-constant", "predicts many columns" or "missing
           values predict others"
    reach  share of the other columns that it predicts, where that is the reason
    """

    column: str
    why: str
    sentence: str
    reach: float | None


@dataclass(frozen=True)
class Candidate:
    """A column that may be a trace of the collection, and what it does to the other columns.

    role            "effect": it shifts other columns within groups of rows; "selection": the
                    shares of the groups differ by its values, and it has no effect; "neither": it
                    is independent of the other columns as far as the data show
    explained       gain in BIC / (2 n) of the model with selection and effect over one without
                    both: log-likelihood per row, after the penalty; the sum of ``effect_gain`` and
                    ``selection_gain``
    shift           standard deviation of the effects, in standard deviations within groups, mean
                    of the shifted columns
    shifted         share of the other columns with a shift of at least 0.1
    p_effect        p-value of selection alone against an effect; 1 where ``p_dependence`` is not
                    significant
    p_dependence    p-value of independence of the other columns; both by permutation, and adjusted
                    by Holm's method for the number of candidates
    n_groups        number of groups with the lowest BIC
    overlap         these groups by the values of the column: whether its effects can be
                    distinguished from groups; None for "neither"
    """

    column: str
    role: str
    explained: float
    effect_gain: float
    selection_gain: float
    shift: float
    shifted: float
    p_effect: float
    p_dependence: float
    n_groups: int
    overlap: Overlap | None = None


@dataclass(frozen=True)
class Audit(HasTables):
    """Audit of a table before any clustering; see `audit`.

    worth              whether a correction is worthwhile: a Verdict whose word is "yes", "no" or
                       "cannot tell"
    candidates         columns that may be traces of the collection, strongest effect first: the
                       suspects, or columns of few values (at most 20) of at most 2,000 rows
    pairs              the most associated pairs of columns
    typical_difference mean of |difference| over all pairs; ``by_chance`` is its expected value
                       if the columns were independent
    reach              for each source column the share of the others that it predicts
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
    candidates: tuple[Candidate, ...]
    notices: tuple[Notice, ...]
    reach: tuple[tuple[str, float], ...]
    notes: tuple[str, ...]
    settings: Settings

    def _answer(self) -> tuple[Verdict, str, list[dict[str, Any]]]:
        rows = [
            {
                "column": one.column,
                "finding": one.role,
                "shifted": _percent(one.shifted),
                "shift": one.shift,
                "p of effect": one.p_effect,
                "p of dependence": one.p_dependence,
            }
            for one in self.candidates
        ]
        return self.worth, "", rows


@dataclass(frozen=True)
class MethodRow:
    """One method of a comparison; None where a number is undefined for it.

    effective_size   effective sample size (Kish) of design weights times learned weights, as a
                     share of the rows
    mean_difference  mean of |difference| under the learned weights, of rows without the effects
                     that the method removes; before weighting for methods without weights, None
                     where the effects were removed in another way
    agreement        adjusted Rand index with k-means on all columns
    """

    method: str
    title: str
    explained_variance: float
    associations: tuple[Association, ...]
    effective_size: float
    mean_difference: float | None
    silhouette: float | None
    agreement: float | None
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Comparison(HasTables):
    """Several methods on one table; see `compare`. ``method`` is the one that the verdict in
    ``summary`` is about; ``skipped`` has the reason for each method that was not fitted;
    ``choice`` is the selection of the number of clusters by a mixture, None if it was given."""

    method: str
    summary: Verdict
    rows: tuple[MethodRow, ...]
    skipped: tuple[tuple[str, str], ...]
    n_rows: int
    n_columns: int
    n_encoded: int
    suspects: tuple[str, ...]
    notes: tuple[str, ...]
    settings: Settings
    n_clusters: int = 0
    choice: Any = None

    def _answer(self) -> tuple[Verdict, str, list[dict[str, Any]]]:
        rows = [
            {
                "method": row.title,
                "explained variance": _percent(row.explained_variance),
                **{f"association with {one.suspect}": one.value for one in row.associations},
                "effective size": _percent(row.effective_size),
                "mean difference": row.mean_difference,
                "silhouette": row.silhouette,
                "ARI with k-means": row.agreement,
            }
            for row in self.rows
        ]
        return self.summary, "", rows
