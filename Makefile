# Two commands set lightloom up on a fresh Debian or Ubuntu: make run, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL ?= gpt2-355m
CLUSTER ?= dgx-h100-512
TESTS ?= not slow and not long

.PHONY: run test test-slow test-gds check format mutants census bench docs tutorials answers pictures clean

run: $(VENV)/installed  ## the main job on its default: the answer on the terminal, report and trace in out/
	@mkdir -p out
	$(BIN)/lightloom plan $(MODEL) --cluster $(CLUSTER) --report out/report.html --trace out/trace.json

test: $(VENV)/installed-for-development  ## tests of less than about half a second each, warnings as errors; TESTS='not slow': longer ones too
	$(BIN)/python -m pytest -m '$(TESTS)' --numprocesses auto

test-slow: $(VENV)/installed-for-development  ## all tests, the slow ones too, with all random examples of each law
	LIGHTLOOM_EXAMPLES=1 $(BIN)/python -m pytest -m '' --numprocesses auto

test-gds: $(VENV)-gds/installed  ## layouts, in an environment of their own: gdsfactory takes an older typer and pydantic
	$(VENV)-gds/bin/python -m pytest tests/photonics/chip -k 'gds or floorplan or layout' -W ignore

check: $(VENV)/installed-for-development  ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/installed-for-development
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

mutants: $(VENV)/installed-for-development  ## do the tests notice small changes? seeded by the commit, resumed when interrupted
	$(BIN)/python -m scripts.mutation

census: $(VENV)/installed-for-development  ## rooms, files, lines, names, imports and types, counted
	$(BIN)/python -m scripts.census

bench: $(VENV)/installed-for-development  ## CPU seconds and memory of our own work
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.road

docs: $(VENV)/installed-for-development  ## the site in out/site, without network; warnings and broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python -m scripts.website.check out/site

tutorials: $(VENV)/installed-for-development  ## run the tutorials and store what they print
	$(BIN)/python -m scripts.website.run docs/tutorials/*.ipynb

answers: $(VENV)/installed  ## answers that docs/try lacks: about 15 minutes of a core for all; resumed when interrupted
	$(BIN)/python -m scripts.website.answers docs/try/answers.js

pictures: $(VENV)/installed  ## the pictures of docs/gallery.md that take minutes, by the commands that stand there
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/python -m scripts.website.pictures

SOURCES := pyproject.toml constraints.txt setup.py \
	$(wildcard src/lightloom/exchange/compression/*.[ch]) src/lightloom/core/_kernels.c

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: $(PYTHON) is older than 3.11: set PYTHON=python3.11 or newer" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(SOURCES) | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[figures,torch]'
	@touch $@

$(VENV)/installed-for-development: $(SOURCES) | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[torch,dev,docs,models]'
	# The tests read traces with Chakra's own decoder; its analysis tools would bring a notebook server along.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps 'mlc-chakra>=1.0'
	# Compiles what tests import, once: each of their processes would do it at its start, for 30 CPU seconds.
	-@$(BIN)/python -m pytest -p tests.imported_by_ranks --collect-only -qq >/dev/null
	-@$(BIN)/python -m tests.compiled_kernels
	@touch $(VENV)/installed $@

$(VENV)-gds/installed: pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)-gds
	$(VENV)-gds/bin/pip install --quiet --disable-pip-version-check -e '.[gds]' gdstk hypothesis psutil pytest pytest-xdist
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-gds out build src/*.egg-info
