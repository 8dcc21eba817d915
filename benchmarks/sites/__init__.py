"""Real and simulated sites: unskew compared with the methods of the field.

    python -m benchmarks sites --quick

Modules: ``methods`` (one function per method), ``evaluation`` (``evaluate``: any data set through
all methods), ``cases`` (data sets and simulators), ``study`` (tasks, tables, figure).
"""

from .evaluation import evaluate
from .study import sites

__all__ = ["evaluate", "sites"]
