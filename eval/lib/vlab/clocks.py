# SPDX-License-Identifier: GPL-2.0-only
"""One time for guest and host: the guest's CLOCK_MONOTONIC translated into the host's.

A guest calibrates its clock at boot and nobody corrects it afterwards, so besides the offset there
is a drift: two readings, one before and one after, tell both.
"""

from collections.abc import Callable
from dataclasses import dataclass

from .channel import ClockReading


def best_reading(ask: Callable[[], ClockReading], probes: int) -> ClockReading:
    """The one of several readings with the smallest error: that which nothing has delayed."""
    return min((ask() for _ in range(probes)), key=lambda reading: reading.error_ns)


@dataclass(frozen=True)
class Alignment:
    """Translates times of the guest between (and near) two readings."""

    before: ClockReading
    after: ClockReading

    @property
    def error_ns(self) -> int:
        """How far a translated time may be off, between the readings."""
        return max(self.before.error_ns, self.after.error_ns)

    @property
    def drift_ratio(self) -> float:
        """How much faster the guest's clock runs than the host's."""
        return (self.after.guest_ns - self.before.guest_ns) / (
            self.after.host_ns - self.before.host_ns
        ) - 1

    def to_host(self, guest_ns: int) -> int:
        """The host's time at a time of the guest's."""
        passed_ns = guest_ns - self.before.guest_ns
        return self.before.host_ns + round(passed_ns / (1 + self.drift_ratio))
