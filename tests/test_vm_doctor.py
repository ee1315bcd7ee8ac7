# SPDX-License-Identifier: GPL-2.0-only
"""What keeps the kernel from taking the scheduler: the loader and `doctor` name it, in a VM."""

import json

import pytest

from guest_scheduler import BINARY, DEFAULT_KERNEL, LIMIT_S, GuestScheduler, boot, sched_ext

pytestmark = pytest.mark.vm
DOCTOR = f"{BINARY} doctor --json --duration 0.1"
LOCKDOWN = "/sys/kernel/security/lockdown"
CRITICAL, UNAVAILABLE, PERMISSION = 2, 69, 77


@pytest.fixture(scope="module")
def guest(binary):
    """A VM with a vCPU in nohz_full=, which the kernel takes a scheduler on."""
    vm = boot(DEFAULT_KERNEL, binary, vcpus=2, shape="honest", append="nohz_full=1")
    assert vm.run("mount -t securityfs securityfs /sys/kernel/security").rc == 0
    yield vm
    vm.down()


def finding(vm, check, code=None, wrapper=""):
    """What doctor finds of `check` in the guest."""
    done = vm.run(f"{wrapper} {DOCTOR}", LIMIT_S)
    assert code in (None, done.rc), done.output
    report = json.loads(done.output[done.output.index("{") :])
    return next(found for found in report["findings"] if found["check"] == check)


def expect_both_to_name(vm, code, *words, wrapper=""):
    """Loader and doctor say the same sentence, with `words` in it; nothing is loaded."""
    before = sched_ext(vm)
    refused = vm.run(f"{wrapper} {BINARY} --listen off", LIMIT_S)
    assert refused.rc == code, refused.output
    assert all(word in refused.output for word in words), refused.output
    assert refused.output.count("\n") == 1, "one sentence"
    found = finding(vm, "loading the scheduler", CRITICAL, wrapper)
    assert found["level"] == "critical"
    assert refused.output == f"scx_vaware: {found['text']}\n"
    assert sched_ext(vm) == before


def test_isolcpus_is_named(binary):
    vm = boot(DEFAULT_KERNEL, binary, vcpus=2, shape="honest", append="isolcpus=domain,1")
    try:
        expect_both_to_name(vm, UNAVAILABLE, "isolcpus=domain,1", "kernel's command line")
    finally:
        vm.down()


def test_nohz_full_is_no_obstacle_and_what_it_loses_is_said(guest):
    found = finding(guest, "vCPUs without a tick")
    assert found["level"] == "warning" and "nohz_full=1 " in found["text"]
    with GuestScheduler(guest, "--listen", "off") as scheduler:
        assert f"note: {found['text']}" in scheduler.output


def test_a_bpf_compiler_that_is_off_is_named(guest):
    switch = "/proc/sys/net/core/bpf_jit_enable"
    assert guest.run(f"echo 0 >{switch}").rc == 0
    try:
        expect_both_to_name(guest, UNAVAILABLE, "sysctl net.core.bpf_jit_enable=1")
    finally:
        guest.run(f"echo 1 >{switch}")


def test_a_user_namespace_is_named(guest):
    expect_both_to_name(
        guest, PERMISSION, "user namespace", wrapper="unshare --user --map-root-user"
    )


def test_type_information_that_cannot_be_parsed_is_named(guest):
    btf = "/sys/kernel/btf/vmlinux"
    garbage = guest.run(f"seq 9999 >/tmp/btf && mount --bind /tmp/btf {btf}")
    assert garbage.rc == 0, garbage.output
    try:
        expect_both_to_name(guest, UNAVAILABLE, btf, "cannot be parsed")
    finally:
        guest.run(f"umount {btf}")


def test_lockdown_is_named_where_it_is_an_obstacle(guest):
    """The last one here: the kernel does not go back from a lockdown."""
    assert guest.run(f"echo integrity >{LOCKDOWN}").rc == 0
    with GuestScheduler(guest, "--listen", "off"):
        pass  # as with Secure Boot
    assert guest.run(f"echo confidentiality >{LOCKDOWN}").rc == 0
    expect_both_to_name(guest, UNAVAILABLE, "confidentiality", "lockdown=integrity")
