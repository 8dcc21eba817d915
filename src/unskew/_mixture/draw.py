"""Rows drawn from a mixture."""

from __future__ import annotations

from typing import Any

import numpy as np

from .discrete import BernoulliBlock, expit
from .em import Mixture
from .gaussian import GaussianBlock
from .rows import Columns


def draw_labels(shares: np.ndarray, rng: Any) -> np.ndarray:
    """Groups of rows with the shares (n, K)."""
    drawn = (rng.random_sample((len(shares), 1)) > np.cumsum(shares, 1)).sum(1)
    return np.minimum(drawn, shares.shape[1] - 1)


def draw_columns(model: Mixture, level: np.ndarray, labels: np.ndarray, rng: Any) -> Columns:
    """Encoded columns of rows of given levels and groups."""
    n = level.size
    numbers, flags, categories = np.zeros((n, 0)), np.zeros((n, 0)), []
    floor = np.zeros(0)
    for block in model.blocks:
        eta = block.mu[labels, level]
        if isinstance(block, GaussianBlock):
            noise = rng.standard_normal(eta.shape)
            if block.full:
                noise = noise @ np.linalg.cholesky(block.Sigma).T
            else:
                noise = noise * np.sqrt(block.variance * np.exp(block.log_e[level]))
            numbers, floor = eta + noise, block.floor
        elif isinstance(block, BernoulliBlock):
            flags = (rng.random_sample(eta.shape) < expit(eta)).astype(float)
        else:
            p = np.exp(block.log_probability(eta))
            for own in np.split(p, block.firsts[1:], axis=1):
                categories.append((draw_labels(own, rng), own.shape[1]))
    return Columns(numbers, floor, flags, categories)
