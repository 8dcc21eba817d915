"""20 iterations of the authors' procedure relative to KMeans, on the paper's data."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

from unskew.datasets import load_paper
from unskew.dckm import DCKM

from ._measure import PAPER, Clock, binary_matrix, cpu_seconds, figure

# rows, limit of the ratio to KMeans, seconds of the authors' code (measured once, idle machine)
DATA = {"amazon": (958, 2.0, None), "dslr": (157, 2.0, 156.0)}


def procedure(quick: bool) -> list[dict]:
    out = []
    for name, (n, limit, authors) in DATA.items():
        try:
            X = load_paper(name, download_if_missing=False).data.astype(np.float32)
            source, aims = "the paper's data", True
        except (OSError, ValueError):
            X = np.where(binary_matrix(n, 800, groups=10) > 0, 1, -1).astype(np.float32)
            source, aims = "SYNTHETIC of the same size: the data are absent (UNSKEW_DATA)", False
        model = DCKM(10, **PAPER, max_iter=20, random_state=0)
        plain = KMeans(10, n_init=10, random_state=0)
        clock = Clock()
        ours, peer = clock.race(lambda: model.fit(X), lambda: plain.fit(X), 3 if quick else 15)  # noqa: B023
        one = DCKM(10, **PAPER, max_iter=20, random_state=0, n_threads=1)
        serial = cpu_seconds(lambda: one.fit(X), 5)  # noqa: B023
        by_cpu = serial / cpu_seconds(lambda: plain.fit(X), 5)  # noqa: B023
        what, size = "20 iterations of the authors' procedure, float32", f"{name}, {n} x 800"
        times = {"seconds": ours, "others": clock.others, "note": source}
        unit = "x scikit-learn KMeans(10, n_init=10)"
        more = {"peer_seconds": peer, "by_cpu": by_cpu, **times}
        # The targets are for the paper's data only.
        target = {"at_most": limit} if aims else {}
        out.append(figure(what, size, ours / peer, unit, **target, **more))
        if authors is not None:
            unit = "x faster than the authors' code (156 s)"
            more = {"peer_seconds": authors, **times}
            target = {"at_least": 2000} if aims else {}
            out.append(figure(what, size, authors / ours, unit, **target, **more))
    return out
