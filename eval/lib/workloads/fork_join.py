# SPDX-License-Identifier: GPL-2.0-only
"""A Java virtual machine: recursion on a ForkJoinPool with blocking hand-offs (java/ForkJoin.java).

Its options keep what it does beside the work the same in each run: the first compiler alone, since
the second one compiles on threads that compete with the workload when it sees fit; and a collector
without threads of its own, whose number would depend on the vCPUs.
"""

from . import programs
from .sync import operations, parse
from .workload import Metric, Size, Workload

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m"


def workloads(size: Size) -> list[Workload]:
    """A thread of the pool for each vCPU, at least two."""
    run = f"java {OPTIONS} -jar {programs.path('ForkJoin.jar')} {max(2, size.vcpus)}"
    return [
        Workload(
            "jvm-fork-join",
            f"{run} {size.seconds:g}",
            (Metric("rate", "leaves/s", "higher"),),
            parse,
            note="64 leaves and 8 hand-offs in a round",
            needs=("java", "javac"),
            prepare=lambda: programs.build_java("ForkJoin"),
            # A VM reads the files of the JVM over virtiofs once, for longer than a run lasts.
            setup=f"{run} 0.1",
            operations=operations,
        )
    ]
