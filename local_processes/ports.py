"""Find a free TCP port, for services that live as long as one command."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_RANGE = range(20_000, 32_768)
"""Above the ports of Ray's workers, and below those that Linux gives to outgoing connections: there, any
process that connects somewhere could take the port before the caller listens on it.
"""
_TRIES = 64


def bound_port(host: str, port: int) -> int:
    """Bind a socket to an address for a moment, and return its port; for 0 the kernel picks one.

    Raises OSError if the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return int(probe.getsockname()[1])


def free_port(preferred: int | None = None, host: str = "127.0.0.1") -> int:
    """Return the preferred port if it is free, else a random one that is.

    Another process may take the port before the caller listens on it: listen soon.

    Raises OSError if none was found.
    """
    candidates = [] if preferred is None else [preferred]
    # The last one, 0, lets the kernel pick.
    for port in (*candidates, *random.sample(_RANGE, _TRIES), 0):
        with suppress(OSError):
            return bound_port(host, port)
    raise OSError(f"no port is free on {host}")
