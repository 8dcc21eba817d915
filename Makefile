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

.PHONY: help setup demo test soak lint format bench clean

help:
	@echo "make demo   one biased column and what eight methods make of it, on simulated data"
	@echo "make test   the test suite, in two processes"
	@echo "make soak   tests that take minutes: faults of a cluster, large files"
	@echo "make lint   ruff (format and rules) and mypy"
	@echo "make bench  slow measurements; prints tables"
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

soak: $(READY)
	$(BIN)/python -m pytest -m soak

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

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
