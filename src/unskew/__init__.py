"""unskew: clustering for data that were gathered with bias."""

from ._encode import TableEncoder
from ._readers import ParquetReader
from .consensus import ConsensusDCKM, choose_k, choose_strengths
from .dckm import DCKM
from .model_file import ModelFileError, load, save
from .weights import DecorrelationWeights

__version__ = "0.1.0.dev0"
__all__ = [
    "DCKM",
    "ConsensusDCKM",
    "DecorrelationWeights",
    "ModelFileError",
    "ParquetReader",
    "TableEncoder",
    "__version__",
    "choose_k",
    "choose_strengths",
    "load",
    "save",
]
