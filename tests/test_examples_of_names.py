"""Every public function and estimator has an example that runs, in its docstring."""

import dataclasses
import importlib
import inspect

import pytest

MODULES = ["", ".anndata", ".baselines", ".dask", ".datasets", ".diagnostics", ".feature_selection"]
MODULES += [".metrics", ".plots", ".report", ".simulate"]


def is_result(thing):
    """Results and exceptions: the examples of the functions that return or raise them show them."""
    if not inspect.isclass(thing):
        return False
    return dataclasses.is_dataclass(thing) or issubclass(thing, (tuple, Exception))


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_an_example(name):
    module = importlib.import_module(f"unskew{name}")
    public = [getattr(module, one) for one in module.__all__]
    named = [one for one in public if callable(one) and not is_result(one)]
    without = [one.__name__ for one in named if ">>>" not in (one.__doc__ or "")]
    assert named
    assert not without
