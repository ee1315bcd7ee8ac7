# SPDX-License-Identifier: GPL-2.0-only
"""scx_vaware in the guest of a lab VM: the VMs, the scheduler's life, and what the kernel says."""

import itertools
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGHUP, SIGINT

import pytest

from conftest import FAILED
from prometheus_tools import value, value_if_known
from vlab import CommandTimeout, Handle, LabError, Result, Vm, virtual_time
from vlab.tool import built as built_by_cargo
from workloads import spinners

TOOLS = Path(__file__).resolve().parent / "guest"  # the guest sees the host's files
BINARY = "/tmp/scx_vaware"  # in the guest
CONFIG = "/tmp/scx_vaware.toml"
DEFAULT_KERNEL = None  # the lab's: on a new machine, what the distribution has
ALL_KERNELS = [DEFAULT_KERNEL, "6.12", "7.3"]
SHAPE = "floating:2"
STACKED = "pin:0/1/2/2"  # one of the last two is banned
DECISIONS = "scx_vaware_decisions_total"
HALT_POLL = 'scx_vaware_halt_poll_seconds{policy="retain"}'  # what retention has chosen
ENABLED = "scx_vaware: enabled\n"  # said at each load
METRICS = "curl -sf localhost:9817/metrics"  # in the guest
LIMIT_S = 180  # of the guest's time: far above what anything here takes
# Of virtual time. 4 ns: a guest that idles or spins then takes about as long as it says.
VIRTUAL = virtual_time.Options(seed=1, ns_per_instruction=4)
BOOTED_S = 10  # the kernel tests itself for a while after boot
POLL_S = 0.2  # idle time is free under a virtual clock, a question to the guest is not
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


def online(vcpu: int) -> str:
    """The file by which a vCPU of the guest goes offline (0) and comes back (1)."""
    return f"/sys/devices/system/cpu/cpu{vcpu}/online"


def spin(vm: Vm, *tasks: str, seconds: float) -> list[dict]:
    """Let tasks spin together (see workloads.spinners); returns what each of them got."""
    done = vm.run(spinners.command(seconds, *tasks), seconds + LIMIT_S)
    assert done.rc == 0, done.output
    return spinners.parse(done.output)


def is_well(vm: Vm) -> bool:
    """Whether the daemon says so."""
    return vm.run("curl -sf localhost:9817/healthz", LIMIT_S).output == "ok\n"


def start_where_the_port_is_taken(vm: Vm) -> Result:
    """How the daemon ends if another program listens at its address."""
    server = vm.spawn("exec python3 -S -m http.server --bind 127.0.0.1 9817")
    vm.run("until curl -s localhost:9817 >/dev/null; do sleep 0.2; done", LIMIT_S)
    refused = vm.run(BINARY, LIMIT_S)
    server.kill()
    server.wait(LIMIT_S)
    return refused


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


def wait_until(vm: Vm, condition: Callable[[], bool], what: str) -> None:
    """Wait for `condition()` by the VM's clock, and fail with `what` if it does not come."""
    deadline_ns = vm.clock.now_ns() + LIMIT_S * 10**9
    while not condition():
        assert vm.clock.now_ns() < deadline_ns, f"{what} did not happen within {LIMIT_S} s"
        vm.sleep(POLL_S)


def published(vm: Vm, series: str) -> float | None:
    """What the daemon publishes for `series` now, None if it does not (yet)."""
    return value_if_known(vm.run(METRICS, LIMIT_S).output, series)


def decisions(vm: Vm, kind: str) -> float:
    """How many decisions of a kind the scheduler has taken so far."""
    return value(vm.run(METRICS, LIMIT_S).output, f'{DECISIONS}{{decision="{kind}"}}')


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
        self._is_reconfigured = False

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

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, for whatever reason."""
        return self._handle.rc is not None

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._handle.kill(number)

    def reconfigure(self, text: str, answer: str) -> None:
        """Have it read `text` as its configuration, and wait until it says `answer`."""
        before = len(self.output)
        configure(self.vm, text)
        self.signal(SIGHUP)
        wait_until(self.vm, lambda: answer in self.output[before:], answer)
        self._is_reconfigured = True

    def reset(self) -> None:
        """Have it be as it was loaded, in a VM of shape SHAPE."""
        if self._is_reconfigured:
            self.reconfigure("", "policies on: ")
            self._is_reconfigured = False
        self.vm.shape(SHAPE)

    def expect_health(self) -> None:
        """Fail unless it is still in charge, of a kernel that has not complained."""
        self.expect_in_charge()
        complaints = kernel_complaints(self.vm)
        assert not complaints, "\n".join([*complaints, "The scheduler said:", self.output])

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

    def expect_loaded_again(self) -> None:
        """Fail unless the same process has loaded it once more since it was last known loaded."""
        assert self._handle.rc is None, f"it ended with {self._handle.rc}: {self.output}"
        now = sched_ext(self.vm)
        assert now.state == "enabled", f"{now}; it says: {self.output}"
        assert now.enable_seq == self._as_enabled.enable_seq + 1
        self._as_enabled = now

    def _wait_for_start(self) -> None:
        try:
            wait_until(self.vm, lambda: "Ctrl-C" in self.output or self.has_ended, "the start")
        except AssertionError as why:
            raise AssertionError(f"{why}; {self._last_said()}") from None

    def _last_said(self) -> str:
        return f"it said:\n{self.output}\n{autopsy(self.vm)}"


Place = tuple[str | None, bool]  # kernel, whether tests share a scheduler in it


class Guests:
    """The VMs of the tests, and the schedulers that tests share in them.

    A virtual clock stands still while nobody waits for it, so a VM that stays up takes no core.
    """

    def __init__(self, binary: Path):
        self._binary = binary
        self._vms: dict[Place, Vm] = {}
        self._schedulers: dict[Place, GuestScheduler] = {}
        self._unavailable: dict[str | None, str] = {}  # not to be looked for again in each test

    def get(self, kernel: str | None) -> Vm:
        """A VM with 4 vCPUs of shape SHAPE, without a scheduler loaded."""
        place = (kernel, False)
        vm = self._vm(place)
        if not is_sound(vm):
            self._end(place)
            vm = self._vm(place)
        vm.shape(SHAPE)
        return vm

    def scheduler(self, kernel: str | None) -> GuestScheduler:
        """A scheduler with the defaults as its configuration CONFIG, in a VM of shape SHAPE."""
        place = (kernel, True)
        vm, found = self._vm(place), self._schedulers.get(place)
        if not found or found.vm is not vm or found.has_ended:
            vm.shape(SHAPE)
            configure(vm, "")
            found = GuestScheduler(vm, "--config", CONFIG).__enter__()
            self._schedulers[place] = found
        found.reset()
        return found

    def down(self) -> None:
        """End all VMs, and the schedulers that tests shared, which must end as they should."""
        try:
            while self._vms:
                self._end(next(iter(self._vms)))
        finally:
            for vm in self._vms.values():
                vm.down()

    def _vm(self, place: Place) -> Vm:
        kernel, _ = place
        if kernel in self._unavailable:
            pytest.skip(self._unavailable[kernel])
        if place not in self._vms or not self._vms[place].alive:
            try:
                self._vms[place] = boot(kernel, self._binary)
            except pytest.skip.Exception as why:
                self._unavailable[kernel] = why.msg
                raise
        return self._vms[place]

    def _end(self, place: Place) -> None:
        vm, scheduler = self._vms.pop(place), self._schedulers.pop(place, None)
        try:
            if scheduler and vm.alive and not scheduler.has_ended:
                scheduler.__exit__(None)
        finally:
            vm.down()


def is_sound(vm: Vm) -> bool:
    """Whether the VM is up, with the kernel's own scheduler."""
    try:
        return vm.alive and sched_ext(vm).state == "disabled"
    except LabError:
        return False


def boot(
    kernel: str | None,
    binary: Path,
    vcpus: int = 4,
    shape: str = SHAPE,
    append: str = "",
    clock: str = "virtual",
    paravirt: tuple[str, ...] = VIRTUAL.paravirt,
    ns_per_instruction: int = VIRTUAL.ns_per_instruction,
) -> Vm:
    """Boot a VM that has the scheduler at BINARY; skip the test where no VM can run."""
    options = {"vcpus": vcpus, "shape": shape, "append": append, "clock": clock}
    try:
        virtual = replace(VIRTUAL, paravirt=paravirt, ns_per_instruction=ns_per_instruction)
        vm = Vm(kernel, virtual=virtual, **options).up()
    except LabError as why:
        if why.exit_code == 69:
            pytest.skip(why.message)
        raise
    if clock == "virtual":
        vm.sleep(BOOTED_S)
    vm.put(binary, BINARY)
    return vm


def polling_vm(binary: Path) -> Iterator[Vm]:
    """A VM whose kernel can let idle vCPUs poll; of a module, if made a fixture there."""
    vm = boot(DEFAULT_KERNEL, binary, append="cpuidle_haltpoll.force=1")
    yield vm
    vm.down()


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
def guest(request, guests, kernel) -> Iterator[Vm]:
    """A VM that runs the test's kernel, with no scheduler loaded."""
    vm = guests.get(kernel)
    yield vm
    if FAILED in request.node.stash:
        vm.down()  # with whatever the test left there


@pytest.fixture
def scheduler(request, guests, kernel) -> Iterator[GuestScheduler]:
    """The scheduler loaded with its defaults, which tests share; a test may end it."""
    loaded = guests.scheduler(kernel)
    yield loaded
    try:
        if not loaded.has_ended:
            loaded.expect_health()
    except BaseException:
        loaded.vm.down()
        raise
    if FAILED in request.node.stash:
        loaded.vm.down()


def on_kernels(*kernels: str | None, long: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Run a test on each kernel, with the long tests on those of `long`, too.

    All tests of one kernel follow each other.
    """
    asked = [pytest.param(kernel, id=kernel or "default") for kernel in kernels]
    asked += [pytest.param(kernel, id=kernel, marks=pytest.mark.long) for kernel in long]
    return pytest.mark.parametrize("kernel", asked, indirect=True)
