# SPDX-License-Identifier: GPL-2.0-only
"""What all tests of eval/ share: its packages on the path, the marker of tests that boot VMs."""

import os
import sys
from pathlib import Path

EVAL = Path(__file__).parents[1]
KERNELS = EVAL.parents[1] / "shared" / "kernels"

sys.path.insert(0, str(EVAL))
if KERNELS.is_dir():
    os.environ.setdefault("VAWARE_LAB_KERNELS", str(KERNELS))


def pytest_configure(config):
    config.addinivalue_line("markers", "vm: boots a lab VM (needs root, QEMU and virtiofsd)")
    config.pluginmanager.import_plugin("guest_scheduler")  # fixtures: a VM to schedule in
