# Two commands are all a newcomer needs: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Real data and recorded runs stand beside the checkout where they are available; tests that need them skip otherwise.
ifneq ($(wildcard ../shared/data),)
export UNSKEW_DATA ?= $(abspath ../shared/data)
endif
ifneq ($(wildcard ../shared/reference),)
export UNSKEW_REFERENCE ?= $(abspath ../shared/reference)
endif

.PHONY: help setup demo test soak mutants oldest lint format bench docs dist clean

help:
	@echo "make demo   one biased column and what eight methods make of it, on simulated data"
	@echo "make test   the test suite, in two processes"
	@echo "make soak   tests that take minutes: faults, load, fuzzing; writes docs/results/trust.md"
	@echo "make mutants a mutation check of the kernels"
	@echo "make oldest a part of the tests with the oldest declared versions of the dependencies"
	@echo "make lint   ruff (format and rules) and mypy"
	@echo "make bench  slow measurements; prints tables"
	@echo "make docs   guide, gallery and reference, from $(DOCS)/html/index.html; examples are executed"
	@echo "make dist   wheel and sdist in dist/, checked"
	@echo "make setup  create $(VENV) with everything above (done by each target on its own)"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("unskew needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: $(READY)
	@mkdir -p out
	$(BIN)/unskew demo --report out/unskew-demo.html

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile

# About half an hour in two processes on two idle cores.
SOAK_PROCESSES ?= 2
soak: $(READY)
	@mkdir -p out
	rm -f out/trust-*.json
	UNSKEW_TRUST_EXAMPLES=280 UNSKEW_TRUST_FUZZ_SECONDS=5 UNSKEW_TRUST_REPORT=out/trust \
	    $(BIN)/python -m pytest tests/trust -m "soak or not soak" -n $(SOAK_PROCESSES)
	$(BIN)/python -m tests.trust.report docs/results/trust.md out/trust-*.json
	$(BIN)/python -m pytest -m soak --ignore tests/trust -n $(SOAK_PROCESSES)

# Mutants of kernels, solver, weights and mixture, 20 of each module, one to two hours. `make soak` adds
# the result to its page.
mutants: $(READY)
	@mkdir -p out
	$(BIN)/python -m tests.trust.mutants out/mutants.json

# The oldest declared versions, in a virtual environment of their own.
oldest:
	test -x $(VENV)-oldest/bin/python || $(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c tests/trust/oldest.txt -e ".[cli]" pytest hypothesis pandas
	$(VENV)-oldest/bin/python -m pytest $(OLDEST) -W "ignore::DeprecationWarning" \
	    --deselect tests/test_dckm.py::test_wide_sparse_data_with_a_suspect_stay_sparse  # random_array(rng=)

OLDEST = tests/test_dckm.py tests/test_kmeans.py tests/test_dual.py tests/test_solver.py tests/test_balance.py \
    tests/test_metrics.py tests/test_tables.py tests/test_checkpoint.py tests/test_io.py tests/test_cli.py \
    tests/trust/test_silent_errors.py

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/python -m benchmarks speed --quick --out out
	$(BIN)/python -m benchmarks paper-table --quick --out out
	$(BIN)/python -m benchmarks paper-correlation --quick --out out
	$(BIN)/python -m benchmarks paper-sensitivity --quick --out out
	$(BIN)/python -m benchmarks selection --quick --out out
	$(BIN)/python -m benchmarks sites --quick --out out
	$(BIN)/python -m benchmarks first-contact --out out

# Warnings are errors; links within the pages are checked by Sphinx. Examples of docstrings run in `make test`, those of
# the pages and the notebook here. One thread of BLAS: examples are small, and faster so.
DOCS       := out/docs
DOCS_READY := $(VENV)/.docs

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

docs: $(DOCS_READY)
	$(BIN)/codespell -L sav docs/*.md docs/guide examples README.md CONTRIBUTING.md CHANGELOG.md
	$(BIN)/python -m pytest --doctest-glob="*.md" docs/*.md docs/guide/*.md
	mkdir -p $(DOCS)/start && cd $(DOCS)/start && $(abspath $(BIN))/python $(abspath docs)/start/patients.py \
	    && $(abspath $(BIN))/python $(abspath docs)/start/fit.py | diff - $(abspath docs)/start/fit.txt
	cp docs/notebooks/quickstart.ipynb $(DOCS)/start && $(BIN)/jupyter execute --inplace $(DOCS)/start/quickstart.ipynb
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going -d $(DOCS)/doctrees docs $(DOCS)/html

dist: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[release]"
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
