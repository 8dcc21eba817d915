"""What the report on a comparison of methods says, in order."""

from __future__ import annotations

from ..diagnostics import Comparison
from ._fit_page import TONES, WORDS, measure
from ._page import Column, Page, Picture, ReportTable, Section, Tile, drawn, form, plural


def page_of_comparison(c: Comparison) -> Page:
    return Page(
        kind="Comparison of methods",
        subject=f"{plural(c.n_rows, 'row')}, {plural(c.n_columns, 'column')}, "
        f"{plural(len(c.rows), 'method')}",
        word=WORDS[c.summary.word],
        tone=TONES[c.summary.word],
        sentence=c.summary.sentence,
        reasons=c.summary.reasons,
        tiles=_tiles(c),
        sections=(_methods(c), *(_suspects(c) if c.suspects else ())),
        settings=c.settings,
        notes=(*c.notes, *(f"Left out: {title}, because {why}." for title, why in c.skipped)),
    )


def _tiles(c: Comparison) -> tuple[Tile, ...]:
    own = next(row for row in c.rows if row.method == "dckm")
    tiles = [
        Tile("Explained variance", form(own.explained_variance, "percent"), "by unskew's groups"),
        Tile("Effective size", form(own.effective_size, "percent"), "of the rows, under weights"),
        Tile("Imbalance left", form(own.imbalance_left, "percent"), "sum of squared differences"),
    ]
    if own.associations:
        strongest = max(one.value for one in own.associations)
        tiles.append(Tile("Follows a suspect", f"{strongest:.2f}", "0 not at all, 1 wholly"))
    if own.agreement is not None:
        tiles.append(Tile("Agreement with k-means", f"{own.agreement:.2f}", "1 = the same groups"))
    return tuple(tiles)


def _methods(c: Comparison) -> Section:
    with_suspects = bool(c.suspects)
    best = max(c.rows, key=lambda row: row.explained_variance)
    columns = (
        Column("Method"),
        Column("Explained variance", "percent"),
        *((Column("Follows a suspect", "number"),) if with_suspects else ()),
        Column("Effective size", "percent"),
        Column("Imbalance left", "percent"),
        Column("Silhouette", "number"),
        Column("Agreement with k-means", "number"),
        Column("Rows in the clusters"),
    )
    rows = tuple(
        (
            row.title,
            row.explained_variance,
            *((max(one.value for one in row.associations),) if with_suspects else ()),
            row.effective_size,
            row.imbalance_left,
            row.silhouette,
            row.agreement,
            ", ".join(f"{size:,}" for size in row.sizes),
        )
        for row in c.rows
    )
    return Section(
        "methods",
        "Method by method",
        "Explained variance is of the columns that are no suspects, and rises when groups follow "
        "whatever moves most, bias included: the highest is not the best by itself.",
        (
            Picture(
                "scores",
                "The methods side by side",
                "Blue: unskew. Association and variance are computed with design weights only.",
                f"Dot plot of {len(c.rows)} methods; {best.title} explains most variance.",
                drawn("method_scores", c),
                "full",
            ),
        ),
        (
            ReportTable(
                "methods-table",
                "Methods",
                "From the same starts. Agreement is the adjusted Rand index with k-means on all "
                "columns.",
                columns,
                rows,
            ),
        ),
    )


def _suspects(c: Comparison) -> tuple[Section]:
    first = c.rows[0]
    return (
        Section(
            "suspects",
            "How much does each method follow each suspect?",
            "Cramér's V for categories, eta for quantities; 0 not at all, 1 wholly. Groups that "
            "are truly tied to a suspect follow it too.",
            (),
            (
                ReportTable(
                    "suspects-table",
                    "Suspects",
                    "With design weights only.",
                    (
                        Column("Suspect"),
                        Column("Measure"),
                        *(Column(row.title, "number") for row in c.rows),
                    ),
                    tuple(
                        (
                            one.suspect,
                            measure(one.kind),
                            *(row.associations[i].value for row in c.rows),
                        )
                        for i, one in enumerate(first.associations)
                    ),
                ),
            ),
        ),
    )
