# SPDX-License-Identifier: GPL-2.0-only
"""The lab: VMs whose vCPUs the host stops, throttles and stacks on demand. See README.md."""

from . import kernels, shapes, truth
from .channel import ClockReading, Handle, Result
from .clocks import Alignment
from .errors import CommandTimeout, LabError
from .kernels import Kernel
from .truth import InactivePeriods, VcpuTruth
from .vm import Vm, find_kernel

__all__ = [
    "Alignment",
    "ClockReading",
    "CommandTimeout",
    "Handle",
    "InactivePeriods",
    "Kernel",
    "LabError",
    "Result",
    "VcpuTruth",
    "Vm",
    "find_kernel",
    "kernels",
    "shapes",
    "truth",
]
