# make demo   install into .venv and take the tour
# make test   install into .venv and run linters, type checks and the test suite, which builds the site
# make oldest the suite with the oldest supported versions, in .oldest (PYTHON=python3.10 if there is one)
# make slow   the long simulations as well
# make gpu    the tests that need a GPU, with whatever CuPy is installed (precede[cuda12], [cuda13])
# make bench  the named problems beside the peers, with tables and drawings
# make docs   the documentation site, into site/ (open site/index.html; its search needs a server)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := src tests benchmarks examples docs/hooks.py docs/gallery

OLDEST := .oldest/bin/python

.PHONY: demo test lint oldest slow gpu bench docs clean

demo: $(VENV)/installed
	@$(BIN)/precede demo

test: lint $(VENV)/docs
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

lint: $(VENV)/ready
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

oldest: .oldest/ready
	$(OLDEST) -m pytest -n 2 --dist worksteal -m "not slow" -o filterwarnings=default

gpu: $(VENV)/ready
	$(BIN)/python -m pytest tests/gpu

slow: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 -m slow

bench: $(VENV)/bench
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/table.py

docs: $(VENV)/docs
	$(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) .oldest demo site

$(VENV)/installed: pyproject.toml
	@echo "setting up $(VENV) (about a minute, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/ready: $(VENV)/installed
	@echo "adding what the tests need (some minutes, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	@touch $@

$(VENV)/bench: $(VENV)/ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	@touch $@

$(VENV)/docs: $(VENV)/ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@

# Old packages warn under newer ones; that says nothing about ours, hence `default` above.
.oldest/ready: pyproject.toml tests/oldest.py
	@echo "setting up .oldest (some minutes, once)"
	@$(PYTHON) -m venv .oldest
	@$(OLDEST) tests/oldest.py > .oldest/pins.txt
	@$(OLDEST) -m pip install --quiet --disable-pip-version-check --editable ".[test]" -c .oldest/pins.txt
	@touch $@
