"""The code of a message that is run."""

from __future__ import annotations

import json

import pytest

from sandbox_service.environments.appworld.box.actions import read_actions


def text(content: str) -> dict[str, object]:
    return {"role": "assistant", "content": content}


def calls(*functions: object) -> dict[str, object]:
    entries = [{"id": f"c{number}", "function": each} for number, each in enumerate(functions)]
    return {"role": "assistant", "content": None, "tool_calls": entries}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("```python\nx = 1\n```", "\nx = 1"),
        ("first\n```python\nx\n```\nthen\n```python\ny\n```", "\nx"),
        ("```python\nx = 1\n", "\nx = 1\n"),
        ("```python\ns = '```'\n```", "\ns = '```'"),
        ("```python x ```", " x "),
        ("<think>```python\ndraft\n```</think>```python\nmeant\n```", "\nmeant"),
    ],
    ids=["one", "first", "open", "quoted", "inline", "thought"],
)
def test_the_first_block_is_run(content: str, code: str) -> None:
    (action,) = read_actions(text(content), simple=False)
    assert (action.code, action.problem, action.native) == (code, None, False)


@pytest.mark.parametrize("content", ["", "apis.supervisor.show_profile()", "```\nx\n```"], ids=repr)
def test_a_message_without_a_block_runs_nothing_and_is_told_so(content: str) -> None:
    (action,) = read_actions(text(content), simple=False)
    assert action.problem is not None
    assert "```python" in action.problem


def test_in_simple_mode_everything_is_code() -> None:
    (action,) = read_actions(text("print(1)"), simple=True)
    assert (action.code, action.problem) == ("print(1)", None)
    (empty,) = read_actions(text("  "), simple=True)
    assert empty.problem is not None


def test_every_native_call_is_an_action() -> None:
    good = {"name": "appworld", "arguments": json.dumps({"code": "1"})}
    first, second = read_actions(calls(good, {"name": "appworld", "arguments": {"code": "2"}}), simple=False)
    assert [(each.code, each.problem, each.call_id, each.native) for each in (first, second)] == [
        ("1", None, "c0", True),
        ("2", None, "c1", True),
    ]


@pytest.mark.parametrize(
    "function",
    [
        {"name": "python", "arguments": '{"code": "1"}'},
        {"name": "appworld", "arguments": "{"},
        {"name": "appworld", "arguments": "{}"},
        {"name": "appworld", "arguments": '{"code": 1}'},
        {"name": "appworld", "arguments": '{"code": "1", "more": 2}'},
        {},
        None,
    ],
    ids=["tool", "json", "missing", "type", "more", "empty", "none"],
)
def test_a_broken_call_has_a_problem(function: object) -> None:
    (action,) = read_actions(calls(function), simple=False)
    assert action.problem is not None
    assert (action.call_id, action.native) == ("c0", True)


def test_a_tagged_call_is_read_where_there_is_no_block() -> None:
    tagged = '<tool_call>{"name": "appworld", "arguments": {"code": "1"}}</tool_call>'
    (action,) = read_actions(text(tagged), simple=False)
    assert (action.code, action.native) == ("1", False)
    (block,) = read_actions(text(f"```python\n2\n```{tagged}"), simple=False)
    assert block.code == "\n2"
