"""The requests that one supervisor holds: whichever waits, other tenants and other kinds find room."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import PoolConfig
from sandbox_service.errors import OverCapacityError
from sandbox_service.stream.address import UnixAddress
from sandbox_service.stream.connection import MultiplexedClient
from sandbox_service.stream.failures import error_of
from sandbox_service.stream.options import MOST_IN_FLIGHT, ServerOptions
from sandbox_service.stream.server import StreamServer
from sandbox_service.supervisor.requests_in_flight import RequestsInFlight
from sandbox_service.wire.frames import Frame, Op
from tests.harness.supervised import supervised
from tests.harness.waiting import until

FLOOD = 8000
CREATE = b'{"environment":"diary","task_id":"echo-1"}'


def request(op: Op, tenant: str = "ada") -> Frame:
    return Frame(op, 1, "", {"tenant": tenant, "request_id": "r"}, CREATE if op is Op.CREATE else b"")


def most_of(requests: RequestsInFlight, op: Op, tenant: str = "ada") -> int:
    """The number of further requests of a tenant that are taken before one is refused."""
    for taken in range(10_000):
        try:
            requests.begin_request(request(op, tenant))
        except OverCapacityError:
            return taken
    raise AssertionError("none was refused")


def test_creates_leave_room_for_what_frees_the_boxes_and_for_other_tenants():
    requests = RequestsInFlight(10_000)
    assert most_of(requests, Op.CREATE) == 2000
    assert most_of(requests, Op.FORK) == 0
    assert most_of(requests, Op.STEP) == 1600
    assert most_of(requests, Op.CREATE, "bob") == 1280
    assert most_of(requests, Op.RELEASE, "bob") == 1024


def test_every_tenant_has_some_places_when_all_others_are_taken():
    requests = RequestsInFlight(100)
    assert [most_of(requests, Op.STEP, f"t{number}") for number in range(9)] == [64] * 9


def test_an_answered_request_makes_room():
    requests = RequestsInFlight(10_000)
    for place in [requests.begin_request(request(Op.STEP)) for _ in range(2000)]:
        requests.end_request(place)
    assert most_of(requests, Op.STEP) == 2000


@pytest.mark.parametrize("op", [Op.PING, Op.STATS, Op.DRAIN])
def test_what_the_service_itself_asks_is_never_refused(op):
    requests = RequestsInFlight(0)
    assert most_of(requests, Op.STEP, "") == 64
    for _ in range(100):
        requests.begin_request(request(op, ""))


async def test_creates_that_wait_for_a_box_do_not_hold_up_another_tenants_release() -> None:
    options = ServerOptions(max_in_flight=MOST_IN_FLIGHT)
    async with supervised(PoolConfig(min_boxes=0, max_boxes=1, queue_limit=FLOOD)) as service:
        bob = service.tenant_named("bob")
        instance = await bob.create("diary")
        server = StreamServer(service.core.handle, options=options)
        with tempfile.TemporaryDirectory(prefix="flood-") as folder:
            path = Path(folder) / "s"
            await server.listen_unix(path)
            client = MultiplexedClient(UnixAddress(str(path)))
            creates = [asyncio.create_task(client.request(request(Op.CREATE), 60)) for _ in range(FLOOD)]
            await until(lambda: any(create.done() for create in creates))
            assert error_of(next(create for create in creates if create.done()).result()).code is (
                ErrorCode.QUEUE_FULL
            )
            body = b'{"instance_id":"%s"}' % instance.encode()
            meta = {"tenant": "bob", "request_id": "r"}
            answer = await client.request(Frame(Op.RELEASE, 1, instance, meta, body), 30)
            assert answer.body == b'{"instance_id":"%s","released":true}' % instance.encode()
            for create in creates:
                create.cancel()
            await client.close()
            await server.close()
