"""Bit-identical results for any number of threads."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from unskew.dckm import DCKM

from ._measure import PAPER, binary_matrix, figure


def threads(quick: bool) -> list[dict]:
    n = 20_000 if quick else 100_000
    binary = binary_matrix(n, 40, groups=4)
    mixed = binary + np.random.default_rng(2).normal(size=binary.shape).astype(np.float32) * (
        np.arange(40) % 2
    )
    cases = {
        "descent, float32, two-valued": (binary, {"n_init": 1, "max_iter": 2}),
        "descent, float32, mixed columns": (mixed[: n // 4], {"n_init": 1, "max_iter": 2}),
        "solver='paper', uint8": (binary.astype(np.uint8), {**PAPER, "max_iter": 5}),
        "solver='paper', CSR": (sp.csr_array(binary), {**PAPER, "max_iter": 3}),
    }
    out = []
    for name, (X, how) in cases.items():
        fits = [DCKM(4, random_state=0, n_threads=k, **how).fit(X) for k in (1, 2, 4)]
        same = all(
            np.array_equal(getattr(fits[0], what), getattr(other, what))
            for other in fits[1:]
            for what in ("weights_", "labels_", "cluster_centers_", "objective_")
        )
        what, size = f"n_threads 1, 2 and 4: {name}", f"{X.shape[0]} x {X.shape[1]}"
        out.append(figure(what, size, same, "the same bits", holds=same))
    return out
