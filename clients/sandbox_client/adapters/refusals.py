"""Refusals of episodes that a framework cannot play as they are meant.

Their reward would be that of an unfinished or another task, and a trainer would learn from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_client.errors import Failure, RequestError
from sandbox_contract.frames import begins_session
from sandbox_contract.problems import ErrorCode, FailureClass
from sandbox_contract.texts import is_dialogue, needs_texts

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject


def refuse_dialogue(info: JsonObject, framework: str) -> None:
    """Raise RequestError if a user would answer texts, and the framework's agents end with the first one."""
    if is_dialogue(info):
        raise _refusal(
            f"the task is a dialogue, in which a user answers the agent's texts; {framework} ends an episode "
            "with the first text"
        )


def refuse_texts(info: JsonObject, framework: str) -> None:
    """Raise RequestError if a task needs texts, and the framework sends tool calls only."""
    if needs_texts(info):
        raise _refusal(
            f"the task needs messages without a call, and {framework} gives the environment tool calls only"
        )


def refuse_session(info: JsonObject) -> None:
    """Raise RequestError if a step begins a session without history, and the framework keeps the history."""
    if begins_session(info):
        raise _refusal("the task has several sessions, and the framework shows the agent the earlier ones")


def _refusal(detail: str) -> RequestError:
    return RequestError(Failure(detail, ErrorCode.INVALID_REQUEST, FailureClass.REQUEST))
