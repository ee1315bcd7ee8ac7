#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Become systemd as PID 1 of the guest, with the lab's agent as a service of it, and with this
# checkout's unit installed. Called by the lab's init.sh when everything is mounted.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# The host's root is read-only, and what is enabled on the host is not wanted here.
mount -t tmpfs -o mode=755 units /etc/systemd/system
mount -t tmpfs -o mode=755 state /var/lib # for StateDirectory=
mkdir -p /run/systemd/system /run/systemd/journald.conf.d
echo "0123456789abcdef0123456789abcdef" >/run/machine-id
mount --bind /run/machine-id /etc/machine-id
# The checkout's program and configuration are put where the test says.
if [ "${UNIT-}" != none ]; then
    cp "$repo/deploy/scx_vaware.service" /etc/systemd/system/
    mkdir -p /etc/systemd/system/scx_vaware.service.d
    cat >/etc/systemd/system/scx_vaware.service.d/here.conf <<END
[Service]
ExecStart=
ExecStart=/run/vaware/scx_vaware run --config /run/vaware/scx_vaware.toml
END
    mkdir /run/vaware
fi
cat >/run/systemd/system/lab.target <<END
[Unit]
Description=The lab
DefaultDependencies=no
Requires=lab.service
AllowIsolate=yes
END
cat >/run/systemd/system/lab.service <<END
[Unit]
Description=The lab's agent
DefaultDependencies=no
[Service]
ExecStart=/usr/bin/python3 -S /run/lab/agent.py
StandardOutput=null
TasksMax=infinity
Delegate=yes
END
for unit in systemd-udevd systemd-udev-trigger systemd-timesyncd systemd-journal-flush \
    systemd-tmpfiles-setup systemd-tmpfiles-setup-dev systemd-sysusers systemd-random-seed \
    systemd-update-utmp systemd-remount-fs systemd-modules-load systemd-binfmt; do
    ln -s /dev/null "/run/systemd/system/$unit.service"
done
exec /lib/systemd/systemd --unit=lab.target --log-target=kmsg --show-status=no
