#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# After a removal or a purge: nothing that the daemon wrote is left. The package manager removes the configuration.
set -e
case $1 in remove | purge | 0) ;; *) exit 0 ;; esac
if [ -e /run/scx_vaware/restore.toml ]; then
    # It was killed, and no start came after that. What to do would go with the record.
    echo "scx_vaware has changed files of /sys or /proc: set what follows as \"before\", or boot" >&2
    cat /run/scx_vaware/restore.toml >&2
fi
rm -rf /run/scx_vaware /run/private/scx_vaware
[ "$1" = remove ] || rm -rf /var/lib/scx_vaware /var/lib/private/scx_vaware
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl reset-failed scx_vaware.service 2>/dev/null || true
