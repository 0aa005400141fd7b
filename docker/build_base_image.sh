#!/bin/sh
# Makes the tar of a small Debian with Python 3.11, for machines that reach Debian's mirror but no registry.
# Usage: build_base_image.sh TARBALL [TREE]
# Needs root and debootstrap, a package of Debian (`make engine` installs it). DEBIAN_MIRROR names another mirror
# than Debian's own, and DEBIAN_SECURITY_MIRROR that of security updates, by default its sibling DEBIAN_MIRROR-security.
# TREE is an unpacked system to take instead of a fresh one. A tarball that is there is kept.
set -eu
tarball=$1
tree=${2:-${SANDBOX_BASE_TREE:-}}
suite=bookworm
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${DEBIAN_SECURITY_MIRROR:-${mirror%/}-security}
note=

if [ -s "$tarball" ]; then
    echo "kept: $tarball"
    exit 0
fi
mkdir -p "$(dirname "$tarball")"
work=$(mktemp -d "$(dirname "$tarball")/base.XXXXXX")
child=
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'end_child; exit 1' HUP INT TERM

# A shell handles a signal when the program in its foreground has ended, which here takes minutes. In the
# background, and in a process group of its own, the program ends at once, with all that it has started.
run() {
    setsid "$@" &
    child=$!
    status=0
    wait "$child" || status=$?
    child=
    return "$status"
}

end_child() {
    [ -n "$child" ] || return 0
    kill -s TERM -- "-$child" 2>/dev/null || true
    waited=0
    while kill -s 0 -- "-$child" 2>/dev/null && [ "$waited" -lt 10 ]; do
        sleep 1
        waited=$((waited + 1))
    done
    kill -s KILL -- "-$child" 2>/dev/null || true
}

# A release is left as it was; what has been mended since lies in suites of their own.
update() {
    cp "$tree/etc/apt/sources.list" "$work/sources.list"
    [ ! -e /etc/resolv.conf ] || cp /etc/resolv.conf "$tree/etc/resolv.conf"
    cat >>"$tree/etc/apt/sources.list" <<SOURCES
deb $mirror $suite-updates main
deb $security $suite-security main
SOURCES
    if run chroot "$tree" apt-get -q -o APT::Update::Error-Mode=any update &&
        run chroot "$tree" env DEBIAN_FRONTEND=noninteractive apt-get -q -y upgrade; then
        return 0
    fi
    # Builds on this base read the list, too.
    cp "$work/sources.list" "$tree/etc/apt/sources.list"
    note=", WITHOUT security updates: $security could not be used; name a mirror by DEBIAN_SECURITY_MIRROR"
}

if [ -z "$tree" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "building the base image without a registry needs root (debootstrap)" >&2
        exit 1
    fi
    if ! command -v debootstrap >/dev/null 2>&1; then
        echo "debootstrap is missing; install Debian's package of that name" >&2
        exit 1
    fi
    tree=$work/tree
    echo "debootstrap $suite"
    run debootstrap --variant=minbase --include=python3 "$suite" "$tree" "$mirror"
    echo "updates of $suite"
    update
fi

echo "packing"
# Sorted and with one date, so that the same tree is the same image.
tar --create --file "$work/base.tar" --directory "$tree" --numeric-owner --one-file-system \
    --sort=name --mtime='2024-01-01 00:00Z' \
    --exclude='./proc/*' --exclude='./sys/*' --exclude='./dev/*' --exclude='./run/*' --exclude='./tmp/*' \
    --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./var/log/*' \
    --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' \
    --exclude='./etc/resolv.conf' --exclude='./etc/hostname' --exclude='*/__pycache__' .
mv "$work/base.tar" "$tarball"
echo "made: $tarball$note"
