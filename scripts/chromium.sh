#!/bin/sh
# Installs Chromium from Debian's packages for the tests of the console, unless one is there.
# Playwright's own build would come from a server of its own; its driver works with Debian's as well.
set -eu

. "$(dirname "$0")/debian.sh"

if ! command -v "${CHROMIUM:-chromium}" >/dev/null 2>&1; then
    install_packages chromium
fi
"${CHROMIUM:-chromium}" --version
