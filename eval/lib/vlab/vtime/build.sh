#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Builds QEMU with virtual time from Debian's source package, unless that was done before.
# build.sh: build, and print where the emulator is. build.sh --where: print it alone.
#
# The result is kept by the hash of these sources. It needs: a C compiler, ninja, patch, bzip2, xz,
# python3 with venv and pip, headers of glib, pixman and libfdt, the key of Debian's archive
# (deploy/setup.sh lab installs them).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hash=$(cd "$here" && find qemu host qemu.patch build.sh -type f ! -name '*.md' | LC_ALL=C sort | xargs sha256sum | sha256sum)
kept=${XDG_CACHE_HOME:-$HOME/.cache}/scx_vaware/virtual-time/${hash:0:16}
emulator=$kept/qemu-system-x86_64

# The patch is made for this series.
QEMU_SERIES=10.0
# What QEMU's build needs of Python's.
WHEELS=(meson==1.5.0 pycotap==1.3.1)
CONFIGURE=(--target-list=x86_64-softmmu --without-default-features --enable-tcg --enable-vhost-user
    --enable-fdt=system --disable-docs --disable-install-blobs --python=/usr/bin/python3)

end() {
    echo "virtual time: $1" >&2
    exit 69
}

if [ "${1-}" = --where ]; then
    echo "$emulator"
    exit 0
fi
if [ -x "$emulator" ]; then
    echo "$emulator"
    exit 0
fi

echo 'virtual time: building QEMU with it, once; this takes some minutes...' >&2
work=$(mktemp -d "${TMPDIR:-/tmp}/scx_vaware-qemu.XXXXXX")
log=$work/build.log
trap 'rm -rf "$work"' EXIT

# step WHAT COMMAND...: the log is kept when it fails.
step() {
    local what=$1
    shift
    if ! "$@" >>"$log" 2>&1 </dev/null; then
        tail -n 5 "$log" >&2
        mkdir -p "$kept.failed"
        cp "$log" "$kept.failed/build.log"
        end "could not $what; the log is $kept.failed/build.log. Mend what it says, and run this again."
    fi
}

# The source tarball of the suite that has the series, by an apt run with lists of its own: it
# verifies the tarball by the archive's signed index. Ubuntu has no release with this series, so
# elsewhere than on Debian it is Debian 13's.
fetch() {
    local codename suite mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg own=$work/apt
    # shellcheck source=/dev/null
    if [ "$(. /etc/os-release && echo "$ID")" = debian ]; then
        codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
        # shellcheck disable=SC2016 # apt expands these
        mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
            awk -v codename="$codename" '$2 == codename { print $1; exit }')
    else
        codename=trixie
        mirror=${VAWARE_DEBIAN_MIRROR-}
        [ -n "$mirror" ] ||
            echo 'This system has no source of it: set VAWARE_DEBIAN_MIRROR to the address of a mirror of Debian.' >&2
    fi
    [ -n "$mirror" ] && [ -e "$keyring" ] || return 1
    mkdir -p "$own/lists/partial" "$own/cache/archives/partial"
    for suite in "$codename" "$codename-backports"; do
        echo "deb-src [signed-by=$keyring] $mirror $suite main"
    done >"$own/sources.list"
    # A server that falls silent must not hold this up for ever.
    local apt=(timeout --kill-after=30 300 apt-get -o "Dir::Etc::SourceList=$own/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$own/lists" -o "Dir::Cache=$own/cache" -o APT::Sandbox::User=root)
    "${apt[@]}" update || return
    version=$("${apt[@]/apt-get/apt-cache}" showsrc qemu | sed -n "s/^Version: \(.*:$QEMU_SERIES\..*\)/\1/p" | head -n 1)
    [ -n "$version" ] || return 1
    (cd "$work" && "${apt[@]}" source --download-only --tar-only "qemu=$version")
}

fetch_in_three_attempts() { fetch || fetch || fetch; }

step "fetch the source of QEMU $QEMU_SERIES from Debian's archive" fetch_in_three_attempts
tarball=$(echo "$work"/qemu_*.orig.tar.*)
mkdir "$work/source"
step 'unpack QEMU' tar -xf "$tarball" -C "$work/source" --strip-components=1
cd "$work/source"
step 'patch QEMU' patch -p1 -i "$here/qemu.patch"
cp -r "$here/qemu" vtime
cp -r "$here/host" vtime/host
# The source package leaves out firmware that the build wants to see, and that nobody will use.
for each in aarch64-code arm-code arm-vars i386-code i386-secure-code i386-vars loongarch64-code \
    loongarch64-vars riscv-code riscv-vars x86_64-code x86_64-microvm x86_64-secure-code; do
    [ -e "pc-bios/edk2-$each.fd.bz2" ] || : >"pc-bios/edk2-$each.fd.bz2"
done
step 'make a Python environment' /usr/bin/python3 -m venv "$work/python"
step 'fetch meson' "$work/python/bin/pip" download --quiet --no-deps -d python/wheels "${WHEELS[@]}"
mkdir build
cd build
step 'configure QEMU' ../configure "${CONFIGURE[@]}"
step 'build QEMU' ninja qemu-system-x86_64
strip qemu-system-x86_64
mkdir -p "$kept"
cp qemu-system-x86_64 "$emulator.new"
mv "$emulator.new" "$emulator"
echo "$emulator"
