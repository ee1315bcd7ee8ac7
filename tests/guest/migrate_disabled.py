#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Be preempted with migration disabled: migrate_disabled.py SECONDS

The kernel disables migration of a task for as long as it runs a BPF program for it.
"""

import ctypes
import os
import struct
import sys
import time

SYS_BPF = 321  # x86-64
PROG_LOAD, PROG_TEST_RUN = 5, 10
SOCKET_FILTER = 1
PROGRAM = struct.pack("<BBhi", 0xB7, 0, 0, 0) * 2000 + struct.pack("<BBhi", 0x95, 0, 0, 0)
PACKET = bytes(64)


def bpf(command: int, attributes: bytes) -> int:
    """The bpf(2) system call. Raises OSError."""
    result = ctypes.CDLL(None, use_errno=True).syscall(
        SYS_BPF, command, attributes, len(attributes)
    )
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return result


def address(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value


def main() -> None:
    license_name = b"GPL"
    load = struct.pack(
        "<IIQQ", SOCKET_FILTER, len(PROGRAM) // 8, address(PROGRAM), address(license_name)
    )
    program = bpf(PROG_LOAD, load)
    run = struct.pack("<IIIIQQI4x", program, 0, len(PACKET), 0, address(PACKET), 0, 10_000)
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        bpf(PROG_TEST_RUN, run)


main()
