# SPDX-License-Identifier: GPL-2.0-only
"""How the host's own files are served to a guest."""

from pathlib import Path

import pytest

from vlab import host


@pytest.mark.parametrize(
    "options, begins, ends",
    [
        ("--shared-dir --readonly", "virtiofsd", "--readonly"),
        ("--shared-dir", "unshare", "--sandbox=chroot"),  # as in Ubuntu 24.04
        ("-o source=PATH", "unshare", "-osandbox=chroot"),  # as in Debian 12
    ],
)
def test_no_virtiofsd_may_write_what_is_read_only(tmp_path, monkeypatch, options, begins, ends):
    program = tmp_path / "virtiofsd"
    program.write_text(f"#!/bin/sh\necho '{options}'\n")
    program.chmod(0o755)
    monkeypatch.setenv(host.VIRTIOFSD_VARIABLE, str(program))
    command = host.virtiofsd.__wrapped__().command(Path("/socket"), Path("/"), True)
    assert Path(command[0]).name == begins
    assert command[-1] == ends
    assert (begins == "unshare") == (host.READ_ONLY in command)
