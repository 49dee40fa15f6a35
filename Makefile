# mercer: every task is one target. `make` alone lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
NATIVE := hatch_build.py $(wildcard src/mercer/engine/native/*.[ch]pp src/mercer/engine/native/build.py)
FLOORS := .venv-floors
EXTRAS := cli,dask,excel,hdf5,images,onnx,parquet,plot,skops,zarr

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu elsewhere floors sanitize bench scale docs docs-live lint fmt clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(STAMP): pyproject.toml $(NATIVE)
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
ONE_BLAS_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST := -m pytest -n 2 --dist worksteal

test: lint  ## lint, then the whole test suite
	$(ONE_BLAS_THREAD) $(BIN)/python $(PYTEST)

# torch is no development dependency: its wheels with CUDA take gigabytes. GPU_PYTHON has it, and NumPy, SciPy,
# scikit-learn, pytest and hypothesis; where it has not, the tests that need torch are skipped.
GPU_PYTHON ?= $(PYTHON)

test-gpu:  ## the torch engine on torch:cpu, and on the GPU where one is (GPU_PYTHON=python3)
	PYTHONPATH=src $(GPU_PYTHON) -m pytest -q $(wildcard tests/*/test_torch*.py) $(ARGS)

# What one processor's rounding let pass: laws, references and documents with other BLAS kernels, without
# NumPy's widest vectors, and without compiled tiles.
elsewhere: $(STAMP)  ## laws, references and documents as on another machine
	$(ONE_BLAS_THREAD) $(BIN)/python tests/other_processor.py $(PYTEST) tests/laws tests/reference tests/e2e/test_docs.py

$(FLOORS)/.installed: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv --clear $(FLOORS)
	$(FLOORS)/bin/python -m pip install --quiet uv
	$(FLOORS)/bin/uv pip install --quiet --python $(FLOORS)/bin/python --resolution lowest-direct --editable ".[$(EXTRAS)]" --group dev
	@touch $@

floors: $(FLOORS)/.installed  ## the whole suite on the lowest versions allowed (PYTHON=python3.11)
	$(ONE_BLAS_THREAD) $(FLOORS)/bin/python $(PYTEST)

sanitize: $(STAMP)  ## the compiled tiles under the sanitizers of GCC
	$(BIN)/python tests/sanitized.py

bench: $(STAMP)  ## speed, memory and residual against scikit-learn (ARGS="--quick" for a taste)
	$(BIN)/python -m benchmarks.run $(ARGS)

scale: $(STAMP)  ## past memory: exact fits without K, and approximations (ARGS="--data DIR" for real data)
	$(BIN)/python -m benchmarks.scale $(ARGS)

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

# Warnings are errors: a link that leads nowhere, a page outside of the tree, a docstring that does not parse.
SPHINX := $(ONE_BLAS_THREAD) MPLBACKEND=agg
SITE   := docs docs/_build/html
MADE   := /_build/ /gallery/ /reference/generated/ /backreferences/ sg_execution_times

docs: $(VENV)/.docs  ## the site, in docs/_build/html; opens from the disk
	$(SPHINX) $(BIN)/sphinx-build -W --keep-going $(ARGS) $(SITE)
	$(BIN)/python docs/check_site.py docs/_build/html

docs-live: $(VENV)/.docs  ## the site in a browser, built anew when a page changes
	$(SPHINX) $(BIN)/sphinx-autobuild --watch src/mercer $(MADE:%=--re-ignore %) -D plot_gallery=0 $(ARGS) $(SITE)

fmt: $(STAMP)  ## format, and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove .venv, caches and the built site
	rm -rf docs/_build docs/gallery docs/reference/generated docs/reference/backreferences $(VENV) $(FLOORS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache out
