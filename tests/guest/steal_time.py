#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Each vCPU's struct kvm_steal_time, from inside the guest: steal_time.py TIMES

Prints a JSON list for each time, of one object per possible vCPU:
{"steal_ns", "version", "preempted"}.

A per-CPU variable is at its symbol plus __per_cpu_offset[cpu]; /proc/kcore gives the kernel's
memory by virtual address (fs/proc/kcore.c).
"""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator

PT_LOAD = 1
ELF_HEADER = struct.Struct("<32xQ14xHH")  # phoff, phentsize, phnum
PROGRAM_HEADER = struct.Struct("<II6Q")
STEAL_TIME = struct.Struct("<QIIB47x")


class Kcore:
    """The kernel's memory."""

    def __init__(self):
        self._file = os.open("/proc/kcore", os.O_RDONLY)
        table, size, count = ELF_HEADER.unpack(os.pread(self._file, ELF_HEADER.size, 0))
        headers = (
            PROGRAM_HEADER.unpack(os.pread(self._file, PROGRAM_HEADER.size, table + i * size))
            for i in range(count)
        )
        self._parts = [
            (virtual, length, offset)
            for kind, _, offset, virtual, _, length, *_ in headers
            if kind == PT_LOAD
        ]

    def read(self, address: int, length: int) -> bytes:
        """Memory at a virtual address."""
        virtual, offset = self._part(address)
        return os.pread(self._file, length, address - virtual + offset)

    def _part(self, address: int) -> tuple[int, int]:
        for virtual, length, offset in self._parts:
            if virtual <= address < virtual + length:
                return virtual, offset
        sys.exit(f"{address:#x} is not in /proc/kcore")


def symbols(*names: str) -> dict[str, int]:
    """Addresses of kernel symbols."""
    # grep goes through all symbols many times faster than a loop here.
    pattern = f" ({'|'.join(names)})$"
    grep = ["grep", "-E", pattern, "/proc/kallsyms"]
    lines = subprocess.run(grep, capture_output=True, text=True).stdout.splitlines()
    found = {name: int(address, 16) for address, _, name in map(str.split, lines)}
    if missing := set(names) - set(found):
        sys.exit(f"/proc/kallsyms does not have {', '.join(sorted(missing))}")
    return found


def addresses(kcore: Kcore) -> Iterator[int]:
    """Virtual address of each vCPU's steal_time."""
    where = symbols("steal_time", "__per_cpu_offset")
    with open("/sys/devices/system/cpu/possible") as possible:
        count = int(possible.read().strip().rpartition("-")[2]) + 1
    for offset in struct.unpack(f"<{count}Q", kcore.read(where["__per_cpu_offset"], 8 * count)):
        yield (where["steal_time"] + offset) % 2**64


def content(kcore: Kcore, address: int) -> dict:
    """What a steal_time says now."""
    steal_ns, version, _, preempted = STEAL_TIME.unpack(kcore.read(address, STEAL_TIME.size))
    return {"steal_ns": steal_ns, "version": version, "preempted": preempted}


def main() -> None:
    kcore = Kcore()
    places = list(addresses(kcore))
    for _ in range(int(sys.argv[1])):
        print(json.dumps([content(kcore, address) for address in places]))


main()
