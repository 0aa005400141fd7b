"""Routes for those who run the service."""

from __future__ import annotations

import re

from sandbox_contract.problems import ErrorCode
from sandbox_service.wire.frames import Op


async def test_health_is_two_letters_without_a_content_type(client):
    reply = await client.get("/healthz")
    assert (reply.status_code, reply.content) == (200, b"OK")
    assert "content-type" not in reply.headers


async def test_the_service_is_ready_while_a_supervisor_takes_instances(client, backend):
    assert (await client.get("/readyz")).text == "OK"
    backend.draining = True
    reply = await client.get("/readyz")
    assert (reply.status_code, reply.json()["code"]) == (503, "draining")
    backend.unreachable = True
    reply = await client.get("/readyz")
    assert (reply.status_code, reply.json()["code"]) == (503, "supervisor_unavailable")
    assert "retry-after" in reply.headers


async def test_supervisors_that_get_no_requests_are_named_to_those_who_may_see_the_fleet(client, backend):
    backend.left_out["s2"] = "node b has another version"
    assert (await client.get("/v1/stats")).json()["excluded"] == backend.left_out
    backend.unreachable = True
    reply = await client.get("/readyz")
    assert (reply.status_code, reply.json()["code"]) == (503, "supervisor_unavailable")
    assert "GET /v1/stats" in reply.json()["detail"]
    assert "node b" not in reply.text


async def test_the_service_is_not_ready_while_no_supervisor_can_write_its_records(client, backend):
    backend.storing = False
    reply = await client.get("/readyz")
    assert (reply.status_code, reply.json()["code"]) == (507, "storage_full")
    backend.storing = True
    assert (await client.get("/readyz")).text == "OK"


async def test_metrics_count_requests_operations_and_errors_and_show_the_fleet(client, backend, instance):
    backend.without_box = 2
    await client.post("/v1/step", json={"instance_id": "nobody", "message": {"role": "assistant"}})
    release = {"operation": "release_instance", "request": {"instance_id": instance}}
    await client.post("/v1/batch", json={"operations": [release]})
    await client.get("/v1/instances/nobody")
    await client.get("/no/such/route")
    text = (await client.get("/metrics")).text
    for line in (
        'sandbox_gateway_requests_total{code="200",replica="gateway",route="/v1/create_instance"} 1.0',
        'sandbox_gateway_requests_total{code="404",replica="gateway",route="/v1/step"} 1.0',
        '_requests_total{code="404",replica="gateway",route="/v1/instances/{instance_id}"} 1.0',
        'sandbox_gateway_requests_total{code="404",replica="gateway",route="unmatched"} 1.0',
        '_batch_operations_total{operation="release_instance",outcome="ok",replica="gateway"} 1.0',
        'sandbox_gateway_errors_total{code="unknown_instance",failure_class="request",replica="gateway"} 2.0',
        'sandbox_gateway_request_seconds_count{replica="gateway",route="/v1/batch"} 1.0',
        'sandbox_gateway_in_flight{replica="gateway"} 1.0',
        "sandbox_fleet_supervisors 1.0",
        'sandbox_fleet_instances{environment="echo",supervisor="s1"} 2.0',
        'sandbox_fleet_boxes{environment="echo",sandbox="process",state="busy",supervisor="s1"} 1.0',
        'sandbox_fleet_boxes_started_total{environment="echo",supervisor="s1"} 2.0',
    ):
        assert line in text


async def test_counters_of_errors_begin_at_zero_so_that_an_alert_sees_the_first_error(client):
    text = (await client.get("/metrics")).text
    counted = re.findall(r'sandbox_gateway_errors_total\{code="(\w+)",[^}]*\} 0\.0', text)
    assert set(counted) == {code.value for code in ErrorCode}


async def test_metrics_are_there_when_the_fleet_is_not(client, backend):
    backend.unreachable = True
    text = (await client.get("/metrics")).text
    assert "sandbox_fleet_supervisors 0.0" in text
    assert [call.op for call in backend.calls] == [Op.STATS]
