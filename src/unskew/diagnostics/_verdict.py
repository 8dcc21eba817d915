"""The verdict (helped, no effect, harmed): its rules and the evidence that they use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# The effective sample size is too small below this share, or below this many rows per cluster.
TINY_EFFECTIVE_SIZE = 0.02
ROWS_PER_CLUSTER = 3
# Two clusterings whose agreement under the learned weights exceeds this are considered the same.
# The limit is lower without suspects, where the difference itself is the only evidence.
SAME_GROUPS = 0.97
SAME_WITHOUT_SUSPECTS = 0.88
# With permuted suspects: one method recovers the clusters of the other equally well if its
# adjusted Rand index is at most LACKS lower. If each method recovers its own clusters better, the
# model's clusters are better if they explain BEYOND more of the variance that the suspects leave
# unexplained.
LACKS = 0.04
BEYOND = 0.015
# Above this agreement, dropping the suspects gives an equivalent result.
SAME_DROPPED = 0.96
# A mean difference below half of BALANCED, or below BEYOND_CHANCE times its expected value under
# independence, is no imbalance.
BALANCED = 0.1
BEYOND_CHANCE = 1.2
# Weights without clusters: the mean difference decreased if at most this share of it remains.
FELL = 0.8
# Under the learned weights a clustering depends less on the suspects if the association decreased
# by FELL_BY, and more if it increased by ROSE.
FELL_BY = 0.02
ROSE = 0.05


@dataclass(frozen=True)
class Evidence:
    """Input of the verdict. None where a number does not exist (no suspects, no clusters, or the
    baselines were not fitted).

    typical_*           mean of the |standardised differences| to be balanced
    by_chance           its expected value for independent columns
    corrected           whether effects of the suspects were removed from the other columns
    kept_variance       explained variance divided by that of k-means on the same columns
    same_as_kmeans      agreement with k-means on the same columns
    same_as_regressed   agreement with k-means after regressing the suspects out
    follows, kmeans_follows, dropped_follows
                        strongest association with a suspect: of the model, of k-means on all
                        columns, of k-means without the suspects
    weighted_same, weighted_same_dropped
                        agreement with k-means on all columns, and without the suspects, under the
                        learned weights, which decouple the suspects as in the population. In the
                        unweighted sample two clusterings may agree only because the suspect is
                        associated with the clusters there
    weighted_follows, weighted_kmeans_follows
                        strongest association with a suspect under the learned weights
    stability, kmeans_stability
                        agreement of clusterings of random halves of the rows: with the model's
                        distance and weights, and with plain k-means
    own_found, own_found_by_kmeans, baseline_found, baseline_found_by_kmeans, beyond, kmeans_beyond
                        recovery of the clusters after the suspects are permuted, and variance that
                        the clusters explain beyond the suspects: see ``PermutationCheck``
    gained, lost        columns whose between-cluster share of the variance increased and decreased
                        most compared with k-means
    constant_suspects   suspects were named, but all of them are constant
    votes               of a consensus: number of runs, number that vote, agreement of two runs
    """

    suspects: tuple[str, ...]
    n_clusters: int | None
    n_rows: int
    converged: bool
    effective_size: float
    kish_size: float
    typical_before: float
    typical_after: float
    by_chance: float
    corrected: bool = False
    kept_variance: float | None = None
    same_as_kmeans: float | None = None
    same_as_regressed: float | None = None
    follows: float | None = None
    kmeans_follows: float | None = None
    dropped_follows: float | None = None
    weighted_same: float | None = None
    weighted_same_dropped: float | None = None
    weighted_follows: float | None = None
    weighted_kmeans_follows: float | None = None
    stability: float | None = None
    kmeans_stability: float | None = None
    own_found: float | None = None
    own_found_by_kmeans: float | None = None
    baseline_found: float | None = None
    baseline_found_by_kmeans: float | None = None
    beyond: float | None = None
    kmeans_beyond: float | None = None
    gained: tuple[tuple[str, float], ...] = ()
    lost: tuple[tuple[str, float], ...] = ()
    constant_suspects: bool = False
    votes: tuple[int, int, float] | None = None


@dataclass(frozen=True)
class Verdict:
    """A word ("helped", "no effect", "harmed"), a one-sentence summary, the reasons, and whether
    dropping the suspects gives an equivalent result."""

    word: str
    sentence: str
    reasons: tuple[str, ...]
    dropping_would_do: bool = False


def decide(evidence: Evidence) -> Verdict:
    """Helped, no effect or harmed, compared with k-means on all columns. The first rule that
    holds decides.

    harmed     the effective sample size is too small (below 0.02, or fewer than 3 effective rows
               per cluster)
    with suspects, on rows whose suspects were permuted (``_permutation``)
    no effect  k-means recovers the model's clusters as well as the model does, to 0.04
    helped     the model recovers the clusters of k-means as well as k-means does, to 0.04, and
               its own clusters explain more of the variance that the suspects leave unexplained
    no effect  the same, but its clusters explain no more
    helped     each recovers its own clusters better, and the model's explain more by 0.015
    harmed     otherwise
    with suspects in data too wide for that, under the learned weights
    no effect  the clusters are those of k-means (agreement above 0.97)
    helped     the clusters depend less on the suspects than those of k-means (by 0.02)
    harmed     they depend more on them (by 0.05)
    no effect  otherwise
    without suspects
    no effect  the clusters are those of k-means (agreement above 0.88)
    harmed     otherwise: strong decorrelation splits clusters, and the data cannot show whether
               it removed bias instead

    Accuracy of the verdict: docs/results/defaults.md.
    """
    e = evidence
    reasons = _reasons(e)
    what = _names(e.suspects) if e.suspects else "the columns"
    drop = bool(e.suspects) and _above(e.weighted_same_dropped, SAME_DROPPED)

    def conclude(word: str, sentence: str) -> Verdict:
        if drop and word != "harmed" and "left out" not in sentence:
            them = "that column" if len(e.suspects) == 1 else "those columns"
            sentence += f" Dropping {them} gives an equivalent result."
        return Verdict(word, sentence, tuple(reasons), drop)

    few = e.effective_size < TINY_EFFECTIVE_SIZE or (
        e.n_clusters is not None and e.kish_size < ROWS_PER_CLUSTER * e.n_clusters
    )
    if few:
        return conclude(
            "harmed",
            f"The effective sample size is too small: after weighting, {e.n_rows:,} rows are "
            f"equivalent to {e.kish_size:,.0f}. Do not use this result.",
        )
    if e.constant_suspects:
        return conclude(
            "no effect", "There was nothing to correct: the suspects are constant in these data."
        )
    if e.weighted_same is None:
        return _decide_by_weights(e, conclude)
    nothing = e.typical_before <= max(BALANCED / 2, BEYOND_CHANCE * e.by_chance)
    same = _above(e.weighted_same, SAME_GROUPS if e.suspects else SAME_WITHOUT_SUSPECTS)
    if e.own_found is not None:
        same = e.own_found - (e.own_found_by_kmeans or 0.0) <= LACKS
    if same and nothing:
        return conclude(
            "no effect",
            f"There was nothing to correct: {_association_phrase(e)} no better than expected by "
            "chance, and the clusters are those of k-means.",
        )
    if not e.suspects:
        if same:
            return conclude(
                "no effect",
                "The clusters are nearly or exactly those of k-means. Name suspects: decorrelating "
                "all pairs cannot distinguish bias from clusters.",
            )
        return conclude(
            "harmed",
            "Decorrelating all pairs changed the clusters considerably "
            f"(agreement with k-means {e.weighted_same:.2f}). Clusters also make columns "
            "correlated, so this may have removed them: do not use this result without a reason. "
            "Name suspects or lower balance_strength.",
        )
    if same:
        return conclude("no effect", _same_groups(e, what))
    if e.own_found is not None:
        return _decide_by_permutation(e, what, conclude)
    less = (e.weighted_kmeans_follows or 0.0) - (e.weighted_follows or 0.0)
    if less >= FELL_BY:
        explain = ""
        if e.kept_variance is not None:
            explain = f" and explain {min(e.kept_variance, 1.0):.0%} as much variance"
        return conclude(
            "helped",
            f"The clusters depend less on {what} than those of k-means{explain}.",
        )
    if less <= -ROSE:
        return conclude(
            "harmed",
            f"The clusters depend more on {what} than those of k-means: do not use this result.",
        )
    return conclude(
        "no effect",
        f"The clusters changed, but they depend on {what} as much as those of k-means.",
    )


def _decide_by_permutation(
    e: Evidence, what: str, conclude: Callable[[str, str], Verdict]
) -> Verdict:
    """Verdict on clusters that differ from those of k-means, by recovery with permuted suspects."""
    more = (e.beyond or 0.0) - (e.kmeans_beyond or 0.0)
    as_good = (e.baseline_found or 0.0) - (e.baseline_found_by_kmeans or 0.0) > -LACKS
    if as_good and more <= 0:
        return conclude(
            "no effect",
            f"The clusters changed, but they explain no more variance beyond {what} than those of "
            "k-means.",
        )
    if as_good or more > BEYOND:
        return conclude(
            "helped",
            f"The clusters depend less on {what} than those of k-means and explain "
            f"{'as much' if abs(more) < 0.005 else 'more'} of the remaining variance.",
        )
    return conclude(
        "harmed",
        f"The clusters differ from those of k-means without evidence that they are better: of the "
        f"variance that {what} {'leaves' if len(e.suspects) == 1 else 'leave'} unexplained they "
        f"explain {e.beyond:.1%}, those of k-means {e.kmeans_beyond:.1%}. Do not use this result.",
    )


def _decide_by_weights(e: Evidence, conclude: Callable[[str, str], Verdict]) -> Verdict:
    """Verdict on weights alone, or on clusters that were not compared with k-means."""
    nothing = e.typical_before <= max(BALANCED / 2, BEYOND_CHANCE * e.by_chance)
    if nothing:
        return conclude(
            "no effect",
            f"There was nothing to correct: {_association_phrase(e)} no better than expected by "
            "chance.",
        )
    fall = f"{1 - e.typical_after / e.typical_before:.0%}" if e.typical_before > 0 else "0%"
    if e.typical_after > FELL * e.typical_before:
        return conclude(
            "no effect",
            f"The correction had almost no effect: {_association_phrase(e)} only {fall} less than "
            "before.",
        )
    under = "After the correction" if e.corrected else "Under the weights"
    return conclude(
        "helped",
        f"{under} {_association_phrase(e)} {fall} less than before; {e.n_rows:,} rows have an "
        f"effective sample size of {e.kish_size:,.0f}.",
    )


def _above(value: float | None, limit: float) -> bool:
    return value is not None and value > limit


def _same_groups(e: Evidence, what: str) -> str:
    if _above(e.weighted_same_dropped, SAME_DROPPED):
        return (
            "The correction made no relevant difference: k-means finds the same clusters, with "
            f"{what} included or with {'it' if len(e.suspects) == 1 else 'them'} left out."
        )
    return "The correction made no relevant difference: the clusters are those of k-means."


def _reasons(e: Evidence) -> list[str]:
    first: list[str] = []
    if e.own_found is not None:
        one = len(e.suspects) == 1
        first.append(
            f"Permutation check: each row gets {_names(e.suspects)} of a random row and "
            f"{'its' if one else 'their'} effect on the other columns, as in a sample without "
            "bias. On these data the model recovers its own clusters with an adjusted Rand index "
            f"of {e.own_found:.2f} and those of k-means with {e.baseline_found:.2f} (1 = all, "
            f"0 = chance); k-means recovers the model's with {e.own_found_by_kmeans:.2f} and its "
            f"own with {e.baseline_found_by_kmeans:.2f}."
        )
        first.append(
            f"Of the variance that {_names(e.suspects)} {'leaves' if one else 'leave'} "
            f"unexplained, the clusters explain {e.beyond:.1%}, those of k-means "
            f"{e.kmeans_beyond:.1%}."
        )
    reasons = [
        *first,
        f"The mean difference {_between(e)} is {e.typical_after:.2f} standard deviations after "
        f"{'the correction' if e.corrected else 'weighting'} and {e.typical_before:.2f} before; "
        f"{e.by_chance:.2f} is expected by chance.",
        f"After weighting, {e.n_rows:,} rows are equivalent to {e.kish_size:,.0f} "
        f"(effective sample size {e.effective_size:.0%} of the design).",
    ]
    if e.same_as_kmeans is not None:
        reasons.append(
            f"Agreement with k-means on the same columns: {e.same_as_kmeans:.2f} (1 = the same "
            "clusters)"
            + (
                "."
                if e.kept_variance is None
                else f"; explained variance is {e.kept_variance:.0%} of that of k-means."
            )
        )
    if e.follows is not None and e.kmeans_follows is not None and e.dropped_follows is not None:
        reasons.append(
            f"Strongest association of the clusters with a suspect (0 = none, 1 = complete): "
            f"{e.follows:.2f}; for k-means {e.kmeans_follows:.2f}, for k-means without the "
            f"suspects {e.dropped_follows:.2f}."
        )
    if e.weighted_same is not None:
        reasons.append(
            "Under the learned weights, as in an unbiased sample: agreement with k-means on all "
            f"columns {e.weighted_same:.2f}"
            + (
                ""
                if e.weighted_follows is None or e.weighted_kmeans_follows is None
                else f"; strongest association of the clusters with a suspect "
                f"{e.weighted_follows:.2f}, for k-means {e.weighted_kmeans_follows:.2f}"
            )
            + "."
        )
    if e.stability is not None and e.kmeans_stability is not None:
        reasons.append(
            f"Agreement of clusterings of random halves of the rows: {e.stability:.2f} with the "
            f"correction, {e.kmeans_stability:.2f} for k-means."
        )
    if e.votes is not None:
        runs, voting, agree = e.votes
        part = f"; only the best {voting} vote, because the runs found different solutions"
        reasons.append(
            f"Mean agreement of two of the {runs} runs: {agree:.2f} (1 = the same clusters)"
            f"{part if voting < runs else ''}."
        )
    if e.gained or e.lost:
        influence = [
            f"{word} {', '.join(f'{name} ({change:+.2f})' for name, change in which)}"
            for word, which in (("gained", e.gained), ("lost", e.lost))
            if which
        ]
        reasons.append(
            f"Influence on the clusters (between-cluster share of the variance): "
            f"{'; '.join(influence)}."
        )
    if e.same_as_regressed is not None and e.same_as_regressed > SAME_GROUPS:
        reasons.append("Regressing the suspects out, then k-means, finds the same clusters.")
    if not e.suspects and not e.constant_suspects and e.n_clusters is not None:
        reasons.append(
            "No suspect was named, so every pair of columns was decorrelated. Clusters also make "
            "columns correlated, so this can remove them."
        )
    if e.same_as_kmeans is None and e.n_clusters is not None:
        reasons.append(
            "The clusters were not compared with k-means, so their quality was not assessed."
        )
    if not e.converged:
        reasons.append("The fit did not converge: its results could still change.")
    return reasons


def _between(e: Evidence) -> str:
    if not e.suspects:
        return "between columns"
    return f"between {_names(e.suspects)} and the other columns"


def _association_phrase(e: Evidence) -> str:
    if not e.suspects:
        return "the columns predict each other"
    verb = "predicts" if len(e.suspects) == 1 else "predict"
    return f"{_names(e.suspects)} {verb} the other columns"


def _names(suspects: tuple[str, ...]) -> str:
    if len(suspects) == 1:
        return f"“{suspects[0]}”"
    if len(suspects) <= 3:
        quoted = [f"“{name}”" for name in suspects]
        return ", ".join(quoted[:-1]) + " and " + quoted[-1]
    return f"the {len(suspects)} suspect columns"
