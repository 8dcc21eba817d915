"""A fit as plain data, for documents and for the terminal."""

from __future__ import annotations

from typing import Any

from ..diagnostics import Diagnostics
from ..mixture import SelectionMixture


def fit_record(
    estimator: Any, found: Diagnostics | None, seconds: float, choice: Any
) -> dict[str, Any]:
    """Numbers of a fit. `choice` is the selection of the number of clusters; None if it was given.

    Empty without diagnostics.
    """
    if found is None:
        return {}
    result = {
        "method": type(estimator).__name__,
        "effective_size": found.weights.effective_size,
        "kish_size": found.weights.kish_size,
        "mean_difference_before": found.evidence.typical_before,
        "mean_difference_after": found.evidence.typical_after,
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
        result |= {"n_clusters": estimator._K, "choice": choice, "clusters": found.clusters}
    if getattr(estimator, "identified_", None) is not None:
        result["identified"] = estimator.identified_
    if isinstance(estimator, SelectionMixture):
        result["form"] = estimator.choice_
    return result


def data_record(
    estimator: Any, columns: list[str], suspects: list[str], *, design: bool
) -> dict[str, Any]:
    """The data of a fit, and what the encoder made of the columns; `design`: with weights."""
    encoder = getattr(estimator, "encoder_", None)
    return {
        "rows": estimator.weights_.size,
        "design_weights": design,
        "columns": columns,
        "kinds": getattr(encoder, "kinds_", {}),
        "ignored": {k: str(v) for k, v in getattr(encoder, "ignored_", {}).items()},
        "suspects": suspects,
    }
