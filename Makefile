# SPDX-License-Identifier: GPL-2.0-only
# The front door: `make help` lists what can be done. Each target sets up what it needs itself.

SHELL := /bin/bash
.DEFAULT_GOAL := help
SEEDS ?= 2000
.PHONY: help run test build install uninstall twin install-deps lint test-unit test-vm eval eval-report results peers bundle clean

# Looked up for each line, for the one before may have installed it; a make above may have found none.
ifeq ($(strip $(BPF_CLANG)),)
export BPF_CLANG = $(shell deploy/setup.sh --print-clang 2>/dev/null)
endif
PYTHON := /usr/bin/python3
BINARY := target/release/scx_vaware
FOR ?= 60s
# On a machine without sched_ext, `make run` loads the scheduler in a lab VM.
HAS_SCHED_EXT := $(wildcard /sys/kernel/sched_ext)

help: ## List the targets
	@echo "scx_vaware: a vCPU-aware CPU scheduler for the inside of a cloud VM"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  FOR=20s make run shortens the run; VAWARE_LAB_KERNELS names a folder with lab kernels."

run: build ## Build, and load the scheduler: here if this kernel can, else in a lab VM
ifneq ($(HAS_SCHED_EXT),)
	@as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
		exec $$as_root $(BINARY) --stats 2 --per-vcpu --for $(FOR)
else
	@deploy/setup.sh lab
	@$(PYTHON) eval/demo.py --for $(FOR)
endif

test: ## Build, and run all tests: lint, unit and property tests, tests in VMs on three kernels
	@deploy/setup.sh test
	@$(MAKE) --no-print-directory build lint test-unit test-vm

build: ## Build the scheduler: target/release/scx_vaware
	@deploy/setup.sh build
	@cargo build --release --locked

# Root: target/release/scx_vaware must be built already. DESTDIR stages a package.
PREFIX ?= /usr/local
install: ## Install the built program, its unit and its configuration (as root; starts nothing)
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

lint: ## Check formats and the linters' opinion
	cargo fmt --all --check
	cargo clippy --release --locked --all-targets --quiet -- -D warnings
	git ls-files '*.c' '*.h' | xargs $$(deploy/setup.sh --print-clang | sed s,clang,clang-format,) --dry-run --Werror
	target/tools/bin/ruff check --quiet
	target/tools/bin/ruff format --check --quiet
	git ls-files '*.sh' .ci/run | xargs shellcheck

test-unit: ## Run unit and property tests: the user half, bpf/policy, the lab and the comparison
	cargo test --release --locked --quiet --workspace
	$(PYTHON) -m pytest -q -p no:cacheprovider -m 'not vm' eval/tests

twin: ## Fuzz the scheduler and compare it in the twin: a simulated kernel and host (eval/twin)
	@deploy/setup.sh build
	cargo build --release --locked --quiet -p twin
	target/release/twin fuzz --seeds $(SEEDS)
	target/release/twin scale
	target/release/twin trust
	target/release/twin papers

test-vm: ## Run the tests in lab VMs
	$(PYTHON) -m pytest -q -p no:cacheprovider -m vm --durations=10 eval/tests

# Shapes, arms and workloads of `make eval`; results are kept, and an interrupted run goes on.
EVAL_SHAPES ?= honest overcommitted symmetric-50 asymmetric-capacity asymmetric-latency straggler stacked \
	rcvm hpvm changing neighbours
EVAL_ARMS ?= all
EVAL_SUITE ?= main
EVAL_PAIRS ?= 10
EVAL_RESULTS ?= target/eval/results

eval: build ## Compare schedulers in lab VMs of many shapes: takes hours, goes on where it was
	@deploy/setup.sh lab && deploy/setup.sh eval
	@for shape in $(EVAL_SHAPES); do \
		eval/compare --shape $$shape --suite $(EVAL_SUITE) --arms $(EVAL_ARMS) --pairs $(EVAL_PAIRS) \
			--out $(EVAL_RESULTS)/$$shape.jsonl --resume || [ $$? = 1 ] || exit 1; \
	done
	@$(MAKE) --no-print-directory eval-report

eval-report: ## Write target/eval/report.html from what `make eval` has so far
	@eval/compare report $(EVAL_RESULTS)/*.jsonl --html target/eval/report.html
	@echo "See target/eval/report.html"

results: ## Renew docs/results.md by what `make eval` has so far
	@eval/compare report $(EVAL_RESULTS)/*.jsonl --page docs/results.md

peers: ## Install the schedulers to compare with: scx_lavd, scx_bpfland, scx_cosmos
	@deploy/setup.sh build
	CARGO_TARGET_DIR=target/peers \
		cargo install --locked scx_lavd@1.1.4 scx_bpfland@1.1.4 scx_cosmos@1.1.7

bundle: build ## Write one file about this VM to send back: doctor, probe, a short comparison
	@deploy/setup.sh eval
	@as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; exec $$as_root eval/bundle

clean: ## Remove what was built
	cargo clean
