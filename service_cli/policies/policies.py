"""Policies: a policy makes an actor for each episode, and the actor produces the assistant's messages.

This module has the protocols and the policies that ignore observations: the reference solution, an empty
message, and messages from a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from sandbox_contract.messages import Message, Tool
from sandbox_service.errors import ServiceError
from sandbox_settings import first_mistake

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject
    from sandbox_service.environments.base import Catalog


_MESSAGES = TypeAdapter(tuple[Message, ...])


class PolicyRunError(ValueError):
    """The policy has no messages for a task, its file is invalid, or its model server failed.

    ``code`` says which. The episode has no score.
    """

    def __init__(self, detail: str, code: str = "no_messages") -> None:
        super().__init__(detail)
        self.code = code

    def __reduce__(self) -> tuple[type[PolicyRunError], tuple[str, str]]:
        return (type(self), (str(self), self.code))


class ContextFullError(PolicyRunError):
    """The conversation exceeds the model's context."""

    def __init__(self, detail: str, code: str = "context_length") -> None:
        super().__init__(detail, code)


@dataclass(frozen=True, slots=True)
class View:
    """The input of an actor."""

    messages: tuple[Message, ...]
    """The whole conversation, the latest observation last."""
    tools: tuple[Tool, ...]
    """The current tools."""
    info: JsonObject
    """The info of the latest observation."""


@dataclass(slots=True)
class ModelUsage:
    """Calls and tokens that an actor used."""

    calls: int = 0
    """Completions of a model server."""
    tokens_in: int = 0
    tokens_out: int = 0
    cut: int = 0
    """Answers that were truncated at the maximum length."""
    ended: str = ""
    """The reason why the actor ended the episode, if it is counted."""


class Actor(Protocol):
    """Produces the messages of one episode."""

    @property
    def usage(self) -> ModelUsage:
        """Calls and tokens so far."""
        ...

    async def act(self, view: View) -> Message | None:
        """Return the assistant's next message; None ends the episode. Raises PolicyRunError."""
        ...


class EpisodePolicy(Protocol):
    """Makes the actors of episodes."""

    def make_actor(self, task_id: str, seed: int) -> Actor:
        """Return an actor for an episode of a task. Raises PolicyRunError without messages for the task."""
        ...

    async def prepare(self) -> None:
        """Prepare before the first episode. Raises PolicyRunError if no episode could be played."""
        ...

    async def aclose(self) -> None:
        """Free resources after the last episode."""
        ...


class FixedActor:
    """Returns fixed messages in order."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages: Iterator[Message] = iter(messages)
        self.usage = ModelUsage()

    async def act(self, view: View) -> Message | None:
        return next(self._messages, None)


class StatelessPolicy:
    """Base of policies without resources."""

    async def prepare(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class ReferencePolicy(StatelessPolicy):
    """Plays the reference solutions of an environment."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def make_actor(self, task_id: str, seed: int) -> Actor:
        try:
            reference = self._catalog.reference(task_id)
        except ServiceError as error:
            # The service may have other settings than this machine, such as more task files.
            advice = "give the service's settings with --config"
            raise PolicyRunError(f"on this machine, {error.detail}; {advice}") from error
        if not reference:
            raise PolicyRunError(f"{task_id} has no reference solution")
        return FixedActor(_MESSAGES.validate_python(reference))


class EmptyPolicy(StatelessPolicy):
    """Sends one empty message: a task that it solves is broken."""

    def make_actor(self, task_id: str, seed: int) -> Actor:
        return FixedActor((Message(role="assistant", content=""),))


class ScriptPolicy(StatelessPolicy):
    """Plays the messages that a file has for each task."""

    def __init__(self, script: Mapping[str, Sequence[Message]]) -> None:
        self._script = script

    def make_actor(self, task_id: str, seed: int) -> Actor:
        try:
            return FixedActor(self._script[task_id])
        except KeyError:
            raise PolicyRunError(f"the script has no line for {task_id}") from None


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    environment: str = ""
    """Ignored: lines of demonstrations have it."""
    task_id: str
    messages: tuple[Message, ...]


def read_script(path: Path) -> ScriptPolicy:
    """Read a policy from JSONL: ``{"task_id": ..., "messages": [{"role": "assistant", ...}]}``.

    Raises PolicyRunError for a file that is not UTF-8, and for an invalid line.
    """
    script: dict[str, Sequence[Message]] = {}
    try:
        # Split at line feeds only: JSON strings may hold the other line separators of Unicode.
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise PolicyRunError(f"{path} is not UTF-8: {error}", "usage") from error
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            line = _Line.model_validate_json(text)
        except ValidationError as error:
            raise PolicyRunError(f"{path}, line {number}: {first_mistake(error)}", "usage") from error
        script[line.task_id] = line.messages
    return ScriptPolicy(script)
