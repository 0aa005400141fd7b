"""Agents in real boxes: they reach their model, write files, and are graded from them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.wire.frames import Op
from tests.harness.agent_boxes import CATALOG, agent_boxes, package_folder
from tests.harness.boxes import KINDS, need_kind
from tests.harness.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.harness.agent_boxes import AgentBoxes

pytestmark = pytest.mark.slow

_ASK = """
import json, os, sys, urllib.request
def ask(body):
    request = urllib.request.Request(os.environ["BASE_URL"] + "/v1/chat", body)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()
"""
_URL = {"BASE_URL": "http://{model_endpoint}"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of box that this machine has."""
    need_kind(request.param)
    return str(request.param)


@pytest.fixture
async def boxes(kind: str) -> AsyncIterator[AgentBoxes]:
    async with agent_boxes(kind) as boxes:
        yield boxes


async def test_an_agent_asks_its_model_writes_a_file_and_is_graded(boxes: AgentBoxes) -> None:
    task = CATALOG.task_ids("programs_test")[0]
    arguments = CATALOG.reference(task)[0]["tool_calls"][0]["function"]["arguments"]
    solution = json.loads(arguments)["command"]
    instance = await boxes.start(task)
    # The endpoint answers with the bytes reversed: what comes back is the command.
    code = _ASK + f"import subprocess; subprocess.run(ask({solution[::-1].encode()!r}).decode(), shell=True)"
    end = await boxes.python(instance, code, environment=_URL)
    assert (end["exit_code"], end["stderr"]) == (0, "")
    assert (end["model_connections"], end["failed_model_connections"]) == (1, 0)
    assert (await boxes.evaluate(instance))["success"] is True
    assert await boxes.release(instance)


async def test_large_requests_and_many_at_once_pass(boxes: AgentBoxes) -> None:
    instance = await boxes.start()
    code = _ASK + (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "bodies = [os.urandom(300_000 + i) for i in range(24)]\n"
        "with ThreadPoolExecutor(8) as pool: answers = list(pool.map(ask, bodies))\n"
        "print([a[::-1] for a in answers] == bodies)"
    )
    end = await boxes.python(instance, code, environment=_URL)
    assert (end["stdout"], end["stderr"]) == ("True\n", "")
    assert len(boxes.endpoint.requests) == 24


async def test_instances_side_by_side_have_ports_of_their_own(boxes: AgentBoxes) -> None:
    instances = [await boxes.start() for _ in range(2)]
    code = _ASK + "print(ask(sys.argv[1].encode()).decode())"
    ends = await asyncio.gather(
        *(
            boxes.run(each, ["python3", "-c", code, name], environment=_URL)
            for each, name in zip(instances, ("ab", "cd"), strict=True)
        )
    )
    assert [end["stdout"] for end in ends] == ["ba\n", "dc\n"]


async def test_an_endpoint_that_is_down_is_counted(boxes: AgentBoxes) -> None:
    instance = await boxes.start()
    body = {
        "instance_id": instance,
        "command": ["python3", "-c", _ASK + "ask(b'')"],
        "environment": _URL,
        "model_endpoint": boxes.address,
    }
    boxes.close_endpoint()
    end = await boxes.ask(Op.RUN_AGENT, instance, body)
    assert end["exit_code"] == 1
    assert end["failed_model_connections"] >= 1
    assert await boxes.solve(instance)


async def test_an_endpoint_that_is_not_allowed_is_refused(boxes: AgentBoxes) -> None:
    instance = await boxes.start()
    body = {"instance_id": instance, "command": ["true"], "model_endpoint": "127.0.0.1:22"}
    assert await boxes.refusal(Op.RUN_AGENT, instance, body) is ErrorCode.MODEL_ENDPOINT_FORBIDDEN


async def test_a_release_ends_an_agent_that_waits_for_its_model(boxes: AgentBoxes) -> None:
    boxes.endpoint.hanging = True
    instance = await boxes.start()
    body = {
        "instance_id": instance,
        "command": ["python3", "-c", _ASK + "ask(b'x')"],
        "environment": _URL,
        "model_endpoint": boxes.address,
    }
    running = asyncio.create_task(boxes.call(Op.RUN_AGENT, instance, body))
    await until(lambda: boxes.endpoint.requests)
    assert await boxes.release(instance)
    assert b"instance_released" in (await running).body
    boxes.endpoint.hanging = False
    assert await boxes.solve(await boxes.start())


async def test_an_agent_finds_the_modules_and_programs_of_its_package(kind: str) -> None:
    with package_folder() as folder:
        async with agent_boxes(kind, agents={"packages": {"tool": folder}}) as boxes:
            instance = await boxes.start()
            code = "import tool, subprocess; print(tool.NAME, subprocess.getoutput('greet'))"
            end = await boxes.python(instance, code, package="tool")
            assert (end["stdout"], end["stderr"]) == ("a tool hello\n", "")
            end = await boxes.run(instance, ["bash", "-c", "ls {package}"], package="tool")
            assert end["stdout"].split() == ["bin", "tool.py"]


async def test_an_agent_cannot_write_into_a_package(kind: str) -> None:
    with package_folder() as folder:
        # Modes do not matter here: the mount is read-only.
        folder.chmod(0o777)
        async with agent_boxes(kind, agents={"packages": {"tool": folder}}) as boxes:
            instance = await boxes.start()
            end = await boxes.run(instance, ["bash", "-c", "echo x > {package}/planted"], package="tool")
            assert "Read-only file system" in end["stderr"]
            assert not (folder / "planted").exists()


async def test_a_package_that_the_settings_do_not_name_is_unknown(boxes: AgentBoxes) -> None:
    instance = await boxes.start()
    body = {"instance_id": instance, "command": ["true"], "package": "tool"}
    assert await boxes.refusal(Op.RUN_AGENT, instance, body) is ErrorCode.UNKNOWN_AGENT_PACKAGE
