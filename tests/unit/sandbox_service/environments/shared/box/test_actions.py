import json

import pytest

from sandbox_service.environments.shared.box.actions import MAX_ACTIONS, parse_actions


def native(name: object, arguments: object, call_id: str = "c1") -> dict:
    return {
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        ]
    }


def content(text: object) -> list:
    return parse_actions({"role": "assistant", "content": text})


@pytest.mark.parametrize("arguments", [{"code": "1"}, '{"code": "1"}'], ids=["object", "text"])
def test_native_arguments_may_be_an_object_or_its_text(arguments: object) -> None:
    (action,) = parse_actions(native("python", arguments))
    assert (action.name, action.arguments, action.call_id, action.native) == (
        "python",
        {"code": "1"},
        "c1",
        True,
    )
    assert action.problem is None


@pytest.mark.parametrize("arguments", [None, "", "{}"])
def test_missing_arguments_are_an_empty_object(arguments: object) -> None:
    (action,) = parse_actions(native("submit", arguments))
    assert action.arguments == {}
    assert action.problem is None


@pytest.mark.parametrize("arguments", ["{", "[1]", '"text"', 7, "[" * 100_000])
def test_broken_arguments_are_kept_as_a_problem(arguments: object) -> None:
    (action,) = parse_actions(native("python", arguments, "call-9"))
    assert action.problem is not None
    assert action.call_id == "call-9"


@pytest.mark.parametrize("call", [None, 3, {}, {"function": None}, {"function": {"name": 3}}, {"id": 4}])
def test_malformed_calls_are_kept_as_a_problem(call: object) -> None:
    (action,) = parse_actions({"tool_calls": [call]})
    assert action.problem is not None
    assert action.native


def test_fenced_blocks_run_in_order() -> None:
    text = "First\n```python\nx = 1\n```\nthen\n```sh\nls -l\n```\nand\n```shell\npwd\n```"
    assert [(action.name, action.arguments) for action in content(text)] == [
        ("python", {"code": "x = 1\n"}),
        ("execute_bash", {"command": "ls -l\n"}),
        ("execute_bash", {"command": "pwd\n"}),
    ]


@pytest.mark.parametrize("language", ["", "json", "text", "rust"])
def test_blocks_in_other_languages_are_not_actions(language: str) -> None:
    assert content(f"```{language}\nprint(1)\n```") == []


def test_a_block_may_hold_shorter_fences() -> None:
    (action,) = content('````python\ntext = """\n```\n"""\n````')
    assert action.arguments == {"code": 'text = """\n```\n"""\n'}


def test_an_unclosed_block_is_not_run() -> None:
    (action,) = content("```python\nprint(1)")
    assert "not closed" in str(action.problem)


def test_windows_line_ends_are_understood() -> None:
    (action,) = content("```python\r\nx = 1\r\n```\r\n")
    assert action.arguments == {"code": "x = 1\n"}


def test_tagged_calls_hold_json() -> None:
    (action,) = content('<tool_call>\n{"name": "submit", "arguments": {"answer": "7"}}\n</tool_call>')
    assert (action.name, action.arguments, action.native) == ("submit", {"answer": "7"}, False)


def test_a_tag_or_fence_inside_a_json_string_belongs_to_it() -> None:
    code = "print('</tool_call>')\n```python\n1\n```"
    (action,) = content(
        "<tool_call>" + json.dumps({"name": "python", "arguments": {"code": code}}) + "</tool_call>"
    )
    assert action.arguments == {"code": code}


def test_a_tag_inside_a_block_is_code() -> None:
    (action,) = content("```python\nprint('<tool_call>')\n```")
    assert action.name == "python"


@pytest.mark.parametrize("inner", ["{", "nothing", "[]", '{"arguments": {}}', "[" * 100_000])
def test_broken_tagged_calls_are_kept_and_later_ones_are_read(inner: str) -> None:
    first, second = content(f'<tool_call>{inner}</tool_call><tool_call>{{"name": "submit"}}</tool_call>')
    assert first.problem is not None
    assert (second.name, second.problem) == ("submit", None)


@pytest.mark.parametrize(
    "text",
    [
        "<think>maybe\n```bash\nrm -r .\n```\n</think>Done.",
        "maybe\n```bash\nrm -r .\n```\n</think>Done.",
        "<think>maybe\n```bash\nrm -r .\n```\n",
    ],
    ids=["closed", "opened by the template", "never closed"],
)
def test_thoughts_are_not_acted_upon(text: str) -> None:
    assert content(text) == []


@pytest.mark.parametrize("text", [None, "", "Hello.", 5, [], [{"type": "image"}, 3]])
def test_a_message_without_calls_has_no_actions(text: object) -> None:
    assert content(text) == []


def test_content_parts_are_joined() -> None:
    (action,) = content([{"type": "text", "text": "```python"}, {"type": "text", "text": "1\n```"}])
    assert action.arguments == {"code": "1\n"}


def test_calls_beyond_the_limit_are_refused_by_one_answer() -> None:
    actions = content("```bash\ntrue\n```\n" * (MAX_ACTIONS + 2))
    assert len(actions) == MAX_ACTIONS + 1
    assert [action.problem is None for action in actions[-2:]] == [True, False]
