# `make` lists what there is to make. Everything but apt packages goes into .venv and .cache.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
BIN := .venv/bin
WHEEL := .cache/wheel
BENCH := .cache/bench

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: .venv/.stamp ## See it work on a simulated cluster; no GPU and no Kubernetes needed. Ctrl-C ends it.
	@$(BIN)/gpuledger demo $(DEMO_FLAGS)

.PHONY: test
test: $(WHEEL)/.stamp tools ## Set up and run the tests (unit, end to end, faults) on the built wheel.
	PYTHONPATH=$(CURDIR)/$(WHEEL) WHEEL_UNDER_TEST=$(CURDIR)/$(WHEEL) $(BIN)/pytest -m "not cluster and not churn and not image and not day and not chaos and not soak" $(PYTEST_FLAGS)

.PHONY: e2e
e2e: $(WHEEL)/.stamp tools ## Only the tests with real processes, cgroups, gRPC and Prometheus (root).
	PYTHONPATH=$(CURDIR)/$(WHEEL) WHEEL_UNDER_TEST=$(CURDIR)/$(WHEEL) $(BIN)/pytest -m e2e $(PYTEST_FLAGS)

.PHONY: day
day: $(WHEEL)/.stamp tools ## A day of the simulated cluster under the alerts: all silent where all is well.
	PYTHONPATH=$(CURDIR)/$(WHEEL) WHEEL_UNDER_TEST=$(CURDIR)/$(WHEEL) $(BIN)/pytest -m day $(PYTEST_FLAGS)

.PHONY: e2e-cluster
e2e-cluster: $(WHEEL)/.stamp tools ## Image, chart and roles on the cluster that KUBECONFIG names; this machine must be its node.
	@tests/tools/prerequisites.sh buildah debootstrap
	PYTHONPATH=$(CURDIR)/$(WHEEL) WHEEL_UNDER_TEST=$(CURDIR)/$(WHEEL) $(BIN)/pytest -m cluster tests/cluster $(PYTEST_FLAGS)

.PHONY: image
image: .venv/.stamp ## Build the image without a registry, and run both roles from it as the chart says (root).
	@tests/tools/prerequisites.sh gcc openssl buildah debootstrap runc
	$(BIN)/pytest -m image tests/image $(PYTEST_FLAGS)

.PHONY: churn
churn: $(WHEEL)/.stamp tools ## Pods that come and go on that cluster for CHURN_SECONDS (60): no owner may be wrong.
	PYTHONPATH=$(CURDIR)/$(WHEEL) WHEEL_UNDER_TEST=$(CURDIR)/$(WHEEL) $(BIN)/pytest -m churn tests/cluster $(PYTEST_FLAGS)

.PHONY: chaos
chaos: $(WHEEL)/.stamp tools ## Kills, full disks, stepped clocks, crowds: what it costs, into docs/resilience.md (root).
	PYTHONPATH=$(CURDIR)/$(WHEEL) WHEEL_UNDER_TEST=$(CURDIR)/$(WHEEL) CHAOS_TABLE=1 $(BIN)/pytest tests/chaos $(PYTEST_FLAGS)

.PHONY: soak
soak: $(WHEEL)/.stamp tools ## Weeks of pods that come and go, in minutes: nothing may grow, by a fitted slope.
	PYTHONPATH=$(CURDIR)/$(WHEEL) WHEEL_UNDER_TEST=$(CURDIR)/$(WHEEL) $(BIN)/pytest -m soak tests/soak $(PYTEST_FLAGS)

.PHONY: fuzz
fuzz: .venv/.fuzz ## Search for what breaks: each parser for FUZZ_SECONDS (60), then what Hypothesis tests, at random.
	PYTHONPATH=tests $(BIN)/python tests/fuzz/search.py $(or $(FUZZ_SECONDS),60)
	$(BIN)/pytest -m hypothesis --hypothesis-profile=fuzz --timeout=0 $(PYTEST_FLAGS)

.venv/.fuzz: .venv/.stamp requirements/fuzz.txt
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	@touch $@

.PHONY: check
check: lint test day ## The whole gate: what must pass before a change lands.

.PHONY: lint
lint: .venv/.stamp ## Format, ruff, mypy, import contracts, generated files in sync.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m gpuledger.metrics.docs --check docs/metrics.md
	$(BIN)/python rules/generate.py --check
	$(BIN)/python dashboards/src/generate.py --check
	$(BIN)/python deploy/manifests/generate.py --check

.PHONY: format
format: .venv/.stamp ## Format the code and fix what ruff can fix.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: docs
docs: .venv/.stamp ## Write the generated pages anew.
	$(BIN)/python -m gpuledger.metrics.docs docs/metrics.md
	$(BIN)/python -m gpuledger.audit.docs > docs/checks.md
	$(BIN)/python rules/generate.py
	$(BIN)/python deploy/manifests/generate.py

.PHONY: dashboards
dashboards: .venv/.stamp ## Write the Grafana dashboards' JSON anew from dashboards/src.
	$(BIN)/python dashboards/src/generate.py

.PHONY: screenshots
screenshots: .venv/.stamp ## Take the pictures of the pages anew.
	@tests/tools/prerequisites.sh chromium
	PYTHONPATH=tests $(BIN)/python tests/browser/screenshots.py docs/images

COMPILE := uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
  --no-emit-index-url --no-emit-find-links

.PHONY: lock
lock: .venv/.stamp ## Resolve the dependencies anew and lock them with hashes (needs uv).
	$(COMPILE) pyproject.toml -o requirements/runtime.txt
	$(COMPILE) pyproject.toml --group dev -c requirements/runtime.txt -o requirements/dev.txt
	$(COMPILE) --group build -c requirements/dev.txt -o requirements/build.txt
	$(COMPILE) --group fuzz -o requirements/fuzz.txt
	$(COMPILE) --group bench -o requirements/bench.txt
	$(BIN)/python requirements/image.py | $(COMPILE) - -c requirements/runtime.txt -o requirements/image.txt

.PHONY: bench
bench: $(BENCH)/.stamp ## Measure speed and memory beside others in a quarter of an hour, and write docs/performance.md (root).
	PYTHONPATH=tests $(BIN)/python -m benchmarks.report $(BENCH_FLAGS)

.PHONY: bench-full
bench-full: $(BENCH)/.stamp ## The same for longer, in three quarters of an hour.
	PYTHONPATH=tests $(BIN)/python -m benchmarks.report --full $(BENCH_FLAGS)

.PHONY: bench-check
bench-check: $(BENCH)/.stamp ## Fail where the node role or the audit costs more than it did, beside others in the same seconds (root).
	PYTHONPATH=tests $(BIN)/python -m benchmarks.node --gpus 8 --processes 64 --seconds 30
	$(BIN)/python benchmarks/audit.py --pods 20000 --runs 3 --budget 3

.PHONY: tools
tools: .venv/.stamp ## Fetch the Prometheus releases that the tests run.
	@tests/tools/prerequisites.sh gcc strace chromium
	@$(BIN)/python tests/tools/fetch.py

.PHONY: release
release: .venv/.stamp ## Build wheel, sdist, chart, bill of materials and checksums of this commit into dist/release.
	@test -z "$$(git status --porcelain)" || { echo "release: commit first; a release is what a commit makes"; exit 1; }
	@rm -rf dist/release
	@$(BIN)/python release/build.py dist/release
	@cat dist/release/SHA256SUMS

.PHONY: clean
clean: ## Remove everything that make has made.
	rm -rf .venv .cache dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

.venv/.stamp: requirements/dev.txt pyproject.toml
	@tests/tools/prerequisites.sh venv
	@echo "setting up .venv (a minute at the first time)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(BENCH)/.stamp: requirements/bench.txt .venv/.stamp
	@$(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/pip install -q --disable-pip-version-check --require-hashes -r requirements/bench.txt
	@touch $@

$(WHEEL)/.stamp: .venv/.stamp README.md LICENSE $(shell find exporter -type f -not -name '*.pyc' -not -path '*/__pycache__*')
	@rm -rf dist $(WHEEL)
	@$(BIN)/python -m hatchling build -t wheel
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-compile --target $(WHEEL) dist/gpuledger-*.whl
	@touch $@
