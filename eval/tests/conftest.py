# SPDX-License-Identifier: GPL-2.0-only
"""What all tests of eval/ share: its packages on the path, the marker of tests that boot VMs."""

import os
import sys
from pathlib import Path

import pytest

EVAL = Path(__file__).parents[1]

sys.path.insert(0, str(EVAL))


def pytest_configure(config):
    config.addinivalue_line("markers", "vm: boots a lab VM (needs root, QEMU and virtiofsd)")
    config.pluginmanager.import_plugin("guest_scheduler")  # fixtures: a VM to schedule in


def pytest_sessionfinish(session):
    """Fail if a test was skipped where VAWARE_NO_SKIPS says that all can run, as in CI."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("VAWARE_NO_SKIPS") and reporter and reporter.stats.get("skipped"):
        reporter.write_line("tests were skipped, which VAWARE_NO_SKIPS forbids; run pytest -rs")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
