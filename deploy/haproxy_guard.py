"""Starts HAProxy for Ray Serve with a configuration that is fit for strangers.

Serve's own configuration opens a statistics page and a metrics port on all interfaces, an administration
socket for every user of the machine, waits for an hour for clients that say nothing, and answers with plain
text when no replica does. This program stands in for the binary (``RAY_SERVE_HAPROXY_BINARY_PATH``), rewrites
the file that it is given, has the kernel kill HAProxy when the process that started it ends, and becomes
HAProxy. Standard library only, and started without site packages, since it runs at every reload.

    haproxy_guard.py BINARY ERROR_FOLDER -db -f CONFIG ...
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import re
import signal
import sys
from pathlib import Path

__all__ = ["HEADERS", "HEADER_BYTES", "REQUEST_S", "URL_BYTES", "main", "rewrite"]

REQUEST_S = 10
"""How long the head of a request may take from its first byte, and the first byte from the connection."""
URL_BYTES = 8 * 1024
"""Longest URL."""
HEADER_BYTES = 16 * 1024
"""Longest headers of a request, all together."""
HEADERS = 100
"""Most headers of a request."""

_PR_SET_PDEATHSIG = 1
_DROPPED = ("frontend prometheus", "listen stats")
"""Sections that nothing needs: the service has metrics of its own."""
_SECTION = re.compile(r"^[a-z]")
_FRONT = "frontend http_frontend"
_FRONTS = (_FRONT, "frontend grpc_")
_UNANSWERED = "backend default_backend"
_ANSWERS = (400, 500, 502, 503, 504)
"""Errors of HAProxy's own that the error folder has an answer for."""
_MARK = "  # added by the service"
_SHARE = 3 / 4
"""Part of all connections that one address may hold."""


def rewrite(config: str, error_folder: str) -> str:
    """Return the configuration with the doors closed and clients bounded; rewriting twice changes nothing.

    Raises ValueError for a listener that this program does not know.
    """
    lines: list[str] = []
    section, connections = "", 0
    for line in config.splitlines():
        words = line.split()
        if _SECTION.match(line):
            section = line.strip()
        elif section == "global" and words[:1] == ["maxconn"]:
            connections = int(words[1])
        if section in _DROPPED or line.endswith(_MARK) or _is_dropped(section, words):
            continue
        if words[:1] == ["bind"] and not section.startswith(_FRONTS):
            raise ValueError(
                f"section {section!r} listens on {words[1:]}, which is not the service's address"
            )
        lines.append(line.replace("mode 666", "mode 600") if words[:2] == ["stats", "socket"] else line)
        lines += [f"    {rule}{_MARK}" for rule in _rules(section, words, connections, error_folder)]
    return "\n".join(lines) + "\n"


def _is_dropped(section: str, words: list[str]) -> bool:
    """Whether a line of Serve's does what the service must not do."""
    if section == "global":
        return words[:1] == ["log"]  # It would send every request to a log daemon.
    if section == "defaults":
        return words[:1] == ["errorfile"]
    if section == _FRONT:
        # It names the applications to callers without a key; the gateway answers for the path instead.
        return words[:2] == ["acl", "routes"] or words[-2:] == ["if", "routes"]
    # Without its 404 the answer is 503, that of a backend without servers: no path is known before the
    # gateway is up.
    return section == _UNANSWERED and words[:2] == ["http-request", "return"]


def _rules(section: str, words: list[str], connections: int, error_folder: str) -> list[str]:
    """What goes below a line of Serve's."""
    if section == "global" and words == ["global"]:
        # More than are let through, so that too many are refused by a rule, with a problem.
        return [f"tune.http.maxhdr {5 * HEADERS}"]
    if section == "defaults" and words == ["defaults"]:
        answers = [f"errorfile {status} {error_folder}/{status}.http" for status in _ANSWERS]
        # HAProxy's answer to an incomplete head is fixed text; an empty one closes the connection, which
        # clients know from connections that were idle for too long.
        return [f"timeout http-request {REQUEST_S}s", *answers, "errorfile 408 /dev/null"]
    if section == _FRONT and words[:1] == ["bind"]:
        refusal = f"status 431 content-type application/problem+json file {error_folder}/431.json"
        bounds = {"url,length": URL_BYTES, "req.hdrs,length": HEADER_BYTES, "req.fhdr_cnt": HEADERS}
        too_large = " or ".join(f"{{ {size} gt {bound} }}" for size, bound in bounds.items())
        return [
            *_share_of_an_address(words[1], connections),
            f"http-request return {refusal} if {too_large}",
        ]
    return []


def _share_of_an_address(address: str, connections: int) -> list[str]:
    """Rules that keep one address from holding all connections.

    On loopback all clients have one address. There, connections over the limit wait until those that
    send nothing are closed.
    """
    host = address.rpartition(":")[0].strip("[]")
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if local or not connections:
        return []
    return [
        "stick-table type ipv6 size 100k expire 1m store conn_cur",
        "tcp-request connection track-sc0 src",
        f"tcp-request connection reject if {{ sc0_conn_cur gt {int(connections * _SHARE)} }}",
    ]


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
