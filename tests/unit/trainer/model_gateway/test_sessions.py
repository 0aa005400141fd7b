import pytest

from tests.fakes.agent_policy import AgentPolicy
from tests.harness.model_calls import KEY, call, limits, user
from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Sampling
from trainer.model_gateway.calls import CallError
from trainer.model_gateway.sessions import Sessions


@pytest.fixture
def sessions():
    chat = tiny_chat()
    return Sessions(AgentPolicy(chat), chat)


def open_one(sessions):
    return sessions.open(KEY, Sampling(), limits())


def refusal(sessions, api_key):
    with pytest.raises(CallError) as refused:
        sessions.find(api_key)
    return refused.value.status


def test_a_session_is_found_by_its_secret(sessions):
    one, other = open_one(sessions), open_one(sessions)
    assert sessions.find(one.api_key) is one
    assert sessions.find(other.api_key) is other
    assert one.api_key.startswith("sk-")
    assert len(one.api_key) > 40


@pytest.mark.parametrize("api_key", ["", "sk-no", "sk-\udcff", "policy"])
def test_an_unknown_secret_is_unauthorised(sessions, api_key):
    open_one(sessions)
    assert refusal(sessions, api_key) == 401


def test_the_name_of_a_session_is_no_secret_of_it(sessions):
    assert refusal(sessions, open_one(sessions).id) == 401


async def test_a_removed_session_is_sealed_and_its_late_calls_are_told(sessions):
    session = open_one(sessions)
    sessions.remove(session)
    sessions.remove(session)
    assert refusal(sessions, session.api_key) == 409
    with pytest.raises(CallError) as refused:
        await session.answer(call(user("Hello")))
    assert refused.value.status == 409
    assert len(sessions) == 0


async def test_closing_removes_all(sessions):
    opened = [open_one(sessions) for _ in range(3)]
    await sessions.close()
    assert [refusal(sessions, each.api_key) for each in opened] == [409] * 3
