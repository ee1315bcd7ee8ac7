# SPDX-License-Identifier: GPL-2.0-only
"""Topology in lab VMs: the stacks that a guest finds against those that the lab made."""
