# SPDX-License-Identifier: GPL-2.0-only
"""Finding the guest's steal clocks in its memory: without a VM."""

from lab import steal_clock


def test_ram_above_the_hole_follows_that_below():
    mib = 1 << 20
    assert steal_clock.offset_in_ram(0x1234, 1024 * mib) == 0x1234
    assert steal_clock.offset_in_ram(0xB000_0000, 3072 * mib) == 0xB000_0000
    assert steal_clock.offset_in_ram(0x1_0000_0040, 8192 * mib) == 0xC000_0040
