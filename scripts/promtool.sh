#!/bin/sh
# Installs Prometheus's program promtool for the tests of the alert rules, unless one is there.
# Only the program is taken from Debian's package, to /usr/local/bin: the package itself would bring a server.
set -eu
target=/usr/local/bin/promtool

. "$(dirname "$0")/debian.sh"

if ! command -v promtool >/dev/null 2>&1; then
    refresh_packages
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    (cd "$work" && apt-get download -q prometheus)
    dpkg-deb --fsys-tarfile "$work"/prometheus_*.deb | tar -x -f - -C "$work" ./usr/bin/promtool
    as_root install -m 0755 "$work/usr/bin/promtool" "$target"
fi
promtool --version 2>&1 | head -n 1
