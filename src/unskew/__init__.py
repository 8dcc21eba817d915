"""unskew: clustering under selection bias."""

from importlib import import_module

from ._data.sources import ParquetReader
from ._preprocessing import TableEncoder
from ._progress import on_progress
from .consensus import ConsensusDCKM, choose_k, choose_strengths
from .corrector import SuspectCorrector
from .dckm import DCKM
from .mixture import SelectionMixture
from .model_file import ModelFileError, load, save
from .weights import DecorrelationWeights

__version__ = "0.1.0.dev0"
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
# Imported on first access: `import unskew` loads neither matplotlib nor dask.
_SUBMODULES = (
    *("baselines", "dask", "datasets", "diagnostics", "feature_selection", "metrics"),
    *("plots", "report", "simulate"),
)


def __getattr__(name: str):
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES])
