# SPDX-License-Identifier: GPL-2.0-only
"""Does parts of a comparison at once: a VM by virtual time takes one core of this machine."""

import os
import queue
import threading
from collections.abc import Callable, Sequence

from vlab.clock import VIRTUAL

MEMORY_SPARED_RATIO = 0.25  # of what is available, for everything else


def most(clock: str, memory_mib: int) -> int:
    """How many VMs of `memory_mib` this machine can run at once without one slowing another.

    By any clock but a virtual one they would take time from each other, so one.
    """
    if clock != VIRTUAL:
        return 1
    available_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fit = int(available_bytes * (1 - MEMORY_SPARED_RATIO)) // (memory_mib << 20)
    return max(1, min(len(os.sched_getaffinity(0)), fit))


def do_at_once(parts: Sequence[Callable[[], None]], jobs: int) -> None:
    """Do all parts, in their order, `jobs` of them at a time. Raises the first error of a part.

    Parts that were begun then end with the process, and their VMs with it (vlab.runs).
    """
    if jobs == 1:
        for part in parts:
            part()
        return
    todo: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    for part in parts:
        todo.put(part)
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            while True:
                todo.get_nowait()()
        except queue.Empty:
            ended.put(None)
        except BaseException as why:
            ended.put(why)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for _ in workers:
        if why := ended.get():
            raise why
