# SPDX-License-Identifier: GPL-2.0-only
"""KVM's steal clock, imitated for a VM without KVM: the lab plays the host's half of the protocol.

The guest tells where each vCPU's `struct kvm_steal_time` is in its memory; BPF programs on the host
(steal/clock.bpf.c) write there whenever a vCPU's thread is put on a core or taken off it. What they
tell is what KVM would: `steal` is the thread's run_delay since the start, `preempted` is set while
it is off its core with something to run.
"""

import contextlib
import json
import os
import secrets
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from . import host
from .channel import Result
from .errors import LabError
from .runs import Run

SOURCES = Path(__file__).parent / "steal"
READER = Path(__file__).parent / "guest" / "steal_time.py"
TOKEN_OFFSET = 56  # in the padding of struct kvm_steal_time, at its end
TOKEN_BYTES = 8
START_S = 20
GIB = 1 << 30
MEMORY = "memory-backend-memfd"
# Accelerators under which none is imitated, and why.
NO_STEAL_CLOCK = {
    "kvm": "KVM gives this VM a steal clock of its own",
    "icount": "with -icount all vCPUs are one thread, of which nothing is stolen",
}


def offset_in_ram(physical: int, memory_bytes: int) -> int:
    """Where a guest-physical address is in the RAM of QEMU's default machine (hw/i386/pc)."""
    below_4g = memory_bytes if memory_bytes < 3.5 * GIB else 3 * GIB
    return physical if physical < below_4g else physical - 4 * GIB + below_4g


class StealClock:
    """The imitated clock of one VM: runs until `stop`, or the end of the run.

    `pid` is QEMU; `ask` runs a command in the guest.
    """

    def __init__(
        self,
        run: Run,
        pid: int,
        tids: Sequence[int],
        memory_mib: int,
        ask: Callable[[str], Result],
    ):
        self._run = run
        self._pid = pid
        self._tids = tids
        self._memory_bytes = memory_mib << 20
        self._ask = ask
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Returns when the guest's steal clocks run. Raises LabError (69)."""
        memory = self._memory()
        offsets = self._find(memory)
        program, loader = self._build()
        vcpus = [f"{tid}:{at:x}" for tid, at in zip(self._tids, offsets, strict=True)]
        self._process = self._run.spawn([loader, program, memory, *vcpus], "steal-clock.log")
        log = self._run.path / "steal-clock.log"
        deadline = time.monotonic() + START_S
        while "ready" not in log.read_text():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text().strip().split("\n")[-1]
                raise LabError(
                    f"the steal clock cannot be imitated on this host ({said}); "
                    "use a host kernel of 6.16 or newer, or leave the steal clock away"
                )
            time.sleep(0.01)

    def stop(self) -> None:
        """The clocks stand still from now on. May be called again."""
        if self._process:
            self._run.end(self._process)
            self._process = None

    def _memory(self) -> Path:
        """The file that is the guest's RAM."""
        for handle in Path(f"/proc/{self._pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if MEMORY in os.readlink(handle):
                    return handle
        raise LabError("QEMU does not hold the guest's memory as expected; try QEMU 10")

    def _find(self, memory: Path) -> list[int]:
        """Where in RAM each steal_time is, proven by tokens that the guest reads back."""
        found = self._guest("where")[: len(self._tids)]
        offsets = [offset_in_ram(vcpu["physical"], self._memory_bytes) for vcpu in found]
        tokens = [secrets.token_bytes(TOKEN_BYTES) for _ in offsets]
        with memory.open("r+b", buffering=0) as ram:
            for at, token in zip(offsets, tokens, strict=True):
                os.pwrite(ram.fileno(), token, at + TOKEN_OFFSET)
            seen = [bytes.fromhex(vcpu["token"]) for vcpu in self._guest("read")]
            for at in offsets:
                os.pwrite(ram.fileno(), bytes(TOKEN_BYTES), at + TOKEN_OFFSET)
        if seen[: len(tokens)] != tokens:
            raise LabError(
                "the guest's memory is laid out in another way than the lab thinks; "
                "give the VM less than 3500 MiB, or leave the steal clock away"
            )
        return offsets

    def _guest(self, what: str) -> list[dict]:
        told = self._ask(f"{shlex.quote(str(READER))} {what}")
        if told.rc:
            raise LabError(
                f"the guest does not tell where its steal clocks are ({told.output.strip()}); "
                "use a kernel with PROC_KCORE and KALLSYMS_ALL"
            )
        return json.loads(told.output)

    def _build(self) -> tuple[Path, Path]:
        program, loader = self._run.path / "steal-clock.o", self._run.path / "steal-clock"
        if not loader.exists():
            host.compile_bpf(SOURCES / "clock.bpf.c", program)
            host.compile_c(SOURCES / "clock.c", loader, "bpf")
        return program, loader
