"""The ports behind which agents find their model endpoint: what passes, and what is bounded."""

from __future__ import annotations

import json
import socket
from itertools import takewhile
from typing import TYPE_CHECKING

import pytest

from sandbox_service.runner.main_process.model_connections import AgentConnection, ShortReads
from sandbox_service.wire import connections
from sandbox_service.wire.connections import CHUNK, MOST_CONNECTIONS, WINDOW
from sandbox_service.wire.frames import Frame, Op
from tests.harness.runner_box import error_code, runner_box

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.harness.runner_box import RunnerBox

_CONNECT = """
import os, socket, sys, time
host, port = os.environ["MODEL_ENDPOINT"].split(":")
def connect():
    return socket.create_connection((host, int(port)), 20)
"""


@pytest.fixture(scope="module")
def box(drop: bool) -> Iterator[RunnerBox]:
    """A box with a network of its own, as it believes."""
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True, own_network=True) as box:
        yield box


@pytest.fixture
def agent(box: RunnerBox, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"i-{request.node.name}"[:60]
    box.create(name)
    yield name
    assert box.release(name)
    box.carried.clear()


def _start(box: RunnerBox, name: str, code: str, **changes: object) -> int:
    command = ["python3", "-c", _CONNECT + code]
    return box.start_agent(name, command, model_endpoint=True, **changes)


def _end(box: RunnerBox, started: int) -> dict[str, object]:
    reply = box.answer(started)
    assert reply.op is Op.REPLY, reply.body
    return json.loads(reply.body)


def test_bytes_go_both_ways_and_the_end_follows(box: RunnerBox, agent: str) -> None:
    code = "end = connect(); end.sendall(b'ping'); print(end.recv(9)); print(end.recv(9))"
    started = _start(box, agent, code)
    opened = box.next_carried(Op.CONNECTION_OPEN)
    sent = box.next_carried(Op.CONNECTION_DATA)
    assert (sent.body, sent.instance_id, sent.request_id) == (b"ping", agent, opened.request_id)
    box.carry(connections.data(agent, opened.request_id, b"pong"))
    credit = box.next_carried(Op.CONNECTION_CREDIT)
    assert connections.credited(credit) == 4
    box.carry(connections.closed(agent, opened.request_id))
    assert _end(box, started)["stdout"] == "b'pong'\nb''\n"


def test_the_address_is_filled_into_words_and_variables(box: RunnerBox, agent: str) -> None:
    command = ["bash", "-c", "echo $0 $URL $MODEL_ENDPOINT", "http://{model_endpoint}/v1"]
    started = box.start_agent(
        agent, command, environment={"URL": "http://{model_endpoint}/"}, model_endpoint=True
    )
    word, variable, address = str(_end(box, started)["stdout"]).split()
    assert address.startswith("127.0.0.1:")
    assert (word, variable) == (f"http://{address}/v1", f"http://{address}/")


def test_an_agent_that_sends_without_end_is_stopped_at_the_window(box: RunnerBox, agent: str) -> None:
    code = """
end = connect(); end.settimeout(2); sent = 0
try:
    while True: sent += end.send(b"x" * 65536)
except TimeoutError:
    print(sent)
"""
    started = _start(box, agent, code)
    _end(box, started)
    received = sum(len(frame.body) for frame in box.carried if frame.op is Op.CONNECTION_DATA)
    assert received == WINDOW


def test_a_credit_lets_more_through(box: RunnerBox, agent: str) -> None:
    code = f"end = connect(); end.sendall(b'x' * {3 * WINDOW}); print('sent'); end.recv(1)"
    started = _start(box, agent, code)
    number = box.next_carried(Op.CONNECTION_OPEN).request_id
    received = 0
    while received < 3 * WINDOW:
        content = box.next_carried(Op.CONNECTION_DATA).body
        received += len(content)
        box.carry(connections.credit(agent, number, len(content)))
    box.carry(connections.closed(agent, number))
    assert _end(box, started)["stdout"] == "sent\n"


def test_an_agent_that_does_not_read_loses_the_connection_of_a_host_that_sends_on(
    box: RunnerBox, agent: str
) -> None:
    started = _start(box, agent, "end = connect(); line = connect(); print(line.recv(9))", timeout_s=100)
    number, line = [box.next_carried(Op.CONNECTION_OPEN).request_id for _ in range(2)]
    # The kernel's buffers take some; what they do not take is bounded here.
    for _ in range(200):
        box.carry(connections.data(agent, number, b"x" * WINDOW))
    assert box.next_carried(Op.CONNECTION_CLOSE).request_id == number
    box.carry(connections.data(agent, line, b"over"))
    assert _end(box, started)["stdout"] == "b'over'\n"


def test_connections_over_the_bound_wait(box: RunnerBox, agent: str) -> None:
    code = f"""
ends = []
for _ in range({MOST_CONNECTIONS}): ends.append(connect())
ends.append(connect())
print("connected")
ends[0].recv(1)
"""
    started = _start(box, agent, code, timeout_s=60)
    numbers = [box.next_carried(Op.CONNECTION_OPEN).request_id for _ in range(MOST_CONNECTIONS)]
    box.carry(connections.data(agent, numbers[0], b"x"))
    assert _end(box, started)["stdout"] == "connected\n"
    # The last one waits until another is closed, at the end of the agent.
    before = takewhile(lambda frame: frame.op is not Op.CONNECTION_CLOSE, box.carried)
    assert Op.CONNECTION_OPEN not in [frame.op for frame in before]


def test_agents_with_many_connections_leave_descriptors_for_other_instances(drop: bool) -> None:
    few = ("prlimit", "--nofile=128:256")
    code = f"ends = [connect() for _ in range({MOST_CONNECTIONS})]; ends[0].recv(1)"
    with runner_box(
        "tests.fakes.agent_world", drop=drop, agent_code=True, own_network=True, command=few
    ) as box:
        for name in "abcd":
            box.create(name)
        greedy = [_start(box, name, code) for name in "ab"]
        for _ in range(64):
            box.next_carried(Op.CONNECTION_OPEN)
        modest = _start(box, "c", "time.sleep(2); end = connect(); print(end.recv(1))")
        while (opened := box.next_carried(Op.CONNECTION_OPEN)).instance_id != "c":
            pass
        box.carry(connections.data("c", opened.request_id, b"x"))
        assert _end(box, modest)["stdout"] == "b'x'\n"
        assert box.create("e").op is Op.REPLY
        box.release("a")
        assert error_code(box.answer(greedy[0])) == "instance_lost"
        # In the place of what the other had.
        assert box.next_carried(Op.CONNECTION_OPEN).instance_id == "b"


def test_the_port_is_closed_with_the_agent(box: RunnerBox, agent: str) -> None:
    started = _start(box, agent, "print(port); end = connect(); end.recv(1)")
    # An agent that ends before its connection is accepted has none that could be closed.
    number = box.next_carried(Op.CONNECTION_OPEN).request_id
    box.carry(connections.data(agent, number, b"x"))
    port = int(str(_end(box, started)["stdout"]))
    assert box.next_carried(Op.CONNECTION_CLOSE)
    code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)"
    assert "ConnectionRefusedError" in box.act(agent, do="python", code=code)["output"]


def test_another_instance_cannot_use_the_port(box: RunnerBox, agent: str, drop: bool) -> None:
    if not drop:
        pytest.skip("instances that share a user id share what it may reach")
    code = "end = connect(); end.sendall(port.encode()); time.sleep(1000)"
    started = _start(box, agent, code, timeout_s=600)
    port = int(box.next_carried(Op.CONNECTION_DATA).body)
    box.create("neighbour")
    code = f"""
import socket
end = socket.create_connection(("127.0.0.1", {port}), 20)
end.settimeout(20)
try:
    end.sendall(b"ping")
    print("answer", end.recv(10))
except ConnectionResetError:
    print("reset")
"""
    assert box.act("neighbour", do="python", code=code)["output"] in ("reset\n", "answer b''\n")
    assert box.release("neighbour")
    assert not [frame for frame in box.carried if frame.op is Op.CONNECTION_OPEN]
    box.send(Op.RELEASE, agent)
    assert error_code(box.answer(started)) == "instance_lost"
    box.create(agent)


def test_late_and_false_frames_of_the_host_are_dropped(box: RunnerBox, agent: str) -> None:
    started = _start(box, agent, "end = connect(); end.sendall(b'a'); print(end.recv(9))")
    number = box.next_carried(Op.CONNECTION_OPEN).request_id
    box.carry(connections.data(agent, number + 1000, b"to nobody"))
    box.carry(connections.data("nobody", number, b"to nobody"))
    box.carry(Frame(Op.CONNECTION_CREDIT, number, agent, {"bytes": "many"}))
    box.carry(connections.data(agent, number, b"b"))
    assert _end(box, started)["stdout"] == "b'b'\n"


def test_a_box_without_a_network_of_its_own_says_that_it_cannot(agent_box: RunnerBox, instance: str) -> None:
    reply = agent_box.answer(agent_box.start_agent(instance, ["true"], model_endpoint=True))
    assert error_code(reply) == "model_endpoint_unsupported"


class TurnedLoop:
    """An event loop that a test turns; keeps what ``AgentConnection`` uses of ``EventLoop``."""

    def __init__(self) -> None:
        self.on_read: Callable[[], None] | None = None
        self.timers: list[Callable[[], None]] = []

    def watch(
        self,
        what: object,
        on_read: Callable[[], None] | None = None,
        on_write: Callable[[], None] | None = None,
    ) -> None:
        self.on_read = on_read

    def call_at(self, when: float, action: Callable[[], None]) -> None:
        self.timers.append(action)

    def read(self) -> None:
        """Let the connection read, which it must wait for."""
        assert self.on_read is not None
        self.on_read()


def test_what_an_agent_sends_byte_by_byte_is_collected() -> None:
    loop = TurnedLoop()
    frames: list[Frame] = []
    ours, agents = socket.socketpair()
    reads = ShortReads()
    # The agent's other connections have used up the time until then.
    reads.pause_s(1e12)
    connection = AgentConnection(loop, ours, "i", 1, frames.append, lambda _: None, reads)
    with agents:
        agents.sendall(b"x" * CHUNK)
        loop.read()
        agents.sendall(b"y")
        loop.read()
        for _ in range(9):
            agents.sendall(b"z")
            assert loop.on_read is None
        (resume,) = loop.timers
        resume()
        loop.read()
        assert [frame.body for frame in frames] == [b"x" * CHUNK, b"y", b"z" * 9]
        connection.close()


def test_short_reads_of_an_agent_pass_in_bursts_and_are_bounded_in_the_long_run() -> None:
    reads = ShortReads()
    pauses = [reads.pause_s(0.0) for _ in range(300)]
    assert not any(pauses[:99])
    assert pauses[-1] == pytest.approx(0.2)
    assert reads.pause_s(10.0) == 0.0
