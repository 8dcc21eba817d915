"""Command line of the benchmarks: python -m benchmarks NAME; see --help."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

NAMES = {
    "paper-table": "all methods on the paper's data, compared with the published numbers",
    "paper-correlation": "figure 2: amount of correlation before and after weighting",
    "paper-sensitivity": "figure 3: NMI over the strengths",
    "selection": "known selection bias: simulators over the rate, NHANES, crashes, pooled SURF",
    "effects": "named suspects: weights, effects and both, compared with baselines",
    "defaults": "results without labels: consensus and model selection",
    "verdict": "accuracy of the verdict on data with known groups",
    "mixture": "SelectionMixture compared with k-means, ComBat, Harmony and DCKM",
    "sites": "real and simulated sites, compared with Harmony, ComBat, StepMix and mixtures",
    "correction": "SuspectCorrector, ComBat and Harmony, followed by four clustering methods",
    "first-contact": "public tables through audit, fit, compare and predict: notes and errors",
    "tables": "NHANES as a table: two readers, baselines, known population shares",
    "speed": "time and memory relative to the machine's matrix product and scikit-learn",
}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Benchmarks of unskew. Results are stored after each task; an interrupted run "
        "can be resumed.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:18} {words}" for name, words in NAMES.items()),
    )
    parser.add_argument("name", choices=NAMES, metavar="NAME", help="one of the names below")
    parser.add_argument("--quick", action="store_true", help="small sizes, in minutes")
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="folder of the results (default: ./out)"
    )
    parser.add_argument("--jobs", type=int, help="number of processes (default: one per core)")
    parser.add_argument("--retry-failed", action="store_true", help="repeat failed tasks")
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = make_parser().parse_args(arguments)
    if options.jobs is not None and options.jobs < 1:
        print(f"benchmarks: --jobs {options.jobs} should be >= 1", file=sys.stderr)
        return 2
    serial = options.name in ("speed", "tables", "first-contact")
    if serial and (options.jobs is not None or options.retry_failed):
        print(
            f"benchmarks: {options.name} runs serially; "
            "--jobs and --retry-failed do not apply to it",
            file=sys.stderr,
        )
        return 2
    try:
        from . import (
            correction,
            defaults,
            effects,
            first_contact,
            mixture,
            paper,
            runner,
            selection,
            sites,
            speed,
            tables,
            verdict,
        )
    except ModuleNotFoundError as error:
        print(
            f"benchmarks: {error.name} is not installed; pip install 'unskew[bench]'",
            file=sys.stderr,
        )
        return 2

    study = {
        "paper-table": paper.paper_table,
        "paper-correlation": paper.paper_correlation,
        "paper-sensitivity": paper.paper_sensitivity,
        "selection": selection.selection,
        "effects": effects.effects,
        "defaults": defaults.defaults,
        "mixture": mixture.mixture,
        "verdict": verdict.verdict,
        "sites": sites.sites,
        "correction": correction.correction,
        "first-contact": first_contact.first_contact,
        "tables": tables.tables,
        "speed": speed.speed,
    }[options.name]
    begin = time.monotonic()
    words = ["python -m benchmarks", options.name, *(["--quick"] if options.quick else [])]
    command = " ".join(words)
    how = {"quick": options.quick, "command": command}
    if not serial:
        # Workers are separate processes; BLAS reads these variables when it is loaded.
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ.setdefault(variable, "1")
        how |= {"jobs": options.jobs or -1, "retry_failed": options.retry_failed}
    try:
        paths = study(options.out, options.out / "parts", **how)
    except FileNotFoundError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    except runner.StudyFailed as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command resumes from here", file=sys.stderr)
        return 130
    for path in paths:
        if path.suffix == ".md":
            print(path.read_text(encoding="utf-8"))
    for path in paths:
        print(path, file=sys.stderr)
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
