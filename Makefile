# Everything runs in .venv, which the first target that needs it builds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Without byte code every session would compile the whole plugin again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test test-stories test-fast goldens test-readme test-pytest-versions test-clients test-libraries resolutions test-plugins lint docs pictures demo calibrate truth bench house dist test-dist clean
.PRECIOUS: .venv-pytest-%/.ready .venv-clients-%/.ready .venv-library-%/.ready

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

# In a fresh clone each worker would rewrite the asserts of all tests. One process does it for all,
# while mypy has the other core.
$(VENV)/.collected: $(VENV)/.ready
	$(BIN)/pytest -q --collect-only tests > $@ || { tail -n 40 $@; rm $@; exit 1; }

# The rooms that must be covered branch by branch, with tests/transcripts, which reads the cache,
# then everything else but the stories. Both are dealt out in long pieces: what a module sets up once
# is then set up once. Tests also wait, so there are more processes than cores. Simulations, which
# measure rates, would take four times as long while branches are counted.
COVERED := tests/stats tests/gate tests/cache tests/runs tests/transcripts
SIMULATIONS := tests/stats/test_calibration.py tests/gate/test_calibration.py \
	tests/gate/test_shards_calibration.py
PACKAGES := pytest_llmeval/stats/*,pytest_llmeval/gate/*,pytest_llmeval/cache/*,pytest_llmeval/runs/*
# What takes several sessions or processes after each other: jobs of CI, bases that run again, commands
# that a message prints, workers, kills, browsers. And simulations, and the gate beside its second reading.
STORIES := $(SIMULATIONS) tests/browser tests/ci tests/correctness tests/cures tests/example \
	tests/reference tests/stories $(wildcard tests/*/stories)
REST := $(wildcard tests/test_*.py) $(filter-out $(COVERED) $(STORIES) \
	tests/compatibility tests/fresh tests/libraries tests/truth, \
	$(patsubst %/__init__.py,%,$(wildcard tests/*/__init__.py)))
MANY := $(BIN)/pytest -q -n 6 --dist worksteal -m "not calibration"

test: $(VENV)/.ready
	$(MAKE) --no-print-directory -j2 lint $(VENV)/.collected
	$(BIN)/coverage erase
	COVERAGE_PROCESS_START=pyproject.toml $(BIN)/pytest -q -n 3 --dist worksteal \
		-m "not calibration" $(addprefix --ignore=,$(SIMULATIONS)) $(COVERED)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include="$(PACKAGES)" --fail-under=100
	$(MANY) $(addprefix --ignore=,$(STORIES)) $(REST)

# Eleven minutes more. CI runs both.
test-stories: $(VENV)/.ready
	$(MANY) $(STORIES)

# The daily loop: what needs no session in a process of its own, and a few whole stories. On a machine
# with a load of 15 all but its last 28 tests took 128 s of CPU time. Left out are most rooms of
# engine, models and plugin, the commands, jobs of CI, and what is calibrated or built.
FAST := tests/stats tests/gate tests/transcripts tests/reports tests/runs tests/cache \
	$(wildcard tests/test_s*.py) tests/engine/test_case_sources.py tests/engine/test_folding.py \
	tests/plugin/test_gating.py

test-fast: $(VENV)/.ready
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not calibration" \
		$(addprefix --ignore=,$(SIMULATIONS) tests/cache/test_processes.py) $(FAST)

# What is printed for fixed results, written anew: look at the diff.
goldens: $(VENV)/.ready
	REWRITE_GOLDENS=1 $(BIN)/pytest -q tests/reports -k golden

# The README and the tutorial, in an environment into which the wheel is installed with all that it needs.
test-readme: $(VENV)/.ready
	$(BIN)/pytest -q tests/fresh

# What is promised: the oldest pytest, the last 8, the last 9.0 and the newest 9.
PYTESTS := 8.4.0 8 9.0 9

test-pytest-versions: $(addprefix test-pytest-,$(PYTESTS))

.venv-pytest-%/.ready: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(@D)/bin/python -m pip install --quiet --editable . --group test "pytest==$*.*" \
		$(if $(filter 8%,$*),pytest-subtests)
	touch $@

# What leans on private parts of pytest.
PRIVATE := tests/correctness tests/engine

test-pytest-%: .venv-pytest-%/.ready
	$(<D)/bin/python -m pytest -q -n 2 $(PRIVATE)

# The SDKs that people have: the oldest that we take, the last before httpx2, the first on it,
# the newest; with the oldest HTTP libraries that fit. In the first there is no httpx2.
CLIENTS := 2.20 2.54 3.0 newest google-1 google
SDKS_2.20 := openai==2.20.* anthropic==0.75.* ollama==0.6.0 httpx==0.27.* genai-prices==0.0.60
SDKS_2.54 := openai==2.54.* anthropic==0.125.* httpx2==2.0.* aiohttp==3.10.*
SDKS_3.0 := openai==3.0.* anthropic==1.0.* httpx2==2.7.* aiohttp==3.12.*
SDKS_newest := openai anthropic ollama
SDKS_google-1 := google-genai==1.*
SDKS_google := google-genai

test-clients: $(addprefix test-clients-,$(CLIENTS))

.venv-clients-%/.ready: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(@D)/bin/python -m pip install --quiet --upgrade --editable . --group test $(SDKS_$*)
	touch $@

# Fixtures, streams and interception: what leans on the SDKs and on what they send through.
SENDING := $(addprefix tests/models/,http providers test_aiohttp.py test_async.py test_interception.py test_stand_ins.py \
	test_openai_streams.py test_prices.py test_reply_bound.py test_requirements.py test_secrets.py \
	test_vendor_streams.py test_vendors.py) tests/plugin/test_clients.py \
	tests/plugin/test_streams.py tests/plugin/stories/test_interception.py

test-clients-google test-clients-google-1: SENDING := tests/compatibility/test_google_genai.py

test-clients-%: .venv-clients-%/.ready
	$(<D)/bin/python -m pytest -q -n 2 --dist worksteal $(SENDING)

# Libraries that applications use, each in an environment, which is kept: the table of
# docs/clients.md. LIBRARY=litellm tries one; REWRITE_TABLE=1 writes its row.
LIBRARIES := openai-2 openai-3 anthropic ollama google-genai google-genai-aiohttp instructor \
	langchain-openai mistralai cohere huggingface_hub litellm dspy dspy-its-own-engine \
	llama-index pydantic-ai openai-agents crewai boto3 requests
PINS_openai-2 := openai==2.*
PINS_openai-3 := openai==3.*
# Without mcp LiteLLM takes no tools.
PINS_litellm := litellm mcp
PINS_dspy-its-own-engine := dspy
PINS_google-genai-aiohttp := google-genai[aiohttp]

# uv takes seconds where pip takes minutes.
.venv-library-%/.ready: pyproject.toml | $(VENV)/.ready
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python -m uv venv --quiet --clear --python $(BIN)/python $(@D)
	$(BIN)/python -m uv pip install --quiet --python $(@D)/bin/python --editable . $(or $(PINS_$*),$*)
	touch $@

test-libraries: $(VENV)/.ready $(patsubst %,.venv-library-%/.ready,$(or $(LIBRARY),$(LIBRARIES)))
	LIBRARY=$(LIBRARY) $(BIN)/pytest -q $(if $(REWRITE_TABLE),,-n 2) tests/libraries

# What of other libraries an installation of ours takes back: docs/decisions/installing.md.
resolutions: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python benchmarks/resolutions.py

# Beside the plugins that people have installed.
PLUGINS := .venv-plugins

$(PLUGINS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(@D)/bin/python -m pip install --quiet --editable . --group compatibility
	touch $@

test-plugins: $(PLUGINS)/.ready
	$(PLUGINS)/bin/python -m pytest -q -n 2 -p no:asyncio -p no:randomly -p no:flaky -p no:pytest-retry -p no:syrupy \
		tests/compatibility

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The page of options and the pictures, which tests hold to be new; then the site, in build/site.
docs: $(VENV)/.ready
	$(BIN)/python docs/make_options.py
	$(BIN)/python docs/make_schema.py
	$(BIN)/python -m docs.make_pictures
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What README shows of a red build, from a session of the example; it needs Chromium.
pictures: $(VENV)/.ready
	$(BIN)/python -m docs.make_screens

calibrate: $(VENV)/.ready
	$(BIN)/pytest -q -n 2 -rP -m calibration

# Evals with a known pass rate: is the mean that is printed the true one? Minutes.
truth: $(VENV)/.ready
	$(BIN)/pytest -q -n 2 --dist worksteal tests/truth

# What a change looks like to the gate: nothing changed, a worse prompt, a better one. Somebody
# who only looks needs the package alone, and of its libraries only the byte code of what is imported.
DEMO := .venv-demo

$(DEMO)/.ready: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --editable .
	touch $@

demo: $(DEMO)/.ready
	home=$$(mktemp -d) && HOME=$$home $(DEMO)/bin/python demo/demo.py; \
		told=$$?; rm -rf $$home; exit $$told

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/replay.py
	$(BIN)/python benchmarks/pull_request.py
	$(BIN)/python benchmarks/idle.py
	$(BIN)/python benchmarks/concurrency.py
	$(BIN)/python benchmarks/aiohttp_calls.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/sdk_replay.py
	$(BIN)/python benchmarks/stats.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/early_stopping.py
	$(BIN)/python benchmarks/reports.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/pages.py

# What is released: the source with its tests, the wheel that is built out of it, and what the index
# makes of both.
dist: $(VENV)/.ready
	rm -rf dist
	$(BIN)/hatchling build --target sdist > /dev/null
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz
	$(BIN)/twine check --strict dist/*

# In the source that is released, and in no repository: all tests are found, and those pass that read
# files beside the package.
READ_FILES := tests/ci/test_repository.py tests/docs/test_blocks.py tests/docs/test_reference.py \
	tests/docs/stories/test_site.py tests/models/test_requirements.py tests/stories/test_recorded_answers.py

test-dist: dist
	unpacked=$$(mktemp -d) && tar -xzf dist/*.tar.gz --strip-components=1 -C $$unpacked \
		&& cd $$unpacked && $(abspath $(BIN))/python -m pytest -q --collect-only > collected.txt \
		&& $(abspath $(BIN))/python -m pytest -q -n 2 --dist worksteal $(READ_FILES); \
		told=$$?; rm -rf $$unpacked; exit $$told

# Counts, not times: the same on every machine.
house: $(VENV)/.ready
	$(BIN)/python benchmarks/house.py

clean:
	rm -rf $(VENV) .venv-pytest-* .venv-clients-* .venv-library-* $(PLUGINS) $(DEMO) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build/site dist
