#!/bin/sh
# Installs gVisor's program runsc for boxes of kind gvisor, unless one that is new enough is there.
# Debian 12 has a release of 2022, in which `ls FOLDER` fails; that of Debian 13 is a static program, which
# runs on both, and on Ubuntu. It is fetched from the mirror that apt uses, elsewhere than on Debian from Debian's
# own, checked, and unpacked to /usr/local/bin.
# Usage: runsc.sh [RECORD]
# The package's description is written to the file RECORD: an image lists so what dpkg has not installed.
set -eu
oldest=20240729
version=0.0~20240729.0-4+b7
target=/usr/local/bin/runsc
debian=http://deb.debian.org/debian/pool/main/g/golang-gvisor-gvisor

. "$(dirname "$0")/debian.sh"

release() {
    runsc --version 2>/dev/null | sed -n 's/^runsc version [^0-9]*\(0\.0~\)\{0,1\}\([0-9]\{8\}\).*/\2/p'
}

by_hand() {
    echo "$1; install gVisor by hand: https://gvisor.dev/docs/user_guide/install/" >&2
    exit 1
}

found=$(release)
if [ "${found:-0}" -ge "$oldest" ]; then
    echo "runsc $found: $(command -v runsc)"
    exit 0
fi
architecture=$(dpkg --print-architecture)
case $architecture in
amd64) sum=3c25a5130dfac2f71237d5baad56ac86a255de87a0400f11b36a555156dc325a ;;
arm64) sum=8e13e0625a094f962da3edcaf81ab0ed779726b6335e385a8148919f2c217c8e ;;
*) by_hand "there is no runsc for $architecture here" ;;
esac
folder=$debian
if grep -qx 'ID="\{0,1\}debian"\{0,1\}' "${OS_RELEASE:-/etc/os-release}"; then
    refresh_packages
    # The address of the package in this Debian; the newer one lies in the same folder of the same mirror.
    address=$(apt-get --print-uris download runsc | sed -n "s/^'\([^']*\)'.*/\1/p")
    [ -n "$address" ] || by_hand "apt knows no package runsc"
    folder=${address%/*}
fi
address=$folder/runsc_${version}_$architecture.deb
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
echo "fetching runsc $version"
python3 - "$address" "$work/runsc.deb" <<'PYTHON' || by_hand "$address was not fetched"
import sys
import urllib.request

try:
    with urllib.request.urlopen(sys.argv[1], timeout=120) as answer, open(sys.argv[2], "wb") as file:
        file.write(answer.read())
except OSError as error:
    sys.exit(str(error))
PYTHON
echo "$sum  $work/runsc.deb" | sha256sum --check --quiet
dpkg-deb --extract "$work/runsc.deb" "$work/tree"
as_root install -m 0755 "$work/tree/usr/bin/runsc" "$target"
if [ -n "${1:-}" ]; then dpkg-deb --field "$work/runsc.deb" >"$1"; fi
echo "runsc $(release): $target"
