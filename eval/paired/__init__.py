# SPDX-License-Identifier: GPL-2.0-only
"""Paired comparison of schedulers in one lab VM: interleaved runs, paired ratios, a noise floor.

cli -> runner -> (blocks, arms, workloads) -> records -> stats -> report. Only runner, arms and
bpfcost touch a VM.
"""
