"""The supervisor's connection to a runner, against one that runs in the test."""

import asyncio

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.connection import RunnerConnection
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.listening_runner import configuration, listening
from tests.harness.waiting import settle, until


class Heard:
    def __init__(self):
        self.events = []
        self.broken = asyncio.get_running_loop().create_future()


@pytest.fixture
async def connected(tmp_path):
    """A runner, a connection to it, and what the connection said."""
    heard = Heard()
    async with listening(tmp_path / "s") as runner:
        connection = RunnerConnection(
            tmp_path / "s", {"world_module": "w"}, 5, heard.events.append, heard.broken.set_result
        )
        await connection.connect(5)
        yield runner, connection, heard
        await connection.close()


def failure(caught) -> ErrorCode:
    return caught.value.code


async def test_the_first_greeting_brings_a_token_and_the_configuration(connected):
    runner, _, _ = connected
    assert len(runner.hellos[0].meta["token"]) == 32
    assert configuration(runner) == {"world_module": "w"}


async def test_answers_find_their_questions(connected):
    _, connection, _ = connected
    bodies = [str(number).encode() for number in range(50)]
    answers = await asyncio.gather(
        *(connection.request(Frame(Op.STEP, 0, "i", body=body), 5) for body in bodies)
    )
    assert [answer.body for answer in answers] == bodies


async def test_an_answer_that_does_not_come_is_a_step_timeout(connected):
    _, connection, _ = connected
    with pytest.raises(ServiceError) as caught:
        await connection.request(Frame(Op.PING, 0), 0.01)
    assert failure(caught) is ErrorCode.STEP_TIMEOUT


async def test_a_broken_connection_is_renewed_with_the_same_token(connected):
    runner, connection, heard = connected
    runner.hang_up()
    await until(lambda: len(runner.hellos) == 2)
    answer = await connection.request(Frame(Op.STEP, 0, body=b"again"), 5)
    assert answer.body == b"again"
    assert runner.hellos[0].meta == runner.hellos[1].meta
    assert not heard.broken.done()


async def test_what_was_under_way_when_the_connection_broke_is_of_unknown_outcome(connected):
    runner, connection, _ = connected
    asking = asyncio.create_task(connection.request(Frame(Op.PING, 0), 5))
    await until(lambda: any(frame.op is Op.PING for frame in runner.frames))
    runner.hang_up()
    with pytest.raises(ServiceError) as caught:
        await asking
    assert failure(caught) is ErrorCode.OUTCOME_UNKNOWN


async def test_a_runner_that_listens_no_more_is_dead_and_that_is_said_once(connected):
    runner, connection, heard = connected
    runner.die()
    assert "the runner's socket is closed" in await asyncio.wait_for(heard.broken, 5)
    with pytest.raises(ServiceError) as caught:
        await connection.request(Frame(Op.STEP, 0), 5)
    assert failure(caught) is ErrorCode.OUTCOME_UNKNOWN


async def test_events_reach_their_listener(connected):
    runner, _, heard = connected
    runner.tell(Frame(Op.EVENT, 0, "i", {"event": "lost", "reason": "worker died"}))
    await until(lambda: heard.events)
    assert heard.events[0].meta["reason"] == "worker died"


async def test_hanging_up_ourselves_is_no_death(connected):
    _, connection, heard = connected
    await connection.close()
    assert not heard.broken.done()


async def test_a_refused_greeting_is_the_boxs_failure_with_the_runners_reason(tmp_path):
    async with listening(tmp_path / "s", refuses="the world cannot be imported"):
        connection = RunnerConnection(tmp_path / "s", {}, 5, print, print)
        with pytest.raises(ServiceError, match="the world cannot be imported") as caught:
            await connection.connect(5)
        assert failure(caught) is ErrorCode.SANDBOX_FAILED
        await connection.close()


async def test_a_socket_that_is_not_there_yet_is_waited_for(tmp_path):
    connection = RunnerConnection(tmp_path / "s", {}, 5, print, print)
    connecting = asyncio.create_task(connection.connect(5))
    await settle()
    async with listening(tmp_path / "s") as runner:
        await connecting
        assert len(runner.hellos) == 1
        await connection.close()
