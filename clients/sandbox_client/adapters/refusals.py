"""Refusals of episodes that a framework cannot play as they are meant.

Their reward would be that of an unfinished or another task, and a trainer would learn from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_client.errors import Failure, SandboxError
from sandbox_contract.frames import begins_session
from sandbox_contract.problems import ErrorCode, FailureClass
from sandbox_contract.texts import is_dialogue, needs_texts

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject


class UnplayableError(SandboxError):
    """The framework cannot play the episode, which has no reward; nothing of that is the agent's failure.

    It is no RequestError: that of a step may be the agent's own, after which an episode goes on.
    """


def refuse_dialogue(info: JsonObject, framework: str) -> None:
    """Raise UnplayableError if a user would answer texts, and the framework ends with the first one."""
    if is_dialogue(info):
        raise _unplayable(
            f"the task is a dialogue, in which a user answers the agent's texts; {framework} ends an episode "
            "with the first text"
        )


def refuse_texts(info: JsonObject, framework: str) -> None:
    """Raise UnplayableError if a task needs texts, and the framework sends tool calls only."""
    if needs_texts(info):
        raise _unplayable(
            f"the task needs messages without a call, and {framework} gives the environment tool calls only"
        )


def refuse_session(info: JsonObject) -> None:
    """Raise UnplayableError if a step begins a session, for a framework that keeps the history."""
    if begins_session(info):
        raise _unplayable("the task has several sessions, and the framework shows the agent the earlier ones")


def _unplayable(detail: str) -> UnplayableError:
    return UnplayableError(Failure(detail, ErrorCode.INVALID_REQUEST, FailureClass.REQUEST))
