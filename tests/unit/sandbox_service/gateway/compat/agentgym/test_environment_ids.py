import json

import pytest

from sandbox_service.errors import ServiceError
from sandbox_service.fleet.replies import FleetReplies
from sandbox_service.gateway.compat.agentgym.environment_ids import (
    FIRST,
    EnvironmentIds,
    instance_name,
    later_number,
)
from sandbox_service.gateway.exchange import HttpExchange
from sandbox_service.wire.frames import Frame, Op


class Fleet:
    """Knows instances by name and state; one that is ``on record`` is in no supervisor's memory."""

    def __init__(self, **states):
        self.states = states

    async def call_all(self, exchange, op, timeout_s=None, details=None):
        if "unended" in details:
            live = [name for name, state in self.states.items() if state in ("active", "on record")]
            unended = [name for name in live if name.startswith(details["unended"])]
            return FleetReplies((Frame(Op.REPLY, 0, "", {}, json.dumps(unended).encode()),))
        head = {"environment": "babyai", "task_id": "t", "step_index": 0, "idle_s": 0.0, "supervisor": "s"}
        told = [
            {**head, "instance_id": name, "state": state}
            for name, state in self.states.items()
            if name.startswith(details["prefix"]) and state != "on record"
        ]
        return FleetReplies((Frame(Op.REPLY, 0, "", {}, json.dumps({"instances": told}).encode()),))


def exchange(tenant="a"):
    made = HttpExchange("r", "POST", "/", {})
    made.tenant = tenant
    return made


def environment_ids(states=()):
    return EnvironmentIds(Fleet(**dict(states)))  # type: ignore[arg-type]


def test_an_id_is_an_integer_that_every_json_reader_keeps():
    known = environment_ids()
    ids = {known.issue(exchange(), "babyai") for _ in range(200)}
    assert len(ids) == 200
    assert all(0 <= place < 2**53 for place in ids)


def test_an_id_is_valid_for_its_tenant_and_server_in_any_replica():
    place = environment_ids().issue(exchange(), "babyai")
    environment_ids().require_valid(exchange(), "babyai", place)
    for tenant, server, other in (
        ("b", "babyai", place),
        ("a", "webshop", place),
        ("a", "babyai", place ^ 1),
    ):
        with pytest.raises(ServiceError, match=f"The id {other} is not valid"):
            environment_ids().require_valid(exchange(tenant), server, other)


async def test_the_newest_living_instance_is_the_environment_ids():
    states = {
        instance_name("babyai", 7, FIRST): "released",
        instance_name("babyai", 7, 300): "active",
        instance_name("babyai", 7, 40): "active",
        instance_name("babyai", 71, 500): "active",
        "agentgym-babyai-7-mine": "active",
    }
    known = environment_ids(states)
    assert await known.find_live(exchange(), "babyai", 7) == "agentgym-babyai-7-300"
    assert known.cached_instance(exchange(), "babyai", 7) == "agentgym-babyai-7-300"
    assert await known.list_live_ids(exchange(), "babyai") == [7, 71]


async def test_an_instance_that_was_handed_over_is_found_by_its_record():
    states = {
        instance_name("babyai", 7, FIRST): "released",
        instance_name("babyai", 7, 40): "on record",
        instance_name("babyai", 8, FIRST): "active",
    }
    known = environment_ids(states)
    assert await known.find_live(exchange(), "babyai", 7) == "agentgym-babyai-7-40"
    assert await known.list_live_ids(exchange(), "babyai") == [7, 8]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({}, "has not been reset"),
        ({"agentgym-babyai-7-0": "released"}, "has been deleted"),
        ({"agentgym-babyai-7-0": "expired"}, "was idle for too long"),
        ({"agentgym-babyai-7-0": "released", "agentgym-babyai-7-9": "lost"}, "was lost with its sandbox"),
    ],
    ids=["never", "released", "expired", "lost"],
)
async def test_an_id_without_a_live_instance_says_why(states, said):
    with pytest.raises(ServiceError, match=said):
        await environment_ids(states).find_live(exchange(), "babyai", 7)


def test_later_instances_have_greater_numbers_than_the_first():
    assert later_number() > FIRST
