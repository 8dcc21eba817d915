"""unskew: clustering under selection bias."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._data.sources import ParquetReader
    from ._preprocessing import TableEncoder
    from ._progress import on_progress
    from .consensus import ConsensusDCKM, choose_k, choose_strengths
    from .corrector import SuspectCorrector
    from .dckm import DCKM
    from .mixture import SelectionMixture
    from .model_file import ModelFileError, load, save
    from .weights import DecorrelationWeights

__version__ = "0.1.0"
__all__ = [
    "DCKM",
    "ConsensusDCKM",
    "DecorrelationWeights",
    "ModelFileError",
    "ParquetReader",
    "SelectionMixture",
    "SuspectCorrector",
    "TableEncoder",
    "__version__",
    "choose_k",
    "choose_strengths",
    "load",
    "on_progress",
    "save",
]
# Imported on first access: `import unskew` loads neither matplotlib nor dask, and the command line
# handles Ctrl-C before NumPy and scikit-learn are imported.
_MODULES = {
    "_data.sources": ("ParquetReader",),
    "_preprocessing": ("TableEncoder",),
    "_progress": ("on_progress",),
    "consensus": ("ConsensusDCKM", "choose_k", "choose_strengths"),
    "corrector": ("SuspectCorrector",),
    "dckm": ("DCKM",),
    "mixture": ("SelectionMixture",),
    "model_file": ("ModelFileError", "load", "save"),
    "weights": ("DecorrelationWeights",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_SUBMODULES = (
    *("anndata", "baselines", "dask", "datasets", "diagnostics", "feature_selection", "metrics"),
    *("plots", "report", "simulate"),
)


def __getattr__(name: str):
    if name in _HOME:
        found = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = found
        return found
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES])
