# SPDX-License-Identifier: GPL-2.0-only
"""BTF blobs, made by hand, of kernels on which schedulers load and on which they do not."""

import struct

import pytest

from vlab import btf


class Blob:
    """A BTF blob that grows by one type at a time; each call returns the type's id."""

    def __init__(self):
        self.strings = b"\0"
        self.types = b""
        self.count = 0

    def add(self, kind, name="", target=0, members=0, extra=b""):
        offset = len(self.strings) if name else 0
        self.strings += name.encode() + b"\0" if name else b""
        self.types += struct.pack("<III", offset, kind << 24 | members, target) + extra
        self.count += 1
        return self.count

    def function(self, name, *parameters):
        extra = b"".join(struct.pack("<II", 0, parameter) for parameter in parameters)
        prototype = self.add(btf.KIND_FUNC_PROTO, members=len(parameters), extra=extra)
        self.add(btf.KIND_FUNC, name, prototype)

    def bytes(self):
        sizes = (0, len(self.types), len(self.types), len(self.strings))
        return struct.pack("<HBBIIIII", btf.MAGIC, 1, 0, 24, *sizes) + self.types + self.strings


@pytest.fixture
def blob():
    made = Blob()
    made.long = made.add(1, "long", 8, extra=b"\0\0\0\0")
    record = made.add(btf.KIND_STRUCT, "bpf_prog_aux", 16, 1, struct.pack("<III", 0, made.long, 0))
    made.aux = made.add(btf.KIND_PTR, target=made.add(btf.KIND_CONST, target=record))
    return made


def test_an_implicit_argument_in_a_public_kfunc_is_malformed(blob):
    blob.function("scx_bpf_kick_cpu", blob.long, blob.aux)
    blob.function("scx_bpf_nr_cpu_ids")
    assert btf.malformed_kfuncs(blob.bytes()) == ["scx_bpf_kick_cpu"]


def test_an_implicit_argument_in_the_impl_variant_is_as_it_should_be(blob):
    blob.function("scx_bpf_kick_cpu", blob.long)
    blob.function("scx_bpf_kick_cpu_impl", blob.long, blob.aux)
    blob.function("bpf_other", blob.aux)
    assert btf.malformed_kfuncs(blob.bytes()) == []


def test_a_kernel_without_scx_kfuncs_is_no_candidate(blob):
    blob.function("bpf_other", blob.long)
    with pytest.raises(ValueError, match="sched_ext"):
        btf.malformed_kfuncs(blob.bytes())


def test_what_is_no_btf_is_refused():
    with pytest.raises(ValueError, match="no BTF"):
        btf.malformed_kfuncs(b"\x7fELF" + bytes(60))
    with pytest.raises(ValueError, match="damaged"):
        btf.malformed_kfuncs(b"\x9f\xeb")
