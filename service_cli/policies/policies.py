"""What acts in an episode: a policy gives one actor an episode, and the actor says message after message.

Here are the protocol and the policies that look at nothing: the reference solution, an empty answer, and
messages read from a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from sandbox_contract.messages import Message, Tool

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject
    from sandbox_service.environments.base import Catalog


_MESSAGES = TypeAdapter(tuple[Message, ...])


class PolicyError(ValueError):
    """The policy has nothing to say on a task, its file is wrong, or its model server failed.

    It is never a score: ``code`` says what happened.
    """

    def __init__(self, detail: str, code: str = "no_messages") -> None:
        super().__init__(detail)
        self.code = code

    def __reduce__(self) -> tuple[type[PolicyError], tuple[str, str]]:
        return (type(self), (str(self), self.code))


class ContextFullError(PolicyError):
    """The conversation is longer than the model takes."""

    def __init__(self, detail: str, code: str = "context_length") -> None:
        super().__init__(detail, code)


@dataclass(frozen=True, slots=True)
class View:
    """What an actor sees before it acts."""

    messages: tuple[Message, ...]
    """The whole conversation, the newest observation last."""
    tools: tuple[Tool, ...]
    """The tools that there are now."""
    info: JsonObject
    """What the environment added to the newest observation."""


@dataclass(slots=True)
class Usage:
    """What an actor used up."""

    calls: int = 0
    """Answers of a model server."""
    tokens_in: int = 0
    tokens_out: int = 0
    cut: int = 0
    """Answers that ended at the limit of their length."""
    ended: str = ""
    """Why the actor ended the episode, where that is worth counting."""


class Actor(Protocol):
    """Acts in one episode."""

    @property
    def usage(self) -> Usage:
        """What it has used up so far."""
        ...

    async def act(self, view: View) -> Message | None:
        """The assistant's next message; None ends the episode. Raises PolicyError."""
        ...


class Policy(Protocol):
    """Gives every episode its actor."""

    def actor(self, task_id: str, seed: int) -> Actor:
        """An actor for an episode of a task. Raises PolicyError when it has nothing to say on it."""
        ...

    async def prepare(self) -> None:
        """Called once before the first episode. Raises PolicyError when nothing could be played."""
        ...

    async def aclose(self) -> None:
        """Called once after the last."""
        ...


class FixedActor:
    """Says its messages one after another, whatever it sees."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages: Iterator[Message] = iter(messages)
        self.usage = Usage()

    async def act(self, view: View) -> Message | None:
        return next(self._messages, None)


class Prepared:
    """A policy that needs neither preparation nor an end."""

    async def prepare(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class ReferencePolicy(Prepared):
    """Says what the environment's own solution says."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def actor(self, task_id: str, seed: int) -> Actor:
        reference = self._catalog.reference(task_id)
        if not reference:
            raise PolicyError(f"{task_id} has no reference solution")
        return FixedActor(_MESSAGES.validate_python(reference))


class EmptyPolicy(Prepared):
    """Says nothing: a task that it passes is a broken task."""

    def actor(self, task_id: str, seed: int) -> Actor:
        return FixedActor((Message(role="assistant", content=""),))


class ScriptedPolicy(Prepared):
    """Says what a file has for each task."""

    def __init__(self, script: Mapping[str, Sequence[Message]]) -> None:
        self._script = script

    def actor(self, task_id: str, seed: int) -> Actor:
        try:
            return FixedActor(self._script[task_id])
        except KeyError:
            raise PolicyError(f"the script has no line for {task_id}") from None


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    environment: str = ""
    """Ignored: a line of demonstrations may name it."""
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
            raise PolicyError(f"{path}, line {number}: {error}", "usage") from error
        script[line.task_id] = line.messages
    return ScriptedPolicy(script)
