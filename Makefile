# Everything runs in .venv, which the first target that needs it builds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Without byte code every session would compile the whole plugin again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test lint demo calibrate bench clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

# The rooms that must be covered branch by branch, then everything that starts pytest.
COVERED := tests/stats tests/gate tests/cache tests/runs tests/models
PACKAGES := pytest_llmeval/stats/*,pytest_llmeval/gate/*,pytest_llmeval/cache/*,pytest_llmeval/runs/*

test: $(VENV)/.ready lint
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -m "not calibration" $(COVERED)
	$(BIN)/coverage report --include="$(PACKAGES)" --fail-under=100
	$(BIN)/pytest -q -n 2 -m "not calibration" $(addprefix --ignore=,$(COVERED)) tests

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

calibrate: $(VENV)/.ready
	$(BIN)/pytest -m calibration

# What a change looks like to the gate: nothing changed, a worse prompt, a better one.
demo: $(VENV)/.ready
	$(BIN)/python demo/demo.py

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/replay.py
	$(BIN)/python benchmarks/idle.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
