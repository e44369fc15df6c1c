# SPDX-License-Identifier: LGPL-2.1-or-later
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help venv test lint format stress bench demo clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(VENV)/.dev ## a virtual environment in .venv with everything a developer needs

$(VENV)/.dev: pyproject.toml
	@tools/setup venv $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev,bench]'
	@touch $@

test: $(VENV)/.dev ## install what is missing, then ruff, mypy and the whole test suite
	@tools/setup test
	@$(BIN)/python -c 'from gilk.lab import find; print("kernel:", find(notify=print).release)'
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -n $(JOBS) -q

lint: $(VENV)/.dev ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/mypy

format: $(VENV)/.dev ## let ruff lay out the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

stress: $(VENV)/.dev ## hundreds of thousands of cases, real programs under every point: an hour
	@tools/setup stress
	$(BIN)/python -m pytest -n $(JOBS) -q -m stress --timeout 7200

bench: $(VENV)/.bench ## gilk beside its peers and the machine's own limits, in one run
	@tools/setup bench
	$(BIN)/python -m bench

demo: $(VENV)/.dev ## a busy program, every entry of a library timed; a stock kernel, and who waits in it
	@tools/setup demo
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/demo
	$(BIN)/python examples/kernel/pipe_study.py build

clean: ## forget everything that was built here
	rm -rf $(VENV) build dist src/*.egg-info bench/build .mypy_cache .ruff_cache .pytest_cache .hypothesis
