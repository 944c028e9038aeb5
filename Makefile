# Two commands: `make demo` and `make test`. Both install what they need into .venv, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Real data for tests, experiments and benchmarks; tests that need it skip where it is absent.
ifneq ($(wildcard ../shared/data),)
export LOSSDIAL_DATA ?= $(abspath ../shared/data)
endif
# The share of lines that tests must run, in percent.
COVERAGE := 90

.PHONY: install demo check lint test coverage docs wheel test-matrix browser bench results clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	touch $@

demo: install
	$(BIN)/lossdial demo --out demo

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

# What to run while working, in under 90 seconds: lint, types, and the tests of what everything rests on.
check: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 tests/base tests/spaces tests/losses tests/dial tests/test_init.py tests/test_names.py

# The explorer page is tried in a real browser: Debian's, where it may be installed.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || true

test: install lint docs wheel browser
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

# The share of lines that the tests run, with a floor; it takes longer than `make test`, so that it stands by itself.
coverage: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --cov --cov-report=term:skip-covered --cov-fail-under=$(COVERAGE)

# The site, to be read from the disk: site/index.html.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# The wheel, built and installed by itself, without extras, in an environment of its own.
wheel: install
	rm -rf dist build/wheel
	$(BIN)/python -m build --outdir dist . >/dev/null
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build && wheel/bin/python ../tests/installed.py

# The lowest and the newest versions of the dependencies, on every Python that is there.
test-matrix: install
	$(BIN)/nox

# Ratios against named peers; each exits with 1 when its bar is missed.
bench: install
	for name in training fit table_speed stacked sweep pipeline decode objectives adaptation dialed startup memory exact certificates explorer serving exported reliability; do $(BIN)/python benchmarks/$$name.py; done

# The tables and figures of results/, from the rows that are there; docs/results.md tells what they say.
results: install
	$(BIN)/lossdial draw results --data cifar10-auto-truck,ham10000-melanoma:200

clean:
	rm -rf $(VENV) demo build dist site .nox .coverage* *.egg-info
