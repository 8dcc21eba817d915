"""The commands demo, columns, audit, fit, predict, weigh and compare. Each returns an exit code.

`_app.py` says which options a command has; their values are in `Session.options`.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Group

from .._data.block_table import BlockTable
from .._io import FileError, nearest, table_bytes
from .._records import OverlapWarning
from ..report._terminal import (
    facts,
    several,
    show_audit,
    show_columns,
    show_comparison,
    show_fit,
    show_scores,
    verdict_line,
)
from ._inputs import (
    DCKM_OPTIONS,
    Study,
    chosen_names,
    for_model,
    make_encoder,
    make_estimator,
    make_study,
    named,
    row_names,
)
from ._session import Session

EXPLANATION = (
    "\nDropping the column does not help, because 36 other columns depend on the site. "
    "Regressing it out also removes part of the kinds, which shows in the sample.\n"
    "Effective size: effective sample size as a share of the rows. Imbalance left: remaining "
    "share of the association between site and the other columns.\n"
)


def demo(run: Session) -> int:
    """Compare eight methods on simulated data with one biased column.

    Patients of four kinds at four sites. Site and kind are associated in the sample and
    independent in the population; 40 columns depend on the kind, 36 on the site. Only the site is
    named as a suspect.
    """
    from ..diagnostics import diagnose
    from ..diagnostics._simulated import MethodScores, score_methods
    from ..simulate import make_site_footprint

    rate, rows, samples, seed = (run.options[n] for n in ("rate", "rows", "samples", "seed"))
    begin, results = time.monotonic(), []
    with run.outputs(record=False):
        for i in range(samples):
            with run.step("demo", f"sample {i + 1} of {samples}: simulating, eight methods"):
                data = make_site_footprint(rows, rate=rate, random_state=seed + i)
                scores, model, frame = score_methods(data, seed + i)
            results.append(scores)
        with run.step("demo", "computing diagnostics"):
            diagnosed = diagnose(model, frame)
        run.write_report(diagnosed)
    means = {
        method: MethodScores(*map(_mean, zip(*(scores[method] for scores in results))))
        for method in results[0]
    }
    seconds = time.monotonic() - begin
    of = f"mean of {samples} samples" if samples > 1 else "one sample"
    before = (
        f"{rows:,} patients, 4 kinds, 4 sites. Site and kind are associated in the "
        f"sample (rate {rate:g}) and independent in the population. Only `site` is named.\n"
        f"Agreement with the true kinds (adjusted Rand index, 1 = perfect), {of}:\n"
    )
    verdict = verdict_line(diagnosed.verdict)
    ending = facts(("verdict", verdict), ("time", f"{seconds:.0f} s"))
    run.show_result(
        Group(before, show_scores(means), EXPLANATION, ending),
        rows=rows,
        rate=rate,
        samples=samples,
        methods=[{"method": name, **scores._asdict()} for name, scores in means.items()],
        verdict=diagnosed.verdict,
        seconds=round(seconds, 1),
    )
    return 0


def _mean(values: tuple) -> Any:
    return None if None in values else float(np.mean(values))


def fit(run: Session) -> int:
    """Cluster a table such that the clusters do not follow the suspects.

    Prints a summary and a verdict. The options of the run are saved next to the outputs as
    NAME.run.toml, which can be passed to --config.
    """
    if run.options["runs"] and run.options["checkpoint"] is not None:
        raise FileError("--checkpoint should not be given with --runs; it is for a single fit")
    return _fit(run, _clustering)


def _clustering(run: Session, study: Study) -> Any:
    """The class of the estimator, by --method and --runs."""
    from .. import DCKM, ConsensusDCKM, SelectionMixture

    if _method(run, study) == "mixture":
        return SelectionMixture
    return ConsensusDCKM if run.options.get("runs") else DCKM


def _method(run: Session, study: Study) -> str:
    """ "mixture" or "dckm"."""
    options = [f"--{n.replace('_', '-')}" for n in DCKM_OPTIONS if n in run.changed]
    reason = f"{options[0]} is an option of --method dckm" if options else ""
    if isinstance(study.table, BlockTable) or hasattr(study.X, "tocsr"):
        reason = (
            f"{study.table.name} is {'sparse' if hasattr(study.X, 'tocsr') else 'read in blocks'}"
        )
    method = run.options["method"]
    if method == "mixture" and reason:
        raise FileError(f"--method mixture: {reason}; a mixture does not support it")
    if method == "auto" and study.suspects and reason:
        run.note(f"--method dckm is used: {reason}")
    if method == "auto":
        return "mixture" if study.suspects and not reason else "dckm"
    return method


def weigh(run: Session) -> int:
    """Learn weights without clusters: one per row, under which columns are decorrelated.

    They are written to --weights or to standard output.
    """
    from .. import DecorrelationWeights

    if run.options["weights"] is None and not run.as_json:
        run.options["weights"] = "-"
    return _fit(run, lambda run, study: DecorrelationWeights)


def _fit(run: Session, choose_class: Any) -> int:
    """Fit an estimator of the chosen class and write what is asked for; the work of fit and
    weigh."""
    share = run.options["fail_below"]
    if share is not None and not 0 < share <= 1:
        raise FileError(f"--fail-below {share:g} should be in (0, 1]")
    with run.outputs():
        study = make_study(run.read_data(), run.options)
        _show_findings(run, study)
        kind = choose_class(run, study)
        options, choice = _choose_clusters(run, study, kind)
        estimator = make_estimator(kind, study, options)
        table, begin = study.table, time.monotonic()
        if isinstance(table, BlockTable) and table.is_decoded_often(len(study.names)):
            run.note(f"{table.name} is decoded anew in each pass; --cache FOLDER does it once")
        with run.step(table.name, "fitting", progress=True), _overlap_shown_later(run):
            estimator.fit(study.X, sample_weight=study.sample_weight)
        seconds, shown = time.monotonic() - begin, named(estimator, study)
        found = _diagnose(run, study, shown)
        _write_fit(run, study, estimator)
        run.write_report(found)
    failed = _failed_checks(run, estimator, found)
    if hasattr(estimator, "n_runs"):
        choice = estimator.choice_
    elif options.get("clusters") == "auto":
        choice = _choice_by_bic(estimator)
    result = _fitted(shown, found, seconds, choice)
    if run.verb == "weigh" and run.options["weights"] is None:
        result["weights"] = estimator.weights_
    data = _described(study, estimator)
    run.show_result(
        show_fit(shown, found, data, seconds, choice),
        data=data,
        result=result,
        verdict=None if found is None else found.verdict,
        checks_failed=failed,
    )
    for sentence in failed:
        run.error(f"check failed: {sentence}")
    return 1 if failed else 0


@contextlib.contextmanager
def _overlap_shown_later(run: Session) -> Iterator[None]:
    """The summary shows the overlap of clusters and suspects; a warning would repeat it."""
    with warnings.catch_warnings():
        if not run.quiet:
            warnings.simplefilter("ignore", OverlapWarning)
        yield


def _show_findings(run: Session, study: Study) -> None:
    if not run.quiet or run.as_json:
        run.show_findings(study.table, study.X, make_encoder(study, run.options))


def _described(study: Study, estimator: Any) -> dict[str, Any]:
    encoder = getattr(estimator, "encoder_", None)
    return {
        "rows": len(study.table),
        "design_weights": study.sample_weight is not None,
        "columns": study.names,
        "kinds": {} if encoder is None else encoder.kinds_,
        "ignored": {} if encoder is None else {k: str(v) for k, v in encoder.ignored_.items()},
        "suspects": [s if isinstance(s, str) else study.names[s] for s in study.suspects or ()],
    }


def _fitted(estimator: Any, found: Any, seconds: float, choice: Any) -> dict[str, Any]:
    if found is None:  # --quiet, nothing is shown
        return {}
    result = {
        "method": type(estimator).__name__,
        "effective_size": found.weights.effective_size,
        "kish_size": found.weights.kish_size,
        "imbalance_before": found.imbalance_before,
        "imbalance_after": found.imbalance_after,
        "objective": found.convergence.objective,
        "iterations": estimator.n_iter_,
        "status": estimator.status_,
        "seconds": round(seconds, 3),
    }
    if hasattr(estimator, "stability_"):
        result |= {
            "runs": estimator.n_runs,
            "voting_runs": sum(run["votes"] for run in estimator.runs_),
            "stability": estimator.stability_,
            "confidence": estimator.confidence_.mean(),
        }
    if hasattr(estimator, "labels_"):
        result |= {
            "n_clusters": estimator._K,
            "choice": choice,  # selection of n_clusters; None if it was given
            "clusters": found.clusters,
        }
    if hasattr(estimator, "identified_"):
        result |= {"identified": estimator.identified_, "form": estimator.choice_}
    return result


def _choose_clusters(run: Session, study: Study, kind: Any) -> tuple[dict, Any]:
    """The options with the selected number of clusters for DCKM with --clusters auto, and the
    selection, None if there was none; the other classes select the number by themselves."""
    from .. import DCKM, ConsensusDCKM, choose_k

    options = run.options
    if options.get("clusters") != "auto" or kind is not DCKM:
        return options, None

    model = make_estimator(ConsensusDCKM, study, options | {"runs": None})
    model.set_params(row_scale=None)  # as in the fit
    with run.step(study.table.name, "choosing the number of clusters", progress=True):
        choice = choose_k(study.X, sample_weight=study.sample_weight, model=model)
    return options | {"clusters": choice.chosen}, choice


@dataclass(frozen=True)
class BICCandidate:
    value: int
    bic: float


def _choice_by_bic(estimator: Any) -> Any:
    """The number of groups that a SelectionMixture has selected, and the best BIC of each."""
    from ..consensus import Choice

    best: dict[int, float] = {}
    for each in estimator.candidates_:
        K = each["n_components"]
        best[K] = min(best.get(K, np.inf), float(each["bic"]))
    tried = tuple(BICCandidate(K, best[K]) for K in sorted(best))
    return Choice("n_components", estimator.n_components_, "bic", tried)


def _diagnose(run: Session, study: Study, estimator: Any) -> Any:
    """Diagnostics; skipped with --quiet if no report, check or JSON needs them."""
    if run.quiet and not any(run.options[name] for name in ("report", "fail_on", "json")):
        return None
    from ..diagnostics import diagnose

    words = "comparing with k-means" if hasattr(estimator, "labels_") else "computing diagnostics"
    with run.step(study.table.name, words):
        return diagnose(estimator, study.X, study.sample_weight)


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
    bad = {None: (), "harmed": ("harmed",), "no-effect": ("harmed", "no effect", "cannot be told")}[
        worst
    ]
    if bad and found.verdict.word in bad:
        failed.append(f"the verdict is {found.verdict.word!r}, with --fail-on {worst}")
    return failed


def predict(run: Session) -> int:
    """Predict the clusters of new rows with a stored model.

    They are written to --labels or to standard output. Columns unknown to the model are ignored;
    --drop and --keep are for matrices, whose columns have no names.
    """
    from .. import load

    options = run.options
    if options["labels"] is None and options["weights"] is None and not run.as_json:
        options["labels"] = "-"
    with run.outputs(("labels", "weights"), record=False):
        estimator = load(options["model"])
        table = run.read_data()
        X = for_model(table, estimator, options)
        ids = row_names(table, table.check_name(options["id"], "--id"))
        found = learned = None
        with run.step(table.name, "predicting"):
            if hasattr(estimator, "predict"):
                found = estimator.predict(X)
            elif options["labels"] is not None:
                raise FileError(
                    f"{options['model']}: is a model of weights without clusters; use --weights"
                )
            if options["weights"] is not None:
                learned = estimator.predict_weights(X)
        run.write_table("labels", ids, cluster=found)
        run.write_table("weights", ids, weight=learned)
    result: dict[str, Any] = {"rows": len(table)}
    clusters = ""
    if found is not None:
        result["sizes"] = np.bincount(found, minlength=estimator._K)
        clusters = ", ".join(f"{k}: {size:,}" for k, size in enumerate(result["sizes"]))
        if options["labels"] is None:
            result["labels"] = found
    run.show_result(facts(("rows", f"{len(table):,}"), ("clusters", clusters)), result=result)
    return 0


def correct(run: Session) -> int:
    """Remove the effects of the suspects from the numbers of a table.

    Writes all columns of the table, for any method that follows. The effects are estimated by a
    mixture of groups whose shares differ between the values of the suspects, so that differences
    of the groups are kept.
    """
    from .. import SuspectCorrector, load

    options = run.options
    if options["out"] is None and options["model"] is None:
        options["out"] = "-"
    if options["apply"] is not None:
        for name in ("suspect", "model", "protect", "reference", "report"):
            if options[name] is not None:
                raise FileError(f"--{name} should not be given with --apply, which fits nothing")
    elif not options["suspect"]:
        raise FileError("--suspect should be given, or --apply MODEL")
    with run.outputs(record=options["apply"] is None):
        table, study, found = run.read_data(), None, None
        if isinstance(table, BlockTable):
            raise FileError(f"{table.name}: correct reads a table in memory, not in blocks")
        if options["apply"] is not None:
            estimator = load(options["apply"])
            if not isinstance(estimator, SuspectCorrector):
                kind = type(estimator).__name__
                raise FileError(f"{options['apply']}: is a {kind}, not a model of unskew correct")
            X = for_model(table, estimator, options)
            names = list(X.columns) if hasattr(X, "columns") else chosen_names(table, options)
        else:
            study = make_study(table, options)
            names = study.names
            _show_findings(run, study)
            estimator, X = _make_corrector(study, options), study.X
            with run.step(table.name, "fitting", progress=True):
                estimator.fit(X, sample_weight=study.sample_weight)
            if options["report"] is not None:
                from ..diagnostics import diagnose

                with run.step(table.name, "comparing with k-means"):
                    found = diagnose(named(estimator.mixture_, study), X, study.sample_weight)
                run.write_report(found)
        with run.step(table.name, "correcting"):
            content, changed = _corrected(table, estimator, X, names)
        if options["out"] is not None:
            run.write("out", table_bytes(options["out"], content))
            run.output_is_taken |= options["out"] == "-"
        if options["model"] is not None:
            from .. import save

            run.write("model", lambda path: save(estimator, path))
        if options["weights"] is not None and study is not None:
            run.write_table("weights", row_names(table, None), weight=estimator.sample_weight_)
    facts_shown = [
        ("rows", f"{len(table):,}"),
        ("corrected", f"{len(changed):,} columns: {several(changed)}" if changed else "no column"),
        ("groups", f"{estimator.n_components_}"),
        ("identified", estimator.identified_),
    ]
    run.show_result(
        facts(*facts_shown),
        rows=len(table),
        corrected=changed,
        effects=estimator.suspect_effects_,
        identified=estimator.identified_,
    )
    return 0


def _make_corrector(study: Study, options: dict[str, Any]) -> Any:
    from .. import SuspectCorrector

    table = study.table
    protected: list[Any] = table.find(options["protect"], "--protect")
    for name in protected:
        if name not in study.names:
            raise FileError(f"{table.name}: column {name!r} is --protect and left out at once")
    reference: dict[Any, list] = {}
    for text in options["reference"] or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise FileError(f"--reference {text!r} should be COLUMN=VALUE")
        table.check_name(name, "--reference")
        values = table.column(name)
        known = {str(one): one for one in values}
        if value not in known:
            raise FileError(
                f"{table.name}: --reference {text!r}: column {name!r} has no value {value!r}"
                f"{nearest(value, list(known))}"
            )
        reference.setdefault(name, []).append(known[value])
    mask = np.ones(len(table), dtype=bool)
    for name, accepted in reference.items():
        mask &= np.array([one in accepted for one in table.column(name)])
    if not table.is_frame:
        protected = [study.names.index(name) for name in protected]
    return SuspectCorrector(
        study.suspects,
        options["groups"],
        protect=protected or None,
        reference=mask if reference else None,
        effects=options["effects"],
        drop_suspects=options["drop_suspects"],
        encoder=make_encoder(study, options),
        random_state=options["seed"],
    )


def _corrected(table: Any, estimator: Any, X: Any, names: list[str]) -> tuple[dict, list[str]]:
    """All columns of the table with those of the model corrected, and the names of the latter.

    names : the columns of X
    """
    out, kept = estimator.transform(X), [names[i] for i in estimator._kept()]
    new = {name: out[name] if hasattr(out, "columns") else out[:, i] for i, name in enumerate(kept)}
    content = {
        name: new[name] if name in new else table.column(name)
        for name in table.names
        if name in new or name not in names
    }
    changed = [names[c.source] for _, c in estimator.mixture_._shifted(estimator.suspects_)]
    return content, changed


def columns(run: Session) -> int:
    """Show what is made of each column of a table, and how to change it.

    Columns that are left out, pooled, read as numbers or categories; missing values; integers that
    may be codes; columns that repeat others; survey weights.
    """
    with run.outputs():
        study = make_study(run.read_data(), run.options)
        table = study.table
        encoder = run.inspect_columns(table, study.X, make_encoder(study, run.options))
    if encoder is None:
        raise FileError(
            f"{table.name}: columns of a table in memory are described, not a matrix or blocks"
        )
    shown = encoder._describe_columns(table.findings)
    run.show_result(show_columns(shown, run.findings), rows=len(table), columns=shown)
    return 0


def audit(run: Session) -> int:
    """Audit a table before clustering: which columns predict each other, and whether
    decorrelation is worthwhile.

    Lists columns that may reflect how the data were collected.
    """
    from .. import diagnostics

    with run.outputs():
        study = make_study(run.read_data(), run.options)
        _show_findings(run, study)
        with run.step(study.table.name, "comparing pairs of columns"):
            found = diagnostics.audit(
                study.X,
                suspects=study.suspects,
                sample_weight=study.sample_weight,
                encoder=make_encoder(study, run.options),
                random_state=run.options["seed"],
                feature_names=study.feature_names,
            )
        run.write_report(found)
    run.show_result(show_audit(found), audit=found)
    return 0


def compare(run: Session) -> int:
    """Compare the clusters of fit with baselines on the same table.

    Baselines: k-means, k-means with suspects dropped or regressed out, two-step methods, and
    clusters of any other tool (--labels). The verdict is that of fit with the same options.
    """
    from .. import diagnostics

    with run.outputs():
        study = make_study(run.read_data(), run.options)
        labels = run.read_labels(len(study.table))
        _show_findings(run, study)
        kind = _clustering(run, study)
        options, choice = _choose_clusters(run, study, kind)
        model = make_estimator(kind, study, options)
        parameters = model.get_params(deep=False)
        mixture = "n_components" in parameters
        K = parameters.pop("n_components" if mixture else "n_clusters")
        fitting = run.step(study.table.name, "fitting each method", progress=True)
        with fitting, _overlap_shown_later(run):
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
        run.write_report(found)
    run.show_result(show_comparison(found, choice), comparison=found, choice=choice)
    return 0
