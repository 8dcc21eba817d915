"""unskew: clustering for data that were gathered with bias."""

from .dckm import DCKM
from .weights import DecorrelationWeights

__version__ = "0.1.0.dev0"
__all__ = ["DCKM", "DecorrelationWeights", "__version__"]
