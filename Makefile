# SPDX-License-Identifier: GPL-2.0-only
# The front door: `make help` lists what can be done. Each target sets up what it needs itself.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL: # what a target needs is listed before what it does; cargo is parallel by itself
.PHONY: help run test build packages install uninstall lint test-unit test-vm test-long test-soak test-fresh sim eval eval-report results papers scale containers gathering timeline peers bundle instances fuzz clean

PYTHON := /usr/bin/python3
BINARY := target/release/scx_vaware
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),sudo --preserve-env=VAWARE_LAB_KERNELS)
FOR ?= 60s
SEEDS ?= 2000
SOAK ?= 600
# On a machine without sched_ext, `make run` loads the scheduler in a lab VM.
HAS_SCHED_EXT := $(wildcard /sys/kernel/sched_ext)

help: ## List the targets
	@echo "scx_vaware: a vCPU-aware CPU scheduler for the inside of a cloud VM"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  FOR=20s make run shortens the run; VAWARE_LAB_KERNELS names a folder with lab kernels."

# ready-build, ready-packages, ready-lab, ready-test, ready-eval and ready-fresh install what misses.
ready-%:
	@deploy/setup.sh $*

run: $(if $(HAS_SCHED_EXT),,ready-lab) build ## Build, and load the scheduler: here if this kernel can, else in a lab VM
ifneq ($(HAS_SCHED_EXT),)
	@exec $(AS_ROOT) $(BINARY) --stats 2 --per-vcpu --for $(FOR)
else
	@exec $(AS_ROOT) $(PYTHON) eval/demo --for $(FOR)
endif

test: ready-test build lint test-unit test-vm ## Build, and run all tests: lint, unit and property tests, tests in VMs on three kernels

build: ready-build ## Build the scheduler: target/release/scx_vaware
	@cargo build --release --locked

packages: ready-packages ## Build .deb, .rpm, tarball and container image in target/packages
	@deploy/packages/build.sh

# Root may have no cargo, so this does not build. DESTDIR stages a package.
PREFIX ?= /usr/local
$(BINARY):
	@echo "make: $@ is not built yet; run make build first" >&2; exit 1
install: $(BINARY) ## Install the built program, its unit and its configuration (as root; starts nothing)
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/scx_vaware
	install -d $(DESTDIR)/etc/systemd/system
	sed 's,/usr/local/bin,$(PREFIX)/bin,' deploy/scx_vaware.service >$(DESTDIR)/etc/systemd/system/scx_vaware.service
	[ -e $(DESTDIR)/etc/scx_vaware.toml ] || install -D -m 644 deploy/scx_vaware.toml $(DESTDIR)/etc/scx_vaware.toml
	@[ -n "$(DESTDIR)" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
	@echo "Now: systemctl enable --now scx_vaware"

uninstall: ## Stop and remove what `make install` installed; the configuration stays
	@[ -n "$(DESTDIR)" ] || [ ! -d /run/systemd/system ] || systemctl disable --now scx_vaware || true
	rm -f $(DESTDIR)$(PREFIX)/bin/scx_vaware $(DESTDIR)/etc/systemd/system/scx_vaware.service
	@[ -n "$(DESTDIR)" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload

lint: ready-test ## Check formats and the linters' opinion
	cargo fmt --all --check
	cargo clippy --release --locked --all-targets --quiet -- -D warnings
	git ls-files '*.c' '*.h' | xargs $$(deploy/setup.sh --print-clang | sed s,clang,clang-format,) --dry-run --Werror
	target/tools/bin/ruff check --quiet
	target/tools/bin/ruff format --check --quiet
	git ls-files '*.sh' .ci/run deploy/bpf-clang | xargs shellcheck

test-unit: ready-test ## Run unit and property tests: the user half, bpf/policy, the lab and the comparison
	cargo test --release --locked --quiet --workspace
	$(PYTHON) -m pytest -q -p no:cacheprovider -m 'not vm'

sim: ready-build ## Fuzz the scheduler on a simulated kernel and host, and count what decisions cost
	cargo build --release --locked --quiet -p sim
	target/release/sim fuzz --seeds $(SEEDS)
	target/release/sim scale

# Properties whose names begin with any_ hold for whatever a parser, a map or a client may hand over.
CASES ?= 10000
fuzz: ready-build ## Give parsers, maps and the HTTP server CASES=n random inputs each
	PROPTEST_CASES=$(CASES) cargo test --release --locked -p probers -p userspace -p scx_vaware any_

# A VM by virtual time takes one core of this machine, and no notice of what else that does.
PYTEST := $(PYTHON) -m pytest -q -p no:cacheprovider --durations=0 --durations-min=1
test-vm: ready-test build ## Run the tests in lab VMs
	@set -o pipefail; $(PYTEST) -n 2 --dist loadgroup -m 'vm and not long' | tee target/test-durations.txt

test-soak: ready-test build ## Run load and random faults on three kernels, for SOAK=seconds of virtual time on each
	VAWARE_SOAK_SECONDS=$(SOAK) $(PYTEST) tests/test_vm_soak.py

test-long: ready-test build packages ## Run the tests in lab VMs by wall time, and others that take long
	@set -o pipefail; $(PYTEST) -m 'vm and long' | tee target/test-durations-long.txt

test-fresh: ready-fresh ## Run `make run` and `make test` as a new user of Debian and Ubuntu (SYSTEMS=debian12; hours)
	@deploy/test-fresh.sh $(SYSTEMS)

# Shapes, arms and workloads of `make eval`: one page, of one build. An interrupted run goes on.
# EVAL_QUICK=1 takes a quarter of an hour on two cores, the default two hours, EVAL_FULL=1 days.
ifneq ($(EVAL_QUICK),)
EVAL_SHAPES ?= honest symmetric-50 rcvm
EVAL_ARMS ?= eevdf,scx_vaware
EVAL_SUITE ?= quick
else ifneq ($(EVAL_FULL),)
EVAL_SHAPES ?= honest overcommitted symmetric-50 asymmetric-capacity asymmetric-latency straggler stacked \
	rcvm hpvm changing neighbours
EVAL_ARMS ?= all
EVAL_SUITE ?= main
EVAL_BLOCKS ?= 10
EVAL_SECONDS ?= 4
endif
EVAL_SHAPES ?= honest symmetric-50 asymmetric-capacity straggler stacked rcvm
EVAL_ARMS ?= eevdf,eevdf+haltpoll,scx_vaware,off,peers
EVAL_SUITE ?= table
EVAL_BLOCKS ?= 5
EVAL_SECONDS ?= 1
# Of an instruction in virtual time: 1 is nearer to a core, and takes four times as long.
EVAL_NS ?= 4
EVAL_RESULTS ?= vaware-results/eval$(if $(EVAL_QUICK),-quick)$(if $(EVAL_FULL),-full)

eval: ready-lab ready-eval build ## Compare schedulers in lab VMs of many shapes: 2 hours, EVAL_QUICK=1 15 minutes
	@eval/compare $(EVAL_SHAPES:%=--shape %) --suite $(EVAL_SUITE) --arms $(EVAL_ARMS) \
		--blocks $(EVAL_BLOCKS) --seconds $(EVAL_SECONDS) --no-warm-up --ns-per-instruction $(EVAL_NS) --out $(EVAL_RESULTS)/runs.jsonl --resume || [ $$? = 1 ]
	@$(MAKE) --no-print-directory eval-report $(if $(EVAL_QUICK),,results)

eval-report: ready-eval ## Write an HTML report of what `make eval` has so far
	@eval/compare report $(EVAL_RESULTS)/runs.jsonl --html $(EVAL_RESULTS)/report.html
	@echo "See $(EVAL_RESULTS)/report.html"

results: ready-eval ## Write docs/results/comparison.md and its picture from what `make eval` has so far
	@eval/compare report $(EVAL_RESULTS)/runs.jsonl --page docs/results/comparison.md \
		--picture docs/results/comparison.svg

# PAPERS names scenarios, or how their names begin: PAPERS=irs,vsched-fig15.
papers: ready-lab ready-eval build ## Run the papers' experiments: days, PAPERS_QUICK=1 hours; goes on where it was
	@eval/papers $(if $(PAPERS_QUICK),--quick) $(if $(PAPERS),--only $(PAPERS))
	@eval/papers page docs/results/papers.md $(if $(PAPERS_QUICK),--quick)

SCALE_VCPUS ?= 4,16,64,128,256
scale: ready-lab build ## Measure what the scheduler costs by size, into docs/results/scale.md
	@eval/compare scale --vcpus $(SCALE_VCPUS) --page docs/results/scale.md

CONTAINERS_SEEDS ?= 1-3
containers: ready-lab build ## Measure what cgroups get by weights and limits, into docs/results/containers.md
	@eval/containers --seeds $(CONTAINERS_SEEDS) --page docs/results/containers.md

gathering: ready-lab build ## Draw how work is gathered on fewer vCPUs: docs/results/gather.svg
	@eval/gathering

# A task that computes, on vCPUs that get half of a core: where it is under EEVDF, and under ours.
TIMELINES := vaware-results/timeline
TIMELINE := eval/timeline --shape honest+hog --vcpus 8 --load 'while :; do :; done' --settle 5
timeline: ready-lab build ## Draw how a task leaves vCPUs before they stop: docs/results/ivh.svg
	@mkdir -p $(TIMELINES)
	@$(TIMELINE) --scheduler none --title EEVDF --json $(TIMELINES)/eevdf.json --out $(TIMELINES)/eevdf.html
	@$(TIMELINE) --scheduler steal --title scx_vaware --json $(TIMELINES)/vaware.json --out $(TIMELINES)/vaware.html
	@eval/timeline --draw $(TIMELINES)/eevdf.json --draw $(TIMELINES)/vaware.json --to-ms 100 --out docs/results/ivh.svg

peers: ready-build ## Install the schedulers to compare with: scx_lavd, scx_bpfland, scx_cosmos
	BPF_CLANG=$$(deploy/setup.sh --print-clang) CARGO_TARGET_DIR=target/peers \
		cargo install --locked scx_lavd@1.1.4 scx_bpfland@1.1.4 scx_cosmos@1.1.7

bundle: ready-eval build ## Write one file about this VM to send back: doctor, probe, a short comparison
	@exec $(AS_ROOT) eval/bundle $(if $(PROVIDER),--provider '$(PROVIDER)') $(if $(INSTANCE),--instance '$(INSTANCE)')

instances: ready-eval ## Write docs/results/instances.md from the bundles in docs/results/bundles
	@eval/bundle --page docs/results/instances.md

clean: ## Remove what was built; results of `make eval` stay
	cargo clean
