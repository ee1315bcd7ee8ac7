# SPDX-License-Identifier: GPL-2.0-only
"""Shows scx_vaware at work on a machine whose kernel has no sched_ext: in a lab VM.

The VM's vCPUs float over two cores that they share with competitors, and it has a mixed load. The
scheduler's own output is streamed; a summary follows, with what the host really took.
Exit codes: 0 it was enabled and ended cleanly, 1 it was not or did not, 64 usage, 69 something
needed is missing, 75 the VM did not come up or went away, 130 interrupted.
"""

import argparse
import re
import signal
from dataclasses import dataclass

from compare import arms
from vlab import Handle, Vm, accel, find_kernel, tool, truth
from vlab.clock import VIRTUAL
from vlab.errors import EX_FAILED
from vlab.virtual_time import Options

ENABLED = "scx_vaware: enabled"
STATS_S = 2
START_LIMIT_S = 300  # loading is slow by emulation, and the host may be busy
LOOK_S = 0.2  # between two looks at the scheduler's output
NS_PER_INSTRUCTION = 4  # a second of the guest's then takes about one, on a core of this machine
LOADS = {
    "many tasks that talk (hackbench)": "while hackbench -g 1 --pipe -l 200; do sleep 1; done",
    "computation (sysbench cpu)": "while sysbench cpu --threads=2 --time=4 run; do sleep 1; done",
    "context switches (stress-ng)": "stress-ng --switch 1 --switch-freq 200 --temp-path /tmp",
    "short wake-ups (cyclictest)": "cyclictest --policy=other --default-system -q -t 2 -i 10000",
}


@dataclass
class Show:
    """A scheduler whose output is passed on as it comes, while the VM's clock goes."""

    vm: Vm
    scheduler: Handle
    said: str = ""

    @property
    def was_enabled(self) -> bool:
        return ENABLED in self.said

    @property
    def has_ended(self) -> bool:
        return self.scheduler.rc is not None

    def go_on(self, seconds: float, until_enabled: bool = False) -> None:
        """Let the guest work for that long, or until the scheduler has ended or is enabled."""
        deadline_ns = self.vm.clock.now_ns() + seconds * 1e9
        self._pass_on()
        while self.vm.clock.now_ns() < deadline_ns and not self.has_ended:
            if until_enabled and self.was_enabled:
                return
            self.vm.sleep(LOOK_S)
            self._pass_on()

    def _pass_on(self) -> None:
        output = self.scheduler.output
        print(output[len(self.said) :], end="", flush=True)
        self.said = output


def main() -> int:
    """Run the show; returns the exit code."""
    options = _options()

    def act() -> int:
        scheduler = arms.find_binary("scx_vaware")
        clock = accel.best_clock(find_kernel(options.kernel))
        with Vm(
            options.kernel,
            options.vcpus,
            shape=options.shape,
            clock=clock,
            virtual=Options(ns_per_instruction=NS_PER_INSTRUCTION),
        ) as vm:
            if clock == VIRTUAL:
                say("time is the guest's: the clock counts its instructions, and stops between.")
            return run(vm, scheduler, options.duration_s)

    return tool.run("demo", act)


def run(vm: Vm, scheduler: str, duration_s: float) -> int:
    """The show in a VM that is up. Returns 0 or 1; raises LabError (75) if the VM is gone."""
    say(f"a VM with {vm.vcpus} vCPUs, kernel {vm.kernel.release}, {vm.accel.upper()}; its load:")
    for what in LOADS:
        print(f"  {what}")
    loads = [vm.spawn(f"{command} >/dev/null 2>&1") for command in LOADS.values()]
    say(f"scx_vaware takes over for {duration_s:g} s\n")
    show = Show(vm, vm.spawn(f"exec {scheduler} --stats {STATS_S} --per-vcpu"))
    try:
        show.go_on(START_LIMIT_S, until_enabled=True)
        before = vm.truth()
        show.go_on(duration_s)
        during = truth.difference(before, vm.truth())
        ended_early = show.has_ended
        show.scheduler.kill(signal.SIGINT)
        show.go_on(arms.DISABLE_TIMEOUT_S)
        obeyed = show.has_ended
    finally:
        for process in (show.scheduler, *loads):
            process.kill(signal.SIGKILL)
    state, code = arms.state_at_rest(vm).state, show.scheduler.rc
    faults = {
        "it never said that it was enabled": not show.was_enabled,
        f"it ended by itself with code {code}": ended_early,
        "it did not end on SIGINT": not obeyed,
        f"it ended with code {code} on SIGINT": obeyed and not ended_early and code,
        f"sched_ext is {state} afterwards": state != "disabled",
    }
    return summary(show, during, [fault for fault, is_so in faults.items() if is_so])


def summary(show: Show, during: list[truth.VcpuTruth], faults: list[str]) -> int:
    """Print how it went, and what the host did to each vCPU; returns 0 or 1."""
    print()
    last = re.findall(r"^busy .*$", show.said, re.MULTILINE)
    if last:
        say(f"its last counters: {last[-1]}")
    say("the host's truth about each vCPU meanwhile:")
    print(truth.table(during))
    if faults:
        say(f"FAILED: {'; '.join(faults)}. Read its output above.")
        return EX_FAILED
    say("scx_vaware was enabled, ended on SIGINT, and the kernel's own scheduler is back.")
    return 0


def say(text: str) -> None:
    """Print a line of the demo's own."""
    print(f"demo: {text}", flush=True)


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
