# reflexd: `make demo` plays Pong through the daemon, `make test` runs the suite. Everything else is for developers.
PYTHON ?= python3
BIN := .venv/bin
SOAK_SECONDS ?= 1800
EVALUATION_GAMES ?= 30
# Camera bindings exist for the system's Python alone: where they are, the environment has to see them.
SYSTEM_PACKAGES = $(shell $(PYTHON) -c 'import importlib.util as u; print("--system-site-packages" * bool(u.find_spec("picamera2")))')
MACHINE := $(shell uname -m)
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' daemon/__init__.py)

.PHONY: help venv demo test worker worker-aarch64 worker-files deb deb-amd64 deb-arm64 lint tidy bench soak lab lab-amd64 parity evaluate export clean

help: ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

venv: .venv/run.stamp .venv/compiled.stamp ## make .venv with everything a run needs (pip only)

.venv/run.stamp: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "reflexd needs Python 3.11 or newer; set PYTHON=..., found: $$($(PYTHON) --version)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "this Python cannot make environments; install it: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(SYSTEM_PACKAGES) .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[export,pong]'
	touch $@

# Where the environment (PYTHONDONTWRITEBYTECODE) or a read-only disk keeps Python from keeping what it has compiled, every
# process of a run would compile its modules anew: a quarter of its start.
.venv/compiled.stamp: .venv/run.stamp $(shell find daemon -name '*.py')
	$(BIN)/python -m compileall -q daemon
	touch $@

# The binding to systemd is compiled by pip, against headers not every machine has: apt install libsystemd-dev pkg-config.
SYSTEMD = $(shell pkg-config --exists libsystemd 2>/dev/null && echo ,systemd)

.venv/dev.stamp: .venv/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[export,pong,dev$(SYSTEMD)]'
	touch $@

demo: venv ## a trained policy plays Pong through the daemon, live in this terminal
	$(BIN)/reflexd run models/pong/demo.toml

test: .venv/dev.stamp lint ## style, types and the whole test suite
	$(BIN)/python -m pytest -m 'not soak and not benchmark and not lab' --durations=25 tests

# The native worker, cross/README.md: `$(call build_worker,PRESET,MACHINE)`, into a folder and a tarball of it. One
# build at a time: tests build what they lack.
define build_worker
mkdir -p cross/build
flock cross/build $(MAKE) --no-print-directory worker-files PRESET=$(1) MACHINE=$(2)
endef

worker: .venv/worker.stamp ## the native inference worker for this machine
	@cross/prerequisites.sh c++ /usr/lib/$(MACHINE)-linux-gnu \
	  "apt install g++ libmsgpack-cxx-dev nlohmann-json3-dev libssl-dev"
	$(call build_worker,host,$(MACHINE))

worker-aarch64: .venv/worker.stamp cross/build/sdk-aarch64.stamp ## the same for 64-bit Arm, cross-compiled
	@cross/prerequisites.sh aarch64-linux-gnu-g++ /usr/lib/aarch64-linux-gnu \
	  "dpkg --add-architecture arm64 && apt update && apt install g++-aarch64-linux-gnu libmsgpack-cxx-dev \
	  nlohmann-json3-dev libssl-dev:arm64"
	$(call build_worker,aarch64,aarch64)

worker-files:
	cd cross && PATH=$(CURDIR)/$(BIN):$$PATH cmake --preset $(PRESET) --log-level=WARNING
	cd cross && PATH=$(CURDIR)/$(BIN):$$PATH cmake --build --preset $(PRESET)
	rm -rf cross/dist/$(MACHINE).new
	$(BIN)/cmake --install cross/build/$(PRESET) --prefix cross/dist/$(MACHINE).new --strip >cross/build/$(PRESET)/install.log
	rm -rf cross/dist/$(MACHINE) && mv cross/dist/$(MACHINE).new cross/dist/$(MACHINE)
	tar -C cross/dist --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --transform 's,^$(MACHINE),reflexd-worker,' \
	  -czf cross/dist/reflexd-worker-$(VERSION)-$(MACHINE).tar.gz $(MACHINE)
	@echo "built cross/dist/$(MACHINE)/reflexd-worker"

# Both on a desk machine; on a device its own.
deb: $(if $(filter aarch64,$(MACHINE)),,deb-amd64) deb-arm64 ## the Debian packages, into dist/

deb-amd64: worker .venv/package.stamp
	deploy/debian/build.sh amd64

deb-arm64: $(if $(filter aarch64,$(MACHINE)),worker,worker-aarch64) .venv/package.stamp
	deploy/debian/build.sh arm64

.venv/package.stamp: .venv/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[package]'
	touch $@

sanitize: .venv/dev.stamp .venv/worker.stamp ## the worker's tests against a build with ASan and UBSan
	cd cross && PATH=$(CURDIR)/$(BIN):$$PATH cmake --preset sanitize --log-level=WARNING
	cd cross && PATH=$(CURDIR)/$(BIN):$$PATH cmake --build --preset sanitize
	REFLEXD_WORKER=$(CURDIR)/cross/build/sanitize/reflexd-worker $(BIN)/python -m pytest -q -k native \
	  tests/infer/test_worker.py tests/infer/test_worker_link.py tests/infer/test_worker_models.py \
	  tests/infer/test_verify.py tests/cross/test_threads.py

.venv/worker.stamp: .venv/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[worker]'
	touch $@

cross/build/sdk-aarch64.stamp: cross/requirements-aarch64.txt .venv/run.stamp
	rm -rf cross/build/sdk-aarch64 cross/build/wheel-aarch64
	$(BIN)/pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
	  --platform manylinux_2_28_aarch64 --python-version 3.11 --implementation cp \
	  --dest cross/build/wheel-aarch64 -r $<
	$(BIN)/python -m zipfile -e cross/build/wheel-aarch64/*.whl cross/build/sdk-aarch64
	touch $@

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

tidy: worker ## clang-tidy over the native worker; some minutes
	cd cross && grep -o '"file": "[^"]*"' build/host/compile_commands.json | cut -d'"' -f4 | grep -v /generated/ | \
	  xargs -n 4 -P $(shell nproc) clang-tidy-14 -p build/host --quiet --extra-arg=-Wno-ignored-optimization-argument

bench: .venv/dev.stamp .venv/compiled.stamp ## overhead and transport, side by side with bare baselines
	$(BIN)/python -m pytest -m benchmark -s tests/benchmarks

soak: .venv/dev.stamp ## half an hour of two agents with every fault injected; SOAK_SECONDS=... for less
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest -m soak -s --timeout 0 tests

lab: .venv/dev.stamp deb ## in Debian roots of its own, as root: the services under a real systemd, a real Picamera2, V4L2 in an emulated machine
	$(BIN)/python -m pytest -m lab -s tests/lab

lab-amd64: .venv/dev.stamp deb-amd64 ## of that, the package and its services on Debian 12 and 13: four minutes
	$(BIN)/python -m pytest -m lab tests/lab/systemd -k "not arm64"

parity: .venv/dev.stamp ## 2,000 recorded observations on every worker, the emulated ones too; half an hour
	PARITY_FRAMES=2000 $(BIN)/python -m pytest -s tests/infer/test_workers_agree.py

evaluate: venv ## the shipped policy beside its expert on held-out games
	$(BIN)/python -m models.pong.evaluate --games $(EVALUATION_GAMES) --random 0.02
	$(BIN)/python -m models.pong.evaluate --games $(EVALUATION_GAMES) --sticky 0.25

export: venv ## make models/pong/package anew from its weights
	$(BIN)/reflexd export models/pong

clean: ## remove the environment, caches and what was built
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info cross/build cross/dist
