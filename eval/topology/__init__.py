# SPDX-License-Identifier: GPL-2.0-only
"""Trials of vtop: the stacks that a guest finds against those that the lab made."""
