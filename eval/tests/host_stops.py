# SPDX-License-Identifier: GPL-2.0-only
"""How long the host stopped a vCPU at most, within any time of a given length."""

import bisect
import threading
import time

from lab import VcpuTruth, Vm

SAMPLE_S = 0.02


class HostStops:
    """Samples the host's truth while the context lasts.

    What a guest saw on its own clock is compared with the worst that the host did in any time of
    that length: the two clocks need not agree, and a busy host fails no test.
    """

    def __init__(self, vm: Vm):
        self._vm = vm
        self._samples: list[tuple[float, list[VcpuTruth]]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "HostStops":
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._take()

    def longest_s(self, vcpu: int, window_s: float) -> float:
        """Seconds that the host took from `vcpu` within the worst window of `window_s` seconds."""
        times = [when for when, _ in self._samples]
        taken_ns = [truths[vcpu].delay_ns for _, truths in self._samples]
        worst_ns = 0
        for first, when in enumerate(times):
            last = min(bisect.bisect_left(times, when + window_s) + 1, len(times) - 1)
            worst_ns = max(worst_ns, taken_ns[last] - taken_ns[first])
        return worst_ns / 1e9

    def run_s(self, vcpu: int) -> float:
        """Seconds that `vcpu` ran on a core of the host while the context lasted."""
        return (self._samples[-1][1][vcpu].run_ns - self._samples[0][1][vcpu].run_ns) / 1e9

    def _take(self) -> None:
        self._samples.append((time.monotonic(), self._vm.truth()))

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self._take()
