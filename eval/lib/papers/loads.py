# SPDX-License-Identifier: GPL-2.0-only
"""The workloads of the experiments: those of `workloads`, with the threads that a paper used."""

from dataclasses import replace

from workloads import Metric, Size, Workload, catalogue, postgresql, sysbench
from workloads.workload import number

from .model import Load

STARTS = 20  # of a program, in startup()


def named(name: str, threads: int | None = None) -> Load:
    """One of the catalogue, with so many threads instead of one for each vCPU."""

    def load(size: Size) -> Workload:
        if threads is None:
            return catalogue(size)[name]
        return _with_threads(catalogue(replace(size, vcpus=threads))[name], threads)

    return load


def computing(threads: int) -> Load:
    """Threads that compute and never wait."""
    return lambda size: sysbench.cpu(size, threads)


def database(clients: int) -> Load:
    """PostgreSQL with so many clients."""
    return lambda size: postgresql.pgbench(size, clients)


def beside_idle_work(name: str, threads: int, vcpus: range) -> Load:
    """The same as named(), beside SCHED_IDLE work that is pinned to these vCPUs."""

    def load(size: Size) -> Workload:
        found = named(name, threads)(size)
        hogs = (
            f"for vcpu in {' '.join(map(str, vcpus))}; do chrt --idle 0 taskset -c $vcpu "
            "stress-ng --cpu 1 -q --temp-path /tmp & done; sleep 0.5; "
        )
        return replace(
            found,
            name=f"{found.name} beside idle work",
            command=f"{hogs}{found.command}; kill $(jobs -p) && wait",
            needs=(*found.needs, "stress-ng", "chrt", "taskset"),
        )

    return load


def startup(size: Size) -> Workload:
    """How long a shell takes to start, again and again, beside a computation on each vCPU."""
    command = (
        'stress-ng --cpu "$(nproc)" -q --temp-path /tmp & hogs=$!; sleep 0.5; '
        f"TIMEFORMAT='starts %R'; time (for i in $(seq {STARTS}); do bash -c :; done); "
        "kill $hogs && wait"
    )
    return Workload(
        "startup",
        command,
        (Metric("time", "s", "lower"),),
        lambda output: {"time": number(r"^starts ([\d.]+)$", output)},
        note=f"{STARTS} starts of a shell",
        needs=("stress-ng",),
    )


def _with_threads(workload: Workload, threads: int) -> Workload:
    return replace(workload, name=f"{workload.name} x{threads}")
