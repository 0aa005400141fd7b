"""Write the demonstrations of the agents in examples/: sums, as each agent works them out.

    python -m scripts.agent_demonstrations            # write the files in examples/demonstrations
    python -m scripts.agent_demonstrations --check    # only say whether they are up to date

Agents differ in the tools that they offer the model, and in how it gives its answer:

    tools           the environment's tools: a program, then its result to ``submit``
    final_answer    smolagents: a program, then its result to the agent's own ``final_answer``
    shell           mini-swe-agent: a shell command that writes the answer's file, then the command that ends
                    the task
    code            smolagents' CodeAgent: a program that writes the answer's file and ends the task
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "deploy" / "runs" / "data" / "arithmetic_easy.jsonl"
FOLDER = ROOT / "examples" / "demonstrations"
LINES = 400

Message: TypeAlias = dict[str, object]

_PROGRAM = re.compile(r"```python\nprint\((.+)\)\n```")
_SUBMITTED = re.compile(r'"answer": (-?\d+)')
_END = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def _with_tools(expression: str, answer: int) -> list[Message]:
    return [_call("python", {"code": f"print({expression})"}), _call("submit", {"answer": answer})]


def _with_final_answer(expression: str, answer: int) -> list[Message]:
    return [_call("python", {"code": f"print({expression})"}), _call("final_answer", {"answer": answer})]


def _with_shell(expression: str, answer: int) -> list[Message]:
    return [
        _call("bash", {"command": f"echo $(({expression})) > answer.txt"}),
        _call("bash", {"command": _END}),
    ]


def _with_code(expression: str, answer: int) -> list[Message]:
    lines = (
        "<code>",
        "import pathlib",
        f'pathlib.Path("answer.txt").write_text(str({expression}))',
        'final_answer("done")',
        "</code>",
    )
    return [{"role": "assistant", "content": "\n".join(lines)}]


MANNERS: Mapping[str, Callable[[str, int], list[Message]]] = {
    "tools": _with_tools,
    "final_answer": _with_final_answer,
    "shell": _with_shell,
    "code": _with_code,
}
"""The messages of a demonstration, by the name of its file."""


def written(text: str, manner: str) -> str:
    """Return the first ``LINES`` lines of a file of sums as demonstrations in a manner."""
    return "".join(_line(line, manner) + "\n" for line in text.removesuffix("\n").split("\n")[:LINES])


def _line(line: str, manner: str) -> str:
    row = json.loads(line)
    program, answer = (message["content"] for message in row["messages"])
    calculated, submitted = _PROGRAM.fullmatch(program), _SUBMITTED.search(answer)
    if calculated is None or submitted is None:
        raise ValueError(f"{row['task_id']} does not print a sum and submit it")
    row["messages"] = MANNERS[manner](calculated[1], int(submitted[1]))
    return json.dumps(row)


def _call(name: str, arguments: dict[str, object]) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}


def main(options: list[str], folder: Path = FOLDER) -> int:
    """Write the files, or with ``--check`` compare them; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    check = parser.parse_args(options).check
    source = SOURCE.read_text(encoding="utf-8")
    for manner in MANNERS:
        target, text = folder / f"{manner}.jsonl", written(source, manner)
        if not check:
            folder.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        elif target.read_text(encoding="utf-8") != text:
            print(f"{target} is out of date: run python -m scripts.agent_demonstrations", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
