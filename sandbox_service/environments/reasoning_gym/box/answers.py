"""Find the answer in an assistant message: a call of ``submit``, or the last ``<answer>`` of its text.

Nothing here raises on what a model wrote, and reading takes time in proportion to its length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

SUBMIT = "submit"
SUBMIT_TOOL: JsonObject = {
    "type": "function",
    "function": {
        "name": SUBMIT,
        "description": "Submit the final answer to the question.",
        "parameters": {
            "type": "object",
            "properties": {
                "answer": {"type": "string", "description": "The answer alone, as the question asks for it."}
            },
            "required": ["answer"],
            "additionalProperties": False,
        },
    },
}
MOST_CHARACTERS = 20_000
"""Longest answer."""
_BEGIN, _END = "<answer>", "</answer>"


def tagged_answer(text: str) -> str | None:
    """Return the text of the last complete ``<answer>`` element, space around it aside; None without one."""
    end = text.rfind(_END)
    begin = text.rfind(_BEGIN, 0, end) if end >= 0 else -1
    return text[begin + len(_BEGIN) : end].strip() if begin >= 0 else None


def problem_of_call(name: str, arguments: JsonObject) -> str | None:
    """Return why a call submits no answer, for the model; None when it does."""
    if name != SUBMIT:
        return f'There is no tool {name[:64]!r}; call {SUBMIT} with {{"answer": "..."}}.'
    if not isinstance(arguments.get("answer"), str):
        return f'{SUBMIT} needs a text: {{"answer": "..."}}.'
    unknown = sorted(set(arguments) - {"answer"})
    return f"{SUBMIT} has no argument {unknown[0][:64]!r}." if unknown else None
