#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Before a removal (deb: remove; rpm: 0 versions left), not before an upgrade.
set -e
case $1 in remove | 0) ;; *) exit 0 ;; esac
if [ -d /run/systemd/system ]; then systemctl stop scx_vaware.service; fi
if command -v systemctl >/dev/null; then systemctl --quiet disable scx_vaware.service; fi
