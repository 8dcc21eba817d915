"""Mutation check: python -m tests.trust.mutants RESULT [mutants of each module].

Small changes of the kernels (a comparison, an operation, a constant), one at a time in a copy of
the package; the quick tests of the module, or those of the estimators that use it, should fail.
Messages and types are not changed.
"""

import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOLVER = ["tests/test_dual.py", "tests/test_solver.py"]
MIXTURE = ["tests/test_mixture.py", "tests/trust/test_kernels.py"]
TESTS = {
    "_solver/dual.py": SOLVER,
    "_solver/cells.py": SOLVER,
    "_solver/chance.py": ["tests/test_null_law.py"],
    "_mixture/em.py": MIXTURE,
    "_mixture/gaussian.py": MIXTURE,
    "_mixture/discrete.py": MIXTURE,
    "_mixture/cells.py": MIXTURE,
    "_solver/weights.py": SOLVER,
    "_kmeans.py": ["tests/test_kmeans.py", "tests/test_solver.py"],
    "_terms.py": ["tests/test_terms.py", *SOLVER, "tests/test_balance.py"],
}
# Tests that run a module as users do, for mutants that its quick tests do not find.
WIDER = {
    "_solver": ["tests/test_effects.py", "tests/test_tables.py"],
    "_mixture": ["tests/test_mixture_suspects.py", "tests/test_mixture_out_of_core.py"],
    "_kmeans.py": ["tests/test_kmeans.py", "tests/test_tables.py"],
    "_terms.py": ["tests/test_terms.py", "tests/test_tables.py"],
}
# The tests of a mutant may take this many times as long as those of the package, and 30 seconds; an
# endless loop counts as found.
TIMES, WIDER_SECONDS = 5, 900

COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
           ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is}  # fmt: skip
OPERATE = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
SWAPS = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max",
         "argmax": "argmin", "argmin": "argmax", "any": "all", "all": "any"}  # fmt: skip


def places(tree):
    """Nodes that can be changed, outside of annotations, messages and docstrings."""
    skipped = set()
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.ImportFrom, ast.Assert)):
            parts.append(node)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("cast", "emit"):
            parts.append(node)
        skipped |= {id(own) for part in parts if part is not None for own in ast.walk(part)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in skipped and changed(copy.deepcopy(node)) is not None:
            yield number, node.lineno


def changed(node):
    """What was changed in the node, or None."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARE:
        was, node.ops[0] = type(node.ops[0]), COMPARE[type(node.ops[0])]()
        return f"{was.__name__} -> {type(node.ops[0]).__name__}"
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATE:
        was, node.op = type(node.op), OPERATE[type(node.op)]()
        return f"{was.__name__} -> {type(node.op).__name__}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node.op = ast.UAdd()
        return "-x -> +x"
    if isinstance(node, ast.BoolOp):
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        return f"-> {type(node.op).__name__}"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        was = node.value
        node.value = (
            not was
            if isinstance(was, bool)
            else was + 1
            if isinstance(was, int)
            else 2 * was + (was == 0)
        )
        return f"{was!r} -> {node.value!r}"
    if isinstance(node, ast.Attribute) and node.attr in SWAPS:
        was, node.attr = node.attr, SWAPS[node.attr]
        return f"{was} -> {node.attr}"
    if isinstance(node, ast.Name) and node.id in ("max", "min", "any", "all"):
        was, node.id = node.id, SWAPS[node.id]
        return f"{was} -> {node.id}"
    return None


def mutant(source, number):
    """The source with its node of that number changed, and what was changed."""
    tree = ast.parse(source)
    what = changed(list(ast.walk(tree))[number])
    return ast.unparse(tree), what


def survives(folder, tests, seconds=None):
    """Whether the tests pass with the package in ``folder`` in this time."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1",
                   "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    try:
        found = subprocess.run(
            [*command, *tests], cwd=ROOT, env=environment, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return False
    return found.returncode == 0


def main(result, number=20, seed=0):
    rng, records = random.Random(seed), []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src/unskew", Path(folder) / "unskew")
        for module, tests in TESTS.items():
            path, wider = Path(folder) / "unskew" / module, WIDER[module.split("/")[0]]
            source = path.read_text()
            begin = time.monotonic()
            if not survives(folder, tests):
                raise SystemExit(f"{module}: {' '.join(tests)} should pass")
            seconds = TIMES * (time.monotonic() - begin) + 30
            every = list(places(ast.parse(source)))
            for at, line in rng.sample(every, min(number, len(every))):
                text, what = mutant(source, at)
                path.write_text(text)
                alive = survives(folder, tests, seconds) and survives(folder, wider, WIDER_SECONDS)
                code = source.splitlines()[line - 1].strip()
                records.append({"module": module, "line": line, "code": code, "change": what,
                                "survived": alive})  # fmt: skip
                print("SURVIVED" if alive else "killed", module, line, what, code, flush=True)
                Path(result).write_text(json.dumps(records, indent=0))
            path.write_text(source)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
