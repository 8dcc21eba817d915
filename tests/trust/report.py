"""Write docs/results/trust.md: python -m tests.trust.report TARGET COUNTS ..."""

import json
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

# What was found when the package was attacked, and the subject of the commit that fixed it.
SCALES = "Keep names, codes and scales of values apart in results"
CHECKPOINTS = "Check everything that is read back from a checkpoint"
FAULTS = "Turn faults of streams, files and names into errors"
MAT = "Check the tags of MATLAB files before SciPy reads them"
UNITS = "Take unit and origin out of numeric suspects of mixtures"
SITES = "Keep sites called missing apart from missing values"
MIXTURES = "Check the parameters in checkpoints of mixtures, inject more faults"
RESTORED = "Check mixtures and correctors of model files before they are used"
TEXT = "Refuse text with code points that are no characters"
SHEETS = "Refuse sheets with cells far away, keep values with equal labels"
APPLY = "Refuse text and options that correct --apply cannot use"
CLASSES = "Check every class of model files before it is used"
BASELINES = "Refuse squares that overflow in baselines and selectors"
KERNELS = "Test scales, scores and bounds that mutants could change"
ORIGIN = "Sum squares of sparse columns about their means"
EDGES = "Refuse powers that overflow, scores of no rows, huge numbers"
NEW_ROWS = "Refuse new rows whose squared distances overflow"
FINDINGS = [
    ("values called `missing` or `other values` were merged with missing ones or the pool", SCALES),
    ("integer codes above 2^53 were merged", SCALES),
    ("float32 rows of scale below 1e-22 gave another objective", SCALES),
    ("weights of scale below 1e-160 or above 1e153: wrong labels, OverflowError", SCALES),
    ("weighted ARI was 1 at weights of 1e-170", SCALES),
    ("rows of weight 0 could keep their initial label", SCALES),
    ("a crafted sparse CSC `.npz` wrote outside of its arrays", SCALES),
    ("a MATLAB file with an undefined data type ended the process (fault of SciPy)", MAT),
    ("declared width of 10^12, svmlight index of 2 x 10^9, `--bins 2147483648`", SCALES),
    ("100,000 csv columns took 87 s (now 17 s)", SCALES),
    ("tampered checkpoints corrupted memory or continued to other bits", CHECKPOINTS),
    ("a full disk at a checkpoint ended the fit", CHECKPOINTS),
    ("escape sequences in names and values reached the terminal", FAULTS),
    ("closed standard streams, full devices, Ctrl-C during imports: tracebacks", FAULTS),
    ("temporary files of killed processes stayed", FAULTS),
    ("warnings of NumPy before infinity was refused", FAULTS),
    ("impossible dates, codecs of bytes, deep JSON, duplicate names: internal errors", FAULTS),
    ("the spline of a numeric suspect depended on its unit and origin", UNITS),
    ("`one_group_bic_` was infinite with effects per group", UNITS),
    ("0 / 0 in the kurtosis of rows that are equal within levels", UNITS),
    ("a suspect's value `missing` was merged with missing values in mixtures", SITES),
    ("`lisi_score` and `kbet_score` failed at extreme scales", SITES),
    ("forged checkpoints of mixtures had negative variances or indices of other columns", MIXTURES),
    ("out of memory during the imports of the command line: traceback", MIXTURES),
    ("forged mixtures and correctors in model files: internal errors, wrong shapes", RESTORED),
    ("mixtures of suspects with missing values could not be saved", RESTORED),
    ("a sparse `.npz` with fractional positions was read with other positions", RESTORED),
    ("parquet, feather and jsonl files of some kilobytes that became gigabytes", RESTORED),
    ("`association` was NaN, and metrics took complex weights", RESTORED),
    ("integers above 1.8e308 in object columns: internal error", RESTORED),
    ("a cell far away in an `.xlsx` sheet ended the process", SHEETS),
    ("values of Stata and SPSS files with the same label were merged", SHEETS),
    ("`correct --apply`: text in a number was an internal error, options were ignored", APPLY),
    ("rows to predict beyond 1e154: warnings of NumPy and a label by chance", NEW_ROWS),
    ("`.npy` records with invalid text became invalid strings in polars", TEXT),
    ("BIC with a full covariance: columns with effects of the first suspect alone", KERNELS),
    ("forged model files of other classes: internal errors, wrong shapes, all memory", CLASSES),
    ("baselines and selectors at extreme scales: warnings of NumPy, labels by chance", BASELINES),
    ("rows far from a suspect's mean at `effect_degree=5`: infinite distances", EDGES),
    ("`score` of a table without rows: ZeroDivisionError", EDGES),
    ("`TableEncoder` without clipping: infinity in float32, warnings of NumPy", EDGES),
    ("weights of 1 and 1e-200: warnings of NumPy", EDGES),
    ("standard deviations of sparse columns far from 0 lost their digits", ORIGIN),
    ("names of files that are too long: a message of the system", EDGES),
]  # fmt: skip
# What was run with other versions than those of the first lines of the page.
VERSIONS = [
    ("Python 3.11.7, oldest declared versions (`tests/trust/oldest.txt`)", "`make oldest`",
     "1,132 passed, 2026-11-20"),
    ("Python 3.13.0, versions of `constraints.txt`",
     "all of `make test` at the commit 'Measure the verdict again, describe correctors, add new "
     "cells'",
     "4,189 passed, 2026-11-20"),
]  # fmt: skip
NOT_COVERED = [
    "Memory: where polars or OpenBLAS cannot allocate, they end the process; files stay whole.",
    "Read-only folders (the tests ran as root), power failures, other systems than Linux. A full "
    "disk is simulated by limits on the size of files and by injected errors.",
    "Kills on a cluster of machines; `tests/test_dask.py` kills a Dask worker on one machine.",
    "Mutants: a sample of the places, one change at a time, in the modules of the table.",
]
# Mutants that no test can find, because the result is the same: code -> reason.
SAME_RESULT = {
    "for _ in range(min(most, 2 * right.size + 10)):": "a limit of iterations that is not reached",
    "if high > 1e12 * self.sigma:": "by this size the bound is known to be out of reach",
    'call: Any = {"dense": not self._as_csr, "additive": True}': "the form of the rows, not values",
    "mu = mu - self.rho * float(self.a @ e) / self.design_sum * self._constant":
        "the start of Newton's method, whose solution is unique",
    "if not curved > 0:": "differs for a curvature of exactly 0",
    "bits = np.ascontiguousarray(np.packbits(T > 0.5, axis=1))": "T is 0 or 1",
    'together = "" if alone or len(margins) == 1 else "together "': "a word of a message",
    "LEVEL, CORRELATION_ROWS = 0.01, 1000": "the size of a subsample",
    "if not (mean > 0 and variance > 0):": "both are 0, or neither",
    "parts = dual.rows.map(kernel, dual.a, dual.cell, dense=not dual._as_csr, additive=True)":
        "the form of the rows, or the order in which sums are added",
    "marginal, converged = -np.inf, False": "replaced in the first iteration",
    "self.shares = n / np.maximum(n.sum(1, keepdims=True), 1e-300)": "a bound against 0 / 0",
    "ratio = at_levels / np.maximum(average, 1e-300)": "a bound against 0 / 0",
    "MIN_SHARE = 1e-12": "a bound against log 0",
    "return self.a, np.broadcast_to(0.0, self.a.shape) if e is None else e, self.cell":
        "multiplied by rho, which is 0 where e is None",
    "two_sided = (s > 1e-12 * weight_sum) & (weight_sum - s > 1e-12 * weight_sum)":
        "a bound against rounding",
    "factor = factor * np.exp(-np.clip(move, -2.0, 2.0))":
        "the length of a Newton step, whose solution is unique",
    "for _ in range(50):": "a limit of iterations that is not reached",
    "cell = cell.astype(np.min_scalar_type(max(len(everything) - 1, 0)), copy=False)":
        "the type of integers, not their values",
    "best, highest, kept, converged = Fit(model, -np.inf, history, 0, False), -np.inf, 0, False":
        "replaced in the first iteration",
    "np.log(max(n, 1.0))": "differs below two rows",
    "MIN_VARIANCE = 1e-6": "a bound against singular covariances",
    "w, w0 = n * np.maximum(p, 1e-6), weak * np.maximum(p0, 1e-6)": "a bound against 0 / 0",
    "SCALES = np.exp(np.linspace(np.log(1e-4), np.log(1e3), 33))": "a grid of scales to try",
    "FACTORS = np.array([0.2, 0.5, 0.8, 0.93, 0.98, 1.0, 1.02, 1.07, 1.25, 2.0, 5.0])":
        "a grid of scales to try",
    "return np.where(old > 0, old * factors, SCALES[:, None])": "a grid of scales to try",
    "totals = np.where(each.empty, 0.0, totals)":
        "raking takes the weight from these cells as well",
    "empty = (T[:, own] @ (each.wanted == 0)) > 0":
        "raking takes the weight from these cells as well",
    "contrast = (T @ pooled - s / weight_sum) * rate": "a redundant direction, the same solution",
    "return float(w @ w) * float(inverse_a[0])": "all entries are equal",
}  # fmt: skip
ROWS = {
    "examples": "examples of property tests",
    "differential cases": "cases compared with independent code",
    "faults injected": "memory limits, dying workers, shared checkpoints, limits on file sizes",
    "kills": "kills (`kill -9`) of fits and outputs",
    "checkpoints tampered": "tampered checkpoints",
    "model files tampered": "models with a forged attribute, as a model file could have it",
    "fits under load": "fits under load (one process, threads, fork, spawn, joblib)",
    "files fuzzed": "damaged files read",
    "seconds fuzzed": "seconds of fuzzing, in processes with 4 GiB of memory",
    "seconds": "seconds in all",
}


def page(counts):
    lines = ["# Trust", ""]
    lines += [
        "What was tried to make unskew give a wrong result, lose a file or end with a fault: "
        "random inputs, killed processes, full disks, load, damaged and forged files. "
        "`SECURITY.md` says what is promised. Written by `make soak`.",
        "",
    ]
    result = "no test failed" if counts["passed"] else "**tests failed**"
    names = ("numpy", "scipy", "scikit-learn", "polars", "pyarrow")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    lines += [f"{datetime.now(UTC):%Y-%m-%d}: {result}. Python {platform.python_version()}, "
              f"{versions}.", ""]  # fmt: skip
    lines += ["| tried | number |", "|---|---|"]
    lines += [f"| {text} | {counts.get(name, 0):,} |" for name, text in ROWS.items()]
    lines += [
        "",
        "## Findings",
        "",
        "What these and earlier attacks found. Each is fixed and has a test.",
        "",
        "| found | fixed by the commit |",
        "|---|---|",
    ]
    lines += [f"| {what} | {commit} |" for what, commit in FINDINGS]
    lines += ["", "## Versions", "", "| versions | tests | result |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in VERSIONS]
    lines += ["", *mutants(), "## Not covered", "", *(f"- {text}" for text in NOT_COVERED)]
    return "\n".join(lines) + "\n"


def mutants(path="out/mutants.json"):
    """The mutation check of `make mutants`, if it was run."""
    if not Path(path).exists():
        return ["Mutants: `make mutants` was not run.", ""]
    found = json.loads(Path(path).read_text())
    alive = [one for one in found if one["survived"]]
    lines = ["## Mutants", "", f"{len(found)} small changes of the kernels, one at a time (`make "
             f"mutants`): {len(found) - len(alive)} are found by the tests of their module or of "
             "the estimators that use it.", ""]  # fmt: skip
    if again := sum(one.get("again", False) for one in found):
        lines += [f"{again} of these survived the check; tests were added, and each was applied "
                  "again, alone.", ""]  # fmt: skip
    lines += ["| module | changed | found |", "|---|---|---|"]
    for module in dict.fromkeys(one["module"] for one in found):
        own = [one["survived"] for one in found if one["module"] == module]
        lines.append(f"| `{module}` | {len(own)} | {own.count(False)} |")
    lines += ["", "Not found by these tests, and why:", "", "| module | change | reason |"]
    lines += ["|---|---|---|"]
    for one in alive:
        why = SAME_RESULT.get(one["code"], "not examined")
        lines.append(f"| `{one['module']}` | {one['change']} in `{one['code']}` | {why} |")
    return [*lines, ""]


if __name__ == "__main__":
    target, *files = sys.argv[1:]
    parts = [json.loads(Path(file).read_text()) for file in files]
    counts = {name: sum(part.get(name, 0) for part in parts) for part in parts for name in part}
    counts["seconds"] = max(part["seconds"] for part in parts)
    Path(target).write_text(page({**counts, "passed": all(part["passed"] for part in parts)}))
