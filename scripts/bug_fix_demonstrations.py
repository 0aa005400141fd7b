"""Write demonstrations for swe_mutants: a turn that shows a suspected function, and one that corrects a line.

    python -m scripts.bug_fix_demonstrations http://127.0.0.1:8080 -o demonstrations.jsonl

Each is made for a task of the training split of the installed pack, from the task's solution. The first
message shows a function that the instruction's failing check names, with line numbers, as a policy could
choose to; the second edits one line by ``sed`` and submits. All are played in instances of the service, and
those with a score of 1 are kept, if the conversation has at most ``--max-chars`` characters.

No demonstration is made where the defect spans several lines, where no check that is shown names the
function, or where the defect is further from the function's first line than the longest excerpt.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sandbox_client import SandboxClient, SandboxError
from sandbox_service.environments import provisions

ENVIRONMENT = "swe_mutants"
EXCERPTS = (12, 24, 48)
"""Lines behind a function's first one that an excerpt may have; the shortest with the defect is taken."""
PLAYED_AT_ONCE = 4
SUBMIT = '<tool_call>{"name": "submit", "arguments": {}}</tool_call>'
_PATH = re.compile(r'"/app/([^"]+)"')
_TOKEN = re.compile(r"\w+|\s+|[=!<>]=|//|.")


@dataclass(frozen=True)
class BugFix:
    """A task of the pack, with its solution."""

    task_id: str
    instruction: str
    path: str
    """The module with the defect, relative to the working directory."""
    original: str
    defective: str


@dataclass(frozen=True)
class Unsuitable:
    """The reason for which a task has no demonstration."""

    reason: str


def read_tasks(split: Path) -> Iterator[BugFix]:
    """Yield the tasks in the folder of a split, by name."""
    for folder in sorted(file.parent for file in split.glob("*/task.toml")):
        found = _PATH.search((folder / "solution" / "solve.sh").read_text(encoding="utf-8"))
        if found is None:
            raise ValueError(f"{folder}/solution/solve.sh names no module")
        yield BugFix(
            folder.name,
            (folder / "instruction.md").read_text(encoding="utf-8"),
            found[1],
            (folder / "solution" / "original.py").read_text(encoding="utf-8"),
            (folder / "environment" / "repo" / found[1]).read_text(encoding="utf-8"),
        )


def messages_of(task: BugFix) -> tuple[str, str] | Unsuitable:
    """Return the assistant's two messages for a task, or why there are none."""
    before, after = task.defective.splitlines(), task.original.splitlines()
    changed = [
        number for number, pair in enumerate(zip(before, after, strict=False), 1) if len(set(pair)) > 1
    ]
    if len(before) != len(after) or len(changed) != 1:
        return Unsuitable("the defect spans several lines")
    (number,) = changed
    function = function_around(task.defective, number)
    if re.search(rf"\b{re.escape(function.name)}\b", task.instruction) is None:
        return Unsuitable("no check that is shown names the function")
    lines = next((each for each in EXCERPTS if function.lineno + each > number), None)
    if lines is None:
        return Unsuitable("the defect is far from the function's first line")
    define = f"'def {function.name}'"
    show = f"f=$(grep -rlw {define} --include='*.py' .); echo $f; grep -nwA{lines} {define} $f"
    edit = f"sed -i {quoted(substitution(number, before[number - 1], after[number - 1]))} ./{task.path}"
    return f"```bash\n{show}\n```", f"```bash\n{edit}\n```\n{SUBMIT}"


def function_around(source: str, line: int) -> ast.FunctionDef:
    """Return the innermost function that has a line."""
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or line)
    ]
    return max(found, key=lambda node: node.lineno)


def substitution(number: int, before: str, after: str) -> str:
    """Return the sed command that turns a line into another, by the fewest tokens that occur there first."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    begin = _common(old, new)
    end = _common(old[begin:][::-1], new[begin:][::-1])

    def halves() -> tuple[str, str]:
        return "".join(old[begin : len(old) - end]), "".join(new[begin : len(new) - end])

    while end and not all(map(_balanced, halves())):
        end -= 1
    while not halves()[0].strip() or before.index(halves()[0]) != len("".join(old[:begin])):
        begin, end = (begin - 1, end) if begin else (begin, end - 1)
    text, replacement = halves()
    mark = next(each for each in "/|#,@" if each not in text + replacement)
    pattern = re.sub(r"([\[\]*.^$\\])", r"\\\1", text)
    replacement = re.sub(r"([&\\])", r"\\\1", replacement)
    return f"{number}s{mark}{pattern}{mark}{replacement}{mark}"


def _common(some: list[str], others: list[str]) -> int:
    """Return the number of tokens with which both begin."""
    return next(
        (place for place, (one, other) in enumerate(zip(some, others, strict=False)) if one != other),
        min(len(some), len(others)),
    )


def _balanced(text: str) -> bool:
    return all(text.count(left) == text.count(right) for left, right in ("()", "[]", "{}"))


def quoted(text: str) -> str:
    """Return a word of a shell command."""
    return "'" + text.replace("'", "'\\''") + "'"


def play(client: SandboxClient, task_id: str, messages: tuple[str, ...]) -> tuple[float, int]:
    """Return the score of a demonstration, and the characters of its conversation without the system message.

    Raises SandboxError.
    """
    with client.episode(ENVIRONMENT, task_id) as episode:
        seen = [message for message in episode.observation.messages if message.role != "system"]
        for message in messages[:-1]:
            seen += episode.step(message).observation.messages
        episode.step(messages[-1])
        score = episode.evaluate().score
    return score, sum(len(message.content or "") for message in seen) + sum(map(len, messages))


def main() -> int:
    """Write the file; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server", help="Address of a service that serves swe_mutants.")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--max-chars", type=int, default=2400, help="Longest conversation; default: 2400.")
    options = parser.parse_args()
    pack = provisions.find(ENVIRONMENT)
    if pack is None:
        print("run `sandbox-service envs setup swe_mutants` first", file=sys.stderr)
        return 1
    made = {task.task_id: messages_of(task) for task in read_tasks(pack.data / "train")}
    counts = Counter(found.reason for found in made.values() if isinstance(found, Unsuitable))
    playable = {task: found for task, found in made.items() if isinstance(found, tuple)}
    rows: list[str] = []
    with SandboxClient(options.server) as client, ThreadPoolExecutor(PLAYED_AT_ONCE) as pool:
        running = {task: pool.submit(play, client, task, found) for task, found in playable.items()}
        for task, future in running.items():
            try:
                score, length = future.result()
            except SandboxError as error:
                counts[f"the service failed: {error}"] += 1
                continue
            if score < 1 or length > options.max_chars:
                counts["its score is below 1" if score < 1 else "the conversation is too long"] += 1
                continue
            messages = [{"role": "assistant", "content": text} for text in playable[task]]
            rows.append(json.dumps({"environment": ENVIRONMENT, "task_id": task, "messages": messages}))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    print(f"{options.output}: {len(rows)} demonstrations of {len(made)} tasks")
    for reason, count in counts.most_common():
        print(f"{count:5} without: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
