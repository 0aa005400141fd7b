#!/bin/sh
# Installs Chromium from Debian's packages for the tests of the console, unless one is there.
# Playwright's own build would come from a server of its own; its driver works with Debian's as well.
set -eu

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

if ! command -v "${CHROMIUM:-chromium}" >/dev/null 2>&1; then
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium
fi
"${CHROMIUM:-chromium}" --version
