"""What the tiny tokenizer's merges are learned from: conversations of the code environment, made up by seed.

The environment's fixed words stand here as a model meets them, so that each becomes one or a few tokens. If
they change there, conversations get longer, and nothing else happens.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["conversations"]

_CONVERSATIONS = 600
_PHRASES = ("compute {}", "what is {}?", "please give {}")
_OPERATORS = (("plus", "+"), ("minus", "-"), ("times", "*"))
_CLOSING = (
    "\n\nSubmit the final answer with `submit(answer=...)`, or write it to `answer.txt` and submit. "
    "Give the answer alone, without explanation."
)
_SYSTEM = ("Compute with Python, then submit.", "Solve the task with Python, then submit the answer.")
_SAID = (
    "Your message held no action, so nothing was done. Call a tool (execute_bash, python, str_replace_editor, "
    "submit), or write a ```python or ```bash block. Call submit when you are done: "
    '<tool_call>{"name": "submit", "arguments": {}}</tool_call>',
    "Error: The <tool_call> does not hold valid JSON: Expecting ',' delimiter: line 1 column 45 (char 44).",
    "Error: The python block is not closed with ```; it was not run.",
    "Traceback (most recent call last):\n  File \"<session>\", line 1\n    print(3+\n         ^\n"
    "SyntaxError: '(' was never closed",
    "SyntaxError: invalid syntax",
    "NameError: name 'x' is not defined",
    "[no output]",
    "Not run: the task was submitted before.",
    "Submitted.",
)
"""Answers of the environment to all that is not a program with a result."""
_CODE = (
    '<tool_call>{{"name": "python", "arguments": {{"code": "print({0})"}}}}</tool_call>',
    "```python\nx = {0}\nprint(x)\n```",
    "```bash\necho $(({0}))\n```",
)


def conversations(seed: int = 0) -> Iterator[str]:
    """The messages of many short conversations, each by itself; the same for the same seed."""
    dice = random.Random(seed)
    for number in range(_CONVERSATIONS):
        words, code = _question(dice, dice.choice((1, 1, 2, 3)))
        result = str(dice.randint(-99, 9999))
        yield dice.choice(_PHRASES).format(words)
        yield f"```python\nprint({code})\n```"
        yield result
        yield f'<tool_call>{{"name": "submit", "arguments": {{"answer": "{result}"}}}}</tool_call>'
        if number % 2 == 0:
            yield words + _CLOSING
            yield dice.choice(_SYSTEM)
            yield f'<tool_call>{{"name": "submit", "arguments": {{"answer": {result}}}}}</tool_call>'
        if number % 8 == 0:
            yield dice.choice(_CODE).format(code)
            yield from _SAID


def _question(dice: random.Random, operations: int) -> tuple[str, str]:
    """Words and their program, with brackets now and then."""
    words = code = str(dice.randint(2, 99))
    for _ in range(operations):
        word, sign = dice.choice(_OPERATORS)
        value = dice.randint(2, 99)
        words, code = f"{words} {word} {value}", f"{code}{sign}{value}"
        if operations > 1 and dice.random() < 0.3:
            words, code = f"({words})", f"({code})"
    return words, code
