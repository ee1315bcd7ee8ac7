#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# After an installation, an upgrade or a downgrade: enables and starts nothing. What runs goes on with the new program.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart scx_vaware.service ||
    echo "scx_vaware has not started again, and the kernel's own scheduler runs; see systemctl status scx_vaware" >&2
