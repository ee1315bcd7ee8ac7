#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Builds what can be installed: .deb, .rpm, a tarball, a container image, and the debug lines of its program. The
# program is linked statically, so that one serves all distributions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ $# -gt 1 ]; then
    echo "Usage: deploy/packages/build.sh [FOLDER]    (default: target/packages)" >&2
    exit 64
fi
out=${1:-target/packages}
VERSION=$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml)
MAINTAINER=$(git log -1 --format='%an <%ae>')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
STAGE=$out/stage
export VERSION MAINTAINER STAGE SOURCE_DATE_EPOCH
program=$STAGE/usr/bin/scx_vaware
name=scx_vaware-$VERSION-linux-x86_64

rm -rf "$out"
mkdir -p "$STAGE"/usr/{bin,lib/systemd/system} "$STAGE"/usr/share/{man/man8,doc/scx_vaware} "$STAGE/etc"

# Only the last step is linked statically, so all that `make build` has compiled is used.
cargo rustc --release --locked --quiet -p scx_vaware --bin scx_vaware -- -C target-feature=+crt-static
objcopy --only-keep-debug target/release/scx_vaware "$out/$name.debug"
objcopy --strip-all --add-gnu-debuglink="$out/$name.debug" target/release/scx_vaware "$program"
"$program" package-files "$STAGE/usr/share"
gzip -9n "$STAGE"/usr/share/man/man8/*
sed 's,/usr/local/bin,/usr/bin,' deploy/scx_vaware.service >"$STAGE/usr/lib/systemd/system/scx_vaware.service"
cp deploy/scx_vaware.toml "$STAGE/etc"
cp deploy/prometheus-rules.yml deploy/grafana-*.json CHANGELOG.md README.md "$STAGE/usr/share/doc/scx_vaware"
cp LICENSE "$STAGE/usr/share/doc/scx_vaware/copyright"
chmod -R u=rwX,go=rX "$STAGE"

nfpm=target/tools/bin/nfpm
for kind in deb rpm; do
    $nfpm package --config deploy/packages/nfpm.yaml --packager $kind --target "$out" >/dev/null
done
tar -C "$STAGE" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    -czf "$out/$name.tar.gz" usr etc

# One layer with one file: there is no shell, and nothing to update.
image=$out/oci:$VERSION
rootless=$([ "$EUID" = 0 ] || echo --rootless)
umoci init --layout "$out/oci"
umoci new --image "$image"
# shellcheck disable=SC2086 # no word or one
umoci insert $rootless --image "$image" "$program" /usr/bin/scx_vaware
umoci config --image "$image" --config.entrypoint /usr/bin/scx_vaware --config.cmd run --author "$MAINTAINER" \
    --config.label org.opencontainers.image.licenses=GPL-2.0-only --config.label "org.opencontainers.image.version=$VERSION"
umoci gc --layout "$out/oci"
tar -C "$out/oci" --sort=name -cf "$out/$name.oci.tar" .

du -bh "$program" "$out"/*.* | sed 's/^/  /'
