# SPDX-License-Identifier: GPL-2.0-only
"""What the targets of the Makefile do first, and what they spare."""

import shutil
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
TARGETS = ["run", "build", "packages", "test", "lint", "test-unit", "test-vm", "test-long"]
TARGETS += ["test-fresh", "sim", "eval", "eval-report", "results", "papers", "scale"]
TARGETS += ["timeline", "peers", "bundle", "instances", "fuzz", "test-soak"]


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


def test_a_whole_comparison_writes_the_page_and_a_quick_one_does_not():
    def writes_page(*arguments):
        return any("--page docs/results/comparison.md" in line for line in commands(*arguments))

    assert writes_page("eval") and writes_page("results")
    assert not writes_page("eval", "EVAL_QUICK=1")


def bpf_clang(path, **environment):
    """What deploy/bpf-clang says to --version with the programs in folder `path` alone."""
    return subprocess.run(
        [REPO / "deploy/bpf-clang", "--version"],
        env={"PATH": str(path), **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def without_clang(tmp_path):
    """A folder of programs among which there is no clang."""
    for name in ["bash", "dirname", "env", "grep", "sed", "sort"]:
        (tmp_path / name).symlink_to(shutil.which(name))
    return tmp_path


def test_the_compiler_for_bpf_is_the_one_asked_for(without_clang):
    asked_for = without_clang / "mine"
    asked_for.write_text('#!/bin/sh\necho "clang version 99, given $*"\n')
    asked_for.chmod(0o755)
    assert bpf_clang(without_clang, VAWARE_CLANG="mine").stdout == (
        "clang version 99, given --version\n"
    )


def test_without_a_clang_its_version_says_what_to_run(without_clang):
    told = bpf_clang(without_clang)
    assert told.returncode != 0
    assert told.stdout.startswith("clang version 0") and "deploy/setup.sh" in told.stdout


@pytest.mark.parametrize("arguments, named", [(["debian11"], "debian12"), (["--warm"], "--warm")])
def test_a_fresh_system_that_does_not_exist_is_refused(arguments, named):
    refused = subprocess.run(
        [REPO / "deploy/test-fresh.sh", *arguments], capture_output=True, text=True
    )
    assert refused.returncode == 64 and named in refused.stderr
