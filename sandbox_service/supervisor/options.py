"""A supervisor's place in the fleet: what it is told when it starts, and what it tells about itself."""

from __future__ import annotations

import os
import ssl
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from sandbox_service.wire.frames import Frame


class Core(Protocol):
    """The supervisor proper, which knows nothing of Ray or of streams."""

    async def start(self) -> None:
        """Sweep what an earlier supervisor left behind, and begin to work."""
        ...

    async def handle(self, frame: Frame) -> Frame:
        """Answer one frame; called concurrently, never raises."""
        ...

    async def drain(self) -> None:
        """Refuse new instances and let what runs finish, within its own deadline."""
        ...

    async def close(self) -> None:
        """Destroy every box and give back everything. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of mutual TLS between nodes, at the same paths on every node."""

    certificate: str
    key: str
    authority: str

    def context(self, *, server: bool) -> ssl.SSLContext:
        """The context of one end; both ends show a certificate that the authority signed."""
        purpose = ssl.Purpose.CLIENT_AUTH if server else ssl.Purpose.SERVER_AUTH
        context = ssl.create_default_context(purpose, cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        context.verify_mode = ssl.CERT_REQUIRED
        # Members are found by address, which the control plane vouches for; certificates name the fleet.
        context.check_hostname = False
        return context


@dataclass(frozen=True, slots=True)
class SupervisorOptions:
    """What a supervisor is told when it starts."""

    name: str
    """``[a-z0-9]+``; the same after every restart on the same node."""
    fleet: str
    """The fleet that it belongs to; several may share a machine."""
    tcp: bool = False
    """Listen on a TCP port for gateways of other nodes as well."""
    tls: TlsFiles | None = None
    """Files for TLS on the TCP port."""

    def socket_path(self) -> Path:
        """Its unix socket, in a folder that nobody else may enter."""
        return private_dir() / f"{self.fleet}-{self.name}.sock"


@dataclass(frozen=True, slots=True)
class SupervisorAddress:
    """How a supervisor is reached; travels over Ray's authenticated control plane only."""

    name: str
    node_id: str
    unix_path: str
    host: str
    port: int | None
    """None when it listens on its unix socket only."""
    secret: str = field(repr=False)
    """Made anew at each start; both ends of a stream prove to know it."""
    pid: int = 0


CoreBuilder: TypeAlias = "Callable[[SupervisorOptions], Core]"
"""Makes a supervisor's core on its node; travels by reference, so it must be importable there."""


def private_dir() -> Path:
    """This user's folder for sockets. Raises PermissionError when others may enter it."""
    path = Path(tempfile.gettempdir()) / f"sandbox-streams-{os.geteuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(f"{path} is not a private folder of this user")
    return path
