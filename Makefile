# `make demo` and `make test` need python3 >= 3.11 and nothing else: they make their own environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: demo test test-values test-all setup lint docs coverage release-check changelog bench peer-suite client-suite clean

demo: $(VENV)/.demo
	@$(BIN)/python docs/examples/coal_mining.py

# Each module, in minutes; the long tests of tests/long.txt are left to `make test-all`, which also
# compiles as for users where that can matter (conftest.py).  Here LLVM optimises little.
test: export JAX_DISABLE_MOST_OPTIMIZATIONS := true
test: $(VENV)/.test
	@$(PYTEST) -m "not long" --durations=20

# The short tests, and of the long ones those of edge values: what depends on the versions.
VALUES := tests/edges
test-values: test
	@$(PYTEST) -m long --durations=20 $(VALUES)

test-all: $(VENV)/.test
	@$(PYTEST) --durations=20

# All that a contributor needs, and the hooks of git.
setup: $(VENV)/.test $(VENV)/.lint
	@git rev-parse --git-dir > /dev/null 2>&1 && $(BIN)/pre-commit install -t pre-commit -t pre-push || true

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/basedpyright --pythonpath $(BIN)/python

# The site, in build/docs; needs no network once the environment is there.
docs: $(VENV)/.docs
	@$(BIN)/python -m sphinx -W --keep-going -n -q -c docs . build/docs
	@echo "build/docs/index.html"

# The tests, with the lines of the package that they run; setup.cfg has the least share.
coverage: $(VENV)/.test $(VENV)/.coverage
	@$(PYTEST) --cov --cov-report=term:skip-covered

# What is uploaded: built, checked, and tried in an empty environment.
release-check: $(VENV)/.release
	@rm -rf build/dist
	@$(BIN)/python -m build --outdir build/dist .
	@$(BIN)/python -m twine check --strict build/dist/*
	@$(BIN)/python -m tests.packaging build/dist/*.whl

changelog: $(VENV)/.release
	@test -n "$(VERSION)" || (echo "make changelog VERSION=0.2.0"; exit 2)
	@$(BIN)/towncrier build --yes --version $(VERSION)

# Ratios to hand-written JAX, taken in turns in one process; about 7 minutes.  Options: BENCH=--help.
bench: $(VENV)/.bench
	@$(BIN)/python -m tests.benchmarks $(BENCH)

# PyTensor's own tests, from a checkout of the version that is installed; about 40 minutes a mode.
peer-suite: $(VENV)/.test
	@test -n "$(PYTENSOR_TESTS)" || (echo "make peer-suite PYTENSOR_TESTS=<checkout of PyTensor>"; exit 2)
	@$(BIN)/python -m tests.peer $(PYTENSOR_TESTS) --workers $(WORKERS)

# The tests of a library that is built on PyTensor, under the default mode and under ours.  VENV is an
# environment that has the library and what its tests need.  Options: ONLY, K, TIMEOUT.
client-suite: $(VENV)/.test
	@test -n "$(CLIENT)" || (echo "make client-suite CLIENT=<test folder of a library>"; exit 2)
	@$(BIN)/python -m tests.clients $(CLIENT) --workers $(WORKERS) --only $(or $(ONLY),.) \
		--timeout $(or $(TIMEOUT),300) $(if $(K),-k "$(K)")

$(VENV)/.%: setup.cfg pyproject.toml .ci/versions.txt
	@echo "setting up $(VENV) for '$*' (once; a few minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]' \
		--constraint .ci/versions.txt
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .import_linter_cache
