# mercer: every task is one target. `make` alone lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test bench scale lint fmt clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[plot]" --group dev
	@touch $(STAMP)

demo: $(STAMP)  ## make .venv, install, fit circles and moons, write pictures to out/
	$(BIN)/mercer demo --out out $(ARGS)

lint: $(STAMP)  ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two processes of tests, each with BLAS on one thread: four BLAS threads on two cores take turns waiting.
test: lint  ## lint, then the whole test suite
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

bench: $(STAMP)  ## speed, memory and residual against scikit-learn (ARGS="--quick" for a taste)
	$(BIN)/python -m benchmarks.run $(ARGS)

scale: $(STAMP)  ## past memory: exact fits without K, and approximations (ARGS="--data DIR" for real data)
	$(BIN)/python -m benchmarks.scale $(ARGS)

fmt: $(STAMP)  ## format, and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache out
