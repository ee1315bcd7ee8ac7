#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Makes a Debian or Ubuntu machine with Rust ready to build scx_vaware, to run its lab, and to test it.
#
# What is needed is told by purpose and probed by what it is used for, so tools that were installed by hand or
# on another distribution count. apt installs what misses. The system's own apt sources are never changed.
set -euo pipefail

readonly RUST_MIN=1.91 CLANG_MIN=18 CLANG_PREFERRED=19 QEMU_WANTED=10 RUFF_VERSION=0.17.5
readonly GO_MIN=1.21 NFPM_VERSION=v2.45.2 HELM_VERSION=v3.20.2 KUBECONFORM_VERSION=v0.7.0
readonly KUBERNETES_VERSION=v1.34.1 SECCOMP_VERSION=v0.3.0
# Nothing may hang: a download whose server has fallen silent is begun anew. apt and Go keep what came so far.
readonly ATTEMPTS=3 LIMIT_S=${VAWARE_SETUP_LIMIT_S:-900}
readonly LISTS_LIMIT_S=$(((LIMIT_S + 4) / 5)) # package lists are small
readonly EXIT_USAGE=64 EXIT_UNAVAILABLE=69 EXIT_NO_PERMISSION=77
# Where virtiofsd goes on Debian 12, whose package has it only together with a QEMU that is too old.
readonly VIRTIOFSD_LOCAL=/usr/local/bin/virtiofsd
# Where perf goes on Ubuntu, whose own refuses to run under a kernel of another version.
readonly PERF_LOCAL=/usr/local/bin/perf

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly tools=$repo/target/tools

usage() {
    cat <<END
Usage: deploy/setup.sh build|packages|lab|test|eval|fresh [--check]
       deploy/setup.sh --print-clang

Installs what misses, and does nothing when everything is there. packages and lab include build; test includes all three.
  build          compilers and libraries for the scheduler
  packages       nfpm and umoci, for make packages
  lab            QEMU, virtiofsd, Python and load generators for VMs with shaped vCPUs
  test           linters, helm and others; what the distribution has no package of goes to target/tools/bin
  eval           build, and the workloads of eval/compare (without QEMU: for the machine compared on)
  fresh          debootstrap and archive keys, for deploy/test-fresh.sh
  --check        only tell what misses
  --print-clang  name of the clang to compile BPF with: VAWARE_CLANG if that is set

VAWARE_SETUP_LIMIT_S is how many seconds one step may take before it is begun anew, at most twice: 900 if not set.

Exit codes: 0 ready, $EXIT_USAGE usage, $EXIT_UNAVAILABLE something misses and could not be installed, $EXIT_NO_PERMISSION root is needed.
END
}

say() { printf 'setup: %s\n' "$*" >&2; }

# say_end CODE SENTENCE: the last word.
say_end() {
    say "$2"
    exit "$1"
}

has() { command -v "$1" >/dev/null; }

# Tools in sbin are used as root, and often not in a user's PATH.
PATH=$PATH:/usr/sbin:/sbin

# ---------------------------------------------------------------- probes: true when the purpose is served

# Print the major version of the clang named $1; nothing when there is none.
clang_major() { "$1" --version 2>/dev/null | sed -nE '1s/.*version ([0-9]+).*/\1/p'; }

# Print the clang to use: the one asked for, else the preferred version, else the newest that is recent enough.
find_clang() {
    local name major best='' best_major=0
    if [ -n "${VAWARE_CLANG:-}" ]; then
        echo "$VAWARE_CLANG"
        return
    fi
    for name in "clang-$CLANG_PREFERRED" $(compgen -c clang- | grep -E '^clang-[0-9]+$' | sort -u) clang; do
        major=$(clang_major "$name") || continue
        if [ "$major" = "$CLANG_PREFERRED" ]; then
            echo "$name"
            return
        fi
        if [ "${major:-0}" -ge "$CLANG_MIN" ] && [ "$major" -gt "$best_major" ]; then
            best=$name best_major=$major
        fi
    done
    [ -n "$best" ] && echo "$best"
}

# A versioned tool of the chosen clang, or the unversioned one beside an unversioned clang.
has_llvm_tool() { has "$1-$llvm" || { [ "$clang" = clang ] && has "$1"; }; }

has_libclang() { compgen -G "/usr/lib/llvm-$llvm/lib/libclang*.so*" || compgen -G '/usr/lib*/libclang.so*'; }

has_c_compiler() { has gcc && echo '#include <stdio.h>' | gcc -E - ; }

has_lib() { pkg-config --exists "$1"; }

has_python_module() { [ -n "$(/usr/bin/python3 -c "import importlib.util as u; print(u.find_spec('$1') or '')" 2>/dev/null)" ]; }

qemu_major() { qemu-system-x86_64 --version | sed -nE '1s/.*version ([0-9]+).*/\1/p'; }

# Debian always has a new enough QEMU to offer; elsewhere take what there is (see the notice at the end).
has_qemu() {
    has qemu-system-x86_64 || return
    [ "$distribution" != debian ] || [ "$(qemu_major)" -ge "$QEMU_WANTED" ]
}

has_virtiofsd() {
    local path
    for path in /usr/libexec/virtiofsd /usr/lib/virtiofsd /usr/lib/qemu/virtiofsd; do
        [ -x "$path" ] && return
    done
    has virtiofsd
}

has_prometheus() { { has prometheus && has promtool; } || "$tools/prometheus/usr/bin/promtool" --version; }

has_ruff() { [ "$("$tools/bin/ruff" --version)" = "ruff $RUFF_VERSION" ]; }

has_go() {
    local version
    version=$(go version | sed -nE 's/.* go([0-9.]+).*/\1/p')
    [ -n "$version" ] && [ "$(printf '%s\n' "$GO_MIN" "$version" | sort -V | head -n1)" = "$GO_MIN" ]
}

# has_go_tool NAME VERSION: in target/tools/bin, by what is written in it.
has_go_tool() { go version -m "$tools/bin/$1" | grep -qE "^\s+mod\s.*\s$2(\s|$)"; }

has_rust() {
    local version
    version=$(cargo --version | cut -d' ' -f2) || return
    [ "$(printf '%s\n' "$RUST_MIN" "$version" | sort -V | head -n1)" = "$RUST_MIN" ]
}

# ---------------------------------------------------------------- what is needed

# Each need: purpose | its Debian packages, or a word in capitals that install() knows | probe.
needs_build() {
    cat <<END
clang $CLANG_MIN or newer, best $CLANG_PREFERRED (BPF compiler)|CLANG|[ -n "$clang" ]
llvm of the same version|CLANG|has_llvm_tool llvm-strip
clang-format of the same version|CLANG|has_llvm_tool clang-format
libclang of the same version (bindgen)|CLANG|has_libclang
C compiler and headers|gcc libc6-dev|has_c_compiler
make|make|has make
pkg-config|pkg-config|has pkg-config
protoc|protobuf-compiler|has protoc
libelf headers|libelf-dev|has_lib libelf
zlib headers|zlib1g-dev|has_lib zlib
zstd headers|libzstd-dev|has_lib libzstd
libseccomp headers|libseccomp-dev|has_lib libseccomp
certificates, to download crates|ca-certificates|compgen -G '/etc/ssl/certs/*.crt'
END
}

needs_packages() {
    cat <<END
Go $GO_MIN or newer, to build what follows|GO|has_go
nfpm $NFPM_VERSION in target/tools/bin (.deb and .rpm)|GO_TOOLS|has_go_tool nfpm $NFPM_VERSION
umoci (container image)|umoci|has umoci
END
}

needs_lab() {
    cat <<END
QEMU for x86 ($QEMU_WANTED or newer)|QEMU|has_qemu
virtiofsd|VIRTIOFSD|has_virtiofsd
libbpf headers (to read the scheduler's maps in a lab VM)|libbpf-dev|has_lib libbpf
zstd, for a module of Ubuntu's kernels|zstd|[ "$distribution" != ubuntu ] || has zstd
pytest for /usr/bin/python3|python3-pytest|has_python_module pytest
pytest-xdist (tests in two VMs at once)|python3-pytest-xdist|has_python_module xdist
ip (iproute2)|iproute2|has ip
ps and pgrep (procps)|procps|has pgrep
C compiler and headers|gcc libc6-dev|has_c_compiler
ninja, patch, bzip2 and xz (for QEMU with virtual time)|ninja-build patch bzip2 xz-utils|has ninja && has patch && has bzip2 && has xz
glib headers (the same)|libglib2.0-dev|has_lib glib-2.0
pixman headers (the same)|libpixman-1-dev|has_lib pixman-1
libfdt headers (the same)|libfdt-dev|[ -e /usr/include/libfdt.h ]
venv for /usr/bin/python3 (the same)|python3-venv|has_python_module ensurepip
key of Debian's archive (the same)|debian-archive-keyring|[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]
END
    needs_load
}

# Load generators, and Python to run and read them.
needs_load() {
    cat <<END
Python 3.11 or newer as /usr/bin/python3|python3|/usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'
numpy for /usr/bin/python3|python3-numpy|has_python_module numpy
scipy for /usr/bin/python3|python3-scipy|has_python_module scipy
jsonschema for /usr/bin/python3|python3-jsonschema|has_python_module jsonschema
hackbench and cyclictest (rt-tests)|rt-tests|has hackbench && has cyclictest
sysbench|sysbench|has sysbench
stress-ng|stress-ng|has stress-ng
taskset, chrt and setpriv (util-linux)|util-linux|has taskset && has chrt && has setpriv
END
}

needs_eval() {
    cat <<END
perf, for perf bench|PERF|perf version
rt-app|rt-app|has rt-app
sockperf|sockperf|has sockperf
iperf3|iperf3|has iperf3
pbzip2|pbzip2|has pbzip2
zstd|zstd|has zstd
nginx|nginx-light|has nginx
wrk|wrk|has wrk
Go|golang-go|has go
Java and its compiler|default-jdk-headless|has java && has javac && has jar
Redis and redis-benchmark|redis-server redis-tools|has redis-server && has redis-benchmark
PostgreSQL and pgbench|postgresql|compgen -G '/usr/lib/postgresql/*/bin/pgbench' || has pgbench
END
}

needs_test() {
    cat <<END
shellcheck|shellcheck|has shellcheck
ruff $RUFF_VERSION in target/tools/bin|RUFF|has_ruff
Prometheus and promtool|PROMETHEUS|has_prometheus
curl|curl|has curl
systemd (as PID 1 of a lab VM)|systemd|[ -x /lib/systemd/systemd ]
rpm|rpm|has rpm
crun (containers in a lab VM)|crun|has crun
podman (the same, by an engine)|podman|has podman
helm $HELM_VERSION in target/tools/bin|GO_TOOLS|has_go_tool helm $HELM_VERSION
kubeconform $KUBECONFORM_VERSION in target/tools/bin|GO_TOOLS|has_go_tool kubeconform $KUBECONFORM_VERSION
schemas of Kubernetes $KUBERNETES_VERSION in target/tools/kubernetes|KUBERNETES|[ -d "$tools/kubernetes/$KUBERNETES_VERSION" ]
seccomp profile of containers $SECCOMP_VERSION in target/tools/seccomp|SECCOMP|[ -e "$tools/seccomp/$SECCOMP_VERSION.json" ]
YAML for /usr/bin/python3|python3-yaml|has_python_module yaml
END
}

needs_fresh() {
    cat <<END
debootstrap|debootstrap|has debootstrap
git|git|has git
key of Debian's archive|debian-archive-keyring|[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]
key of Ubuntu's archive|UBUNTU_KEYRING|[ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]
END
}

# Fill missing_purposes and missing_packages for the group.
find_missing() {
    local purpose packages probe
    missing_purposes=() missing_packages=()
    clang=$(find_clang) || clang=''
    llvm=$(clang_major "$clang") || llvm=$CLANG_PREFERRED
    while IFS='|' read -r purpose packages probe; do
        (eval "$probe") >/dev/null 2>&1 </dev/null && continue
        missing_purposes+=("$purpose")
        # shellcheck disable=SC2206 # several packages may serve one purpose
        missing_packages+=($packages)
    done < <(needs)
}

# True when the list of missing packages has the word $1.
misses() { [[ " ${missing_packages[*]} " == *" $1 "* ]]; }

# ---------------------------------------------------------------- installing

# Say how this script becomes root in the array `root`; return 1 when it cannot.
find_root() {
    if [ "$EUID" = 0 ]; then
        root=(env)
    elif has sudo && sudo -n true 2>/dev/null; then
        root=(sudo -n)
    elif has sudo && [ -t 0 ]; then
        root=(sudo)
    else
        return 1
    fi
}

# attempts LIMIT_S COMMAND...: begun anew if it fails or takes longer; in the foreground, so that an interrupt reaches it.
attempts() {
    local limit_s=$1 i
    shift
    for ((i = 0; i < ATTEMPTS; i++)); do
        echo "+ $*" >>"$log"
        if timeout --foreground --kill-after=30 "$limit_s" "$@" >>"$log" 2>&1 </dev/null; then return; fi
    done
    return 1
}

# run_within LIMIT_S WHAT COMMAND...: the log is kept when all attempts fail.
run_within() {
    local limit_s=$1 what=$2
    shift 2
    say "To $what..."
    if attempts "$limit_s" "$@"; then return; fi
    keep_log=yes
    tail -n 3 "$log" >&2
    say_end $EXIT_UNAVAILABLE "Could not $what in $ATTEMPTS attempts of at most $limit_s s. Read $log, check the network and the system's apt sources, and run this again."
}

run_logged() { run_within "$LIMIT_S" "$@"; }

apt_has() { [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }

# Print the clang version to install: the one in use, else the preferred, else the newest on offer.
choose_clang_version() {
    local version
    if [ -n "$clang" ]; then
        echo "$llvm"
        return
    fi
    for version in "$CLANG_PREFERRED" $(seq 40 -1 "$CLANG_MIN"); do
        if apt_has "clang-$version"; then
            echo "$version"
            return
        fi
    done
    echo "$CLANG_PREFERRED"
}

clang_packages() { echo "clang-$1 llvm-$1 clang-format-$1 libclang-$1-dev"; }

# Print the packages that the system's own sources can give for what misses.
ordinary_packages() {
    local package
    for package in $(printf '%s\n' "${missing_packages[@]}" | sort -u); do
        case $package in
        CLANG) clang_packages "$(choose_clang_version)" ;;
        QEMU) if system_qemu_suffices; then echo qemu-system-x86; fi ;;
        VIRTIOFSD) if apt_has virtiofsd; then echo virtiofsd; fi ;;
        RUFF) if ! has_python_module ensurepip; then echo python3-venv; fi ;;
        PERF) if apt_has linux-perf; then echo linux-perf; else echo linux-tools-generic; fi ;;
        PROMETHEUS | GO_TOOLS | KUBERNETES | SECCOMP) ;;
        GO) if go_suffices; then echo golang-go; fi ;;
        UBUNTU_KEYRING) if apt_has ubuntu-archive-keyring; then echo ubuntu-archive-keyring; fi ;;
        *) echo "$package" ;;
        esac
    done
}

# True when the system's sources have QEMU as wanted, or this is no Debian and they are all there is.
system_qemu_suffices() {
    local major
    major=$(apt-cache madison qemu-system-x86 2>/dev/null | sed -nE '1s/[^|]*\| *([0-9]+:)?([0-9]+).*/\2/p')
    [ "$distribution" != debian ] || [ "${major:-0}" -ge "$QEMU_WANTED" ]
}

# True when the system's sources have Go as wanted. A newer one, if a tool asks for it, Go downloads itself.
go_suffices() {
    local version
    version=$(apt-cache madison golang-go 2>/dev/null | sed -nE '1s/[^|]*\| *([0-9]+:)?([0-9]+\.[0-9]+).*/\2/p')
    [ "$(printf '%s\n' "$GO_MIN" "${version:-0}" | sort -V | head -n1)" = "$GO_MIN" ]
}

# install_from_backports PACKAGE: from the backports suite of the mirror in use, by an apt run that has its own source
# list and caches: the system's sources stay visible to it for dependencies, and do not learn of backports.
install_from_backports() {
    local suite=$codename-backports mirror own=$work/apt
    # shellcheck disable=SC2016 # apt expands these
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
        awk -v codename="$codename" '$2 == codename { print $1; exit }')
    mkdir -p "$own/lists/partial" "$own/cache/archives/partial"
    chmod -R a+rX "$work"
    if [ -e /etc/apt/sources.list ]; then cat /etc/apt/sources.list >"$own/sources.list"; fi
    # shellcheck disable=SC2016
    if ! apt-get indextargets --format '$(RELEASE)' | grep -qx "$suite"; then
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >>"$own/sources.list"
    fi
    local apt_own=("${apt_get[@]}" -o "Dir::Etc::SourceList=$own/sources.list" -o "Dir::State::Lists=$own/lists"
        -o "Dir::Cache=$own/cache")
    run_within "$LISTS_LIMIT_S" "read the package lists of $suite" "${apt_own[@]}" update
    run_logged "install $1 from $suite" "${apt_own[@]}" install --no-install-recommends -t "$suite" "$1"
}

# Debian 12 has no virtiofsd package, and its QEMU 7.2, whose package holds the daemon, gives way to the one from
# backports. So only this one file is taken from the system's own (signed) package.
install_virtiofsd_from_qemu_common() {
    local version
    version=$(apt-cache madison qemu-system-common | awk -F' *[|] *' 'NR == 1 { print $2 }')
    cd "$work"
    run_logged 'download qemu-system-common for its virtiofsd' apt-get download "qemu-system-common=$version"
    run_logged 'unpack virtiofsd' dpkg-deb -x qemu-system-common_*.deb unpacked
    run_logged 'install virtiofsd' \
        "${root[@]}" install -D -m 755 unpacked/usr/lib/qemu/virtiofsd "$VIRTIOFSD_LOCAL"
    cd "$repo"
}

# Its benchmarks work under any kernel.
link_perf() {
    local perf
    perf=$(compgen -G '/usr/lib/linux-tools-*/perf' | sort -V | tail -n 1) || true
    run_logged 'link perf' "${root[@]}" ln -sf "$perf" "$PERF_LOCAL"
    hash -r # the shell remembers where the other one is
}

install_ruff() {
    run_logged 'make a Python environment in target/tools' /usr/bin/python3 -m venv "$tools"
    run_logged "install ruff $RUFF_VERSION" "$tools/bin/pip" install --quiet "ruff==$RUFF_VERSION"
}

# Those that miss, by the module proxy that Go is set to.
install_go_tools() {
    local name module
    for name in nfpm helm kubeconform; do
        case $name in
        nfpm) module=github.com/goreleaser/nfpm/v2/cmd/nfpm@$NFPM_VERSION ;;
        helm) module=helm.sh/helm/v3/cmd/helm@$HELM_VERSION ;;
        kubeconform) module=github.com/yannh/kubeconform/cmd/kubeconform@$KUBECONFORM_VERSION ;;
        esac
        if [[ " ${missing_purposes[*]} " != *" $name v"* ]]; then continue; fi
        run_logged "build $name" env GOBIN="$tools/bin" GOFLAGS=-buildvcs=false go install "$module"
    done
}

# What Kubernetes' API takes, and what the runtimes of containers allow, is in Go modules alone.
download_module() { run_logged "download $1" env -C "$work" go mod download "$1@$2"; }

install_kubernetes_schemas() {
    local specs
    download_module k8s.io/kubernetes "$KUBERNETES_VERSION"
    specs=$(go env GOMODCACHE)/k8s.io/kubernetes@$KUBERNETES_VERSION/api/openapi-spec/v3
    run_logged 'copy the schemas of Kubernetes' install -D -m 644 -t "$tools/kubernetes/$KUBERNETES_VERSION" \
        "$specs/api__v1_openapi.json" "$specs/apis__apps__v1_openapi.json"
}

install_seccomp_profile() {
    download_module github.com/moby/profiles/seccomp "$SECCOMP_VERSION"
    run_logged 'copy the seccomp profile' install -D -m 644 \
        "$(go env GOMODCACHE)/github.com/moby/profiles/seccomp@$SECCOMP_VERSION/default.json" \
        "$tools/seccomp/$SECCOMP_VERSION.json"
}

# Unpacked only: the package would start a server on this machine.
install_prometheus() {
    cd "$work"
    run_logged 'download Prometheus' apt-get download prometheus
    run_logged 'unpack Prometheus' dpkg-deb -x prometheus_*.deb "$tools/prometheus"
    cd "$repo"
}

# True when more misses than what a user can install alone.
needs_root() {
    local package
    for package in "${missing_packages[@]}"; do
        case $package in
        RUFF) has_python_module ensurepip || return 0 ;;
        GO_TOOLS | KUBERNETES | SECCOMP) has_go || return 0 ;;
        *) return 0 ;;
        esac
    done
    return 1
}

install_missing() {
    local packages install services
    if needs_root; then
        # A broken third-party source must not stop us: the installation tells whether it mattered.
        say 'To read the package lists...'
        attempts "$LISTS_LIMIT_S" "${apt_get[@]}" -o APT::Update::Error-Mode=any update || true
        packages=$(ordinary_packages)
        if [ -n "$packages" ]; then
            # shellcheck disable=SC2206 # a list of words
            install=("${apt_get[@]}" install --no-install-recommends $packages)
            # What can fall silent comes first: an installation that was cut off has to be mended by hand.
            run_logged 'download packages' "${install[@]}" --download-only
            run_logged 'install packages' "${install[@]}"
        fi
        # Their programs are wanted, not servers that run from now on.
        services=$(for each in nginx postgresql redis-server podman; do
            if misses "$each" || misses "$each-light"; then echo "${each/podman/podman.socket podman-auto-update.timer}"; fi
        done)
        # shellcheck disable=SC2086 # a list of words
        if [ -n "$services" ] && has systemctl; then "${root[@]}" systemctl disable --now $services >>"$log" 2>&1 || true; fi
    fi
    if misses QEMU && ! system_qemu_suffices; then install_from_backports qemu-system-x86; fi
    if misses UBUNTU_KEYRING && ! apt_has ubuntu-archive-keyring; then install_from_backports ubuntu-archive-keyring; fi
    if misses VIRTIOFSD && ! has_virtiofsd; then install_virtiofsd_from_qemu_common; fi
    if misses PERF && ! perf version >/dev/null 2>&1; then link_perf; fi
    if misses RUFF; then install_ruff; fi
    if misses GO && ! go_suffices; then install_from_backports golang-go; fi
    if misses GO_TOOLS; then install_go_tools; fi
    if misses KUBERNETES; then install_kubernetes_schemas; fi
    if misses SECCOMP; then install_seccomp_profile; fi
    if misses PROMETHEUS; then install_prometheus; fi
}

# ---------------------------------------------------------------- sentences for those who must act themselves

tell_missing() {
    say "$1"
    printf '  %s\n' "${missing_purposes[@]}" >&2
}

# Print the apt-get command for an administrator.
tell_admin() {
    local packages
    packages=$(ordinary_packages | tr -s '\n ' ' ')
    say 'Root is needed to install packages. Ask for this command to be run as root, then run this again:'
    printf '  apt-get update && apt-get install --no-install-recommends %s\n' "${packages% }" >&2
    if misses QEMU && ! system_qemu_suffices || misses VIRTIOFSD && ! apt_has virtiofsd; then
        say "QEMU $QEMU_WANTED or virtiofsd come from elsewhere on this release: have deploy/setup.sh lab run as root instead."
    fi
}

require_rust() {
    if ! has_rust 2>/dev/null; then
        say_end $EXIT_UNAVAILABLE "Rust $RUST_MIN or newer misses. Install it from https://rustup.rs (rustup update stable, if it is there but old), put cargo into PATH, and run this again."
    fi
    if [ "$group" = test ] && ! { has cargo-clippy && has cargo-fmt; }; then
        say_end $EXIT_UNAVAILABLE 'clippy or rustfmt misses. Run: rustup component add clippy rustfmt'
    fi
}

# QEMU with virtual time, built from the distribution's source. The lab does without it, by wall time.
build_emulator() {
    [[ $group =~ ^(lab|test)$ ]] || return 0
    "$repo/eval/lib/vlab/vtime/build.sh" >/dev/null ||
        say 'So lab VMs run by wall time, as slowly and unevenly as this machine emulates them.'
}

tell_old_qemu() {
    if [[ $group =~ ^(lab|test)$ ]] && [ "$(qemu_major)" -lt "$QEMU_WANTED" ]; then
        say "QEMU here is older than $QEMU_WANTED: without KVM, lab VMs panic now and then at boot (the lab boots them again)."
    fi
}

# ---------------------------------------------------------------- the run

groups=() check=no
for argument in "$@"; do
    case $argument in
    build | packages | lab | test | eval | fresh) groups+=("$argument") ;;
    --check) check=yes ;;
    --print-clang)
        find_clang || say_end $EXIT_UNAVAILABLE "No clang $CLANG_MIN or newer is here. Run: deploy/setup.sh build"
        exit 0
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        say "There is no argument '$argument'."
        groups=()
        break
        ;;
    esac
done
if [ ${#groups[@]} != 1 ]; then
    usage >&2
    exit $EXIT_USAGE
fi
group=${groups[0]}

needs() {
    case $group in fresh) needs_fresh && return ;; esac
    needs_build
    case $group in packages | test) needs_packages ;; esac
    case $group in lab | test) needs_lab ;; esac
    case $group in test) needs_test ;; esac
    case $group in eval) needs_load && needs_eval ;; esac
}

# shellcheck source=/dev/null
read -r distribution codename < <(. /etc/os-release && echo "${ID:-unknown}" "${VERSION_CODENAME:-}") || true

find_missing
if [ ${#missing_purposes[@]} = 0 ]; then
    build_emulator
    require_rust
    exit 0
fi
if [ "$check" = yes ]; then
    tell_missing "These miss for '$group'; run deploy/setup.sh $group to install them:"
    exit $EXIT_UNAVAILABLE
fi
if ! [[ $distribution =~ ^(debian|ubuntu)$ ]]; then
    tell_missing 'This is neither Debian nor Ubuntu. Install these by the means of your distribution, and run this again:'
    exit $EXIT_UNAVAILABLE
fi
if needs_root && ! find_root; then
    tell_admin
    exit $EXIT_NO_PERMISSION
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/scx_vaware-setup.XXXXXX")
log=$work.log keep_log=no
# The apt run of its own leaves files of root in there.
root=("${root[@]-env}")
apt_get=("${root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=120)
trap '"${root[@]}" rm -rf "$work"; [ "$keep_log" = yes ] || rm -f "$log"' EXIT

had=("${missing_purposes[@]}")
say "Installing what '$group' needs and misses..."
install_missing
find_missing
if [ ${#missing_purposes[@]} != 0 ]; then
    keep_log=yes
    tell_missing "These still miss after the installation; read $log, and install them by hand:"
    exit $EXIT_UNAVAILABLE
fi
printf 'setup: installed %s\n' "${had[@]}" >&2
tell_old_qemu
build_emulator
require_rust
