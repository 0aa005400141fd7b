import pytest

from sandbox_contract.messages import Tool
from sandbox_service.environments.code.box.schemas import TOOL_NAMES, TOOLS
from sandbox_service.environments.shared.box.tool_specs import ArgumentError, check_arguments


def test_the_four_tools_are_valid_openai_tools() -> None:
    assert TOOL_NAMES == ("execute_bash", "str_replace_editor", "python", "submit")
    for tool in TOOLS:
        schema = Tool.model_validate(tool.schema()).function.parameters
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])


def test_nulls_count_as_missing() -> None:
    assert check_arguments(TOOLS, "submit", {"answer": None}) == {}
    assert check_arguments(TOOLS, "python", {"code": "1"}) == {"code": "1"}


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("rm", {}, "no tool 'rm'"),
        ("python", {}, "needs the argument 'code'"),
        ("python", {"code": None}, "needs the argument 'code'"),
        ("python", {"code": 3}, "must be a string"),
        ("execute_bash", {"command": "a\0b"}, "without NUL"),
        ("python", {"code": "'\ud800'"}, "valid Unicode"),
        ("python", {"code": "1", "timeout": 3}, "no argument 'timeout'"),
        ("str_replace_editor", {"command": "undo", "path": "a"}, "one of view, create"),
        ("str_replace_editor", {"command": "insert", "path": "a", "insert_line": True}, "an integer"),
        ("str_replace_editor", {"command": "view", "path": "a", "view_range": [1]}, "two integers"),
        ("submit", {"answer": ["a"]}, "a string or a number"),
    ],
)
def test_what_does_not_fit_is_named(tool: str, arguments: dict, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        check_arguments(TOOLS, tool, arguments)
