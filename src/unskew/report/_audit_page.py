"""Content of the report on an audit."""

from __future__ import annotations

from ..diagnostics import Audit
from ._page import (
    Column,
    Page,
    Picture,
    ReportTable,
    Section,
    Tile,
    drawn,
    numbers,
    overlap_picture,
    plural,
    suspects_in_words,
    texts,
)

TONES = {"yes": "good", "no": "neutral", "cannot tell": "neutral"}
ROLES = {"effect": "effect", "selection": "selection only", "neither": "neither"}
# Columns whose overlap with groups is shown.
MAX_OVERLAPS = 2
MEASURES = {"cramers_v": "Cramér's V", "eta": "eta", "r": "|r|"}


def page_of_audit(a: Audit) -> Page:
    return Page(
        kind="Audit",
        subject=f"{plural(a.n_rows, 'row')}, {plural(a.n_columns, 'column')}",
        word=a.worth.title,
        tone=TONES[a.worth.word],
        sentence=a.worth.sentence,
        reasons=a.worth.reasons,
        tiles=_tiles(a),
        sections=tuple(
            s for s in (_candidates(a), _notices(a), _pairs(a), _reach(a)) if s is not None
        ),
        settings=a.settings,
        notes=a.notes,
        done=f"Suspects: {suspects_in_words(a.suspects)}.",
    )


def _tiles(a: Audit) -> tuple[Tile, ...]:
    share = a.n_pairs_above / a.n_pairs if a.n_pairs else 0.0
    roles = [one.role for one in a.candidates]
    tested = f"of {len(roles):,} tested: "
    may = "column that may reflect" if len(a.notices) == 1 else "columns that may reflect"
    return (
        Tile(
            "Columns with an effect",
            str(roles.count("effect")),
            f"{tested}they shift other columns within groups of rows",
        ),
        Tile(
            "Columns with a selection only",
            str(roles.count("selection")),
            f"{tested}the groups have other shares, nothing is shifted",
        ),
        Tile("Pairs that differ", f"{share:.0%}", f"by more than 0.1, of {a.n_pairs:,} pairs"),
        Tile("Notices", f"{len(a.notices)}", f"{may} data collection"),
    )


def _candidates(a: Audit) -> Section | None:
    if not a.candidates:
        return None
    first = a.candidates[0]
    words = f"First: {first.column}, {ROLES[first.role]}."
    overlaps = [c.overlap for c in a.candidates if c.overlap is not None][:MAX_OVERLAPS]
    return Section(
        "candidates",
        "Traces of the collection",
        "Columns of few values, and what they do to the other columns within groups of rows. An "
        "effect shifts other columns; a selection changes the shares of the groups.",
        (
            Picture(
                "candidates-picture",
                "Effects and selection",
                words,
                f"Bar chart of the gain in log-likelihood by effect and selection. {words}",
                drawn("candidate_columns", a),
                "full",
            ),
            *(overlap_picture(overlaps, at, "Groups") for at in range(len(overlaps))),
        ),
        (
            ReportTable(
                "candidates-table",
                "Tested columns",
                "Shifted: share of the other columns with a shift of at least 0.1 standard "
                "deviations. Gains are in BIC / 2 per row. p-values are by permutation, adjusted "
                "by Holm's method.",
                (
                    *texts("Column", "Finding"),
                    Column("Shifted", "percent"),
                    *numbers("Shift", "Gain by effect", "Gain by selection"),
                    *numbers("p of effect", "p of dependence"),
                ),
                tuple(
                    (
                        *(c.column, ROLES[c.role], c.shifted, c.shift),
                        *(c.effect_gain, c.selection_gain, c.p_effect, c.p_dependence),
                    )
                    for c in a.candidates
                ),
            ),
        ),
    )


def _notices(a: Audit) -> Section:
    lead = (
        "Columns that may reflect how the data were collected rather than their subject. Deciding "
        "this needs domain knowledge."
        if a.notices
        else "No column seems to reflect how the data were collected."
    )
    table = ReportTable(
        "notices",
        "Columns with notices",
        "Exclude identifiers and near-constant columns from a clustering; the others are "
        "candidates for suspects.",
        (Column("Column"), Column("Reason"), Column("Description"), Column("Reach", "percent")),
        tuple((n.column, n.why, n.sentence, n.reach) for n in a.notices),
    )
    return Section("notices", "Notices", lead, (), (table,) if a.notices else ())


def _pairs(a: Audit) -> Section:
    strongest = a.pairs[0] if a.pairs else None
    words = (
        f"Strongest: {strongest.first} and {strongest.second}, {strongest.association:.2f}."
        if strongest
        else "No pair differs."
    )
    picture = Picture(
        "pairs-picture",
        "The strongest pairs",
        words,
        f"Bar chart of the strongest pairs of columns. {words}",
        drawn("audited_pairs", a),
        "full",
    )
    return Section(
        "pairs",
        "Associated columns",
        "Association between 0 and 1, and the largest standardised mean difference of one column "
        "under the other, which is large by chance for rare values.",
        (picture,) if a.pairs else (),
        (
            ReportTable(
                "pairs-table",
                "Pairs of columns",
                f"The {len(a.pairs)} strongest of {plural(a.n_pairs, 'pair')}.",
                (
                    *texts("First", "Second"),
                    *numbers("Association"),
                    Column("Measure"),
                    *numbers("Difference"),
                ),
                tuple(
                    (p.first, p.second, p.association, MEASURES[p.kind], p.difference)
                    for p in a.pairs
                ),
            ),
        ),
    )


def _reach(a: Audit) -> Section | None:
    if not a.reach:
        return None
    return Section(
        "reach",
        "Reach of each column",
        "Share of the other columns that a column predicts: by at least 0.2 standard deviations, "
        "beyond chance.",
        (
            Picture(
                "reach-picture",
                "Reach of the columns",
                "Orange: columns with notices.",
                f"Bar chart; {a.reach[0][0]} has the largest reach, {a.reach[0][1]:.0%}.",
                drawn("reach_of_columns", a),
                "full",
            ),
        ),
        (
            ReportTable(
                "reach-table",
                "All columns",
                "Share of the other columns that each predicts.",
                (Column("Column"), Column("Reach", "percent")),
                a.reach,
            ),
        ),
    )
