"""The scripts of the gallery. `make docs` executes them."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_examples_import_only_public_names_that_exist(script):
    tree = ast.parse(script.read_text(encoding="utf-8"), script.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "unskew":
            module = import_module(node.module)
            assert not node.module.count("._")
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


def test_gallery_has_at_least_twelve_examples():
    assert len(SCRIPTS) >= 12
