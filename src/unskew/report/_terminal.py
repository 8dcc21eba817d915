"""Results as tables for a terminal, and a console that prints them. Needs rich, which the command
line installs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from .._records import ADVICE, Finding, Records, visible
from ..corrector import SuspectCorrector
from ..diagnostics import Audit, Comparison, Diagnostics, Verdict
from ..diagnostics._results import leading
from ..diagnostics._simulated import MethodScores
from ..diagnostics._verdict import describe_size
from ._audit_page import page_of_audit
from ._fit_page import (
    difference_in_words,
    is_uniform,
    iterations_in_words,
    method_in_words,
    separation_in_words,
)
from ._page import ReportTable, form, plural, rows_in_words, suspects_in_words

COLOURS = {
    "helped": "green",
    "yes": "green",
    "no effect": "yellow",
    "cannot be told": "yellow",
    "cannot tell": "yellow",
    "no": "yellow",
    "harmed": "red",
}
MOST_ROWS = 12  # of a table of an audit
TABLES = ("candidates-table", "notices", "pairs-table")  # of an audit
MOST_SUSPECTS = 3  # in the table of a comparison
ABOUT_DEMO = """{rows:,} patients, 4 kinds, 4 sites. Site and kind are associated in the sample \
(rate {rate:g}) and independent in the population. Only `site` is named.
Agreement with the true kinds (adjusted Rand index, 1 = perfect), {of}:
"""
ABOUT_SCORES = """
Dropping the column does not help, because 36 other columns depend on the site. Regressing it \
out also removes part of the kinds, which shows in the sample.
Effective size: effective sample size as a share of the rows. Mean difference: of the other \
columns between the sites, in standard deviations, after the correction.
"""
PLURAL = {"number": "numbers", "category": "categories", "date": "dates"}


class VisibleConsole(Console):
    """A console that shows the control characters of names and values instead of obeying them."""

    def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
        for part in super().render(*args, **kwargs):
            yield part if part.control else Segment(visible(part.text), part.style)


def console_for(stream: Any) -> Console:
    """A console that prints plain text: a column named [red] is not interpreted as markup."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # characters that cannot be encoded are shown as ?
    console = VisibleConsole(file=stream, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, 100)
    return console


def print_lines(console: Console, *things: Any) -> None:
    """Print tables; where the console is not a terminal, lines do not end in blanks."""
    if console.is_terminal:
        console.print(*things, sep="\n")
        return
    with console.capture() as captured:
        console.print(*things, sep="\n")
    console.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    console.file.flush()


def facts(*rows: tuple[str, Any]) -> Table:
    """Two columns, a bold name and a text; rows without a text are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        if text:
            grid.add_row(name, text)
    return grid


def listing(titles: Iterable[str], sides: str, rows: Any, bold: int | None = None) -> Table:
    """A table with a row of titles; `sides` has l (left) or r (right) for each column."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for title, side in zip(titles, sides):
        table.add_column(title, justify="left" if side == "l" else "right", overflow="fold")
    for k, cells in enumerate(rows):
        table.add_row(*cells, style="bold" if k == bold else "")
    return table


def verdict_line(verdict: Verdict) -> Text:
    style = f"bold {COLOURS.get(verdict.word, '')}"
    return Text.assemble((f"{verdict.title}. ", style), verdict.sentence)


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def several(names: Iterable[str], most: int = 6) -> str:
    """The first `most` names, and how many there are besides."""
    names = list(names)
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def count_kinds(kinds: dict[str, str]) -> str:
    """Source name -> kind, in words: 12 (6 numbers, 5 categories, 1 left out)."""
    counts = Counter("left out" if kind == "constant" else kind for kind in kinds.values())
    parts = [
        f"{counts[kind]:,} {kind if counts[kind] == 1 else PLURAL.get(kind, kind)}"
        for kind in dict.fromkeys((*PLURAL, *counts))
        if counts[kind]
    ]
    return f"{len(kinds):,} ({', '.join(parts)})"


def show_columns(columns: Records, findings: Iterable[Finding]) -> Group:
    """What was made of each column, and how to change it."""
    rows = [[str(cell) for cell in row.values()] for row in columns]
    advice = {f.topic: ADVICE[f.topic][1] for f in findings if f.topic in ADVICE}
    return Group(listing(columns[0], "lllrl", rows), facts(*advice.items()))


def _margins(estimator: Any) -> str:
    """Columns with known shares, and the largest difference from these."""
    margins = getattr(estimator, "margins_", None)
    if not margins:
        return ""
    names = ", ".join(map(str, margins))
    return f"{names}; largest difference from the known shares {estimator.margin_distance_:.3f}"


def show_fit(
    estimator: Any,
    found: Diagnostics | None,
    data: dict[str, Any],
    seconds: float,
    choice: Any,
) -> Group:
    """The data, numbers of the fit, its clusters and the verdict.

    data : rows, columns, kinds, suspects, and whether there are design weights
    choice : selection of the number of clusters, or None
    """
    if found is None:  # nothing is shown with --quiet
        return Group()
    n = rows_in_words(found.settings)
    n_columns = f"{len(data['columns']):,}, not encoded"
    e = found.evidence
    change = (
        f"{e.typical_before:.2f} before, {e.typical_after:.2f} after: standard deviations "
        f"{difference_in_words(found)} ({e.by_chance:.2f} by chance alone)"
    )
    rounds = iterations_in_words(estimator.n_iter_, type(estimator).__name__)
    shown = [
        facts(
            ("rows", f"{n}, with design weights" if data["design_weights"] else n),
            ("columns", count_kinds(data["kinds"]) if data["kinds"] else n_columns),
            ("suspects", suspects_in_words(data["suspects"])),
            ("method", method_in_words(type(estimator).__name__, e.suspects)),
            ("model", found.form),
            ("effective sample size", describe_size(e)),
            ("mean difference", change),
            ("margins", _margins(estimator)),
            ("fit", f"{estimator.status_}, {rounds}, {seconds:.1f} s"),
            ("separation", separation_in_words(found)),
            ("runs", _agreement(estimator) if hasattr(estimator, "stability_") else ""),
            ("clusters", _selected(choice)),
        )
    ]  # fmt: skip
    if choice is not None:
        shown.append(_candidates(choice))
    if hasattr(estimator, "labels_"):
        shown.append(_clusters(found, data["design_weights"]))
    unclear = [each.sentence for each in found.overlap if each.sentence]
    return Group(
        *shown,
        facts(
            *(("overlap", text) for text in unclear),
            *(("note", text) for text in found.separating),
            ("verdict", verdict_line(found.verdict)),
        ),
    )


def show_prediction(n: int, sizes: Iterable[int]) -> Table:
    """Number of new rows, and of those in each cluster (of a model of clusters)."""
    clusters = ", ".join(f"{k}: {size:,}" for k, size in enumerate(sizes))
    return facts(("rows", f"{n:,}"), ("clusters", clusters))


def show_correction(estimator: SuspectCorrector, n: int, corrected: list[str]) -> Table:
    """Number of rows, the corrected columns, and whether the effects are identified."""
    columns = f"{plural(len(corrected), 'column')}: {several(corrected)}"
    return facts(
        ("rows", f"{n:,}"),
        ("corrected", columns if corrected else "no column"),
        ("groups", f"{estimator.n_components_}"),
        ("identified", estimator.identified_),
    )


def _agreement(estimator: Any) -> str:
    if estimator.n_runs == 1:
        return "1, so agreement is undefined; --runs 20 estimates the stability of the clusters"
    voting, of_whom = sum(run["votes"] for run in estimator.runs_), ""
    if voting < estimator.n_runs:
        of_whom = f"; they found different solutions, so only the best {voting} vote"
    return (
        f"{estimator.n_runs}, mean agreement of two runs {estimator.stability_:.2f} (1 = the same "
        f"clusters){of_whom}; mean confidence of a row {estimator.confidence_.mean():.2f}"
    )


def _selected(choice: Any) -> str:
    if choice is None:
        return ""
    tried = choice.candidates
    span = f"{tried[0].value:g} to {tried[-1].value:g}"
    criterion = "BIC" if choice.criterion == "bic" else choice.criterion
    return f"{choice.chosen}, selected from {span} by {criterion}"


def _candidates(choice: Any) -> Table:
    if choice.criterion == "bic":
        rows: list = [(f"{c.value:g}", f"{c.bic:,.0f}") for c in choice.candidates]
        titles = ["clusters tried", "BIC (lower is better)"]
    else:
        rows = [
            (f"{c.value:g}", number(c.silhouette), number(c.stability), number(c.explained))
            for c in choice.candidates
        ]
        titles = ["clusters tried", "silhouette", "stability", "explained variance"]
    chosen = [c.value for c in choice.candidates].index(choice.chosen)
    return listing(titles, "r" * len(titles), rows, bold=chosen)


def _clusters(found: Diagnostics, design: bool) -> Table:
    uniform = is_uniform(found)
    rows = [
        (
            str(each.cluster),
            f"{each.size:,}",
            form(each.share, "percent"),
            *(() if uniform else (form(each.weighted_share, "percent"),)),
            ", ".join(f"{f.feature} {f.difference:+.1f}" for f in leading(each)[:4]),
        )
        for each in found.clusters
    ]
    share = "share by design" if design else "share"  # of the design weights, not of the rows
    weighted = [] if uniform else ["weighted"]
    differences = f"largest differences (standard deviations{', weighted' if weighted else ''})"
    titles = ["cluster", "rows", share, *weighted, differences]
    return listing(titles, "r" * (len(titles) - 1) + "l", rows)


def show_audit(found: Audit) -> Group:
    """Answer, numbers, candidates, notices, strongest pairs and notes of the report."""
    page = page_of_audit(found)
    tables = [table for section in page.sections for table in section.tables]
    return Group(
        facts(
            ("data", page.subject),
            ("suspects", suspects_in_words(found.suspects)),
            *((tile.label.lower(), f"{tile.value} {tile.note}") for tile in page.tiles),
        ),
        *(_first_rows(t) for t in tables if t.rows and t.key in TABLES),
        facts(
            ("correction worthwhile?", verdict_line(found.worth)),
            *(("note", note) for note in page.notes),
        ),
    )


def _first_rows(table: ReportTable) -> Table:
    rows = [
        [form(value, column.form) for value, column in zip(row, table.columns)]
        for row in table.rows[:MOST_ROWS]
    ]
    if len(table.rows) > MOST_ROWS:
        rows.append(["...", f"{len(table.rows) - MOST_ROWS} more in the report"])
    shown = [i for i, column in enumerate(table.columns) if not column.name.startswith("Gain")]
    rows = [[row[i] for i in shown if i < len(row)] for row in rows]
    columns = [table.columns[i] for i in shown]
    sides = "".join("l" if column.form == "text" else "r" for column in columns)
    titles = (column.name for column in columns)
    return listing((t if t[0] == "p" else t.lower() for t in titles), sides, rows)


def show_comparison(found: Comparison, choice: Any = None) -> Group:
    """A row of numbers for each method, and the verdict; before it the selection of the number of
    clusters, if there was one."""
    suspects = found.suspects[:MOST_SUSPECTS]
    rows = []
    for row in found.rows:
        follows = {a.suspect: a.value for a in row.associations}
        numbers = (
            row.explained_variance,
            *(follows.get(name) for name in suspects),
            *(row.effective_size, row.mean_difference, row.silhouette, row.agreement),
        )
        rows.append((row.title, *map(number, numbers)))
    titles = [
        *("method", "explained\nvariance", *(f"assoc.\n{name}" for name in suspects)),
        *("effective\nsize", "mean\ndifference", "silhouette", "ARI with\nk-means"),
    ]
    table = listing(titles, "l" + "r" * (len(titles) - 1), rows)
    table.padding = (0, 1, 0, 0)
    for column in table.columns[1:]:
        column.no_wrap = True
    return Group(
        facts(
            ("rows", f"{found.n_rows:,}"),
            ("columns", f"{found.n_columns:,}"),
            ("suspects", suspects_in_words(found.suspects)),
            ("clusters", _selected(choice) or f"{found.n_clusters}"),
        ),
        *([] if choice is None else [_candidates(choice)]),
        table,
        facts(
            ("verdict", verdict_line(found.summary)),
            *(("skipped", f"{method}: {why}") for method, why in found.skipped),
        ),
    )


def show_scores(
    scores: dict[str, MethodScores], found: Diagnostics, rows: int, rate: float, samples: int
) -> Group:
    """A row of numbers for each method, and a bar for its score in the population; explanations,
    and the verdict on the last fit."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    for title in ("", "population"):
        table.add_column(title, no_wrap=True)
    for title in ("", "sample", "effective size", "mean difference"):
        table.add_column(title, justify="right")
    for name, (population, *others) in scores.items():
        style = "bold green" if name.startswith("unskew") else ""
        filled = round(20 * max(0.0, min(1.0, population)))
        bar = Text("━" * filled, style or "blue") + Text("·" * (20 - filled), "bright_black")
        table.add_row(Text(name, style), bar, Text(number(population), style), *map(number, others))
    of = f"mean of {samples} samples" if samples > 1 else "one sample"
    return Group(
        ABOUT_DEMO.format(rows=rows, rate=rate, of=of),
        table,
        ABOUT_SCORES,
        facts(("verdict", verdict_line(found.verdict))),
    )
