"""unskew demo: eight methods on simulated data with one biased column."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Group

from ..report._terminal import facts, show_scores, verdict_line
from ._session import Session

EXPLANATION = (
    "\nDropping the column does not help, because 36 other columns depend on the site. "
    "Regressing it out also removes part of the kinds, which shows in the sample.\n"
    "Effective size: effective sample size as a share of the rows. Imbalance left: remaining "
    "share of the association between site and the other columns.\n"
)


def demo(run: Session) -> int:
    """Compare eight methods on simulated data with one biased column.

    Patients of four kinds at four sites. Site and kind are associated in the sample and
    independent in the population; 40 columns depend on the kind, 36 on the site. Only the site is
    named as a suspect.
    """
    from ..diagnostics import diagnose
    from ..diagnostics._simulated import MethodScores, score_methods
    from ..simulate import make_site_footprint

    rate, rows, samples, seed = (run.options[n] for n in ("rate", "rows", "samples", "seed"))
    begin, results = time.monotonic(), []
    with run.outputs(record=False):
        for i in range(samples):
            with run.step("demo", f"sample {i + 1} of {samples}: simulating, eight methods"):
                data = make_site_footprint(rows, rate=rate, random_state=seed + i)
                scores, model, frame = score_methods(data, seed + i)
            results.append(scores)
        with run.step("demo", "computing diagnostics"):
            diagnosed = diagnose(model, frame)
        run.write_report(diagnosed)
    means = {
        method: MethodScores(*map(_mean, zip(*(scores[method] for scores in results))))
        for method in results[0]
    }
    seconds = time.monotonic() - begin
    of = f"mean of {samples} samples" if samples > 1 else "one sample"
    before = (
        f"{rows:,} patients, 4 kinds, 4 sites. Site and kind are associated in the "
        f"sample (rate {rate:g}) and independent in the population. Only `site` is named.\n"
        f"Agreement with the true kinds (adjusted Rand index, 1 = perfect), {of}:\n"
    )
    ending = facts(
        ("verdict", verdict_line(diagnosed.verdict)),
        ("time", f"{seconds:.0f} s"),
    )
    run.show_result(
        Group(before, show_scores(means), EXPLANATION, ending),
        rows=rows,
        rate=rate,
        samples=samples,
        methods=[{"method": name, **scores._asdict()} for name, scores in means.items()],
        verdict=diagnosed.verdict,
        seconds=round(seconds, 1),
    )
    return 0


def _mean(values: Any) -> Any:
    return None if None in values else float(np.mean(values))
