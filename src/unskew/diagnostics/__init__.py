"""Diagnostics of a fit, a table or several methods, with a verdict.

    diagnose(model, X)       effect of the weights on balance and clusters, with a verdict
    verdict(model, X)        only the verdict: a word, a sentence and reasons
    audit(X)                 before any clustering: which columns look like traces of the collection
    compare(X, n_clusters)   DCKM compared with baselines

Each returns frozen dataclasses of plain numbers, strings and tuples, which `dataclasses.asdict`
converts for JSON. `unskew.plots` plots them, `unskew.report` writes reports of them.
"""

from ._audit import audit
from ._compare import METHODS, compare
from ._diagnose import diagnose, verdict
from ._results import (
    Association,
    Audit,
    AuditedPair,
    Baseline,
    Candidate,
    ClusterProfile,
    Comparison,
    Convergence,
    Correlation,
    Diagnostics,
    FeatureBalance,
    FeatureProfile,
    Flow,
    KnownShare,
    MethodRow,
    Mixing,
    Notice,
    Overlap,
    PairBalance,
    Projection,
    Row,
    Separation,
    Settings,
    SuspectEffect,
    Weights,
)
from ._verdict import Evidence, Verdict, decide

__all__ = [
    "METHODS",
    "Association",
    "Audit",
    "AuditedPair",
    "Baseline",
    "Candidate",
    "ClusterProfile",
    "Comparison",
    "Convergence",
    "Correlation",
    "Diagnostics",
    "Evidence",
    "FeatureBalance",
    "FeatureProfile",
    "Flow",
    "KnownShare",
    "MethodRow",
    "Mixing",
    "Notice",
    "Overlap",
    "PairBalance",
    "Projection",
    "Row",
    "Separation",
    "Settings",
    "SuspectEffect",
    "Verdict",
    "Weights",
    "audit",
    "compare",
    "decide",
    "diagnose",
    "verdict",
]
