"""Content of the report on a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._mixture.em import EFFECTS
from ..diagnostics import Diagnostics, FeatureBalance, FeatureProfile
from ..diagnostics._diagnose import DROPPED
from ..diagnostics._verdict import (
    BALANCED,
    DECISIVE,
    describe_names,
    describe_size,
    reasons_of_likelihood,
)
from ._page import (
    Column,
    Day,
    Page,
    Picture,
    ReportTable,
    Section,
    Tile,
    drawn,
    form,
    number,
    numbers,
    overlap_picture,
    plural,
    suspects_in_words,
    texts,
)

MAX_CARDS = 12
# Rows in each panel of the picture at the front.
MAX_DRAWN = 300
# Suspects whose overlap with the clusters is shown.
MAX_OVERLAPS = 3
# A love plot with more features than this spans two rows of the grid.
TALL = 12
# Points of a line that is drawn.
FEWEST_POINTS = 3
WHEN = ("before", "after")
UNWEIGHTED = ("Unweighted difference", "Unweighted inside", "Unweighted outside")
TONES = {"helped": "good", "no effect": "neutral", "harmed": "bad", "cannot be told": "neutral"}


def page_of_fit(d: Diagnostics) -> Page:
    rows = plural(d.evidence.n_rows, "row")
    return Page(
        kind="Clustering report" if d.clusters else "Weighting report",
        subject=f"{rows}, {plural(d.settings.n_columns, 'column')}"
        + (f", {plural(len(d.clusters), 'cluster')}" if d.clusters else ""),
        word=d.verdict.title,
        tone=TONES[d.verdict.word],
        sentence=d.verdict.sentence,
        reasons=d.verdict.reasons,
        tiles=_fit_tiles(d),
        front=_front(d),
        sections=tuple(
            s
            for s in (
                _clusters_section(d),
                _correction_section(d),
                _baselines_section(d),
                _numbers_section(d),
            )
            if s is not None
        ),
        settings=d.settings,
        notes=d.notes,
        done=_done(d),
        n_first=len(reasons_of_likelihood(d.evidence)) or Page.n_first,
        limits=(*(each.sentence for each in d.overlap if each.sentence), *d.separating),
    )


def _done(d: Diagnostics) -> str:
    """What the model did, its form and the suspects."""
    form = f"The model: {d.form}." if d.form else ""
    suspects = f"Suspects: {suspects_in_words(d.evidence.suspects)}."
    return " ".join(part for part in (_what_was_fitted(d), form, suspects) if part)


def is_uniform(d: Diagnostics) -> bool:
    """Whether all learned weights are 1."""
    return d.weights.maximum - d.weights.minimum < 1e-9


def _is_unchanged(d: Diagnostics) -> bool:
    """Whether nothing is corrected: neither weights nor columns."""
    return is_uniform(d) and not d.evidence.corrected


def _what_was_fitted(d: Diagnostics) -> str:
    suspects, model, K = d.evidence.suspects, d.settings.model, len(d.clusters)
    what = describe_names(suspects) if suspects else ""
    if model == "SelectionMixture" and suspects:
        fitted = f"{method_in_words(model, suspects)} fitted {plural(K, 'cluster')}"
        if is_uniform(d):
            strongest = max((one.value for one in d.associations), default=0.0)
            shares = (
                f"Their shares in the model are equal for all values of {what}. The association of "
                f"cluster and suspect among the rows is {strongest:.2f} (0 = equal shares, 1 = "
                "each value in clusters of its own): the nearer to 0, the better the model holds."
            )
        else:
            none = _none_to_weight_up(d)
            shares = (
                f"The cluster shares differ between the values of {what}; weights on the rows make "
                f"these shares as equal as possible{f' ({none})' if none else ''}."
            )
        return f"{fitted}. {shares} {_what_was_removed(d, what)}"
    if model == "SelectionMixture":
        return f"SelectionMixture fitted {plural(K, 'cluster')} without suspects."
    found = f", together with {plural(K, 'cluster')}" if K else ""
    predict = f"{what} and the other columns" if suspects else "the columns"
    shifts = f"; the shifts of the other columns by {what} were removed" if d.effects else ""
    return (
        f"{model} learned a weight for each row, under which {predict} predict each other "
        f"less{found}{shifts}."
    )


def method_in_words(model: str, suspects: Sequence[str]) -> str:
    """The name of the class, and what a SelectionMixture is."""
    if model != "SelectionMixture" or not suspects:
        return model
    return f"{model} (a mixture model; suspects can shift columns and change cluster shares)"


def _what_was_removed(d: Diagnostics, what: str) -> str:
    """What a mixture removed from which columns, and the difference that remains."""
    units = {one.unit for one in d.effects}
    shifts = "shifts and changes of scale" if EFFECTS["shift-scale"] in d.form else "shifts"
    if not units:
        return "No column was changed."
    if "sd" not in units:
        return (
            f"The model has effects of {what} on the probabilities of categories; the columns "
            "themselves are unchanged."
        )
    where = ", which are estimated in each cluster," if EFFECTS["per-group"] in d.form else ""
    removed = f"The {shifts} of the numeric columns by {what}{where} were removed"
    if "log-odds" not in units:
        return f"{removed}."
    removed += (
        "; effects on the probabilities of categories are in the model, but these columns are "
        "unchanged."
    )
    numeric = {name for name, kind in d.settings.kinds if kind == "number"}
    numbers = _mean_difference([f for f in d.features if f.feature in numeric])
    others = _mean_difference([f for f in d.features if f.feature not in numeric])
    if numbers is None or others is None:
        return removed
    return (
        f"{removed} The mean difference that remains is {numbers:.2f} standard deviations in the "
        f"numeric columns and {others:.2f} in the two-valued and categorical ones."
    )


def _mean_difference(features: Sequence[FeatureBalance]) -> float | None:
    pairs = sum(f.n_pairs for f in features)
    return sum(f.n_pairs * f.typical_after for f in features) / pairs if pairs else None


def _baseline_of_flow(d: Diagnostics) -> str:
    """The k-means with which the clusters are compared in pictures."""
    if d.flow is None or not d.evidence.suspects:
        return "k-means"
    return f"k-means {'without' if d.flow.baseline == DROPPED else 'with'} the suspects"


def difference_in_words(d: Diagnostics) -> str:
    """Of what the mean difference is."""
    suspects = d.evidence.suspects
    if not suspects:
        return "between columns"
    return f"between the values of {describe_names(suspects)}, mean over the other columns"


def _fit_tiles(d: Diagnostics) -> tuple[Tile, ...]:
    e = d.evidence
    value = f"{e.typical_before:.2f} → {e.typical_after:.2f}"
    done = "before → after the correction"
    if _is_unchanged(d):
        value, done = f"{e.typical_before:.2f}", "nothing was corrected"
    size = describe_size(e).split(" ", 1)
    if is_uniform(d):
        size[1] += "; all learned weights are 1"
    tiles = [
        Tile(
            "Mean difference",
            value,
            f"standard deviations {difference_in_words(d)}; {done}; {e.by_chance:.2f} by chance "
            "alone",
        ),
        Tile("Effective sample size", *size),
    ]
    if d.flow is not None:
        moved = form(d.flow.moved, "percent")
        tiles.append(Tile("Rows in another cluster", moved, f"than with {_baseline_of_flow(d)}"))
    if not d.clusters:
        tiles.append(Tile("Largest weight", f"{d.weights.maximum:.1f}", "the mean is 1"))
    return tuple(tiles)


def _correction_section(d: Diagnostics) -> Section:
    rows, c, w = d.features, d.convergence, d.weights
    unchanged = _is_unchanged(d)
    before, after = (sum(getattr(f, when) > BALANCED for f in rows) for when in WHEN)
    of = f"of {plural(len(rows), 'column')} above {BALANCED:g}"
    love = f"The largest difference of each column; {before} {of} before, {after} after."
    if unchanged:
        love = f"The largest difference of each column; {before} {of}."
    maps = [_map(d, which) for which in WHEN[: 1 if unchanged else 2]]
    fit: tuple[Picture, ...] = ()
    if max((len(values) for _, values in c.history), default=0) >= FEWEST_POINTS:
        done = iterations_in_words(c.iterations, d.settings.model)
        convergence = Picture(
            "terms",
            "Convergence",
            f"{_objective_in_words(d)} Status: {c.status} after {done}.",
            f"Line plot over {done}.",
            drawn("objective_terms", d),
        )
        fit = (convergence,)
    tall = len(rows) > TALL and bool(fit)  # beside two smaller pictures
    weights = Picture(
        "distribution",
        "The learned weights",
        _weights_in_words(d),
        f"Histogram of the weights, from {w.minimum:.3g} to {w.maximum:.3g}, mean 1.",
        drawn("weight_distribution", d),
    )
    largest = f" Largest: {rows[0].feature}, {rows[0].before:.2f} before." if rows else ""
    return Section(
        "weights",
        "Differences of the columns" if unchanged else "Effect of the correction",
        _correction_in_words(d),
        (
            Picture(
                "love",
                "Differences by column",
                love,
                f"Dot plot. {love}{largest}",
                drawn("love_plot", d),
                tall=tall,
            ),
            *(() if is_uniform(d) else (weights,)),
            *((*fit, *maps) if tall or is_uniform(d) else (*maps, *fit)),
            *((_effects_picture(d),) if d.effects else ()),
        ),
    )


def _correction_in_words(d: Diagnostics) -> str:
    """What a difference is, what was corrected, and what a correction cannot do."""
    between = "between the values of the suspects"
    if not d.evidence.suspects:
        between = "between the values or ranges of the other columns"
    lead = f"Standardised mean differences of each column {between} (below 0.1: balanced)."
    if _is_unchanged(d):
        return f"{lead} All learned weights are 1 and no column was changed: nothing was corrected."
    if is_uniform(d):
        lead += " All learned weights are 1: the correction changed columns only."
    elif _none_to_weight_up(d):
        lead += f" Differences can remain: {_none_to_weight_up(d)}."
    return lead


def _none_to_weight_up(d: Diagnostics) -> str:
    """Why the weights cannot make all shares equal."""
    if not any(0 in row for each in d.overlap for row in each.rows):
        return ""
    return "a cluster without rows at a value stays absent there"


def iterations_in_words(n: int, model: str) -> str:
    """The number of iterations; a mixture starts its last run from the solutions of a search."""
    last = " of the last run of EM" if model == "SelectionMixture" else ""
    return f"{plural(n, 'iteration')}{last}"


def _objective_in_words(d: Diagnostics) -> str:
    names = [name for name, _ in d.convergence.history]
    if names == ["bound"]:
        return (
            "The bound is the log-likelihood plus the prior of the effects; the algorithm "
            "increases it in each iteration."
        )
    return "The objective, which the algorithm decreases, and its terms."


def _weights_in_words(d: Diagnostics) -> str:
    """Numbers of the learned weights, then those of all weights."""
    w = d.weights
    most = dict(w.quantiles)[0.99]
    few = f", {plural(w.unused, 'row')} less than 0.01" if w.unused else ""
    both = "Learned weights times design weights: the" if d.settings.design_weights else "The"
    return (
        f"Learned weights, mean 1: from {number(w.minimum)} to {number(w.maximum)}; 99% of the "
        f"rows have at most {number(most)}{few}. {both} 1% of the rows with the largest have "
        f"{form(w.top_share, 'percent')} of the total. The weights multiply the variance of a "
        f"mean by {w.design_effect:.2f} (design effect)."
    )


def _effects_picture(d: Diagnostics) -> Picture:
    top = d.effects[0]
    words = f"Largest: {top.suspect} on {top.feature}, {top.effect:+.2f}."
    return Picture(
        "effects-picture",
        "Effects of the suspects on the columns",
        f"{words} {_removed(d)}",
        f"Bar chart of the effects of suspects. {words}",
        drawn("suspect_effects", d),
    )


def _removed(d: Diagnostics) -> str:
    """Which effects are removed, and what an effect of each cluster is shown as."""
    removed = "They are removed from the columns."
    if any(one.unit == "log-odds" for one in d.effects):
        removed = "Effects in standard deviations are removed from the columns, log-odds are not."
    if EFFECTS["per-group"] in d.form:
        removed += (
            " Shown is the mean over the clusters; the shift that is removed differs between "
            "clusters."
        )
    return removed


def _map(d: Diagnostics, which: str) -> Picture:
    c = d.correlation
    title = "Correlations" if _is_unchanged(d) else f"Correlations {which} the correction"
    order = (
        " Lines separate the columns by the cluster in which they differ most; the suspects are "
        "last."
        if d.clusters
        else " Columns are ordered by size of difference."
    )
    return Picture(
        f"map-{which}",
        title,
        f"Blue: positive, orange: negative; the diagonal is left blank.{order}",
        f"Heat map of the correlations of {len(c.names)} encoded columns.",
        drawn("correlation_map", d, which=which),
    )


def _front(d: Diagnostics) -> Picture | None:
    """The rows before and after, coloured by suspect and by cluster."""
    p = d.projection
    if p is None:
        return None
    n = len(p.positions) if not p.value else min(len(p.positions), MAX_DRAWN)
    rows = f"{n:,} of {p.n_rows:,} rows, drawn at random" if n < p.n_rows else plural(n, "row")
    matched = ""
    if p.baseline_cluster:
        matched = " The colours of the two clusterings are matched by their rows."
    corrected = "corrected columns, the same in all panels" if p.before_x else "columns"
    axes = f"principal components of the {corrected}, with their shares of the variance"
    w = d.weights
    size = f"the area of a point grows with its learned weight ({w.minimum:.2g} to {w.maximum:.2g})"
    if not p.value:
        return Picture(
            "plane",
            "The clusters",
            f"{rows}; numbers are the clusters{'' if is_uniform(d) else f'; {size}'}. Axes: "
            f"{axes}.",
            f"Scatter plot of {rows}, coloured by cluster.",
            drawn("clusters_2d", d),
            "full",
        )
    parts = [f"by {p.suspect}"]
    if p.baseline_cluster:
        parts.insert(0, f"by cluster of {_baseline_of_flow(d)}")
    parts.append("by cluster of this fit")
    if p.before_x:
        parts.append(f"by {p.suspect} after the correction")
    shown = f"{', '.join(parts[:-1])} and {parts[-1]}"
    last = "after the correction" if p.before_x else "in the last panel"
    sized = "" if is_uniform(d) else f" {last[0].upper()}{last[1:]}, {size}."
    return Picture(
        "before-after",
        "Before and after" if p.before_x else "By suspect and by cluster",
        f"Each panel has the same {rows}. Coloured {shown}.{matched}{sized} Axes: {axes}.",
        f"Scatter plots of {rows}, coloured {shown}.",
        drawn("before_after", d, most=MAX_DRAWN),
        "full",
    )


def _clusters_section(d: Diagnostics) -> Section | None:
    if not d.clusters or d.projection is None:
        return None
    pictures = []
    if d.flow is not None:
        moved = form(d.flow.moved, "percent")
        where = f"{moved} of the rows are in another cluster than with {_baseline_of_flow(d)}"
        pictures.append(
            Picture(
                "flow",
                "From k-means to unskew",
                f"{where}: those of the strong bands. The clusters of both are matched such that "
                "they share as many rows as possible. A band has the colour of the cluster of this "
                "fit; those with less than 1% of the rows are not drawn.",
                f"Flow diagram: {where}.",
                drawn("sample_flow", d),
            )
        )
    pictures += [overlap_picture(d.overlap, at) for at in range(len(d.overlap[:MAX_OVERLAPS]))]
    largest = sorted(d.clusters, key=lambda c: -c.size)[:MAX_CARDS]
    basis = "design weights" if d.settings.design_weights else "sample"
    uniform = is_uniform(d)
    for profile in sorted(largest, key=lambda c: c.cluster):
        top = ", ".join(f"{f.feature} {f.difference:+.2f}" for f in profile.features[:3])
        pictures.append(
            Picture(
                f"cluster-{profile.cluster}",
                f"Cluster {profile.cluster}",
                f"{plural(profile.size, 'row')}, {form(profile.share, 'percent')} of the {basis}"
                + (
                    ""
                    if uniform
                    else f", {form(profile.weighted_share, 'percent')} under the weights"
                )
                + ".",
                f"Bar chart of differences between cluster {profile.cluster} and the other rows: "
                f"{top}.",
                drawn("cluster_profile", d, profile.cluster),
                "card",
            )
        )
    left = len(d.clusters) - len(largest)
    bars = " (bars: with the learned weights, ticks: without)"
    texts = (
        "The columns in which each cluster differs most from the other rows: differences of the "
        f"means, in standard deviations of the column{'' if uniform else bars}.",
        f"The {MAX_CARDS} largest clusters are shown; the table has all." if left else "",
        f"Separation: {separation_in_words(d)}." if d.separation is not None else "",
    )
    return Section(
        "clusters",
        "The clusters",
        " ".join(text for text in texts if text),
        tuple(pictures),
    )


def separation_in_words(d: Diagnostics) -> str:
    """The silhouette, and the BIC of one cluster."""
    one, parts = d.separation, []
    if one is None:
        return ""
    if one.silhouette is not None:
        where = " after the correction" if d.evidence.corrected else ""
        parts.append(f"silhouette{where} {one.silhouette:.2f} (1 = far apart, 0 = overlapping)")
    if one.bic_gain is not None:
        what = "higher" if one.bic_gain >= 0 else "lower"
        size = f"{abs(one.bic_gain):,.0f} {what} than that of {len(d.clusters)}"
        parts.append(f"BIC of one cluster {size} (below {DECISIVE:.0f}: hardly clusters)")
    return "; ".join(parts)


def _baselines_section(d: Diagnostics) -> Section | None:
    if not d.baselines:
        return None
    own = (f"unskew ({d.settings.model})", d.explained_variance, None, d.associations)
    methods = [
        own,
        *((r.name, r.explained_variance, r.agreement, r.associations) for r in d.baselines),
    ]
    tables = [
        ReportTable(
            "baselines",
            "Methods",
            "Explained variance: of the columns that are not suspects. Agreement: adjusted Rand "
            "index, 1 = the same clusters. Association: the strongest with a suspect, 0 = none, 1 "
            "= complete. A higher association is not worse by itself: it is due to an effect of "
            "the suspect, or to clusters whose shares really differ between its values. All three "
            "are those of the sample, without the learned weights.",
            (
                Column("Method"),
                Column("Explained variance", "percent"),
                Column("Agreement with unskew (ARI)", "number"),
                *((Column("Association with suspects", "number"),) if d.associations else ()),
            ),
            tuple(
                (name, variance, agreement)
                + ((max(a.value for a in found),) if d.associations else ())
                for name, variance, agreement, found in methods
            ),
        )
    ]
    if len(d.associations) > 1:
        tables.append(
            ReportTable(
                "associations",
                "Each suspect",
                "Association of each clustering with each suspect: Cramér's V for categories, eta "
                "for numbers; 0 = none, 1 = complete.",
                *association_rows({name: found for name, *_, found in methods}),
            )
        )
    if d.mixing:
        tables.append(_mixing_table(d))
    return Section(
        "baselines",
        "Baselines",
        "Simpler methods on the same rows, with the same number of clusters.",
        (),
        tuple(tables),
    )


def _mixing_table(d: Diagnostics) -> ReportTable:
    when = WHEN[:1] if _is_unchanged(d) else WHEN
    scores = ("LISI", "lisi"), ("kBET", "kbet"), ("Batch silhouette", "silhouette")

    def titles(name: str) -> list[str]:
        return [name if len(when) == 1 else f"{name}, {each}" for each in when]

    pairs = [title for name, _ in scores for title in titles(name)]
    explained = [Column(title, "percent") for title in titles("Variance explained by the suspect")]
    learned = "" if is_uniform(d) else ", under the learned weights"
    how = "" if len(when) == 1 else f", before the correction and after it{learned}"
    return ReportTable(
        "mixing",
        "Mixing of the suspects",
        f"How well the rows of the values of a suspect are mixed{how}. Three scores from 0 to 1 "
        "are higher where they are better mixed: LISI (0 = the nearest rows have one value, 1 = "
        "all values in equal shares); kBET (share of neighbourhoods whose values have their "
        "overall shares, by a chi-squared test); batch silhouette (1 = the values overlap within "
        "the clusters). The share of the variance of the other columns that the suspect explains "
        "is lower there. They measure different things and can move in different directions.",
        (Column("Suspect"), *numbers(*pairs), *explained),
        tuple(
            (
                m.suspect,
                *(getattr(m, f"{field}_{at}") for _, field in scores for at in when),
                *(getattr(m, f"explained_{at}") for at in when),
            )
            for m in d.mixing
        ),
    )


def association_rows(methods: dict[str, Any]) -> tuple[tuple[Column, ...], tuple]:
    """Columns and rows of a table: a row is a suspect, with its association with each method."""
    rows = (
        (found[0].suspect, "Cramér's V" if found[0].kind == "cramers_v" else "eta")
        + tuple(one.value for one in found)
        for found in zip(*methods.values())
    )
    return (*texts("Suspect", "Measure"), *numbers(*methods)), tuple(rows)


def _numbers_section(d: Diagnostics) -> Section:
    when = WHEN[:1] if _is_unchanged(d) else WHEN
    columns = [f"{size} {each}" for size in ("Largest", "Mean") for each in when]
    if len(when) == 1:
        columns = ["Largest", "Mean"]
    who = "a suspect" if d.evidence.suspects else "another column"
    e, n_pairs = d.evidence, sum(f.n_pairs for f in d.features)
    means = f"{e.typical_before:.2f}"
    means += "" if len(when) == 1 else f" before and {e.typical_after:.2f} after the correction"
    tables = [
        ReportTable(
            "features",
            "Differences by column",
            "Largest and mean |standardised difference| of each column between the values of "
            f"{who}. A pair is an encoded column and a value or range of {who}; indicators of "
            f"missing numbers are not counted. The mean over all {n_pairs:,} pairs is the mean "
            f"difference, {means}.",
            (
                Column("Column"),
                *numbers(*columns),
                Column("Pairs", "int"),
                Column("Value with the largest difference"),
            ),
            tuple(
                (
                    f.feature,
                    *(getattr(f, at) for at in when),
                    *(getattr(f, f"typical_{at}") for at in when),
                    *(f.n_pairs, f.against),
                )
                for f in d.features
            ),
        )
    ]
    if len(d.evidence.suspects) != 1:  # the pairs of one suspect are the columns
        tables.append(
            ReportTable(
                "pairs",
                "Pairs of columns",
                f"{plural(d.n_pairs, 'pair')}, the {len(d.pairs)} with the largest differences "
                "before the correction.",
                (*texts("First", "Second"), *numbers("Before", "After")),
                tuple((p.first, p.second, p.before, p.after) for p in d.pairs),
            )
        )
    if d.margins:
        tables.append(
            ReportTable(
                "margins",
                "Known shares",
                "Shares of the population that were given as margins, and those under the design "
                "weights and under the weights of the fit.",
                (
                    *texts("Column", "Value"),
                    *(Column(name, "percent") for name in ("Population", "Design", "Fit")),
                ),
                tuple((m.column, m.value, m.known, m.design, m.reached) for m in d.margins),
            )
        )
    if d.effects:
        tables.append(
            ReportTable(
                "effects",
                "Effects of the suspects",
                "Largest effects of a value of a suspect on a column, compared with the mean of "
                "its values; of a suspect with two values, whose effects are opposite, one is "
                "listed. Unit: standard deviations of a numeric column (sd), or the change of the "
                f"logarithm of the odds of a value of another column (log-odds). {_removed(d)}",
                (*texts("Suspect", "Column"), *numbers("Effect"), Column("Unit")),
                tuple((one.suspect, one.feature, one.effect, one.unit) for one in d.effects),
            )
        )
    if d.clusters:
        tables.append(_profile_table(d))
    if not is_uniform(d):
        without = "; without the design weights" if d.settings.design_weights else ""
        tables += [
            _row_table(d),
            ReportTable(
                "quantiles",
                "Quantiles of the weights",
                f"Quantiles of the learned weights, whose mean is 1{without}.",
                (
                    Column("Share of the rows", "percent"),
                    Column("Learned weight at most", "number"),
                ),
                d.weights.quantiles,
            ),
        ]
    return Section(
        "numbers",
        "Tables",
        "Click a heading to sort. Long tables have a search.",
        (),
        tuple(tables),
    )


def _profile_table(d: Diagnostics) -> ReportTable:
    dates = {name for name, kind in d.settings.kinds if kind == "date"}

    def mean(f: FeatureProfile, value: float | None) -> Any:
        if value is None or f.feature not in dates:
            return value
        return Day(value)

    uniform = is_uniform(d)
    how = "" if uniform else " with the learned weights, and unweighted"
    return ReportTable(
        "profiles",
        "Cluster profiles",
        "Columns in which each cluster differs most from the other rows, without the "
        "suspects. Differences are in standard deviations of the column; inside and outside "
        f"are means{how}.",
        (
            Column("Cluster", "int"),
            Column("Column"),
            *numbers("Difference", "Inside", "Outside"),
            *(() if uniform else numbers(*UNWEIGHTED)),
        ),
        tuple(
            (
                *(c.cluster, f.feature, f.difference, mean(f, f.inside), mean(f, f.rest)),
                *(
                    ()
                    if uniform
                    else (f.plain_difference, mean(f, f.plain_inside), mean(f, f.plain_rest))
                ),
            )
            for c in d.clusters
            for f in c.features
        ),
    )


def _row_table(d: Diagnostics) -> ReportTable:
    named = any(r.index is not None for r in d.weights.heaviest)
    listed = [("largest", r) for r in d.weights.heaviest]
    listed += [("smallest", r) for r in d.weights.lightest]
    return ReportTable(
        "rows",
        "Rows with the largest and smallest weights",
        "Row 1 is the first row of the data.",
        (
            Column("Row", "int"),
            *((Column("Index"),) if named else ()),
            Column("Learned weight", "number"),
            *((Column("Cluster", "int"),) if d.clusters else ()),
            Column("Listed as"),
        ),
        tuple(
            (
                r.position + 1,
                *((r.index,) if named else ()),
                r.weight,
                *((r.cluster,) if d.clusters else ()),
                word,
            )
            for word, r in listed
        ),
    )
