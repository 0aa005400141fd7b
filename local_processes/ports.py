"""Find a free TCP port, for services that live as long as one command."""

from __future__ import annotations

import random
import socket

_RANGE = range(20_000, 32_768)
"""Above the ports of Ray's workers, and below those that Linux gives to outgoing connections: there, any
process that connects somewhere could take the port before the caller listens on it.
"""
_TRIES = 64


def free_port(preferred: int | None = None, host: str = "127.0.0.1") -> int:
    """Return the preferred port if it is free, else a random one that is.

    Another process may take the port before the caller listens on it: listen soon.

    Raises OSError if none was found.
    """
    candidates = [] if preferred is None else [preferred]
    # The last one, 0, lets the kernel pick.
    for port in (*candidates, *random.sample(_RANGE, _TRIES), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError(f"no port is free on {host}")
