# SPDX-License-Identifier: LGPL-2.1-or-later
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= $(shell tools/setup place)
JOBS ?= 2
# Quoted, for a path may have spaces in it; and no rule has one as its target, for make divides those at spaces.
RUN := "$(VENV)/bin/python"
UNWRITABLE := $(shell [ -w . ] || echo yes)
ifdef UNWRITABLE
export MYPY_CACHE_DIR := $(VENV)/mypy
export RUFF_CACHE_DIR := $(VENV)/ruff
export PYTHONPYCACHEPREFIX := $(VENV)/bytecode
export HYPOTHESIS_STORAGE_DIRECTORY := $(VENV)/hypothesis
endif

.DEFAULT_GOAL := help
.PHONY: help venv quick test lint format stress kasan zoo peers conformance scripts bench demo man deb clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

venv: ## a virtual environment in .venv with everything a developer needs
	@tools/setup venv "$(PYTHON)" "$(VENV)" dev

quick: venv ## before each commit, in less than a minute: ruff, mypy, and the tests that wait for nothing
	$(MAKE) --no-print-directory lint
	$(RUN) -m pytest -n $(JOBS) -q -p tests.quick $$($(RUN) -m tests.quick)

test: venv ## install what is missing, then ruff, mypy and the whole test suite
	@tools/setup test
	@$(RUN) -m tests.places
	$(MAKE) --no-print-directory lint
	$(RUN) -m pytest -n $(JOBS) -q --durations 40 --durations-min 4

lint: venv ## ruff, rules and layout, and mypy
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy

format: venv ## let ruff lay out the code
	$(RUN) -m ruff format
	$(RUN) -m ruff check --fix

stress: venv ## hundreds of thousands of cases, real programs under every point: an hour
	@tools/setup stress
	@tools/setup venv "$(PYTHON)" "$(VENV)" dev,go
	$(RUN) -m pytest -n $(JOBS) -q -m stress --timeout 7200

kasan: venv ## the kernel's tests in one with KASAN and lockdep: an hour, and once half an hour and 12 GB to build it
	@tools/setup kasan
	$(RUN) tools/kasan_kernel.py build/kasan
	GILK_KERNELS="$(CURDIR)/build/kasan" $(RUN) -m pytest -q -m "not stress and not stock" --timeout 3600 tests/kernel

zoo: venv ## sessions come and go for ten minutes at thirty kinds of programs at once, clients are killed at any moment
	@tools/setup stress
	GILK_ZOO_MINUTES=10 $(RUN) -m pytest -q -rP -m stress -k thirty --timeout 3600 tests/behaviour/test_zoo.py

peers: venv ## other projects' test programs under gilk: make peers SUITE=uftrace DIR=its sources (docs/peers.md)
	@tools/setup peers
	$(RUN) tools/peers "$(DIR)" --suite $(SUITE) --state peers-$(SUITE).jsonl

conformance: venv ## DTrace's own tests under gilk: make conformance SUITE=its sources (docs/conformance.md)
	@tools/setup conformance
	$(RUN) tools/conformance "$(SUITE)" --alone --jobs $(JOBS) --state conformance.jsonl

scripts: venv ## scripts of a collection under gilk: make scripts DIR=its sources (docs/scripts.md)
	$(RUN) tools/scripts "$(DIR)" --jobs $(JOBS) --state scripts.jsonl

bench: venv ## gilk beside its peers and the machine's own limits, in one run
	@tools/setup venv "$(PYTHON)" "$(VENV)" dev,bench
	@tools/setup bench
	$(RUN) -m bench

demo: venv ## a busy program, every entry of a library timed; a stock kernel, and who waits in it
	@tools/setup demo
	PATH="$$(cd "$(VENV)/bin" && pwd):$$PATH" $(RUN) tests/guard.py -m tests.places $(RUN) tools/demo
	$(RUN) tests/guard.py -m tests.places $(RUN) examples/kernel/pipe_study.py $(if $(UNWRITABLE),"$(VENV)/pictures",build)

man: venv ## manual pages of all commands, in build/man: man -l build/man/gilk-run.1
	$(RUN) tools/manual.py $(if $(UNWRITABLE),"$(VENV)/man",build/man)

deb: venv ## a Debian package in build: apt install ./build/gilk_*_amd64.deb
	@tools/setup deb
	$(RUN) tools/debian_package.py $(if $(UNWRITABLE),"$(VENV)/deb",build)

clean: ## forget everything that was built here
	rm -rf "$(VENV)" build dist src/*.egg-info bench/build .mypy_cache .ruff_cache .pytest_cache .hypothesis
