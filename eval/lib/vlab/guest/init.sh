#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# PID 1 in the guest: the host's / is the root, read-only; make the rest a system, then become the
# agent. Whatever fails ends PID 1, the kernel panics, and the lab boots again or says why.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev # whatever is there: it may be the host's, as a submount of the root
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mkdir -p /run/lab /run/home /run/kept
mount -t virtiofs lab /run/lab
# shellcheck source=/dev/null
. /run/lab/boot.env # KEEP: folders to keep in sight; SHARES: folders to mount writable

# A project that lives below /tmp or /var/tmp must not vanish under the tmpfs.
for i in "${!KEEP[@]}"; do
	mkdir "/run/kept/$i"
	mount --bind "${KEEP[i]}" "/run/kept/$i"
done
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=1777 tmp /var/tmp
for i in "${!KEEP[@]}"; do
	mkdir -p "${KEEP[i]}"
	mount --bind "/run/kept/$i" "${KEEP[i]}"
done
for i in "${!SHARES[@]}"; do
	mkdir -p "${SHARES[i]}"
	mount -t virtiofs "share$i" "${SHARES[i]}"
done

mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf || true
mount -t debugfs debug /sys/kernel/debug || true
mount -t tracefs trace /sys/kernel/tracing || true
# libbpf reads the kernel's configuration from here (extern __kconfig)
mount -t tmpfs boot /boot
cp /run/lab/config "/boot/config-$(uname -r)"
ip link set lo up || true
hostname vaware-guest

export HOME=/run/home LANG=C.UTF-8 TERM=dumb PATH="$PATH:$HOST_HOME/.cargo/bin"
ulimit -l unlimited
cd /
# LAB_INIT on the kernel's command line: something else to become, which starts the agent itself.
# shellcheck disable=SC2086 # a command line
exec ${LAB_INIT:-/usr/bin/python3 -S /run/lab/agent.py}
