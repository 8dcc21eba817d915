"""Results that the examples of `unskew.plots` draw; their docstrings name them."""

from functools import cache

import pytest


@cache
def results() -> dict:
    from unskew import DCKM, SelectionMixture, choose_k
    from unskew.diagnostics import audit, compare, diagnose
    from unskew.simulate import make_sites

    data = make_sites(200, n_clusters=2, n_sites=2, n_features=4, rate=0.7, random_state=0)
    X, suspects = data.X, data.suspects
    how = {"n_init": 1, "random_state": 0}
    mixture = SelectionMixture(2, suspects=suspects, effects="shift", **how).fit(X)
    model = DCKM(2, suspects=suspects, adjust="both", **how).fit(X)
    return {
        "X": X,
        "model": model,
        "mixture": mixture,
        "found": diagnose(model, X),
        "audited": audit(X, suspects=suspects),
        "compared": compare(X, 2, suspects=suspects, **how),
        "chosen": choose_k(X, (2, 3), suspects=suspects, random_state=0),
    }


@pytest.fixture(autouse=True)
def examples_of_plots(request):
    """Names that doctests of plots can use."""
    if isinstance(request.node, pytest.DoctestItem) and "unskew.plots." in request.node.name:
        request.getfixturevalue("doctest_namespace").update(results())
