# reflexd: `make demo` plays Pong through the daemon, `make test` runs the suite. Everything else is for developers.
PYTHON ?= python3
BIN := .venv/bin
SOAK_SECONDS ?= 1800
EVALUATION_GAMES ?= 30

.PHONY: help venv demo test lint bench soak evaluate export clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

venv: .venv/run.stamp ## make .venv with everything a run needs (pip only)

.venv/run.stamp: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "reflexd needs Python 3.11 or newer; set PYTHON=..., found: $$($(PYTHON) --version)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "this Python cannot make environments; install it: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[export,pong]'
	touch $@

.venv/dev.stamp: .venv/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[export,pong,dev]'
	touch $@

demo: venv ## a trained policy plays Pong through the daemon, live in this terminal
	$(BIN)/reflexd run models/pong/demo.toml

test: .venv/dev.stamp lint ## style, types and the whole test suite
	$(BIN)/python -m pytest -m 'not soak and not benchmark' tests

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/dev.stamp ## overhead and transport, side by side with bare baselines
	$(BIN)/python -m pytest -m benchmark -s tests/benchmarks

soak: .venv/dev.stamp ## half an hour of two agents with every fault injected; SOAK_SECONDS=... for less
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest -m soak -s --timeout 0 tests

evaluate: venv ## the shipped policy beside its expert on held-out games
	$(BIN)/python -m models.pong.evaluate --games $(EVALUATION_GAMES) --random 0.02
	$(BIN)/python -m models.pong.evaluate --games $(EVALUATION_GAMES) --sticky 0.25

export: venv ## make models/pong/package anew from its weights
	$(BIN)/reflexd export models/pong

clean: ## remove the environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
