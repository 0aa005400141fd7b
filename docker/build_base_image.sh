#!/bin/sh
# Makes the tar of a small Debian with Python 3.11, for machines that reach Debian's mirror but no registry.
# Usage: build_base_image.sh TARBALL [TREE]
# Needs root and debootstrap, a package of Debian (`make engine` installs it). DEBIAN_MIRROR names another mirror than debootstrap's own.
# TREE is an unpacked system to take instead of a fresh one. A tarball that is there is kept.
set -eu
tarball=$1
tree=${2:-${SANDBOX_BASE_TREE:-}}
suite=bookworm

if [ -s "$tarball" ]; then
    echo "kept: $tarball"
    exit 0
fi
mkdir -p "$(dirname "$tarball")"
work=$(mktemp -d "$(dirname "$tarball")/base.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

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
    debootstrap --variant=minbase --include=python3 "$suite" "$tree" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
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
echo "made: $tarball"
