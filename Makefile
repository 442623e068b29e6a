# `make demo` and `make test` each work as the first command on a fresh clone: every target installs what it needs into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long test-gpu bench guard mutants lint format docs pages docs-check dist matrix types clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# Two stamps: the demo needs a few small packages, and a newcomer should not wait for PyTorch and JAX to see it.
$(VENV)/.demo: pyproject.toml constraints.txt
	@echo "installing what the demo needs into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo]'
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "installing the development packages into $(VENV) (PyTorch and JAX among them: some minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(VENV)/.demo $@

setup: $(VENV)/.installed  ## .venv with everything for development

demo: $(VENV)/.demo  ## word vectors on real text, compact gradients against dense ones (ARGS="--seconds 20 --seed 1")
	$(BIN)/python examples/word_vectors.py $(ARGS)

test: setup  ## the whole suite, as CI runs it
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

test-long: setup  ## the suite with many more random examples
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -n $(JOBS) -m "not gpu" $(ARGS)

test-gpu: setup  ## the suite on CuPy arrays, on a machine with a GPU
	$(BIN)/python -m pytest -m gpu $(ARGS)

bench: setup  ## our kernels beside their peers and the floor (ARGS="--full --json results.json")
	$(BIN)/python -m benchmarks $(ARGS)

mutants: setup  ## plant faults one at a time; the suite must catch each
	$(BIN)/python -m tests.mutation $(ARGS)

guard: setup  ## ratios to peers beside the committed ones
	$(BIN)/python -m benchmarks.guard $(ARGS)

lint: setup  ## ruff, ruff format --check, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy --strict

format: setup  ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.docs: $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs,docs-check]'
	@touch $@

docs: $(VENV)/.docs  ## the site in docs/_build/html, warnings as errors; its code runs in `make test`
	$(BIN)/python -m sphinx -q -E -W -n --keep-going -b html docs docs/_build/html

pages: setup  ## write anew the pages that are made from the code and from measured JSON, with their pictures
	$(BIN)/python docs/structure.py
	$(BIN)/python docs/benchmarks.py
	$(BIN)/python docs/comparison/page.py
	$(BIN)/python -m tests.interop.interchange

docs-check: docs  ## opens every page of the site in Chromium, follows the links, takes pictures of four
	$(BIN)/python docs/check_site.py

$(VENV)/.nox: pyproject.toml constraints.txt
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt nox
	@touch $@

dist: $(VENV)/.nox  ## wheel and sdist, looked into, and run in an empty environment
	$(BIN)/python -m nox -s dist

matrix: $(VENV)/.nox  ## the core suite from the wheel, on the oldest and the newest dependencies (ARGS="-k law")
	$(BIN)/python -m nox -s matrix -- $(ARGS)

types: $(VENV)/.nox  ## pyright on the quickstart
	$(BIN)/python -m nox -s types

clean:  ## remove .venv, caches and outputs
	rm -rf $(VENV) .nox .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist docs/_build examples/output
