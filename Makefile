# Everything happens in .venv; `make` alone lists the targets.
.DEFAULT_GOAL := help
.PHONY: help prerequisites setup train test test-real-time test-computed test-oldest test-cluster check bench soak \
  curriculum gain learned-controllers attacks assessments league measurements format docs policies leaderboard reproduction reproduction-quick reproduction-kernel reproduction-quic properties proof library wheel sdist lock release-notes image-check fuzz site \
  stacks-check adapters adapters-check web web-bench clean can-build FORCE
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
ARGS ?=
YES ?=
# Extras of pyproject.toml to install beside those that a target needs: `make setup EXTRAS=ray,onnx`.
EXTRAS ?=
# More options for `uv pip install`: PIP_ARGS="--torch-backend cu130" chooses another build of PyTorch than
# ccarena/prerequisites.sh does.
PIP_ARGS ?=
# More options for `cargo test`.
CARGO_ARGS ?=
# pytest's exit status when it found no test to run, as where ARGS names some of one kind.
NONE_SELECTED := 5
TAG ?=
FUZZ_S ?= 60
ROUNDS ?= 20

BIN := .venv/bin
INSTALLED := .venv/installed.stamp
LOCK := requirements.lock
# A stamp for each extra that is installed: whoever needs one depends on $(call WITH,NAME...).
comma := ,
WITH = $(patsubst %,.venv/extras/%,$(subst $(comma), ,$(1)))
CORE := ccarena/_core.abi3.so
BRIDGE := target/kernel-bridge.stamp
RUST := Cargo.toml $(wildcard Cargo.lock) $(shell find crates -path crates/ccarena-web/page -prune -o \
  \( -name '*.rs' -o -name Cargo.toml -o -name '*.json' -o -name '*.[ch]' \) -print) \
  $(wildcard ccarena/*/spec.json)

export PYTHON PIP_ARGS EXTRAS
PREREQUISITES := sh ccarena/prerequisites.sh
# Debian packages that the kernel bridge still needs; looked for once, and only where something is to be built.
LACKING = $(eval LACKING := $(shell $(PREREQUISITES) kernel))$(LACKING)
# On PATH if it runs there and is new enough to choose PyTorch's build, else the one in the environment.
HAS_UV := uv pip install --torch-backend cpu --help >/dev/null 2>&1
UV = $(eval UV := $(shell $(HAS_UV) && echo uv || echo $(BIN)/uv))$(UV)
INSTALL = $(UV) pip install --python $(BIN)/python -c $(LOCK)
# The programs that can be built here, and all crates but those of the others.
PROGRAMS = $(eval PROGRAMS := $(shell $(PREREQUISITES) programs))$(PROGRAMS)
CRATES = --workspace $(foreach name,$(filter-out $(PROGRAMS),ccarena-link ccarena-quic ccarena-kernel),--exclude $(name))

# Recorded traces beside the checkout are found without being asked for.
ifneq ($(wildcard ../shared/traces),)
export CCARENA_TRACE_DIR ?= $(abspath ../shared/traces)
endif

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' Makefile
	@echo '  ARGS="..." passes options on: make train ARGS="--total-decisions 100000 --out runs/short"'

prerequisites:  ## Offer to install the packages that are missing (root and apt; YES=1 does not ask)
	@YES='$(YES)' $(PREREQUISITES) install

setup: can-build $(call WITH,train frames $(EXTRAS)) $(CORE)  ## Create .venv for running and training (EXTRAS=ray,... adds), and build

train: setup  ## Set up, then train ACCT with the default configuration, evaluate and report (options: ARGS="...")
	$(BIN)/ccarena train $(ARGS)

# Property tests draw the same cases every time, so that a change is judged by what it changed; `make properties` draws
# others.
test: export PROPTEST_RNG_SEED ?= 1
test: setup $(call WITH,test)  ## Run all tests, Rust's and Python's
	cargo test $(CRATES) --profile checked --no-run
	@$(MAKE) --no-print-directory -j 2 test-real-time test-computed

# Tests in real time mostly wait. Those that compute take what is left of the processors meanwhile: to the scheduler they
# are idle work, which delays no other.
IDLE = $(shell chrt --idle 0 true 2>/dev/null && echo chrt --idle 0) nice -n 19
COMPUTED := build/test-computed.log
test-real-time test-computed: export OMP_NUM_THREADS = 1
test-real-time test-computed: PYTEST = $(BIN)/python -m pytest
# Rust's tests of real time are those of the programs' crates. Each part builds all crates alike, as one with fewer of them
# would build the shared ones again with other features, and runs its own.
RUST_TESTS = cargo test $(CRATES) --profile checked $(CARGO_ARGS) --config 'target."cfg(all())".runner = \
  ["sh", "-c", "case $$CARGO_PKG_NAME in ccarena-link|ccarena-quic|ccarena-kernel) $(1);; *) $(2);; esac", "run"]'
RUN := exec \"$$@\"
test-real-time:
	$(call RUST_TESTS,$(RUN),:) --tests
	$(PYTEST) -m 'not slow and alone' $(ARGS) || [ $$? = $(NONE_SELECTED) ]

test-computed:
	@mkdir -p $(dir $(COMPUTED))
	@code=0; { $(IDLE) $(call RUST_TESTS,:,$(RUN)) && \
	  $(IDLE) $(PYTEST) -m 'not slow and not alone' -n auto --dist loadfile $(ARGS); } >$(COMPUTED) 2>&1 || code=$$?; \
	  cat $(COMPUTED); [ $$code = 0 ] || [ $$code = $(NONE_SELECTED) ]

# Into a folder that stands before the environment's own; torch, which is large, stays the environment's.
test-oldest: setup $(call WITH,test)  ## Test with the oldest Stable-Baselines3 and Gymnasium that pyproject.toml allows
	rm -rf build/oldest
	$(UV) pip install --quiet --python $(BIN)/python --target build/oldest --resolution lowest-direct \
	  --overrides <(echo "torch; python_version < '3'") \
	  $$(grep -oE '(stable-baselines3|gymnasium)>=[0-9.]+' pyproject.toml)
	PYTHONPATH=build/oldest OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto tests/agents/test_sb3.py \
	  tests/envs/test_sb3.py $(ARGS)

# Rust's name of macOS; its standard library is enough to check what would be built there.
MACOS := aarch64-apple-darwin
check: setup $(call WITH,test check)  ## Check format, lints, types and documentation
	cargo fmt --all --check
	cargo clippy $(CRATES) --all-targets --profile checked -- -D warnings
	@if rustup target list --installed 2>/dev/null | grep -qx $(MACOS); \
	then cargo check -p ccarena-py --target $(MACOS) --profile checked; \
	else echo 'NOT CHECKED: the native extension on macOS; it needs: rustup target add $(MACOS)'; fi
	cargo clippy -p ccarena-cc --no-default-features --profile checked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc $(CRATES) --no-deps --document-private-items --profile checked --quiet
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --quiet tests/docs/test_pages.py
	@if [ -n '$(LACKING)' ]; then echo 'NOT CHECKED: the crate ccarena-kernel; it needs: $(LACKING) (make prerequisites)'; fi

bench: setup $(call WITH,test)  ## Measure the simulator, environments, training and, as root, the emulator and the kernel bridge
	$(BIN)/python -m bench $(ARGS)
	$(BIN)/python -m bench.page

soak: ROUNDS = 1000
soak: setup $(call WITH,test)  ## As root: attach, swap policies, send, kill -9 at random and detach, ROUNDS times (about 20 minutes)
	$(BIN)/python -m bench.soak --rounds $(ROUNDS)
	$(BIN)/python -m bench.soak --churn 20000
	$(BIN)/python -m bench.swaps --rounds $(ROUNDS)

# Networks are trained in settings named by ARGS="--train half-silent".
gain: setup $(call WITH,test)  ## Measure how much ACCT's network can gain over a table, setting by setting; finished parts are kept
	$(BIN)/python -m bench.gain $(ARGS)
	$(BIN)/python -m bench.page

curriculum: setup $(call WITH,test)  ## Train ACCT with and without attacks, and measure both on links that neither has seen; finished parts are kept
	$(BIN)/python -m bench.curriculum $(ARGS)
	$(BIN)/python -m bench.page

ATTACKED := acct bbr bbr3 copa cubic hercules@requirement=4:8 hyvar pilot prague vivace
attacks: setup  ## Attack the schemes of the registry, rewrite docs/attack.json and its page (ARGS="--candidates 5000")
	set -e; for entrant in $(ATTACKED); do \
	  if [ -e runs/attacks/$$entrant/plan.yaml ]; then attack=--resume; else attack="$$entrant --candidates 600 --finds 2 $(ARGS)"; fi; \
	  $(BIN)/ccarena attack $$attack --out runs/attacks/$$entrant --write-docs docs/attack.json; done
	$(BIN)/python -m docs.generate

learned-controllers: setup $(call WITH,test)  ## Compare published and shipped learned controllers (ARGS="--published CLONES"); finished runs are kept
	$(BIN)/python -m bench.learned_controllers $(ARGS)

measurements: setup  ## Rewrite docs/measurements.md and the figures in other pages from docs/measurements.json
	$(BIN)/python -m bench.page

format: setup $(call WITH,check)  ## Format the code
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --select I .

docs: setup  ## Rewrite the parts of docs/ that are generated from the code
	$(BIN)/python -m docs.generate

site: setup $(call WITH,docs)  ## Make the documentation a site in build/site, read from files without a network
	$(BIN)/python docs/site/build.py build/site

# Policies are in the folders of learned schemes: NAME is trained by the configuration NAME, NAME-table is NAME's rule.
# The suites of the papers need OF_PAPERS.
OF_PAPERS := acct-wired aurora hyvar orca
SHIPPED := $(sort $(OF_PAPERS) $(notdir $(basename $(wildcard ccarena/*/policies/*.safetensors))))
TRAINED := $(foreach name,$(SHIPPED),$(if $(wildcard ccarena/configs/$(name).yaml),$(name)))
policies: setup  ## Train the shipped policies again and ship them with their cards; finished runs are kept
	for config in $(TRAINED); do \
	  test -f "runs/shipped-$$config/policy.safetensors" || \
	    $(BIN)/ccarena train --config "$$config" --out "runs/shipped-$$config" $(ARGS); \
	done
	for table in $(filter-out $(TRAINED),$(SHIPPED)); do \
	  mkdir -p "runs/shipped-$$table"; \
	  $(BIN)/ccarena policy rule "runs/shipped-$${table%-table}" --out "runs/shipped-$$table/policy.safetensors"; \
	  $(BIN)/ccarena eval "runs/shipped-$$table"; \
	done
	$(BIN)/python -m docs.generate.policies $(foreach name,$(SHIPPED),$(name)=runs/shipped-$(name))
	$(BIN)/python -m docs.generate.policies --links

assessments: setup  ## Assess the schemes and rewrite the table of docs/assess.md; finished runs are kept
	$(BIN)/python -m docs.generate.assess

league: setup  ## Score heuristics and shipped policies on the league, rewrite docs/league.json and its tables; finished parts are kept
	$(BIN)/python -m docs.generate.league
	$(BIN)/python -m docs.generate

leaderboard: setup  ## Run the leaderboard on generated and fetched traces, rewrite docs/leaderboard.md and make the pages; finished runs are kept
	$(BIN)/ccarena leaderboard run --traces presets models recordings $(ARGS)
	$(BIN)/python -m docs.generate.leaderboard runs/leaderboard/results.db docs/leaderboard.md
	$(BIN)/ccarena leaderboard page runs/leaderboard/site

reproduction: setup  ## Run every suite of the papers and write docs/reproduction.md; finished runs are kept
	$(BIN)/ccarena reproduce --all --discriminate --write-docs docs/reproduction.md $(ARGS)

reproduction-kernel: setup  ## The suites that also run on kernel TCP, in real time and as root (about 130 minutes)
	$(BIN)/ccarena reproduce --all --backend kernel --write-docs docs/reproduction.md $(ARGS)

reproduction-quick: setup  ## Run every suite with few seeds from a folder without runs, as a test (about 3 minutes)
	$(BIN)/python -m pytest -m slow tests/eval/reproduce/test_from_a_clone.py $(ARGS)

reproduction-quic: setup  ## The suites that also run over QUIC, in real time and as root (about 55 minutes)
	$(BIN)/ccarena reproduce --all --backend quic --write-docs docs/reproduction.md $(ARGS)

stacks-check: setup $(call WITH,test)  ## As root: build or install all stacks of others, and run their tests (minutes of a compiler)
	$(BIN)/ccarena stacks get all
	CCARENA_STACKS_NEEDED=all $(BIN)/python -m pytest tests/privileged/test_stacks.py $(ARGS)

ADAPTERS = quinn s2n-quic tquic

adapters: FORCE  ## Build and test the adapter for quinn, and the transfer that the tests with privileges run
	cargo test --locked --target-dir target --manifest-path examples/adapters/quinn/Cargo.toml
	cargo build --locked --target-dir target --manifest-path examples/adapters/quinn/Cargo.toml

adapters-check: setup  ## As root: build and test all adapters, and compare transfers over them with the simulator (minutes of a compiler)
	examples/adapters/tquic/patch.sh
	for each in $(ADAPTERS); do \
	  cargo test --locked --target-dir target --manifest-path examples/adapters/$$each/Cargo.toml; \
	  cargo build --release --locked --target-dir target --manifest-path examples/adapters/$$each/Cargo.toml; \
	done
	CARGO_TARGET_DIR=$(CURDIR)/target $(BIN)/python examples/adapters/check.py own $(ADAPTERS) $(ARGS)

properties: setup  ## Run Rust's property tests ROUNDS times, each time with other cases
	for round in $$(seq $(ROUNDS)); do cargo test $(CRATES) --profile checked --quiet; done

test-cluster: setup $(call WITH,test test-cluster)  ## Kill workers, nodes and drivers of whole trainings and sweeps on a cluster (a few minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'slow or not slow' tests/agents/test_ray.py tests/executors \
	  tests/tune tests/runs 'tests/docs/test_tutorials.py::test_it_can_be_followed[tutorial-cluster]' $(ARGS)

proof: OUT = runs/proof-$(shell date +%Y%m%d-%H%M%S)
proof: setup $(call WITH,cluster)  ## Train ACCT, and Hyvar in two ways, 5 seeds each, by a job on a cluster that loses a node (ARGS=--quick: minutes)
	$(BIN)/python -m bench.proof --out $(OUT) $(ARGS)

web: FORCE  ## Build the simulator for web pages, and the pages, into ccarena/play/assets (needs Node; minutes for the first time)
	sh crates/ccarena-web/build.sh

web-bench: setup  ## Measure the simulator in Node and in Chromium beside the native one, in turns (after make web)
	$(BIN)/python -m bench.web $(ARGS)

# In the package, so that a wheel that is built next has it; archives do not say which C library they need.
INSTALL_LIBRARY = crates/ccarena-ffi/install.sh ccarena/_library
library:  ## Build libccarena for C, static and shared, with headers and a pkg-config file, and pack it into dist/
	$(INSTALL_LIBRARY)
	rm -rf build/libccarena
	@mkdir -p build dist
	cp -R ccarena/_library build/libccarena
	tar -czf dist/libccarena-$$(uname -s)-$$(uname -m).tar.gz -C build libccarena
	@ls dist/libccarena-*.tar.gz

COUNTS := build/guided/counts.profdata
# Of the toolchain itself: others do not read its counts. On macOS the wheel is built without.
CAN_COUNT = $(shell [ "$$(uname -s)" = Linux ] && [ -x "$$(rustc --print target-libdir)/../bin/llvm-profdata" ] && echo 1)
# Empty or 0 builds the plain wheel, in less than half of the time.
GUIDED ?= $(CAN_COUNT)
COUNTED = $(filter-out 0,$(GUIDED))
# On Linux, `auditwheel repair` names the oldest C library that the wheel runs with, and copies in what else it needs: nothing.
wheel: can-build $(CORE) $(call WITH,wheel)  ## Build the wheel that runs without Rust, into dist/ (docs/install.md; GUIDED=0: sooner, and slower)
	@[ -n '$(COUNTED)' ] || echo 'NOT GUIDED by a profile: the simulator will be slower. To guide it, on Linux: rustup component add llvm-tools'
	$(if $(COUNTED),$(BIN)/python -m bench.guided record $(COUNTS))
	@[ -e ccarena/play/assets/engine.wasm ] || echo 'NOT PACKED: the simulator for web pages, which is not built: make web'
	rm -rf build/wheel dist/*.whl
	$(INSTALL_LIBRARY) shared
	$(if $(COUNTED),RUSTFLAGS=-Cprofile-use=$(abspath $(COUNTS))) $(BIN)/python setup.py --quiet bdist_wheel --dist-dir build/wheel
	$(if $(COUNTED),$(BIN)/python -m bench.guided compare build/wheel/*.whl)
	@mkdir -p dist
	if [ "$$(uname -s)" = Linux ]; then PATH=$(abspath $(BIN)):$$PATH auditwheel repair --wheel-dir dist build/wheel/*.whl; \
	else cp build/wheel/*.whl dist/; fi
	@ls dist/*.whl

release-notes:  ## Print the changelog of this version; TAG=vVERSION has to be this version
	@version=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' ccarena/__init__.py); \
	[ -z '$(TAG)' ] || [ '$(TAG)' = "v$$version" ] || { echo "error: the tag is $(TAG), but the version is $$version" >&2; exit 1; }; \
	awk -v head="## $$version " 'index($$0, head) == 1 {here = 1; next} /^## / {here = 0} here' CHANGELOG.md | grep . || \
	  { echo "error: CHANGELOG.md has no section '## $$version – DATE'" >&2; exit 1; }

image-check:  ## As root, with debootstrap: run the Dockerfile's steps with dist's wheel in a clean root (2 minutes)
	$(BIN)/python -m bench.image

sdist: can-build $(INSTALLED)  ## Pack the sources that the wheel is built from, into dist/
	$(BIN)/python setup.py --quiet sdist --dist-dir dist
	@ls dist/*.tar.gz

# Extras that make installs, of which the others are parts.
LOCKED := train,test,check,docs,wheel,test-cluster,tune
# Names, versions and markers alone: which index has them is the machine's business.
lock: $(INSTALLED)  ## Rewrite requirements.lock, the versions that make installs, with the newest of them
	$(UV) pip compile --quiet --universal --upgrade --python $(BIN)/python --python-version 3.10 --no-build-isolation \
	  $(patsubst %,--extra %,$(subst $(comma), ,$(LOCKED))) --no-header --no-annotate --no-emit-index-url \
	  --no-emit-find-links --output-file $(LOCK) pyproject.toml

fuzz:  ## Fuzz every parser, all schemes and all queues for FUZZ_S seconds each, on stable Rust
	fuzz/run $(FUZZ_S)

clean:  ## Remove everything that was built; runs/ stays
	rm -rf .venv target build dist *.egg-info ccarena/_core*.so ccarena/_bin ccarena/_library ccarena/play/assets crates/ccarena-web/page/{node_modules,build} .mypy_cache .ruff_cache .pytest_cache

can-build:
	@$(PREREQUISITES) check

# uv installs three times as fast as pip; where it is not on PATH, the environment gets its own.
$(BIN)/python: | can-build
	@if $(HAS_UV); then uv venv --quiet --python "$$(command -v $(PYTHON))" .venv; \
	else $(PYTHON) -m venv .venv || { rm -rf .venv; \
	  echo "error: $(PYTHON) cannot create virtual environments: apt install python3-venv" >&2; exit 1; }; \
	  $(BIN)/python -m pip install --quiet uv; fi

# The build is silent: a line every 20 s says that it goes on. What sleeps holds no pipe of the caller's open.
SAY_THAT_IT_BUILDS = (began=$$(date +%s); while sleep 20 >/dev/null 2>&1; do \
  echo "  still building after $$(($$(date +%s) - began)) s"; done) & \
  saying=$$!; trap 'kill $$saying' EXIT

# Built with the environment's Python, not an isolated one, so that cargo finds its work already done.
$(INSTALLED): pyproject.toml setup.py | $(BIN)/python can-build
	@$(INSTALL) --quiet setuptools setuptools-rust
	@echo 'Building the simulator and its programs with cargo, into target/: minutes for the first time'
	@$(SAY_THAT_IT_BUILDS); $(INSTALL) --quiet $(PIP_ARGS) --no-deps --no-build-isolation -e .
	@touch $@

# uv leaves bytecode out. Where Python may not write it either (PYTHONDONTWRITEBYTECODE, a read-only environment), every
# process would compile PyTorch and Ray anew.
.venv/extras/%: pyproject.toml $(LOCK) | $(INSTALLED)
	@mkdir -p $(@D)
	@options=$$($(PREREQUISITES) extra $*) && \
	  $(INSTALL) $$options $(PIP_ARGS) --compile-bytecode --no-build-isolation -r pyproject.toml --extra $*
	@touch $@

# Changes when the kernel bridge's packages come or go, or a program is gone, so that what is built follows.
$(BRIDGE): FORCE
	@mkdir -p $(@D)
	@for program in $(PROGRAMS); do [ -x "ccarena/_bin/$$program" ] || rm -f $@; done
	@echo '$(LACKING)' | cmp -s - $@ || echo '$(LACKING)' >$@

# The same Python again, for the same reason.
$(CORE): $(RUST) setup.py $(BRIDGE) | $(INSTALLED)
	$(BIN)/python setup.py --quiet build_rust --inplace
	@touch $@
