# SPDX-License-Identifier: GPL-2.0-only
"""What all Python tests share: packages on the path, markers, the order of tests in VMs."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

REPO = Path(__file__).resolve().parent
FAILED = pytest.StashKey[bool]()
TOLD = "told"  # record_property(TOLD, text): also shown of a test that passes, and by xdist

# By wall time TCG has a thread for each vCPU, which may run into the breakpoint of a patch of
# the kernel's text (a static key that flips when a scheduler comes or goes) after the patch is
# over. No real CPU does so, nor can it happen by virtual time, in a single thread.
EMULATOR_FAULT = "Oops: int3"

sys.path[:0] = [str(REPO / "eval/lib"), str(REPO / "tests")]


def pytest_configure(config):
    config.addinivalue_line("markers", "vm: boots a lab VM (needs root, QEMU and virtiofsd)")
    config.addinivalue_line("markers", "long: by wall time, or a minute or more (make test-long)")
    config.pluginmanager.import_plugin("guest_scheduler")  # fixtures: a VM to schedule in


def pytest_itemcollected(item):
    """Have tests that share a VM run in one process (pytest-xdist's loadgroup)."""
    item.add_marker(pytest.mark.xdist_group(group(item)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Have tests that share a VM follow each other, the largest group first."""
    groups = {item: group(item) for item in items}
    sizes = Counter(groups.values())
    items.sort(key=lambda item: (-sizes[groups[item]], groups[item]))


def group(item):
    """The VM of a test: that of a kernel, with or without a scheduler, else its module's own."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "kernel" in params:
        return f"{params['kernel']}{'-scheduler' * ('scheduler' in item.fixturenames)}"
    return item.module.__name__


def pytest_runtest_protocol(item, nextitem):
    """Run a test by wall time once more, in VMs booted anew, if its guest died of the emulator."""
    if not item.get_closest_marker("long"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed and EMULATOR_FAULT in report.longreprtext for report in reports):
        item.session._setupstate.teardown_exact(None)
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_runtest_makereport(item, call):
    """Tell the fixtures of a test that it failed."""
    if call.excinfo and not call.excinfo.errisinstance(pytest.skip.Exception):
        item.stash[FAILED] = True


def pytest_terminal_summary(terminalreporter):
    """Print what tests have to tell."""
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, text in report.user_properties:
            if name == TOLD and report.when == "call":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(text)


def pytest_sessionfinish(session):
    """Fail if a test was skipped where VAWARE_NO_SKIPS says that all can run, as in CI."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("VAWARE_NO_SKIPS") and reporter and reporter.stats.get("skipped"):
        reporter.write_line("tests were skipped, which VAWARE_NO_SKIPS forbids; run pytest -rs")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
