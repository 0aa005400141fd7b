"""Starts HAProxy for Ray Serve with a configuration that listens where the service was told to, only.

Serve's own configuration opens a statistics page and a metrics port on all interfaces, an administration
socket for every user of the machine, and answers with plain text when no replica does. This program stands
in for the binary (``RAY_SERVE_HAPROXY_BINARY_PATH``), rewrites the file that it is given, has the kernel
kill HAProxy when the process that started it ends, and becomes HAProxy. Standard library only, and started
without site packages, since it runs at every reload.

    haproxy_guard.py BINARY ERROR_FOLDER -db -f CONFIG ...
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from pathlib import Path

__all__ = ["main", "rewrite"]

_PR_SET_PDEATHSIG = 1
_DROPPED = ("frontend prometheus", "listen stats")
"""Sections that nothing needs: the service has metrics of its own."""
_SECTION = re.compile(r"^[a-z]")
_ERROR_FILE = re.compile(r"^(\s*errorfile\s+(\d{3})\s+)\S+")


def rewrite(config: str, error_folder: str) -> str:
    """The configuration without the open doors. Raises ValueError when a door is left that nobody knows."""
    lines: list[str] = []
    section = ""
    for line in config.splitlines():
        if _SECTION.match(line):
            section = line.strip()
        if section in _DROPPED:
            continue
        words = line.split()
        if words[:1] == ["bind"] and not section.startswith(("frontend http_frontend", "frontend grpc_")):
            raise ValueError(f"section {section!r} listens on {words[1:]}, which nobody has asked for")
        if words[:2] == ["stats", "socket"]:
            line = line.replace("mode 666", "mode 600")
        if section == "global" and words[:1] == ["log"]:
            continue  # It would send every request to a log daemon.
        found = _ERROR_FILE.match(line)
        if found is not None:
            line = f"{found[1]}{error_folder}/{found[2]}.http"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    """Rewrite the configuration and become HAProxy."""
    binary, error_folder, *rest = arguments
    path = Path(rest[rest.index("-f") + 1])
    path.write_text(rewrite(path.read_text(), error_folder))
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that started HAProxy is gone")
    os.execv(binary, [binary, *rest])


if __name__ == "__main__":
    main(sys.argv[1:])
