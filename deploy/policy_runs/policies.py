"""Policies without a model: the reference solution, an empty answer, and messages read from a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from sandbox_service.contract.messages import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sandbox_service.environments.base import Catalog

__all__ = ["EmptyPolicy", "Policy", "PolicyError", "ReferencePolicy", "ScriptedPolicy", "read_script"]

_MESSAGES = TypeAdapter(tuple[Message, ...])


class PolicyError(ValueError):
    """The policy has nothing to say on a task, or its file is wrong."""


class Policy(Protocol):
    """What the assistant says on a task, turn by turn, whatever it sees."""

    def messages(self, task_id: str) -> Sequence[Message]:
        """The assistant's messages. Raises PolicyError when there are none for the task."""
        ...


class ReferencePolicy:
    """Says what the environment's own solution says."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def messages(self, task_id: str) -> Sequence[Message]:
        reference = self._catalog.reference(task_id)
        if not reference:
            raise PolicyError(f"{task_id} has no reference solution")
        return _MESSAGES.validate_python(reference)


class EmptyPolicy:
    """Says nothing: a task that it passes is a broken task."""

    def messages(self, task_id: str) -> Sequence[Message]:
        return (Message(role="assistant", content=""),)


class ScriptedPolicy:
    """Says what a file has for each task."""

    def __init__(self, script: Mapping[str, Sequence[Message]]) -> None:
        self._script = script

    def messages(self, task_id: str) -> Sequence[Message]:
        try:
            return self._script[task_id]
        except KeyError:
            raise PolicyError(f"the script has no line for {task_id}") from None


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    task_id: str
    messages: tuple[Message, ...]


def read_script(path: Path) -> ScriptedPolicy:
    """A scripted policy from JSONL: ``{"task_id": ..., "messages": [{"role": "assistant", ...}]}``."""
    script: dict[str, Sequence[Message]] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not text.strip():
            continue
        try:
            line = _Line.model_validate(json.loads(text))
        except (ValidationError, ValueError) as error:
            raise PolicyError(f"{path}, line {number}: {error}") from error
        script[line.task_id] = line.messages
    return ScriptedPolicy(script)
