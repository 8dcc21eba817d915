"""Did it help? The one rule, and the evidence it looks at."""

from __future__ import annotations

from dataclasses import dataclass

# Below this share the weights rest on few rows; so they do below this many rows per cluster.
TINY_EFFECTIVE_SIZE = 0.05
ROWS_PER_CLUSTER = 10
# Two clusterings that agree above this (adjusted Rand index) are the same groups; without suspects
# it takes more of a difference to speak of one.
SAME_GROUPS = 0.95
SAME_BLIND = 0.9
# A typical difference below half of this, or not beyond chance, was no imbalance to begin with.
BALANCED = 0.1
BEYOND_CHANCE = 1.2
# The typical difference fell if at most this share of it is left, with suspects and without.
FELL = 0.8
FELL_BLIND = 0.5
# Share of k-means' explained variance that has to be kept, with suspects and without.
KEPT = 0.75
KEPT_BLIND = 0.9
# A clustering follows a suspect more if the association rose by this, less if it fell by this, and
# hardly at all below this.
ROSE = 0.05
FELL_BY = 0.02
FOLLOWS_LITTLE = 0.1


@dataclass(frozen=True)
class Evidence:
    """All that the verdict knows. None where a number does not exist (no suspects, no clusters, or
    the rivals were not fitted).

    typical_*           mean of the |standardised differences| to be balanced
    by_chance           its expected value for independent columns
    corrected           whether effects of the suspects were taken out of the other columns
    kept_variance       explained variance over that of k-means on the same columns
    same_as_kmeans      agreement with k-means on the same columns
    same_as_dropped     agreement with k-means without the suspects
    same_as_regressed   agreement with k-means after regressing the suspects out
    dropped_as_all      agreement of k-means without the suspects with k-means on all columns
    follows, kmeans_follows, dropped_follows
                        strongest association with a suspect: of the model, of k-means on all
                        columns, of k-means without the suspects
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
    same_as_dropped: float | None = None
    same_as_regressed: float | None = None
    dropped_as_all: float | None = None
    follows: float | None = None
    kmeans_follows: float | None = None
    dropped_follows: float | None = None


@dataclass(frozen=True)
class Verdict:
    """A word, a sentence for people who will not read on, and the reasons."""

    word: str
    sentence: str
    reasons: tuple[str, ...]


def judge(evidence: Evidence) -> Verdict:
    """Helped, no effect or harmed. The first rule that holds decides:

    harmed     the weights rest on few rows (effective size below 0.05, or fewer than 10 rows' worth
               per cluster)
    no effect  there was no imbalance beyond chance to begin with, and the groups are k-means'
    harmed     the imbalance did not fall, and explained variance was lost
    harmed     the groups follow a suspect more than k-means without the suspects does
    harmed     less than 0.75 of k-means' explained variance is left (0.9 without suspects, where
               decorrelation can take the groups themselves apart)
    no effect  the groups are those of k-means; or k-means without the suspects hardly follows them;
               or the imbalance did not fall
    helped     otherwise
    """
    e = evidence
    reasons = _reasons(e)
    what = _names(e.suspects) if e.suspects else "the columns"

    def say(word: str, sentence: str) -> Verdict:
        return Verdict(word, sentence, tuple(reasons))

    few = e.effective_size < TINY_EFFECTIVE_SIZE or (
        e.n_clusters is not None and e.kish_size < ROWS_PER_CLUSTER * e.n_clusters
    )
    nothing = e.typical_before <= max(BALANCED / 2, BEYOND_CHANCE * e.by_chance)
    fell = e.typical_after <= (FELL if e.suspects else FELL_BLIND) * e.typical_before
    alike = SAME_GROUPS if e.suspects else SAME_BLIND
    same = e.same_as_kmeans is not None and e.same_as_kmeans > alike
    limit = KEPT if e.suspects else KEPT_BLIND
    lost = e.kept_variance is not None and e.kept_variance < limit
    more = (
        e.follows is not None
        and e.dropped_follows is not None
        and e.follows > e.dropped_follows + ROSE
    )

    less = (
        e.follows is not None
        and e.dropped_follows is not None
        and e.follows < e.dropped_follows - FELL_BY
    )

    if few:
        return say(
            "harmed",
            f"The result rests on too few rows: after weighting, {e.n_rows:,} rows are worth only "
            f"{e.kish_size:,.0f}. Do not rely on it.",
        )
    if nothing and (same or e.same_as_kmeans is None):
        return say(
            "no effect",
            f"There was nothing to correct: {_tie(e)} no more than chance would explain"
            + (", and the groups are those of ordinary k-means." if same else "."),
        )
    if not fell and lost:
        return say(
            "harmed",
            "The groups became worse and the bias stayed: use ordinary k-means here.",
        )
    if more:
        return say(
            "harmed",
            f"The groups follow {what} more closely than they would if {_it(e)} were simply "
            "left out: leave " + ("it" if len(e.suspects) == 1 else "them") + " out instead.",
        )
    if lost:
        why = (
            "" if e.suspects else "; without a named suspect, real groups count as correlation too"
        )
        return say(
            "harmed",
            f"The correction took the groups apart: they explain {e.kept_variance:.0%} of what "
            f"ordinary k-means explains{why}.",
        )
    if same:
        return say("no effect", _same_groups(e, what))
    if e.dropped_follows is not None and e.dropped_follows < FOLLOWS_LITTLE:
        return say(
            "no effect",
            f"There was little to gain: ordinary k-means without {_it(e)} hardly follows {what} "
            f"({e.dropped_follows:.2f} of 1).",
        )
    fall = f"{1 - e.typical_after / e.typical_before:.0%}" if e.typical_before > 0 else "0%"
    if not fell:
        if e.suspects:
            sentence = (
                f"The correction did not take hold: {_tie(e)} almost as much as before "
                f"({fall} less)."
            )
        else:
            sentence = (
                f"The columns predict each other {fall} less than before, too little to say that "
                "it made the groups better; name the columns that you suspect."
            )
        return say("no effect", sentence)
    if e.n_clusters is None:
        return say(
            "helped",
            f"Under the weights {_tie(e)} {fall} less than before, at the price that "
            f"{e.n_rows:,} rows count as {e.kish_size:,.0f}.",
        )
    if not e.suspects:
        return say(
            "helped",
            f"Under the weights the columns predict each other {fall} less and the groups hold "
            "together; whether bias or structure was removed only you can tell, because no "
            "suspect was named.",
        )
    under = "After the correction" if e.corrected else "Under the weights"
    explain = ""
    if e.kept_variance is not None:
        explain = f", and still explain {min(e.kept_variance, 1.0):.0%} as much of the data"
    if less:
        return say(
            "helped",
            f"The groups follow {what} less than those of ordinary k-means{explain}.",
        )
    return say(
        "helped",
        f"{under} {_tie(e)} {fall} less; the groups changed with it{explain}.",
    )


def _same_groups(e: Evidence, what: str) -> str:
    dropped = e.suspects and e.same_as_dropped is not None and e.same_as_dropped > SAME_GROUPS
    if not dropped:
        return "The weights changed nothing that matters: the groups are those of ordinary k-means."
    them = "that column" if len(e.suspects) == 1 else "those columns"
    if e.dropped_as_all is not None and e.dropped_as_all <= SAME_GROUPS:
        return (
            f"Leaving {what} out of the clustering is enough: ordinary k-means without {them} "
            "finds the same groups, the weights add nothing."
        )
    return (
        "The weights changed nothing that matters: ordinary k-means finds the same groups, with "
        f"or without {what}."
    )


def _reasons(e: Evidence) -> list[str]:
    reasons = [
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
    if e.same_as_regressed is not None and e.same_as_regressed > SAME_GROUPS:
        reasons.append("Regressing the suspects out, then k-means, finds the same groups.")
    if not e.suspects and e.n_clusters is not None:
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


def _tie(e: Evidence) -> str:
    if not e.suspects:
        return "the columns predict each other"
    verb = "predicts" if len(e.suspects) == 1 else "predict"
    return f"{_names(e.suspects)} {verb} the other columns"


def _it(e: Evidence) -> str:
    return "that column" if len(e.suspects) == 1 else "those columns"


def _names(suspects: tuple[str, ...]) -> str:
    if len(suspects) == 1:
        return f"“{suspects[0]}”"
    if len(suspects) <= 3:
        quoted = [f"“{name}”" for name in suspects]
        return ", ".join(quoted[:-1]) + " and " + quoted[-1]
    return f"the {len(suspects)} suspect columns"
