import json

import pytest

from sandbox_service.environments.shared.box.calls import MOST_CALLS, parse_calls, plain_text


def native(*functions: object) -> dict:
    return {"tool_calls": [{"id": f"c{n}", "function": each} for n, each in enumerate(functions)]}


def tagged(*bodies: str) -> dict:
    return {"content": "I call " + " and ".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)}


@pytest.mark.parametrize("arguments", [{"folder": "a"}, '{"folder": "a"}'], ids=["object", "text"])
def test_native_arguments_are_an_object_or_its_text(arguments):
    (call,) = parse_calls(native({"name": "cd", "arguments": arguments}))
    assert (call.name, call.arguments, call.call_id, call.native) == ("cd", {"folder": "a"}, "c0", True)
    assert call.problem is None


def test_tagged_calls_are_read_in_order():
    calls = parse_calls(tagged('{"name": "ls"}', '{"name": "cd", "arguments": {"folder": "a"}}'))
    assert [(call.name, call.arguments, call.native) for call in calls] == [
        ("ls", {}, False),
        ("cd", {"folder": "a"}, False),
    ]


def test_native_calls_win_over_text():
    message = {**native({"name": "ls"}), **tagged('{"name": "cd"}')}
    assert [call.name for call in parse_calls(message)] == ["ls"]


@pytest.mark.parametrize(
    "inner", ["{", "ls()", "[]", "7", '{"arguments": {}}', '{"name": "ls", "arguments": 3}']
)
def test_a_broken_call_is_kept_and_the_next_one_is_read(inner):
    broken, sound = parse_calls(tagged(inner, '{"name": "pwd"}'))
    assert broken.problem is not None
    assert (sound.name, sound.problem) == ("pwd", None)


@pytest.mark.parametrize(
    "function", [None, {}, {"name": 3}, {"name": "ls", "arguments": "{"}, {"name": "ls", "arguments": "[1]"}]
)
def test_a_broken_native_call_keeps_its_id(function):
    (call,) = parse_calls(native(function))
    assert call.problem is not None
    assert call.call_id == "c0"


def test_a_closing_tag_inside_a_string_belongs_to_it():
    body = json.dumps({"name": "echo", "arguments": {"content": "</tool_call>"}})
    (call,) = parse_calls(tagged(body))
    assert call.arguments == {"content": "</tool_call>"}


def test_drafts_in_thoughts_are_no_calls():
    draft = tagged('{"name": "rm"}')["content"]
    assert parse_calls({"content": f"<think>{draft}</think>Done."}) == []
    assert plain_text(f"<think>{draft}</think>Done.") == "Done."


@pytest.mark.parametrize(
    "message", [{}, {"content": None}, {"content": "Done."}, {"content": 5, "tool_calls": []}]
)
def test_a_message_without_calls_has_none(message):
    assert parse_calls(message) == []


@pytest.mark.parametrize("nested", ["[" * 900 + "]" * 900, '{"a":' * 100 + "1" + "}" * 100])
def test_arguments_nested_too_deeply_are_a_problem(nested):
    text = f'{{"a": {nested}}}'
    (call,) = parse_calls(native({"name": "f", "arguments": text}))
    (same,) = parse_calls(tagged(f'{{"name": "f", "arguments": {text}}}'))
    assert call.problem == same.problem == "The arguments are nested deeper than 64 levels."


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", '{"b": [0, {"c": Infinity}]}'])
def test_numbers_that_are_not_finite_are_a_problem(number):
    text = f'{{"a": {number}}}'
    (call,) = parse_calls(native({"name": "f", "arguments": text}))
    (read,) = parse_calls(native({"name": "f", "arguments": json.loads(text)}))
    (same,) = parse_calls(tagged(f'{{"name": "f", "arguments": {text}}}'))
    problem = "The arguments hold a number that is not finite, such as NaN or Infinity."
    assert call.problem == read.problem == same.problem == problem
    assert call.arguments == read.arguments == same.arguments == {}


def test_arguments_of_many_levels_are_read():
    (call,) = parse_calls(native({"name": "f", "arguments": {"a": [[[{"b": [1]}]]]}}))
    assert (call.arguments, call.problem) == ({"a": [[[{"b": [1]}]]]}, None)


def test_of_too_many_calls_in_a_text_one_answer_stands_for_the_rest():
    calls = parse_calls(tagged(*['{"name": "f"}'] * (MOST_CALLS + 9)))
    assert len(calls) == MOST_CALLS + 1
    assert [call.problem is None for call in calls[-2:]] == [True, False]
