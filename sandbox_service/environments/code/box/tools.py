"""Run the tools: an action in, the text for the model out.

Whatever goes wrong in the agent's code or calls is text for the model, never an exception. Standard
library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.environments.shared.box.editor import EditorError, edit
from sandbox_service.environments.shared.box.tool_results import ToolResult, cut, executed
from sandbox_service.environments.shared.box.tool_specs import ArgumentError, check_arguments

from .schemas import SUBMIT, TOOLS

if TYPE_CHECKING:
    from sandbox_service.environments.shared.box.calls import ParsedCall
    from sandbox_service.runner.world import Agent
    from sandbox_service.wire.json_types import JsonObject


MAX_ANSWER_BYTES = 64 * 1024
"""Longest answer that a submit may carry."""


def run_tool(
    agent: Agent, action: ParsedCall, timeout_s: float, max_output: int, wall_timeout_s: float | None = None
) -> ToolResult:
    """Run one action; its output is cut at ``max_output`` bytes."""
    if action.problem is not None:
        return ToolResult(f"Error: {action.problem}", succeeded=False)
    try:
        arguments = check_arguments(TOOLS, action.name, action.arguments)
        if action.name == "execute_bash":
            return executed(
                agent.shell(arguments["command"], timeout_s, max_output, wall_timeout_s), timeout_s, "command"
            )
        if action.name == "python":
            return executed(
                agent.python(arguments["code"], timeout_s, max_output, wall_timeout_s=wall_timeout_s),
                timeout_s,
                "session",
            )
        if action.name == SUBMIT:
            return _submitted(arguments)
        return ToolResult(cut(edit(agent, arguments), max_output), succeeded=True)
    except (ArgumentError, EditorError) as error:
        return ToolResult(f"Error: {error}", succeeded=False)


def _submitted(arguments: JsonObject) -> ToolResult:
    answer = arguments.get("answer")
    text = None if answer is None else str(answer)
    if text is not None and len(text.encode(errors="replace")) > MAX_ANSWER_BYTES:
        raise ArgumentError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes.")
    return ToolResult("Submitted.", succeeded=True, submitted=True, answer=text)
