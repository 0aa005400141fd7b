"""A create that is given up leaves no instance whose id its caller never gets; cancelled ones have a file of
their own."""

import asyncio
import logging
from functools import partial

import httpx
import pytest

from sandbox_client import AsyncSandboxClient, RetryPolicy, SandboxClient, SandboxError
from sandbox_contract.problems import ErrorCode
from tests.fakes.scripted_transport import Answer, ScriptedTransport, in_turn, problem

ONCE = RetryPolicy(attempts=1, total_s=0.0)
CREATED = {"instance_id": "i", "environment": "echo", "task_id": "t", "observation": {"messages": []}}
RELEASED = {"instance_id": "i", "released": True}
UNDONE = ["create_instance", "create_instance", "release_instance"]
ok = partial(httpx.Response, 200)


async def asynchronously(transport: ScriptedTransport, **options: str) -> None:
    async with AsyncSandboxClient("http://service", transport=transport, retry=ONCE) as client:
        await client.create_instance("echo", "t", **options)  # type: ignore[arg-type]


def synchronously(transport: ScriptedTransport, **options: str) -> None:
    with SandboxClient("http://service", transport=transport, retry=ONCE) as client:
        client.create_instance("echo", "t", **options)  # type: ignore[arg-type]


def verbs_of(transport: ScriptedTransport) -> list[str]:
    return [request.url.path.rpartition("/")[2] for request in transport.requests]


OUTCOMES = pytest.mark.parametrize(
    ("outcome", "verbs"),
    [
        (httpx.ReadError("broken"), UNDONE),
        (problem(ErrorCode.OUTCOME_UNKNOWN), UNDONE),
        (problem(ErrorCode.DEADLINE_EXCEEDED), UNDONE),
        (httpx.Response(200, content=b"{"), UNDONE),
        (problem(ErrorCode.UNKNOWN_TASK), UNDONE[:1]),
        (problem(ErrorCode.QUEUE_FULL), UNDONE[:1]),
        (httpx.ConnectError("refused"), UNDONE[:1]),
    ],
    ids=["broken", "unknown", "late", "cut", "no task", "full", "refused"],
)


@OUTCOMES
async def test_a_create_that_is_given_up_is_undone_if_it_may_have_been_executed(
    outcome: Answer, verbs: list[str]
) -> None:
    transport = ScriptedTransport(in_turn(outcome, ok(json=CREATED), ok(json=RELEASED)))
    with pytest.raises(SandboxError):
        await asynchronously(transport)
    assert verbs_of(transport) == verbs
    assert len({each.content for each in transport.requests if "create" in each.url.path}) == 1


@OUTCOMES
def test_the_synchronous_client_undoes_the_same_creates(outcome: Answer, verbs: list[str]) -> None:
    transport = ScriptedTransport(in_turn(outcome, ok(json=CREATED), ok(json=RELEASED)))
    with pytest.raises(SandboxError):
        synchronously(transport)
    assert verbs_of(transport) == verbs
    assert len({each.content for each in transport.requests if "create" in each.url.path}) == 1
    assert transport.closed


@pytest.mark.parametrize("own", [{"idempotency_key": "mine"}, {"instance_id": "i"}], ids=["key", "id"])
async def test_a_create_with_a_name_of_its_callers_is_left_to_its_caller(own: dict[str, str]) -> None:
    for create in (asynchronously, synchronously):
        transport = ScriptedTransport(in_turn(httpx.ReadError("broken"), ok(json=CREATED), ok(json=RELEASED)))
        with pytest.raises(SandboxError):
            await (
                asyncio.to_thread(create, transport, **own)
                if create is synchronously
                else create(transport, **own)
            )
        assert verbs_of(transport) == UNDONE[:1]


def test_an_undoing_that_fails_in_an_unexpected_way_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    for create in (synchronously, lambda transport: asyncio.run(asynchronously(transport))):
        transport = ScriptedTransport(in_turn(httpx.ReadError("broken"), ValueError("odd")))
        caplog.clear()
        with caplog.at_level(logging.WARNING), pytest.raises(SandboxError):
            create(transport)
        (record,) = caplog.records
        assert "until its lease ends" in record.getMessage()
        assert "odd" in str(record.exc_info)
