import pytest

from sandbox_service.environments.code.box.tools import MAX_ANSWER_BYTES, run_tool
from sandbox_service.environments.shared.box.calls import ParsedCall
from sandbox_service.environments.shared.box.tool_results import ToolResult, cut
from tests.harness.agent import FakeAgent


def run(
    agent: FakeAgent, tool: str, timeout_s: float = 10, limit: int = 2000, **arguments: object
) -> ToolResult:
    return run_tool(agent, ParsedCall(tool, arguments), timeout_s, limit)


def test_bash_shows_output_and_exit_code(agent: FakeAgent) -> None:
    result = run(agent, "execute_bash", command="echo out; echo err >&2; exit 3")
    assert result.text == "out\nerr\n[exit code 3]"
    assert (result.succeeded, result.executed, result.exit_code) == (False, True, 3)


def test_silence_is_said(agent: FakeAgent) -> None:
    assert run(agent, "execute_bash", command="true").text == "[no output]"


def test_the_python_session_keeps_variables(agent: FakeAgent) -> None:
    run(agent, "python", code="x = 20")
    assert run(agent, "python", code="x + 1").text == "21"


def test_a_python_error_is_output_and_no_success(agent: FakeAgent) -> None:
    result = run(agent, "python", code="1 / 0")
    assert "ZeroDivisionError" in result.text
    assert not result.succeeded


def test_a_cell_past_its_time_is_killed_and_the_session_begins_anew(agent: FakeAgent) -> None:
    run(agent, "python", code="x = 1")
    result = run(agent, "python", timeout_s=0.3, code="while True: pass")
    assert "[killed: it ran longer than 0.3 s]" in result.text
    assert "variables are gone" in result.text
    assert not result.succeeded
    assert "NameError" in run(agent, "python", code="x").text


def test_a_session_that_leaves_is_told(agent: FakeAgent) -> None:
    result = run(agent, "python", code="import os; os._exit(0)")
    assert "the process died" in result.text
    assert not result.succeeded


def test_a_command_past_its_time_is_killed(agent: FakeAgent) -> None:
    result = run(agent, "execute_bash", timeout_s=0.3, command="echo begun; sleep 30")
    assert result.text == "begun\n[killed: it ran longer than 0.3 s]"


def test_long_output_is_cut_with_a_notice(agent: FakeAgent) -> None:
    result = run(agent, "execute_bash", limit=100, command="yes | head -c 5000")
    assert result.text.startswith("y\ny\n")
    assert result.text.endswith("[output cut: only the first 100 bytes are shown]")
    assert len(result.text) < 200


def test_cutting_keeps_whole_characters() -> None:
    assert cut("äöü", 6) == "äöü"
    assert cut("äöü", 5).startswith("äö\n[output cut")


def test_submit_carries_an_answer(agent: FakeAgent) -> None:
    assert run(agent, "submit") == ToolResult("Submitted.", succeeded=True, submitted=True)
    assert run(agent, "submit", answer=42).answer == "42"
    assert run(agent, "submit", answer="").answer == ""


def test_an_answer_that_is_too_long_does_not_end_the_episode(agent: FakeAgent) -> None:
    result = run(agent, "submit", answer="x" * (MAX_ANSWER_BYTES + 1))
    assert not result.submitted
    assert "longer than" in result.text


@pytest.mark.parametrize("tool", ["", "execute", "Python"])
def test_unknown_tools_are_told_with_the_known_ones(agent: FakeAgent, tool: str) -> None:
    result = run(agent, tool)
    assert "execute_bash, str_replace_editor, python, submit" in result.text
    assert not result.succeeded


def test_problems_of_parsing_are_told(agent: FakeAgent) -> None:
    result = run_tool(agent, ParsedCall("python", problem="The arguments are broken."), 1, 100)
    assert result.text == "Error: The arguments are broken."


def test_edit_errors_are_told(agent: FakeAgent) -> None:
    result = run(agent, "str_replace_editor", command="view", path="none")
    assert result.text == "Error: There is no file 'none'."
    assert not result.succeeded
