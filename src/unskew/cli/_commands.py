"""The commands fit, predict, weigh, audit and compare. Each returns an exit code.

A command declares its options as parameters, under the names of the estimators' parameters where
there is one; the steps that commands share find all of them in `Session.options`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import typer

from .._io import FileError
from . import _options as opt
from . import _tables
from ._block_table import BlockTable
from ._inputs import (
    Study,
    for_model,
    make_encoder,
    make_estimator,
    make_study,
    named,
    one,
    row_names,
)
from ._session import Session, session


def fit(
    context: typer.Context,
    data: opt.Data,
    clusters: opt.ClustersOrAuto = "8",
    runs: opt.Runs = 0,
    suspect: opt.Suspect = None,
    weight_column: opt.WeightColumn = None,
    drop: opt.Drop = None,
    keep: opt.Keep = None,
    id: opt.Id = None,
    report: opt.Report = None,
    labels: opt.Labels = None,
    weights: opt.Weights = None,
    model: opt.Model = None,
    fail_below: opt.FailBelow = None,
    fail_on: opt.FailOn = None,
    balance_strength: opt.BalanceStrength = None,
    spread_strength: opt.SpreadStrength = None,
    min_effective_sample_size: opt.MinEffectiveSampleSize = None,
    margin: opt.Margin = None,
    bins: opt.Bins = 5,
    tol: opt.Tol = None,
    threads: opt.Threads = None,
    cluster_on: opt.ClusterOn = "non_suspects",
    adjust: opt.Adjust = "auto",
    init: opt.Init = "partition",
    n_init: opt.NInit = None,
    max_iter: opt.MaxIter = 100,
    max_categories: opt.MaxCategories = None,
    category: opt.Category = None,
    number_scale: opt.NumberScale = "robust",
    seed: opt.Seed = 0,
    format: opt.Format = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8",
    missing: opt.Missing = None,
    variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None,
    blocks: opt.Blocks = False,
    cache: opt.Cache = None,
    checkpoint: opt.Checkpoint = None,
    config: opt.Config = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Cluster a table by k-means with jointly learned decorrelation weights.

    Prints a summary and a verdict. The options of the run are saved next to the outputs as
    NAME.run.toml, which can be passed to --config.
    """
    from .. import DCKM, ConsensusDCKM

    with session(context) as run:
        if runs < 0:
            raise FileError(f"--runs {runs} should be >= 0")
        if clusters == "auto" and not runs:
            raise FileError("--clusters auto needs several runs; add --runs 20")
        if runs and checkpoint is not None:
            raise FileError("--checkpoint should not be given with --runs; it is for a single fit")
        return _fit(run, data, ConsensusDCKM if runs else DCKM)


def weigh(
    context: typer.Context,
    data: opt.Data,
    suspect: opt.Suspect = None,
    weight_column: opt.WeightColumn = None,
    drop: opt.Drop = None,
    keep: opt.Keep = None,
    id: opt.Id = None,
    weights: opt.Weights = None,
    report: opt.Report = None,
    model: opt.Model = None,
    fail_below: opt.FailBelow = None,
    fail_on: opt.FailOn = None,
    balance_strength: opt.BalanceStrength = None,
    spread_strength: opt.SpreadStrength = None,
    min_effective_sample_size: opt.MinEffectiveSampleSize = None,
    margin: opt.Margin = None,
    bins: opt.Bins = 5,
    tol: opt.Tol = None,
    threads: opt.Threads = None,
    max_categories: opt.MaxCategories = None,
    category: opt.Category = None,
    number_scale: opt.NumberScale = "robust",
    max_iter: opt.MaxIter = 200,
    format: opt.Format = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8",
    missing: opt.Missing = None,
    variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None,
    blocks: opt.Blocks = False,
    cache: opt.Cache = None,
    checkpoint: opt.Checkpoint = None,
    config: opt.Config = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Learn weights without clusters: one per row, under which columns are decorrelated.

    They are written to --weights or to standard output.
    """
    from .. import DecorrelationWeights

    with session(context) as run:
        if weights is None and not json:
            run.options["weights"] = "-"
        return _fit(run, data, DecorrelationWeights)


def _fit(run: Session, data: str, kind: Any) -> int:
    """Fit an estimator of this class and write what is asked for; the work of fit and weigh."""
    share = run.options["fail_below"]
    if share is not None and not 0 < share <= 1:
        raise FileError(f"--fail-below {share:g} should be in (0, 1]")
    with run.outputs([data]):
        study = make_study(run.read(data), run.options)
        estimator = make_estimator(kind, study, _resolve_adjust(run, study))
        table, begin = study.table, time.monotonic()
        if isinstance(table, BlockTable) and table.is_decoded_often(len(study.names)):
            run.terminal.note(
                f"{table.name} is decoded anew in each pass; --cache FOLDER does it once"
            )
        with run.step(table.name, "fitting", progress=True):
            estimator.fit(study.X, sample_weight=study.sample_weight)
        seconds = time.monotonic() - begin
        found = _diagnose(run, study, estimator)
        _write_fit(run, study, estimator)
        run.write_report(found)
    failed = _failed_checks(run, estimator, found)
    shown = named(estimator, study)
    run.terminal.show(_tables.fit_summary(study, shown, found, seconds, run.written))
    for sentence in failed:
        run.terminal.error(f"check failed: {sentence}")
    result = _tables.fitted(shown, seconds)
    if run.verb == "weigh" and run.options["weights"] is None:
        result["weights"] = estimator.weights_.tolist()
    run.document(
        data=_tables.described(study, estimator),
        result=result,
        verdict=None if found is None else _tables.plain(found.verdict),
        checks_failed=failed,
    )
    return 1 if failed else 0


def _resolve_adjust(run: Session, study: Study) -> dict[str, Any]:
    """The options, with --adjust auto replaced for a single fit: there it means weights."""
    options = run.options
    if options.get("adjust") != "auto":
        return options
    if not options.get("runs"):
        return options | {"adjust": "weights"}
    if study.suspects and not hasattr(study.X, "tocsr"):
        run.terminal.note(
            "--adjust auto means both with --runs and --suspect: weights, and effects of the "
            "suspects are removed"
        )
    return options


def _diagnose(run: Session, study: Study, estimator: Any) -> Any:
    """Diagnostics; skipped with --quiet if no report, check or JSON needs them."""
    if run.options["quiet"] and not any(run.options[n] for n in ("report", "fail_on", "json")):
        return None
    from ..diagnostics import diagnose

    words = "comparing with k-means" if hasattr(estimator, "labels_") else "computing diagnostics"
    with run.step(study.table.name, words):
        return diagnose(named(estimator, study), study.X, study.sample_weight)


def _write_fit(run: Session, study: Study, estimator: Any) -> None:
    if hasattr(estimator, "labels_"):
        per_row = {"cluster": estimator.labels_}
        if hasattr(estimator, "confidence_"):
            per_row["confidence"] = estimator.confidence_
        run.write_table("labels", study.ids, **per_row)
    weights = {"weight": estimator.weights_}
    if study.sample_weight is not None:
        weights["combined_weight"] = estimator.combined_weights_
    run.write_table("weights", study.ids, **weights)
    if run.options["model"] is not None:
        from .. import save

        estimator.verbose, estimator.checkpoint = 0, None  # options of the run, not of the model
        run.write("model", lambda path: save(estimator, path))


def _failed_checks(run: Session, estimator: Any, found: Any) -> list[str]:
    failed = []
    share, size = run.options["fail_below"], estimator.effective_sample_size_
    if share is not None and size < share:
        failed.append(f"effective sample size {size:.3g} is below --fail-below {share:g}")
    worst = run.options["fail_on"]
    bad = {None: (), "harmed": ("harmed",), "no-effect": ("harmed", "no effect")}[worst]
    if bad and found.verdict.word in bad:
        failed.append(f"the verdict is {found.verdict.word!r}, with --fail-on {worst}")
    return failed


def predict(
    context: typer.Context,
    model: opt.StoredModel,
    data: opt.Data,
    id: opt.Id = None,
    drop: opt.Drop = None,
    keep: opt.Keep = None,
    labels: opt.Labels = None,
    weights: opt.Weights = None,
    format: opt.Format = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8",
    missing: opt.Missing = None,
    variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None,
    blocks: opt.Blocks = False,
    cache: opt.Cache = None,
    config: opt.Config = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Predict the clusters of new rows with a stored model.

    They are written to --labels or to standard output. Columns unknown to the model are ignored;
    --drop and --keep are for matrices, whose columns have no names.
    """
    from .. import load

    with session(context) as run:
        if labels is None and weights is None and not json:
            labels = run.options["labels"] = "-"
        with run.outputs([model, data], ("labels", "weights"), record=False):
            estimator = load(model)
            table = run.read(data)
            X = for_model(table, estimator, run.options)
            ids = row_names(table, one(table, id, "--id"))
            found = learned = None
            with run.step(table.name, "predicting"):
                if hasattr(estimator, "predict"):
                    found = estimator.predict(X)
                elif labels is not None:
                    raise FileError(
                        f"{model}: is a model of weights without clusters; use --weights"
                    )
                if weights is not None:
                    learned = estimator.predict_weights(X)
            run.write_table("labels", ids, cluster=found)
            run.write_table("weights", ids, weight=learned)
        result: dict[str, Any] = {"rows": len(table)}
        if found is not None:
            sizes = np.bincount(found, minlength=estimator._K)
            result["sizes"] = sizes.tolist()
            run.terminal.show(_tables.predicted(table, sizes, run.written))
            if labels is None:
                result["labels"] = found.tolist()
        run.document(result=result)
        return 0


def audit(
    context: typer.Context,
    data: opt.Data,
    suspect: opt.Suspect = None,
    weight_column: opt.WeightColumn = None,
    drop: opt.Drop = None,
    keep: opt.Keep = None,
    report: opt.Report = None,
    max_categories: opt.MaxCategories = None,
    category: opt.Category = None,
    number_scale: opt.NumberScale = "robust",
    seed: opt.Seed = 0,
    format: opt.Format = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8",
    missing: opt.Missing = None,
    variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None,
    blocks: opt.Blocks = False,
    cache: opt.Cache = None,
    config: opt.Config = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Audit a table before clustering: which columns predict each other, and whether
    decorrelation is worthwhile.

    Lists columns that may reflect how the data were collected.
    """
    from .. import diagnostics

    with session(context) as run:
        with run.outputs([data]):
            study = make_study(run.read(data), run.options)
            with run.step(study.table.name, "comparing pairs of columns"):
                found = diagnostics.audit(
                    study.X,
                    suspects=study.suspects,
                    sample_weight=study.sample_weight,
                    encoder=make_encoder(study, run.options),
                    random_state=seed,
                    feature_names=study.feature_names,
                )
            run.write_report(found)
        run.terminal.show(_tables.audit_summary(found, run.written))
        run.document(audit=_tables.plain(found))
        return 0


def compare(
    context: typer.Context,
    data: opt.Data,
    clusters: opt.Clusters = 8,
    suspect: opt.Suspect = None,
    weight_column: opt.WeightColumn = None,
    drop: opt.Drop = None,
    keep: opt.Keep = None,
    report: opt.Report = None,
    balance_strength: opt.BalanceStrength = None,
    spread_strength: opt.SpreadStrength = None,
    min_effective_sample_size: opt.MinEffectiveSampleSize = None,
    margin: opt.Margin = None,
    bins: opt.Bins = 5,
    tol: opt.Tol = None,
    threads: opt.Threads = None,
    cluster_on: opt.ClusterOn = "non_suspects",
    adjust: opt.Adjust = "auto",
    init: opt.Init = "partition",
    n_init: opt.NInit = None,
    max_iter: opt.MaxIter = 100,
    max_categories: opt.MaxCategories = None,
    category: opt.Category = None,
    number_scale: opt.NumberScale = "robust",
    seed: opt.Seed = 0,
    format: opt.Format = None,
    no_header: opt.NoHeader = False,
    separator: opt.Separator = None,
    encoding: opt.Encoding = "utf-8",
    missing: opt.Missing = None,
    variable: opt.Variable = None,
    max_bytes: opt.MaxBytes = None,
    blocks: opt.Blocks = False,
    cache: opt.Cache = None,
    config: opt.Config = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Compare DCKM with baselines on the same table.

    Baselines: k-means, k-means with suspects dropped or regressed out, two-step methods.
    """
    from .. import DCKM, diagnostics

    with session(context) as run:
        with run.outputs([data]):
            study = make_study(run.read(data), run.options)
            model = make_estimator(DCKM, study, _resolve_adjust(run, study))
            with run.step(study.table.name, "fitting each method", progress=True):
                found = diagnostics.compare(
                    study.X,
                    sample_weight=study.sample_weight,
                    feature_names=study.feature_names,
                    **model.get_params(deep=False),
                )
            run.write_report(found)
        run.terminal.show(_tables.comparison_summary(found, run.written))
        run.document(comparison=_tables.plain(found))
        return 0
