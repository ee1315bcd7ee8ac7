# SPDX-License-Identifier: GPL-2.0-only
"""scx_vaware in the guest of a lab VM: the VMs, the scheduler's life, and what the kernel says."""

import itertools
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIGHUP, SIGINT

import pytest
from lab import CommandTimeout, Handle, LabError, Result, Vm
from lab.tool import built as built_by_cargo

TOOLS = Path(__file__).resolve().parent / "guest"  # the guest sees the host's files
BINARY = "/tmp/scx_vaware"  # in the guest
CONFIG = "/tmp/scx_vaware.toml"
DEFAULT_KERNEL = None  # the lab's: on a new machine, what the distribution has
ALL_KERNELS = [DEFAULT_KERNEL, "6.12", "7.3"]
SHAPE = "floating:2"
METRICS = "curl -sf localhost:9817/metrics"  # in the guest
LIMIT_S = 180  # far above what anything here takes, even on a host that is busy with other things
AUTOPSY_S = 30
STACKS = f"grep -H '' /proc/$(pgrep -o -f {BINARY})/task/*/stack"
# Not those about deadline.c: 6.12 loses count of its own deadline server when a vCPU goes offline
# while sched_ext has the tasks.
COMPLAINTS = re.compile(
    r"sched_ext: .*(error|stall)|rcu: INFO|"
    r"WARNING: (?!.*sched/deadline\.c)|BUG: |Oops|general protection"
)


@dataclass(frozen=True)
class SchedExt:
    """What the guest's kernel says of sched_ext; `ops` names the loaded scheduler, or is empty."""

    state: str
    enable_seq: int
    nr_rejected: int
    ops: str


def sched_ext(vm: Vm) -> SchedExt:
    """Ask the guest's kernel."""
    shown = vm.run(
        "cd /sys/kernel/sched_ext && cat state enable_seq nr_rejected root/ops 2>/dev/null", LIMIT_S
    )
    state, enable_seq, nr_rejected, *ops = shown.output.split()
    return SchedExt(state, int(enable_seq), int(nr_rejected), "".join(ops))


def kernel_complaints(vm: Vm) -> list[str]:
    """The guest's kernel log since it was last asked, from a line that no healthy kernel writes."""
    lines = vm.run("dmesg --read-clear", LIMIT_S).output.splitlines()
    return list(itertools.dropwhile(lambda line: not COMPLAINTS.search(line), lines))


def tool(name: str, *arguments: object) -> str:
    """The command line of one of the tools in guest/."""
    return shlex.join([str(TOOLS / name), *map(str, arguments)])


def configure(vm: Vm, text: str) -> None:
    """Write `text` to CONFIG, the configuration for `--config`."""
    assert vm.run(f"cat >{CONFIG} <<'END'\n{text}\nEND").rc == 0


def autopsy(vm: Vm) -> str:
    """What a guest in which something hangs can tell: blocked tasks, else what its console has."""
    ask = f"echo l >/proc/sysrq-trigger; echo w >/proc/sysrq-trigger; dmesg | tail -n 300; {STACKS}"
    try:
        return f"its kernel tells:\n{vm.run(ask, AUTOPSY_S).output}"
    except LabError:
        return f"the guest does not answer any more{vm.last_words()}"


def wait_until(condition, what: str) -> None:
    """Wait for `condition()`, and fail with `what` if it does not come."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {LIMIT_S} s"
        time.sleep(0.05)


class GuestScheduler:
    """scx_vaware in the guest while the context lasts.

    It has to become enabled and, unless the test ends it, to stay so without a restart until SIGINT
    ends it with exit code 0. It has to leave a kernel that is back to its own scheduler, and that
    has not complained. The VM ends with a test that fails, and with it what that has left running.
    """

    def __init__(self, vm: Vm, *arguments: str):
        self.vm = vm
        self._command = shlex.join([BINARY, *arguments])
        self._handle: Handle | None = None
        self._as_enabled: SchedExt | None = None

    def __enter__(self) -> "GuestScheduler":
        before = sched_ext(self.vm)
        assert before.state == "disabled", f"another scheduler is still there: {before}"
        kernel_complaints(self.vm)
        self._handle = self.vm.spawn(f"echo pid $$; exec {self._command}")
        try:
            self._wait_for_start()
            self._as_enabled = sched_ext(self.vm)
            assert self._handle.rc is None, f"it ended with {self._handle.rc}: {self.output}"
            assert self._as_enabled.state == "enabled"
            assert self._as_enabled.enable_seq == before.enable_seq + 1
        except BaseException:
            self.vm.down()
            raise
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind:
            self.vm.down()
            return
        if self._handle.rc is None:
            self.expect_in_charge()
            ended = self.end(SIGINT)
            assert ended.rc == 0, f"it ended with {ended.rc}: {ended.output}"
        assert sched_ext(self.vm).state == "disabled"
        complaints = kernel_complaints(self.vm)
        assert not complaints, "\n".join([*complaints, "The scheduler said:", self.output])

    @property
    def output(self) -> str:
        """What it has said so far."""
        return self._handle.output

    @property
    def pid(self) -> int:
        """Its process id in the guest."""
        return int(re.match(r"pid (\d+)", self.output)[1])

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._handle.kill(number)

    def reconfigure(self, text: str, answer: str) -> None:
        """Have it read `text` as its configuration, and wait until it says `answer`."""
        before = len(self.output)
        configure(self.vm, text)
        self.signal(SIGHUP)
        wait_until(lambda: answer in self.output[before:], answer)

    def end(self, number: int) -> Result:
        """Send it a signal that should end it, and wait for that."""
        self.signal(number)
        return self.wait()

    def wait(self) -> Result:
        """Wait until it ends."""
        try:
            return self._handle.wait(LIMIT_S)
        except CommandTimeout as why:
            raise AssertionError(f"{why}; {self._last_said()}") from None

    def expect_in_charge(self) -> None:
        """Fail unless it is still enabled, and has been ever since it was first."""
        assert self._handle.rc is None, f"it ended with {self._handle.rc}: {self.output}"
        now = sched_ext(self.vm)
        assert now == self._as_enabled, f"{self._as_enabled} became {now}; it says: {self.output}"
        assert now.ops.startswith("scx_vaware")
        assert now.nr_rejected == 0

    def _wait_for_start(self) -> None:
        try:
            wait_until(lambda: "Ctrl-C" in self.output or self._handle.rc is not None, "the start")
        except AssertionError as why:
            raise AssertionError(f"{why}; {self._last_said()}") from None

    def _last_said(self) -> str:
        return f"it said:\n{self.output}\n{autopsy(self.vm)}"


class Guests:
    """The VM of the tests, one at a time; booted again for another kernel, or when it broke."""

    def __init__(self, binary: Path):
        self._binary = binary
        self._vm: Vm | None = None
        self._kernel: str | None = None
        self._unavailable: dict[str | None, str] = {}  # not to be looked for again in each test

    def get(self, kernel: str | None) -> Vm:
        """A VM with 4 vCPUs of shape SHAPE that runs `kernel`, without a scheduler loaded."""
        if kernel in self._unavailable:
            pytest.skip(self._unavailable[kernel])
        if not (self._vm and self._kernel == kernel and self._is_sound()):
            self.down()
            try:
                self._vm, self._kernel = boot(kernel, self._binary), kernel
            except pytest.skip.Exception as why:
                self._unavailable[kernel] = why.msg
                raise
        self._vm.shape(SHAPE)
        return self._vm

    def down(self) -> None:
        """End the VM, if there is one."""
        if self._vm:
            self._vm.down()
            self._vm = None

    def _is_sound(self) -> bool:
        try:
            return self._vm.alive and sched_ext(self._vm).state == "disabled"
        except LabError:
            return False


def boot(
    kernel: str | None, binary: Path, vcpus: int = 4, shape: str = SHAPE, append: str = ""
) -> Vm:
    """Boot a VM that has the scheduler at BINARY; skip the test where no VM can run."""
    try:
        vm = Vm(kernel, vcpus=vcpus, shape=shape, append=append).up()
    except LabError as why:
        if why.exit_code == 69:
            pytest.skip(why.message)
        raise
    vm.put(binary, BINARY)
    return vm


@pytest.fixture(scope="session")
def binary(tmp_path_factory) -> Path:
    """A copy of the built scheduler, so that a build meanwhile does not change what is tested."""
    built = built_by_cargo("release/scx_vaware")
    if not built.is_file():
        pytest.fail(f"there is no {built} to test; run make build", pytrace=False)
    copy = tmp_path_factory.mktemp("scheduler") / "scx_vaware"
    copy.write_bytes(built.read_bytes())
    copy.chmod(0o755)
    return copy


@pytest.fixture(scope="session")
def guests(binary) -> Iterator[Guests]:
    """Whatever VM is up."""
    made = Guests(binary)
    yield made
    made.down()


@pytest.fixture(scope="session")
def kernel(request) -> str | None:
    """The kernel of the test's parameters (see on_kernels)."""
    return request.param


@pytest.fixture
def guest(guests, kernel) -> Vm:
    """A VM that runs the test's kernel."""
    return guests.get(kernel)


def on_kernels(*kernels: str | None) -> pytest.MarkDecorator:
    """Run a test on each kernel; all tests of one kernel follow each other."""
    ids = [kernel or "default" for kernel in kernels]
    return pytest.mark.parametrize("kernel", kernels, ids=ids, indirect=True)
