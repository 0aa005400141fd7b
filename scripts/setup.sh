#!/bin/sh
# Makes the virtual environment $1 with the locked versions of `constraints`. Touches nothing outside of it.
set -eu
venv=$1
cd "$(dirname "$0")/.."
supported='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))'
if [ ! -x "$venv/bin/python" ]; then
    for python in "${PYTHON:-python3.11}" python3.12 python3; do
        "$python" -c "$supported" >/dev/null 2>&1 && break
        python=
    done
    [ -n "$python" ] || {
        echo "Python 3.11 or 3.12 is needed; set PYTHON=/path/to/python3.11" >&2
        exit 1
    }
    "$python" -m venv "$venv"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints/cpu.txt uv
exec "$venv/bin/python" scripts/install.py "$venv"
