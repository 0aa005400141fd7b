"""The state of an episode as AgentGym reports it, read from results of native operations. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.base import JsonObject
    from sandbox_contract.inspection import Event


_CLICK = re.compile(r"click\[(.*)\]", re.DOTALL | re.IGNORECASE)
_INSTRUCTION = re.compile(r"Instruction:\s*(?:\[SEP\])?\s*(.+?)\s*(?:\[SEP\]|\n|$)")


@dataclass(frozen=True, slots=True)
class EpisodeState:
    """An episode after its latest action, or at its start."""

    task_id: str
    opening: str
    """The text of the first observation."""
    start: JsonObject
    """The info of the first observation."""
    text: str
    """The text of the latest observation."""
    info: JsonObject
    """The info of the latest observation."""
    reward: float = 0.0
    total: float = 0.0
    """Sum of all rewards."""
    done: bool = False
    moves: int = 0

    @property
    def score(self) -> float:
        """The environment's score, or else the sum of the rewards so far."""
        score = self.info.get("score")
        return float(score) if isinstance(score, (int, float)) else self.total

    @property
    def actions(self) -> list[str]:
        """Actions that the environment offers now."""
        return strings(self.info.get("available_actions"))

    @property
    def clickables(self) -> list[str]:
        """Labels that can be clicked on the page."""
        matches = (_CLICK.fullmatch(action.strip()) for action in self.actions)
        return [match[1] for match in matches if match]

    @property
    def searchable(self) -> bool:
        """Whether the page has a search bar."""
        reported = self.info.get("has_search_bar")
        if isinstance(reported, bool):
            return reported
        return any(action.strip().lower().startswith("search[") for action in self.actions)

    @property
    def instruction(self) -> str:
        """The shopping instruction."""
        reported = self.text_of("instruction") or self.text_of("instruction_text")
        match = _INSTRUCTION.search(self.opening)
        return reported or (match[1] if match else self.opening)

    @property
    def description(self) -> str:
        """The task description."""
        return self.text_of("task_description") or self.opening

    @property
    def after_description(self) -> str:
        """The latest text, without the task description if the environment reports that separately."""
        description = self.text_of("task_description")
        if self.moves or not description:
            return self.text if self.moves else ""
        return self.text.replace(description, "", 1).strip()

    @property
    def variation(self) -> int:
        """Number of the task within its kind, from the info or the end of its id; -1 if there is none."""
        reported = self.start.get("variation")
        number = self.task_id.rpartition("-")[2]
        if isinstance(reported, int):
            return reported
        return int(number) if number.isascii() and number.isdigit() else -1

    def text_of(self, name: str) -> str:
        """Return a text of the latest info, or of the first; empty if neither has it."""
        for info in (self.info, self.start):
            value = info.get(name)
            if isinstance(value, str):
                return value
        return ""


def strings(value: JsonValue) -> list[str]:
    """Return the strings of a list, none of any other value."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def state_after_create(result: Mapping[str, JsonValue]) -> EpisodeState:
    """Return the state after a create with this result."""
    text, info = _observed(result), _object(result.get("info"))
    return EpisodeState(str(result.get("task_id", "")), text, info, text, info)


def state_after_step(result: Mapping[str, JsonValue], before: EpisodeState | None = None) -> EpisodeState:
    """Return the state after a step with this result; without ``before``, the first observation is empty."""
    first = before or EpisodeState("", "", {}, "", {})
    reward = result.get("reward")
    reward = float(reward) if isinstance(reward, (int, float)) else 0.0
    return EpisodeState(
        task_id=first.task_id,
        opening=first.opening,
        start=first.start,
        text=_observed(result),
        info=_object(result.get("info")),
        reward=reward,
        total=first.total + reward,
        done=bool(result.get("terminated") or result.get("truncated")),
        moves=first.moves + 1,
    )


def state_from_events(events: Sequence[Event]) -> EpisodeState | None:
    """Return the state from an instance's history, None before its create; failed operations are ignored."""
    state: EpisodeState | None = None
    for event in events:
        result = event.result
        if result is None or "observation" not in result:
            continue
        if event.operation == "create":
            state = state_after_create(result)
        elif event.operation == "step" and state is not None:
            state = state_after_step(result, state)
    return state


def _observed(result: Mapping[str, JsonValue]) -> str:
    """Return the texts of the observation without the system prompt, since these clients have their own."""
    messages = _object(result.get("observation")).get("messages")
    found = [_object(each) for each in messages] if isinstance(messages, list) else []
    texts = [each.get("content") for each in found if each.get("role") != "system"]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
