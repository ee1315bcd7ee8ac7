#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the guest: prints the struct_ops programs that are loaded, as JSON.

[{"id", "name" (the kernel keeps 15 characters), "run_time_ns", "run_cnt", "verified_insns"}]; run
time and count are kept while kernel.bpf_stats_enabled is 1, the last one is how many instructions
the verifier looked at. Asks the kernel itself, so no fitting bpftool is needed.

`bpf_stats.py memory` prints {"verified_insns", "program_bytes", "map_bytes"} instead: of programs
and maps of all kinds together, in bytes as the kernel accounts them.
"""

import ctypes
import json
import os
import sys
from ctypes import c_char, c_uint8, c_uint32, c_uint64

SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD = 11, 13, 15
BPF_MAP_GET_NEXT_ID, BPF_MAP_GET_FD_BY_ID = 12, 14
BPF_PROG_TYPE_STRUCT_OPS = 27


class ProgInfo(ctypes.Structure):
    """struct bpf_prog_info of linux/bpf.h, as far as it is needed."""

    _fields_ = [
        ("type", c_uint32),
        ("id", c_uint32),
        ("tag", c_uint8 * 8),
        ("program_sizes", c_uint32 * 2),
        ("program_texts", c_uint64 * 2),
        ("load_time_ns", c_uint64),
        ("created_by_uid", c_uint32),
        ("nr_map_ids", c_uint32),
        ("map_ids", c_uint64),
        ("name", c_char * 16),
        ("ifindex", c_uint32),
        ("gpl_compatible", c_uint32),
        ("netns", c_uint64 * 2),
        ("debug_information", c_uint64 * 11),
        ("run_time_ns", c_uint64),
        ("run_cnt", c_uint64),
        ("recursion_misses", c_uint64),
        ("verified_insns", c_uint32),
    ]


class Attr(ctypes.Structure):
    """union bpf_attr, for the three calls that are made: ids, or an info request."""

    _fields_ = [("first", c_uint32), ("second", c_uint32), ("pointer", c_uint64)]


libc = ctypes.CDLL(None, use_errno=True)


def bpf(command: int, attr: Attr) -> int:
    """The system call; raises OSError."""
    result = libc.syscall(SYS_BPF, command, ctypes.byref(attr), ctypes.sizeof(attr))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def all_ids(next_id: int = BPF_PROG_GET_NEXT_ID) -> list[int]:
    """The ids of all programs, or of all maps."""
    ids, attr = [], Attr()
    while True:
        try:
            bpf(next_id, attr)
        except FileNotFoundError:
            return ids
        ids.append(attr.second)
        attr.first = attr.second


def program(number: int) -> ProgInfo:
    """What the kernel tells of a program; raises OSError if it is gone."""
    descriptor = bpf(BPF_PROG_GET_FD_BY_ID, Attr(number))
    info = ProgInfo()
    try:
        attr = Attr(descriptor, ctypes.sizeof(info), ctypes.addressof(info))
        bpf(BPF_OBJ_GET_INFO_BY_FD, attr)
    finally:
        os.close(descriptor)
    return info


def locked_bytes(next_id: int, fd_by_id: int) -> int:
    """The memory of all programs, or of all maps."""
    total = 0
    for number in all_ids(next_id):
        try:
            descriptor = bpf(fd_by_id, Attr(number))
        except FileNotFoundError:
            continue  # unloaded meanwhile
        with open(f"/proc/self/fdinfo/{descriptor}") as lines:
            total += sum(int(line.split()[1]) for line in lines if line.startswith("memlock:"))
        os.close(descriptor)
    return total


def memory() -> dict[str, int]:
    """What all programs and maps took to load, and take."""
    return {
        "verified_insns": sum(program(number).verified_insns for number in all_ids()),
        "program_bytes": locked_bytes(BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID),
        "map_bytes": locked_bytes(BPF_MAP_GET_NEXT_ID, BPF_MAP_GET_FD_BY_ID),
    }


def schedulers() -> list[dict]:
    """The struct_ops programs."""
    found = []
    for number in all_ids():
        try:
            info = program(number)
        except FileNotFoundError:
            continue  # unloaded meanwhile
        if info.type == BPF_PROG_TYPE_STRUCT_OPS:
            found.append(
                {
                    "id": info.id,
                    "name": info.name.decode(),
                    "run_time_ns": info.run_time_ns,
                    "run_cnt": info.run_cnt,
                    "verified_insns": info.verified_insns,
                }
            )
    return found


json.dump(memory() if sys.argv[1:] == ["memory"] else schedulers(), sys.stdout)
