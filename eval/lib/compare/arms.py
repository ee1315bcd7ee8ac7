# SPDX-License-Identifier: GPL-2.0-only
"""Arms: the schedulers that are compared, and how one is put in charge of the guest and removed."""

import contextlib
import math
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGINT, SIGKILL
from typing import NamedTuple

from vlab import CommandTimeout, Handle, LabError, Vm, kernels
from vlab.errors import EX_NOT_UP, EX_UNAVAILABLE, EX_USAGE
from vlab.tool import built

from .local import LocalHandle, ThisMachine

KERNEL_ARMS = ("eevdf", "kernel")  # names for the kernel's own scheduler
CFS_KERNEL = "6.1"  # the last stable series before EEVDF
PEERS = ("scx_lavd", "scx_bpfland", "scx_cosmos")
OURS = "scx_vaware"
TWIN_MARK = "'"  # eevdf' is eevdf once more: the A/A comparison
HALTPOLL = "+haltpoll"
# Loads the guest's cpuidle driver without KVM's REALTIME hint; the driver asks for the governor of
# its name (drivers/cpuidle/cpuidle-haltpoll.c, built into Debian's cloud kernels). Boot time only.
HALTPOLL_APPEND = "cpuidle_haltpoll.force=1"

ENABLE_TIMEOUT_S = 90.0  # scx_lavd loads for 22 s under TCG on idle cores
DISABLE_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 30.0
POLL_S = 0.2
OUTPUT_LINES = 40  # of a scheduler that failed

Guest = Vm | ThisMachine

_IDLE = "cd /sys/devices/system/cpu/cpuidle && cat current_driver current_governor; true"
_STATE = "cd /sys/kernel/sched_ext 2>/dev/null && cat state enable_seq root/ops 2>/dev/null || true"


@dataclass(frozen=True)
class Arm:
    """A scheduler by name; `command` is empty for the kernel's own.

    `kernel` and `append` (kernel command line) give it a VM of its own, where they are not "".
    """

    name: str
    command: tuple[str, ...] = ()
    kernel: str = ""
    append: str = ""

    @property
    def boot(self) -> tuple[str, str]:
        """Arms that agree in this share a VM."""
        return self.kernel, self.append

    def twin(self) -> "Arm":
        """The same arm under another name, to compare it with itself."""
        return replace(self, name=self.name + TWIN_MARK)


class ArmFailed(Exception):
    """The scheduler did not start, did not stay, or did not leave; `output` is what it said."""

    def __init__(self, message: str, output: str):
        super().__init__(message)
        self.output = "\n".join(output.splitlines()[-OUTPUT_LINES:])


def parse(text: str) -> Arm:
    """Read "eevdf", "cfs", "off", "scx_name", "scx_name:--flag value" or "NAME=scx_name:--flag".

    "+haltpoll" or "@KERNEL" behind a name or binary gives the arm a VM of its own. Raises LabError:
    64 if the text is no arm, 69 if there is no such binary.
    """
    found = re.fullmatch(r"(?:([\w.+-]+)=)?([^:=@\s]+)(?:@([\w.+~-]+))?(?::(.+))?", text.strip())
    if not found:
        raise LabError(f"'{text}' is no arm; write NAME, or NAME=BINARY:--flag value", EX_USAGE)
    name, binary, kernel, arguments = found.groups()
    kernel, append = kernel or "", HALTPOLL_APPEND if binary.endswith(HALTPOLL) else ""
    binary = binary.removesuffix(HALTPOLL)
    if binary == "cfs":
        binary, kernel, name = "kernel", kernel or CFS_KERNEL, name or "cfs"
    if binary == "off":
        binary, name = OURS, name or "off"
        arguments = f"--policies none {arguments or ''}"
    if binary in KERNEL_ARMS:
        if arguments:
            raise LabError(f"{binary} takes no arguments; write just {binary}", EX_USAGE)
        return Arm(name or text.strip(), (), kernel, append)
    try:
        words = shlex.split(arguments or "")
    except ValueError as why:
        raise LabError(f"'{text}' is no arm ({why}); correct the quotes", EX_USAGE) from None
    return Arm(name or text.strip(), (find_binary(binary), *words), kernel, append)


def expand(text: str, has_haltpoll: bool = False) -> list[str]:
    """The texts of several arms that one word stands for: `peers`, `ablations`, `all`.

    Else the text itself. `all` has CFS where its kernel is at hand, and haltpoll where guests have
    it.
    """
    if text == "all":
        has_cfs = any(kernels.matches(kernel.release, CFS_KERNEL) for kernel in kernels.all())
        known = ["eevdf", *["eevdf" + HALTPOLL] * has_haltpoll, *["cfs"] * has_cfs]
        return [*known, OURS, "off", *expand("peers")]
    if text == "peers":
        return [name for name in PEERS if _is_there(name)]
    if text == "ablations":
        return [f"only-{policy}={OURS}:--policies {policy}" for policy in sum(policies(), [])]
    return [text]


class Policies(NamedTuple):
    """Names of policies: those that `all` stands for, and those that are on only if named."""

    usual: list[str]
    others: list[str]


def policies() -> Policies:
    """The policies of scx_vaware, as it tells them when asked for one that is not there.

    Raises LabError (69) if the binary is missing, or tells none.
    """
    told = subprocess.run(
        [find_binary(OURS), "--policies", "?"], capture_output=True, text=True, timeout=10
    )
    found = re.search(r"choose from ([\w, -]+) \(these are all\), ([\w, -]+), or", told.stderr)
    if not found:
        raise LabError(f"{OURS} does not tell its policies; build it again with make", 69)
    return Policies(found[1].split(", "), found[2].split(", "))


def _is_there(name: str) -> bool:
    try:
        return bool(find_binary(name))
    except LabError:
        return False


def parse_list(texts: list[str], has_haltpoll: bool = False) -> list[Arm]:
    """Read several arms, the first of which is the baseline. Raises LabError as parse does."""
    arms = [parse(each) for text in texts for each in expand(text, has_haltpoll)]
    names = [arm.name for arm in arms]
    for name in names:
        if names.count(name) > 1:
            raise LabError(f"two arms are called {name}; name one with NAME=...", EX_USAGE)
    return arms


def find_binary(name: str) -> str:
    """Where a scheduler is: a path, this repository's build, PATH or ~/.cargo/bin.

    The guest's root is the host's, so the same path holds there. Raises LabError (69).
    """
    places = [built(f"release/{name}"), shutil.which(name), Path.home() / ".cargo" / "bin" / name]
    if "/" in name:
        places = [Path(name).absolute()]
    for place in places:
        if place and os.access(place, os.X_OK):
            return str(place)
    how = "run make build" if name == OURS else "run make peers, which installs the known ones"
    raise LabError(f"there is no scheduler {name} on this machine; {how}", EX_UNAVAILABLE)


def version(arm: Arm) -> str:
    """What the arm's binary says of its version; "" for the kernel's own scheduler."""
    if not arm.command:
        return ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        told = subprocess.run(
            [arm.command[0], "--version"], capture_output=True, text=True, timeout=10
        )
        return told.stdout.strip().split("\n")[0]
    return ""


@dataclass(frozen=True)
class SchedExt:
    """What the guest's kernel says of sched_ext; `state` is "absent" where it has none."""

    state: str
    enable_seq: str = ""  # goes up with each scheduler that gets in
    ops: str = ""  # the name of the one that is in

    @property
    def is_off(self) -> bool:
        """The kernel's own scheduler has the guest to itself."""
        return self.state in ("disabled", "absent")


class Charge:
    """An arm that schedules the guest; `loaded` is sched_ext as the arm got in."""

    def __init__(self, guest: Guest, handle: Handle | LocalHandle | None, loaded: SchedExt):
        self._guest = guest
        self._handle = handle
        self._loaded = loaded

    def check(self) -> None:
        """Raise ArmFailed unless the arm has been in charge without a break so far."""
        now = state(self._guest)
        if self._handle is None:
            if not now.is_off:
                raise ArmFailed(
                    f"somebody else has loaded a scheduler: sched_ext is {now.state}", ""
                )
        elif now.state != "enabled" or self._handle.rc is not None:
            raise ArmFailed(
                f"the scheduler was ejected: sched_ext is {now.state}", self._handle.output
            )
        elif now != self._loaded:
            raise ArmFailed(
                "the scheduler was ejected and came back during the run", self._handle.output
            )


@contextlib.contextmanager
def in_charge(guest: Guest, arm: Arm, settle_s: float = 0.0) -> Iterator[Charge]:
    """Have the arm schedule the guest while the context lasts.

    It begins after `settle_s` of the guest's time, under the kernel's own scheduler, too. Raises
    ArmFailed if the scheduler does not start or does not leave, and LabError (75) if the VM is
    gone. Whether it stays meanwhile, `check` of what this yields tells.
    """
    before = _wait_until_disabled(guest, "a scheduler from before is still there", None)
    if arm.append == HALTPOLL_APPEND:
        _require_haltpoll(guest)
    if not arm.command:
        _ask(guest, "true", settle_s)
        yield Charge(guest, None, before)
        return
    handle = guest.spawn("exec " + shlex.join(arm.command))
    try:
        loaded = _wait_until_enabled(guest, handle, arm, before)
        _ask(guest, "true", settle_s)
        yield Charge(guest, handle, loaded)
        _stop(guest, handle)
    except BaseException:
        _end_by_force(handle)
        raise


def state(guest: Guest, after_s: float = 0.0) -> SchedExt:
    """sched_ext in the guest. Raises LabError (75) if the guest does not answer."""
    lines = _ask(guest, _STATE, after_s).split()
    return SchedExt(*lines[:3]) if lines else SchedExt("absent")


def _ask(guest: Guest, command: str, after_s: float = 0.0) -> str:
    """The output of a command, after a wait by the guest's time: virtual time is not the host's."""
    try:
        return guest.run(f"sleep {after_s:g}; {command}", ANSWER_TIMEOUT_S + after_s).output
    except CommandTimeout:
        raise LabError(
            f"the guest did not answer for {ANSWER_TIMEOUT_S:g} s; start again with --resume",
            EX_NOT_UP,
        ) from None


def _polls(guest: Guest, timeout_s: float) -> Iterator[SchedExt]:
    """sched_ext again and again, for so long by the guest's time; at least once."""
    for number in range(1 + math.ceil(timeout_s / POLL_S)):
        yield state(guest, POLL_S if number else 0.0)


def _require_haltpoll(guest: Guest) -> None:
    idle = _ask(guest, _IDLE).split()
    if idle != ["haltpoll", "haltpoll"]:
        raise ArmFailed(
            f"cpuidle driver and governor are {' and '.join(idle) or 'missing'}, not haltpoll, "
            "which needs KVM's interface in the guest",
            "",
        )


def state_at_rest(guest: Guest) -> SchedExt:
    """sched_ext in the guest, after it had time to be disabled. Raises LabError as state does."""
    for now in _polls(guest, DISABLE_TIMEOUT_S):
        if now.is_off:
            break
    return now


def _wait_until_disabled(guest: Guest, complaint: str, handle: Handle | None) -> SchedExt:
    now = state_at_rest(guest)
    if not now.is_off:
        raise ArmFailed(f"{complaint}: sched_ext is {now.state}", handle.output if handle else "")
    return now


def _wait_until_enabled(guest: Guest, handle: Handle, arm: Arm, before: SchedExt) -> SchedExt:
    """Return sched_ext as the arm got in; `before` is that of before its start.

    The kernel raises enable_seq only after the state reads enabled (scx_enable() in
    kernel/sched/ext.c), so the arm is in when both have changed.
    """
    for now in _polls(guest, ENABLE_TIMEOUT_S):
        if now.state == "enabled" and now.enable_seq != before.enable_seq and _is_of(now.ops, arm):
            return now
        if handle.rc is not None:
            raise ArmFailed(f"the scheduler ended with code {handle.rc} at start", handle.output)
    raise ArmFailed(f"the scheduler was not enabled in {ENABLE_TIMEOUT_S:g} s", handle.output)


def _is_of(ops: str, arm: Arm) -> bool:
    """Whether a scheduler called `ops` can be the arm's; of those we do not know, any can."""
    name = Path(arm.command[0]).name
    return name.removeprefix("scx_") in ops if name in (OURS, *PEERS) else bool(ops)


def _stop(guest: Guest, handle: Handle) -> None:
    handle.kill(SIGINT)
    try:
        handle.wait(DISABLE_TIMEOUT_S)
    except CommandTimeout:
        raise ArmFailed("the scheduler did not end on SIGINT", handle.output) from None
    _wait_until_disabled(guest, "the scheduler ended and stayed in the kernel", handle)


def _end_by_force(handle: Handle) -> None:
    with contextlib.suppress(LabError):
        handle.kill(SIGKILL)
        handle.wait(DISABLE_TIMEOUT_S)
