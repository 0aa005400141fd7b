"""A node that the network cuts off lives on: it keeps what is its own, or another goes on, and never both."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from deploy.supervisor_core import core_builder
from sandbox_service.config import ServiceConfig, StoreConfig
from sandbox_service.fleet.discovery import RayDiscovery
from sandbox_service.fleet.roster import Roster
from sandbox_service.fleet.router import Router
from sandbox_service.trajectories.store import open_store
from tests.harness.cut_off_node import OUTSIDE, CutOffNode, cut_off_node, namespaces_work
from tests.harness.fleet_load import STEPS, FleetLoad
from tests.harness.ray_nodes import ray_nodes
from tests.harness.sampling import where_changed
from tests.harness.waiting import until, until_answered

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.timeout(600),
    where_changed("partition"),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]

PLAYERS = 6
LEASE_S = 5


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    if not namespaces_work():
        pytest.skip("needs root, the program ip, and network namespaces")


@pytest.fixture
def socket_url(url: str, admin: psycopg.Connection) -> str:
    """The test's database by its unix socket, which a cut link does not touch."""
    (folder,) = admin.execute("SHOW unix_socket_directories").fetchone() or ("",)
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.username}@{parts.path}?host={folder}&port={parts.port}"


async def test_a_node_that_still_reaches_the_database_keeps_its_instances_while_it_lives(
    socket_url: str, tmp_path: Path
) -> None:
    async with _fleet(socket_url, socket_url, tmp_path) as (node, far, load):
        cut_off = await _cut(load, node, far)

        # It renews its lease, so that nobody else may go on.
        await asyncio.sleep(1)
        answers = {instance: len(load.answered[instance]) for instance in cut_off}
        await asyncio.sleep(3 * LEASE_S)
        assert {instance: len(load.answered[instance]) for instance in cut_off} == answers

        # Ray gives the node up, and its raylet ends with its supervisor: then another one goes on.
        await until(lambda: not set(cut_off) & set(load.answered), 300)


async def test_a_node_that_reaches_nothing_loses_its_instances_to_another_and_gets_none_back(
    url: str, tmp_path: Path
) -> None:
    parts = urlsplit(url)
    async with (
        forwarded(parts.port or 0) as port,
        _fleet(f"{parts.scheme}://{parts.username}@{OUTSIDE}:{port}{parts.path}", url, tmp_path) as fleet,
    ):
        node, far, load = fleet
        cut_off = await _cut(load, node, far)
        began = time.monotonic()
        await until(lambda: not set(cut_off) & set(load.answered))
        print(f"went on and ended {time.monotonic() - began:.1f} s after the cut")  # noqa: T201
        node.join()
        # What it had not recorded when it was cut off, it tries to record now.
        await asyncio.sleep(2 * LEASE_S)


@asynccontextmanager
async def _fleet(
    nodes_url: str, own_url: str, folder: Path
) -> AsyncIterator[tuple[CutOffNode, str, FleetLoad]]:
    """Two nodes under load; at the end each episode has to be whole.

    The URLs are the database's as the nodes and as the test reach it.
    """
    config = ServiceConfig.model_validate(
        {
            "sandbox": {"kind": "process", "state_dir": str(folder / "state")},
            "store": {"url": nodes_url, "lease_s": LEASE_S},
            "pool": {"min_boxes": 0, "max_boxes": 6},
            "environments": {"enabled": ["echo"]},
        }
    )
    with ray_nodes(1) as cluster, cut_off_node(cluster.address) as node:
        roster = Roster("cut-off", core_builder(config), tcp=True)
        discovery = RayDiscovery(roster)
        router = Router(discovery)
        try:
            await until_answered(discovery.refresh, lambda members: len(members) == 2, 180)
            addresses = [await handle.address.remote() for handle in roster.find().values()]
            (far,) = [each.name for each in addresses if each.host == node.address]
            load = FleetLoad(router, pause_s=0.1)
            players = [asyncio.create_task(load.play(player)) for player in range(PLAYERS)]
            yield node, far, load
            await _assert_whole(load, players, own_url)
        finally:
            await router.close()
            await asyncio.to_thread(roster.end_all, roster.find().values(), 30)


async def _cut(load: FleetLoad, node: CutOffNode, far: str) -> list[str]:
    """Cut a node's link, and return the instances that it had then."""
    await until(lambda: len(load.owned_by(far)) >= 2)
    cut_off = load.owned_by(far)
    node.cut()
    return cut_off


async def _assert_whole(load: FleetLoad, players: Sequence[asyncio.Task[None]], url: str) -> None:
    done = len(load.finished)
    await until(lambda: len(load.finished) > done + 2 * PLAYERS)
    load.stopping = True
    await asyncio.gather(*players)
    assert load.lost == {}
    store = open_store(StoreConfig(url=url))
    for instance in load.finished:
        steps = [event for event in await store.events(instance) if event.kind.value == "step"]
        assert len(steps) == STEPS, "each step was executed once"
    await store.close()


@asynccontextmanager
async def forwarded(target: int) -> AsyncIterator[int]:
    """Forward a port of all addresses to one of loopback, on which the tests' database listens."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        near_reader, near_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(_copy(reader, near_writer), _copy(near_reader, writer))

    server = await asyncio.start_server(connect, "0.0.0.0")
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, TimeoutError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
