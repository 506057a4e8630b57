# From a fresh clone: `make demo` and `make test` do all their own set-up.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint format bench docs clean

# T-Randman made small: every rule in every mode it has, in about a minute and a half on 2 cores.
demo: $(VENV)/installed
	$(BIN)/otpe compare --rules bptt otpe ostl ottt --modes offline online \
	  --classes 5 --units 40 --dims 2 --alpha 2 --hidden 64 64 --batch 32 --steps 300 --seeds 3 --eval-every 25 \
	  --learning-rate 5e-3 --online-learning-rate 1e-3 --valid-samples 512 --test-samples 2048
	$(BIN)/otpe report runs --out runs/report.html --title "otpe: demo"

# worksteal: the tests of a file stay on one worker, which compiles their programs once.
test: lint
	$(BIN)/pytest -n auto --dist worksteal

lint: $(VENV)/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(VENV)/installed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/installed
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@echo "The site: docs/_build/html/index.html"
	@$(BIN)/python -m webbrowser "file://$(CURDIR)/docs/_build/html/index.html" >/dev/null || true

bench: $(VENV)/installed
	$(BIN)/otpe bench

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "otpe needs Python 3.11 or newer, this is " + sys.version.split()[0] + ". Use: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
