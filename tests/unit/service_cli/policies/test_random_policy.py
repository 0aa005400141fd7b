import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_contract.messages import FunctionSchema, Message, Tool
from service_cli.policies.policies import View
from service_cli.policies.random_arguments import random_value, words_of
from service_cli.policies.random_policy import RandomPolicy

TASK = Message(role="user", content="Find the red ball and put it beside the grey box.")
PARAMETERS = {
    "type": "object",
    "properties": {
        "place": {"enum": ["left", "right"]},
        "count": {"type": "integer", "minimum": 2, "maximum": 4},
        "what": {"type": "string", "maxLength": 12},
    },
    "required": ["place", "count", "what"],
}
TOOL = Tool(function=FunctionSchema(name="put", parameters=PARAMETERS))


async def acts(view: View, seed: int = 0, count: int = 60) -> list[Message]:
    actor = RandomPolicy(seed).make_actor("task", 0)
    return [message for _ in range(count) if (message := await actor.act(view)) is not None]


async def test_an_offered_action_is_taken_as_it_stands() -> None:
    view = View((TASK,), (TOOL,), {"available_actions": ["go north", "click[< Prev]", 3]})
    assert {message.content for message in await acts(view)} == {"go north", "click[< Prev]"}


@pytest.mark.parametrize("template", ["search[<words>]", "search[your query]", "search[keywords]"])
async def test_blanks_of_an_offered_action_are_filled_with_words_of_the_task(template: str) -> None:
    for message in await acts(View((TASK,), (), {"available_actions": [template]})):
        assert message.content is not None
        inside = message.content.removeprefix("search[").removesuffix("]")
        assert message.content != template
        assert set(inside.split()) <= set(words_of(TASK.content or ""))


async def test_tools_are_called_with_arguments_of_their_schema_and_text_is_said_sometimes() -> None:
    messages = await acts(View((TASK,), (TOOL,), {}), count=200)
    called = [message.tool_calls[0] for message in messages if message.tool_calls]
    assert 0 < len(messages) - len(called) < 60
    assert len({call.id for call in called}) == len(called)
    for call in called:
        assert isinstance(call.function.arguments, str)
        arguments = json.loads(call.function.arguments)
        assert arguments["place"] in ("left", "right")
        assert arguments["count"] in (2, 3, 4)
        assert len(arguments["what"]) <= 12


async def test_without_tools_or_actions_it_talks() -> None:
    assert all(message.content and not message.tool_calls for message in await acts(View((TASK,), (), {})))


async def test_the_same_seed_says_the_same_and_another_says_otherwise() -> None:
    view = View((TASK,), (TOOL,), {})
    assert await acts(view, 7) == await acts(view, 7)
    assert await acts(view, 7) != await acts(view, 8)


_scalars = st.sampled_from(
    [
        {},
        {"type": "string", "minLength": 5},
        {"type": "integer", "minimum": 9, "maximum": 1},
        {"type": "number", "exclusiveMinimum": 3},
        {"type": ["null", "boolean"]},
        {"const": None},
        {"enum": []},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"type": "dict", "properties": {"a": True}},
    ]
)
_schemas = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        inner.map(lambda each: {"type": "array", "items": each, "minItems": 2}),
        inner.map(lambda each: {"type": "object", "properties": {"x": each}, "required": ["x"]}),
        inner.map(lambda each: {"oneOf": [each]}),
    ),
    max_leaves=5,
)


@given(_schemas, st.integers())
def test_any_schema_gets_a_value_that_is_json(schema: dict[str, object], seed: int) -> None:
    value = random_value(schema, Random(seed), ["word"])  # type: ignore[arg-type]
    assert json.loads(json.dumps(value)) == value
    if schema.get("type") == "array":
        assert isinstance(value, list)
    if schema.get("type") == "object":
        assert isinstance(value, dict)
