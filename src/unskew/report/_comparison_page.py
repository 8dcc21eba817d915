"""Content of the report on a comparison of methods."""

from __future__ import annotations

from ..diagnostics import Comparison
from ._fit_page import TONES, association_rows
from ._page import (
    Column,
    Page,
    Picture,
    ReportTable,
    Section,
    Tile,
    drawn,
    form,
    numbers,
    plural,
    suspects_in_words,
)


def page_of_comparison(c: Comparison) -> Page:
    return Page(
        kind="Comparison of methods",
        subject=f"{plural(c.n_rows, 'row')}, {plural(c.n_columns, 'column')}, "
        f"{plural(c.n_clusters, 'cluster')}, {plural(len(c.rows), 'method')}",
        word=c.summary.title,
        tone=TONES[c.summary.word],
        sentence=c.summary.sentence,
        reasons=c.summary.reasons,
        tiles=_tiles(c),
        sections=(_methods(c), *(_suspects(c) if len(c.suspects) > 1 else ())),
        settings=c.settings,
        notes=(*c.notes, *(f"Skipped: {title} ({why})." for title, why in c.skipped)),
        done=f"Suspects: {suspects_in_words(c.suspects)}.",
    )


def _tiles(c: Comparison) -> tuple[Tile, ...]:
    own = next(row for row in c.rows if row.method == c.method)
    assert own.mean_difference is not None  # it has weights
    between = "of the other columns between the values of the suspects"
    if not c.suspects:
        between = "between columns"
    tiles = [
        Tile("Explained variance", form(own.explained_variance, "percent"), f"by {own.title}"),
        Tile("Effective sample size", form(own.effective_size, "percent"), "of the rows"),
        Tile(
            "Mean difference",
            f"{own.mean_difference:.2f}",
            f"standard deviations, {between}; {own.title}",
        ),
    ]
    if own.associations:
        strongest = max(one.value for one in own.associations)
        tiles.append(
            Tile(
                "Association with suspects",
                f"{strongest:.2f}",
                f"the strongest, of {own.title}; 0 = none, 1 = complete",
            )
        )
    if own.agreement is not None:
        tiles.append(
            Tile(
                "Agreement with k-means",
                f"{own.agreement:.2f}",
                "on all columns; 1 = the same clusters",
            )
        )
    return tuple(tiles)


def _methods(c: Comparison) -> Section:
    with_suspects = bool(c.suspects)
    best = max(c.rows, key=lambda row: row.explained_variance)
    columns = (
        Column("Method"),
        Column("Explained variance", "percent"),
        *((Column("Association with suspects", "number"),) if with_suspects else ()),
        Column("Effective sample size", "percent"),
        *numbers("Mean difference", "Silhouette", "Agreement with k-means"),
        Column("Cluster sizes"),
    )
    rows = tuple(
        (
            row.title,
            row.explained_variance,
            *((max(one.value for one in row.associations),) if with_suspects else ()),
            row.effective_size,
            row.mean_difference,
            row.silhouette,
            row.agreement,
            ", ".join(f"{size:,}" for size in row.sizes),
        )
        for row in c.rows
    )
    return Section(
        "methods",
        "Comparison of the methods",
        "Explained variance is that of the columns that are not suspects. Bias contributes to it, "
        "so the highest value is not necessarily the best.",
        (
            Picture(
                "scores",
                "Scores of the methods",
                "Blue: the method of the verdict. Association and variance are those of the "
                "sample, without the learned weights.",
                f"Dot plot of {len(c.rows)} methods; {best.title} explains most variance.",
                drawn("method_scores", c),
                "full",
            ),
        ),
        (
            ReportTable(
                "methods-table",
                "Methods",
                "All methods use the same initializations. Agreement is the adjusted Rand index "
                "with k-means on all columns, under the design weights. The effective sample size "
                "(Kish) is that of design weights times learned weights, as a share of the rows.",
                columns,
                rows,
            ),
        ),
    )


def _suspects(c: Comparison) -> tuple[Section]:
    return (
        Section(
            "suspects",
            "Association of each method with each suspect",
            "Cramér's V for categories, eta for numbers; 0 = none, 1 = complete. True clusters may "
            "also be associated with a suspect.",
            (),
            (
                ReportTable(
                    "suspects-table",
                    "Suspects",
                    "In the sample, without the learned weights.",
                    *association_rows({row.title: row.associations for row in c.rows}),
                ),
            ),
        ),
    )
