"""Assistant messages that models and attackers write: broken, huge, deep, and nearly right."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from sandbox_contract.episodes import StepRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["hostile_messages"]

Json = dict[str, Any]

_VALUES = (
    *("0", "-1", "1", "10", "5000", "-0.0", "0.1", "1e308", "1e-320", "null", "true", "false", "[]", "{}"),
    *('""', '" "', '"a"', '"\\u0000"', '"\\ud800"', '"\\\\"', '"../../etc/passwd"', '"%s{0}\\n"'),
    *("9" * 4300, "-" + "9" * 4000, "[" * 60 + "]" * 60, '{"a":' * 50 + "1" + "}" * 50, "[1,2,3]"),
    *('["a",["b",{"c":null}]]', '{"a":{"b":[1]}}', "[" + "1," * 999 + "1]", '"[[a],[b],[c"'),
    *('"' + "x" * 50_000 + '"', '"' + "a " * 5000 + '"', '"' + "(" * 300 + '"', "\"__import__('os')\""),
    *('"new ArrayList<String>()"', '"new HashMap<String, Integer>(){{put(\\"a\\", 1)"'),
)
_BROKEN = ("1e999", "NaN", "-Infinity", "9" * 4301, "[" * 900 + "]" * 900, "[" * 5000, "{", '"', "")
"""Texts that are no JSON, or more than a reader takes."""
_NAMES = (
    "",
    "a b",
    "__class__",
    "self",
    "eval",
    "_load_scenario",
    "__init__",
    "no.such",
    "x" * 5000,
    "é\u0301",
)
_TEXTS = (
    *(
        "",
        " ",
        "done",
        "Action:",
        "Action: ",
        "Action: look",
        "act",
        "```",
        "```python\n",
        "```python\n1/0\n```",
    ),
    *(
        "```bash\nexit 3\n```",
        "<think>",
        "</think>x",
        "<tool_call>",
        "<tool_call>{",
        "</tool_call>",
        "\x00\x1b[2J",
    ),
    *(
        "click[buy now]",
        "search[]",
        "search[" + "a " * 900 + "]",
        "click[" * 300,
        "get 99999999999999999999 oak logs",
    ),
    *(
        "craft 1 a using " + "1 a, " * 300,
        "get 1 planks",
        "craft 1 planks using 1 planks",
        "craft  using ",
        "inventory",
    ),
    *(
        "Action" + " " * 5000,
        "<tool_call>x</tool_call>" * 300,
        "`" * 5000,
        "(" * 3000,
        "\u0301" * 3000,
        "\ufeff\u202e",
    ),
    *(
        "```python\n" + "(" * 5000 + "\n```",
        "```python\nwhile True pass",
        "```python\n" + "-" * 9000 + "1\n```",
    ),
)


def hostile_messages(seed: int, count: int, tools: Sequence[Json]) -> Iterator[Json]:
    """Messages as the gateway passes them on: what it refuses is left out, so that fewer may come."""
    chance = random.Random(seed)
    for _ in range(count):
        body = '{"instance_id": "i", "message": ' + _message(chance, tools) + "}"
        try:
            request = StepRequest.model_validate_json(body)
        except ValueError:
            continue
        passed: Json = json.loads(request.model_dump_json(exclude_unset=True))["message"]
        yield passed


def _message(chance: random.Random, tools: Sequence[Json]) -> str:
    """The JSON of a message."""
    kind = chance.choice(("text", "tagged", "native", "native", "native text", "fuzz"))
    calls = [_call(chance, tools) for _ in range(chance.choice((1, 1, 1, 2, 9, 70)))]
    if kind == "text":
        return _said("".join(chance.choice(_TEXTS) for _ in range(chance.choice((1, 1, 2, 4)))))
    if kind == "fuzz":
        return _said("".join(chr(chance.choice((32, 91, 93, 96, 123, 10, 97, 0x301))) for _ in range(2000)))
    if kind == "tagged":
        tagged = (f'<tool_call>{{"name": {name}, "arguments": {given}}}</tool_call>' for name, given in calls)
        return _said("".join(tagged))
    # An object, or the text of one.
    given_as = str if kind == "native" else json.dumps
    written = (f'{{"function": {{"name": {name}, "arguments": {given_as(given)}}}}}' for name, given in calls)
    return f'{{"role": "assistant", "content": null, "tool_calls": [{",".join(written)}]}}'


def _said(text: str) -> str:
    return json.dumps({"role": "assistant", "content": text})


def _call(chance: random.Random, tools: Sequence[Json]) -> tuple[str, str]:
    """The JSON of a name, and what is to be the JSON of arguments."""
    if not tools or chance.random() < 0.1:
        return json.dumps(chance.choice(_NAMES)), chance.choice((*_VALUES, *_BROKEN))
    function = chance.choice(tools)["function"]
    properties = (function.get("parameters") or {}).get("properties") or {}
    given = {name: _value(chance, schema) for name, schema in properties.items() if chance.random() < 0.9}
    if chance.random() < 0.1:
        given[chance.choice(_NAMES)] = chance.choice((*_VALUES, *_BROKEN))
    members = ", ".join(f"{json.dumps(name)}: {value}" for name, value in given.items())
    return json.dumps(function["name"]), f"{{{members}}}"


def _value(chance: random.Random, schema: Json) -> str:
    draw = chance.random()
    if draw < 0.3:
        return chance.choice(_VALUES if draw < 0.28 else _BROKEN)
    if schema.get("enum"):
        return json.dumps(chance.choice(schema["enum"]))
    fitting = {
        "string": ('"a"', '"document"', '"1"', json.dumps(chance.choice(_TEXTS))),
        "integer": ("0", "-3", "7", "10", "5000", "9" * 4000),
        "number": ("0", "-2.5", "1e300", "10", "5000", "9" * 4000),
        "boolean": ("true", "false"),
        "array": ("[]", "[1, 2, 3]", '["a"]', f"[{'9' * 4000}, 1]", "[[1]]"),
        "object": ("{}", '{"a": 1}'),
    }
    kind = schema.get("type", "string")
    return chance.choice(fitting.get(kind[0] if isinstance(kind, list) else kind, _VALUES))
