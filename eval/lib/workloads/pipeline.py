# SPDX-License-Identifier: GPL-2.0-only
"""Pipelines over bounded queues: pbzip2 and zstd read, compress in parallel and write in order;
c/stages.c passes items on, and little else."""

from . import programs
from .sync import operations, parse
from .workload import Metric, Size, Workload, from_command

INPUT = "/dev/shm/vaware-pipeline"
STAGES = 4
# Work in a stage, by the name of the workload: from little more than a wake-up takes to far more.
WORK_US = {"stages-5us": 5, "stages": 20, "stages-100us": 100}


def workloads(size: Size) -> list[Workload]:
    """One thread per vCPU; the metric is the wall time, or the rate of items."""
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
    return [*found, *(_stages(size, name, work_us) for name, work_us in WORK_US.items())]


def _stages(size: Size, name: str, work_us: int) -> Workload:
    threads = max(1, size.vcpus // STAGES)
    return Workload(
        name,
        f"{programs.path('stages')} {STAGES} {threads} {work_us} {size.seconds:g}",
        (Metric("rate", "items/s", "higher"),),
        parse,
        note=f"{STAGES} stages, {work_us} us of work in each",
        needs=("gcc",),
        prepare=lambda: programs.build("stages"),
        operations=operations,
    )
