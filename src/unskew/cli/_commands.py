"""The commands: their options, help and work. Values of options are in `Session.options`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from .. import (
    DCKM,
    ConsensusDCKM,
    DecorrelationWeights,
    SelectionMixture,
    SuspectCorrector,
    choose_k,
    diagnostics,
    load,
)
from .._data.block_table import BlockTable
from .._data.sampling import sample_rows
from .._io import FileError
from .._records import OverlapWarning
from ..consensus._model_selection import choice_of
from ..diagnostics._simulated import score_samples
from ..report import _terminal as terminal
from ..report._fit_record import data_record, fit_record
from ..report._terminal import facts
from . import _inputs as inputs
from . import _options as opt
from ._app import command
from ._inputs import Study
from ._session import Session

QUICK_ROWS = 2000  # of --quick
# Verdicts that fail a check, by the value of --fail-on.
BAD_VERDICTS = {"harmed": ("harmed",), "no-effect": ("harmed", "no effect", "cannot be told")}


@command("unskew demo")
@opt.simulation
def demo(run: Session) -> None:
    """Compare eight methods on simulated data with one biased column.

    Patients of four kinds at four sites. Site and kind are associated in the sample and
    independent in the population; 40 columns depend on the kind, 36 on the site. Only the site is
    named as a suspect.
    """
    sizes = {name: run.options[name] for name in ("rows", "rate", "samples")}
    with run.outputs(record=False):
        with run.step("comparing eight methods"):
            means, model, frame = score_samples(**sizes, seed=run.options["seed"])
        with run.step("computing diagnostics"):
            found = diagnostics.diagnose(model, frame)
        run.write_report(found)
    seconds = sum(run.seconds.values())
    run.show_result(
        terminal.show_scores(means, found, **sizes),
        facts(("time", f"{seconds:.0f} s")),
        **sizes,
        methods=[{"method": name, **scores._asdict()} for name, scores in means.items()],
        verdict=found.verdict,
        seconds=round(seconds, 1),
    )


@command("unskew columns data.csv")
@opt.table
def columns(run: Session) -> None:
    """Show what is made of each column of a table, and how to change it.

    Columns that are left out, pooled, read as numbers or categories; missing values; integers that
    may be codes; columns that repeat others; survey weights.
    """
    with run.outputs():
        study = inputs.make_study(run.read_data(), run.options)
        table = study.table
        encoder = run.inspect_columns(study)
    if encoder is None:
        raise table.error("columns of a table in memory are described, not a matrix or blocks")
    shown = encoder._describe_columns(table.findings)
    run.show_result(terminal.show_columns(shown, run.findings), rows=len(table), columns=shown)


@command(
    "unskew audit data.csv",
    "unskew audit data.parquet --suspect site --report audit.html",
)
@opt.quick
@opt.suspects
@opt.seed
@opt.report
@opt.table
def audit(run: Session) -> None:
    """Audit a table before clustering: which columns predict each other, and whether
    decorrelation is worthwhile.

    Lists columns that may reflect how the data were collected.
    """
    with run.outputs():
        study = _read(run)
        with run.step("comparing pairs of columns"):
            found = diagnostics.audit(
                study.X,
                suspects=study.in_X(study.suspects, "--suspect"),
                sample_weight=study.sample_weight,
                encoder=study.encoder,
                random_state=run.options["seed"],
                feature_names=study.feature_names,
            )
        found = run.with_subsample(found)
        run.write_report(found)
    run.show_result(terminal.show_audit(found), audit=found)


@command(
    "unskew fit data.csv -k 5 --suspect site --report out.html",
    "unskew fit data.parquet -k 5 -s site -w weight --id patient --labels labels.csv "
    "--model m.skops",
    "zcat data.csv.gz | unskew fit - -k 3 --labels - --quiet > labels.csv",
    "unskew fit --config out.run.toml",
)
@opt.clustering
@opt.runs
@opt.suspects
@opt.row_id
@opt.weighting
@opt.outputs
@opt.labels
@opt.table
def fit(run: Session) -> int:
    """Cluster a table such that the clusters do not follow the suspects.

    Prints a summary and a verdict. The options of the run are saved next to the outputs as
    NAME.run.toml, which can be passed to --config.
    """
    if run.options["runs"] and run.options["checkpoint"] is not None:
        raise FileError("--checkpoint should not be given with --runs; it is for a single fit")
    return _fit(run)


@command(
    "unskew weigh data.csv --suspect site > weights.csv",
    "unskew weigh data.csv --weights weights.parquet --report weights.html",
)
@opt.suspects
@opt.row_id
@opt.weighting
@opt.method("--max-iter", type=int, default=200, help="Maximum number of iterations.")
@opt.outputs
@opt.table
def weigh(run: Session) -> int:
    """Learn weights without clusters: one per row, under which columns are decorrelated.

    They are written to --weights or to standard output.
    """
    if run.options["weights"] is None and not run.as_json:
        run.options["weights"] = "-"
    return _fit(run)


def _class_of(run: Session, study: Study) -> Any:
    """The class of the estimator, by --method and --runs."""
    if run.verb == "weigh":
        return DecorrelationWeights
    options = [f"--{n.replace('_', '-')}" for n in inputs.DCKM_OPTIONS if n in run.changed]
    reason = f"{options[0]} is an option of --method dckm" if options else ""
    method = run.options["method"]
    if method == "mixture" and reason:
        raise FileError(f"--method mixture: {reason}; a mixture does not support it")
    if hasattr(study.X, "tocsr"):
        reason = f"{study.table.name} is sparse"
    if method == "auto" and study.suspects and reason:
        run.note(f"--method dckm is used: {reason}")
    if method == "mixture" or (method == "auto" and study.suspects and not reason):
        return SelectionMixture
    return ConsensusDCKM if run.options.get("runs") else DCKM


def _make_estimator(run: Session, study: Study) -> tuple[Any, Any]:
    """The estimator, and for DCKM with --clusters auto the selection of the number, else None; the
    other classes select the number by themselves."""
    kind, options, choice = _class_of(run, study), run.options, None
    if kind is DCKM and options["clusters"] == "auto":
        model = inputs.make_estimator(ConsensusDCKM, study, options | {"runs": None})
        model.set_params(row_scale=None)  # as in the fit
        with run.step("choosing the number of clusters"):
            choice = choose_k(study.X, sample_weight=study.sample_weight, model=model)
        options = options | {"clusters": choice.chosen}
    return inputs.make_estimator(kind, study, options), choice


def _fit(run: Session) -> int:
    """The work of fit and weigh: fit an estimator and write the outputs."""
    share = run.options["fail_below"]
    if share is not None and not 0 < share <= 1:
        raise FileError(f"--fail-below {share:g} should be in (0, 1]")
    with run.outputs():
        study = _read(run)
        table, (estimator, choice) = study.table, _make_estimator(run, study)
        rereads = isinstance(table, BlockTable) and table.is_decoded_often(len(study.names))
        if rereads and not run.subsample:
            run.note(f"{table.name} is decoded anew in each pass; --cache FOLDER does it once")
        with run.step("fitting"):
            estimator.fit(study.X, sample_weight=study.sample_weight)
        found = None
        # With --quiet, diagnostics are computed only for a report, a check or JSON.
        if not run.quiet or any(run.options[name] for name in ("report", "fail_on", "json")):
            found = _diagnose(run, study, estimator)
        _write_fit(run, study, estimator)
        run.write_report(found)
    design, seconds = study.sample_weight is not None, run.seconds["fitting"]
    data = data_record(estimator, study.names, study.suspects, design=design)
    choice = choice or choice_of(estimator)
    result = fit_record(estimator, found, seconds, choice)
    if run.verb == "weigh" and run.options["weights"] is None:
        result["weights"] = estimator.weights_
    failed = _failed_checks(run, estimator, found)
    run.show_result(
        terminal.show_fit(estimator, found, data, seconds, choice),
        data=data,
        result=result,
        verdict=None if found is None else found.verdict,
        checks_failed=failed,
    )
    for sentence in failed:
        run.error(f"check failed: {sentence}")
    return 1 if failed else 0


def _read(run: Session) -> Study:
    """The data, with what was made of the columns shown; with --quick some of the rows."""
    quick = run.options.get("quick")
    for name in ("labels", "weights", "checkpoint") if quick else ():
        if run.options.get(name) is not None:
            raise FileError(f"--{name} is for all rows and --quick for some; use one of them")
    study = inputs.make_study(run.read_data(), run.options)
    run.show_findings(study)
    if not run.quiet:  # the summary shows the overlap of clusters and suspects
        warnings.simplefilter("ignore", OverlapWarning)
    if not quick or len(study.table) <= QUICK_ROWS:
        return study
    sample = sample_rows(study.X, study.sample_weight, run.options["seed"], QUICK_ROWS)
    run.subsample = f"--quick: {QUICK_ROWS:,} of {sample.n:,} rows are analysed, drawn at random."
    run.note(run.subsample)
    a = None if study.sample_weight is None else sample.a
    return replace(study, X=sample.X, sample_weight=a)


def _diagnose(run: Session, study: Study, estimator: Any) -> Any:
    words = "comparing with k-means" if hasattr(estimator, "labels_") else "computing diagnostics"
    with run.step(words):
        found = diagnostics.diagnose(
            estimator, study.X, study.sample_weight, feature_names=study.feature_names
        )
    return run.with_subsample(found)


def _write_fit(run: Session, study: Study, estimator: Any) -> None:
    if hasattr(estimator, "labels_"):
        per_row = {"cluster": "labels_", "confidence": "confidence_"}
        found = {n: getattr(estimator, a) for n, a in per_row.items() if hasattr(estimator, a)}
        run.write_table("labels", study.ids | found)
    weights = {"weight": estimator.weights_}
    if study.sample_weight is not None:
        weights["combined_weight"] = estimator.combined_weights_ / study.weight_scale
    run.write_table("weights", study.ids | weights)
    estimator.verbose, estimator.checkpoint = 0, None  # options of the run, not of the model
    run.write_model(estimator)


def _failed_checks(run: Session, estimator: Any, found: Any) -> list[str]:
    failed = []
    share, size = run.options["fail_below"], estimator.effective_sample_size_
    if share is not None and size < share:
        failed.append(f"effective sample size {size:.3g} is below --fail-below {share:g}")
    worst = run.options["fail_on"]
    if worst is not None and found.verdict.word in BAD_VERDICTS[worst]:
        failed.append(f"the verdict is {found.verdict.word!r}, with --fail-on {worst}")
    return failed


@command(
    "unskew predict m.skops new.csv > labels.csv",
    "unskew predict m.skops new.parquet --labels labels.parquet --weights weights.parquet",
)
@opt.model_file
@opt.row_id
@opt.labels
@opt.weights
@opt.reading_options
def predict(run: Session) -> None:
    """Predict the clusters of new rows with a stored model.

    They are written to --labels or to standard output. Columns unknown to the model are ignored;
    --drop and --keep are for matrices, whose columns have no names.
    """
    options = run.options
    if options["labels"] is None and options["weights"] is None and not run.as_json:
        options["labels"] = "-"
    with run.outputs(("labels", "weights"), record=False):
        estimator, table = load(options["model"]), run.read_data()
        X, _ = inputs.for_model(table, estimator, options)
        ids, has_clusters = inputs.row_names(table, options["id"]), hasattr(estimator, "predict")
        if options["labels"] is not None and not has_clusters:
            reason = "is a model of weights without clusters; use --weights"
            raise FileError(f"{options['model']}: {reason}")
        with run.step("predicting"):
            found = estimator.predict(X) if has_clusters else None
            learned = None if options["weights"] is None else estimator.predict_weights(X)
        run.write_table("labels", ids | {"cluster": found})
        run.write_table("weights", ids | {"weight": learned})
    result: dict[str, Any] = {"rows": len(table)}
    if found is not None:
        result["sizes"] = np.bincount(found, minlength=estimator._K)
        if options["labels"] is None:
            result["labels"] = found
    shown = terminal.show_prediction(len(table), result.get("sizes", ()))
    run.show_result(shown, result=result)


OF_THE_FIT = (  # options of correct without --apply
    *("suspect", "model", "protect", "reference", "report", "weights", "weight_column", "groups"),
    *("effects", "drop_suspects", "max_categories", "strict", "category", "number"),
    *("number_scale", "seed"),
)


@command(
    "unskew correct data.csv --suspect site --out corrected.parquet --model m.skops",
    "unskew correct new.csv --apply m.skops --out corrected-new.parquet",
    "unskew correct data.csv -s site --protect diagnosis --reference diagnosis=control "
    "--out corrected.csv",
)
@opt.suspects
@opt.correction
@opt.table
def correct(run: Session) -> None:
    """Remove the effects of the suspects from the numbers of a table.

    Writes all columns of the table, for any method that follows. The effects are estimated by a
    mixture of groups whose shares differ between the values of the suspects, so that differences
    of the groups are kept.
    """
    options, applied = run.options, run.options["apply"]
    if options["out"] is None and options["model"] is None:
        options["out"] = "-"
    if applied is None and not options["suspect"]:
        raise FileError("--suspect should be given, or --apply MODEL")
    for name in OF_THE_FIT if applied is not None else ():
        if name in run.changed:
            flag = name.replace("_", "-")
            raise FileError(f"--{flag} should not be given with --apply, which fits nothing")
    with run.outputs(record=applied is None):
        table = run.read_data()
        if isinstance(table, BlockTable):
            raise table.error("correct reads a table in memory, not in blocks")
        if applied is None:
            estimator, X, names = _fit_corrector(run, table)
        else:
            estimator = load(applied)
            if not isinstance(estimator, SuspectCorrector):
                kind = type(estimator).__name__
                raise FileError(f"{applied}: is a {kind}, not a model of unskew correct")
            X, names = inputs.for_model(table, estimator, options)
        if options["out"] is not None:
            with run.step("correcting"):
                run.write_table("out", _corrected(table, estimator, X, names))
        run.write_model(estimator)
    changed = [names[i] for i in estimator._corrected()]
    run.show_result(
        terminal.show_correction(estimator, len(table), changed),
        rows=len(table),
        corrected=changed,
        effects=estimator.suspect_effects_,
        identified=estimator.identified_,
    )


def _fit_corrector(run: Session, table: Any) -> tuple[SuspectCorrector, Any, list[str]]:
    """The fitted corrector, its input and the names of the columns of the input."""
    options, study = run.options, inputs.make_study(table, run.options)
    run.show_findings(study)
    particular = {
        "clusters": options["groups"],
        "protect": study.in_X(table.find(options["protect"], "--protect"), "--protect"),
        "reference": table.rows_with(options["reference"], "--reference"),
    }
    estimator = inputs.make_estimator(SuspectCorrector, study, options | particular)
    with run.step("fitting"):
        estimator.fit(study.X, sample_weight=study.sample_weight)
    if options["report"] is not None:
        run.write_report(_diagnose(run, study, estimator.mixture_))
    run.write_table(
        "weights", study.ids | {"weight": estimator.sample_weight_ / study.weight_scale}
    )
    return estimator, study.X, study.names


def _corrected(table: Any, estimator: Any, X: Any, names: list[str]) -> dict[str, Any]:
    """All columns of the table, with those of the model, which are those of X, corrected."""
    out = estimator.transform(X)
    new = {names[i]: out[:, place] for place, i in enumerate(estimator._kept())}
    kept = [name for name in table.names if name in new or name not in names]
    return {name: new[name] if name in new else table.column(name) for name in kept}


@command(
    "unskew compare data.csv -k 5 --suspect site --report compare.html",
    "unskew compare data.csv -k 5 -s site --labels harmony.csv:cluster --also combat",
)
@opt.clustering
@opt.suspects
@opt.weighting
@opt.others
@opt.report
@opt.table
def compare(run: Session) -> None:
    """Compare the clusters of fit with baselines on the same table.

    Baselines: k-means, k-means with suspects dropped or regressed out, two-step methods, and
    clusters of any other tool (--labels). The verdict is that of fit with the same options.
    """
    with run.outputs(("report",)):
        study = _read(run)
        labels = run.read_labels(len(study.table))
        estimator, choice = _make_estimator(run, study)
        parameters = estimator.get_params(deep=False)
        mixture = isinstance(estimator, SelectionMixture)
        K = parameters.pop("n_components" if mixture else "n_clusters")
        with run.step("fitting each method"):
            found = diagnostics.compare(
                study.X,
                K,
                sample_weight=study.sample_weight,
                feature_names=study.feature_names,
                also=run.options["also"] or (),
                labels=labels,
                method="mixture" if mixture else "dckm",
                **parameters,
            )
        found, choice = run.with_subsample(found), choice or found.choice
        run.write_report(found)
    run.show_result(terminal.show_comparison(found, choice), comparison=found, choice=choice)
