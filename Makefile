# make demo   learn twenty letters in five tasks and write a report, from a fresh clone: half a minute after the setup
# make test   lint, types, the whole test suite and the documentation site
# make bench  speed, as ratios within one run
# make attack everything that the tests attack a little: kills, failing disks, hostile files; hours
# Each sets up what it needs in .venv first; nothing but python3 (3.11 or later) and the package registry is required.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SITE := build/site-docs

.PHONY: help demo test attack lint format bench results docs site clean
.DEFAULT_GOAL := help

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 18

# The marker is written last: an installation that broke off is started again, from nothing.
$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ictrl needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up $(VENV) (once, a minute or two) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq --constraint constraints.txt hatchling
	@$(BIN)/python -m pip install -qq --constraint constraints.txt --no-build-isolation --editable '.[serve]'
	@touch $@

# What only development needs; not for the demo.
$(VENV)/developing: $(VENV)/installed
	@$(BIN)/python -m pip install -qq --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

demo: $(VENV)/installed ## learn twenty letters in five tasks, without ever seeing an old image again, and write a report
	@$(BIN)/ictrl run letters

# Triton comes with PyTorch for GPUs; without one it is needed to test the GPU kernels, number by number, on the CPU.
$(VENV)/triton: $(VENV)/developing
	@$(BIN)/python -c 'import triton' 2>/dev/null || $(BIN)/python -m pip install -qq --no-deps triton==3.9.0 || echo "There is no Triton for this machine: the tests of the GPU kernels are skipped." >&2
	@touch $@

# Many small tests: a process per core with one thread each takes half as long as one process with all threads.
test: lint $(VENV)/triton site ## lint, types, every test, and the site without a warning
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadscope

attack: $(VENV)/developing ## kills, failing disks, interrupts and hostile files by the thousand; writes a table into docs/reliability.md
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m attack

lint: $(VENV)/developing ## style and types
	@$(BIN)/ruff format --check --quiet . || { echo "Not formatted: run make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary

format: $(VENV)/developing ## rewrite the code in the house style
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

bench: $(VENV)/installed ## speed of the rates and of a step, as ratios within one run; on a GPU everything
	@$(BIN)/python benchmarks/rates.py
	@$(BIN)/python benchmarks/speed.py

results: $(VENV)/installed ## run the published digits again and rewrite the tables of README and docs
	@$(BIN)/python experiments/publish.py

docs: $(VENV)/developing ## record what every command prints, for docs/commands.md
	@$(BIN)/python experiments/record_commands.py

site: $(VENV)/developing ## build the documentation into build/site-docs; warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir $(SITE)

clean: ## remove what was set up; runs/ stays
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache
