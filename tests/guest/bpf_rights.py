# SPDX-License-Identifier: GPL-2.0-only
"""Ask the kernel for what loading a scheduler takes first: a map, and a struct_ops program.

Prints the errno of each, by name. The program is wrong otherwise, so that a kernel that has
looked at the rights and is content says EINVAL or the like.
"""

import ctypes
import errno
import struct

SYS_BPF = 321
BPF_MAP_CREATE, BPF_PROG_LOAD = 0, 5
BPF_MAP_TYPE_HASH, BPF_PROG_TYPE_STRUCT_OPS = 1, 27
EXIT = struct.pack("<BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)  # return 0
GPL = ctypes.create_string_buffer(b"GPL")

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command: int, attributes: bytes) -> str:
    """The name of the errno, or `done`."""
    padded = ctypes.create_string_buffer(attributes.ljust(152, b"\0"), 152)
    if libc.syscall(SYS_BPF, command, padded, len(padded)) >= 0:
        return "done"
    number = ctypes.get_errno()
    return errno.errorcode.get(number, str(number))  # some are the kernel's own


text = ctypes.create_string_buffer(EXIT, len(EXIT))
print("map", bpf(BPF_MAP_CREATE, struct.pack("<5I", BPF_MAP_TYPE_HASH, 4, 8, 1, 0)))
print(
    "program",
    bpf(
        BPF_PROG_LOAD,
        struct.pack(
            "<IIQQ", BPF_PROG_TYPE_STRUCT_OPS, 2, ctypes.addressof(text), ctypes.addressof(GPL)
        ),
    ),
)
