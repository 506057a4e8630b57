# From a fresh clone: `make demo` and `make test` do all their own set-up.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint format bench clean

demo: $(VENV)/installed
	$(BIN)/python examples/01_alignment.py

test: lint
	$(BIN)/pytest -n auto

lint: $(VENV)/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(VENV)/installed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/installed
	$(BIN)/otpe bench

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "otpe needs Python 3.11 or newer, this is " + sys.version.split()[0] + ". Use: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
