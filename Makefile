# Everything happens in .venv; `make` alone lists the targets.
.DEFAULT_GOAL := help
.PHONY: help setup train test check bench format docs reproduction reproduction-kernel fuzz clean prerequisites
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
ARGS ?=
# More options for `uv pip install`: `make setup PIP_ARGS="--torch-backend cpu"` takes torch without CUDA (0.2 GB, not 3)
# from PyTorch's own index; the ordinary index has no such build for Linux.
PIP_ARGS ?=
FUZZ_S ?= 60

BIN := .venv/bin
INSTALLED := .venv/installed.stamp
CORE := ccarena/_core.abi3.so
RUST := Cargo.toml $(wildcard Cargo.lock) $(shell find crates -name '*.rs' -o -name Cargo.toml -o -name '*.json' -o -name '*.[ch]')

# Recorded traces beside the checkout are found without being asked for.
ifneq ($(wildcard ../shared/traces),)
export CCARENA_TRACE_DIR ?= $(abspath ../shared/traces)
endif

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' Makefile
	@echo '  ARGS="..." passes options on: make train ARGS="--total-decisions 100000 --out runs/short"'

setup: $(CORE)  ## Create .venv with all dependencies and build the native extension

train: setup  ## Set up, then train ACCT with the default configuration, evaluate and report (options: ARGS="...")
	$(BIN)/ccarena train --config acct $(ARGS)

test: setup  ## Run all tests, Rust's and Python's
	cargo test --workspace --profile checked
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(ARGS)

check: setup  ## Check format, lints and types
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --profile checked -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup  ## Measure the simulator, the environments, training and, as root, the emulator and the kernel bridge
	cargo run --release -p ccarena-sim --example bench
	$(BIN)/python -m ccarena.eval.bench $(ARGS)
	if [ "$$(id -u)" = 0 ]; then $(BIN)/python -m ccarena.eval.bench_realtime; \
	else echo 'NOT MEASURED without root: the emulator and the kernel bridge (python -m ccarena.eval.bench_realtime)'; fi

format: setup  ## Format the code
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --select I .

docs: setup  ## Rewrite the parts of docs/ that are generated from the code
	$(BIN)/python -m ccarena.configs.docs docs/configuration.md
	$(BIN)/python -m ccarena.schemes_docs docs/schemes.md
	$(BIN)/python -m ccarena.learned_docs docs/learned.md
	$(BIN)/python -m ccarena.eval.reproduce.docs docs/suites.md

reproduction: setup  ## Run every suite of the papers and write docs/reproduction.md; finished runs are kept
	for config in acct-wired hyvar orca aurora; do \
	  test -f "runs/$$config/policy.safetensors" || $(BIN)/ccarena train --config "$$config"; \
	done
	$(BIN)/ccarena reproduce --all --write-docs docs/reproduction.md $(ARGS)

reproduction-kernel: setup  ## The suites that also run on kernel TCP, in real time and as root (about 110 minutes)
	for config in acct-wired hyvar orca; do \
	  test -f "runs/$$config/policy.safetensors" || $(BIN)/ccarena train --config "$$config"; \
	done
	$(BIN)/ccarena reproduce --all --backend kernel --write-docs docs/reproduction.md $(ARGS)

fuzz:  ## Fuzz each parser for FUZZ_S seconds (needs nightly Rust and cargo-fuzz)
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { \
	  echo 'error: fuzzing needs cargo-fuzz: rustup toolchain install nightly && cargo install cargo-fuzz' >&2; exit 1; }
	for target in $$(cargo +nightly fuzz list); do \
	  mkdir -p "fuzz/corpus/$$target" "fuzz/seeds/$$target"; \
	  cargo +nightly fuzz run "$$target" "fuzz/corpus/$$target" "fuzz/seeds/$$target" -- -max_total_time=$(FUZZ_S); \
	done

clean:  ## Remove everything that was built; runs/ stays
	rm -rf .venv target build dist *.egg-info ccarena/_core*.so ccarena/_bin .mypy_cache .ruff_cache .pytest_cache

# Checked only when something must be built.
prerequisites:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo "error: $(PYTHON) is missing or older than 3.10: apt install python3 python3-venv, or name another, make PYTHON=python3.12" >&2; exit 1; }
	@command -v cargo >/dev/null || { \
	  echo "error: no Rust toolchain (cargo) on PATH; needed to build the simulator: see https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { \
	  echo "error: no C compiler (cc) on PATH; needed to link the simulator: apt install build-essential" >&2; exit 1; }
	@command -v clang >/dev/null && echo '#include <libelf.h>' | cc -E - >/dev/null 2>&1 || \
	  echo "note: without clang and libelf the kernel bridge is not built (all else is): apt install clang libelf-dev zlib1g-dev" >&2

# uv installs three times as fast as pip; where it is not on PATH, the environment gets its own.
$(BIN)/python: | prerequisites
	@if uv --version >/dev/null 2>&1; then uv venv --quiet --python "$$(command -v $(PYTHON))" .venv; \
	else $(PYTHON) -m venv .venv || { rm -rf .venv; \
	  echo "error: $(PYTHON) cannot create virtual environments: apt install python3-venv" >&2; exit 1; }; \
	  $(BIN)/python -m pip install --quiet uv; fi

$(INSTALLED): pyproject.toml setup.py | $(BIN)/python prerequisites
	@uv="$$(command -v uv || true)"; "$$uv" --version >/dev/null 2>&1 || uv=$(BIN)/uv; \
	"$$uv" pip install --python $(BIN)/python --quiet 'setuptools>=77' 'setuptools-rust>=1.10'; \
	"$$uv" pip install --python $(BIN)/python $(PIP_ARGS) --no-build-isolation -e '.[all,dev]'
	@touch $@

# The same Python as above, not an isolated one, so that cargo finds its work already done.
$(CORE): $(RUST) | $(INSTALLED)
	$(BIN)/python setup.py --quiet build_rust --inplace
	@touch $@
