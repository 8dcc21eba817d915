"""What tests share: data that do not live in the repository, the command line."""

import os
from pathlib import Path

# Before scikit-learn is loaded: on small data the OpenMP threads of its k-means only wait for each
# other, several times longer where the tests run in two processes. Subprocesses inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

# The same examples in every run of `make test`; `make soak` draws others each time.
settings.register_profile(
    "unskew",
    max_examples=40,
    deadline=None,
    derandomize="UNSKEW_TRUST_EXAMPLES" not in os.environ,
)
settings.load_profile("unskew")


def reference_folder(kind: str) -> Path | None:
    """Recorded runs of the authors' code outside the repository, or None."""
    folder = os.environ.get("UNSKEW_REFERENCE")
    return Path(folder) / kind if folder and (Path(folder) / kind).is_dir() else None


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def outside_reference():
    def find(kind: str) -> Path:
        folder = reference_folder(kind)
        if folder is None:
            pytest.skip("UNSKEW_REFERENCE is not set: recorded runs on the paper's data are absent")
        return folder

    return find


@pytest.fixture
def unskew(capsys):
    """The command line as a person types it: (exit code, standard output, standard error)."""
    from unskew.cli import main

    def type_in(*arguments):
        capsys.readouterr()
        code = main([str(a) for a in arguments])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err or "--debug" in arguments
        return code, printed.out, printed.err

    return type_in
