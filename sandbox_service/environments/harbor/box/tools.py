"""The tools of a task: a shell, an editor and ``submit``. Standard library only."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_service.environments.shared.box.editor import EditorError, edit
from sandbox_service.environments.shared.box.tool_results import ToolResult, cut, executed
from sandbox_service.environments.shared.box.tool_specs import (
    EDITOR,
    EXECUTE_BASH,
    ArgumentError,
    ToolSpec,
    check_arguments,
)

from .layout import FOLDERS, WORKDIR

if TYPE_CHECKING:
    from sandbox_service.environments.shared.box.calls import ParsedCall
    from sandbox_service.runner.world import Agent


SUBMIT = "submit"
TOOLS: tuple[ToolSpec, ...] = (
    EXECUTE_BASH,
    EDITOR,
    ToolSpec(SUBMIT, "Finish the task, or its present step.", {}),
)
TOOL_NAMES = tuple(tool.name for tool in TOOLS)
_PYTHON = "python"
"""The tool of a fenced block: a program that python3 runs from its standard input."""


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """Settings that all calls of an episode have in common."""

    prologue: str
    """Precedes each command."""
    workdir: str
    """The path of the working directory."""
    max_output: int
    """Bytes of a call's output that are shown."""


def run_tool(
    agent: Agent, action: ParsedCall, settings: ToolSettings, timeout_s: float, wall_timeout_s: float
) -> ToolResult:
    """Run one action."""
    if action.problem is not None:
        return ToolResult(f"Error: {action.problem}", succeeded=False)
    try:
        if action.name == _PYTHON:
            command = _program(str(action.arguments.get("code", "")))
        else:
            arguments = check_arguments(TOOLS, action.name, action.arguments)
            if action.name == SUBMIT:
                return ToolResult("Submitted.", succeeded=True, submitted=True)
            if action.name == EDITOR.name:
                text = edit(agent, {**arguments, "path": in_workspace(arguments["path"], settings.workdir)})
                return ToolResult(cut(text, settings.max_output), succeeded=True)
            command = arguments["command"]
        command = f"{settings.prologue}\n{command}"
        execution = agent.shell(command, timeout_s, settings.max_output, wall_timeout_s)
        return executed(execution, timeout_s, "command")
    except (ArgumentError, EditorError) as error:
        return ToolResult(f"Error: {error}", succeeded=False)


def in_workspace(path: str, workdir: str = f"/{WORKDIR}") -> str:
    """Return a path of the editor relative to the workspace, which holds the task's folders."""
    for place, name in ((workdir, WORKDIR), *((f"/{name}", name) for name in FOLDERS)):
        if path == place or path.startswith(f"{place}/"):
            return f"{name}{path.removeprefix(place)}"
    return path if path.startswith("/") else f"{WORKDIR}/{path}"


def _program(code: str) -> str:
    end = f"END_{secrets.token_hex(8)}"
    return f"python3 - <<'{end}'\n{code}\n{end}"
