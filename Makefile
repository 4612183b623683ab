# `make demo` and `make test` need nothing else: each installs what is missing, builds, and runs. `make help` lists the rest.
#
#   PYTHON=/path/to/python   use this interpreter as it is (default: the active virtual environment, else .venv, made here)
#   TIER=fast|full|gpu       what `make test` runs
#   JOBS=2                   parallel compile jobs (default: one per core)
.DEFAULT_GOAL := help
.PHONY: help setup build test demo fresh lint format docs bench bundle wheels fuzz clean

TIER ?= fast
export PYTHON JOBS

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: ## install system packages (as root or with sudo), the virtual environment and Python packages
	@bash .ci/setup.sh

build: setup ## compile the compiler library, the extension and the tools; register the backend
	@bash .ci/build.sh

test: build ## run the tests (TIER=fast|full|gpu)
	@bash .ci/test.sh $(TIER)

demo: build ## train and run five models through the backend, beside eager and Inductor
	@bash .ci/python.sh benchmarks/demo.py $(ARGS)

bench: build ## run a benchmark suite, for instance: make bench ARGS="--suite kernels --json out.json"
	@bash .ci/python.sh benchmarks/run.py $(ARGS)

bundle: build ## dist/bundle: what a machine without LLVM needs to build the extension and run tests and benchmarks
	@bash .ci/bundle.sh $(FOLDER)

wheels: build ## dist/: torch-tile-compiler, torch-tile for each torch from 2.11 on (TORCH="2.13.0 ...": these), tried
	@bash .ci/wheels.sh $(TORCH)

fuzz: build ## run the randomised tests longer than `make test` does
	@HYPOTHESIS_PROFILE=fuzz bash .ci/test.sh fuzz
	@bash .ci/python.sh -m tests.fuzz --seed "$${SEED:-$$(date +%s)}" --minutes "$${MINUTES:-60}"

fresh: ## run both on bare Debian systems, as root (ARGS=setup: only what they install)
	@bash .ci/fresh.sh $(ARGS)

lint: ## check format, style, types and layers
	@bash .ci/setup.sh lint
	@bash .ci/lint.sh

format: ## rewrite the sources in the project's format
	@bash .ci/setup.sh lint
	@bash .ci/lint.sh --fix

docs: ## build the documentation site in build/site; a warning is an error (ARGS=serve: on localhost:8000)
	@bash .ci/docs.sh $(ARGS)

clean: ## remove build products; the virtual environment stays
	rm -rf build build-* dist torch_tile/*.so
