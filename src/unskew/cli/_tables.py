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


def plain(value: Any) -> Any:
    """Convert dataclasses, arrays and numpy scalars for JSON; non-finite numbers become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value


def verdict(found: Any) -> Any:
    return None if found is None else plain(found.verdict)


def kinds_of(estimator: Any) -> dict[str, str]:
    encoder = getattr(estimator, "encoder_", None)
    return {} if encoder is None else {str(k): v for k, v in encoder.kinds_.items()}


def described(study: Study, estimator: Any) -> dict[str, Any]:
    encoder = getattr(estimator, "encoder_", None)
    ignored = {} if encoder is None else encoder.ignored_
    return {
        "rows": len(study),
        "columns": list(study.names),
        "kinds": kinds_of(estimator),
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
        result["runs"] = estimator.n_runs
        result["voting_runs"] = _voting(estimator)
        result["n_clusters"] = estimator.n_clusters_
        result["stability"] = estimator.stability_
        result["confidence"] = float(estimator.confidence_.mean())
        result["choice"] = estimator.choice_  # selection of n_clusters; None if it was given
    if hasattr(estimator, "labels_"):
        result["clusters"] = estimator.cluster_summary_
    return plain(result)


# --------------------------------------------------------------------------------------- terminal


def _facts() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _listing(*columns: tuple[str, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for title, side in columns:
        table.add_column(Text(title), justify=side, overflow="fold")  # type: ignore[arg-type]
    return table


def _verdict_line(word: str, sentence: str) -> Text:
    return Text.assemble((f"{word.capitalize()}. ", f"bold {COLOURS.get(word, '')}"), sentence)


def _number(value: Any, form: str = ".2f") -> str:
    return "" if value is None else format(value, form)


def _several(names: list[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _columns_line(study: Study, estimator: Any) -> str:
    kinds = Counter(kinds_of(estimator).values())
    plural = {
        "number": "numbers",
        "category": "categories",
        "date": "dates",
        "constant": "constant",
    }
    parts = [
        f"{count} {kind if count == 1 else plural.get(kind, kind)}" for kind, count in kinds.items()
    ]
    return f"{len(study.names):,}" + (f": {', '.join(parts)}" if parts else ", not encoded")


def _written(grid: Table, written: dict[str, str]) -> None:
    if written:
        grid.add_row("written", _several(list(written.values()), 9))


def fit_summary(
    study: Study, estimator: Any, found: Any, seconds: float, written: dict[str, str]
) -> Group:
    grid = _facts()
    weighted = "" if study.sample_weight is None else ", with design weights"
    grid.add_row("rows", f"{len(study):,}{weighted}")
    grid.add_row("columns", _columns_line(study, estimator))
    info = described(study, estimator)
    if info["ignored"]:
        left_out = [f"{name} ({why})" for name, why in info["ignored"].items()]
        grid.add_row("ignored", _several(left_out))
    if info["suspects"]:
        grid.add_row("suspects", _several(info["suspects"]))
    grid.add_row(
        "effective sample size",
        f"{estimator.effective_sample_size_:.2f} "
        f"({len(study):,} rows are equivalent to {estimator.kish_size_:,.0f})",
    )
    before, after = estimator.initial_imbalance_, estimator.imbalance_
    left = f" ({after / before:.0%} left)" if before > 0 else ""
    grid.add_row("imbalance", f"{before:.4g} -> {after:.4g}{left}")
    grid.add_row("fit", f"{estimator.status_}, {estimator.n_iter_} iterations, {seconds:.1f} s")
    if hasattr(estimator, "stability_"):
        voting, of_whom = _voting(estimator), ""
        if voting < estimator.n_runs:
            of_whom = f"; they found different solutions, so only the best {voting} vote"
        sure = f"mean confidence of a row {estimator.confidence_.mean():.2f}"
        agreement = (
            f"mean agreement of two runs {estimator.stability_:.2f} (1 = the same clusters)"
            f"{of_whom}"
        )
        if estimator.n_runs == 1:
            agreement, sure = (
                "so agreement is undefined",
                "--runs 20 estimates the stability of the clusters",
            )
        grid.add_row("runs", f"{estimator.n_runs}, {agreement}; {sure}")
        if estimator.choice_ is not None:
            tried = [f"{each.value:g}" for each in estimator.choice_.candidates]
            found_k = f"{estimator.n_clusters_}, selected from {tried[0]} to {tried[-1]}"
            grid.add_row("clusters", f"{found_k} by {estimator.choice_.criterion}")
    parts: list[Any] = [grid]
    if getattr(estimator, "choice_", None) is not None:
        parts.append(_candidates(estimator.choice_))
    if hasattr(estimator, "labels_"):
        parts.append(_clusters(estimator))
    ending = _facts()
    if found is not None:
        ending.add_row("verdict", _verdict_line(found.verdict.word, found.verdict.sentence))
    if _effects_are_left(study, estimator):
        ending.add_row(
            "hint",
            "much of the imbalance remains; --adjust both also removes the effects of the "
            "suspects on other columns",
        )
    _written(ending, written)
    return Group(*parts, ending)


def _effects_are_left(study: Study, estimator: Any) -> bool:
    """Whether only weights were used and much of the imbalance remains."""
    if not study.suspects or getattr(estimator, "adjust", None) != "weights":
        return False
    dense = not hasattr(study.X, "tocsr")  # effects would make a sparse matrix dense
    return dense and estimator.imbalance_ > MUCH_LEFT * estimator.initial_imbalance_ > 0


def _candidates(choice: Any) -> Table:
    table = _listing(
        ("clusters tried", "right"), ("silhouette", "right"), ("stability", "right"),
        ("explained variance", "right"),
    )  # fmt: skip
    for each in choice.candidates:
        numbers = (each.silhouette, each.stability, each.explained)
        style = "bold" if each.value == choice.chosen else ""
        table.add_row(f"{each.value:g}", *(f"{v:.2f}" for v in numbers), style=style)
    return table


def _clusters(estimator: Any) -> Table:
    table = _listing(
        ("cluster", "right"), ("rows", "right"), ("share", "right"), ("weighted", "right"),
        ("largest differences", "left"),
    )  # fmt: skip
    for each in estimator.cluster_summary_:
        marks = [f"{f['feature']} {f['difference']:+.1f}" for f in each["features"][:4]]
        table.add_row(
            str(each["cluster"]),
            f"{each['size']:,}",
            f"{each['share']:.0%}",
            f"{each['weighted_share']:.0%}",
            Text(", ".join(marks)),
        )
    return table


def predicted(table: Any, sizes: np.ndarray, written: dict[str, str]) -> Group:
    grid = _facts()
    grid.add_row("rows", f"{len(table):,}")
    grid.add_row("clusters", ", ".join(f"{k}: {size:,}" for k, size in enumerate(sizes)))
    _written(grid, written)
    return Group(grid)


def audit_summary(found: Any, written: dict[str, str]) -> Group:
    grid = _facts()
    used = "" if found.n_rows_used == found.n_rows else f" ({found.n_rows_used:,} sampled)"
    grid.add_row("rows", f"{found.n_rows:,}{used}")
    grid.add_row("columns", f"{found.n_columns:,}")
    grid.add_row(
        "mean difference",
        f"{found.typical_difference:.2f} standard deviations; {found.by_chance:.2f} expected by "
        "chance",
    )
    parts: list[Any] = [grid]
    if found.pairs:
        pairs = _listing(
            ("strongest pairs", "left"), ("", "left"), ("difference", "right"),
            ("association", "right"), ("", "left"),
        )  # fmt: skip
        for pair in found.pairs[:10]:
            pairs.add_row(
                Text(pair.first),
                Text(pair.second),
                f"{pair.difference:.2f}",
                f"{pair.association:.2f}",
                Text(MEASURES.get(pair.kind, pair.kind)),
            )
        parts.append(pairs)
    if found.notices:
        notices = _listing(("notice", "left"), ("reason", "left"))
        for notice in found.notices[:12]:
            notices.add_row(Text(notice.column), Text(notice.sentence))
        if len(found.notices) > 12:
            notices.add_row("...", f"{len(found.notices) - 12} more; --report has all")
        parts.append(notices)
    ending = _facts()
    ending.add_row("worthwhile", _verdict_line(found.worth.word, found.worth.sentence))
    _written(ending, written)
    return Group(*parts, ending)


def comparison_summary(found: Any, written: dict[str, str]) -> Group:
    suspects = list(found.suspects)[:3]
    table = _listing(
        ("method", "left"),
        ("explained\nvariance", "right"),
        *((f"assoc.\n{name}", "right") for name in suspects),
        ("effective\nsize", "right"),
        ("imbalance\nleft", "right"),
        ("silhouette", "right"),
        ("ARI with\nk-means", "right"),
    )
    table.padding = (0, 1, 0, 0)
    for column in table.columns[1:]:
        column.no_wrap = True
    for row in found.rows:
        follows = {a.suspect: a.value for a in row.associations}
        table.add_row(
            Text(row.title),
            _number(row.explained_variance),
            *(_number(follows.get(name)) for name in suspects),
            _number(row.effective_size),
            _number(row.imbalance_left),
            _number(row.silhouette),
            _number(row.agreement),
        )
    grid = _facts()
    grid.add_row("rows", f"{found.n_rows:,}")
    grid.add_row("columns", f"{found.n_columns:,}")
    ending = _facts()
    ending.add_row("summary", _verdict_line(found.summary.word, found.summary.sentence))
    for method, why in found.skipped:
        ending.add_row("skipped", Text(f"{method}: {why}"))
    _written(ending, written)
    return Group(grid, table, ending)
