"""The commands fit, predict, weigh, audit and compare. Each returns an exit code."""

from __future__ import annotations

import time
from typing import Annotated, Any

import numpy as np
import typer

from .._io import FileError, InputTable, table_bytes
from . import _tables
from ._block_table import BlockTable
from ._config import nearest
from ._inputs import Study, find, make_encoder, make_study, named, one, read_margins, row_names
from ._options import (
    DATA,
    CheckOptions,
    CheckpointOptions,
    ClusterOptions,
    ColumnOptions,
    EncodingOptions,
    IdOptions,
    InitOptions,
    IterOptions,
    LabelOptions,
    ModelOptions,
    ReadOptions,
    ReportOptions,
    RunOptions,
    SeedOptions,
    StrengthOptions,
    SuspectOptions,
    WeightOptions,
)
from ._session import Session

MODEL = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="File of fit --model or weigh --model.", show_default=False
    ),
]


def fit(
    run: Session,
    data: DATA,
    clusters: RunOptions,
    bias: SuspectOptions,
    choice: ColumnOptions,
    rows: IdOptions,
    report: ReportOptions,
    labels: LabelOptions,
    weights: WeightOptions,
    model: ModelOptions,
    checks: CheckOptions,
    strengths: StrengthOptions,
    starts: InitOptions,
    coding: EncodingOptions,
    seeding: SeedOptions,
    reading: ReadOptions,
    checkpointing: CheckpointOptions,
) -> int:
    """Cluster a table by k-means with jointly learned decorrelation weights.

    Prints a summary and a verdict. The options of the run are saved next to the outputs as
    NAME.run.toml, which can be passed to --config.
    """
    _check_checks(checks)
    tables = {"--labels": labels.labels, "--weights": weights.weights}
    if clusters.runs and checkpointing.checkpoint is not None:
        raise FileError("--checkpoint should not be given with --runs; it is for a single fit")
    with run.outputs(
        [data],
        tables=tables,
        report=report.report,
        model=model.model,
        checkpoint=checkpointing.checkpoint,
    ):
        study = make_study(run.read(data, reading), choice, bias, rows)
        parameters = _parameters(run, study, strengths, coding, starts.max_iter)
        parameters["random_state"] = seeding.seed
        estimator = _estimator(clusters, starts, parameters)
        estimator.checkpoint = checkpointing.checkpoint
        seconds = _fit(run, study, estimator)
        found = _diagnose(run, study, estimator, report, checks)
        if labels.labels is not None:
            found_for_rows = {"cluster": estimator.labels_}
            if clusters.runs:
                found_for_rows["confidence"] = estimator.confidence_
            content = _table(labels.labels, study.ids, **found_for_rows)
            run.write("--labels", labels.labels, content)
        _write_weights(run, study, estimator, weights.weights)
        _write_model(run, estimator, model.model)
        _write_report(run, found, report.report)
    failed = _failed(estimator, found, checks)
    shown = named(estimator, study)
    run.terminal.show(_tables.fit_summary(study, shown, found, seconds, run.written))
    _print_failures(run, failed)
    run.document(
        data=_tables.described(study, estimator),
        result=_tables.fitted(shown, seconds),
        verdict=_tables.verdict(found),
        checks_failed=failed,
    )
    return 1 if failed else 0


def weigh(
    run: Session,
    data: DATA,
    bias: SuspectOptions,
    choice: ColumnOptions,
    rows: IdOptions,
    weights: WeightOptions,
    report: ReportOptions,
    model: ModelOptions,
    checks: CheckOptions,
    strengths: StrengthOptions,
    coding: EncodingOptions,
    steps: IterOptions,
    reading: ReadOptions,
    checkpointing: CheckpointOptions,
) -> int:
    """Learn weights without clusters: one per row, under which columns are decorrelated.

    They are written to --weights or to standard output.
    """
    from .. import DecorrelationWeights

    _check_checks(checks)
    place = weights.weights
    if place is None and not run.talk.json:
        place = "-"
    with run.outputs(
        [data],
        tables={"--weights": place},
        report=report.report,
        model=model.model,
        checkpoint=checkpointing.checkpoint,
    ):
        study = make_study(run.read(data, reading), choice, bias, rows)
        estimator = DecorrelationWeights(
            **_parameters(run, study, strengths, coding, steps.max_iter),
            checkpoint=checkpointing.checkpoint,
        )
        seconds = _fit(run, study, estimator)
        found = _diagnose(run, study, estimator, report, checks)
        _write_weights(run, study, estimator, place)
        _write_model(run, estimator, model.model)
        _write_report(run, found, report.report)
    failed = _failed(estimator, found, checks)
    shown = named(estimator, study)
    run.terminal.show(_tables.fit_summary(study, shown, found, seconds, run.written))
    _print_failures(run, failed)
    result = _tables.fitted(shown, seconds)
    if place is None:
        result["weights"] = [float(w) for w in estimator.weights_]
    run.document(
        data=_tables.described(study, estimator),
        result=result,
        verdict=_tables.verdict(found),
        checks_failed=failed,
    )
    return 1 if failed else 0


def predict(
    run: Session,
    model: MODEL,
    data: DATA,
    rows: IdOptions,
    choice: ColumnOptions,
    labels: LabelOptions,
    weights: WeightOptions,
    reading: ReadOptions,
) -> int:
    """Predict the clusters of new rows with a stored model.

    They are written to --labels or to standard output. Columns unknown to the model are ignored;
    --drop and --keep are for matrices, whose columns have no names.
    """
    from .. import load

    place = labels.labels
    if place is None and weights.weights is None and not run.talk.json:
        place = "-"
    tables = {"--labels": place, "--weights": weights.weights}
    with run.outputs([model, data], tables=tables, record=False):
        estimator = load(model)
        table = run.read(data, reading)
        X = _for_model(table, estimator, choice, rows)
        ids = row_names(table, one(table, rows.id, "--id"))
        found = learned = None
        with run.about(table.name), run.terminal.working("predicting"):
            if hasattr(estimator, "predict"):
                found = estimator.predict(X)
            elif place is not None:
                raise FileError(f"{model}: is a model of weights without clusters; use --weights")
            if weights.weights is not None:
                learned = estimator.predict_weights(X)
        if place is not None:
            run.write("--labels", place, _table(place, ids, cluster=found))
        if weights.weights is not None:
            run.write("--weights", weights.weights, _table(weights.weights, ids, weight=learned))
    result: dict[str, Any] = {"rows": len(table)}
    if found is not None:
        sizes = np.bincount(found, minlength=estimator._K)
        result["sizes"] = [int(size) for size in sizes]
        run.terminal.show(_tables.predicted(table, sizes, run.written))
        if place is None:
            result["labels"] = [int(label) for label in found]
    run.document(result=result)
    return 0


def audit(
    run: Session,
    data: DATA,
    bias: SuspectOptions,
    choice: ColumnOptions,
    report: ReportOptions,
    coding: EncodingOptions,
    seeding: SeedOptions,
    reading: ReadOptions,
) -> int:
    """Audit a table before clustering: which columns predict each other, and whether
    decorrelation is worthwhile.

    Lists columns that may reflect how the data were collected.
    """
    from ..diagnostics import audit as run_audit

    with run.outputs([data], report=report.report):
        study = make_study(run.read(data, reading), choice, bias, IdOptions())
        with run.about(study.table.name), run.terminal.working("comparing pairs of columns"):
            found = run_audit(
                study.X,
                suspects=study.suspects,
                sample_weight=study.sample_weight,
                encoder=make_encoder(study, coding),
                random_state=seeding.seed,
                feature_names=None if study.table.is_frame else study.names,
            )
        _write_report(run, found, report.report)
    run.terminal.show(_tables.audit_summary(found, run.written))
    run.document(audit=_tables.plain(found))
    return 0


def compare(
    run: Session,
    data: DATA,
    clusters: ClusterOptions,
    bias: SuspectOptions,
    choice: ColumnOptions,
    report: ReportOptions,
    strengths: StrengthOptions,
    starts: InitOptions,
    coding: EncodingOptions,
    seeding: SeedOptions,
    reading: ReadOptions,
) -> int:
    """Compare DCKM with baselines on the same table.

    Baselines: k-means, k-means with suspects dropped or regressed out, two-step methods.
    """
    from ..diagnostics import compare as run_compare

    with run.outputs([data], report=report.report):
        study = make_study(run.read(data, reading), choice, bias, IdOptions())
        parameters = _parameters(run, study, strengths, coding, starts.max_iter)
        parameters["random_state"] = seeding.seed
        parameters.pop("suspects")
        with run.about(study.table.name), run.terminal.progress("fitting each method"):
            found = run_compare(
                study.X,
                clusters.clusters,
                suspects=study.suspects,
                sample_weight=study.sample_weight,
                cluster_on=starts.cluster_on.value,
                adjust=_one_fit(starts),
                init=starts.init.value,
                feature_names=None if study.table.is_frame else study.names,
                **_count_restarts(starts),
                **parameters,
            )
        _write_report(run, found, report.report)
    run.terminal.show(_tables.comparison_summary(found, run.written))
    run.document(comparison=_tables.plain(found))
    return 0


# ---------------------------------------------------------------------------------- shared steps


def _parameters(
    run: Session, study: Study, strengths: StrengthOptions, coding: EncodingOptions, max_iter: int
) -> dict[str, Any]:
    """Parameters shared by DCKM and DecorrelationWeights."""
    asked = {
        "balance_strength": strengths.balance_strength,
        "spread_strength": strengths.spread_strength,
        "tol": strengths.tol,
    }
    return {name: value for name, value in asked.items() if value is not None} | {
        "min_effective_sample_size": strengths.min_effective_sample_size,
        "margins": read_margins(study, strengths.margin),
        "encoder": make_encoder(study, coding),
        "n_bins": strengths.bins,
        "max_iter": max_iter,
        "n_threads": strengths.threads,
        "suspects": study.suspects,
    }


def _estimator(clusters: RunOptions, starts: InitOptions, parameters: dict[str, Any]) -> Any:
    """DCKM, or a consensus of runs."""
    from .. import DCKM, ConsensusDCKM

    if clusters.runs < 0:
        raise FileError(f"--runs {clusters.runs} should be >= 0")
    given: Any = clusters.clusters
    if given == "auto" and not clusters.runs:
        raise FileError("--clusters auto needs several runs; add --runs 20")
    parameters |= {"cluster_on": starts.cluster_on.value, "init": starts.init.value}
    parameters |= _count_restarts(starts)
    if not clusters.runs:
        return DCKM(given, adjust=_one_fit(starts), **parameters)
    return ConsensusDCKM(given, n_runs=clusters.runs, adjust=starts.adjust.value, **parameters)


def _one_fit(starts: InitOptions) -> str:
    """Adjustment of a single fit, for which auto means weights."""
    return "weights" if starts.adjust.value == "auto" else starts.adjust.value


def _count_restarts(starts: InitOptions) -> dict[str, Any]:
    return {} if starts.n_init is None else {"n_init": starts.n_init}


def _fit(run: Session, study: Study, estimator: Any) -> float:
    table, begin = study.table, time.monotonic()
    if isinstance(table, BlockTable) and table.is_decoded_often(len(study.names)):
        run.terminal.line(
            f"unskew {run.verb}: {table.name} is decoded anew in each pass; --cache FOLDER does it "
            "once"
        )
    with run.about(study.table.name), run.terminal.progress("fitting"):
        estimator.fit(study.X, sample_weight=study.sample_weight)
    return time.monotonic() - begin


def _diagnose(
    run: Session, study: Study, estimator: Any, report: ReportOptions, checks: CheckOptions
) -> Any:
    """Diagnostics; skipped with --quiet if no report, check or JSON needs them."""
    asked = report.report is not None or checks.fail_on is not None or run.talk.json
    if run.terminal.quiet and not asked:
        return None
    from ..diagnostics import diagnose

    words = "comparing with k-means" if hasattr(estimator, "labels_") else "computing diagnostics"
    with run.about(study.table.name), run.terminal.working(words):
        return diagnose(named(estimator, study), study.X, study.sample_weight)


def _check_checks(checks: CheckOptions) -> None:
    share = checks.fail_below
    if share is not None and not 0 < share <= 1:
        raise FileError(f"--fail-below {share:g} should be in (0, 1]")


def _failed(estimator: Any, found: Any, checks: CheckOptions) -> list[str]:
    failed = []
    share, size = checks.fail_below, estimator.effective_sample_size_
    if share is not None and size < share:
        failed.append(f"effective sample size {size:.3g} is below --fail-below {share:g}")
    if checks.fail_on is not None:
        bad = {"harmed": ("harmed",), "no-effect": ("harmed", "no effect")}[checks.fail_on.value]
        if found.verdict.word in bad:
            failed.append(
                f"the verdict is {found.verdict.word!r}, with --fail-on {checks.fail_on.value}"
            )
    return failed


def _print_failures(run: Session, failed: list[str]) -> None:
    for sentence in failed:
        run.terminal.error(f"check failed: {sentence}")


def _table(path: str, ids: tuple[str, Any], **columns: Any) -> bytes:
    name, values = ids
    return table_bytes(path, {name: values, **columns})


def _write_weights(run: Session, study: Study, estimator: Any, path: str | None) -> None:
    if path is None:
        return
    columns = {"weight": estimator.weights_}
    if study.sample_weight is not None:
        columns["combined_weight"] = estimator.combined_weights_
    run.write("--weights", path, _table(path, study.ids, **columns))


def _write_model(run: Session, estimator: Any, path: str | None) -> None:
    if path is None:
        return
    from .. import save

    estimator.verbose, estimator.checkpoint = 0, None  # options of the run, not of the model
    run.write("--model", path, lambda place: save(estimator, place))


def _write_report(run: Session, found: Any, path: str | None) -> None:
    if path is None:
        return
    from .. import report

    form = {".md": report.to_markdown, ".json": report.to_json}
    make = next((f for suffix, f in form.items() if path.lower().endswith(suffix)), report.to_html)
    with run.terminal.working("writing the report"):
        content = make(found)
    run.write("--report", path, content)


def _for_model(
    table: InputTable | BlockTable, estimator: Any, choice: ColumnOptions, rows: IdOptions
) -> Any:
    """The columns that a model was fitted to, from a table that may have others."""
    dropped = set(find(table, choice.drop, "--drop"))
    kept = set(find(table, choice.keep, "--keep")) or set(table.names)
    given = [n for n in table.names if n in kept and n not in dropped and n != rows.id]
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None:
        for name in known:
            if name not in given:
                raise FileError(
                    f"{table.name}: has no column {name!r}, which the model was fitted to"
                    f"{nearest(str(name), given)}"
                )
        X = table.select(list(known))
        if table.is_frame:
            return X
        if isinstance(table, BlockTable):
            raise FileError(
                f"{table.name}: is a matrix, but the model was fitted to a table with names; read "
                "it without --blocks"
            )
        import polars

        return polars.DataFrame(np.asarray(X), schema=list(known))
    if len(given) != estimator.n_features_in_:
        raise FileError(
            f"{table.name}: has {len(given)} columns to predict from, but the model was fitted to "
            f"a matrix of {estimator.n_features_in_}; choose them with --drop or --keep"
        )
    X = table.select(given)
    if not table.is_frame:
        return X
    if isinstance(table, BlockTable):
        raise FileError(
            f"{table.name}: is a table, but the model was fitted to a matrix without names; read "
            "it without --blocks"
        )
    text = [name for name, kind in X.schema.items() if not kind.is_numeric()]
    if text:
        raise FileError(
            f"{table.name}: column {text[0]!r} has dtype {X.schema[text[0]]}; the model was fitted "
            "to a matrix of numbers"
        )
    return X.to_numpy()
