# Two commands: `make demo` and `make test`. Both install what they need into .venv, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Real data for tests, experiments and benchmarks; tests that need it skip where it is absent.
ifneq ($(wildcard ../shared/data),)
export LOSSDIAL_DATA ?= $(abspath ../shared/data)
endif

.PHONY: install demo test lint bench results clean

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

test: install lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

# Ratios against named peers; each exits with 1 when its bar is missed.
bench: install
	for name in training fit stacked sweep pipeline decode aims adaptation dialed; do $(BIN)/python benchmarks/$$name.py; done

# The tables and figures of results/, from the rows that are there; docs/results.md tells what they say.
DIAL = $(BIN)/lossdial
METRICS := auc average_precision brier max_f1 max_balanced_accuracy precision_at_recall@0.99
results: install
	set -e; for store in frozen tiny; do \
	  for name in $(METRICS) film ablation; do for kind in markdown:md latex:tex csv:csv; do \
	    $(DIAL) table $$name --store results/$$store --format $${kind%:*} \
	      --out results/$$store/tables/$${name%@*}.$${kind#*:}; \
	  done; done; \
	  for name in precision adaptability-vs adaptability-focal heat-maps; do \
	    $(DIAL) figure $$name --store results/$$store --data cifar10-auto-truck --out results/$$store/figures/$$name-auto-truck; \
	  done; \
	done
	for name in precision adaptability-vs adaptability-focal heat-maps; do \
	  $(DIAL) figure $$name --store results/frozen --data ham10000-melanoma --beta 200 \
	    --out results/frozen/figures/$$name-ham10000-b200; \
	done
	$(DIAL) table auc --store results/frozen --setting 1 --format markdown --out results/frozen/tables/auc-one-setting.md
	$(DIAL) figure densities --out results/densities

clean:
	rm -rf $(VENV) demo build dist *.egg-info
