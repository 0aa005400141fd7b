"""Fixed phrases of the code environment, and text from which the tiny tokenizer learns merges.

Each phrase becomes one token, so that a conversation is short. If the environment's phrases change,
conversations only get longer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

_NO_ACTION = (
    "Your message held no action, so nothing was done. Call a tool (execute_bash, str_replace_editor, "
    "python, submit), or write a ```python or ```bash block. Call submit when you are done: "
    '<tool_call>{"name": "submit", "arguments": {}}</tool_call>'
)
_CLOSING = (
    "\n\nSubmit the final answer with `submit(answer=...)`, or write it to `answer.txt` and submit. "
    "Give the answer alone, without explanation."
)
PHRASES = (
    "```python\nprint(",
    "```python\n",
    "```bash\n",
    ")\n```",
    "\n```",
    '<tool_call>{"name": "',
    '<tool_call>{"name": "submit", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "submit", "arguments": {"answer": ',
    '<tool_call>{"name": "submit", "arguments": {"answer": "',
    '<tool_call>{"name": "python", "arguments": {"code": "',
    '", "arguments": {"',
    '"}}</tool_call>',
    "}}</tool_call>",
    "compute ",
    "what is ",
    "please give ",
    " plus ",
    " minus ",
    " times ",
    "Compute with Python, then submit.",
    "[no output]",
    "Submitted.",
    "Not run: the task was submitted before.",
    "Error: The <tool_call> does not hold valid JSON: ",
    "Error: The python block is not closed with ```; it was not run.",
    "Traceback (most recent call last):\n",
    '  File "<session>", line ',
    "SyntaxError: ",
    "NameError: ",
    _CLOSING,
    _NO_ACTION,
)
"""Plain ASCII; where several match, the longest is used."""
_CONVERSATIONS = 600
_OPERATORS = (("plus", "+"), ("minus", "-"), ("times", "*"))
_SYSTEM = "You solve a task by calling tools: python, execute_bash, str_replace_editor and submit."
_SAID = (
    "Expecting ',' delimiter: line 1 column 45 (char 44).",
    "<module>\n    print(3+\n         ^\nSyntaxError: '(' was never closed",
    "SyntaxError: invalid syntax",
    "NameError: name 'x' is not defined",
    "ValueError: invalid literal for int() with base 10: 'x'",
    "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    "Error: there is no tool named 'answer'.",
    "[killed: it ran longer than 10 s]",
)
"""The environment's answers to errors."""
_CODE = (
    "x = {0}\nprint(x)",
    "def solve(a, b):\n    return a + b\n\nprint(solve(1, 2))",
    "import math\nfor i in range(10):\n    print(i, math.sqrt(i))",
    "with open('answer.txt', 'w') as file:\n    file.write(str({0}))",
    "echo $(({0}))",
    "cat input.txt | sort | uniq -c | head",
)


def conversations(seed: int = 0) -> Iterator[str]:
    """Generate the messages of many short conversations; the same for the same seed."""
    dice = random.Random(seed)
    for number in range(_CONVERSATIONS):
        words, code = _question(dice, dice.choice((1, 1, 2, 3)))
        yield words
        yield f"print({code})"
        yield f'{{"answer": "{dice.randint(-99, 9999)}"}}'
        if number % 4 == 0:
            yield _SYSTEM
            yield from _SAID
            yield from (form.format(code) for form in _CODE)


def _question(dice: random.Random, operations: int) -> tuple[str, str]:
    """Return a question and its program, sometimes with brackets."""
    words = code = str(dice.randint(2, 99))
    for _ in range(operations):
        word, sign = dice.choice(_OPERATORS)
        value = dice.randint(2, 99)
        words, code = f"{words} {word} {value}", f"{code}{sign}{value}"
        if operations > 1 and dice.random() < 0.3:
            words, code = f"({words})", f"({code})"
    return words, code
