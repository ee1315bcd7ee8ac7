# SPDX-License-Identifier: GPL-2.0-only
"""Trials of vcap in lab VMs: what `scx_vaware probe` finds, against what the host did."""
