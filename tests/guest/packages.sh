#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# As systemd.sh, without this checkout's unit, and with what packages write to made writable. Most kernels of the lab
# have no overlay file system, so files of the host are links there.
set -euo pipefail
host=/run/host
mkdir "$host"
mount --bind / "$host"

# writable FOLDER COPY...: cover the folder with what the command COPY makes of the host's.
writable() {
    local folder=$1 new=/run/writable${1//\//-}
    shift
    mkdir "$new"
    mount -t tmpfs -o mode=755 writable "$new"
    "$@" "$host$folder" "$new"
    mount --bind "$new" "$folder"
}
linked() { cp -rsT "$1" "$2"; }
copied() { cp -aT "$1" "$2"; }
# Links to the entries, but folders of its own for what packages have files in.
entries() {
    ln -s "$1"/* "$2"
    for name in man doc bash-completion zsh fish; do
        rm -f "$2/$name"
        mkdir "$2/$name"
    done
    mkdir "$2/man/man8"
}

writable /etc copied # systemd locks files there, and follows no links
writable /usr/lib/systemd/system copied
writable /usr/share entries
writable /usr/bin linked
mkdir -p /run/dpkg/info /run/dpkg/updates
# Who owns the folders of the system, so that a removal leaves them.
cat >/run/dpkg/status <<END
Package: base-files
Status: install ok installed
Version: 1
Architecture: all
Maintainer: nobody
Description: folders
END
for folder in /. /etc /usr /usr/bin /usr/lib /usr/lib/systemd{,/system} /usr/share /usr/share/{man{,/man8},doc,bash-completion,zsh,fish}; do
    echo "$folder"
done >/run/dpkg/info/base-files.list
UNIT=none exec "$(dirname "${BASH_SOURCE[0]}")/systemd.sh"
