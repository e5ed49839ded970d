# Everything runs from .venv, which the first target that needs it makes: Python 3.11+, git and make suffice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Some machines set this, and then each of the many processes of a run or of the tests compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test soak bench screenshots lint lock clean

help:
	@echo "make demo         watch Taskyard work on a sample project (no API key needed)"
	@echo "make test         run the whole suite, style and types included"
	@echo "make soak         hurt runs in every way 500 times, and print what was lost (about half an hour)"
	@echo "make bench        measure, and print the figures beside their targets"
	@echo "make screenshots  draw the pictures in screenshots/ anew"
	@echo "make lint         style, types and import contracts only"
	@echo "make lock         resolve requirements.lock anew"
	@echo "make clean        remove .venv and all caches"

# `touch` comes last, so an interrupted set-up is done again and a finished one never is.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else \
		"Taskyard needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.x ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --require-hashes --requirement requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)
	@$(BIN)/taskyard demo

test: $(READY)
	$(BIN)/python -m pytest -n 3 --dist worksteal

soak: $(READY)
	$(BIN)/python -m tests.faults --faults 500

bench: $(READY)
	$(BIN)/python -m tests.bench

screenshots: $(READY)
	$(BIN)/python -m tests.screenshots

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: $(READY)
	$(PIP) install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra redis --extra serve --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --custom-compile-command "make lock" --upgrade --output-file requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .benchmarks build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
