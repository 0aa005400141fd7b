"""Agents in boxes: which instances run them, for how long, and what is recorded."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import AgentsConfig, DeadlineConfig
from sandbox_service.stream.failures import error_of
from sandbox_service.wire import connections
from sandbox_service.wire.frames import Op
from tests.harness.supervised import supervised


def _run(instance: str, **fields: object) -> dict[str, object]:
    return {"instance_id": instance, "command": ["agent", "--fast"], **fields}


async def test_an_agent_runs_and_the_instance_goes_on() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        end = await service.ask(Op.RUN_AGENT, instance, _run(instance, environment={"A": "b"}))
        assert (end["instance_id"], end["exit_code"], end["stdout"]) == (instance, 0, "agent --fast")
        assert json.loads(end["stderr"])["A"] == "b"
        assert (await service.step(instance))["step_index"] == 0


async def test_an_environment_that_runs_no_agents_says_so() -> None:
    async with supervised() as service:
        instance = await service.create("echo")
        refusal = await service.refusal(Op.RUN_AGENT, instance, _run(instance))
        assert refusal is ErrorCode.AGENTS_UNSUPPORTED


async def test_a_finished_episode_runs_no_agent() -> None:
    async with supervised() as service:
        instance = await service.create("diary", task_id="echo-1")
        await service.step(instance)
        refusal = await service.refusal(Op.RUN_AGENT, instance, _run(instance))
        assert refusal is ErrorCode.INSTANCE_FINISHED


@pytest.mark.parametrize(("asked", "given"), [(None, 7.0), (3.0, 3.0), (100.0, 7.0)])
async def test_an_agent_has_the_time_of_the_request_within_the_services_limit(
    asked: float | None, given: float
) -> None:
    async with supervised(deadline=DeadlineConfig(agent_s=7)) as service:
        instance = await service.create("diary")
        fields = {} if asked is None else {"timeout_s": asked}
        end = await service.ask(Op.RUN_AGENT, instance, _run(instance, **fields))
        assert json.loads(end["stderr"])["timeout_s"] == given


async def test_an_agent_runs_once_for_a_key_and_alone_on_its_instance() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        box = service.factory.home_of(instance)
        box.hold(Op.RUN_AGENT)
        first = asyncio.create_task(service.call(Op.RUN_AGENT, instance, _run(instance), key="k"))
        await box.waiting.wait()
        again = asyncio.create_task(service.call(Op.RUN_AGENT, instance, _run(instance), key="k"))
        assert await service.refusal(Op.EVALUATE, instance, {}) is ErrorCode.INSTANCE_BUSY
        box.let_go(Op.RUN_AGENT)
        assert (await first).body == (await again).body
        assert box.runner.executed[f"{instance}/agent --fast"] == 1


async def test_another_variable_under_the_same_key_is_another_request() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        await service.ask(Op.RUN_AGENT, instance, _run(instance, environment={"KEY": "one"}), key="k")
        body = _run(instance, environment={"KEY": "two"})
        refusal = await service.refusal(Op.RUN_AGENT, instance, body, key="k")
        assert refusal is ErrorCode.IDEMPOTENCY_CONFLICT


async def test_the_record_has_no_value_of_a_variable() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        await service.ask(Op.RUN_AGENT, instance, _run(instance, environment={"KEY": "sk-secret"}), key="k")
        (event,) = [each for each in service.store.own_events[instance] if each.kind.value == "run_agent"]
        assert b"sk-secret" not in event.request
        assert json.loads(event.request)["command"] == ["agent", "--fast"]
        assert list(json.loads(event.request)["environment"]) == ["KEY"]


async def test_a_request_that_does_not_match_its_schema_runs_nothing() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        for wrong in ({"command": []}, {"environment": {"A=B": "c"}}, {"environment": {"A": "\0"}}):
            refusal = await service.refusal(Op.RUN_AGENT, instance, {**_run(instance), **wrong})
            assert refusal is ErrorCode.INVALID_REQUEST


async def test_an_endpoint_that_the_settings_do_not_name_is_refused() -> None:
    async with supervised(agents=AgentsConfig(model_endpoints=("127.0.0.1:80",))) as service:
        instance = await service.create("diary")
        body = _run(instance, model_endpoint="169.254.169.254:80")
        refusal = await service.refusal(Op.RUN_AGENT, instance, body)
        assert refusal is ErrorCode.MODEL_ENDPOINT_FORBIDDEN
        assert (await service.ask(Op.RUN_AGENT, instance, _run(instance, model_endpoint="127.0.0.1:80")))[
            "model_connections"
        ] == 0


@pytest.mark.parametrize("endpoint", ["127.0.0.1", "http://a:80", "a:b", "user@a:80", "a b:80", ":80"])
async def test_an_endpoint_is_a_host_and_a_port(endpoint: str) -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        refusal = await service.refusal(Op.RUN_AGENT, instance, _run(instance, model_endpoint=endpoint))
        assert refusal is ErrorCode.INVALID_REQUEST


async def test_nothing_is_recorded_of_an_agent_whose_instance_is_released_while_its_tunnel_closes() -> None:
    connected = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    endpoint = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = endpoint.sockets[0].getsockname()
    address = f"{host}:{port}"
    async with endpoint, supervised(agents=AgentsConfig(model_endpoints=(address,))) as service:
        instance = await service.create("diary")
        home = service.factory.home_of(instance)
        home.hold(Op.RUN_AGENT)
        running = asyncio.create_task(
            service.call(Op.RUN_AGENT, instance, _run(instance, model_endpoint=address))
        )
        await home.waiting.wait()
        tunnels = service.core.table.by_id(instance).box.tunnels
        tunnels[instance].receive(connections.opened(instance, 1))
        await connected.wait()
        home.let_go(Op.RUN_AGENT)
        # In the few turns of the loop in which the tunnel closes.
        while instance in tunnels:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert await service.release(instance)
        assert error_of(await running).code is ErrorCode.INSTANCE_RELEASED
        assert service.store.kinds(instance) == ["create", "release"]
