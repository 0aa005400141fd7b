#!/bin/sh
# Prints an interpreter that the project supports: $PYTHON, or the first of python3.11, python3.12 and python3.
set -eu
supported='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))'
for python in "${PYTHON:-python3.11}" python3.12 python3; do
    if "$python" -c "$supported" >/dev/null 2>&1; then
        echo "$python"
        exit
    fi
done
echo "Python 3.11 or 3.12 is needed; set PYTHON=/path/to/python3.11" >&2
exit 1
