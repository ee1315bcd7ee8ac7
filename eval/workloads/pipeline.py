# SPDX-License-Identifier: GPL-2.0-only
"""Pipelines: pbzip2 and zstd read, compress in parallel and write in order, over bounded queues."""

from .workload import Size, Workload, from_command

INPUT = "/dev/shm/vaware-pipeline"


def workloads(size: Size) -> list[Workload]:
    """One thread per vCPU; the metric is the wall time."""
    lines = size.amount(400_000, 4_000_000)
    commands = {
        "pbzip2": f"pbzip2 -1 -k -c -p{size.vcpus} {INPUT} >/dev/null",
        "zstd": f"zstd -q -3 -T{size.vcpus} -B512K -c {INPUT} >/dev/null",
    }
    found = []
    for name, command in commands.items():
        timed = from_command(command)
        found.append(
            Workload(
                name,
                timed.command,
                timed.metrics,
                timed.parse,
                needs=(name,),
                setup=f"seq {lines} >{INPUT}",
            )
        )
    return found
