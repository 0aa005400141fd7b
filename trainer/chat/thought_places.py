"""Find the place in which a chat template is given an assistant's thought.

A placeholder is rendered in each place. What the template makes of it decides, not what its source says:
some templates mention the closing mark and still print a thought in the content behind an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from sandbox_contract.messages import FunctionCall, Message, ToolCall

if TYPE_CHECKING:
    from .thoughts import ThoughtMarks


_ASKED, _THOUGHT, _SAID = "WHAT-WAS-ASKED", "WHAT-WAS-THOUGHT", "WHAT-WAS-SAID"
_CALL = ToolCall(id="000000000", function=FunctionCall(name="made_up_tool", arguments='{"said": "."}'))


class ThoughtPlace(StrEnum):
    """The place of a thought in a message that a template is given."""

    FIELDS = "fields"
    """Fields of its own; the template writes the marks."""
    CONTENT = "content"
    """The content, in the family's marks."""
    NOWHERE = "nowhere"
    """None: the template drops thoughts, or prints them where the model would not write them."""


def thought_place(render: Callable[[list[Message], ThoughtPlace], str], marks: ThoughtMarks) -> ThoughtPlace:
    """Return the place; ``render`` renders messages with the thought in a place, to nothing if refused."""
    if any(text.count(_THOUGHT) == 1 for text in _rendered(render, ThoughtPlace.FIELDS)):
        return ThoughtPlace.FIELDS
    for text in _rendered(render, ThoughtPlace.CONTENT):
        before, thought, _ = text.partition(_THOUGHT)
        if thought:
            before = before.rpartition(_ASKED)[2]
            right = before.rstrip().endswith(marks.begin) and before.count(marks.begin) == 1
            return ThoughtPlace.CONTENT if right and marks.end not in before else ThoughtPlace.NOWHERE
    return ThoughtPlace.NOWHERE


def _rendered(render: Callable[[list[Message], ThoughtPlace], str], place: ThoughtPlace) -> Iterator[str]:
    asked = Message(role="user", content=_ASKED)
    for content, calls in ((_SAID, None), (_SAID, (_CALL,)), (None, (_CALL,))):
        turn = Message(role="assistant", content=content, reasoning_content=_THOUGHT, tool_calls=calls)
        yield render([asked, turn], place)
