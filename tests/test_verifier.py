# SPDX-License-Identifier: GPL-2.0-only
"""How many instructions the kernel's verifier looks at, against what it was when last recorded."""

import json
from pathlib import Path

import pytest

from conftest import REPO
from guest_scheduler import DEFAULT_KERNEL, LIMIT_S, on_kernels

RECORD = Path(__file__).with_name("verified-instructions.txt")
READER = REPO / "eval/lib/compare/guest/bpf_stats.py"
TOLERATED = 1.1
SMALL = 1000  # instructions; what is below is verified at once, whatever its ratio


def recorded() -> tuple[str, dict[str, int]]:
    """The kernel's release, and instructions by program."""
    release, *lines = RECORD.read_text().splitlines()
    return release, {name: int(number) for name, number in map(str.split, lines)}


def regressions(before: dict[str, int], now: dict[str, int]) -> list[str]:
    """Programs that take clearly more to verify, each with its numbers."""
    return [
        f"{name}: {before.get(name, 0)} -> {number}"
        for name, number in now.items()
        if number > max(SMALL, before.get(name, 0) * TOLERATED)
    ]


def test_a_tenth_more_is_a_regression_and_less_is_not():
    before = {"dispatch": 70_000, "yield": 50}
    assert regressions(before, {"dispatch": 76_000, "yield": 900}) == []
    assert regressions(before, {"dispatch": 60_000}) == []
    assert regressions(before, {"dispatch": 78_000}) == ["dispatch: 70000 -> 78000"]
    assert regressions(before, {"new": 2_000}) == ["new: 0 -> 2000"]


@pytest.mark.vm
@on_kernels(DEFAULT_KERNEL)
def test_programs_do_not_take_more_to_verify_than_recorded(scheduler):
    asked = scheduler.vm.run(f"python3 -S {READER}", LIMIT_S)
    assert asked.rc == 0, asked.output
    programs = json.loads(asked.output)
    now = {p["name"]: p["verified_insns"] for p in programs if p["name"].startswith("vaware_")}
    release, before = recorded()
    print("\n".join(f"{name} {number}" for name, number in sorted(now.items())))
    if scheduler.vm.kernel.release == release:  # verifiers differ
        worse = regressions(before, now)
        assert not worse, f"{worse}; make them simpler, or record what was printed in {RECORD}"
