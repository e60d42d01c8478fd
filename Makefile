# Commands for developers. The scripts are in .ci/; everything is installed into .venv/.

SHELL := /bin/bash
PY := .venv/bin/python -P
PYTEST := $(PY) -m pytest
# Tests of one file run in one process, so that a server is started once per process; half of the time is waiting.
JOBS ?= 3
SHARED := -n $(JOBS) --dist loadfile
FAST := not service and not spark and not crash and not processes and not setup

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-spark demo-kafka test test-fast check bench soak coverage-spec guarantees pyflink settings lines view lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## create or repair .venv with all developer dependencies
	@.ci/setup dev

demo: ## run a pipeline that survives kill -9 (SABOTAGE=1: lose and duplicate a record, which the audit must find)
	@.ci/setup demo
	@.venv/bin/tidegate demo $(if $(SABOTAGE),--sabotage)

demo-kafka: setup ## run the demo from Kafka topic to Kafka topic (needs Java 17; SABOTAGE=1: no transactions)
	@.ci/java
	@.venv/bin/tidegate demo --kafka --directory demo-output/kafka $(if $(SABOTAGE),--sabotage)

demo-spark: setup ## run the demo on two executors: a pipeline moves to Spark and is killed there (needs Java 17; SABOTAGE=1)
	@.ci/java
	@.venv/bin/tidegate demo --spark --records 200000 --directory demo-output/spark $(if $(SABOTAGE),--sabotage)

test: setup ## run every test (needs Java 17 for the Kafka and Spark tests)
	@.ci/java
	@$(PYTEST) $(SHARED) $(ARGS)

test-fast: setup ## run the tests without servers, Spark, worker processes, installation and kill -9
	@$(PYTEST) $(SHARED) -m "$(FAST)" $(ARGS)

check: setup ## check format, lint, types, import contracts, budgets
	@.ci/check

bench: setup ## run the benchmarks; results are written to benchmarks/results/
	@.ci/java
	@PYTHONPATH=. $(PY) -m benchmarks $(ARGS)

soak: setup ## run every test with the long property and simulation profile
	@.ci/java
	@$(PYTEST) $(SHARED) --profile=long --timeout=3600 -o faulthandler_timeout=3700 $(ARGS)

coverage-spec: setup ## show which acceptance examples pass (SHOW=002/AX-08: print the asserts; LAST=1: show the last run)
	@$(PY) .ci/coverage_spec.py $(if $(SHOW),--show $(SHOW)) $(if $(LAST),--last)

guarantees: setup ## run the conformance kits of all connectors and write the guarantees to docs/connectors.md
	@.ci/java
	@$(PYTEST) -q tests/conformance/test_sources.py tests/conformance/test_sinks.py tests/conformance/test_kafka.py \
		tests/conformance/test_database.py
	@$(PY) .ci/guarantees.py

pyflink: setup ## generate the modules that carry PyFlink's names from .ci/pyflink_modules.toml
	@$(PY) .ci/pyflink_modules.py

settings: setup ## generate the tables of docs/settings.md from the declared options
	@$(PY) .ci/settings.py

view: ## link the package into .view/ for type checkers and import-linter
	@python3 .ci/view.py

lock: setup ## resolve pyproject.toml into requirements/*.txt
	@.ci/lock

lines: setup ## show the lines of code per package: code, tests, docs
	@$(PY) .ci/lines.py

clean: ## remove all files that make created
	rm -rf .venv .view .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
