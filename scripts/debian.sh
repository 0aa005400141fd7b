# Read by the scripts that install from Debian's packages: as_root, refresh_packages and install_packages.

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# apt-get with a deadline in seconds, and with a folder for the temporary files of apt's own user, who checks the
# signatures: /tmp is closed to that user on some machines, and no package would count as signed.
apt_get() {
    (
        deadline_s=$1
        shift
        temporary=$(mktemp -d)
        trap 'rm -rf "$temporary"' EXIT
        trap 'exit 1' HUP INT TERM
        chmod 1777 "$temporary"
        # RUNLEVEL=1 keeps a package from starting a service of its own, such as a second engine; --foreground
        # lets Ctrl-C reach apt-get.
        as_root env TMPDIR="$temporary" DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
            timeout --foreground "$deadline_s" apt-get -q "$@" >&2
    )
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
