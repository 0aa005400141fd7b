"""Run the tools: an action in, the text for the model out.

Whatever goes wrong in the agent's code or calls is text for the model, never an exception. Standard
library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .editor import EditorError, edit
from .schemas import SUBMIT, ArgumentError, check_arguments

if TYPE_CHECKING:
    from sandbox_service.environments.shared.box.calls import ParsedCall
    from sandbox_service.runner.world import Agent, Execution


JsonObject = dict[str, Any]

MAX_ANSWER_BYTES = 64 * 1024
"""Longest answer that a submit may carry."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one action."""

    text: str
    """The text that the model gets."""
    succeeded: bool
    """The tool did what it was asked; for code: it ended by itself with status 0."""
    executed: bool = False
    """Agent code was run."""
    exit_code: int | None = None
    """Exit status of the code, when it ended by itself."""
    submitted: bool = False
    """The agent ended the episode."""
    answer: str | None = None
    """The answer that came with the submission."""
    waited_s: float = 0.0
    """The time for which the machine kept its code waiting."""


def run_tool(
    agent: Agent, action: ParsedCall, timeout_s: float, max_output: int, wall_timeout_s: float | None = None
) -> ToolResult:
    """Run one action; its output is cut at ``max_output`` bytes."""
    if action.problem is not None:
        return ToolResult(f"Error: {action.problem}", succeeded=False)
    try:
        arguments = check_arguments(action.name, action.arguments)
        if action.name == "execute_bash":
            return _executed(
                agent.shell(arguments["command"], timeout_s, max_output, wall_timeout_s), timeout_s, "command"
            )
        if action.name == "python":
            return _executed(
                agent.python(arguments["code"], timeout_s, max_output, wall_timeout_s=wall_timeout_s),
                timeout_s,
                "session",
            )
        if action.name == SUBMIT:
            return _submitted(arguments)
        return ToolResult(cut(edit(agent, arguments), max_output), succeeded=True)
    except (ArgumentError, EditorError) as error:
        return ToolResult(f"Error: {error}", succeeded=False)


def cut(text: str, max_bytes: int) -> str:
    """Return the text, or its beginning with a notice when it is longer than ``max_bytes``."""
    data = text.encode(errors="replace")
    if len(data) <= max_bytes:
        return text
    return data[:max_bytes].decode(errors="ignore") + _cut_notice(max_bytes)


def _cut_notice(max_bytes: int) -> str:
    return f"\n[output cut: only the first {max_bytes} bytes are shown]"


def _executed(execution: Execution, timeout_s: float, what: str) -> ToolResult:
    succeeded = execution.exit_code == 0 and not execution.timed_out and not execution.died
    parts = [execution.output.rstrip("\n")] if execution.output.strip() else []
    if execution.truncated:
        parts.append(_cut_notice(len(execution.output.encode(errors="replace"))).lstrip("\n"))
    if execution.timed_out:
        parts.append(f"[killed: it ran longer than {timeout_s:g} s]")
    elif execution.died:
        parts.append("[the process died: killed by a signal, out of memory, or it left by itself]")
    elif execution.exit_code and what == "command":
        parts.append(f"[exit code {execution.exit_code}]")
    if what == "session" and (execution.timed_out or execution.died):
        parts.append("[the Python session starts anew; its variables are gone]")
    text = "\n".join(parts) or "[no output]"
    return ToolResult(
        text, succeeded, executed=True, exit_code=execution.exit_code, waited_s=execution.waited_s
    )


def _submitted(arguments: JsonObject) -> ToolResult:
    answer = arguments.get("answer")
    text = None if answer is None else str(answer)
    if text is not None and len(text.encode(errors="replace")) > MAX_ANSWER_BYTES:
        raise ArgumentError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes.")
    return ToolResult("Submitted.", succeeded=True, submitted=True, answer=text)
