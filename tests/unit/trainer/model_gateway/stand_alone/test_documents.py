"""Documents of sessions are JSON, whatever an agent has asked for."""

import json
import math
from dataclasses import replace

import pytest

from tests.fakes.agent_policy import AgentPolicy
from tests.harness.model_calls import call, limits, user
from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Finish, Generation, Sampling
from trainer.model_gateway.sessions import Sessions
from trainer.model_gateway.stand_alone.documents import as_json, overview
from trainer.model_gateway.stand_alone.registry import SessionDefaults, SessionRegistry
from trainer.model_gateway.stand_alone.requests import OpenRequest


def refuse(text: str) -> None:
    pytest.fail(f"{text} is no number of JSON")


async def test_a_number_that_json_does_not_have_is_null() -> None:
    chat = tiny_chat()
    said = Generation(tuple(chat.encode("a")), (-1.0,) * len(chat.encode("a")), Finish.STOP, ())
    defaults = SessionDefaults(limits(), Sampling())
    registry = SessionRegistry(Sessions(AgentPolicy(chat, [said]), chat), defaults)
    session = registry.open(OpenRequest())
    await session.answer(replace(call(user("Hello")), asked={"temperature": math.nan, "top_p": 0.5}))
    document = as_json(overview({}, await session.close()))
    (shown,) = json.loads(document, parse_constant=refuse)["calls"]
    assert shown["asked"] == {"temperature": None, "top_p": 0.5}
