# SPDX-License-Identifier: GPL-2.0-only
"""What the targets of the Makefile do first, and what they spare."""

import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
TARGETS = ["run", "build", "test", "lint", "test-unit", "test-vm", "twin", "eval", "results"]
TARGETS += ["eval-report", "peers", "bundle"]


def commands(*arguments):
    """The commands that make would run."""
    made = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *arguments],
        cwd=REPO,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_begins_with_installing_what_it_needs(target):
    assert commands(target)[0].startswith("deploy/setup.sh ")


def test_clean_removes_no_results():
    results = next(line for line in commands("results") if "eval/compare report" in line).split()[2]
    assert commands("clean") == ["cargo clean"]
    assert not (REPO / results).is_relative_to(REPO / "target")
    assert subprocess.run(["git", "check-ignore", "-q", results], cwd=REPO).returncode == 0
