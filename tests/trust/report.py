"""Write docs/results/trust.md: python -m tests.trust.report COUNTS TARGET."""

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
]  # fmt: skip
ROWS = {
    "examples": "examples of property tests",
    "differential cases": "cases compared with independent code",
    "kills": "kills (`kill -9`) of fits and outputs",
    "checkpoints tampered": "tampered checkpoints",
    "fits under load": "fits under load (one process, threads, fork, spawn, joblib)",
    "files fuzzed": "damaged files read",
    "seconds fuzzed": "seconds of fuzzing, in processes with 4 GiB of memory",
    "seconds": "seconds in all",
}


def page(counts):
    lines = ["# Trust", ""]
    lines += ["Random inputs, faults, load and hostile files, tried by `make soak`. "
              "[SECURITY.md](../../SECURITY.md) says what is promised.", ""]  # fmt: skip
    result = "no test failed" if counts["passed"] else "**tests failed**"
    names = ("numpy", "scipy", "scikit-learn", "polars", "pyarrow")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    lines += [f"{datetime.now(UTC):%Y-%m-%d}: {result}. Python {platform.python_version()}, "
              f"{versions}.", ""]  # fmt: skip
    lines += ["| tried | number |", "|---|---|"]
    lines += [f"| {text} | {counts.get(name, 0):,} |" for name, text in ROWS.items()]
    lines += ["", "## Findings", "", "| found | fixed by the commit |", "|---|---|"]
    lines += [f"| {what} | {commit} |" for what, commit in FINDINGS]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    found, target = sys.argv[1:]
    Path(target).write_text(page(json.loads(Path(found).read_text())))
