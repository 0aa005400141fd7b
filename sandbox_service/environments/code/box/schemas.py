"""The tools of the code environment. Standard library only."""

from __future__ import annotations

from sandbox_service.environments.shared.box.tool_specs import EDITOR, EXECUTE_BASH, Parameter, ToolSpec

_PYTHON = ToolSpec(
    "python",
    "Run Python code in a session that stays alive between calls: variables and imports persist. Printed "
    "output, and the value of a last expression, are shown.",
    {"code": Parameter("text", "The Python code.", required=True)},
)

SUBMIT = "submit"

_SUBMIT = ToolSpec(
    SUBMIT,
    "Finish the task. Give the final answer here, or leave it out when it is in the answer file.",
    {"answer": Parameter("scalar", "The final answer, nothing else.")},
)

TOOLS: tuple[ToolSpec, ...] = (EXECUTE_BASH, EDITOR, _PYTHON, _SUBMIT)
INTERFACES = ("tools", "workspace")
"""Ways in which an agent works on a task: by the tools below, or by its own commands in the workspace."""
TOOL_NAMES: tuple[str, ...] = tuple(tool.name for tool in TOOLS)
