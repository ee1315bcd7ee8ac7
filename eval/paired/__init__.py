# SPDX-License-Identifier: GPL-2.0-only
"""Paired comparison of schedulers: interleaved runs, paired ratios, a noise floor.

cli -> runner -> (blocks, arms, stage) -> records -> stats -> report -> html (with plots). stage is
where arms run: local, or lab VMs. regress compares two versions, bundle makes the file that a user
sends back (private takes names out of it). Only stage, local, arms and bpfcost touch a machine.
"""
