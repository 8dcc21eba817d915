"""Results as tables for the terminal and as plain values for JSON."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import Any

import numpy as np
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ._inputs import Study

COLOURS = {"helped": "green", "no effect": "yellow", "harmed": "red", "yes": "green",
           "maybe": "yellow", "no": "yellow"}  # fmt: skip
# Above this share of remaining imbalance, --adjust both is suggested.
MUCH_LEFT = 0.3
MEASURES = {"cramers_v": "Cramér's V", "eta": "correlation ratio", "r": "|r|"}
PLURAL = {"number": "numbers", "category": "categories", "date": "dates"}


def plain(value: Any) -> Any:
    """Convert dataclasses, arrays and numpy scalars for JSON; non-finite numbers become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def described(study: Study, estimator: Any) -> dict[str, Any]:
    encoder = getattr(estimator, "encoder_", None)
    kinds, ignored = ({}, {}) if encoder is None else (encoder.kinds_, encoder.ignored_)
    return {
        "rows": len(study),
        "columns": list(study.names),
        "kinds": {str(k): v for k, v in kinds.items()},
        "ignored": {str(k): str(v) for k, v in ignored.items()},
        "suspects": [s if isinstance(s, str) else study.names[s] for s in study.suspects or ()],
    }


def _voting(estimator: Any) -> int:
    return sum(run["votes"] for run in estimator.runs_)


def fitted(estimator: Any, seconds: float) -> dict[str, Any]:
    result = {
        "effective_size": estimator.effective_sample_size_,
        "kish_size": estimator.kish_size_,
        "imbalance_before": estimator.initial_imbalance_,
        "imbalance_after": estimator.imbalance_,
        "objective": estimator.objective_,
        "iterations": estimator.n_iter_,
        "status": estimator.status_,
        "seconds": round(seconds, 3),
    }
    if hasattr(estimator, "stability_"):
        result |= {
            "runs": estimator.n_runs,
            "voting_runs": _voting(estimator),
            "n_clusters": estimator.n_clusters_,
            "stability": estimator.stability_,
            "confidence": float(estimator.confidence_.mean()),
            "choice": estimator.choice_,  # selection of n_clusters; None if it was given
        }
    if hasattr(estimator, "labels_"):
        result["clusters"] = estimator.cluster_summary_
    return plain(result)


# --------------------------------------------------------------------------------------- terminal


def facts(*rows: tuple[str, Any]) -> Table:
    """Two columns, a bold name and a text; rows without a text are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        if text:
            grid.add_row(name, text)
    return grid


def listing(titles: list[str], sides: str, rows: Any, bold: int | None = None) -> Table:
    """A table with a row of titles; `sides` has l (left) or r (right) for each column."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for title, side in zip(titles, sides):
        table.add_column(title, justify="left" if side == "l" else "right", overflow="fold")
    for k, cells in enumerate(rows):
        table.add_row(*cells, style="bold" if k == bold else "")
    return table


def verdict_line(verdict: Any) -> Text:
    style = f"bold {COLOURS.get(verdict.word, '')}"
    return Text.assemble((f"{verdict.word.capitalize()}. ", style), verdict.sentence)


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def several(names: Any, most: int = 6) -> str:
    names = list(names)
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def fit_summary(
    study: Study, estimator: Any, found: Any, seconds: float, written: dict[str, str]
) -> Group:
    info = described(study, estimator)
    n = f"{len(study):,}"
    kinds = Counter(info["kinds"].values())
    parts = [f"{c} {kind if c == 1 else PLURAL.get(kind, kind)}" for kind, c in kinds.items()]
    before, after = estimator.initial_imbalance_, estimator.imbalance_
    left = f" ({after / before:.0%} left)" if before > 0 else ""
    choice = getattr(estimator, "choice_", None)
    shown: list[Any] = [
        facts(
            ("rows", n if study.sample_weight is None else f"{n}, with design weights"),
            ("columns", f"{len(study.names):,}{': ' if parts else ', not encoded'}"
             f"{', '.join(parts)}"),
            ("ignored", several(f"{name} ({why})" for name, why in info["ignored"].items())),
            ("suspects", several(info["suspects"])),
            ("effective sample size", f"{estimator.effective_sample_size_:.2f} ({n} rows are "
             f"equivalent to {estimator.kish_size_:,.0f})"),
            ("imbalance", f"{before:.4g} -> {after:.4g}{left}"),
            ("fit", f"{estimator.status_}, {estimator.n_iter_} iterations, {seconds:.1f} s"),
            ("runs", _agreement(estimator) if hasattr(estimator, "stability_") else ""),
            ("clusters", _chosen(estimator, choice) if choice is not None else ""),
        )
    ]  # fmt: skip
    if choice is not None:
        shown.append(_candidates(choice))
    if hasattr(estimator, "labels_"):
        shown.append(_clusters(estimator))
    hint = (
        "much of the imbalance remains; --adjust both also removes the effects of the "
        "suspects on other columns"
    )
    ending = facts(
        ("verdict", None if found is None else verdict_line(found.verdict)),
        ("hint", hint if _effects_are_left(study, estimator) else ""),
        ("written", several(written.values(), 9)),
    )
    return Group(*shown, ending)


def _agreement(estimator: Any) -> str:
    if estimator.n_runs == 1:
        return "1, so agreement is undefined; --runs 20 estimates the stability of the clusters"
    voting, of_whom = _voting(estimator), ""
    if voting < estimator.n_runs:
        of_whom = f"; they found different solutions, so only the best {voting} vote"
    return (
        f"{estimator.n_runs}, mean agreement of two runs {estimator.stability_:.2f} (1 = the same "
        f"clusters){of_whom}; mean confidence of a row {estimator.confidence_.mean():.2f}"
    )


def _chosen(estimator: Any, choice: Any) -> str:
    first, last = choice.candidates[0].value, choice.candidates[-1].value
    return f"{estimator.n_clusters_}, selected from {first:g} to {last:g} by {choice.criterion}"


def _effects_are_left(study: Study, estimator: Any) -> bool:
    """Whether only weights were used and much of the imbalance remains."""
    if not study.suspects or getattr(estimator, "adjust", None) != "weights":
        return False
    dense = not hasattr(study.X, "tocsr")  # effects would make a sparse matrix dense
    return dense and estimator.imbalance_ > MUCH_LEFT * estimator.initial_imbalance_ > 0


def _candidates(choice: Any) -> Table:
    rows = [
        (f"{c.value:g}", number(c.silhouette), number(c.stability), number(c.explained))
        for c in choice.candidates
    ]
    titles = ["clusters tried", "silhouette", "stability", "explained variance"]
    chosen = [c.value for c in choice.candidates].index(choice.chosen)
    return listing(titles, "rrrr", rows, bold=chosen)


def _clusters(estimator: Any) -> Table:
    rows = [
        (
            str(each["cluster"]),
            f"{each['size']:,}",
            f"{each['share']:.0%}",
            f"{each['weighted_share']:.0%}",
            ", ".join(f"{f['feature']} {f['difference']:+.1f}" for f in each["features"][:4]),
        )
        for each in estimator.cluster_summary_
    ]
    titles = ["cluster", "rows", "share", "weighted", "largest differences"]
    return listing(titles, "rrrrl", rows)


def predicted(table: Any, sizes: np.ndarray, written: dict[str, str]) -> Group:
    grid = facts(
        ("rows", f"{len(table):,}"),
        ("clusters", ", ".join(f"{k}: {size:,}" for k, size in enumerate(sizes))),
        ("written", several(written.values(), 9)),
    )
    return Group(grid)


def audit_summary(found: Any, written: dict[str, str]) -> Group:
    used = "" if found.n_rows_used == found.n_rows else f" ({found.n_rows_used:,} sampled)"
    parts: list[Any] = [
        facts(
            ("rows", f"{found.n_rows:,}{used}"),
            ("columns", f"{found.n_columns:,}"),
            (
                "mean difference",
                f"{found.typical_difference:.2f} standard deviations; {found.by_chance:.2f} "
                "expected by chance",
            ),
        )
    ]
    if found.pairs:
        pairs = [
            (p.first, p.second, number(p.difference), number(p.association),
             MEASURES.get(p.kind, p.kind))
            for p in found.pairs[:10]
        ]  # fmt: skip
        titles = ["strongest pairs", "", "difference", "association", ""]
        parts.append(listing(titles, "llrrl", pairs))
    if found.notices:
        notices = [(notice.column, notice.sentence) for notice in found.notices[:12]]
        if len(found.notices) > 12:
            notices.append(("...", f"{len(found.notices) - 12} more; --report has all"))
        parts.append(listing(["notice", "reason"], "ll", notices))
    ending = facts(
        ("worthwhile", verdict_line(found.worth)), ("written", several(written.values(), 9))
    )
    return Group(*parts, ending)


def comparison_summary(found: Any, written: dict[str, str]) -> Group:
    suspects = list(found.suspects)[:3]
    rows = []
    for row in found.rows:
        follows = {a.suspect: a.value for a in row.associations}
        numbers = (
            row.explained_variance,
            *(follows.get(name) for name in suspects),
            *(row.effective_size, row.imbalance_left, row.silhouette, row.agreement),
        )
        rows.append((row.title, *map(number, numbers)))
    titles = [
        *("method", "explained\nvariance", *(f"assoc.\n{name}" for name in suspects)),
        *("effective\nsize", "imbalance\nleft", "silhouette", "ARI with\nk-means"),
    ]
    table = listing(titles, "l" + "r" * (len(titles) - 1), rows)
    table.padding = (0, 1, 0, 0)
    for column in table.columns[1:]:
        column.no_wrap = True
    return Group(
        facts(("rows", f"{found.n_rows:,}"), ("columns", f"{found.n_columns:,}")),
        table,
        facts(
            ("verdict", verdict_line(found.summary)),
            *(("skipped", f"{method}: {why}") for method, why in found.skipped),
            ("written", several(written.values(), 9)),
        ),
    )
