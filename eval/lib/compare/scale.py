# SPDX-License-Identifier: GPL-2.0-only
"""What schedulers cost by the number of vCPUs: to load, in memory, and per event.

VMs of each size run in virtual time, with a pCPU for each vCPU, a stock kernel and the real
scheduler. An instruction takes 1 ns there.

"To load" is from the start of the program until the kernel calls it enabled: virtual seconds, and
instructions of all vCPUs. Verified instructions are those that the kernel's verifier looked at.
Memory is that of maps and programs as the kernel accounts them, without tasks' storage and queues,
and what the daemon has resident. "Idle" is what a VM with nothing to do executes in the second
after that, its kernel and our daemon together: the probers look at all vCPUs for the first time.
What a call costs includes two readings of the clock by the statistics.

- pipe: two tasks take turns, and all other vCPUs are idle
- hackbench: 40 tasks, however many vCPUs there are
- busy: pipe, beside a task for each vCPU: the ticks of those are among the callbacks per run
"""

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from signal import SIGINT

from vlab import LabError, Vm, truth, virtual_time
from vlab.clock import VIRTUAL
from vlab.errors import EX_FAILED

from . import bpfcost, provenance, report
from .arms import Arm
from .bpfcost import Cost, difference, per_run

BUSY = Path(__file__).parent / "guest" / "busy.py"
PAGE = "docs/results/scale.md"
SEED = 1
NS_PER_INSTRUCTION = 1
# Of the default's 2000. A clock that is read is never behind one that was read before, so the time
# in a callback comes out short by up to this where several vCPUs are busy.
QUANTUM_NS = 200
MEMORY_MIB = 4096
BOOT_TIMEOUT_S = 300
SETTLE_S = 1
ENABLE_TIMEOUT_S = 300
MIB = 1 << 20
# Sleeps in `read`, as a command of its own would cost more than the load; on a FIFO, as guests have
# no /dev/fd.
AWAIT_ENABLED = """
never=/run/never; mkfifo -m 600 $never; exec 3<>$never; for ((i = 0; i < 30000; i++)); do
    read -r state < /sys/kernel/sched_ext/state; [ "$state" = enabled ] && exit; read -rt 0.01 -u 3
done; exit 1"""
WORKLOADS = {
    "pipe": "perf bench sched pipe -l 1000",
    "hackbench": "hackbench -g 1 --pipe -l 30",
    "busy": f"{BUSY} 600000 & perf bench sched pipe -l 300; wait",
}
SHOWN = ("select_cpu", "enqueue", "dispatch", "running", "stopping", "tick", "update_idle")


@dataclass
class Size:
    """What one scheduler took in a VM of one size."""

    arm: str
    kernel: str
    vcpus: int
    boot_s: float
    load_s: float
    load_instructions: int
    verified: int
    program_bytes: int
    map_bytes: int
    daemon_bytes: int
    idle_instructions: int
    costs: dict[str, dict[str, Cost]] = field(default_factory=dict)  # by workload and callback


def measure(
    compared: list[Arm],
    sizes: list[int],
    kernel: str | None,
    names: list[str],
    say: Callable[[str], None],
) -> Iterator[Size]:
    """Yield each arm in a VM of each size. Raises LabError as Vm does, and 1 for what fails."""
    for vcpus in sizes:
        for arm in compared:
            say(f"{arm.name}, {vcpus} vCPUs")
            with Vm(
                kernel,
                vcpus,
                MEMORY_MIB,
                "honest",
                boot_timeout_s=BOOT_TIMEOUT_S,
                clock=VIRTUAL,
                virtual=virtual_time.Options(SEED, NS_PER_INSTRUCTION, quantum_ns=QUANTUM_NS),
            ) as vm:
                yield _measure_in(vm, arm, names)


def _measure_in(vm: Vm, arm: Arm, names: list[str]) -> Size:
    boot_s = vm.clock.now_ns() / 1e9
    binary = arm.command[0]
    if vm.run(f"test -x {shlex.quote(binary)}").rc:  # the guest does not see the host's /tmp
        vm.output_of(f"mkdir -p $(dirname {shlex.quote(binary)})")
        vm.put(binary, binary)
    vm.output_of(f"{shlex.quote(binary)} --version")  # what is read from files, once and for all
    began_ns, before = vm.clock.now_ns(), vm.truth()
    handle = vm.spawn("exec " + shlex.join(arm.command))
    if vm.run(f"bash -c {shlex.quote(AWAIT_ENABLED)}", ENABLE_TIMEOUT_S).rc:
        raise LabError(f"{arm.name} was not enabled: {handle.output.strip()}", EX_FAILED)
    load_s = (vm.clock.now_ns() - began_ns) / 1e9
    load_instructions = _executed(vm, before)
    memory = json.loads(vm.output_of(f"/usr/bin/python3 -S {bpfcost.READER} memory"))
    resident = vm.output_of(f"cat /proc/$(pidof -s {shlex.quote(Path(binary).name)})/status")
    before = vm.truth()
    vm.sleep(SETTLE_S)
    size = Size(
        arm.name,
        vm.kernel.release,
        vm.vcpus,
        boot_s,
        load_s,
        load_instructions,
        memory["verified_insns"],
        memory["program_bytes"],
        memory["map_bytes"],
        resident_bytes(resident),
        _executed(vm, before) // SETTLE_S,
    )
    vm.output_of("echo 1 > /proc/sys/kernel/bpf_stats_enabled")
    for name in names:
        calls = bpfcost.read(vm)
        vm.output_of(WORKLOADS[name])
        size.costs[name] = difference(calls, bpfcost.read(vm))
    if handle.rc is not None or "enabled" not in vm.run("cat /sys/kernel/sched_ext/state").output:
        raise LabError(f"{arm.name} did not stay: {handle.output.strip()}", EX_FAILED)
    handle.kill(SIGINT)
    return size


def _executed(vm: Vm, before: list[truth.VcpuTruth]) -> int:
    """Instructions of all vCPUs since `before`."""
    ran_ns = sum(vcpu.run_ns for vcpu in truth.difference(before, vm.truth()))
    return ran_ns // NS_PER_INSTRUCTION


def resident_bytes(status: str) -> int:
    """The resident memory that /proc/PID/status tells; 0 if it tells none."""
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def table(sizes: list[Size]) -> str:
    """All of it, as markdown."""
    head = "| scheduler | vCPUs | to load, s | to load, 10^6 instructions | verified instructions "
    lines = [head + "| maps, MiB | programs, MiB | daemon, MiB | idle, 10^6 instructions/s |"]
    lines.append("|---|" + "---:|" * 8)
    for size in sizes:
        lines.append(
            f"| {size.arm} | {size.vcpus} | {size.load_s:.2f} | {size.load_instructions / 1e6:.0f} "
            f"| {size.verified} | {size.map_bytes / MIB:.2f} | {size.program_bytes / MIB:.2f} "
            f"| {size.daemon_bytes / MIB:.1f} | {size.idle_instructions / 1e6:.1f} |"
        )
    lines += ["", "Instructions per call, and of all callbacks per task that begins to run:", ""]
    lines.append("| scheduler | vCPUs | workload | " + " | ".join(SHOWN) + " | all per run |")
    lines.append("|---|---:|---|" + "---:|" * (len(SHOWN) + 1))
    for size in sizes:
        for name, costs in size.costs.items():
            cells = " | ".join(_per_call(costs.get(callback)) for callback in SHOWN)
            whole = per_run([costs], list(bpfcost.CALLBACKS))
            lines.append(f"| {size.arm} | {size.vcpus} | {name} | {cells} | {whole:.0f} |")
    return "\n".join(lines)


def facts(sizes: list[Size], versions: dict[str, str], date: str) -> dict:
    """The entry of the page in a manifest."""
    arms = ",".join(dict.fromkeys(size.arm for size in sizes))
    vcpus = ",".join(dict.fromkeys(str(size.vcpus) for size in sizes))
    return {
        "command": f"eval/compare scale --arms {arms} --vcpus {vcpus} --page {PAGE}",
        **provenance.of_versions(versions),
        "date": date,
        "seeds": f"{SEED}",
        "kernels": sorted({size.kernel for size in sizes}),
        "clock": VIRTUAL,
        "ns_per_instruction": NS_PER_INSTRUCTION,
    }


def page(sizes: list[Size], versions: dict[str, str], date: str) -> str:
    """The page of these sizes, which are not empty, with what the numbers mean."""
    title, _, meaning = __doc__.partition("\n\n")
    kernels = ", ".join(sorted({size.kernel for size in sizes}))
    told = report.versions([{"versions": versions}])
    return f"""\
# {title.rstrip(".")}

Written by `eval/compare scale --page {PAGE}`.

{meaning}
- {date}, kernel {kernels}, {told}

{table(sizes)}
"""


def _per_call(cost: Cost | None) -> str:
    return f"{cost.instructions / cost.calls:.0f}" if cost else ""


def as_json(sizes: list[Size]) -> str:
    """All of it, with the number of calls."""
    return json.dumps([asdict(size) for size in sizes], indent=1)


def announce(text: str) -> None:
    """Tell of progress."""
    print(f"compare: {text}", file=sys.stderr, flush=True)
