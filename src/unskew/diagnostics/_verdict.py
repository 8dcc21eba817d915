"""The verdict (helped, no effect, harmed, cannot be told): its rules and the evidence they use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._validation import abbreviate

# The effective sample size is too small below this share, or below this many rows per cluster.
TINY_EFFECTIVE_SIZE = 0.02
ROWS_PER_CLUSTER = 3
# Clusters whose agreement with those of k-means without the suspects is at least this, or at least
# that of two runs of k-means, are the same.
SAME_GROUPS = 0.95
# The limit is lower without suspects, where the difference itself is the only evidence.
SAME_WITHOUT_SUSPECTS = 0.88
# Difference of BIC that decides between two clusterings. 10 is "very strong evidence" for one of
# two models that hold; no model holds exactly, and 100 is where real data have few exceptions.
DECISIVE = 100.0
# Difference of the agreement with the groups of a mixture that decides by itself.
CLOSER = 0.1
# Clusters whose agreement with the groups of a mixture is below this are other groups.
OTHER_GROUPS = 0.9
# Jaccard similarity of every group of a mixture with a group of each of two mixtures of random
# halves of the rows, from which the groups are reproducible ("highly stable", Hennig 2007); where
# only small effects are identified, the groups have less support, and more is asked.
REPRODUCIBLE = {"yes": 0.85, "under small effects": 0.9, "no": 0.9}
# Similarity from which the groups of a mixture decide although those of the model are others.
CERTAIN = 0.95
# Difference of BIC that decides between a mixture and k-means, if its groups are reproducible, and
# between two matchings of its groups.
CLEAR = 10.0
# Share of columns with heavy tails above which likelihoods are not compared.
HEAVY_SHARE = 0.1
# A mean difference below half of BALANCED, or below BEYOND_CHANCE times its expected value under
# independence, is no imbalance.
BALANCED = 0.1
BEYOND_CHANCE = 1.2
# Columns that a sentence names.
MOST_NAMED = 3
# Weights without clusters: the mean difference decreased if at most this share of it remains.
FELL = 0.8


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
    weighted_same       agreement with k-means on all columns under the learned weights
    stability, kmeans_stability
                        agreement of clusterings of random halves of the rows: with the model's
                        distance and weights, and with plain k-means
    bic, kmeans_bic, mixture_bic, same_as_dropped, kmeans_repeated, mixture_same,
    mixture_same_as_dropped, mixture_halves, halves, stabilities, same_in_sample,
    same_in_population, n_compared, suspects_matter, identified, not_identified, of_mixture,
    group_gain, heavy_share, heavy_columns, matching_gap
                        comparison with k-means without the suspects and with a mixture: see
                        ``LikelihoodCheck``
    naming_gain         of a SelectionMixture: lowest BIC of the forms without suspects (no effects,
                        common shares) minus that of the forms with them; None if either is missing
    gained, lost        columns whose between-cluster share of the variance increased and decreased
                        most compared with k-means
    constant_suspects   suspects were named, but all of them are constant
    votes               of a consensus: number of runs, number that vote, agreement of two runs
    kish_size, design_size
                        effective sample size (Kish), in rows, under design weights times learned
                        weights, and under the design weights alone
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
    stability: float | None = None
    kmeans_stability: float | None = None
    bic: float | None = None
    kmeans_bic: float | None = None
    mixture_bic: float | None = None
    same_as_dropped: float | None = None
    kmeans_repeated: float | None = None
    mixture_same: float | None = None
    mixture_same_as_dropped: float | None = None
    mixture_halves: float | None = None
    halves: float | None = None
    stabilities: tuple[tuple[int, float], ...] = ()
    same_in_sample: float | None = None
    same_in_population: float | None = None
    n_compared: int | None = None
    suspects_matter: bool = True
    identified: str | None = None
    not_identified: str = ""
    of_mixture: bool = False
    group_gain: float | None = None
    heavy_share: float = 0.0
    heavy_columns: tuple[str, ...] = ()
    matching_gap: float | None = None
    naming_gain: float | None = None
    gained: tuple[tuple[str, float], ...] = ()
    lost: tuple[tuple[str, float], ...] = ()
    constant_suspects: bool = False
    votes: tuple[int, int, float] | None = None
    design_size: float | None = None


@dataclass(frozen=True)
class Verdict:
    """A word ("helped", "no effect", "harmed", "cannot be told"), a one-sentence summary, the
    reasons, and whether k-means without the suspects finds the same clusters."""

    word: str
    sentence: str
    reasons: tuple[str, ...]
    dropping_would_do: bool = False

    @property
    def title(self) -> str:
        """The word, as the beginning of a sentence."""
        told = "Whether it helped cannot be told"
        return told if self.word == "cannot be told" else self.word.capitalize()


def decide(evidence: Evidence) -> Verdict:
    """The verdict; the first rule that holds decides.

    harmed     the effective sample size is too small (below 0.02, or fewer than 3 effective rows
               per cluster)
    with suspects, compared with k-means without them (``_likelihood``)
    no effect  the selected SelectionMixture has no effects of the suspects and common shares, or,
               of DCKM, the suspects are not associated with the other columns beyond chance
    no effect  the clusters are the same: the agreement is at least 0.95, or, of DCKM, as high as
               that of two runs of k-means
    cannot be told
               more than a tenth of the columns have heavy tails within the clusters (kurtosis
               above 50), which decide likelihoods of normal distributions
    cannot be told
               the data hardly show groups: the BIC of the mixture is not lower by more than 100
               than that of a mixture with one group
    cannot be told
               the effects are identified under small effects only, and the groups of the mixture
               can be matched otherwise: BIC is not higher by more than 10 if two of them are
               exchanged at one value of a suspect
    of SelectionMixture:
    cannot be told
               the effects are not identifiable, or mixtures of random halves of the rows do not
               find every group again (Jaccard similarity below 0.85, or 0.9 where the effects are
               identified under small effects only)
    helped     the BIC of the groups is lower than that of the clusters of k-means by more than 10
    harmed     it is higher by more than 10
    of DCKM and ConsensusDCKM:
    cannot be told
               the groups of a mixture, with which both could be compared, are not found again in
               random halves of the rows (in the same sense)
    helped     in the population that the mixture estimates, the clusters agree with its groups
               better than those of k-means: by 0.1, or they agree by 0.9 and their BIC is lower
               by more than 100
    harmed     the same with "worse" and "higher"
    cannot be told
               otherwise; also where agreement and BIC contradict each other, and for data with too
               many columns for the comparison; instead of "helped" where the effects are not
               identifiable, or the groups of the mixture are others (agreement below 0.9) with a
               BIC that is lower than both by more than 100, unless agreement and BIC both favour
               the clusters and every group of the mixture is found again (similarity 0.95)
    without suspects, compared with k-means on all columns
    no effect  the clusters are the same (agreement above 0.88)
    harmed     otherwise: strong decorrelation splits clusters, and the data cannot show whether
               it removed bias instead

    Accuracy of the verdict: docs/results/verdict.md.

    Examples
    --------
    >>> from unskew.diagnostics import Evidence, decide
    >>> decide(Evidence(
    ...     suspects=("site",), n_clusters=3, n_rows=200, converged=True, effective_size=0.01,
    ...     kish_size=2.0, typical_before=0.6, typical_after=0.1, by_chance=0.1,
    ... )).word
    'harmed'
    """
    e = evidence
    reasons = _reasons(e)
    same_dropped = is_same(e)

    def conclude(word: str, sentence: str) -> Verdict:
        return Verdict(word, sentence, tuple(reasons), same_dropped)

    few = e.effective_size < TINY_EFFECTIVE_SIZE or (
        e.n_clusters is not None and e.kish_size < ROWS_PER_CLUSTER * e.n_clusters
    )
    if few and not e.of_mixture:  # the groups of a mixture do not depend on the weights
        return conclude(
            "harmed",
            f"The effective sample size is too small: under the learned weights, {e.n_rows:,} rows "
            f"are equivalent to {e.kish_size:,.0f}. Do not use this result.",
        )
    if e.constant_suspects:
        return conclude(
            "no effect", "There was nothing to correct: the suspects are constant in these data."
        )
    if e.weighted_same is None:
        return _decide_by_weights(e, conclude)
    if e.suspects:
        return _decide_by_likelihood(e, conclude)
    if e.weighted_same > SAME_WITHOUT_SUSPECTS:
        return conclude(
            "no effect",
            "The clusters are nearly or exactly those of k-means. Name suspects: decorrelating all "
            "pairs cannot distinguish bias from clusters.",
        )
    return conclude(
        "harmed",
        "Decorrelating all pairs changed the clusters considerably "
        f"(agreement with k-means {e.weighted_same:.2f}). Clusters also make columns correlated, "
        "so this may have removed them: do not use this result without a reason. Name suspects or "
        "lower balance_strength.",
    )


def _decide_by_likelihood(e: Evidence, conclude: Callable[[str, str], Verdict]) -> Verdict:
    """Verdict on clusters, compared with those of k-means without the suspects."""
    what = describe_names(e.suspects)
    plain = "k-means without the suspects"
    if e.bic is None or e.kmeans_bic is None or e.same_as_dropped is None:
        return conclude(
            "cannot be told",
            f"The data have too many columns to compare the clusters with those of {plain}.",
        )
    if not e.suspects_matter:
        return conclude(
            "no effect",
            f"Naming {what} changed nothing: BIC selected a model without effects on the columns "
            "and with the same shares of the clusters for all values. A difference from k-means is "
            f"due to the mixture, not to {what}."
            if e.of_mixture
            else f"Naming {what} changed nothing: there is no association with the other columns "
            "beyond chance.",
        )
    if is_same(e):
        limit = (
            ""
            if e.same_as_dropped >= SAME_GROUPS
            else (f", two runs of k-means agree by {e.kmeans_repeated:.2f}")
        )
        return conclude(
            "no effect",
            f"{plain[0].upper()}{plain[1:]} finds the same clusters (agreement "
            f"{e.same_as_dropped:.2f}{limit}).",
        )
    if is_heavy_tailed(e):
        quoted = [f"“{name}”" for name in e.heavy_columns]
        named = abbreviate(quoted, MOST_NAMED, quoted=False)
        return conclude(
            "cannot be told",
            f"{e.heavy_share:.0%} of the columns have heavy tails within the clusters ({named}), "
            "so that a few rows decide which clusters explain them better. Take logarithms or "
            "ranks of these columns, or leave them out.",
        )
    if shows_no_groups(e):
        assert e.group_gain is not None
        if e.group_gain < 0:
            found = "The data do not show clusters: one cluster explains them better than"
        else:
            found = "The data hardly show clusters: one cluster explains them nearly as well as"
        return conclude(
            "cannot be told",
            f"{found} a mixture of {e.n_clusters} (BIC is "
            f"{'lower' if e.group_gain < 0 else 'higher'} by {abs(e.group_gain):,.0f}).",
        )
    if has_other_matching(e):
        assert e.matching_gap is not None
        change = f"only {e.matching_gap:.0f} higher" if e.matching_gap >= 0.5 else "not higher"
        parts = "clusters" if e.of_mixture else "groups"
        who = (
            "The data do not decide"
            if e.of_mixture
            else f"The clusters differ from those of {plain} (agreement {e.same_as_dropped:.2f}), "
            "and a mixture model, with which both could be compared, does not decide"
        )
        return conclude(
            "cannot be told",
            f"{who} which {parts} at the different values of {what} belong together: if two "
            f"{parts} are exchanged at one value, BIC is {change}.",
        )
    if e.of_mixture:
        return _decide_mixture(e, plain, conclude)
    assert e.mixture_bic is not None
    assert e.mixture_same is not None
    assert e.mixture_same_as_dropped is not None
    gain, closer = e.kmeans_bic - e.bic, e.mixture_same - e.mixture_same_as_dropped
    if not reproducible(e.mixture_halves, e.identified):
        return conclude(
            "cannot be told",
            f"The clusters differ from those of {plain} (agreement {e.same_as_dropped:.2f}), and "
            + _not_found(
                e, e.mixture_halves, "groups of a mixture model, with which both could be compared,"
            ),
        )
    assert e.mixture_halves is not None
    numbers = (
        "A mixture model estimates the groups of the population: the clusters agree with them by "
        f"{e.mixture_same:.2f}, those of {plain} by {e.mixture_same_as_dropped:.2f}. BIC of the "
        f"clusters is {'lower' if gain > 0 else 'higher'} by {abs(gain):,.0f}."
    )
    near = e.mixture_same >= OTHER_GROUPS
    if (closer > CLOSER and gain > -DECISIVE) or (near and closer > 0 and gain > DECISIVE):
        lower = min(e.bic, e.kmeans_bic) - e.mixture_bic
        clear = closer > CLOSER and gain > DECISIVE and e.mixture_halves >= CERTAIN
        if lower > DECISIVE and not near:
            further = (
                f"That of the groups of the mixture is lower than both, by {lower:,.0f}. Try "
                "SelectionMixture."
            )
            if not clear:
                return conclude(
                    "cannot be told", f"{numbers} But {further[0].lower()}{further[1:]}"
                )
            numbers += f" {further}"
        return _unless_unidentified(e, numbers, conclude)
    if (closer < -CLOSER and gain < DECISIVE) or (closer < 0 and gain < -DECISIVE):
        return conclude("harmed", f"{numbers} Do not use this result.")
    return conclude(
        "cannot be told",
        f"The clusters differ from those of {plain} (agreement {e.same_as_dropped:.2f}), without "
        f"clear evidence for either. {numbers}",
    )


def _decide_mixture(e: Evidence, plain: str, conclude: Callable[[str, str], Verdict]) -> Verdict:
    """Verdict on the groups of a SelectionMixture that differ from the clusters of k-means."""
    assert e.bic is not None
    assert e.kmeans_bic is not None
    what = describe_names(e.suspects)
    if e.identified == "no":
        return conclude(
            "cannot be told",
            f"The values of {what} share too few clusters to tell effects of {what} from "
            "differences of the clusters.",
        )
    if not reproducible(e.halves, e.identified):
        found = _not_found(e, e.halves, "clusters")
        return conclude("cannot be told", found[0].upper() + found[1:])
    gain = e.kmeans_bic - e.bic
    if abs(gain) <= CLEAR:
        return conclude(
            "cannot be told",
            f"The clusters differ from those of {plain} (agreement {e.same_as_dropped:.2f}) and "
            f"have nearly the same BIC (it differs by {abs(gain):.0f}).",
        )
    if gain < 0:
        return conclude(
            "harmed",
            f"The clusters have a higher BIC than those of {plain}, by {-gain:,.0f}. Do not use "
            "this result.",
        )
    return _unless_unidentified(
        e,
        f"The clusters have a lower BIC than those of {plain}, by {gain:,.0f}, and each of them is "
        f"found again in random halves of the rows (Jaccard similarity at least {e.halves:.2f}).",
        conclude,
    )


def _unless_unidentified(
    e: Evidence, sentence: str, conclude: Callable[[str, str], Verdict]
) -> Verdict:
    if e.identified == "no":
        return conclude("cannot be told", e.not_identified)
    if e.identified == "under small effects":
        has = "has" if len(e.suspects) == 1 else "have"
        sentence += f" This holds if {describe_names(e.suspects)} {has} no large effects."
    return conclude("helped", sentence)


def is_same(e: Any) -> bool:
    """Whether the clusters are those of k-means without the suspects. Of ``Evidence`` or a
    LikelihoodCheck."""
    if e.same_as_dropped is None or e.kmeans_repeated is None:
        return False
    if e.of_mixture:  # its reproducibility is judged by itself
        return e.same_as_dropped >= SAME_GROUPS
    return e.same_as_dropped >= min(SAME_GROUPS, e.kmeans_repeated)


def shows_no_groups(e: Any) -> bool:
    """Whether a mixture with one group is not clearly worse."""
    return e.group_gain is not None and e.group_gain <= DECISIVE


def is_heavy_tailed(e: Any) -> bool:
    """Whether too many columns have heavy tails for a comparison of likelihoods."""
    return e.heavy_share > HEAVY_SHARE


def has_other_matching(e: Any) -> bool:
    """Whether the groups of a mixture can be matched otherwise, with nearly the same BIC."""
    return e.matching_gap is not None and e.matching_gap <= CLEAR


def reproducible(halves: float | None, identified: str | None) -> bool:
    """Whether mixtures of halves of the rows have every group of all rows."""
    return halves is not None and halves >= REPRODUCIBLE[identified or "no"]


def _not_found(e: Evidence, halves: float | None, what: str) -> str:
    """How many groups of a mixture are found again, and the worst."""
    asked = REPRODUCIBLE[e.identified or "no"]
    again = sum(value >= asked for _, value in e.stabilities)
    worst = min(e.stabilities, key=lambda one: one[1], default=(0, halves or 0.0))
    named = f" (cluster {worst[0]})" if e.of_mixture else ""
    return (
        f"{f'only {again}' if again else 'none'} of the {len(e.stabilities)} {what} "
        f"{'are' if again > 1 else 'is'} found again in random halves of the rows; the lowest "
        f"Jaccard similarity is {worst[1]:.2f}{named}, where at least {asked:g} is asked."
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
    return conclude(
        "helped",
        f"After the correction {_association_phrase(e)} {fall} less than before; {e.n_rows:,} rows "
        f"have an effective sample size of {e.kish_size:,.0f}.",
    )


def _reasons(e: Evidence) -> list[str]:
    reasons = reasons_of_likelihood(e)
    before, after = f"{e.typical_before:.2f}", f"{e.typical_after:.2f}"
    both = f"{before} standard deviations before the correction and {after} after"
    if before == after:
        both = f"{before} standard deviations before and after the correction"
    reasons.append(
        f"The mean difference {_between(e)} is {both}; {e.by_chance:.2f} is expected if "
        f"{_nothing_to_do(e)}."
    )
    if e.kish_size > e.n_rows * (1 - 1e-9):
        reasons.append("All rows have the same weight.")
    else:
        reasons.append(
            f"The effective sample size (Kish) is {describe_size(e)}. It is the number of rows of "
            "equal weight whose means would be as precise."
        )
    if e.naming_gain is not None:
        what = describe_names(e.suspects)
        change = "lowers" if e.naming_gain > 0 else "raises"
        reasons.append(
            f"Naming {what} as a suspect {change} BIC by {abs(e.naming_gain):,.0f}, compared with "
            "the best model that ignores it (no effects, the same cluster shares everywhere)."
        )
    if e.same_as_kmeans is not None and not e.suspects:
        reasons.append(
            f"Agreement with k-means, in the sample: {e.same_as_kmeans:.2f} (1 = the same "
            "clusters)."
        )
    if e.kept_variance is not None:
        reasons.append(
            f"Explained variance is {e.kept_variance:.0%} of that of k-means on the same columns."
        )
    if e.follows is not None and e.kmeans_follows is not None and e.dropped_follows is not None:
        reasons.append(
            "Strongest association of the clusters with a suspect (Cramér's V, or eta of a number; "
            f"0 = none, 1 = complete): {e.follows:.2f}; of k-means on all columns "
            f"{e.kmeans_follows:.2f}, of k-means without the suspects {e.dropped_follows:.2f}. A "
            "higher association is not worse by itself: the shares of the clusters may differ "
            "between the values."
        )
    if e.weighted_same is not None and not e.suspects:
        reasons.append(f"Agreement with k-means, under the learned weights: {e.weighted_same:.2f}.")
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
            f"{word} of the variance of "
            + ", ".join(f"{name} ({change:+.2f})" for name, change in which)
            for word, which in (("more", e.gained), ("less", e.lost))
            if which
        ]
        reasons.append(
            f"Compared with k-means on all columns, the clusters explain {' and '.join(influence)}."
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


def reasons_of_likelihood(e: Evidence) -> list[str]:
    """The comparison with k-means without the suspects, and with other forms of a mixture."""
    if e.bic is None or e.kmeans_bic is None or e.same_as_dropped is None:
        return []
    plain, reasons = "k-means without the suspects", []
    same = f"{round(e.same_as_dropped, 2) + 0.0:.2f} in the sample"
    if e.same_in_sample is not None and e.same_in_population is not None:
        same = (
            f"{round(e.same_in_sample, 2) + 0.0:.2f} in the sample, "
            f"{round(e.same_in_population, 2) + 0.0:.2f} in the population that the mixture "
            "estimates"
        )
    drawn = f" Of {e.n_compared:,} rows, drawn at random." if few_compared(e) else ""
    reasons.append(
        f"Agreement with {plain} (adjusted Rand index, 1 = the same clusters): {same}. Two runs of "
        "k-means, which differ by their initialization only, agree by "
        f"{e.kmeans_repeated:.2f}{_repeated_in_words(e)}.{drawn}"
    )
    if e.halves is not None:
        reasons.append(
            "Each cluster is compared with the most similar one of a fit to each of two random "
            f"halves of the rows. The lowest Jaccard similarity (1 = the same rows) is "
            f"{e.halves:.2f}; from 0.85 a cluster is called highly stable (Hennig 2007)."
        )
    bics = f"unskew {e.bic:,.0f}, {plain} {e.kmeans_bic:,.0f}"
    if e.mixture_bic is not None:
        assert e.mixture_same is not None
        bics += (
            f", groups of a mixture model {e.mixture_bic:,.0f} (in the population that it "
            f"estimates, they agree by {e.mixture_same:.2f} with unskew and by "
            f"{e.mixture_same_as_dropped:.2f} with k-means)"
        )
    reasons.append(
        "For the BIC of the verdict, each clustering is scored by the same model, in which the "
        "clusters are fixed and the suspects can shift columns and change cluster shares (lower is "
        f"better; not comparable with that of the fit): {bics}.{drawn}"
    )
    if e.of_mixture and e.halves is None:
        reasons.append(
            "Whether the clusters are found again in halves of the rows was not checked: it could "
            "not change this verdict."
        )
    if e.not_identified:
        reasons.append(e.not_identified)
    return reasons


def few_compared(e: Evidence) -> bool:
    """Whether only some rows were compared."""
    return e.n_compared is not None and e.n_compared < e.n_rows


def _between(e: Evidence) -> str:
    if not e.suspects:
        return "between columns"
    return f"of the other columns between the values of {describe_names(e.suspects)}"


def _nothing_to_do(e: Evidence) -> str:
    if not e.suspects:
        return "the columns are independent"
    verb = "has" if len(e.suspects) == 1 else "have"
    return f"{describe_names(e.suspects)} {verb} nothing to do with the other columns"


def _repeated_in_words(e: Evidence) -> str:
    """What follows from the agreement of two runs of k-means."""
    assert e.same_as_dropped is not None
    assert e.kmeans_repeated is not None
    if e.kmeans_repeated < OTHER_GROUPS:
        return ": k-means itself is unstable on these data"
    if e.same_as_dropped < e.kmeans_repeated - CLOSER:
        return ", so the initialization does not explain the difference"
    return ""


def _association_phrase(e: Evidence) -> str:
    if not e.suspects:
        return "the columns predict each other"
    verb = "predicts" if len(e.suspects) == 1 else "predict"
    return f"{describe_names(e.suspects)} {verb} the other columns"


def describe_size(e: Evidence) -> str:
    """The effective sample size in rows, and that of the design weights if they differ."""
    size = f"{e.kish_size:,.0f} of {e.n_rows:,} rows ({e.kish_size / max(e.n_rows, 1):.0%})"
    if e.design_size is None or round(e.design_size) in (e.n_rows, round(e.kish_size)):
        return size
    return f"{size}; {e.design_size:,.0f} under the design weights alone"


def describe_names(suspects: tuple[str, ...]) -> str:
    """Names of the suspects in a sentence."""
    if len(suspects) == 1:
        return f"“{suspects[0]}”"
    if len(suspects) <= 3:
        quoted = [f"“{name}”" for name in suspects]
        return ", ".join(quoted[:-1]) + " and " + quoted[-1]
    return f"the {len(suspects)} suspect columns"
