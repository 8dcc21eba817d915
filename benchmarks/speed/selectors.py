"""Time of feature ranking, for information, without targets."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

from unskew import feature_selection

from ._measure import Clock, binary_matrix, figure, watched_memory


def selectors(quick: bool) -> list[dict]:
    n, d, out = 1123, 800, []
    X = binary_matrix(n, d, np.float64)
    plain = KMeans(10, n_init=10, random_state=0)
    for name in ("REFS",) if quick else ("REFS", "RUFS", "FSASL"):
        settings = {} if name == "REFS" else {"n_clusters": 10}
        selector, clock = getattr(feature_selection, name)(**settings), Clock()
        with watched_memory() as peak:
            ours = clock.time(lambda: selector.fit(X))  # noqa: B023
        peer = clock.best(lambda: plain.fit(X), 2)
        times = {"seconds": ours, "peer_seconds": peer, "others": clock.others}
        unit, note = "x scikit-learn KMeans(10, n_init=10)", f"peak {peak[0]:.0f} MB"
        what = f"{name}, default settings"
        out.append(figure(what, f"{n} x {d}", ours / peer, unit, note=note, **times))
    return out
