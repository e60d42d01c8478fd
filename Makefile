# What a developer types. The work is done by the small scripts in .ci/; everything is installed into .venv/.

SHELL := /bin/bash
PY := .venv/bin/python -P
PYTEST := $(PY) -m pytest
# A file's tests stay together, so that a server is started once per process; half of the time is waiting.
JOBS ?= 3
SHARED := -n $(JOBS) --dist loadfile
FAST := not service and not spark and not crash and not processes and not setup

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-spark demo-kafka test test-fast check bench soak coverage-spec guarantees settings view lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## create or repair .venv with everything a developer needs
	@.ci/setup dev

demo: ## see a pipeline survive kill -9 (SABOTAGE=1 breaks it on purpose)
	@.ci/setup demo
	@.venv/bin/tidegate demo $(if $(SABOTAGE),--sabotage)

demo-kafka: setup ## the same from topic to topic of Kafka (needs Java 17; SABOTAGE=1 writes without transactions)
	@.ci/java
	@.venv/bin/tidegate demo --kafka --directory demo-output/kafka $(if $(SABOTAGE),--sabotage)

demo-spark: setup ## a pipeline moves from one executor to Spark, is killed there and audited (needs Java 17; SABOTAGE=1 breaks it)
	@.ci/java
	@.venv/bin/tidegate demo --spark --records 200000 --directory demo-output/spark $(if $(SABOTAGE),--sabotage)

test: setup ## run every test (needs Java 17 for the Kafka and Spark tests)
	@.ci/java
	@$(PYTEST) $(SHARED) $(ARGS)

test-fast: setup ## run the tests that need no server, no Spark, no worker processes, no installation and no kill -9
	@$(PYTEST) $(SHARED) -m "$(FAST)" $(ARGS)

check: setup ## format, lint, types, import contracts, budgets
	@.ci/check

bench: setup ## run the benchmarks, results go to benchmarks/results/
	@.ci/java
	@PYTHONPATH=. $(PY) -m benchmarks $(ARGS)

soak: setup ## run every test with the long property and simulation profile
	@.ci/java
	@$(PYTEST) $(SHARED) --profile=long --timeout=3600 -o faulthandler_timeout=3700 $(ARGS)

coverage-spec: setup ## which acceptance examples pass (SHOW=002/AX-08 prints the asserts, LAST=1 runs nothing)
	@$(PY) .ci/coverage_spec.py $(if $(SHOW),--show $(SHOW)) $(if $(LAST),--last)

guarantees: setup ## run the kits of every connector and write what they guarantee into docs/connectors.md
	@.ci/java
	@$(PYTEST) -q tests/conformance/test_sources.py tests/conformance/test_sinks.py tests/conformance/test_kafka.py
	@$(PY) .ci/guarantees.py

settings: setup ## write the tables of docs/settings.md from the declarations of all options
	@$(PY) .ci/settings.py

view: ## link the package into .view/ for type checkers and import-linter
	@python3 .ci/view.py

lock: setup ## resolve pyproject.toml into requirements/*.txt
	@.ci/lock

clean: ## remove everything that make created
	rm -rf .venv .view .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
