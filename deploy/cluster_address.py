"""The address of the Ray cluster that a node belongs to, also after its name is gone.

KubeRay removes the name of a cluster's head together with the pods, so a node that empties itself at SIGTERM
no longer finds by name the control plane that it needs, which works on for a while.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig

_EVERY_S = 5.0

Resolver = Callable[[str], str]
"""Returns an IP address of a host. Raises OSError."""


def resolved(host: str) -> str:
    """Return an IP address of a host. Raises OSError."""
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


class ClusterAddress:
    """HOST:PORT of a control plane, and the last IP address that its host had."""

    def __init__(self, name: str | None, resolver: Resolver = resolved) -> None:
        host, colon, port = (name or "").rpartition(":")
        self._name = name
        self._host = host.strip("[]")
        self._port = port
        # With TLS the certificate may hold the name only.
        self._follows = bool(colon) and port.isdigit() and os.environ.get("RAY_USE_TLS", "0") == "0"
        self._resolver = resolver
        self._ip = ""

    @classmethod
    def of(cls, config: ServiceConfig) -> ClusterAddress:
        """Return the configured cluster's, or that of this node's environment."""
        return cls(config.fleet.address or os.environ.get("RAY_ADDRESS") or None)

    def current(self) -> str | None:
        """Return the address with the host's IP address, the last known one if it has none now."""
        self._look()
        if not self._ip:
            return self._name
        return f"[{self._ip}]:{self._port}" if ":" in self._ip else f"{self._ip}:{self._port}"

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look the host up every few seconds while the block runs: a new head has another address."""
        ended = threading.Event()

        def watch() -> None:
            self._look()
            while not ended.wait(_EVERY_S):
                self._look()

        if self._follows:
            threading.Thread(target=watch, name="look up the cluster's head", daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def _look(self) -> None:
        if self._follows:
            with contextlib.suppress(OSError):
                self._ip = self._resolver(self._host)
