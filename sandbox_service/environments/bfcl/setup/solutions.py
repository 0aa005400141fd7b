"""Find calls that solve a task: read from the ground truth, and checked by the official checker.

Ground truth of single-turn tasks names accepted values of each argument. The first combination that the
checker accepts is taken; a task whose ground truth its own checker accepts in no form has no solution.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Json = dict[str, Any]
ParsedCall = tuple[str, Json]
"""A function's name and its arguments."""

_MOST_TRIES = 3000
_PLACEHOLDERS: Json = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}


def parse_call(text: str, parameters: Mapping[str, list[str]]) -> ParsedCall:
    """Read a call written as Python; ``parameters`` names the arguments of each function in order."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise TypeError(f"not a call: {text}")
    given = dict(zip(parameters[call.func.id], map(ast.literal_eval, call.args), strict=False))
    named = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    return call.func.id, {**given, **named}


def any_call(tool: Json) -> ParsedCall:
    """Return a call of an offered tool with its required arguments."""
    function = tool["function"]
    properties = function["parameters"].get("properties", {})
    wanted = function["parameters"].get("required", [])
    return function["name"], {name: _PLACEHOLDERS.get(properties[name]["type"], "x") for name in wanted}


def solve_single(
    functions: list[Json], truth: list[Json], language: str, accepts: Callable[[Json, ParsedCall, Json], bool]
) -> list[ParsedCall] | None:
    """Return one call for each entry of the ground truth; None when a call cannot be found."""
    calls = []
    for entry in truth:
        ((name, accepted),) = entry.items()
        document = next((each for each in functions if each["name"] == name), functions[0])
        tried = itertools.islice(_arguments(document, accepted, language), _MOST_TRIES)
        found = next(((name, each) for each in tried if accepts(document, (name, each), entry)), None)
        if found is None:
            return None
        calls.append(found)
    return calls


def _arguments(document: Json, accepted: Json, language: str) -> Iterable[Json]:
    properties = document["parameters"]["properties"]
    choices: list[list[tuple[str, Any]]] = []
    for name, values in accepted.items():
        kind = properties.get(name, {"type": "any"})
        given = [each for each in values if each != ""]
        forms = [form for value in given for form in _forms(value, kind, language)]
        options = [(name, form) for form in forms]
        # An empty string among the accepted values means that the argument may be left out.
        choices.append([*options, ("", None)] if "" in values else [*options, (name, "")])
    for chosen in itertools.product(*choices):
        yield {name: value for name, value in chosen if name}


def _forms(value: Any, kind: Json, language: str) -> list[Any]:  # noqa: ANN401  # any JSON value
    if language == "java":
        return _java(value, kind["type"], kind.get("items", {}).get("type"))
    if language == "javascript":
        return _javascript(value, kind["type"])
    return _python(value)


def _python(value: Any) -> list[Any]:  # noqa: ANN401
    plain = _settled(value)
    forms = [plain, value]
    if isinstance(plain, list):
        forms.append([float(each) if type(each) is int else each for each in plain])
    if type(plain) is int:
        forms.append(float(plain))
    return [*forms, str(plain)]


def _settled(value: Any) -> Any:  # noqa: ANN401
    """Return the value with the first choice wherever a dictionary lists choices."""
    if isinstance(value, list):
        return [_settled(each) for each in value]
    if not isinstance(value, dict):
        return value
    chosen = {
        key: next((each for each in choices if each != ""), None) if isinstance(choices, list) else choices
        for key, choices in value.items()
    }
    return {key: _settled(each) for key, each in chosen.items() if each is not None}


def _java(value: Any, kind: str, items: str | None) -> list[Any]:  # noqa: ANN401
    plain = _settled(value)
    if isinstance(plain, list):
        quoted = ", ".join(_java_literal(each, items) for each in plain)
        bare = ", ".join(str(each) for each in plain)
        return [
            *(f"new ArrayList<>(Arrays.asList({each}))" for each in (quoted, bare) if plain),
            "new ArrayList<>()",
            *(f"new {items or 'Object'}[]{{{each}}}" for each in (bare, quoted)),
        ]
    if isinstance(plain, dict):
        puts = " ".join(f'put("{key}", {_java_literal(each, None)});' for key, each in plain.items())
        return [f"new HashMap<>() {{{{ {puts} }}}}", "new HashMap<>()"]
    return [_java_literal(plain, kind), str(plain)]


def _java_literal(value: Any, kind: str | None) -> str:  # noqa: ANN401
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"' if kind in ("String", None) else value
    return f"{value}{({'long': 'L', 'float': 'f'}).get(kind or '', '')}"


def _javascript(value: Any, kind: str) -> list[Any]:  # noqa: ANN401
    plain = _settled(value)
    if isinstance(plain, str):
        return [plain, f'"{plain}"']
    text = json.dumps(plain)
    unquoted = (
        ", ".join(f"{key}: {json.dumps(each)}" for key, each in plain.items())
        if isinstance(plain, dict)
        else ""
    )
    return [f"{text}n" if kind == "Bigint" else text, f"{{{unquoted}}}", text.replace('"', "'"), str(plain)]
