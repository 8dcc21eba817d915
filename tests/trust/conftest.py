"""With UNSKEW_TRUST_REPORT, the counts of a session are written there as JSON."""

import json
import os
import time

from tests.trust.tally import TALLY

BEGIN = time.monotonic()


def pytest_sessionfinish(session, exitstatus):
    path = os.environ.get("UNSKEW_TRUST_REPORT")
    if path and TALLY:
        counts = {"passed": exitstatus == 0, "seconds": round(time.monotonic() - BEGIN), **TALLY}
        with open(path, "w") as file:
            json.dump(counts, file)
