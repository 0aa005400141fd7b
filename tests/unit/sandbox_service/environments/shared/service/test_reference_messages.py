"""Messages of references with native tool calls."""

import json

from sandbox_service.environments.shared.service.reference_messages import one_call, several_calls


def call(call_id, name, arguments):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def test_a_message_with_one_call_is_numbered_by_its_place() -> None:
    found = one_call(3, "look", {"in": "the box"})
    calls = [call("call_3", "look", {"in": "the box"})]
    assert found == {"role": "assistant", "content": None, "tool_calls": calls}


def test_calls_of_one_message_are_numbered_among_themselves() -> None:
    found = several_calls(0, [("look", {}), ("take", {"what": 1})])
    calls = [call("call_0_0", "look", {}), call("call_0_1", "take", {"what": 1})]
    assert found == {"role": "assistant", "content": None, "tool_calls": calls}
