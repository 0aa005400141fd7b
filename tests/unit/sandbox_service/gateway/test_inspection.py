"""Routes that tell about the service."""

from __future__ import annotations

import pytest

from sandbox_contract.inspection import Environments, Instances, InstanceStatus, InstanceTrajectory, Stats
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Op


async def test_environments_are_described(client):
    listed = Environments.model_validate((await client.get("/v1/environments")).json())
    assert [each.name for each in listed.environments] == ["echo", "tools"]


async def test_instances_are_listed_and_looked_at(client, instance):
    listed = Instances.model_validate((await client.get("/v1/instances")).json())
    one = InstanceStatus.model_validate((await client.get(f"/v1/instances/{instance}")).json())
    assert listed.instances == (one,)
    assert (one.state, one.task_id) == ("active", "echo-10")


@pytest.mark.parametrize("query", ["", "?cursor=s1.1,s2.1"])
async def test_a_listing_without_a_supervisor_is_not_taken_for_complete(client, backend, instance, query):
    backend.away = ("s2",)
    reply = await client.get(f"/v1/instances{query}")
    assert (reply.status_code, reply.json()["code"]) == (503, "supervisor_unavailable")
    assert "s2" in reply.json()["detail"]
    assert int(reply.headers["retry-after"]) >= 1


async def test_a_listing_that_a_supervisor_refuses_has_its_error(client, backend, instance):
    backend.away = ("s2", "s3")
    backend.refusals = {"s3": ServiceError(ErrorCode.QUEUE_FULL, "too many requests", retry_after_s=3.0)}
    reply = await client.get("/v1/instances")
    assert (reply.status_code, reply.json()["code"]) == (429, "queue_full")
    assert (reply.json()["detail"], reply.headers["retry-after"]) == ("s3: too many requests", "3")


async def test_a_supervisor_that_gets_no_requests_is_not_waited_for_in_a_listing(client, backend, instance):
    backend.away, backend.left_out = ("s2",), {"s2": "another version"}
    listed = Instances.model_validate((await client.get("/v1/instances")).json())
    assert [each.instance_id for each in listed.instances] == [instance]


async def test_a_trajectory_is_passed_on(client, instance):
    reply = await client.get(f"/v1/instances/{instance}/trajectory")
    assert InstanceTrajectory.model_validate(reply.json()).tenant == "local"


@pytest.mark.parametrize("path", ["/v1/instances", "/v1/instances/i/trajectory"])
@pytest.mark.parametrize(
    "query", ["cursor=", "cursor=x", "cursor=-1", "cursor=s1.x", "limit=0", "limit=1001"]
)
async def test_a_page_that_cannot_be_does_not_match_the_schema(client, backend, path, query):
    reply = await client.get(f"{path}?{query}")
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid_request")
    assert backend.calls == []


async def test_statistics_are_added_up_with_the_instances_that_are_in_no_box(client, backend, instance):
    backend.without_box = 4
    stats = Stats.model_validate((await client.get("/v1/stats")).json())
    assert (stats.instances, stats.queued, [each.name for each in stats.supervisors]) == (5, 0, ["s1"])


@pytest.mark.parametrize("path", ["/v1/instances/nobody", "/v1/instances/nobody/trajectory"])
async def test_an_unknown_instance_is_a_problem(client, path):
    reply = await client.get(path)
    assert (reply.status_code, reply.json()["code"]) == (404, "unknown_instance")
    assert reply.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("name", ["%00", "-x", "a%20b", "x" * 129])
async def test_an_id_that_cannot_be_one_does_not_match_the_schema(client, backend, name):
    reply = await client.get(f"/v1/instances/{name}")
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid_request")
    assert backend.calls == []


async def test_a_failure_of_the_fleet_is_a_problem_with_the_requests_id(client, backend, instance):
    backend.failures[Op.TRAJECTORY] = ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, retry_after_s=0.5)
    reply = await client.get(f"/v1/instances/{instance}/trajectory", headers={"X-Request-Id": "r-9"})
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    assert reply.json()["request_id"] == reply.headers["x-request-id"] == "r-9"
