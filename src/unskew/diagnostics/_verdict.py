"""Did it help? The one rule, and the evidence it looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Below this share the weights rest on few rows; so they do below this many rows per cluster.
TINY_EFFECTIVE_SIZE = 0.02
ROWS_PER_CLUSTER = 3
# Two clusterings that agree above this under the learned weights are the same groups. Without
# suspects it takes more of a difference to speak of one: there nothing but the difference speaks.
SAME_GROUPS = 0.97
SAME_WITHOUT_SUSPECTS = 0.88
# With the suspects untied: k-means finds the model's groups as well if it lacks no more than this;
# the model finds those of k-means as well if it lacks no more than this; and where each finds its
# own groups better, the model's are the better ones if they explain this much more of the
# variance that the suspects leave.
LACKS = 0.04
BEYOND = 0.015
# Dropping would do as well above this.
SAME_DROPPED = 0.96
# A typical difference below half of this, or not beyond chance, was no imbalance to begin with.
BALANCED = 0.1
BEYOND_CHANCE = 1.2
# Weights without clusters: the typical difference fell if at most this share of it is left.
FELL = 0.8
# Under the learned weights a clustering follows the suspects less if the association fell by this,
# more if it rose by this.
FELL_BY = 0.02
ROSE = 0.05


@dataclass(frozen=True)
class Evidence:
    """All that the verdict knows. None where a number does not exist (no suspects, no clusters, or
    the rivals were not fitted).

    typical_*           mean of the |standardised differences| to be balanced
    by_chance           its expected value for independent columns
    corrected           whether effects of the suspects were taken out of the other columns
    kept_variance       explained variance over that of k-means on the same columns
    same_as_kmeans      agreement with k-means on the same columns
    same_as_regressed   agreement with k-means after regressing the suspects out
    follows, kmeans_follows, dropped_follows
                        strongest association with a suspect: of the model, of k-means on all
                        columns, of k-means without the suspects
    weighted_same, weighted_same_dropped
                        agreement with k-means on all columns, and without the suspects, of rows
                        counted by the learned weights: where the suspects are untied, as in the
                        population. In the sample itself two clusterings may agree only because
                        the suspect follows the groups there
    weighted_follows, weighted_kmeans_follows
                        strongest association with a suspect, counted the same way
    stability, kmeans_stability
                        agreement of clusterings of random halves of the rows: as the model
                        measures and weights them, and of plain k-means
    own_found, own_found_by_kmeans, baseline_found, baseline_found_by_kmeans, beyond, kmeans_beyond
                        what is found of the groups where the suspects are untied from them, and
                        what the groups explain beyond the suspects: see ``PermutationCheck``
    gained, lost        columns whose share between groups rose and fell most against k-means
    constant_suspects   suspects were named, but all have one value only
    votes               of a consensus: runs, those that vote, and how far two runs agree
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
    """A word ("helped", "no effect", "harmed"), a sentence for people who will not read on, the
    reasons, and whether simply dropping the suspects would do as well."""

    word: str
    sentence: str
    reasons: tuple[str, ...]
    dropping_would_do: bool = False


def decide(evidence: Evidence) -> Verdict:
    """Helped, no effect or harmed, against k-means on all columns. The first rule that holds
    decides.

    harmed     the weights rest on few rows (effective size below 0.02, or fewer than 3 rows' worth
               per cluster)
    with suspects, on rows that are given the suspects of other rows (``_permutation``)
    no effect  k-means finds the model's groups as well as the model does, to 0.04
    helped     the model finds the groups of k-means as well as k-means does, to 0.04, and its own
               groups explain more of what the suspects leave unexplained
    no effect  the same, but its groups explain no more
    helped     each finds its own groups better, and the model's explain more by 0.015
    harmed     otherwise
    with suspects in data too wide for that, counted by the learned weights
    no effect  the groups are those of k-means (agreement above 0.97)
    helped     the groups follow the suspects less than those of k-means (by 0.02)
    harmed     they follow them more (by 0.05)
    no effect  otherwise
    without suspects
    no effect  the groups are those of k-means (agreement above 0.88)
    harmed     otherwise: strong decorrelation takes groups apart, and that it took bias apart
               instead cannot be seen in the data

    How often this is right: docs/results/defaults.md.
    """
    e = evidence
    reasons = _reasons(e)
    what = _names(e.suspects) if e.suspects else "the columns"
    drop = bool(e.suspects) and _above(e.weighted_same_dropped, SAME_DROPPED)

    def say(word: str, sentence: str) -> Verdict:
        if drop and word != "harmed" and "left out" not in sentence:
            them = "that column" if len(e.suspects) == 1 else "those columns"
            sentence += f" Dropping {them} would do as well."
        return Verdict(word, sentence, tuple(reasons), drop)

    few = e.effective_size < TINY_EFFECTIVE_SIZE or (
        e.n_clusters is not None and e.kish_size < ROWS_PER_CLUSTER * e.n_clusters
    )
    if few:
        return say(
            "harmed",
            f"The result rests on too few rows: after weighting, {e.n_rows:,} rows are worth only "
            f"{e.kish_size:,.0f}. Do not rely on it.",
        )
    if e.constant_suspects:
        return say(
            "no effect", "There was nothing to correct: the suspects have one value only here."
        )
    if e.weighted_same is None:
        return _decide_by_weights(e, say)
    nothing = e.typical_before <= max(BALANCED / 2, BEYOND_CHANCE * e.by_chance)
    same = _above(e.weighted_same, SAME_GROUPS if e.suspects else SAME_WITHOUT_SUSPECTS)
    if e.own_found is not None:
        same = e.own_found - (e.own_found_by_kmeans or 0.0) <= LACKS
    if same and nothing:
        return say(
            "no effect",
            f"There was nothing to correct: {_association_phrase(e)} no more than chance would "
            "explain, and the groups are those of ordinary k-means.",
        )
    if not e.suspects:
        if same:
            return say(
                "no effect",
                "The groups are those of ordinary k-means, or nearly. Name the columns that you "
                "suspect: decorrelating all pairs cannot tell bias from groups.",
            )
        return say(
            "harmed",
            "Decorrelating all pairs changed the groups a lot "
            f"(agreement with ordinary k-means {e.weighted_same:.2f}), and groups are correlations "
            "too: do not use it without a reason. Name the columns that you suspect, or lower "
            "balance_strength.",
        )
    if same:
        return say("no effect", _same_groups(e, what))
    if e.own_found is not None:
        return _decide_by_permutation(e, what, say)
    less = (e.weighted_kmeans_follows or 0.0) - (e.weighted_follows or 0.0)
    if less >= FELL_BY:
        explain = ""
        if e.kept_variance is not None:
            explain = f", and still explain {min(e.kept_variance, 1.0):.0%} as much of the data"
        return say(
            "helped",
            f"The groups follow {what} less than those of ordinary k-means{explain}.",
        )
    if less <= -ROSE:
        return say(
            "harmed",
            f"The groups follow {what} more closely than those of ordinary k-means: do not use "
            "this result.",
        )
    return say(
        "no effect",
        f"The groups changed, but they follow {what} as much as those of ordinary k-means do.",
    )


def _decide_by_permutation(e: Evidence, what: str, say: Callable[[str, str], Verdict]) -> Verdict:
    """Groups that differ from those of k-means, by what is left of both without the tie."""
    more = (e.beyond or 0.0) - (e.kmeans_beyond or 0.0)
    as_good = (e.baseline_found or 0.0) - (e.baseline_found_by_kmeans or 0.0) > -LACKS
    if as_good and more <= 0:
        return say(
            "no effect",
            f"The groups changed, but they explain no more beyond {what} than those of ordinary "
            "k-means do.",
        )
    if as_good or more > BEYOND:
        return say(
            "helped",
            f"The groups hang less on {what} than those of ordinary k-means, and explain "
            f"{'as much' if abs(more) < 0.005 else 'more'} of the rest of the data.",
        )
    return say(
        "harmed",
        f"The groups differ from those of ordinary k-means, and too little speaks for them: of "
        f"what {what} {'leaves' if len(e.suspects) == 1 else 'leave'} unexplained they explain "
        f"{e.beyond:.1%}, those of k-means {e.kmeans_beyond:.1%}. Do not use this result.",
    )


def _decide_by_weights(e: Evidence, say: Callable[[str, str], Verdict]) -> Verdict:
    """Weights alone, or groups that were not compared with k-means."""
    nothing = e.typical_before <= max(BALANCED / 2, BEYOND_CHANCE * e.by_chance)
    if nothing:
        return say(
            "no effect",
            f"There was nothing to correct: {_association_phrase(e)} no more than chance would "
            "explain.",
        )
    fall = f"{1 - e.typical_after / e.typical_before:.0%}" if e.typical_before > 0 else "0%"
    if e.typical_after > FELL * e.typical_before:
        return say(
            "no effect",
            f"The correction did not take hold: {_association_phrase(e)} almost as much as before "
            f"({fall} less).",
        )
    under = "After the correction" if e.corrected else "Under the weights"
    return say(
        "helped",
        f"{under} {_association_phrase(e)} {fall} less than before, at the price that "
        f"{e.n_rows:,} rows count as {e.kish_size:,.0f}.",
    )


def _above(value: float | None, limit: float) -> bool:
    return value is not None and value > limit


def _same_groups(e: Evidence, what: str) -> str:
    if _above(e.weighted_same_dropped, SAME_DROPPED):
        return (
            "The correction changed nothing that matters: ordinary k-means finds the same groups, "
            f"with {what} or with {'it' if len(e.suspects) == 1 else 'them'} left out."
        )
    return "The correction changed nothing that matters: the groups are those of ordinary k-means."


def _reasons(e: Evidence) -> list[str]:
    first: list[str] = []
    if e.own_found is not None:
        one = len(e.suspects) == 1
        first.append(
            f"Test on made-up rows: each gets {_names(e.suspects)} of a row drawn at random, and "
            f"what {'it adds' if one else 'they add'} to the other columns with it, as in a sample "
            "without bias. There the model finds its own groups again at "
            f"{e.own_found:.2f} and those of k-means at {e.baseline_found:.2f} (1 = all, 0 = by "
            f"chance); k-means finds the model's at {e.own_found_by_kmeans:.2f} and its own at "
            f"{e.baseline_found_by_kmeans:.2f}."
        )
        first.append(
            f"Of the variance that {_names(e.suspects)} {'leaves' if one else 'leave'} "
            f"unexplained, these groups explain {e.beyond:.1%}, those of k-means "
            f"{e.kmeans_beyond:.1%}."
        )
    reasons = [
        *first,
        f"A typical difference {_between(e)} is {e.typical_after:.2f} standard deviations after "
        f"{'the correction' if e.corrected else 'weighting'}, {e.typical_before:.2f} before; "
        f"chance alone gives {e.by_chance:.2f}.",
        f"After weighting {e.n_rows:,} rows are worth {e.kish_size:,.0f} "
        f"(effective size {e.effective_size:.0%} of the design).",
    ]
    if e.same_as_kmeans is not None:
        reasons.append(
            f"Agreement with k-means on the same columns: {e.same_as_kmeans:.2f} (1 = the same "
            "groups)"
            + (
                "."
                if e.kept_variance is None
                else f"; explained variance is {e.kept_variance:.0%} of that of k-means."
            )
        )
    if e.follows is not None and e.kmeans_follows is not None and e.dropped_follows is not None:
        reasons.append(
            f"The groups follow a suspect at {e.follows:.2f} (0 not at all, 1 wholly); k-means "
            f"does at {e.kmeans_follows:.2f}, without the suspects at {e.dropped_follows:.2f}."
        )
    if e.weighted_same is not None:
        reasons.append(
            "Counted by the learned weights, as in an unbiased sample: agreement with k-means on "
            f"all columns {e.weighted_same:.2f}"
            + (
                ""
                if e.weighted_follows is None or e.weighted_kmeans_follows is None
                else f"; the groups follow a suspect at {e.weighted_follows:.2f}, those of k-means "
                f"at {e.weighted_kmeans_follows:.2f}"
            )
            + "."
        )
    if e.stability is not None and e.kmeans_stability is not None:
        reasons.append(
            f"Clusterings of random halves of the rows agree at {e.stability:.2f} with the "
            f"correction, at {e.kmeans_stability:.2f} for ordinary k-means."
        )
    if e.votes is not None:
        runs, voting, agree = e.votes
        part = f", and only the best {voting} vote: together all agree on a mixture of them"
        reasons.append(
            f"Two of the {runs} runs agree at {agree:.2f} (1 = the same groups)"
            f"{part if voting < runs else ''}."
        )
    if e.gained or e.lost:
        influence = [
            f"{word} {', '.join(f'{name} ({change:+.2f})' for name, change in which)}"
            for word, which in (("gained", e.gained), ("lost", e.lost))
            if which
        ]
        reasons.append(
            f"Influence on the groups (share of the variance between them): {'; '.join(influence)}."
        )
    if e.same_as_regressed is not None and e.same_as_regressed > SAME_GROUPS:
        reasons.append("Regressing the suspects out, then k-means, finds the same groups.")
    if not e.suspects and not e.constant_suspects and e.n_clusters is not None:
        reasons.append(
            "No suspect was named, so every pair of columns was decorrelated. Groups are "
            "correlations too: this can work against them."
        )
    if e.same_as_kmeans is None and e.n_clusters is not None:
        reasons.append(
            "Not compared with k-means, so nothing is said about better or worse groups."
        )
    if not e.converged:
        reasons.append("The fit did not converge: its numbers could still change.")
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
