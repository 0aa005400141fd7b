"""The episode player: tool calls as they are shown, and whether the instance has forks."""

import json

import pytest

from sandbox_contract.inspection import InstanceTrajectory
from sandbox_service.console.player import player


@pytest.mark.parametrize(
    ("result", "forked"),
    [
        ({"instance_id": "i", "instance_ids": ["copy"], "step_index": 0}, True),
        ({"instance_id": "parent", "instance_ids": ["i"], "step_index": 0}, False),
        ({"code": "fork_unsupported", "failure_class": "request", "detail": ""}, False),
    ],
    ids=["its own", "its parent's", "refused"],
)
def test_an_instance_is_forked_by_its_own_forks(result, forked):
    event = {"sequence": 1, "operation": "fork", "at": 1.0, "request": {}, "result": result}
    head = {"instance_id": "i", "environment": "echo", "task_id": "t", "tenant": "acme"}
    assert player(InstanceTrajectory.model_validate({**head, "events": [event]})).forked == forked


def shown_arguments(arguments):
    """The arguments that the page shows of a call."""
    call = {"id": "c1", "type": "function", "function": {"name": "say", "arguments": arguments}}
    message = {"role": "assistant", "tool_calls": [call]}
    event = {"sequence": 1, "operation": "step", "at": 1.0, "request": {"message": message}, "result": {}}
    head = {"instance_id": "i", "environment": "echo", "task_id": "t", "tenant": "acme"}
    [step] = player(InstanceTrajectory.model_validate({**head, "events": [event]})).steps
    return step.action[0].calls[0].arguments


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param('{"a": "b", "c": [1]}', (("a", "b"), ("c", "[1]")), id="an object"),
        pytest.param({"a": 1}, (("a", "1"),), id="an object that is no text"),
        pytest.param("[1]", (("", "[1]"),), id="a list"),
        pytest.param("{broken", (("", "{broken"),), id="no JSON"),
        pytest.param(
            r'{"a": "\ud83d", "\uD83D": 1}', (("a", "?"), ("?", "1")), id="halves of surrogate pairs"
        ),
        pytest.param('{"a": 1e999}', (("", '{"a": 1e999}'),), id="a number that JSON cannot hold"),
        pytest.param("[" * 100_000, (("", "[" * 100_000),), id="nested too deep"),
    ],
)
def test_arguments_are_shown_by_name_or_as_their_text(arguments, shown):
    found = shown_arguments(arguments)
    assert found == shown
    assert json.dumps(found, ensure_ascii=False).encode()
