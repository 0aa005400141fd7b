"""The texts that an episode needs: messages of the agent without a call, beside its tool calls.

An environment says so in the ``info`` of an opening. ``texts`` is ``last`` where a text may be the right last
step, such as an answer or the reply that ends the task, and ``dialogue`` where a user answers texts and the
episode goes on. Without it, tool calls alone solve the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import JsonObject

__all__ = ["is_dialogue", "needs_texts"]

_LAST = "last"
_DIALOGUE = "dialogue"


def is_dialogue(info: JsonObject) -> bool:
    """Return whether an opening's ``info`` says that a user answers the agent's texts."""
    return info.get("texts") == _DIALOGUE


def needs_texts(info: JsonObject) -> bool:
    """Return whether an opening's ``info`` says that tool calls alone do not solve the task."""
    return info.get("texts") in (_LAST, _DIALOGUE)
