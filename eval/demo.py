#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Shows scx_vaware at work on a machine whose kernel has no sched_ext: in a lab VM.

The VM's vCPUs float over two cores that they share with competitors, and it has a mixed load. The
scheduler's own output is streamed; a summary follows, with what the host really took.
Exit codes: 0 it was enabled and ended cleanly, 1 it was not or did not, 64 usage, 69 something
needed is missing, 75 the VM did not come up or went away, 130 interrupted.
"""

import argparse
import contextlib
import re
import signal
import sys
import threading
import time
from dataclasses import dataclass, field

from lab import Handle, LabError, Vm, tool, truth
from paired import arms

ENABLED = b"scx_vaware: enabled"
STATS_S = 2
START_LIMIT_S = 300  # loading is slow by emulation, and the host may be busy
EXIT_FAILED = 1
LOADS = {
    "many tasks that talk (hackbench)": "while hackbench -g 1 --pipe -l 200; do sleep 1; done",
    "computation (sysbench cpu)": "while sysbench cpu --threads=2 --time=4 run; do sleep 1; done",
    "context switches (stress-ng)": "stress-ng --switch 1 --switch-freq 200 --temp-path /tmp",
    "short wake-ups (cyclictest)": "cyclictest --policy=other --default-system -q -t 2 -i 10000",
}


@dataclass
class Show:
    """What has been seen of the scheduler."""

    said: bytearray = field(default_factory=bytearray)
    enabled: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def hear(self, output: bytes) -> None:
        """Pass on the scheduler's output as it comes."""
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
        self.said += output
        if ENABLED in self.said:
            self.enabled.set()

    def follow(self, scheduler: Handle) -> None:
        """Pass on all output until the scheduler, or the VM, is gone."""
        with contextlib.suppress(LabError):
            scheduler.wait(None, self.hear)
        self.ended.set()


def main() -> int:
    """Run the show; returns the exit code."""
    options = _options()

    def act() -> int:
        scheduler = arms.find_binary("scx_vaware")
        with Vm(options.kernel, options.vcpus, shape=options.shape) as vm:
            return run(vm, scheduler, options.duration_s)

    return tool.run("demo", act)


def run(vm: Vm, scheduler: str, duration_s: float) -> int:
    """The show in a VM that is up. Returns 0 or 1; raises LabError (75) if the VM is gone."""
    say(f"a VM with {vm.vcpus} vCPUs, kernel {vm.kernel.release}, {vm.accel.upper()}; its load:")
    for what in LOADS:
        print(f"  {what}")
    loads = [vm.spawn(f"{command} >/dev/null 2>&1") for command in LOADS.values()]
    say(f"scx_vaware takes over for {duration_s:g} s\n")
    show, before = Show(), vm.truth()
    process = vm.spawn(f"exec {scheduler} --stats {STATS_S} --per-vcpu")
    listener = threading.Thread(target=show.follow, args=(process,))
    listener.start()
    try:
        if _came_up(show, START_LIMIT_S):
            show.ended.wait(duration_s)
        during = truth.difference(before, vm.truth())
        ended_early = show.ended.is_set()
        process.kill(signal.SIGINT)
        obeyed = show.ended.wait(arms.DISABLE_TIMEOUT_S)
    finally:
        process.kill(signal.SIGKILL)
        for load in loads:
            load.kill(signal.SIGKILL)
        listener.join()
    state = _state_at_rest(vm)
    faults = {
        "it never said that it was enabled": not show.enabled.is_set(),
        f"it ended by itself with code {process.rc}": ended_early,
        "it did not end on SIGINT": not obeyed,
        f"it ended with code {process.rc} on SIGINT": obeyed and not ended_early and process.rc,
        f"sched_ext is {state} afterwards": state != "disabled",
    }
    return summary(show, during, [fault for fault, is_so in faults.items() if is_so])


def summary(show: Show, during: list[truth.VcpuTruth], faults: list[str]) -> int:
    """Print how it went, and what the host did to each vCPU; returns 0 or 1."""
    print()
    last = re.findall(rb"^busy .*$", show.said, re.MULTILINE)
    if last:
        say(f"its last counters: {last[-1].decode()}")
    say("the host's truth about each vCPU meanwhile:")
    print(truth.table(during))
    if faults:
        say(f"FAILED: {'; '.join(faults)}. Read its output above.")
        return EXIT_FAILED
    say("scx_vaware was enabled, ended on SIGINT, and the kernel's own scheduler is back.")
    return 0


def say(text: str) -> None:
    """Print a line of the demo's own."""
    print(f"demo: {text}", flush=True)


def _came_up(show: Show, timeout_s: float) -> bool:
    """True once the scheduler is enabled; False if it ended first, or took too long."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not show.ended.is_set():
        if show.enabled.wait(0.1):
            return True
    return False


def _state_at_rest(vm: Vm) -> str:
    """sched_ext's state, after it had time to be disabled."""
    deadline = time.monotonic() + arms.DISABLE_TIMEOUT_S
    while (state := arms.state(vm).state) != "disabled" and time.monotonic() < deadline:
        time.sleep(arms.POLL_S)
    return state


def _options() -> argparse.Namespace:
    parser = tool.make_parser("demo", __doc__)
    parser.add_argument(
        "--for",
        dest="duration_s",
        type=_duration_s,
        default=60.0,
        metavar="TIME",
        help="how long it schedules, such as 20s or 2m; default 60s",
    )
    parser.add_argument("--kernel", help="see vlab kernels")
    parser.add_argument("--vcpus", type=int, default=4, help="default 4")
    parser.add_argument("--shape", default="floating:2+hog", help="default floating:2+hog")
    return parser.parse_args()


def _duration_s(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|)", text)
    if not found or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no time such as 20s or 2m")
    return float(found[1]) * (60 if found[2] == "m" else 1)


if __name__ == "__main__":
    sys.exit(main())
