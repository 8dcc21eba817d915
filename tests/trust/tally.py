"""Counts of what the trust tests tried, for docs/results/trust.md (`make soak`)."""

import os
from collections import Counter

TALLY: Counter = Counter()
# Examples of a property test, and seconds of fuzzing of each format.
EXAMPLES = int(os.environ.get("UNSKEW_TRUST_EXAMPLES", "12"))
FUZZ_SECONDS = float(os.environ.get("UNSKEW_TRUST_FUZZ_SECONDS", "0.2"))


def count(what, number=1):
    TALLY[what] += number
