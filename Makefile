# Every target makes the environment it needs: Python 3.11 or newer and make are all it takes.
# PYTHON=/path/to/python chooses the interpreter, WORKERS=1 runs the tests in one process;
# more than cores, because many tests wait for servers; fast ones don't.

RUN := .venv/bin/python -m
WORKERS ?= 3
FAST_WORKERS ?= 2
CODE := src tests $(wildcard benchmarks) scripts/environment
BENCHMARKS := $(basename $(notdir $(wildcard benchmarks/*.py)))
SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
FRESH := FRAZIL_HYPOTHESIS_PROFILE=fresh
SEEDED = --hypothesis-seed=$(SEED) || { echo "again with: make $@ SEED=$(SEED)"; exit 1; }
FAST_LANES := tests/unit $(wildcard tests/storage/test_local*.py) tests/storage/test_memory.py
RANDOM_TESTS := $(addprefix tests/property/test_, alpha_codec.py draft_codec.py v2_codec.py \
	flatbuffers.py repo_info_columns.py chunk_index.py chunk_table.py config_tree.py urls.py values.py \
	gathered_refs.py session_chunks.py history_edits.py zarr_arrays.py zarr_machines.py checking.py)

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: environment
environment: ## make or renew .venv, which every other target does by itself
	@scripts/environment .venv --groups dev docs interop servers ecosystem readers spark web

.PHONY: demo
demo: environment ## run the pipeline on a small archive from end to end, in ./demo-output
	.venv/bin/python -m frazil.cli demo demo-output

.PHONY: test
test: environment ## run all tests
	$(RUN) pytest -n $(WORKERS) --dist loadgroup

.PHONY: test-oldest
test-oldest: environment ## run the fast tests on the oldest Python found, unless `test` ran on it
	@oldest=$$(scripts/environment --version --oldest) && newest=$$(scripts/environment --version) && \
	if [ "$$oldest" = "$$newest" ]; then \
		echo "Python $$oldest is the oldest here, and what 'make test' runs on"; \
	else \
		scripts/environment .venv-oldest --oldest --groups dev && \
		echo "Fast tests on Python $$oldest" && \
		FRAZIL_HYPOTHESIS_PROFILE=fast .venv-oldest/bin/python -m pytest -n $(FAST_WORKERS) $(FAST_LANES); \
	fi

SPARKS := 4.0 4.1 4.2
SPARK_LANE := @tests/spark/lane.txt
SPARK_MATRIX := $(addprefix tests/spark/, test_runtime.py test_verbs.py arrays/test_foreach.py ingestion/test_ingest.py \
	$(addprefix tables/test_, read.py sql.py write_frame.py changes_stream.py write_stream.py) \
	maintenance/test_spark_gc.py clusters/test_connect.py)
# Older versions of PySpark leave sockets open.
OLD_SPARK := -W ignore::pytest.PytestUnraisableExceptionWarning -W ignore::ResourceWarning

.PHONY: test-spark
test-spark: environment ## run a few tests of each kind on every older Spark (SPARKS="4.0")
	@set -e; for version in $(SPARKS); do \
		spark=$(CURDIR)/.venv-sparks/$$version; \
		if [ ! -e $$spark ]; then \
			rm -rf $$spark.new; \
			$(RUN) pip install -qq --target $$spark.new "pyspark==$$version.*"; \
			mv $$spark.new $$spark; \
		fi; \
		echo "Spark $$version"; \
		PYTHONPATH=$$spark:$$PYTHONPATH $(RUN) pytest -q $(OLD_SPARK) $(SPARK_LANE); \
	done

.PHONY: test-spark-all
test-spark-all: ## run the whole matrix of Spark tests on every older Spark
	@$(MAKE) test-spark SPARK_LANE="$(SPARK_MATRIX)"

.PHONY: test-random
test-random: environment ## run random tests with a fresh seed, or with SEED=…, for two minutes at most
	@echo "Random tests with the seed $(SEED)"
	$(FRESH) $(RUN) pytest -q -n $(FAST_WORKERS) --dist loadgroup $(RANDOM_TESTS) $(SEEDED)
	PYTHONPATH=. .venv/bin/python tests/fuzz/run.py --seed $(SEED) --seconds 20

.PHONY: test-deep
test-deep: environment ## run races, crashes and random sessions far longer than `test` does
	FRAZIL_DEEP=1 $(FRESH) $(RUN) pytest -n $(WORKERS) --dist loadgroup tests/faults tests/property tests/spark/maintenance/test_*gc*.py tests/spark/streams $(SEEDED)

.PHONY: docs
docs: environment ## build the site of the documentation in ./site; a broken link fails
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

.PHONY: check
check: environment ## formatting, lint, types, layers
	$(RUN) ruff format --check $(CODE)
	$(RUN) ruff check $(CODE)
	$(RUN) mypy $(CODE)
	.venv/bin/lint-imports --no-logo

.PHONY: format
format: environment ## format the code and repair what the linter can
	$(RUN) ruff check --fix $(CODE)
	$(RUN) ruff format $(CODE)

.PHONY: fuzz
fuzz: environment ## decode 200,000 damaged files (CI runs a few seconds' worth)
	PYTHONPATH=. .venv/bin/python tests/fuzz/run.py --count 200000

.PHONY: differential
differential: environment ## run 13,000 random programs beside the official library (CI runs 140)
	FRAZIL_HYPOTHESIS_PROFILE=deep $(RUN) pytest -n $(WORKERS) --dist loadgroup tests/interop/machine $(SEEDED)

.PHONY: sql-differential
sql-differential: environment ## compare 5,000 random SQL queries with plain Spark (CI runs 70)
	$(RUN) tests.spark.tables.random_sql --count 5000

.PHONY: conformance
conformance: ## run the official library's own tests against Frazil (CONFORMANCE="--resume --files test_move")
	@scripts/environment .venv-conformance --at-least 3.12 --groups conformance
	.venv-conformance/bin/python -m tests.conformance.run $(CONFORMANCE)

.PHONY: bench
bench: environment ## print the numbers of every benchmark
	@set -e; for benchmark in $(BENCHMARKS); do .venv/bin/python -m benchmarks.$$benchmark; done

.PHONY: clean
clean: ## remove environments, caches and builds
	rm -rf .venv* .conformance demo-output dist build site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
