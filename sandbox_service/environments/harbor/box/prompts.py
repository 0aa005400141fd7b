"""The prompts of a task. Standard library only."""

from __future__ import annotations

_SYSTEM = """\
You solve a task on a Linux computer with {programs}, without network access. You act by calling \
tools, one or several in a message; each answer shows what happened. You have at most {max_steps} messages, \
and {tool_timeout_s:g} seconds for each call.

Tools:
- execute_bash: run a shell command. Every call is a new shell in {workdir}.
- str_replace_editor: view, create and edit text files; paths are relative to {workdir}, or absolute.
- submit: finish the task; it is then graded by tests that you do not see.

Call the tools natively. Without native calls, write a fenced ```bash or ```python block, which is run, or
<tool_call>{{"name": "submit", "arguments": {{}}}}</tool_call>"""

NO_ACTION = (
    "Your message held no action, so nothing was done. Call a tool (execute_bash, str_replace_editor, "
    "submit), or write a ```bash block. Call submit when you are done: "
    '<tool_call>{"name": "submit", "arguments": {}}</tool_call>'
)


def system_prompt(max_steps: int, tool_timeout_s: float, workdir: str, *, own_image: bool) -> str:
    """Return how to act in this environment; a task with an image of its own may lack Python."""
    programs = "bash" if own_image else "bash and Python 3"
    return _SYSTEM.format(
        max_steps=max_steps, tool_timeout_s=tool_timeout_s, workdir=workdir, programs=programs
    )


def next_step(number: int, count: int, instruction: str) -> str:
    """Return the message that begins a further step of a task."""
    return f"Step {number} of {count}:\n\n{instruction.strip()}"
