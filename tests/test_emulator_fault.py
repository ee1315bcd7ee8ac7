# SPDX-License-Identifier: GPL-2.0-only
"""A test whose guest died of the emulator runs once more, with new fixtures; others do not."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

pytestmark = pytest.mark.long
boots, tries = [], []


@pytest.fixture(scope="module")
def guest():
    boots.append(1)
    return len(boots)


def test_before(guest):
    assert guest == 1


def test_dies_once(guest):
    tries.append(guest)
    if len(tries) == 1:
        raise RuntimeError("its console ends with 'Oops: int3: 0000 [#1] SMP'")
    assert guest == 2


def test_after(guest):
    assert guest == 2


def test_fails(guest):
    assert guest == 99


def test_dies_always(guest):
    raise RuntimeError("Oops: int3: 0000")
"""


def test_only_the_emulators_fault_is_given_another_try(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, tmp_path],
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
    )
    assert "2 failed, 3 passed" in done.stdout, done.stdout
    assert "test_fails" in done.stdout and "test_dies_always" in done.stdout
