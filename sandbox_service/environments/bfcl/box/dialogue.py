"""The base of the kinds of episodes: options and limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.world import Outcome, Start, WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .prompts import FUNCTION_CALLS

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

_PARAMS = ("final_reward", "is_open_query", "memory", "step_rewards")


@dataclass(frozen=True, slots=True)
class Options:
    """The create parameters."""

    is_open_query: bool = False
    """End after the first turn."""
    step_rewards: bool = False
    """Reward each turn that the checker accepts."""
    final_reward: bool = False
    """Reward the step that ends the episode with the score."""
    memory: JsonObject | None = None
    """Content of the memory of a memory task, in place of the conversations that fill it."""


@dataclass(frozen=True, slots=True)
class Graded:
    """The result of an evaluation."""

    valid: bool
    error_type: str | None = None
    details: JsonObject = field(default_factory=dict)


class Dialogue(ABC):
    """One episode's state: plain data and API objects, so that a deep copy of it is another episode."""

    @abstractmethod
    def open(self) -> Start:
        """Return the opening."""

    @abstractmethod
    def take_turn(self, message: JsonObject) -> Outcome:
        """Take an assistant message."""

    @abstractmethod
    def grade(self, truth: Any) -> Graded:  # noqa: ANN401  # each kind of task has its form of ground truth
        """Grade what was said so far, and change nothing."""


def read_options(params: Mapping[str, Any]) -> Options:
    """Return the create parameters. Raises WorldError(invalid_request)."""
    unknown = sorted(set(params) - set(_PARAMS))
    if unknown:
        detail = f"bfcl has no parameter {unknown[0]!r}; there are: {', '.join(_PARAMS)}"
        raise WorldError(detail, BoxErrorCode.INVALID_REQUEST)
    for name in ("final_reward", "is_open_query", "step_rewards"):
        if not isinstance(params.get(name, False), bool):
            raise WorldError(f"{name} is true or false", BoxErrorCode.INVALID_REQUEST)
    if params.get("final_reward") and params.get("step_rewards"):
        raise WorldError("final_reward and step_rewards exclude each other", BoxErrorCode.INVALID_REQUEST)
    if not isinstance(params.get("memory", {}), dict):
        raise WorldError("memory is an object", BoxErrorCode.INVALID_REQUEST)
    return Options(**params)


def opened(instructions: str, turn: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
    """Return a system prompt, with the task's own where it has one, and the first turn."""
    system = [f"{instructions}\n\n{FUNCTION_CALLS}"]
    system += [each["content"] for each in turn if each["role"] == "system"]
    said = [dict(each) for each in turn if each["role"] != "system"]
    return [{"role": "system", "content": "\n\n".join(system)}, *said]
