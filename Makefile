# Every target sets itself up in .venv from a fresh clone; Python 3.11 or newer is all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
MUTANTS := .venv-mutants
AUDIT := .venv-audit
SEED ?= 0
SAMPLE ?= 200
# Data sets in a folder beside the checkout are used where it exists; otherwise they are downloaded when asked for.
ifneq ($(wildcard ../shared/data),)
export SOFTCUT_DATA ?= $(abspath ../shared/data)
endif
# Threads that wait sleep instead of spinning: many times faster where cores are shared.
export OMP_WAIT_POLICY ?= PASSIVE
QUIET := --quiet --disable-pip-version-check
# One process per core, up to eight, each with one thread.
TESTS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal
PIP := $(BIN)/python -m pip install $(QUIET) --constraint constraints.txt

.PHONY: setup demo test tables docs test-slow test-gpu test-oldest mutants audit bench lint format wheel clean

$(VENV)/.base: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing softcut into $(VENV) ..."
	@# torch first and by its exact version: on Linux a looser requirement may choose a build for GPUs.
	@$(PIP) torch==2.13.0
	@$(PIP) setuptools
	@$(PIP) --no-build-isolation --editable ".[cli,report,tables,images]"
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "Installing the test tools ..."
	@$(PIP) --no-build-isolation --editable ".[dev]"
	@touch $@

# The oldest version of every dependency that pyproject.toml allows: its ">=" read as "==".
$(OLDEST)/.ready: pyproject.toml
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@echo "Installing the oldest versions that are supported into $(OLDEST) (torch with its CUDA packages: some GB) ..."
	@$(PYTHON) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  groups = [p["dependencies"], *(g for n, g in p["optional-dependencies"].items() if n not in ("docs", "dev"))]; \
	  print(*sorted({n.replace(">=", "==") for g in groups for n in g if ">=" in n}), sep="\n")' > $(OLDEST)/oldest.txt
	@$(OLDEST)/bin/python -m pip install $(QUIET) "setuptools>=78.1.1"
	@$(OLDEST)/bin/python -m pip install $(QUIET) --no-build-isolation --constraint $(OLDEST)/oldest.txt --editable ".[test]"
	@touch $@

$(MUTANTS)/.ready: pyproject.toml constraints.txt
	@test -x $(MUTANTS)/bin/python || $(PYTHON) -m venv $(MUTANTS)
	@echo "Installing softcut and cosmic-ray into $(MUTANTS) ..."
	@$(MUTANTS)/bin/python -m pip install $(QUIET) --constraint constraints.txt torch==2.13.0
	@$(MUTANTS)/bin/python -m pip install $(QUIET) --constraint constraints.txt setuptools
	@$(MUTANTS)/bin/python -m pip install $(QUIET) --constraint constraints.txt --no-build-isolation --editable ".[test]"
	@$(MUTANTS)/bin/python -m pip install $(QUIET) --constraint constraints.txt cosmic-ray==8.7.0 pytest-cov==7.1.0 pytest-reportlog==1.0.0
	@touch $@

setup: $(VENV)/.dev  ## everything for development, in .venv

demo: $(VENV)/.base  ## cluster three generated graphs, print a table, write pictures to demo/
	@$(BIN)/softcut demo --out demo --overwrite

lint: $(VENV)/.dev  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

test: lint  ## lint, then the suite without the tests marked slow or gpu
	@$(TESTS)

test-slow: $(VENV)/.dev  ## the tests that take minutes
	@$(BIN)/python -m pytest -m slow

test-gpu: $(VENV)/.dev  ## the tests that need a CUDA device
	@$(BIN)/python -m pytest -m gpu

test-oldest: $(OLDEST)/.ready  ## the suite on the oldest versions pyproject.toml allows, in .venv-oldest
	@# Old versions warn about each other; what they deprecate was an error when they were new.
	@$(OLDEST)/bin/python -m pytest -W default::DeprecationWarning -W default::PendingDeprecationWarning

tables: $(VENV)/.dev  ## every table of results in README.md and docs, rendered from results/
	@$(BIN)/python -m tools.tables

$(VENV)/.docs: $(VENV)/.dev
	@echo "Installing the tools of the documentation ..."
	@$(PIP) --no-build-isolation --editable ".[docs]"
	@touch $@

docs: $(VENV)/.docs  ## the documentation site, in site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo site/index.html

mutants: $(MUTANTS)/.ready  ## how many of SAMPLE small wrong changes, drawn with SEED, the tests notice
	@nice -n 10 $(MUTANTS)/bin/python benchmarks/mutants.py --seed $(SEED) --sample $(SAMPLE)

# Fails, rather than passing, where pypi.org or its advisories cannot be reached (a mirror has none).
audit: $(VENV)/.dev  ## known vulnerabilities of the installed versions, by the advisories of pypi.org
	@test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT)
	@$(AUDIT)/bin/python -m pip install $(QUIET) pip-audit==2.10.1
	@$(BIN)/python -m pip freeze --exclude-editable | sed 's/+.*//' > $(AUDIT)/installed.txt
	@$(AUDIT)/bin/pip-audit --requirement $(AUDIT)/installed.txt --no-deps --disable-pip --strict

bench: $(VENV)/.dev  ## side-by-side runs against peers, in an environment of their own
	@$(PYTHON) benchmarks/run.py

wheel: $(VENV)/.dev
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean:
	rm -rf $(VENV) $(OLDEST) $(MUTANTS) $(AUDIT) dist build demo site *.egg-info
