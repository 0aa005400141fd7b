"""The prompt of a task, and the answer to a message without an action. Standard library only."""

from __future__ import annotations

from typing import Any

from .schemas import TOOL_NAMES

_SYSTEM = """\
You solve a task on a Linux computer with Python 3 and bash, without network access. You act by calling \
tools, one or several in a message; each answer shows what happened. You have at most {max_steps} messages, \
and {tool_timeout_s:g} seconds for each call.

Tools:
- execute_bash: run a shell command. Every call is a new shell in the working directory.
- python: run Python code in a session whose variables persist between calls.
- str_replace_editor: view, create and edit files.
- submit: finish the task.

Paths are relative to the working directory, which holds the task's input files. Look at the files before \
you rely on their form, compute instead of guessing, check your result, then submit.

Call the tools natively. Without native calls, write a fenced ```python or ```bash block, which is run, or
<tool_call>{{"name": "submit", "arguments": {{}}}}</tool_call>"""

NO_ACTION = (
    "Your message held no action, so nothing was done. Call a tool ("
    + ", ".join(TOOL_NAMES)
    + "), or write a ```python or ```bash block. Call submit when you are done: "
    '<tool_call>{"name": "submit", "arguments": {}}</tool_call>'
)

_ANSWER = (
    "Submit the final answer with `submit(answer=...)`, or write it to `{artifact}` and submit. "
    "Give the answer alone, without explanation."
)
_WORKSPACE_ANSWER = "Write the final answer to `{artifact}`, alone, without explanation."
_WORKSPACE_SOLUTION = "Write your solution to `{artifact}`. It is graded by hidden tests."
_SOLUTION = "Write your solution to `{artifact}` and submit. It is graded by hidden tests."


def system_prompt(max_steps: int, tool_timeout_s: float) -> str:
    """Return the system prompt: how to act in this environment."""
    return _SYSTEM.format(max_steps=max_steps, tool_timeout_s=tool_timeout_s)


def task_message(task: dict[str, Any], *, by_files: bool = False) -> str:
    """Return the task, its input files and the place of the result; the prompt alone if it is ``bare``.

    With ``by_files`` the message names the file that is graded, also of bare tasks, and no tool.
    """
    if task["bare"] and not by_files:
        return str(task["prompt"])
    parts = [task["prompt"].strip()]
    if task["files"]:
        parts.append(
            "Input files in the working directory: " + ", ".join(f"`{name}`" for name in task["files"])
        )
    if by_files:
        closing = _WORKSPACE_SOLUTION if task["tested"] else _WORKSPACE_ANSWER
    else:
        closing = _SOLUTION if task["tested"] else _ANSWER
    parts.append(closing.format(artifact=task["artifact"]))
    return "\n\n".join(parts)
