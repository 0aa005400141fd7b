"""Write the demo's corrupted demonstrations: those of arithmetic_easy.jsonl, two thirds with a mistake.

    python -m scripts.corrupt_demonstrations            # write arithmetic_easy_corrupted.jsonl beside it
    python -m scripts.corrupt_demonstrations --check    # only say whether the files are up to date

It also writes arithmetic_easy_careless.jsonl, for the run with a constraint: the same, half of them with a
program before that raises a SyntaxError. That costs no reward, only a failed action.

A tiny model that is fine-tuned on them knows the form of an action and fails most tasks, which leaves
something for reinforcement learning to improve. The mistakes:

    wrong operator   the program calculates with another operator, and its result is submitted
    wrong digit      the program calculates with another number, and its result is submitted
    no output        the program keeps its result to itself, and nothing is submitted
    wrong answer     the program is right, and another answer is submitted
"""

from __future__ import annotations

import json
import operator
import random
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "deploy" / "runs" / "data"
SOURCE = FOLDER / "arithmetic_easy.jsonl"
TARGET = FOLDER / "arithmetic_easy_corrupted.jsonl"
CARELESS = FOLDER / "arithmetic_easy_careless.jsonl"
SHARE = 0.65
CARELESS_SHARE = 0.5
SEED = 0

_SUM = re.compile(r"```python\nprint\((\d+)([-+*])(\d+)\)\n```")
_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_SWAPPED = str.maketrans("+-*", "-*+")
_LEAST_ANSWER, _MOST_ANSWER = -99, 9999


@dataclass(frozen=True)
class Solution:
    """A program and the answer that is submitted after it, or None for none."""

    code: str
    answer: int | None

    def messages(self) -> list[dict[str, str]]:
        """Return the assistant's two messages."""
        arguments = {} if self.answer is None else {"answer": self.answer}
        call = json.dumps({"name": "submit", "arguments": arguments})
        texts = (f"```python\n{self.code}\n```", f"<tool_call>{call}</tool_call>")
        return [{"role": "assistant", "content": text} for text in texts]


def corrupted(text: str) -> str:
    """Return the lines of a file of demonstrations, about ``SHARE`` of them with a mistake."""
    return "".join(_perhaps(number, line) + "\n" for number, line in enumerate(_lines(text)))


def careless(text: str) -> str:
    """Return the lines of a file of demonstrations, about ``CARELESS_SHARE`` of them failing first."""
    return "".join(_stumbling(number, line) + "\n" for number, line in enumerate(_lines(text)))


def _lines(text: str) -> list[str]:
    """Split at line feeds only: JSON strings may hold the other line separators of Unicode."""
    return text.removesuffix("\n").split("\n")


def _stumbling(number: int, line: str) -> str:
    row = json.loads(line)
    if random.Random(f"{SEED} careless {number} {row['task_id']}").random() >= CARELESS_SHARE:
        return line
    first = row["messages"][0]
    broken = re.sub(r"([-+*])\d+", r"\1", first["content"], count=1)  # print(46+)
    row["messages"].insert(0, {**first, "content": broken})
    return json.dumps(row, ensure_ascii=False)


def _perhaps(number: int, line: str) -> str:
    row = json.loads(line)
    # A line's mistake depends on nothing but its place and task, so that other lines may come and go.
    dice = random.Random(f"{SEED} {number} {row['task_id']}")
    if dice.random() >= SHARE:
        return line
    row["messages"] = _mistaken(row["messages"][0]["content"], dice).messages()
    return json.dumps(row, ensure_ascii=False)


def _mistaken(program: str, dice: random.Random) -> Solution:
    found = _SUM.fullmatch(program)
    if found is None:
        raise ValueError(f"{program!r} does not print the sum, difference or product of two numbers")
    expression = "".join(found.groups())
    # All are made before one is chosen: the numbers that are drawn belong to the file's content.
    solutions = (
        _calculated(expression.translate(_SWAPPED)),
        _calculated(_with_another_digit(expression, dice)),
        Solution(f"x={expression}", None),
        Solution(f"print({expression})", _other_than(_value(expression), dice)),
    )
    return solutions[int(dice.random() * len(solutions))]


def _calculated(expression: str) -> Solution:
    return Solution(f"print({expression})", _value(expression))


def _with_another_digit(expression: str, dice: random.Random) -> str:
    places = [place for place, letter in enumerate(expression) if letter.isdigit()]
    place = places[int(dice.random() * len(places))]
    digits = [digit for digit in "123456789" if digit != expression[place]]
    digit = digits[int(dice.random() * len(digits))]
    return expression[:place] + digit + expression[place + 1 :]


def _other_than(right: int, dice: random.Random) -> int:
    wrong = _LEAST_ANSWER + int(dice.random() * (_MOST_ANSWER - _LEAST_ANSWER))
    return wrong + (wrong == right)


def _value(expression: str) -> int:
    left, sign, right = re.split(r"([-+*])", expression)
    return _OPERATORS[sign](int(left), int(right))


def main(options: list[str], folder: Path = FOLDER) -> int:
    """Write the files, or with ``--check`` compare them; returns the exit status."""
    mistaken = corrupted(SOURCE.read_text(encoding="utf-8"))
    for name, text in ((TARGET.name, mistaken), (CARELESS.name, careless(mistaken))):
        file = folder / name
        if "--check" not in options:
            file.write_text(text, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != text:
            print(f"{file} is out of date: run python -m scripts.corrupt_demonstrations", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
