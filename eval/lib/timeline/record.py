# SPDX-License-Identifier: GPL-2.0-only
"""A timeline from a lab VM: the host's record, the guest's own trace, and the gaps found."""

import re
from collections.abc import Iterable
from signal import SIGKILL

from accuracy.activity.finders import FINDERS, Search
from vlab import Alignment, LabError, Vm

from .model import Decision, Lane, Run, Timeline

GUEST_LIMIT_S = 120
TRACE = "/tmp/guest-trace"
# Recorded from within, on the clock that is aligned with the host's.
BEGIN = """\
cd /sys/kernel/tracing && echo 0 >tracing_on && echo mono >trace_clock &&
echo 16384 >buffer_size_kb && echo >trace &&
echo 1 >events/sched/sched_switch/enable && echo 1 >events/sched/sched_migrate_task/enable &&
echo 1 >tracing_on"""
# A task that was alone on its vCPU all the time shows in no event until it is switched out.
END = f"""\
for cpu in /sys/devices/system/cpu/cpu[0-9]*; do taskset -c ${{cpu##*cpu}} true; done
cd /sys/kernel/tracing && echo 0 >tracing_on && cat trace >{TRACE} &&
echo 0 >events/sched/sched_switch/enable && echo 0 >events/sched/sched_migrate_task/enable"""
_EVENT = re.compile(r"\[(\d+)\].*?\s(\d+)\.(\d{6}): (sched_switch|sched_migrate_task): (.*)")
_SWITCH = re.compile(r"prev_comm=(.*) prev_pid=(\d+) .*==> next_comm=(.*) next_pid=(\d+)")
_MOVE = re.compile(r"comm=(.*) pid=(\d+) .*orig_cpu=(\d+) dest_cpu=(\d+)")


def guest_trace(
    lines: Iterable[str], begin_ns: int, end_ns: int
) -> tuple[dict[int, list[Run]], dict[int, list[Decision]]]:
    """Read a guest's trace from `begin_ns` to `end_ns`, which is the first that there is of it.

    Tells who ran on each vCPU, idle left out, and who was moved to it. Who is switched out first
    has run from the beginning on.
    """
    runs: dict[int, list[Run]] = {}
    moves: dict[int, list[Decision]] = {}
    since: dict[int, tuple[int, str]] = {}
    seen: set[int] = set()
    for line in lines:
        event = _EVENT.search(line)
        if not event:
            continue
        at_ns = int(event[2]) * 1_000_000_000 + int(event[3]) * 1000
        if event[4] == "sched_migrate_task":
            if move := _MOVE.search(event[5]):
                text = f"{move[1]} ({move[2]}) from vCPU {move[3]}"
                moves.setdefault(int(move[4]), []).append((at_ns, "moved here", text))
        elif switch := _SWITCH.search(event[5]):
            vcpu = int(event[1])
            if vcpu not in seen and switch[2] != "0":
                since[vcpu] = min(begin_ns, at_ns), f"{switch[1]} {switch[2]}"
            seen.add(vcpu)
            if vcpu in since:
                runs.setdefault(vcpu, []).append((since[vcpu][0], at_ns, since[vcpu][1]))
                del since[vcpu]
            if switch[4] != "0":
                since[vcpu] = at_ns, f"{switch[3]} {switch[4]}"
    for vcpu, (began_ns, name) in since.items():
        runs.setdefault(vcpu, []).append((began_ns, end_ns, name))
    return runs, moves


def record(vm: Vm, load: str, finder: str | None, seconds: float, settle_s: float) -> Timeline:
    """Run shell command `load` in the VM, with a finder's scheduler if there is one.

    Records `seconds` after the first `settle_s`. Times are the host's. Raises LabError.
    """
    before = vm.clocks()
    search = Search(vm, FINDERS[finder]) if finder else None
    if search:
        search.start()
    work = vm.spawn(load)
    vm.sleep(settle_s)
    _guest(vm, BEGIN)
    with vm.inactive_periods() as recorded:
        begin_ns = vm.clock.now_ns()
        vm.sleep(seconds)
        end_ns = vm.clock.now_ns()
    _guest(vm, END)
    if work.rc:
        raise LabError(f"the load failed in the guest: {work.output.strip()}; mend it")
    work.kill(SIGKILL)
    gaps = search.end() if search else {}
    clock = Alignment(before, vm.clocks())
    if not recorded.off_core:
        raise LabError("a timeline needs tracefs on the host; use a kernel that has it")
    here = vm.folder / "guest-trace"
    vm.get(TRACE, here)
    span = (clock.before.guest_ns + at_ns - clock.before.host_ns for at_ns in (begin_ns, end_ns))
    with here.open(errors="replace") as lines:
        runs, moves = guest_trace(lines, *span)
    lanes = [
        Lane(
            f"vCPU {vcpu}",
            inactive=off.inactive,
            halted=off.asleep,
            tasks=[(clock.to_host(b), clock.to_host(e), who) for b, e, who in runs.get(vcpu, [])],
            gaps=[(clock.to_host(b), clock.to_host(e)) for b, e in gaps.get(vcpu, [])],
            decisions=[(clock.to_host(at), *what) for at, *what in moves.get(vcpu, [])],
        )
        for vcpu, off in recorded.off_core.items()
    ]
    notes = [
        f"{vm.kernel.release} under {vm.accel.upper()}. The periods are from the host's scheduler "
        "events, the tasks from the guest's; "
        f"their clocks agree within {clock.error_ns / 1e3:.0f} us."
    ]
    return Timeline("", begin_ns, end_ns, lanes, notes).between(begin_ns, end_ns)


def _guest(vm: Vm, script: str) -> None:
    done = vm.run(script, GUEST_LIMIT_S)
    if done.rc:
        raise LabError(f"the guest cannot be traced ({done.output.strip()}); try another kernel")
