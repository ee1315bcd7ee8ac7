# SPDX-License-Identifier: GPL-2.0-only
"""What runs in the guest while its gaps are looked for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vlab import Vm, host
from vlab.errors import LabError

GUEST = Path(__file__).parent / "guest"
PERIOD_US = 10_000
REQUEST_US = 3_000


@dataclass(frozen=True)
class Load:
    """A command for the guest, by its number of vCPUs; it runs until it is killed."""

    command: Callable[[int], str]
    meaning: str


def _spinners(vcpus: int) -> str:
    spin = "while :; do :; done"
    each = " ".join(map(str, range(vcpus)))
    return f"for i in {each}; do taskset -c $i sh -c '{spin}' & done; wait"


LOADS = {
    "spin": Load(_spinners, "a spinner pinned to each vCPU"),
    "hackbench": Load(
        lambda vcpus: "while :; do hackbench --pipe --groups 2 --loops 100 || exit; done",
        "messages among 80 tasks",
    ),
    "requests": Load(
        lambda vcpus: f"exec {program('requests')} {vcpus} {REQUEST_US} {PERIOD_US}",
        "a worker per vCPU, due every 10 ms for 3 ms of work",
    ),
}


def program(name: str) -> str:
    """Path in the guest of one of the programs in guest/."""
    return f"/tmp/{name}"


def install(vm: Vm) -> None:
    """Bring the programs of guest/ into a VM."""
    for source in GUEST.glob("*.c"):
        binary = vm.folder / source.stem
        host.compile_c(source, binary, "pthread", "bpf")
        vm.put(binary, program(source.stem))


def check(names: list[str]) -> None:
    """Raise LabError (64) for a load that is not known."""
    for name in names:
        if name not in LOADS:
            raise LabError(f"there is no load '{name}'; choose from {', '.join(LOADS)}", 64)
