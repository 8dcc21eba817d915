"""unskew: clustering for data that were gathered with bias."""

__version__ = "0.1.0.dev0"
