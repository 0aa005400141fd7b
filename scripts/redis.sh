#!/bin/sh
# Installs Debian's package redis-server for the tests of Ray's fault tolerance, unless the program is there.
# The tests start servers of their own: the package's is not started (debian.sh).
set -eu

. "$(dirname "$0")/debian.sh"

command -v redis-server >/dev/null 2>&1 || install_packages redis-server
redis-server --version
