# Read by the scripts that install from Debian's packages: as_root, refresh_packages and install_packages.

# Asked by packages that are installed, whether they may start their service; without the file they may.
policy=${POLICY_RC_D:-/usr/sbin/policy-rc.d}

# sudo drops the variables of a proxy, without which neither apt nor the engine fetches anything behind one.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; return; fi
    case "${http_proxy-}${https_proxy-}${HTTP_PROXY-}${HTTPS_PROXY-}" in
    "") sudo "$@" ;;
    *) sudo --preserve-env=http_proxy,https_proxy,no_proxy,HTTP_PROXY,HTTPS_PROXY,NO_PROXY "$@" ;;
    esac
}

# apt-get with a deadline in seconds, and with a folder for the temporary files of apt's own user, who checks the
# signatures: /tmp is closed to that user on some machines, and no package would count as signed.
apt_get() {
    (
        deadline_s=$1
        shift
        temporary=$(mktemp -d)
        trap 'rm -rf "$temporary"; allow_services' EXIT
        trap 'exit 1' HUP INT TERM
        chmod 1777 "$temporary"
        case $1 in install) deny_services ;; esac
        # --foreground lets Ctrl-C reach apt-get.
        as_root env TMPDIR="$temporary" DEBIAN_FRONTEND=noninteractive \
            timeout --foreground "$deadline_s" apt-get -q "$@" >&2
    )
}

# Keeps packages from starting services of their own, such as a second engine, under systemd too. A policy that
# the machine has stays as it is.
deny_services() {
    [ ! -e "$policy" ] || return 0
    as_root sh -c 'cat >"$1" && chmod 755 "$1"' sh "$policy" <<'POLICY'
#!/bin/sh
# Of training-sandbox, while it installs packages.
exit 101
POLICY
}

# Also after a script that was killed, whose policy is still there.
allow_services() {
    ! grep -qs "# Of training-sandbox," "$policy" || as_root rm -f "$policy"
}

refresh_packages() {
    apt_get 120 update
}

# The lists are fetched only when what the machine has does not suffice: they may be missing or out of date.
install_packages() {
    apt_get 600 install -y --no-install-recommends "$@" ||
        { echo "fetching Debian's lists of packages" >&2 && refresh_packages &&
            apt_get 600 install -y --no-install-recommends "$@"; }
}
