# Targets for a fresh clone. Each creates the environment it runs in; stamp files record the
# installation, so that only a changed pyproject.toml installs again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
DOCS_STAMP := $(VENV)/.installed-docs
DIST_STAMP := $(VENV)/.installed-dist
OLDEST := .venv-oldest
OLDEST_STAMP := $(OLDEST)/.installed
OLDEST_TESTS := tests/test_package.py tests/test_parameters.py tests/cli/test_errors.py \
  tests/cli/test_own_data.py
WHEEL := .venv-wheel
WORKERS ?= auto
SPREAD := -n $(WORKERS) --dist worksteal
PYTEST_ARGS ?=
DEMO_ARGS ?=
FUZZ_ARGS ?=
BENCH_ARGS ?= --repeats 3 --growth
DOCS_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-oldest test-wheel coverage lint format types docs dist fuzz bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: $(RUN_STAMP) ## Fit three small data sets; ends with the zoo, in words and as a page
	$(BIN)/dynpart demo $(DEMO_ARGS)

test: $(DEV_STAMP) ## Run all tests except the slow ones, on all cores (PYTEST_ARGS="-k pairs")
	$(BIN)/python -m pytest $(SPREAD) -m "not slow" $(PYTEST_ARGS)

test-slow: $(DEV_STAMP) ## Run the slow tests, and property tests with all their examples
	HYPOTHESIS_PROFILE=thorough \
	  $(BIN)/python -m pytest $(SPREAD) -m "slow or hypothesis" $(PYTEST_ARGS)

test-oldest: $(OLDEST_STAMP) ## Run some tests with the oldest versions that pyproject.toml allows
	NUMBA_CACHE_DIR=$(OLDEST)/kernels \
	  $(OLDEST)/bin/python -m pytest -m "not slow" $(OLDEST_TESTS) $(PYTEST_ARGS)

test-wheel: dist ## Install the wheel in a clean environment and fit the zoo there
	$(PYTHON) -m venv --clear $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd $(WHEEL) && bin/dynpart --help > help.txt
	cd $(WHEEL) && bin/python -c "from dynpart.datasets import write_zoo; write_zoo('zoo.csv')"
	cd $(WHEEL) && bin/dynpart fit zoo.csv --drop type --categorical legs -k 6 -o zoo.dynpart
	cd $(WHEEL) && bin/dynpart explain zoo.dynpart zoo.csv --label platypus

coverage: $(DEV_STAMP) ## Measure test coverage, without compiled kernels
	$(BIN)/python -m pytest $(SPREAD) --cov --cov-report=term:skip-covered $(PYTEST_ARGS)

lint: $(DEV_STAMP) ## Check style with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(DEV_STAMP) ## Fix style with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(DEV_STAMP) ## Check types with mypy
	$(BIN)/mypy

docs: $(DOCS_STAMP) ## Build the site into docs/_build/html; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -b html $(DOCS_ARGS) docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

dist: $(DIST_STAMP) ## Build the wheel and the source distribution into dist, and check both
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

fuzz: $(DEV_STAMP) ## Run damaged files and invalid input through everything (FUZZ_ARGS="--cases 100")
	$(BIN)/python benchmarks/fuzz.py $(FUZZ_ARGS)

bench: $(DEV_STAMP) ## Time dynpart and scikit-learn's estimators (BENCH_ARGS="--quick")
	$(BIN)/python -m benchmarks.speed $(BENCH_ARGS)

clean: ## Remove the environment and all caches
	rm -rf $(VENV) $(OLDEST) $(WHEEL) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf docs/_build docs/gallery docs/api/generated
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dynpart needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEV_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@ $(RUN_STAMP)

$(DOCS_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@ $(RUN_STAMP)

$(DIST_STAMP): | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	@touch $@

$(OLDEST_STAMP): pyproject.toml .ci/oldest.py
	$(PYTHON) -m venv --clear $(OLDEST)
	$(PYTHON) .ci/oldest.py test tables > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --requirement $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@
