# SPDX-License-Identifier: GPL-2.0-only
"""Comparison of schedulers: blocks of one seed each, verdicts for a page.

cli -> runner -> (plan, arms, stage) -> records -> stats -> report -> page, html (with plots).
stage is where arms run: local, or lab VMs. regress compares two versions, bundle makes the file
that a user sends back (private takes names out of it). Only stage, local, arms and bpfcost touch a
machine.
"""
