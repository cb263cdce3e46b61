# Everything a fresh clone needs. Each target makes the environment it runs in; a stamp file
# remembers the installation, so that only a changed pyproject.toml installs again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
PYTEST_ARGS ?=
DEMO_ARGS ?=
FUZZ_ARGS ?=
BENCH_ARGS ?= --repeats 3 --growth

.DEFAULT_GOAL := help
.PHONY: help demo test lint format types fuzz bench clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

demo: $(RUN_STAMP) ## Learn two small data sets and draw what was learnt (under a minute)
	$(BIN)/dynpart demo $(DEMO_ARGS)

test: $(DEV_STAMP) ## Run the tests (PYTEST_ARGS="-k pairs" to choose)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(DEV_STAMP) ## Check style with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(DEV_STAMP) ## Let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(DEV_STAMP) ## Check types with mypy
	$(BIN)/mypy

fuzz: $(DEV_STAMP) ## Throw damaged files and wild input at everything (FUZZ_ARGS="--cases 100")
	$(BIN)/python benchmarks/fuzz.py $(FUZZ_ARGS)

bench: $(DEV_STAMP) ## Time us beside scikit-learn's learners (BENCH_ARGS="--quick")
	$(BIN)/python -m benchmarks.speed $(BENCH_ARGS)

clean: ## Remove the environment and all caches
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
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
