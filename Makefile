# Every target sets itself up in .venv from a fresh clone; Python 3.11 or newer is all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Data sets in a folder beside the checkout are used where it exists; otherwise they are downloaded when asked for.
ifneq ($(wildcard ../shared/data),)
export SOFTCUT_DATA ?= $(abspath ../shared/data)
endif
# Threads that wait sleep instead of spinning: many times faster where cores are shared.
export OMP_WAIT_POLICY ?= PASSIVE
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test bench lint format wheel clean

$(VENV)/.base: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing softcut into $(VENV) ..."
	@# torch first and by its exact version: on Linux a looser requirement may choose a build for GPUs.
	@$(PIP) torch==2.13.0
	@$(PIP) setuptools
	@$(PIP) --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "Installing the test tools ..."
	@$(PIP) --no-build-isolation --editable ".[dev]"
	@touch $@

demo: $(VENV)/.base  ## cluster three embedded graphs, print a table, write pictures to demo/
	@$(BIN)/softcut demo --out demo

lint: $(VENV)/.dev  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

test: lint  ## lint, then the whole suite
	@$(BIN)/python -m pytest

bench: $(VENV)/.dev  ## side-by-side runs against peers, in an environment of their own
	@$(PYTHON) benchmarks/run.py

wheel: $(VENV)/.dev
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean:
	rm -rf $(VENV) dist build demo *.egg-info
