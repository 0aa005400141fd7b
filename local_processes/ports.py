"""Find a free TCP port, for services that live as long as one command."""

from __future__ import annotations

import socket


def free_port(preferred: int | None = None, host: str = "127.0.0.1") -> int:
    """Return the preferred port if it is free, else one that the kernel picks.

    Another process may take the port before the caller listens on it: listen soon.
    """
    for port in (preferred, 0):
        if port is None:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError(f"no port is free on {host}")
