# SPDX-License-Identifier: GPL-2.0-only
"""Capacities in lab VMs: what `scx_vaware probe` finds, against what the host did."""
