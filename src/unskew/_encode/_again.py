"""Rows read once more through the eyes of a fitted model: for numbers about the fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._blocks import Rows
from ._matrix import Encoded, Layout, encode
from ._read import as_frame


def encode_for(model: Any, X: Any, sample_weight: Any = None) -> Encoded:
    """The rows of a fit, or some of them, as the fit saw them: distance, treatments and pairs of
    ``model``. Of some rows, deviations and quantile bins are their own."""
    encoder = model.encoder_
    if encoder is not None:
        matrix, layout = encoder.read(X).matrix, encoder.layout()
    else:
        frame = as_frame(X)
        X = X if frame is None else frame.to_numpy()
        matrix = sp.csr_array(X) if sp.issparse(X) else np.ascontiguousarray(X)
        if matrix.dtype not in (np.float32, np.float64, np.uint8, np.int8, np.bool_):
            matrix = matrix.astype(np.float64)
        layout = Layout.plain(matrix.shape[1], getattr(model, "feature_names_in_", None))
    n = matrix.shape[0]
    suspects = None
    if model.suspects_ is not None:
        suspects = np.flatnonzero(np.isin(layout.source, model.suspects_))
    encoded = encode(
        Rows(matrix, n_threads=model.n_threads),
        np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64),
        suspects=suspects,
        cluster_on=getattr(model, "cluster_on", "all"),
        n_bins=model.n_bins,
        standardise=model.scale == "relative",
        layout=layout,
        shift=model._shift,
    )
    distance = getattr(model, "_distance", None)
    if distance is None:
        return encoded
    if distance.effects is None:
        return encoded._replace(distance=replace(encoded.distance, form=distance.form))
    # With effects the balance looks at corrected features, from one side.
    forward = [p for p in encoded.rectangles if not np.isin(p.features, suspects).any()]
    return encoded._replace(
        distance=distance, rectangles=[replace(p, effects=distance.effects) for p in forward]
    )
