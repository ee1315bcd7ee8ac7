# SPDX-License-Identifier: GPL-2.0-only
"""deploy/setup.sh, when a server that it downloads from falls silent."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]

# A Go whose download never ends, as often as the file `silent` has lines; and apt with package
# lists of which the same is true, which installs a newer Go.
GO = """#!/bin/bash
case "$1 $2" in
version\\ -m) cat "$3" ;;
version*) echo "go version go$(cat {folder}/version) linux/amd64" ;;
install*)
    if [ -s {folder}/silent ]; then
        sed -i 1d {folder}/silent
        exec sleep 1000
    fi
    version=${{2##*@}} path=${{2%@*}}
    printf '\\tmod\\t%s\\t%s\\n' "$path" "$version" >"$GOBIN/${{path##*/}}"
    ;;
esac
"""
APT = """#!/bin/bash
case "$*" in
*update*)
    if [ -s {folder}/silent-lists ]; then
        sed -i 1d {folder}/silent-lists
        exec sleep 1000
    fi
    touch {folder}/lists
    ;;
*golang-go*) [ -e {folder}/lists ] && echo 1.99.0 >{folder}/version ;;
esac
"""


@pytest.fixture
def setup(tmp_path):
    """Runs a copy of the script for `packages` in a folder that has none of Go's tools."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "target/tools/bin").mkdir(parents=True)
    shutil.copy(REPO / "deploy/setup.sh", tmp_path / "deploy/setup.sh")
    for name, text in [("go", GO), ("apt-get", APT)]:
        (tmp_path / name).write_text(text.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)

    def run(silent=0, silent_lists=0, version="1.99.0"):
        (tmp_path / "silent").write_text("once\n" * silent)
        (tmp_path / "silent-lists").write_text("once\n" * silent_lists)
        (tmp_path / "version").write_text(version)
        return subprocess.run(
            [tmp_path / "deploy/setup.sh", "packages"],
            env={
                **os.environ,
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "TMPDIR": str(tmp_path),
                "VAWARE_SETUP_LIMIT_S": "1",
            },
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_a_download_that_falls_silent_is_begun_anew(setup):
    done = setup(silent=2)
    assert done.returncode == 0, done.stderr
    assert "setup: To build nfpm..." in done.stderr


def test_a_server_that_stays_silent_ends_the_run_with_a_sentence(setup, tmp_path):
    done = setup(silent=9)
    assert done.returncode == 69
    assert "Could not build nfpm in 3 attempts of at most 1 s." in done.stderr
    assert list(tmp_path.glob("scx_vaware-setup.*.log")), "the log is kept"
    assert not [each for each in tmp_path.glob("scx_vaware-setup.*") if each.is_dir()]


@pytest.mark.skipif(os.geteuid() != 0, reason="as another user sudo finds its own apt-get")
def test_package_lists_that_fall_silent_are_read_anew(setup):
    done = setup(silent_lists=2, version="1.2.0")
    assert done.returncode == 0, done.stderr
    assert "setup: To read the package lists..." in done.stderr
