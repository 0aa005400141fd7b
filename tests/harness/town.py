"""Supervisors over fakes on real sockets in this process, and a router that reaches them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sandbox_service.errors import ServiceError
from sandbox_service.fleet.members import Member
from sandbox_service.fleet.router import Router
from sandbox_service.stream.address import UnixAddress
from sandbox_service.stream.authentication import answerer_handshake, new_secret
from sandbox_service.stream.options import StreamOptions
from sandbox_service.stream.server import StreamServer
from sandbox_service.wire.frames import Op
from tests.fakes.supervisors import FakeCore

OWN = f"a.{0xA:032x}"
"""An id that the supervisor ``a`` made."""
QUICK = StreamOptions(connect_timeout_s=1.0, back_off_max_s=0.02)


class KnownMembers:
    """Discovery of the supervisors that a test has started."""

    def __init__(self, members: dict[str, Member]) -> None:
        self._members = members
        self.excluded: dict[str, ServiceError] = {}
        self.refreshed = 0

    async def members(self) -> dict[str, Member]:
        return dict(self._members)

    async def refresh(self) -> dict[str, Member]:
        self.refreshed += 1
        return dict(self._members)

    async def close(self) -> None:
        return None


class Town:
    """Supervisors on real sockets in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cores: dict[str, FakeCore] = {}
        self.servers: dict[str, StreamServer] = {}
        self.members: dict[str, Member] = {}
        self.known = KnownMembers(self.members)
        self.router = Router(self.known, QUICK, takeover_after_s=0.01)

    async def start(self, name: str) -> FakeCore:
        core, secret = FakeCore(name), new_secret()
        server = StreamServer(core.handle, handshake=answerer_handshake(secret))
        path = self.folder / name
        await server.listen_unix(path)
        self.cores[name], self.servers[name] = core, server
        self.members[name] = Member(name, UnixAddress(str(path)), secret, f"node-{name}")
        return core

    async def stop(self, name: str, *, forget: bool = False) -> None:
        await self.servers.pop(name).close()
        if forget:
            del self.members[name]

    async def call(self, op: Op, instance_id: str = "", timeout_s: float = 5, **meta: object):
        meta = {"request_id": "r", **meta}
        return await self.router.call(
            op, tenant="t", instance_id=instance_id, meta=meta, body=b"body", timeout_s=timeout_s
        )

    async def create(self, instance_id: str = "", **meta: object) -> str:
        return json.loads((await self.call(Op.CREATE, instance_id, **meta)).body)["instance_id"]

    def handled(self) -> dict[str, int]:
        return {name: len(core.handled) for name, core in self.cores.items()}


@asynccontextmanager
async def town_of(*names: str) -> AsyncIterator[Town]:
    """A town with some supervisors, ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="town-") as folder:
        town = Town(Path(folder))
        try:
            for name in names:
                await town.start(name)
            yield town
        finally:
            await town.router.close()
            for name in list(town.servers):
                await town.stop(name)
