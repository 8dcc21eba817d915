"""With UNSKEW_TRUST_REPORT=out/trust, each process writes its counts to out/trust-NAME.json."""

import json
import os
import time

from tests.trust.tally import TALLY

BEGIN = time.monotonic()


def pytest_sessionfinish(session, exitstatus):
    path = os.environ.get("UNSKEW_TRUST_REPORT")
    if path and TALLY:
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        counts = {
            "passed": session.testsfailed == 0,
            "seconds": round(time.monotonic() - BEGIN),
            **TALLY,
        }
        with open(f"{path}-{name}.json", "w") as file:
            json.dump(counts, file)
