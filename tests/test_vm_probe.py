# SPDX-License-Identifier: GPL-2.0-only
"""`scx_vaware probe` against what the host did: with and without sched_ext, under change."""

import json

import pytest

from guest_scheduler import (
    BINARY,
    DEFAULT_KERNEL,
    LIMIT_S,
    SHAPE,
    boot,
    on_kernels,
    online,
    published,
    wait_until,
)
from vlab import truth
from workloads import spinners

pytestmark = pytest.mark.vm
TOLERANCE = 0.1
SLOW_NS = 8  # of an instruction: the slowest that the lab has
SPINNERS = spinners.command(LIMIT_S, "vcpu=0", "vcpu=1", "vcpu=2", "vcpu=3")


def probe(vm, *arguments, code=0):
    """Run it in the guest; returns what its JSON says."""
    done = vm.run(f"{BINARY} probe --json {' '.join(arguments)}", LIMIT_S)
    assert done.rc == code, done.output
    return json.JSONDecoder().raw_decode(done.output[done.output.index("{") :])[0]


def host_shares(vm, action):
    """What `action()` returns, and the share that each vCPU got of the time it wanted meanwhile."""
    before = vm.truth()
    result = action()
    passed = truth.difference(before, vm.truth())
    return result, [t.run_ns / (t.run_ns + t.delay_ns) for t in passed]


def assert_shares_match(vm, *arguments):
    found, true = host_shares(vm, lambda: probe(vm, *arguments))
    shares = [vcpu["share_ratio"]["value"] for vcpu in found["vcpus"]]
    assert shares == pytest.approx(true, abs=TOLERANCE)
    assert all(vcpu["share_ratio"]["confidence"] >= 0.5 for vcpu in found["vcpus"])


@on_kernels(DEFAULT_KERNEL)
@pytest.mark.parametrize("shape", [SHAPE, f"{SHAPE}+quota:10/20"])
def test_shares_of_busy_vcpus_are_those_of_the_host(guest, shape):
    guest.shape(shape)
    work = guest.spawn(SPINNERS)
    try:
        assert_shares_match(guest, "--duration", "4")
    finally:
        work.kill()
        work.wait(LIMIT_S)


@on_kernels(DEFAULT_KERNEL)
def test_probing_under_the_scheduler_stays_within_its_budget(scheduler):
    found = probe(scheduler.vm, "--duration", "12")
    # What ten seconds allow is there at the start, beside what comes in meanwhile.
    assert all(vcpu["probe_ratio"] <= 0.021 for vcpu in found["vcpus"])
    assert any(vcpu["probe_ratio"] > 0 for vcpu in found["vcpus"])


@on_kernels(DEFAULT_KERNEL)
def test_the_daemon_probes_while_it_runs(scheduler):
    capacity_of_3 = 'scx_vaware_vcpu_capacity_ratio{cpu="3"}'
    wait_until(scheduler.vm, lambda: published(scheduler.vm, capacity_of_3), "a snapshot")
    assert 0 < published(scheduler.vm, capacity_of_3) <= 1


@on_kernels(DEFAULT_KERNEL)
def test_without_a_budget_nothing_is_probed_and_it_says_so(guest):
    found = probe(guest, "--duration", "2", "--budget", "0")
    assert all(vcpu["probe_ratio"] == 0 for vcpu in found["vcpus"])
    assert "off" in " ".join(found["notes"])


@on_kernels(DEFAULT_KERNEL)
def test_a_vcpu_that_goes_offline_is_shown_as_such(guest):
    vcpu2 = online(2)
    probing = guest.spawn(f"{BINARY} probe --json --duration 6")
    assert guest.run(f"sleep 2; echo 0 >{vcpu2}", LIMIT_S).rc == 0
    try:
        done = probing.wait(LIMIT_S)
    finally:
        guest.run(f"echo 1 >{vcpu2}", LIMIT_S)
    vcpus = json.loads(done.output)["vcpus"]
    assert [vcpu["online"] for vcpu in vcpus] == [True, True, False, True]
    assert vcpus[2]["verdict"] == "offline" and vcpus[2]["capacity"] is None
    assert vcpus[3]["capacity"] is not None


@on_kernels(DEFAULT_KERNEL)
def test_nobody_may_probe_too(guest):
    nobody = "setpriv --reuid nobody --regid nogroup --clear-groups"
    done = guest.run(f"{nobody} {BINARY} probe --json --duration 2", LIMIT_S)
    assert done.rc == 0, done.output
    assert len(json.loads(done.output)["vcpus"]) == 4


def test_what_is_slow_is_not_taken_for_stopped(binary):
    """A piece of work that takes as long as a stop would be one, each time."""
    vm = boot(None, binary, vcpus=2, shape="pin:0/1", ns_per_instruction=SLOW_NS)
    try:
        found = probe(vm, "--duration", "4")
    finally:
        vm.down()
    shares = [vcpu["share_ratio"]["value"] for vcpu in found["vcpus"]]
    assert shares == pytest.approx([1, 1], abs=TOLERANCE)


def test_without_sched_ext_it_probes_and_the_scheduler_says_why_it_does_not_load(binary):
    vm = boot("6.1", binary, vcpus=2, shape="honest")
    try:
        vm.shape("floating:1+quota:30/100")
        work = vm.spawn(spinners.command(LIMIT_S, "vcpu=0", "vcpu=1"))
        found = probe(vm, "--duration", "4", "--check", "'share>=0.8'", code=3)
        work.kill()
        nonsense = vm.run(f"{BINARY} probe --check share", LIMIT_S)
        refused = vm.run(BINARY, LIMIT_S)
    finally:
        vm.down()
    assert found["schema_version"] == 1 and "topology" in found
    assert all(vcpu["share_ratio"]["value"] < 0.8 for vcpu in found["vcpus"])
    assert nonsense.rc == 2 and "share>=0.8" in nonsense.output
    assert refused.rc == 69, refused.output
    assert refused.output.startswith("scx_vaware: ") and refused.output.count("\n") == 1
    assert "sched_ext" in refused.output and "6.12" in refused.output
