"""Where an episode stands, as AgentGym's answers tell it: read from results of our verbs. Pure functions."""

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
class Scene:
    """An episode after its newest action, or at its beginning."""

    task_id: str
    opening: str
    """What the environment said first."""
    start: JsonObject
    """The info that came with it."""
    text: str
    """What the environment said last."""
    info: JsonObject
    """The info that came with that."""
    reward: float = 0.0
    total: float = 0.0
    """Sum of all rewards."""
    done: bool = False
    moves: int = 0

    @property
    def score(self) -> float:
        """How the episode stands: the environment's own figure, else the rewards so far."""
        score = self.info.get("score")
        return float(score) if isinstance(score, (int, float)) else self.total

    @property
    def actions(self) -> list[str]:
        """Actions that are offered now."""
        return strings(self.info.get("available_actions"))

    @property
    def clickables(self) -> list[str]:
        """What can be clicked on a page."""
        matches = (_CLICK.fullmatch(action.strip()) for action in self.actions)
        return [match[1] for match in matches if match]

    @property
    def searchable(self) -> bool:
        """Whether the page has a search bar."""
        told = self.info.get("has_search_bar")
        if isinstance(told, bool):
            return told
        return any(action.strip().lower().startswith("search[") for action in self.actions)

    @property
    def instruction(self) -> str:
        """What is to be bought."""
        told = self.told("instruction") or self.told("instruction_text")
        match = _INSTRUCTION.search(self.opening)
        return told or (match[1] if match else self.opening)

    @property
    def description(self) -> str:
        """What is to be done."""
        return self.told("task_description") or self.opening

    @property
    def after_description(self) -> str:
        """The newest text, without the task where that is told apart from it."""
        description = self.told("task_description")
        if self.moves or not description:
            return self.text if self.moves else ""
        return self.text.replace(description, "", 1).strip()

    @property
    def variation(self) -> int:
        """Number of the task within its kind: told, or at the end of its id; -1 when it has none."""
        told = self.start.get("variation")
        number = self.task_id.rpartition("-")[2]
        if isinstance(told, int):
            return told
        return int(number) if number.isascii() and number.isdigit() else -1

    def told(self, name: str) -> str:
        """A text of the newest info, or of the first; empty when neither has it."""
        for info in (self.info, self.start):
            value = info.get(name)
            if isinstance(value, str):
                return value
        return ""


def strings(value: JsonValue) -> list[str]:
    """The texts of a list."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def opened(result: Mapping[str, JsonValue]) -> Scene:
    """From the result of create."""
    text, info = _observed(result), _object(result.get("info"))
    return Scene(str(result.get("task_id", "")), text, info, text, info)


def stepped(result: Mapping[str, JsonValue], before: Scene | None = None) -> Scene:
    """From the result of a step; without what was before, the opening is not known."""
    first = before or Scene("", "", {}, "", {})
    reward = result.get("reward")
    reward = float(reward) if isinstance(reward, (int, float)) else 0.0
    return Scene(
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


def recorded(events: Sequence[Event]) -> Scene | None:
    """From an instance's history; operations that failed changed nothing. None when it never began."""
    scene: Scene | None = None
    for event in events:
        result = event.result
        if result is None or "observation" not in result:
            continue
        if event.operation == "create":
            scene = opened(result)
        elif event.operation == "step" and scene is not None:
            scene = stepped(result, scene)
    return scene


def _observed(result: Mapping[str, JsonValue]) -> str:
    """Texts of the observation but for the system prompt, which these clients have of their own."""
    messages = _object(result.get("observation")).get("messages")
    found = [_object(each) for each in messages] if isinstance(messages, list) else []
    texts = [each.get("content") for each in found if each.get("role") != "system"]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
