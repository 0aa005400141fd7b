"""Translation of messages, both ways."""

from __future__ import annotations

import pytest

from sandbox_service.gateway.compat.agentscope.translation import (
    action_of,
    declared_params,
    observation_of,
    opening_of,
)

TOOL = {"type": "function", "function": {"name": "shout"}}


def test_an_opening_of_many_messages_becomes_two():
    messages = [
        {"role": "system", "content": "a"},
        {"role": "system", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "user", "content": None},
        {"role": "user", "content": "d"},
    ]
    system, user = opening_of(messages, [], "unused")
    assert (system, user) == ({"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "c\n\nd"})


def test_without_a_system_prompt_the_action_format_is_one():
    system, user = opening_of([{"role": "user", "content": "task"}], [], "Act so.")
    assert (system["content"], user["content"]) == ("Act so.", "task")


def test_tools_are_added_once():
    told = {"role": "system", "content": "already: <tools>\n{}\n</tools>"}
    assert opening_of([told], [TOOL], "")[0]["content"] == told["content"]
    added = opening_of([{"role": "system", "content": "go"}], [TOOL, TOOL], "")[0]["content"]
    assert added.count('"shout"') == 2
    assert "<tool_call>" in added


def test_answers_are_one_message_even_when_there_are_none():
    assert observation_of([]) == [{"role": "user", "content": "", "tool_calls": []}]
    several = [
        {"role": "tool", "content": "a"},
        {"role": "tool", "content": None},
        {"role": "user", "content": "b"},
    ]
    assert observation_of(several)[0]["content"] == "a\n\nb"


def test_an_action_is_an_assistant_message():
    assert action_of({}) == {"role": "assistant", "content": ""}
    flat = {"name": "shout", "arguments": {"a": 1}, "id": "7"}
    wanted = {"id": "7", "type": "function", "function": {"name": "shout", "arguments": {"a": 1}}}
    assert action_of({"tool_calls": [flat, TOOL, 5]})["tool_calls"] == [wanted, TOOL, 5]


@pytest.mark.parametrize(
    ("given", "reached"),
    [
        ({}, {"final_reward": True}),
        ({"final_reward": False, "model_name": "x"}, {"final_reward": False}),
        ({"step_rewards": True}, {"step_rewards": True}),
    ],
)
def test_the_last_step_is_rewarded_with_the_score_where_an_environment_can(given, reached):
    schema = {"type": "object", "properties": {"final_reward": {}, "step_rewards": {}}}
    assert declared_params(schema, given) == reached
    assert declared_params({"type": "object"}, given) == {}
