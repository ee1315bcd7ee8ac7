# SPDX-License-Identifier: GPL-2.0-only
"""A kernel's BTF, read just far enough to tell whether sched_ext schedulers can load on it.

Kernels built with too old a pahole describe some scx kfuncs with the argument that the verifier
adds by itself (`struct bpf_prog_aux *`). No scheduler loads there, though sched_ext is configured.
"""

import struct

MAGIC = 0xEB9F
KIND_PTR, KIND_STRUCT, KIND_CONST, KIND_FUNC, KIND_FUNC_PROTO = 2, 4, 10, 12, 13
# Bytes that follow the 12-byte header of a type: per kind (fixed, per member).
EXTRA = {
    **{1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8)},
    **{14: (4, 0), 15: (0, 12), 17: (4, 0), 19: (0, 12)},
}
IMPLICIT_TYPE = b"bpf_prog_aux"


def malformed_kfuncs(blob: bytes) -> list[str]:
    """Names of the scx kfuncs whose prototype carries the implicit argument; empty is good.

    Raises ValueError for what is no BTF, or has no scx kfunc.
    """
    try:
        types, names = _types(blob)
    except struct.error as why:
        raise ValueError(f"damaged BTF ({why})") from None
    scx = [
        (names(name), target)
        for kind, name, target, _ in types
        if kind == KIND_FUNC and names(name).startswith((b"scx_bpf_", b"__scx_bpf_"))
    ]
    if not scx:
        raise ValueError("BTF without a kfunc of sched_ext")

    def is_implicit(type_id: int) -> bool:
        kind, _, target, _ = types[type_id]
        if kind != KIND_PTR:
            return False
        kind, name, inner, _ = types[target]
        if kind == KIND_CONST:
            kind, name, _, _ = types[inner]
        return kind == KIND_STRUCT and names(name) == IMPLICIT_TYPE

    return [
        name.decode()
        for name, prototype in scx
        if not name.endswith(b"_impl") and any(map(is_implicit, types[prototype][3]))
    ]


def _types(blob: bytes):
    """All types as (kind, name offset, size or target, parameter types), and the name reader."""
    magic, _, _, header, type_off, type_len, string_off, _ = struct.unpack_from("<HBBIIIII", blob)
    if magic != MAGIC:
        raise ValueError("no BTF")
    strings = header + string_off

    def names(offset: int) -> bytes:
        return blob[strings + offset : blob.index(b"\0", strings + offset)]

    types = [(0, 0, 0, ())]  # void
    at, end = header + type_off, header + type_off + type_len
    while at < end:
        name, info, target = struct.unpack_from("<III", blob, at)
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        fixed, each = EXTRA.get(kind, (0, 0))
        parameters = ()
        if kind == KIND_FUNC_PROTO:
            parameters = struct.unpack_from(f"<{members * 2}I", blob, at + 12)[1::2]
        types.append((kind, name, target, parameters))
        at += 12 + fixed + members * each
    return types, names
