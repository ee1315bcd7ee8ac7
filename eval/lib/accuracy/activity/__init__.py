# SPDX-License-Identifier: GPL-2.0-only
"""What the guest thinks was taken from it, against what the host took: the gaps that scx_vaware
finds in a lab VM, matched with the host's scheduler events.

cli -> session -> (loads, finders) -> matching -> report. Only session, loads and finders touch a
VM.
"""
