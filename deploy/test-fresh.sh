#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Does what a new user does, on systems that have nothing: a minimal root of each, a clone of HEAD, make.
set -euo pipefail

readonly SYSTEMS=(debian12 debian13 ubuntu24.04)
readonly EXIT_FAILED=1 EXIT_USAGE=64 EXIT_NO_PERMISSION=77
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly repo
readonly logs=$repo/target/test-fresh
readonly bases=${XDG_CACHE_HOME:-$HOME/.cache}/scx_vaware/roots
# Where things are in the root.
readonly CLONE=/root/scx_vaware RUST=/opt/rust KERNELS=/opt/kernels

usage() {
    cat <<END
Usage: deploy/test-fresh.sh [OPTIONS] [${SYSTEMS[*]}]

Runs \`make run\` and \`make test\` in a minimal root of each system, with a clone of HEAD: as root, and with
nothing installed but git, make and Rust. Prints a table; logs go to target/test-fresh.
  --targets LIST       make targets instead of 'run test', separated by spaces
  --download-kernels   do not hand on VAWARE_LAB_KERNELS: the lab has to find its kernels itself
  --warm DIR           begin with a copy of DIR/release, another clone's target folder: what has not
                       changed is not built again, so this is for mending, not for the last word
  --keep               keep the roots, and say where they are

Environment:
  VAWARE_FRESH_RUST    folder of the Rust toolchain, seen read-only in the root (default: the one in use)
  VAWARE_DEBIAN_MIRROR, VAWARE_UBUNTU_MIRROR
                       archives to use (default: what this system's apt uses, else debootstrap's default)
  FOR                  how long \`make run\` runs (default 20s)

Base systems are kept in $bases; remove them to have them made anew. Certificates
in /usr/local/share/ca-certificates and the variables http_proxy, https_proxy and no_proxy are handed on.

Exit codes: 0 all passed, $EXIT_FAILED a step failed, $EXIT_USAGE usage, $EXIT_NO_PERMISSION root is needed.
END
}

say() { printf 'test-fresh: %s\n' "$*" >&2; }

say_end() {
    say "$2"
    exit "$1"
}

# ---------------------------------------------------------------- the systems

# describe SYSTEM: set distribution, codename, components, suites and keyring.
describe() {
    case $1 in
    debian12) distribution=debian codename=bookworm ;;
    debian13) distribution=debian codename=trixie ;;
    ubuntu24.04) distribution=ubuntu codename=noble ;;
    *) return 1 ;;
    esac
    case $distribution in
    debian) components=main suites="$codename $codename-updates" newest_script=sid ;;
    ubuntu) components='main universe' suites="$codename $codename-updates $codename-security" newest_script=gutsy ;;
    esac
    keyring=/usr/share/keyrings/$distribution-archive-keyring.gpg
}

# Print the archive's address, or nothing for debootstrap's default.
mirror() {
    local variable=VAWARE_${distribution^^}_MIRROR
    if [ -n "${!variable:-}" ]; then
        echo "${!variable}"
    else
        # shellcheck disable=SC2016 # apt expands it
        apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
            sed 's,/$,,' | awk -v end="/$distribution" 'substr($0, length($0) - length(end) + 1) == end { print; exit }'
    fi
}

# Make the base system of SYSTEM, unless it is kept from before.
make_base() {
    local base=$bases/$1.tar script=/usr/share/debootstrap/scripts/$codename uri suite
    [ ! -e "$base" ] || return 0
    [ -e "$script" ] || script=${script%/*}/$newest_script # of a release younger than debootstrap
    debootstrap --variant=minbase --keyring="$keyring" "$codename" "$root" "$(mirror)" "$script" || return
    # debootstrap writes one suite and one component; a real system has these.
    uri=$(awk '$1 == "deb" { print $2; exit }' "$root/etc/apt/sources.list")
    for suite in $suites; do echo "deb $uri $suite $components"; done >"$root/etc/apt/sources.list"
    mkdir -p "$bases" && tar -C "$root" -cf "$base.part" . && mv "$base.part" "$base"
}

# Unpack SYSTEM's base to $root, and put there what a user has before he begins.
make_root() {
    local ours=/usr/local/share/ca-certificates
    rm -rf --one-file-system "$root" && mkdir "$root" && tar -C "$root" -xf "$bases/$1.tar" &&
        cp -L /etc/resolv.conf /etc/hosts "$root/etc/" &&
        mkdir -p "$root/$ours" "$root$RUST" "$root$KERNELS" && cp -r "$ours/." "$root/$ours" &&
        git clone --quiet --depth 1 "file://$repo" "$root$CLONE" &&
        if [ -n "$warm" ]; then mkdir "$root$CLONE/target" && cp -a "$warm/release" "$root$CLONE/target/"; fi &&
        inside apt-get update && inside apt-get install -y --no-install-recommends git make
}

# ---------------------------------------------------------------- inside a root

# inside COMMAND...: run it in the clone in $root, in a mount namespace of its own that has this root for
# its root. Without a PID namespace, for the lab reads the kernel's tracing, which knows the host's ids.
inside() {
    local rc=0
    # shellcheck disable=SC2016 # the shell in there expands it
    root=$root rust=$rust kernels=$kernels unshare --mount --propagation private --fork --kill-child bash -euc '
        mount --bind "$root" "$root"
        cd "$root"
        mount -t proc proc proc
        mount --rbind /sys sys
        mount --rbind /dev dev
        mount -t tmpfs -o mode=1777 shm dev/shm
        mount -t tmpfs -o mode=755 run run
        mount --bind -o ro "$rust" ".'$RUST'"
        if [ -n "$kernels" ]; then mount --bind -o ro "$kernels" ".'$KERNELS'"; fi
        mkdir -p .host
        pivot_root . .host
        cd /
        umount -l /.host
        cd '$CLONE'
        exec "$@"
    ' inside env -i "${environment[@]}" "$@" </dev/null || rc=$?
    end_leftovers
    return $rc
}

# End what the command before has left running, and say so: nothing should be.
end_leftovers() {
    local processes try
    for try in {1..50}; do
        processes=$(grep -lsz "^VAWARE_FRESH=$work\$" /proc/[0-9]*/environ | cut -d/ -f3) || true
        [ -n "$processes" ] || return 0
        sleep 0.1
    done
    say "still running after $try tries, so ended: $(ps -o pid=,args= -p "${processes//$'\n'/,}")"
    # shellcheck disable=SC2086 # a list of ids
    kill -KILL $processes 2>/dev/null || true
}

# ---------------------------------------------------------------- the run

# step SYSTEM NAME COMMAND...: run it with a log, and add a line to the table.
step() {
    local system=$1 name=$2 log=$logs/$1-${2// /-}.log begin=$SECONDS result=ok rc=0
    shift 2
    say "$system: $name"
    "$@" >"$log" 2>&1 || rc=$?
    [ $rc = 0 ] || result="failed ($rc), see $log"
    table+="$(printf '%-12s %-16s %7d  %s' "$system" "$name" $((SECONDS - begin)) "$result")"$'\n'
    [ $rc = 0 ] || { tail -n 15 "$log" >&2; return 1; }
}

test_system() {
    local system=$1 target
    root=$work/$system
    describe "$system"
    step "$system" 'base system' make_base "$system" || return
    step "$system" 'git, make, clone' make_root "$system" || return
    for target in $targets; do
        step "$system" "make $target" inside make "$target" || return
    done
}

finish() {
    end_leftovers
    if [ "$keep" = yes ]; then say "the roots are in $work"; else rm -rf --one-file-system "$work"; fi
}

targets='run test' keep=no warm='' kernels=${VAWARE_LAB_KERNELS:-} systems=()
while [ $# -gt 0 ]; do
    case $1 in
    --targets | --warm)
        [ $# -gt 1 ] || say_end $EXIT_USAGE "$1 needs a value."
        if [ "$1" = --warm ]; then warm=$2; else targets=$2; fi
        shift
        ;;
    --download-kernels) kernels='' ;;
    --keep) keep=yes ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        describe "$1" || say_end $EXIT_USAGE "There is no system '$1'; choose from: ${SYSTEMS[*]}."
        systems+=("$1")
        ;;
    esac
    shift
done
[ "$EUID" = 0 ] || say_end $EXIT_NO_PERMISSION 'Root is needed to make root file systems; run this with sudo.'
[ ${#systems[@]} -gt 0 ] || systems=("${SYSTEMS[@]}")
rust=$(realpath "${VAWARE_FRESH_RUST:-$(rustc --print sysroot)}")

environment=(HOME=/root USER=root LANG=C.UTF-8 TERM="${TERM:-dumb}" DEBIAN_FRONTEND=noninteractive
    PATH="$RUST/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" FOR="${FOR:-20s}")
[ -z "$kernels" ] || environment+=("VAWARE_LAB_KERNELS=$KERNELS")
: "${VAWARE_DEBIAN_MIRROR:=$(distribution=debian mirror)}" # for the source of QEMU on other systems
for variable in http_proxy https_proxy no_proxy VAWARE_DEBIAN_MIRROR; do
    [ -z "${!variable:-}" ] || environment+=("$variable=${!variable}")
done

mkdir -p "$logs"
work=$(mktemp -d /var/tmp/scx_vaware-fresh.XXXXXX)
environment+=("VAWARE_FRESH=$work") # the mark of what runs in there
chmod 755 "$work"
trap finish EXIT
table='' failed=0
for system in "${systems[@]}"; do
    test_system "$system" || failed=$((failed + 1))
    [ "$keep" = yes ] || rm -rf --one-file-system "${work:?}/$system"
done
printf '%-12s %-16s %7s  %s\n%s' system step seconds result "$table"
[ $failed = 0 ] || exit $EXIT_FAILED
