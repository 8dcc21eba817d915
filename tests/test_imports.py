"""One-way imports between modules, and what `import unskew` may load."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unskew

# Each module may import only those listed before it.
SOURCE = Path(unskew.__file__).parent
ARCHITECTURE = Path(__file__).parent.parent / "ARCHITECTURE.md"


def listed_modules() -> list[str]:
    """Modules in the order of the table in ARCHITECTURE.md."""
    text = ARCHITECTURE.read_text()
    table = text[text.index("<!-- modules: begin -->") : text.index("<!-- modules: end -->")]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


ORDER = listed_modules()
# Imported only inside functions, or in modules that `import unskew` does not load.
LATE = {
    "matplotlib",
    "dask",
    "distributed",
    "pandas",
    "polars",
    "pyarrow",
    "pooch",
    "rich_click",
    "jinja2",
    "skops",
    "rich",
}


def module_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, package: list[str]):
    """(module, at top level) of every import, relative ones made absolute."""
    top = set(map(id, ast.iter_child_nodes(tree)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in top
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            if node.module is None:
                for alias in node.names:
                    yield f"{module}.{alias.name}", id(node) in top
            else:
                yield module, id(node) in top


def sources():
    for path in sorted(SOURCE.rglob("*.py")):
        package = ["unskew", *path.relative_to(SOURCE).parts[:-1]]
        yield path, list(imports(ast.parse(path.read_text()), package))


def test_a_module_imports_only_modules_listed_before_it():
    wrong = []
    for path, found in sources():
        own = module_of(path)
        if own == "__init__":
            continue
        assert own in ORDER, f"{own} is not listed"
        for module, _ in found:
            parts = module.split(".")
            assert parts[0] != "benchmarks", f"{path.name} imports {module}"
            if parts[0] != "unskew" or len(parts) < 2 or parts[1] == own:
                continue
            if parts[1] in ORDER and ORDER.index(parts[1]) > ORDER.index(own):
                wrong.append(f"{path.name} imports {module}")
    assert not wrong


def test_architecture_lists_every_module_once():
    found = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path, _ in sources()}
    assert sorted(ORDER) == sorted(found - {"__init__"})


def test_import_unskew_loads_neither_matplotlib_nor_dask_nor_dataframes():
    # Parsed, not looked up in sys.modules: scikit-learn itself loads pandas where it is installed.
    reached, queue = set(), ["unskew", *(f"unskew.{name}" for name in unskew._MODULES)]
    by_module = {}
    for path, found in sources():
        parts = [p.removesuffix(".py") for p in path.relative_to(SOURCE).parts]
        name = ".".join(["unskew", *[p for p in parts if p != "__init__"]])
        by_module[name] = [module for module, top in found if top]
    while queue:
        module = queue.pop()
        if module in reached:
            continue
        reached.add(module)
        for imported in by_module.get(module, []):
            assert imported.split(".")[0] not in LATE, f"{module} imports {imported}"
            queue.extend(
                name for name in (imported, imported.rsplit(".", 1)[0]) if name in by_module
            )
    assert "unskew.dckm" in reached


def test_public_names_exist():
    for name in unskew.__all__:
        assert hasattr(unskew, name)


def test_submodules_are_attributes_of_the_package():
    code = (
        "import sys, unskew\n"
        "assert 'unskew.report' not in sys.modules and 'matplotlib' not in sys.modules\n"
        "assert unskew.report.write_report and unskew.diagnostics.verdict and unskew.simulate\n"
        "assert set(unskew._SUBMODULES) <= set(dir(unskew))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="module 'unskew' has no attribute 'clusters'"):
        unskew.clusters  # noqa: B018
