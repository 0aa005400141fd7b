"""Hostile agents in boxes with a model endpoint: what they cannot reach, and whom they do not disturb."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from sandbox_service.wire.frames import Op
from tests.harness.agent_boxes import agent_boxes
from tests.harness.boxes import KINDS, need_kind
from tests.harness.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.harness.agent_boxes import AgentBoxes

pytestmark = pytest.mark.slow

_CONNECT = """
import os, socket, sys, threading, time
host, port = os.environ["MODEL_ENDPOINT"].split(":")
def connect(timeout=60):
    return socket.create_connection((host, int(port)), timeout)
"""
_LINE = """
line = connect()
line.sendall(b"POST / HTTP/1.1\\r\\nContent-Length: 1\\r\\n\\r\\nx")
line.recv(1000)
def await_end():
    line.settimeout(300)
    try:
        line.recv(1)
    except ConnectionError:
        pass
"""
"""A connection by which the test ends the agent: it breaks when the endpoint dies."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of box that this machine has."""
    need_kind(request.param)
    return str(request.param)


@pytest.fixture
async def boxes(kind: str) -> AsyncIterator[AgentBoxes]:
    async with agent_boxes(kind, limits={"memory_mib": 256, "pids": 64}) as boxes:
        yield boxes


async def test_nothing_but_the_endpoint_is_in_reach(boxes: AgentBoxes) -> None:
    other = await asyncio.start_server(lambda _, writer: writer.close(), "0.0.0.0", 0)
    open_port = other.sockets[0].getsockname()[1]
    code = (
        _CONNECT
        + f"""
import json
ports = [{open_port}, {boxes.address.rpartition(":")[2]}, 22, 2375, 8080]
hosts = ["127.0.0.1", "172.17.0.1", "10.0.0.1", "169.254.169.254", "1.1.1.1", "::1"]
reached = []
for name in hosts:
    for number in ports + [80, 443]:
        if (name, number) == (host, int(port)):
            continue
        try:
            socket.create_connection((name, number), 2).close()
            reached.append([name, number])
        except OSError:
            pass
try:
    socket.getaddrinfo("example.com", 80)
    reached.append("names")
except OSError:
    pass
for family in (socket.AF_NETLINK, socket.AF_PACKET, 40):
    try:
        socket.socket(family, socket.SOCK_RAW)
        reached.append(f"family {{int(family)}}")
    except OSError:
        pass
with connect() as end:
    end.sendall(b"POST / HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\nok")
    answered = end.recv(1000).endswith(b"ko")
print(json.dumps([reached, answered]))
"""
    )
    end = await boxes.python(await boxes.start(), code)
    assert json.loads(end["stdout"]) == [[], True], end["stderr"]
    other.close()


async def test_bytes_of_the_agent_do_not_choose_where_they_go(boxes: AgentBoxes) -> None:
    """Proxy requests and other hosts' names arrive at the endpoint like all others."""
    code = (
        _CONNECT
        + """
for head in (b"CONNECT 127.0.0.1:22 HTTP/1.1\\r\\n\\r\\n",
             b"GET http://127.0.0.1:22/ HTTP/1.1\\r\\nHost: 127.0.0.1:22\\r\\n\\r\\n"):
    with connect() as end:
        end.sendall(head)
        print(end.recv(1000)[:15])
"""
    )
    end = await boxes.python(await boxes.start(), code)
    assert end["stdout"].split("\n")[:2] == ["b'HTTP/1.1 200 OK'"] * 2, end["stderr"]


async def test_an_instance_cannot_use_the_endpoint_of_another(boxes: AgentBoxes) -> None:
    one, two = await boxes.start(), await boxes.start()
    say = (
        "body = port.encode()\n"
        "end = connect()\n"
        "end.sendall(b'POST / HTTP/1.1\\r\\nContent-Length: %d\\r\\n\\r\\n%s' % (len(body), body))\n"
        "await_end()"
    )
    running = asyncio.create_task(boxes.python(one, _CONNECT + _LINE + say))
    await until(lambda: len(boxes.endpoint.requests) == 2)
    foreign = int(boxes.endpoint.requests[1])
    code = f"""
import socket
try:
    with socket.create_connection(("127.0.0.1", {foreign}), 5) as end:
        end.settimeout(5)
        end.sendall(b"POST / HTTP/1.1\\r\\nContent-Length: 1\\r\\n\\r\\nx")
        print(end.recv(100))
except OSError as error:
    print("refused")
"""
    end = await boxes.python(two, code)
    assert end["stdout"] in ("refused\n", "b''\n")
    assert len(boxes.endpoint.requests) == 2
    boxes.endpoint.die()
    assert (await running)["exit_code"] == 0


async def test_a_thousand_connections_leave_the_neighbour_its_own(boxes: AgentBoxes) -> None:
    one, two = await boxes.start(), await boxes.start()
    hoard = (
        _CONNECT
        + _LINE
        + """
ends = []
def hoard():
    while True:
        try:
            ends.append(connect(5))
        except OSError:
            pass
threading.stack_size(1 << 18)  # twenty ordinary stacks are more than a process box has room for
for _ in range(20): threading.Thread(target=hoard, daemon=True).start()
await_end()
"""
    )
    flood = asyncio.create_task(boxes.python(one, hoard))
    await until(lambda: boxes.endpoint.open_connections >= 20 or flood.done())
    assert not flood.done(), flood.result()
    for _ in range(5):
        end = await boxes.python(two, _CONNECT + _ask(1000))
        assert end["stdout"] == "True\n", end["stderr"]
    boxes.endpoint.die()
    assert (await flood)["exit_code"] == 0
    assert await boxes.solve(one)
    assert await boxes.solve(two)


async def test_an_agent_that_sends_and_never_reads_holds_no_more_than_its_windows(boxes: AgentBoxes) -> None:
    one, two = await boxes.start(), await boxes.start()
    fill = (
        _CONNECT
        + _LINE
        + """
threading.Thread(target=lambda: (await_end(), os._exit(0))).start()
ends = {connect(): 5_000_000 for _ in range(20)}
for end in ends:
    end.sendall(b"POST / HTTP/1.1\\r\\nContent-Length: 5000000\\r\\n\\r\\n")
    end.setblocking(False)
while True:
    for end, left in ends.items():
        try:
            ends[end] -= end.send(b"x" * min(left, 65536)) if left else 0
        except OSError:
            pass
    time.sleep(0.001)
"""
    )
    flood = asyncio.create_task(boxes.python(one, fill))
    await until(lambda: len(boxes.endpoint.requests) >= 4)  # one of the line, the others of 5 MB
    end = await boxes.python(two, _CONNECT + _ask(200_000), timeout_s=120)
    assert end["stdout"] == "True\n", end["stderr"]
    boxes.endpoint.die()
    assert (await flood)["exit_code"] == 0
    assert await boxes.solve(one)


async def test_a_fork_bomb_ends_with_its_agent(boxes: AgentBoxes) -> None:
    one, two = await boxes.start(), await boxes.start()
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    end = await boxes.python(one, bomb, timeout_s=3)
    assert (end["exit_code"], end["timed_out"]) == (None, True)
    assert await boxes.solve(one)
    assert await boxes.solve(two)


async def test_an_endpoint_that_dies_takes_no_instance_along(boxes: AgentBoxes) -> None:
    boxes.endpoint.hanging = True
    instance = await boxes.start()
    code = _CONNECT + "end = connect(); end.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n'); print(end.recv(10))"
    running = asyncio.create_task(boxes.python(instance, code))
    await until(lambda: boxes.endpoint.requests)
    boxes.endpoint.die()
    assert (await running)["stdout"] == "b''\n"
    assert await boxes.solve(instance)


async def test_a_full_workspace_is_the_agents_own(boxes: AgentBoxes) -> None:
    one, two = await boxes.start(), await boxes.start()
    end = await boxes.run(one, ["bash", "-c", "cat /dev/zero > fill; cat /dev/zero > fill2; echo done"])
    assert (end["exit_code"], end["stdout"]) == (0, "done\n")
    assert await boxes.solve(two)
    assert await boxes.ask(Op.RUN_AGENT, one, {"instance_id": one, "command": ["rm", "fill", "fill2"]})
    assert await boxes.solve(one)


def _ask(size: int) -> str:
    """Code that asks the endpoint once, and says whether the answer is right."""
    return f"""
body = bytes(range(250)) * {size // 250}
with connect() as end:
    end.sendall(b"POST / HTTP/1.1\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    answer = b""
    while len(answer) < len(body):
        answer += end.recv(65536)
    print(answer.endswith(body[::-1]))
"""
