"""Content of the report on a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..diagnostics import Diagnostics, FeatureBalance, FeatureProfile
from ..diagnostics._diagnose import DROPPED
from ..diagnostics._verdict import BALANCED, describe_names, describe_size
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
WHEN = ("before", "after")
TONES = {"helped": "good", "no effect": "neutral", "harmed": "bad", "cannot be told": "neutral"}
WORDS = {
    "helped": "Helped",
    "no effect": "No effect",
    "harmed": "Harmed",
    "cannot be told": "Cannot be told",
}


def page_of_fit(d: Diagnostics) -> Page:
    rows = plural(d.evidence.n_rows, "row")
    return Page(
        kind="Clustering report" if d.clusters else "Weighting report",
        subject=f"{rows}, {plural(d.settings.n_columns, 'column')}"
        + (f", {plural(len(d.clusters), 'cluster')}" if d.clusters else ""),
        word=WORDS[d.verdict.word],
        tone=TONES[d.verdict.word],
        sentence=d.verdict.sentence,
        reasons=d.verdict.reasons,
        tiles=_fit_tiles(d),
        front=_front(d),
        sections=tuple(
            s
            for s in (
                _clusters_section(d),
                _weights_section(d),
                _baselines_section(d),
                _numbers_section(d),
            )
            if s is not None
        ),
        settings=d.settings,
        notes=d.notes,
        done=_done(d),
        limits=tuple(each.sentence for each in d.overlap if each.sentence),
    )


def _done(d: Diagnostics) -> str:
    """What the model did, in one sentence, its form and the suspects."""
    form = f"The model: {d.form}." if d.form else ""
    suspects = f"Suspects: {suspects_in_words(d.evidence.suspects)}."
    return " ".join(part for part in (_what_was_fitted(d), form, suspects) if part)


def _what_was_fitted(d: Diagnostics) -> str:
    suspects, model, K = d.evidence.suspects, d.settings.model, len(d.clusters)
    what = describe_names(suspects) if suspects else ""
    if model == "SelectionMixture" and suspects:
        common = d.weights.maximum - d.weights.minimum < 1e-9
        shares = "are the same for all values" if common else "differ between the values"
        return (
            f"SelectionMixture fitted {plural(K, 'group')}, whose shares {shares} of {what}. "
            f"{_what_was_removed(d, what)}"
        )
    if model == "SelectionMixture":
        return f"SelectionMixture fitted {plural(K, 'group')} without suspects."
    found = f", together with {plural(K, 'cluster')}" if K else ""
    predict = f"{what} and the other columns" if suspects else "the columns"
    shifts = f"; the shifts of the other columns by {what} were removed" if d.effects else ""
    return (
        f"{model} learned a weight for each row, under which {predict} predict each other "
        f"less{found}{shifts}."
    )


def _what_was_removed(d: Diagnostics, what: str) -> str:
    """What a mixture removed from which columns, and the difference that remains."""
    units = {one.unit for one in d.effects}
    shifts = "shifts and changes of scale" if "shift-scale" in d.form else "shifts"
    if not units:
        return (
            f"The selected model has no effects of {what} on the other columns; none was removed."
        )
    if "sd" not in units:
        return (
            f"The model has effects of {what} on the probabilities of categories; the columns "
            "themselves are unchanged."
        )
    removed = f"The {shifts} of the numeric columns by {what} were removed"
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


def _fit_tiles(d: Diagnostics) -> tuple[Tile, ...]:
    e = d.evidence
    named = "of the other columns between values of the suspects"
    of_what = named if e.suspects else "between columns"
    tiles = [
        Tile(
            "Mean difference",
            f"{e.typical_before:.2f} → {e.typical_after:.2f}",
            f"{of_what}; by chance {e.by_chance:.2f}",
        ),
        Tile(
            "Effective sample size",
            *describe_size(e).split(" ", 1),
        ),
    ]
    if d.flow is not None:
        moved = form(d.flow.moved, "percent")
        where = f"in another cluster than with {_baseline_of_flow(d)}"
        tiles.append(Tile("Rows that moved", moved, where))
    if not d.clusters:
        tiles.append(Tile("Largest weight", f"{d.weights.maximum:.1f}", "the mean is 1"))
    return tuple(tiles)


def _weights_section(d: Diagnostics) -> Section:
    rows = d.features
    before, after = (sum(getattr(f, when) > BALANCED for f in rows) for when in WHEN)
    who = "the suspects" if d.evidence.suspects else "the other columns"
    w, c = d.weights, d.convergence
    love = (
        f"The largest difference of each feature; the mean difference is in the table Features. "
        f"{before} of {len(rows)} features above 0.1 before, {after} after."
    )
    tall = len(rows) > TALL
    maps = [_map(d, which) for which in WHEN]
    fit = Picture(
        "terms",
        "Convergence",
        f"Status: {c.status}.",
        f"Line plot of the objective and its terms over {plural(c.iterations, 'iteration')}.",
        drawn("objective_terms", d),
    )
    largest = f" Largest: {rows[0].feature}, {rows[0].before:.2f} before." if rows else ""
    return Section(
        "weights",
        "Effect of the correction" if d.evidence.corrected else "Effect of the weights",
        f"Standardised mean differences of each column under {who} (below 0.1: balanced), and the "
        "weights.",
        (
            Picture(
                "love",
                "Differences by feature",
                love,
                f"Dot plot. {love}{largest}",
                drawn("love_plot", d),
                tall=tall,
            ),
            Picture(
                "distribution",
                "The learned weights",
                _weights_in_words(d),
                f"Histogram of the weights, from {w.minimum:.3g} to {w.maximum:.3g}, mean 1.",
                drawn("weight_distribution", d),
            ),
            *((fit, *maps) if tall else (*maps, fit)),
            *((_effects_picture(d),) if d.effects else ()),
        ),
    )


def _weights_in_words(d: Diagnostics) -> str:
    """Numbers of the learned weights, then those of all weights."""
    w = d.weights
    most = dict(w.quantiles)[0.99]
    both = "Learned weights times design weights: the" if d.settings.design_weights else "The"
    return (
        f"Learned weights, mean 1: from {number(w.minimum)} to {number(w.maximum)}, 99 % of the "
        f"rows have at most {number(most)}, {plural(w.unused, 'row')} less than 0.01. {both} 1 % "
        f"of the rows with the largest have {form(w.top_share, 'percent')} of the total; design "
        f"effect {w.design_effect:.2f}."
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
    if any(one.unit == "log-odds" for one in d.effects):
        return "Effects in standard deviations are removed from the columns, log-odds are not."
    return "Removed from the columns."


def _map(d: Diagnostics, which: str) -> Picture:
    c = d.correlation
    amount = c.amount_before if which == "before" else c.amount_after
    how = "the correction" if d.evidence.corrected else "weighting"
    total = "" if amount is None else f" Amount over all columns: {number(amount)}."
    order = (
        "ordered by the cluster in which they differ most"
        if d.clusters
        else "ordered by size of difference"
    )
    return Picture(
        f"map-{which}",
        f"Correlations {which} {how}",
        f"Columns {order}. Blue: positive, orange: negative.{total}",
        f"Heat map of the correlations of {len(c.names)} encoded columns {which} {how}.",
        drawn("correlation_map", d, which=which),
    )


def _front(d: Diagnostics) -> Picture | None:
    """The rows before and after, coloured by suspect and by cluster."""
    p = d.projection
    if p is None:
        return None
    n = len(p.positions) if not p.value else min(len(p.positions), MAX_DRAWN)
    rows = f"{n:,} of {p.n_rows:,} rows, drawn at random" if n < p.n_rows else plural(n, "row")
    components = "on the first two principal components, with their shares of the variance"
    if not p.value:
        return Picture(
            "plane",
            "The clusters",
            f"{rows}, {components}. Numbers are the clusters; the size of a point is its learned "
            "weight.",
            f"Scatter plot of {rows}, coloured by cluster.",
            drawn("clusters_2d", d),
            "full",
        )
    parts = [f"by {p.suspect}"]
    if p.baseline_cluster:
        parts.insert(0, f"by cluster of {_baseline_of_flow(d)}")
    parts.append("by cluster of this fit")
    if p.before_x:
        parts.append(f"by {p.suspect} without the effects of the suspects")
    shown = f"{', '.join(parts[:-1])} and {parts[-1]}"
    last = "after the correction" if p.before_x else "in the last panel"
    return Picture(
        "before-after",
        "Before and after" if p.before_x else "By suspect and by cluster",
        f"Each panel has the same {rows}, {components}. Coloured {shown}; {last}, the size of a "
        "point is its learned weight.",
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
                f"{where}; agreement in the sample (ARI) "
                f"{d.flow.agreement:.2f}. Saturated bands are rows that moved.",
                f"Flow diagram: {where}.",
                drawn("sample_flow", d),
            )
        )
    pictures += [overlap_picture(d.overlap, at) for at in range(len(d.overlap[:MAX_OVERLAPS]))]
    largest = sorted(d.clusters, key=lambda c: -c.size)[:MAX_CARDS]
    basis = "design weights" if d.settings.design_weights else "sample"
    every = "design times learned" if d.settings.design_weights else "the learned"
    for profile in sorted(largest, key=lambda c: c.cluster):
        top = ", ".join(f"{f.feature} {f.difference:+.2f}" for f in profile.features[:3])
        pictures.append(
            Picture(
                f"cluster-{profile.cluster}",
                f"Cluster {profile.cluster}",
                f"{plural(profile.size, 'row')}, {form(profile.share, 'percent')} of the {basis}, "
                f"{form(profile.weighted_share, 'percent')} under the weights.",
                f"Bar chart of differences between cluster {profile.cluster} and the other rows: "
                f"{top}.",
                drawn("cluster_profile", d, profile.cluster),
                "card",
            )
        )
    left = len(d.clusters) - len(largest)
    alone = "".join(f" {sentence}" for sentence in d.separating)
    more = f" The {MAX_CARDS} largest clusters are shown; the table has all." if left else ""
    return Section(
        "clusters",
        "The clusters",
        "Clusters 0, 1, ...: the columns in which each differs most from the other rows. A "
        "difference is that of the means, in standard deviations of the column, under "
        f"{every} weights (bars) and without the learned weights (ticks).{more}{alone}",
        tuple(pictures),
    )


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
            "Explained variance is that of the columns that are not suspects; association is the "
            "strongest with a suspect: lower is better where the clusters should be unrelated to "
            "the suspects. Agreement is the adjusted Rand index. All three are those of the "
            "sample, without the learned weights.",
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
    if d.associations:
        tables.append(
            ReportTable(
                "associations",
                "Each suspect",
                "Association of each clustering with each suspect: Cramér's V for categories, eta "
                "for numbers; 0 = none, 1 = complete. Lower is better where the clusters should be "
                "unrelated to the suspect; a selection makes them related in the sample.",
                *association_rows({name: found for name, *_, found in methods}),
            )
        )
    if d.mixing:
        tables.append(_mixing_table(d))
    return Section(
        "baselines",
        "Baselines",
        "Simpler methods on the same rows, with the same initializations.",
        (),
        tuple(tables),
    )


def _mixing_table(d: Diagnostics) -> ReportTable:
    names = ("LISI", "kBET", "Batch silhouette")
    pairs = [f"{name}, {when}" for name in names for when in WHEN]
    explained = [Column(f"Explained variance, {when}", "percent") for when in WHEN]
    return ReportTable(
        "mixing",
        "Mixing of the suspects",
        "How well the values of a suspect are mixed: before the correction, and after it under its "
        "weights. LISI: effective number of values among the nearest rows, 0 = one, 1 = all in "
        "equal shares. kBET: share of neighbourhoods in which a chi-squared test does not reject "
        "the overall shares of the values; unequal weights make it reject less. Batch silhouette: "
        "overlap of the values within the clusters, 1 = complete. Explained variance: share of the "
        "variance of the other columns that the suspect explains. They measure different things "
        "and can move in different directions.",
        (Column("Suspect"), *numbers(*pairs), *explained),
        tuple(
            (
                *(m.suspect, m.lisi_before, m.lisi_after, m.kbet_before, m.kbet_after),
                *(m.silhouette_before, m.silhouette_after, m.explained_before, m.explained_after),
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
    who = "a suspect" if d.evidence.suspects else "another column"
    of_whom = f"a value or range of {who}"
    tables = [
        ReportTable(
            "features",
            "Features",
            f"Largest and mean |standardised difference| of each feature under {who}. A pair is an "
            f"encoded column of the feature and {of_whom}. The mean difference, "
            f"{d.evidence.typical_before:.2f} before and {d.evidence.typical_after:.2f} after, is "
            f"the mean over all {sum(f.n_pairs for f in d.features):,} pairs.",
            (
                Column("Feature"),
                *numbers("Largest before", "Largest after", "Mean before", "Mean after"),
                Column("Pairs", "int"),
                Column("Largest under"),
            ),
            tuple(
                (
                    f.feature, f.before, f.after,
                    f.typical_before, f.typical_after, f.n_pairs, f.against,
                )
                for f in d.features
            ),
        ),
        ReportTable(
            "pairs",
            "Pairs of columns",
            f"{plural(d.n_pairs, 'pair')}, the {len(d.pairs)} strongest before the correction.",
            (*texts("First", "Second"), *numbers("Before", "After")),
            tuple((p.first, p.second, p.before, p.after) for p in d.pairs),
        ),
    ]  # fmt: skip
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
                "Largest effects of a value of a suspect on a column: in standard deviations of a "
                f"numeric column, log-odds of the values of others in a mixture. {_removed(d)}",
                (*texts("Suspect", "Column"), *numbers("Effect"), Column("Unit")),
                tuple((one.suspect, one.feature, one.effect, one.unit) for one in d.effects),
            )
        )
    if d.clusters:
        tables.append(_profile_table(d))
    tables.append(_row_table(d))
    tables.append(
        ReportTable(
            "quantiles",
            "Quantiles of the weights",
            "Quantiles of the learned weights, whose mean is 1; without the design weights."
            if d.settings.design_weights
            else "Quantiles of the learned weights, whose mean is 1.",
            (Column("Share of the rows", "percent"), Column("Learned weight at most", "number")),
            d.weights.quantiles,
        )
    )
    return Section(
        "numbers",
        "Tables",
        "Click a heading to sort; the search covers all columns.",
        (),
        tuple(tables),
    )


def _profile_table(d: Diagnostics) -> ReportTable:
    dates = {name for name, kind in d.settings.kinds if kind == "date"}

    def mean(f: FeatureProfile, value: float | None) -> Any:
        if value is None or f.feature not in dates:
            return value
        return Day(value)

    return ReportTable(
        "profiles",
        "Cluster profiles",
        "Columns in which each cluster differs most from the other rows, by weighted difference. "
        "Differences are in standard deviations of the column; inside and outside are means. The "
        "suspects are left out.",
        (
            Column("Cluster", "int"),
            Column("Column"),
            *numbers("Difference", "Inside", "Outside"),
            *numbers("Unweighted difference", "Unweighted inside", "Unweighted outside"),
        ),
        tuple(
            (
                c.cluster,
                f.feature,
                f.difference,
                mean(f, f.inside),
                mean(f, f.rest),
                f.plain_difference,
                mean(f, f.plain_inside),
                mean(f, f.plain_rest),
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
            Column("Among the"),
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
