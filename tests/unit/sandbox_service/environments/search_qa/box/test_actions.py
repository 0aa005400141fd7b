from typing import Any

import pytest

from sandbox_service.environments.search_qa.box.actions import MOST_CHARACTERS, parse_actions, text_of


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("I look it up. <search>Ada Velmor</search>", "search", "Ada Velmor"),
        ("<search>x</search><information>...</information><answer> Dosbrun </answer>", "submit", "Dosbrun"),
        ("<answer>x</answer> no, first <search>y</search>", "search", "y"),
        ("<think><answer>draft</answer></think><search>z</search>", "search", "z"),
        ('<tool_call>{"name": "search", "arguments": {"query": "q"}}</tool_call>', "search", "q"),
    ],
)
def test_the_last_complete_element_or_a_call_is_the_action(text: str, name: str, expected: str) -> None:
    (action,) = parse_actions(said(text))
    assert (action.name, action.problem, text_of(action)) == (name, None, expected)


@pytest.mark.parametrize("text", ["", "Dosbrun", "<search>", "</search>", "</answer><answer>", "<search>x"])
def test_a_text_without_a_complete_element_has_no_action(text: str) -> None:
    assert parse_actions(said(text)) == []


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("read", {}, "There is no tool 'read'; there are: search, submit."),
        ("search", {}, "search needs the text 'query'."),
        ("submit", {"answer": 7}, "submit needs the text 'answer'."),
        ("submit", {"answer": "x", "sure": True}, "submit has no argument 'sure'."),
        (
            "search",
            {"query": "x" * (MOST_CHARACTERS + 1)},
            f"'query' has at most {MOST_CHARACTERS} characters.",
        ),
    ],
)
def test_a_wrong_call_is_answered_with_what_is_wrong(
    name: str, arguments: dict[str, Any], problem: str
) -> None:
    call = {"id": "a", "function": {"name": name, "arguments": arguments}}
    (action,) = parse_actions({"role": "assistant", "tool_calls": [call]})
    assert action.problem == problem
