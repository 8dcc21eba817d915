"""What the report on a fit says, in order."""

from __future__ import annotations

from typing import Any

from ..diagnostics import Diagnostics, FeatureProfile
from ..diagnostics._verdict import BALANCED
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
    plural,
)

MAX_CARDS = 12
# A love plot with more features takes two places of the grid.
TALL = 12
WHEN = ("before", "after")
TONES = {"helped": "good", "no effect": "neutral", "harmed": "bad"}
WORDS = {"helped": "Helped", "no effect": "No effect", "harmed": "Harmed"}


def page_of_fit(d: Diagnostics) -> Page:
    rows = plural(d.settings.n_rows, "row")
    return Page(
        kind="Clustering report" if d.clusters else "Weighting report",
        subject=f"{rows}, {plural(d.settings.n_columns, 'column')}"
        + (f", {plural(len(d.clusters), 'cluster')}" if d.clusters else ""),
        word=WORDS[d.verdict.word],
        tone=TONES[d.verdict.word],
        sentence=d.verdict.sentence,
        reasons=d.verdict.reasons,
        tiles=_fit_tiles(d),
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
    )


def _fit_tiles(d: Diagnostics) -> tuple[Tile, ...]:
    e = d.evidence
    tiles = [
        Tile(
            "Typical difference",
            f"{e.typical_before:.2f} → {e.typical_after:.2f}",
            f"between {'suspects and other columns' if e.suspects else 'columns'}; chance gives "
            f"{e.by_chance:.2f}",
        ),
        Tile(
            "Effective size",
            form(e.effective_size, "percent"),
            f"{e.n_rows:,} rows count as {e.kish_size:,.0f}",
        ),
    ]
    if e.follows is not None:
        before = "" if e.kmeans_follows is None else f"{e.kmeans_follows:.2f} → "
        against = "" if e.kmeans_follows is None else "k-means → unskew; "
        tiles.append(
            Tile(
                "Follows a suspect", f"{before}{e.follows:.2f}", f"{against}0 not at all, 1 wholly"
            )
        )
    if e.kept_variance is not None:
        tiles.append(
            Tile("Variance kept", f"{e.kept_variance:.0%}", "of what k-means' groups explain")
        )
    if d.flow is not None:
        moved = form(d.flow.moved, "percent")
        tiles.append(Tile("Rows that moved", moved, "to another group than in k-means"))
    if not d.clusters:
        tiles.append(Tile("Heaviest row", f"{d.weights.maximum:.1f}", "its weight; the mean is 1"))
    return tuple(tiles)


def _weights_section(d: Diagnostics) -> Section:
    rows = [f for f in d.features if not f.suspect]
    before, after = (sum(getattr(f, when) > BALANCED for f in rows) for when in WHEN)
    who = "the suspects" if d.evidence.suspects else "the other columns"
    w, c = d.weights, d.convergence
    love = f"{before} of {len(rows)} features above 0.1 before weighting, {after} after."
    tall = len(rows) > TALL
    maps = [_map(d, which) for which in WHEN]
    fit = Picture(
        "terms",
        "The fit",
        f"Status: {c.status}. The objective ended at {number(c.objective)}.",
        f"Lines of the objective and its terms over {plural(c.iterations, 'iteration')}.",
        drawn("objective_terms", d),
    )
    largest = f" Largest: {rows[0].feature}, {rows[0].before:.2f} before." if rows else ""
    return Section(
        "weights",
        "What the correction did" if d.evidence.corrected else "What the weights did",
        f"How far {who} still separate each column, in standard deviations (below 0.1 counts as "
        f"balanced), and what that cost: the heaviest 1 % of the rows carry "
        f"{form(w.top_share, 'percent')} of the weight, {plural(w.unused, 'row')} hardly count.",
        (
            Picture(
                "love",
                "Differences, feature by feature",
                love,
                f"Dot plot. {love}{largest}",
                drawn("love_plot", d),
                tall=tall,
            ),
            Picture(
                "distribution",
                "The learned weights",
                f"From {number(w.minimum)} to {number(w.maximum)}; design effect "
                f"{w.design_effect:.2f}.",
                f"Histogram of the weights, from {w.minimum:.3g} to {w.maximum:.3g}, mean 1.",
                drawn("weight_distribution", d),
            ),
            *((fit, *maps) if tall else (*maps, fit)),
            *((_effects_picture(d),) if d.effects else ()),
        ),
    )


def _effects_picture(d: Diagnostics) -> Picture:
    top = d.effects[0]
    words = f"Largest: {top.suspect} on {top.feature}, {top.effect:+.2f}."
    return Picture(
        "effects-picture",
        "What the suspects do to the columns",
        f"{words} Taken out before clustering.",
        f"Bar chart of the effects of suspects. {words}",
        drawn("suspect_effects", d),
    )


def _map(d: Diagnostics, which: str) -> Picture:
    c = d.correlation
    amount = c.amount_before if which == "before" else c.amount_after
    verbose_logging = "" if amount is None else f" Amount over all columns: {number(amount)}."
    order = "in the order of the cluster they mark" if d.clusters else "by size of difference"
    return Picture(
        f"map-{which}",
        f"Correlations {which} weighting",
        f"Columns {order}. Blue: together, orange: opposed.{verbose_logging}",
        f"Heat map of the correlations of {len(c.names)} encoded columns {which} weighting.",
        drawn("correlation_map", d, which=which),
    )


def _clusters_section(d: Diagnostics) -> Section | None:
    if not d.clusters:
        return None
    pictures = [
        Picture(
            "plane",
            "The rows in two dimensions",
            "Numbers mark the clusters, the size of a point is its weight.",
            f"Scatter plot of {len(d.projection.positions)} rows, coloured by cluster.",
            drawn("clusters_2d", d),
        )
    ]
    if d.flow is not None:
        moved = form(d.flow.moved, "percent")
        pictures.append(
            Picture(
                "flow",
                "From k-means to unskew",
                f"{moved} of the rows changed group; agreement (ARI) {d.flow.agreement:.2f}. "
                "Strong bands are rows that moved.",
                f"Flow diagram: {moved} of the rows are in another group than in k-means.",
                drawn("sample_flow", d),
            )
        )
    largest = sorted(d.clusters, key=lambda c: -c.size)[:MAX_CARDS]
    for profile in sorted(largest, key=lambda c: c.cluster):
        top = ", ".join(f"{f.feature} {f.difference:+.2f}" for f in profile.features[:3])
        pictures.append(
            Picture(
                f"cluster-{profile.cluster}",
                f"Cluster {profile.cluster}",
                f"{plural(profile.size, 'row')}, {form(profile.share, 'percent')} of the sample, "
                f"{form(profile.weighted_share, 'percent')} under the weights.",
                f"Bars of the differences between cluster {profile.cluster} and the rest: {top}.",
                drawn("cluster_profile", d, profile.cluster),
                "card",
            )
        )
    left = len(d.clusters) - len(largest)
    more = f" The {MAX_CARDS} largest are drawn; the table has all." if left else ""
    return Section(
        "clusters",
        "The clusters",
        "What marks each cluster: its difference to the rest in standard deviations, weighted "
        "(bars) and unweighted (ticks)." + more,
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
            "Explained variance is of the columns that are no suspects; association is the "
            "strongest with a suspect. Both with design weights only.",
            (
                Column("Method"),
                Column("Explained variance", "percent"),
                Column("Agreement with unskew", "number"),
                *((Column("Follows a suspect", "number"),) if d.associations else ()),
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
                "How much each clustering follows each suspect: Cramér's V for categories, eta for "
                "quantities; 0 not at all, 1 wholly.",
                (
                    Column("Suspect"),
                    Column("Measure"),
                    *(Column(name, "number") for name, *_ in methods),
                ),
                tuple(
                    (one.suspect, measure(one.kind), *(m[3][i].value for m in methods))
                    for i, one in enumerate(d.associations)
                ),
            )
        )
    return Section(
        "baselines",
        "Would something simpler do?",
        "The same rows by simpler methods, from the same starts.",
        (),
        tuple(tables),
    )


def measure(kind: str) -> str:
    return "Cramér's V" if kind == "cramers_v" else "eta"


def _numbers_section(d: Diagnostics) -> Section:
    who = "a suspect" if d.evidence.suspects else "another column"
    tables = [
        ReportTable(
            "features",
            "Features",
            f"Largest and typical |standardised difference| of each feature under {who}.",
            (
                Column("Feature"),
                Column("Suspect"),
                Column("Largest before", "number"),
                Column("Largest after", "number"),
                Column("Typical before", "number"),
                Column("Typical after", "number"),
                Column("Worst under"),
            ),
            tuple(
                (
                    f.feature, "yes" if f.suspect else "", f.before, f.after,
                    f.typical_before, f.typical_after, f.against,
                )
                for f in d.features
            ),
        ),
        ReportTable(
            "pairs",
            "Pairs of columns",
            f"{plural(d.n_pairs, 'pair')}, the {len(d.pairs)} strongest before weighting.",
            (
                Column("First"),
                Column("Second"),
                Column("Before", "number"),
                Column("After", "number"),
            ),
            tuple((p.first, p.second, p.before, p.after) for p in d.pairs),
        ),
    ]  # fmt: skip
    if d.effects:
        tables.append(
            ReportTable(
                "effects",
                "Effects of the suspects",
                "What each value of a suspect adds to a column, in standard deviations; taken out "
                "before clustering. The largest.",
                (Column("Suspect"), Column("Column"), Column("Effect", "number")),
                tuple((one.suspect, one.feature, one.effect) for one in d.effects),
            )
        )
    if d.clusters:
        tables.append(_profile_table(d))
    tables.append(_row_table(d))
    tables.append(
        ReportTable(
            "quantiles",
            "Quantiles of the weights",
            "Of the learned weights, whose mean is 1.",
            (Column("Share of the rows", "percent"), Column("Weight up to", "number")),
            d.weights.quantiles,
        )
    )
    return Section(
        "numbers",
        "All the numbers",
        "Sort by the headings, search in any column.",
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
        "The columns in which each cluster differs most from the rest, by weighted difference.",
        (
            Column("Cluster", "int"),
            Column("Column"),
            Column("Difference", "number"),
            Column("Inside", "number"),
            Column("Rest", "number"),
            Column("Unweighted difference", "number"),
            Column("Unweighted inside", "number"),
            Column("Unweighted rest", "number"),
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
    listed = [("heaviest", r) for r in d.weights.heaviest]
    listed += [("lightest", r) for r in d.weights.lightest]
    return ReportTable(
        "rows",
        "Most and least weighted rows",
        "Rows are counted from 0.",
        (
            Column("Row", "int"),
            *((Column("Index"),) if named else ()),
            Column("Weight", "number"),
            *((Column("Cluster", "int"),) if d.clusters else ()),
            Column("Among the"),
        ),
        tuple(
            (
                r.position,
                *((r.index,) if named else ()),
                r.weight,
                *((r.cluster,) if d.clusters else ()),
                word,
            )
            for word, r in listed
        ),
    )
