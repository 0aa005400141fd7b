"""Answers of tools have the number and the name of the call that they answer."""

import pytest

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from tests.harness.template_families import chat_with
from trainer.tool_answers import named, numbered

pytest.importorskip("trl")

TASK = Message(role="user", content="What is a kestrel?")


def calling(*calls: tuple[str | None, str]) -> Message:
    made = tuple(
        ToolCall(id=number, function=FunctionCall(name=name, arguments='{"word": "a"}'))
        for number, name in calls
    )
    return Message(role="assistant", tool_calls=made)


def answer(number: str | None, name: str | None = None) -> Message:
    return Message(role="tool", content="A bird.", tool_call_id=number, name=name)


def facts(messages: list[Message]) -> list[tuple[str | None, str | None]]:
    return [(message.tool_call_id, message.name) for message in messages if message.role == "tool"]


def test_an_answer_has_the_name_of_its_calls_tool() -> None:
    messages = [calling(("a", "look_up"), ("b", "add")), answer("b"), answer("a"), answer("a", "other")]
    assert facts(named(messages)) == [("b", "add"), ("a", "look_up"), ("a", "other")]
    assert facts(named(messages[1:], {"a": "look_up"})) == [("b", None), ("a", "look_up"), ("a", "other")]


def test_an_id_that_is_used_again_names_the_latest_call() -> None:
    messages = [calling(("a", "look_up")), answer("a"), calling(("a", "add")), answer("a")]
    assert facts(named(messages)) == [("a", "look_up"), ("a", "add")]


def test_calls_are_numbered_and_answers_with_them() -> None:
    messages = [calling(("a", "look_up"), ("b", "add")), answer("b"), answer("a"), calling(("a", "add"))]
    made = numbered([TASK, *messages, answer("a"), answer("z")])
    assert [call.id for message in made for call in message.tool_calls or ()] == [
        "000000000",
        "000000001",
        "000000002",
    ]
    assert facts(made) == [
        ("000000001", "add"),
        ("000000000", "look_up"),
        ("000000002", "add"),
        ("z", None),
    ]


def test_answers_without_ids_are_in_the_order_of_the_calls() -> None:
    made = numbered([calling((None, "look_up"), (None, "add")), answer(None), answer(None), answer(None)])
    assert facts(made) == [("000000000", "look_up"), ("000000001", "add"), (None, None)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gptoss", "<|start|>functions.look_up to=assistant"),
        ("gemma4_v5", "response:look_up{"),
        ("kimi_k2", "## Return of functions.look_up:0"),
    ],
)
def test_a_history_names_the_tool_that_answers(name: str, text: str) -> None:
    chat = chat_with(name)
    messages = [TASK, calling(("000000000", "look_up")), answer("000000000")]
    assert text in chat.decode(chat.opening(messages))
