"""Numbers about a fit, a table or several methods, and a plain verdict.

    diagnose(model, X)       what the weights did, and whether that helped
    verdict(model, X)        only whether it helped, in a word, a sentence and reasons
    audit(X)                 before any clustering: which columns predict each other
    compare(X, n_clusters)   DCKM beside what one would do instead

Each returns frozen dataclasses of plain numbers, strings and tuples; `dataclasses.asdict` makes
them json. `unskew.plots` draws them, `unskew.report` writes them down.
"""

from ._audit import audit
from ._compare import METHODS, compare
from ._diagnose import diagnose, verdict
from ._results import (
    Association,
    Audit,
    AuditedPair,
    Baseline,
    ClusterProfile,
    Comparison,
    Convergence,
    Correlation,
    Diagnostics,
    FeatureBalance,
    FeatureProfile,
    Flow,
    MethodRow,
    Notice,
    PairBalance,
    Projection,
    Row,
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
    "ClusterProfile",
    "Comparison",
    "Convergence",
    "Correlation",
    "Diagnostics",
    "Evidence",
    "FeatureBalance",
    "FeatureProfile",
    "Flow",
    "MethodRow",
    "Notice",
    "PairBalance",
    "Projection",
    "Row",
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
